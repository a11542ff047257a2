//! The services of a site that this machine can run, in the order in which they start.

use std::fmt;
use std::str::FromStr;

use config::site::{Role, ServiceName};

/// A service of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Probes the masters and publishes what is up.
    Healthd,
    /// Answers for the site's own zone.
    DnsAuthd,
    /// Resolves names for clients; forwards the site's zone to `dns-authd`.
    DnsRecursor,
    /// Accepts the connections of clients; passes each to a master that is up.
    LbProxy,
    /// Keeps the images of the site.
    RegistrySvc,
    /// Gives the site its time.
    TimesyncAgent,
}

impl Service {
    /// Every service, in the order in which they start; they stop in reverse.
    pub const ALL: [Self; 6] = [
        Self::Healthd,
        Self::DnsAuthd,
        Self::DnsRecursor,
        Self::LbProxy,
        Self::RegistrySvc,
        Self::TimesyncAgent,
    ];

    /// The services of a node of a role, unless the node names others.
    pub fn of(role: Role) -> Vec<Self> {
        match role {
            Role::Master => Self::ALL.to_vec(),
            Role::Worker => vec![Self::TimesyncAgent],
        }
    }

    /// The name of the service, of its package and of its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthd => "healthd",
            Self::DnsAuthd => "dns-authd",
            Self::DnsRecursor => "dns-recursor",
            Self::LbProxy => "lb-proxy",
            Self::RegistrySvc => "registry-svc",
            Self::TimesyncAgent => "timesync-agent",
        }
    }

    /// A description in one line.
    pub fn description(self) -> &'static str {
        match self {
            Self::Healthd => {
                "Probes every target of a site once, and tells all services what is up"
            }
            Self::DnsAuthd => "Answers for the zones of a site, with the nodes that are up",
            Self::DnsRecursor => "Resolves names for the nodes of a site and their clients",
            Self::LbProxy => {
                "Balances connections to the nodes of a site, and holds its virtual addresses"
            }
            Self::RegistrySvc => "Keeps the container images of a site, alike on every node",
            Self::TimesyncAgent => "Keeps the clocks of a site together, and gives it the time",
        }
    }

    /// The service that starts after this one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Healthd => Some(Self::DnsAuthd),
            Self::DnsAuthd => Some(Self::DnsRecursor),
            Self::DnsRecursor => Some(Self::LbProxy),
            Self::LbProxy => Some(Self::RegistrySvc),
            Self::RegistrySvc => Some(Self::TimesyncAgent),
            Self::TimesyncAgent => None,
        }
    }

    /// The service that stops after this one.
    pub fn previous(self) -> Option<Self> {
        match self {
            Self::Healthd => None,
            Self::DnsAuthd => Some(Self::Healthd),
            Self::DnsRecursor => Some(Self::DnsAuthd),
            Self::LbProxy => Some(Self::DnsRecursor),
            Self::RegistrySvc => Some(Self::LbProxy),
            Self::TimesyncAgent => Some(Self::RegistrySvc),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<ServiceName> for Service {
    fn from(name: ServiceName) -> Self {
        match name {
            ServiceName::Healthd => Self::Healthd,
            ServiceName::DnsAuthd => Self::DnsAuthd,
            ServiceName::DnsRecursor => Self::DnsRecursor,
            ServiceName::LbProxy => Self::LbProxy,
            ServiceName::RegistrySvc => Self::RegistrySvc,
            ServiceName::TimesyncAgent => Self::TimesyncAgent,
        }
    }
}

impl FromStr for Service {
    type Err = NoSuchService;

    fn from_str(text: &str) -> Result<Self, NoSuchService> {
        let found = Self::ALL.into_iter().find(|service| service.name() == text);
        found.ok_or_else(|| NoSuchService(text.to_owned()))
    }
}

/// The name is none of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no service `{0}`: write {names}", names = Service::ALL.map(Service::name).join(", "))]
pub struct NoSuchService(String);

/// One value for each service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerService<T> {
    /// The value for healthd.
    pub healthd: T,
    /// The value for dns-authd.
    pub dns_authd: T,
    /// The value for dns-recursor.
    pub dns_recursor: T,
    /// The value for lb-proxy.
    pub lb_proxy: T,
    /// The value for registry-svc.
    pub registry_svc: T,
    /// The value for timesync-agent.
    pub timesync_agent: T,
}

impl<T> PerService<T> {
    /// Makes one value for each service.
    pub fn from_fn(mut make: impl FnMut(Service) -> T) -> Self {
        Self {
            healthd: make(Service::Healthd),
            dns_authd: make(Service::DnsAuthd),
            dns_recursor: make(Service::DnsRecursor),
            lb_proxy: make(Service::LbProxy),
            registry_svc: make(Service::RegistrySvc),
            timesync_agent: make(Service::TimesyncAgent),
        }
    }

    /// The value of one service.
    pub fn of(&self, service: Service) -> &T {
        match service {
            Service::Healthd => &self.healthd,
            Service::DnsAuthd => &self.dns_authd,
            Service::DnsRecursor => &self.dns_recursor,
            Service::LbProxy => &self.lb_proxy,
            Service::RegistrySvc => &self.registry_svc,
            Service::TimesyncAgent => &self.timesync_agent,
        }
    }

    /// The value of one service, to change.
    pub fn of_mut(&mut self, service: Service) -> &mut T {
        match service {
            Service::Healthd => &mut self.healthd,
            Service::DnsAuthd => &mut self.dns_authd,
            Service::DnsRecursor => &mut self.dns_recursor,
            Service::LbProxy => &mut self.lb_proxy,
            Service::RegistrySvc => &mut self.registry_svc,
            Service::TimesyncAgent => &mut self.timesync_agent,
        }
    }

    /// All values, in the order of [`Service::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Service, &T)> {
        Service::ALL
            .into_iter()
            .map(|service| (service, self.of(service)))
    }
}
