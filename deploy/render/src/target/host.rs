//! The parts of a node beside its services: directories, users, images, the resolver, the clock.

use std::path::PathBuf;

use super::container::{storage_conf, storage_environment};
use super::ordering::{self, HOLDER, IMAGES, Ordering, SETUP};
use super::scope::{Scope, resolvers};
use super::slot;
use super::text::Text;
use super::unit::{Host, Unit, file};
use super::{native, sockets};
use crate::config::{NodeFile, Part};
use site::facts::{self, Identity};
use site::paths;
use site::service::Service;
use site::slot::Slot;
use site::{Node, Site};

/// The program itself, which loads images and swaps.
const OUTPOST: &str = "/usr/local/bin/outpost";
const SYSUSERS: &str = "/etc/sysusers.d/outpost.conf";
const TMPFILES: &str = "/etc/tmpfiles.d/outpost.conf";

/// Adds what all kinds of targets have in common.
pub(super) fn common(host: &mut Host, scope: &Scope<'_>) {
    host.files.push(sysusers(scope));
    host.units.push(setup(scope));
    host.units.push(reload(scope));
    if let Some(file) = name_servers(scope) {
        host.files.push(file);
    }
    host.units.extend(clock(scope));
}

/// Adds what containers need.
pub(super) fn containers(host: &mut Host, scope: &Scope<'_>) {
    host.units.push(holder("/usr/bin/podman --version", scope));
    host.files.push(storage_conf());
    host.files.push(tmpfiles(scope, ""));
    let text = images("load").set("Environment", storage_environment());
    host.units.push(Unit::new(
        IMAGES,
        slot::install(text).finish(),
        Part::Common,
    ));
    host.units
        .extend(scope.services().map(|service| image(service, None)));
}

/// Adds what plain binaries need.
pub(super) fn binaries(host: &mut Host, scope: &Scope<'_>) {
    host.units.push(holder("/bin/true", scope));
    host.files.push(tmpfiles(scope, &native::directory()));
    let text = images("load --native");
    host.units.push(Unit::new(
        IMAGES,
        slot::install(text).finish(),
        Part::Common,
    ));
    let label = format!(
        "-/usr/bin/chcon --recursive --type bin_t {}",
        native::BINARIES
    );
    host.units
        .extend(scope.services().map(|service| image(service, Some(&label))));
}

/// Stands for both slots of every service to their sockets.
///
/// A socket has one service that it starts when a client connects. Were that a slot, and the other one
/// live but stopped manually, systemd would try to start the wrong one as fast as it can (measured:
/// 300 times a second), because a condition forbids it. This one is there already, so it starts nothing.
///
/// While it is there, systemd starts no socket of it: one that comes to a machine that is up, or has to
/// listen elsewhere, comes up with a restart of this. It wants them, so that one transaction does both:
/// were it stopped and then started, a query on any other socket would start it in between.
fn holder(program: &str, scope: &Scope<'_>) -> Unit {
    let text = oneshot("sockets of its services")
        .set_words(
            "Wants",
            scope
                .services()
                .flat_map(|service| sockets::names(service, scope)),
        )
        .comments(&["A limit of restarts that is hit would close all of them."])
        .set("StartLimitIntervalSec", 0)
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .comments(&[
            "SELinux gives sockets the label of what this executes: containers have to read them.",
        ])
        .set("ExecStart", program);
    Unit::new(HOLDER, slot::install(text).finish(), Part::Common)
}

//--- Directories and users

/// The user of each service, by a name: containers have its number alone.
fn sysusers(scope: &Scope<'_>) -> NodeFile {
    let mut text =
        "# A user for each of Outpost's services, and the group of those that connect to it.\n"
            .to_owned();
    for service in scope.services() {
        let Identity { name, id } = facts::user(service);
        text.push_str(&format!(
            "u {name} {id} \"Outpost {service}\" {}\n",
            paths::STATE
        ));
        if let Some(Identity { name, id }) = facts::clients(service) {
            text.push_str(&format!("g {name} {id}\n"));
        }
    }
    text.push_str(&format!(
        "# Its members may change what services do, at the sockets in {}.\ng {} -\n",
        paths::ADMIN_RUN,
        paths::OPERATORS,
    ));
    file(SYSUSERS, text, Part::Common)
}

/// Directories, each with a mode that lets in those alone that have to get in.
fn tmpfiles(scope: &Scope<'_>, more: &str) -> NodeFile {
    let (etc, run, state, admin) = (paths::ETC, paths::RUN, paths::STATE, paths::ADMIN_RUN);
    let mut text = format!(
        "# Directories of Outpost.\n\
         d {etc} 0755 root root -\n\
         d {run} 0755 root root -\n\
         d {admin} 0755 root root -\n\
         d {run}/swap 0755 root root -\n\
         d {state} 0755 root root -\n\
         d {state}/images 0755 root root -\n\
         d {state}/slots 0755 root root -\n{more}"
    );
    if scope.is_role {
        // The keys of every node are in it.
        text.push_str(&format!("d {} 0700 root root -\n", paths::NODES));
    }
    for service in scope.services() {
        for directory in directories(service) {
            text.push_str(&directory.line());
        }
    }
    file(TMPFILES, text, Part::Common)
}

/// A directory of a service.
struct Directory {
    path: PathBuf,
    mode: &'static str,
    owner: String,
    group: String,
}

impl Directory {
    /// The line of tmpfiles.d(5).
    fn line(&self) -> String {
        let (path, mode) = (self.path.display(), self.mode);
        format!("d {path} {mode} {} {} -\n", self.owner, self.group)
    }
}

/// The directories of a service.
fn directories(service: Service) -> Vec<Directory> {
    let own = facts::user(service).id.to_string();
    let of_service = |path, mode, group| Directory {
        path,
        mode,
        owner: own.clone(),
        group,
    };
    // The service reads its configuration, and cannot change it.
    let etc = Directory {
        owner: "root".to_owned(),
        ..of_service(paths::etc(service), "0750", own.clone())
    };
    // Sockets have the group of their directory.
    let admin = paths::admin_directory(service);
    let admin = of_service(admin, "2750", paths::OPERATORS.to_owned());
    let run = facts::run(service).map(|path| match facts::clients(service) {
        Some(clients) => of_service(path, "2750", clients.id.to_string()),
        None => of_service(path, "0750", own.clone()),
    });
    let state = of_service(paths::state(service), "0750", own.clone());
    [etc, admin].into_iter().chain(run).chain([state]).collect()
}

/// A oneshot that stays: units that depend on it start once it has succeeded.
fn oneshot(description: &str) -> Text {
    Text::new(&[])
        .section("Unit")
        .set("Description", format_args!("Outpost: {description}"))
}

fn setup(scope: &Scope<'_>) -> Unit {
    let states = scope.services().map(|service| {
        let (path, id) = (paths::state(service), facts::user(service).id);
        format!(
            "-/usr/bin/find {} -maxdepth 1 ! -uid {id} -exec /usr/bin/chown --recursive --no-dereference {id}:{id} {{}} +",
            path.display()
        )
    });
    let text = oneshot("its users and its directories")
        .comments(&[
            "On the day on which it comes to a machine that is up, nothing else has made them.",
        ])
        .set("RequiresMountsFor", paths::STATE)
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .set(
            "ExecStart",
            format_args!("/usr/bin/systemd-sysusers {SYSUSERS}"),
        )
        .comments(&[
            "State that another user has left, such as one of a backup. Directories come after what is in them, so that a",
            "run that was cut off is done again.",
        ])
        .set_each("ExecStart", states)
        .set(
            "ExecStart",
            format_args!("/usr/bin/systemd-tmpfiles --create {TMPFILES}"),
        );
    Unit::new(SETUP, slot::install(text).finish(), Part::Common)
}

/// Up to `[Service]` and its last key.
fn images(verb: &str) -> Text {
    oneshot("images of its services")
        .comments(&["Without a registry: from the archives on this disk, if they are not loaded or damaged."])
        .set("RequiresMountsFor", paths::STATE)
        .set("Wants", SETUP)
        .set("After", SETUP)
        .section("Service")
        .comments(&["Ready once each service can wait for its own images alone; ends when all are there."])
        .set("Type", "notify")
        .set("RemainAfterExit", "yes")
        .set("TimeoutStartSec", 600)
        .set("ExecStart", format_args!("{OUTPOST} images {verb}"))
}

/// Waits for the images of one service: its slots start when they are there, or cannot be.
fn image(service: Service, label: Option<&str>) -> Unit {
    let text = oneshot(&format!("images of {service}"))
        .set("Wants", IMAGES)
        .set("After", IMAGES)
        .comments(&["A restart of the unit that loads images makes this one wait again."])
        .set("PartOf", IMAGES)
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .set("TimeoutStartSec", 600)
        .set("ExecStart", format_args!("{OUTPOST} images wait {service}"));
    let text = match label {
        None => text,
        Some(label) => text
            .comments(&[
                "The label of what may be executed, for SELinux; other systems have no such program.",
            ])
            .set("ExecStartPost", label),
    };
    Unit::new(
        ordering::image(service),
        slot::install(text).finish(),
        Part::Service(service),
    )
}

/// Has every service read its configuration again. Started manually, or by the platform when it has
/// changed files.
fn reload(scope: &Scope<'_>) -> Unit {
    let units = scope
        .services()
        .flat_map(|service| Slot::ALL.map(|slot| slot.unit(service)));
    let text = oneshot("have all services read their configuration again")
        .section("Service")
        .set("Type", "oneshot")
        .comments(&["Those that do not run are no reason to fail."])
        .set_words(
            "ExecStart",
            ["-/usr/bin/systemctl", "reload"]
                .map(str::to_owned)
                .into_iter()
                .chain(units),
        )
        .finish();
    Unit {
        enable: false,
        ..Unit::new("outpost-reload.service", text, Part::Common)
    }
}

//--- Names

/// The file that tells `NetworkManager` the DNS servers.
pub(super) const NAME_SERVERS: &str = "/etc/NetworkManager/conf.d/90-outpost-dns.conf";

/// Nothing where no node of the site resolves names. For a role the file is a node's own.
fn name_servers(scope: &Scope<'_>) -> Option<NodeFile> {
    match scope.nodes.as_slice() {
        [node] if !scope.is_role => name_servers_of(scope.site, node),
        _ => None,
    }
}

/// The file of one node.
pub(super) fn name_servers_of(site: &Site, node: &Node) -> Option<NodeFile> {
    let servers: Vec<String> = resolvers(site, Some(node))
        .iter()
        .map(ToString::to_string)
        .collect();
    if servers.is_empty() {
        return None;
    }
    let text = format!(
        "# Names are resolved by the site's own servers, whatever a network says.\n\
         # Addresses of nodes and not of the loopback interface: pods copy resolv.conf.\n\
         [global-dns]\n\
         searches={}\n\
         # A server that is away costs two seconds and not five.\n\
         options=timeout:2\n\
         \n\
         [global-dns-domain-*]\n\
         servers={}\n",
        site.domain,
        servers.join(","),
    );
    Some(file(NAME_SERVERS, text, Part::Common))
}

//--- The clock

/// The time services of operating systems. OpenShift's is chronyd.
pub const RIVALS: [&str; 4] = [
    "chronyd.service",
    "chrony.service",
    "ntpsec.service",
    "systemd-timesyncd.service",
];

/// Keeps other time servers from the clock, and releases the units that wait for it.
fn clock(scope: &Scope<'_>) -> Vec<Unit> {
    if !scope.keeps_time() {
        return Vec::new();
    }
    let part = Part::Service(Service::TimesyncAgent);
    // A condition and no mask: units that require it continue, and it is back when the file is gone.
    let rival = Text::new(&["One program sets the clock, and it is timesync-agent."])
        .section("Unit")
        .set(
            "ConditionPathExists",
            format_args!("!{}", paths::config(Service::TimesyncAgent).display()),
        )
        .finish();
    let n_rivals = if scope.is_openshift() {
        1
    } else {
        RIVALS.len()
    };
    let mut units: Vec<Unit> = RIVALS
        .into_iter()
        .take(n_rivals)
        .map(|name| Unit::addition(name, rival.clone(), part))
        .collect();
    units.push(Unit::addition(
        "chrony-wait.service",
        chrony_wait(scope),
        part,
    ));
    units
}

/// `chrony-wait` asks at the UDP port, where timesync-agent answers as chronyd does. On an island
/// one of the nodes has no server to be in step with, and elsewhere no server may answer: neither is
/// a reason to hold up the machine for minutes.
fn chrony_wait(scope: &Scope<'_>) -> String {
    let tries = match scope.site.time.servers.is_empty() {
        true => 10,
        false => 30,
    };
    Text::new(&[&format!(
        "Asks timesync-agent, for {tries} seconds at most."
    )])
    .section("Unit")
    .set_words(
        "After",
        Slot::ALL.map(|slot| slot.unit(Service::TimesyncAgent)),
    )
    .section("Service")
    .set("ExecStart", "")
    .set(
        "ExecStart",
        format_args!("-/usr/bin/chronyc -h 127.0.0.1,::1 waitsync {tries} 0.1 0.0 1"),
    )
    .finish()
}

//--- Before the network is online

/// Starts the services of a platform whose quadlets wait for network-online.target.
///
/// On an OpenShift node that target comes after nodeip-configuration.service, which after a power cut
/// pulls an image by a name of the site: each would wait for the other for ever. An operator
/// who starts a unit manually may say that its ordering does not count.
pub(super) fn early(scope: &Scope<'_>) -> Unit {
    let services: Vec<Service> = scope.services().collect();
    let sockets: Vec<String> = services
        .iter()
        .flat_map(|&service| sockets::names(service, scope))
        .collect();
    let mut first = ordering::before_everything(scope);
    first.extend(services.iter().map(|&service| ordering::image(service)));
    let slots = services
        .iter()
        .flat_map(|&service| Slot::ALL.map(|slot| slot.unit(service)));
    let text = oneshot("services before the network is called online")
        .comments(&[
            "Quadlets of this podman are after network-online.target, which on a node comes after",
            "nodeip-configuration.service, which needs these services.",
        ])
        .set_words("Wants", &first)
        .set_words("Wants", &sockets)
        .set_words("After", first.iter().chain(&sockets))
        .set_words("Before", ordering::before(None, scope, Ordering::First))
        .section("Service")
        .set("Type", "oneshot")
        .comments(&["A service that does not start is no reason to hold up the others."])
        .set_words(
            "ExecStart",
            [
                "-/usr/bin/systemctl",
                "start",
                "--job-mode=ignore-dependencies",
            ]
            .map(str::to_owned)
            .into_iter()
            .chain(slots),
        );
    Unit::new(
        "outpost-early.service",
        slot::install(text).finish(),
        Part::Common,
    )
}
