//! Live sets that follow the liveness of their targets.

use std::net::IpAddr;
use std::sync::Mutex;

use dns_answer::testing::{records, snapshot, zone_at};
use dns_answer::{Call, Programs, Transport};
use dns_lua::{Liveness, LivenessView};

use super::*;

const TEXT: &str = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n\
    api.example. 180 LUA A ifportup(6443,{'192.0.2.13','192.0.2.14'})\n\
    both.example. 180 A 192.0.2.99\n\
    both.example. 180 LUA A ifportup(443,{'192.0.2.15'})\n\
    who.example. 180 LUA A tostring(bestwho)\n\
    bad.example. 180 LUA A ifportup(\n";

/// Liveness by the last octet of the address.
#[derive(Default)]
struct Board(Mutex<std::collections::BTreeMap<u8, Liveness>>);

impl LivenessView for Board {
    fn liveness(&self, watched: &Watched) -> Liveness {
        let IpAddr::V4(address) = watched.target.address.ip() else {
            panic!("{watched:?}");
        };
        let board = self.0.lock().unwrap();
        board.get(&address.octets()[3]).copied().unwrap_or_default()
    }
}

fn settings() -> Arc<LuaSettings> {
    Arc::default()
}

fn zone() -> Arc<Zone> {
    let snapshot = snapshot("example.", &records(TEXT));
    zone_at(&snapshot, 0)
}

fn view(states: &[(u8, Liveness)]) -> View {
    View(Arc::new(Board(Mutex::new(
        states.iter().copied().collect(),
    ))))
}

fn report(live: &LiveZone, owner: &str) -> Arc<LiveReport> {
    let owner: Name = owner.parse().unwrap();
    let mut reports = live.report().into_iter();
    reports.find(|report| report.owner == owner).unwrap()
}

#[test]
fn a_set_follows_the_liveness_of_its_targets() {
    let (zone, settings) = (zone(), settings());
    let mut live = LiveZone::new(&zone, &settings);
    live.evaluate(&zone, &view(&[]), &|_| false);
    let before = report(&live, "api.example.");
    assert_eq!(before.certainty, Some(Certainty::Unknown));
    assert_eq!(before.members, ["192.0.2.13", "192.0.2.14"]);
    assert!(before.ttl <= 5);
    assert!(live.sets[0].answer.hold);
    assert_eq!(live.targets().count(), 3);

    let up = view(&[(13, Liveness::Up), (14, Liveness::Down)]);
    live.evaluate(&zone, &up, &|target| target.target.address.port() == 6443);
    let after = report(&live, "api.example.");
    assert_eq!(after.certainty, Some(Certainty::Known));
    assert_eq!(after.members, ["192.0.2.13"]);
    assert!(after.ttl <= 5, "bounded by the check's interval");
    assert!(!live.sets[0].answer.hold);
    // What was not affected was left as it was.
    let other = report(&live, "both.example.");
    assert_eq!(other.certainty, Some(Certainty::Unknown));
    assert_eq!(other.members, ["192.0.2.99", "192.0.2.15"]);
}

#[test]
fn queries_wait_once_for_a_set() {
    let (zone, settings) = (zone(), settings());
    let mut live = LiveZone::new(&zone, &settings);
    live.evaluate(&zone, &view(&[]), &|_| true);
    live.end_wait(0);
    assert!(!live.sets[0].answer.hold && live.sets[1].answer.hold);
    live.evaluate(&zone, &view(&[]), &|_| true);
    assert!(!live.sets[0].answer.hold, "still nothing is known");
    // The zone is loaded again.
    let mut next = LiveZone::new(&zone, &settings);
    next.inherit(&zone, &live, &zone);
    next.evaluate(&zone, &view(&[]), &|_| true);
    assert!(!next.sets[0].answer.hold && next.sets[1].answer.hold);
    // Known for a while, then forgotten: it is new again.
    next.evaluate(&zone, &view(&[(13, Liveness::Up)]), &|_| true);
    next.evaluate(&zone, &view(&[]), &|_| true);
    assert!(next.sets[0].answer.hold);
}

#[test]
fn a_broken_program_is_told_of_once_and_fails_alone() {
    let (zone, settings) = (zone(), settings());
    let mut live = LiveZone::new(&zone, &settings);
    let messages = live.evaluate(&zone, &view(&[]), &|_| true).messages;
    let [message] = messages.as_slice() else {
        panic!("{messages:?}");
    };
    assert!(message.is_failure && message.source.starts_with("test.zone:7:1: "));
    let again = live.evaluate(&zone, &view(&[]), &|_| true);
    assert_eq!(again.messages, []);
    assert!(!again.has_other_targets);
    let served = live.serve(&view(&[]));
    assert_eq!(served.get(3).unwrap().failure, Some(Failure::Defect));
    assert_eq!(served.get(0).unwrap().failure, None);
}

#[test]
fn a_program_that_reads_the_query_is_left_to_it() {
    let (zone, settings) = (zone(), settings());
    let mut live = LiveZone::new(&zone, &settings);
    live.evaluate(&zone, &view(&[]), &|_| true);
    let served = live.serve(&view(&[]));
    let programs: Vec<u32> = served.get(2).unwrap().programs().collect();
    assert_eq!(programs, [0]);
    let message = dns_answer::testing::query(&"who.example.".parse().unwrap(), Type::A);
    let query = dns_wire::Query::parse(&message).unwrap();
    let client = dns_answer::testing::client(Transport::Udp);
    let call = Call {
        live: &served,
        set: 2,
        program: 0,
        query: &query,
        client: &client,
        subnet: None,
        seed: 1,
    };
    assert_eq!(LuaPrograms.run(&call), Ok((180, vec![vec![127, 0, 0, 1]])));
}
