//! What has to be done to make a node what a bundle says, from what it is. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::image_format::digest::Sha256;
use crate::service::Service;

/// A file, as it is or as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Permissions.
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: (u32, u32),
    /// What is in it.
    pub(crate) digest: Sha256,
}

/// What a node is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its files.
    pub(crate) files: BTreeMap<PathBuf, FileState>,
    /// Units that start with the machine.
    pub(crate) enabled: BTreeSet<String>,
    /// The archive of each of its services.
    pub(crate) archives: BTreeMap<Service, Sha256>,
}

/// What a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Those of its files that are wanted, or were installed before.
    pub(crate) files: BTreeMap<PathBuf, FileState>,
    /// Those units that start with the machine, of the wanted and the installed ones.
    pub(crate) enabled: BTreeSet<String>,
    /// The archive that the live slot of each service runs.
    pub(crate) archives: BTreeMap<Service, Sha256>,
    /// Files that were installed before.
    pub(crate) installed: BTreeSet<PathBuf>,
    /// Units that were enabled before.
    pub(crate) had_enabled: BTreeSet<String>,
    /// What a run before this one did not come to.
    pub(crate) pending: BTreeSet<Deed>,
}

/// How a file comes to be what it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// It is not there.
    New,
    /// It has other bytes.
    Contents,
    /// It has other permissions or another owner.
    Rights,
}

/// Something that is done once files are in place, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    /// Users are made (sysusers.d).
    Users,
    /// Directories are made (tmpfiles.d).
    Directories,
    /// systemd reads its units again.
    Manager,
    /// Images are loaded.
    Images,
    /// What is not running is started.
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
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users => f.write_str("make users"),
            Self::Directories => f.write_str("make directories"),
            Self::Manager => f.write_str("reload systemd"),
            Self::Images => f.write_str("load images"),
            Self::Start => f.write_str("start what is new"),
            Self::Socket(unit) => write!(f, "listen anew: {unit}"),
            Self::Rerun(unit) => write!(f, "run again: {unit}"),
            Self::Swap(service) => write!(f, "swap {service}"),
            Self::Reload(service) => write!(f, "reload {service}"),
            Self::Resolver => f.write_str("reload NetworkManager"),
        }
    }
}

impl FromStr for Deed {
    type Err = NoDeed;

    fn from_str(text: &str) -> Result<Self, NoDeed> {
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
        if let Some(deed) = plain
            .into_iter()
            .chain(of_service)
            .find(|deed| deed.to_string() == text)
        {
            return Ok(deed);
        }
        let socket = text
            .strip_prefix("listen anew: ")
            .map(|unit| Self::Socket(unit.to_owned()));
        let rerun = || {
            text.strip_prefix("run again: ")
                .map(|unit| Self::Rerun(unit.to_owned()))
        };
        socket.or_else(rerun).ok_or(NoDeed)
    }
}

/// Text that says nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is nothing that an install does")]
pub(crate) struct NoDeed;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Files to write, by path.
    pub(crate) writes: BTreeMap<PathBuf, Write>,
    /// Files that no longer belong to the node.
    pub(crate) removals: BTreeSet<PathBuf>,
    /// Services whose first archive is put on the shelf.
    pub(crate) archives: BTreeSet<Service>,
    /// Units to start with the machine from here on.
    pub(crate) enable: BTreeSet<String>,
    /// Units to start with the machine no more.
    pub(crate) disable: BTreeSet<String>,
    /// What is done then.
    pub(crate) deeds: BTreeSet<Deed>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares.
pub(crate) fn plan(wanted: &Wanted, found: &Found) -> Plan {
    let mut plan = Plan {
        deeds: found.pending.clone(),
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
        plan.deeds.extend(deeds_of(path, how, found));
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
        plan.deeds.insert(Deed::Manager);
    }
    for (service, archive) in &wanted.archives {
        match found.archives.get(service) {
            None => {
                plan.archives.insert(*service);
                plan.deeds.extend([Deed::Images, Deed::Start]);
            }
            Some(there) if there != archive => {
                plan.deeds.insert(Deed::Swap(*service));
            }
            Some(_) => {}
        }
    }
    plan.enable = wanted.enabled.difference(&found.enabled).cloned().collect();
    if !plan.enable.is_empty() {
        plan.deeds.insert(Deed::Start);
    }
    let was = found.had_enabled.difference(&wanted.enabled);
    plan.disable = was
        .filter(|unit| found.enabled.contains(*unit))
        .cloned()
        .collect();
    // Who takes over reads everything anew.
    let swapped: Vec<Service> = plan.deeds.iter().filter_map(swapped).collect();
    plan.deeds
        .retain(|deed| !matches!(deed, Deed::Reload(service) if swapped.contains(service)));
    plan
}

fn swapped(deed: &Deed) -> Option<Service> {
    match deed {
        Deed::Swap(service) => Some(*service),
        _ => None,
    }
}

/// What a changed file makes necessary.
fn deeds_of(path: &Path, how: Write, found: &Found) -> Vec<Deed> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let parent = path.parent().unwrap_or(path);
    let runs = |service: &Service| found.archives.contains_key(service);
    let reload = |services: &[Service]| -> Vec<Deed> {
        let running = services.iter().copied().filter(|service| runs(service));
        running.map(Deed::Reload).collect()
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
            // Certificates, keys, users: whoever reads them does so again.
            None => reload(&Service::ALL),
        };
    }
    if parent.ends_with("sysusers.d") {
        return vec![Deed::Users];
    }
    if parent.ends_with("tmpfiles.d") {
        return vec![Deed::Directories];
    }
    if path.starts_with("/etc/NetworkManager") {
        return vec![Deed::Resolver];
    }
    if !is_read_by_manager(path) {
        return Vec::new();
    }
    let mut deeds = vec![Deed::Manager];
    match (slot_of(name), how) {
        (Some(service), Write::Contents) if runs(&service) => deeds.push(Deed::Swap(service)),
        (Some(_), _) | (None, Write::Rights) => {}
        (None, Write::Contents) if name.ends_with(".socket") => {
            deeds.push(Deed::Socket(name.to_owned()));
        }
        // These two only prepare the others, and all services would stop with them.
        (None, Write::Contents)
            if matches!(name, "outpost-setup.service" | "outpost-images.service") => {}
        (None, Write::Contents) if name.starts_with("outpost-") && name.ends_with(".service") => {
            deeds.push(Deed::Rerun(name.to_owned()));
        }
        (None, Write::Contents | Write::New) => {}
    }
    if how == Write::New {
        deeds.push(Deed::Start);
    }
    deeds
}

/// Units, additions to them, and quadlets.
pub(crate) fn is_read_by_manager(path: &Path) -> bool {
    path.starts_with("/etc/systemd/system") || path.starts_with("/etc/containers/systemd")
}

/// The service whose slot a unit or a quadlet is.
fn slot_of(name: &str) -> Option<Service> {
    let stem = name
        .strip_suffix(".container")
        .or_else(|| name.strip_suffix(".service"))?;
    let stem = stem.strip_prefix("outpost-")?;
    let service = stem
        .strip_suffix("-a")
        .or_else(|| stem.strip_suffix("-b"))?;
    Service::ALL
        .into_iter()
        .find(|known| known.name() == service)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FileState {
        FileState {
            mode: 0o644,
            owner: (0, 0),
            digest: Sha256::of(text.as_bytes()),
        }
    }

    const CONFIG: &str = "/etc/outpost/healthd.toml";
    const QUADLET: &str = "/etc/containers/systemd/outpost-healthd-a.container";
    const SOCKET: &str = "/etc/systemd/system/outpost-healthd.socket";
    const PATHS: [&str; 5] = [
        CONFIG,
        QUADLET,
        SOCKET,
        "/etc/outpost/pki/node.crt",
        "/etc/systemd/system/outpost-setup.service",
    ];

    fn wanted() -> Wanted {
        Wanted {
            files: PATHS.map(|path| (path.into(), file("1"))).into(),
            enabled: ["outpost-healthd.socket".to_owned()].into(),
            archives: [(Service::Healthd, Sha256::of(b"1"))].into(),
        }
    }

    /// A node that is all that is wanted.
    fn installed() -> Found {
        let wanted = wanted();
        Found {
            installed: wanted.files.keys().cloned().collect(),
            files: wanted.files,
            had_enabled: wanted.enabled.clone(),
            enabled: wanted.enabled,
            archives: wanted.archives,
            pending: BTreeSet::new(),
        }
    }

    fn deeds(change: impl FnOnce(&mut Found)) -> Vec<Deed> {
        let mut found = installed();
        change(&mut found);
        plan(&wanted(), &found).deeds.into_iter().collect()
    }

    fn changed(path: &str) -> Vec<Deed> {
        deeds(|found| {
            found.files.insert(path.into(), file("0"));
        })
    }

    #[test]
    fn a_node_that_is_all_that_is_wanted_needs_nothing() {
        assert!(plan(&wanted(), &installed()).is_empty());
    }

    #[test]
    fn the_first_time_everything_is_written_and_started_and_nothing_reloaded() {
        let plan = plan(&wanted(), &Found::default());
        assert_eq!(plan.writes.len(), PATHS.len());
        assert!(plan.writes.values().all(|how| *how == Write::New));
        assert_eq!(
            plan.deeds.into_iter().collect::<Vec<_>>(),
            [Deed::Manager, Deed::Images, Deed::Start]
        );
        assert_eq!(plan.archives, [Service::Healthd].into());
        assert_eq!(plan.enable, ["outpost-healthd.socket".to_owned()].into());
    }

    #[test]
    fn what_changed_is_all_that_is_disturbed() {
        let healthd = Service::Healthd;
        for (path, expected) in [
            (CONFIG, vec![Deed::Reload(healthd)]),
            (QUADLET, vec![Deed::Manager, Deed::Swap(healthd)]),
            (
                SOCKET,
                vec![
                    Deed::Manager,
                    Deed::Socket("outpost-healthd.socket".to_owned()),
                ],
            ),
            ("/etc/outpost/pki/node.crt", vec![Deed::Reload(healthd)]),
            (
                "/etc/systemd/system/outpost-setup.service",
                vec![Deed::Manager],
            ),
        ] {
            assert_eq!(changed(path), expected, "{path}");
        }
    }

    #[test]
    fn a_swap_makes_a_reload_unnecessary() {
        let found = deeds(|found| {
            found.files.insert(CONFIG.into(), file("0"));
            found.archives.insert(Service::Healthd, Sha256::of(b"0"));
        });
        assert_eq!(found, [Deed::Swap(Service::Healthd)]);
    }

    #[test]
    fn rights_are_given_back_without_disturbing_anybody_but_the_reader() {
        let mut found = installed();
        let open = FileState {
            mode: 0o666,
            ..file("1")
        };
        found.files.insert(SOCKET.into(), open);
        let plan = plan(&wanted(), &found);
        assert_eq!(plan.writes, [(SOCKET.into(), Write::Rights)].into());
        assert_eq!(plan.deeds, [Deed::Manager].into());
    }

    #[test]
    fn what_was_left_undone_is_done() {
        let left = deeds(|found| {
            found.pending.insert(Deed::Swap(Service::LbProxy));
        });
        assert_eq!(left, [Deed::Swap(Service::LbProxy)]);
    }

    #[test]
    fn what_no_longer_belongs_to_the_node_goes() {
        let mut found = installed();
        let old: PathBuf = "/etc/systemd/system/outpost-old.socket".into();
        found
            .installed
            .extend([old.clone(), "/etc/outpost/gone".into()]);
        found.files.insert(old.clone(), file("x"));
        for unit in ["outpost-old.socket", "outpost-long-gone.socket"] {
            found.had_enabled.insert(unit.to_owned());
        }
        found.enabled.insert("outpost-old.socket".to_owned());
        let plan = plan(&wanted(), &found);
        assert_eq!(plan.removals, [old].into());
        assert_eq!(plan.disable, ["outpost-old.socket".to_owned()].into());
        assert_eq!(plan.deeds, [Deed::Manager].into());
    }

    #[test]
    fn a_deed_is_what_its_text_says() {
        let unit = "outpost-x.socket".to_owned();
        for deed in [
            Deed::Users,
            Deed::Start,
            Deed::Resolver,
            Deed::Swap(Service::LbProxy),
            Deed::Reload(Service::Healthd),
            Deed::Socket(unit.clone()),
            Deed::Rerun(unit),
        ] {
            assert_eq!(deed.to_string().parse(), Ok(deed));
        }
        assert_eq!("swap x".parse::<Deed>(), Err(NoDeed));
    }

    #[test]
    fn slots_are_told_from_other_units() {
        for (name, service) in [
            ("outpost-lb-proxy-a.container", Some(Service::LbProxy)),
            ("outpost-dns-authd-b.service", Some(Service::DnsAuthd)),
            ("outpost-images.service", None),
            ("outpost-lb-proxy-api.socket", None),
            ("chronyd-a.service", None),
        ] {
            assert_eq!(slot_of(name), service, "{name}");
        }
    }
}
