use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// Enough for all that is carried here.
const RECEIVE_BUFFER: usize = 6 << 20;

/// A connection on this machine: where it was made from, and where it was accepted.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn side(stream: TcpStream) -> Side {
    stream.set_nonblocking(true).unwrap();
    Side::new(stream.into(), Readiness::WRITABLE)
}

/// A flow between two sides, and who is beyond them.
struct Line {
    sender: TcpStream,
    source: Side,
    flow: Flow,
    destination: Side,
    reader: TcpStream,
    tools: Tools,
}

impl Line {
    fn new() -> Self {
        let (sender, source) = connection();
        let (destination, reader) = connection();
        Self {
            sender,
            source: side(source),
            flow: Flow::default(),
            destination: side(destination),
            reader,
            tools: Tools::new(RECEIVE_BUFFER),
        }
    }

    /// Sends as much as fills the scratch buffer, and waits until all of it has come through.
    fn carry(&mut self) {
        let bytes = vec![7; SCRATCH];
        let before = self.flow.moved;
        self.sender.write_all(&bytes).unwrap();
        while self.flow.moved < before + SCRATCH as u64 {
            self.source.signs.set(Readiness::READABLE);
            self.destination.signs.set(Readiness::WRITABLE);
            let (source, destination) = (&mut self.source, &mut self.destination);
            self.flow
                .pump(source, destination, End::Open, &mut self.tools);
        }
        let mut arrived = vec![0; SCRATCH];
        self.reader.read_exact(&mut arrived).unwrap();
        assert!(arrived == bytes);
    }

    /// How much is carried until the flow is gathered.
    fn carry_until_gathered(&mut self) -> u64 {
        let before = self.flow.moved;
        while !self.flow.is_gathering() {
            self.carry();
        }
        self.flow.moved - before
    }

    fn carry_until_spliced(&mut self) {
        while self.flow.mode != Mode::Splice {
            self.carry();
        }
        // One fill of a pipe.
        self.carry();
    }

    fn mark(&self) -> i32 {
        sys::option::low_water_mark(&self.source.socket).unwrap()
    }
}

#[test]
fn a_steady_flow_is_marked_until_it_waits_in_vain() {
    let mut line = Line::new();
    line.carry();
    assert_eq!(line.mark(), 1);
    let first = line.carry_until_gathered();
    assert!(first >= 16 << 20, "{first}");
    assert_eq!(line.mark(), MARK);
    line.source.signs.clear(Readiness::READABLE);
    line.flow.wait_no_longer(&mut line.source);
    assert_eq!(line.mark(), 1);
    assert!(line.source.signs.has(Readiness::READABLE));
    let second = line.carry_until_gathered();
    assert!(second >= 32 << 20, "{second}");
    assert_eq!(line.mark(), MARK);
}

#[test]
fn whoever_takes_a_flow_over_finds_no_mark() {
    let mut line = Line::new();
    line.carry_until_gathered();
    assert_eq!(line.mark(), MARK);
    line.flow.leave(Some(&line.source), &mut line.tools.pipes);
    assert_eq!(line.mark(), 1);
    assert!(!line.flow.is_gathering());
}

#[test]
fn a_flow_that_turns_to_small_rounds_is_marked_no_more() {
    let mut line = Line::new();
    line.carry_until_gathered();
    for _ in 0..PROOF {
        line.sender.write_all(b"a few octets").unwrap();
        let before = line.flow.moved;
        while line.flow.moved == before {
            line.source.signs.set(Readiness::READABLE);
            let (source, destination) = (&mut line.source, &mut line.destination);
            line.flow
                .pump(source, destination, End::Open, &mut line.tools);
        }
    }
    assert_eq!(line.mark(), 1);
    assert!(!line.flow.is_gathering());
}

/// Fills a pipe towards a reader that takes nothing: what was sent in all, and the line.
fn blocked() -> (Vec<u8>, Line) {
    let mut line = Line::new();
    line.carry_until_spliced();
    line.sender.set_nonblocking(true).unwrap();
    let mut sent = Vec::new();
    let bytes: Vec<u8> = (0..1 << 16).map(|at: u32| (at * 7 % 251) as u8).collect();
    while line.flow.fill().is_none() {
        if let Ok(length) = line.sender.write(&bytes) {
            sent.extend_from_slice(&bytes[..length]);
        }
        line.source.signs.set(Readiness::READABLE);
        let (source, destination) = (&mut line.source, &mut line.destination);
        line.flow
            .pump(source, destination, End::Open, &mut line.tools);
    }
    (sent, line)
}

#[test]
fn a_slow_reader_gives_its_pipe_back_and_loses_nothing() {
    let (sent, mut line) = blocked();
    assert_eq!(line.tools.pipes.n_taken(), 1);
    line.flow.unload(&line.source, &mut line.tools.pipes);
    assert_eq!(line.tools.pipes.n_taken(), 0);
    assert!(line.flow.fill().is_none() && !line.flow.is_empty());
    // As much as a reader that is copied for leaves behind, and some.
    assert!(
        line.flow.held().len() <= 2 * SCRATCH,
        "{}",
        line.flow.held().len()
    );
    line.reader.set_nonblocking(true).unwrap();
    let mut received = vec![0; sent.len()];
    let mut length = 0;
    while length < received.len() {
        if let Ok(read) = line.reader.read(&mut received[length..]) {
            length += read;
        }
        line.source.signs.set(Readiness::READABLE);
        line.destination.signs.set(Readiness::WRITABLE);
        let (source, destination) = (&mut line.source, &mut line.destination);
        line.flow
            .pump(source, destination, End::Open, &mut line.tools);
    }
    assert!(received == sent);
}

#[test]
fn the_receive_buffer_of_a_bulk_flow_is_bounded() {
    let mut line = Line::new();
    let size = |line: &Line| rustix::net::sockopt::socket_recv_buffer_size(&line.source.socket);
    rustix::net::sockopt::set_socket_recv_buffer_size(&line.source.socket, 1 << 20).unwrap();
    line.tools = Tools::new(256 << 10);
    let before = size(&line).unwrap();
    assert!(before > 256 << 10, "{before}");
    line.carry();
    assert_eq!(size(&line).unwrap(), before, "it is not known to be bulk");
    line.carry_until_spliced();
    assert_eq!(size(&line).unwrap(), 256 << 10);
    line.carry_until_gathered();
    assert_eq!(size(&line).unwrap(), 256 << 10);
}

#[test]
fn a_round_is_little_more_than_there_is_room_for() {
    assert_eq!(round(0), SCRATCH);
    assert_eq!(round(100 << 10), (100 << 10) + SCRATCH);
    assert_eq!(round(usize::MAX), ROUND);
}
