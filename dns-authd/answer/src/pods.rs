//! Names of pods that say their address: `10-128-0-7.NAMESPACE.pod.DOMAIN`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns_wire::hash::Suffixes;
use dns_zone::Zone;

/// The address that a name says, if it is the name of a pod in a namespace of the domain whose names above the parts are in
/// `root`.
pub(crate) fn address(name: &Suffixes, root: &Zone) -> Option<IpAddr> {
    let n_labels = name.n_labels();
    let parent = n_labels.checked_sub(1)?;
    // The pod, its namespace, and `pod`.
    if n_labels != root.apex().n_labels() + 3 || !root.has(name, parent) {
        return None;
    }
    if !name.suffix(parent.checked_sub(1)?).starts_with(b"\x03pod") {
        return None;
    }
    let (length, rest) = name.name().split_first()?;
    let label = rest.get(..usize::from(*length))?;
    let label = std::str::from_utf8(label).ok()?;
    // As in CoreDNS: three single dashes are those of an IPv4 address.
    let is_four = label.matches('-').count() == 3 && !label.contains("--");
    match is_four {
        true => label.replace('-', ".").parse().ok().map(Ipv4Addr::into),
        false => label.replace('-', ":").parse().ok().map(Ipv6Addr::into),
    }
}
