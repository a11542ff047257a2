//! Pipes for `splice(2)`, kept for reuse.
//!
//! A pipe comes back only when it is empty: octets left inside would turn up in another session.

use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;

/// The size of a pipe, as far as the system grants it: enough that one round moves what a socket's
/// buffer has.
const CAPACITY: usize = 1 << 20;

/// Pipes in use by one worker at most, and fewer where descriptors are scarce; a flow that gets none is copied for a
/// round. The kernel lets an unprivileged user have 64 MiB of pipes in all (`fs.pipe-user-pages-soft`).
pub(super) const MOST: usize = 32;

/// Empty pipes that are kept open.
const KEPT: usize = 16;

/// Both ends of a pipe, with nothing in it but what its holder put there.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

/// The pipes of one worker.
#[derive(Debug)]
pub(super) struct Pipes {
    empty: Vec<Pipe>,
    n_taken: usize,
    /// Pipes that there may be, in use or not.
    most: usize,
}

impl Default for Pipes {
    fn default() -> Self {
        Self {
            empty: Vec::new(),
            n_taken: 0,
            most: MOST,
        }
    }
}

impl Pipes {
    /// Says how many pipes there may be from now on; sessions go before them.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most.min(MOST);
        self.empty.truncate(self.most.saturating_sub(self.n_taken));
    }

    /// An empty pipe, unless all are in use or the system gives none.
    pub(super) fn take(&mut self) -> Option<Pipe> {
        let pipe = match self.empty.pop() {
            Some(pipe) => pipe,
            None if self.n_taken >= self.most => return None,
            None => Pipe::open()?,
        };
        self.n_taken += 1;
        Some(pipe)
    }

    /// Takes back a pipe that is empty.
    pub(super) fn put(&mut self, pipe: Pipe) {
        self.n_taken = self.n_taken.saturating_sub(1);
        if self.empty.len() < KEPT && self.n_taken + self.empty.len() < self.most {
            self.empty.push(pipe);
        }
    }

    /// Closes a pipe with whatever is in it.
    pub(super) fn discard(&mut self, pipe: Pipe) {
        self.n_taken = self.n_taken.saturating_sub(1);
        drop(pipe);
    }

    /// Pipes in use.
    pub(super) fn n_taken(&self) -> usize {
        self.n_taken
    }

    /// Counts a pipe out that goes elsewhere with its session.
    pub(super) fn give_away(&mut self) {
        self.n_taken = self.n_taken.saturating_sub(1);
    }

    /// Counts a pipe that came with a session from elsewhere.
    pub(super) fn adopt(&mut self) {
        self.n_taken += 1;
    }
}

impl Pipe {
    fn open() -> Option<Self> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (read, write) = rustix::pipe::pipe_with(flags).ok()?;
        // Beyond the user's share the kernel refuses; the pipe then holds 64 KiB, which works too.
        rustix::pipe::fcntl_setpipe_size(&write, CAPACITY).ok();
        Some(Self { read, write })
    }
}

/// How much one splice asks for.
pub(super) const ROUND: usize = CAPACITY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_bounded_and_used_again() {
        let mut pipes = Pipes::default();
        let taken: Vec<Pipe> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(taken.len(), MOST);
        for pipe in taken {
            pipes.put(pipe);
        }
        assert_eq!((pipes.n_taken, pipes.empty.len()), (0, KEPT));
        let pipe = pipes.take().unwrap();
        pipes.discard(pipe);
        assert_eq!((pipes.n_taken, pipes.empty.len()), (0, KEPT - 1));
        // Descriptors are scarce.
        let pipe = pipes.take().unwrap();
        pipes.set_most(3);
        assert_eq!((pipes.n_taken, pipes.empty.len()), (1, 2));
        pipes.set_most(0);
        pipes.put(pipe);
        assert_eq!((pipes.n_taken, pipes.empty.len()), (0, 0));
        assert!(pipes.take().is_none());
    }
}
