//! Questions on their way to the resolver, and the clients that wait for answers.

use daemon::udp::ReturnPath;
use dns_cache::answer::{Asker, DnssecOk};
use dns_cache::key::Variant;
use dns_cache::moment::Moment;
use dns_wire::Flags;
use tokio::sync::mpsc;

use crate::totals::Way;

/// A question for the resolver.
#[derive(Debug)]
pub struct Job {
    /// The question, letter case as asked.
    pub question: Box<[u8]>,
    /// DO and CD.
    pub variant: Variant,
    /// A stale answer is at hand.
    pub has_stale: bool,
    /// Who waits; nobody when the cache wants a refresh.
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
    /// The longest response it takes.
    pub limit: usize,
    /// How it came.
    pub way: Way,
    /// When it came.
    pub asked: Moment,
    /// Where its answer goes.
    pub to: ReturnTo,
}

/// Where an answer goes.
#[derive(Debug)]
pub enum ReturnTo {
    /// Back as a datagram.
    Datagram(ReturnPath),
    /// To the task that writes a connection, with room for every query it has let in.
    Stream(mpsc::Sender<Vec<u8>>),
}

impl Waiter {
    /// A waiter for what `asker` has asked.
    #[must_use]
    pub const fn new(asker: &Asker<'_>, way: Way, asked: Moment, to: ReturnTo) -> Self {
        Self {
            id: asker.id,
            flags: asker.flags,
            edns: asker.edns,
            limit: asker.limit,
            way,
            asked,
            to,
        }
    }
}

/// A waiter with the question it has asked.
#[derive(Debug)]
pub struct Client {
    pub(super) question: Box<[u8]>,
    pub(super) waiter: Waiter,
}

impl Client {
    pub(super) const fn asker(&self) -> Asker<'_> {
        Asker {
            id: self.waiter.id,
            flags: self.waiter.flags,
            question: &self.question,
            edns: self.waiter.edns,
            limit: self.waiter.limit,
        }
    }
}
