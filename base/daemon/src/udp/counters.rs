//! The counters of an engine; its threads never wait for one another.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use prometheus_client::collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::listen::queue_drops;
use crate::metrics::Page;

/// The counts of one engine over all its threads; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    threads: Arc<RwLock<Vec<Arc<Counts>>>>,
    /// Inodes of the sockets, by which the kernel's table knows them.
    sockets: Arc<RwLock<Vec<u64>>>,
}

impl Counters {
    /// Datagrams received whole.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.sum(|counts| &counts.received)
    }

    /// Replies the kernel has taken.
    #[must_use]
    pub fn replied(&self) -> u64 {
        self.sum(|counts| &counts.replied)
    }

    /// Datagrams not handled: too large to receive, or with a reply that does not fit.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.sum(|counts| &counts.dropped)
    }

    /// Receives that brought at least one datagram.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.sum(|counts| &counts.batches)
    }

    /// Replies the kernel has refused.
    #[must_use]
    pub fn send_errors(&self) -> u64 {
        self.sum(|counts| &counts.send_errors)
    }

    /// Receives that failed, such as on a socket to which an ICMP error came back.
    #[must_use]
    pub fn receive_errors(&self) -> u64 {
        self.sum(|counts| &counts.receive_errors)
    }

    /// Datagrams the kernel dropped because a socket's queue was full, over the life of the sockets.
    ///
    /// Read from the kernel's table of sockets: not for a hot path.
    #[must_use]
    pub fn queue_drops(&self) -> u64 {
        queue_drops(&self.sockets.read())
    }

    pub(super) fn add_socket(&self, inode: u64) {
        self.sockets.write().push(inode);
    }

    pub(super) fn add_thread(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        let mut threads = self.threads.write();
        threads.push(Arc::clone(&counts));
        counts
    }

    fn sum(&self, count: impl Fn(&Counts) -> &Count) -> u64 {
        let threads = self.threads.read();
        threads.iter().map(|counts| count(counts).value()).sum()
    }
}

/// One thread's counts, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counts {
    pub(super) received: Count,
    pub(super) replied: Count,
    pub(super) dropped: Count,
    pub(super) batches: Count,
    pub(super) send_errors: Count,
    pub(super) receive_errors: Count,
}

/// A number only one thread writes.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds without a locked instruction, which a single writer does not need.
    pub(super) fn add(&self, amount: usize) {
        let amount = u64::try_from(amount).unwrap_or(u64::MAX);
        let value = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(value, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Shows an engine's counts to a scraper, under `<prefix>_udp_…`.
pub struct Collector {
    prefix: String,
    counters: Counters,
}

impl Collector {
    /// For [`crate::metrics::Metrics::register_collector`].
    pub fn new(prefix: impl Into<String>, counters: Counters) -> Box<Self> {
        Box::new(Self {
            prefix: prefix.into(),
            counters,
        })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Collector")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counters = &self.counters;
        for (name, help, value) in [
            (
                "queue_drops",
                "Datagrams dropped by the kernel because a queue was full.",
                counters.queue_drops(),
            ),
            (
                "received_datagrams",
                "Datagrams received.",
                counters.received(),
            ),
            ("sent_datagrams", "Replies sent.", counters.replied()),
            (
                "dropped_datagrams",
                "Datagrams too large to handle.",
                counters.dropped(),
            ),
            (
                "batches",
                "Receives that brought datagrams.",
                counters.batches(),
            ),
            (
                "send_errors",
                "Replies the kernel refused.",
                counters.send_errors(),
            ),
            (
                "receive_errors",
                "Receives that failed.",
                counters.receive_errors(),
            ),
        ] {
            let name = format!("{}_udp_{name}", self.prefix);
            Page::new(&mut encoder).counter(&name, help, value)?;
        }
        Ok(())
    }
}
