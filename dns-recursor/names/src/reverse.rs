//! The reverse name of an address (RFC 1035 §3.5, RFC 3596 §2.5).

use std::fmt::Write as _;
use std::net::IpAddr;

use dns_wire::Name;

/// The name under in-addr.arpa or ip6.arpa.
#[must_use]
pub fn name(address: IpAddr) -> Name {
    let mut text = String::new();
    let written = match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            write!(text, "{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let octets = address.octets();
            let mut octets = octets.iter().rev();
            octets
                .try_for_each(|octet| write!(text, "{:x}.{:x}.", octet & 15, octet >> 4))
                .and_then(|()| text.write_str("ip6.arpa."))
        }
    };
    // Neither fails: a string takes all that is written, and a reverse name is 74 octets at most.
    match written {
        Ok(()) => Name::parse(&text).unwrap_or_else(|_| Name::root()),
        Err(_) => Name::root(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_reverse_order() {
        for (address, expected) in [
            ("192.168.7.13", "13.7.168.192.in-addr.arpa."),
            (
                "2001:db8::1a",
                "a.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.",
            ),
        ] {
            assert_eq!(name(address.parse().unwrap()).to_string(), expected);
        }
    }
}
