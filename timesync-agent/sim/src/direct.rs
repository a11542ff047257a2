//! Programs of simulated hosts: a server that answers with its clock, and a client that is little more than the timekeeper.

use std::collections::{BTreeMap, VecDeque};

use super::oscillator::{EPOCH, MIDNIGHT};
use super::{Action, HostId, Payload, Program, Reply};
use time_model::settings::Settings;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::Leap;
use timekeeper::{Drift, Effect, Note, Sample, SourceId, Timekeeper, Weighing};

/// A server of stratum 1 that believes its clock.
#[derive(Debug)]
pub struct Server {
    /// The error, in seconds.
    pub error: f64,
    /// A leap second that it announces, and that its clock has at midnight.
    pub leap: Leap,
    actions: VecDeque<Action>,
}

impl Server {
    /// It is wrong by this many seconds.
    #[must_use]
    pub fn new(error: f64) -> Self {
        Self {
            error,
            leap: Leap::Normal,
            actions: VecDeque::new(),
        }
    }

    /// It announces a leap second until it has had it.
    #[must_use]
    pub fn announcing(mut self, leap: Leap) -> Self {
        self.leap = leap;
        self
    }

    /// The time and the announcement of the source when the wall clock shows `time`.
    pub(super) fn leap(&self, time: UnixTime) -> (UnixTime, Leap) {
        let since = (time - EPOCH).seconds() - MIDNIGHT;
        match self.leap {
            Leap::Insert if since >= 0.0 => (time - Span(SECOND), Leap::Normal),
            Leap::Delete if since >= -1.0 => (time + Span(SECOND), Leap::Normal),
            leap => (time, leap),
        }
    }
}

impl Program for Server {
    fn poll_timeout(&self, _now: Reading) -> Option<RawTime> {
        None
    }

    fn handle_timeout(&mut self, _now: Reading) {}

    fn receive(&mut self, from: HostId, payload: &Payload, now: Reading) {
        let Payload::Request(number) = payload else {
            return;
        };
        let time = now.wall + Span::from_seconds(self.error);
        let (time, leap) = self.leap(time);
        self.actions.push_back(Action::Send {
            to: from,
            payload: Payload::Reply(Reply {
                number: *number,
                received: time,
                sent: time,
                stratum: 1,
                leap,
                reference_id: 0x4750_5300,
                root_delay: 0.0,
                root_dispersion: 1e-6,
            }),
        });
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

/// A server as the client sees it.
#[derive(Debug)]
struct Polled {
    host: HostId,
    next: RawTime,
    /// Requests that this burst may still have.
    left: u32,
    good: u32,
    reach: u8,
    sent: Option<(u64, RawTime)>,
}

/// Requests of the first burst.
const BURST: u32 = 8;
/// Requests of a later one.
const LATER_BURST: u32 = 4;
/// Good samples before which the first burst does not end.
const BURST_GOOD: u32 = 4;

/// A client: the timekeeper and as much around it as there has to be. It answers, too.
#[derive(Debug)]
pub struct Client {
    /// The estimate.
    pub timekeeper: Timekeeper,
    polled: BTreeMap<SourceId, Polled>,
    actions: VecDeque<Action>,
    /// The sample.
    pub notes: Vec<Note>,
    n_requests: u64,
    options: Weighing,
    own_reference_id: u32,
}

impl Client {
    /// Asks these hosts. Reference IDs of hosts are their numbers.
    #[must_use]
    pub fn new(
        settings: &Settings,
        drift: Option<Drift>,
        servers: &[HostId],
        options: &Weighing,
        own: HostId,
        now: Reading,
    ) -> Self {
        let mut timekeeper = Timekeeper::new(settings, drift, now);
        let mut polled = BTreeMap::new();
        for (index, host) in servers.iter().enumerate() {
            let id = SourceId(u32::try_from(index).unwrap_or(u32::MAX));
            timekeeper.add_source(id, reference_id(*host), options.clone());
            polled.insert(
                id,
                Polled {
                    host: *host,
                    next: now.raw + Span(SECOND / 5),
                    left: 0,
                    good: 0,
                    reach: 0,
                    sent: None,
                },
            );
        }
        Self {
            timekeeper,
            polled,
            actions: VecDeque::new(),
            notes: Vec::new(),
            n_requests: 0,
            options: options.clone(),
            own_reference_id: reference_id(own),
        }
    }

    fn drain(&mut self, now: Reading) {
        while let Some(effect) = self.timekeeper.poll_effect() {
            match effect {
                Effect::SetRate(rate) => {
                    self.actions.push_back(Action::Rate(rate));
                    self.timekeeper.applied(rate, now);
                }
                Effect::Step(span) => self.actions.push_back(Action::Step(span)),
                Effect::Note(note) => self.notes.push(note),
                Effect::SetStatus(status) => self.actions.push_back(Action::Arm(status.leap)),
                Effect::SaveDrift(_) | Effect::GiveUp(_) => {}
            }
        }
    }

    fn answer(&mut self, from: HostId, number: u64, now: Reading) {
        let reference = self.timekeeper.reference(now);
        self.actions.push_back(Action::Send {
            to: from,
            payload: Payload::Reply(Reply {
                number,
                received: now.wall,
                sent: now.wall,
                stratum: reference.stratum,
                leap: reference.leap,
                reference_id: reference.reference_id,
                root_delay: reference.root_delay,
                root_dispersion: reference.root_dispersion,
            }),
        });
    }
}

/// The number of a host, in place of an address.
fn reference_id(host: HostId) -> u32 {
    u32::try_from(host)
        .unwrap_or(u32::MAX)
        .saturating_add(0x0A00_0001)
}

impl Program for Client {
    fn poll_timeout(&self, now: Reading) -> Option<RawTime> {
        let polls = self.polled.values().map(|polled| polled.next).min();
        [polls, self.timekeeper.poll_timeout(now)]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_timeout(&mut self, now: Reading) {
        self.timekeeper.handle_timeout(now);
        for (id, polled) in &mut self.polled {
            if polled.next > now.raw {
                continue;
            }
            polled.reach <<= 1;
            self.timekeeper.reached(*id, polled.reach, now);
            self.n_requests += 1;
            polled.sent = Some((self.n_requests, now.raw));
            if polled.left == 0 {
                let first = polled.good < BURST_GOOD;
                polled.left = if first { BURST } else { LATER_BURST };
            }
            polled.left -= 1;
            let more = polled.good < BURST_GOOD || self.timekeeper.wants_more(*id);
            let burst = polled.left > 0 && more;
            if !burst {
                polled.left = 0;
            }
            let interval = if burst {
                2.0_f64.min(f64::from(self.options.minpoll).exp2())
            } else {
                f64::from(self.timekeeper.advise_poll(*id)).exp2()
            };
            polled.next = now.raw + Span::from_seconds(interval);
            self.actions.push_back(Action::Send {
                to: polled.host,
                payload: Payload::Request(self.n_requests),
            });
        }
        self.drain(now);
    }

    fn receive(&mut self, from: HostId, payload: &Payload, now: Reading) {
        let reply = match payload {
            Payload::Request(number) => {
                self.answer(from, *number, now);
                return;
            }
            Payload::Reply(reply) => *reply,
            Payload::Question(..) | Payload::Answer(..) => return,
        };
        let polled = self
            .polled
            .iter_mut()
            .find(|(_, polled)| polled.host == from);
        let Some((id, polled)) = polled else { return };
        let Some((_, sent)) = polled.sent.take_if(|(number, _)| *number == reply.number) else {
            return;
        };
        // A server that is not synchronised is reached all the same; one that follows this node is not followed.
        polled.reach |= 1;
        polled.good += 1;
        self.timekeeper.reached(*id, polled.reach, now);
        if reply.reference_id == self.own_reference_id && reply.stratum > 1 {
            return;
        }
        let middle = RawTime(i64::midpoint(sent.0, now.raw.0));
        let served = i64::midpoint(reply.received.0, reply.sent.0);
        let delay = (now.raw - sent) - (reply.sent - reply.received);
        let sample = Sample {
            at: middle,
            ahead: served - middle.0,
            delay: delay.seconds(),
            dispersion: 1e-7,
            root_delay: reply.root_delay,
            root_dispersion: reply.root_dispersion,
            stratum: reply.stratum,
            leap: reply.leap,
            reference_id: reply.reference_id,
            reference_time: reply.received,
            local_reference_id: self.own_reference_id,
        };
        let id = *id;
        self.timekeeper.sample(id, sample, now);
        let poll = Span::from_seconds(f64::from(self.timekeeper.advise_poll(id)).exp2());
        if let Some(polled) = self.polled.get_mut(&id)
            && polled.good >= BURST_GOOD
            && !(polled.left > 0 && self.timekeeper.wants_more(id))
        {
            polled.left = 0;
            polled.next = sent + poll;
        }
        self.drain(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn n_requests(&self) -> u64 {
        self.n_requests
    }

    fn timekeeper(&self) -> Option<&Timekeeper> {
        Some(&self.timekeeper)
    }
}
