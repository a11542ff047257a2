//! The state of one upstream: whether it answers, how fast, and which features it lacks.
//!
//! ```text
//!              a query goes unanswered               four probes go unanswered
//!        Good ───────────────────────► Doubtful ───────────────────────────► Absent ◄─┐
//!         ▲  ▲                            │         refused, unreachable,      │  │    │ probe,
//!         │  └── any response ────────────┘         reported down (from all) ──┘  └────┘ back-off
//!         └───────────────────────── any response, reported up ────────────────┘
//! ```
//!
//! A query that waits longer than the upstream usually takes proves nothing: recursion is slow at times, links lose
//! datagrams, and the servers of one name may be silent. So a query raises a doubt only if no response at all has
//! come since it was sent, and a doubt only sends a probe, with a question that any server answers at once.
//! Meanwhile the upstream ranks behind the others. Absent upstreams are probed more than once a second, apart from
//! clients' queries. When there is no other upstream and no stale answer, a query is tried there until its deadline,
//! and for as long as a probe waits once the silence has lasted. Never sends anything itself.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_wire::{Class, Name, Type};

use crate::forward::{Fitness, Mode, Protocol, Route};

/// The waits after the first query to an upstream of unknown speed, before another gets the query too, and before it
/// gets the query again itself.
const FIRST_WAIT: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(400)];
/// Bounds of the wait before another upstream gets the query too. The upper one keeps the cost of a dead
/// upstream to a client below a blink; that of an upstream which is usually slower is twice its round trip.
const HEDGE_WAIT: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(80)];
/// Bounds of the wait before the same upstream gets the query again, when there is no other.
const REPEAT_WAIT: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(400)];
/// The round trip of a slow link.
const SLOW: Duration = Duration::from_millis(300);
/// The longest of these waits: half of the time that a question has by default.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Bounds of the time that a probe may take.
const PROBE_WAIT: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(1000)];
/// The time that a probe of an upstream of unknown speed may take. Late responses count too, so that four such probes
/// leave time for the slowest links.
const PROBE_WAIT_UNKNOWN: Duration = Duration::from_millis(300);
/// The bounds of the wait before another upstream gets a query too that went over a connection: it may have to be opened first.
const STREAM_HEDGE_WAIT: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(1000)];
/// The wait before such a query goes to the same upstream again. A connection that is silent for so long counts as stalled,
/// and another one takes the query.
const STREAM_REPEAT_WAIT: Duration = Duration::from_millis(2100);
/// The unanswered probes after which a doubtful upstream counts as absent.
///
/// Every other one asks the question that was left unanswered, which a server may be silent about for ever. A link
/// that loses every fifth datagram loses two in a row too often.
const PROBES_IN_DOUBT: u8 = 4;
/// An absent upstream that is silent for longer is not behind a link that loses much: a dozen probes were lost.
const LASTING_SILENCE: Duration = Duration::from_secs(10);
/// The first interval of probes to an absent upstream; it doubles from there.
const PROBE_FIRST: Duration = Duration::from_millis(50);
/// The longest interval of probes to an absent upstream: it is back in use within a second.
const PROBE_MAX: Duration = Duration::from_millis(750);
/// A feature that an upstream lacks is tried again after this long; the upstream may have been upgraded.
const RELEARN: Duration = Duration::from_secs(900);
/// One query in this many may also go to a second upstream while the first has not answered.
const HEDGE_COST: u32 = 10;
/// The most second queries in a row.
const HEDGE_BURST: u32 = 100;

/// One upstream.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    health: Health,
    since: Instant,
    /// The time of its last response.
    heard: Option<Instant>,
    rtt: Option<Rtt>,
    hedges: u32,
    plain_until: Instant,
    caseless_until: Instant,
    probe: Probe,
    /// Whether some route uses it.
    wanted: bool,
    /// Whether an operator has taken it out.
    drained: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    Doubtful {
        probes: u8,
        next: Instant,
    },
    Absent {
        why: Absence,
        interval: Duration,
        next: Instant,
    },
}

/// The reason for an upstream's absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It does not answer.
    Silent,
    /// Its port is closed.
    Refused,
    /// There is no route to it.
    Unreachable,
    /// It does not prove who it is.
    Untrusted,
    /// healthd reports it down.
    Reported,
    /// An operator has taken it out, through healthd.
    Drained,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "it is silent",
            Self::Refused => "its port is closed",
            Self::Unreachable => "there is no route to it",
            Self::Untrusted => "its certificate is refused",
            Self::Reported => "healthd reports it down",
            Self::Drained => "an operator has taken it out",
        })
    }
}

/// healthd's report about an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It answers.
    Answers,
    /// It does not answer.
    Silent,
    /// It must not be used, whether it answers or not.
    Drained,
}

/// A change of an upstream's fitness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The fitness before.
    pub from: Fitness,
    /// The fitness now.
    pub to: Fitness,
}

/// The probe that shows whether an upstream is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The question: the root's NS for a recursive server, the apex's SOA for an authoritative one.
    pub question: Box<[u8]>,
    /// The last question that it left unanswered, in case it ignores only the other one.
    pub unanswered: Option<Box<[u8]>>,
    /// Whether RD is set.
    pub mode: Mode,
    pub protocol: Protocol,
    n_sent: u64,
}

impl Probe {
    /// The probe of an upstream of one route.
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
    /// The state of a new upstream: good until it proves otherwise.
    #[must_use]
    pub const fn new(address: SocketAddr, probe: Probe, now: Instant) -> Self {
        Self {
            address,
            health: Health::Good,
            since: now,
            heard: None,
            rtt: None,
            hedges: HEDGE_BURST * HEDGE_COST,
            plain_until: Instant::START,
            caseless_until: Instant::START,
            probe,
            wanted: true,
            drained: false,
        }
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its fitness.
    #[must_use]
    pub const fn fitness(&self) -> Fitness {
        match self.health {
            _ if self.drained => Fitness::Absent,
            Health::Good => Fitness::Good,
            Health::Doubtful { .. } => Fitness::Doubtful,
            Health::Absent { .. } => Fitness::Absent,
        }
    }

    /// The reason for its absence, if it is absent.
    #[must_use]
    pub const fn absence(&self) -> Option<Absence> {
        match self.health {
            _ if self.drained => Some(Absence::Drained),
            Health::Absent { why, .. } => Some(why),
            Health::Good | Health::Doubtful { .. } => None,
        }
    }

    /// The time of the last change of its fitness.
    #[must_use]
    pub const fn since(&self) -> Instant {
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

    /// Notes any response.
    pub fn answered(&mut self, round_trip: Duration, now: Instant) -> Option<Change> {
        self.heard = Some(now);
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

    /// Notes that a query to it, of this time, waits longer than usual.
    pub fn unanswered(&mut self, question: &[u8], sent: Instant, now: Instant) -> Option<Change> {
        let is_heard = self.heard.is_some_and(|heard| heard > sent);
        if self.health != Health::Good || is_heard {
            return None;
        }
        self.probe.unanswered = Some(question.into());
        let doubt = Health::Doubtful {
            probes: 0,
            next: now,
        };
        self.turn(doubt, now)
    }

    /// Notes that it cannot be reached.
    pub fn unreachable(&mut self, why: Absence, now: Instant) -> Option<Change> {
        // An upstream without probes would never count as back.
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

    /// Takes healthd's report.
    pub fn reported(&mut self, report: Report, now: Instant) -> Option<Change> {
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

    /// Sets the probe that its routes use; `None` when no route uses it.
    pub fn set_wanted(&mut self, probe: Option<Probe>, now: Instant) -> Option<Change> {
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

    /// Notes that it rejects OPT records: they are left out for a while.
    pub fn cannot_edns(&mut self, now: Instant) {
        self.plain_until = now.after(RELEARN);
    }

    /// Notes that it does not keep the letter case of questions: that check is left out for a while.
    pub fn cannot_keep_case(&mut self, now: Instant) {
        self.caseless_until = now.after(RELEARN);
    }

    fn turn(&mut self, health: Health, now: Instant) -> Option<Change> {
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
    pub fn takes_edns(&self, now: Instant) -> bool {
        now >= self.plain_until
    }

    /// Whether it returns a question's letter case.
    #[must_use]
    pub fn keeps_case(&self, now: Instant) -> bool {
        now >= self.caseless_until
    }

    /// The time to wait for a response before the next step.
    #[must_use]
    pub fn patience(&self, have_others: Others) -> Duration {
        let [least, most] = match have_others {
            Others::Some => HEDGE_WAIT,
            Others::None => REPEAT_WAIT,
        };
        let Some(rtt) = self.rtt else {
            let [others, again] = FIRST_WAIT;
            return match have_others {
                Others::Some => others,
                Others::None => again,
            };
        };
        let spread = (4 * rtt.deviation).max(rtt.smoothed / 8);
        let usual = Duration::from_micros(rtt.smoothed + spread);
        let twice = Duration::from_micros(2 * rtt.smoothed);
        usual.clamp(least, twice.clamp(most, MAX_WAIT))
    }

    /// The same for a query that went over a connection, where none is lost.
    #[must_use]
    pub fn stream_patience(&self, have_others: Others) -> Duration {
        let [least, most] = STREAM_HEDGE_WAIT;
        match have_others {
            Others::None => STREAM_REPEAT_WAIT,
            Others::Some => self.rtt.map_or(most, |rtt| {
                let usual = Duration::from_micros(3 * rtt.smoothed + 4 * rtt.deviation);
                usual.clamp(least, most)
            }),
        }
    }

    /// The time that a question waits for it while it counts as absent: no bound of its own while it may only be
    /// behind a link that loses much. `None` when it must not be used.
    #[must_use]
    pub fn trial_wait(&self, now: Instant) -> Option<Duration> {
        let is_lasting = now.since(self.since) >= LASTING_SILENCE;
        match self.absence() {
            Some(Absence::Drained) => None,
            Some(Absence::Silent | Absence::Reported) if !is_lasting => Some(Duration::MAX),
            _ => Some(self.probe_wait()),
        }
    }

    /// Whether it counts as absent, but only because nothing was heard from it.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self.absence(), Some(Absence::Silent | Absence::Reported))
    }

    /// The time that a response usually takes at least, if its link is so slow that few queries fit in the time of
    /// a question.
    #[must_use]
    pub fn slow_round_trip(&self) -> Option<Duration> {
        let usual = self.round_trip()?;
        (usual >= SLOW).then(|| usual + usual / 8)
    }

    /// Notes a query to it: this earns part of a second query.
    pub const fn earn_hedge(&mut self) {
        if self.hedges < HEDGE_BURST * HEDGE_COST {
            self.hedges += 1;
        }
    }

    /// Whether another upstream may get the query too while this one has not answered; spends the earned
    /// query.
    pub const fn spend_hedge(&mut self) -> bool {
        if self.hedges < HEDGE_COST {
            return false;
        }
        self.hedges -= HEDGE_COST;
        true
    }

    //--- Probing

    /// The time of the next [`Upstream::probe_due`].
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        match self.health {
            Health::Doubtful { next, .. } | Health::Absent { next, .. } if self.wanted => {
                Some(next)
            }
            _ => None,
        }
    }

    /// Takes the next step at the deadline; returns the change, and whether a probe goes out.
    pub fn probe_due(&mut self, now: Instant) -> (Option<Change>, bool) {
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
        if !self.probe.protocol.is_datagram() {
            // A connection may have to be opened first, which takes some round trips.
            return most;
        }
        let usual = self.rtt.map_or(PROBE_WAIT_UNKNOWN, |rtt| {
            Duration::from_micros(2 * rtt.smoothed + 4 * rtt.deviation)
        });
        usual.clamp(least, most)
    }
}

/// Whether there is another upstream for the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There is at least one.
    Some,
    /// There is none.
    None,
}

#[cfg(test)]
mod tests;
