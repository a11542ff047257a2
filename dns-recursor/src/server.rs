//! UDP: one responder for each thread of the engine. A cache hit is answered on the spot; a miss
//! becomes a [`Job`] with the way back, and the thread goes on.

use std::net::IpAddr;
use std::sync::Arc;

use daemon::acl::Cidrs;
use daemon::snapshot::{Cell, Reader};
use daemon::udp::{Datagram, Outcome, Respond};
use dns_cache::answer::{self, Asker, Transport};
use dns_cache::cache::Cache;
use dns_cache::key::Key;
use dns_cache::moment::Moment;
use dns_front::front::{Front, Judged, Permissions, Source, Verdict, View};
use dns_front::policy::Outsiders;
use dns_wire::{Flags, Opcode, Rcode};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::driver::{Job, ReturnTo, Waiter};
use crate::totals::{Counts, Totals, Way};

/// What queries are judged by; published as a whole.
#[derive(Debug)]
pub struct Snapshot {
    /// Names, and what is said of them.
    pub view: Arc<View>,
    /// Who may ask.
    pub allow: Cidrs,
    /// Whose NOTIFY is heard.
    pub notify: Cidrs,
}

/// What every thread needs.
#[derive(Clone, Debug)]
pub struct Supply {
    /// What queries are judged by.
    pub cell: Arc<Cell<Snapshot>>,
    /// The cache.
    pub cache: Arc<Cache>,
    /// The clock of the whole service.
    pub clock: Clock,
    /// Where questions go that the cache cannot answer.
    pub jobs: mpsc::Sender<Job>,
    /// Where threads count.
    pub totals: Totals,
}

/// Judges messages on one thread.
#[derive(Debug)]
pub struct Desk {
    reader: Reader<Snapshot>,
    cache: Arc<Cache>,
    clock: Clock,
    jobs: mpsc::Sender<Job>,
    counts: Arc<Counts>,
    key: Key,
    now: Moment,
}

/// What a desk made of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The first so many octets of the buffer are the response.
    Reply(usize),
    /// There is no response, or it comes by [`ReturnTo`].
    Nothing,
    /// It comes by [`ReturnTo`].
    Later,
}

/// How somebody who connects is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// They may ask, or send NOTIFY.
    Guest,
    /// They may not, and are told so.
    Stranger,
    /// They may not, and are told nothing.
    Nobody,
}

impl Desk {
    /// A desk for one more thread.
    #[must_use]
    pub fn new(supply: &Supply) -> Self {
        Self {
            reader: Reader::new(Arc::clone(&supply.cell)),
            cache: Arc::clone(&supply.cache),
            clock: supply.clock,
            jobs: supply.jobs.clone(),
            counts: supply.totals.add_thread(),
            key: Key::default(),
            now: supply.clock.now(),
        }
    }

    /// Looks at the clock and for a new snapshot.
    pub fn refresh(&mut self) {
        self.reader.refresh();
        self.now = self.clock.now();
    }

    /// How somebody who connects from this address is received.
    pub fn receive(&mut self, peer: IpAddr) -> Reception {
        self.reader.refresh();
        let snapshot = self.reader.get();
        let is_known = snapshot.allow.contains(peer) || snapshot.notify.contains(peer);
        match snapshot.view.outsiders {
            _ if is_known => Reception::Guest,
            Outsiders::Refuse => Reception::Stranger,
            Outsiders::Ignore => Reception::Nobody,
        }
    }

    /// Answers a message, or hands its question on with the way back that `to` makes.
    pub fn handle(
        &mut self,
        message: &[u8],
        peer: IpAddr,
        transport: Transport,
        out: &mut [u8],
        to: impl FnOnce() -> ReturnTo,
    ) -> Done {
        let snapshot = self.reader.get();
        let is_notify = Flags::read(message).is_some_and(|flags| flags.opcode() == Opcode::NOTIFY);
        let permissions = Permissions {
            ask: snapshot.allow.contains(peer),
            notify: is_notify && snapshot.notify.contains(peer),
        };
        let front = Front {
            view: &snapshot.view,
            cache: &self.cache,
            now: self.now,
        };
        let Judged {
            verdict,
            source,
            qtype,
        } = front.judge(message, permissions, transport, &mut self.key, out);
        let way = Way {
            transport,
            ipv6: peer.is_ipv6(),
        };
        self.counts.request(way, qtype);
        match verdict {
            Verdict::Reply(length) => self.replied(source, length, out),
            Verdict::ReplyAndRefresh(length) => {
                self.refresh_entry();
                self.replied(source, length, out)
            }
            Verdict::Silent => Done::Nothing,
            Verdict::Resolve { asker, has_stale } => {
                let waiter = Waiter::new(&asker, way, self.now, to());
                let job = Job {
                    question: asker.question.into(),
                    variant: self.key.variant(),
                    has_stale,
                    waiter: Some(waiter),
                };
                match self.jobs.try_send(job) {
                    Ok(()) => Done::Later,
                    Err(_) => self.overloaded(&asker, out),
                }
            }
        }
    }

    fn replied(&self, source: Source, length: usize, out: &[u8]) -> Done {
        let rcode = Flags::read(out).unwrap_or_default().rcode();
        self.counts.response(source, rcode);
        self.counts.inline();
        Done::Reply(length)
    }

    /// Has the entry just used resolved anew, before it expires.
    fn refresh_entry(&self) {
        let job = Job {
            question: self.key.question().into(),
            variant: self.key.variant(),
            has_stale: true,
            waiter: None,
        };
        if self.jobs.try_send(job).is_ok() {
            self.counts.prefetches.add(1);
        }
    }

    fn overloaded(&self, asker: &Asker<'_>, out: &mut [u8]) -> Done {
        self.counts.overload.add(1);
        match answer::error(asker, Rcode::SERVFAIL, None, out) {
            Some(length) => self.replied(Source::Resolver, length, out),
            None => Done::Nothing,
        }
    }
}

impl Respond for Desk {
    fn refresh(&mut self) {
        Self::refresh(self);
    }

    #[inline]
    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let to = || ReturnTo::Datagram(datagram.return_path());
        let peer = datagram.peer().ip();
        match self.handle(datagram.payload(), peer, Transport::Udp, reply, to) {
            Done::Reply(length) => Outcome::Reply(length),
            Done::Nothing | Done::Later => Outcome::Silent,
        }
    }
}
