//! How long an address does not answer: an echo request every few milliseconds.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::netns::Machine;

/// Between two requests: the resolution of what is measured.
pub const STEP: Duration = Duration::from_millis(3);

/// How long an answer may take before the address counts as silent all the same.
const LATE: Duration = Duration::from_millis(200);

/// Tells our answers from others'.
const IDENTIFIER: [u8; 2] = *b"ob";

/// Asks until it is stopped.
#[derive(Debug)]
pub struct Gap {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, bool)>>,
    start: Instant,
}

impl Gap {
    /// Begins to ask, from a machine.
    ///
    /// # Panics
    ///
    /// Panics if the machine has no raw sockets.
    #[must_use]
    pub fn start(machine: &Machine, address: IpAddr) -> Self {
        let socket = machine.inside(|| open(address));
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        Self {
            stop,
            start: Instant::now(),
            thread: std::thread::spawn(move || ask(&socket, address, &is_stopped)),
        }
    }

    /// Stops, and says how long the longest silence was: from the last request that was answered, over
    /// those that were not, to the first that was again. Time without a question is none: on a busy
    /// machine this thread does not run either.
    ///
    /// # Panics
    ///
    /// Panics if it could not ask.
    #[must_use]
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let asked = self.thread.join().expect("the thread says why not");
        let mut answered = self.start;
        let mut is_silent = false;
        let mut longest = Duration::ZERO;
        for (at, is_answered) in asked {
            is_silent |= !is_answered;
            if is_silent {
                longest = longest.max(at.saturating_duration_since(answered));
            }
            if is_answered {
                answered = at;
                is_silent = false;
            }
        }
        longest
    }
}

fn open(address: IpAddr) -> Socket {
    let (domain, protocol) = if address.is_ipv6() {
        (Domain::IPV6, Protocol::ICMPV6)
    } else {
        (Domain::IPV4, Protocol::ICMPV4)
    };
    let kind = Type::RAW.nonblocking();
    Socket::new(domain, kind, Some(protocol)).expect("root has raw sockets")
}

/// When each request was sent, and whether it was answered.
fn ask(socket: &Socket, address: IpAddr, stop: &AtomicBool) -> Vec<(Instant, bool)> {
    let to = SocketAddr::new(address, 0).into();
    let mut sent = Vec::new();
    let mut until = None;
    loop {
        if until.is_none() {
            let number = u16::try_from(sent.len()).expect("less than three minutes");
            sent.push((Instant::now(), false));
            // No listener: such gaps are counted.
            drop(socket.send_to(&request(address, number), &to));
        }
        std::thread::sleep(STEP);
        while let Some(number) = answer(socket, address) {
            if let Some((_, is_answered)) = sent.get_mut(usize::from(number)) {
                *is_answered = true;
            }
        }
        if stop.load(Ordering::Relaxed) {
            let until = *until.get_or_insert_with(|| Instant::now() + LATE);
            if Instant::now() >= until {
                return sent;
            }
        }
    }
}

/// An echo request (RFC 792, RFC 4443 §4.1); the kernel sums those of IPv6.
fn request(address: IpAddr, number: u16) -> Vec<u8> {
    let kind = if address.is_ipv6() { 128 } else { 8 };
    let mut octets = vec![kind, 0, 0, 0];
    octets.extend(IDENTIFIER);
    octets.extend(number.to_be_bytes());
    if address.is_ipv4() {
        let words = octets
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16));
        octets[2..4].copy_from_slice(&sum.to_be_bytes()[2..]);
    }
    octets
}

/// The number of a request that was answered.
fn answer(mut socket: &Socket, address: IpAddr) -> Option<u16> {
    let mut buffer = [0; 256];
    loop {
        let length = match socket.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            // The link is down, for example.
            Err(_) => continue,
        };
        let (kind, message) = if address.is_ipv6() {
            (129, &buffer[..length])
        } else {
            (0, &buffer[20..length.max(20)])
        };
        if message.len() >= 8 && message[0] == kind && message[4..6] == IDENTIFIER {
            return Some(u16::from_be_bytes([message[6], message[7]]));
        }
    }
}
