//! One choice, by each algorithm.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::tier::Tier;
use super::{Algorithm, Choice, Hint, Pool, Server, Slot, Tried, hash, slow_start};

/// Draws and look-ups that may meet a server that cannot be taken before all are looked at.
const DRAWS: u64 = 16;

/// How often a choice is made again because another thread was faster.
const RACES: usize = 8;

/// One choice.
pub(super) struct Attempt<'a> {
    pool: &'a Pool,
    hint: &'a Hint,
    tried: &'a Tried,
    now: Instant,
    /// Servers with a limit have no room for this connection.
    spoken_for: bool,
    /// A server has less than its whole share.
    slow: bool,
    /// Servers whose last connection has failed are left to themselves.
    avoids: bool,
}

impl<'a> Attempt<'a> {
    /// With `spoken_for`, servers with a limit have no room for this connection.
    pub(super) fn new(
        pool: &'a Pool,
        hint: &'a Hint,
        tried: &'a Tried,
        now: Instant,
        spoken_for: bool,
    ) -> Self {
        Self {
            pool,
            hint,
            tried,
            now,
            spoken_for,
            slow: pool.is_slow(now),
            avoids: true,
        }
    }

    /// Chooses from the first group that has a server this connection has not tried and need not avoid; when there is
    /// none, from the first that has one that was not tried.
    pub(super) fn make(mut self) -> Choice {
        let choice = self.first_group();
        if !matches!(choice, Choice::Nobody) {
            return choice;
        }
        self.avoids = false;
        self.first_group()
    }

    fn first_group(&self) -> Choice {
        let in_question = |tier: &Tier| {
            let mut members = self.pool.members(tier);
            members.any(|(_, server)| self.comes_into_question(server))
        };
        for tier in self.pool.tiers.iter().filter(|tier| in_question(tier)) {
            match self.choose_in(tier) {
                Some((index, slot)) => {
                    return Choice::Take {
                        index: usize::from(index),
                        slot,
                    };
                }
                None if in_question(tier) => return Choice::Full,
                // The last that was left is on trial with another connection by now.
                None => {}
            }
        }
        Choice::Nobody
    }

    /// A server of `tier`, in which there is one that comes into question; none when those are full.
    fn choose_in(&self, tier: &Tier) -> Option<(u16, Slot)> {
        if tier.backup && !self.pool.all_backups {
            return self.first(tier);
        }
        match self.pool.algorithm {
            Algorithm::RoundRobin => self.next_turn(tier),
            Algorithm::LeastConnections => self.least_busy(tier),
            Algorithm::RandomOfTwo => self.less_busy_of_two(tier),
            Algorithm::Source => self.by_source(tier),
        }
    }

    /// The first that comes into question, and no other when it is full.
    fn first(&self, tier: &Tier) -> Option<(u16, Slot)> {
        let (index, server) = self
            .pool
            .members(tier)
            .find(|(_, server)| self.comes_into_question(server))?;
        if !self.may_take(server) {
            return None;
        }
        Some((index, self.reserve(server)?))
    }

    //--- Round robin

    fn next_turn(&self, tier: &Tier) -> Option<(u16, Slot)> {
        let next = &self.pool.turn.next;
        for _ in 0..RACES {
            let from = next.load(Ordering::Relaxed);
            let Some((turn, index, server)) = self.find_turn(tier, from) else {
                break;
            };
            // The one that moves the turn on has it; one that comes too late looks again.
            if next
                .compare_exchange(from, turn + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
                && let Some(slot) = self.reserve(server)
            {
                return Some((index, slot));
            }
        }
        // No server has room, or each leaves out its turn, or others were faster each time.
        self.least_busy(tier)
    }

    /// The first turn at or after `from` that is taken.
    fn find_turn(&self, tier: &Tier, from: u64) -> Option<(u64, u16, &Arc<Server>)> {
        let largest = self.largest_share(tier);
        let length = tier.round.len() as u64;
        for turn in from..from.saturating_add(length) {
            let (index, server) = self.at(tier, turn)?;
            if self.takes_turn(server, turn, largest) && self.may_take(server) {
                return Some((turn, index, server));
            }
            // A long way round is worth it only if a server is there.
            if turn - from == DRAWS && !self.anybody(tier) {
                return None;
            }
        }
        None
    }

    /// The server that `turn` belongs to.
    fn at(&self, tier: &Tier, turn: u64) -> Option<(u16, &Arc<Server>)> {
        let place = usize::try_from(turn % (tier.round.len() as u64).max(1)).ok()?;
        let index = *tier.round.get(place)?;
        Some((index, self.pool.server(index)?))
    }

    /// False when a server leaves out this turn, because it comes back slowly.
    fn takes_turn(&self, server: &Server, turn: u64, largest: u32) -> bool {
        if !self.slow {
            return true;
        }
        let share = u64::from(server.share(self.now));
        // Multiples of the golden ratio spread evenly over any run of turns.
        let draw = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        draw * u64::from(largest) < share << 16
    }

    /// The largest share in `tier`: the others count in proportion to it.
    fn largest_share(&self, tier: &Tier) -> u32 {
        if !self.slow {
            return slow_start::FULL;
        }
        self.pool
            .members(tier)
            .map(|(_, server)| server.share(self.now))
            .max()
            .unwrap_or(slow_start::FULL)
    }

    //--- Least connections

    fn least_busy(&self, tier: &Tier) -> Option<(u16, Slot)> {
        for _ in 0..RACES {
            let mut best: Option<(u16, &Arc<Server>, Busy)> = None;
            for (index, server) in self.pool.members(tier) {
                let busy = self.busy(server);
                if self.may_take_at(server, busy.sessions)
                    && best
                        .as_ref()
                        .is_none_or(|(_, _, best)| busy.is_before(best))
                {
                    best = Some((index, server, busy));
                }
            }
            let (index, server, busy) = best?;
            // Only if no other came in between: two that look at once must not both go to the
            // same server.
            let slot = server.load.reserve_at(busy.sessions, self.limit(server));
            if let Some(slot) = slot.filter(|_| self.tries(server)) {
                self.mark_chosen(server);
                return Some((index, slot));
            }
        }
        // Too much happens at once to be exact: any server with room will do.
        self.pool
            .members(tier)
            .filter(|(_, server)| self.may_take(server))
            .find_map(|(index, server)| Some((index, self.reserve(server)?)))
    }

    fn busy(&self, server: &Server) -> Busy {
        Busy {
            sessions: server.load.sessions(),
            weight: if self.slow {
                server.effective_weight(self.now)
            } else {
                u64::from(server.weight)
            },
            chosen: server.load.chosen(),
        }
    }

    fn mark_chosen(&self, server: &Server) {
        let count = self.pool.turn.choices.fetch_add(1, Ordering::Relaxed) + 1;
        server.load.set_chosen(count);
    }

    //--- Random

    fn less_busy_of_two(&self, tier: &Tier) -> Option<(u16, Slot)> {
        let largest = self.largest_share(tier);
        let mut first: Option<(u16, &Arc<Server>)> = None;
        for draw in 0..DRAWS {
            let random = hash::mix(self.hint.random.wrapping_add(draw));
            let turn = hash::below(random, tier.round.len()) as u64;
            let (index, server) = self.at(tier, turn)?;
            if !self.takes_turn(server, random, largest) || !self.may_take(server) {
                continue;
            }
            match first {
                None => first = Some((index, server)),
                Some((other, _)) if other == index => {}
                Some((other, rival)) => {
                    let (index, server) = if self.busy(server).is_less_than(&self.busy(rival)) {
                        (index, server)
                    } else {
                        (other, rival)
                    };
                    if let Some(slot) = self.reserve(server) {
                        return Some((index, slot));
                    }
                    first = None;
                }
            }
        }
        if let Some((index, server)) = first
            && let Some(slot) = self.reserve(server)
        {
            return Some((index, slot));
        }
        self.least_busy(tier)
    }

    //--- Source

    fn by_source(&self, tier: &Tier) -> Option<(u16, Slot)> {
        let table = tier.table.as_ref()?;
        let source = hash::of_address(self.hint.source);
        let largest = self.largest_share(tier);
        let mut place = source;
        for _ in 0..DRAWS {
            let index = table.look_up(place)?;
            // The next server depends on the source alone: with this server gone, it always goes to
            // the same other one.
            let draw = hash::mix(place);
            place = hash::mix(draw);
            let server = self.pool.server(index)?;
            if tier.contains(index)
                && self.takes_turn(server, draw, largest)
                && self.may_take(server)
                && let Some(slot) = self.reserve(server)
            {
                return Some((index, slot));
            }
        }
        self.nearest(tier, source)
    }

    /// The server with the highest hash together with `source`: slower than the table, but it finds
    /// the one that is left of many.
    fn nearest(&self, tier: &Tier, source: u64) -> Option<(u16, Slot)> {
        for _ in 0..RACES {
            let (index, server) = self
                .pool
                .members(tier)
                .filter(|(_, server)| self.may_take(server))
                .max_by_key(|(_, server)| hash::of(server.name.as_bytes(), source))?;
            if let Some(slot) = self.reserve(server) {
                return Some((index, slot));
            }
        }
        self.least_busy(tier)
    }

    //--- Room

    fn anybody(&self, tier: &Tier) -> bool {
        self.pool
            .members(tier)
            .any(|(_, server)| self.may_take(server))
    }

    /// True when `server` was not tried, and is not avoided because its last connection has failed.
    fn comes_into_question(&self, server: &Server) -> bool {
        let is_avoided = self.avoids && server.avoided(self.now).is_some();
        !is_avoided && !self.tried.contains(server)
    }

    /// True when this connection may go to a server that it has chosen: one at a time tries one that has failed.
    fn tries(&self, server: &Server) -> bool {
        !self.avoids || server.is_probed || server.load.try_again(self.now)
    }

    /// True when `server` comes into question and has room for this connection.
    fn may_take(&self, server: &Server) -> bool {
        self.may_take_at(server, server.load.sessions())
    }

    /// As [`may_take`](Self::may_take), with this many sessions on it.
    fn may_take_at(&self, server: &Server, sessions: u32) -> bool {
        if !self.comes_into_question(server) {
            return false;
        }
        match self.limit(server) {
            None => true,
            Some(limit) => !self.spoken_for && sessions < limit,
        }
    }

    fn reserve(&self, server: &Server) -> Option<Slot> {
        let slot = server.load.reserve(self.limit(server));
        slot.filter(|_| self.tries(server))
    }

    fn limit(&self, server: &Server) -> Option<u32> {
        if self.slow {
            server.limit(self.now)
        } else {
            server.max_connections
        }
    }
}

/// How busy a server is.
struct Busy {
    sessions: u32,
    weight: u64,
    /// When it was chosen last.
    chosen: u64,
}

impl Busy {
    /// True when there is less on it for its weight.
    fn is_less_than(&self, other: &Self) -> bool {
        self.burden(other) < other.burden(self)
    }

    /// True when it comes first.
    fn is_before(&self, other: &Self) -> bool {
        let (own, others) = (self.burden(other), other.burden(self));
        own < others || own == others && self.chosen < other.chosen
    }

    /// Its sessions with one more, by weight; servers without any are all alike. Both sides are
    /// multiplied by the other's weight instead of divided by their own.
    fn burden(&self, other: &Self) -> u64 {
        match self.sessions {
            0 => 0,
            sessions => (u64::from(sessions) + 1).saturating_mul(other.weight),
        }
    }
}
