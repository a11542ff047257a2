//! Clients that take places at listeners and ask nothing.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::netns::Machine;

/// The time for one connection.
const LIMIT: Duration = Duration::from_secs(2);

/// The pause before connections that have ended are opened again.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections from a machine, opened again as they end, until this is dropped.
#[derive(Debug)]
pub struct Strangers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Strangers {
    /// Opens this many connections to each address, and returns when each of them has been open once.
    #[must_use]
    pub fn on(machine: &Machine, addresses: &[SocketAddr], each: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let wanted: Vec<SocketAddr> = addresses
            .iter()
            .flat_map(|address| std::iter::repeat_n(*address, each))
            .collect();
        let stopped = Arc::clone(&stop);
        let thread = machine.inside(move || {
            let mut open: Vec<Option<TcpStream>> = wanted.iter().map(|to| connect(*to)).collect();
            std::thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    for (to, stream) in wanted.iter().zip(&mut open) {
                        if stream.as_ref().is_none_or(has_ended) {
                            *stream = connect(*to);
                        }
                    }
                    std::thread::sleep(PAUSE);
                }
            })
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

fn connect(to: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, LIMIT).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

fn has_ended(stream: &TcpStream) -> bool {
    let peeked = stream.peek(&mut [0]);
    !peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there is one of the test already.
            drop(thread.join());
        }
    }
}
