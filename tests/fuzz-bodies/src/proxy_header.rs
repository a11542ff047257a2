//! Any bytes as the beginning of a connection that may have a PROXY header.

use l4_core::proxy_protocol::{Header, LONGEST, Parsed, Version, parse, write_v1, write_v2};

pub(super) fn body(data: &[u8]) {
    let whole = parse(data);
    // A decision holds, however much follows; and nothing is held back beyond a bound.
    if let Some(end) = (0..=data.len()).find(|end| parse(&data[..*end]) != Parsed::More) {
        assert_eq!(parse(&data[..end]), whole, "decided at {end}");
    } else {
        assert!(
            data.len() < LONGEST,
            "{} octets and no decision",
            data.len()
        );
    }
    let Parsed::Header { header, length } = whole else {
        return;
    };
    assert!(length <= data.len() && length <= LONGEST, "{length}");
    assert_eq!(header.source.is_some(), header.destination.is_some());
    // Everything but the form of addresses survives being written.
    let mut octets = Vec::new();
    match header.version {
        Version::V1 => write_v1(&header, &mut octets),
        Version::V2 => write_v2(&header, &mut octets),
    }
    let length = octets.len();
    let canonical = |header: Header| Header {
        source: header.source.map(in_one_family),
        destination: header.destination.map(in_one_family),
        ..header
    };
    match (parse(&octets), header.version) {
        (
            Parsed::Header {
                header: again,
                length: all,
            },
            version,
        ) => {
            assert_eq!(all, length);
            let mut header = canonical(header);
            let mut again = canonical(again);
            if version == Version::V2 {
                // A checksum is computed again.
                header.tlvs.retain(|tlv| tlv.kind != 3);
                again.tlvs.retain(|tlv| tlv.kind != 3);
            }
            assert_eq!(again, header);
        }
        (other, _) => panic!("{other:?}"),
    }
}

fn in_one_family(address: std::net::SocketAddr) -> std::net::SocketAddr {
    std::net::SocketAddr::new(address.ip().to_canonical(), address.port())
}
