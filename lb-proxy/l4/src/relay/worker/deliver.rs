//! Checks what the peers of a session acknowledge, and what follows from it.

use l4_core::access_log::Cause;
use l4_core::delivery::{Decision, Direction, Limits, Peer, Queue, Situation};
use l4_core::ending::Closing;
use l4_core::timers::{TICK, ticks};
use rustix::net::Shutdown;

use super::Worker;
use crate::relay::connection::{Session, Stage};
use crate::relay::pump::{End, Flow, Readiness, Side};

impl Worker {
    /// The deadline of a session whose bytes move, if it has one.
    pub(super) fn set_deadline(&mut self, index: u32) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let first = if session.is_failing() {
            Some(now.saturating_add(1))
        } else {
            let (up, down) = (is_closed(&session.up), is_closed(&session.down));
            limits(session).first_check(session.active, up, down)
        };
        // Bytes only ever move a deadline away: the check at that moment detects it.
        if let Some(first) = first
            && self.wheel.due(index).is_none_or(|armed| armed > first)
        {
            self.wheel.arm(index, first);
        }
    }

    /// A deadline of the session has come, whatever it waits for.
    pub(in crate::relay) fn on_deadline(&mut self, index: u32) {
        match self.sessions.get(index).map(|session| session.stage) {
            None => {}
            Some(Stage::Inspecting) => self.inspected_long_enough(index),
            Some(Stage::Queued) => self.queued_too_long(index),
            Some(Stage::Pausing) => self.paused_long_enough(index),
            Some(Stage::Connecting) => self.attempt_timed_out(index),
            Some(Stage::Relaying) => self.check(index),
        }
    }

    /// Decides how a session continues, by what its peers have acknowledged.
    pub(super) fn check(&mut self, index: u32) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let situation = situation(session);
        let limits = limits(session);
        let deliveries = session.deliveries.get_or_insert_default();
        let decision = deliveries.check(now, &situation, &limits);
        if let Some(progress) = deliveries.settled() {
            session.active = session.active.max(progress);
            session.deliveries = None;
        }
        let parting = session.parting;
        let failure = || cause_of_failure(session);
        match decision {
            Decision::Check(None) => {}
            Decision::Check(Some(tick)) => self.wheel.arm(index, tick),
            Decision::Quiet(cause) => self.end(index, cause),
            Decision::Silent(peer) => match parting {
                Some(cause) => self.close(index, cause, Closing::ResetNow),
                None => self.give_up(index, peer),
            },
            Decision::Delivered | Decision::Abandoned => {
                let cause = parting.unwrap_or_else(failure);
                self.close(index, cause, Closing::ResetAfterDelivery);
            }
        }
    }

    /// A peer is dead, though its connection is not: treats it as one that was reset.
    fn give_up(&mut self, index: u32, peer: Peer) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let side = match peer {
            Peer::Client => Some(&mut session.client),
            Peer::Server => session.server.as_mut(),
        };
        if let Some(side) = side {
            // Its last bytes are still read; then the kernel reports an end instead of nothing.
            rustix::net::shutdown(&side.socket, Shutdown::Read).ok();
            let gone = Readiness::RESET | Readiness::READABLE | Readiness::HUNG_UP;
            side.signs.set(gone);
        }
        self.relay(index);
    }

    /// Ends a session with a reset, as soon as the bytes that were accepted have arrived: a reset makes the kernel
    /// forget what it still has to send.
    pub(super) fn part(&mut self, index: u32, cause: Cause) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.parting = Some(cause);
        session.active = now;
        if cause == Cause::Down
            && let Some(server) = &mut session.server
        {
            // It may be dead, and its client should know soon.
            server.signs.set(Readiness::RESET);
            session.up.kill(&mut self.tools);
        }
        session.up.cut();
        session.down.cut();
        self.check(index);
    }
}

/// The limits of a session, by its frontend and backend.
fn limits(session: &Session) -> Limits {
    let client_silence = session.frontend.client.user_timeout.map(ticks);
    let Some(backend) = &session.backend else {
        return Limits {
            client_silence,
            ..Limits::default()
        };
    };
    let policy = &backend.policy;
    Limits {
        idle: policy.idle_timeout.map(ticks),
        client_fin: policy.client_fin.map(ticks),
        server_fin: policy.server_fin.map(ticks),
        client_silence,
        server_silence: policy.server.user_timeout.map(ticks),
    }
}

fn situation(session: &Session) -> Situation {
    let server = session.server.as_ref();
    Situation {
        up: direction(&session.up, server),
        down: direction(&session.down, Some(&session.client)),
        moved: session.active,
        is_parting: session.parting.is_some() || session.is_failing(),
    }
}

fn direction(flow: &Flow, destination: Option<&Side>) -> Direction {
    Direction {
        is_closed: is_closed(flow),
        in_hand: !flow.is_empty(),
        sent: flow.moved,
        queue: destination.and_then(queue),
    }
}

fn is_closed(flow: &Flow) -> bool {
    flow.end != End::Open
}

/// The kernel's account of the bytes for a side; none when the connection is gone.
fn queue(side: &Side) -> Option<Queue> {
    if side.signs.has(Readiness::RESET | Readiness::FAILED) {
        return None;
    }
    let unacknowledged = sys::tcp::unacknowledged(&side.socket);
    let mut queue = Queue {
        unacknowledged: u64::try_from(unacknowledged).unwrap_or(u64::MAX),
        ..Queue::default()
    };
    // Most of the time there is nothing to ask about.
    if unacknowledged > 0
        && let Ok(peer) = sys::tcp::peer_state(&side.socket)
    {
        queue.in_flight = peer.segments_in_flight > 0;
        queue.is_window_closed = peer.window == Some(0);
        queue.is_probe_open = peer.unanswered_probes > 0;
        let heard = peer.heard.as_millis() / TICK.as_millis();
        queue.heard = u64::try_from(heard).unwrap_or(u64::MAX);
    }
    Some(queue)
}

/// The side that has failed first, as far as can be told.
fn cause_of_failure(session: &Session) -> Cause {
    let failed = Readiness::RESET | Readiness::FAILED;
    if session.client.signs.has(failed) {
        Cause::Client
    } else {
        Cause::Server
    }
}
