//! Runs programs that read the query, for each query.

use std::net::{IpAddr, SocketAddr};

use dns_answer::live::Failure;
use dns_answer::{Call, Programs, Transport};
use dns_lua::{Certainty, Client, LuaError};
use dns_wire::{ClientSubnet, Name};
use ipnet::IpNet;

use super::{failure, seconds};

/// Runs the programs that need the query, in an interpreter that the calling thread keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct LuaPrograms;

impl Programs for LuaPrograms {
    fn run(&mut self, call: &Call<'_>) -> Result<(u32, Vec<Vec<u8>>), Failure> {
        let context = call.live.context().ok_or(Failure::Incomplete)?;
        let snippet = context
            .snippets
            .get(call.set as usize)
            .and_then(|snippets| snippets.get(call.program as usize))
            .ok_or(Failure::Incomplete)?;
        let client = client(call);
        let run = |evaluator: &mut dns_lua::Evaluator| {
            let answer = evaluator.answer_for(snippet, &context.view.0, &client, call.seed)?;
            let mut ttl = snippet.ttl;
            if let Some(bound) = answer.ttl_bound {
                ttl = ttl.min(seconds(bound));
            }
            if answer.certainty == Certainty::Unknown {
                ttl = ttl.min(context.unknown_ttl);
            }
            let values = answer.values.iter();
            let items: Result<Vec<_>, LuaError> = values
                .map(|value| dns_lua::rdata(snippet.rtype, value))
                .collect();
            Ok((ttl, items?))
        };
        dns_lua::on_this_thread(&context.settings, run)
            .and_then(|result: Result<_, LuaError>| result)
            .map_err(|error| failure(&error))
    }
}

/// The query as programs see it.
fn client(call: &Call<'_>) -> Client {
    let query = call.query;
    let [i1, i0] = query.id.to_be_bytes();
    let [f1, f0] = query.flags.0.to_be_bytes();
    let additionals = u8::from(query.edns.is_some());
    let local = call.client.local.unwrap_or_else(|| match call.client.peer {
        SocketAddr::V4(_) => IpAddr::from([0; 4]),
        SocketAddr::V6(_) => IpAddr::from([0; 16]),
    });
    Client {
        who: call.client.peer,
        local: SocketAddr::new(local, call.client.local_port),
        subnet: call.subnet.and_then(network),
        qname: Name::from_wire(query.qname).map_or_else(|_| Name::root(), |(name, _)| name),
        header: [i1, i0, f1, f0, 0, 1, 0, 0, 0, 0, 0, additionals],
        tcp: call.client.transport != Transport::Udp,
        dnssec_ok: query.dnssec_ok(),
        payload_size: query.edns.map(|edns| edns.udp_size),
    }
}

fn network(subnet: ClientSubnet) -> Option<IpNet> {
    IpNet::new(subnet.address, subnet.source_prefix).ok()
}
