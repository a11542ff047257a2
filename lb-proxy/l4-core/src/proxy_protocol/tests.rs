use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn header(octets: &[u8]) -> Header {
    match parse(octets) {
        Parsed::Header { header, length } => {
            assert_eq!(length, octets.len());
            header
        }
        other => panic!("{other:?} of {octets:?}"),
    }
}

/// Headers of every shape, whole.
fn vectors() -> Vec<Vec<u8>> {
    let mut vectors: Vec<Vec<u8>> = [
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
        "PROXY TCP6 2001:db8::1 2001:db8::9 0 443\r\n",
        "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n",
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        "PROXY UNKNOWN 192.0.2.1 192.0.2.9 40000 443\r\n",
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .collect();
    let mut relayed = Header::relayed(
        Version::V2,
        address("192.0.2.1:40000"),
        address("192.0.2.9:443"),
    );
    vectors.push(written(&relayed));
    relayed.tlvs = vec![
        tlv(kind::AUTHORITY, b"api.ocp4.redhat.ren"),
        tlv(kind::CRC32C, b""),
        tlv(kind::UNIQUE_ID, &[7; 128]),
        tlv(kind::SSL, &ssl()),
        tlv(0xea, b"\x01vpce-0123"),
    ];
    vectors.push(written(&relayed));
    let mut relayed = Header::relayed(
        Version::V2,
        address("[2001:db8::1]:40000"),
        address("[2001:db8::9]:443"),
    );
    relayed.tlvs = vec![tlv(kind::ALPN, b"h2"), tlv(kind::CRC32C, b"")];
    vectors.push(written(&relayed));
    vectors.push(written(&Header::local(Version::V2)));
    vectors.push(binary(0x21, 0x31, &[0x2f; 216]));
    vectors.push(binary(0x21, 0x00, b"not extensions"));
    vectors
}

fn tlv(kind: u8, value: &[u8]) -> Tlv {
    let value = value.to_vec();
    Tlv { kind, value }
}

fn ssl() -> Vec<u8> {
    let mut ssl = vec![1, 0, 0, 0, 0];
    ssl.extend_from_slice(b"\x21\0\x07TLSv1.3\x22\0\x05alice");
    ssl
}

fn written(header: &Header) -> Vec<u8> {
    let mut out = b"before".to_vec();
    match header.version {
        Version::V1 => write_v1(header, &mut out),
        Version::V2 => write_v2(header, &mut out),
    }
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

/// A version 2 header made of its octets.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut octets = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    octets.extend_from_slice(&[command, family]);
    octets.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    octets.extend_from_slice(body);
    octets
}

#[test]
fn a_line_gives_both_addresses() {
    let header = header(b"PROXY TCP4 192.0.2.1 192.0.2.9 40000 443\r\n");
    assert_eq!(header.version, Version::V1);
    assert_eq!(header.command, Command::Proxy);
    assert_eq!(header.source, Some(address("192.0.2.1:40000")));
    assert_eq!(header.destination, Some(address("192.0.2.9:443")));
}

#[test]
fn an_unknown_protocol_may_have_addresses_that_are_ignored() {
    for line in [
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN \r\n",
        "PROXY UNKNOWN 192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY UNKNOWN whatever else there is\r\n",
    ] {
        let header = header(line.as_bytes());
        assert_eq!((header.source, header.destination), (None, None), "{line}");
    }
}

#[test]
fn a_line_that_is_not_exactly_right_is_refused() {
    for line in [
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 443 \r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 0443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 +443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 65536\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.9 40000 443\r\n",
        "PROXY TCP4 ::1 ::2 40000 443\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY TCP6 fe80::1%1 fe80::2 40000 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 443\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 40000 443\rx",
        "PROXY TCP4\t192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.9 40000 443\r\n",
        "PROXY \r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.9 40000 443\r\n",
    ] {
        assert!(
            matches!(parse(line.as_bytes()), Parsed::Invalid(_)),
            "{line}"
        );
    }
}

#[test]
fn a_line_may_have_107_octets_and_no_more() {
    let line = |n: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(n - 16));
    assert_eq!(header(line(107).as_bytes()).source, None);
    assert!(matches!(parse(line(108).as_bytes()), Parsed::Invalid(_)));
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    for end in 0..107 {
        assert_eq!(parse(&endless.as_bytes()[..end]), Parsed::More, "{end}");
    }
    assert!(matches!(
        parse(&endless.as_bytes()[..107]),
        Parsed::Invalid(_)
    ));
}

#[test]
fn what_is_no_header_is_told_at_its_first_odd_octet() {
    for (octets, known_at) in [
        (&b"GET / HTTP/1.1\r\n"[..], 1),
        (b"\x16\x03\x01\x02\x00", 1),
        (b"POST / HTTP/1.1\r\n", 2),
        (b"PROXYING is fun", 6),
        (b"\r\n\r\n\r\n\r\n\r\n\r\n", 5),
    ] {
        for end in 0..octets.len() {
            let expected = if end < known_at {
                Parsed::More
            } else {
                Parsed::Absent
            };
            assert_eq!(parse(&octets[..end]), expected, "{octets:?} {end}");
        }
    }
}

#[test]
fn every_prefix_wants_more_and_whatever_follows_is_left_alone() {
    for vector in vectors() {
        let whole = parse(&vector);
        assert!(
            matches!(&whole, Parsed::Header { length, .. } if *length == vector.len()),
            "{vector:?}"
        );
        for end in 0..vector.len() {
            assert_eq!(parse(&vector[..end]), Parsed::More, "{vector:?} {end}");
        }
        for follows in [&b"\r\n"[..], b"PROXY ", b"\0", &vector, &[0xff; 70_000]] {
            let stream = [&vector, follows].concat();
            assert_eq!(parse(&stream), whole);
        }
    }
}

#[test]
fn no_changed_octet_upsets_the_parser_and_answers_never_waver() {
    for vector in vectors() {
        for at in 0..vector.len() {
            for flip in [1_u8, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff] {
                let mut changed = vector.clone();
                changed[at] ^= flip;
                let mut decided = None;
                for end in 0..=changed.len() {
                    let parsed = parse(&changed[..end]);
                    match &decided {
                        None if parsed == Parsed::More => {}
                        None => decided = Some(parsed),
                        Some(decided) => assert_eq!(&parsed, decided, "{changed:?} {end}"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_changed_octet_breaks_the_checksum() {
    let mut relayed = Header::relayed(
        Version::V2,
        address("192.0.2.1:40000"),
        address("192.0.2.9:443"),
    );
    relayed.tlvs = vec![
        tlv(kind::AUTHORITY, b"example.org"),
        tlv(kind::CRC32C, b""),
        tlv(0xe0, b"after"),
    ];
    let octets = written(&relayed);
    assert_eq!(header(&octets).authority(), Some("example.org"));
    // Addresses, ports and values; not what says how long they are.
    let values = (16..28).chain(31..42).chain(45..49).chain(52..57);
    for at in values {
        let mut changed = octets.clone();
        changed[at] ^= 1;
        assert_eq!(
            parse(&changed),
            Parsed::Invalid("the checksum of a PROXY header is wrong"),
            "{at}"
        );
    }
}

#[test]
fn a_checksum_comes_once_and_has_four_octets() {
    let checked = |tlvs: &[u8]| {
        let mut body = vec![192, 0, 2, 1, 192, 0, 2, 9, 0, 1, 0, 2];
        body.extend_from_slice(tlvs);
        parse(&binary(0x21, 0x11, &body))
    };
    for tlvs in [
        &b"\x03\0\0"[..],
        b"\x03\0\x03abc",
        b"\x03\0\x05abcde",
        b"\x03\0\x04abcd",
    ] {
        assert!(matches!(checked(tlvs), Parsed::Invalid(_)), "{tlvs:?}");
    }
}

#[test]
fn extensions_are_read_and_padding_is_not() {
    let mut relayed = Header::relayed(
        Version::V2,
        address("192.0.2.1:40000"),
        address("192.0.2.9:443"),
    );
    relayed.tlvs = vec![
        tlv(kind::NOOP, &[0; 9]),
        tlv(kind::UNIQUE_ID, b"abc"),
        tlv(kind::SSL, &ssl()),
        tlv(0xe0, b""),
    ];
    let header = header(&written(&relayed));
    assert_eq!(header.tlvs.len(), 3);
    assert_eq!(header.unique_id(), Some(&b"abc"[..]));
    assert_eq!(header.tlv(0xe0), Some(&b""[..]));
    assert_eq!(header.authority(), None);
    let ssl = header.ssl().unwrap();
    assert_eq!((ssl.client, ssl.verify), (1, 0));
    assert_eq!(ssl.extension(kind::SSL_VERSION), Some(&b"TLSv1.3"[..]));
    assert_eq!(ssl.extension(kind::SSL_CN), Some(&b"alice"[..]));
    assert_eq!(ssl.extension(kind::SSL_KEY), None);
}

#[test]
fn a_truncated_extension_is_refused() {
    let mut body = vec![192, 0, 2, 1, 192, 0, 2, 9, 0, 1, 0, 2];
    for tail in [
        &b"\x02"[..],
        b"\x02\0",
        b"\x02\0\x05abc",
        b"\x02\xff\xffabc",
    ] {
        let mut body = body.clone();
        body.extend_from_slice(tail);
        assert!(matches!(
            parse(&binary(0x21, 0x11, &body)),
            Parsed::Invalid(_)
        ));
    }
    body.extend_from_slice(&[kind::UNIQUE_ID, 0, 129]);
    body.extend_from_slice(&[0; 129]);
    assert!(matches!(
        parse(&binary(0x21, 0x11, &body)),
        Parsed::Invalid(_)
    ));
}

#[test]
fn what_a_stream_has_no_addresses_for_keeps_the_connection_own() {
    let inet = [192, 0, 2, 1, 192, 0, 2, 9, 0, 1, 0, 2];
    for octets in [
        binary(0x21, 0x00, b""),
        binary(0x21, 0x00, b"\x02\xff"),
        binary(0x21, 0x12, &inet),
        binary(0x21, 0x10, &inet),
        binary(0x21, 0x22, &[0; 36]),
        binary(0x21, 0x31, &[0; 216]),
        binary(0x21, 0x32, &[0; 216]),
        // LOCAL: whatever the rest is.
        binary(0x20, 0x00, b""),
        binary(0x20, 0xff, b"\xff\xff\xff\xff"),
        binary(0x20, 0x11, &inet),
    ] {
        let header = header(&octets);
        assert_eq!((header.source, header.destination), (None, None));
    }
    assert_eq!(header(&binary(0x20, 0x11, &inet)).command, Command::Local);
    let mut path = vec![b'/'; 216];
    path.extend_from_slice(b"\x05\0\x01x");
    assert_eq!(
        header(&binary(0x21, 0x31, &path)).unique_id(),
        Some(&b"x"[..])
    );
}

#[test]
fn values_that_nobody_has_assigned_are_refused_at_once() {
    for octets in [
        binary(0x22, 0x11, &[0; 12]),
        binary(0x11, 0x11, &[0; 12]),
        binary(0x31, 0x11, &[0; 12]),
        binary(0x21, 0x41, &[0; 12]),
        binary(0x21, 0x13, &[0; 12]),
        binary(0x21, 0x11, &[0; 11]),
        binary(0x21, 0x21, &[0; 35]),
        binary(0x21, 0x31, &[0; 215]),
        binary(0x21, 0x00, &vec![0; LONGEST]),
    ] {
        let head = &octets[..16];
        assert!(matches!(parse(head), Parsed::Invalid(_)), "{head:?}");
    }
    assert!(matches!(
        parse(&binary(0x21, 0x11, b"")[..13]),
        Parsed::More
    ));
    assert!(matches!(
        parse(&binary(0x22, 0x11, b"")[..13]),
        Parsed::Invalid(_)
    ));
}

#[test]
fn what_is_written_reads_back() {
    for (source, destination) in [
        ("192.0.2.1:40000", "192.0.2.9:443"),
        ("[2001:db8::1]:1", "[2001:db8::9]:65535"),
        ("0.0.0.0:0", "255.255.255.255:65535"),
    ] {
        for version in [Version::V1, Version::V2] {
            let relayed = Header::relayed(version, address(source), address(destination));
            assert_eq!(header(&written(&relayed)), relayed);
        }
    }
    assert_eq!(
        written(&Header::relayed(
            Version::V1,
            address("192.0.2.1:40000"),
            address("192.0.2.9:443")
        )),
        b"PROXY TCP4 192.0.2.1 192.0.2.9 40000 443\r\n"
    );
    assert_eq!(written(&Header::local(Version::V1)), b"PROXY UNKNOWN\r\n");
    assert_eq!(
        header(&written(&Header::local(Version::V2))),
        Header::local(Version::V2)
    );
}

#[test]
fn addresses_are_written_in_one_family() {
    for (source, destination, expected) in [
        (
            "[::ffff:192.0.2.1]:1",
            "[::ffff:192.0.2.9]:2",
            "PROXY TCP4 192.0.2.1 192.0.2.9 1 2\r\n",
        ),
        (
            "192.0.2.1:1",
            "[::ffff:192.0.2.9]:2",
            "PROXY TCP4 192.0.2.1 192.0.2.9 1 2\r\n",
        ),
        (
            "192.0.2.1:1",
            "[2001:db8::9]:2",
            "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::9 1 2\r\n",
        ),
    ] {
        let relayed = Header::relayed(Version::V1, address(source), address(destination));
        assert_eq!(written(&relayed), expected.as_bytes());
        let header = header(&written(&Header {
            version: Version::V2,
            ..relayed
        }));
        assert_eq!(
            header.source.map(|source| source.is_ipv4()),
            Some(expected.contains("TCP4"))
        );
    }
}

#[test]
fn extensions_that_do_not_fit_are_left_out_whole() {
    let mut relayed = Header::relayed(
        Version::V2,
        address("192.0.2.1:40000"),
        address("192.0.2.9:443"),
    );
    relayed.tlvs = vec![
        tlv(0xe0, &vec![1; 70_000]),
        tlv(0xe1, &vec![2; LONGEST - 64]),
        tlv(0xe2, &[3; 64]),
        tlv(kind::CRC32C, b""),
    ];
    let octets = written(&relayed);
    assert!(octets.len() <= LONGEST);
    let kinds: Vec<u8> = header(&octets).tlvs.iter().map(|tlv| tlv.kind).collect();
    assert_eq!(kinds, [0xe1, kind::CRC32C]);
}

#[test]
fn what_is_told_of_a_connection_goes_from_one_header_to_another() {
    let [source, destination] = ["192.0.2.1:40000", "192.0.2.9:443"].map(address);
    let mut first = Header::relayed(Version::V2, source, destination);
    let told = [
        tlv(kind::AUTHORITY, b"api.ocp4.redhat.ren"),
        tlv(kind::UNIQUE_ID, &[7; 128]),
        tlv(kind::SSL, &ssl()),
        tlv(0xea, b""),
    ];
    first.tlvs = told.to_vec();
    first.tlvs.insert(1, tlv(kind::CRC32C, b""));
    first.tlvs.push(tlv(kind::NOOP, b"..."));
    let octets = header(&written(&first)).extensions();
    let second = Header::relayed(Version::V2, source, destination).with_extensions(&octets);
    assert_eq!(header(&written(&second)).tlvs, told);
    assert_eq!(second.authority(), Some("api.ocp4.redhat.ren"));
    // What is cut off is not told.
    let cut = octets.split_last().unwrap().1;
    let third = Header::relayed(Version::V2, source, destination).with_extensions(cut);
    assert_eq!(third.tlvs, told[..3]);
    assert!(Header::local(Version::V2).extensions().is_empty());
}
