//! Commands to a worker from outside: listeners, tables, questions, and to give its sessions away.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use balance::pool::Eligibility;
use balance::table::{Backend, OnDown, OnUp, Table};
use l4_core::access_log::Cause;
use l4_core::slab::Token;
use rustix::event::epoll;

use super::{Life, Listening, Watch, Worker};
use crate::relay::command::Command;
use crate::relay::connection::{FrozenSession, Session, Stage};
use crate::relay::listener::Share;
use crate::relay::session_info::Filter;

impl Worker {
    /// Does what is in the mailbox.
    pub(super) fn obey(&mut self) {
        let mailbox = Arc::clone(&self.mailbox);
        let (commands, called) = mailbox.take();
        for command in commands {
            match command {
                Command::Listeners(shares) => self.serve_listeners(shares),
                Command::Sessions(filter, answer) => {
                    let now = self.now;
                    let fitting = self.sessions.iter().filter(|(_, s)| s.fits(&filter));
                    // The caller may have gone.
                    answer
                        .send(fitting.map(|(_, s)| s.info(now)).collect())
                        .ok();
                }
                Command::CountOlder(age, answer) => {
                    let now = self.now;
                    let sessions = self.sessions.iter();
                    let older = sessions.filter(|(_, session)| session.age(now) > age);
                    answer.send(older.count()).ok();
                }
                Command::Kill(filter, answer) => {
                    answer.send(self.kill(&filter)).ok();
                }
                Command::ResetLocal(addresses, answer) => {
                    answer.send(self.reset_local(&addresses)).ok();
                }
                Command::Accepted(socket, peer, frontend) => self.begin(socket, peer, frontend),
                Command::KeepAll(answer) => {
                    self.keeps_all = true;
                    answer.send(()).ok();
                }
                Command::Freeze(answer) => {
                    let parcels = self.freeze();
                    if let Err(lost) = answer.send(parcels) {
                        self.adopt(lost.0);
                    }
                }
                Command::Adopt(parcels) => self.adopt(parcels),
                Command::StopAccepting => self.stop_accepting(),
                Command::Stop => self.stop(),
            }
        }
        for token in called {
            self.called(Token::from_bits(token));
        }
    }

    fn kill(&mut self, filter: &Filter) -> usize {
        self.end_those(Cause::Killed, |session| session.fits(filter))
    }

    fn reset_local(&mut self, addresses: &[IpAddr]) -> usize {
        self.end_those(Cause::Proxy, |session| {
            session
                .local()
                .is_some_and(|local| addresses.contains(&local.ip().to_canonical()))
        })
    }

    fn end_those(&mut self, cause: Cause, fits: impl Fn(&Session) -> bool) -> usize {
        let fitting: Vec<u32> = self
            .sessions
            .iter()
            .filter(|(_, session)| fits(session))
            .map(|(index, _)| index)
            .collect();
        for index in &fitting {
            self.end(*index, cause);
        }
        fitting.len()
    }

    //--- Listeners

    fn serve_listeners(&mut self, shares: Vec<Share>) {
        for place in 0..self.listeners.len() {
            let Some(Some(listening)) = self.listeners.get(place) else {
                continue;
            };
            if !shares.iter().any(|share| share.id == listening.id) {
                self.drop_listener(place);
            }
        }
        for share in shares {
            let served = self
                .listeners
                .iter_mut()
                .flatten()
                .find(|listening| listening.id == share.id);
            if let Some(listening) = served {
                listening.name = share.frontend;
            } else {
                self.add_listener(share);
            }
        }
        self.name_frontends();
    }

    fn add_listener(&mut self, share: Share) {
        let listening = Listening {
            id: share.id,
            name: share.frontend,
            frontend: None,
            socket: share.socket,
            shared: share.shared,
            state: Watch::Full,
        };
        let free = self.listeners.iter().position(Option::is_none);
        match free.and_then(|place| self.listeners.get_mut(place)) {
            Some(place) => *place = Some(listening),
            None => self.listeners.push(Some(listening)),
        }
    }

    fn drop_listener(&mut self, place: usize) {
        if let Some(Some(listening)) = self.listeners.get_mut(place).map(Option::take) {
            epoll::delete(&self.epoll, &*listening.socket).ok();
        }
    }

    /// Looks up the frontend of every listener. One that has none accepts nothing.
    fn name_frontends(&mut self) {
        for listening in self.listeners.iter_mut().flatten() {
            listening.frontend = self.table.get().frontend(&listening.name).cloned();
        }
        self.wake_listeners();
    }

    pub(super) fn stop_accepting(&mut self) {
        for place in 0..self.listeners.len() {
            // Connections in a shared socket belong to the process that shares it; those in an own one would be
            // lost with it.
            let serves = self.life == Life::Serving;
            let own = serves
                && matches!(self.listeners.get(place), Some(Some(listening)) if !listening.shared);
            if own {
                self.accept_all(place);
            }
            self.drop_listener(place);
        }
    }

    //--- Table

    /// Takes up a new table, if there is one.
    pub(super) fn look_at_table(&mut self) {
        let before = self.table.shared();
        if !self.table.refresh() {
            return;
        }
        self.name_frontends();
        self.end_on_servers_gone(&before);
        self.stir_queues();
    }

    /// Ends the sessions of servers that went down or into maintenance, where that is the policy.
    fn end_on_servers_gone(&mut self, before: &Table) {
        let table = self.table.shared();
        let gone = gone(before, &table);
        if gone.is_empty() {
            return;
        }
        let on_gone: Vec<(u32, Cause)> = self
            .sessions
            .iter()
            .filter_map(|(index, session)| {
                // One that waits has left the server that it has tried, and one that is parting ends already.
                session.slot.as_ref()?;
                if session.parting.is_some() {
                    return None;
                }
                let cause = gone.get(&session.target.as_ref()?.load.id())?;
                Some((index, *cause))
            })
            .collect();
        for (index, cause) in on_gone {
            self.leave_server(index, cause);
        }
    }

    /// Ends a session whose server is gone.
    fn leave_server(&mut self, index: u32, cause: Cause) {
        // One that is not connected yet can go elsewhere.
        let connects = self.sessions.get(index).map(|s| s.stage) == Some(Stage::Connecting);
        if connects && cause == Cause::Down {
            return self.attempt_failed(index, rustix::io::Errno::CONNABORTED);
        }
        // A backup server that is not needed any more is no server that went away.
        if cause == Cause::Down {
            self.count_reset(index);
        }
        self.end(index, cause);
    }

    fn count_reset(&self, index: u32) {
        self.counters()
            .reset_on_down
            .fetch_add(1, Ordering::Relaxed);
        if let Some(server) = self.sessions.get(index).and_then(|s| s.target.as_ref()) {
            let tally = &server.load.tally;
            tally.resets.fetch_add(1, Ordering::Relaxed);
        }
    }

    //--- Handover

    /// Takes every session out, and stops. The epoll goes with them: their sockets live on in another
    /// process, and would continue to report to it.
    fn freeze(&mut self) -> Vec<FrozenSession> {
        self.life = Life::Frozen;
        if let Err(error) = self.new_epoll() {
            tracing::error!(worker = self.number, %error, "Events cannot be watched");
        }
        for listening in self.listeners.iter_mut().flatten() {
            listening.state = Watch::Full;
        }
        let mut parcels = Vec::with_capacity(self.sessions.len());
        for index in self.indices() {
            self.wheel.disarm(index);
            if let Some(mut session) = self.sessions.remove(index) {
                let table = self.table.get();
                session.has_outlived_server = is_server_gone(&session, table);
                if let Some(early) = &mut session.early {
                    early.ticket = None;
                }
                let pipes = &mut self.tools.pipes;
                session.up.leave(Some(&session.client), pipes);
                session.down.leave(session.server.as_ref(), pipes);
                session.is_listed = false;
                session.holds_pipe = false;
                parcels.push(FrozenSession(session));
            }
        }
        self.again.clear();
        self.gathering.clear();
        self.piped.clear();
        self.n_queued = 0;
        parcels
    }

    /// Continues sessions of another worker or process.
    fn adopt(&mut self, parcels: Vec<FrozenSession>) {
        if self.life == Life::Frozen {
            self.life = Life::Serving;
        }
        self.keeps_all = false;
        for FrozenSession(session) in parcels {
            self.adopt_one(session);
        }
        self.wake_listeners();
    }

    fn adopt_one(&mut self, mut session: Session) {
        session.up.arrive(&mut self.tools.pipes);
        session.down.arrive(&mut self.tools.pipes);
        session.active = self.now.tick();
        session.parting = None;
        session.deliveries = None;
        // The kernel reports every socket that is added as it stands, so that nothing is missed.
        session.client.signs.forget();
        forget_user_timeout(&session.client.socket);
        if let Some(server) = &mut session.server {
            server.signs.forget();
            forget_user_timeout(&server.socket);
        }
        let stage = session.stage;
        let session_is_routed = session.backend.is_some();
        let hello = session.client_hello();
        let wait = session.frontend.route.inspect_timeout;
        let attempt = session.backend.as_ref().map(|b| b.policy.connect_timeout);
        let token = self.sessions.insert(session);
        let Some(session) = self.sessions.get(token.index) else {
            return;
        };
        let has_lost_server =
            !session.has_outlived_server && has_lost_server(session, &self.table.shared());
        let mut watched = self.watch_client(token, &session.client.socket);
        if let Some(server) = &session.server {
            watched = watched.and_then(|()| self.watch_server(token, &server.socket));
        }
        if let Err(error) = watched {
            tracing::error!(%error, "A session that was handed over cannot be watched");
            return self.end(token.index, Cause::Resource);
        }
        self.grow(token);
        match stage {
            Stage::Connecting | Stage::Relaying if has_lost_server => {
                self.leave_server(token.index, Cause::Down);
            }
            Stage::Inspecting => {
                self.arm(token.index, wait);
                self.inspect(token.index);
            }
            Stage::Connecting => self.arm(token.index, attempt.unwrap_or_default()),
            // The backend it was to go to may be no more.
            Stage::Queued | Stage::Pausing if session_is_routed => self.choose(token.index),
            Stage::Queued | Stage::Pausing => self.route(token.index, hello),
            Stage::Relaying => self.relay(token.index),
        }
    }
}

/// Takes back what an older version has set: this limit of the kernel ends connections whose peer reads nothing for
/// a while, though it answers.
fn forget_user_timeout(socket: &OwnedFd) {
    // An error means that the connection is gone.
    rustix::net::sockopt::set_tcp_user_timeout(socket, 0).ok();
}

/// The loads of servers whose sessions are to be ended by the policy of the newer table, and why: they
/// were up in the older one, or are backup servers that only that one uses.
fn gone(before: &Table, after: &Table) -> HashMap<u32, Cause> {
    let mut gone = HashMap::new();
    for backend in &after.backends {
        let Some(old) = before.backend(&backend.pool.name) else {
            continue;
        };
        if backend.policy.on_up == OnUp::Reset && uses_backups(old) && uses_first(backend) {
            let backups = backend.pool.servers.iter().filter(|server| server.backup);
            gone.extend(backups.map(|server| (server.load.id(), Cause::Up)));
        }
        if backend.policy.on_down != OnDown::Reset {
            continue;
        }
        for server in &backend.pool.servers {
            if !is_gone(&server.eligibility) {
                continue;
            }
            let load = server.load.id();
            let was_gone = old
                .pool
                .servers
                .iter()
                .any(|old| old.load.id() == load && is_gone(&old.eligibility));
            if !was_gone {
                gone.insert(load, Cause::Down);
            }
        }
    }
    gone
}

/// True when the server of a session went since it was chosen, and this table has such sessions end.
fn has_lost_server(session: &Session, table: &Table) -> bool {
    let backend = session.backend_name().and_then(|name| table.backend(name));
    backend.is_some_and(|backend| backend.policy.on_down == OnDown::Reset)
        && is_server_gone(session, table)
}

/// True when the server of a session was in service when it was chosen, and is not by this table.
fn is_server_gone(session: &Session, table: &Table) -> bool {
    let (Some(server), Some(name)) = (&session.target, session.backend_name()) else {
        return false;
    };
    let known = table.backend(name).and_then(|backend| {
        let mut servers = backend.pool.servers.iter();
        servers.find(|known| known.load.id() == server.load.id())
    });
    !is_gone(&server.eligibility) && known.is_some_and(|known| is_gone(&known.eligibility))
}

/// True when new connections go to backup servers.
fn uses_backups(backend: &Backend) -> bool {
    backend.pool.in_use().any(|(_, server)| server.backup)
}

/// True when new connections go to servers of the first choice.
fn uses_first(backend: &Backend) -> bool {
    let mut used = backend.pool.in_use();
    used.any(|(_, server)| !server.backup && server.eligibility.is_up())
}

fn is_gone(eligibility: &Eligibility) -> bool {
    !eligibility.keeps_sessions()
}
