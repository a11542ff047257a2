mod peering;
mod polling;
mod trust;

use super::*;
use crate::keys::{Algorithm, Key};
use crate::wire::{LONGEST_PACKET, Writer};
use md5::{Digest as _, Md5};
use time_model::time::{Reading, Span};
use time_model::view::StampSource;
use timekeeper::Reference;

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
                root_delay: time_model::time::NtpShort::from_seconds(0.01),
                root_dispersion: time_model::time::NtpShort::from_seconds(0.002),
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
        let wish = PollRequest {
            poll,
            wants_more: false,
            is_contradicted: false,
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
        frequency: 0.0,
        skew: 0.0,
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
        frequency: 0.0,
        skew: 0.0,
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
            server.packet.root_dispersion = time_model::time::NtpShort::from_seconds(16.0);
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
fn a_source_that_is_copied_is_a_stratum_nearer_and_none_is_nearer_than_it_may_be() {
    for (copy, min_stratum, stratum) in [
        (false, 0, 2),
        (true, 0, 1),
        (false, 5, 5),
        (true, 5, 5),
        (true, 1, 1),
    ] {
        let options = SourceOptions {
            copy,
            min_stratum,
            ..SourceOptions::default()
        };
        let sample = Client::new(&options).sample(&mut Server::new());
        assert_eq!(sample.expect("a sample").stratum, stratum, "{options:?}");
    }
}
