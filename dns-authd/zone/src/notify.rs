//! Notifications of secondaries (RFC 1996 §3.6): the next message, and when it is due; repeats with growing pauses until a response
//! comes, or until the attempts are over.
//!
//! Decides only: the caller sends the messages, passes responses on and says how late it is.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dns_views::ZoneId;

/// The most notifications under way; further ones are dropped and counted, and the secondaries find the change at
/// their next refresh.
const MAX_PENDING: usize = 1 << 16;
/// The pause between two messages: a start with many zones does not flood the secondaries.
const GAP: Duration = Duration::from_millis(2);
/// The longest pause between two messages to one server.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// How often a message is repeated, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The most messages to one server about one version.
    pub attempts: u32,
    /// The pause behind the first message; each further one is twice as long.
    pub first: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            attempts: 6,
            first: Duration::from_secs(2),
        }
    }
}

/// A message that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The zone.
    pub zone: ZoneId,
    /// The serial of its version.
    pub serial: u32,
    /// The server to notify.
    pub server: SocketAddr,
    /// The number of the attempt, from one.
    pub attempt: u32,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this message.
    Send(Message),
    /// The server has not responded to any attempt: the last was this one.
    GiveUp(Message),
}

/// The notifications under way.
#[derive(Debug, Default)]
pub struct Notifier {
    pending: HashMap<(ZoneId, SocketAddr), Pending>,
    /// The keys of what is pending, by the time when it is due.
    queue: BTreeMap<(Instant, u64), (ZoneId, SocketAddr)>,
    next_number: u64,
    /// The time of the last message.
    sent: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    serial: u32,
    /// How many messages were sent.
    n_sent: u32,
    /// The identifier of the last message.
    id: Option<u16>,
    due: (Instant, u64),
}

impl Notifier {
    /// Notes that a server has to be notified of a version of a zone. An older version that it was not notified of yet
    /// is forgotten. `false` when too much is under way.
    pub fn add(&mut self, zone: &ZoneId, serial: u32, server: SocketAddr, now: Instant) -> bool {
        let key = (zone.clone(), server);
        if let Some(pending) = self.pending.get(&key) {
            if pending.serial == serial {
                return true;
            }
            self.queue.remove(&pending.due);
        } else if self.pending.len() >= MAX_PENDING {
            return false;
        }
        let due = self.place(now, key.clone());
        let pending = Pending {
            serial,
            n_sent: 0,
            id: None,
            due,
        };
        self.pending.insert(key, pending);
        true
    }

    /// Forgets the notifications of which this is not true.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&ZoneId, SocketAddr) -> bool) {
        let queue = &mut self.queue;
        self.pending.retain(|(zone, server), pending| {
            let is_kept = is_wanted(zone, *server);
            if !is_kept {
                queue.remove(&pending.due);
            }
            is_kept
        });
    }

    /// Whether a server is to be notified of a zone.
    #[must_use]
    pub fn has(&self, zone: &ZoneId, server: SocketAddr) -> bool {
        self.pending.contains_key(&(zone.clone(), server))
    }

    /// Whether the message that was sent last to a server, about a zone, has this identifier.
    #[must_use]
    pub fn awaits(&self, zone: &ZoneId, server: SocketAddr, id: u16) -> bool {
        let pending = self.pending.get(&(zone.clone(), server));
        pending.is_some_and(|pending| pending.id == Some(id))
    }

    /// How many notifications are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether none is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// When the next step is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let ((due, _), _) = self.queue.first_key_value()?;
        let spaced = self.sent.map(|sent| sent + GAP);
        Some(spaced.map_or(*due, |spaced| spaced.max(*due)))
    }

    /// The next step, if one is due. A message gets this identifier.
    pub fn step(&mut self, now: Instant, id: u16, pace: Pace) -> Option<Step> {
        if self.due()? > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        let pending = self.pending.get_mut(&key)?;
        let mut message = Message {
            zone: key.0.clone(),
            serial: pending.serial,
            server: key.1,
            attempt: pending.n_sent,
        };
        if pending.n_sent >= pace.attempts {
            self.pending.remove(&key);
            return Some(Step::GiveUp(message));
        }
        let pause = pace.first.saturating_mul(1 << pending.n_sent.min(16));
        pending.n_sent += 1;
        pending.id = Some(id);
        message.attempt = pending.n_sent;
        let due = self.place(now + pause.min(LONGEST_PAUSE), key.clone());
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.due = due;
        }
        self.sent = Some(now);
        Some(Step::Send(message))
    }

    /// Takes a response, which ends the notification; `None` if it is to no message that was sent last.
    pub fn respond(&mut self, zone: &ZoneId, server: SocketAddr, id: u16) -> Option<Message> {
        let key = (zone.clone(), server);
        self.pending
            .get(&key)
            .filter(|pending| pending.id == Some(id))?;
        let pending = self.pending.remove(&key)?;
        self.queue.remove(&pending.due);
        let (zone, server) = key;
        Some(Message {
            zone,
            serial: pending.serial,
            server,
            attempt: pending.n_sent,
        })
    }

    fn place(&mut self, due: Instant, key: (ZoneId, SocketAddr)) -> (Instant, u64) {
        let place = (due, self.next_number);
        self.next_number += 1;
        self.queue.insert(place, key);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        attempts: 3,
        first: Duration::from_secs(2),
    };

    #[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
    fn start() -> Instant {
        Instant::now()
    }

    fn server(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 53))
    }

    fn zone(name: &str) -> ZoneId {
        name.parse().unwrap()
    }

    /// All steps of the next `seconds`, with the seconds at which they came.
    fn run(notifier: &mut Notifier, begun: Instant, seconds: u64) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        while let Some(due) = notifier.due()
            && due <= begun + Duration::from_secs(seconds)
        {
            let step = notifier.step(due, 7, PACE).unwrap();
            steps.push(((due - begun).as_secs(), step));
        }
        steps
    }

    #[test]
    fn a_silent_server_gets_every_attempt_at_growing_pauses_and_is_given_up() {
        let (begun, mut notifier) = (start(), Notifier::default());
        assert!(notifier.add(&zone("a."), 5, server(1), begun));
        let steps = run(&mut notifier, begun, 1000);
        let times: Vec<(u64, bool, u32)> = steps
            .iter()
            .map(|(at, step)| match step {
                Step::Send(message) => (*at, true, message.attempt),
                Step::GiveUp(message) => (*at, false, message.attempt),
            })
            .collect();
        assert_eq!(
            times,
            [(0, true, 1), (2, true, 2), (6, true, 3), (14, false, 3)]
        );
        assert!(notifier.is_empty());
        assert_eq!(notifier.due(), None);
    }

    #[test]
    fn a_response_ends_it_only_if_it_is_to_the_last_message() {
        let (begun, mut notifier) = (start(), Notifier::default());
        notifier.add(&zone("a."), 5, server(1), begun);
        assert_eq!(notifier.respond(&zone("a."), server(1), 7), None);
        notifier.step(begun, 7, PACE).unwrap();
        assert_eq!(notifier.respond(&zone("a."), server(1), 8), None);
        assert_eq!(notifier.respond(&zone("a."), server(2), 7), None);
        assert_eq!(notifier.respond(&zone("b."), server(1), 7), None);
        let done = notifier.respond(&zone("A."), server(1), 7).unwrap();
        assert_eq!((done.serial, done.attempt), (5, 1));
        assert_eq!((notifier.len(), notifier.due()), (0, None));
    }

    #[test]
    fn a_newer_version_begins_anew_and_the_same_one_does_not() {
        let (begun, mut notifier) = (start(), Notifier::default());
        notifier.add(&zone("a."), 5, server(1), begun);
        notifier.step(begun, 7, PACE).unwrap();
        notifier.add(&zone("a."), 5, server(1), begun);
        assert_eq!(notifier.due(), Some(begun + PACE.first));
        let later = begun + Duration::from_secs(1);
        notifier.add(&zone("a."), 6, server(1), later);
        // The response to the message about the older version says nothing of this one.
        assert_eq!(notifier.respond(&zone("a."), server(1), 7), None);
        let Some(Step::Send(message)) = notifier.step(later, 9, PACE) else {
            panic!();
        };
        assert_eq!((message.serial, message.attempt), (6, 1));
    }

    #[test]
    fn many_zones_are_spaced_and_bounded() {
        let (begun, mut notifier) = (start(), Notifier::default());
        for number in 0..MAX_PENDING {
            assert!(notifier.add(&zone(&format!("z{number}.")), 1, server(1), begun));
        }
        assert!(!notifier.add(&zone("more."), 1, server(1), begun));
        assert!(notifier.step(begun, 1, PACE).is_some());
        assert_eq!(notifier.step(begun, 1, PACE), None);
        assert_eq!(notifier.due(), Some(begun + GAP));
        notifier.retain(|zone, _| zone.to_string() == "z7.");
        assert_eq!((notifier.len(), notifier.queue.len()), (1, 1));
    }
}
