use super::*;
use crate::keys::{Algorithm, Key};
use crate::time::{Reading, Span};
use crate::timekeeper::Reference;
use crate::view::StampSource;
use crate::wire::{LONGEST_PACKET, Writer};
use md5::{Digest as _, Md5};

/// When the tests begin, on the wall clock; the raw clock begins at a thousand seconds.
const START: i64 = 1_800_000_000 * SECOND;
const RAW: i64 = 1000 * SECOND;
const MS: i64 = 1_000_000;

/// A server whose clock is ahead of the local one, some way off.
struct Server {
    ahead: i64,
    there: i64,
    service: i64,
    back: i64,
    /// How long after its T3 a response really leaves.
    late: i64,
    interleaves: bool,
    packet: Packet,
    key: Option<u32>,
    keys: KeyRing,
    /// T2 and the true T3 of the last exchange.
    last: Option<(NtpTimestamp, NtpTimestamp)>,
}

impl Server {
    fn new() -> Self {
        Self {
            ahead: 250 * MS,
            there: 3 * MS,
            service: MS,
            back: 3 * MS,
            late: 0,
            interleaves: false,
            packet: Packet {
                version: 4,
                mode: Mode::Server,
                stratum: 2,
                poll: 6,
                precision: -23,
                root_delay: crate::time::NtpShort::from_seconds(0.01),
                root_dispersion: crate::time::NtpShort::from_seconds(0.002),
                reference_id: 0xC000_0207,
                reference_time: NtpTimestamp::of(UnixTime(START - SECOND)),
                ..Packet::default()
            },
            key: None,
            keys: KeyRing::new(),
            last: None,
        }
    }

    /// The answer to a request that leaves then.
    fn answer(&mut self, request: &[u8], sent: RawTime) -> Vec<u8> {
        let request = Message::parse(request).unwrap().packet;
        let time = |raw: i64| NtpTimestamp::of(UnixTime(raw - RAW + START + self.ahead));
        let receive = time(sent.0 + self.there);
        let transmit = time(sent.0 + self.there + self.service);
        let mut packet = Packet {
            origin: request.transmit,
            receive,
            transmit,
            ..self.packet
        };
        if let Some((last_receive, last_transmit)) = self.last
            && self.interleaves
            && request.origin == last_receive
        {
            packet.origin = request.receive;
            packet.transmit = last_transmit;
        }
        self.last = Some((
            receive,
            time(sent.0 + self.there + self.service + self.late),
        ));
        self.seal(&packet)
    }

    fn seal(&self, packet: &Packet) -> Vec<u8> {
        let mut buffer = [0; LONGEST_PACKET];
        let mut writer = Writer::new(&mut buffer, packet).unwrap();
        if let Some(key) = self.key {
            assert!(writer.mac(key, |message, digest| {
                self.keys.sign(key, packet.version, message, digest)
            }));
        }
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    fn round_trip(&self) -> i64 {
        self.there + self.service + self.late + self.back
    }
}

/// An association, and its time.
struct Client {
    association: Association,
    keys: KeyRing,
    told: Option<Reference>,
    now: RawTime,
}

impl Client {
    fn new(options: &SourceOptions) -> Self {
        let address = "192.0.2.1".parse().unwrap();
        Self {
            association: Association::new(address, options, Random::new([1; 16]), RawTime(RAW)),
            keys: KeyRing::new(),
            told: None,
            now: RawTime(RAW),
        }
    }

    /// Goes on to what is due next, which may be nothing.
    fn next(&mut self) -> Option<Due> {
        let at = self.association.poll_timeout()?;
        self.now = self.now.max(at);
        let (keys, told, now) = (self.keys.clone(), self.told, self.now);
        let context = context(&keys, told.as_ref(), now);
        let due = self.association.handle_timeout(&context);
        if let Some(Due::Request(_)) = due {
            let stamp = kernel(self.now);
            let local = Some("192.0.2.9".parse().unwrap());
            self.association.sent(stamp, local);
        }
        due
    }

    fn request(&mut self) -> Vec<u8> {
        loop {
            match self.next() {
                Some(Due::Request(octets)) => return octets,
                Some(Due::GiveUp) => {}
                None => panic!("nothing is due"),
            }
        }
    }

    fn receive(&mut self, octets: &[u8]) -> Outcome {
        let (keys, told, now) = (self.keys.clone(), self.told, self.now);
        let context = context(&keys, told.as_ref(), now);
        self.association
            .handle_response(octets, kernel(now), &context)
    }

    /// A whole exchange.
    fn exchange(&mut self, server: &mut Server) -> Outcome {
        let request = self.request();
        let answer = server.answer(&request, self.now);
        self.now = self.now + Span(server.round_trip());
        self.receive(&answer)
    }

    /// As the engine does it: what was good is judged so.
    fn sample(&mut self, server: &mut Server) -> Option<Sample> {
        let Outcome::Answered(sample) = self.exchange(server) else {
            panic!("no answer");
        };
        if sample.is_some() {
            self.judge(Verdict::Good, 6);
        }
        sample
    }

    fn judge(&mut self, verdict: Verdict, poll: i8) {
        let wish = Wish {
            poll,
            wants_more: false,
        };
        self.association.judge(verdict, wish, self.now);
    }

    fn view(&self) -> SourceView {
        let mut view = SourceView::default();
        self.association.show(&mut view);
        view
    }
}

fn context<'a>(keys: &'a KeyRing, told: Option<&'a Reference>, now: RawTime) -> Context<'a> {
    Context {
        now: Reading {
            raw: now,
            wall: UnixTime(now.0 - RAW + START),
        },
        rate: 0.0,
        precision: 1e-7,
        keys,
        told,
    }
}

fn kernel(at: RawTime) -> RawStamp {
    RawStamp {
        at,
        by: StampSource::Kernel,
        error: 0.0,
    }
}

/// By how much a sample says that the server is ahead, in nanoseconds.
fn ahead(sample: &Sample) -> i64 {
    sample.ahead - (START - RAW)
}

#[test]
fn a_sample_is_what_four_times_say() {
    let mut client = Client::new(&SourceOptions::default());
    let mut server = Server::new();
    let sent = client.now;
    let sample = client.sample(&mut server).unwrap();
    assert_eq!(sample.at, sent + Span(server.round_trip() / 2));
    assert!((ahead(&sample) - server.ahead).abs() <= 1);
    assert!((sample.delay - 0.006).abs() < 1e-8);
    assert!((sample.dispersion - (1e-7 + 2_f64.powi(-23) + 15e-6 * 0.007)).abs() < 1e-9);
    assert_eq!((sample.stratum, sample.reference_id), (2, 0xC000_0207));
    assert_eq!(sample.local_reference_id, 0xC000_0209);
    let view = client.view();
    let packet = view.packet.unwrap();
    assert_eq!(packet.tests, test::GOOD);
    assert!((packet.offset - 0.25).abs() < 1e-8 && (packet.response_time - 0.001).abs() < 1e-8);
    assert_eq!(
        (
            packet.n_sent,
            packet.n_received,
            packet.n_valid,
            packet.n_good
        ),
        (1, 1, 1, 1)
    );
    assert_eq!((view.reach, view.reference_id), (1, 0xC000_0201));
    assert_eq!(packet.transmit_stamp, StampSource::Kernel);
}

#[test]
fn stamps_of_the_wall_clock_come_to_the_raw_clock_by_the_rate_in_force() {
    let keys = KeyRing::new();
    let context = Context {
        now: Reading {
            raw: RawTime(RAW),
            wall: UnixTime(START),
        },
        rate: 1e8,
        precision: 1e-7,
        keys: &keys,
        told: None,
    };
    // At a tenth more, 1.1 ms of the wall clock are 1 ms of the raw clock.
    let wall = UnixTime(START - 1_100_000);
    assert_eq!(context.raw(wall), RawTime(RAW - MS));
    assert_eq!(context.wall(context.raw(wall)), wall);
}

#[test]
fn requests_tell_nothing_and_none_is_like_another() {
    let mut client = Client::new(&SourceOptions::default());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let request = client.request();
        assert_eq!(request.len(), 48);
        let packet = Message::parse(&request).unwrap().packet;
        assert_eq!((packet.mode, packet.version), (Mode::Client, 4));
        assert_eq!(packet.receive, NtpTimestamp::ZERO);
        assert_eq!(packet.origin, NtpTimestamp::ZERO);
        assert_eq!(packet.reference_time, NtpTimestamp::ZERO);
        assert_eq!((packet.stratum, packet.precision), (0, 32));
        assert!(seen.insert(packet.transmit.0), "a number twice");
    }
}

#[test]
fn what_is_no_answer_changes_nothing() {
    let mut client = Client::new(&SourceOptions::default());
    let mut server = Server::new();
    assert_eq!(
        client.receive(&[0; 48]),
        Outcome::Ignored(Ignored::Malformed)
    );
    let request = client.request();
    let good = server.answer(&request, client.now);
    let altered = |alter: &dyn Fn(&mut Packet)| {
        let mut packet = Message::parse(&good).unwrap().packet;
        alter(&mut packet);
        packet.encode().to_vec()
    };
    for (octets, why) in [
        (good[..47].to_vec(), Ignored::Malformed),
        (
            altered(&|packet| packet.mode = Mode::Client),
            Ignored::Malformed,
        ),
        (
            altered(&|packet| packet.mode = Mode::Broadcast),
            Ignored::Malformed,
        ),
        (altered(&|packet| packet.origin.0 ^= 1), Ignored::Bogus),
        (
            altered(&|packet| packet.origin = NtpTimestamp::ZERO),
            Ignored::Bogus,
        ),
        (
            altered(&|packet| packet.receive = NtpTimestamp::ZERO),
            Ignored::Bogus,
        ),
        (
            altered(&|packet| packet.transmit = NtpTimestamp::ZERO),
            Ignored::Bogus,
        ),
    ] {
        assert_eq!(client.receive(&octets), Outcome::Ignored(why));
    }
    assert!(matches!(client.receive(&good), Outcome::Answered(Some(_))));
    assert_eq!(
        client.receive(&good),
        Outcome::Ignored(Ignored::Unexpected),
        "each request is answered once"
    );
    assert_eq!(client.view().reach, 1);
}

#[test]
fn responses_that_are_no_good_are_known_by_their_tests() {
    type Alter = fn(&mut Server);
    let cases: [(u16, Alter); 8] = [
        (test::SYNCHRONISED, |server| {
            server.packet.leap = Leap::Unsynchronised;
        }),
        (test::SYNCHRONISED, |server| server.packet.stratum = 16),
        (test::SYNCHRONISED, |server| server.packet.stratum = 0),
        (test::DISTANCE, |server| {
            server.packet.root_dispersion = crate::time::NtpShort::from_seconds(16.0);
        }),
        (test::DELAY, |server| server.back = 3100 * MS),
        (test::DELAY, |server| server.service = 4001 * MS),
        // Its time is from us.
        (test::LOOP, |server| {
            server.packet.reference_id = 0xC000_0209;
        }),
        // It is us.
        (test::LOOP, |server| {
            server.packet.reference_id = 77;
            server.packet.stratum = 3;
        }),
    ];
    for (place, (failed, alter)) in cases.iter().enumerate() {
        let mut client = Client::new(&SourceOptions::default());
        client.told = Some(Reference {
            leap: Leap::Normal,
            stratum: 3,
            reference_id: 77,
            reference_time: UnixTime(START - SECOND),
            ..Reference::default()
        });
        let mut server = Server::new();
        alter(&mut server);
        assert_eq!(
            client.exchange(&mut server),
            Outcome::Answered(None),
            "{place}"
        );
        let packet = *client.association.packet().unwrap();
        assert_eq!(packet.tests, test::GOOD & !failed, "case {place}");
        let reached = failed & test::USABLE == 0;
        assert_eq!(client.view().reach, u8::from(reached), "case {place}");
    }
    // Whoever serves nobody cannot be in a loop.
    let mut client = Client::new(&SourceOptions::default());
    let mut server = Server::new();
    server.packet.reference_id = 0xC000_0209;
    assert!(client.sample(&mut server).is_some());
}

#[test]
fn interleaved_responses_have_the_time_at_which_the_one_before_left() {
    let options = SourceOptions {
        xleave: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    server.interleaves = true;
    server.late = 2 * MS;
    let first = client.sample(&mut server).unwrap();
    // The basic response does not know that it left late: half of that is the error.
    assert_eq!(server.ahead - ahead(&first), MS);
    assert!(!client.association.packet().unwrap().interleaved);
    let sent = client.association.schedule.next().unwrap();
    assert_eq!(
        client.sample(&mut server),
        None,
        "it tells of the first exchange, whose sample was taken"
    );
    assert!(!client.association.has_measured());
    assert!(client.association.packet().unwrap().interleaved);
    let second = client.sample(&mut server).unwrap();
    assert!((server.ahead - ahead(&second)).abs() <= 1);
    assert_eq!(second.at, sent + Span(server.round_trip() / 2));
    assert!(
        (second.delay - 0.006).abs() < 1e-8,
        "what the server took is known"
    );
    assert_eq!(client.view().reach, 0b111);
}

#[test]
fn interleaved_mode_survives_a_server_that_forgot() {
    let options = SourceOptions {
        xleave: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    server.interleaves = true;
    client.sample(&mut server);
    client.sample(&mut server);
    client.sample(&mut server).unwrap();
    server.last = None;
    let basic = client.sample(&mut server).unwrap();
    assert!((server.ahead - ahead(&basic)).abs() <= 1);
    assert!(!client.association.packet().unwrap().interleaved);
    // Requests that are not answered do not end it, for a while.
    for (n_lost, is_interleaved) in [(4, true), (5, false)] {
        client.sample(&mut server);
        client.sample(&mut server).unwrap();
        for _ in 0..n_lost {
            client.request();
        }
        client.exchange(&mut server);
        let packet = client.association.packet().unwrap();
        assert_eq!(packet.interleaved, is_interleaved, "{n_lost} lost");
    }
}

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

#[test]
fn a_burst_at_the_start_ends_with_four_good_samples_or_eight_requests() {
    let options = SourceOptions {
        iburst: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    let mut times = Vec::new();
    for _ in 0..6 {
        client.sample(&mut server).unwrap();
        times.push((client.now - RawTime(RAW)).seconds().floor());
    }
    assert_eq!(times[..4], [0.0, 2.0, 4.0, 6.0]);
    assert!((70.0..72.0).contains(&times[4]), "{times:?}");
    assert!((134.0..137.0).contains(&times[5]), "{times:?}");
    let mut client = Client::new(&options);
    let mut times = Vec::new();
    for _ in 0..10 {
        client.request();
        times.push((client.now - RawTime(RAW)).seconds().floor());
    }
    assert_eq!(times[..8], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
    // Four unanswered ones are an interval twice as long.
    assert!(
        times[8] - times[7] >= 64.0 && times[9] - times[8] >= 128.0,
        "{times:?}"
    );
}

#[test]
fn intervals_follow_the_timekeeper_within_bounds_and_grow_without_answers() {
    let options = SourceOptions {
        minpoll: 2,
        maxpoll: 5,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    for (advised, expected) in [(3, 3), (9, 5), (-3, 2)] {
        assert!(matches!(
            client.exchange(&mut server),
            Outcome::Answered(Some(_))
        ));
        client.judge(Verdict::Good, advised);
        assert_eq!(client.association.poll(), expected);
        let wait = (client.association.poll_timeout().unwrap() - client.now).seconds();
        let interval = f64::from(expected).exp2();
        assert!(wait > interval - 0.1 && wait < interval * 1.03, "{wait}");
    }
    let polls: Vec<i8> = (0..16)
        .map(|_| {
            client.request();
            client.association.poll()
        })
        .collect();
    assert_eq!(polls, [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
    assert_eq!(client.view().reach, 0);
    assert_eq!(client.association.n_unanswered(), 16);
    client.sample(&mut server);
    assert_eq!(client.view().reach, 1);
}

#[test]
fn only_a_near_server_is_asked_more_than_once_a_second() {
    let options = SourceOptions {
        minpoll: -4,
        maxpoll: -2,
        ..SourceOptions::default()
    };
    for (back, expected) in [(MS, -4), (20 * MS, 0)] {
        let mut client = Client::new(&options);
        let mut server = Server::new();
        server.back = back;
        client.exchange(&mut server);
        client.judge(Verdict::Good, -4);
        assert_eq!(client.association.poll(), expected);
    }
}

#[test]
fn who_is_offline_is_not_asked_but_by_a_burst() {
    let options = SourceOptions {
        connectivity: Connectivity::Offline,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    assert_eq!(client.association.poll_timeout(), None);
    client.association.burst(2, 3, client.now);
    client.sample(&mut server).unwrap();
    client.sample(&mut server).unwrap();
    assert!(!client.association.is_bursting());
    assert_eq!(client.association.poll_timeout(), None, "offline as before");
    client.association.go_online(client.now);
    client.sample(&mut server).unwrap();
    client.association.go_offline();
    assert_eq!(client.association.poll_timeout(), None);
    let mut client = Client::new(&SourceOptions {
        connectivity: Connectivity::AutoOffline,
        ..SourceOptions::default()
    });
    client.request();
    client.association.failed();
    assert!(!client.association.is_online());
}

#[test]
fn an_answer_is_waited_for_as_long_as_it_could_be_of_use() {
    let mut client = Client::new(&SourceOptions::default());
    client.request();
    assert_eq!(client.next(), Some(Due::GiveUp));
    assert_eq!(client.now, RawTime(RAW + 3 * SECOND));
    assert_eq!(
        client.receive(&[0; 48]),
        Outcome::Ignored(Ignored::Malformed)
    );
}

#[test]
fn of_several_samples_the_one_with_the_shortest_round_trip_counts() {
    let mut client = Client::new(&SourceOptions {
        filter: Some(3),
        ..SourceOptions::default()
    });
    let mut server = Server::new();
    let mut samples = Vec::new();
    for back in [5, 2, 9, 4, 3, 3] {
        server.back = back * MS;
        samples.push(client.sample(&mut server).map(|sample| sample.delay));
    }
    let expected = [None, None, Some(0.005), None, None, Some(0.006)];
    for (found, expected) in samples.iter().zip(expected) {
        let apart = found.unwrap_or(-1.0) - expected.unwrap_or(-1.0);
        assert!(apart.abs() < 1e-7, "{samples:?}");
    }
}

#[test]
fn reference_ids_are_addresses() {
    assert_eq!(reference_id("203.0.113.15".parse().unwrap()), 0xCB00_710F);
    // MD5 of sixteen octets, fifteen of them zero and a one.
    let id = reference_id("::1".parse().unwrap());
    assert_eq!(
        id,
        u32::from_be_bytes(
            *Md5::digest([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
                .first_chunk()
                .unwrap()
        )
    );
}

#[test]
fn any_octets_are_survived() {
    let mut random = Random::new([3; 16]);
    let mut client = Client::new(&SourceOptions::default());
    client.request();
    for length in 0..200 {
        let octets: Vec<u8> = (0..length)
            .map(|_| random.bits().to_le_bytes()[0])
            .collect();
        assert!(matches!(client.receive(&octets), Outcome::Ignored(_)));
    }
}

#[test]
fn far_apart_a_request_goes_ahead_of_the_one_that_counts() {
    for (xleave, n_ahead) in [(false, 1), (true, 2)] {
        let options = SourceOptions {
            presend: Some(6),
            xleave,
            ..SourceOptions::default()
        };
        let mut server = Server::new();
        server.interleaves = xleave;
        let mut client = Client::new(&options);
        for poll in 0..3 {
            for ahead in 0..n_ahead {
                assert_eq!(client.sample(&mut server), None, "{poll}.{ahead} counts");
                let (sent, before) = (client.now, client.association.poll_timeout());
                let pause = before.expect("another follows") - sent;
                assert!((1.9..2.1).contains(&pause.seconds()), "{pause:?}");
            }
            assert!(
                client.sample(&mut server).is_some(),
                "{poll} does not count"
            );
            let pause = client.association.poll_timeout().expect("a poll") - client.now;
            assert!(pause.seconds() > 60.0, "{pause:?}");
        }
    }
    // Below that interval none does.
    let options = SourceOptions {
        presend: Some(7),
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    assert!(client.sample(&mut Server::new()).is_some());
}

#[test]
fn a_source_that_is_copied_is_a_stratum_nearer() {
    for (copy, stratum) in [(false, 2), (true, 1)] {
        let options = SourceOptions {
            copy,
            ..SourceOptions::default()
        };
        let sample = Client::new(&options).sample(&mut Server::new());
        assert_eq!(sample.expect("a sample").stratum, stratum);
    }
}
