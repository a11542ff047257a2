//! dns-recursor behind a slow link that loses datagrams.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tests::dns::ask_a;
use tests::scratch::{at, loopback};
use tests::upstream::{Action, Asked, Upstream};

use super::{Forward, addresses, plain, start};

/// The names that are asked, 20 a second.
const NAMES: usize = 40;
/// The first attempts of one name that may be lost in a row.
const MOST_LOST: u64 = 2;

/// Whether an attempt is lost: one of five, by the seed, however long anything takes.
pub(super) fn is_lost(seed: u64, name: &str, attempt: u64) -> bool {
    let mut hash = seed ^ attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for octet in name.bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 32;
    attempt <= MOST_LOST && hash.is_multiple_of(5)
}

/// The far end of a link with this round trip; counts the queries that arrive.
fn far_end(
    seed: u64,
    round_trip: Duration,
    arrived: &Arc<AtomicUsize>,
) -> impl FnMut(&Asked) -> Action + Send + 'static {
    let mut attempts: BTreeMap<String, u64> = BTreeMap::new();
    let arrived = Arc::clone(arrived);
    move |asked| {
        let attempt = attempts.entry(asked.name()).or_default();
        *attempt += 1;
        if is_lost(seed, &asked.name(), *attempt) {
            return Action::Silence;
        }
        if asked.name().starts_with('n') {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
        match plain(asked) {
            Action::Send(wire) => Action::SendLater(round_trip, wire),
            other => other,
        }
    }
}

#[test]
fn behind_a_slow_and_lossy_link_every_name_is_answered() {
    for (seed, round_trip) in [(1, 600), (2, 900)] {
        let to = at(loopback(), 5300);
        let arrived = Arc::new(AtomicUsize::new(0));
        let far_end = far_end(seed, Duration::from_millis(round_trip), &arrived);
        let upstream = Upstream::start(to, far_end);
        let forward = Forward {
            zone: ".",
            to: &[to],
            recursive: true,
        };
        let (site, _daemon) = start(&[forward], "");
        let resolver = site.resolver();
        ask_a(resolver, "warm.example").unwrap();
        let clients: Vec<_> = (0..NAMES)
            .map(|n| {
                thread::sleep(Duration::from_millis(50));
                thread::spawn(move || ask_a(resolver, &format!("n{n}.example")))
            })
            .collect();
        for (n, client) in clients.into_iter().enumerate() {
            let answer = client.join().unwrap().unwrap();
            assert_eq!(addresses(&answer), ["192.0.2.1"], "{round_trip} ms: n{n}");
        }
        // The simulation has the exact bound; here a busy machine counts as a part of the link.
        let arrived = arrived.load(Ordering::Relaxed);
        assert!(arrived <= NAMES * 3 / 2, "{round_trip} ms: {arrived}");
        assert!(upstream.n_udp() > arrived as u64, "nothing was lost");
    }
}
