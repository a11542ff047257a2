//! Moves the bytes of a session, and sees to its end.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use l4_core::access_log::{Cause, Counts, Phase, Record, Termination, Timers};
use l4_core::ending::{Closing, closing};
use l4_core::timers::ticks;
use rustix::net::{RecvFlags, Shutdown};

use super::{LAST_DELIVERY, Life, Worker};
use crate::relay::connection::{Session, Stage, reset_on_close};
use crate::relay::pump::{End, Flow, Readiness, Side, Tools, Turn};

/// Buffers of unread bytes that are read and dropped when a connection is closed: 1 MiB.
const MOST_UNREAD: usize = 16;

/// Bytes moved after which the counters are updated, so that a transfer of hours shows as it goes.
const TELL_EVERY: u64 = 1 << 20;

/// The next step of a session once its flows rest.
enum Verdict {
    Continue,
    End(Cause),
    /// It ends already, once its bytes are delivered.
    Parting,
}

impl Worker {
    /// Moves bytes both ways, and ends the session when there are no more.
    pub(in crate::relay) fn relay(&mut self, index: u32) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let before = [session.up.moved, session.down.moved];
        let turn = pump(session, &mut self.tools);
        let verdict = match session.parting {
            Some(_) => Verdict::Parting,
            None => judge(session, &mut self.tools),
        };
        let after = [session.up.moved, session.down.moved];
        for (at, (before, after)) in session.moved_at.iter_mut().zip(before.iter().zip(&after)) {
            if before != after {
                *at = self.now;
            }
        }
        if after != before {
            let [up, down] = after;
            session.active = now;
            if up + down - (session.counted.0 + session.counted.1) >= TELL_EVERY {
                tell(session);
            }
        }
        match verdict {
            Verdict::End(cause) => self.end(index, cause),
            Verdict::Parting => self.check(index),
            Verdict::Continue => {
                let gathers = session.is_gathering();
                if (turn == Turn::Again || gathers)
                    && let Some(token) = self.sessions.token(index)
                {
                    match turn {
                        Turn::Again => self.again.push(token),
                        Turn::Rest => self.gather(token),
                    }
                }
                self.watch_pipes(index);
                self.set_deadline(index);
            }
        }
    }

    //--- End

    /// Ends a session for a cause, which says how its sockets are closed.
    pub(in crate::relay) fn end(&mut self, index: u32, cause: Cause) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        match closing(cause, phase(session, cause), session.is_whole()) {
            Closing::ResetAfterDelivery if session.parting.is_none() => self.part(index, cause),
            closing => self.close(index, cause, closing),
        }
    }

    /// Closes both sides, gives back all the session had, and writes its record.
    pub(super) fn close(&mut self, index: u32, cause: Cause, closing: Closing) {
        self.wheel.disarm(index);
        self.leave_queue(index);
        let Some(mut session) = self.sessions.remove(index) else {
            return;
        };
        session.up.release(&mut self.tools.pipes);
        session.down.release(&mut self.tools.pipes);
        let sides = [Some(&session.client), session.server.as_ref()];
        for side in sides.into_iter().flatten() {
            match closing {
                // Both ends have said all they had to.
                Closing::Orderly if cause == Cause::Normal => {}
                Closing::Orderly => close_gently(&side.socket, &mut self.tools.scratch),
                Closing::ResetAfterDelivery | Closing::ResetNow => reset_on_close(&side.socket),
            }
        }
        tell(&mut session);
        count_abort(&session, cause);
        self.note_age(self.now.since(session.accepted));
        if session.frontend.log && self.shared.log.is_on() {
            let termination = Termination::new(cause, phase(&session, cause));
            let record = self.record(&session, termination);
            self.shared.log.write(record);
        }
        let frontend = Arc::clone(&session.frontend);
        // The room it took is free once its sockets are closed.
        drop(session);
        self.release(&frontend);
    }

    fn record(&self, session: &Session, termination: Termination) -> Record {
        let connected = session.stage == Stage::Relaying;
        let frontend = &session.frontend;
        let load = session.target.as_ref().map(|server| &server.load);
        Record {
            accepted: self.shared.epoch.wall(session.accepted),
            client: session.source(),
            local: session.destination(),
            frontend: Arc::clone(&frontend.name),
            backend: session.backend_name().cloned(),
            server: session
                .target
                .as_ref()
                .map(|server| Arc::clone(&server.name)),
            server_address: session.target.as_ref().map(|server| server.address),
            name: session
                .named
                .as_ref()
                .and_then(|named| named.server_name.as_deref())
                .map(Arc::from),
            timers: Timers {
                queue: session.target.as_ref().map(|_| session.queued.into()),
                connect: connected.then(|| session.connected.into()),
                total: self.now.since(session.accepted),
            },
            bytes_in: session.up.moved,
            bytes_out: session.down.moved,
            termination,
            generation: NonZeroU64::new(session.generation),
            counts: Counts {
                process: self.counters().sessions.load(Ordering::Relaxed),
                frontend: frontend.tally.sessions.load(Ordering::Relaxed),
                backend: session.backend.as_ref().map_or(0, |backend| {
                    let servers = backend.pool.servers.iter();
                    servers
                        .map(|server| u64::from(server.load.sessions()))
                        .sum()
                }),
                server: load.map_or(0, |load| u64::from(load.sessions())),
                retries: u32::from(session.retries),
                is_redispatched: session.retries > 0 && connected,
                server_queue: 0,
                backend_queue: u64::from(session.ahead),
            },
        }
    }

    /// The process stops: sessions end once their bytes are delivered, or a moment from now.
    pub(super) fn stop(&mut self) {
        self.life = Life::Stopping;
        self.stop_at = self.now.tick().saturating_add(ticks(LAST_DELIVERY));
        self.stop_accepting();
        for index in self.indices() {
            match self.sessions.get(index).map(|s| (s.stage, s.parting)) {
                Some((Stage::Relaying, None)) => self.part(index, Cause::Proxy),
                Some((Stage::Relaying, Some(_))) | None => {}
                Some(_) => self.close(index, Cause::Proxy, Closing::ResetNow),
            }
        }
    }

    /// Resets the sessions that are left.
    pub(super) fn end_all(&mut self) {
        for index in self.indices() {
            self.close(index, Cause::Proxy, Closing::ResetNow);
        }
    }
}

/// Sends the end, and reads what the peer has sent: bytes that are unread make the kernel reset the connection.
fn close_gently(socket: &OwnedFd, scratch: &mut [u8]) {
    // An error means that the connection is gone.
    if rustix::net::shutdown(socket, Shutdown::Write).is_err() {
        return;
    }
    for _ in 0..MOST_UNREAD {
        match rustix::net::recv(socket, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn pump(session: &mut Session, tools: &mut Tools) -> Turn {
    let Session {
        client,
        server: Some(server),
        up,
        down,
        ..
    } = session
    else {
        return Turn::Rest;
    };
    let mut turn = up.pump(client, server, down.end, tools);
    let signs = client.signs;
    if down.pump(server, client, up.end, tools) == Turn::Again {
        turn = Turn::Again;
    }
    // A client that took no more may have left something to be read.
    if client.signs != signs && up.pump(client, server, down.end, tools) == Turn::Again {
        turn = Turn::Again;
    }
    turn
}

/// Decides how a session continues. A reset travels behind the bytes that came before it, and nothing
/// travels towards a side that is gone.
fn judge(session: &mut Session, tools: &mut Tools) -> Verdict {
    let Session {
        client,
        server: Some(server),
        up,
        down,
        ..
    } = session
    else {
        return Verdict::Continue;
    };
    let client_gone = has_told_all(client, up, down, tools);
    let server_gone = has_told_all(server, down, up, tools);
    if client_gone {
        Verdict::End(Cause::Client)
    } else if server_gone {
        Verdict::End(Cause::Server)
    } else if up.end == End::Finished && down.end == End::Finished {
        Verdict::End(Cause::Normal)
    } else {
        Verdict::Continue
    }
}

/// True when `side` was reset and the other one has all that came from it. Nothing goes to it any more.
fn has_told_all(side: &mut Side, from: &Flow, to: &mut Flow, tools: &mut Tools) -> bool {
    // Nothing more is read from a side that has closed: only this tells that it is gone permanently.
    if side.signs.has(Readiness::FAILED) && !matches!(from.end, End::Open | End::Resetting) {
        side.signs.set(Readiness::RESET);
    }
    if side.signs.has(Readiness::RESET) && to.end != End::Finished {
        to.kill(tools);
    }
    match from.end {
        End::Resetting => from.is_empty(),
        End::Finished | End::Dead => side.signs.has(Readiness::RESET),
        End::Open | End::Finishing => false,
    }
}

fn phase(session: &Session, cause: Cause) -> Phase {
    match session.stage {
        _ if cause == Cause::Normal => Phase::Done,
        Stage::Inspecting => Phase::Request,
        Stage::Queued => Phase::Queue,
        Stage::Pausing | Stage::Connecting => Phase::Connect,
        Stage::Relaying if matches!(session.down.end, End::Finishing | End::Finished) => {
            match cause {
                Cause::Client | Cause::ClientTimeout => Phase::Last,
                _ => Phase::Data,
            }
        }
        Stage::Relaying => Phase::Data,
    }
}

/// Counts a session that one side broke off while data was passed.
fn count_abort(session: &Session, cause: Cause) {
    let Some(server) = &session.target else {
        return;
    };
    let tally = &server.load.tally;
    let aborts = match (session.stage, cause) {
        (Stage::Relaying, Cause::Client) => &tally.client_aborts,
        (Stage::Relaying, Cause::Server) => &tally.server_aborts,
        _ => return,
    };
    aborts.fetch_add(1, Ordering::Relaxed);
}

/// Tells the counters what was moved since they were last told.
fn tell(session: &mut Session) {
    let moved = (session.up.moved, session.down.moved);
    let new = (moved.0 - session.counted.0, moved.1 - session.counted.1);
    session.counted = moved;
    let tally = &session.frontend.tally;
    tally.bytes_in.fetch_add(new.0, Ordering::Relaxed);
    tally.bytes_out.fetch_add(new.1, Ordering::Relaxed);
    if let Some(server) = &session.target {
        let tally = &server.load.tally;
        tally.bytes_in.fetch_add(new.0, Ordering::Relaxed);
        tally.bytes_out.fetch_add(new.1, Ordering::Relaxed);
    }
}
