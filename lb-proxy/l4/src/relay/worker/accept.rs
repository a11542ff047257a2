//! Takes connections from listeners, and rests those that cannot have more.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::table::{AcceptProxy, Frontend};
use daemon::clock;
use l4_core::client_hello::Hello;
use l4_core::timers::ticks;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::{GROWN_UP, Life, Watch, Worker};
use crate::relay::command::{Command, Mailbox};
use crate::relay::connection::{Session, canonical, reset_on_close};
use crate::relay::pump::{Readiness, Side};

/// Connections accepted from one listener before others have their turn.
const ACCEPTS: usize = 64;

/// A listener rests this long when there is no descriptor or memory for what it would accept.
pub(in crate::relay) const REST: Duration = Duration::from_millis(100);

/// The most sessions that one worker may have more than another, besides a quarter of those.
const SLACK: usize = 4;

/// The same where sessions are brief: with the quarter, twice the spread that chance gives to some fifty.
/// With more of it the slowest wait for a worker that is busy beside one that is not.
const WIDE_SLACK: usize = 8;

/// This many brief sessions in a row foretell that the next is one.
const BRIEF: u32 = 32;

/// How often a shortage is logged at most.
const WARN_EVERY: Duration = Duration::from_secs(60);

impl Worker {
    /// Takes connections from the listeners that have some. Connections that came earlier are served first: among
    /// short connections the slowest of a hundred wait a twentieth less than if events were taken as they lie.
    pub(super) fn accept_knocked(&mut self) {
        let mut knocked = std::mem::take(&mut self.knocked);
        for place in knocked.drain(..) {
            self.accept(place);
        }
        self.knocked = knocked;
    }

    /// Takes connections from a listener; true when it may have more at once.
    fn accept(&mut self, place: usize) -> bool {
        if self.life != Life::Serving {
            // The worker was frozen by an event that came together with this one: a connection that is accepted now
            // would have no worker. The next worker that serves the socket finds it there.
            return false;
        }
        for _ in 0..ACCEPTS {
            let Some(Some(listening)) = self.listeners.get(place) else {
                return false;
            };
            let Some(frontend) = listening.frontend.clone() else {
                self.rest(place, Watch::Full);
                return false;
            };
            if !self.reserve(&frontend) {
                self.rest(place, Watch::Full);
                return false;
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let accepted = rustix::net::acceptfrom_with(&*listening.socket, flags);
            let shared = listening.shared;
            match accepted {
                Ok((socket, peer)) => {
                    self.counters().accepted.fetch_add(1, Ordering::Relaxed);
                    frontend.tally.total.fetch_add(1, Ordering::Relaxed);
                    match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
                        Some(peer) => {
                            let slack = self.slack(shared);
                            self.begin_somewhere(socket, canonical(peer), frontend, slack);
                        }
                        None => self.release(&frontend),
                    }
                    continue;
                }
                Err(_) => self.release(&frontend),
            }
            match accepted {
                Err(Errno::AGAIN) => return false,
                Err(error) if is_shortage(error) => {
                    self.rest_all(REST);
                    return false;
                }
                // The listener itself is of no use, as when another process that shares it has shut it down.
                Err(Errno::INVAL | Errno::BADF | Errno::NOTSOCK | Errno::OPNOTSUPP) => {
                    let until = self.now.tick().saturating_add(ticks(REST));
                    self.rest(place, Watch::Resting { until });
                    return false;
                }
                // The connection was gone before it was accepted; the next one may not be.
                _ => {}
            }
        }
        true
    }

    /// Takes every connection a listener has.
    pub(super) fn accept_all(&mut self, place: usize) {
        // As often as a full backlog of the largest size needs.
        for _ in 0..=(u16::MAX as usize / ACCEPTS) {
            if !self.accept(place) {
                return;
            }
        }
    }

    /// True when neither the frontend nor the process takes another session.
    fn is_full(&self, frontend: &Frontend) -> bool {
        let sessions = self.counters().sessions.load(Ordering::Relaxed);
        sessions >= self.shared.budget.sessions
            || frontend.max_connections.is_some_and(|most| {
                frontend.tally.sessions.load(Ordering::Relaxed) >= u64::from(most)
            })
    }

    /// Counts a session in before it is there, so that workers cannot go beyond a bound together.
    fn reserve(&self, frontend: &Frontend) -> bool {
        let all = &self.counters().sessions;
        let of_frontend = &frontend.tally.sessions;
        if all.fetch_add(1, Ordering::Relaxed) >= self.shared.budget.sessions {
            all.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let before = of_frontend.fetch_add(1, Ordering::Relaxed);
        if frontend
            .max_connections
            .is_some_and(|most| before >= u64::from(most))
        {
            of_frontend.fetch_sub(1, Ordering::Relaxed);
            all.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Counts a session out, and wakes the listeners that rest for want of room.
    pub(in crate::relay) fn release(&self, frontend: &Frontend) {
        frontend.tally.sessions.fetch_sub(1, Ordering::Relaxed);
        self.counters().sessions.fetch_sub(1, Ordering::Relaxed);
        if self.shared.resting.load(Ordering::Acquire)
            && self.shared.resting.swap(false, Ordering::AcqRel)
        {
            for mailbox in &self.shared.mailboxes {
                mailbox.ring();
            }
        }
    }

    /// How many more sessions than another worker this one may have. It costs a wake-up to give one away,
    /// which is not worth it for one that is over in a moment; that is foreseen where the kernel spreads
    /// clients by chance. A worker that is woken first for a shared socket would have them all.
    fn slack(&self, shared: bool) -> usize {
        if !shared && self.brief >= BRIEF {
            WIDE_SLACK
        } else {
            SLACK
        }
    }

    /// Remembers whether sessions last.
    pub(super) fn note_age(&mut self, age: Duration) {
        self.brief = if age < GROWN_UP {
            self.brief.saturating_add(1)
        } else {
            0
        };
    }

    /// Begins a session here, or with the worker that has the fewest when that are far fewer.
    fn begin_somewhere(
        &mut self,
        socket: OwnedFd,
        peer: SocketAddr,
        frontend: Arc<Frontend>,
        slack: usize,
    ) {
        let own = self.sessions.len();
        let sessions = |mailbox: &Arc<Mailbox>| mailbox.sessions.load(Ordering::Relaxed);
        let idlest = self.shared.mailboxes.iter().min_by_key(|it| sessions(it));
        let target = idlest.filter(|it| !self.keeps_all && is_far_below(sessions(it), own, slack));
        match target {
            Some(mailbox) => {
                // Counted at once, or a burst would all go there.
                mailbox.sessions.fetch_add(1, Ordering::Relaxed);
                mailbox.send(Command::Accepted(socket, peer, frontend));
            }
            None => self.begin(socket, peer, frontend),
        }
    }

    pub(super) fn begin(&mut self, socket: OwnedFd, peer: SocketAddr, frontend: Arc<Frontend>) {
        if frontend.accept_proxy == AcceptProxy::No && !frontend.sources.admit(peer.ip()) {
            frontend.tally.denied.fetch_add(1, Ordering::Relaxed);
            self.release(&frontend);
            return reset_on_close(&socket);
        }
        let mut admission = None;
        if frontend.accept_proxy == AcceptProxy::No
            && let Some(limits) = &frontend.limits
        {
            match limits.admit(peer.ip(), clock::now()) {
                Ok(admitted) => admission = Some(admitted),
                Err(_) => {
                    frontend.tally.limited.fetch_add(1, Ordering::Relaxed);
                    self.release(&frontend);
                    return reset_on_close(&socket);
                }
            }
        }
        let id = self.shared.new_id();
        frontend.tally.note_most();
        // Nothing was sent yet, so there is room.
        let client = Side::new(socket, Readiness::WRITABLE);
        let looked_into =
            frontend.accept_proxy != AcceptProxy::No || !frontend.route.routes.is_empty();
        let wait = frontend.route.inspect_timeout;
        let mut session = Session::new(id, client, peer, frontend, self.now);
        session.admission = admission;
        let token = self.sessions.insert(session);
        if let Some(session) = self.sessions.get(token.index)
            && let Err(error) = self.watch_client(token, &session.client.socket)
        {
            return self.out_of_resources(token.index, error);
        }
        if looked_into {
            self.arm(token.index, wait);
        } else {
            self.route(token.index, Hello::default());
        }
    }

    //--- Listeners

    /// Takes a listener out of the epoll for a while.
    fn rest(&mut self, place: usize, state: Watch) {
        let Some(Some(listening)) = self.listeners.get_mut(place) else {
            return;
        };
        if let (Watch::Resting { until }, Watch::Resting { until: later }) =
            (&mut listening.state, state)
        {
            *until = later.max(*until);
        }
        if listening.state != Watch::Watched {
            return;
        }
        listening.state = state;
        epoll::delete(&self.epoll, &*listening.socket).ok();
        if state == Watch::Full {
            self.counters().full.fetch_add(1, Ordering::Relaxed);
            self.shared.resting.store(true, Ordering::Release);
        } else {
            let name = Arc::clone(&listening.name);
            if self.may_warn() {
                tracing::warn!(
                    frontend = &*name,
                    "Connections cannot be accepted for want of descriptors or memory; clients wait"
                );
            }
        }
    }

    /// There is no descriptor or memory for another session: all listeners rest. A connection that one of them
    /// accepts would only be turned away, and may as well wait for its turn.
    pub(in crate::relay) fn rest_all(&mut self, time: Duration) {
        self.counters()
            .accept_errors
            .fetch_add(1, Ordering::Relaxed);
        let until = self.now.tick().saturating_add(ticks(time));
        for place in 0..self.listeners.len() {
            self.rest(place, Watch::Resting { until });
        }
    }

    /// True when nothing was said of a shortage for a while: it would be said for every connection.
    pub(in crate::relay) fn may_warn(&self) -> bool {
        let now = self.now.tick();
        let warn_at = self.shared.warn_at.load(Ordering::Relaxed);
        if now < warn_at {
            return false;
        }
        let next = now.saturating_add(ticks(WARN_EVERY));
        // Another worker may say it at this moment.
        self.shared
            .warn_at
            .compare_exchange(warn_at, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Serves listeners again that have rested long enough.
    pub(super) fn wake_listeners(&mut self) {
        if self.life != Life::Serving {
            return;
        }
        let now = self.now.tick();
        for place in 0..self.listeners.len() {
            let Some(Some(listening)) = self.listeners.get(place) else {
                continue;
            };
            let ready = match listening.state {
                Watch::Watched => false,
                Watch::Resting { until } => now >= until,
                Watch::Full => listening
                    .frontend
                    .as_ref()
                    .is_some_and(|frontend| !self.is_full(frontend)),
            };
            if ready {
                self.watch_listener(place);
            } else if listening.state == Watch::Full {
                self.shared.resting.store(true, Ordering::Release);
            }
        }
    }

    fn watch_listener(&mut self, place: usize) {
        let Some(Some(listening)) = self.listeners.get_mut(place) else {
            return;
        };
        let mut flags = EventFlags::IN;
        if listening.shared {
            // One of the workers is woken for a connection, not all.
            flags |= EventFlags::EXCLUSIVE;
        }
        let data = EventData::new_u64(place as u64 + 1);
        match epoll::add(&self.epoll, &*listening.socket, data, flags) {
            Ok(()) | Err(Errno::EXIST) => listening.state = Watch::Watched,
            Err(error) => {
                let until = self.now.tick().saturating_add(ticks(REST));
                listening.state = Watch::Resting { until };
                tracing::warn!(frontend = &*listening.name, %error, "Listener cannot be watched");
            }
        }
    }
}

/// True when a worker with `theirs` sessions should rather have the next than one with `own`: a
/// difference by chance is not worth it.
fn is_far_below(theirs: usize, own: usize, slack: usize) -> bool {
    own >= theirs + slack + theirs / 4
}

/// True when a call failed for want of descriptors or memory, of which there may be more in a moment.
pub(in crate::relay) fn is_shortage(error: Errno) -> bool {
    matches!(
        error,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_given_away_for_a_difference_that_is_no_chance() {
        let table = [
            (0, 3, SLACK, false),
            (0, 4, SLACK, true),
            (24, 33, SLACK, false),
            (24, 34, SLACK, true),
            (24, 37, WIDE_SLACK, false),
            (24, 38, WIDE_SLACK, true),
            // Of those that are woken first for everything.
            (100, 133, WIDE_SLACK, true),
        ];
        for (theirs, own, slack, given) in table {
            assert_eq!(is_far_below(theirs, own, slack), given, "{theirs} {own}");
        }
    }
}
