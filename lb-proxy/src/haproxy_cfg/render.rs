//! Proxies as the configuration of this proxy.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use config_text::toml::{duration, line, list, quoted};

use super::bind::Bind;
use super::check::{Check, HttpCheck};
use super::proxy::{Proxy, proxies};
use super::reasons::{self, Fate};
use super::rules::{Routes, sources};
use super::server::{Options, Server};
use super::tree::{Kind, Tree};
use super::words::{Host, address, time};
use super::{Imported, Surroundings};
use crate::imported::Remarks;

/// The whole file.
pub(super) fn import(
    files: &[(&Path, &[u8])],
    tree: &Tree,
    surroundings: &dyn Surroundings,
) -> Imported {
    let mut remarks = Remarks::default();
    let mut keys = BTreeMap::new();
    for line in &tree.conditional {
        if let Some(at) = line.position() {
            remarks.not_carried(at, &line.text(), "whether it applies is for HAProxy to say");
        }
    }
    for section in &tree.sections {
        match section.kind {
            Kind::Global => section
                .lines
                .iter()
                .for_each(|line| global(line, &mut keys, &mut remarks)),
            Kind::Other => {
                if let Some(at) = section.head.position() {
                    remarks.not_carried(at, &section.head.text(), "the section has no counterpart");
                }
            }
            _ => {}
        }
    }
    let mut proxies = proxies(tree, &mut remarks, surroundings);
    proxies.retain(|proxy| is_carried(proxy, &mut remarks));
    let mut site = Site {
        proxies: &proxies,
        remarks,
        surroundings,
    };
    let mut body = site.frontends();
    body.push_str(&site.backends());
    let mut top = String::new();
    for (key, value) in keys {
        line(&mut top, format_args!("{key} = {value}"));
    }
    if proxies
        .iter()
        .any(|proxy| proxy.is_frontend() && proxy.logs)
    {
        top.push_str("\n[access-log]\ntarget = \"stdout\"\nformat = \"text\"\n");
    }
    let names: Vec<String> = files
        .iter()
        .map(|(path, _)| path.display().to_string())
        .collect();
    let head = format!(
        "# From {}.\n",
        names.join(" and ").replace(char::is_control, " ")
    );
    site.remarks
        .finish(&head, &format!("version = \"v1\"\n{top}{body}"))
}

/// A line of `global`.
fn global(rule: &super::Line, keys: &mut BTreeMap<&str, String>, remarks: &mut Remarks) {
    let Some(at) = rule.position() else { return };
    let value = rule.word(1).unwrap_or_default();
    match rule.word(0) {
        Some("nbthread") => match value.parse::<u16>() {
            Ok(workers @ 1..) => drop(keys.insert("workers", workers.to_string())),
            _ => remarks.not_carried(at, &rule.text(), "its value is no number that fits"),
        },
        Some("maxconn") => match value.parse::<u32>() {
            Ok(number @ 1..) => drop(keys.insert("max-connections", number.to_string())),
            _ => remarks.not_carried(at, &rule.text(), "its value is no number that fits"),
        },
        Some("hard-stop-after") => match time(value) {
            Some(value) => drop(keys.insert("drain", duration(value))),
            None => remarks.not_carried(at, &rule.text(), "its value is no time"),
        },
        _ => {
            if let Fate::Lost(reason) = reasons::global(rule) {
                remarks.not_carried(at, &rule.text(), reason);
            }
        }
    }
}

/// Says why a section is left out whole.
fn is_carried(proxy: &Proxy<'_>, remarks: &mut Remarks) -> bool {
    let what = format!("section {}", proxy.name);
    if proxy.is_disabled {
        remarks.not_carried(&proxy.at, &what, "it is disabled");
    } else if proxy.is_for_haproxy() {
        let reason = "it leads to no server: the admin listener has /status, /metrics and /readyz";
        remarks.not_carried(&proxy.at, &what, reason);
    } else if proxy.is_frontend() && proxy.binds.is_empty() {
        remarks.not_carried(&proxy.at, &what, "it listens nowhere");
        // Others may use what `listen` has for servers.
        return !proxy.servers.is_empty();
    } else {
        if proxy.is_http {
            let how = "what is of HTTP is passed through as it is: no header is read or added";
            remarks.differs(&proxy.at, &what, how);
        }
        return true;
    }
    false
}

struct Site<'a, 'b> {
    proxies: &'a [Proxy<'b>],
    remarks: Remarks,
    surroundings: &'a dyn Surroundings,
}

impl Site<'_, '_> {
    fn backend_exists(&self, name: &str) -> bool {
        self.proxies
            .iter()
            .any(|proxy| proxy.is_backend() && proxy.name == name)
    }

    //--- Frontends

    fn frontends(&mut self) -> String {
        let mut text = String::new();
        for proxy in self.proxies.iter().filter(|proxy| proxy.is_frontend()) {
            let routes = self.routes(proxy);
            let sources = sources(&proxy.tcp_requests, &proxy.acls, &mut self.remarks);
            // Sockets that differ in more than their address are frontends of their own.
            let mut groups: Vec<(&Bind, Vec<SocketAddr>)> = Vec::new();
            for bind in &proxy.binds {
                let key = |bind: &Bind| (bind.accepts_proxy, bind.max_connections);
                match groups.iter_mut().find(|(first, _)| key(first) == key(bind)) {
                    Some((_, sockets)) => sockets.extend(&bind.sockets),
                    None => groups.push((bind, bind.sockets.clone())),
                }
            }
            for (number, (bind, sockets)) in (1..).zip(groups) {
                let name = match number {
                    1 => proxy.name.to_owned(),
                    _ => format!("{}-{number}", proxy.name),
                };
                line(
                    &mut text,
                    format_args!("\n[[frontend]]\nname = {}", quoted(&name)),
                );
                line(&mut text, format_args!("listen = {}", list(&sockets)));
                if let Some(role) = role(&sockets) {
                    line(&mut text, format_args!("role = \"{role}\""));
                }
                if let Some(backend) = &routes.default {
                    line(&mut text, format_args!("backend = {}", quoted(backend)));
                }
                if bind.accepts_proxy {
                    line(&mut text, format_args!("accept-proxy = \"required\""));
                }
                if let Some(number) = bind
                    .max_connections
                    .or(proxy.max_connections)
                    .filter(|n| *n > 0)
                {
                    line(&mut text, format_args!("max-connections = {number}"));
                }
                if let Some(allow) = &sources.allow {
                    line(&mut text, format_args!("allow-from = {}", list(allow)));
                }
                if !sources.deny.is_empty() {
                    line(
                        &mut text,
                        format_args!("deny-from = {}", list(&sources.deny)),
                    );
                }
                if let Some(delay) = proxy.inspect_delay.filter(|_| !routes.names.is_empty()) {
                    line(
                        &mut text,
                        format_args!("inspect-timeout = {}", duration(delay)),
                    );
                }
                write_routes(&routes, &mut text);
            }
        }
        text
    }

    /// Where connections to `proxy` go, without what is not there.
    fn routes(&mut self, proxy: &Proxy<'_>) -> Routes {
        let own = (!proxy.servers.is_empty()).then(|| proxy.name.to_owned());
        let default = match proxy.default_backend {
            // A `listen` section uses its own servers last.
            Some((name, at)) if !self.backend_exists(name) => {
                self.remarks.not_carried(
                    at,
                    &format!("default_backend {name}"),
                    "there is no such backend",
                );
                own
            }
            Some((name, _)) => Some(name.to_owned()),
            None => own,
        };
        let mut routes = Routes::new(&proxy.use_backends, default, &proxy.acls, &mut self.remarks);
        for name in routes.backends() {
            if !self.backend_exists(name) {
                let what = format!("use_backend {name}");
                self.remarks
                    .not_carried(&proxy.at, &what, "there is no such backend");
            }
        }
        routes
            .names
            .retain(|(_, backend)| self.backend_exists(backend));
        routes.default = routes
            .default
            .filter(|backend| self.backend_exists(backend));
        if routes.default.is_none() && routes.names.is_empty() {
            let what = format!("frontend {}", proxy.name);
            self.remarks
                .differs(&proxy.at, &what, "nothing is left that it could lead to");
        }
        routes
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

    //--- Backends

    fn backends(&mut self) -> String {
        let mut text = String::new();
        for proxy in self.proxies.iter().filter(|proxy| proxy.is_backend()) {
            line(
                &mut text,
                format_args!("\n[[backend]]\nname = {}", quoted(proxy.name)),
            );
            line(
                &mut text,
                format_args!("balance = \"{}\"", proxy.balance.unwrap_or("round-robin")),
            );
            self.check(proxy, &mut text);
            self.connections(proxy, &mut text);
            for server in &proxy.servers {
                self.server(proxy, server, &mut text);
            }
        }
        text
    }

    fn check(&mut self, proxy: &Proxy<'_>, text: &mut String) {
        let mut checked = proxy
            .servers
            .iter()
            .filter(|server| server.options.is_checked);
        let Some(first) = checked.next() else { return };
        for server in checked.filter(|server| !server.options.is_tls) {
            if server.options.check_part() != first.options.check_part() {
                let what = format!("check of server {}", server.name);
                let how = format!("all servers of a backend are checked as {} is", first.name);
                self.remarks.differs(&server.at, &what, how);
            }
        }
        let options = &first.options;
        let mut keys = self.check_kind(proxy, first);
        if let Some(address) = &options.check_address {
            let what = format!("server option addr {address}");
            self.remarks
                .not_carried(&first.at, &what, "servers are probed at their own address");
        }
        let interval = options.times.interval.unwrap_or(Duration::from_secs(2));
        keys.push(format!("interval = {}", duration(interval)));
        if let Some(fast) = options.times.fast {
            keys.push(format!("fast-interval = {}", duration(fast)));
        }
        if let Some(down) = options.times.down.filter(|down| *down != interval) {
            let what = format!(
                "server option downinter {}",
                duration(down).trim_matches('"')
            );
            self.remarks.not_carried(
                &first.at,
                &what,
                "a server that is down is probed as one that is up",
            );
        }
        if let Some(timeout) = proxy.timeouts.check {
            keys.push(format!("timeout = {}", duration(timeout)));
        }
        keys.push(format!("rise = {}", options.rise.unwrap_or(2).max(1)));
        keys.push(format!("fall = {}", options.fall.unwrap_or(3).max(1)));
        line(text, format_args!("check = {{ {} }}", keys.join(", ")));
    }

    /// The kind of the check, and what belongs to it.
    fn check_kind(&mut self, proxy: &Proxy<'_>, first: &Server) -> Vec<String> {
        let options = &first.options;
        let Check::Http(http) = &proxy.check else {
            if options.checks_tls {
                let how = "a server is up when it accepts a connection, whatever it says of TLS";
                self.remarks
                    .differs(&first.at, "server option check-ssl", how);
            }
            return vec!["kind = \"tcp\"".to_owned()];
        };
        let is_tls = options.checks_tls || options.is_tls || http.is_tls;
        let mut keys = vec![format!(
            "kind = \"{}\"",
            if is_tls { "https" } else { "http" }
        )];
        keys.extend(http_keys(http));
        if let (None, Some(name)) = (&http.host, &options.check_name) {
            keys.push(format!("host = {}", quoted(name)));
        }
        if let Some(port) = http.port {
            keys.push(format!("port = {port}"));
        }
        for (name, value) in &http.headers {
            let what = format!("http-check header {name}: {value}");
            self.remarks
                .not_carried(&proxy.at, &what, "probes have no headers of their own");
        }
        if http.status.is_none() {
            let what = format!("check of backend {}", proxy.name);
            let how = "a server is up when it answers 200, not any of 2xx and 3xx";
            self.remarks.differs(&proxy.at, &what, how);
        }
        if is_tls {
            match (options.verifies, &options.ca_file) {
                (Some(false), _) => keys.push("verify = \"none\"".to_owned()),
                (_, Some(file)) => {
                    keys.push("verify = \"ca\"".to_owned());
                    keys.push(format!("ca-file = {}", quoted(file)));
                }
                _ => keys.push("verify = \"system\"".to_owned()),
            }
        }
        keys
    }

    /// How connections to servers are made and kept.
    fn connections(&mut self, proxy: &Proxy<'_>, text: &mut String) {
        let mut key = |name: &str, value: Option<Duration>| {
            if let Some(value) = value {
                line(text, format_args!("{name} = {}", duration(value)));
            }
        };
        let timeouts = &proxy.timeouts;
        key("connect-timeout", timeouts.connect);
        key("queue-timeout", timeouts.queue);
        key("client-fin", timeouts.client_fin);
        key("server-fin", timeouts.server_fin);
        let idle = self.idle(proxy);
        key("idle-timeout", idle);
        let is_api = proxy
            .servers
            .iter()
            .any(|server| server.address.ends_with(":6443"));
        if let Some(idle) = idle.filter(|idle| is_api && *idle < Duration::from_secs(600)) {
            let how = format!(
                "watches of the API are cut after {} of silence; without `idle-timeout` they are not",
                duration(idle).trim_matches('"')
            );
            self.remarks
                .differs(&proxy.at, &format!("timeouts of {}", proxy.name), how);
        }
        if let Some(retries) = proxy.retries {
            line(text, format_args!("retries = {retries}"));
        }
        let servers = || proxy.servers.iter().map(|server| &server.options);
        if let Some(version) = servers().find_map(|options| options.proxy_version) {
            line(text, format_args!("send-proxy = \"v{version}\""));
            for server in &proxy.servers {
                if server.options.proxy_version != Some(version) {
                    let how = format!(
                        "every server of the backend gets a PROXY header, version {version}"
                    );
                    self.remarks
                        .differs(&server.at, &format!("server {}", server.name), how);
                }
            }
        }
        if proxy.uses_all_backups {
            line(text, format_args!("all-backups = true"));
        }
        if let Some(address) = proxy.source_address {
            let reaches = |server: &Server| {
                let target = self.address(proxy, server);
                target.is_ok_and(|(target, _)| target.is_ipv4() == address.is_ipv4())
            };
            if proxy.servers.iter().all(reaches) {
                line(text, format_args!("source-address = \"{address}\""));
            } else {
                let what = format!("source {address} of {}", proxy.name);
                let reason = "not every server is of its family";
                self.remarks.not_carried(&proxy.at, &what, reason);
            }
        }
        if servers().any(|options| options.resets_when_down) {
            line(text, format_args!("on-down = \"reset\""));
        }
        if servers().any(|options| options.resets_backups) {
            line(text, format_args!("on-up = \"reset\""));
        }
        let queue: Option<u32> = servers().map(|options| options.max_queue).sum();
        if let Some(queue) = queue.filter(|queue| *queue > 0) {
            line(text, format_args!("queue = {queue}"));
        }
    }

    /// That of `tunnel` if there is one; else the longer of both sides'.
    fn idle(&self, proxy: &Proxy<'_>) -> Option<Duration> {
        let frontends = || {
            self.leading_to(proxy.name)
                .map(|frontend| &frontend.timeouts)
        };
        let tunnel = proxy
            .timeouts
            .tunnel
            .or_else(|| frontends().find_map(|timeouts| timeouts.tunnel));
        let client = frontends()
            .find_map(|timeouts| timeouts.client)
            .or(proxy.timeouts.client);
        tunnel.or_else(|| proxy.timeouts.server.max(client))
    }

    fn server(&mut self, proxy: &Proxy<'_>, server: &Server, text: &mut String) {
        let what = format!("server {} {}", server.name, server.address);
        if server.options.is_tls {
            let reason = "it speaks TLS to the server, and TLS is passed through, never begun here";
            self.remarks.not_carried(&server.at, &what, reason);
            return;
        }
        let (address, name) = match self.address(proxy, server) {
            Ok(found) => found,
            Err(reason) => {
                self.remarks.not_carried(&server.at, &what, reason);
                return;
            }
        };
        line(
            text,
            format_args!("\n[[backend.server]]\nname = {}", quoted(&server.name)),
        );
        match name {
            Some(name) => line(text, format_args!("address = \"{address}\"  # {name}")),
            None => line(text, format_args!("address = \"{address}\"")),
        }
        let options = &server.options;
        if let Some(weight) = options.weight {
            line(text, format_args!("weight = {weight}"));
        }
        if options.is_backup {
            line(text, format_args!("backup = true"));
        }
        if let Some(number) = options.max_connections.filter(|number| *number > 0) {
            line(text, format_args!("max-connections = {number}"));
        }
        if let Some(time) = options.slow_start.filter(|time| !time.is_zero()) {
            line(text, format_args!("slow-start = {}", duration(time)));
        }
        if !options.is_checked {
            line(text, format_args!("check = false"));
        } else if let Some(port) = options.check_port {
            line(text, format_args!("check-port = {port}"));
        }
        if options.is_disabled {
            line(text, format_args!("maintenance = true"));
        }
    }

    /// A server's address, and its name if it had one instead.
    fn address(
        &self,
        proxy: &Proxy<'_>,
        server: &Server,
    ) -> Result<(SocketAddr, Option<String>), String> {
        let written = address(&server.address).ok_or("it is no address of the Internet")?;
        let port = match written.port {
            Some(port) if !port.starts_with(['+', '-']) => {
                let port: u16 = port.parse().map_err(|_| "its port is no number")?;
                port
            }
            relative => {
                let own = self
                    .own_port(proxy)
                    .ok_or("it has the port of the connection, of which there are several")?;
                let shift: i32 = relative
                    .map_or(Ok(0), str::parse)
                    .map_err(|_| "its port is no number")?;
                let port = i32::from(own)
                    .checked_add(shift)
                    .and_then(|port| u16::try_from(port).ok());
                port.ok_or("its port is out of range")?
            }
        };
        if port == 0 {
            return Err("its port is zero".to_owned());
        }
        match written.host {
            Host::Any => Err("it has no address".to_owned()),
            Host::Ip(ip) => Ok((SocketAddr::new(ip, port), None)),
            Host::Name(name) => {
                let found = self.surroundings.resolve(&name);
                // As HAProxy does not, prefer what a site's network most likely has.
                let ip = found
                    .iter()
                    .find(|ip| ip.is_ipv4())
                    .or_else(|| found.first())
                    .copied();
                let ip: IpAddr = ip.ok_or_else(|| format!("nobody knows an address of {name}"))?;
                let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
                Ok((SocketAddr::new(ip, port), Some(name)))
            }
        }
    }

    /// The port of all sockets that lead to a backend, if there is one.
    fn own_port(&self, proxy: &Proxy<'_>) -> Option<u16> {
        let mut ports = self
            .leading_to(proxy.name)
            .flat_map(|frontend| &frontend.binds)
            .flat_map(|bind| &bind.sockets)
            .map(SocketAddr::port);
        let first = ports.next()?;
        ports.all(|port| port == first).then_some(first)
    }
}

impl Options {
    /// What must be alike for two servers to be checked alike.
    fn check_part(&self) -> impl PartialEq + use<> {
        let tls = (
            self.checks_tls,
            self.verifies,
            self.check_name.clone(),
            self.ca_file.clone(),
        );
        (
            self.check_address.clone(),
            tls,
            self.times,
            self.rise,
            self.fall,
        )
    }
}

fn http_keys(http: &HttpCheck) -> Vec<String> {
    let mut keys = vec![format!("path = {}", quoted(&http.path))];
    if http.method != "GET" {
        keys.push(format!("method = {}", quoted(&http.method)));
    }
    if let Some(host) = &http.host {
        keys.push(format!("host = {}", quoted(host)));
    }
    if let Some(status) = http.status.filter(|status| *status != 200) {
        keys.push(format!("status = {status}"));
    }
    if let Some(body) = &http.body {
        keys.push(format!("body = {}", quoted(body)));
    }
    keys
}

/// One table for names that follow each other and go to the same backend.
fn write_routes(routes: &Routes, text: &mut String) {
    for group in routes.names.chunk_by(|(_, one), (_, other)| one == other) {
        let names = group.iter().map(|(name, _)| name);
        if let Some((_, backend)) = group.first() {
            line(
                text,
                format_args!("\n[[frontend.route]]\nnames = {}", list(names)),
            );
            line(text, format_args!("backend = {}", quoted(backend)));
        }
    }
}

/// What OpenShift has on these ports.
fn role(sockets: &[SocketAddr]) -> Option<&'static str> {
    let has = |wanted: &[u16]| sockets.iter().any(|socket| wanted.contains(&socket.port()));
    if has(&[6443, 22_623]) {
        Some("api")
    } else if has(&[80, 443]) {
        Some("ingress")
    } else {
        None
    }
}
