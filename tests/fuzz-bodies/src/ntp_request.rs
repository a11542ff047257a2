//! Any bytes as what clients send to an NTP server, one datagram after another.
//!
//! Before each there are three bytes: who sends it and what is done to it, how much time has gone by, and its length in words;
//! with the highest bit there, it repeats the receive timestamp of the last answer, as clients do in interleaved mode.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use ntp::keys::{Algorithm, Key, KeyRing};
use ntp::responder::{Answer, Policy, Reason, Request, Responder, Tables};
use ntp::wire::{Message, Mode, Trailer};
use random::Random;
use time_model::settings::{AccessRule, ClientMatch, RateLimit, ServerSettings};
use time_model::time::{NtpTimestamp, SECOND, Span, UnixTime};
use time_model::view::{Leap, StampSource};
use timekeeper::Reference;

/// Datagrams of one run at most.
const MOST: usize = 64;
const START: UnixTime = UnixTime(1_800_000_000 * SECOND);

static KEYS: LazyLock<Arc<KeyRing>> = LazyLock::new(|| {
    let mut keys = KeyRing::new();
    for (id, algorithm) in [
        (1, Algorithm::Md5),
        (2, Algorithm::Sha512),
        (3, Algorithm::Aes128),
    ] {
        let secret = vec![7; algorithm.key_length().unwrap_or(20)];
        let key = Key::new(algorithm, &secret).expect("a key");
        keys.insert(id, key).expect("an ID");
    }
    Arc::new(keys)
});

pub(super) fn body(data: &[u8]) {
    let Some((&kind, mut rest)) = data.split_first() else {
        return;
    };
    let settings = ServerSettings {
        access: vec![AccessRule {
            allow: true,
            all: false,
            clients: ClientMatch::Network("192.0.2.0/24".parse().expect("a network")),
        }],
        rate_limit: (kind & 1 != 0).then_some(RateLimit {
            interval: Some(1),
            burst: 4,
            leak: 1,
            kod: u32::from(kind >> 1 & 1),
        }),
        no_client_log: kind & 4 != 0,
        client_log_limit: 0,
        ..ServerSettings::default()
    };
    let tables = Tables::new(settings.client_log_limit, [1, 2]);
    let mut responder = Responder::new(&tables, Random::new([kind; 16]));
    let policy = Policy::new(&settings, Arc::clone(&KEYS), -20, |_| Vec::new());
    let reference = Reference {
        leap: if kind & 8 == 0 {
            Leap::Normal
        } else {
            Leap::Unsynchronised
        },
        stratum: kind >> 4,
        at: START,
        ..Reference::default()
    };
    let mut now = START;
    let mut n_replies = 0;
    let mut last = NtpTimestamp::ZERO;
    for _ in 0..MOST {
        let Some(([who, pause, words], after)) = rest.split_first_chunk() else {
            break;
        };
        let length = usize::from(words & 0x7f) * 4 + usize::from(who >> 6 == 3);
        let (datagram, after) = after.split_at_checked(length).unwrap_or((after, &[]));
        rest = after;
        let mut octets = datagram.to_vec();
        if let Some(origin) = octets.get_mut(24..32).filter(|_| words & 0x80 != 0) {
            origin.copy_from_slice(&last.0.to_be_bytes());
        }
        now = now + Span(i64::from(pause.cast_signed()) * SECOND / 8);
        if who & 0x10 != 0 {
            sign(&mut octets, *who);
        }
        if let Some(receive) = ask(&mut responder, &policy, &reference, *who, now, &octets) {
            last = receive;
            n_replies += 1;
        }
        if who & 0x20 != 0 {
            tables.forget_stamps();
        }
    }
    let statistics = tables.statistics();
    assert!(statistics.stamps_held <= n_replies.min(MOST), "bounded");
}

/// Asks, and looks at the answer; its receive timestamp.
fn ask(
    responder: &mut Responder,
    policy: &Policy,
    reference: &Reference,
    who: u8,
    now: UnixTime,
    datagram: &[u8],
) -> Option<NtpTimestamp> {
    let ip = match who & 3 {
        0 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        1 => "::ffff:192.0.2.2".parse().expect("an address"),
        2 => IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
        _ => "2001:db8::1".parse().expect("an address"),
    };
    let port = if who & 4 == 0 { 123 } else { 40_000 };
    let request = Request {
        datagram,
        from: SocketAddr::new(ip, port),
        received: now,
        stamp: StampSource::Kernel,
    };
    let mut out = [0xaa; 1200];
    let room = if who & 8 == 0 { out.len() } else { 60 };
    let clock = || now + Span(20_000);
    let answer = responder.answer(&request, policy, reference, clock, &mut out[..room]);
    let length = match answer {
        Answer::Reply { length, .. } => length,
        Answer::Drop(reason) => {
            assert!(reason != Reason::TooLong || room < datagram.len());
            return None;
        }
    };
    assert!(who & 2 == 0, "nobody else is answered");
    assert!(length <= datagram.len(), "never longer than the request");
    let asked = Message::parse(datagram).expect("only packets are answered");
    let told = Message::parse(&out[..length]).expect("answers are packets");
    let mode = asked.packet.mode;
    let answering = match mode {
        Mode::Client => Mode::Server,
        Mode::SymmetricActive => Mode::SymmetricPassive,
        Mode::Reserved if asked.packet.version == 1 && port != 123 => Mode::Server,
        other => panic!("{other:?} is no request"),
    };
    assert_eq!(
        (told.packet.mode, told.packet.version),
        (answering, asked.packet.version)
    );
    let origins = [asked.packet.transmit, asked.packet.receive];
    assert!(origins.contains(&told.packet.origin));
    assert_eq!(told.mac().is_some(), asked.mac().is_some());
    if let Some(mac) = told.mac() {
        assert!(KEYS.verify_with(asked.mac().expect("signed").key, mac));
        assert!(KEYS.verify(asked.mac().expect("signed")));
    } else {
        assert_eq!(told.trailer, Trailer::None);
    }
    if !reference.is_synchronised() {
        assert_eq!(told.packet.stratum, 0);
    }
    Some(told.packet.receive)
}

/// Puts a good MAC behind a datagram, or nothing behind it is ever seen.
fn sign(octets: &mut Vec<u8>, who: u8) {
    let version = octets.first().map_or(0, |first| first >> 3 & 7);
    let key = u32::from(who >> 6) + 1;
    let mut digest = [0; 64];
    if let Some(length) = KEYS.sign(key, version, octets, &mut digest) {
        octets.extend(key.to_be_bytes());
        octets.extend(&digest[..length]);
    }
}
