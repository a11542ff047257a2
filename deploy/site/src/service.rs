//! The services of a site, and a value for each.

pub use config::site::Service;

/// One value for each service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerService<T> {
    /// The value for healthd.
    pub healthd: T,
    /// The value for clusterd.
    pub clusterd: T,
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
            clusterd: make(Service::Clusterd),
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
            Service::Clusterd => &self.clusterd,
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
            Service::Clusterd => &mut self.clusterd,
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
