//! Answers queries on the threads that receive them. A cache hit is answered at once. A miss becomes a
//! [`Job`] with the way of its answer: the thread asks the upstream, and takes the next query.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::acl::Cidrs;
use daemon::latest::{Latest, Reader};
use daemon::udp::{Datagram, Outcome, Respond};
use dns_cache::answer::{self, Asker, Transport};
use dns_cache::cache::Cache;
use dns_cache::instant::Instant;
use dns_cache::key::Key;
use dns_front::front::{Front, Judged, Permissions, Source, Verdict, View};
use dns_front::policy::Outsiders;
use dns_names::Names;
use dns_serve::rate::RateLimit;
use dns_wire::{Flags, Opcode, Rcode, Type};
use query_watch::{Peer, QueryFlags, Seen, Watch, Watcher};

use crate::clock::Clock;
use crate::driver::{Job, Notices, Questions, ReturnTo, Waiter};
use crate::totals::{Arrival, Counts, Totals, source_name};

/// The part of the configuration that queries need. It is replaced as a whole.
#[derive(Debug)]
pub struct Snapshot {
    /// Routes, local names and access rules.
    pub view: Arc<View>,
    /// Clients that may ask.
    pub allow: Cidrs,
    /// Servers whose NOTIFY counts.
    pub notify: Cidrs,
    /// The limit of responses over UDP, if there is one.
    pub limit: Option<RateLimit>,
}

/// The state that all threads share.
#[derive(Clone, Debug)]
pub struct Resources {
    /// The snapshot that queries are judged by.
    pub cell: Arc<Latest<Snapshot>>,
    /// The names of the configuration.
    pub names: Arc<Latest<Names>>,
    /// The cache.
    pub cache: Arc<Cache>,
    /// The clock of the whole service.
    pub clock: Clock,
    /// To the resolver.
    pub questions: Questions,
    /// Zones that have changed, to the resolver.
    pub notices: Notices,
    /// The counters of all threads.
    pub totals: Totals,
    /// Shows queries to operators.
    pub watch: Watch,
}

/// Answers queries on one thread.
#[derive(Debug)]
pub struct Responder {
    reader: Reader<Snapshot>,
    names: Reader<Names>,
    cache: Arc<Cache>,
    clock: Clock,
    questions: Questions,
    notices: Notices,
    counts: Arc<Counts>,
    watcher: Watcher,
    key: Key,
    now: Instant,
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The response, in the first octets of the buffer: this many.
    Reply(usize),
    /// No response now; there is none, or it comes by [`ReturnTo`].
    Nothing,
    /// It comes by [`ReturnTo`].
    Later,
}

/// The treatment of a client that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may query, or send NOTIFY.
    Allowed,
    /// The client has no access and gets REFUSED.
    Refused,
    /// The client has no access and gets no response.
    Ignored,
}

impl Responder {
    /// A responder for one more thread.
    #[must_use]
    pub fn new(resources: &Resources) -> Self {
        Self {
            reader: Reader::new(Arc::clone(&resources.cell)),
            names: Reader::new(Arc::clone(&resources.names)),
            cache: Arc::clone(&resources.cache),
            clock: resources.clock,
            questions: resources.questions.clone(),
            notices: resources.notices.clone(),
            counts: resources.totals.add_thread(),
            watcher: resources.watch.watcher(),
            key: Key::default(),
            now: resources.clock.now(),
        }
    }

    /// Reads the clock and takes the newest snapshot.
    pub fn refresh(&mut self) {
        self.reader.refresh();
        self.names.refresh();
        self.now = self.clock.now();
    }

    /// The treatment of a client that connects from this address.
    pub fn admission(&mut self, peer: IpAddr) -> Admission {
        self.reader.refresh();
        let snapshot = self.reader.get();
        let is_known = snapshot.allow.contains(peer) || snapshot.notify.contains(peer);
        match snapshot.view.outsiders {
            _ if is_known => Admission::Allowed,
            Outsiders::Refuse => Admission::Refused,
            Outsiders::Ignore => Admission::Ignored,
        }
    }

    /// Answers a message, or passes its question to the resolver; then the answer goes to `to`.
    pub fn handle(
        &mut self,
        message: &[u8],
        client: &Peer,
        transport: Transport,
        out: &mut [u8],
        to: impl FnOnce() -> ReturnTo,
    ) -> Done {
        let peer = client.address.ip();
        self.watcher.queried(client, message);
        let snapshot = self.reader.get();
        let is_notify = Flags::read(message).is_some_and(|flags| flags.opcode() == Opcode::NOTIFY);
        let permissions = Permissions {
            ask: snapshot.allow.contains(peer),
            notify: is_notify && snapshot.notify.contains(peer),
        };
        let front = Front {
            view: &snapshot.view,
            names: self.names.get(),
            cache: &self.cache,
            now: self.now,
            client: peer,
            clock: dns_serve::cookies::clock,
        };
        let Judged {
            verdict,
            source,
            qtype,
            cookie_state,
        } = front.judge(message, permissions, transport, &mut self.key, out);
        let arrival = Arrival {
            transport,
            ipv6: peer.is_ipv6(),
        };
        self.counts.request(arrival, qtype);
        self.counts.cookie(cookie_state);
        let done = match verdict {
            Verdict::Reply(length) => self.replied(source, length, out),
            Verdict::ReplyAndRefresh(length) => {
                self.refresh_entry();
                self.replied(source, length, out)
            }
            Verdict::Changed { zone, length } => match self.notices.take(zone, self.now) {
                true => self.replied(source, length, out),
                false => Done::Nothing,
            },
            Verdict::Silent => Done::Nothing,
            Verdict::Resolve {
                asker,
                has_stale,
                derived,
            } => {
                let mut waiter = Waiter::new(&asker, arrival, self.now, to()).from(*client);
                let (question, asked) = match derived {
                    None => (asker.question, None),
                    Some(_) => (self.key.question(), Some(asker.question.into())),
                };
                waiter.derived = derived;
                let job = Job {
                    question: question.into(),
                    asked,
                    variant: self.key.variant(),
                    has_stale,
                    waiter: Some(waiter),
                };
                match self.questions.ask(job) {
                    true => return Done::Later,
                    false => self.overloaded(&asker, out),
                }
            }
        };
        let response = match done {
            Done::Reply(length) => out.get(..length),
            Done::Nothing | Done::Later => None,
        };
        self.show(message, client, (source, qtype), response);
        done
    }

    /// Shows the outcome of a query to operators.
    fn show(
        &self,
        message: &[u8],
        client: &Peer,
        (source, qtype): (Source, Option<Type>),
        response: Option<&[u8]>,
    ) {
        let seen = Seen {
            peer: *client,
            question: query_watch::question(message),
            flags: QueryFlags {
                header: Flags::read(message).unwrap_or_default(),
                dnssec_ok: qtype.is_some() && self.key.variant().dnssec_ok(),
            },
            response,
            answer: source_name(source),
            is_miss: source == Source::Resolver,
            upstream: None,
            took: Duration::ZERO,
            second: self.now.as_millis() / 1000,
        };
        let table = &self.reader.get().view.table;
        self.watcher.answered(&seen, |name| table.zone_of(name));
    }

    fn replied(&self, source: Source, length: usize, out: &[u8]) -> Done {
        let rcode = Flags::read(out).unwrap_or_default().rcode();
        self.counts.response(source, rcode);
        self.counts.inline();
        Done::Reply(length)
    }

    /// Refreshes the entry just used before it expires.
    fn refresh_entry(&self) {
        let job = Job {
            question: self.key.question().into(),
            asked: None,
            variant: self.key.variant(),
            has_stale: true,
            waiter: None,
        };
        if self.questions.ask(job) {
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

impl Respond for Responder {
    fn refresh(&mut self) {
        Self::refresh(self);
    }

    #[inline]
    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let to = || ReturnTo::Datagram(datagram.return_path());
        let client = Peer {
            address: datagram.peer(),
            local: datagram.local(),
            transport: query_watch::Transport::Udp,
        };
        let peer = client.address.ip();
        let snapshot = self.reader.get();
        if let Some(limit) = &snapshot.limit {
            let cookies = snapshot.view.cookies.as_deref();
            if let Some(limited) = limit.check(peer, datagram.payload(), cookies, reply) {
                return limited;
            }
        }
        match self.handle(datagram.payload(), &client, Transport::Udp, reply, to) {
            Done::Reply(length) => Outcome::Reply(length),
            Done::Nothing | Done::Later => Outcome::Silent,
        }
    }
}
