//! Requests with each field as bad as it can be.

use super::*;

#[test]
fn nothing_but_requests_is_answered() {
    let mut desk = Desk::new(&settings());
    for version in 0..8 {
        for mode in 0..8 {
            for (from, is_client) in [(CLIENT, true), (SocketAddr::new(CLIENT.ip(), 123), false)] {
                let mut octets = request().encode();
                octets[0] = 0xc0 | version << 3 | mode;
                let answer = desk.ask(&octets, from);
                let wanted = match (version, mode) {
                    (0 | 5.., _) => Err(Reason::Malformed),
                    (_, 1 | 3) => Ok(()),
                    (1, 0) if is_client => Ok(()),
                    _ => Err(Reason::Mode),
                };
                assert_eq!(
                    answer.as_ref().map(|_| ()).map_err(|reason| *reason),
                    wanted
                );
                if let Ok(answer) = answer {
                    let packet = packet_of(&answer);
                    let answering = match mode {
                        1 => Mode::SymmetricPassive,
                        _ => Mode::Server,
                    };
                    assert_eq!((packet.version, packet.mode), (version, answering));
                }
            }
        }
    }
    // Whatever it is, it is answered to no client that is not allowed.
    for first in 0..=u8::MAX {
        let mut octets = request().encode();
        octets[0] = first;
        assert!(desk.ask(&octets, STRANGER).is_err());
    }
    assert_eq!(desk.count(Counter::Denied), 4 * 8 * 4);
}

#[test]
fn an_answer_is_no_request() {
    let mut desk = Desk::new(&settings());
    // Two servers that are made to talk to each other fall silent at once.
    for version in 1..=4 {
        for mode in [Mode::Client, Mode::SymmetricActive] {
            let asked = Packet {
                version,
                mode,
                ..request()
            };
            let answer = desk.ask(&asked.encode(), CLIENT).unwrap();
            assert_eq!(desk.ask(&answer, CLIENT), Err(Reason::Mode));
        }
    }
}

#[test]
fn no_field_of_a_header_leads_astray() {
    let values = [0, 1, 0x7f, 0x80, 0xff];
    for index in 1..48 {
        for value in values {
            let mut desk = Desk::new(&settings());
            let mut octets = request().encode();
            octets[index] = value;
            let packet = packet_of(&desk.ask(&octets, CLIENT).unwrap());
            let asked = Packet::decode(&octets);
            assert_eq!(packet.origin, asked.transmit, "{index}");
            assert_eq!(packet.poll, asked.poll, "{index}");
            // Nothing else of the request comes back.
            let reference = reference();
            assert_eq!(packet.stratum, reference.stratum);
            assert_eq!(packet.reference_id, reference.reference_id);
            assert_eq!(packet.precision, -25);
            assert_eq!(packet.leap, Leap::Insert);
        }
    }
}

#[test]
fn moments_at_the_ends_of_time_are_no_end() {
    for now in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
        for at in [i64::MIN, 0, i64::MAX] {
            for number in [
                f64::NEG_INFINITY,
                -1e300,
                0.0,
                1e300,
                f64::INFINITY,
                f64::NAN,
            ] {
                let mut desk = Desk::new(&settings());
                desk.now = UnixTime(now);
                desk.reference = Reference {
                    at: UnixTime(at),
                    reference_time: UnixTime(at),
                    root_delay: number,
                    root_dispersion: number,
                    dispersion_rate: number,
                    offset: number,
                    offset_rate: number,
                    ..reference()
                };
                let packet = packet_of(&desk.ask(&request().encode(), CLIENT).unwrap());
                assert_eq!(packet.origin, request().transmit);
            }
        }
    }
}

#[test]
fn every_octet_of_a_signed_request_counts() {
    let asked = full(&request(), Some(3));
    for bit in 0..asked.len() * 8 {
        let mut desk = Desk::new(&settings());
        let mut octets = asked.clone();
        octets[bit / 8] ^= 1 << (bit % 8);
        let reason = match desk.ask(&octets, CLIENT) {
            Err(reason) => reason,
            Ok(answer) => {
                // A field that swallows the MAC leaves a request without: it gets an answer without.
                assert_eq!(bit, 414, "the length of a field");
                assert_eq!(Message::parse(&answer).unwrap().trailer, Trailer::None);
                assert_eq!(desk.count(Counter::Authenticated), 0);
                continue;
            }
        };
        if reason == Reason::Unauthenticated {
            assert_eq!(desk.count(Counter::Unauthenticated), 1);
            assert_eq!(desk.count(Counter::Authenticated), 0);
        } else {
            // Version, mode or the shape of what follows.
            assert!(
                matches!(reason, Reason::Malformed | Reason::Mode),
                "{bit} {reason:?}"
            );
        }
    }
}

#[test]
fn every_length_is_answered_within_itself_or_not_at_all() {
    for asked in [
        full(&request(), Some(1)),
        full(&request(), Some(2)),
        full(&request(), None),
        full(
            &Packet {
                version: 3,
                ..request()
            },
            Some(2),
        ),
        request().encode().to_vec(),
    ] {
        for length in 0..asked.len() + 100 {
            for fill in [0, 0xff] {
                let mut desk = Desk::new(&settings());
                let mut octets = asked.clone();
                octets.resize(length, fill);
                // `ask` asserts that the answer is not longer.
                let answer = desk.ask(&octets, CLIENT);
                if length < 48 || length % 4 != 0 {
                    assert_eq!(answer, Err(Reason::Malformed), "{length}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_verified_is_not_answered() {
    let mut desk = Desk::new(&settings());
    let header = request().encode().to_vec();
    let v3 = Packet {
        version: 3,
        ..request()
    }
    .encode()
    .to_vec();
    let zeros = |key: u8, length: usize| {
        let mut octets = vec![0, 0, 0, key];
        octets.resize(length, 0);
        octets
    };
    let field = |kind: u16, length: u8| {
        let mut octets = kind.to_be_bytes().to_vec();
        octets.extend([0, length]);
        octets.resize(length.into(), 1);
        octets
    };
    for (what, octets) in [
        ("a crypto-NAK", [header.clone(), zeros(0, 4)].concat()),
        (
            "a crypto-NAK of version 3",
            [v3.clone(), zeros(0, 4)].concat(),
        ),
        ("a key nobody has", [header.clone(), zeros(9, 20)].concat()),
        ("a key of zero", [header.clone(), zeros(0, 20)].concat()),
        (
            "a Windows authenticator",
            [v3.clone(), zeros(1, 20)].concat(),
        ),
        ("an extended one", [v3.clone(), zeros(1, 72)].concat()),
        (
            "a key ID and nothing else",
            [v3.clone(), zeros(1, 4)].concat(),
        ),
        ("a digest that is too short", [v3, zeros(1, 16)].concat()),
        (
            "a cookie of NTS",
            [header.clone(), field(NTS_COOKIE, 104)].concat(),
        ),
        (
            "an authenticator of NTS",
            [header, field(NTS_AUTHENTICATOR, 40)].concat(),
        ),
    ] {
        assert_eq!(
            desk.ask(&octets, CLIENT),
            Err(Reason::Unauthenticated),
            "{what}"
        );
    }
}

#[test]
fn without_room_nothing_is_sent() {
    let asked = full(&request(), Some(3));
    let mut desk = Desk::new(&settings());
    let whole = desk.ask(&asked, CLIENT).unwrap().len();
    for room in 0..=whole {
        let request = Request {
            datagram: &asked,
            from: CLIENT,
            received: NOW,
            stamp: StampSource::Daemon,
        };
        let mut out = vec![0; room];
        let answer =
            desk.responder
                .answer(&request, &desk.policy, &desk.reference, || NOW, &mut out);
        if room < whole {
            assert_eq!(answer, Answer::Drop(Reason::TooLong), "{room}");
        } else {
            assert_eq!(
                answer,
                Answer::Reply {
                    length: whole,
                    receipt: None
                }
            );
        }
    }
}
