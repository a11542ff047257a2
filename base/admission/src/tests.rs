//! The policy, a table for each bound.

use std::net::IpAddr;

use super::*;

fn address(text: &str) -> Source {
    Source::Address(text.parse::<IpAddr>().unwrap())
}

/// A listener, and its clock.
struct Rig {
    places: Admission,
    now: Instant,
}

impl Rig {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to begin with, whichever"
    )]
    fn new(policy: Policy) -> Self {
        Self {
            places: Admission::new(policy),
            now: Instant::now(),
        }
    }

    fn after(&mut self, millis: u64) -> Vec<Ended> {
        self.now += Duration::from_millis(millis);
        self.places.due(self.now)
    }

    fn arrive(&mut self, source: &str, class: Class) -> Decision {
        self.now += Duration::from_millis(1);
        let source = address(source);
        self.places
            .arrive(source, class, Opening::Request, self.now)
    }

    fn other(&mut self, source: &str) -> Id {
        self.arrive(source, Class::Other).outcome.unwrap()
    }

    fn idle(&mut self, source: &str) -> Id {
        let id = self.other(source);
        self.places.idle(id, self.now);
        id
    }

    fn answering(&mut self, source: &str) -> Id {
        let id = self.other(source);
        self.places.answer(id);
        id
    }
}

fn ended(decision: &Decision) -> Vec<Id> {
    decision.ended.iter().map(|ended| ended.id).collect()
}

#[test]
fn places_are_reserved_for_nodes_and_never_all_of_few() {
    let check = |policy: Policy, expected| {
        let seen = (policy.for_members(), policy.for_node(), policy.for_all());
        assert_eq!(seen, expected, "{policy:?}");
    };
    check(Policy::of(1024), (0, 4, 1020));
    check(Policy::of(64).with_members(), (4, 4, 56));
    check(Policy::of(1600).with_members(), (100, 4, 1496));
    check(Policy::of(3), (0, 0, 3));
    check(Policy::of(8).with_members(), (2, 2, 4));
    check(Policy::of(0), (0, 0, 1));
    let most = |policy: Policy| {
        (
            policy.source_most(Class::Other),
            policy.network_most(),
            policy.handshakes_most(),
        )
    };
    assert_eq!(most(Policy::of(1028)), (128, 512, 256));
    assert_eq!(most(Policy::of(20)), (8, 32, 4));
    assert_eq!(most(Policy::of(1028).with_source(3)), (3, 12, 256));
    assert_eq!(Policy::of(68).source_most(Class::Node), 32);
}

#[test]
fn a_source_beyond_its_bound_loses_its_own_oldest_stream() {
    let mut rig = Rig::new(Policy::of(100).with_source(2));
    let first = rig.idle("192.0.2.1");
    let second = rig.answering("192.0.2.1");
    let third = rig.arrive("192.0.2.1", Class::Other);
    assert_eq!(ended(&third), [first]);
    rig.places.answer(third.outcome.unwrap());
    // Both have answers in flight.
    let fourth = rig.arrive("::ffff:192.0.2.1", Class::Other);
    assert_eq!(fourth.outcome, Err(Refusal::Source));
    rig.places.answered(second, rig.now);
    let fifth = rig.arrive("192.0.2.1", Class::Other);
    assert_eq!(ended(&fifth), [second]);
    assert_eq!(rig.places.taken().all(), 2);
    // A /64 is one source.
    rig.answering("2001:db8::1");
    rig.answering("2001:db8::2");
    let third = rig.arrive("2001:db8::3", Class::Other);
    assert_eq!(third.outcome, Err(Refusal::Source));
    assert!(rig.arrive("2001:db8:0:1::3", Class::Other).outcome.is_ok());
}

#[test]
fn a_network_beyond_its_bound_gives_a_place_of_its_greatest_source() {
    let mut rig = Rig::new(Policy::of(100).with_source(2));
    let first = rig.idle("192.0.2.1");
    rig.idle("192.0.2.1");
    for last in 2..5 {
        rig.answering(&format!("192.0.2.{last}"));
        rig.answering(&format!("192.0.2.{last}"));
    }
    let newcomer = rig.arrive("192.0.2.9", Class::Other);
    assert_eq!(ended(&newcomer), [first]);
    assert!(rig.arrive("198.51.100.1", Class::Other).ended.is_empty());
    // The same holds of a /48.
    for part in 1..5 {
        rig.answering(&format!("2001:db8:0:{part}::1"));
        rig.answering(&format!("2001:db8:0:{part}::1"));
    }
    let newcomer = rig.arrive("2001:db8:0:9::1", Class::Other);
    assert_eq!(newcomer.outcome, Err(Refusal::Network));
}

#[test]
fn when_full_the_greatest_source_gives_its_oldest_and_answers_go_on() {
    let mut rig = Rig::new(Policy::of(11).with_source(8));
    assert_eq!(rig.places.policy().for_all(), 9);
    let answering = rig.answering("192.0.2.1");
    let oldest = rig.idle("192.0.2.1");
    for _ in 0..6 {
        rig.other("192.0.2.1");
    }
    let other = rig.idle("198.51.100.1");
    assert_eq!(rig.places.taken().all(), 9);
    let newcomer = rig.arrive("203.0.113.1", Class::Other);
    assert_eq!(ended(&newcomer), [oldest]);
    // The greatest source answers with all that it has; the other has its share and no more.
    let mut rig = Rig::new(Policy::of(2));
    rig.answering("192.0.2.1");
    rig.answering("198.51.100.1");
    let refused = rig.arrive("203.0.113.1", Class::Other);
    assert_eq!(refused.outcome, Err(Refusal::Full));
    let _ = (answering, other);
}

#[test]
fn the_node_and_the_members_have_places_that_others_do_not_take() {
    let mut rig = Rig::new(Policy::of(16).with_members().with_source(8));
    assert_eq!(rig.places.policy().for_all(), 8);
    for last in 1..9 {
        rig.answering(&format!("192.0.2.{last}"));
    }
    let refused = rig.arrive("203.0.113.1", Class::Other);
    assert_eq!(refused.outcome, Err(Refusal::Full));
    let mut own = Vec::new();
    for _ in 0..4 {
        own.push(rig.arrive("127.0.0.1", Class::Node).outcome.unwrap());
        let member = rig.arrive("10.0.0.2", Class::Member).outcome.unwrap();
        rig.places.prove(member);
    }
    assert_eq!(rig.places.taken().all(), 16);
    // Idle streams of the node give way to the node, and proven members to nobody.
    let again = rig.arrive("127.0.0.9", Class::Node);
    assert_eq!(ended(&again), [own[0]]);
    let full = rig.arrive("10.0.0.3", Class::Member);
    assert_eq!(full.outcome, Err(Refusal::Full));
    // They take none from the node's places for others.
    let refused = rig.arrive("203.0.113.1", Class::Other);
    assert_eq!(refused.outcome, Err(Refusal::Full));
}

#[test]
fn proven_streams_do_not_exceed_the_places() {
    let mut rig = Rig::new(Policy::of(16));
    for _ in 0..16 {
        let id = rig.arrive("127.0.0.1", Class::Node).outcome.unwrap();
        rig.places.prove(id);
    }
    let refused = rig.arrive("127.0.0.1", Class::Node);
    assert_eq!(
        (refused.outcome, rig.places.taken().members),
        (Err(Refusal::Full), 16)
    );
}

#[test]
fn handshakes_are_a_quarter_and_the_oldest_of_the_greatest_source_gives_way() {
    let mut rig = Rig::new(Policy::of(36).with_source(32));
    let handshake = |rig: &mut Rig, source: &str| {
        rig.now += Duration::from_millis(1);
        let (source, now) = (address(source), rig.now);
        rig.places
            .arrive(source, Class::Other, Opening::Handshake, now)
    };
    let begun: Vec<Id> = (0..8)
        .map(|_| handshake(&mut rig, "192.0.2.1").outcome.unwrap())
        .collect();
    rig.places.received(begun[0], 100, rig.now);
    rig.places.idle(begun[1], rig.now);
    assert!(handshake(&mut rig, "192.0.2.2").ended.is_empty());
    // The first octet of the oldest came later than the arrival of the third.
    let newcomer = handshake(&mut rig, "192.0.2.3");
    assert_eq!(ended(&newcomer), [begun[2]]);
    assert_eq!(rig.places.taken().all(), 9);
}

#[test]
fn every_phase_has_its_time() {
    let check = |name: &str, reason, millis: u64, begin: &dyn Fn(&mut Rig) -> Id| {
        let mut rig = Rig::new(Policy::of(100).with_stall(Duration::from_secs(60)));
        let id = begin(&mut rig);
        assert_eq!(rig.after(millis - 1), [], "{name}");
        assert_eq!(rig.after(1), [Ended { id, reason }], "{name}");
        assert!(rig.places.is_empty() && rig.places.next_deadline().is_none());
        // What comes later is of nobody.
        rig.places.answer(id);
        rig.places.leave(id);
    };
    let opened = |rig: &mut Rig, opening| {
        let now = rig.now;
        let source = address("192.0.2.1");
        let decision = rig.places.arrive(source, Class::Other, opening, now);
        decision.outcome.unwrap()
    };
    check("silent", Reason::Silent, 3000, &|rig| {
        opened(rig, Opening::Request)
    });
    check("handshake", Reason::Handshake, 3000, &|rig| {
        let id = opened(rig, Opening::Handshake);
        assert_eq!(rig.after(2000), []);
        rig.places.received(id, 1, rig.now);
        id
    });
    check("request", Reason::Request, 10_000, &|rig| {
        let id = opened(rig, Opening::Request);
        rig.places.received(id, 1, rig.now);
        id
    });
    check("request of an idle stream", Reason::Request, 9000, &|rig| {
        let id = opened(rig, Opening::Request);
        rig.places.idle(id, rig.now);
        assert_eq!(rig.after(100_000), []);
        rig.places.received(id, 1, rig.now);
        assert_eq!(rig.after(1000), []);
        rig.places.received(id, 1, rig.now);
        id
    });
    check("silent body", Reason::Slow, 10_000, &|rig| {
        let id = opened(rig, Opening::Request);
        rig.places.body(id, rig.now);
        rig.places.received(id, 5 * 1024, rig.now);
        id
    });
    check("body that stops", Reason::Slow, 20_000, &|rig| {
        let id = opened(rig, Opening::Request);
        rig.places.body(id, rig.now);
        rig.places.received(id, 20 * 1024, rig.now);
        id
    });
    check(
        "client that takes nothing",
        Reason::Stalled,
        60_000,
        &|rig| {
            let id = opened(rig, Opening::Request);
            rig.places.answer(id);
            assert_eq!(rig.after(100_000), []);
            rig.places.blocked(id, true, rig.now);
            assert_eq!(rig.after(59_000), []);
            // It takes slowly, which is all that is asked.
            rig.places.blocked(id, false, rig.now);
            rig.places.blocked(id, true, rig.now);
            id
        },
    );
}

#[test]
fn the_time_to_be_idle_shrinks_over_half_load_for_those_that_are_idle_already() {
    let idle = Duration::from_secs(30);
    let mut rig = Rig::new(Policy::of(3).with_source(100).with_idle(idle));
    let check = |policy: Policy, taken, millis: Option<u64>| {
        let time = policy.idle_time(taken);
        assert_eq!(time, millis.map(Duration::from_millis), "{taken}");
    };
    let hundred = Policy::of(104).with_idle(idle);
    check(hundred, 50, None);
    check(hundred, 75, Some(15_000));
    check(hundred, 90, Some(6_000));
    check(hundred, 100, Some(500));
    check(
        hundred.with_idle(Duration::from_millis(200)),
        100,
        Some(200),
    );
    let first = rig.idle("192.0.2.1");
    assert_eq!(rig.after(25_000), []);
    assert_eq!(rig.places.next_deadline(), None);
    rig.answering("192.0.2.2");
    // Two of three: 20 s, which the first has been idle already.
    let reason = Reason::Idle;
    assert_eq!(rig.after(0), [Ended { id: first, reason }]);
    assert_eq!(rig.after(100_000), []);
}

#[test]
fn a_stream_that_a_load_balancer_names_takes_a_place_of_its_client() {
    let mut rig = Rig::new(Policy::of(64));
    let own: Vec<Id> = (0..8).map(|_| rig.idle("198.51.100.7")).collect();
    let id = rig.arrive("127.0.0.1", Class::Node).outcome.unwrap();
    let client = address("198.51.100.7");
    let moved = rig.places.move_to(id, client, Class::Other, rig.now);
    assert_eq!(moved.outcome, Ok(id));
    assert_eq!(ended(&moved), own[..1], "its oldest gives way");
    let taken = rig.places.taken();
    assert_eq!((taken.others, taken.node), (8, 0));
    // All of its streams answer: it gets no place, and that of the load balancer is free again.
    let mut rig = Rig::new(Policy::of(64));
    for _ in 0..8 {
        rig.answering("198.51.100.7");
    }
    let id = rig.arrive("127.0.0.1", Class::Node).outcome.unwrap();
    let moved = rig.places.move_to(id, client, Class::Other, rig.now);
    assert_eq!(moved.outcome, Err(Refusal::Source));
    assert_eq!(rig.places.taken().all(), 8);
    // One that is gone has no place to move to.
    let moved = rig.places.move_to(id, client, Class::Other, rig.now);
    assert_eq!(moved.outcome, Err(Refusal::Full));
}
