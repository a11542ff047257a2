//! Real threads: everybody who waits is served.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Condvar;

use crate::pool::{Hint, mix};

use super::*;

const N_WORKERS: u64 = 4;

/// Connections of each worker.
const N_CONNECTIONS: u64 = 2500;

/// Connections of one worker at a time, waiting or served.
const AT_ONCE: usize = 8;

/// Longer than any thread is kept from running: by then a call was lost.
const LOST: Duration = Duration::from_secs(20);

/// A mailbox to sleep at.
#[derive(Debug, Default)]
struct Bed {
    tokens: Mutex<VecDeque<u64>>,
    rung: Condvar,
}

impl Wake for Bed {
    fn wake(&self, token: u64) {
        self.tokens.lock().push_back(token);
        self.rung.notify_one();
    }
}

impl Bed {
    fn sleep(&self, queue: &Queue) -> u64 {
        let mut tokens = self.tokens.lock();
        let rung = &self.rung;
        let outcome = rung.wait_while_for(&mut tokens, |tokens| tokens.is_empty(), LOST);
        assert!(!outcome.timed_out(), "a call was lost: {queue:?}");
        tokens.pop_front().unwrap()
    }

    fn next(&self) -> Option<u64> {
        self.tokens.lock().pop_front()
    }
}

struct Worker<'a> {
    pool: &'a Pool,
    /// Sessions of each server, counted by the workers themselves.
    open: &'a [AtomicU32],
    bed: Arc<Bed>,
    wake: Arc<dyn Wake>,
    now: Instant,
    random: u64,
    token: u64,
    tickets: HashMap<u64, Ticket>,
    served: Vec<(usize, Slot)>,
}

impl Worker<'_> {
    fn hint(&mut self) -> Hint {
        self.random = mix(self.random);
        Hint {
            source: std::net::Ipv4Addr::LOCALHOST.into(),
            random: self.random,
        }
    }

    fn serve(&mut self, index: usize, slot: Slot) {
        let limit = self.pool.servers[index].max_connections.unwrap();
        assert!(self.open[index].fetch_add(1, Ordering::SeqCst) < limit);
        self.served.push((index, slot));
    }

    fn arrive(&mut self) {
        let hint = self.hint();
        let tried = Tried::default();
        match self.pool.choose(&hint, &tried, self.now) {
            Choice::Take { index, slot } => return self.serve(index, slot),
            Choice::Nobody => panic!("there are servers"),
            Choice::Full => self.token += 1,
        }
        let wait = self
            .pool
            .wait(&self.wake, self.token, &hint, &tried, self.now);
        match wait {
            Wait::Take { index, slot } => self.serve(index, slot),
            Wait::Waiting(ticket) => {
                self.tickets.insert(self.token, ticket);
            }
            other => panic!("{other:?}"),
        }
    }

    fn end_one(&mut self) {
        if self.served.is_empty() {
            return;
        }
        let at = (self.random >> 8) as usize % self.served.len();
        let (index, slot) = self.served.swap_remove(at);
        self.open[index].fetch_sub(1, Ordering::SeqCst);
        drop(slot);
    }

    fn called(&mut self, token: u64) {
        let hint = self.hint();
        let Some(mut ticket) = self.tickets.remove(&token) else {
            return;
        };
        if self.random & 0xf00 == 0 {
            // It gives up at the very moment it is called.
            drop(ticket);
            return;
        }
        let tried = Tried::default();
        match self.pool.retry(&mut ticket, &hint, &tried, self.now) {
            Choice::Take { index, slot } => self.serve(index, slot),
            Choice::Full => {
                self.tickets.insert(token, ticket);
            }
            Choice::Nobody => panic!("there are servers"),
        }
    }

    fn run(&mut self) {
        let mut n_arrived = 0;
        while n_arrived < N_CONNECTIONS || !self.tickets.is_empty() {
            while let Some(token) = self.bed.next() {
                self.called(token);
            }
            if n_arrived < N_CONNECTIONS && self.tickets.len() + self.served.len() < AT_ONCE {
                self.arrive();
                n_arrived += 1;
            } else if !self.served.is_empty() {
                self.end_one();
            } else if !self.tickets.is_empty() {
                let token = self.bed.sleep(&self.pool.queue);
                self.called(token);
            }
        }
        while !self.served.is_empty() {
            self.end_one();
        }
    }
}

fn check(algorithm: Algorithm, servers: &[&str], seed: u64) {
    let mut bench = Bench::new(algorithm, servers);
    let pool = bench.pool();
    let open: Vec<AtomicU32> = servers.iter().map(|_| AtomicU32::new(0)).collect();
    let now = bench.now;
    thread::scope(|scope| {
        for number in 0..N_WORKERS {
            let (pool, open) = (&*pool, &*open);
            scope.spawn(move || {
                let bed = Arc::new(Bed::default());
                let mut worker = Worker {
                    pool,
                    open,
                    wake: Arc::clone(&bed) as Arc<dyn Wake>,
                    bed,
                    now,
                    random: mix((seed << 8) | number),
                    token: 0,
                    tickets: HashMap::new(),
                    served: Vec::new(),
                };
                worker.run();
            });
        }
    });
    assert_eq!(pool.queue.waiting(), 0);
    assert!(!pool.queue.is_calling());
    assert!(pool.queue.total() > N_CONNECTIONS / 10, "nobody waited");
    for server in &pool.servers {
        assert_eq!(server.load.sessions(), 0);
        assert!(server.load.most_sessions() <= server.max_connections.unwrap());
    }
}

#[test]
fn no_call_is_lost() {
    for seed in 0..3 {
        check(Algorithm::LeastConnections, &["a max=1"], seed);
        check(Algorithm::RoundRobin, &["a max=1", "b max=2"], seed);
        check(
            Algorithm::RandomOfTwo,
            &["a max=2", "b max=2", "c max=1"],
            seed,
        );
        check(Algorithm::Source, &["a max=3", "b max=1"], seed);
    }
}
