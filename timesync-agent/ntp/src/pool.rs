//! From the configuration's hosts to servers: names, pools, and the replacement of bad servers.
//!
//! ```text
//!            ┌─ resolve ──► addresses ──► servers, tentative in a pool until they answer
//!   name ────┤   back-off 28 s … 1 h while there are fewer than wanted
//!            └─ a bad server: resolve again, at most once in 30 min, and put another address in its place
//! ```
//!
//! Decides which addresses are polled, and polls none.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use time_model::settings::{Host, MAX_POOL_SOURCES, SourceOptions, SourceSettings};
use time_model::time::{RawTime, SECOND, Span};
use timekeeper::SourceId;

/// Names are resolved again after this times a power of two; chrony's.
const RESOLVE_UNIT: Span = Span(7 * SECOND);
/// The first and the last of these powers: 28 s and an hour.
const RESOLVE_POWERS: (u32, u32) = (2, 9);
/// Between two replacements of servers of one name; chrony's 30 minutes.
const REPLACEMENT_INTERVAL: Span = Span(RESOLVE_UNIT.0 << 8);
/// Servers in all; a configuration that names more is a mistake, or an attack on a resolver.
const MAX_SERVERS: usize = 256;

/// Actions.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Look a name up, and tell [`Pool::resolved`].
    Resolve(String),
    /// Ask this server, too.
    Add {
        /// The number of the server from now on.
        id: SourceId,
        /// As the configuration has it.
        name: String,
        /// The address.
        address: IpAddr,
        /// It is a peer: both sides poll each other.
        is_peer: bool,
        /// The polling options.
        options: Box<SourceOptions>,
    },
    /// Do not ask it any more.
    Remove(SourceId),
    /// After the actions before this, one server replaces another.
    Replaced {
        /// As the configuration has it.
        name: String,
        /// The server that has gone.
        old: IpAddr,
        /// The server that replaces it.
        new: IpAddr,
    },
}

/// Why a host is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its address is polled already.
    AlreadyPresent,
    /// There are as many as can be.
    TooMany,
}

/// All hosts of the configuration.
#[derive(Debug, Default)]
pub struct Pool {
    entries: Vec<Entry>,
    last_id: u32,
    changes: VecDeque<Change>,
}

/// A line of the configuration.
#[derive(Debug)]
struct Entry {
    settings: SourceSettings,
    servers: Vec<Server>,
    resolution: Resolution,
    /// This one is to be replaced when the name is resolved.
    bad: Option<SourceId>,
    /// So are all that the name does not stand for any more.
    is_refreshed: bool,
    replaced: Option<RawTime>,
}

/// A polled server.
#[derive(Clone, Copy, Debug)]
struct Server {
    id: SourceId,
    address: IpAddr,
    /// It answered, and has time to give.
    is_confirmed: bool,
}

/// How far a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// There is nothing to look up.
    Idle,
    /// To be looked up then, for the nth time.
    At(RawTime, u32),
    /// It is being looked up.
    Asked(u32),
}

impl Entry {
    fn name(&self) -> Option<&str> {
        match &self.settings.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }

    /// Servers that are enough.
    fn wanted(&self) -> usize {
        self.settings.pool.unwrap_or(1)
    }

    /// The servers that find these.
    fn tentative(&self) -> usize {
        match self.settings.pool {
            Some(wanted) => (2 * wanted).min(MAX_POOL_SOURCES),
            None => 1,
        }
    }

    fn n_confirmed(&self) -> usize {
        self.servers
            .iter()
            .filter(|server| server.is_confirmed)
            .count()
    }

    /// Whether another lookup could be of use.
    fn is_short(&self) -> bool {
        self.servers.len() < self.wanted()
    }
}

impl Pool {
    /// Hosts as the configuration has them.
    #[must_use]
    pub fn new(sources: &[SourceSettings], now: RawTime) -> Self {
        let mut pool = Self::default();
        pool.configure(sources, now);
        pool
    }

    /// Changes the hosts. Unchanged ones continue undisturbed.
    pub fn configure(&mut self, sources: &[SourceSettings], now: RawTime) {
        let mut old = std::mem::take(&mut self.entries);
        let mut kept = Vec::new();
        for settings in sources {
            let same = old.iter().position(|entry| entry.settings == *settings);
            kept.push(same.map(|place| old.swap_remove(place)));
        }
        for server in old.iter().flat_map(|entry| &entry.servers) {
            self.changes.push_back(Change::Remove(server.id));
        }
        for (settings, kept) in sources.iter().zip(kept) {
            match kept {
                Some(entry) => self.entries.push(entry),
                None => self.begin(settings, now),
            }
        }
    }

    /// One more host.
    fn begin(&mut self, settings: &SourceSettings, now: RawTime) {
        let place = self.entries.len();
        self.entries.push(Entry {
            settings: settings.clone(),
            servers: Vec::new(),
            resolution: Resolution::At(now, 0),
            bad: None,
            is_refreshed: false,
            replaced: None,
        });
        if let Host::Address(address) = &settings.host {
            self.fill(place, &[*address]);
            if let Some(entry) = self.entries.get_mut(place) {
                entry.resolution = Resolution::Idle;
            }
        }
    }

    /// chronyc's `add`: one more host from here on.
    ///
    /// # Errors
    ///
    /// Its address is polled already, at any port, or there are as many as can be.
    pub fn append(&mut self, settings: &SourceSettings, now: RawTime) -> Result<(), Refused> {
        if let Host::Address(address) = settings.host
            && self.has(address)
        {
            return Err(Refused::AlreadyPresent);
        }
        if self.entries.len() >= MAX_SERVERS || self.ids().count() >= MAX_SERVERS {
            return Err(Refused::TooMany);
        }
        self.begin(settings, now);
        Ok(())
    }

    /// chronyc's `delete`: false if no server has this address. A pool continues with one server less.
    pub fn delete(&mut self, address: IpAddr) -> bool {
        let of_address = |server: &Server| server.address == address;
        let has = |entry: &Entry| entry.servers.iter().any(of_address);
        let Some(place) = self.entries.iter().position(has) else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(place) else {
            return false;
        };
        for server in entry.servers.extract_if(.., |server| of_address(server)) {
            self.changes.push_back(Change::Remove(server.id));
        }
        match &mut entry.settings.pool {
            Some(wanted) if *wanted > 1 && !entry.servers.is_empty() => *wanted -= 1,
            _ => drop(self.entries.remove(place)),
        }
        true
    }

    /// The hosts as they are by now.
    #[must_use]
    pub fn settings(&self) -> Vec<SourceSettings> {
        let entries = self.entries.iter();
        entries.map(|entry| entry.settings.clone()).collect()
    }

    fn has(&self, address: IpAddr) -> bool {
        let mut servers = self.entries.iter().flat_map(|entry| &entry.servers);
        servers.any(|server| server.address == address)
    }

    /// The servers, in the order of the configuration.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> {
        let servers = self.entries.iter().flat_map(|entry| &entry.servers);
        servers.map(|server| server.id)
    }

    /// Servers that are wanted and have no address yet.
    #[must_use]
    pub fn n_unresolved(&self) -> usize {
        let missing = |entry: &Entry| entry.wanted().saturating_sub(entry.servers.len());
        self.entries.iter().map(missing).sum()
    }

    /// The next action; call again until there is none.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<RawTime> {
        let times = self
            .entries
            .iter()
            .filter_map(|entry| match entry.resolution {
                Resolution::At(at, _) => Some(at),
                Resolution::Idle | Resolution::Asked(_) => None,
            });
        times.min()
    }

    /// Names whose time has come are looked up.
    pub fn handle_timeout(&mut self, now: RawTime) {
        let mut asked = BTreeSet::new();
        for entry in &mut self.entries {
            let Resolution::At(at, attempt) = entry.resolution else {
                continue;
            };
            let Some(name) = entry.name().filter(|_| at <= now).map(str::to_owned) else {
                continue;
            };
            entry.resolution = Resolution::Asked(attempt);
            if asked.insert(name.clone()) {
                self.changes.push_back(Change::Resolve(name));
            }
        }
    }

    /// A name was looked up; without addresses nothing was found.
    pub fn resolved(&mut self, name: &str, addresses: &[IpAddr], now: RawTime) {
        for place in 0..self.entries.len() {
            let Some(entry) = self.entries.get(place) else {
                continue;
            };
            let Resolution::Asked(attempt) = entry.resolution else {
                continue;
            };
            if entry.name() != Some(name) {
                continue;
            }
            self.replace_all(place, addresses);
            self.fill(place, addresses);
            let (first, last) = RESOLVE_POWERS;
            if let Some(entry) = self.entries.get_mut(place) {
                let wait = Span(RESOLVE_UNIT.0 << (first + attempt).min(last));
                entry.resolution = if entry.is_short() {
                    Resolution::At(now + wait, attempt.saturating_add(1).min(last))
                } else {
                    Resolution::Idle
                };
            }
        }
    }

    /// Asks as many of these as are to be asked and are not yet.
    fn fill(&mut self, place: usize, addresses: &[IpAddr]) {
        if self
            .entries
            .get(place)
            .is_none_or(|entry| !entry.is_short())
        {
            return;
        }
        for address in addresses {
            let Some(entry) = self.entries.get(place) else {
                return;
            };
            let has_enough =
                entry.servers.len() >= entry.tentative() || entry.n_confirmed() >= entry.wanted();
            if !has_enough && self.is_free(place, *address) {
                self.add(place, *address);
            }
        }
    }

    /// Replaces what is bad, and after a refresh what the name does not stand for any more.
    fn replace_all(&mut self, place: usize, addresses: &[IpAddr]) {
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        let is_refreshed = std::mem::take(&mut entry.is_refreshed);
        let stale = entry.servers.iter().filter(|server| {
            Some(server.id) == entry.bad || (is_refreshed && !addresses.contains(&server.address))
        });
        let stale: Vec<SourceId> = stale.map(|server| server.id).collect();
        for bad in stale {
            self.replace(place, bad, addresses);
        }
        if let Some(entry) = self.entries.get_mut(place) {
            entry.bad = None;
        }
    }

    /// Puts one of these in the place of a server, if there is another one.
    fn replace(&mut self, place: usize, bad: SourceId, addresses: &[IpAddr]) {
        let other = addresses
            .iter()
            .copied()
            .find(|address| self.is_free(place, *address));
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        let Some(address) = other else {
            return;
        };
        let old = entry.servers.iter().find(|server| server.id == bad);
        let (name, old) = (entry.settings.host.to_string(), old.map(|old| old.address));
        entry.servers.retain(|server| server.id != bad);
        self.changes.push_back(Change::Remove(bad));
        self.add(place, address);
        if let Some(old) = old {
            let new = address;
            self.changes.push_back(Change::Replaced { name, old, new });
        }
    }

    /// No server is polled twice; and a name may be restricted to one family.
    fn is_free(&self, place: usize, address: IpAddr) -> bool {
        let family = self
            .entries
            .get(place)
            .and_then(|entry| entry.settings.options.family);
        let port = |entry: &Entry| entry.settings.options.port;
        let own_port = self.entries.get(place).map(port);
        let is_taken = self.entries.iter().any(|entry| {
            Some(port(entry)) == own_port
                && entry.servers.iter().any(|server| server.address == address)
        });
        !is_taken
            && self.ids().count() < MAX_SERVERS
            && family.is_none_or(|family| family.has(address))
    }

    fn add(&mut self, place: usize, address: IpAddr) {
        self.last_id += 1;
        let id = SourceId(self.last_id);
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        entry.servers.push(Server {
            id,
            address,
            is_confirmed: false,
        });
        self.changes.push_back(Change::Add {
            id,
            name: entry.settings.host.to_string(),
            address,
            is_peer: entry.settings.is_peer,
            options: Box::new(entry.settings.options.clone()),
        });
    }

    /// A server answered, and has time to give. Once as many as are wanted did, the others of its pool are let go.
    pub fn confirm(&mut self, id: SourceId) {
        let Some(entry) = self.entry_of(id) else {
            return;
        };
        for server in &mut entry.servers {
            server.is_confirmed |= server.id == id;
        }
        if entry.n_confirmed() < entry.wanted() {
            return;
        }
        let (confirmed, others) = entry
            .servers
            .iter()
            .partition::<Vec<_>, _>(|server| server.is_confirmed);
        entry.servers = confirmed;
        entry.resolution = Resolution::Idle;
        let removals = others.iter().map(|server| Change::Remove(server.id));
        self.changes.extend(removals);
    }

    /// A server does not answer or has no time to give, is wrong, or is too far from the truth.
    pub fn complain(&mut self, id: SourceId, now: RawTime) {
        let Some(entry) = self.entry_of(id) else {
            return;
        };
        let is_early = entry
            .replaced
            .is_some_and(|replaced| now - replaced < REPLACEMENT_INTERVAL);
        if entry.name().is_none() || entry.bad.is_some() || is_early {
            return;
        }
        entry.replaced = Some(now);
        entry.bad = Some(id);
        if !matches!(entry.resolution, Resolution::Asked(_)) {
            entry.resolution = Resolution::At(now, 0);
        }
    }

    /// chronyc's `refresh`: looks up every name again, and replaces a server whose name has other addresses by now.
    pub fn refresh(&mut self, now: RawTime) {
        for entry in &mut self.entries {
            if entry.name().is_some() && !matches!(entry.resolution, Resolution::Asked(_)) {
                entry.resolution = Resolution::At(now, 0);
                entry.is_refreshed = true;
            }
        }
    }

    fn entry_of(&mut self, id: SourceId) -> Option<&mut Entry> {
        let mut entries = self.entries.iter_mut();
        entries.find(|entry| entry.servers.iter().any(|server| server.id == id))
    }
}
