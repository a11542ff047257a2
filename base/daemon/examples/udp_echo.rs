//! A DNS server that answers every query with itself: what the system calls alone cost.
//!
//! `udp_echo engine 127.0.0.1:5301` answers through the engine, `udp_echo bare 127.0.0.1:5301`
//! through the plainest loop there is. Measure both with dnsperf and compare CPU time per query.

use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;

use daemon::errln;
use daemon::udp::{Datagram, Engine, EngineOptions, Outcome, Respond};

/// The bit of the third byte that makes a query a response (RFC 1035 §4.1.1, QR).
const RESPONSE: u8 = 0x80;

struct Echo;

impl Respond for Echo {
    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let payload = datagram.payload();
        let Some(space) = reply.get_mut(..payload.len()) else {
            return Outcome::Silent;
        };
        space.copy_from_slice(payload);
        if let Some(flags) = space.get_mut(2) {
            *flags |= RESPONSE;
        }
        Outcome::Reply(payload.len())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, address) = match arguments.as_slice() {
        [mode, address] => (mode.as_str(), address.parse::<SocketAddr>()),
        _ => return usage(),
    };
    let Ok(address) = address else {
        return usage();
    };
    let served = UdpSocket::bind(address).and_then(|socket| match mode {
        "engine" => serve(socket),
        _ => echo(&socket),
    });
    if let Err(error) = served {
        errln!("{address}: {error}");
    }
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    errln!("usage: udp_echo engine|bare ADDRESS:PORT");
    ExitCode::FAILURE
}

fn serve(socket: UdpSocket) -> std::io::Result<()> {
    let options = EngineOptions {
        name: "echo",
        ..EngineOptions::default()
    };
    let engine = Engine::start(vec![socket], 1, options, |_| Echo)?;
    loop {
        std::thread::park();
        drop(engine.counters());
    }
}

fn echo(socket: &UdpSocket) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer)?;
        let Some(payload) = buffer.get_mut(..length) else {
            continue;
        };
        if let Some(flags) = payload.get_mut(2) {
            *flags |= RESPONSE;
        }
        socket.send_to(payload, peer)?;
    }
}
