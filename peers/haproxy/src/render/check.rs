//! Checks of HAProxy as checks of lb-proxy.

use std::time::Duration;

use config::healthd::Verify;
use config::lb_proxy::{HealthCheck, Kind, MIN_INTERVAL, Port, Time};
use config::{Class, DurationWithin, HumanDuration, Positive, Whole};

use super::Site;
use crate::check::{Check, HttpCheck};
use crate::proxy::Proxy;
use crate::server::{Options, Server};
use crate::tcp_check::TcpCheck;

impl Site<'_, '_> {
    /// The check of a backend; none when none of its servers is checked.
    pub(super) fn check(&mut self, proxy: &Proxy<'_>) -> Option<HealthCheck> {
        let mut checked = proxy
            .servers
            .iter()
            .filter(|server| server.options.is_checked);
        let first = checked.next()?;
        for server in checked.filter(|server| !server.options.is_tls) {
            if server.options.check_part() != first.options.check_part() {
                let what = format!("check of server {}", server.name);
                let how = format!("all servers of a backend are checked as {} is", first.name);
                self.notes.differs(Class::Behaviour, &server.at, &what, how);
            }
        }
        let options = &first.options;
        let check = self.check_kind(proxy, first);
        if let Some(address) = &options.check_address {
            let what = format!("server option addr {address}");
            let reason = "servers are probed at their own address";
            self.notes.lost(Class::Behaviour, &first.at, &what, reason);
        }
        // Without a word in the file the schedule is healthd's: one record a target, for DNS too.
        let interval = options.times.interval;
        if let Some(interval) = interval.filter(|one| *one < Duration::from_millis(MIN_INTERVAL)) {
            let what = format!("server option inter {}", HumanDuration(interval));
            let how = "healthd probes a server every 100ms at most";
            self.notes.differs(Class::Behaviour, &first.at, &what, how);
        }
        if let Some(down) = options.times.down.filter(|down| Some(*down) != interval) {
            let what = format!("server option downinter {}", HumanDuration(down));
            let reason = "a server that is down is probed as one that is up";
            self.notes.lost(Class::Behaviour, &first.at, &what, reason);
        }
        let count = |count: Option<u32>| count.map(|count| Positive::clamped(count.into()));
        Some(HealthCheck {
            interval: interval.map(DurationWithin::clamped),
            fast_interval: options.times.fast.map(Time::clamped),
            timeout: proxy.timeouts.check.map(Time::clamped),
            rise: count(options.rise),
            fall: count(options.fall),
            ..check
        })
    }

    /// The kind of the check, and what belongs to it.
    fn check_kind(&mut self, proxy: &Proxy<'_>, first: &Server) -> HealthCheck {
        let options = &first.options;
        let conversation = match &proxy.check {
            Check::Rules => Some(&proxy.tcp_check),
            Check::Tcp(check) => Some(check),
            Check::Connect | Check::Http(_) => None,
        };
        if let Some(check) = conversation.filter(|_| !options.checks_tls) {
            return tcp_check(check);
        }
        let Check::Http(http) = &proxy.check else {
            if options.checks_tls {
                let how = "a server is up when it accepts a connection, whatever it says of TLS";
                let what = "server option check-ssl";
                self.notes.differs(Class::Behaviour, &first.at, what, how);
            }
            return HealthCheck {
                kind: Some(Kind::Tcp),
                ..HealthCheck::default()
            };
        };
        if http.port.is_none() && proxy.servers.iter().any(Server::gets_header_in_checks) {
            let what = format!("send-proxy in checks of backend {}", proxy.name);
            let how = "probes begin without the PROXY header that checks had: a server that insists \
                       on one is found down; probe another port, or with kind = \"tcp\"";
            self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
        for (name, value) in &http.headers {
            let what = format!("http-check header {name}: {value}");
            let reason = "probes have no headers of their own";
            self.notes.lost(Class::Behaviour, &proxy.at, &what, reason);
        }
        if http.status.is_none() {
            let what = format!("check of backend {}", proxy.name);
            let how = "a server is up when it answers 200, not any of 2xx and 3xx";
            self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
        let is_tls = options.checks_tls || options.is_tls || http.is_tls;
        let (verify, ca_file) = match (options.verifies, &options.ca_file) {
            _ if !is_tls => (None, None),
            (Some(false), _) => (Some(Verify::None), None),
            (_, Some(file)) => (Some(Verify::Ca), Some(file.clone())),
            _ => (Some(Verify::System), None),
        };
        HealthCheck {
            kind: Some(if is_tls { Kind::Https } else { Kind::Http }),
            host: http.host.clone().or_else(|| options.check_name.clone()),
            port: http.port.and_then(|port| Port::new(port.into())),
            verify,
            ca_file,
            ..request(http)
        }
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

/// A conversation; one with a rule that is lost only connects.
fn tcp_check(check: &TcpCheck) -> HealthCheck {
    let port = check.port.and_then(|port| Port::new(port.into()));
    if check.is_lost || check.steps.is_empty() {
        return HealthCheck {
            kind: Some(Kind::Tcp),
            port,
            ..HealthCheck::default()
        };
    }
    HealthCheck {
        kind: Some(Kind::TcpCheck),
        port,
        steps: Some(check.steps.clone()),
        ..HealthCheck::default()
    }
}

/// The request of a check, and the answer that it needs.
fn request(http: &HttpCheck) -> HealthCheck {
    let status = http.status.filter(|status| *status != 200);
    HealthCheck {
        path: Some(http.path.clone()),
        method: Some(http.method.clone()).filter(|method| method != "GET"),
        status: status.and_then(|status| Whole::new(status.into())),
        body: http.body.clone(),
        ..HealthCheck::default()
    }
}
