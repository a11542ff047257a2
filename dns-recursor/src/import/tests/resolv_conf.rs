//! Imported resolv.conf files.

use std::io;
use std::path::{Path, PathBuf};

use ::config::Refused;
use config_text::Files;
use daemon::config::Document;
use dns_resolve::forward::Policy;

use crate::config::Config;
use crate::import::{checked, resolv_conf};

struct Memory(&'static str);

impl Files for Memory {
    fn read(&mut self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.into())
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[expect(
    clippy::unwrap_in_result,
    reason = "TOML that is not understood is a failed test, not an error of the file"
)]
fn read(text: &'static str) -> Result<(Config, Vec<String>), Refused> {
    let draft = resolv_conf(Path::new("resolv.conf"), &mut Memory(text))?;
    let draft = checked(draft, &[])?;
    let toml = draft.written("").unwrap().to_string();
    let config = Config::from_document(&Document::inline("import", toml)).unwrap();
    let notes = draft.notes.iter().map(ToString::to_string);
    Ok((config, notes.collect()))
}

#[test]
fn all_names_go_to_its_servers_in_their_order() {
    let (config, notes) = read(
        "# by a manager\n; too\nsearch a.example b.example\nnameserver 127.0.0.53\nnameserver 192.0.2.1\n\
         nameserver 192.0.2.1\nnameserver 2001:db8::1 # two\noptions edns0 rotate\n",
    )
    .unwrap();
    let [forward] = config.forwards.as_slice() else {
        panic!("{:?}", config.forwards);
    };
    assert!(forward.zone.is_root());
    assert_eq!(forward.policy, Policy::RoundRobin);
    let upstreams: Vec<_> = forward.upstreams.iter().map(ToString::to_string).collect();
    assert_eq!(upstreams, ["192.0.2.1:53", "[2001:db8::1]:53"]);
    assert_eq!(config.listen(), ::config::dns_recursor::LISTEN);
    for (note, words) in notes.iter().zip([
        "resolv.conf:3:1: `search a.example b.example`",
        "resolv.conf:4:1: `nameserver 127.0.0.53` is this node itself",
        "resolv.conf:8:1: `options edns0`",
    ]) {
        assert!(note.contains(words), "{note}");
    }
    assert_eq!(notes.len(), 3, "{notes:?}");
    let (config, notes) = read(
        "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4",
    )
    .unwrap();
    assert_eq!(config.forwards[0].policy, Policy::Sequential);
    assert_eq!((config.forwards[0].upstreams.len(), notes.len()), (4, 1));
}

#[test]
fn what_is_wrong_is_told_and_so_is_the_rest() {
    for (text, words, n_notes) in [
        ("", "no name server is left", 0),
        ("search x\nnameserver ::1\n", "no name server is left", 2),
        ("nameserver here\n", "`here` is no address", 0),
        ("nameserver\n", "names no address", 0),
        (
            "nameservers 192.0.2.1\nsortlist 10.0.0.0\n",
            "`nameservers` is no keyword",
            1,
        ),
    ] {
        let refused = read(text).unwrap_err();
        let told: Vec<_> = refused.problems.0.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert!(told[0].contains(words), "{text}: {told:?}");
        assert_eq!(refused.notes.len(), n_notes, "{text}: {:?}", refused.notes);
    }
}
