//! Whether a server may be chosen: from what is configured, what an operator said, what healthd found.
//!
//! ```text
//! operator here > operator at healthd > configured > cordoned in the cluster > probes
//! ```
//!
//! Nothing known is not bad: a proxy that has heard nothing serves. Never asks anybody, never looks at
//! a clock.

use std::time::{Duration, Instant};

use balance::pool::Eligibility;
use config_text::counted;
use proto::health::{AdminState, Liveness, TargetStatus, Terms};

/// A value that an operator has decided on, and the terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided<T> {
    /// The value.
    pub value: T,
    /// The terms. After their end, the configuration and probes decide again.
    pub terms: Terms,
}

/// An operator's override for a server of this proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Its administrative state.
    pub state: Option<Decided<AdminState>>,
    /// Its weight.
    pub weight: Option<Decided<u16>>,
    /// Sessions at a time; zero stands for no limit.
    pub max_connections: Option<Decided<u32>>,
}

impl Override {
    /// True when it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The decisions in words, each with its terms.
    pub fn decisions(&self) -> impl Iterator<Item = (String, &Terms)> {
        let state = self.state.as_ref();
        let state = state.map(|it| (it.value.to_string(), &it.terms));
        let weight = self.weight.as_ref();
        let weight = weight.map(|it| (format!("weight {}", it.value), &it.terms));
        let most = self.max_connections.as_ref();
        let most = most.map(|it| (in_words(it.value), &it.terms));
        state.into_iter().chain(weight).chain(most)
    }

    /// The first end of a decision.
    #[must_use]
    pub fn first_end(&self) -> Option<Duration> {
        self.decisions().filter_map(|(_, terms)| terms.until).min()
    }

    /// Takes back the decisions that have ended by this time, and returns them.
    pub fn end(&mut self, now: Duration) -> Self {
        Self {
            state: self.state.take_if(|it| it.terms.is_over(now)),
            weight: self.weight.take_if(|it| it.terms.is_over(now)),
            max_connections: self.max_connections.take_if(|it| it.terms.is_over(now)),
        }
    }
}

/// A limit of sessions in words; zero stands for none.
fn in_words(most: u32) -> String {
    match most {
        0 => "no limit of sessions".to_owned(),
        most => format!("{} at a time", counted(most, "session")),
    }
}

/// Whether a server may be chosen, without since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It may.
    Up,
    /// Keeps the sessions it has.
    Drain,
    /// Taken out manually.
    Maintenance,
    /// Its probes fail.
    Down,
}

impl Verdict {
    /// The state of one server. `otherwise` is its state unless an operator says something.
    #[must_use]
    pub fn of(
        said: Option<AdminState>,
        otherwise: AdminState,
        status: Option<&TargetStatus>,
    ) -> Self {
        let at_healthd = status.map_or(AdminState::Ready, |status| status.admin);
        let state = match (said, at_healthd) {
            // healthd takes a target out for all its users.
            (Some(AdminState::Ready), AdminState::Ready) => AdminState::Ready,
            (Some(AdminState::Ready) | None, AdminState::Maintenance) => AdminState::Maintenance,
            (Some(AdminState::Ready) | None, AdminState::Drain) => AdminState::Drain,
            (None, AdminState::Ready) => otherwise,
            (Some(state), _) => state,
        };
        match state {
            AdminState::Maintenance => Self::Maintenance,
            AdminState::Drain => Self::Drain,
            AdminState::Ready => match status.map(|status| status.liveness) {
                Some(Liveness::Down) => Self::Down,
                Some(Liveness::Up | Liveness::Unknown) | None => Self::Up,
            },
        }
    }

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
            Self::Down => "down",
        }
    }
}

/// The history of one server since it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The state that counts.
    pub verdict: Verdict,
    /// Since when; for a server that was always what it is, since it is known.
    pub since: Instant,
    /// Since when it is up again, if it was not before.
    back: Option<Instant>,
    /// How often its probes brought it down.
    pub n_downs: u64,
    /// How long it was down, the present time not counted.
    downtime: Duration,
}

impl History {
    /// The history of a server that is new.
    #[must_use]
    pub fn new(verdict: Verdict, now: Instant) -> Self {
        Self {
            verdict,
            since: now,
            back: None,
            n_downs: u64::from(verdict == Verdict::Down),
            downtime: Duration::ZERO,
        }
    }

    /// Takes up a verdict; the one before if it is another.
    pub fn follow(&mut self, verdict: Verdict, now: Instant) -> Option<Verdict> {
        let before = self.verdict;
        if verdict == before {
            return None;
        }
        let lasted = now.saturating_duration_since(self.since);
        match (before, verdict) {
            // A server that drained has its sessions and its caches: it needs no slow start.
            (Verdict::Down | Verdict::Maintenance, Verdict::Up) => self.back = Some(now),
            (_, Verdict::Down) => self.n_downs += 1,
            _ => {}
        }
        if before == Verdict::Down {
            self.downtime += lasted;
        }
        self.verdict = verdict;
        self.since = now;
        Some(before)
    }

    /// How long it was down in all.
    #[must_use]
    pub fn downtime(&self, now: Instant) -> Duration {
        match self.verdict {
            Verdict::Down => self.downtime + now.saturating_duration_since(self.since),
            Verdict::Up | Verdict::Drain | Verdict::Maintenance => self.downtime,
        }
    }

    /// As a pool takes it.
    #[must_use]
    pub fn eligibility(&self) -> Eligibility {
        match self.verdict {
            Verdict::Up => Eligibility::Up { since: self.back },
            Verdict::Drain => Eligibility::Drain,
            Verdict::Maintenance => Eligibility::Maintenance,
            Verdict::Down => Eligibility::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_a_server_out_is_heard_before_probes() {
        use AdminState::{Drain, Maintenance, Ready};
        let cases = [
            (None, Ready, None, Verdict::Up),
            (None, Maintenance, None, Verdict::Maintenance),
            (Some(Ready), Maintenance, None, Verdict::Up),
            (None, Ready, Some((Ready, Liveness::Unknown)), Verdict::Up),
            (None, Ready, Some((Ready, Liveness::Down)), Verdict::Down),
            (None, Ready, Some((Drain, Liveness::Down)), Verdict::Drain),
            (
                Some(Ready),
                Ready,
                Some((Drain, Liveness::Up)),
                Verdict::Drain,
            ),
            (
                Some(Ready),
                Ready,
                Some((Ready, Liveness::Down)),
                Verdict::Down,
            ),
            (
                Some(Drain),
                Ready,
                Some((Ready, Liveness::Up)),
                Verdict::Drain,
            ),
            (
                Some(Maintenance),
                Ready,
                Some((Drain, Liveness::Up)),
                Verdict::Maintenance,
            ),
            (
                None,
                Maintenance,
                Some((Maintenance, Liveness::Up)),
                Verdict::Maintenance,
            ),
            (None, Drain, None, Verdict::Drain),
            (None, Drain, Some((Ready, Liveness::Down)), Verdict::Drain),
            (Some(Ready), Drain, Some((Ready, Liveness::Up)), Verdict::Up),
            (
                None,
                Drain,
                Some((Maintenance, Liveness::Up)),
                Verdict::Maintenance,
            ),
        ];
        for (state, otherwise, status, expected) in cases {
            let status = status.map(|(admin, liveness)| TargetStatus {
                liveness,
                admin,
                ..TargetStatus::default()
            });
            let verdict = Verdict::of(state, otherwise, status.as_ref());
            assert_eq!(verdict, expected, "{state:?} {otherwise:?} {status:?}");
        }
    }

    #[test]
    fn a_slow_start_begins_only_after_a_failure() {
        let start = daemon::clock::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut history = History::new(Verdict::Up, start);
        assert_eq!(history.eligibility(), Eligibility::Up { since: None });
        assert_eq!(history.follow(Verdict::Up, after(1)), None);
        assert_eq!(history.follow(Verdict::Drain, after(2)), Some(Verdict::Up));
        history.follow(Verdict::Up, after(3));
        assert_eq!(history.eligibility(), Eligibility::Up { since: None });
        history.follow(Verdict::Down, after(4));
        assert_eq!(history.downtime(after(6)), Duration::from_secs(2));
        history.follow(Verdict::Up, after(7));
        let back = Some(after(7));
        assert_eq!(history.eligibility(), Eligibility::Up { since: back });
        assert_eq!(history.downtime(after(9)), Duration::from_secs(3));
        assert_eq!((history.n_downs, history.since), (1, after(7)));
    }
}
