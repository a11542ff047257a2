mod simulation;

use std::time::Duration;

use super::*;
use crate::members::Finding;

const SILENCE: Duration = Duration::from_secs(2);
const HOLD: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
fn start() -> Instant {
    Instant::now()
}

fn target() -> Target {
    Target::tcp(([192, 168, 7, 13], 6443).into())
}

/// A node with peers, each of which says what it is given.
struct Node {
    exchange: Exchange,
    streams: Vec<(StreamId, u64)>,
    now: Instant,
}

impl Node {
    fn new(n_peers: usize) -> Self {
        let now = start();
        let settings = Settings {
            node: "self".to_owned(),
            peers: (0..n_peers).map(|peer| format!("peer-{peer}")).collect(),
            silence: SILENCE,
            hold: HOLD,
            max_findings: 100,
        };
        let mut exchange = Exchange::new(settings, now);
        let streams = (0..n_peers).map(|peer| (exchange.begin(PeerId(peer)), 0));
        let streams = streams.collect();
        Self {
            exchange,
            streams,
            now,
        }
    }

    /// Peers say what they find; those without a word are silent.
    fn hear(&mut self, said: &[Option<Liveness>]) {
        for (peer, liveness) in said.iter().enumerate() {
            let Some(liveness) = *liveness else { continue };
            let (stream, sequence) = &mut self.streams[peer];
            *sequence += 1;
            let finding = Finding {
                target: target(),
                liveness,
                reason: String::new(),
            };
            let message = Message {
                sequence: *sequence,
                full: true,
                findings: vec![finding],
            };
            let heard = self.exchange.hear(PeerId(peer), *stream, message, self.now);
            assert!(matches!(heard, Heard::Taken(_)), "{heard:?}");
        }
        self.exchange.advance(self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.exchange.advance(self.now);
    }

    fn judge(&mut self, own: Liveness) -> (Liveness, Basis) {
        let verdict = self.exchange.judge(&target(), own, self.now);
        (verdict.liveness.unwrap_or(own), verdict.basis)
    }
}

use Basis::{Last, Own, Site, Split};
use Liveness::{Down, Unknown, Up};

#[test]
fn findings_make_the_verdict() {
    const U: Option<Liveness> = Some(Up);
    const D: Option<Liveness> = Some(Down);
    const N: Option<Liveness> = Some(Unknown);
    /// The own finding, those of the peers, and the verdict.
    type Case = (Liveness, &'static [Option<Liveness>], (Liveness, Basis));
    let table: &[Case] = &[
        // One or two nodes.
        (Down, &[], (Down, Own)),
        (Down, &[U], (Down, Own)),
        // Three nodes, all heard.
        (Up, &[U, U], (Up, Site)),
        (Down, &[U, U], (Up, Site)),
        (Up, &[U, D], (Up, Site)),
        (Up, &[D, D], (Down, Site)),
        (Down, &[U, D], (Down, Site)),
        (Unknown, &[D, D], (Down, Site)),
        // One of them does not probe the target, or is not heard.
        (Up, &[U, N], (Up, Site)),
        (Down, &[N, D], (Down, Site)),
        (Down, &[D, None], (Down, Site)),
        (Down, &[U, None], (Up, Split)),
        (Up, &[None, D], (Up, Split)),
        // No other node probes it, or this one has not yet.
        (Down, &[N, N], (Down, Own)),
        (Unknown, &[D, N], (Unknown, Own)),
        (Unknown, &[U, D], (Up, Split)),
        // Five nodes.
        (Up, &[D, D, U, N], (Up, Split)),
        (Up, &[D, D, D, U], (Down, Site)),
        (Down, &[U, U, N, N], (Up, Site)),
        (Down, &[D, U, U, U], (Up, Site)),
    ];
    for (own, peers, expected) in table {
        let mut node = Node::new(peers.len());
        node.hear(peers);
        assert_eq!(node.judge(*own), *expected, "{own} + {peers:?}");
    }
}

#[test]
fn the_last_verdict_holds_in_a_split_and_no_longer() {
    let mut node = Node::new(2);
    node.hear(&[Some(Down), Some(Down)]);
    assert_eq!(node.judge(Up), (Down, Site));
    let mut held = Duration::ZERO;
    // One of the peers leaves: one against one.
    node.pass(SILENCE.saturating_sub(Duration::from_nanos(1)));
    node.hear(&[Some(Down), None]);
    node.pass(Duration::from_nanos(1));
    while held < HOLD {
        assert_eq!(node.judge(Up), (Down, Last), "after {held:?}");
        assert!(node.exchange.next_deadline().is_some());
        node.pass(Duration::from_secs(1));
        node.hear(&[Some(Down), None]);
        held += Duration::from_secs(1);
    }
    assert_eq!(node.judge(Up), (Up, Split));
    // Agreement makes another last verdict.
    node.hear(&[Some(Down), Some(Down)]);
    assert_eq!(node.judge(Up), (Down, Site));
}

#[test]
fn a_node_that_is_cut_off_holds_the_last_verdict_for_its_time() {
    let mut node = Node::new(2);
    node.hear(&[Some(Up), Some(Up)]);
    assert_eq!(node.judge(Up), (Up, Site));
    assert_eq!(node.judge(Down), (Up, Site));
    node.pass(SILENCE);
    assert_eq!(node.exchange.members().contact().0, Contact::CutOff);
    assert_eq!(node.judge(Down), (Up, Last));
    node.pass(HOLD.saturating_sub(Duration::from_nanos(1)));
    assert_eq!(node.judge(Down), (Up, Last));
    assert_eq!(
        node.exchange.next_deadline(),
        Some(node.now + Duration::from_nanos(1))
    );
    assert!(!node.exchange.advance(node.now));
    node.now += Duration::from_nanos(1);
    assert!(node.exchange.advance(node.now), "all are judged again");
    assert_eq!(node.judge(Down), (Down, Own));
    assert_eq!(node.exchange.members().contact().0, Contact::CutOff);
    // It is heard again.
    node.hear(&[Some(Up), None]);
    assert_eq!(node.judge(Up), (Up, Site));
}

/// A process that was stopped for long does not begin to hold when it wakes up.
#[test]
fn time_that_nothing_was_judged_in_counts() {
    let mut node = Node::new(2);
    node.hear(&[Some(Up), Some(Up)]);
    assert_eq!(node.judge(Up), (Up, Site));
    node.pass(SILENCE + HOLD);
    assert_eq!(node.judge(Down), (Down, Own));
}

#[test]
fn where_only_the_other_healthds_are_away_own_probes_decide() {
    let mut node = Node::new(2);
    node.hear(&[Some(Up), Some(Up)]);
    assert_eq!(node.judge(Up), (Up, Site));
    node.now += SILENCE;
    node.exchange.refused(PeerId(1), node.now);
    node.exchange.advance(node.now);
    assert_eq!(node.exchange.members().contact().0, Contact::Alone);
    assert_eq!(node.judge(Down), (Down, Own));
}

#[test]
fn a_restart_takes_up_what_the_site_said() {
    let mut node = Node::new(2);
    node.exchange.restore(&target(), Up, node.now);
    assert_eq!(node.judge(Down), (Up, Last), "no peer is heard yet");
    node.hear(&[Some(Down), None]);
    assert_eq!(node.judge(Up), (Up, Last));
    node.hear(&[None, Some(Down)]);
    assert_eq!(node.judge(Up), (Down, Site));
    let mut node = Node::new(1);
    node.exchange.restore(&target(), Up, node.now);
    assert_eq!(node.judge(Down), (Down, Own), "two nodes have no majority");
    assert_eq!(node.exchange.n_decided(), 0);
}

#[test]
fn a_target_that_is_forgotten_leaves_nothing() {
    let mut node = Node::new(2);
    node.hear(&[Some(Up), Some(Up)]);
    node.judge(Up);
    assert_eq!(node.exchange.n_decided(), 1);
    node.exchange.forget(&target());
    assert_eq!(node.exchange.n_decided(), 0);
}

#[test]
fn a_target_on_loopback_is_each_nodes_own() {
    let mut node = Node::new(2);
    node.hear(&[Some(Down), Some(Down)]);
    let own = Target::tcp(([127, 0, 0, 1], 6443).into());
    assert_eq!(node.exchange.judge(&own, Up, node.now), Verdict::OWN);
}
