//! Any bytes as an advertisement: the first says over which protocol it comes, the rest is the message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use vrrp::checksum::ChecksumForm;
use vrrp::packet::{Authentication, Datagram, Expected, Version, parse};

pub(super) fn body(data: &[u8]) {
    let Some((&way, octets)) = data.split_first() else {
        return;
    };
    let addresses: [IpAddr; 2] = if way & 1 == 0 {
        [
            Ipv4Addr::new(192, 0, 2, 1).into(),
            Ipv4Addr::new(192, 0, 2, 2).into(),
        ]
    } else {
        [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()]
    };
    check(octets, addresses, way);
    // Once more with the sum right, or nothing behind it is ever seen.
    let mut summed = octets.to_vec();
    if let Some(field) = summed.get_mut(6..8) {
        field.fill(0);
        let sum = sum(&summed);
        summed[6..8].copy_from_slice(&sum.to_be_bytes());
        check(&summed, addresses, way);
    }
}

fn check(octets: &[u8], [source, destination]: [IpAddr; 2], way: u8) {
    let at = |index: usize| octets.get(index).copied().unwrap_or(0);
    let datagram = Datagram {
        source,
        destination,
        hop_limit: Some(255),
        octets,
    };
    let expected = Expected {
        version: if way & 2 == 0 {
            Version::V2
        } else {
            Version::V3
        },
        router_id: at(1),
        interval: Duration::from_secs(at(5).into()),
        authentication: octets
            .last_chunk()
            .filter(|_| way & 4 != 0)
            .map_or(Authentication::None, |last| Authentication::Password(*last)),
        checksum: None,
    };
    let Ok(accepted) = parse(&datagram, &expected) else {
        return;
    };
    let advertisement = accepted.advertisement;
    assert!(!advertisement.interval.is_zero(), "everybody at once");
    assert_eq!(advertisement.router_id, at(1));
    assert_eq!(advertisement.addresses.len(), usize::from(at(3)));
    // An accepted advertisement is the one that this router would send in its place.
    let form = accepted.checksum.unwrap_or(ChecksumForm::PseudoHeader);
    let composed = advertisement.compose(expected.authentication, form, source, destination);
    let datagram = Datagram {
        octets: &composed,
        ..datagram
    };
    let again = parse(&datagram, &expected);
    assert_eq!(again.map(|again| again.advertisement), Ok(advertisement));
}

/// In ones' complement, without a pseudo-header.
fn sum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}
