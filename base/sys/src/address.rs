//! Socket addresses as the kernel writes them, without a call and without unsafe code.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::copy;

/// Room for `sockaddr_in` (16 bytes) or `sockaddr_in6` (28 bytes).
pub(crate) const SIZE: usize = 28;

/// Address families as the first two bytes of a socket address hold them.
const FAMILY_V4: [u8; 2] = family(libc::AF_INET);
const FAMILY_V6: [u8; 2] = family(libc::AF_INET6);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "families are small positive numbers"
)]
const fn family(number: i32) -> [u8; 2] {
    (number as u16).to_ne_bytes()
}

/// A socket address of IPv4 or IPv6 in the kernel's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(4))]
pub struct RawAddress {
    pub(crate) octets: [u8; SIZE],
    pub(crate) length: u32,
}

impl RawAddress {
    /// No address, for the kernel to write into.
    pub(crate) const EMPTY: Self = Self {
        octets: [0; SIZE],
        length: 0,
    };

    /// The kernel's form of an address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let mut octets = [0; SIZE];
        let (head, rest) = octets.split_at_mut(8);
        let port = address.port().to_be_bytes();
        let length = match address {
            SocketAddr::V4(address) => {
                let ip = address.ip().octets();
                copy(head, &[FAMILY_V4, port].concat());
                copy(head.get_mut(4..).unwrap_or_default(), &ip);
                16
            }
            SocketAddr::V6(address) => {
                // The port is followed by the flow label.
                copy(head, &[FAMILY_V6, port].concat());
                let (ip, scope) = rest.split_at_mut(16);
                copy(ip, &address.ip().octets());
                copy(scope, &address.scope_id().to_ne_bytes());
                28
            }
        };
        Self { octets, length }
    }

    /// The address as it is: one of IPv4 mapped into IPv6 stays one of IPv6.
    #[must_use]
    pub fn exact(&self) -> SocketAddr {
        let [f0, f1, p0, p1, a0, a1, a2, a3, ip6 @ ..] = self.octets;
        let port = u16::from_be_bytes([p0, p1]);
        if [f0, f1] == FAMILY_V4 {
            return SocketAddr::new(Ipv4Addr::new(a0, a1, a2, a3).into(), port);
        }
        let (Some(ip), Some(scope)) = (ip6.first_chunk::<16>(), ip6.last_chunk::<4>()) else {
            return SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        };
        let scope = u32::from_ne_bytes(*scope);
        SocketAddrV6::new(Ipv6Addr::from(*ip), port, 0, scope).into()
    }

    /// The address; one of IPv4 mapped into IPv6 is given as IPv4.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let exact = self.exact();
        match exact {
            SocketAddr::V6(address) => match address.ip().to_ipv4_mapped() {
                Some(ip) => SocketAddr::new(ip.into(), address.port()),
                None => exact,
            },
            SocketAddr::V4(_) => exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in [
            "127.0.0.2:53",
            "255.254.253.252:65535",
            "[2001:db8::1]:53",
            "[fe80::1%3]:5353",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::new(address).address(), address);
            assert_eq!(RawAddress::new(address).exact(), address);
        }
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:53".parse().unwrap();
        let raw = RawAddress::new(mapped);
        assert_eq!(raw.address(), "10.0.0.1:53".parse().unwrap());
        assert_eq!(raw.exact(), mapped);
        let short = RawAddress::new("1.2.3.4:5".parse().unwrap());
        assert_eq!((raw.length, short.length), (28, 16));
    }
}
