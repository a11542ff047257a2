//! dnstap messages of queries and exchanges.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use config::dns_recursor::{Dnstap, DnstapMessage};
use daemon::clock;
use dnstap::message::Server;
use dnstap::{Event, Kind};
use dnstap_writer::{Counts, Destination, Writer};

use crate::{Exchanged, Peer, Seen};

pub(crate) struct Tap {
    messages: Vec<DnstapMessage>,
    destination: String,
    writer: Writer,
    counts: Arc<Counts>,
}

impl Tap {
    /// Starts the writer, if the table names a place.
    pub(crate) fn start(table: &Dnstap) -> io::Result<Option<Self>> {
        let destination = match (&table.socket, &table.file) {
            (Some(socket), _) => Destination::Socket(socket.clone()),
            (None, Some(path)) => Destination::File {
                path: path.clone(),
                max_size: table.file_size.0,
            },
            (None, None) => return Ok(None),
        };
        let named = match &destination {
            Destination::Socket(path) | Destination::File { path, .. } => path,
        };
        let server = Server {
            identity: table
                .identity
                .as_ref()
                .map(|text| text.clone().into_bytes()),
            version: Some(concat!("dns-recursor ", env!("CARGO_PKG_VERSION")).into()),
        };
        let named = named.display().to_string();
        let writer = Writer::start(destination, server)?;
        Ok(Some(Self {
            messages: table.messages.clone(),
            destination: named,
            counts: writer.counts(),
            writer,
        }))
    }

    pub(crate) fn messages(&self) -> &[DnstapMessage] {
        &self.messages
    }

    fn wants(&self, message: DnstapMessage) -> bool {
        self.messages.contains(&message)
    }

    pub(crate) fn queried(&self, peer: &Peer, message: &[u8]) {
        if self.wants(DnstapMessage::ClientQuery) {
            self.of_client(peer, Kind::ClientQuery, Duration::ZERO, message);
        }
    }

    pub(crate) fn answered(&self, seen: &Seen<'_>) {
        if self.wants(DnstapMessage::ClientResponse)
            && let Some(response) = seen.response
        {
            self.of_client(&seen.peer, Kind::ClientResponse, seen.took, response);
        }
    }

    fn of_client(&self, peer: &Peer, kind: Kind, took: Duration, message: &[u8]) {
        let now = clock::since_1970();
        let local = peer.local.map(|address| dnstap::Peer {
            address,
            port: None,
        });
        self.writer.send(&Event {
            kind,
            transport: peer.transport,
            querier: Some(peer.address.into()),
            responder: local,
            asked: now.saturating_sub(took),
            answered: now,
            message,
        });
    }

    /// A message to an upstream, or one from it, so long after its query.
    pub(crate) fn exchanged(&self, exchanged: &Exchanged<'_>, took: Option<Duration>) {
        use DnstapMessage as Wanted;
        let (wanted, kind) = match (exchanged.is_forwarder, took) {
            (true, None) => (Wanted::ForwarderQuery, Kind::ForwarderQuery),
            (true, Some(_)) => (Wanted::ForwarderResponse, Kind::ForwarderResponse),
            (false, None) => (Wanted::ResolverQuery, Kind::ResolverQuery),
            (false, Some(_)) => (Wanted::ResolverResponse, Kind::ResolverResponse),
        };
        if !self.wants(wanted) {
            return;
        }
        let now = clock::since_1970();
        self.writer.send(&Event {
            kind,
            transport: exchanged.transport,
            querier: None,
            responder: Some(exchanged.to.into()),
            asked: now.saturating_sub(took.unwrap_or_default()),
            answered: now,
            message: exchanged.message,
        });
    }

    /// Writes what waits, and ends the stream.
    pub(crate) fn stop(&self) {
        self.writer.stop();
    }

    pub(crate) fn report(&self) -> api::dns_recursor::Dnstap {
        api::dns_recursor::Dnstap {
            to: self.destination.clone(),
            open: self.counts.is_open(),
            written: self.counts.written(),
            dropped: self.counts.dropped(),
        }
    }
}
