//! A machine on a bench: one moment after the other, and what it says is written in one line.

mod depart;
mod edits;
mod heard;
mod lease;
mod probe;
mod table;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::checksum::ChecksumForm;
use crate::packet::{Authentication, Datagram, HOP_LIMIT};
use crate::settings::{Announce, Preempt, VirtualAddress};

/// This node, one with a lower address and one with a higher.
const OWN: &str = "192.168.7.14";
const LOWER: &str = "192.168.7.13";
const HIGHER: &str = "192.168.7.15";

/// The same, over IPv6.
const OWN_6: &str = "fe80::14";
const LOWER_6: &str = "fe80::13";
const HIGHER_6: &str = "fe80::15";

const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn address(last: u8) -> VirtualAddress {
    VirtualAddress {
        address: [192, 168, 7, last].into(),
        prefix_length: 24,
    }
}

/// Priority 100, an interval of 1 s: a skew time of 609.375 ms, a down interval of 3609.375 ms.
fn settings() -> RouterSettings {
    RouterSettings {
        // What is asked at the start has tests of its own.
        probe: false,
        ..RouterSettings::new("api", "eth0", 51, vec![address(100)])
    }
}

/// As [`settings`], with an address of IPv6.
fn settings_6() -> RouterSettings {
    let address = VirtualAddress {
        address: ip("fd00::100"),
        prefix_length: 128,
    };
    RouterSettings {
        addresses: vec![address],
        ..settings()
    }
}

/// Skew and down intervals of these settings.
const SKEW: Duration = Duration::from_micros(609_375);
const DOWN: Duration = Duration::from_micros(3_609_375);

struct Bench {
    machine: Machine,
    start: Instant,
    now: Instant,
}

impl Bench {
    /// Not started; knows its source.
    fn new(settings: RouterSettings) -> Self {
        #[expect(clippy::disallowed_methods, reason = "where a test's time begins")]
        let start = Instant::now();
        let own = if settings.is_ipv6() { OWN_6 } else { OWN };
        let mut bench = Self {
            machine: Machine::new(settings),
            start,
            now: start,
        };
        assert_eq!(bench.tell(Input::Source(Some(ip(own)))), "");
        bench
    }

    fn backup(settings: RouterSettings) -> Self {
        let mut bench = Self::new(settings);
        bench.tell(Input::Startup(Start::Fresh));
        assert_eq!(bench.machine.state(), State::Backup);
        bench
    }

    /// Active for half an interval, with no announcement to repeat.
    fn active(settings: RouterSettings) -> Self {
        let mut bench = Self::backup(settings);
        bench.wait_out();
        bench.pass(millis(6_500));
        assert_eq!(bench.machine.state(), State::Active);
        bench
    }

    /// Started, and has asked who has the addresses.
    fn asking(mut settings: RouterSettings) -> Self {
        settings.probe = true;
        Self::backup(settings)
    }

    fn leaving(settings: RouterSettings) -> Self {
        let mut bench = Self::active(settings);
        bench.tell(Input::Shutdown(Departure::HandOver));
        assert!(bench.machine.is_handing_over());
        bench
    }

    /// A higher priority was heard.
    fn yielding(settings: RouterSettings) -> Self {
        let mut bench = Self::active(settings);
        assert_eq!(bench.hear(HIGHER, 200), "send 100");
        assert_eq!(bench.machine.purpose(), Some(Purpose::Yield));
        bench
    }

    /// Hands over, and somebody else has taken over.
    fn succeeded(settings: RouterSettings) -> Self {
        let mut bench = Self::leaving(settings);
        bench.pass(millis(500));
        assert_eq!(bench.hear(HIGHER, 50), "");
        assert!(bench.is_succeeded());
        bench
    }

    fn failed(settings: RouterSettings) -> Self {
        let mut bench = Self::backup(settings);
        bench.tell(Input::FaultFound(Fault::Link));
        assert_eq!(bench.machine.state(), State::Fault);
        bench
    }

    /// Tells something, and says what comes of it.
    fn tell(&mut self, input: Input<'_>) -> String {
        self.machine.handle(input, self.now);
        self.actions()
    }

    /// Somebody else says to have an address.
    fn claimed(&mut self, last: u8) -> String {
        self.claimed_this(address(last).address)
    }

    fn claimed_this(&mut self, address: IpAddr) -> String {
        let by = [2, 0, 0, 0, 0, 1];
        self.tell(Input::DuplicateSeen { address, by })
    }

    fn is_succeeded(&self) -> bool {
        let going = match &self.machine.phase {
            Phase::Active(active) => active.going.as_ref(),
            _ => None,
        };
        going.is_some_and(Departing::is_silent)
    }

    /// Time passes, and every deadline in it is met.
    fn pass(&mut self, time: Duration) -> String {
        let end = self.now + time;
        let mut said = Vec::new();
        while let Some(deadline) = self.machine.next_deadline().filter(|at| *at <= end) {
            self.now = deadline.max(self.now);
            let at = deadline.duration_since(self.start).as_millis();
            said.push(format!("{at}: {}", self.tell(Input::Deadline)));
        }
        self.now = end;
        said.join(" | ")
    }

    /// The next deadline is met.
    fn wait_out(&mut self) -> String {
        self.now = self.machine.next_deadline().unwrap().max(self.now);
        self.tell(Input::Deadline)
    }

    /// Time passes, and nobody looks.
    fn oversleep(&mut self, time: Duration) {
        self.now += time;
    }

    fn until_deadline_or_none(&self) -> Option<Instant> {
        self.machine.next_deadline()
    }

    fn until_deadline(&self) -> Duration {
        self.machine.next_deadline().unwrap() - self.now
    }

    fn advertisement(&self, priority: u8) -> Advertisement {
        let settings = self.machine.settings();
        Advertisement {
            version: settings.version,
            router_id: settings.router_id,
            priority,
            interval: settings.interval,
            addresses: settings
                .addresses
                .iter()
                .map(|entry| entry.address)
                .collect(),
        }
    }

    fn hear(&mut self, source: &str, priority: u8) -> String {
        let advertisement = self.advertisement(priority);
        self.hear_this(source, &advertisement)
    }

    fn hear_this(&mut self, source: &str, advertisement: &Advertisement) -> String {
        let settings = Arc::clone(self.machine.settings());
        self.hear_as(source, advertisement, &settings)
    }

    /// From somebody who has these settings.
    fn hear_as(
        &mut self,
        source: &str,
        advertisement: &Advertisement,
        settings: &RouterSettings,
    ) -> String {
        let source = ip(source);
        let destination = match &settings.peers {
            Peers::Multicast => settings.destinations()[0],
            Peers::Unicast(_) => ip(OWN),
        };
        let octets = advertisement.compose(
            settings.authentication,
            settings.checksum,
            source,
            destination,
        );
        self.tell(Input::Datagram(Datagram {
            source,
            destination,
            hop_limit: Some(HOP_LIMIT),
            octets: &octets,
        }))
    }

    fn edit(&mut self, change: impl FnOnce(&mut RouterSettings)) -> String {
        let mut settings = RouterSettings::clone(self.machine.settings());
        change(&mut settings);
        self.tell(Input::Reconfigured(settings.into()))
    }

    fn actions(&mut self) -> String {
        let mut said = Vec::new();
        while let Some(action) = self.machine.poll_action() {
            said.push(shown(&action));
        }
        said.join(", ")
    }
}

fn shown(action: &Action) -> String {
    let last = |address: &IpAddr| {
        address
            .to_string()
            .rsplit(['.', ':'])
            .next()
            .unwrap()
            .to_owned()
    };
    let all = |addresses: &[IpAddr]| {
        let each: Vec<_> = addresses.iter().map(last).collect();
        each.join("+")
    };
    let entries = |entries: &[VirtualAddress]| {
        let addresses: Vec<_> = entries.iter().map(|entry| entry.address).collect();
        all(&addresses)
    };
    match action {
        Action::Send { advertisement, to } => match to {
            Audience::All => format!("send {}", advertisement.priority),
            Audience::One(guest) => {
                format!("send {} to {}", advertisement.priority, last(guest))
            }
        },
        Action::AddAddresses(list) => format!("add {}", entries(list)),
        Action::RemoveAddresses(list) => format!("remove {}", entries(list)),
        Action::Announce { addresses, count } => format!("announce {} x{count}", all(addresses)),
        Action::Probe(addresses) => format!("probe {}", all(addresses)),
        Action::ResetFlows(addresses) => format!("reset {}", all(addresses)),
        Action::StateChanged { from, to, reason } => format!("{from} > {to}: {reason}"),
        Action::Report(event) => {
            let text = format!("{event:?}");
            let name = text.split([' ', '{']).next().unwrap();
            format!("report {name}")
        }
        Action::WouldClaim => "would claim".to_owned(),
        Action::Lease(demand) => format!("lease {demand:?}"),
        Action::Stopped => "stopped".to_owned(),
    }
}

const TAKEOVER: &str = "add 100, send 100, announce 100 x5";
const RELEASE: &str = "send 0, reset 100, remove 100";

//--- Election

#[test]
fn a_silent_network_makes_us_active_after_the_down_interval() {
    let mut bench = Bench::backup(settings());
    assert_eq!(bench.machine.skew_time(), SKEW);
    assert_eq!(bench.machine.active_down_interval(), DOWN);
    assert_eq!(bench.until_deadline(), DOWN);
    assert_eq!(
        bench.pass(DOWN),
        format!("3609: {TAKEOVER}, backup > active: no active router was heard")
    );
}

/// RFC 3768 §6.1: the skew time of version 2 is part of a second, whatever the interval.
#[test]
fn version_2_skews_by_the_second() {
    let mut settings = settings();
    settings.version = Version::V2;
    settings.interval = Duration::from_secs(4);
    let bench = Bench::backup(settings);
    assert_eq!(bench.machine.skew_time(), SKEW);
    assert_eq!(bench.until_deadline(), Duration::from_secs(12) + SKEW);
}

#[test]
fn an_active_router_speaks_on_the_beat() {
    let mut settings = settings();
    settings.announce.again_after = None;
    let mut bench = Bench::backup(settings);
    bench.wait_out();
    assert_eq!(
        bench.pass(millis(3_000)),
        "3709: announce 100 x1 | 4609: send 100 | 5609: send 100 | 6609: send 100"
    );
    // A little late once, and on the beat again.
    bench.oversleep(millis(1_200));
    assert_eq!(bench.tell(Input::Deadline), "send 100");
    assert_eq!(bench.until_deadline(), millis(800));
}

#[test]
fn the_owner_is_active_at_once() {
    let mut settings = settings();
    settings.priority = 255;
    let mut bench = Bench::new(settings);
    assert_eq!(
        bench.tell(Input::Startup(Start::Fresh)),
        "add 100, send 255, announce 100 x5, initialize > active: owns the addresses"
    );
}

#[test]
fn a_router_that_stops_is_replaced_after_the_skew_time() {
    let mut bench = Bench::backup(settings());
    bench.hear(HIGHER, 200);
    bench.pass(millis(500));
    assert_eq!(bench.hear(HIGHER, 0), "");
    assert_eq!(bench.until_deadline(), SKEW);
    assert_eq!(
        bench.wait_out(),
        format!("{TAKEOVER}, backup > active: the active router stopped")
    );
    assert_eq!(bench.machine.status().counters.pri_zero_rcvd, 1);
}

#[test]
fn a_stop_of_somebody_who_is_not_active_is_not_the_end() {
    let mut bench = Bench::backup(settings());
    bench.hear(HIGHER, 200);
    assert_eq!(bench.hear(LOWER, 0), "");
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn equal_priority_is_decided_by_address_among_active_routers_only() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.hear(LOWER, 100),
        "report LowerHeard, send 100, announce 100 x5"
    );
    assert_eq!(bench.hear(HIGHER, 100), "send 100");
    assert_eq!(
        bench.wait_out(),
        "reset 100, remove 100, send 100, active > backup: 192.168.7.15 has a higher priority"
    );
    // A backup leaves an active router of its own priority alone.
    bench.pass(millis(3_000));
    bench.hear(LOWER, 100);
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn two_owners_are_decided_by_address_and_reported() {
    let mut settings = settings();
    settings.priority = 255;
    let mut bench = Bench::new(settings);
    bench.tell(Input::Startup(Start::Fresh));
    assert!(bench.hear(LOWER, 255).starts_with("report TwoOwners, "));
    assert!(bench.hear(HIGHER, 255).ends_with("send 255"));
    assert!(bench.wait_out().ends_with("has a higher priority"));
}

#[test]
fn a_lower_priority_does_not_stop_the_timer() {
    let mut bench = Bench::backup(settings());
    bench.pass(millis(1_000));
    assert_eq!(bench.hear(HIGHER, 99), "");
    assert_eq!(bench.until_deadline() + millis(1_000), DOWN);
    assert!(bench.wait_out().ends_with("has a lower priority"));
}

#[test]
fn no_preempt_leaves_a_lower_priority_alone_while_it_speaks() {
    let mut settings = settings();
    settings.preempt = Preempt::Never;
    let mut bench = Bench::backup(settings);
    for _ in 0..20 {
        assert_eq!(bench.pass(millis(1_000)), "");
        bench.hear(LOWER, 50);
        assert_eq!(bench.until_deadline(), DOWN);
    }
    assert!(bench.wait_out().ends_with("no active router was heard"));
}

#[test]
fn a_preempt_delay_counts_from_the_first_lower_priority() {
    let mut settings = settings();
    settings.preempt = Preempt::After(Duration::from_secs(10));
    let mut bench = Bench::backup(settings);
    for _ in 0..11 {
        assert_eq!(bench.pass(millis(1_000)), "");
        bench.hear(LOWER, 50);
    }
    // The last one that counted was at 10 s.
    assert_eq!(bench.until_deadline() + millis(1_000), DOWN);
    // Somebody better in between: it begins anew.
    bench.hear(HIGHER, 150);
    bench.hear(LOWER, 50);
    assert_eq!(bench.until_deadline(), DOWN);
    bench.pass(millis(1_000));
    bench.hear(LOWER, 50);
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn version_3_goes_by_the_active_router_s_interval() {
    let mut bench = Bench::backup(settings());
    let mut advertisement = bench.advertisement(200);
    advertisement.interval = millis(200);
    assert_eq!(
        bench.hear_this(HIGHER, &advertisement),
        "report IntervalLearnt"
    );
    // 3 * 200 ms + 200 ms * 156 / 256.
    assert_eq!(bench.until_deadline(), Duration::from_micros(721_875));
    bench.wait_out();
    // An announcement that follows soon comes before.
    assert_eq!(bench.wait_out(), "announce 100 x1");
    assert_eq!(bench.until_deadline(), millis(900));
    assert_eq!(bench.machine.active_down_interval(), DOWN);
}

#[test]
fn version_2_refuses_another_interval() {
    let mut settings = settings();
    settings.version = Version::V2;
    let mut bench = Bench::backup(settings);
    let mut advertisement = bench.advertisement(200);
    advertisement.interval = Duration::from_secs(2);
    assert_eq!(bench.hear_this(HIGHER, &advertisement), "report Refused");
    let counters = bench.machine.status().counters;
    assert_eq!(counters.refused(Refusal::Interval), 1);
    assert_eq!(counters.advert_rcvd, 0);
}

#[test]
fn a_better_standing_shortens_the_wait_at_once() {
    let mut bench = Bench::backup(settings());
    bench.pass(millis(3_400));
    assert_eq!(bench.tell(Input::Eligibility(Eligibility::Able(254))), "");
    // 3 s and 2/256 s after the start, which is past: nothing is late.
    assert_eq!(bench.until_deadline(), Duration::ZERO);
    assert!(bench.wait_out().starts_with("add 100, send 254"));
}

#[test]
fn an_active_router_tells_its_standing_at_once() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.tell(Input::Eligibility(Eligibility::Able(60))),
        "send 60"
    );
    assert_eq!(bench.tell(Input::Eligibility(Eligibility::Able(60))), "");
    assert_eq!(bench.until_deadline(), millis(1_000));
}

//--- Being relieved

#[test]
fn a_router_that_leaves_is_relieved_whatever_the_preempt_mode() {
    for preempt in [Preempt::Never, Preempt::After(Duration::from_secs(300))] {
        let mut settings = settings();
        settings.preempt = preempt;
        let mut bench = Bench::backup(settings);
        bench.hear(LOWER, 50);
        bench.pass(millis(1_000));
        bench.hear(LOWER, 1);
        assert_eq!(bench.until_deadline(), SKEW);
        bench.pass(millis(300));
        // It goes on saying so, which changes nothing.
        bench.hear(LOWER, 1);
        assert_eq!(bench.until_deadline() + millis(300), SKEW);
        assert!(bench.wait_out().starts_with(TAKEOVER));
    }
}

#[test]
fn a_router_that_always_had_priority_1_does_not_leave() {
    let mut settings = settings();
    settings.preempt = Preempt::Never;
    let mut bench = Bench::backup(settings);
    bench.hear(LOWER, 1);
    bench.pass(millis(1_000));
    bench.hear(LOWER, 1);
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn a_router_that_stays_after_all_is_left_alone() {
    let mut settings = settings();
    settings.preempt = Preempt::Never;
    let mut bench = Bench::backup(settings);
    bench.hear(LOWER, 50);
    bench.hear(LOWER, 1);
    bench.hear(LOWER, 50);
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn a_swap_leaves_the_address_to_the_next_process() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.tell(Input::Shutdown(Departure::Swap)),
        "active > initialize: stopped, stopped"
    );
    let mut next = Bench::new(settings());
    assert_eq!(
        next.tell(Input::Startup(Start::Resume)),
        format!("{TAKEOVER}, initialize > active: resumed")
    );
}

#[test]
fn what_cannot_be_resumed_is_released() {
    let mut next = Bench::new(settings());
    next.tell(Input::FaultFound(Fault::Link));
    assert_eq!(
        next.tell(Input::Startup(Start::Resume)),
        "reset 100, remove 100, initialize > fault: the link is down"
    );
}

//--- Being late

#[test]
fn a_router_that_was_silent_for_too_long_steps_back_before_it_speaks() {
    let mut bench = Bench::active(settings());
    bench.wait_out();
    bench.oversleep(millis(2_999));
    assert_eq!(bench.tell(Input::Deadline), "send 100");
    bench.oversleep(millis(3_000));
    assert_eq!(
        bench.hear(LOWER, 50),
        "report Paused, reset 100, remove 100, active > backup: was paused"
    );
    assert_eq!(bench.until_deadline(), DOWN);
    assert_eq!(bench.machine.status().counters.pauses, 1);
}

/// What the active router has sent meanwhile is in the socket still.
#[test]
fn a_backup_that_did_not_run_listens_before_it_takes_over() {
    let mut bench = Bench::backup(settings());
    bench.oversleep(DOWN + millis(1_001));
    assert_eq!(bench.tell(Input::Deadline), "report Paused");
    assert_eq!(bench.until_deadline(), millis(1_000));
    // It listens once, or a busy node would never take over.
    bench.oversleep(millis(5_000));
    assert!(bench.tell(Input::Deadline).starts_with(TAKEOVER));
}

#[test]
fn a_backup_that_is_a_little_late_takes_over() {
    let mut bench = Bench::backup(settings());
    bench.oversleep(DOWN + millis(1_000));
    assert!(bench.tell(Input::Deadline).starts_with(TAKEOVER));
}

//--- Announcing

#[test]
fn addresses_are_announced_again_after_5_seconds() {
    let mut bench = Bench::backup(settings());
    bench.wait_out();
    let said = bench.pass(millis(20_000));
    // And once soon: what the router before said in its last moments may have gone unseen.
    assert!(said.starts_with("3709: announce 100 x1 | "), "{said}");
    assert_eq!(said.matches("announce").count(), 2, "{said}");
    assert!(said.contains("8609: send 100, announce 100 x5"), "{said}");
}

#[test]
fn announcements_are_refreshed_if_asked_for() {
    let mut settings = settings();
    settings.announce = Announce {
        count: 2,
        again_after: None,
        refresh: Some(Duration::from_secs(60)),
    };
    let mut bench = Bench::backup(settings);
    assert!(bench.wait_out().contains("announce 100 x2"));
    bench.pass(Duration::from_secs(1));
    let said = bench.pass(Duration::from_secs(130));
    assert_eq!(said.matches("announce 100 x1").count(), 2, "{said}");
}

#[test]
fn a_lower_priority_is_answered_every_time_and_reported_once_a_minute() {
    let mut bench = Bench::active(settings());
    let answer = "send 100, announce 100 x5";
    assert_eq!(
        bench.hear(LOWER, 50),
        format!("report LowerHeard, {answer}")
    );
    for _ in 0..59 {
        bench.pass(millis(1_000));
        assert_eq!(bench.hear(LOWER, 50), answer);
    }
    bench.pass(millis(1_000));
    assert_eq!(
        bench.hear(LOWER, 50),
        format!("report LowerHeard, {answer}")
    );
    assert_eq!(bench.machine.status().counters.lower_rcvd, 61);
}

#[test]
fn a_duplicate_is_answered_ten_times_a_second() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.claimed(100),
        "report Duplicate, send 100, announce 100 x1"
    );
    for _ in 1..10 {
        assert_eq!(bench.claimed(100), "announce 100 x1");
    }
    assert_eq!(bench.claimed(100), "");
    assert_eq!(bench.claimed(101), "");
    bench.oversleep(millis(1_000));
    assert_eq!(bench.claimed(100), "send 100, announce 100 x1");
    assert_eq!(bench.machine.status().counters.duplicates, 12);
}
