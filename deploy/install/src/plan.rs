//! Plans the steps from the present state of a node to the state that a bundle describes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use service_image::digest::Sha256;
use site::paths;
use site::service::Service;
use site::slot::Slot;
use site_render::target::{HOLDER, RIVALS};

/// A file, as it is or as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// The content.
    pub digest: Sha256,
}

/// The desired state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// Its files.
    pub files: BTreeMap<PathBuf, FileState>,
    /// Units that start with the machine.
    pub enabled: BTreeSet<String>,
    /// The archive of each of its services.
    pub archives: BTreeMap<Service, Sha256>,
}

/// The present state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those of its files that are wanted, or were installed before.
    pub files: BTreeMap<PathBuf, FileState>,
    /// Those units that start with the machine, of the wanted and the installed ones.
    pub enabled: BTreeSet<String>,
    /// The archive that the live slot of each service runs.
    pub archives: BTreeMap<Service, Sha256>,
    /// Files that were installed before.
    pub installed: BTreeSet<PathBuf>,
    /// Other programs that set the clock and run: their units.
    pub rivals_active: BTreeSet<String>,
    /// Units that were enabled before.
    pub had_enabled: BTreeSet<String>,
    /// The steps that an earlier run did not take.
    pub pending: BTreeSet<Action>,
}

/// How a file comes to be what it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is not there.
    New,
    /// It has other bytes.
    Contents,
    /// It has other permissions or another owner.
    Rights,
}

/// Something that is done once files are in place, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Users are made (sysusers.d).
    Users,
    /// Directories are made (tmpfiles.d).
    Directories,
    /// systemd reads its units again.
    Manager,
    /// Images are loaded.
    Images,
    /// Another program that sets the clock stops: its unit.
    Halt(String),
    /// Start the units that do not run.
    Start,
    /// A socket listens elsewhere: its service stops for it.
    Socket(String),
    /// A unit without a slot of its own is run again.
    Rerun(String),
    /// Another process takes over, with another image or another unit.
    Swap(Service),
    /// A service reads its configuration again.
    Reload(Service),
    /// `NetworkManager` reads its configuration again.
    Resolver,
    /// A unit that was stopped for timesync-agent may run again.
    Resume(String),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users => f.write_str("make users"),
            Self::Directories => f.write_str("make directories"),
            Self::Manager => f.write_str("reload systemd"),
            Self::Images => f.write_str("load images"),
            Self::Halt(unit) => write!(f, "halt: {unit}"),
            Self::Start => f.write_str("start what is new"),
            Self::Socket(unit) => write!(f, "listen again: {unit}"),
            Self::Rerun(unit) => write!(f, "run again: {unit}"),
            Self::Swap(service) => write!(f, "swap {service}"),
            Self::Reload(service) => write!(f, "reload {service}"),
            Self::Resolver => f.write_str("reload NetworkManager"),
            Self::Resume(unit) => write!(f, "resume: {unit}"),
        }
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        let plain = [
            Self::Users,
            Self::Directories,
            Self::Manager,
            Self::Images,
            Self::Start,
            Self::Resolver,
        ];
        let of_service = Service::ALL
            .into_iter()
            .flat_map(|service| [Self::Swap(service), Self::Reload(service)]);
        if let Some(action) = plain
            .into_iter()
            .chain(of_service)
            .find(|action| action.to_string() == text)
        {
            return Ok(action);
        }
        let (verb, unit) = text.split_once(": ").ok_or(UnknownAction)?;
        let of_unit = match verb {
            // The second word is of records that 0.1.0 wrote.
            "listen again" | "listen anew" => Self::Socket,
            "run again" => Self::Rerun,
            "halt" => Self::Halt,
            "resume" => Self::Resume,
            _ => return Err(UnknownAction),
        };
        Ok(of_unit(unit.to_owned()))
    }
}

/// Text that says nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is nothing that an install does")]
pub struct UnknownAction;

/// The steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files to write, by path.
    pub writes: BTreeMap<PathBuf, Write>,
    /// Files that no longer belong to the node.
    pub removals: BTreeSet<PathBuf>,
    /// Services whose first archive is put on the archives.
    pub archives: BTreeSet<Service>,
    /// Units to start with the machine from here on.
    pub enable: BTreeSet<String>,
    /// Units to start with the machine no more.
    pub disable: BTreeSet<String>,
    /// Units that end before their files go: those that are not to start any more, and slots of services
    /// that the node is not to have, which do not always start by being enabled.
    pub stop: BTreeSet<String>,
    /// The later steps.
    pub actions: BTreeSet<Action>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares.
pub fn plan(wanted: &DesiredState, found: &Found) -> Plan {
    let pending = found.pending.iter();
    let mut plan = Plan {
        actions: pending
            .filter(|action| is_about(action, wanted))
            .cloned()
            .collect(),
        ..Plan::default()
    };
    for (path, file) in &wanted.files {
        let how = match found.files.get(path) {
            None => Write::New,
            Some(there) if there.digest != file.digest => Write::Contents,
            Some(there) if there != file => Write::Rights,
            Some(_) => continue,
        };
        plan.writes.insert(path.clone(), how);
        plan.actions.extend(actions_of(path, how, found));
    }
    let gone = found
        .installed
        .iter()
        .filter(|path| !wanted.files.contains_key(*path));
    plan.removals = gone
        .filter(|path| found.files.contains_key(*path))
        .cloned()
        .collect();
    if plan.removals.iter().any(|path| is_read_by_manager(path)) {
        plan.actions.insert(Action::Manager);
    }
    // A competing unit (chronyd and others) that runs although an earlier drop-in forbids it has to be stopped explicitly.
    let rivals = found.rivals_active.iter();
    let held_back = rivals.filter(|unit| is_held_back(unit, wanted)).cloned();
    plan.actions.extend(held_back.map(Action::Halt));
    let free = plan.removals.iter().filter_map(|path| rival_of(path));
    plan.actions
        .extend(free.map(|unit| Action::Resume(unit.to_owned())));
    for (service, archive) in &wanted.archives {
        match found.archives.get(service) {
            None => {
                plan.archives.insert(*service);
                plan.actions.extend([Action::Images, Action::Start]);
            }
            Some(there) if there != archive => {
                plan.actions.insert(Action::Swap(*service));
            }
            Some(_) => {}
        }
    }
    plan.enable = wanted.enabled.difference(&found.enabled).cloned().collect();
    if !plan.enable.is_empty() {
        plan.actions.insert(Action::Start);
    }
    let was = found.had_enabled.difference(&wanted.enabled);
    plan.disable = was
        .filter(|unit| found.enabled.contains(*unit))
        .cloned()
        .collect();
    plan.stop = slots_among(&plan.removals)
        .filter(|(service, _)| !wanted.archives.contains_key(service))
        .map(|(service, slot)| slot.unit(service))
        .chain(plan.disable.iter().cloned())
        .collect();
    // A new process reads everything again.
    let swapped: Vec<Service> = plan.actions.iter().filter_map(swapped).collect();
    plan.actions
        .retain(|action| !matches!(action, Action::Reload(service) if swapped.contains(service)));
    plan
}

/// Whether what was left undone is about something that is still wanted: the rest has nothing to be done to.
fn is_about(action: &Action, wanted: &DesiredState) -> bool {
    match action {
        Action::Swap(service) | Action::Reload(service) => wanted.archives.contains_key(service),
        Action::Socket(unit) | Action::Rerun(unit) => wanted
            .files
            .keys()
            .any(|path| path.ends_with(unit) && is_read_by_manager(path)),
        Action::Halt(unit) => is_held_back(unit, wanted),
        Action::Resume(unit) => !is_held_back(unit, wanted),
        Action::Users
        | Action::Directories
        | Action::Manager
        | Action::Images
        | Action::Start
        | Action::Resolver => true,
    }
}

/// Whether a unit is another's that sets the clock, and is not to.
fn is_held_back(unit: &str, wanted: &DesiredState) -> bool {
    wanted.files.keys().any(|path| rival_of(path) == Some(unit))
}

/// The unit that an addition keeps from the clock.
fn rival_of(path: &Path) -> Option<&'static str> {
    let directory = path.parent()?;
    let mut rivals = RIVALS.into_iter();
    rivals.find(|unit| {
        directory.parent() == Some(Path::new("/etc/systemd/system"))
            && directory.file_name() == Some(format!("{unit}.d").as_ref())
    })
}

fn swapped(action: &Action) -> Option<Service> {
    match action {
        Action::Swap(service) => Some(*service),
        _ => None,
    }
}

/// The steps that a changed file needs.
fn actions_of(path: &Path, how: Write, found: &Found) -> Vec<Action> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let parent = path.parent().unwrap_or(path);
    let runs = |service: &Service| found.archives.contains_key(service);
    let reload = |services: &[Service]| -> Vec<Action> {
        let running = services.iter().copied().filter(|service| runs(service));
        running.map(Action::Reload).collect()
    };
    if parent.starts_with("/etc/outpost") {
        return match Service::ALL
            .into_iter()
            .find(|service| name == format!("{service}.toml"))
        {
            Some(service) => reload(&[service]),
            None if name.starts_with("zones") || parent.ends_with("zones") => {
                reload(&[Service::DnsAuthd, Service::DnsRecursor])
            }
            // Certificates, keys, users: the service that reads them reads them again.
            None => match Service::ALL
                .into_iter()
                .find(|service| parent.starts_with(paths::etc(*service)))
            {
                Some(service) => reload(&[service]),
                None => Vec::new(),
            },
        };
    }
    if parent.ends_with("sysusers.d") {
        return vec![Action::Users];
    }
    if parent.ends_with("tmpfiles.d") {
        return vec![Action::Directories];
    }
    if path.starts_with("/etc/NetworkManager") {
        return vec![Action::Resolver];
    }
    if !is_read_by_manager(path) {
        return Vec::new();
    }
    let mut actions = vec![Action::Manager];
    if let (Some(rival), Write::New) = (rival_of(path), how) {
        // A condition keeps it from starting, and stops nothing.
        actions.push(Action::Halt(rival.to_owned()));
    }
    match (slot_of(name), how) {
        (Some((service, _)), Write::Contents) if runs(&service) => {
            actions.push(Action::Swap(service));
        }
        (Some(_), _) | (None, Write::Rights) => {}
        (None, Write::Contents) if name.ends_with(".socket") => {
            actions.push(Action::Socket(name.to_owned()));
        }
        // These only prepare the others, and all services would stop with them; the unit that holds sockets
        // runs again when one of them needs it.
        (None, Write::Contents)
            if matches!(
                name,
                "outpost-setup.service" | "outpost-images.service" | HOLDER
            ) => {}
        (None, Write::Contents) if name.starts_with("outpost-") && name.ends_with(".service") => {
            actions.push(Action::Rerun(name.to_owned()));
        }
        (None, Write::Contents | Write::New) => {}
    }
    if how == Write::New {
        actions.push(Action::Start);
    }
    actions
}

/// Units, additions to them, and quadlets.
pub fn is_read_by_manager(path: &Path) -> bool {
    path.starts_with("/etc/systemd/system") || path.starts_with("/etc/containers/systemd")
}

/// The slots whose units or quadlets are among files.
pub fn slots_among(paths: &BTreeSet<PathBuf>) -> impl Iterator<Item = (Service, Slot)> {
    let units = paths.iter().filter(|path| is_read_by_manager(path));
    let names = units.filter_map(|path| path.file_name()?.to_str());
    names.filter_map(slot_of)
}

/// The service and the slot that a unit or a quadlet is of.
fn slot_of(name: &str) -> Option<(Service, Slot)> {
    let stem = name
        .strip_suffix(".container")
        .or_else(|| name.strip_suffix(".service"))?;
    let (service, slot) = stem.strip_prefix("outpost-")?.rsplit_once('-')?;
    let slot = Slot::ALL.into_iter().find(|known| known.name() == slot)?;
    let service = Service::ALL
        .into_iter()
        .find(|known| known.name() == service)?;
    Some((service, slot))
}

#[cfg(test)]
mod tests;
