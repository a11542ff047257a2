//! Transfers that are spliced.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::RecvFlags;

use super::rig::{Rig, accept, pattern, read_exact, read_to_end, reset, server, until};

#[test]
fn bulk_is_spliced_and_arrives_whole_both_ways_at_once() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    let (up, down) = (pattern(12 << 20, 3), pattern(12 << 20, 4));
    let writers = [
        (client.try_clone().unwrap(), up.clone()),
        (far.try_clone().unwrap(), down.clone()),
    ]
    .map(|(mut stream, bytes)| {
        std::thread::spawn(move || {
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        })
    });
    let length = up.len();
    let reader = std::thread::spawn(move || {
        let bytes = read_to_end(&mut far).unwrap();
        assert_eq!(bytes.len(), length);
        bytes
    });
    assert!(read_to_end(&mut client).unwrap() == down);
    assert!(reader.join().unwrap() == up);
    for writer in writers {
        writer.join().unwrap();
    }
    rig.until_sessions(0);
    let spliced = rig
        .engine()
        .counters()
        .spliced_bytes
        .load(Ordering::Relaxed);
    assert!(spliced > 1 << 20, "{spliced}");
    let tally = &rig.frontend.tally;
    assert_eq!(tally.bytes_in.load(Ordering::Relaxed), up.len() as u64);
    assert_eq!(tally.bytes_out.load(Ordering::Relaxed), down.len() as u64);
}

#[test]
fn a_pipe_left_full_by_one_session_never_reaches_another() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.options.workers = 1;
    let rig = rig.start();
    for round in 0..20 {
        // One session dies with its pipe full.
        let stuck = rig.connect();
        let mut far = accept(&listener);
        far.set_nonblocking(true).unwrap();
        let junk = vec![0xEE; 1 << 18];
        let mut full = 0;
        while full < 5 {
            if far.write(&junk).is_err() {
                full += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        reset(stuck);
        drop(far);
        // The next one is bulk too, and must get its own bytes alone.
        let mut client = rig.connect();
        let mut far = accept(&listener);
        let bytes = pattern(1 << 20, round);
        let copy = bytes.clone();
        let writer = std::thread::spawn(move || far.write_all(&copy));
        assert!(read_to_end(&mut client).unwrap() == bytes, "round {round}");
        writer.join().unwrap().unwrap();
    }
}

#[test]
fn many_bulk_sessions_share_few_pipes() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.options.workers = 1;
    let rig = rig.start();
    let length = 1 << 20;
    let sessions: Vec<_> = (0..48)
        .map(|_| (rig.connect(), accept(&listener)))
        .collect();
    let threads: Vec<_> = sessions
        .into_iter()
        .enumerate()
        .flat_map(|(number, (mut client, mut far))| {
            let bytes = pattern(length, number as u64);
            let expected = bytes.clone();
            [
                std::thread::spawn(move || far.write_all(&bytes).is_ok()),
                std::thread::spawn(move || read_exact(&mut client, length) == expected),
            ]
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

#[test]
fn clients_that_pause_leave_the_pipes_to_others() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.options.workers = 1;
    let rig = rig.start();
    // More than there are pipes.
    let paused: Vec<_> = (0..40_u64)
        .map(|number| {
            let client = rig.connect();
            let mut far = accept(&listener);
            far.set_nonblocking(true).unwrap();
            let bytes = pattern(1 << 20, number);
            let mut sent = 0;
            let mut full = 0;
            while full < 5 {
                match far.write(&bytes[sent % bytes.len()..]) {
                    Ok(written) => sent += written,
                    Err(_) => {
                        full += 1;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            (client, far, bytes, sent)
        })
        .collect();
    let spliced = || {
        let counters = rig.engine().counters();
        counters.spliced_bytes.load(Ordering::Relaxed)
    };
    let bytes = pattern(8 << 20, 99);
    until("splice", || {
        let mut client = rig.connect();
        let mut far = accept(&listener);
        let before = spliced();
        let copy = bytes.clone();
        let writer = std::thread::spawn(move || far.write_all(&copy));
        assert!(read_to_end(&mut client).unwrap() == bytes);
        writer.join().unwrap().unwrap();
        spliced() - before > bytes.len() as u64 / 2
    });
    // They lose nothing by it.
    for (mut client, far, bytes, sent) in paused {
        drop(far);
        let received = read_to_end(&mut client).unwrap();
        assert_eq!(received.len(), sent);
        assert!(
            received
                .chunks(bytes.len())
                .all(|part| part == &bytes[..part.len()])
        );
    }
}

#[test]
fn small_turns_after_bulk_are_not_delayed() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    let bytes = pattern(4 << 20, 9);
    let copy = bytes.clone();
    let mut writer = far.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&copy).unwrap());
    assert!(read_exact(&mut client, bytes.len()) == bytes);
    thread.join().unwrap();
    for turn in 0..200_u8 {
        far.write_all(&[turn]).unwrap();
        assert_eq!(read_exact(&mut client, 1), [turn]);
        client.write_all(&[turn]).unwrap();
        assert_eq!(read_exact(&mut far, 1), [turn]);
    }
}

/// More than it takes to be found steady.
const LONG: usize = 40 << 20;

#[test]
fn what_stays_below_the_mark_is_not_held_back() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    for round in 0..3_u64 {
        let bytes = pattern(LONG, 7 + round);
        let expected = bytes.clone();
        let mut writer = far.try_clone().unwrap();
        let thread = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
        assert!(read_exact(&mut client, LONG) == expected);
        thread.join().unwrap();
        // Nobody closes and nothing follows: unless it is looked, the kernel never says that these are there.
        far.write_all(b"the last words").unwrap();
        assert_eq!(read_exact(&mut client, 14), *b"the last words");
        client.write_all(b"thanks").unwrap();
        assert_eq!(read_exact(&mut far, 6), *b"thanks");
    }
}

/// Just enough for it.
const STEADY: usize = 18 << 20;

/// So many questions and answers take several times as long as anything may wait below the mark.
const TURNS: u32 = 5_000;

#[test]
fn what_stays_below_the_mark_does_not_wait_until_the_other_way_is_quiet() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    // The mark does not outlive a pause of any of these threads: one of the rounds is without.
    for _ in 0..8 {
        let mut client = rig.connect();
        let mut far = accept(&listener);
        client.set_nodelay(true).unwrap();
        // The worker has a part in each turn: while it does not run, none is counted.
        let turn = |mut client: &TcpStream, mut far: &TcpStream| {
            client.write_all(b"?").unwrap();
            far.read_exact(&mut [0]).unwrap();
        };
        let (mut writer, mut reader) = (far.try_clone().unwrap(), client.try_clone().unwrap());
        let writing = std::thread::spawn(move || writer.write_all(&vec![7; STEADY]).unwrap());
        let reading = std::thread::spawn(move || read_exact(&mut reader, STEADY));
        while !reading.is_finished() {
            turn(&client, &far);
        }
        writing.join().unwrap();
        drop(reading.join().unwrap());
        far.write_all(b"the last words").unwrap();
        let mut turns = 0;
        while rustix::net::recv(&client, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_err() {
            assert!(turns < TURNS, "the last words are held back");
            turns += 1;
            turn(&client, &far);
        }
        assert_eq!(read_exact(&mut client, 14), *b"the last words");
    }
}
