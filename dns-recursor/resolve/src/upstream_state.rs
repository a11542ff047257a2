//! What is known of one upstream: whether it answers, how fast, and what it cannot do.
//!
//! ```text
//!              a query goes unanswered               two probes go unanswered
//!        Good ───────────────────────► Doubtful ───────────────────────────► Absent ◄─┐
//!         ▲  ▲                            │         refused, unreachable,      │  │    │ probe,
//!         │  └── any response ────────────┘         reported down (from all) ──┘  └────┘ back-off
//!         └───────────────────────── any response, reported up ────────────────┘
//! ```
//!
//! A query that waits longer than the upstream usually takes is no proof of anything: recursion
//! is slow at times. So doubt only sends a probe with a question any server answers at once, and
//! puts the upstream behind its peers meanwhile. Absent upstreams are probed more than once a
//! second, by themselves and not at a client's expense. Never sends anything itself.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use dns_cache::moment::Moment;
use dns_wire::{Class, Name, Type};

use crate::forward::{Fitness, Mode, Protocol, Route};

/// How long the first query to an upstream of unknown speed waits before another is asked too.
const FIRST_WAIT: Duration = Duration::from_millis(80);
/// With someone else to ask: bounds of the wait, the upper one so that a dead upstream never
/// costs a client more than a blink.
const HEDGE_WAIT: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(80)];
/// With nobody else to ask: bounds of the wait before the query is sent again.
const REPEAT_WAIT: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(400)];
/// Bounds of how long a probe may take.
const PROBE_WAIT: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(1000)];
/// How long a probe of an upstream of unknown speed may take: a satellite's distance and back,
/// nearly, and twice that is still well within a second.
const PROBE_WAIT_UNKNOWN: Duration = Duration::from_millis(300);
/// Probes that go unanswered before a doubtful upstream counts as absent.
const PROBES_IN_DOUBT: u8 = 2;
/// When an absent upstream is probed first; the interval doubles from here.
const PROBE_FIRST: Duration = Duration::from_millis(50);
/// The longest an absent upstream goes unprobed: it is back in use within a second.
const PROBE_MAX: Duration = Duration::from_millis(750);
/// What an upstream cannot do is tried again after this long; it may have been upgraded.
const RELEARN: Duration = Duration::from_secs(900);
/// One query in this many may be asked of a second upstream while the first still thinks.
const HEDGE_COST: u32 = 10;
/// Second queries that may be asked in a row.
const HEDGE_BURST: u32 = 100;

/// One upstream.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    health: Health,
    since: Moment,
    rtt: Option<Rtt>,
    hedges: u32,
    plain_until: Moment,
    caseless_until: Moment,
    probe: Probe,
    /// Used by some route.
    wanted: bool,
    /// An operator has taken it out.
    drained: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    Doubtful {
        probes: u8,
        next: Moment,
    },
    Absent {
        why: Absence,
        interval: Duration,
        next: Moment,
    },
}

/// Why an upstream is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It does not answer.
    Silent,
    /// Its port is closed.
    Refused,
    /// There is no way to it.
    Unreachable,
    /// healthd says so.
    Reported,
    /// An operator has taken it out, by way of healthd.
    Drained,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "it is silent",
            Self::Refused => "its port is closed",
            Self::Unreachable => "there is no way to it",
            Self::Reported => "healthd says so",
            Self::Drained => "an operator has taken it out",
        })
    }
}

/// What healthd says of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It answers.
    Answers,
    /// It does not.
    Silent,
    /// Whether it does or not, it is not to be asked.
    Drained,
}

/// An upstream's fitness has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it was.
    pub from: Fitness,
    /// What it is.
    pub to: Fitness,
}

/// What to ask an upstream to see whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The question: the root's NS of a recursive server, the apex's SOA of an authoritative one.
    pub question: Box<[u8]>,
    /// The last question it left unanswered, should it be one that ignores the other.
    pub unanswered: Option<Box<[u8]>>,
    /// Whether RD is set.
    pub mode: Mode,
    /// What to send it over.
    pub protocol: Protocol,
    n_sent: u64,
}

impl Probe {
    /// A probe of an upstream as one route uses it.
    #[must_use]
    pub fn of(route: &Route) -> Self {
        let (name, qtype) = match route.mode {
            Mode::Authoritative => (route.zone.to_lowercase(), Type::SOA),
            Mode::Recursive => (Name::root(), Type::NS),
        };
        let question = [
            name.as_wire(),
            &qtype.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ];
        Self {
            question: question.concat().into(),
            unanswered: None,
            mode: route.mode,
            protocol: route.protocol,
            n_sent: 0,
        }
    }

    /// The question of the next probe.
    #[must_use]
    pub fn next_question(&mut self) -> Box<[u8]> {
        self.n_sent += 1;
        match &self.unanswered {
            Some(unanswered) if self.n_sent.is_multiple_of(2) => unanswered.clone(),
            _ => self.question.clone(),
        }
    }
}

/// Smoothed round-trip time and its deviation (RFC 6298 §2), in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rtt {
    smoothed: u64,
    deviation: u64,
}

impl Upstream {
    /// An upstream that nothing is known of: taken for good until it proves otherwise.
    #[must_use]
    pub const fn new(address: SocketAddr, probe: Probe, now: Moment) -> Self {
        Self {
            address,
            health: Health::Good,
            since: now,
            rtt: None,
            hedges: HEDGE_BURST * HEDGE_COST,
            plain_until: Moment::START,
            caseless_until: Moment::START,
            probe,
            wanted: true,
            drained: false,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How fit it is to be asked.
    #[must_use]
    pub const fn fitness(&self) -> Fitness {
        match self.health {
            _ if self.drained => Fitness::Absent,
            Health::Good => Fitness::Good,
            Health::Doubtful { .. } => Fitness::Doubtful,
            Health::Absent { .. } => Fitness::Absent,
        }
    }

    /// Why it is absent, if it is.
    #[must_use]
    pub const fn absence(&self) -> Option<Absence> {
        match self.health {
            _ if self.drained => Some(Absence::Drained),
            Health::Absent { why, .. } => Some(why),
            Health::Good | Health::Doubtful { .. } => None,
        }
    }

    /// Since when its fitness is what it is.
    #[must_use]
    pub const fn since(&self) -> Moment {
        self.since
    }

    /// Its smoothed round-trip time.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.rtt.map(|rtt| Duration::from_micros(rtt.smoothed))
    }

    /// Whether some route uses it.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        self.wanted
    }

    //--- Evidence

    /// It has answered, whatever it said.
    pub fn answered(&mut self, round_trip: Duration, now: Moment) -> Option<Change> {
        let sample = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        self.rtt = Some(match self.rtt {
            None => Rtt {
                smoothed: sample,
                deviation: sample / 2,
            },
            Some(rtt) => Rtt {
                smoothed: (rtt.smoothed * 7 + sample) / 8,
                deviation: (rtt.deviation * 3 + rtt.smoothed.abs_diff(sample)) / 4,
            },
        });
        self.turn(Health::Good, now)
    }

    /// A query to it waits longer than usual.
    pub fn unanswered(&mut self, question: &[u8], now: Moment) -> Option<Change> {
        if self.health != Health::Good {
            return None;
        }
        self.probe.unanswered = Some(question.into());
        let doubt = Health::Doubtful {
            probes: 0,
            next: now,
        };
        self.turn(doubt, now)
    }

    /// It cannot be reached.
    pub fn unreachable(&mut self, why: Absence, now: Moment) -> Option<Change> {
        // What is not probed would never be found to be back.
        if !self.wanted {
            let doubt = Health::Doubtful {
                probes: 0,
                next: now,
            };
            return self.turn(doubt, now);
        }
        if let Health::Absent { why: known, .. } = &mut self.health {
            *known = why;
            return None;
        }
        let absent = Health::Absent {
            why,
            interval: PROBE_FIRST,
            next: now.after(PROBE_FIRST),
        };
        self.turn(absent, now)
    }

    /// healthd says how it is.
    pub fn reported(&mut self, report: Report, now: Moment) -> Option<Change> {
        let from = self.fitness();
        self.drained = report == Report::Drained;
        let change = match report {
            Report::Answers => self.turn(Health::Good, now),
            Report::Silent => self.unreachable(Absence::Reported, now),
            Report::Drained => None,
        };
        let to = self.fitness();
        if from == to {
            return None;
        }
        self.since = now;
        change.or(Some(Change { from, to }))
    }

    /// Some route uses it, with this probe; or none does.
    pub fn set_wanted(&mut self, probe: Option<Probe>, now: Moment) -> Option<Change> {
        self.wanted = probe.is_some();
        match probe {
            Some(probe) if probe.question != self.probe.question => self.probe = probe,
            Some(probe) => self.probe.protocol = probe.protocol,
            None => {
                self.drained = false;
                return self.turn(Health::Good, now);
            }
        }
        None
    }

    /// It does not take OPT records: they are left out for a while.
    pub fn cannot_edns(&mut self, now: Moment) {
        self.plain_until = now.after(RELEARN);
    }

    /// It does not keep the letter case of questions: that check is left out for a while.
    pub fn cannot_keep_case(&mut self, now: Moment) {
        self.caseless_until = now.after(RELEARN);
    }

    fn turn(&mut self, health: Health, now: Moment) -> Option<Change> {
        let from = self.fitness();
        self.health = health;
        let to = self.fitness();
        if from == to {
            return None;
        }
        self.since = now;
        Some(Change { from, to })
    }

    //--- Asking

    /// Whether a query to it may carry an OPT record.
    #[must_use]
    pub fn takes_edns(&self, now: Moment) -> bool {
        now >= self.plain_until
    }

    /// Whether it can be trusted to return a question's letter case.
    #[must_use]
    pub fn keeps_case(&self, now: Moment) -> bool {
        now >= self.caseless_until
    }

    /// How long to wait for a response before doing something about it.
    #[must_use]
    pub fn patience(&self, others: Others) -> Duration {
        let usual = self.rtt.map_or(FIRST_WAIT, |rtt| {
            Duration::from_micros(rtt.smoothed + 4 * rtt.deviation)
        });
        let [least, most] = match others {
            Others::Some => HEDGE_WAIT,
            Others::None => REPEAT_WAIT,
        };
        usual.clamp(least, most)
    }

    /// A query was sent to it: it earns part of a second one.
    pub const fn earn_hedge(&mut self) {
        if self.hedges < HEDGE_BURST * HEDGE_COST {
            self.hedges += 1;
        }
    }

    /// Whether another upstream may be asked while this one thinks; spends what was earned.
    pub const fn spend_hedge(&mut self) -> bool {
        if self.hedges < HEDGE_COST {
            return false;
        }
        self.hedges -= HEDGE_COST;
        true
    }

    //--- Probing

    /// When [`Upstream::probe_due`] wants to be called.
    #[must_use]
    pub const fn deadline(&self) -> Option<Moment> {
        match self.health {
            Health::Doubtful { next, .. } | Health::Absent { next, .. } if self.wanted => {
                Some(next)
            }
            _ => None,
        }
    }

    /// The deadline has come: moves on, and says whether a probe goes out.
    pub fn probe_due(&mut self, now: Moment) -> (Option<Change>, bool) {
        match self.health {
            Health::Doubtful { probes, next } if now >= next => {
                if probes >= PROBES_IN_DOUBT {
                    return (self.unreachable(Absence::Silent, now), false);
                }
                self.health = Health::Doubtful {
                    probes: probes + 1,
                    next: now.after(self.probe_wait()),
                };
                (None, true)
            }
            Health::Absent {
                why,
                interval,
                next,
            } if now >= next => {
                let interval = (interval * 2).min(PROBE_MAX);
                self.health = Health::Absent {
                    why,
                    interval,
                    next: now.after(interval),
                };
                (None, true)
            }
            _ => (None, false),
        }
    }

    /// The probe to send.
    pub const fn probe(&mut self) -> &mut Probe {
        &mut self.probe
    }

    fn probe_wait(&self) -> Duration {
        let [least, most] = PROBE_WAIT;
        let usual = self.rtt.map_or(PROBE_WAIT_UNKNOWN, |rtt| {
            Duration::from_micros(2 * rtt.smoothed + 4 * rtt.deviation)
        });
        usual.clamp(least, most)
    }
}

/// Whether another upstream could be asked as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// At least one.
    Some,
    /// None.
    None,
}

#[cfg(test)]
mod tests;
