//! The thread that keeps the rules.
//!
//! Whether there can be a flow table is tried once. Then its devices are looked after with the
//! counters, and rules that cannot be made with it are made without, until the next look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::conntrack::{Entry, Scope};
use super::devices;
use super::nft::{Nft, PathError};
use super::ruleset::{Devices, KernelFrontend, Ruleset};
use super::{
    Connections, Ending, FlowTable, Options, Shared, State, Status, batch, changes, sessions,
};

/// Why there is no flow table where there could be one.
const NO_DEVICES: &str = "no device has an address of a family that frontends listen on";

/// The thread's own state.
#[derive(Debug)]
pub(super) struct RuleWorker {
    nft: Nft,
    /// The rules as they were last made.
    ruleset: Ruleset,
    /// The frontends that could not be made yet.
    wanted: Option<Vec<KernelFrontend>>,
    /// The counts of each server, in tables before this one and in this one.
    totals: BTreeMap<String, (u64, u64)>,
    /// There can be a flow table, and there is to be one.
    with_flow_table: bool,
    /// But not now.
    is_paused: bool,
    status: Status,
}

impl RuleWorker {
    /// Makes the rules for `frontends`.
    pub(super) fn start(
        nft: Nft,
        options: &Options,
        frontends: Vec<KernelFrontend>,
    ) -> Result<Self, PathError> {
        let ruleset = Ruleset::new(options.table.clone(), Vec::new(), None);
        let mut worker = Self {
            nft,
            ruleset,
            wanted: None,
            totals: BTreeMap::new(),
            with_flow_table: false,
            is_paused: false,
            status: Status::default(),
        };
        if options.flow_table {
            match worker.nft.check(&worker.ruleset.trial()) {
                Ok(()) => worker.with_flow_table = true,
                Err(failure) => drop(worker.miss(daemon::exit::chain(&failure))),
            }
        }
        worker.install(frontends)?;
        Ok(worker)
    }

    /// How the rules stand.
    pub(super) fn status(&self) -> Status {
        self.status.clone()
    }

    /// Keeps the rules as they are wanted, until the path ends.
    pub(super) fn run(mut self, shared: &Shared, interval: Duration) {
        loop {
            let mut state = shared.state.lock();
            let is_idle = |state: &mut State| {
                let is_idle = state.wanted.is_none() && state.ending.is_none();
                is_idle && (state.pauses > 0) == self.is_paused
            };
            let changed = &shared.changed;
            changed.wait_while_for(&mut state, is_idle, interval);
            let (wanted, ending) = (state.wanted.take(), state.ending);
            let is_paused = state.pauses > 0;
            drop(state);
            match ending {
                None => {}
                Some(Ending::Leave) => return,
                Some(Ending::Remove) => return self.remove(),
            }
            if is_paused != self.is_paused {
                self.pause(is_paused);
            }
            match wanted.or_else(|| self.wanted.take()) {
                Some(frontends) => self.change(frontends),
                None => self.look_after(),
            }
            let mut state = shared.state.lock();
            state.status = self.status.clone();
            state.is_paused = self.is_paused;
            drop(state);
            shared.changed.notify_all();
        }
    }

    fn install(&mut self, frontends: Vec<KernelFrontend>) -> Result<(), PathError> {
        let flow_table = self.devices(&frontends);
        let flow_table = flow_table.unwrap_or_else(|reason| self.miss(reason));
        let table = self.ruleset.table.clone();
        let next = self.make(Ruleset::new(table, frontends, flow_table))?;
        self.status.changes += 1;
        let mut gone = changes::removed_flows(&[], &next.frontends);
        gone.extend(changes::unforwarded(&next.frontends));
        self.adopt(next);
        self.forget(&gone);
        Ok(())
    }

    /// Makes all rules again, without a flow table if they cannot be made with it; says as which.
    fn make(&mut self, mut next: Ruleset) -> Result<Ruleset, PathError> {
        let made = self.nft.apply(&next.install());
        if let (Err(failure), Some(_)) = (&made, &next.flow_table) {
            next.flow_table = self.miss(daemon::exit::chain(failure));
            self.nft.apply(&next.install())?;
            return Ok(next);
        }
        made.map(|()| next)
    }

    /// These rules are in force.
    fn adopt(&mut self, ruleset: Ruleset) {
        self.ruleset = ruleset;
        let Some(devices) = &self.ruleset.flow_table else {
            return;
        };
        let used = FlowTable::Used(devices.clone());
        if self.status.flow_table != used {
            let devices = devices.names().collect::<Vec<_>>().join(" ");
            info!(devices, "Established connections go by a flow table");
            self.status.flow_table = used;
        }
    }

    fn change(&mut self, frontends: Vec<KernelFrontend>) {
        if self.ruleset.frontends == frontends && self.status.error.is_none() {
            return;
        }
        let next = self.ruleset.followed_by(frontends.clone());
        let result = match self.status.error {
            None => self.advance(next),
            Some(_) => self.make(next),
        };
        let next = match result {
            Ok(next) => next,
            Err(failure) => {
                self.status.failures += 1;
                self.report(&failure, "Rules of the kernel path could not be changed");
                self.wanted = Some(frontends);
                return;
            }
        };
        self.status.changes += 1;
        self.status.error = None;
        let mut gone = changes::removed_flows(&self.ruleset.frontends, &next.frontends);
        let added = next.frontends.iter().filter(|frontend| {
            !self
                .ruleset
                .frontends
                .iter()
                .any(|old| old.name == frontend.name && old.listen == frontend.listen)
        });
        gone.extend(changes::unforwarded(added));
        self.adopt(next);
        self.forget(&gone);
    }

    /// From the rules that are in force to these, in the smallest way there is.
    fn advance(&mut self, next: Ruleset) -> Result<Ruleset, PathError> {
        if let Some(update) = next.element_update(&self.ruleset) {
            if update.is_empty() {
                return Ok(next);
            }
            match batch::send(&update) {
                Ok(octets) => {
                    let n_elements = update.n_elements();
                    debug!(
                        n_elements,
                        octets, "Elements of the kernel path are changed"
                    );
                    self.status.element_changes += 1;
                    return Ok(next);
                }
                Err(error) => debug!(%error, "Elements are changed by nft"),
            }
        }
        match self.nft.apply(&next.update(&self.ruleset)) {
            Ok(()) => Ok(next),
            // The table that the update builds on may be gone: make it all again.
            Err(_) => self.make(next),
        }
    }

    /// Reads the counters; without them there is no table, and it is made again.
    fn look_after(&mut self) {
        match self.nft.counters(&self.ruleset.table) {
            Ok(counters) => {
                self.count(&counters);
                self.follow_devices();
            }
            Err(failure) => match self.install(self.ruleset.frontends.clone()) {
                Ok(()) => {
                    self.status.repairs += 1;
                    warn!("The table of the kernel path was gone and is made again");
                }
                Err(_) => self.report(&failure, "The table of the kernel path cannot be read"),
            },
        }
    }

    fn count(&mut self, counters: &BTreeMap<String, u64>) {
        self.status.error = None;
        self.status.connections.clear();
        let mut totals = BTreeMap::new();
        for frontend in &self.ruleset.frontends {
            for server in &frontend.servers {
                let name = Ruleset::counter(frontend, server);
                let (mut before, last) = self.totals.get(&name).copied().unwrap_or_default();
                let value = counters.get(&name).copied().unwrap_or(0);
                if value < last {
                    before += last;
                }
                totals.insert(name, (before, value));
                self.status.connections.push(Connections {
                    frontend: Arc::clone(&frontend.name),
                    server: Arc::clone(&server.name),
                    total: before + value,
                });
            }
        }
        self.totals = totals;
    }

    fn forget(&mut self, gone: &[changes::RemovedFlows]) {
        if gone.is_empty() {
            return;
        }
        let scope = match gone.iter().all(changes::RemovedFlows::are_forwarded) {
            true => Scope::Forwarded,
            false => Scope::All,
        };
        let is_gone = |entry: &Entry| gone.iter().any(|gone| gone.is_of(entry));
        let first = sessions::forget(scope, is_gone);
        let result = match first {
            Ok(forgotten) if forgotten.n_held > 0 => {
                let was_paused = self.is_paused;
                self.pause(true);
                let more = sessions::forget_held(scope, is_gone);
                self.pause(was_paused);
                more.map(|more| forgotten.n_forgotten + more.n_forgotten)
            }
            result => result.map(|forgotten| forgotten.n_forgotten),
        };
        match result {
            Ok(0) => {}
            Ok(n_flows) => {
                self.status.forgotten += n_flows;
                info!(n_flows, "Flows of servers that went are forgotten");
            }
            Err(error) => {
                warn!(%error, "Flows of servers that went could not be forgotten");
            }
        }
    }

    fn remove(&self) {
        if let Err(failure) = self.nft.apply(&self.ruleset.remove()) {
            let reason = daemon::exit::chain(&failure);
            warn!(reason, "The table of the kernel path could not be removed");
        }
    }

    /// Takes the flow table away, or gives it back.
    fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.follow_devices();
    }

    /// Brings the flow table up to date with the devices of this node.
    fn follow_devices(&mut self) {
        let devices = self.devices(&self.ruleset.frontends);
        let devices = devices.unwrap_or_else(|reason| self.miss(reason));
        if devices == self.ruleset.flow_table {
            return;
        }
        if let Err(failure) = self.set_flow_table(devices) {
            drop(self.miss(daemon::exit::chain(&failure)));
        }
    }

    /// The devices that a flow table is to have now, for these frontends; none without one, or why there
    /// is none.
    fn devices(&self, frontends: &[KernelFrontend]) -> Result<Option<Devices>, String> {
        if !self.with_flow_table || self.is_paused {
            return Ok(None);
        }
        match devices::read(frontends) {
            Ok(devices) if !devices.is_empty() => Ok(Some(devices)),
            Ok(_) => Err(NO_DEVICES.to_owned()),
            Err(error) => Err(format!("devices cannot be listed: {error}")),
        }
    }

    fn set_flow_table(&mut self, devices: Option<Devices>) -> Result<(), PathError> {
        // Not in one step: older kernels take a device for taken by the flow table that goes.
        if self.ruleset.flow_table.is_some() && devices.is_some() {
            self.set_flow_table(None)?;
        }
        let next = self.ruleset.with_flow_table(devices);
        self.nft.apply(&next.update(&self.ruleset))?;
        self.adopt(next);
        Ok(())
    }

    /// Says once why there is no flow table; returns that there is none.
    fn miss(&mut self, reason: String) -> Option<Devices> {
        let absent = FlowTable::Absent(reason);
        if let FlowTable::Absent(reason) = &absent
            && self.status.flow_table != absent
        {
            warn!(reason, "There is no flow table: rules see every packet");
            self.status.flow_table = absent;
        }
        None
    }

    /// Says once what is wrong.
    fn report(&mut self, failure: &PathError, sentence: &'static str) {
        let reason = daemon::exit::chain(failure);
        if self.status.error.as_ref() != Some(&reason) {
            error!(reason, sentence);
        }
        self.status.error = Some(reason);
    }
}
