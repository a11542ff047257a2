//! Questions on their way to the resolver, and the clients that wait for answers.

use std::borrow::Cow;
use std::net::IpAddr;

use daemon::udp::ReturnPath;
use dns_cache::answer::{Asker, DnssecOk};
use dns_cache::instant::Instant;
use dns_cache::key::Variant;
use dns_cache::message::{MAX_MESSAGE, Message, join};
use dns_cookie::Cookie;
use dns_wire::Flags;
use tokio::sync::mpsc;

use crate::totals::Arrival;

/// A question for the resolver.
#[derive(Debug)]
pub struct Job {
    /// The question in its original letter case.
    pub question: Box<[u8]>,
    /// The question that the client has asked, when an alias of the configuration leads from there to `question`.
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
    /// The client's address; `None` for the server itself.
    pub from: Option<IpAddr>,
    /// The beginning of the response, when an alias of the configuration leads to the question.
    pub alias: Option<Box<Message>>,
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
            alias: None,
        }
    }

    /// The waiter of the client at this address.
    #[must_use]
    pub const fn from(mut self, address: IpAddr) -> Self {
        self.from = Some(address);
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
    /// The response to the client, given the answer to the question that its own has led to.
    pub(super) fn whole<'m>(&self, answer: &'m Message) -> Cow<'m, Message> {
        let alias = self.waiter.alias.as_ref();
        let whole = alias.and_then(|first| join(first, answer, &mut vec![0; MAX_MESSAGE]));
        whole.map_or(Cow::Borrowed(answer), Cow::Owned)
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
