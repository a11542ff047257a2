//! The harness tells the truth: a load that could not see a loss would make every other test green.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tests::dns::{self, A, NOERROR, Question};
use tests::load::{Load, Mix};
use tests::netns::Network;
use tests::scratch::{at, loopback};
use tests::upstream::{Action, Upstream};
use tests::wait;

/// As long as a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn mix() -> Mix {
    Mix {
        questions: vec![Question::new("a.example", A), Question::new("b.example", A)],
        judge: Box::new(|_, message| {
            if message.addresses().contains(&[192, 0, 2, 1].into()) {
                Ok(())
            } else {
                Err("not the address".to_owned())
            }
        }),
    }
}

#[test]
fn a_load_against_a_faultless_server_is_clean() {
    let server = at(loopback(), 5300);
    let _upstream = Upstream::start(server, |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 60, vec![192, 0, 2, 1])]))
    });
    let report = Load::start(server, 200, mix())
        .go_on(Duration::from_secs(1))
        .stop();
    report.assert_clean();
    // As many as were asked for, but for what a loaded machine makes late.
    assert!((50..=250).contains(&report.sent), "{}", report.sent);
    assert_eq!(report.sent, report.answered);
}

#[test]
fn a_load_counts_what_is_lost_and_what_is_wrong() {
    let server = at(loopback(), 5300);
    let mut n = 0;
    let _upstream = Upstream::start(server, move |asked| {
        n += 1;
        match n {
            7 => Action::Silence,
            11 | 12 => Action::Send(asked.answer(NOERROR, &[(A, 60, vec![192, 0, 2, 9])])),
            // Late, but not too late.
            20 => Action::SendLater(
                Duration::from_millis(300),
                asked.answer(NOERROR, &[(A, 60, vec![192, 0, 2, 1])]),
            ),
            _ => Action::Send(asked.answer(NOERROR, &[(A, 60, vec![192, 0, 2, 1])])),
        }
    });
    let report = Load::start(server, 100, mix())
        .go_on(Duration::from_millis(500))
        .stop();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!(report.wrong.values().sum::<u64>(), 2, "{report:?}");
    assert!(report.slowest >= Duration::from_millis(300), "{report:?}");
}

#[test]
fn a_load_notices_a_server_that_is_not_there() {
    let report = Load::start(at(loopback(), 5300), 50, mix())
        .go_on(Duration::from_millis(200))
        .stop();
    assert_eq!(report.lost.len() as u64, report.sent);
    assert!(report.sent > 5);
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_slow_link_holds_back_both_ways_until_it_is_as_before() {
    let mut network = Network::new();
    let near = network.machine("near", "192.168.7.1/24");
    let far = network.machine("far", "192.168.7.2/24");
    let server = far.inside(|| UdpSocket::bind("192.168.7.2:53").expect("the port is free"));
    std::thread::spawn(move || {
        let mut octet = [0];
        while let Ok((_, peer)) = server.recv_from(&mut octet) {
            drop(server.send_to(&octet, peer));
        }
    });
    let client = near.inside(|| UdpSocket::bind("192.168.7.1:0").expect("a port is free"));
    client.connect("192.168.7.2:53").unwrap();
    let patience = Some(Duration::from_secs(1));
    client.set_read_timeout(patience).unwrap();
    // The neighbours are found first.
    let exchange = || {
        let asked = Instant::now();
        client.send(b"?").ok()?;
        client.recv(&mut [0]).ok().map(|_| asked.elapsed())
    };
    wait::until("an answer", PATIENCE, exchange);
    let one_way = Duration::from_millis(100);
    let slow = near.slow_down(one_way);
    let taken = wait::until("a slow answer", PATIENCE, exchange);
    assert!(taken >= 2 * one_way, "{taken:?}");
    drop(slow);
    wait::for_it("it is as before", PATIENCE, || {
        exchange().is_some_and(|taken| taken < 2 * one_way)
    });
}

#[test]
fn the_reader_refuses_what_is_not_a_message() {
    let question = Question::new("www.example", A);
    let query = question.to_wire(7);
    for length in 0..query.len() {
        assert!(dns::Message::read(&query[..length]).is_err(), "{length}");
    }
    assert!(
        dns::Message::read(&[query.clone(), vec![0]].concat()).is_err(),
        "trailing byte"
    );
    // An answer whose owner points at itself.
    let mut wire = query[..query.len() - 11].to_vec();
    wire[2] = 0x84;
    wire[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
    let here = u8::try_from(wire.len()).unwrap();
    wire.extend([0xc0, here, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 1, 2, 3, 4]);
    let start = Instant::now();
    assert!(dns::check(7, &question, &wire).is_err());
    assert!(start.elapsed() < Duration::from_secs(1));
}
