//! The output of `status`: as JSON from the running proxy, and in lines for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use balance::table::Backend;
use config_text::counted;
use daemon::config::HumanDuration;
use daemon::run::headline_untyped;
use l4::datagram;
use l4::relay::Engine;
use netfilter::FlowTable;
use serde_json::{Value, json};
use vrrp_net::status::RouterStatus;

use crate::config::{Config, Frontend, Path, Protocol, Service};
use crate::datagrams::Datagrams;
use crate::health::Link;
use crate::kernel_path;
use crate::table_builder::View;

/// The most sessions of the kernel that are counted: this bounds the cost, a tenth of a second
/// at most. With more, there are at least this many.
const MOST_COUNTED: usize = 65_536;

/// The proxy's own state.
#[derive(Debug)]
pub struct Report {
    /// The data path.
    pub engine: Arc<Engine>,
    /// The sources of the status.
    pub view: Arc<View>,
    /// The stream from healthd.
    pub link: Link,
    /// Frontends for datagrams.
    pub(crate) datagrams: Datagrams,
    /// The kernel's rules, if there are any.
    pub kernel: Option<netfilter::Status>,
    /// Virtual routers.
    pub routers: Vec<RouterStatus>,
}

impl Report {
    /// As JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        let now = now();
        let counters = self.engine.counters();
        let listening = self.engine.listening();
        let config = self.view.config.as_deref();
        let frontends = config.map_or(&[][..], |config| &config.frontends);
        let flows = self.datagrams.status();
        let frontends: Vec<Value> = frontends
            .iter()
            .map(|frontend| self.frontend(frontend, &listening, &flows))
            .collect();
        let forwarded = self.forwarded();
        let backends = self.view.table.backends.iter();
        let backends: Vec<Value> = backends.map(|backend| self.backend(backend, now)).collect();
        json!({
            "sessions": load(&counters.sessions),
            "most_sessions": self.engine.most_sessions(),
            "accepted": load(&counters.accepted),
            "frontends": frontends,
            "backends": backends,
            "vips": self.routers.iter().map(|router| vip(router, now)).collect::<Vec<_>>(),
            "services": services(config),
            "kernel": self.kernel.as_ref().map(|status| kernel_value(status, &forwarded)),
            "healthd": self.link.state().map(|state| json!({
                "connected": state.connected,
                "error": state.error,
                "age_seconds": self.link.age().map(|age| age.as_secs_f64()),
                "generation": self.view.snapshot.generation,
            })),
        })
    }

    /// How many sessions of each frontend the kernel forwards; none where it does not tell.
    fn forwarded(&self) -> BTreeMap<Arc<str>, u64> {
        let mut sessions = BTreeMap::new();
        let (Some(_), Some(config)) = (&self.kernel, &self.view.config) else {
            return sessions;
        };
        let frontends = kernel_path::frontends(config, &self.view.table);
        let listed = netfilter::Sessions::new(&frontends).list(MOST_COUNTED, |_| true);
        for session in listed.unwrap_or_default() {
            *sessions.entry(session.frontend).or_default() += 1;
        }
        sessions
    }

    fn frontend(
        &self,
        frontend: &Frontend,
        listening: &[(Arc<str>, SocketAddr)],
        flows: &[datagram::Status],
    ) -> Value {
        let name = &frontend.name;
        let bound = listening.iter().filter(|(of, _)| of == name);
        let bound = bound.map(|(_, address)| *address);
        let bound = bound.chain(self.datagrams.listening(name));
        let bound: Vec<String> = bound.map(|address| address.to_string()).collect();
        let listen = match bound.is_empty() {
            false => bound,
            true => frontend.listen.iter().map(ToString::to_string).collect(),
        };
        let able = self.view.abilities.get(format!("frontend:{name}").as_str());
        let mut value = json!({
            "name": &**name,
            "protocol": match frontend.protocol {
                Protocol::Tcp => "tcp",
                Protocol::Udp => "udp",
            },
            "path": match frontend.path {
                Path::User => "user",
                Path::Kernel | Path::KernelPreferred => "kernel",
            },
            "listen": listen,
            "able": able,
        });
        if let (Some(status), Some(object)) = (
            flows.iter().find(|status| status.frontend == *name),
            value.as_object_mut(),
        ) {
            object.insert("flows".to_owned(), status.flows.into());
            object.insert("flows_opened".to_owned(), status.counts.opened.into());
        }
        let known = self.view.table.frontend(name);
        if let (Some(known), Some(object)) = (known, value.as_object_mut()) {
            let tally = &known.tally;
            for (key, count) in [
                ("sessions", &tally.sessions),
                ("most_sessions", &tally.most_sessions),
                ("total", &tally.total),
                ("denied", &tally.denied),
                ("limited", &tally.limited),
                ("rejected", &tally.rejected),
                ("bytes_in", &tally.bytes_in),
                ("bytes_out", &tally.bytes_out),
            ] {
                object.insert(key.to_owned(), load(count).into());
            }
        }
        value
    }

    fn backend(&self, backend: &Backend, now: Instant) -> Value {
        let pool = &backend.pool;
        let explained = pool.explain(now);
        let servers: Vec<Value> = pool
            .servers
            .iter()
            .zip(explained)
            .map(|(server, explained)| {
                let key = (Arc::clone(&pool.name), Arc::clone(&server.name));
                let history = self.view.histories.get(&key);
                let tally = &server.load.tally;
                json!({
                    "name": &*server.name,
                    "address": server.address.to_string(),
                    "state": history.map(|history| history.verdict.name()),
                    "since_seconds": history.map(|history| now.saturating_duration_since(history.since).as_secs()),
                    "chosen": explained.reason.is_chosen(),
                    "why": explained.reason.to_string(),
                    "probe": self.probe(&key),
                    "weight": server.weight,
                    "backup": server.backup,
                    "sessions": explained.sessions,
                    "limit": explained.limit,
                    "total": server.load.total(),
                    "connect_errors": load(&tally.connect_errors),
                    "resets": load(&tally.resets),
                    "bytes_in": load(&tally.bytes_in),
                    "bytes_out": load(&tally.bytes_out),
                })
            })
            .collect();
        json!({
            "name": &*pool.name,
            "usable": pool.n_usable(),
            "queued": pool.queue.waiting(),
            "servers": servers,
        })
    }

    /// healthd's last finding about a server.
    fn probe(&self, key: &crate::table_builder::ServerKey) -> Value {
        let config = self.view.config.as_deref();
        let server = config.and_then(|config| config.server(&key.0, &key.1));
        let Some(target) = server.and_then(|server| server.target.as_ref()) else {
            return Value::Null;
        };
        let status = self.view.snapshot.status(target);
        json!({
            "target": target.to_string(),
            "liveness": status.map(|status| status.liveness.to_string()),
            "admin": status.map(|status| status.admin.to_string()),
            "reason": status.map(|status| status.reason.as_str()),
            "latency_ms": status.map(|status| status.latency.as_secs_f64() * 1e3),
        })
    }
}

fn vip(router: &RouterStatus, now: Instant) -> Value {
    let machine = &router.machine;
    let settings = &machine.settings;
    json!({
        "name": &*settings.name,
        "interface": &*settings.interface,
        "router_id": settings.router_id,
        "addresses": settings.addresses.iter().map(|it| it.address.to_string()).collect::<Vec<_>>(),
        "state": machine.state.to_string(),
        "since_seconds": machine.since.map(|since| now.saturating_duration_since(since).as_secs()),
        "priority": machine.priority,
        "faults": machine.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "active": machine.active.map(|heard| heard.source.to_string()),
        "active_priority": machine.active.map(|heard| heard.priority),
        "handing_over": machine.is_handing_over,
        "advertisements_sent": machine.counters.advert_sent,
        "advertisements_received": machine.counters.advert_rcvd,
        "became_active": machine.counters.become_master,
        "duplicates": machine.counters.duplicates,
    })
}

fn services(config: Option<&Config>) -> Vec<Value> {
    let services = config.into_iter().flat_map(|config| &config.services);
    let value = |service: &Service| {
        json!({
            "name": &*service.name,
            "pool": &*service.pool,
            "addresses": service.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    };
    services.map(value).collect()
}

fn kernel_value(status: &netfilter::Status, sessions: &BTreeMap<Arc<str>, u64>) -> Value {
    let connections = status.connections.iter().map(|one| {
        json!({
            "frontend": &*one.frontend,
            "server": &*one.server,
            "total": one.total,
        })
    });
    json!({
        "changes": status.changes,
        "failures": status.failures,
        "repairs": status.repairs,
        "forgotten": status.forgotten,
        "error": status.error,
        "flow_table": flow_table_value(&status.flow_table),
        "connections": connections.collect::<Vec<_>>(),
        "sessions": sessions.iter().map(|(name, n)| (name.to_string(), (*n).into())).collect::<serde_json::Map<_, _>>(),
    })
}

fn flow_table_value(flow_table: &FlowTable) -> Value {
    match flow_table {
        FlowTable::Off => Value::Null,
        FlowTable::Absent(reason) => json!({ "used": false, "reason": reason }),
        FlowTable::Used(devices) => {
            json!({ "used": true, "devices": devices.names().collect::<Vec<_>>() })
        }
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

//--- For people

/// The answer of a running proxy, in lines.
#[must_use]
pub fn render(status: &Value) -> String {
    let mut text = headline_untyped(status);
    // Writing to a string does not fail.
    let _written = write_detail(&mut text, &status["detail"]);
    text
}

fn write_kernel(text: &mut String, kernel: &Value) -> std::fmt::Result {
    if let Some(sessions) = kernel["sessions"].as_object() {
        for (frontend, n) in sessions {
            writeln!(
                text,
                "the kernel forwards {} of {frontend}",
                counted(number(n), "session")
            )?;
        }
    }
    let flow_table = &kernel["flow_table"];
    match flow_table["used"].as_bool() {
        Some(true) => {
            let devices: Vec<&str> = items(&flow_table["devices"]).map(word).collect();
            let devices = devices.join(" ");
            writeln!(
                text,
                "established connections use the kernel's flow table, from {devices}"
            )?;
        }
        Some(false) => writeln!(
            text,
            "the kernel has NO flow table: {}",
            word(&flow_table["reason"])
        )?,
        None => {}
    }
    if let Some(error) = kernel["error"].as_str() {
        writeln!(
            text,
            "the kernel's rules are NOT as they should be: {error}"
        )?;
    }
    Ok(())
}

fn write_detail(text: &mut String, detail: &Value) -> std::fmt::Result {
    writeln!(
        text,
        "sessions {} of {} at a time, {} accepted",
        number(&detail["sessions"]),
        number(&detail["most_sessions"]),
        number(&detail["accepted"]),
    )?;
    for frontend in items(&detail["frontends"]) {
        write_frontend(text, frontend)?;
    }
    for backend in items(&detail["backends"]) {
        write_backend(text, backend)?;
    }
    for vip in items(&detail["vips"]) {
        write_vip(text, vip)?;
    }
    for service in items(&detail["services"]) {
        let addresses: Vec<&str> = items(&service["addresses"]).map(word).collect();
        let (name, pool) = (word(&service["name"]), word(&service["pool"]));
        writeln!(
            text,
            "service {name} has {} of pool {pool}",
            addresses.join(" ")
        )?;
    }
    write_kernel(text, &detail["kernel"])?;
    let healthd = &detail["healthd"];
    match healthd["connected"].as_bool() {
        Some(true) => writeln!(text, "healthd is connected"),
        Some(false) => {
            let since = match healthd["age_seconds"].as_f64() {
                Some(age) => format!("its findings of {} ago hold", seconds(age)),
                None => "every server counts as up".to_owned(),
            };
            let error = word(&healthd["error"]);
            writeln!(text, "healthd is NOT connected ({error}); {since}")
        }
        None => writeln!(text, "healthd is not asked"),
    }
}

fn write_frontend(text: &mut String, frontend: &Value) -> std::fmt::Result {
    let listen: Vec<&str> = items(&frontend["listen"]).map(word).collect();
    let kind = match (word(&frontend["protocol"]), word(&frontend["path"])) {
        ("tcp", "user") => String::new(),
        (protocol, path) => format!(" ({protocol}, {path} path)"),
    };
    write!(
        text,
        "frontend {} on {}{kind}",
        word(&frontend["name"]),
        listen.join(" ")
    )?;
    if frontend["total"].is_u64() && !frontend["flows"].is_u64() {
        write!(
            text,
            ": {}, {} in all",
            counted(number(&frontend["sessions"]), "session"),
            number(&frontend["total"]),
        )?;
    }
    if frontend["flows"].is_u64() {
        let opened = number(&frontend["flows_opened"]);
        write!(
            text,
            ": {}, {opened} in all",
            counted(number(&frontend["flows"]), "flow")
        )?;
    }
    for (key, words) in [
        ("denied", "denied"),
        ("limited", "over their limit"),
        ("rejected", "rejected"),
    ] {
        if number(&frontend[key]) > 0 {
            write!(text, ", {} {words}", number(&frontend[key]))?;
        }
    }
    match frontend["able"].as_bool() {
        Some(false) => writeln!(text, "  NO SERVER"),
        _ => writeln!(text),
    }
}

fn write_vip(text: &mut String, vip: &Value) -> std::fmt::Result {
    let addresses: Vec<&str> = items(&vip["addresses"]).map(word).collect();
    write!(
        text,
        "vip {} {} on {} (router {}): {}",
        word(&vip["name"]),
        addresses.join(" "),
        word(&vip["interface"]),
        number(&vip["router_id"]),
        word(&vip["state"]),
    )?;
    if let Some(since) = vip["since_seconds"].as_u64() {
        write!(text, " for {}", HumanDuration(Duration::from_secs(since)))?;
    }
    write!(text, ", priority {}", number(&vip["priority"]))?;
    match (vip["state"].as_str(), vip["active"].as_str()) {
        (Some("active"), _) | (_, None) => {}
        (_, Some(active)) => write!(text, ", {active} is active")?,
    }
    let faults: Vec<&str> = items(&vip["faults"]).map(word).collect();
    if !faults.is_empty() {
        write!(text, "  {}", faults.join("; "))?;
    }
    if number(&vip["duplicates"]) > 0 {
        write!(text, "  ANOTHER NODE HAS THE ADDRESS TOO")?;
    }
    writeln!(text)
}

fn write_backend(text: &mut String, backend: &Value) -> std::fmt::Result {
    let name = word(&backend["name"]);
    let queued = match number(&backend["queued"]) {
        0 => String::new(),
        n => format!(", {n} wait"),
    };
    let usable = number(&backend["usable"]);
    let servers: Vec<&Value> = items(&backend["servers"]).collect();
    writeln!(
        text,
        "backend {name}: {usable} of {}{queued}",
        counted(servers.len(), "server")
    )?;
    for server in servers {
        write!(
            text,
            "  {} {} {}",
            word(&server["name"]),
            word(&server["address"]),
            word(&server["why"]),
        )?;
        if let Some(since) = server["since_seconds"].as_u64() {
            write!(text, " for {}", HumanDuration(Duration::from_secs(since)))?;
        }
        write!(
            text,
            ", {}, {} in all",
            counted(number(&server["sessions"]), "session"),
            number(&server["total"])
        )?;
        if number(&server["connect_errors"]) > 0 {
            write!(
                text,
                ", {}",
                counted(number(&server["connect_errors"]), "failed connect")
            )?;
        }
        let probe = &server["probe"];
        match (probe["liveness"].as_str(), probe["reason"].as_str()) {
            (Some("down"), Some(reason)) => {
                write!(text, " ({}: {reason})", word(&probe["target"]))?;
            }
            (None, _) if probe.is_object() => write!(text, " (nothing known yet)")?,
            _ => {}
        }
        writeln!(text)?;
    }
    Ok(())
}

/// The output of `sessions`.
#[must_use]
pub fn render_sessions(sessions: &Value) -> String {
    let mut text = String::new();
    for session in items(sessions) {
        let server = match (session["backend"].as_str(), session["server"].as_str()) {
            (Some(backend), Some(server)) => format!("{backend}/{server}"),
            (Some(backend), None) => backend.to_owned(),
            _ => "-".to_owned(),
        };
        if word(&session["path"]) == "kernel" {
            // Writing to a string does not fail.
            let _written = writeln!(
                text,
                "- {} -> {} {server} {}, by the kernel",
                word(&session["client"]),
                word(&session["frontend"]),
                word(&session["state"]),
            );
            continue;
        }
        if word(&session["state"]) == "flow" {
            // Writing to a string does not fail.
            let _written = writeln!(
                text,
                "- {} -> {} {} flow idle {}, {} in, {} out",
                word(&session["client"]),
                word(&session["frontend"]),
                word(&session["server"]),
                seconds(session["idle_seconds"].as_f64().unwrap_or_default()),
                number(&session["requests"]),
                number(&session["responses"]),
            );
            continue;
        }
        // Writing to a string does not fail.
        let _written = writeln!(
            text,
            "{} {} -> {} {} {} {}, {} in, {} out",
            number(&session["id"]),
            word(&session["client"]),
            word(&session["frontend"]),
            server,
            word(&session["state"]),
            seconds(session["age_seconds"].as_f64().unwrap_or_default()),
            number(&session["bytes_in"]),
            number(&session["bytes_out"]),
        );
    }
    text
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Whole seconds, as people read them.
fn seconds(seconds: f64) -> HumanDuration {
    HumanDuration(Duration::try_from_secs_f64(seconds.trunc()).unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> Instant {
    Instant::now()
}
