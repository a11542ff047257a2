//! Questions on their way to the resolver, and the clients that wait for answers.

use std::borrow::Cow;

use daemon::udp::ReturnPath;
use dns_cache::answer::{Asker, DnssecOk, Transport};
use dns_cache::instant::Instant;
use dns_cache::key::{Key, Variant};
use dns_cache::message::Message;
use dns_cookie::Cookie;
use dns_front::derived::Derived;
use dns_front::front::Source;
use dns_names::{Names, Reply};
use dns_resolve::origin::Origin;
use dns_resolve::resolver::Reason;
use dns_wire::Flags;
use query_watch::Peer;
use tokio::sync::mpsc;

use crate::totals::Arrival;

/// A question for the resolver.
#[derive(Debug)]
pub struct Job {
    /// The question in its original letter case.
    pub question: Box<[u8]>,
    /// The question that the client has asked, when its response is derived from the answer to `question`.
    pub asked: Option<Box<[u8]>>,
    /// DO and CD.
    pub variant: Variant,
    /// Whether there is a stale answer.
    pub has_stale: bool,
    /// The client that waits; `None` when the cache wants a refresh.
    pub waiter: Option<Waiter>,
}

/// A client that waits.
#[derive(Debug)]
pub struct Waiter {
    /// The query's identifier.
    pub id: u16,
    /// The query's flags.
    pub flags: Flags,
    /// Its OPT record.
    pub edns: Option<DnssecOk>,
    /// The longest response that the client takes.
    pub limit: usize,
    /// The cookie for the client.
    pub cookie: Option<Cookie>,
    /// The transport and address family of the query.
    pub arrival: Arrival,
    /// The time of the query.
    pub asked: Instant,
    /// The way back of its answer.
    pub to: ReturnTo,
    /// The client; `None` for the server itself.
    pub from: Option<Peer>,
    /// The rest of the response, when the question is not the client's own.
    pub derived: Option<Box<Derived>>,
}

/// The way of an answer back to its client.
#[derive(Debug)]
pub enum ReturnTo {
    /// Back as a datagram.
    Datagram(ReturnPath),
    /// To the task that writes a connection; its channel has room for every query it has let in.
    Stream(mpsc::Sender<Vec<u8>>),
}

impl Waiter {
    /// A waiter for the answer to `asker`'s question.
    #[must_use]
    pub const fn new(asker: &Asker<'_>, arrival: Arrival, asked: Instant, to: ReturnTo) -> Self {
        Self {
            id: asker.id,
            flags: asker.flags,
            edns: asker.edns,
            limit: asker.limit,
            cookie: asker.cookie,
            arrival,
            asked,
            to,
            from: None,
            derived: None,
        }
    }

    /// The waiter of this client.
    #[must_use]
    pub const fn from(mut self, peer: Peer) -> Self {
        self.from = Some(peer);
        self
    }
}

/// A waiter with the question it has asked.
#[derive(Debug)]
pub struct Client {
    pub(super) question: Box<[u8]>,
    pub(super) waiter: Waiter,
}

impl Client {
    /// The response to the client, given the answer to the question that its own has led to; `None` when it is too long.
    pub(super) fn whole<'m>(&self, answer: &'m Message) -> Option<Cow<'m, Message>> {
        match &self.waiter.derived {
            None => Some(Cow::Borrowed(answer)),
            Some(derived) => derived.whole(answer).map(Cow::Owned),
        }
    }

    /// The reply of a response policy in the place of an answer; none for the server itself.
    pub(super) fn policy_reply(&self, names: &Names, key: &Key, answer: &Message) -> Option<Reply> {
        let peer = self.waiter.from.as_ref()?;
        let derived = self.waiter.derived.as_ref();
        if !names.has_answer_rules() || derived.is_some_and(|derived| derived.is_forged()) {
            return None;
        }
        let client = Some(peer.address.ip());
        let reply = names.reply_to_answer(key.question(), client, answer)?;
        // Over TCP the client has done what the rule asks for.
        let is_tcp = self.waiter.arrival.transport == Transport::Tcp;
        (reply != Reply::Truncated || !is_tcp).then_some(reply)
    }

    /// Lets the client wait for the target of an alias that a response policy has; false when its response gets too long.
    pub(super) fn follow(&mut self, alias: Message) -> bool {
        let derived = self.waiter.derived.take();
        let derived = derived.map(|derived| *derived).unwrap_or_default();
        self.waiter.derived = derived.forged(alias).map(Box::new);
        self.waiter.derived.is_some()
    }

    /// Leaves its query without a response.
    pub(super) fn drop_query(self) {
        if let ReturnTo::Stream(stream) = self.waiter.to
            && stream.try_send(Vec::new()).is_err()
        {
            tracing::debug!("The client closed its connection before its query was dropped");
        }
    }

    /// Whether an answer leads it to the question for A records.
    pub(super) fn wants_addresses(&self, answer: &Message) -> bool {
        let derived = self.waiter.derived.as_ref();
        derived.is_some_and(|derived| derived.wants_addresses(answer))
    }

    /// Whether a failure leads it to the question for A records: its upstreams have answered, with an error.
    pub(super) fn wants_addresses_after(&self, reason: Reason) -> bool {
        let derived = self.waiter.derived.as_ref();
        reason == Reason::Refused
            && derived.is_some_and(|derived| derived.wants_addresses_after_failure())
    }

    /// The source of its answer, for the counters.
    pub(super) fn source(&self, source: Source) -> Source {
        let derived = self.waiter.derived.as_ref();
        match derived.is_some_and(|derived| derived.is_synthesized()) {
            true if source == Source::Resolver => Source::Dns64,
            _ => source,
        }
    }

    /// The client for the limits of each; none for the server itself.
    pub(super) fn origin(&self) -> Option<Origin> {
        let peer = self.waiter.from.as_ref();
        peer.map(|peer| Origin::of(peer.address.ip().to_canonical()))
    }

    pub(super) const fn asker(&self) -> Asker<'_> {
        Asker {
            id: self.waiter.id,
            flags: self.waiter.flags,
            question: &self.question,
            edns: self.waiter.edns,
            limit: self.waiter.limit,
            cookie: self.waiter.cookie,
        }
    }
}
