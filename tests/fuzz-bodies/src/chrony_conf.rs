//! Any bytes as chrony.conf.

use config_text::OneFile;
use daemon::config::Document;
use peer_chrony::parse_bytes;
use timesync_agent::config;

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    // The parser reports a file that includes itself.
    let problems = match parse_bytes(data) {
        Ok(conf) => {
            // The same settings can be written as TOML, and mean the same there.
            let toml = config::toml(&conf.settings);
            let document = Document::inline("imported", toml.as_str());
            let again = config::v1::parse(&document, &mut OneFile(b""));
            let again = again.unwrap_or_else(|problems| panic!("{problems}\n{toml}"));
            assert_eq!(again.settings, conf.settings, "{toml}");
            conf.warnings
        }
        Err(rejected) => {
            assert!(!rejected.problems.is_empty(), "a refusal says why");
            rejected.problems
        }
    };
    for problem in problems {
        let at = problem.position.expect("what is said has a place");
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
