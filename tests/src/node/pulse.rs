//! A paced load of exchanges, each begun when it is due, whether or not the one before has ended.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An exchange continues until it is stopped.
#[derive(Debug)]
pub struct Pulse {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    tally: Arc<Mutex<Tally>>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub tried: u64,
    /// The failures, each kind with its number and when the first was begun, from the start.
    pub failed: BTreeMap<String, (u64, Duration)>,
    /// The longest time that one took.
    pub slowest: Duration,
}

impl Tally {
    /// Exchanges that failed.
    #[must_use]
    pub fn n_failed(&self) -> u64 {
        self.failed.values().map(|(number, _)| number).sum()
    }
}

impl Pulse {
    /// Begins `rate` exchanges in a second, from the caller's network namespace.
    #[must_use]
    pub fn start<F>(rate: u32, exchange: F) -> Self
    where
        F: Fn() -> io::Result<()> + Send + Sync + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&tally));
        let exchange = Arc::new(exchange);
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut due = start;
            let mut running: Vec<JoinHandle<()>> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let (exchange, counted) = (Arc::clone(&exchange), Arc::clone(&counted));
                running.retain(|thread| !thread.is_finished());
                running.push(std::thread::spawn(move || {
                    one(&*exchange, start, &counted);
                }));
                due += Duration::from_secs(1) / rate;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            for thread in running {
                thread.join().expect("exchanges do not panic");
            }
        });
        Self {
            stop,
            thread,
            tally,
        }
    }

    /// Stops, waits for the last ones, and says what came of all.
    ///
    /// # Panics
    ///
    /// Panics if an exchange did.
    #[must_use]
    pub fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("exchanges do not panic");
        let tally = self.tally.lock();
        tally.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn one(exchange: &dyn Fn() -> io::Result<()>, start: Instant, tally: &Mutex<Tally>) {
    let begun = Instant::now();
    let result = exchange();
    let took = begun.elapsed();
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.tried += 1;
    tally.slowest = tally.slowest.max(took);
    if let Err(error) = result {
        let first = begun.duration_since(start);
        tally
            .failed
            .entry(error.to_string())
            .or_insert((0, first))
            .0 += 1;
    }
}
