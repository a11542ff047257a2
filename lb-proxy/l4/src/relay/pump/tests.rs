use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

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
            tools: Tools::new(),
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
