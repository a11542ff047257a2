//! The result of a query.

use std::sync::Arc;

use dns_history::History;
use dns_update::{Grant, Update};
use dns_views::ZoneId;
use dns_wire::{Name, Session};

/// The response to a query for an incremental transfer over UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ixfr {
    /// That is not decided: the verdict is [`Verdict::Incremental`].
    #[default]
    Undecided,
    /// The SOA record alone.
    SoaAlone,
    /// The differences of this history, if they fit.
    Differences(History),
}

/// The next step for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send this many octets of the buffer.
    Reply(usize),
    /// Send nothing.
    Silent,
    /// Ask again a little later: no target of this live set has been probed yet.
    Wait {
        /// The zone.
        zone: ZoneId,
        /// The live set.
        set: u32,
    },
    /// Transfer the zone, if the client may have it.
    Transfer {
        /// The zone.
        zone: ZoneId,
        /// The signature of a signed query, which also signs the transfer.
        session: Option<Box<Session>>,
    },
    /// Ask again with [`Responder::set_ixfr`](crate::Responder::set_ixfr): the client may have the differences, or not.
    Incremental {
        /// The zone.
        zone: ZoneId,
        /// The key that the query is signed with.
        key: Option<Name>,
    },
    /// Send this many octets of the buffer, and ask the primaries of the zone: one of them has sent NOTIFY.
    Notified {
        /// The zone.
        apex: Name,
        /// The length of the response.
        length: usize,
    },
    /// Carry out an update, and respond with its code: its key has some grant in the zone.
    Update {
        /// The zone.
        zone: ZoneId,
        /// The update.
        update: Box<Update>,
        /// The grants of the zone.
        grants: Arc<[Grant]>,
        /// The signature of the message, which also signs the response.
        session: Box<Session>,
    },
    /// The query is signed: pass it to [`Responder::respond_signed`](crate::Responder::respond_signed), with the time.
    Signed,
}
