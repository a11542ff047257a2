//! Checks of HAProxy as the configuration of this proxy.

use std::time::Duration;

use config_text::toml::{duration, line, quoted};

use super::Site;
use crate::check::{Check, HttpCheck};
use crate::proxy::Proxy;
use crate::server::{Options, Server};

impl Site<'_, '_> {
    pub(super) fn check(&mut self, proxy: &Proxy<'_>, text: &mut String) {
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
        if http.port.is_none() && proxy.servers.iter().any(Server::gets_header_in_checks) {
            let what = format!("send-proxy in checks of backend {}", proxy.name);
            let how = "probes begin without the PROXY header that checks had: a server that insists \
                       on one is found down; probe another port, or with kind = \"tcp\"";
            self.remarks.differs(&proxy.at, &what, how);
        }
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
}

impl Options {
    /// The values that must be alike for two servers to be checked alike.
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
