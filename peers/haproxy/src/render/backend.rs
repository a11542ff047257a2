//! Backends of HAProxy as the configuration of this proxy: how connections to their servers are made.

use std::time::Duration;

use config_text::toml::{duration, line, quoted};

use super::Site;
use crate::proxy::Proxy;
use crate::server::Server;

impl Site<'_, '_> {
    pub(super) fn backends(&mut self) -> String {
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
}
