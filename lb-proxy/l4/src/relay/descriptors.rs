//! The limit of open files, and the number of sessions it allows.

use rustix::process::{Resource, Rlimit};

/// Descriptors for everything but sessions: logs, listeners, probes, the admin listener, swaps.
const RESERVED: u64 = 256;

/// Descriptors of one session: client and server.
const PER_SESSION: u64 = 2;

/// How many files this process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force.
    pub descriptors: u64,
    /// Sessions it allows.
    pub sessions: u64,
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
    DescriptorLimit {
        descriptors,
        sessions: sessions_within(descriptors, 0),
    }
}

/// The limit of sessions: the wanted one, as far as descriptors go.
pub(super) fn most_sessions(wanted: Option<u64>, n_workers: usize) -> u64 {
    let limit = raise_descriptor_limit();
    let possible = sessions_within(limit.descriptors, n_workers);
    match wanted {
        Some(wanted) if wanted > possible => {
            tracing::warn!(
                wanted,
                possible,
                descriptors = limit.descriptors,
                "Fewer sessions than configured: raise LimitNOFILE"
            );
            possible
        }
        Some(wanted) => wanted,
        None => possible,
    }
}

fn sessions_within(descriptors: u64, n_workers: usize) -> u64 {
    let pipes = 2 * (super::pipes::MOST as u64) * (n_workers as u64);
    // With a limit as low as the reserve there is room for a few, or nothing would work at all.
    (descriptors.saturating_sub(RESERVED + pipes) / PER_SESSION).max(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_what_descriptors_allow() {
        assert_eq!(sessions_within(20_000, 2), (20_000 - 256 - 128) / 2);
        assert_eq!(sessions_within(100, 2), 16);
        assert!(most_sessions(Some(3), 1) == 3);
        assert_eq!(most_sessions(None, 1), most_sessions(Some(u64::MAX), 1));
    }
}
