use std::net::Ipv4Addr;

use super::*;
use crate::keys::{Algorithm, Key, KeyRing};
use time_model::settings::{AccessRule, ClientMatch, ServerSettings};
use time_model::time::{SECOND, Span};

mod hostile;
mod interleaved;

/// When requests come.
const NOW: UnixTime = UnixTime(1_800_000_000 * SECOND + 123_456_789);
/// How long an answer takes.
const WORK: Span = Span(20_000);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000);
const STRANGER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 40_000);

fn keys() -> KeyRing {
    let mut keys = KeyRing::new();
    for (id, algorithm) in [
        (1, Algorithm::Md5),
        (2, Algorithm::Sha512),
        (3, Algorithm::Aes128),
    ] {
        let secret = vec![7; algorithm.key_length().unwrap_or(20)];
        let key = Key::new(algorithm, &secret).unwrap();
        assert!(keys.insert(id, key).unwrap().is_none());
    }
    keys
}

fn settings() -> ServerSettings {
    ServerSettings {
        access: vec![AccessRule {
            allow: true,
            all: false,
            clients: ClientMatch::Network("192.0.2.0/24".parse().unwrap()),
        }],
        ..ServerSettings::default()
    }
}

fn reference() -> Reference {
    Reference {
        leap: Leap::Insert,
        stratum: 2,
        reference_id: 0xcb00_7101,
        reference_time: NOW - Span(100 * SECOND),
        root_delay: 0.010,
        root_dispersion: 0.001,
        dispersion_rate: 1e-6,
        at: NOW - Span(50 * SECOND),
        ..Reference::default()
    }
}

/// A server and its clock.
struct Desk {
    tables: Arc<Tables>,
    responder: Responder,
    policy: Policy,
    reference: Reference,
    now: UnixTime,
    /// The last answer.
    receipt: Option<Receipt>,
}

impl Desk {
    fn new(settings: &ServerSettings) -> Self {
        let tables = Tables::new(settings.client_log_limit, [1, 2]);
        Self {
            responder: Responder::new(&tables, Random::new([3; 16])),
            policy: Policy::new(settings, Arc::new(keys()), -25, |_| Vec::new()),
            tables,
            reference: reference(),
            now: NOW,
            receipt: None,
        }
    }

    #[expect(
        clippy::panic_in_result_fn,
        reason = "no answer may ever be longer than its request"
    )]
    fn ask(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Vec<u8>, Reason> {
        let request = Request {
            datagram,
            from,
            received: self.now,
            stamp: StampSource::Kernel,
        };
        let mut out = vec![0xaa; LONGEST_ANSWER];
        let sent = self.now + WORK;
        let clock = || sent;
        let answer =
            self.responder
                .answer(&request, &self.policy, &self.reference, clock, &mut out);
        match answer {
            Answer::Reply { length, receipt } => {
                assert!(length <= datagram.len(), "never longer than the request");
                assert!(out[length..].iter().all(|octet| *octet == 0xaa));
                out.truncate(length);
                self.receipt = receipt;
                Ok(out)
            }
            Answer::Drop(reason) => Err(reason),
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.tables.statistics().get(counter)
    }
}

fn request() -> Packet {
    Packet {
        leap: Leap::Unsynchronised,
        version: 4,
        mode: Mode::Client,
        poll: 6,
        precision: 32,
        transmit: NtpTimestamp(0x0123_4567_89ab_cdef),
        ..Packet::default()
    }
}

fn packet_of(octets: &[u8]) -> Packet {
    Message::parse(octets).unwrap().packet
}

/// A request with a unique identifier and a MAC.
fn full(packet: &Packet, key: Option<u32>) -> Vec<u8> {
    let mut octets = vec![0; LONGEST_ANSWER];
    let mut writer = Writer::new(&mut octets, packet).unwrap();
    if packet.version == 4 {
        assert!(writer.extension(UNIQUE_IDENTIFIER, &[0x55; 32]));
        assert!(writer.extension(0x4321, &[1; 40]));
    }
    if let Some(key) = key {
        let keys = keys();
        assert!(writer.mac(key, |covered, digest| {
            keys.sign(key, packet.version, covered, digest)
        }));
    }
    let length = writer.finish();
    octets.truncate(length);
    octets
}

#[test]
fn an_answer_says_what_the_reference_says() {
    let mut desk = Desk::new(&settings());
    let answer = desk.ask(&request().encode(), CLIENT).unwrap();
    assert_eq!(answer.len(), 48);
    let packet = packet_of(&answer);
    assert_eq!(packet.leap, Leap::Insert);
    assert_eq!((packet.version, packet.mode), (4, Mode::Server));
    assert_eq!((packet.stratum, packet.poll, packet.precision), (2, 6, -25));
    assert_eq!(packet.reference_id, 0xcb00_7101);
    assert_eq!(
        packet.reference_time,
        NtpTimestamp::of(NOW - Span(100 * SECOND))
    );
    assert_eq!(packet.root_delay, NtpShort::from_seconds(0.010));
    // Grown for 50 seconds.
    assert_eq!(
        packet.root_dispersion,
        NtpShort::from_seconds(0.001 + 50e-6)
    );
    assert_eq!(packet.origin, request().transmit);
    // Seven bits are below 2^-25 s, and one says which stamp it is.
    let blur = 127;
    let received = NtpTimestamp::of(NOW).0;
    assert!(packet.receive.0.abs_diff(received) <= blur);
    let sent = NtpTimestamp::of(NOW + WORK).0;
    assert!(packet.transmit.0.abs_diff(sent) <= blur);
    assert_eq!((packet.receive.0 & 1, packet.transmit.0 & 1), (1, 0));
    // Not the same digits again and again: 64 would be, on average, 40 different ones.
    let mut seen: Vec<u64> = (0..64)
        .map(|_| {
            packet_of(&desk.ask(&request().encode(), CLIENT).unwrap())
                .receive
                .0
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 20, "{}", seen.len());
    assert_eq!(desk.count(Counter::Received), 65);
    assert_eq!(desk.count(Counter::ReceivedKernel), 65);
    assert_eq!(desk.count(Counter::TransmittedDaemon), 65);
}

#[test]
fn what_the_wall_clock_lacks_is_added() {
    let mut desk = Desk::new(&settings());
    desk.reference.offset = 0.25;
    desk.reference.offset_rate = 1e-6;
    let packet = packet_of(&desk.ask(&request().encode(), CLIENT).unwrap());
    let wanted = NOW + Span(SECOND / 4 + 50_000);
    let error = packet.receive.near(NOW) - wanted;
    assert!(error.0.abs() < 60, "{error:?}");
    let error = packet.transmit.near(NOW) - wanted - WORK;
    assert!(error.0.abs() < 60, "{error:?}");
}

#[test]
fn without_time_there_is_none_to_tell() {
    let mut desk = Desk::new(&settings());
    for reference in [
        Reference::default(),
        Reference {
            leap: Leap::Unsynchronised,
            ..reference()
        },
        Reference {
            stratum: 16,
            ..reference()
        },
    ] {
        desk.reference = reference;
        let packet = packet_of(&desk.ask(&request().encode(), CLIENT).unwrap());
        assert_eq!((packet.leap, packet.stratum), (Leap::Unsynchronised, 0));
        assert_eq!(
            (packet.reference_id, packet.reference_time),
            (0, NtpTimestamp::ZERO)
        );
        assert_eq!(packet.root_delay, NtpShort::from_seconds(1.0));
        assert_eq!(packet.root_dispersion, NtpShort::from_seconds(1.0));
        assert_eq!(packet.origin, request().transmit);
    }
}

#[test]
fn signed_requests_get_answers_signed_with_the_same_key() {
    let mut desk = Desk::new(&settings());
    for version in [3, 4] {
        for key in 1..=3 {
            let asked = full(
                &Packet {
                    version,
                    ..request()
                },
                Some(key),
            );
            let answer = desk.ask(&asked, CLIENT).unwrap();
            let message = Message::parse(&answer).unwrap();
            let mac = message.mac().unwrap();
            assert!(keys().verify_with(key, mac), "{version} {key}");
            assert_eq!(
                mac.digest.len(),
                Message::parse(&asked).unwrap().mac().unwrap().digest.len()
            );
        }
    }
    assert_eq!(desk.count(Counter::Authenticated), 6);
    let plain = full(&request(), None);
    let answer = desk.ask(&plain, CLIENT).unwrap();
    assert_eq!(Message::parse(&answer).unwrap().trailer, Trailer::None);
    assert_eq!(desk.count(Counter::Authenticated), 6);
}

#[test]
fn the_unique_identifier_comes_back_and_nothing_else() {
    let mut desk = Desk::new(&settings());
    let asked = full(&request(), Some(3));
    let answer = desk.ask(&asked, CLIENT).unwrap();
    let message = Message::parse(&answer).unwrap();
    let fields: Vec<_> = message.extensions.into_iter().collect();
    assert_eq!(fields.len(), 1);
    assert_eq!(
        (fields[0].kind, fields[0].body),
        (UNIQUE_IDENTIFIER, &[0x55; 32][..])
    );
    assert_eq!(answer.len(), 48 + 36 + 20);
    // RFC 8915 §5.3: a shorter one is none.
    let mut short = request().encode().to_vec();
    short.extend([0x01, 0x04, 0, 32]);
    short.resize(48 + 32, 0x55);
    assert_eq!(desk.ask(&short, CLIENT).unwrap().len(), 48);
}

#[test]
fn who_asks_too_often_is_dropped() {
    let limit = RateLimit {
        interval: Some(4),
        burst: 3,
        leak: 40,
        kod: 0,
    };
    let limited = ServerSettings {
        rate_limit: Some(limit),
        ..settings()
    };
    let mut desk = Desk::new(&limited);
    for n in 0..10 {
        let answer = desk.ask(&request().encode(), CLIENT);
        assert_eq!(answer.is_ok(), n < 3);
        if let Ok(answer) = answer {
            assert_eq!(packet_of(&answer).poll, 6, "longer than the limit asks");
        }
    }
    let other = SocketAddr::new("192.0.2.2".parse().unwrap(), 1);
    let often = Packet {
        poll: 0,
        ..request()
    };
    let answer = packet_of(&desk.ask(&often.encode(), other).unwrap());
    assert_eq!(answer.poll, 4, "the interval is suggested");
    assert_eq!(desk.count(Counter::RateLimited), 7);
    assert_eq!(desk.count(Counter::Received), 11);
    let places = 0..desk.tables.client_places();
    let views: Vec<_> = places
        .filter_map(|place| desk.tables.client(place))
        .collect();
    assert_eq!(views.len(), 2);
    let view = views
        .iter()
        .find(|view| view.address == CLIENT.ip())
        .unwrap();
    assert_eq!((view.ntp.n_requests, view.ntp.n_dropped), (10, 7));
}

#[test]
fn who_asks_too_often_may_be_told_so() {
    // Half of what is above the limit.
    let limit = RateLimit {
        interval: Some(4),
        burst: 3,
        leak: 40,
        kod: 1,
    };
    let limited = ServerSettings {
        rate_limit: Some(limit),
        ..settings()
    };
    let mut desk = Desk::new(&limited);
    let mut n_kisses = 0;
    for _ in 0..200 {
        let asked = full(&request(), Some(3));
        let Ok(answer) = desk.ask(&asked, CLIENT) else {
            continue;
        };
        let packet = packet_of(&answer);
        if packet.reference_id != RATE {
            continue;
        }
        n_kisses += 1;
        assert_eq!((packet.stratum, packet.leap), (0, Leap::Unsynchronised));
        assert_eq!(
            (packet.mode, packet.origin),
            (Mode::Server, request().transmit)
        );
        assert_eq!(packet.receive, request().transmit, "no time is told");
        let message = Message::parse(&answer).unwrap();
        assert!(
            keys().verify_with(3, message.mac().unwrap()),
            "nobody forges a kiss"
        );
    }
    assert!((60..140).contains(&n_kisses), "{n_kisses}");
    assert_eq!(desk.count(Counter::Kissed), n_kisses);

    // Without a log of clients there is no limit.
    let unlogged = ServerSettings {
        no_client_log: true,
        ..limited
    };
    desk = Desk::new(&unlogged);
    for _ in 0..100 {
        let answer = desk.ask(&request().encode(), CLIENT).unwrap();
        assert_eq!(packet_of(&answer).stratum, 2);
    }
    assert_eq!(desk.tables.client(0), None);
}

#[test]
fn commands_are_counted_and_limited_by_themselves() {
    let desk = Desk::new(&settings());
    let limit = RateLimit {
        leak: 40,
        burst: 2,
        ..RateLimit::default()
    };
    let random = &mut Random::new([1; 16]);
    let answered = (0..10).filter(|_| desk.tables.command(CLIENT.ip(), NOW, Some(&limit), random));
    assert_eq!(answered.count(), 2);
    assert!(desk.tables.command(STRANGER.ip(), NOW, None, random));
    assert_eq!(desk.count(Counter::CommandsReceived), 11);
    assert_eq!(desk.count(Counter::CommandsDropped), 8);
    assert_eq!(desk.count(Counter::Received), 0);
    desk.tables.reset_statistics();
    assert_eq!(desk.count(Counter::CommandsReceived), 0);
}

#[test]
fn responders_share_what_they_know() {
    let limit = RateLimit {
        interval: Some(4),
        burst: 4,
        leak: 40,
        kod: 0,
    };
    let limited = ServerSettings {
        rate_limit: Some(limit),
        ..settings()
    };
    let mut desk = Desk::new(&limited);
    let mut answered = 0;
    for seed in 0..10 {
        desk.responder = Responder::new(&desk.tables, Random::new([seed; 16]));
        answered += u32::from(desk.ask(&request().encode(), CLIENT).is_ok());
    }
    assert_eq!(answered, 4);
    assert_eq!(desk.count(Counter::Received), 10);
}

#[test]
fn a_peer_asks_with_a_packet_of_a_client_and_with_none_of_its_own() {
    let from = SocketAddr::from(([10, 0, 0, 7], 123));
    let of_mode = |mode| full(&Packet { mode, ..request() }, None);
    // Whether it asks if its sender is a peer, and if it is not.
    let table = [
        (Mode::Client, true, true),
        (Mode::SymmetricActive, false, true),
        (Mode::SymmetricPassive, false, false),
        (Mode::Server, false, false),
        (Mode::Broadcast, false, false),
        (Mode::Control, false, false),
        (Mode::Private, false, false),
    ];
    for (mode, of_peer, of_other) in table {
        let datagram = of_mode(mode);
        assert_eq!(asks(&datagram, from, true), of_peer, "{mode:?}");
        assert_eq!(asks(&datagram, from, false), of_other, "{mode:?}");
        assert!(!asks(&datagram[..47], from, false), "{mode:?}");
    }
}
