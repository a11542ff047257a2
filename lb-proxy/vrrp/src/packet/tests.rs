use super::*;

fn octets(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    let octet = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(octet).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn expected(version: Version, router_id: u8) -> Expected {
    Expected {
        version,
        router_id,
        interval: Duration::from_secs(1),
        authentication: Authentication::None,
        checksum: None,
    }
}

/// One message, from where to where, what it says and how it is summed.
struct Vector {
    hex: &'static str,
    source: &'static str,
    destination: &'static str,
    advertisement: Advertisement,
    authentication: Authentication,
    checksum: Option<ChecksumForm>,
}

fn vectors() -> Vec<Vector> {
    let v3 = |priority, centiseconds: u64, addresses: &[&str]| Advertisement {
        version: Version::V3,
        router_id: 51,
        priority,
        interval: Duration::from_millis(centiseconds * 10),
        addresses: addresses.iter().copied().map(ip).collect(),
    };
    vec![
        // The sample capture that Wireshark has of version 2.
        Vector {
            hex: "210164010001ba52c0a800010000000000000000",
            source: "192.168.0.30",
            destination: "224.0.0.18",
            advertisement: Advertisement {
                version: Version::V2,
                router_id: 1,
                priority: 100,
                interval: Duration::from_secs(1),
                addresses: vec![ip("192.168.0.1")],
            },
            authentication: Authentication::None,
            checksum: None,
        },
        Vector {
            hex: "2133640201013a4cc0a80764c0a807656f6370345f617069",
            source: "192.168.7.13",
            destination: "192.168.7.14",
            advertisement: Advertisement {
                version: Version::V2,
                router_id: 51,
                priority: 100,
                interval: Duration::from_secs(1),
                addresses: vec![ip("192.168.7.100"), ip("192.168.7.101")],
            },
            // OpenShift's is longer than what counts.
            authentication: Authentication::password("ocp4_api_vip"),
            checksum: None,
        },
        Vector {
            hex: "313396010014c865c0a80764",
            source: "192.168.7.13",
            destination: "224.0.0.18",
            advertisement: v3(150, 20, &["192.168.7.100"]),
            authentication: Authentication::None,
            checksum: Some(ChecksumForm::PseudoHeader),
        },
        Vector {
            hex: "31339601001470aac0a80764",
            source: "192.168.7.13",
            destination: "224.0.0.18",
            advertisement: v3(150, 20, &["192.168.7.100"]),
            authentication: Authentication::None,
            checksum: Some(ChecksumForm::Rfc),
        },
        // The pseudo-header has the peer's address, not the group's.
        Vector {
            hex: "313396010014e0c1c0a80764",
            source: "192.168.7.13",
            destination: "192.168.7.14",
            advertisement: v3(150, 20, &["192.168.7.100"]),
            authentication: Authentication::None,
            checksum: Some(ChecksumForm::PseudoHeader),
        },
        Vector {
            hex: "3133640200646ea9fe800000000000000000000000000100fd000000000000000000000000000100",
            source: "fe80::d",
            destination: "ff02::12",
            advertisement: v3(100, 100, &["fe80::100", "fd00::100"]),
            authentication: Authentication::None,
            checksum: None,
        },
    ]
}

#[test]
fn messages_are_read_as_written() {
    for vector in vectors() {
        let (source, destination) = (ip(vector.source), ip(vector.destination));
        let octets = octets(vector.hex);
        let datagram = Datagram {
            source,
            destination,
            hop_limit: Some(255),
            octets: &octets,
        };
        let advertisement = vector.advertisement;
        let expected = Expected {
            version: advertisement.version,
            router_id: advertisement.router_id,
            interval: Duration::from_secs(1),
            authentication: vector.authentication,
            checksum: None,
        };
        let accepted = parse(&datagram, &expected).unwrap();
        assert_eq!(accepted.advertisement, advertisement, "{}", vector.hex);
        assert_eq!(accepted.checksum, vector.checksum, "{}", vector.hex);
        let form = vector.checksum.unwrap_or_default();
        let composed = advertisement.compose(vector.authentication, form, source, destination);
        assert_eq!(composed, octets, "{}", vector.hex);
    }
}

/// A message changed in one way, and what is said of it.
fn refusal(hex: &str, change: impl FnOnce(&mut Vec<u8>), expected: &Expected) -> Option<Refusal> {
    let mut octets = octets(hex);
    change(&mut octets);
    let source = if octets.len() > 30 {
        ip("fe80::d")
    } else {
        ip("192.168.7.13")
    };
    let datagram = Datagram {
        source,
        destination: if source.is_ipv6() {
            GROUP_V6.into()
        } else {
            GROUP_V4.into()
        },
        hop_limit: Some(255),
        octets: &octets,
    };
    parse(&datagram, expected).err()
}

/// Puts the sum right again after a change.
fn resum(octets: &mut [u8]) {
    octets[6..8].fill(0);
    let mut sum = Sum::default();
    sum.add(octets);
    let sum = sum.finish().to_be_bytes();
    octets[6..8].copy_from_slice(&sum);
}

const V2: &str = "210164010001ba52c0a800010000000000000000";
const V3: &str = "31339601001470aac0a80764";

#[test]
fn each_fault_is_refused_under_its_name() {
    let two = expected(Version::V2, 1);
    let three = expected(Version::V3, 51);
    let set = |index: usize, value: u8| {
        move |octets: &mut Vec<u8>| {
            octets[index] = value;
            resum(octets);
        }
    };
    let mut password = two;
    password.authentication = Authentication::password("secret");
    let mut strict = three;
    strict.checksum = Some(ChecksumForm::PseudoHeader);
    let none = |_: &mut Vec<u8>| ();
    let cases = [
        ("vers_err", refusal(V2, none, &three)),
        ("vers_err", refusal(V3, none, &two)),
        ("vers_err", refusal(V3, set(0, 0x41), &three)),
        ("invalid_type_rcvd", refusal(V3, set(0, 0x32), &three)),
        ("vrid_err", refusal(V3, set(1, 52), &three)),
        (
            "packet_len_err",
            refusal(V3, |octets| octets.truncate(7), &three),
        ),
        (
            "packet_len_err",
            refusal(V3, |octets| octets.truncate(11), &three),
        ),
        (
            "packet_len_err",
            refusal(V3, |octets| octets.push(0), &three),
        ),
        ("packet_len_err", refusal(V3, set(3, 2), &three)),
        (
            "packet_len_err",
            refusal(V2, |octets| octets.truncate(12), &two),
        ),
        ("chk_err", refusal(V3, |octets| octets[2] = 151, &three)),
        ("chk_err", refusal(V3, none, &strict)),
        ("chk_err", refusal(V2, |octets| octets[19] = 1, &two)),
        ("advert_interval_err", refusal(V2, set(5, 2), &two)),
        ("advert_interval_err", refusal(V3, set(5, 0), &three)),
        ("invalid_authtype", refusal(V2, set(4, 3), &two)),
        ("authtype_mismatch", refusal(V2, set(4, 1), &two)),
        ("authtype_mismatch", refusal(V2, set(4, 2), &two)),
        ("authtype_mismatch", refusal(V2, none, &password)),
        ("auth_failure", refusal(V2, set(4, 1), &password)),
    ];
    for (index, (name, found)) in cases.into_iter().enumerate() {
        assert_eq!(found.map(Refusal::metric), Some(name), "case {index}");
    }
    assert_eq!(refusal(V2, none, &two), None);
    assert_eq!(refusal(V3, none, &three), None);
}

/// RFC 9568 §5.2.7: what is reserved is ignored when received.
#[test]
fn reserved_bits_are_ignored() {
    let three = expected(Version::V3, 51);
    let set = |octets: &mut Vec<u8>| {
        octets[4] |= 0xf0;
        resum(octets);
    };
    assert_eq!(refusal(V3, set, &three), None);
}

/// RFC 2338 §5.3.10: what is not authenticated may have anything there.
#[test]
fn data_beside_no_authentication_is_ignored() {
    let two = expected(Version::V2, 1);
    let set = |octets: &mut Vec<u8>| {
        octets[12..].fill(7);
        resum(octets);
    };
    assert_eq!(refusal(V2, set, &two), None);
}

#[test]
fn only_multicast_has_to_come_from_the_link() {
    let octets = octets(V3);
    let three = expected(Version::V3, 51);
    let read = |destination, hop_limit| {
        let datagram = Datagram {
            source: ip("192.168.7.13"),
            destination,
            hop_limit,
            octets: &octets,
        };
        parse(&datagram, &three).err()
    };
    assert_eq!(read(GROUP_V4.into(), Some(254)), Some(Refusal::HopLimit));
    assert_eq!(read(GROUP_V4.into(), Some(255)), None);
    assert_eq!(read(GROUP_V4.into(), None), None);
    assert_eq!(read(ip("192.168.7.14"), Some(64)), None);
}

#[test]
fn every_form_is_accepted_as_configured() {
    for destination in [ip("224.0.0.18"), ip("192.168.7.14")] {
        for form in [ChecksumForm::PseudoHeader, ChecksumForm::Rfc] {
            let source = ip("192.168.7.13");
            let advertisement = &vectors()[2].advertisement;
            let octets = advertisement.compose(Authentication::None, form, source, destination);
            let datagram = Datagram {
                source,
                destination,
                hop_limit: Some(255),
                octets: &octets,
            };
            for only in [None, Some(form), Some(form.other())] {
                let expected = Expected {
                    checksum: only,
                    ..expected(Version::V3, 51)
                };
                let found = parse(&datagram, &expected).map(|accepted| accepted.checksum);
                if only == Some(form.other()) {
                    assert_eq!(found, Err(Refusal::Checksum));
                } else {
                    assert_eq!(found, Ok(Some(form)));
                }
            }
        }
    }
}

/// Over IPv6 there is one form, whatever is configured.
#[test]
fn ipv6_always_has_its_pseudo_header() {
    let advertisement = &vectors()[5].advertisement;
    let compose =
        |form| advertisement.compose(Authentication::None, form, ip("fe80::d"), GROUP_V6.into());
    assert_eq!(
        compose(ChecksumForm::Rfc),
        compose(ChecksumForm::PseudoHeader)
    );
}

#[test]
fn intervals_fit_their_fields() {
    let compose = |version, interval| {
        let advertisement = Advertisement {
            version,
            interval,
            ..vectors()[2].advertisement.clone()
        };
        let octets = advertisement.compose(
            Authentication::None,
            ChecksumForm::Rfc,
            ip("192.168.7.13"),
            GROUP_V4.into(),
        );
        u16::from_be_bytes([octets[4], octets[5]])
    };
    assert_eq!(compose(Version::V3, Duration::from_millis(10)), 1);
    assert_eq!(compose(Version::V3, Duration::from_millis(40_950)), 4095);
    assert_eq!(compose(Version::V3, Duration::from_secs(60)), 4095);
    assert_eq!(compose(Version::V3, Duration::ZERO), 1);
    assert_eq!(compose(Version::V2, Duration::from_secs(255)), 255);
    assert_eq!(compose(Version::V2, Duration::from_secs(400)), 255);
    assert_eq!(compose(Version::V2, Duration::from_millis(200)), 1);
}

#[test]
fn a_message_has_255_addresses_at_most() {
    let mut advertisement = vectors()[5].advertisement.clone();
    advertisement.addresses = (0..300).map(|n| Ipv6Addr::from_bits(n).into()).collect();
    let octets = advertisement.compose(
        Authentication::None,
        ChecksumForm::Rfc,
        ip("fe80::d"),
        GROUP_V6.into(),
    );
    assert_eq!(octets.len(), MAX_LENGTH);
    assert_eq!(octets[3], 255);
}

/// Every prefix of every message and every octet of it changed: nothing panics, and what is accepted is
/// what was written.
#[test]
fn damaged_messages_are_not_accepted() {
    for vector in vectors() {
        let whole = octets(vector.hex);
        let expected = Expected {
            authentication: vector.authentication,
            ..expected(vector.advertisement.version, vector.advertisement.router_id)
        };
        let read = |octets: &[u8]| {
            let datagram = Datagram {
                source: ip(vector.source),
                destination: ip(vector.destination),
                hop_limit: Some(255),
                octets,
            };
            parse(&datagram, &expected)
        };
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err());
        }
        for index in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[index] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "{index}.{bit} of {}", vector.hex);
            }
        }
    }
}

#[test]
fn passwords_are_not_shown() {
    let shown = format!("{:?}", Authentication::password("secret"));
    assert_eq!(shown, "Password(..)");
}

#[test]
fn counters_have_keepalived_exporters_names() {
    let names: Vec<_> = Refusal::ALL.map(Refusal::metric).into();
    for name in [
        "packet_len_err",
        "advert_interval_err",
        "ip_ttl_err",
        "invalid_type_rcvd",
        "addr_list_err",
        "invalid_authtype",
        "authtype_mismatch",
        "auth_failure",
    ] {
        assert!(names.contains(&name), "{name}");
    }
}
