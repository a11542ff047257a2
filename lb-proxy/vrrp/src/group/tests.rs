use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::machine::{Departure, Eligibility, Start};
use crate::packet::{Advertisement, Datagram, HOP_LIMIT};
use crate::settings::{RouterSettings, VirtualAddress};

/// Two routers of one group, one for each family.
struct Pair {
    group: Group,
    now: Instant,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn router(address: &str, grouped: bool) -> RouterSettings {
    let entry = VirtualAddress {
        address: ip(address),
        prefix_length: 24,
    };
    let mut settings = RouterSettings::new(address, "eth0", 51, vec![entry]);
    settings.group = grouped.then(|| "both".into());
    settings
}

impl Pair {
    fn new() -> Self {
        let machines =
            ["192.168.7.100", "fd00::100"].map(|address| Machine::new(router(address, true)));
        #[expect(clippy::disallowed_methods, reason = "where a test's time begins")]
        let now = Instant::now();
        let mut pair = Self {
            group: Group::new(machines.into()),
            now,
        };
        pair.tell(0, Input::Source(Some(ip("192.168.7.14"))));
        pair.tell(1, Input::Source(Some(ip("fe80::14"))));
        pair.tell(0, Input::Startup(Start::Fresh));
        pair.tell(1, Input::Startup(Start::Fresh));
        pair
    }

    /// For long enough that nobody before them is still to be heard.
    fn active() -> Self {
        let mut pair = Self::new();
        pair.pass(Duration::from_secs(8));
        assert_eq!(pair.states(), [State::Active; 2]);
        pair
    }

    fn tell(&mut self, member: usize, input: Input<'_>) -> Vec<(usize, Action)> {
        self.group.handle(member, input, self.now);
        std::iter::from_fn(|| self.group.poll_action()).collect()
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.group.next_deadline().filter(|at| *at <= end) {
            self.now = deadline;
            self.tell(0, Input::Deadline);
        }
        self.now = end;
    }

    fn hear(&mut self, member: usize, priority: u8) -> Vec<(usize, Action)> {
        let settings = self.group.members()[member].settings();
        let source = ip(["192.168.7.15", "fe80::15"][member]);
        let destination = settings.destinations()[0];
        let advertisement = Advertisement {
            version: settings.version,
            router_id: settings.router_id,
            priority,
            interval: settings.interval,
            addresses: settings
                .addresses
                .iter()
                .map(|entry| entry.address)
                .collect(),
        };
        let octets = advertisement.compose(
            settings.authentication,
            settings.checksum,
            source,
            destination,
        );
        self.tell(
            member,
            Input::Datagram(Datagram {
                source,
                destination,
                hop_limit: Some(HOP_LIMIT),
                octets: &octets,
            }),
        )
    }

    fn states(&self) -> Vec<State> {
        self.group.members().iter().map(Machine::state).collect()
    }
}

/// What one member has to do, by its first word.
fn of(member: usize, actions: &[(usize, Action)]) -> Vec<String> {
    let ours = actions.iter().filter(|(of, _)| *of == member);
    let first_word = |action: &Action| {
        let text = format!("{action:?}");
        text.split([' ', '(']).next().unwrap().to_owned()
    };
    ours.map(|(_, action)| first_word(action)).collect()
}

#[test]
fn members_claim_when_all_would() {
    let mut pair = Pair::new();
    // One hears an active router, the other hears nobody.
    for _ in 0..10 {
        pair.pass(Duration::from_secs(1));
        pair.hear(1, 200);
        assert_eq!(pair.states(), [State::Backup; 2]);
    }
    assert!(pair.group.members()[0].would_claim());
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.states(), [State::Active; 2]);
}

#[test]
fn all_yield_with_one() {
    let mut pair = Pair::active();
    pair.hear(1, 200);
    // Until the heir has announced the addresses, or should have.
    assert_eq!(pair.states(), [State::Active; 2]);
    pair.now += Duration::from_millis(250);
    let actions = pair.tell(1, Input::Deadline);
    assert_eq!(pair.states(), [State::Backup; 2]);
    assert_eq!(
        of(0, &actions),
        ["Send", "ResetFlows", "RemoveAddresses", "StateChanged"]
    );
    // The other member's timer runs out; the group still has to wait for the one that hears somebody.
    pair.pass(Duration::from_secs(3));
    pair.hear(1, 200);
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.states(), [State::Backup; 2]);
}

#[test]
fn a_fault_of_one_is_everybody_s() {
    let mut pair = Pair::active();
    let actions = pair.tell(0, Input::FaultFound(Fault::Link));
    assert_eq!(pair.states(), [State::Fault; 2]);
    assert_eq!(
        of(1, &actions),
        ["Send", "ResetFlows", "RemoveAddresses", "StateChanged"]
    );
    // A fault that only came from the group does not keep the group in it.
    pair.tell(1, Input::FaultFound(Fault::Kernel));
    pair.tell(0, Input::FaultCleared(Fault::Link));
    assert_eq!(pair.states(), [State::Fault; 2]);
    pair.tell(1, Input::FaultCleared(Fault::Kernel));
    assert_eq!(pair.states(), [State::Backup; 2]);
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.states(), [State::Active; 2]);
}

#[test]
fn nobody_speaks_before_all_have_stepped_back() {
    let mut pair = Pair::active();
    pair.now += Duration::from_secs(5);
    let actions = pair.tell(1, Input::Deadline);
    assert_eq!(pair.states(), [State::Backup; 2]);
    for member in [0, 1] {
        assert!(
            !of(member, &actions).contains(&"Send".to_owned()),
            "{actions:?}"
        );
    }
}

#[test]
fn members_leave_one_by_one_and_none_comes_back() {
    let mut pair = Pair::active();
    for member in [0, 1] {
        pair.tell(member, Input::Shutdown(Departure::HandOver));
    }
    pair.hear(0, 50);
    pair.now += Duration::from_millis(250);
    let actions = pair.tell(0, Input::Deadline);
    assert_eq!(pair.states(), [State::Initialize, State::Active]);
    assert_eq!(of(0, &actions).last().unwrap(), "Stopped");
    assert!(of(1, &actions).is_empty());
    pair.hear(1, 50);
    pair.pass(Duration::from_millis(250));
    assert_eq!(pair.states(), [State::Initialize; 2]);
}

#[test]
fn a_member_that_has_stopped_holds_the_others_back() {
    let mut pair = Pair::new();
    pair.pass(Duration::from_secs(2));
    pair.hear(0, 200);
    pair.pass(Duration::from_secs(2));
    assert!(pair.group.members()[1].would_claim());
    pair.tell(0, Input::Shutdown(Departure::Swap));
    assert_eq!(pair.states(), [State::Initialize, State::Backup]);
}

#[test]
fn an_owner_in_a_group_waits_for_the_others() {
    let mut pair = Pair::new();
    pair.hear(1, 200);
    pair.tell(0, Input::Eligibility(Eligibility::Able(255)));
    assert_eq!(pair.states(), [State::Backup; 2]);
    pair.tell(1, Input::Eligibility(Eligibility::Able(255)));
    assert_eq!(pair.states(), [State::Active; 2]);
}

#[test]
fn a_member_joins_and_leaves_while_the_others_stay() {
    let mut pair = Pair::active();
    let third = pair.group.push(Machine::new(router("192.168.7.101", true)));
    // The others are told of their links before it is told of its own: that it does not know its
    // source yet is nobody's fault but its own until it starts.
    for (member, source) in [
        (0, "192.168.7.14"),
        (1, "fe80::14"),
        (third, "192.168.7.14"),
    ] {
        let actions = pair.tell(member, Input::Source(Some(ip(source))));
        assert_eq!(actions, []);
        assert_eq!(
            pair.tell(member, Input::FaultCleared(Fault::Link)),
            Vec::new()
        );
        assert_eq!(pair.states_of(0), State::Active);
    }
    pair.tell(third, Input::Startup(Start::Fresh));
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.states_of(third), State::Active);
    assert_eq!(pair.states_of(0), State::Active);
    let machine = pair.group.remove(third).unwrap();
    assert_eq!(machine.state(), State::Active);
    assert_eq!(pair.group.members().len(), 2);
    assert!(pair.group.remove(7).is_none());
}

#[test]
fn who_starts_with_a_fault_has_the_others_fail_with_it() {
    let mut pair = Pair::active();
    let third = pair.group.push(Machine::new(router("192.168.7.101", true)));
    pair.tell(third, Input::Startup(Start::Fresh));
    assert_eq!(pair.states(), [State::Fault; 3]);
    pair.tell(third, Input::Source(Some(ip("192.168.7.14"))));
    assert_eq!(pair.states(), [State::Backup; 3]);
}

#[test]
fn a_fault_of_one_that_leaves_goes_with_it() {
    let mut pair = Pair::active();
    pair.tell(1, Input::FaultFound(Fault::Kernel));
    assert_eq!(pair.states(), [State::Fault; 2]);
    pair.group.remove(1).unwrap();
    pair.tell(0, Input::Source(Some(ip("192.168.7.14"))));
    assert_eq!(pair.states(), [State::Backup]);
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.states(), [State::Active]);
}

#[test]
fn a_member_goes_over_to_another_group_as_it_is() {
    let mut pair = Pair::active();
    let mut alone = Pair::new();
    alone.now = pair.now;
    alone.group = Group::new(Vec::new());
    let machine = pair.group.remove(1).unwrap();
    assert_eq!(alone.group.push(machine), 0);
    let source = Some(ip("fe80::14"));
    assert_eq!(alone.tell(0, Input::Source(source)), []);
    let settings = router("fd00::100", false);
    alone.tell(0, Input::Reconfigured(settings.into()));
    alone.pass(Duration::from_secs(4));
    assert_eq!(alone.states(), [State::Active]);
    assert_eq!(alone.group.members()[0].status().counters.become_master, 1);
    // And back again.
    let machine = alone.group.remove(0).unwrap();
    pair.now = alone.now;
    pair.group.push(machine);
    pair.tell(1, Input::Source(source));
    assert_eq!(pair.states_of(1), State::Active);
}

impl Pair {
    fn states_of(&self, member: usize) -> State {
        self.group.members()[member].state()
    }
}

#[test]
fn a_router_in_no_group_is_the_only_member_of_its_own() {
    let mut alone = Pair::new();
    alone.group = Group::new(vec![Machine::new(router("192.168.7.100", false))]);
    alone.tell(0, Input::Source(Some(ip("192.168.7.14"))));
    alone.tell(0, Input::Startup(Start::Fresh));
    alone.pass(Duration::from_secs(4));
    assert_eq!(alone.states_of(0), State::Active);
}

#[test]
fn who_is_alone_in_a_group_claims_when_it_would() {
    let mut alone = Pair::new();
    alone.group = Group::new(vec![Machine::new(router("192.168.7.100", true))]);
    alone.tell(0, Input::Source(Some(ip("192.168.7.14"))));
    alone.tell(0, Input::Startup(Start::Fresh));
    alone.pass(Duration::from_secs(4));
    assert_eq!(alone.states_of(0), State::Active);
}
