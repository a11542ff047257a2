use super::*;

fn address(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

fn connection() -> Connection {
    Connection {
        frontend: "api".to_owned(),
        backend: "masters".to_owned(),
        server: "master-0".to_owned(),
        server_address: address("192.168.7.13:6443"),
        peer: address("[fe80::1%3]:40000"),
        proxied_source: address("203.0.113.5:1"),
        proxied_destination: address("[2001:db8::1]:443"),
        server_name: "console.apps.example.org".to_owned(),
        stage: Stage::Relaying,
        up: Flow {
            moved: 1 << 40,
            end: 1,
            held: 65_536,
            in_pipe: 0,
        },
        down: Flow {
            moved: 3,
            end: 0,
            held: 0,
            in_pipe: 1 << 20,
        },
        client_signs: 16,
        server_signs: 32,
        accepted: Duration::from_micros(1_700_000_000_123_456),
        queued: Duration::from_millis(3),
        connected: Duration::from_micros(250),
        retries: 2,
        has_server: true,
        header_done: true,
        extensions: vec![2, 0, 1, b'a'],
        chosen_in_service: true,
    }
}

fn every_message() -> Vec<Message> {
    vec![
        Message::Hello(Hello {
            lowest: 1,
            highest: 7,
            build: "0.1.0 (abc)".to_owned(),
        }),
        Message::Sockets(vec![
            Socket {
                kind: SocketKind::Listener,
                name: "api".to_owned(),
                address: address("0.0.0.0:6443"),
            },
            Socket {
                kind: SocketKind::Datagram,
                name: "dns".to_owned(),
                address: None,
            },
        ]),
        Message::SocketsEnd,
        Message::Take,
        Message::Connections(vec![connection(), Connection::default()]),
        Message::Bytes(Bytes {
            connection: 9,
            direction: Direction::Down,
            octets: vec![7; LONGEST_BYTES],
        }),
        Message::Flows(vec![
            DatagramFlow {
                frontend: "dns".to_owned(),
                listener: 1 << 40,
                client: address("[fe80::1%3]:40000"),
                local: Some("192.0.2.1".parse().unwrap()),
                server: "ns1".to_owned(),
                server_address: address("192.168.7.13:53"),
                requests: 3,
                responses: 1 << 33,
                idle: Duration::from_millis(7),
                kept: vec![9; 1232],
            },
            DatagramFlow::default(),
        ]),
        Message::End {
            connections: 3040,
            bytes: 1 << 33,
            flows: 7,
        },
        Message::Acknowledged,
        Message::Received { connections: 3040 },
        Message::Yours,
        Message::Abort {
            reason: "out of descriptors".to_owned(),
        },
    ]
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for message in every_message() {
        let octets = message.encode();
        assert!(octets.len() <= LONGEST);
        assert_eq!(Message::decode(&octets), Ok(message));
    }
}

#[test]
fn a_message_cut_off_anywhere_is_an_error_or_a_shorter_list() {
    for message in every_message() {
        let octets = message.encode();
        for length in 0..octets.len() {
            if let Ok(shorter) = Message::decode(&octets[..length]) {
                assert_ne!(shorter, message, "{length}");
            }
        }
    }
}

#[test]
fn an_unknown_field_is_passed_over() {
    let mut octets = Message::Received { connections: 5 }.encode();
    octets.extend_from_slice(&[200, 0, 3, 1, 2, 3]);
    assert_eq!(
        Message::decode(&octets),
        Ok(Message::Received { connections: 5 })
    );
}

#[test]
fn what_is_malformed_is_refused() {
    let good = Message::Yours.encode();
    for (octets, expected) in [
        (Vec::new(), DecodeError::Short),
        (b"GET / HTTP/1.1".to_vec(), DecodeError::Foreign),
        ([&good[..6], &[99]].concat(), DecodeError::Kind(99)),
        (
            [&good[..4], &[0, 0, kind::YOURS]].concat(),
            DecodeError::Version(0),
        ),
        (
            [&good[..6], &[kind::RECEIVED, tag::COUNT, 0, 1, 5]].concat(),
            DecodeError::Field(tag::COUNT),
        ),
        (
            [&good[..6], &[kind::RECEIVED, tag::COUNT, 255, 255]].concat(),
            DecodeError::Short,
        ),
        (
            [&good[..6], &[kind::ABORT, tag::TEXT, 0, 1, 0xFF]].concat(),
            DecodeError::Field(tag::TEXT),
        ),
    ] {
        assert_eq!(Message::decode(&octets), Err(expected));
    }
}

#[test]
fn random_octets_never_panic() {
    let mut state = 7_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    let whole: Vec<Vec<u8>> = every_message().iter().map(Message::encode).collect();
    for round in 0..20_000 {
        let mut octets = whole[round % whole.len()].clone();
        octets.truncate(400);
        for _ in 0..3 {
            let place = usize::from(random()) % octets.len();
            octets[place] = random();
        }
        drop(Message::decode(&octets));
    }
}

#[test]
fn versions_meet_at_the_highest_both_have() {
    let hello = |lowest, highest| Hello {
        lowest,
        highest,
        build: String::new(),
    };
    for (ours, theirs, expected) in [
        (hello(1, 1), hello(1, 1), Some(1)),
        (hello(1, 3), hello(2, 5), Some(3)),
        (hello(3, 4), hello(1, 2), None),
        (hello(1, 2), hello(3, 4), None),
    ] {
        assert_eq!(ours.common(&theirs), expected);
        assert_eq!(theirs.common(&ours), expected);
    }
}

#[test]
fn a_connection_tells_how_many_descriptors_it_has() {
    let mut connection = Connection::default();
    assert_eq!(connection.n_descriptors(), 1);
    connection.has_server = true;
    connection.up.in_pipe = 1;
    connection.down.in_pipe = 1;
    assert_eq!(connection.n_descriptors(), 6);
}

#[test]
fn a_long_name_is_cut_between_letters() {
    let name = "ü".repeat(LONGEST_NAME);
    let message = Message::Abort { reason: name };
    let Ok(Message::Abort { reason }) = Message::decode(&message.encode()) else {
        panic!("not read");
    };
    assert_eq!(reason.len(), LONGEST_NAME);
}
