//! How sessions end, and what must not get lost when they do.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::rig::{Rig, accept, is_reset, pattern, read_exact, read_to_end, reset, server, until};

#[test]
fn half_close_is_kept_both_ways() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).with_log().start();
    let mut client = rig.connect();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut far = accept(&listener);
    assert_eq!(read_to_end(&mut far).unwrap(), b"question");
    // The other direction is open as long as the server likes.
    std::thread::sleep(Duration::from_millis(50));
    far.write_all(b"answer").unwrap();
    assert_eq!(read_exact(&mut client, 6), b"answer");
    far.write_all(b", the rest").unwrap();
    drop(far);
    assert_eq!(read_to_end(&mut client).unwrap(), b", the rest");
    rig.until_sessions(0);

    let mut client = rig.connect();
    let mut far = accept(&listener);
    far.write_all(b"greeting").unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client).unwrap(), b"greeting");
    client.write_all(b"thanks").unwrap();
    assert_eq!(read_exact(&mut far, 6), b"thanks");
    drop(client);
    assert!(read_to_end(&mut far).unwrap().is_empty());
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["--", "--"]);
}

/// The last bytes and the end share a segment. Where the end is late, the kernel keeps such bytes for a
/// fifth of a second.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test measures time")]
fn the_last_bytes_of_a_server_are_not_late() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let took = (0..20).map(|_| {
        let mut client = rig.connect();
        let mut far = accept(&listener);
        client.write_all(b"question").unwrap();
        assert_eq!(read_exact(&mut far, 8), b"question");
        let began = Instant::now();
        far.write_all(b"answer").unwrap();
        drop(far);
        assert_eq!(read_to_end(&mut client).unwrap(), b"answer");
        began.elapsed()
    });
    let took: Vec<Duration> = took.collect();
    // The machine may be busy now and then, not always.
    let fast = took
        .iter()
        .filter(|took| **took < Duration::from_millis(150));
    assert!(fast.count() >= 10, "{took:?}");
}

#[test]
fn a_reset_is_forwarded_as_a_reset_both_ways() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).with_log().start();
    let client = rig.connect();
    let mut far = accept(&listener);
    reset(client);
    assert!(is_reset(&read_to_end(&mut far)));
    rig.until_sessions(0);

    let mut client = rig.connect();
    let far = accept(&listener);
    reset(far);
    assert!(is_reset(&read_to_end(&mut client)));
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["CD", "SD"]);
}

#[test]
fn a_reset_travels_behind_the_bytes_before_it() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    // The answer comes while the request is still on its way, and the server closes on it: its kernel
    // sends a reset after the answer.
    client.write_all(&[1; 1000]).unwrap();
    until("request", || far.peek(&mut [0; 1000]).unwrap_or(0) == 1000);
    let answer = pattern(100_000, 1);
    far.write_all(&answer).unwrap();
    drop(far);
    assert_eq!(read_exact(&mut client, answer.len()), answer);
    let end = read_to_end(&mut client);
    assert!(is_reset(&end), "{end:?}");
    rig.until_sessions(0);
}

#[test]
fn a_reset_after_the_end_of_one_side_is_forwarded() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let client = rig.connect();
    let mut far = accept(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    reset(client);
    // Nothing is read from that client any more; the server still learns of it.
    until("reset", || {
        far.write_all(b"anybody?").is_err() || matches!(far.take_error(), Ok(Some(_)))
    });
    rig.until_sessions(0);
}

#[test]
fn an_end_behind_a_blocked_writer_is_not_lost() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let far = accept(&listener);
    let sent = pattern(6 << 20, 2);
    let copy = sent.clone();
    let writer = std::thread::spawn(move || {
        let mut far = far;
        far.write_all(&copy).unwrap();
        // The end arrives while the proxy cannot write: it is told once, and must be kept.
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut received = read_exact(&mut client, sent.len() / 2);
    writer.join().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    received.extend(read_to_end(&mut client).unwrap());
    assert!(received == sent);
    drop(client);
    rig.until_sessions(0);
}

#[test]
fn a_slow_reader_slows_the_sender_and_costs_no_memory() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let client = rig.connect();
    let mut far = accept(&listener);
    far.set_nonblocking(true).unwrap();
    let chunk = vec![7; 1 << 16];
    let mut taken = 0;
    let mut quiet = 0;
    while quiet < 50 {
        match far.write(&chunk) {
            Ok(length) => {
                taken += length;
                quiet = 0;
            }
            Err(_) => {
                quiet += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // Four socket buffers, at most 6 MiB each, and one pipe of our own.
        assert!(taken < 40 << 20, "{taken}");
    }
    let mut client = client;
    let mut left = taken;
    let mut sink = vec![0; 1 << 16];
    while left > 0 {
        left -= client.read(&mut sink).unwrap();
    }
    reset(client);
    rig.until_sessions(0);
}

#[test]
fn an_early_end_of_an_empty_session_is_forwarded() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).with_log().start();
    let client = rig.connect();
    drop(client);
    let mut far = accept(&listener);
    assert!(read_to_end(&mut far).unwrap().is_empty());
    drop(far);
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["--"]);
}

#[test]
fn urgent_data_does_not_stop_what_follows() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let client = rig.connect();
    let mut far = accept(&listener);
    let socket = socket2::SockRef::from(&client);
    for _ in 0..20 {
        socket.send(b"abc").unwrap();
        socket.send_out_of_band(b"!").unwrap();
        socket.send(b"def").unwrap();
    }
    client.shutdown(Shutdown::Write).unwrap();
    let received = read_to_end(&mut far).unwrap();
    let letters: Vec<u8> = received.into_iter().filter(|l| *l != b'!').collect();
    assert_eq!(letters, b"abcdef".repeat(20));
}

#[test]
fn quiet_sessions_end_when_and_only_when_there_is_a_timeout() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.policy.idle_timeout = Some(Duration::from_secs(1));
    let rig = rig.start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(300));
        client.write_all(b"x").unwrap();
        assert_eq!(read_exact(&mut far, 1), b"x");
    }
    assert!(read_to_end(&mut client).unwrap().is_empty());
    assert!(read_to_end(&mut far).unwrap().is_empty());
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["cD"]);
}

#[test]
fn a_side_that_does_not_close_after_the_other_is_not_waited_for() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.policy.server_fin = Some(Duration::from_millis(60));
    rig.policy.client_fin = Some(Duration::from_millis(60));
    let rig = rig.start();
    let client = rig.connect();
    let mut far = accept(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    rig.until_sessions(0);
    let mut client = rig.connect();
    let far = accept(&listener);
    far.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["sD", "cL"]);
}
