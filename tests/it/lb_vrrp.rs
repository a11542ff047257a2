//! Virtual routers beside Debian's keepalived, on machines of their own.
//!
//! Every case runs for each version, unicast and multicast, IPv4 and IPv6, all at the same time. Times
//! are held against what the protocol promises, plus what a busy machine may add; what was measured is
//! printed.

mod alone;
mod edit;
mod elect;
mod import;
mod link;
mod moves;
mod node;
mod refused;

use std::time::Duration;

use self::link::{Kind, Link};

/// Runs a case for every kind at once.
fn for_each_kind(case: impl Fn(&Link) + Sync) {
    for_kinds(&Kind::ALL, case);
}

/// Runs a case for these kinds at once.
fn for_kinds(kinds: &[Kind], case: impl Fn(&Link) + Sync) {
    let case = &case;
    std::thread::scope(|scope| {
        let running: Vec<_> = kinds
            .iter()
            .map(|kind| (kind.name(), scope.spawn(move || case(&Link::new(*kind)))))
            .collect();
        let ended = running.into_iter().map(|(name, case)| (name, case.join()));
        let failed: Vec<String> = ended
            .filter_map(|(name, result)| result.is_err().then_some(name))
            .collect();
        assert!(failed.is_empty(), "failed: {failed:?}");
    });
}

/// Prints what was measured.
fn measured(link: &Link, what: &str, figure: Duration) {
    let name = link.kind.name();
    println!("measured: {name:18} {what:44} {:6} ms", figure.as_millis());
}
