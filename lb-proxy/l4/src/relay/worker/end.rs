//! Moves the bytes of a session, and sees to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use l4_core::access_log::{Cause, Counts, Phase, Record, Termination, Timers};
use l4_core::timers::ticks;

use super::Worker;
use crate::relay::connection::{HalfClosed, Session, Stage, reset_on_close};
use crate::relay::pump::{End, Flow, Readiness, Side, Tools, Turn};

/// How long the other side of one that was reset may take none of the bytes that are left.
const PARTING: Duration = Duration::from_secs(10);

/// The interval of the checks whether they have.
const PARTING_LOOK: Duration = Duration::from_millis(10);

/// Bytes moved after which the counters are updated, so that a transfer of hours shows as it goes.
const TELL_EVERY: u64 = 1 << 20;

/// Why a session ends, and how its sockets are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) struct Ending {
    cause: Cause,
    reset: bool,
}

impl Ending {
    /// Both sides were closed in the usual way.
    const NORMAL: Self = Self {
        cause: Cause::Normal,
        reset: false,
    };

    /// Both sides are reset.
    pub(in crate::relay) fn reset(cause: Cause) -> Self {
        Self { cause, reset: true }
    }
}

/// The next step of a session once its flows rest.
enum Verdict {
    GoOn,
    End(Ending),
    /// As soon as what was sent has arrived.
    Part(Cause),
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
        let verdict = judge(session, &mut self.tools);
        let after = [session.up.moved, session.down.moved];
        for (at, (before, after)) in session.moved_at.iter_mut().zip(before.iter().zip(&after)) {
            if before != after {
                *at = self.now;
            }
        }
        if after != before {
            let [up, down] = after;
            session.active = now;
            // A side that takes bytes gets more time for them.
            session.parting = None;
            if up + down - (session.counted.0 + session.counted.1) >= TELL_EVERY {
                tell(session);
            }
        }
        match verdict {
            Verdict::End(ending) => self.end(index, ending),
            Verdict::Part(cause) => self.part(index, cause),
            Verdict::GoOn => {
                let gathers = session.is_gathering();
                if (turn == Turn::Again || gathers)
                    && let Some(token) = self.sessions.token(index)
                {
                    match turn {
                        Turn::Again => self.again.push(token),
                        Turn::Rest => self.gather(token),
                    }
                }
                self.set_deadline(index);
            }
        }
    }

    /// The deadline of a session whose bytes move, if it has one.
    fn set_deadline(&mut self, index: u32) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.is_failing() {
            let until = now.saturating_add(ticks(PARTING));
            let parting = session.parting.get_or_insert(HalfClosed { until, left: 0 });
            return self.wheel.arm(index, parting.until);
        }
        let Some((limit, _)) = quiet_limit(session) else {
            return;
        };
        let due = session
            .active
            .saturating_add(ticks(limit))
            .saturating_add(1);
        // Bytes only ever move a deadline away: the look at that moment detects it.
        if self.wheel.due(index).is_none_or(|armed| armed > due) {
            self.wheel.arm(index, due);
        }
    }

    /// A deadline of the session has come, whatever it waits for.
    pub(in crate::relay) fn on_deadline(&mut self, index: u32) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        match session.stage {
            Stage::Inspecting => self.inspected_long_enough(index),
            Stage::Queued => self.queued_too_long(index),
            Stage::Pausing => self.paused_long_enough(index),
            Stage::Connecting => self.attempt_timed_out(index),
            Stage::Relaying => {
                if let Some(parting) = session.parting {
                    let cause = cause_of_failure(session);
                    if now >= parting.until {
                        self.end(index, Ending::reset(cause));
                    } else {
                        self.relay(index);
                    }
                    return;
                }
                let Some((limit, cause)) = quiet_limit(session) else {
                    return;
                };
                if session.active.saturating_add(ticks(limit)) < now {
                    self.end(index, Ending::reset(cause));
                } else {
                    self.set_deadline(index);
                }
            }
        }
    }

    /// Ends a session that was reset, as soon as what was sent to the other side has arrived: a reset
    /// makes the kernel forget what it still has to send.
    fn part(&mut self, index: u32, cause: Cause) {
        let now = self.now.tick();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let left: usize = [Some(&session.client), session.server.as_ref()]
            .into_iter()
            .flatten()
            .filter(|side| !side.signs.has(Readiness::RESET))
            .map(|side| sys::option::unsent(&side.socket))
            .sum();
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let until = match session.parting {
            // Nothing has arrived since it was last looked.
            Some(parting) if left >= parting.left && parting.left > 0 => parting.until,
            _ => now.saturating_add(ticks(PARTING)),
        };
        session.parting = Some(HalfClosed { until, left });
        let waits = left > 0 && now < until;
        if waits {
            self.arm(index, PARTING_LOOK);
        } else {
            self.end(index, Ending::reset(cause));
        }
    }

    //--- End

    /// Closes both sides, gives back all the session had, and writes its record.
    pub(in crate::relay) fn end(&mut self, index: u32, ending: Ending) {
        self.wheel.disarm(index);
        self.leave_queue(index);
        let Some(mut session) = self.sessions.remove(index) else {
            return;
        };
        session.up.release(&mut self.tools.pipes);
        session.down.release(&mut self.tools.pipes);
        if ending.reset {
            reset_on_close(&session.client.socket);
            if let Some(server) = &session.server {
                reset_on_close(&server.socket);
            }
        }
        tell(&mut session);
        count_abort(&session, ending.cause);
        self.note_age(self.now.since(session.accepted));
        if session.frontend.log && self.shared.log.is_on() {
            let record = self.record(&session, termination(&session, ending.cause));
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

    /// Ends every session with a reset: the process stops.
    pub(super) fn end_all(&mut self) {
        for index in self.indices() {
            self.end(index, Ending::reset(Cause::Proxy));
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
        return Verdict::GoOn;
    };
    let client_gone = has_told_all(client, up, down, tools);
    let server_gone = has_told_all(server, down, up, tools);
    if client_gone {
        Verdict::Part(Cause::Client)
    } else if server_gone {
        Verdict::Part(Cause::Server)
    } else if up.end == End::Finished && down.end == End::Finished {
        Verdict::End(Ending::NORMAL)
    } else {
        Verdict::GoOn
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

/// The side that has failed first, as far as can be told.
fn cause_of_failure(session: &Session) -> Cause {
    let failed = Readiness::RESET | Readiness::FAILED;
    if session.client.signs.has(failed) {
        Cause::Client
    } else {
        Cause::Server
    }
}

/// How long a session may be quiet, and whose fault it is then.
fn quiet_limit(session: &Session) -> Option<(Duration, Cause)> {
    let policy = &session.backend.as_ref()?.policy;
    let closed = |end: End| end != End::Open;
    match (closed(session.up.end), closed(session.down.end)) {
        (false, true) => policy
            .client_fin
            .or(policy.idle_timeout)
            .map(|limit| (limit, Cause::ClientTimeout)),
        (true, false) => policy
            .server_fin
            .or(policy.idle_timeout)
            .map(|limit| (limit, Cause::ServerTimeout)),
        _ => policy
            .idle_timeout
            .map(|limit| (limit, Cause::ClientTimeout)),
    }
}

fn termination(session: &Session, cause: Cause) -> Termination {
    let phase = match session.stage {
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
    };
    Termination::new(cause, phase)
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
