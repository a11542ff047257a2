//! Any bytes as chrony.conf.

use config_text::OneFile;
use daemon::config::{Document, Problems};
use peer_chrony::{ChronyConf, parse_bytes};
use timesync_agent::config::Config;

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    // The parser reports a file that includes itself.
    let (places, problems) = match parse_bytes(data) {
        Ok(ChronyConf { draft, .. }) => {
            // The same configuration can be written as TOML, and means the same there.
            let toml = draft.written("").expect("it has a form").to_string();
            let document = Document::inline("imported", toml.as_str());
            let again = Config::from_document(&document, &mut OneFile(b""));
            let again = again.unwrap_or_else(|problems| panic!("{problems}\n{toml}"));
            assert_eq!(again.file, draft.config, "{toml}");
            (draft.notes, Problems::default())
        }
        Err(refused) => {
            assert!(!refused.problems.0.is_empty(), "a refusal says why");
            (refused.notes, refused.problems)
        }
    };
    let places = places.into_iter().map(|note| note.position);
    let problems = problems.into_iter().map(|problem| problem.position);
    for position in places.chain(problems) {
        let at = position.expect("what is said has a place");
        assert!((1..=n_lines).contains(&at.line) && at.column >= 1, "{at}");
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\nserver 192.0.2.1 iburst",
    "\npool example.org maxsources 3",
    "\npeer 2001:db8::1 key 7",
    "\nrefclock PHC /dev/ptp0:nocrossts poll 0",
    "\nrefclock SHM 0 refid GPS",
    "\nrefclock PPS /dev/pps0 lock GPS",
    "\nallow all 192.168",
    "\ndeny 2001:db8::/32",
    "\nlocal stratum 3 orphan distance 0.1",
    "\nmakestep 1.0 3",
    "\nmaxchange 1000 1 2",
    "\ndriftfile /d interval 60",
    "\nhwtimestamp * rxfilter ptp",
    "\nratelimit interval 1 burst 16 kod 2",
    "\nlog tracking measurements",
    "\ntempcomp /t 30 26000 0.0 0.000183 0.0",
    "\nsmoothtime 400 0.001024 leaponly",
    "\nfallbackdrift 16 19",
    "\nbindcmdaddress /",
    "\ninitstepslew 30 a",
    "\ninclude chrony.conf",
    "\n! # ; %",
    " minpoll -7 maxpoll 24",
    " offset -1e-9",
    " 1e300",
    " -0",
    " xleave",
];
