//! `outpost status` on a node, and of all nodes of a site.
//!
//! Asks the service manager of a node, the processes themselves, the kernel and healthd, and other nodes over ssh for
//! the same. Shows a node that does not answer with the reason, and everything that healthd finds down.

mod queues;
mod show;
pub(crate) mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use api::outpost::{self, Bundle, Down, Node, Reached, Unknown};
use daemon::config::Problems;
use daemon::{errln, exit, json, outln, run};
use proto::wire::Liveness;

use self::queues::Kind;
use crate::args::StatusArgs;
use crate::{install, remote};
use site::Site;
use site::paths;
use site::service::Service;
use site::slot::Slot;
use site_node::liveness;
use site_node::paths::NodePaths;
use site_node::process::Process;
use site_node::record::{self, Record};
use site_node::systemd::{self, Unit};

/// The kernel's tables of sockets.
const TABLES: [(&str, Kind); 4] = [
    ("/proc/net/udp", Kind::Udp),
    ("/proc/net/udp6", Kind::Udp),
    ("/proc/net/tcp", Kind::Tcp),
    ("/proc/net/tcp6", Kind::Tcp),
];

/// Whether this machine is a node: it has slots of services.
pub(crate) fn is_node() -> bool {
    Path::new(paths::ETC).is_dir() && Path::new(paths::STATE).is_dir()
}

/// Shows this node, or all of a site; again and again if that is wanted.
pub(crate) fn run(args: &StatusArgs) -> ExitCode {
    run::verb(async {
        loop {
            let shown = match view(args).await {
                Ok(shown) => shown,
                Err(problems) => {
                    errln!("{problems}");
                    return exit::code(exit::CONFIG);
                }
            };
            let Some(pause) = args.pause() else {
                outln!("{}", shown.text);
                return exit::code(shown.code);
            };
            if watch::show(&shown.text, args.json).is_err() {
                return exit::code(shown.code);
            }
            tokio::time::sleep(pause).await;
        }
    })
}

/// A status as text, and what it says to the caller.
struct View {
    text: String,
    code: u8,
}

/// Fails where the site file cannot be used.
async fn view(args: &StatusArgs) -> Result<View, Problems> {
    match &args.site {
        None => Ok(this(args.json).await),
        Some(site) => Ok(all(&site_file::read(site)?, &args.login, args.json).await),
    }
}

async fn this(is_json: bool) -> View {
    let status = node(&NodePaths::below(Path::new("/"))).await.shown();
    View {
        text: match is_json {
            true => json::text(&status),
            false => show::node(&status).trim_end().to_owned(),
        },
        code: code_of(&status),
    }
}

/// 0 when everything is known, and every service that is here serves and is ready.
fn code_of(status: &Node) -> u8 {
    let mut services = status.services.iter();
    let is_good = services.all(|service| service.ready == Some(true));
    let is_known = status.unknown.is_empty() && status.healthd_error.is_none();
    match is_good && is_known {
        true => exit::OK,
        false => exit::UNAVAILABLE,
    }
}

//--- A site

async fn all(site: &Site, login: &str, is_json: bool) -> View {
    let words = ["status", "--node", "--json"];
    let shown: Vec<Reached<Node>> = remote::ask_all(site, login, &words).await;
    let codes = shown.iter().map(|reached| match reached {
        Reached::Node(status) => code_of(status),
        Reached::Unreachable { .. } => exit::UNAVAILABLE,
    });
    let lines = shown.iter().map(|reached| match reached {
        Reached::Node(status) => show::node(status),
        Reached::Unreachable { node, error } => remote::unreachable(node, error),
    });
    let mixed = show::mixed(shown.iter().filter_map(|reached| match reached {
        Reached::Node(status) => Some((status.node.as_str(), status.bundle?.generation)),
        Reached::Unreachable { .. } => None,
    }));
    View {
        code: codes.max().unwrap_or(exit::OK),
        text: match is_json {
            true => json::text(&shown),
            false => lines.chain(mixed).collect::<String>().trim_end().to_owned(),
        },
    }
}

//--- A node

/// The state of something on this node.
#[derive(Clone, Debug, PartialEq)]
enum Answer<T> {
    /// The node does not have it.
    Absent,
    /// Its state.
    Known(T),
    /// It could not be asked, for this reason: whether the node has it is unknown too.
    Unreachable(String),
}

/// The state of a node.
#[derive(Clone, Debug)]
struct NodeStatus {
    name: String,
    bundle: Option<Bundle>,
    services: Vec<(Service, Answer<outpost::Service>)>,
    /// The targets that healthd finds down.
    down: Answer<Vec<Down>>,
}

impl NodeStatus {
    fn shown(self) -> Node {
        let (mut services, mut unknown) = (Vec::new(), Vec::new());
        for (service, answer) in self.services {
            match answer {
                Answer::Absent => {}
                Answer::Known(status) => services.push(status),
                Answer::Unreachable(error) => unknown.push(Unknown {
                    service: service.name().to_owned(),
                    error,
                }),
            }
        }
        let (down, healthd_error) = match self.down {
            Answer::Absent => (Vec::new(), None),
            Answer::Known(down) => (down, None),
            Answer::Unreachable(error) => (Vec::new(), Some(error)),
        };
        Node {
            node: self.name,
            bundle: self.bundle,
            services,
            unknown,
            down,
            healthd_error,
        }
    }
}

async fn node(paths: &NodePaths) -> NodeStatus {
    let mut services = Vec::new();
    for service in Service::ALL {
        services.push((service, of(paths, service).await));
    }
    let runs_healthd = services
        .iter()
        .any(|(service, answer)| *service == Service::Healthd && !matches!(answer, Answer::Absent));
    let down = match runs_healthd {
        true => down(paths).await,
        false => Answer::Absent,
    };
    NodeStatus {
        name: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        bundle: bundle(),
        services,
        down,
    }
}

/// The bundle that is installed. The record is root's; to others, and where it is damaged, nothing is known of it.
fn bundle() -> Option<Bundle> {
    let record = install::record::Record::read(Path::new("/")).ok()??;
    Some(Bundle {
        generation: record.generation,
        highest: record.highest,
    })
}

async fn down(paths: &NodePaths) -> Answer<Vec<Down>> {
    let targets = match liveness::list(&paths.healthd()).await {
        Ok(targets) => targets,
        Err(error) => return Answer::Unreachable(format!("{error:#}")),
    };
    let down = targets
        .iter()
        .filter(|one| one.liveness() == Liveness::Down)
        .map(|one| Down {
            target: liveness::name(one),
            reason: one.reason.clone(),
        });
    Answer::Known(down.collect())
}

async fn of(paths: &NodePaths, service: Service) -> Answer<outpost::Service> {
    let live = record::live(paths, service);
    let record = Record::read(paths, service);
    let mut slots = Vec::new();
    let mut ports = vec![paths::admin(service).port()];
    for slot in Slot::ALL {
        let unit = match systemd::show(&slot.unit(service)).await {
            Ok(unit) => unit,
            Err(error) => return Answer::Unreachable(format!("{error:#}")),
        };
        if !unit.is_known() {
            return Answer::Absent;
        }
        if slot == live {
            for socket in unit.sockets() {
                ports.extend(systemd::ports(socket).await.unwrap_or_default());
            }
        }
        slots.push(slot_status(slot, &unit, &record));
    }
    let socket = paths.admin_socket(service, live);
    let process = Process::at_or(socket, paths::admin(service));
    let shown = outpost::Service {
        service: service.name().to_owned(),
        live: live.name().to_owned(),
        slots,
        queues: queues(&ports),
        last: record.last,
        ..outpost::Service::default()
    };
    Answer::Known(match process.status().await {
        Ok(status) => outpost::Service {
            version: Some(status.version),
            revision: Some(status.revision),
            state: Some(status.state),
            ready: Some(status.ready),
            uptime_seconds: Some(status.uptime_seconds),
            reasons: status.reasons,
            ..shown
        },
        Err(_) => shown,
    })
}

fn slot_status(slot: Slot, unit: &Unit, record: &Record) -> outpost::Slot {
    let has = record.slots.get(slot.name());
    outpost::Slot {
        slot: slot.name().to_owned(),
        active: unit.get("ActiveState").to_owned(),
        sub: unit.get("SubState").to_owned(),
        result: unit.get("Result").to_owned(),
        restarts: unit.n_restarts(),
        watchdog_age_seconds: age(unit),
        version: has.map(|has| has.version.clone()),
        image: has.and_then(|has| has.image.clone()),
    }
}

/// How long ago the process told that it makes progress, by the clock that never steps.
fn age(unit: &Unit) -> Option<f64> {
    let told: u64 = unit.get("WatchdogTimestampMonotonic").parse().ok()?;
    if told == 0 {
        return None;
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let told = Duration::from_micros(told).as_secs_f64();
    let now = Duration::try_from(now).ok()?.as_secs_f64();
    Some((now - told).max(0.0))
}

fn queues(ports: &[u16]) -> Vec<outpost::Queue> {
    let tables = TABLES.iter().filter_map(|(path, kind)| {
        let table = std::fs::read_to_string(path).ok()?;
        Some(queues::of(&table, *kind, ports))
    });
    let shown = tables.flatten().map(|queue| outpost::Queue {
        kind: queue.kind.name().to_owned(),
        address: queue.address.to_string(),
        waiting: queue.waiting,
        dropped: queue.dropped,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(services: Answer<outpost::Service>, down: Answer<Vec<Down>>) -> u8 {
        let status = NodeStatus {
            name: "master-0".to_owned(),
            bundle: None,
            services: vec![(Service::Healthd, services)],
            down,
        };
        code_of(&status.shown())
    }

    #[test]
    fn what_could_not_be_asked_is_not_well() {
        let healthd = |ready| {
            Answer::Known(outpost::Service {
                ready: Some(ready),
                ..outpost::Service::default()
            })
        };
        let (ready, waiting) = (|| healthd(true), healthd(false));
        assert_eq!(code(ready(), Answer::Known(Vec::new())), exit::OK);
        assert_eq!(code(Answer::Absent, Answer::Absent), exit::OK);
        assert_eq!(code(waiting, Answer::Known(Vec::new())), exit::UNAVAILABLE);
        let silent = || "cannot run `systemctl`".to_owned();
        assert_eq!(
            code(Answer::Unreachable(silent()), Answer::Known(Vec::new())),
            exit::UNAVAILABLE
        );
        assert_eq!(
            code(ready(), Answer::Unreachable(silent())),
            exit::UNAVAILABLE
        );
    }

    #[test]
    fn what_could_not_be_asked_is_shown() {
        let status = NodeStatus {
            name: "master-0".to_owned(),
            bundle: None,
            services: vec![(
                Service::Healthd,
                Answer::Unreachable("no systemd".to_owned()),
            )],
            down: Answer::Unreachable("cannot reach healthd: no such file".to_owned()),
        };
        assert_eq!(
            show::node(&status.shown()),
            "master-0\n  ! healthd: state unknown: no systemd\n  \
             ! liveness unknown: cannot reach healthd: no such file\n"
        );
    }
}
