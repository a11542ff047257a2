//! The limit of open files, and the number of sessions it allows.

use rustix::process::{Resource, Rlimit};

/// Descriptors of one session: client and server.
const PER_SESSION: u64 = 2;

/// Descriptors of a pipe: both ends.
const PER_PIPE: u64 = 2;

/// Descriptors of a worker, besides listeners: its mailbox and its epoll.
const PER_WORKER: u64 = 2;

/// One in this number of descriptors is kept back for later: probes, the admin listener, swaps, pipes.
const PER_SPARE: u64 = 200;

/// Descriptors that are kept back at least and at most.
const SPARE: std::ops::RangeInclusive<u64> = 1..=512;

/// How many files this process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force.
    pub descriptors: u64,
}

/// The descriptors for sessions and, while sessions leave some, for pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Sessions at a time.
    pub(crate) sessions: u64,
    /// Descriptors for both.
    descriptors: u64,
    n_workers: u64,
}

/// Raises the soft limit of open files to the hard one, and says what that allows.
pub fn raise_descriptor_limit() -> DescriptorLimit {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "Limit of open files stays as it is");
        }
    }
    let descriptors = rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    DescriptorLimit { descriptors }
}

impl Budget {
    /// The descriptors that are left now, for the wanted number of sessions as far as they go.
    pub(super) fn new(wanted: Option<u64>, n_workers: usize) -> Self {
        let limit = raise_descriptor_limit().descriptors;
        let mut budget = Self::within(limit, open_now(), n_workers as u64);
        let possible = budget.sessions;
        if let Some(wanted) = wanted {
            budget.sessions = wanted.min(possible);
            if wanted > possible {
                tracing::warn!(
                    wanted,
                    possible,
                    descriptors = limit,
                    "Fewer sessions than configured: raise LimitNOFILE"
                );
            }
        }
        budget
    }

    fn within(limit: u64, open: u64, n_workers: u64) -> Self {
        let spare = (limit / PER_SPARE).clamp(*SPARE.start(), *SPARE.end());
        let kept = open + PER_WORKER * n_workers + spare;
        let descriptors = limit.saturating_sub(kept);
        Self {
            // With hardly a descriptor there is room for a few, or nothing would work at all.
            sessions: (descriptors / PER_SESSION).max(16),
            descriptors,
            n_workers,
        }
    }

    /// The pipes that each worker may have beside this number of sessions.
    pub(super) fn pipes(&self, sessions: u64) -> usize {
        let taken = sessions.saturating_mul(PER_SESSION);
        let pipes = self.descriptors.saturating_sub(taken) / PER_PIPE / self.n_workers.max(1);
        usize::try_from(pipes).unwrap_or(usize::MAX)
    }
}

/// Descriptors that are open, as far as the system says.
fn open_now() -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    // One of them is that of the directory.
    open.map_or(0, |open| u64::try_from(open.saturating_sub(1)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_what_descriptors_allow() {
        let sessions = |limit, open| Budget::within(limit, open, 2).sessions;
        assert_eq!(sessions(220, 15), 100);
        assert_eq!(sessions(20_000, 100), (20_000 - 204) / 2);
        assert_eq!(sessions(1 << 20, 100), ((1 << 20) - 616) / 2);
        assert_eq!(sessions(10, 12), 16);
        assert!(Budget::new(Some(3), 1).sessions == 3);
        assert!(open_now() > 2);
    }

    #[test]
    fn pipes_get_what_sessions_leave() {
        let budget = Budget::within(220, 15, 2);
        let pipes = [0, 50, 98, 100, 101].map(|sessions| budget.pipes(sessions));
        assert_eq!(pipes, [50, 25, 1, 0, 0]);
    }
}
