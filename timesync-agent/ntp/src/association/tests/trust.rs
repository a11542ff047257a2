//! Keys, kisses, and servers that have no time.

use super::*;

#[test]
fn a_source_with_a_key_is_believed_with_that_key_alone() {
    let mut keys = KeyRing::new();
    keys.insert(1, Key::new(Algorithm::Sha256, b"secret").unwrap())
        .unwrap();
    keys.insert(2, Key::new(Algorithm::Sha256, b"other").unwrap())
        .unwrap();
    keys.insert(3, Key::new(Algorithm::Md5, b"short").unwrap())
        .unwrap();
    let options = |key| SourceOptions {
        key: Some(key),
        ..SourceOptions::default()
    };
    for (own, theirs, is_good) in [(1, Some(1), true), (1, Some(2), false), (1, None, false)] {
        let mut client = Client::new(&options(own));
        client.keys = keys.clone();
        let mut server = Server::new();
        server.keys = keys.clone();
        server.key = theirs;
        server.packet.version = 3;
        let outcome = client.exchange(&mut server);
        let expected = Outcome::Ignored(Ignored::Unauthenticated);
        assert_eq!(outcome != expected, is_good, "{theirs:?}");
        assert_eq!(matches!(outcome, Outcome::Answered(Some(_))), is_good);
    }
    // A digest that version 4 would cut makes a version 3 packet.
    for (key, version, length) in [(1, 3, 48 + 4 + 32), (3, 4, 48 + 4 + 16)] {
        let mut client = Client::new(&options(key));
        client.keys = keys.clone();
        let request = client.request();
        let message = Message::parse(&request).unwrap();
        assert_eq!((message.packet.version, request.len()), (version, length));
        assert!(keys.verify_with(key, message.mac().unwrap()));
    }
    let mut client = Client::new(&options(9));
    client.keys = keys;
    assert_eq!(
        client.next(),
        None,
        "nobody is asked with a key that is not there"
    );
}

#[test]
fn a_kiss_of_death_is_obeyed() {
    let kiss = |code: &[u8; 4]| {
        let mut server = Server::new();
        server.packet.leap = Leap::Unsynchronised;
        server.packet.stratum = 0;
        server.packet.reference_id = u32::from_be_bytes(*code);
        server
    };
    let options = SourceOptions {
        iburst: true,
        minpoll: 4,
        maxpoll: 6,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut polls = Vec::new();
    for _ in 0..3 {
        let outcome = client.exchange(&mut kiss(b"RATE"));
        assert_eq!(outcome, Outcome::KissOfDeath(*b"RATE"));
        assert!(!client.association.is_bursting());
        polls.push(client.association.poll());
        let pause = (client.association.poll_timeout().unwrap() - client.now).seconds();
        let interval = f64::from(client.association.poll()).exp2();
        assert!((4.0 * interval..4.1 * interval).contains(&pause), "{pause}");
    }
    assert_eq!(polls, [6, 6, 6], "what the server says, within bounds");
    // Whoever can write to the network must not be able to part us from a server.
    assert!(matches!(
        client.exchange(&mut kiss(b"DENY")),
        Outcome::KissOfDeath(_)
    ));
    assert!(client.association.is_online());
    let mut keys = KeyRing::new();
    keys.insert(1, Key::new(Algorithm::Md5, b"secret").unwrap())
        .unwrap();
    let mut client = Client::new(&SourceOptions {
        key: Some(1),
        ..options
    });
    client.keys = keys.clone();
    let mut server = kiss(b"DENY");
    (server.keys, server.key) = (keys, Some(1));
    assert!(matches!(
        client.exchange(&mut server),
        Outcome::KissOfDeath(_)
    ));
    assert!(!client.association.is_online());
    assert_eq!(client.association.poll_timeout(), None);
}

#[test]
fn a_server_without_time_gives_no_kiss() {
    // What chronyd, ntpd and others say before they have a source: a stratum of 0 or 16 and no code.
    for (stratum, reference_id) in [
        (0, 0),
        (16, 0),
        (0, 0x7F7F_0101),
        (0, u32::from_be_bytes(*b"ab\0c")),
        (16, u32::from_be_bytes(*b"RATE")),
    ] {
        let mut server = Server::new();
        server.packet.leap = Leap::Unsynchronised;
        server.packet.stratum = stratum;
        server.packet.reference_id = reference_id;
        let mut client = Client::new(&SourceOptions::default());
        let outcome = client.exchange(&mut server);
        assert_eq!(
            outcome,
            Outcome::Answered(None),
            "{stratum} {reference_id:#x}"
        );
        assert!(client.association.has_no_time());
        assert_eq!(client.association.reach(), 0);
    }
    let mut short = Server::new();
    short.packet.leap = Leap::Unsynchronised;
    short.packet.stratum = 0;
    short.packet.reference_id = u32::from_be_bytes(*b"GO\0\0");
    let mut client = Client::new(&SourceOptions::default());
    assert_eq!(
        client.exchange(&mut short),
        Outcome::KissOfDeath(*b"GO\0\0")
    );
}
