//! Networks as zones of reverse names, as `CoreDNS` reads `10.0.0.0/8` where a zone is expected.

use ipnet::IpNet;

/// The zones that hold the reverse names of a network (RFC 1035 §3.5, RFC 3596 §2.5); several when the network
/// ends inside a label.
pub(crate) fn zones(network: IpNet) -> Vec<String> {
    let network = network.trunc();
    let bits_per_label = match network {
        IpNet::V4(_) => 8,
        IpNet::V6(_) => 4,
    };
    let length = network.prefix_len().next_multiple_of(bits_per_label);
    let n_labels = usize::from(length / bits_per_label);
    let parts = network.subnets(length).into_iter().flatten();
    parts.map(|part| zone(part, n_labels)).collect()
}

/// The zone of a network that ends with a label.
fn zone(network: IpNet, n_labels: usize) -> String {
    let (mut labels, parent): (Vec<String>, _) = match network {
        IpNet::V4(network) => {
            let octets = network.network().octets();
            (octets.iter().map(u8::to_string).collect(), "in-addr.arpa.")
        }
        IpNet::V6(network) => {
            let octets = network.network().octets();
            let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
            (
                digits.map(|digit| format!("{digit:x}")).collect(),
                "ip6.arpa.",
            )
        }
    };
    labels.truncate(n_labels);
    labels.reverse();
    labels.push(parent.to_owned());
    labels.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_zone_or_as_many_as_its_last_label_has_left() {
        let of = |text: &str| zones(text.parse().unwrap());
        assert_eq!(of("10.0.0.0/8"), ["10.in-addr.arpa."]);
        assert_eq!(of("192.168.7.13/24"), ["7.168.192.in-addr.arpa."]);
        assert_eq!(
            of("172.16.2.0/23"),
            ["2.16.172.in-addr.arpa.", "3.16.172.in-addr.arpa."]
        );
        assert_eq!(of("192.0.2.128/25").len(), 128);
        assert_eq!(of("192.0.2.1/32"), ["1.2.0.192.in-addr.arpa."]);
        assert_eq!(of("2001:db8::/32"), ["8.b.d.0.1.0.0.2.ip6.arpa."]);
        assert_eq!(of("fc00::/7"), ["c.f.ip6.arpa.", "d.f.ip6.arpa."]);
        assert_eq!(of("0.0.0.0/0"), ["in-addr.arpa."]);
    }
}
