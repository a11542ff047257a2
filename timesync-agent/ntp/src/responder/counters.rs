//! The counters of responders; `chronyc serverstats` and the metrics.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Direction, Reason};
use time_model::time::Span;
use time_model::view::StampSource;

/// The counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Requests of clients that are allowed, answered or not.
    Received,
    /// Requests dropped because their client asks too often.
    RateLimited,
    /// Kisses-o'-death sent.
    Kissed,
    /// Requests whose signature was good.
    Authenticated,
    /// Requests answered in interleaved mode.
    Interleaved,
    /// Datagrams that are no packet.
    Malformed,
    /// Packets of senders who are not allowed.
    Denied,
    /// Packets that are no request.
    WrongMode,
    /// Requests whose signature was not good.
    Unauthenticated,
    /// Requests whose answer had no room.
    TooLong,
    /// Requests that the process has stamped.
    ReceivedDaemon,
    /// Requests that the kernel has stamped.
    ReceivedKernel,
    /// Requests that the network card has stamped.
    ReceivedHardware,
    /// Answers that the process has stamped.
    TransmittedDaemon,
    /// Answers that the kernel has stamped.
    TransmittedKernel,
    /// Answers that the network card has stamped.
    TransmittedHardware,
    /// Requests over chronyc's protocol.
    CommandsReceived,
    /// Requests over chronyc's protocol dropped because their client asks too often.
    CommandsDropped,
}

impl Counter {
    /// Every one, in the order in which they are kept.
    pub const ALL: [Self; 18] = [
        Self::Received,
        Self::RateLimited,
        Self::Kissed,
        Self::Authenticated,
        Self::Interleaved,
        Self::Malformed,
        Self::Denied,
        Self::WrongMode,
        Self::Unauthenticated,
        Self::TooLong,
        Self::ReceivedDaemon,
        Self::ReceivedKernel,
        Self::ReceivedHardware,
        Self::TransmittedDaemon,
        Self::TransmittedKernel,
        Self::TransmittedHardware,
        Self::CommandsReceived,
        Self::CommandsDropped,
    ];

    pub(super) fn of(reason: Reason) -> Self {
        match reason {
            Reason::Malformed => Self::Malformed,
            Reason::Denied => Self::Denied,
            Reason::Mode => Self::WrongMode,
            Reason::RateLimited => Self::RateLimited,
            Reason::Unauthenticated => Self::Unauthenticated,
            Reason::TooLong => Self::TooLong,
        }
    }
}

const N_COUNTERS: usize = Counter::ALL.len();

/// Everything that was counted, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients that were forgotten to make room for others.
    pub clients_forgotten: u64,
    /// Answers that are remembered for interleaved mode.
    pub stamps_held: usize,
    /// From the oldest of them to the newest.
    pub stamps_span: Span,
    pub(super) counts: [u64; N_COUNTERS],
}

impl Statistics {
    /// How many.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts
            .get(counter as usize)
            .copied()
            .unwrap_or_default()
    }
}

/// The counters of one thread.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; N_COUNTERS]);

impl Counters {
    /// Only the thread whose counters these are calls this, so that it costs no locked instruction.
    pub(super) fn add(&self, counter: Counter) {
        if let Some(count) = self.0.get(counter as usize) {
            count.store(
                count.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
    }

    pub(super) fn add_stamp(&self, source: StampSource, direction: Direction) {
        self.add(match (direction, source) {
            (Direction::Received, StampSource::Daemon) => Counter::ReceivedDaemon,
            (Direction::Received, StampSource::Kernel) => Counter::ReceivedKernel,
            (Direction::Received, StampSource::Hardware) => Counter::ReceivedHardware,
            (Direction::Transmitted, StampSource::Daemon) => Counter::TransmittedDaemon,
            (Direction::Transmitted, StampSource::Kernel) => Counter::TransmittedKernel,
            (Direction::Transmitted, StampSource::Hardware) => Counter::TransmittedHardware,
        });
    }
}

/// The counters of all threads.
#[derive(Debug, Default)]
pub(super) struct Registry {
    threads: Mutex<Threads>,
    commands: AtomicU64,
    commands_dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Threads {
    counters: Vec<Arc<Counters>>,
    /// The counters of threads that have ended.
    ended: [u64; N_COUNTERS],
    /// The counts before the last reset.
    reset_at: [u64; N_COUNTERS],
}

impl Registry {
    pub(super) fn register(&self) -> Arc<Counters> {
        let counters = Arc::default();
        let mut threads = self.lock();
        threads.collect_ended();
        threads.counters.push(Arc::clone(&counters));
        counters
    }

    pub(super) fn command(&self, is_answered: bool) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.commands_dropped
            .fetch_add(u64::from(!is_answered), Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> [u64; N_COUNTERS] {
        let threads = self.lock();
        let mut sum = self.total(&threads);
        for (sum, reset_at) in sum.iter_mut().zip(threads.reset_at) {
            *sum = sum.wrapping_sub(reset_at);
        }
        sum
    }

    pub(super) fn reset(&self) {
        let mut threads = self.lock();
        threads.reset_at = self.total(&threads);
    }

    fn total(&self, threads: &Threads) -> [u64; N_COUNTERS] {
        let mut sum = threads.ended;
        for counters in &threads.counters {
            add(&mut sum, counters);
        }
        for (counter, count) in [
            (Counter::CommandsReceived, &self.commands),
            (Counter::CommandsDropped, &self.commands_dropped),
        ] {
            if let Some(sum) = sum.get_mut(counter as usize) {
                *sum = count.load(Ordering::Relaxed);
            }
        }
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // Nothing that is done under the lock stops halfway.
        self.threads.lock()
    }
}

impl Threads {
    /// Keeps what threads have counted that ended, and not their counters.
    fn collect_ended(&mut self) {
        let ended = &mut self.ended;
        self.counters.retain(|counters| {
            let lives = Arc::strong_count(counters) > 1;
            if !lives {
                add(ended, counters);
            }
            lives
        });
    }
}

fn add(sum: &mut [u64; N_COUNTERS], counters: &Counters) {
    for (sum, count) in sum.iter_mut().zip(&counters.0) {
        *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_kept_in_their_order() {
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
        }
    }

    #[test]
    fn what_ended_threads_have_counted_stays() {
        let registry = Registry::default();
        for _ in 0..10 {
            let counters = registry.register();
            counters.add(Counter::Received);
        }
        let last = registry.register();
        assert_eq!(registry.lock().counters.len(), 1);
        last.add(Counter::Kissed);
        registry.command(true);
        registry.command(false);
        let get = |counter: Counter| registry.sum()[counter as usize];
        assert_eq!(get(Counter::Received), 10);
        assert_eq!(get(Counter::Kissed), 1);
        assert_eq!(get(Counter::CommandsReceived), 2);
        assert_eq!(get(Counter::CommandsDropped), 1);
        registry.reset();
        assert_eq!(registry.sum(), [0; N_COUNTERS]);
        last.add(Counter::Received);
        assert_eq!(registry.sum()[Counter::Received as usize], 1);
    }
}
