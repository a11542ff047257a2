//! Balancing of UDP.
//!
//! Clients' datagrams come through the UDP engine of [`daemon_base::udp`]; each flow has a socket of
//! its own that is connected to its server, so that the kernel tells answers apart and says when
//! nobody listens there. For each thread of the engine another waits for answers:
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
//! - When a server refuses a datagram (ICMP), the flow moves at once, and a request that was not
//!   answered yet goes to the next server.
//!
//! [`flow`] decides; nothing here does.

pub mod flow;
mod shard;

use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use daemon_base::run::Heartbeat;
use daemon_base::snapshot::{Cell, Reader};
use daemon_base::udp::{Counters, Engine, EngineOptions};
use tracing::{error, warn};

use self::flow::{Counts, FlowInfo, Settings};
use self::shard::{Requests, Shard};
use crate::relay::{Report, raise_descriptor_limit};
use crate::table::Table;

/// How long a flow must have been silent for nobody to wait for it any more, when the process ends.
const SILENCE: Duration = Duration::from_secs(1);

/// How often a drain looks whether flows are silent.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

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
    /// What was counted.
    pub counts: Counts,
}

/// Threads that balance datagrams. Dropping it stops them.
pub struct Balancer {
    fronts: Vec<Front>,
}

/// One frontend.
struct Front {
    name: Arc<str>,
    engine: Option<Engine>,
    counters: Counters,
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
        cell: &Arc<Cell<Table>>,
        report: &Arc<dyn Report>,
    ) -> io::Result<Self> {
        let most = most_flows(listeners.iter().map(|listener| listener.settings.max_flows));
        let mut balancer = Self { fronts: Vec::new() };
        for mut listener in listeners {
            listener.settings.max_flows = listener.settings.max_flows.min(most);
            let front = Front::start(listener, cell, report)?;
            balancer.fronts.push(front);
        }
        Ok(balancer)
    }

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
                };
                for shard in &front.shards {
                    let (flows, counts) = shard.status();
                    status.flows += flows;
                    status.counts.add(&counts);
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

    /// What the engine of each frontend has counted.
    #[must_use]
    pub fn counters(&self) -> Vec<(Arc<str>, Counters)> {
        self.fronts
            .iter()
            .map(|front| (Arc::clone(&front.name), front.counters.clone()))
            .collect()
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

    /// Takes no more from clients, and goes on to deliver answers until flows are silent, at most for
    /// `grace`. Blocks.
    pub fn stop(mut self, grace: Duration) {
        self.ask_to_stop();
        for front in &mut self.fronts {
            drop(front.engine.take());
        }
        let deadline = now() + grace;
        while now() < deadline && self.is_busy() {
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
    fn start(
        listener: Listener,
        cell: &Arc<Cell<Table>>,
        report: &Arc<dyn Report>,
    ) -> io::Result<Self> {
        let n_shards = listener.sockets.len().max(1);
        let mut settings = listener.settings;
        settings.max_flows = (settings.max_flows / n_shards).max(1);
        let mut shards = Vec::with_capacity(n_shards);
        for _ in 0..n_shards {
            shards.push(Arc::new(Shard::new(
                Arc::clone(&listener.frontend),
                settings,
                Reader::new(Arc::clone(cell)),
                Arc::clone(report),
            )?));
        }
        let options = EngineOptions {
            name: "balance",
            // Nothing is answered here: answers come from servers, later.
            reply_capacity: 1,
            ..EngineOptions::default()
        };
        let engine = Engine::start(listener.sockets, n_shards, options, |number| {
            // Thread `number` serves socket `number`: there are as many.
            let shard = shards.get(number).or_else(|| shards.first());
            Requests::new(shard.map(Arc::clone))
        })?;
        // Dropped on an error, it stops the threads it has.
        let mut front = Self {
            name: listener.frontend,
            counters: engine.counters(),
            engine: Some(engine),
            shards,
            threads: Vec::with_capacity(n_shards),
        };
        for (number, shard) in front.shards.iter().enumerate() {
            let name = format!("answer-udp-{number}");
            let heartbeat = Heartbeat::default();
            let shard = Arc::clone(shard);
            let beat = Arc::clone(&heartbeat);
            let handle = thread::Builder::new()
                .name(name.clone())
                .spawn(move || shard.run(&beat))?;
            front.threads.push((name, handle, heartbeat));
        }
        Ok(front)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
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

#[expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and hands it to the core"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
