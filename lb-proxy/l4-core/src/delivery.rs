//! Whether a session still gets anywhere, by what its peers acknowledge.
//!
//! Bytes that the kernel has taken are not delivered yet: a slow reader may need minutes for them. So a session is
//! quiet only while no bytes move *and* none is acknowledged, and a peer is silent only while it owes an answer. One
//! that reads nothing and answers the probes of its window is slow and not dead.
//!
//! ```text
//!  bytes move ─► first check ─► observe both queues ─► decide ─┬─► check again
//!                                                              ├─► silent: that peer is dead
//!                                                              └─► quiet, delivered, abandoned: the end
//! ```
//!
//! Time is counted in ticks of [`TICK`](crate::timers::TICK). Never reads a clock or a socket.

use std::time::Duration;

use crate::access_log::Cause;
use crate::timers::ticks;

/// A peer with bytes to take has at least this long from one acknowledgement to the next before its session is
/// quiet: it opens a closed window in large steps, so that a slow reader is heard seldom.
pub const STALL: Duration = Duration::from_secs(10);

/// How long a session that ends with a reset waits for the next acknowledgement: about as long as the kernel tries to
/// deliver what a closed socket has left.
pub const PARTING: Duration = Duration::from_secs(180);

/// The longest pause between two probes of a closed window (`TCP_RTO_MAX`).
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// A silent peer is detected within its limit and this part of it.
const PART: u64 = 4;

/// Checks of a session that ends as soon as its bytes have arrived, while they do.
const CLOSE_CHECK: Duration = Duration::from_millis(10);

/// The same while they do not.
const WIDE_CHECK: Duration = Duration::from_millis(250);

//--- Facts

/// The kernel's account of the bytes that it has for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Bytes that the peer has not acknowledged; the end of the stream counts as one.
    pub unacknowledged: u64,
    /// Some of them are on their way.
    pub in_flight: bool,
    /// The peer takes no more for now.
    pub is_window_closed: bool,
    /// A probe of the window has no answer yet.
    pub is_probe_open: bool,
    /// Since the peer's last acknowledgement, of new bytes or old, in ticks.
    pub heard: u64,
}

/// One direction of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Direction {
    /// The source has closed its side.
    pub is_closed: bool,
    /// Bytes were read that the kernel has not taken.
    pub in_hand: bool,
    /// Bytes that the kernel has taken for the destination.
    pub sent: u64,
    /// Those of them that wait; none when the destination is gone.
    pub queue: Option<Queue>,
}

impl Direction {
    fn waits(&self) -> bool {
        let unacknowledged = |queue: Queue| queue.unacknowledged > 0;
        self.in_hand || self.queue.is_some_and(unacknowledged)
    }
}

/// A session whose bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Situation {
    /// From the client to the server.
    pub up: Direction,
    /// From the server to the client.
    pub down: Direction,
    /// The tick at which bytes last moved.
    pub moved: u64,
    /// It ends as soon as its bytes are delivered: nothing is read any more.
    pub is_parting: bool,
}

/// The limits of a session, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// In which nothing moves.
    pub idle: Option<u64>,
    /// The same for a client that has everything, once its server has closed.
    pub client_fin: Option<u64>,
    /// The same for a server.
    pub server_fin: Option<u64>,
    /// In which a client owes an answer.
    pub client_silence: Option<u64>,
    /// In which a server does.
    pub server_silence: Option<u64>,
}

impl Limits {
    /// The first check of a session in which bytes have moved: cheap, as it follows every move.
    #[must_use]
    #[inline]
    pub fn first_check(&self, moved: u64, up_closed: bool, down_closed: bool) -> Option<u64> {
        let quiet = match (up_closed, down_closed) {
            (false, true) => self.client_fin.or(self.idle),
            (true, false) => self.server_fin.or(self.idle),
            _ => self.idle,
        };
        let silence = [self.client_silence, self.server_silence];
        let part = silence.into_iter().flatten().min().map(part);
        let wait = [quiet, part].into_iter().flatten().min()?;
        Some(after(moved, wait))
    }
}

/// One end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Client,
    Server,
}

/// The next step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Check it again at this tick; without one, once bytes have moved.
    Check(Option<u64>),
    /// This peer is dead.
    Silent(Peer),
    /// Nothing has moved for as long as it may.
    Quiet(Cause),
    /// A session that is parting has delivered everything.
    Delivered,
    /// A session that is parting delivers nothing any more.
    Abandoned,
}

//--- Observation

/// The progress of one direction, as the checks have found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    waits: bool,
    acknowledged: u64,
    /// The check that found more acknowledged than the one before.
    at: u64,
    /// Since when the destination owes an answer.
    owes_since: Option<u64>,
}

impl Progress {
    fn observe(&mut self, now: u64, direction: &Direction) {
        let queue = direction.queue.unwrap_or_default();
        let acknowledged = direction.sent.saturating_sub(queue.unacknowledged);
        let waited = std::mem::replace(&mut self.waits, queue.unacknowledged > 0);
        // The first of the checks that find it waiting cannot tell how long it has waited.
        let is_first = self.waits && !waited;
        let more = waited && (acknowledged > self.acknowledged || !self.waits);
        if is_first || more {
            self.at = now;
        }
        self.acknowledged = acknowledged;
        let owes = self.waits && (queue.in_flight || queue.is_probe_open);
        self.owes_since = owes.then(|| {
            let heard = now.saturating_sub(queue.heard);
            self.owes_since.map_or(now, |since| since.max(heard))
        });
    }

    /// The tick at which the destination counts as dead, if it says nothing until then.
    fn dead_at(&self, queue: &Queue, silence: u64) -> Option<u64> {
        // A segment that a closed window refused is sent again as seldom as a window is probed, and such segments
        // are not counted as probes.
        let is_seldom = queue.in_flight && queue.is_window_closed && !queue.is_probe_open;
        let pause = if is_seldom { ticks(LONGEST_PAUSE) } else { 0 };
        let limit = silence.saturating_add(pause);
        self.owes_since.map(|since| since.saturating_add(limit))
    }
}

/// The progress of a session, from one check to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deliveries {
    up: Progress,
    down: Progress,
}

impl Deliveries {
    /// The tick of the last progress, once there is nothing to remember but that.
    #[must_use]
    pub fn settled(&self) -> Option<u64> {
        let waits = self.up.waits || self.down.waits;
        (!waits).then_some(self.up.at.max(self.down.at))
    }

    /// Takes the situation in and says what follows.
    #[must_use]
    pub fn check(&mut self, now: u64, situation: &Situation, limits: &Limits) -> Decision {
        let Situation { up, down, .. } = situation;
        self.up.observe(now, up);
        self.down.observe(now, down);
        let sides = [
            (Peer::Client, self.down, down, limits.client_silence),
            (Peer::Server, self.up, up, limits.server_silence),
        ];
        let mut next = None;
        for (peer, progress, direction, silence) in sides {
            let (Some(silence), Some(queue)) = (silence, &direction.queue) else {
                continue;
            };
            if !progress.waits {
                continue;
            }
            let dead_at = progress.dead_at(queue, silence);
            if dead_at.is_some_and(|at| now >= at) {
                return Decision::Silent(peer);
            }
            earlier(&mut next, after(now, part(silence)));
            if let Some(at) = dead_at {
                earlier(&mut next, at);
            }
        }
        let progress = situation.moved.max(self.up.at).max(self.down.at);
        if situation.is_parting {
            return parting(now, progress, situation);
        }
        if let Some((limit, cause)) = quiet_limit(situation, limits) {
            let due = after(progress, limit);
            if now >= due {
                return Decision::Quiet(cause);
            }
            earlier(&mut next, due);
        }
        Decision::Check(next)
    }
}

fn parting(now: u64, progress: u64, situation: &Situation) -> Decision {
    if !situation.up.waits() && !situation.down.waits() {
        return Decision::Delivered;
    }
    let since = now.saturating_sub(progress);
    if since >= ticks(PARTING) {
        return Decision::Abandoned;
    }
    let wait = match Duration::from_secs(1) {
        second if since < ticks(second) => CLOSE_CHECK,
        _ => WIDE_CHECK,
    };
    Decision::Check(Some(now.saturating_add(ticks(wait))))
}

/// How long a session may be quiet, and the side at fault then.
fn quiet_limit(situation: &Situation, limits: &Limits) -> Option<(u64, Cause)> {
    let Situation { up, down, .. } = situation;
    // The limits for an end begin once that end has everything: until then there is more to do than to close.
    let (limit, cause) = match (up.is_closed, down.is_closed) {
        (false, true) if !down.waits() => {
            (limits.client_fin.or(limits.idle)?, Cause::ClientTimeout)
        }
        (true, false) if !up.waits() => (limits.server_fin.or(limits.idle)?, Cause::ServerTimeout),
        _ if up.waits() && !down.waits() => (limits.idle?, Cause::ServerTimeout),
        _ => (limits.idle?, Cause::ClientTimeout),
    };
    let limit = if up.waits() || down.waits() {
        limit.max(ticks(STALL))
    } else {
        limit
    };
    Some((limit, cause))
}

/// One more, for the part of the first tick that has passed.
fn after(tick: u64, wait: u64) -> u64 {
    tick.saturating_add(wait).saturating_add(1)
}

fn part(silence: u64) -> u64 {
    (silence / PART).max(1)
}

fn earlier(next: &mut Option<u64>, tick: u64) {
    *next = Some(next.map_or(tick, |next| next.min(tick)));
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
