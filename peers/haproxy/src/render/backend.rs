//! Backends of HAProxy as backends of lb-proxy: how connections to their servers are made.

use std::time::Duration;

use config::lb_proxy::{Backend, Balance, OnDown, OnUp, SendProxy, Time};
use config::{Class, Every, HumanDuration, Ip};

use super::Site;
use crate::proxy::Proxy;
use crate::rules::of_backend;
use crate::server::Server;

/// A shorter silence than this ends watches of the API that are well.
const SHORTEST_WATCH: Duration = Duration::from_mins(10);

impl Site<'_, '_> {
    pub(super) fn backends(&mut self) -> Vec<Backend> {
        let proxies = self.proxies.iter().filter(|proxy| proxy.is_backend());
        proxies
            .map(|proxy| {
                if !proxy.is_frontend() {
                    of_backend(&proxy.tcp_requests, &mut self.notes);
                }
                let mut backend = Backend::new(proxy.name);
                backend.balance = Some(proxy.balance.unwrap_or(Balance::RoundRobin));
                backend.check = self.check(proxy);
                self.connections(proxy, &mut backend);
                let servers = proxy.servers.iter();
                backend.server = servers
                    .filter_map(|server| self.server(proxy, server))
                    .collect();
                backend
            })
            .collect()
    }

    /// How connections to servers are made and kept.
    fn connections(&mut self, proxy: &Proxy<'_>, backend: &mut Backend) {
        self.timeouts(proxy, backend);
        if let Some(retries) = proxy.retries {
            backend.retries = retries;
        }
        if !proxy.redispatches && proxy.servers.len() > 1 {
            let what = format!("retries of {}", proxy.name);
            let how = "a connection that a server does not take goes to another at once, as with `option redispatch`";
            self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
        self.send_proxy(proxy, backend);
        backend.all_backups = proxy.uses_all_backups;
        if let Some(address) = proxy.source_address {
            let reaches = |server: &Server| {
                let target = self.address(proxy, server);
                // Names have addresses of the family alone.
                target.is_ok_and(|target| {
                    let ip = target.ip();
                    ip.is_none_or(|ip| ip.is_ipv4() == address.is_ipv4())
                })
            };
            if proxy.servers.iter().all(reaches) {
                backend.source_address = Some(Ip(address));
            } else {
                let what = format!("source {address} of {}", proxy.name);
                let reason = "not every server is of its family";
                self.notes.lost(Class::Behaviour, &proxy.at, &what, reason);
            }
        }
        let servers = || proxy.servers.iter().map(|server| &server.options);
        let resets_when_down = servers().any(|options| options.resets_when_down);
        let resets_backups = servers().any(|options| options.resets_backups);
        if resets_when_down {
            backend.on_down = Some(OnDown::Reset);
        }
        if resets_backups {
            backend.on_up = OnUp::Reset;
        }
        for (option, is_set) in [
            ("on-marked-down shutdown-sessions", resets_when_down),
            ("on-marked-up shutdown-backup-sessions", resets_backups),
        ] {
            if is_set {
                let what = format!("server option {option} of {}", proxy.name);
                let how =
                    "its sessions are reset, so that no client takes the end for that of an answer";
                self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
            }
        }
        let queue: Option<u32> = servers().map(|options| options.max_queue).sum();
        if let Some(queue) = queue.filter(|queue| *queue > 0) {
            backend.queue = queue;
        }
    }

    fn timeouts(&mut self, proxy: &Proxy<'_>, backend: &mut Backend) {
        let timeouts = &proxy.timeouts;
        if let Some(connect) = timeouts.connect {
            backend.connect_timeout = Time::clamped(connect);
        }
        // HAProxy's, too: a queue without a time of its own has that of a connection.
        if let Some(queue) = timeouts.queue.or(timeouts.connect) {
            backend.queue_timeout = Time::clamped(queue);
        }
        backend.client_fin = HumanDuration(timeouts.client_fin.unwrap_or_default());
        backend.server_fin = HumanDuration(timeouts.server_fin.unwrap_or_default());
        let idle = self.idle(proxy);
        backend.idle_timeout = Every(idle);
        let is_api = proxy
            .servers
            .iter()
            .any(|server| server.address.ends_with(":6443"));
        if let Some(idle) = idle.filter(|idle| is_api && *idle < SHORTEST_WATCH) {
            let how = format!(
                "watches of the API are cut after {} of silence; without `idle-timeout` they are not",
                HumanDuration(idle)
            );
            let what = format!("timeouts of {}", proxy.name);
            self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
    }

    fn send_proxy(&mut self, proxy: &Proxy<'_>, backend: &mut Backend) {
        let servers = || proxy.servers.iter().map(|server| &server.options);
        let Some(version) = servers().find_map(|options| options.proxy_version) else {
            return;
        };
        backend.send_proxy = match version {
            1 => SendProxy::V1,
            _ => SendProxy::V2,
        };
        for server in &proxy.servers {
            if server.options.proxy_version != Some(version) {
                let how =
                    format!("every server of the backend gets a PROXY header, version {version}");
                let what = format!("server {}", server.name);
                self.notes.differs(Class::Behaviour, &server.at, &what, how);
            }
        }
    }

    /// That of `tunnel` if there is one; else the shorter of both sides', as data that moves on one side moves on the other.
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
        let server = proxy.timeouts.server;
        tunnel.or_else(|| server.into_iter().chain(client).min())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{backend, remarks};

    #[test]
    fn a_queue_has_the_time_of_a_connection_unless_it_has_its_own() {
        let of = |timeouts: &str| backend(&format!("{timeouts}server s 192.0.2.1:1"));
        let time = |table: &toml::Table| table.get("queue-timeout").cloned();
        assert_eq!(time(&of("")), None);
        assert_eq!(time(&of("timeout connect 7s\n")), Some("7s".into()));
        let both = of("timeout connect 7s\ntimeout queue 9s\n");
        assert_eq!(time(&both), Some("9s".into()));
    }

    #[test]
    fn retries_that_go_elsewhere_than_they_did_are_told() {
        let said = |lines: &str| {
            remarks(&format!("listen l\nbind :1\n{lines}")).contains("as with `option redispatch`")
        };
        let [one, two] = ["server s 192.0.2.1:1\n", "server t 192.0.2.2:1\n"];
        assert!(said(&format!("{one}{two}")));
        assert!(said(&format!("no option redispatch\n{one}{two}")));
        assert!(!said(&format!("option redispatch\n{one}{two}")));
        assert!(!said(one));
    }
}
