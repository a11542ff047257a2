//! The servers of zones, as servers of the zones above have named them.
//!
//! A delegation counts for as long as the referral said, and never longer than the delegation through which it was
//! learnt: a zone that was taken away above is gone in time, whatever its own servers say. So it is renewed by a referral
//! from above only. An address comes from a referral when its name lies in the zone of the referring server; others are
//! looked up like any name, within bounds: a referral costs its sender little and others much (the attack NXNS).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_cache::message::{Message, Referral};
use dns_wire::Name;

/// The most delegations that are remembered. The oldest makes room.
const MAX_DELEGATIONS: usize = 10_000;
/// The bounds of a delegation's time.
const LIFETIME: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(86_400)];
/// The most servers without an address that are looked up for one delegation.
const MAX_UNLOCATED: usize = 2;
/// The most names at which no zone begins that are remembered, and the longest time.
const MAX_INNER: usize = 10_000;
const INNER_LIFETIME: Duration = Duration::from_hours(1);
/// The most lookups of servers' addresses for one question, by the number of such lookups that led to the question.
const MAX_FETCHES: [u8; 2] = [6, 2];

/// The most lookups of servers' addresses for one question when this number of such lookups leads to it.
#[must_use]
pub fn most_fetches(depth: u8) -> u8 {
    MAX_FETCHES.get(usize::from(depth)).copied().unwrap_or(0)
}

/// The beginning of delegations: the root, or the zone of servers that are configured.
pub type Scope = Option<Name>;

/// A delegated zone and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    pub zone: Name,
    /// The addresses of its servers.
    pub addresses: Vec<IpAddr>,
    /// Servers that came without an address.
    pub unlocated: Vec<Name>,
    /// When it ends.
    deadline: Instant,
    /// The word of the zone above on its DS records, and since when.
    ds: Option<(Arc<Message>, Instant)>,
}

impl Delegation {
    /// The delegation of a referral by a server of the zone `from`; `None` unless it leads to a zone below.
    fn of(referral: &Referral, from: &Name, now: Instant) -> Option<Self> {
        if !referral.zone.is_within(from) || referral.zone == *from {
            return None;
        }
        let (mut addresses, mut unlocated) = (Vec::new(), Vec::new());
        for server in &referral.servers {
            if server.name.is_within(from) && !server.addresses.is_empty() {
                addresses.extend_from_slice(&server.addresses);
            } else if !server.name.is_within(&referral.zone) && unlocated.len() < MAX_UNLOCATED {
                // A server inside the zone that it serves can only be found by an address in the referral.
                unlocated.push(server.name.clone());
            }
        }
        Some(Self {
            zone: referral.zone.clone(),
            addresses,
            unlocated,
            deadline: now.after(lifetime(referral.ttl)),
            ds: referral.ds.clone().map(|message| (message, now)),
        })
    }
}

fn lifetime(ttl: u32) -> Duration {
    let [least, most] = LIFETIME;
    Duration::from_secs(ttl.into()).clamp(least, most)
}

/// All delegations.
#[derive(Debug, Default)]
pub struct Delegations {
    known: BTreeMap<(Scope, Name), Delegation>,
    /// In the order in which they were learnt first.
    by_age: VecDeque<(Scope, Name)>,
    /// Names within a zone at which no other one begins, and until when.
    inner: HashMap<Name, Instant>,
    inner_by_age: VecDeque<Name>,
}

impl Delegations {
    /// Learns from a referral by a server of the zone `from`; `None` when it leads nowhere.
    pub fn learn(
        &mut self,
        scope: &Scope,
        from: &Name,
        referral: &Referral,
        now: Instant,
    ) -> Option<Delegation> {
        let mut delegation = Delegation::of(referral, from, now)?;
        if let Some(above) = self.known.get(&(scope.clone(), from.clone())) {
            delegation.deadline = delegation.deadline.min(above.deadline);
        }
        self.keep(scope, delegation.clone());
        Some(delegation)
    }

    /// Learns where the root's servers are from one of them.
    pub fn learn_root(&mut self, addresses: Vec<IpAddr>, ttl: u32, now: Instant) {
        let root = Delegation {
            zone: Name::root(),
            addresses,
            unlocated: Vec::new(),
            deadline: now.after(lifetime(ttl)),
            ds: None,
        };
        self.keep(&None, root);
    }

    fn keep(&mut self, scope: &Scope, mut delegation: Delegation) {
        let place = (scope.clone(), delegation.zone.to_lowercase());
        // A referral to a query without DO has no signatures, and takes nothing back.
        let before = self.known.get_mut(&place).and_then(|it| it.ds.take());
        delegation.ds = delegation.ds.or(before);
        if self.known.insert(place.clone(), delegation).is_none() {
            self.by_age.push_back(place);
        }
        while self.by_age.len() > MAX_DELEGATIONS {
            if let Some(oldest) = self.by_age.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Notes the addresses of servers that came without one.
    pub fn locate(&mut self, scope: &Scope, zone: &Name, addresses: &[IpAddr]) {
        if let Some(known) = self.known.get_mut(&(scope.clone(), zone.clone()))
            && known.addresses.is_empty()
        {
            known.addresses = addresses.to_vec();
        }
    }

    /// The deepest zone at or above a name whose servers' addresses are known.
    #[must_use]
    pub fn deepest(&self, scope: &Scope, name: &Name, now: Instant) -> Option<&Delegation> {
        (0..=name.n_labels()).rev().find_map(|n| {
            let known = self.known.get(&(scope.clone(), name.suffix(n)))?;
            (known.deadline > now && !known.addresses.is_empty()).then_some(known)
        })
    }

    /// Notes that no zone begins at a name below the root: its servers need not be asked for it alone once more.
    pub fn note_inner(&mut self, name: Name, ttl: u32, now: Instant) {
        let until = now.after(Duration::from_secs(ttl.into()).min(INNER_LIFETIME));
        if self.inner.insert(name.clone(), until).is_none() {
            self.inner_by_age.push_back(name);
        }
        while self.inner_by_age.len() > MAX_INNER {
            if let Some(oldest) = self.inner_by_age.pop_front() {
                self.inner.remove(&oldest);
            }
        }
    }

    /// Whether no zone is known to begin at a name.
    #[must_use]
    pub fn is_inner(&self, name: &Name, now: Instant) -> bool {
        self.inner.get(name).is_some_and(|until| *until > now)
    }

    /// The answer to the question for a zone's DS records, if the referral to it had that and its TTLs have not ended. It is
    /// not validated.
    #[must_use]
    pub fn ds(&self, scope: &Scope, zone: &Name, now: Instant) -> Option<Message> {
        let known = self.known.get(&(scope.clone(), zone.to_lowercase()))?;
        let (message, since) = known.ds.as_ref().filter(|_| known.deadline > now)?;
        let age = u32::try_from(now.since(*since).as_secs()).ok()?;
        (age < message.least_ttl()).then(|| message.aged(age))
    }

    /// Forgets a zone whose servers do not answer: the zone above may name others.
    pub fn forget(&mut self, scope: &Scope, zone: &Name) {
        let place = (scope.clone(), zone.to_lowercase());
        if self.known.remove(&place).is_some() {
            self.by_age.retain(|known| *known != place);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The number of delegations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use dns_cache::message::NameServer;
    use dns_cache::testing::Random;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn referral(zone: &str, ttl: u32, servers: &[(&str, &[&str])]) -> Referral {
        let servers = servers.iter().map(|(server, addresses)| NameServer {
            name: name(server),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        });
        Referral {
            zone: name(zone),
            servers: servers.collect(),
            ttl,
            ds: None,
        }
    }

    fn deepest(known: &Delegations, of: &str, now: u64) -> Option<String> {
        let found = known.deepest(&None, &name(of), at(now));
        found.map(|found| found.zone.to_string())
    }

    #[test]
    fn addresses_count_when_their_names_are_the_referring_zones() {
        let servers: &[(&str, &[&str])] = &[
            ("ns.a.test", &["192.0.2.1"]),
            ("ns.b.test", &["192.0.2.2"]),
            ("ns.evil.example", &["192.0.2.66"]),
            ("ns.a.test.example", &[]),
            ("lost.a.test", &[]),
            ("ns.third.example", &[]),
        ];
        let mut known = Delegations::default();
        let found = known.learn(
            &None,
            &name("test"),
            &referral("A.test", 300, servers),
            at(0),
        );
        let found = found.unwrap();
        let addresses: Vec<String> = found.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["192.0.2.1", "192.0.2.2"]);
        let unlocated: Vec<String> = found.unlocated.iter().map(Name::to_string).collect();
        assert_eq!(unlocated, ["ns.evil.example.", "ns.a.test.example."]);
    }

    #[test]
    fn only_a_zone_above_delegates() {
        let mut known = Delegations::default();
        let servers: &[(&str, &[&str])] = &[("ns.a.test", &["192.0.2.1"])];
        for (from, zone) in [
            ("a.test", "a.test"),
            ("a.test", "test"),
            ("b.test", "a.test"),
        ] {
            let learnt = known.learn(&None, &name(from), &referral(zone, 300, servers), at(0));
            assert_eq!(learnt, None, "{from} {zone}");
        }
        assert!(known.is_empty());
    }

    #[test]
    fn a_delegation_ends_with_its_time_and_with_that_of_the_one_above() {
        let mut known = Delegations::default();
        let servers: &[(&str, &[&str])] = &[("ns.test", &["192.0.2.1"])];
        let root = Name::root();
        known.learn(&None, &root, &referral("test", 100, servers), at(0));
        known.learn(
            &None,
            &name("test"),
            &referral("a.test", 86_400, servers),
            at(50),
        );
        assert_eq!(
            deepest(&known, "www.a.test", 99).as_deref(),
            Some("a.test.")
        );
        assert_eq!(
            deepest(&known, "www.A.TEST", 99).as_deref(),
            Some("a.test.")
        );
        assert_eq!(deepest(&known, "www.b.test", 99).as_deref(), Some("test."));
        assert_eq!(deepest(&known, "www.a.test", 100), None);
        // Neither too short nor too long.
        known.learn(&None, &root, &referral("test", 0, servers), at(200));
        assert!(deepest(&known, "test", 259).is_some() && deepest(&known, "test", 260).is_none());
        known.learn(&None, &root, &referral("test", u32::MAX, servers), at(300));
        assert!(deepest(&known, "test", 86_699).is_some());
        assert!(deepest(&known, "test", 86_700).is_none());
    }

    #[test]
    fn names_within_a_zone_are_remembered_for_their_time_and_are_bounded() {
        let mut known = Delegations::default();
        known.note_inner(name("ent.a.test"), 30, at(0));
        assert!(known.is_inner(&name("ENT.a.test"), at(29)));
        assert!(!known.is_inner(&name("ent.a.test"), at(30)));
        assert!(!known.is_inner(&name("a.test"), at(0)));
        known.note_inner(name("ent.a.test"), u32::MAX, at(40));
        assert!(known.is_inner(&name("ent.a.test"), at(3_639)));
        assert!(!known.is_inner(&name("ent.a.test"), at(3_640)));
        for n in 0..MAX_INNER {
            known.note_inner(name(&format!("n{n}.test")), 30, at(50));
        }
        assert_eq!(
            (known.inner.len(), known.inner_by_age.len()),
            (MAX_INNER, MAX_INNER)
        );
        assert!(!known.is_inner(&name("ent.a.test"), at(60)));
    }

    #[test]
    fn what_the_zone_above_says_of_ds_records_counts_as_long_as_it_says() {
        let message = Message::empty(
            &dns_cache::testing::question("a.test", dns_wire::Type::DS),
            dns_wire::Rcode::NOERROR,
        );
        assert_eq!(message.map(|it| it.least_ttl()), Some(0));
        let owner = name("a.test");
        let row = dns_cache::message::Row {
            section: dns_wire::Section::Answer,
            owner: &owner,
            rtype: dns_wire::Type::DS,
            ttl: 50,
            rdata: &[1, 2, 3, 4, 5],
        };
        let question = dns_cache::testing::question("a.test", dns_wire::Type::DS);
        let message = Message::compose(&question, dns_wire::Rcode::NOERROR, &[row]).unwrap();
        let servers: &[(&str, &[&str])] = &[("ns.a.test", &["192.0.2.1"])];
        let mut signed = referral("A.test", 300, servers);
        signed.ds = Some(Arc::new(message));
        let mut known = Delegations::default();
        known.learn(&None, &name("test"), &signed, at(100));
        // A referral without it takes nothing back.
        known.learn(
            &None,
            &name("test"),
            &referral("a.test", 300, servers),
            at(110),
        );
        let ttl = |now| {
            known
                .ds(&None, &name("a.TEST"), at(now))
                .map(|it| it.least_ttl())
        };
        assert_eq!(
            [100, 120, 149, 150].map(ttl),
            [Some(50), Some(30), Some(1), None]
        );
        assert_eq!(known.ds(&None, &name("test"), at(100)), None);
    }

    #[test]
    fn scopes_know_nothing_of_each_other() {
        let mut known = Delegations::default();
        let servers: &[(&str, &[&str])] = &[("ns.a.test", &["192.0.2.1"])];
        let scope = Some(name("test"));
        known.learn(
            &scope,
            &name("test"),
            &referral("a.test", 100, servers),
            at(0),
        );
        assert_eq!(deepest(&known, "a.test", 1), None);
        assert!(known.deepest(&scope, &name("a.test"), at(1)).is_some());
        known.forget(&scope, &name("A.test"));
        assert!(known.is_empty() && known.by_age.is_empty());
    }

    #[test]
    fn a_zone_without_addresses_counts_once_they_are_found() {
        let mut known = Delegations::default();
        known.learn(
            &None,
            &Name::root(),
            &referral("test", 100, &[("ns.other", &[])]),
            at(0),
        );
        assert_eq!(deepest(&known, "a.test", 1), None);
        known.locate(&None, &name("test"), &["192.0.2.9".parse().unwrap()]);
        known.locate(&None, &name("test"), &["192.0.2.66".parse().unwrap()]);
        let found = known.deepest(&None, &name("a.test"), at(1)).unwrap();
        assert_eq!(found.addresses, ["192.0.2.9".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn lookups_of_servers_are_few_and_end() {
        assert_eq!([0, 1, 2, 200].map(most_fetches), [6, 2, 0, 0]);
    }

    /// Whatever referrals come: no zone is in force that the zone above has not named, none outlives the one above, and
    /// there are never too many.
    #[test]
    fn referrals_in_any_order_keep_the_bounds() {
        for seed in 1..=16 {
            let mut random = Random(seed);
            let mut known = Delegations::default();
            for step in 0..3_000_u64 {
                let label = |n: u64| format!("l{n}");
                let zone = format!("{}.{}", label(random.below(60)), label(random.below(60)));
                let deep = format!("{}.{zone}", label(random.below(9)));
                let (from, to) = match random.below(4) {
                    0 => (zone.clone(), deep),
                    1 => (deep, zone.clone()),
                    2 => (".".to_owned(), zone.clone()),
                    _ => (zone.clone(), zone.clone()),
                };
                let server = format!("ns.{to}");
                let servers: &[(&str, &[&str])] = &[(&server, &["192.0.2.1"])];
                let ttl = u32::try_from(random.below(500)).unwrap();
                let from = name(&from);
                let learnt = known.learn(&None, &from, &referral(&to, ttl, servers), at(step));
                let is_below = name(&to).is_within(&from) && name(&to) != from;
                assert_eq!(learnt.is_some(), is_below, "{seed}");
                if let (Some(learnt), Some(above)) = (learnt, known.known.get(&(None, from))) {
                    assert!(learnt.deadline <= above.deadline, "{seed}");
                }
                assert_eq!(known.known.len(), known.by_age.len());
                assert!(known.len() <= MAX_DELEGATIONS);
            }
        }
    }
}
