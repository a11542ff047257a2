//! Findings of other nodes: what subscribers see of them, and when.

use exchange::members::Finding as PeerFinding;
use health::{Basis, Verdict};

use super::*;

const SILENCE: Duration = Duration::from_secs(2);
const HOLD: Duration = Duration::from_secs(60);
/// Enough for what is due now.
const MOMENT: Duration = Duration::from_millis(1);

/// A node beside `b` and `c`.
struct Node {
    site: Site,
    streams: [(StreamId, u64); 2],
    subscriber: SubscriberId,
}

impl Node {
    fn new(restored: Restored) -> Self {
        let mut site = Site::new(LIMITS, restored);
        let settings = Settings {
            node: "a".to_owned(),
            peers: vec!["b".to_owned(), "c".to_owned()],
            silence: SILENCE,
            hold: HOLD,
            max_findings: 100,
        };
        site.monitor.exchange(settings, site.now);
        let streams = [0, 1].map(|peer| (site.monitor.begin_stream(PeerId(peer)), 0));
        let subscriber = site.monitor.open(site.now);
        site.monitor
            .state(subscriber, statement(1, &[6443]), site.now);
        Self {
            site,
            streams,
            subscriber,
        }
    }

    /// Peers say what they find about the port; `None` is a beat.
    fn hear(&mut self, said: [Option<Liveness>; 2]) {
        for (peer, liveness) in said.into_iter().enumerate() {
            let (stream, sequence) = &mut self.streams[peer];
            *sequence += 1;
            let finding = |liveness| PeerFinding {
                target: target(6443),
                liveness,
                reason: "theirs".to_owned(),
            };
            let message = Message {
                sequence: *sequence,
                full: *sequence == 1,
                findings: liveness.map(finding).into_iter().collect(),
            };
            let now = self.site.now;
            assert!(self.site.monitor.hear(PeerId(peer), *stream, message, now));
        }
    }

    /// Time passes, and the peers are heard meanwhile.
    fn run(&mut self, time: Duration) {
        let beat = Duration::from_millis(500);
        let end = self.site.now.steady + time;
        while self.site.now.steady < end {
            self.site.run(beat);
            self.hear([None, None]);
        }
    }

    fn seen(&self) -> Seen<'_> {
        let table = self.site.monitor.table();
        let id = table.find(&target(6443)).unwrap();
        table.seen(Key::of(id)).unwrap()
    }

    fn sees(&self) -> (Liveness, Basis) {
        let seen = self.seen();
        (seen.liveness(), seen.verdict().unwrap().basis)
    }

    /// What the subscriber hears after a generation.
    fn heard_since(&self, generation: u64) -> Vec<Liveness> {
        let changes = self.site.monitor.changes(self.subscriber, generation);
        let entries = changes.into_iter().flat_map(|changes| changes.entries);
        entries.map(|(_, seen)| seen.liveness()).collect()
    }
}

use Liveness::{Down, Unknown, Up};

#[test]
fn a_target_that_one_node_cannot_reach_stays_up_at_every_step() {
    let mut node = Node::new(Restored::default());
    node.site.open.insert(6443);
    node.hear([Some(Up), Some(Up)]);
    assert_eq!(node.sees(), (Up, Basis::Site), "before the first probe");
    node.run(Duration::from_secs(1));
    let generation = node.site.monitor.generation();
    let since = node.seen().since();
    node.site.open.clear();
    for _ in 0..40 {
        node.site.run(Duration::from_millis(100));
        node.hear([None, None]);
        assert_eq!(node.sees(), (Up, Basis::Site));
    }
    assert_eq!(node.site.liveness(6443), Some(Down), "here it is down");
    assert_eq!(node.seen().since(), since, "nothing has changed");
    assert_eq!(node.heard_since(generation), [Up], "with another reason");
    assert_eq!(node.seen().reason(), "up for 2 of 3 nodes; here: refused");
    let changes = node.site.monitor.take_site_changes();
    let last = changes.last().unwrap();
    assert_eq!((last.before, last.after, last.own), (Up, Up, Down));
    let own = node.seen().verdict().unwrap().findings.remove(0);
    assert_eq!((own.node.as_str(), own.liveness), ("a", Down));
}

#[test]
fn a_target_is_down_for_all_when_most_say_so() {
    let mut node = Node::new(Restored::default());
    node.site.open.insert(6443);
    node.hear([Some(Up), Some(Up)]);
    node.run(Duration::from_secs(1));
    let generation = node.site.monitor.generation();
    node.hear([Some(Down), None]);
    assert_eq!(node.sees(), (Up, Basis::Site), "one node says so");
    node.hear([None, Some(Down)]);
    assert_eq!(node.sees(), (Down, Basis::Site));
    assert_eq!(node.heard_since(generation), [Down]);
    assert_eq!(node.seen().since(), Some(node.site.now.wall));
    assert_eq!(node.site.liveness(6443), Some(Up));
    assert_eq!(
        node.seen().reason(),
        "down for 2 of 3 nodes; here: connected"
    );
}

#[test]
fn a_finding_that_contradicts_has_the_target_probed_at_once() {
    let mut node = Node::new(Restored::default());
    node.site.open.insert(6443);
    node.hear([Some(Up), Some(Up)]);
    node.run(Duration::from_secs(5));
    let before = node.site.n_probes;
    node.site.run(Duration::from_millis(100));
    let usual = node.site.n_probes - before;
    node.hear([Some(Down), None]);
    node.site.run(MOMENT);
    assert_eq!(node.site.n_probes, before + usual + 1);
    // The same again brings no further one.
    node.hear([Some(Down), None]);
    node.site.run(MOMENT);
    assert_eq!(node.site.n_probes, before + usual + 1);
}

#[test]
fn a_node_that_is_cut_off_serves_the_last_verdict_and_then_its_own() {
    let mut node = Node::new(Restored::default());
    node.site.open.insert(6443);
    node.hear([Some(Up), Some(Up)]);
    node.run(Duration::from_secs(1));
    // No message comes any more, and nothing is reached.
    node.site.open.clear();
    node.site.run(SILENCE + MOMENT);
    assert_eq!(
        node.site.monitor.contact().unwrap().0,
        Contact::CutOff,
        "noticed by time alone"
    );
    assert_eq!(node.sees(), (Up, Basis::Last));
    node.site.run(HOLD.saturating_sub(SILENCE));
    assert_eq!(node.sees(), (Up, Basis::Last));
    let generation = node.site.monitor.generation();
    node.site.run(SILENCE);
    assert_eq!(node.sees(), (Down, Basis::Own));
    assert_eq!(node.heard_since(generation), [Down]);
    node.hear([None, None]);
    assert_eq!(node.sees(), (Up, Basis::Site), "it hears the others again");
}

#[test]
fn a_view_follows_the_site_only_where_this_node_is_the_odd_one() {
    let mut node = Node::new(Restored::default());
    node.site.open.insert(6443);
    let deviation = Deviation {
        fall: Some(1),
        ..Deviation::NONE
    };
    let now = node.site.now;
    let sharp = node.site.monitor.open(now);
    node.site
        .monitor
        .state(sharp, deviating(1, 6443, deviation), now);
    let sees = |node: &Node| {
        let full = node.site.monitor.full(sharp).unwrap();
        full.entries[0].1.liveness()
    };
    node.hear([Some(Up), Some(Up)]);
    node.run(Duration::from_secs(1));
    assert_eq!(sees(&node), Up);
    node.site.open.clear();
    while sees(&node) == Up {
        node.site.run(Duration::from_millis(50));
        node.hear([None, None]);
    }
    assert_eq!(node.site.liveness(6443), Some(Up), "its own fall is 1");
    node.run(Duration::from_secs(2));
    assert_eq!(node.site.liveness(6443), Some(Down));
    assert_eq!(sees(&node), Up, "the others reach it");
    node.hear([Some(Down), Some(Down)]);
    assert_eq!(sees(&node), Down);
}

#[test]
fn a_restart_begins_with_what_the_site_said() {
    let known = Known {
        target: target(6443),
        liveness: Up,
        since: Some(Duration::from_secs(7)),
        last_check: None,
        latency: Duration::ZERO,
        reason: String::new(),
    };
    let restored = Restored {
        known: vec![known],
        ..Restored::default()
    };
    // This node does not reach it, and hears nothing yet.
    let mut node = Node::new(restored);
    assert_eq!(node.sees(), (Up, Basis::Last));
    assert!(node.seen().is_warm());
    node.site.run(SILENCE / 2);
    assert_eq!(node.site.liveness(6443), Some(Down));
    assert_eq!(node.sees(), (Up, Basis::Last));
    assert_eq!(node.seen().since(), Some(Duration::from_secs(7)));
    node.hear([Some(Down), Some(Up)]);
    assert_eq!(node.sees(), (Down, Basis::Site));
}

#[test]
fn other_nodes_hear_what_probes_of_this_process_have_found() {
    let mut node = Node::new(Restored {
        known: vec![Known {
            target: target(443),
            liveness: Up,
            since: None,
            last_check: None,
            latency: Duration::ZERO,
            reason: String::new(),
        }],
        ..Restored::default()
    });
    let own = |node: &Node, heard: Option<u64>| {
        let own = node.site.monitor.own_findings(heard);
        let known = |one: &&PeerFinding| one.liveness != Unknown;
        let findings = own.findings.iter().filter(known);
        let findings = findings.map(|one| (one.target.address.port(), one.liveness));
        (own.full, findings.collect::<Vec<_>>())
    };
    assert_eq!(own(&node, None), (true, vec![]), "nothing is confirmed");
    let generation = node.site.monitor.generation();
    node.site.open.insert(6443);
    node.site.run(MOMENT);
    assert_eq!(own(&node, None), (true, vec![(6443, Up)]));
    assert_eq!(own(&node, Some(generation)), (false, vec![(6443, Up)]));
    let generation = node.site.monitor.generation();
    // The verdict of the site is no finding of this node.
    node.hear([Some(Down), Some(Down)]);
    assert_eq!(node.sees(), (Down, Basis::Site));
    assert_eq!(own(&node, Some(generation)), (false, vec![(6443, Up)]));
    // A target that comes or goes has all said again.
    let now = node.site.now;
    node.site
        .monitor
        .state(node.subscriber, statement(2, &[6443, 80]), now);
    assert_eq!(
        own(&node, Some(generation)),
        (true, vec![(6443, Up)]),
        "80 is not probed yet"
    );
    let loopback = Target::tcp(([127, 0, 0, 1], 8080).into());
    let mut here = statement(3, &[6443]);
    here.targets.push((2, loopback.clone().into()));
    node.site.monitor.state(node.subscriber, here, now);
    node.site.open.insert(8080);
    node.site.run(MOMENT);
    let (_, findings) = own(&node, None);
    assert!(
        !findings.iter().any(|(port, _)| *port == 8080),
        "{findings:?}"
    );
    let table = node.site.monitor.table();
    let id = table.find(&loopback).unwrap();
    let seen = table.seen(Key::of(id)).unwrap();
    assert_eq!(seen.verdict(), None::<Verdict>);
    assert_eq!(seen.liveness(), Up);
}

#[test]
fn the_words_of_peers_about_targets_of_no_subscriber_are_kept_for_later() {
    let mut node = Node::new(Restored::default());
    let other = PeerFinding {
        target: target(80),
        liveness: Down,
        reason: String::new(),
    };
    for peer in [0, 1] {
        let message = Message {
            sequence: 1,
            full: true,
            findings: vec![other.clone()],
        };
        let (stream, now) = (node.streams[peer].0, node.site.now);
        node.site.monitor.hear(PeerId(peer), stream, message, now);
    }
    assert_eq!(node.site.liveness(80), None, "nothing is probed for a peer");
    let now = node.site.now;
    node.site
        .monitor
        .state(node.subscriber, statement(2, &[80]), now);
    let full = node.site.monitor.full(node.subscriber).unwrap();
    assert_eq!(full.entries[0].1.liveness(), Down);
    assert_eq!(node.site.liveness(80), Some(Unknown));
}
