//! Any bytes as the messages of a transfer: what comes of them can be written as a master file.

use std::path::Path;

use dns_wire::hash::Seed;
use dns_wire::{Name, header};
use dns_zone::incoming::{Incoming, Progress};
use dns_zone::parse::{Options, parse};
use dns_zone::{Record, Zone};

pub(super) fn body(data: &[u8]) {
    let zone = Name::parse("a.test.").expect("a name");
    let id = header::id(data).unwrap_or(0);
    for base in [None, Some((7, Vec::new()))] {
        let mut incoming = Incoming::new(&zone, id, base);
        // The message twice: as the first, and as one that follows.
        let first = incoming.take(data);
        let second = first.as_ref().map(|_| incoming.take(data));
        if first.is_err() {
            continue;
        }
        let is_complete = first == Ok(Progress::Complete) || second == Ok(Ok(Progress::Complete));
        let text = incoming.master_file();
        let mut load = |_: &Path| Ok(text.clone().into_bytes());
        let Ok(file) = parse(Path::new("z"), &zone, &mut load, &Options::default()) else {
            continue;
        };
        assert!(
            file.records.len() <= incoming.n_records(),
            "no record comes of nothing"
        );
        let is_within = |record: &Record| record.owner.is_within(&zone);
        assert!(
            file.records.iter().all(is_within),
            "the zone has its own names alone"
        );
        if is_complete && let Ok(built) = Zone::build(&zone, &file.records, Seed(7)) {
            let serial = incoming.times().map(|times| times.serial);
            assert_eq!(Some(built.soa().serial), serial, "the version that came");
        }
    }
}
