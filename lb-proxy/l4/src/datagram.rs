//! Balancing of UDP.
//!
//! Clients' datagrams come through the UDP engine of [`daemon::udp`]; each flow has a socket of
//! its own that is connected to its server, so that the kernel tells answers apart and says when
//! no process listens there. For each thread of the engine another waits for answers:
//!
//! ```text
//!  client ──▶ engine's thread ──▶ ┌───────┐ ──▶ socket of the flow ──▶ server
//!                                 │ Flows │
//!  client ◀── return path ◀────── └───────┘ ◀── answers' thread ◀───── server, or ICMP
//! ```
//!
//! - Sockets are not used again for another flow: a late answer would reach the wrong client. A fresh
//!   source port per flow is also what makes answers hard to forge.
//! - One receive per socket that is ready, as each is one flow: a batch would mostly be of one.
//! - Answers leave from the address the client sent to, also on a wildcard listener.
//! - Datagrams have any length that UDP has. If the kernel merges those of one client or server, they are sent on as
//!   one and cut by the kernel or the NIC (`UDP_GRO`, `UDP_SEGMENT`); a frontend that counts datagrams takes each alone.
//! - When a server refuses a datagram (ICMP), the flow moves at once, and a request that was not
//!   answered yet goes to the next server.
//!
//! - Flows continue in another balancer, of this process or its successor: datagrams that a client or a server sends
//!   meanwhile wait in the sockets, which both have.
//!
//! [`l4_core::flow`] decides; nothing here does.

mod flow_handover;
mod flow_socket;
mod lost;
mod shard;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use balance::table::Table;
use daemon::clock;
use daemon::latest::{Latest, Reader};
use daemon::run::Heartbeat;
use daemon::udp::{Engine, EngineOptions, LONGEST};
use l4_core::flow::{Counts, FlowInfo, Settings};
use tracing::{error, warn};

pub use self::flow_handover::{IncomingFlow, OutgoingFlow};
pub use self::lost::Lost;

use self::shard::{Requests, Shard};
use crate::relay::{Report, raise_descriptor_limit};

/// How long a flow must have been silent to be given up, when the process ends.
const SILENCE: Duration = Duration::from_secs(1);

/// How often a drain looks whether flows are silent.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How long threads may take until they are about to stop: several times what they need. One that
/// hangs gets more time afterwards.
const ALERT_LIMIT: Duration = Duration::from_secs(1);

/// How often to look whether they are.
const ALERT_LOOK: Duration = Duration::from_millis(1);

/// Datagrams received with one system call at most. Each has room for the longest, so that a thread has 2 MiB of
/// memory for them; it uses no more of that than the datagrams need.
const BATCH: usize = 32;

/// Descriptors of which flows may have this part; the rest is for connections.
const PART_OF_DESCRIPTORS: u64 = 2;

/// A frontend's sockets.
#[derive(Debug)]
pub struct Listener {
    /// The frontend's name in the [`Table`].
    pub frontend: Arc<str>,
    /// Its sockets, with a thread each.
    pub sockets: Vec<UdpSocket>,
    /// Its flows.
    pub settings: Settings,
}

/// How a frontend stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name.
    pub frontend: Arc<str>,
    /// Flows at this moment.
    pub flows: usize,
    /// The counters.
    pub counts: Counts,
    /// Datagrams that got lost.
    pub lost: Lost,
}

/// Threads that balance datagrams. Dropping it stops them.
pub struct Balancer {
    fronts: Vec<Front>,
}

/// One frontend.
struct Front {
    name: Arc<str>,
    /// As many as there are shards, and their inodes.
    sockets: Vec<(u64, Arc<UdpSocket>)>,
    engine: Option<Engine>,
    /// Whether the kernel may merge datagrams of one client.
    merged: bool,
    shards: Vec<Arc<Shard>>,
    threads: Vec<(String, JoinHandle<()>, Heartbeat)>,
}

impl Balancer {
    /// Starts to balance what comes to `listeners`, as the table in `cell` says.
    ///
    /// # Errors
    ///
    /// When a socket cannot be used or a thread cannot be made.
    pub fn start(
        listeners: Vec<Listener>,
        cell: &Arc<Latest<Table>>,
        report: &Arc<dyn Report>,
    ) -> io::Result<Self> {
        let mut balancer = Self::new(listeners, cell, report)?;
        balancer.run()?;
        Ok(balancer)
    }

    /// A balancer that does not serve yet: datagrams for `listeners` wait there.
    ///
    /// # Errors
    ///
    /// When a socket cannot be used.
    pub fn new(
        listeners: Vec<Listener>,
        cell: &Arc<Latest<Table>>,
        report: &Arc<dyn Report>,
    ) -> io::Result<Self> {
        let most = most_flows(listeners.iter().map(|listener| listener.settings.max_flows));
        let mut balancer = Self { fronts: Vec::new() };
        for mut listener in listeners {
            listener.settings.max_flows = listener.settings.max_flows.min(most);
            let front = Front::new(listener, cell, report)?;
            balancer.fronts.push(front);
        }
        Ok(balancer)
    }

    /// Serves.
    ///
    /// # Errors
    ///
    /// When a socket cannot be used or a thread cannot be made.
    pub fn run(&mut self) -> io::Result<()> {
        self.fronts.iter_mut().try_for_each(Front::run)
    }

    //--- Flows that move

    /// Stops serving until [`Balancer::run`]: datagrams of clients and servers wait in the sockets. It
    /// takes up to 250 ms, nearly all of which it still serves.
    pub fn pause(&mut self) {
        let engines = self.fronts.iter().filter_map(|front| front.engine.as_ref());
        engines.clone().for_each(Engine::alert);
        let deadline = clock::now() + ALERT_LIMIT;
        while clock::now() < deadline && !engines.clone().all(Engine::is_alert) {
            thread::sleep(ALERT_LOOK);
        }
        engines.for_each(Engine::ask_to_stop);
        for front in &mut self.fronts {
            front.stop();
        }
    }

    /// Every flow, for another balancer; to be called after [`Balancer::pause`]. They stay here too.
    #[must_use]
    pub fn give(&self) -> Vec<OutgoingFlow> {
        let all = self.fronts.iter().flat_map(|front| {
            let shards = front.shards.iter().zip(&front.sockets);
            shards.flat_map(|(shard, (inode, _))| shard.give(*inode))
        });
        all.collect()
    }

    /// Ends, and lets its flows continue in `next`, which has the sockets of the same frontends.
    pub fn move_to(mut self, next: &mut Self) {
        self.pause();
        let flows = self.give();
        drop(self);
        next.adopt(flows.into_iter().filter_map(OutgoingFlow::arrive));
    }

    /// Continues flows of another balancer; returns how many. The others have lost their frontend, their
    /// socket or their server; their clients begin again.
    pub fn adopt(&mut self, flows: impl IntoIterator<Item = IncomingFlow>) -> usize {
        let mut of_sockets: HashMap<u64, Vec<IncomingFlow>> = HashMap::new();
        for flow in flows {
            of_sockets.entry(flow.listener).or_default().push(flow);
        }
        let mut adopted = 0;
        for front in &self.fronts {
            for (shard, (inode, socket)) in front.shards.iter().zip(&front.sockets) {
                let mut flows = of_sockets.remove(inode).unwrap_or_default();
                flows.retain(|flow| flow.frontend == front.name);
                adopted += shard.adopt(flows, socket);
            }
        }
        adopted
    }

    //--- Looking

    /// How each frontend stands.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.fronts
            .iter()
            .map(|front| {
                let mut status = Status {
                    frontend: Arc::clone(&front.name),
                    flows: 0,
                    counts: Counts::default(),
                    lost: front.lost_before(),
                };
                for shard in &front.shards {
                    let (flows, counts, lost) = shard.status();
                    status.flows += flows;
                    status.counts.add(&counts);
                    status.lost.add(&lost);
                }
                status
            })
            .collect()
    }

    /// Flows that `is_wanted` picks, at most `most`, each with its frontend.
    #[must_use]
    pub fn flows(
        &self,
        most: usize,
        is_wanted: impl Fn(&str, &FlowInfo) -> bool,
    ) -> Vec<(Arc<str>, FlowInfo)> {
        let mut found = Vec::new();
        for front in &self.fronts {
            for shard in &front.shards {
                let room = most.saturating_sub(found.len());
                let flows = shard.list(room, |flow| is_wanted(&front.name, flow));
                found.extend(
                    flows
                        .into_iter()
                        .map(|flow| (Arc::clone(&front.name), flow)),
                );
            }
        }
        found
    }

    /// Ends the flows that `is_meant` picks; how many there were.
    #[must_use]
    pub fn kill(&self, is_meant: impl Fn(&str, &FlowInfo) -> bool) -> usize {
        self.fronts
            .iter()
            .flat_map(|front| front.shards.iter().map(|shard| (&front.name, shard)))
            .map(|(name, shard)| shard.kill(|flow| is_meant(name, flow)))
            .sum()
    }

    /// Every thread's name and heartbeat.
    #[must_use]
    pub fn heartbeats(&self) -> Vec<(String, Heartbeat)> {
        let mut all = Vec::new();
        for front in &self.fronts {
            if let Some(engine) = &front.engine {
                all.extend(engine.heartbeats());
            }
            for (name, _, heartbeat) in &front.threads {
                all.push((name.clone(), Arc::clone(heartbeat)));
            }
        }
        all
    }

    /// Takes no more from clients, without waiting for it.
    pub fn ask_to_stop(&self) {
        for front in &self.fronts {
            if let Some(engine) = &front.engine {
                engine.ask_to_stop();
            }
        }
    }

    /// Takes no more from clients, and continues to deliver answers until flows are silent, at most for
    /// `grace`. Blocks.
    pub fn stop(mut self, grace: Duration) {
        self.ask_to_stop();
        for front in &mut self.fronts {
            drop(front.engine.take());
        }
        let deadline = clock::now() + grace;
        while clock::now() < deadline && self.is_busy() {
            thread::sleep(DRAIN_LOOK);
        }
    }

    fn is_busy(&self) -> bool {
        self.fronts
            .iter()
            .flat_map(|front| &front.shards)
            .any(|shard| !shard.list(1, |flow| flow.idle < SILENCE).is_empty())
    }
}

impl fmt::Debug for Balancer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fronts.iter().map(|front| &front.name);
        formatter.debug_list().entries(names).finish()
    }
}

impl Front {
    fn new(
        listener: Listener,
        cell: &Arc<Latest<Table>>,
        report: &Arc<dyn Report>,
    ) -> io::Result<Self> {
        let mut front = Self {
            name: listener.frontend,
            sockets: Vec::with_capacity(listener.sockets.len()),
            engine: None,
            merged: !listener.settings.counts_datagrams(),
            shards: Vec::with_capacity(listener.sockets.len()),
            threads: Vec::new(),
        };
        let mut settings = listener.settings;
        settings.max_flows = (settings.max_flows / listener.sockets.len().max(1)).max(1);
        for socket in listener.sockets {
            let inode = rustix::fs::fstat(&socket)?.st_ino;
            front.sockets.push((inode, Arc::new(socket)));
            front.shards.push(Arc::new(Shard::new(
                Arc::clone(&front.name),
                settings,
                Reader::new(Arc::clone(cell)),
                Arc::clone(report),
            )?));
        }
        Ok(front)
    }

    fn run(&mut self) -> io::Result<()> {
        let options = EngineOptions {
            name: "balance",
            // Nothing is answered here: answers come from servers, later.
            reply_capacity: 1,
            receive_capacity: LONGEST,
            batch: BATCH,
            merged: self.merged,
            ..EngineOptions::default()
        };
        let sockets = self.sockets.iter().map(|(_, socket)| socket.try_clone());
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let shards = &self.shards;
        self.engine = Some(Engine::start(sockets, shards.len(), options, |number| {
            // Thread `number` serves socket `number`: there are as many.
            Requests::new(shards.get(number).map(Arc::clone))
        })?);
        for (number, shard) in self.shards.iter().enumerate() {
            let name = format!("answer-udp-{number}");
            let heartbeat = Heartbeat::default();
            let shard = Arc::clone(shard);
            shard.unstop();
            let beat = Arc::clone(&heartbeat);
            let handle = thread::Builder::new()
                .name(name.clone())
                .spawn(move || shard.run(&beat))?;
            self.threads.push((name, handle, heartbeat));
        }
        Ok(())
    }

    /// Datagrams that got lost before a shard saw them.
    fn lost_before(&self) -> Lost {
        let counters = self.engine.as_ref().map(Engine::counters);
        counters.map_or_else(Lost::default, |counters| Lost {
            truncated: counters.dropped(),
            queue_full: counters.queue_drops(),
            ..Lost::default()
        })
    }

    fn stop(&mut self) {
        drop(self.engine.take());
        for shard in &self.shards {
            shard.ask_to_stop();
        }
        for (name, handle, _) in self.threads.drain(..) {
            if handle.join().is_err() {
                error!(
                    thread = name,
                    "A thread that waits for answers has panicked"
                );
            }
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How many flows a frontend may have, so that all together leave descriptors for connections.
fn most_flows(wanted: impl Iterator<Item = usize>) -> usize {
    let (n_frontends, wanted) =
        wanted.fold((0_u64, 0), |(n, most), flows| (n + 1, most.max(flows)));
    let descriptors = raise_descriptor_limit().descriptors;
    let most = descriptors / PART_OF_DESCRIPTORS / n_frontends.max(1);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most < wanted {
        warn!(
            wanted,
            possible = most,
            descriptors,
            "Fewer flows than configured: raise LimitNOFILE"
        );
    }
    most
}

#[cfg(test)]
mod tests;
