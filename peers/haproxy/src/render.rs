//! Proxies as a configuration of lb-proxy: the whole file, and the sections that are left out of it whole.

mod backend;
mod check;
mod frontend;
mod monitor;
mod server;
mod stats_socket;

use std::collections::BTreeSet;

use config::lb_proxy::{AccessLog, LbProxy, LogTarget, RecordFormat, Role};
use config::{Class, Draft, HumanDuration, Notes, Positive};

use super::HostInfo;
use super::proxy::{Proxy, proxies};
use super::reasons::{self, Disposition};
use super::resolvers::resolvers;
use super::tree::{Kind, Tree};
use super::values::time;

/// The whole file.
pub(super) fn import(tree: &Tree, surroundings: &dyn HostInfo) -> Draft<LbProxy> {
    let mut notes = Notes::default();
    let mut config = LbProxy::default();
    for line in &tree.conditional {
        if let Some(at) = line.position() {
            let reason = "whether it applies is for HAProxy to say";
            notes.lost(reasons::class(line), at, &line.text(), reason);
        }
    }
    for section in &tree.sections {
        match section.kind {
            Kind::Global => section
                .lines
                .iter()
                .for_each(|line| global(line, &mut config, &mut notes)),
            Kind::Other => {
                if let Some(at) = section.head.position() {
                    let reason = "the section has no counterpart";
                    notes.lost(Class::Behaviour, at, &section.head.text(), reason);
                }
            }
            _ => {}
        }
    }
    stats_socket::set_timeout(tree, &mut config);
    let mut proxies = proxies(tree, &mut notes, surroundings);
    config.monitor = monitor::monitors(&proxies, &mut notes);
    proxies.retain(|proxy| is_carried(proxy, &mut notes));
    let led_to: BTreeSet<String> = proxies.iter().flat_map(leads_to).collect();
    let mut site = Site {
        proxies: &proxies,
        notes,
        surroundings,
    };
    config.frontend = site.frontends();
    config.backend = site.backends();
    // A section that has a stick table, and nothing else, is no backend.
    config.backend.retain(|backend| {
        let has_table =
            |proxy: &&Proxy<'_>| proxy.name == backend.name && proxy.stick_table.is_some();
        let is_table = backend.server.is_empty() && proxies.iter().any(|it| has_table(&it));
        !is_table || led_to.contains(&backend.name)
    });
    // HAProxy has a slow start where the file says so.
    let of_api: BTreeSet<String> = config.backends_of(Role::Api).map(str::to_owned).collect();
    for backend in &mut config.backend {
        if of_api.contains(&backend.name) {
            backend.slow_start = Some(HumanDuration::default());
        }
    }
    config.resolvers = resolvers(tree, &proxies, &mut site.notes, surroundings);
    if proxies
        .iter()
        .any(|proxy| proxy.is_frontend() && proxy.logs)
    {
        config.access_log = AccessLog {
            target: LogTarget::Stdout,
            format: RecordFormat::Text,
        };
    }
    Draft {
        config,
        notes: site.notes.into_notes(),
    }
}

/// The backends that a proxy leads to.
fn leads_to(proxy: &Proxy<'_>) -> Vec<String> {
    let used = proxy.use_backends.iter().filter_map(|rule| rule.word(1));
    let default = proxy.default_backend.map(|(name, _)| name);
    used.chain(default).map(str::to_owned).collect()
}

/// A line of `global`.
fn global(rule: &super::Line, config: &mut LbProxy, notes: &mut Notes) {
    let Some(at) = rule.position() else { return };
    let value = rule.word(1).unwrap_or_default();
    let mut lost = |reason| notes.lost(reasons::class(rule), at, &rule.text(), reason);
    match rule.word(0) {
        Some("nbthread") => match value.parse::<u16>() {
            Ok(workers @ 1..) => config.workers = workers.into(),
            _ => lost("its value is no number that fits"),
        },
        Some("maxconn") => match value.parse::<u32>().ok().and_then(positive) {
            Some(number) => config.max_connections = Some(number),
            None => lost("its value is no number that fits"),
        },
        Some("hard-stop-after") => match time(value) {
            Some(value) => config.drain = HumanDuration(value),
            None => lost("its value is no time"),
        },
        Some("stats") if matches!(value, "socket" | "timeout") => {
            stats_socket::read(rule, config, notes);
        }
        _ => {
            if let Disposition::Lost(reason) = reasons::global(rule) {
                lost(reason);
            }
        }
    }
}

/// A limit; 0 stands for none.
fn positive(number: u32) -> Option<Positive<u32>> {
    Positive::new(number.into())
}

/// Says why a section is left out whole.
fn is_carried(proxy: &Proxy<'_>, notes: &mut Notes) -> bool {
    let what = format!("section {}", proxy.name);
    let mut lost = |class, reason| notes.lost(class, &proxy.at, &what, reason);
    if proxy.is_disabled {
        lost(Class::Cosmetic, "it is disabled");
    } else if proxy.is_for_haproxy() && proxy.monitor.is_some() {
        // It is a monitor, or has a note.
    } else if proxy.is_for_haproxy() {
        let reason = "it leads to no server: the admin listener has /status, /metrics and /readyz";
        lost(Class::Cosmetic, reason);
    } else if proxy.is_frontend() && proxy.binds.is_empty() {
        lost(Class::Behaviour, "it listens nowhere");
        // Others may use what `listen` has for servers.
        return !proxy.servers.is_empty();
    } else {
        if proxy.is_http {
            let how = "HTTP is passed through as it is: no header is read or added";
            notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
        return true;
    }
    false
}

struct Site<'a, 'b> {
    proxies: &'a [Proxy<'b>],
    notes: Notes,
    surroundings: &'a dyn HostInfo,
}

impl Site<'_, '_> {
    fn backend_exists(&self, name: &str) -> bool {
        self.proxies
            .iter()
            .any(|proxy| proxy.is_backend() && proxy.name == name)
    }

    /// The frontends that lead to a backend.
    fn leading_to(&self, name: &str) -> impl Iterator<Item = &Proxy<'_>> {
        self.proxies.iter().filter(move |proxy| {
            let is_default = proxy
                .default_backend
                .is_some_and(|(default, _)| default == name);
            let is_used = proxy
                .use_backends
                .iter()
                .any(|rule| rule.word(1) == Some(name));
            proxy.is_frontend() && (is_default || is_used || proxy.name == name)
        })
    }
}
