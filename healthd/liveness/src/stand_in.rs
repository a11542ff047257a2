//! When a subscriber of healthd probes by itself, and what it finds.
//!
//! ```text
//!              healthd goes                    too long
//!   healthd ──────────────────► last states ──────────────► own probes
//!      ▲                             │                           │
//!      └──────── healthd is back ────┴───────────────────────────┘
//! ```
//!
//! The own probes begin where healthd ended: with its states, by its schedules, and with the decisions of operators that it
//! reported. A decision holds until healthd is back, because a subscriber does not know its end.
//!
//! Pure: the shell says what time it is and whether healthd is connected, starts probes and carries their results.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use health::{Deviation, Schedule, Snapshot, Target, TargetStatus, Watched};

use crate::monitor::{Limits, Monitor, Probe, Restored, Statement, SubscriberId};
use crate::now::Now;
use crate::schedule::TargetId;
use crate::schedules::Schedules;
use crate::table::{Finding, Known, Seen};

/// The source of the states that a subscriber uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// healthd, which is connected.
    Healthd,
    /// healthd's last states.
    LastStates,
    /// Probes of the subscriber's own.
    OwnProbes,
}

/// Decides when a subscriber probes by itself, and does then what healthd does for it.
#[derive(Debug)]
pub struct Machine {
    after: Duration,
    limits: Limits,
    seed: u64,
    targets: Arc<[Watched]>,
    phase: Phase,
    /// Tells the probes of one stand-in from those of the next, which have the same numbers.
    round: u64,
}

#[derive(Debug)]
enum Phase {
    Healthd,
    LastStates { since: Instant },
    OwnProbes(Box<OwnProbes>),
}

#[derive(Debug)]
struct OwnProbes {
    monitor: Monitor,
    subscriber: SubscriberId,
    n_statements: u64,
    n_waiting: usize,
    /// The snapshot of healthd's that it began with.
    last: Arc<Snapshot>,
    /// The generation of the last snapshot that was taken.
    taken: Option<u64>,
}

/// A probe of a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeId {
    round: u64,
    target: TargetId,
}

impl Machine {
    /// healthd has not been heard yet; after this time without it the subscriber probes.
    #[must_use]
    pub fn new(after: Duration, limits: Limits, seed: u64, now: Instant) -> Self {
        Self {
            after,
            limits,
            seed,
            targets: Arc::default(),
            phase: Phase::LastStates { since: now },
            round: 0,
        }
    }

    /// The source of the subscriber's states.
    #[must_use]
    pub const fn source(&self) -> Source {
        match self.phase {
            Phase::Healthd => Source::Healthd,
            Phase::LastStates { .. } => Source::LastStates,
            Phase::OwnProbes(_) => Source::OwnProbes,
        }
    }

    /// How many targets are probed, and for how many there is no room.
    #[must_use]
    pub fn n_targets(&self) -> (usize, usize) {
        match &self.phase {
            Phase::OwnProbes(own) => (self.targets.len() - own.n_waiting, own.n_waiting),
            Phase::Healthd | Phase::LastStates { .. } => (0, 0),
        }
    }

    /// The time without healthd.
    #[must_use]
    pub const fn after(&self) -> Duration {
        self.after
    }

    /// Takes up another time without healthd.
    pub const fn set_after(&mut self, after: Duration) {
        self.after = after;
    }

    /// The subscriber watches these targets, and no others any more.
    pub fn set_targets(&mut self, targets: Arc<[Watched]>, now: Now) {
        self.targets = targets;
        if let Phase::OwnProbes(own) = &mut self.phase {
            own.state(&self.targets, now);
        }
    }

    /// healthd is connected, or it is not. Its word ends the own probes at once.
    pub fn set_connected(&mut self, is_connected: bool, now: Instant) {
        match (is_connected, &self.phase) {
            (true, _) => self.phase = Phase::Healthd,
            (false, Phase::Healthd) => self.phase = Phase::LastStates { since: now },
            (false, Phase::LastStates { .. } | Phase::OwnProbes(_)) => {}
        }
    }

    /// Begins to probe if healthd has been away for too long.
    pub fn advance(&mut self, last: impl FnOnce() -> Arc<Snapshot>, now: Now) {
        if let Phase::LastStates { since } = self.phase
            && now.steady.saturating_duration_since(since) >= self.after
        {
            self.round += 1;
            let own = OwnProbes::begin(self.limits, self.seed, &self.targets, last(), now);
            self.phase = Phase::OwnProbes(Box::new(own));
        }
    }

    /// The next probe to start, if one is due and there is room.
    pub fn poll(&mut self, now: Now) -> Option<(ProbeId, Probe)> {
        let Phase::OwnProbes(own) = &mut self.phase else {
            return None;
        };
        let probe = own.monitor.poll(now)?;
        let id = ProbeId {
            round: self.round,
            target: probe.id,
        };
        Some((id, probe))
    }

    /// When to advance and poll next.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        match &mut self.phase {
            Phase::Healthd => None,
            Phase::LastStates { since } => since.checked_add(self.after),
            Phase::OwnProbes(own) => own.monitor.next_deadline(),
        }
    }

    /// A probe that was started has ended. One of an earlier stand-in has no effect.
    pub fn finish(&mut self, id: ProbeId, finding: Finding, now: Now) {
        if let Phase::OwnProbes(own) = &mut self.phase
            && id.round == self.round
        {
            own.monitor.finish(id.target, finding, now);
        }
    }

    /// The subscriber's own use of a target went well or not. Returns whether a probe follows from it.
    pub fn report(&mut self, target: &Target, success: bool, now: Now) -> bool {
        match &mut self.phase {
            Phase::OwnProbes(own) => own.monitor.report(target, success, now),
            Phase::Healthd | Phase::LastStates { .. } => false,
        }
    }

    /// The states that the own probes make, if they have changed since the last call.
    pub fn take_snapshot(&mut self) -> Option<Snapshot> {
        match &mut self.phase {
            Phase::OwnProbes(own) => own.take_snapshot(&self.targets),
            Phase::Healthd | Phase::LastStates { .. } => None,
        }
    }
}

impl OwnProbes {
    fn begin(
        limits: Limits,
        seed: u64,
        targets: &Arc<[Watched]>,
        last: Arc<Snapshot>,
        now: Now,
    ) -> Self {
        let known = targets
            .iter()
            .filter_map(|watched| Some((watched, last.watched(watched)?)));
        let restored = Restored {
            known: known
                .clone()
                .map(|(watched, status)| known_of(watched, status))
                .collect(),
            ..Restored::default()
        };
        let schedules = Schedules {
            targets: known
                .map(|(watched, status)| (watched.target.clone(), all_of(status.schedule)))
                .collect(),
            ..Schedules::default()
        };
        let mut monitor = Monitor::new(limits, schedules, seed, restored, now);
        let subscriber = monitor.open(now);
        let mut own = Self {
            monitor,
            subscriber,
            n_statements: 0,
            n_waiting: 0,
            last,
            taken: None,
        };
        own.state(targets, now);
        own
    }

    fn state(&mut self, targets: &Arc<[Watched]>, now: Now) {
        self.n_statements += 1;
        let statement = Statement {
            subscriber: String::new(),
            number: self.n_statements,
            targets: (1..).zip(targets.iter().cloned()).collect(),
            all: false,
        };
        self.n_waiting = self.monitor.state(self.subscriber, statement, now);
        self.taken = None;
    }

    fn take_snapshot(&mut self, targets: &[Watched]) -> Option<Snapshot> {
        let generation = self.monitor.generation();
        if self.taken.replace(generation) == Some(generation) {
            return None;
        }
        let changes = self.monitor.full(self.subscriber)?;
        let mut snapshot = Snapshot {
            stands_in: true,
            ..Snapshot::default()
        };
        let stated = |place: u32| targets.get(usize::try_from(place).ok()?.checked_sub(1)?);
        for (place, seen) in &changes.entries {
            if let Some(watched) = stated(*place) {
                let before = self.last.watched(watched);
                snapshot.insert(watched.clone(), status_of(*seen, before));
            }
        }
        let limit = self.monitor.limits().targets;
        for (_, watched) in changes.waiting {
            let before = self.last.watched(watched);
            let status = TargetStatus {
                admin: before.map(|status| status.admin).unwrap_or_default(),
                reason: format!("no room: while healthd is away, {limit} targets are probed"),
                ..TargetStatus::default()
            };
            snapshot.insert(watched.clone(), status);
        }
        Some(snapshot)
    }
}

/// The state of a target that healthd reported last.
fn known_of(watched: &Watched, status: &TargetStatus) -> Known {
    let since_1970 = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    Known {
        target: watched.target.clone(),
        liveness: status.liveness,
        since: status.since.and_then(since_1970),
        last_check: status.last_check.and_then(since_1970),
        latency: status.latency,
        reason: status.reason.clone(),
    }
}

fn status_of(seen: Seen<'_>, before: Option<&TargetStatus>) -> TargetStatus {
    let time = |since_1970: Duration| UNIX_EPOCH.checked_add(since_1970);
    TargetStatus {
        liveness: seen.liveness(),
        admin: before.map(|status| status.admin).unwrap_or_default(),
        since: seen.since().and_then(time),
        last_check: seen.entry.last_check.and_then(time),
        latency: seen.entry.latency,
        reason: seen.reason(),
        warm: seen.is_warm(),
        generation: seen.changed(),
        schedule: seen.schedule(),
        verdict: None,
    }
}

/// A deviation that gives every value of a schedule.
const fn all_of(schedule: Schedule) -> Deviation {
    let Schedule {
        interval,
        fast_interval,
        timeout,
        rise,
        fall,
    } = schedule;
    Deviation {
        interval: Some(interval),
        fast_interval: Some(fast_interval),
        timeout: Some(timeout),
        rise: Some(rise),
        fall: Some(fall),
    }
}

#[cfg(test)]
mod tests;
