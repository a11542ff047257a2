//! The other nodes that healthd exchanges findings with; rules between the keys of `[exchange]` are checked here.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ::config::healthd::{Exchange, Healthd};
use ::config::nodes::{NodeFiles, NodeName};
use ::config::renewal::Renewal;
use ::config::{Check, HostPort, at};
use exchange::members::{MAX_PEERS, Settings};

/// The exchange, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeConfig {
    /// The name of this node.
    pub node: NodeName,
    /// The other nodes, one at least.
    pub peers: Vec<PeerAddress>,
    /// The addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The files with which this node proves its name.
    pub files: NodeFiles,
    /// The certificates for clients that the nodes give each other.
    pub renewal: Option<Renewal>,
    /// The settings of the core.
    pub settings: Settings,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its name.
    pub name: NodeName,
    /// Its address.
    pub address: HostPort,
}

/// The exchange of the file; none without another node.
pub(super) fn exchange(file: &Healthd, check: &mut Check<'_>) -> Option<ExchangeConfig> {
    let Some(written) = &file.exchange else {
        if file.renewal.is_some() {
            let words = "[renewal] needs [exchange]: only the nodes there could give this one a certificate";
            check.problem(&at!["renewal"], words);
        }
        return None;
    };
    let node = written.node.parse::<NodeName>();
    if let Err(error) = &node {
        check.problem(&at!["exchange", "node"], error.to_string());
    }
    if written.peers.len() > MAX_PEERS {
        let words = format!("there are at most {MAX_PEERS} other nodes");
        check.problem(&at!["exchange", "peers"], words);
    }
    if written.listen.is_empty() && !written.peers.is_empty() {
        let words = "`listen` is empty: no other node could hear this one";
        check.problem(&at!["exchange", "listen"], words);
    }
    let peers = peers(written, check);
    if peers.is_empty() {
        return None;
    }
    let name = |peer: &PeerAddress| peer.name.to_string();
    Some(ExchangeConfig {
        settings: Settings {
            node: written.node.clone(),
            peers: peers.iter().map(name).collect(),
            silence: written.silence.get(),
            hold: written.hold.get(),
            max_findings: file.probes.targets.get(),
        },
        node: node.ok()?,
        peers,
        listen: written.listen.iter().map(|address| address.0).collect(),
        files: written.files(),
        renewal: file.renewal.clone(),
    })
}

fn peers(written: &Exchange, check: &mut Check<'_>) -> Vec<PeerAddress> {
    let mut names = BTreeSet::from([written.node.as_str()]);
    let mut peers = Vec::new();
    for (index, peer) in written.peers.iter().enumerate() {
        let name = peer.name.parse::<NodeName>();
        if let Err(error) = &name {
            let place = at!["exchange", "peers", index, "name"];
            check.problem(&place, error.to_string());
        }
        let address = peer.address.parse::<HostPort>();
        if let Err(error) = &address {
            let place = at!["exchange", "peers", index, "address"];
            check.problem(&place, error.to_string());
        }
        if !names.insert(&peer.name) {
            let place = at!["exchange", "peers", index, "name"];
            check.problem(&place, "that is the name of another node");
        }
        if let (Ok(name), Ok(address)) = (name, address) {
            peers.push(PeerAddress { name, address });
        }
    }
    peers
}
