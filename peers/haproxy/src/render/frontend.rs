//! Frontends of HAProxy as the configuration of this proxy.

use std::net::SocketAddr;

use config_text::toml::{duration, line, list, quoted};

use super::Site;
use crate::bind::Bind;
use crate::proxy::Proxy;
use crate::rules::{Routes, sources};

impl Site<'_, '_> {
    pub(super) fn frontends(&mut self) -> String {
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

    /// The targets of connections to `proxy`, without those that are not there.
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

/// OpenShift's use of these ports.
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
