//! Asks an NTP server as fast as it answers, for benchmarks: `ntp_load ADDRESS SECONDS [SOCKETS [WINDOW]]`.
//!
//! Each socket has a window of requests on the way; an answer makes room for the next. Requests and answers go in batches, so that
//! one core asks more than one core answers. What is printed is one line of JSON.

mod batch;

use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use batch::Batch;

/// Nothing for this long, and what is on the way is given up.
const PATIENCE: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    answered: u64,
    lost: u64,
    wrong: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        words
            .get(index)
            .map_or(Some(default), |word| word.parse().ok())
    };
    let address = words.first().and_then(|word| word.parse().ok());
    let (Some(address), Some(seconds), Some(sockets), Some(window)) =
        (address, number(1, 1), number(2, 16), number(3, 16))
    else {
        return ExitCode::from(64);
    };
    let (Ok(seconds), Ok(sockets)) = (u64::try_from(seconds), connect(address, sockets)) else {
        return ExitCode::FAILURE;
    };
    let (count, elapsed) = run(&sockets, window, Duration::from_secs(seconds));
    let line = format!(
        "{{\"answered\": {}, \"lost\": {}, \"wrong\": {}, \"seconds\": {:.6}}}\n",
        count.answered,
        count.lost,
        count.wrong,
        elapsed.as_secs_f64()
    );
    match std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn connect(address: SocketAddr, count: usize) -> std::io::Result<Vec<UdpSocket>> {
    let any: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    (0..count)
        .map(|_| {
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            Ok(socket)
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn run(sockets: &[UdpSocket], window: usize, time: Duration) -> (Count, Duration) {
    let mut batch = Batch::new();
    let mut count = Count::default();
    let mut pending = vec![0_usize; sockets.len()];
    let start = Instant::now();
    let mut last = start;
    while start.elapsed() < time {
        let mut came = 0;
        for (socket, pending) in sockets.iter().zip(&mut pending) {
            let (answers, wrong) = batch.receive(socket);
            came += answers;
            count.answered += u64::try_from(answers - wrong).unwrap_or_default();
            count.wrong += u64::try_from(wrong).unwrap_or_default();
            *pending = pending.saturating_sub(answers);
            *pending += batch.send(socket, window.saturating_sub(*pending));
        }
        if came > 0 {
            last = Instant::now();
        } else if last.elapsed() > PATIENCE {
            let lost: usize = pending.iter().sum();
            count.lost += u64::try_from(lost).unwrap_or_default();
            pending.fill(0);
            last = Instant::now();
        }
    }
    (count, start.elapsed())
}
