//! Counters of datagrams that got lost in or beside a balancer.

/// Datagrams that got lost; the counters only go up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Longer than what is received.
    pub truncated: u64,
    /// Dropped by the kernel, as the queue of the frontend's socket was full.
    pub queue_full: u64,
    /// Too long for UDP to the server, or for the path there.
    pub too_long: u64,
    /// Not taken by the kernel for the server.
    pub unsent: u64,
    /// Answers, not taken by the kernel for the client.
    pub undelivered: u64,
}

impl Lost {
    /// Adds what `other` has counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.truncated += other.truncated;
        self.queue_full += other.queue_full;
        self.too_long += other.too_long;
        self.unsent += other.unsent;
        self.undelivered += other.undelivered;
    }
}
