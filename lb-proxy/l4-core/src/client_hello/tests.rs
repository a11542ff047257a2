use super::*;

/// A hello of the handshake layer, with extensions as they are.
fn handshake(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[0x5a; 32]);
    body.push(32);
    body.extend_from_slice(&[0xa5; 32]);
    body.extend_from_slice(&[0, 6, 0x13, 1, 0x13, 2, 0x13, 3]);
    body.extend_from_slice(&[1, 0]);
    let mut data = Vec::new();
    for (kind, value) in extensions {
        data.extend_from_slice(&kind.to_be_bytes());
        counted(&mut data, value);
    }
    counted(&mut body, &data);
    message_of(&body)
}

fn message_of(body: &[u8]) -> Vec<u8> {
    let mut message = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    message[0] = CLIENT_HELLO;
    message.extend_from_slice(body);
    message
}

fn counted(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
    out.extend_from_slice(value);
}

fn names(names: &[(u8, &[u8])]) -> (u16, Vec<u8>) {
    let mut list = Vec::new();
    for (kind, name) in names {
        list.push(*kind);
        counted(&mut list, name);
    }
    let mut value = Vec::new();
    counted(&mut value, &list);
    (SERVER_NAME, value)
}

fn alpn(protocols: &[&[u8]]) -> (u16, Vec<u8>) {
    let mut list = Vec::new();
    for protocol in protocols {
        list.push(u8::try_from(protocol.len()).unwrap());
        list.extend_from_slice(protocol);
    }
    let mut value = Vec::new();
    counted(&mut value, &list);
    (PROTOCOLS, value)
}

/// The message in records of at most `size` octets.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut octets = Vec::new();
    for fragment in message.chunks(size) {
        octets.extend_from_slice(&[HANDSHAKE, 3, 1]);
        counted(&mut octets, fragment);
    }
    octets
}

fn usual() -> Vec<u8> {
    handshake(&[
        (0x0a0a, vec![]),
        names(&[(0, b"Console.Apps.ocp4.redhat.ren")]),
        (43, vec![4, 3, 4, 3, 3]),
        alpn(&[b"h2", b"http/1.1"]),
        (51, vec![7; 120]),
    ])
}

fn usual_hello() -> Hello {
    Hello {
        name: Some("console.apps.ocp4.redhat.ren".to_owned()),
        protocols: vec![(*b"h2").into(), (*b"http/1.1").into()],
    }
}

fn name_of(message: &[u8]) -> Option<String> {
    match peek(&records(message, LONGEST_FRAGMENT)) {
        Peeked::Hello(hello) => hello.name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_name_and_the_protocols_are_read() {
    assert_eq!(
        peek(&records(&usual(), LONGEST_FRAGMENT)),
        Peeked::Hello(usual_hello())
    );
}

#[test]
fn records_of_any_size_are_put_together() {
    let message = usual();
    for size in 1..=message.len() {
        assert_eq!(
            peek(&records(&message, size)),
            Peeked::Hello(usual_hello()),
            "{size}"
        );
    }
}

#[test]
fn every_prefix_wants_more_whatever_the_records() {
    let message = usual();
    for size in [1, 2, 3, 4, 5, 7, 64, message.len() - 1, message.len()] {
        let octets = records(&message, size);
        for end in 0..octets.len() {
            assert_eq!(peek(&octets[..end]), Peeked::More, "{size} {end}");
        }
        for follows in [
            &b"\x14\x03\x03\0\x01\x01"[..],
            b"garbage",
            &octets,
            &[0xff; 40_000],
        ] {
            let stream = [&octets, follows].concat();
            assert_eq!(peek(&stream), Peeked::Hello(usual_hello()), "{size}");
        }
    }
}

#[test]
fn what_follows_the_hello_in_its_record_is_left_alone() {
    let mut message = usual();
    message.extend_from_slice(b"\x0b\0\0\x01x");
    assert_eq!(
        peek(&records(&message, LONGEST_FRAGMENT)),
        Peeked::Hello(usual_hello())
    );
}

#[test]
fn post_quantum_keys_do_not_fit_one_segment_and_do_not_matter() {
    // X25519MLKEM768: 1,216 octets of key; two hybrid shares and a ticket make several kilobytes.
    let message = handshake(&[
        (51, vec![9; 1_216 + 32]),
        (0xfe0d, vec![3; 400]),
        (41, vec![1; 9_000]),
        names(&[(0, b"api.ocp4.redhat.ren")]),
    ]);
    assert_eq!(name_of(&message).as_deref(), Some("api.ocp4.redhat.ren"));
    let octets = records(&message, 1_400);
    for end in (0..octets.len()).step_by(97) {
        assert_eq!(peek(&octets[..end]), Peeked::More);
    }
}

#[test]
fn what_is_not_tls_is_known_at_once() {
    for (octets, known_at) in [
        // SSLv2: length with the high bit, ClientHello, version 3.1.
        (&b"\x80\x2e\x01\x03\x01"[..], 1),
        (b"GET / HTTP/1.1\r\n\r\n", 1),
        (b"SSH-2.0-OpenSSH\r\n", 1),
        (b"\x00", 1),
        // An alert, application data.
        (b"\x15\x03\x01\0\x02", 1),
        (b"\x17\x03\x03\0\x02", 1),
        // SSL 2 inside, and a version that never was.
        (b"\x16\x02\x00\0\x02", 2),
        // An empty record, and one too long.
        (b"\x16\x03\x01\0\0", 5),
        (b"\x16\x03\x01\x40\x01", 5),
        // A ServerHello, a HelloRequest.
        (b"\x16\x03\x01\0\x10\x02", 6),
        (b"\x16\x03\x01\0\x10\x00", 6),
        // A second record of another type, in the middle of the hello.
        (b"\x16\x03\x01\0\x01\x01\x15", 7),
    ] {
        for end in 0..=octets.len() {
            let expected = if end < known_at {
                Peeked::More
            } else {
                Peeked::NotTls
            };
            assert_eq!(peek(&octets[..end]), expected, "{octets:?} {end}");
        }
    }
}

#[test]
fn a_hello_may_be_16_kib_long_and_no_longer() {
    let empty = handshake(&[(21, vec![])]).len() - HEADER;
    let fits = handshake(&[(21, vec![0; LONGEST_HELLO - empty])]);
    assert_eq!(name_of(&fits), None);
    let long = handshake(&[(21, vec![0; LONGEST_HELLO - empty + 1])]);
    let octets = records(&long, LONGEST_FRAGMENT);
    assert_eq!(peek(&octets[..8]), Peeked::More);
    assert_eq!(peek(&octets[..9]), Peeked::TooLong);
}

#[test]
fn a_long_hello_in_tiny_records_is_given_up() {
    let octets = records(&handshake(&[(21, vec![0; 10_000])]), 1);
    assert_eq!(peek(&octets[..LONGEST - 1]), Peeked::More);
    assert_eq!(peek(&octets[..LONGEST]), Peeked::TooLong);
}

#[test]
fn only_host_names_count() {
    let longest = format!(
        "{}.{}.{}.{}",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61)
    );
    for (sent, expected) in [
        (&b"API.Example.ORG"[..], Some("api.example.org")),
        (b"example.org.", Some("example.org")),
        (b"localhost", Some("localhost")),
        (
            b"_dmarc.xn--bcher-kva.example",
            Some("_dmarc.xn--bcher-kva.example"),
        ),
        (longest.as_bytes(), Some(longest.as_str())),
        (b"1.2.3.4.example", Some("1.2.3.4.example")),
        (b"192.0.2.1", None),
        (b"2001:db8::1", None),
        (b"[::1]", None),
        (b".", None),
        (b"..", None),
        (b".example.org", None),
        (b"a..b", None),
        (b"*.example.org", None),
        (b"a b", None),
        (b"a/b", None),
        (b"a\0b", None),
        (b"b\xc3\xbccher.example", None),
        (b"\xff\xfe", None),
        ("x".repeat(64).as_bytes(), None),
        (format!("{longest}x").as_bytes(), None),
    ] {
        let message = handshake(&[names(&[(0, sent)])]);
        assert_eq!(
            name_of(&message).as_deref(),
            expected,
            "{:?}",
            String::from_utf8_lossy(sent)
        );
    }
}

#[test]
fn a_hello_without_a_name_has_none() {
    assert_eq!(name_of(&handshake(&[])), None);
    assert_eq!(name_of(&handshake(&[alpn(&[b"h2"])])), None);
    assert_eq!(
        name_of(&handshake(&[names(&[(7, b"of another type")])])),
        None
    );
    // TLS 1.0 without any extensions.
    let mut body = vec![3, 1];
    body.extend_from_slice(&[0; 32]);
    body.extend_from_slice(&[0, 0, 2, 0, 10, 1, 0]);
    assert_eq!(name_of(&message_of(&body)), None);
}

#[test]
fn the_host_name_is_found_among_names_of_other_types() {
    let message = handshake(&[names(&[(7, b"x"), (0, b"example.org"), (9, b"")])]);
    assert_eq!(name_of(&message).as_deref(), Some("example.org"));
}

#[test]
fn a_hello_that_breaks_its_rules_is_not_tls() {
    let twice = names(&[(0, b"a.example")]);
    for message in [
        handshake(&[twice.clone(), twice]),
        handshake(&[names(&[(0, b"a.example"), (0, b"b.example")])]),
        handshake(&[names(&[(0, b"")])]),
        handshake(&[names(&[])]),
        handshake(&[(SERVER_NAME, vec![])]),
        handshake(&[(SERVER_NAME, vec![0, 4, 0, 0, 9, b'a'])]),
        handshake(&[(SERVER_NAME, vec![0, 4, 0, 0, 1, b'a', b'b'])]),
        handshake(&[alpn(&[])]),
        handshake(&[alpn(&[b""])]),
        handshake(&[alpn(&[b"h2"]), alpn(&[b"h2"])]),
        message_of(b""),
        message_of(&[3; 33]),
    ] {
        assert_eq!(peek(&records(&message, 100)), Peeked::NotTls, "{message:?}");
    }
}

#[test]
fn no_length_within_may_lie() {
    let message = usual();
    // The version, the session's length, the suites', the compressions', that of all extensions.
    for at in [4, 38, 71, 72, 79, 81, 82] {
        for flip in [1_u8, 0x40, 0x80] {
            let mut changed = message.clone();
            changed[at] ^= flip;
            let peeked = peek(&records(&changed, LONGEST_FRAGMENT));
            assert_ne!(peeked, Peeked::More, "{at}");
            assert_ne!(peeked, Peeked::Hello(usual_hello()), "{at} {flip}");
        }
    }
}

#[test]
fn no_changed_octet_upsets_the_parser_and_answers_never_waver() {
    for octets in [records(&usual(), LONGEST_FRAGMENT), records(&usual(), 9)] {
        for at in 0..octets.len() {
            for flip in [1_u8, 0x80, 0xff] {
                let mut changed = octets.clone();
                changed[at] ^= flip;
                let mut decided = None;
                for end in 0..=changed.len() {
                    let peeked = peek(&changed[..end]);
                    match &decided {
                        None if peeked == Peeked::More => {}
                        None => decided = Some(peeked),
                        Some(decided) => assert_eq!(&peeked, decided, "{at} {end}"),
                    }
                }
            }
        }
    }
}
