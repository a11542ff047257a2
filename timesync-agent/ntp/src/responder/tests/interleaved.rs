//! Interleaved mode from the side of a client (RFC 9769 §2).

use super::*;

/// What a client asks with that has had `answer`, which it received at `received`.
fn next(answer: &Packet, number: u64) -> Packet {
    Packet {
        origin: answer.receive,
        receive: NtpTimestamp(0xee00_0000_0000_0000 | number),
        transmit: NtpTimestamp(0x0dd0_0000_0000_0000 | number),
        ..request()
    }
}

impl Desk {
    fn exchange(&mut self, packet: &Packet) -> Packet {
        self.now = self.now + Span(SECOND);
        packet_of(&self.ask(&packet.encode(), CLIENT).unwrap())
    }
}

fn is_near(stamp: NtpTimestamp, time: UnixTime) -> bool {
    (stamp.near(time) - time).0.abs() <= 31
}

#[test]
fn the_kernels_stamp_comes_with_the_next_answer() {
    let mut desk = Desk::new(&settings());
    let first = desk.exchange(&request());
    assert_eq!(desk.receipt, None, "nobody has asked for it yet");
    let second = desk.exchange(&next(&first, 1));
    assert_eq!(second.origin, next(&first, 1).transmit, "basic");
    let left = desk.now + Span(77_000);
    let receipt = desk.receipt.unwrap();
    desk.tables.transmitted(receipt, left, StampSource::Kernel);

    let asked = next(&second, 2);
    let third = desk.exchange(&asked);
    assert_eq!(third.origin, asked.receive, "interleaved");
    assert!(is_near(third.transmit, left), "of the answer before");
    assert!(is_near(third.receive, desk.now), "of this request");
    assert_eq!(desk.count(Counter::TransmittedKernel), 1);
    // No better stamp has come for the third: the process's own.
    let left = desk.now + WORK;
    let fourth = desk.exchange(&next(&third, 3));
    assert!(is_near(fourth.transmit, left));
    assert_eq!(desk.count(Counter::Interleaved), 2);
    assert_eq!(desk.tables.statistics().stamps_held, 1);
}

#[test]
fn a_lost_answer_leads_back_to_basic_mode() {
    let mut desk = Desk::new(&settings());
    let first = desk.exchange(&request());
    let second = desk.exchange(&next(&first, 1));
    let asked = next(&second, 2);
    let lost = desk.exchange(&asked);
    assert_eq!(lost.origin, asked.receive);
    // The client asks again from what it has: that was told already.
    let again = Packet {
        transmit: NtpTimestamp(3),
        ..asked
    };
    let answer = desk.exchange(&again);
    assert_eq!(answer.origin, again.transmit, "basic");
    assert!(is_near(answer.transmit, desk.now + WORK));
    let asked = next(&answer, 4);
    assert_eq!(desk.exchange(&asked).origin, asked.receive, "and on");
}

#[test]
fn others_do_not_get_what_was_kept_for_one() {
    let mut desk = Desk::new(&settings());
    let first = desk.exchange(&request());
    let second = desk.exchange(&next(&first, 1));
    let stolen = next(&second, 2);
    let thief = SocketAddr::new("192.0.2.99".parse().unwrap(), 1);
    let answer = packet_of(&desk.ask(&stolen.encode(), thief).unwrap());
    assert_eq!(answer.origin, stolen.transmit, "basic");
    // From another port of the same client it is kept.
    let port = SocketAddr::new(CLIENT.ip(), 1);
    let asked = next(&second, 3);
    let answer = packet_of(&desk.ask(&asked.encode(), port).unwrap());
    assert_eq!(answer.origin, asked.receive);
}

#[test]
fn nothing_is_kept_where_it_must_not_be() {
    // RFC 9769 §2: a request whose receive and transmit timestamps are the same is a basic one.
    let mut desk = Desk::new(&settings());
    let first = desk.exchange(&request());
    let second = desk.exchange(&next(&first, 1));
    let mut same = next(&second, 2);
    same.receive = same.transmit;
    assert!(is_near(desk.exchange(&same).transmit, desk.now + WORK));

    desk = Desk::new(&settings());
    let first = desk.exchange(&request());
    desk.exchange(&next(&first, 1));
    desk.tables.forget_stamps();
    assert_eq!(
        desk.tables.statistics().stamps_held,
        0,
        "the clock was stepped"
    );

    let unlogged = ServerSettings {
        no_client_log: true,
        ..settings()
    };
    desk = Desk::new(&unlogged);
    let first = desk.exchange(&request());
    let second = desk.exchange(&next(&first, 1));
    let asked = next(&second, 2);
    assert_eq!(desk.exchange(&asked).origin, asked.transmit);
    assert_eq!(desk.tables.statistics().stamps_held, 0);
}

#[test]
fn a_peer_gets_no_interleaved_answer() {
    let mut desk = Desk::new(&settings());
    let peer = |packet: Packet| Packet {
        mode: Mode::SymmetricActive,
        ..packet
    };
    let mut answer = desk.exchange(&peer(request()));
    for number in 1..4 {
        let asked = peer(next(&answer, number));
        answer = desk.exchange(&asked);
        assert_eq!(answer.mode, Mode::SymmetricPassive);
        assert_eq!(answer.origin, asked.transmit, "basic");
        assert!(desk.receipt.is_none());
    }
    assert_eq!(desk.count(Counter::Interleaved), 0);
}
