//! The sockets that systemd holds for the services, so that both slots serve the same ones and
//! nothing is lost between them (systemd.socket(5)).
//!
//! Unix sockets are not among them: `SELinux` lets no container connect to one that systemd has made, so each process binds
//! its own.
//!
//! A unit for each name under which a service asks for sockets. They listen on every address of the
//! node, so that they are the same on each node of a role and outlive a change of addresses.

use super::ordering;
use super::scope::Scope;
use super::text::Text;
use super::unit::Unit;
use crate::config::Part;
use site::paths;
use site::service::Service;

/// Sockets of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sockets {
    /// The service.
    service: Service,
    /// The purpose, for people.
    what: &'static str,
    /// The part of the unit's name that distinguishes them from other sockets of the service.
    suffix: String,
    /// The name under which the service asks for them.
    descriptor: String,
    port: Port,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Port {
    number: u16,
    udp: bool,
    tcp: bool,
    /// On 127.0.0.1 alone.
    loopback: bool,
}

/// UDP sockets for each address. A service has a thread for each core, and each socket is read by one
/// of them: with fewer sockets than cores some threads have nothing to do, with more one thread reads
/// several. Four is enough for the queries of a node.
const UDP_SOCKETS: usize = 4;

/// The kernel doubles it. Holds what comes in while both slots are busy: the default holds 250 small
/// queries only, and a container could not ask for more itself.
const RECEIVE_BUFFER: &str = "8M";

/// Connections that wait for a slot to take them; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// The units of all sockets of a service.
pub(super) fn units(service: Service, scope: &Scope<'_>) -> Vec<Unit> {
    of(service, scope)
        .iter()
        .map(|sockets| sockets.unit(scope))
        .collect()
}

/// The names of the units of all sockets of a service.
pub(super) fn names(service: Service, scope: &Scope<'_>) -> Vec<String> {
    of(service, scope).iter().map(Sockets::name).collect()
}

fn of(service: Service, scope: &Scope<'_>) -> Vec<Sockets> {
    let registries = scope
        .site
        .nodes
        .iter()
        .filter(|node| node.services.contains(&Service::RegistrySvc));
    let one = |what, descriptor: &str, port| Sockets {
        service,
        what,
        suffix: String::new(),
        descriptor: descriptor.to_owned(),
        port,
    };
    match service {
        Service::Healthd => exchange(scope).into_iter().collect(),
        Service::Clusterd => Vec::new(),
        Service::DnsAuthd => {
            let port = Port::udp(paths::AUTHORITY_PORT).and_tcp();
            let port = match scope.site.shares_authorities() {
                true => port,
                false => port.on_loopback(),
            };
            vec![one("dns-recursor's queries for the zones", "dns", port)]
        }
        Service::DnsRecursor => vec![one("DNS", "dns", Port::udp(53).and_tcp())],
        Service::LbProxy => scope
            .frontends()
            .into_iter()
            .map(|frontend| Sockets {
                suffix: format!("-{}", unit_word(&frontend.name)),
                ..one(
                    "balanced connections",
                    &frontend.name,
                    Port::tcp(frontend.port),
                )
            })
            .collect(),
        Service::RegistrySvc => {
            let mut all = vec![one(
                "the registry",
                "registry",
                Port::tcp(scope.site.registry.port),
            )];
            if registries.count() > 1 {
                all.push(Sockets {
                    suffix: "-cluster".to_owned(),
                    ..one(
                        "other registries of the site",
                        "cluster",
                        Port::tcp(scope.site.registry.cluster_port),
                    )
                });
            }
            all
        }
        Service::TimesyncAgent => vec![one("time", "ntp", Port::udp(123))],
    }
}

/// The socket for the healthds of other nodes, if nodes exchange findings.
fn exchange(scope: &Scope<'_>) -> Option<Sockets> {
    let sockets = Sockets {
        service: Service::Healthd,
        what: "findings for the other nodes",
        suffix: "-exchange".to_owned(),
        descriptor: "exchange".to_owned(),
        port: Port::tcp(paths::EXCHANGE_PORT),
    };
    (!scope.site.observers().is_empty()).then_some(sockets)
}

impl Sockets {
    fn name(&self) -> String {
        format!("outpost-{}{}.socket", self.service, self.suffix)
    }

    fn unit(&self, scope: &Scope<'_>) -> Unit {
        let text = Text::new(&[])
            .section("Unit")
            .set(
                "Description",
                format_args!("Outpost {}: {}", self.service, self.what),
            )
            .set("ConditionPathExists", paths::config(self.service).display())
            .comments(&["A unit that holds sockets for services that wait for their directories cannot be up before sockets.target."])
            .set("DefaultDependencies", "no")
            .set("Requires", "sysinit.target")
            .set("Conflicts", "shutdown.target")
            .set("Before", "shutdown.target")
            .set_words("Wants", ordering::before_everything(scope))
            .set_words(
                "After",
                ["sysinit.target".to_owned()].into_iter().chain(ordering::before_everything(scope)),
            )
            .section("Socket");
        let text = self
            .port
            .set(text, scope.has_ipv6())
            .set("Backlog", BACKLOG)
            .set("FileDescriptorName", &self.descriptor)
            .comments(&["Slots start with the machine, and never because of who connects."])
            .set("Service", ordering::HOLDER)
            .comments(&["A service that cannot start must not close its port."])
            .set("TriggerLimitIntervalSec", 0)
            .section("Install")
            .set("WantedBy", "multi-user.target")
            .finish();
        Unit::new(self.name(), text, Part::Service(self.service))
    }
}

impl Port {
    fn tcp(number: u16) -> Self {
        Self {
            number,
            udp: false,
            tcp: true,
            loopback: false,
        }
    }

    fn udp(number: u16) -> Self {
        Self {
            udp: true,
            tcp: false,
            ..Self::tcp(number)
        }
    }

    fn and_tcp(self) -> Self {
        Self { tcp: true, ..self }
    }

    fn on_loopback(self) -> Self {
        Self {
            loopback: true,
            ..self
        }
    }

    fn set(self, text: Text, has_ipv6: bool) -> Text {
        let mut addresses = vec![match self.loopback {
            true => format!("127.0.0.1:{}", self.number),
            false => format!("0.0.0.0:{}", self.number),
        }];
        if has_ipv6 && !self.loopback {
            addresses.push(format!("[::]:{}", self.number));
        }
        let is_two = addresses.len() > 1;
        let mut text = text;
        if self.udp {
            let each = addresses
                .iter()
                .flat_map(|address| std::iter::repeat_n(address, UDP_SOCKETS));
            text = text.set_each("ListenDatagram", each);
        }
        if self.tcp {
            text = text.set_each("ListenStream", &addresses);
        }
        text.when(is_two, |text| text.set("BindIPv6Only", "ipv6-only"))
            .when(self.udp, |text| {
                text.set("ReusePort", "yes")
                    .set("ReceiveBuffer", RECEIVE_BUFFER)
            })
            .comments(&["Sockets are there before the addresses are."])
            .set("FreeBind", "yes")
    }
}

/// A name as it may be part of a unit's name (systemd.unit(5)).
fn unit_word(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => character,
            _ => '-',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::{Role, Site};

    #[test]
    fn a_node_of_one_family_has_sockets_of_that_family() {
        let mut site = Site::example();
        let listens = |site: &Site| -> Vec<String> {
            let scope = Scope::node(site, &site.nodes[0]);
            let units = units(Service::DnsRecursor, &scope);
            let text = units[0].text.clone().unwrap();
            text.lines()
                .filter(|line| line.starts_with("Listen") || line.starts_with("Bind"))
                .map(str::to_owned)
                .collect()
        };
        let mut one = vec!["ListenDatagram=0.0.0.0:53"; UDP_SOCKETS];
        one.push("ListenStream=0.0.0.0:53");
        assert_eq!(listens(&site), one);
        site.nodes[1].addresses.push("fd00::14".parse().unwrap());
        let two = listens(&site);
        assert_eq!(two.len(), 2 * (UDP_SOCKETS + 1) + 1);
        assert!(two.contains(&"ListenDatagram=[::]:53".to_owned()));
        assert!(two.contains(&"BindIPv6Only=ipv6-only".to_owned()));
    }

    #[test]
    fn a_registry_alone_has_nobody_to_listen_for() {
        let mut site = Site::example();
        let n_sockets = |site: &Site| {
            let scope = Scope::role(site, Role::Master).unwrap();
            names(Service::RegistrySvc, &scope).len()
        };
        assert_eq!(n_sockets(&site), 2);
        site.nodes.truncate(1);
        assert_eq!(n_sockets(&site), 1);
    }

    #[test]
    fn healthd_listens_for_other_nodes_where_there_is_a_majority() {
        let mut site = Site::example();
        let sockets = |site: &Site| {
            let scope = Scope::role(site, Role::Master).unwrap();
            names(Service::Healthd, &scope)
        };
        assert_eq!(sockets(&site), ["outpost-healthd-exchange.socket"]);
        site.nodes.truncate(2);
        assert_eq!(sockets(&site), [""; 0]);
    }

    #[test]
    fn a_dns_authd_that_no_other_node_asks_listens_on_loopback() {
        let mut site = Site::example();
        let listens = |site: &Site| -> String {
            let scope = Scope::node(site, &site.nodes[0]);
            let text = units(Service::DnsAuthd, &scope)[0].text.clone().unwrap();
            let mut streams = text
                .lines()
                .filter(|line| line.starts_with("ListenStream="));
            streams.next().unwrap().to_owned()
        };
        assert_eq!(listens(&site), "ListenStream=0.0.0.0:5301");
        for node in &mut site.nodes[1..] {
            node.services
                .retain(|service| !matches!(service, Service::DnsAuthd | Service::DnsRecursor));
        }
        assert_eq!(listens(&site), "ListenStream=127.0.0.1:5301");
        site.nodes[1].services.push(Service::DnsRecursor);
        assert_eq!(listens(&site), "ListenStream=0.0.0.0:5301");
    }

    #[test]
    fn names_of_frontends_are_made_to_fit_into_names_of_units() {
        assert_eq!(unit_word("api"), "api");
        assert_eq!(unit_word("a/b:c d"), "a-b-c-d");
    }
}
