//! Sends this server queries for the SOA of every zone, through the same table as clients' queries.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config_text::counted_as;
use dns_answer::table::Origin;
use dns_answer::{Client, Snapshot, Transport, Verdict};
use dns_wire::header::{self, Flags};
use dns_wire::{Name, Rcode, Type};

use crate::shared::Shared;

/// The client: this process.
const CLIENT: Client = Client {
    peer: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    local: None,
    local_port: 0,
    transport: Transport::Tcp,
    can_wait: false,
    may_ask: true,
    clock: dns_serve::cookies::clock,
};

/// The class of the internet (RFC 1035 §3.2.4).
const INTERNET: u16 = 1;

/// Queries every zone; returns how many answered, or the one that did not. Those that only some clients may query have their data.
pub fn run(shared: &Shared, snapshot: &Snapshot) -> Result<String, String> {
    let is_any = snapshot.zones().next().is_some();
    let mut out = vec![0; dns_answer::MAX_MESSAGE];
    let mut n = 0;
    for served in snapshot.zones() {
        // A catalog answers its readers alone, and a primary that lacks a zone that it lists is no fault of this server.
        match &served.origin {
            Origin::Catalog(_) => continue,
            Origin::Member if served.zone.is_none() => continue,
            Origin::Member | Origin::Configured => n += 1,
        }
        let sight = snapshot.seen_by(CLIENT.peer.ip(), None);
        let seen = sight.table.zone(&served.apex);
        let is_seen = seen.is_some_and(|seen| Arc::ptr_eq(seen, served));
        if !is_seen || !served.is_open_to(CLIENT.peer.ip(), None) {
            if served.zone.is_none() {
                return Err(format!("zone {}: it has no data", served.id()));
            }
            continue;
        }
        let query = query(&served.apex);
        let verdict = shared.respond(&query, &CLIENT, &mut out);
        let Verdict::Reply(length) = verdict else {
            return Err(format!("zone {}: no answer", served.id()));
        };
        let reply = out.get(..length).unwrap_or_default();
        let flags = Flags::read(reply).ok_or("the answer has no header")?;
        let n_answers = header::counts(reply).map_or(0, |[_, answers, ..]| answers);
        if flags.rcode() != Rcode::NOERROR || !flags.has(Flags::AA) || n_answers == 0 {
            return Err(format!("zone {}: answered {}", served.id(), flags.rcode()));
        }
    }
    match n {
        0 if is_any => Ok("only catalogs are served".to_owned()),
        0 => Err("no zone is served".to_owned()),
        n => Ok(counted_as(n, "zone answers", "zones answer")),
    }
}

/// A question for the SOA of a zone.
fn query(apex: &Name) -> Vec<u8> {
    let mut query = vec![0x0f, 0xf1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(apex.as_wire());
    query.extend_from_slice(&Type::SOA.0.to_be_bytes());
    query.extend_from_slice(&INTERNET.to_be_bytes());
    query
}
