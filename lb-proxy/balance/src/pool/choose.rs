//! The result of a connection's request to a pool: a server, or a place in the line.

use std::sync::Arc;
use std::time::Instant;

use super::attempt::Attempt;
use super::{Choice, Hint, Pool, Server, Slot, Tried};
use crate::queue::{Ticket, Wake};

/// The outcome of a choice by a connection that waits if there is no room.
#[derive(Debug)]
pub enum Wait {
    /// There was room after all.
    Take {
        /// The server's index in the pool.
        index: usize,
        /// Counts the session until dropped.
        slot: Slot,
    },
    /// It waits; its token will be called.
    Waiting(Ticket),
    /// As many wait as may.
    Overflow,
    /// No server may be chosen, or each that may has been tried.
    Nobody,
}

impl Pool {
    /// Chooses a server for a connection that has not waited.
    #[must_use]
    pub fn choose(&self, hint: &Hint, tried: &Tried, now: Instant) -> Choice {
        // The room belongs to those that are called.
        let spoken_for = self.queue.is_calling();
        Attempt::new(self, hint, tried, now, spoken_for).make()
    }

    /// Lets a connection wait for which there was no room; `wake` is called with `token` when it may
    /// [try again](Self::retry).
    #[must_use]
    pub fn wait(
        &self,
        wake: &Arc<dyn Wake>,
        token: u64,
        hint: &Hint,
        tried: &Tried,
        now: Instant,
    ) -> Wait {
        let Some(mut ticket) = self.queue.enter(wake, token) else {
            return Wait::Overflow;
        };
        // A session may have ended before this place could be seen.
        match self.choose(hint, tried, now) {
            Choice::Take { index, slot } => {
                ticket.leave(self.room(now));
                Wait::Take { index, slot }
            }
            // If it was called meanwhile, it stays called: its token is on the way.
            Choice::Full => Wait::Waiting(ticket),
            Choice::Nobody => Wait::Nobody,
        }
    }

    /// Chooses a server for a connection that waits: when it is called, or when it changes its mind
    /// about what it has tried. With a server taken it is out of the line; without, it keeps its
    /// place until the ticket is dropped.
    #[must_use]
    pub fn retry(&self, ticket: &mut Ticket, hint: &Hint, tried: &Tried, now: Instant) -> Choice {
        let spoken_for = !ticket.is_called() && self.queue.is_calling();
        let choice = Attempt::new(self, hint, tried, now, spoken_for).make();
        match choice {
            Choice::Take { .. } => ticket.leave(self.room(now)),
            // With nothing tried there is no room for anybody else either.
            Choice::Full => ticket.decline(!tried.is_empty()),
            Choice::Nobody => ticket.decline(true),
        }
        choice
    }

    /// The servers that share new connections while all have room, each with its index.
    pub fn in_use(&self) -> impl Iterator<Item = (usize, &Arc<Server>)> {
        let tier = self.tiers.first();
        let n_used = match tier {
            Some(tier) if tier.backup && !self.all_backups => 1,
            _ => usize::MAX,
        };
        tier.into_iter()
            .flat_map(|tier| self.members(tier))
            .map(|(index, server)| (usize::from(index), server))
            .take(n_used)
    }

    /// How many servers may be chosen at this moment, full or not.
    #[must_use]
    #[inline]
    pub fn n_usable(&self) -> usize {
        self.tiers.first().map_or(0, |tier| tier.members.len())
    }

    /// For how many more sessions there is room.
    #[must_use]
    pub fn room(&self, now: Instant) -> u32 {
        self.tiers
            .iter()
            .flat_map(|tier| self.members(tier))
            .map(|(_, server)| match server.limit(now) {
                Some(limit) => limit.saturating_sub(server.load.sessions()),
                None => u32::MAX,
            })
            .fold(0, u32::saturating_add)
    }

    /// True while a server comes back slowly, so that room appears without a session ending; a worker with
    /// waiting connections then [stirs](crate::queue::Queue::stir) now and then.
    #[must_use]
    #[inline]
    pub fn is_slow(&self, now: Instant) -> bool {
        self.slow_until.is_some_and(|until| now < until)
    }
}
