//! The lease of the addresses, which a majority of the nodes grants: a gate before a router becomes active, and an end
//! while it is.
//!
//! | lease | a backup | an active router |
//! | --- | --- | --- |
//! | [`Lease::Unneeded`] | goes by advertisements | goes by advertisements |
//! | [`Lease::Awaited`] | waits | stays |
//! | [`Lease::Withheld`] | waits | stays until its lease ends |
//! | [`Lease::Free`] | asks for it after its skew time | asks for it at once, if it had none |
//! | [`Lease::Other`] | asks for it if it may preempt the holder | ends at once |
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
                Some(Demand::Ask { .. }) if !self.would_claim() => self.claim(Reason::Leased, now),
                _ => {}
            },
            // Another was quicker.
            Lease::Other { .. } if self.tenancy.demand == Some(Demand::ASK) => {
                self.demand(Demand::Drop);
            }
            Lease::Unneeded => {
                self.demand(Demand::Drop);
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
            Lease::Other { .. } | Lease::Withheld => self.lose_lease(now),
        }
    }

    /// Ends a router whose lease has ended; true when it had.
    pub(super) fn fence_by_lease(&mut self, now: Instant) -> bool {
        let Phase::Active(active) = &self.phase else {
            return false;
        };
        let has_ended = active.tenure.end().is_some_and(|end| end <= now);
        if has_ended {
            self.lose_lease(now);
        }
        has_ended
    }

    fn lose_lease(&mut self, now: Instant) {
        // Another may have it, and hears nothing of this one.
        self.release(FinalAdvertisement::Silent);
        self.become_backup(Reason::LeaseEnded, Wait::Down, now);
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

    /// When a backup asks for the lease; `None` when it does not, or has.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        let (demand, delay) = self.demand_now()?;
        let has_asked = matches!(self.tenancy.demand, Some(said) if said == demand);
        let since = self.tenancy.since.filter(|_| !has_asked)?;
        Some(since + delay + self.skew_time())
    }

    /// The demand of a backup as the lease is now, and how long after a change it comes.
    fn demand_now(&self) -> Option<(Demand, Duration)> {
        match self.tenancy.lease {
            Lease::Free => Some((Demand::ASK, Duration::ZERO)),
            Lease::Other { priority } if priority < self.priority => {
                match self.settings.preempt {
                    // Its holder wants to be relieved.
                    _ if priority <= PRIORITY_LEAVING => Some((Demand::PREEMPT, Duration::ZERO)),
                    Preempt::After(delay) => Some((Demand::PREEMPT, delay)),
                    Preempt::Never => None,
                }
            }
            _ => None,
        }
    }

    /// Asks for the lease, as a backup whose time has come.
    pub(super) fn ask_for_lease(&mut self, now: Instant) {
        if self.asks_at().is_some_and(|at| at <= now)
            && let Some((demand, _)) = self.demand_now()
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
