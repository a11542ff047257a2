//! Flows that began elsewhere: in the process before this one, or before a reload.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use balance::pool::{Pool, Server};

use super::{Ending, Flow, FlowId, Flows, Key, NONE};

/// The known facts about such a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The client's address.
    pub client: SocketAddr,
    /// The address it sends to, if that is known.
    pub local: Option<IpAddr>,
    /// The server's name.
    pub server: Arc<str>,
    /// The server's address.
    pub server_address: SocketAddr,
    /// Datagrams from the client.
    pub requests: u64,
    /// Datagrams to the client.
    pub responses: u64,
    /// How long nothing has moved.
    pub idle: Duration,
}

impl Flows {
    /// Continues flows that began elsewhere; returns the number of each, in the same order. One ends there if
    /// its server no longer keeps its sessions, its source may no longer send, or it is known already.
    ///
    /// Poll the outputs afterwards: flows beyond the limits end, the longest idle first.
    pub fn handle_adopted(&mut self, known: &[Known], now: Instant) -> Vec<Option<FlowId>> {
        self.advance(now);
        let servers: HashMap<(Arc<str>, SocketAddr), Arc<Server>> = match &self.pool {
            Some(pool) => keeping(pool)
                .map(|server| ((Arc::clone(&server.name), server.address), server))
                .map(|(key, server)| (key, Arc::clone(server)))
                .collect(),
            None => HashMap::new(),
        };
        // From the longest idle to the newest, so that they are in order.
        let mut order: Vec<(usize, &Known)> = known.iter().enumerate().collect();
        order.sort_by_key(|(_, known)| std::cmp::Reverse(known.idle));
        let mut ids = vec![None; known.len()];
        for (place, known) in order {
            let server = servers.get(&(Arc::clone(&known.server), known.server_address));
            if let (Some(server), Some(id)) = (server, ids.get_mut(place)) {
                *id = self.adopt(known, server);
            }
        }
        // An index is used again when a flow has made room for a later one.
        for id in &mut ids {
            *id = id.filter(|id| self.find(*id).is_some());
        }
        ids
    }

    fn adopt(&mut self, known: &Known, server: &Arc<Server>) -> Option<FlowId> {
        let key = Key {
            client: known.client,
            local: known.local,
        };
        let client = known.client.ip();
        // A flow that has had its requests gets only answers.
        let is_complete = |most: u32| known.requests >= u64::from(most);
        let is_open = !self.settings.requests.is_some_and(is_complete);
        let is_known = is_open && self.by_key.contains_key(&key);
        if is_known || !self.frontend.sources.admit(client) {
            return None;
        }
        let limits = self.frontend.limits.as_ref();
        let admission = limits.map(|limits| limits.adopt(client, self.now));
        if self.len() >= self.most() {
            self.close(self.oldest, Ending::Evicted);
        }
        let index = self.place(Flow {
            key,
            server: Arc::clone(server),
            _slot: server.load.adopt(),
            _admission: admission,
            moved_at: self.now.checked_sub(known.idle).unwrap_or(self.now),
            requests: known.requests,
            responses: known.responses,
            newer: NONE,
            older: NONE,
        });
        if is_open {
            self.by_key.insert(key, index);
        }
        self.push_newest(index);
        let tally = &self.frontend.tally;
        tally.sessions.fetch_add(1, Ordering::Relaxed);
        tally.note_most();
        self.at(index).map(|(id, _)| id)
    }
}

/// The servers of a pool that keep the sessions they have.
pub(super) fn keeping(pool: &Pool) -> impl Iterator<Item = &Arc<Server>> {
    let used: Vec<usize> = pool.in_use().map(|(index, _)| index).collect();
    pool.servers
        .iter()
        .enumerate()
        .filter(move |(index, server)| server.eligibility.keeps_sessions() || used.contains(index))
        .map(|(_, server)| server)
}
