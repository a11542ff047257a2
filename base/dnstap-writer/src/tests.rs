use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use dnstap::frames::Control;
use dnstap::{Kind, Transport};

use super::*;

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

fn event(message: &[u8]) -> Event<'_> {
    Event {
        kind: Kind::ClientQuery,
        transport: Transport::Udp,
        querier: None,
        responder: None,
        asked: Duration::from_secs(1),
        answered: Duration::from_secs(1),
        message,
    }
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frames::append_data(&event(message).encode(&Server::default()), &mut frame);
    frame
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

fn writer(destination: Destination) -> Writer {
    Writer::start(destination, Server::default()).unwrap()
}

/// Takes one connection up to its START.
fn accept(listener: &UnixListener) -> UnixStream {
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    expect(&mut socket, &Control::Ready.frame());
    socket.write_all(&Control::Accept.frame()).unwrap();
    expect(&mut socket, &Control::Start.frame());
    socket
}

fn expect(socket: &mut UnixStream, octets: &[u8]) {
    let mut read = vec![0; octets.len()];
    socket.read_exact(&mut read).unwrap();
    assert_eq!(read, octets);
}

#[test]
fn a_reader_gets_what_was_sent_before_and_after_it_came_and_the_end() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tap.sock");
    let writer = writer(Destination::Socket(path.clone()));
    writer.send(&event(b"before"));
    let listener = UnixListener::bind(&path).unwrap();
    let mut socket = accept(&listener);
    expect(&mut socket, &frame(b"before"));
    writer.send(&event(b"after"));
    expect(&mut socket, &frame(b"after"));
    let counts = writer.counts();
    wait_for("both are counted", || counts.written() == 2);
    assert!(counts.is_open());
    let reader = thread::spawn(move || {
        expect(&mut socket, &frame(b"last"));
        expect(&mut socket, &Control::Stop.frame());
        socket.write_all(&Control::Finish.frame()).unwrap();
    });
    writer.send(&event(b"last"));
    drop(writer);
    reader.join().unwrap();
    assert_eq!((counts.written(), counts.dropped()), (3, 0));
    assert!(!counts.is_open());
}

#[test]
fn a_reader_that_goes_is_replaced_by_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tap.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let writer = writer(Destination::Socket(path));
    drop(accept(&listener));
    let counts = writer.counts();
    // The loss is seen at a write.
    wait_for("the stream ends", || {
        writer.send(&event(b"lost"));
        thread::sleep(Duration::from_millis(20));
        !counts.is_open()
    });
    assert!(counts.dropped() > 0);
    let mut socket = accept(&listener);
    writer.send(&event(b"new"));
    let mut seen = Vec::new();
    let wanted = frame(b"new");
    wait_for("the next one reads", || {
        let mut part = [0; 512];
        let n = socket.read(&mut part).unwrap();
        seen.extend_from_slice(&part[..n]);
        seen.ends_with(&wanted)
    });
}

#[test]
fn a_sender_never_waits_and_what_has_no_room_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let writer = writer(Destination::Socket(place.path().join("none.sock")));
    let large = vec![0; 1 << 20];
    for _ in 0..20 {
        writer.send(&event(&large));
    }
    let counts = writer.counts();
    assert_eq!(counts.dropped(), 13);
    drop(writer);
    assert_eq!((counts.written(), counts.dropped()), (0, 20));
}

#[test]
fn a_stranger_at_the_socket_is_left_and_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tap.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let writer = writer(Destination::Socket(path));
    let (mut stranger, _) = listener.accept().unwrap();
    stranger.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    let _socket = accept(&listener);
    wait_for("it is open", || writer.counts().is_open());
}

fn contents(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}

#[test]
fn a_file_begins_and_ends_and_a_full_one_is_moved_aside() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tap");
    let old = place.path().join("tap.1");
    fs::write(&path, "an older one").unwrap();
    let destination = || Destination::File {
        path: path.clone(),
        max_size: 200,
    };
    let first = writer(destination());
    wait_for("it is open", || first.counts().is_open());
    assert_eq!(contents(&old), b"an older one");
    for (n, message) in (1..).zip([[b'a'; 90], [b'b'; 90]]) {
        first.send(&event(&message));
        wait_for("it is written", || first.counts().written() == n);
    }
    let whole = |message: &[u8]| {
        let (start, stop) = (Control::Start.frame(), Control::Stop.frame());
        [start, frame(message), stop].concat()
    };
    assert_eq!(contents(&old), whole(&[b'a'; 90]));
    drop(first);
    assert_eq!(contents(&path), whole(&[b'b'; 90]));
}

#[test]
fn a_file_that_cannot_be_made_is_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("later");
    let writer = writer(Destination::File {
        path: directory.join("tap"),
        max_size: 1 << 20,
    });
    writer.send(&event(b"x"));
    thread::sleep(Duration::from_millis(50));
    assert!(!writer.counts().is_open());
    fs::create_dir(&directory).unwrap();
    wait_for("it is written", || writer.counts().written() == 1);
}
