//! `outpost status` on a node, and of all nodes of a site.
//!
//! A node is asked for what its service manager, the processes themselves, the kernel and healthd say.
//! Other nodes are asked over ssh for the same; one that cannot be asked is shown with the reason, and
//! so is everything that healthd finds down.

mod queues;
mod remote;
mod show;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use daemon::{errln, exit, outln, run};
use proto::wire::Liveness;
use serde_json::{Value, json};

use self::queues::Kind;
use crate::args::StatusArgs;
use crate::render::places;
use crate::service::Service;
use crate::site_file;
use crate::swap::liveness;
use crate::swap::manager::{self, Unit};
use crate::swap::places::Places;
use crate::swap::process::Process;
use crate::swap::record::{self, Record};
use crate::swap::slot::Slot;

/// The kernel's tables of sockets.
const TABLES: [(&str, Kind); 4] = [
    ("/proc/net/udp", Kind::Udp),
    ("/proc/net/udp6", Kind::Udp),
    ("/proc/net/tcp", Kind::Tcp),
    ("/proc/net/tcp6", Kind::Tcp),
];

/// Whether this machine is a node: it has slots of services.
pub(crate) fn is_node() -> bool {
    Path::new(places::ETC).is_dir() && Path::new(places::STATE).is_dir()
}

/// Shows this node, or all of a site.
pub(crate) fn run(args: &StatusArgs) -> ExitCode {
    run::verb(async {
        exit::code(match &args.site {
            None => this(args.json).await,
            Some(site) => all(site, &args.login, args.json).await,
        })
    })
}

async fn this(json: bool) -> u8 {
    let status = node(&Places::below(Path::new("/"))).await;
    match json {
        true => outln!("{status:#}"),
        false => outln!("{}", show::node(&status).trim_end()),
    }
    code_of(&status)
}

/// 0 when every service that is here serves and is ready.
fn code_of(status: &Value) -> u8 {
    let services = status.get("services").and_then(Value::as_array);
    let is_good = services.is_some_and(|services| {
        services
            .iter()
            .all(|service| service.get("ready") == Some(&Value::Bool(true)))
    });
    if is_good { exit::OK } else { exit::UNAVAILABLE }
}

//--- A site

async fn all(site: &Path, login: &str, json: bool) -> u8 {
    let site = match site_file::read(site) {
        Ok(site) => site,
        Err(problems) => {
            errln!("{problems}");
            return exit::CONFIG;
        }
    };
    // All at once: one that is silent holds nobody up.
    let asked: Vec<_> = site
        .nodes
        .iter()
        .map(|node| {
            let (login, address) = (login.to_owned(), node.address());
            tokio::spawn(async move { remote::ask(&login, address).await })
        })
        .collect();
    let mut code = exit::OK;
    let mut shown = Vec::new();
    for (node, asked) in site.nodes.iter().zip(asked) {
        let asked = asked.await.unwrap_or_else(|error| Err(error.into()));
        code = code.max(asked.as_ref().map_or(exit::UNAVAILABLE, code_of));
        if json {
            shown.push(asked.unwrap_or_else(
                |error| json!({ "node": node.name, "error": format!("{error:#}") }),
            ));
            continue;
        }
        let text = match asked {
            Ok(status) => show::node(&status),
            Err(error) => show::unreachable(&node.name, &format!("{error:#}")),
        };
        outln!("{}", text.trim_end());
    }
    if json {
        outln!("{:#}", Value::Array(shown));
    }
    code
}

//--- A node

/// Everything that there is to see of this node.
async fn node(places: &Places) -> Value {
    let listed = liveness::list(&places.healthd()).await;
    let mut services = Vec::new();
    for service in Service::ALL {
        if let Some(status) = of(places, service).await {
            services.push(status);
        }
    }
    let (down, error) = match listed {
        Ok(targets) => {
            let down = targets
                .iter()
                .filter(|one| one.liveness() == Liveness::Down);
            let down =
                down.map(|one| json!({ "target": liveness::name(one), "reason": one.reason }));
            (down.collect::<Vec<_>>(), None)
        }
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    json!({
        "node": rustix::system::uname().nodename().to_string_lossy(),
        "services": services,
        "down": down,
        "healthd_error": error,
    })
}

/// A service of this node; none if it has no units here.
async fn of(places: &Places, service: Service) -> Option<Value> {
    let live = record::live(places, service);
    let record = Record::read(places, service);
    let mut slots = Vec::new();
    let mut ports = vec![places::admin(service).port()];
    for slot in Slot::ALL {
        let unit = manager::show(&slot.unit(service)).await.ok()?;
        if !unit.is_known() {
            return None;
        }
        if slot == live {
            for socket in unit.sockets() {
                ports.extend(manager::ports(socket).await.unwrap_or_default());
            }
        }
        slots.push(slot_status(slot, &unit, &record));
    }
    let socket = places.admin_socket(service, live);
    let process = Process::at_or(socket, places::admin(service));
    let status = process.status().await.unwrap_or_default();
    let of_process = |key: &str| status.get(key).cloned().unwrap_or_default();
    let reasons = status.get("reasons").cloned().unwrap_or_else(|| json!([]));
    Some(json!({
        "service": service.name(),
        "live": live.name(),
        "version": of_process("version"),
        "revision": of_process("revision"),
        "state": of_process("state"),
        "ready": of_process("ready"),
        "uptime_seconds": of_process("uptime_seconds"),
        "reasons": reasons,
        "slots": slots,
        "queues": queues(&ports),
        "last": record.last,
    }))
}

fn slot_status(slot: Slot, unit: &Unit, record: &Record) -> Value {
    let has = record.slots.get(slot.name());
    json!({
        "slot": slot.name(),
        "active": unit.get("ActiveState"),
        "sub": unit.get("SubState"),
        "result": unit.get("Result"),
        "restarts": unit.n_restarts(),
        "watchdog_age_seconds": age(unit),
        "version": has.map(|has| has.version.as_str()),
        "image": has.and_then(|has| has.image.as_deref()),
    })
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

fn queues(ports: &[u16]) -> Vec<Value> {
    let tables = TABLES.iter().filter_map(|(path, kind)| {
        let table = std::fs::read_to_string(path).ok()?;
        Some(queues::of(&table, *kind, ports))
    });
    tables
        .flatten()
        .map(|queue| {
            json!({
                "kind": queue.kind.name(),
                "address": queue.address.to_string(),
                "waiting": queue.waiting,
                "dropped": queue.dropped,
            })
        })
        .collect()
}
