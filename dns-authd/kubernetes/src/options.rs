//! The options, with their texts read.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cluster::{Service, ServiceType};
use config::dns_authd::{Kubernetes, PodNames};
use dns_wire::{Name, NameError};
use ipnet::IpNet;

use crate::selector::Selector;

/// The most reverse zones: a network whose zones are more is refused.
const MAX_REVERSE: usize = 1024;

/// The options of the names of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option by itself")]
pub struct Options {
    /// The domain of the cluster.
    pub domain: Name,
    /// The zones of addresses.
    pub reverse: Vec<Name>,
    /// The zone of addresses outside the cluster.
    pub external: Option<Name>,
    /// The zones whose names Services may have by annotations.
    pub hostname_zones: Vec<Name>,
    /// Whether the zone above answers for addresses without a name.
    pub fallthrough: bool,
    /// The TTL of names and of negative answers.
    pub ttl: u32,
    /// The names of pods.
    pub pods: PodNames,
    /// The namespaces; empty for all.
    pub namespaces: BTreeSet<String>,
    /// The labels of namespaces.
    pub namespace_labels: Selector,
    /// The labels of Services.
    pub labels: Selector,
    /// Whether there are the further names of `SkyDNS`.
    pub skydns: bool,
    /// The labels of Services whose endpoints healthd probes; none without it.
    pub probe: Option<Selector>,
    /// Whether a Service without a ready endpoint has no name.
    pub ignore_empty_service: bool,
    /// Whether endpoints have the names of their pods.
    pub endpoint_pod_names: bool,
    /// The addresses of the name server.
    pub name_servers: Vec<IpAddr>,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The key of the value in the table.
    pub key: &'static str,
    /// The place in a list.
    pub index: Option<usize>,
    /// The reason.
    pub message: String,
}

impl Options {
    /// Reads the options of a configuration file.
    ///
    /// # Errors
    /// Every value that cannot be used.
    pub fn of(file: &Kubernetes) -> Result<Self, Vec<Refused>> {
        let mut refused = Vec::new();
        let mut refuse = |key: &'static str, index: Option<usize>, message: String| {
            refused.push(Refused {
                key,
                index,
                message,
            });
        };
        let domain = Name::parse(&file.domain).unwrap_or_else(|error| {
            let message = format!("`{}` is no domain: {error}", file.domain);
            refuse("domain", None, message);
            Name::root()
        });
        let reverse = reverse_zones(file, &mut refuse);
        let external = file.external.as_ref().and_then(|text| {
            let message = match Name::parse(text) {
                Ok(name) if name != domain && !name.is_root() => return Some(name),
                Ok(_) => format!(
                    "`{text}` cannot be the zone of external names: it is the domain, or the root"
                ),
                Err(error) => format!("`{text}` is no domain: {error}"),
            };
            refuse("external", None, message);
            None
        });
        let taken = (&domain, external.as_ref());
        let hostname_zones = hostname_zones(file, taken, &mut refuse);
        let mut selector = |key, text: &str| {
            text.parse().unwrap_or_else(|error| {
                refuse(key, None, format!("{error}"));
                Selector::default()
            })
        };
        let namespace_labels = selector("namespace-labels", &file.namespace_labels);
        let labels = selector("labels", &file.labels);
        let probe = file.probe.as_ref().map(|text| selector("probe", text));
        let options = Self {
            domain,
            reverse,
            external,
            hostname_zones,
            fallthrough: file.fallthrough,
            ttl: file.ttl.get(),
            pods: match file.pods {
                // SkyDNS has them without a choice.
                PodNames::Disabled if file.skydns => PodNames::Insecure,
                pods => pods,
            },
            namespaces: file.namespaces.iter().cloned().collect(),
            namespace_labels,
            labels,
            skydns: file.skydns,
            probe,
            ignore_empty_service: file.ignore_empty_service,
            endpoint_pod_names: file.endpoint_pod_names,
            name_servers: file.name_servers.iter().map(|address| address.0).collect(),
        };
        match refused.is_empty() {
            true => Ok(options),
            false => Err(refused),
        }
    }

    /// The zones: the domain, then the reverse zones, then that of external names, then those of hostnames.
    pub fn apexes(&self) -> impl Iterator<Item = &Name> {
        let first = std::iter::once(&self.domain).chain(&self.reverse);
        first.chain(&self.external).chain(&self.hostname_zones)
    }

    /// Whether healthd probes the endpoints of a Service: those that names lead to.
    pub(crate) fn probes(&self, service: &Service) -> bool {
        let leads_to_endpoints = service.headless || self.skydns;
        let probe = self.probe.as_ref();
        leads_to_endpoints
            && service.kind != ServiceType::ExternalName
            && probe.is_some_and(|labels| labels.selects(&service.meta.labels))
    }
}

/// Takes a key, a place in its list, and the reason why the value cannot be used.
type Refuse<'r> = dyn FnMut(&'static str, Option<usize>, String) + 'r;

/// The zones of the networks whose addresses have names.
fn reverse_zones(file: &Kubernetes, refuse: &mut Refuse<'_>) -> Vec<Name> {
    let mut reverse = Vec::new();
    for (index, network) in file.reverse.iter().enumerate() {
        match zones_of(**network) {
            Some(Ok(zones)) if reverse.len() + zones.len() <= MAX_REVERSE => {
                let new = zones.into_iter().filter(|zone| !reverse.contains(zone));
                let new: Vec<Name> = new.collect();
                reverse.extend(new);
            }
            Some(Err(error)) => refuse("reverse", Some(index), error.to_string()),
            _ => {
                let message =
                    format!("the networks up to {network} need more than {MAX_REVERSE} zones");
                refuse("reverse", Some(index), message);
            }
        }
    }
    reverse
}

/// The zones of names by annotations; they are none of those that the cluster has besides.
fn hostname_zones(
    file: &Kubernetes,
    (domain, external): (&Name, Option<&Name>),
    refuse: &mut Refuse<'_>,
) -> Vec<Name> {
    let mut hostname_zones: Vec<Name> = Vec::new();
    for (index, text) in file.hostname_zones.iter().enumerate() {
        let message = match Name::parse(text) {
            Ok(name) if name.is_root() || name.is_within(domain) => format!(
                "`{text}` cannot be a zone of hostnames: it is the root, or lies in the domain"
            ),
            Ok(name) if external == Some(&name) || hostname_zones.contains(&name) => {
                format!("`{text}` is a zone of the cluster already")
            }
            Ok(name) => {
                hostname_zones.push(name);
                continue;
            }
            Err(error) => format!("`{text}` is no domain: {error}"),
        };
        refuse("hostname-zones", Some(index), message);
    }
    hostname_zones
}

/// The reverse zones of a network: one if it ends between two labels, else one for each value of the label that it ends in.
/// `None` if they are too many.
fn zones_of(network: IpNet) -> Option<Result<Vec<Name>, NameError>> {
    let bits_of_label = match network {
        IpNet::V4(_) => 8,
        IpNet::V6(_) => 4,
    };
    let end = network.prefix_len().div_ceil(bits_of_label) * bits_of_label;
    let n_zones = 1_u32.checked_shl(u32::from(end - network.prefix_len()))?;
    let n_labels = usize::from(end / bits_of_label);
    let zones = (0..n_zones).map(|number| {
        let address = nth(network, end, number);
        let name = reverse_name(address)?;
        // The labels of the zone, and the two of `in-addr.arpa` or `ip6.arpa`.
        Ok(name.suffix(n_labels + 2))
    });
    Some(zones.collect())
}

/// The first address of the subnetwork of this number, in a network that is divided at the bit `end`.
fn nth(network: IpNet, end: u8, number: u32) -> IpAddr {
    match network.network() {
        IpAddr::V4(first) => {
            let step = number.checked_shl(32 - u32::from(end)).unwrap_or(0);
            Ipv4Addr::from_bits(first.to_bits() | step).into()
        }
        IpAddr::V6(first) => {
            let step = u128::from(number);
            let step = step.checked_shl(128 - u32::from(end)).unwrap_or(0);
            Ipv6Addr::from_bits(first.to_bits() | step).into()
        }
    }
}

/// The name of an address below `in-addr.arpa` or `ip6.arpa` (RFC 1035 §3.5, RFC 3596 §2.5).
pub(crate) fn reverse_name(address: IpAddr) -> Result<Name, NameError> {
    let text = match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let octets = address.octets().into_iter().rev();
            let labels = octets.map(|octet| format!("{:x}.{:x}.", octet & 0xf, octet >> 4));
            labels.collect::<String>() + "ip6.arpa"
        }
    };
    Name::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(network: &str) -> Vec<String> {
        let zones = zones_of(network.parse().unwrap()).unwrap().unwrap();
        zones.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_network_has_the_zones_that_cover_it_and_nothing_else() {
        assert_eq!(zones("172.30.0.0/16"), ["30.172.in-addr.arpa."]);
        assert_eq!(zones("10.0.0.0/8"), ["10.in-addr.arpa."]);
        assert_eq!(
            zones("10.128.0.0/14"),
            ["128", "129", "130", "131"].map(|label| format!("{label}.10.in-addr.arpa."))
        );
        assert_eq!(zones("192.0.2.7/32"), ["7.2.0.192.in-addr.arpa."]);
        assert_eq!(zones("0.0.0.0/0"), ["in-addr.arpa."]);
        assert_eq!(zones("fd00::/8"), ["d.f.ip6.arpa."]);
        assert_eq!(
            zones("fd02::/15"),
            ["2.0.d.f.ip6.arpa.", "3.0.d.f.ip6.arpa."]
        );
    }

    #[test]
    fn values_that_cannot_be_used_are_named_with_their_keys() {
        let file = Kubernetes {
            domain: "a..b".to_owned(),
            labels: "a within b".to_owned(),
            ..Kubernetes::default()
        };
        let refused = Options::of(&file).unwrap_err();
        let keys: Vec<&str> = refused.iter().map(|refused| refused.key).collect();
        assert_eq!(keys, ["domain", "labels"]);
    }
}
