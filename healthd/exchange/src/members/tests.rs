use super::*;

const SILENCE: Duration = Duration::from_secs(2);

#[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
fn start() -> Instant {
    Instant::now()
}

fn members(peers: &[&str], now: Instant) -> Members {
    let settings = Settings {
        node: "a".to_owned(),
        peers: peers.iter().map(|name| (*name).to_owned()).collect(),
        silence: SILENCE,
        hold: Duration::from_secs(60),
        max_findings: 3,
    };
    Members::new(settings, now)
}

fn target(port: u16) -> Target {
    Target::tcp(([192, 168, 7, 13], port).into())
}

fn finding(port: u16, liveness: Liveness) -> Finding {
    Finding {
        target: target(port),
        liveness,
        reason: "said\nso".to_owned(),
    }
}

fn message(sequence: u64, full: bool, findings: &[Finding]) -> Message {
    Message {
        sequence,
        full,
        findings: findings.to_vec(),
    }
}

const B: PeerId = PeerId(0);
const C: PeerId = PeerId(1);

fn says(members: &Members, port: u16) -> Vec<(String, Liveness)> {
    let target = target(port);
    let all = members.findings(&target);
    all.map(|(name, row)| (name.to_owned(), row.liveness))
        .collect()
}

#[test]
fn a_message_counts_once_and_in_its_order() {
    use Liveness::{Down, Unknown, Up};
    let t0 = start();
    let mut members = members(&["b", "c"], t0);
    let first = members.begin(B);
    let all = message(1, true, &[finding(1, Up), finding(2, Down)]);
    let taken = members.hear(B, first, all.clone(), t0);
    assert_eq!(taken, Heard::Taken(vec![target(1), target(2)]));
    members.advance(t0);
    // Again, and an older one.
    assert_eq!(members.hear(B, first, all, t0), Heard::Ignored);
    let none = message(0, true, &[]);
    assert_eq!(members.hear(B, first, none, t0), Heard::Ignored);
    // One is missing before it.
    let third = message(3, false, &[finding(1, Down)]);
    assert_eq!(members.hear(B, first, third.clone(), t0), Heard::Gap);
    assert_eq!(says(&members, 1), [("b".to_owned(), Up)]);
    let second = message(2, false, &[finding(2, Unknown)]);
    let taken = members.hear(B, first, second, t0);
    assert_eq!(taken, Heard::Taken(vec![target(2)]));
    assert_eq!(
        members.hear(B, first, third, t0),
        Heard::Taken(vec![target(1)])
    );
    assert_eq!(says(&members, 1), [("b".to_owned(), Down)]);
    assert_eq!(says(&members, 2), []);
    // A newer stream begins with all, and the older one says nothing any more.
    let second = members.begin(B);
    let late = message(4, false, &[finding(1, Up)]);
    assert_eq!(members.hear(B, first, late, t0), Heard::Ignored);
    let delta = message(1, false, &[finding(1, Up)]);
    assert_eq!(members.hear(B, second, delta, t0), Heard::Gap);
    assert_eq!(says(&members, 1), [("b".to_owned(), Down)], "nothing new");
    let all = message(1, true, &[finding(3, Up)]);
    let taken = members.hear(B, second, all, t0);
    assert_eq!(taken, Heard::Taken(vec![target(3), target(1)]));
    assert_eq!(says(&members, 1), []);
    assert_eq!(members.peers()[0].n_ignored(), 3);
    assert_eq!(members.peers()[1].n_findings(), 0, "b spoke for b");
}

#[test]
fn what_is_kept_of_a_peer_is_bounded() {
    let t0 = start();
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut members = members(&names, t0);
    assert_eq!(members.peers().len(), MAX_PEERS);
    let stream = members.begin(B);
    let many: Vec<Finding> = (1..100)
        .map(|port| finding(port, Liveness::Up))
        .chain([Finding {
            reason: "x".repeat(9000),
            ..finding(1, Liveness::Down)
        }])
        .collect();
    members.hear(B, stream, message(1, true, &many), t0);
    members.advance(t0);
    let peer = &members.peers()[0];
    assert_eq!((peer.n_findings(), peer.n_ignored()), (3, 96));
    assert_eq!(says(&members, 1), [("n0".to_owned(), Liveness::Down)]);
    let wanted = target(1);
    let (_, row) = members.findings(&wanted).next().unwrap();
    assert_eq!(row.reason.len(), MAX_REASON);
    let wanted = target(2);
    let (_, row) = members.findings(&wanted).next().unwrap();
    assert_eq!(row.reason, "saidso");
    let beyond = PeerId(MAX_PEERS);
    let stream = members.begin(beyond);
    let heard = members.hear(beyond, stream, message(1, true, &many), t0);
    assert_eq!(heard, Heard::Ignored);
}

#[test]
fn targets_of_one_node_alone_are_not_shared() {
    let t0 = start();
    let mut members = members(&["b", "c"], t0);
    let stream = members.begin(B);
    let from = Target {
        source: Some([192, 168, 7, 14].into()),
        ..target(1)
    };
    let own = [
        "127.0.0.1:53",
        "[::1]:53",
        "[::ffff:127.0.0.1]:53",
        "0.0.0.0:53",
    ];
    let own = own.map(|address| Target::tcp(address.parse().unwrap()));
    for target in own.into_iter().chain([from]) {
        assert!(!is_shared(&target), "{target}");
        let finding = Finding {
            target,
            ..finding(1, Liveness::Down)
        };
        members.hear(B, stream, message(1, true, &[finding]), t0);
        assert_eq!(members.peers()[0].n_findings(), 0);
    }
    assert!(is_shared(&target(1)));
}

#[test]
fn a_silent_peer_has_no_opinion() {
    let t0 = start();
    let mut members = members(&["b", "c"], t0);
    assert_eq!(members.contact(), (Contact::Joining, t0));
    assert_eq!(members.next_deadline(), Some(t0 + SILENCE));
    let stream = members.begin(C);
    let all = message(1, true, &[finding(1, Liveness::Up)]);
    let later = t0 + Duration::from_secs(1);
    members.hear(C, stream, all, later);
    assert!(members.advance(later));
    assert!(!members.advance(later));
    assert_eq!(members.contact(), (Contact::Connected, later));
    let silent = later + SILENCE;
    assert_eq!(members.next_deadline(), Some(silent));
    assert_eq!(members.newest_end(), Some(silent));
    assert_eq!(says(&members, 1).len(), 1);
    assert!(!members.advance(later + SILENCE.saturating_sub(Duration::from_nanos(1))));
    assert!(members.advance(silent));
    assert_eq!(members.contact(), (Contact::CutOff, silent));
    assert_eq!(says(&members, 1), []);
    // A word of it is enough: what it said is kept.
    let back = silent + Duration::from_secs(9);
    members.hear(C, stream, message(2, false, &[]), back);
    assert!(members.advance(back));
    assert_eq!(members.contact(), (Contact::Connected, back));
    assert_eq!(says(&members, 1).len(), 1);
}

#[test]
fn machines_that_refuse_are_reached() {
    let t0 = start();
    let mut members = members(&["b", "c"], t0);
    let late = t0 + SILENCE;
    members.advance(late);
    assert_eq!(members.contact(), (Contact::CutOff, late));
    members.refused(B, late);
    assert!(members.advance(late));
    assert_eq!(members.contact(), (Contact::Alone, late));
    let silent = late + 2 * SILENCE;
    assert_eq!(members.next_deadline(), Some(silent));
    assert!(members.advance(silent));
    assert_eq!(members.contact(), (Contact::CutOff, silent));
    assert_eq!(members.next_deadline(), None);
}

/// A caller that waits for a deadline that has passed would never rest.
#[test]
fn a_deadline_lies_ahead() {
    let t0 = start();
    let mut members = members(&["b"], t0);
    members.refused(B, t0);
    let late = t0 + 2 * SILENCE;
    members.advance(late);
    assert_eq!(members.contact().0, Contact::Alone);
    assert_eq!(members.next_deadline(), None);
}

#[test]
fn one_or_two_nodes_are_never_cut_off() {
    for peers in [&[][..], &["b"]] {
        let t0 = start();
        let mut members = members(peers, t0);
        members.advance(t0 + SILENCE);
        let expected = match peers.len() {
            0 => Contact::Connected,
            _ => Contact::Alone,
        };
        assert_eq!(members.contact().0, expected);
    }
}
