//! The lease of the addresses, which a majority of the nodes grants: a gate before a router becomes active, and an end
//! while it is.
//!
//! | lease | a backup | an active router |
//! | --- | --- | --- |
//! | [`Lease::Unneeded`] | goes by advertisements | goes by advertisements |
//! | [`Lease::Awaited`] | waits | stays |
//! | [`Lease::Withheld`] | waits | stays until its lease ends |
//! | [`Lease::Free`] | asks for it after a part of its skew time | asks for it at once, if it had none |
//! | [`Lease::Other`] | asks to be the next, or to preempt the holder if it may | ends at once |
//! | [`Lease::Own`] | becomes active | stays, whatever it hears |
//!
//! So while leases decide, no advertisement makes a router active or ends it, a forged one neither. The
//! holder advertises [`PRIORITY_HOLDER`]: a node whose healthd is away goes by advertisements, and gives way to it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::backup::Wait;
use super::depart::{Departing, Purpose};
use super::event::{Action, Demand, Event, Lease, Reason};
use super::{Announcements, FinalAdvertisement, Machine, PRIORITY_LEAVING, Phase, ReportKind};
use crate::settings::Preempt;

/// The priority that a holder advertises, unless its own is higher.
pub const PRIORITY_HOLDER: u8 = 254;

/// How long a router that is active without a lease may ask for one, once leases decide: longer than nodes that have just
/// started grant none.
const SETTLING: Duration = Duration::from_secs(6);

/// The part of its skew time that a backup leaves a free lease to those of a higher priority. A whole one is for routers that
/// become active without asking; the voters let only one of those have it that ask.
const PARTS_OF_SKEW: u32 = 4;

/// The tie of an active router to its lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tenure {
    /// The end of the lease; `None` without one.
    until: Option<Instant>,
    /// When a router without a lease that needs one ends.
    settled: Option<Instant>,
}

impl Tenure {
    /// When the router ends unless it gets a lease.
    pub(super) fn end(&self) -> Option<Instant> {
        self.until.or(self.settled)
    }

    pub(super) const fn has_lease(&self) -> bool {
        self.until.is_some()
    }
}

/// The lease as the machine knows it.
#[derive(Debug, Default)]
pub(super) struct Tenancy {
    pub(super) lease: Lease,
    /// Since when a backup may want it.
    since: Option<Instant>,
    /// The last demand that was said.
    demand: Option<Demand>,
}

impl Tenancy {
    pub(super) const fn rules(&self) -> bool {
        !matches!(self.lease, Lease::Unneeded)
    }

    fn until(&self) -> Option<Instant> {
        match self.lease {
            Lease::Own { until, .. } => Some(until),
            _ => None,
        }
    }
}

impl Machine {
    /// Whether the addresses need a lease that this router does not have.
    pub(super) fn lacks_lease(&self, now: Instant) -> bool {
        self.tenancy.rules() && self.tenancy.until().is_none_or(|until| until <= now)
    }

    /// The tie of a router that becomes active now.
    pub(super) fn tenure(&self) -> Tenure {
        Tenure {
            until: self.tenancy.until(),
            settled: None,
        }
    }

    /// Says what this router wants of the lease, if that is another demand than before.
    pub(super) fn demand(&mut self, demand: Demand) {
        let is_said = self.tenancy.demand.is_some() || self.tenancy.rules();
        if is_said && self.tenancy.demand != Some(demand) {
            self.tenancy.demand = Some(demand);
            self.actions.push_back(Action::Lease(demand));
        }
    }

    /// Wants nothing of the lease, as a backup does at first, and where advertisements decide.
    pub(super) fn demand_nothing(&mut self) {
        let demand = match self.tenancy.demand {
            // The lease of a process before this one is not given up.
            None | Some(Demand::Wait) => Demand::Wait,
            Some(Demand::Ask { .. } | Demand::Drop) => Demand::Drop,
        };
        self.demand(demand);
    }

    /// Leaves the lease to a successor on this node.
    pub(super) fn leave_lease(&mut self) {
        self.tenancy.demand = Some(Demand::Drop);
    }

    pub(super) fn set_lease(&mut self, lease: Lease, now: Instant) {
        let before = std::mem::replace(&mut self.tenancy.lease, lease);
        if !before.is_alike(&lease) {
            self.tenancy.since = Some(now);
        }
        match &self.phase {
            Phase::Initialize | Phase::Fault => {}
            Phase::Backup(_) => self.set_lease_as_backup(now),
            Phase::Active(active) if active.going.is_some() => {}
            Phase::Active(_) => self.set_lease_as_active(now),
        }
    }

    fn set_lease_as_backup(&mut self, now: Instant) {
        if !matches!(self.tenancy.lease, Lease::Own { .. })
            && self.tenancy.rules()
            && let Phase::Backup(backup) = &mut self.phase
        {
            backup.would_claim = false;
        }
        match self.tenancy.lease {
            Lease::Own { .. } => match self.tenancy.demand {
                // One that waits has it from a process before, which ended without giving it up.
                Some(Demand::Ask { .. } | Demand::Wait) if !self.would_claim() => {
                    self.claim(Reason::Leased, now);
                }
                _ => {}
            },
            Lease::Unneeded => {
                self.demand_nothing();
                self.listen_again(now);
            }
            _ => {}
        }
    }

    /// Goes by advertisements from now on. Its timer may have run out while leases decided.
    fn listen_again(&mut self, now: Instant) {
        let Phase::Backup(backup) = &self.phase else {
            return;
        };
        let wait = self.wait(backup.wait);
        if backup.set + wait < now
            && let Phase::Backup(backup) = &mut self.phase
        {
            backup.set = now;
            backup.wait = Wait::Listen;
        }
    }

    fn set_lease_as_active(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        match self.tenancy.lease {
            Lease::Unneeded => active.tenure = Tenure::default(),
            Lease::Awaited => {}
            Lease::Own { until, preempting } => {
                active.tenure = Tenure {
                    until: Some(until),
                    settled: None,
                };
                self.demand(Demand::ASK);
                if preempting > self.priority {
                    self.yield_lease(now);
                }
            }
            // An end of the lease that is known holds.
            Lease::Free | Lease::Withheld if active.tenure.has_lease() => {}
            Lease::Free => {
                let settled = active.tenure.settled;
                active.tenure.settled = settled.or(Some(now + SETTLING));
                self.demand(Demand::ASK);
            }
            Lease::Other { .. } | Lease::Withheld => self.lose_lease(Wait::Down, now),
        }
    }

    /// Ends a router whose lease has ended; true when it had.
    pub(super) fn fence_by_lease(&mut self, now: Instant) -> bool {
        let Phase::Active(active) = &self.phase else {
            return false;
        };
        let has_ended = active.tenure.end().is_some_and(|end| end <= now);
        if has_ended {
            // Leases may be over for all nodes: then this one is the first to continue by advertisements.
            self.lose_lease(Wait::Regain, now);
        }
        has_ended
    }

    fn lose_lease(&mut self, wait: Wait, now: Instant) {
        // Another may have it, and hears nothing of this one.
        self.release(FinalAdvertisement::Silent);
        self.become_backup(Reason::LeaseEnded, wait, now);
    }

    /// Gives the lease to a node of a higher priority, and the addresses when that has announced them.
    fn yield_lease(&mut self, now: Instant) {
        let interval = self.settings.interval;
        let until = now + interval + interval / 2;
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        active.tenure = Tenure::default();
        active.announcements = Announcements::default();
        // Says nothing more: it is no holder.
        active.due = until;
        active.going = Some(Departing::new(Purpose::Yield, now, until));
        self.demand(Demand::Drop);
    }

    /// When a backup makes its next demand; `None` when it has made all.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        Some(self.next_demand()?.1)
    }

    /// The next demand of a backup as the lease is now, and when it comes.
    ///
    /// A backup asks while another has the lease too: its healthd then knows when that ends, and asks the voters at that time,
    /// the higher the priority, the sooner. So no wait of the router's comes on top of the term.
    fn next_demand(&self) -> Option<(Demand, Instant)> {
        let since = self.tenancy.since?;
        let said = self.tenancy.demand;
        let has_asked = matches!(said, Some(Demand::Ask { .. }));
        let preempts_from = match (self.tenancy.lease, self.settings.preempt) {
            (Lease::Other { priority }, _) if priority >= self.priority => None,
            // Its holder wants to be relieved.
            (Lease::Other { priority }, _) if priority <= PRIORITY_LEAVING => Some(since),
            (Lease::Other { .. }, Preempt::After(delay)) => Some(since + delay),
            _ => None,
        };
        let preempts_at = preempts_from.map(|from| from + self.skew_time());
        match (self.tenancy.lease, preempts_at) {
            // Two that ask together disturb each other: those of a lower priority wait.
            (Lease::Free, _) if !has_asked => {
                Some((Demand::ASK, since + self.skew_time() / PARTS_OF_SKEW))
            }
            (Lease::Other { .. }, _) if !has_asked => Some((Demand::ASK, since)),
            (_, Some(at)) if said != Some(Demand::PREEMPT) => Some((Demand::PREEMPT, at)),
            _ => None,
        }
    }

    /// Makes the demand of a backup whose time has come.
    pub(super) fn ask_for_lease(&mut self, now: Instant) {
        if let Some((demand, at)) = self.next_demand()
            && at <= now
        {
            self.demand(demand);
        }
    }

    /// The holder of the lease hears another router: its place is not another's, whatever that says.
    pub(super) fn overrule(&mut self, source: IpAddr, priority: u8, now: Instant) {
        self.counters.overruled += 1;
        let event = Event::Overruled { source, priority };
        self.report(ReportKind::Overruled, event, now);
        let gap = self.settings.interval / 4;
        if let Phase::Active(active) = &self.phase
            && now >= active.sent + gap
        {
            // Caches may point to the other one.
            self.advertise(now);
            self.announce(1);
        }
    }
}
