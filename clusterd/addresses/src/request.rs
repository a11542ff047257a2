//! The requests of a Service, in the fields and annotations that load balancers know.

use std::net::IpAddr;

use cluster::Service;

use crate::Refusal;

/// The annotation by which the keepalived operator knows a Service: `NAMESPACE/NAME` of a group.
pub const KEEPALIVED_GROUP: &str = "keepalived-operator.redhat-cop.io/keepalivedgroup";

/// kube-vip's, for a Service that it leaves alone.
const IGNORE: &str = "kube-vip.io/ignore";

/// The annotations that ask for addresses, separated by commas.
const ADDRESSES: [&str; 4] = [
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
    "lbipam.cilium.io/ips",
];

/// The field that does.
const LOAD_BALANCER_IP: &str = "spec.loadBalancerIP";

/// The annotations that name a pool.
const POOLS: [&str; 2] = [
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
];

/// The requests of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// These addresses, one of a family at most.
    pub(crate) addresses: Vec<IpAddr>,
    /// This pool.
    pub(crate) pool: Option<String>,
    /// The group of the keepalived operator, without its namespace.
    pub(crate) group: Option<String>,
}

/// Whether a Service says that it is another's.
#[must_use]
pub fn is_ignored(service: &Service) -> bool {
    annotation(service, IGNORE) == Some("true")
}

impl Request {
    pub(crate) fn of(service: &Service) -> Result<Self, Refusal> {
        let group = annotation(service, KEEPALIVED_GROUP);
        let group = group.map(|group| group.rsplit('/').next().unwrap_or(group).to_owned());
        Ok(Self {
            addresses: addresses(service)?,
            pool: pool(service)?,
            group,
        })
    }

    /// The address of a family that it asks for.
    pub(crate) fn of_family(&self, is_v6: bool) -> impl Iterator<Item = IpAddr> {
        let addresses = self.addresses.iter().copied();
        addresses.filter(move |address| address.is_ipv6() == is_v6)
    }
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let value = service.meta.annotations.get(key)?.trim();
    Some(value).filter(|value| !value.is_empty())
}

/// The addresses of the first field that has any; another field may say the same.
fn addresses(service: &Service) -> Result<Vec<IpAddr>, Refusal> {
    let annotated = ADDRESSES
        .iter()
        .filter_map(|key| Some((*key, annotation(service, key)?)));
    let written = Some(service.load_balancer_ip.trim()).filter(|value| !value.is_empty());
    let written = written.map(|value| (LOAD_BALANCER_IP, value));
    let mut found: Option<(&'static str, Vec<IpAddr>)> = None;
    for (field, value) in annotated.chain(written) {
        let parts = value.split(',').map(|part| {
            let part = part.trim();
            let parsed = part.parse::<IpAddr>();
            parsed.map_err(|_| Refusal::NoAddress(field, part.to_owned()))
        });
        let mut parsed = parts.collect::<Result<Vec<IpAddr>, Refusal>>()?;
        parsed.sort_unstable();
        parsed.dedup();
        match &found {
            Some((other, known)) if *known != parsed => {
                return Err(Refusal::Contradiction(other, field));
            }
            Some(_) => {}
            None => found = Some((field, parsed)),
        }
    }
    let addresses = found.map(|(_, addresses)| addresses).unwrap_or_default();
    for (place, one) in addresses.iter().enumerate() {
        let mut others = addresses.iter().skip(place + 1);
        if let Some(other) = others.find(|other| other.is_ipv4() == one.is_ipv4()) {
            return Err(Refusal::TwoOfFamily(*one, *other));
        }
    }
    Ok(addresses)
}

fn pool(service: &Service) -> Result<Option<String>, Refusal> {
    let [new, old] = POOLS.map(|key| annotation(service, key));
    match (new, old) {
        (Some(one), Some(other)) if one != other => Err(Refusal::Contradiction(POOLS[0], POOLS[1])),
        (one, other) => Ok(one.or(other).map(str::to_owned)),
    }
}
