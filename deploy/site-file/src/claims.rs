//! The owners of addresses, names and ports: each has one owner.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;

use super::report::Report;

//--- Addresses

/// Addresses of nodes and virtual IPs.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// `None` when they could not be read; then nothing is compared with them.
    networks: Option<Vec<IpNet>>,
    taken: BTreeMap<IpAddr, String>,
}

impl Addresses {
    pub(super) fn new(networks: Option<Vec<IpNet>>) -> Self {
        Self {
            networks,
            taken: BTreeMap::new(),
        }
    }

    /// Gives an address to `who`, unless it has another owner or is unusable.
    pub(super) fn claim(
        &mut self,
        report: &mut Report<'_, '_>,
        address: IpAddr,
        span: Range<usize>,
        who: &str,
    ) {
        if let Some(owner) = self.taken.get(&address) {
            report.wrong(
                span,
                format!("{address} is the address of {owner} already; give one of them another"),
            );
            return;
        }
        if let Some(why) = self.unfit(address) {
            report.wrong(span, why);
        }
        self.taken.insert(address, who.to_owned());
    }

    /// The networks of the site, as far as they could be read.
    pub(super) fn networks(&self) -> &[IpNet] {
        self.networks.as_deref().unwrap_or_default()
    }

    /// The network that an address is in.
    pub(super) fn network_of(&self, address: IpAddr) -> Option<IpNet> {
        let mut networks = self.networks().iter().copied();
        networks.find(|network| network.contains(&address))
    }

    fn unfit(&self, address: IpAddr) -> Option<String> {
        if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
            return Some(format!(
                "{address} cannot be the address of a machine; write one that other machines reach"
            ));
        }
        let networks = self.networks.as_deref()?;
        let Some(network) = self.network_of(address) else {
            let known: Vec<String> = networks.iter().map(ToString::to_string).collect();
            return Some(format!(
                "{address} is outside the site's networks ({}); correct it, or add its network to `networks`",
                known.join(", ")
            ));
        };
        match network {
            // Networks of 31 and 32 bits have neither (RFC 3021).
            IpNet::V4(v4) if v4.prefix_len() < 31 && address == v4.network() => Some(format!(
                "{address} is the network {network} itself; write an address in it"
            )),
            IpNet::V4(v4) if v4.prefix_len() < 31 && address == v4.broadcast() => Some(format!(
                "{address} is the broadcast address of {network}; write another one in it"
            )),
            IpNet::V6(v6) if v6.prefix_len() < 127 && address == v6.network() => Some(format!(
                "{address} is every router of {network} (RFC 4291 §2.6.1); write another one in it"
            )),
            IpNet::V4(_) | IpNet::V6(_) => None,
        }
    }
}

//--- Names

/// Names below the domain.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeMap<String, Claim>,
}

#[derive(Debug)]
struct Claim {
    who: String,
    /// The addresses of a host, which may have several records.
    host: Option<Vec<IpAddr>>,
}

impl Names {
    /// Gives a name to `who`, unless it has another owner.
    pub(super) fn claim(
        &mut self,
        report: &mut Report<'_, '_>,
        name: &str,
        span: Range<usize>,
        who: String,
    ) {
        // Names of DNS are the same in either case (RFC 4343).
        let key = name.to_ascii_lowercase();
        match self.taken.get(&key) {
            Some(claim) => report.wrong(
                span,
                format!("`{name}` is {} already; choose another name", claim.who),
            ),
            None => {
                self.taken.insert(key, Claim { who, host: None });
            }
        }
    }

    /// Gives a name one more address: the records of a host may be several.
    pub(super) fn claim_host(
        &mut self,
        report: &mut Report<'_, '_>,
        name: &str,
        address: IpAddr,
        span: Range<usize>,
    ) {
        let claim = self
            .taken
            .entry(name.to_ascii_lowercase())
            .or_insert_with(|| Claim {
                who: format!("the record {name}"),
                host: Some(Vec::new()),
            });
        match &mut claim.host {
            None => report.wrong(
                span,
                format!("`{name}` is {} already; choose another name", claim.who),
            ),
            Some(known) if known.contains(&address) => {
                report.wrong(
                    span,
                    format!("`{name}` has {address} already; take one of them out"),
                );
            }
            Some(known) => known.push(address),
        }
    }

    /// Whether a name has an owner.
    pub(super) fn has(&self, name: &str) -> bool {
        self.taken.contains_key(&name.to_ascii_lowercase())
    }
}

//--- Ports

/// TCP ports that something listens on, on every node.
#[derive(Debug)]
pub(super) struct Ports {
    taken: BTreeMap<u16, String>,
}

impl Ports {
    /// With those of the services that are the same everywhere.
    pub(super) fn new() -> Self {
        let fixed = [
            (22, "ssh"),
            (53, "dns-recursor"),
            (5301, "dns-authd"),
            (5445, "healthd, for other nodes"),
            (9401, "healthd's admin listener"),
            (9402, "dns-authd's admin listener"),
            (9403, "dns-recursor's admin listener"),
            (9404, "lb-proxy's admin listener"),
            (9405, "registry-svc's admin listener"),
            (9406, "timesync-agent's admin listener"),
        ];
        Self {
            taken: fixed.map(|(port, who)| (port, who.to_owned())).into(),
        }
    }

    /// Gives a port to `who`, unless it has another owner.
    pub(super) fn claim(
        &mut self,
        report: &mut Report<'_, '_>,
        port: u16,
        span: Range<usize>,
        who: String,
    ) {
        if port == 0 {
            report.wrong(span, "0 is no port to listen on; ports are 1 to 65535");
        } else if let Some(owner) = self.taken.get(&port) {
            report.wrong(
                span,
                format!("port {port} for {who} is the port of {owner} already; choose another one"),
            );
        } else {
            self.taken.insert(port, who);
        }
    }
}
