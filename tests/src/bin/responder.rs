//! Accepts and closes TCP connections on the addresses given, until it is killed.
//!
//! Says `ready` on its standard output once it listens on all of them.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

fn main() {
    let listeners: Vec<TcpListener> = std::env::args()
        .skip(1)
        .map(|address| {
            let address: SocketAddr = address.parse().expect("an address and a port");
            TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"))
        })
        .collect();
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready")
        .and_then(|()| stdout.flush())
        .expect("the parent reads");
    let threads = listeners.into_iter().map(|listener| {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("accepting does not panic");
    }
}
