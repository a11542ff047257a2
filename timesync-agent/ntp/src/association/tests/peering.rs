//! Symmetric mode: what a packet of the peer, or of someone else, may bring about.

use super::*;
use time_model::settings::SourceOptions;

/// What the peer's clock shows beside the own one.
const AHEAD: i64 = 250 * MS;

fn peer(options: &SourceOptions) -> Client {
    let address = "192.0.2.1".parse().unwrap();
    Client {
        association: Association::peer(address, options, Random::new([1; 16]), RawTime(RAW)),
        ..Client::new(options)
    }
}

fn stratum(stratum: u8) -> Reference {
    Reference {
        leap: Leap::Normal,
        stratum,
        reference_id: 0x4750_5300,
        ..Reference::default()
    }
}

fn parsed(octets: &[u8]) -> Packet {
    Message::parse(octets).unwrap().packet
}

/// A packet of the peer that repeats this transmit timestamp, received so long before it leaves, and leaves now.
fn packet(client: &Client, origin: NtpTimestamp, held: i64) -> Packet {
    let time = |raw: i64| NtpTimestamp::of(UnixTime(raw - RAW + START + AHEAD));
    Packet {
        mode: Mode::SymmetricActive,
        origin,
        receive: time(client.now.0 - held),
        transmit: time(client.now.0),
        ..Server::new().packet
    }
}

/// One round: the own packet, and 3 ms later one of the peer that repeats it.
fn round(client: &mut Client) -> (Packet, Outcome) {
    let own = parsed(&client.request());
    client.now = client.now + Span(3 * MS);
    let answer = packet(client, own.transmit, MS);
    let outcome = client.receive(&Server::new().seal(&answer));
    (answer, outcome)
}

#[test]
fn each_packet_repeats_the_last_one_of_the_peer() {
    let mut client = peer(&SourceOptions::default());
    client.told = Some(stratum(3));
    let first = parsed(&client.request());
    assert_eq!((first.mode, first.stratum), (Mode::SymmetricActive, 3));
    assert_eq!(
        (first.origin, first.receive),
        (NtpTimestamp::ZERO, NtpTimestamp::ZERO)
    );
    assert!(
        first.transmit.near(UnixTime(START)) - UnixTime(START) < Span(MS),
        "the time"
    );
    client.now = client.now + Span(3 * MS);
    let (arrived, answer) = (client.now, packet(&client, first.transmit, MS));
    let Outcome::Answered(Some(sample)) = client.receive(&Server::new().seal(&answer)) else {
        panic!("no sample");
    };
    assert!((sample.delay - 0.002).abs() < 1e-6 && (ahead(&sample) - AHEAD).abs() < 2 * MS);
    client.judge(Verdict::Good, 6);
    let second = parsed(&client.request());
    assert_eq!(second.origin, answer.transmit);
    let received = second.receive.near(UnixTime(START)) - UnixTime(START);
    assert!(
        ((arrived - RawTime(RAW)) - received).0.abs() < MS / 100,
        "{received:?}"
    );
    assert_ne!(second.transmit, first.transmit);
}

#[test]
fn a_packet_that_repeats_nothing_begins_the_exchange_and_is_no_sample() {
    let mut client = peer(&SourceOptions::default());
    client.request();
    let stray = packet(&client, NtpTimestamp(7), MS);
    assert_eq!(
        client.receive(&Server::new().seal(&stray)),
        Outcome::Ignored(Ignored::Bogus)
    );
    // An older one is no better one.
    let older = Packet {
        transmit: NtpTimestamp(stray.transmit.0 - (5 << 32)),
        ..stray
    };
    client.receive(&Server::new().seal(&older));
    assert_eq!(parsed(&client.request()).origin, stray.transmit);
    assert_eq!(client.view().reach, 0);
    let (_, outcome) = round(&mut client);
    assert!(matches!(outcome, Outcome::Answered(Some(_))), "{outcome:?}");
}

#[test]
fn what_was_said_before_is_no_sample_again() {
    let mut client = peer(&SourceOptions::default());
    let mut before = Vec::new();
    for _ in 0..3 {
        let (answer, outcome) = round(&mut client);
        assert!(matches!(outcome, Outcome::Answered(Some(_))), "{outcome:?}");
        client.judge(Verdict::Good, 6);
        before.push(answer);
    }
    let replayed = |client: &mut Client| {
        for answer in &before {
            let outcome = client.receive(&Server::new().seal(answer));
            assert_eq!(outcome, Outcome::Ignored(Ignored::Bogus));
        }
    };
    // After the answer, and after the next own packet: that costs one poll at most.
    replayed(&mut client);
    assert_eq!(
        client.association.peering.unwrap().valid_transmit(),
        before[2].transmit
    );
    let own = parsed(&client.request());
    assert_eq!(own.origin, before[2].transmit);
    replayed(&mut client);
    client.now = client.now + Span(3 * MS);
    let answer = packet(&client, own.transmit, MS);
    let outcome = client.receive(&Server::new().seal(&answer));
    assert!(matches!(outcome, Outcome::Answered(Some(_))), "{outcome:?}");
    // And one answer to each packet is enough.
    let more = Packet {
        transmit: NtpTimestamp(answer.transmit.0 + 1),
        ..answer
    };
    assert_eq!(
        client.receive(&Server::new().seal(&more)),
        Outcome::Ignored(Ignored::Bogus)
    );
}

#[test]
fn an_own_packet_that_comes_back_is_no_answer() {
    let mut client = peer(&SourceOptions::default());
    for _ in 0..4 {
        let own = client.request();
        client.now = client.now + Span(3 * MS);
        assert_eq!(client.receive(&own), Outcome::Ignored(Ignored::Bogus));
    }
    assert_eq!(client.view().reach, 0);
}

#[test]
fn only_who_has_the_key_changes_anything() {
    let options = SourceOptions {
        key: Some(7),
        ..SourceOptions::default()
    };
    let key = || Key::new(Algorithm::Sha256, b"a secret of two nodes").unwrap();
    let mut client = peer(&options);
    client.keys.insert(7, key()).unwrap();
    let mut signed = Server::new();
    signed.key = Some(7);
    signed.keys.insert(7, key()).unwrap();
    let own = parsed(&client.request());
    client.now = client.now + Span(3 * MS);
    for mode in [Mode::SymmetricActive, Mode::SymmetricPassive] {
        let forged = Packet {
            mode,
            ..packet(&client, own.transmit, MS)
        };
        let outcome = client.receive(&Server::new().seal(&forged));
        assert_eq!(outcome, Outcome::Ignored(Ignored::Unauthenticated));
    }
    let next = parsed(&client.request());
    assert_eq!(next.origin, NtpTimestamp::ZERO, "it begins nothing");
    client.now = client.now + Span(3 * MS);
    let answer = packet(&client, next.transmit, MS);
    let outcome = client.receive(&signed.seal(&answer));
    assert!(matches!(outcome, Outcome::Answered(Some(_))), "{outcome:?}");
}

#[test]
fn only_packets_of_symmetric_mode_are_of_a_peer() {
    let mut client = peer(&SourceOptions::default());
    let own = parsed(&client.request());
    client.now = client.now + Span(3 * MS);
    for mode in [Mode::Client, Mode::Server, Mode::Broadcast, Mode::Reserved] {
        let other = Packet {
            mode,
            ..packet(&client, own.transmit, MS)
        };
        let outcome = client.receive(&Server::new().seal(&other));
        assert_eq!(outcome, Outcome::Ignored(Ignored::Malformed), "{mode:?}");
    }
    let passive = Packet {
        mode: Mode::SymmetricPassive,
        ..packet(&client, own.transmit, MS)
    };
    let outcome = client.receive(&Server::new().seal(&passive));
    assert!(matches!(outcome, Outcome::Answered(Some(_))), "{outcome:?}");
    // And a server's are not of one.
    let mut client = Client::new(&SourceOptions::default());
    let own = parsed(&client.request());
    let peers = packet(&client, own.transmit, MS);
    let outcome = client.receive(&Server::new().seal(&peers));
    assert_eq!(outcome, Outcome::Ignored(Ignored::Malformed));
}

#[test]
fn both_sides_poll_at_the_shorter_interval_and_without_bursts() {
    let options = SourceOptions {
        minpoll: 4,
        maxpoll: 10,
        iburst: true,
        burst: true,
        presend: Some(0),
        ..SourceOptions::default()
    };
    // Seconds until the next own packet, after one of a peer that polls at this interval and has this stratum.
    let interval = |poll: i8, theirs: u8| {
        let mut client = peer(&options);
        client.told = Some(stratum(3));
        let own = parsed(&client.request());
        let sent = client.now;
        client.now = client.now + Span(3 * MS);
        let answer = Packet {
            poll,
            stratum: theirs,
            ..packet(&client, own.transmit, MS)
        };
        client.receive(&Server::new().seal(&answer));
        client.judge(Verdict::Good, 8);
        client.association.burst(4, 8, client.now);
        (client.association.poll_timeout().unwrap() - sent).seconds()
    };
    for (poll, theirs, expected) in [
        (8, 2, 256.0),
        (6, 2, 64.0),
        // No shorter than minpoll says.
        (2, 2, 16.0),
        (10, 2, 256.0),
        // The better side waits for the packet of the other one.
        (6, 4, 1.1 * 64.0),
        (6, 3, 64.0),
    ] {
        let seconds = interval(poll, theirs);
        let expected = expected..=1.02 * expected;
        assert!(expected.contains(&seconds), "{poll} {theirs}: {seconds}");
    }
}
