//! The addresses of the site's pools, and the Services of type `LoadBalancer` that have them.
//!
//! ```text
//! Services, with what they have ─┐
//!                                ├─► decide ─► the addresses of each Service, and why one is missing
//! pools ─────────────────────────┘
//! ```
//!
//! [`decide`] remembers nothing: `status.loadBalancer.ingress` says what a Service has. So every clusterd comes to the same end,
//! and a restart moves nothing. First everything that a Service has stays, then addresses are given that Services ask for, and
//! then the others are searched for, each from a place on that the Service's name decides. Older Services precede younger ones.
//!
//! Never touches a Service that another load balancer serves: one of another class, or one with an address of no pool.

#![warn(missing_docs)]

mod request;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use cluster::{Ingress, IpFamily, Service, ServiceType};
use config::lb_proxy::AddressRange;

use request::Request;
use sharing::Holder;

pub use request::{KEEPALIVED_GROUP, is_ignored};

/// How addresses are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The pools. A Service that may use several gets an address of the first with a free one.
    pub pools: Vec<Pool>,
    /// The class (`spec.loadBalancerClass`) of the Services that get an address; none: those without a class.
    pub class: Option<String>,
}

/// Addresses for Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name that Services use.
    pub name: String,
    /// The addresses.
    pub ranges: Vec<AddressRange>,
    /// Whether a Service that asks for nothing may have one of them.
    pub automatic: bool,
    /// The namespaces whose Services may have them; empty for all.
    pub namespaces: Vec<String>,
    /// Whether IPv4 addresses that end in 0 and 255 are left out.
    pub avoid_buggy: bool,
}

impl Pool {
    fn has(&self, address: IpAddr) -> bool {
        !self.leaves_out(address) && self.ranges.iter().any(|range| range.contains(address))
    }

    fn leaves_out(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.avoid_buggy && matches!(address.octets()[3], 0 | 255),
            IpAddr::V6(_) => false,
        }
    }

    fn is_for(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|one| one == namespace)
    }
}

/// The namespace and the name of a Service.
pub type ServiceKey = (String, String);

/// The decision about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is to have these.
    Has {
        /// The addresses, the Service's first family first; may be empty.
        given: Vec<Given>,
        /// Why one that it asks for is missing.
        missing: Option<Refusal>,
    },
    /// It is of another type, and gives up what it had from the pools.
    Cleared,
}

/// An address that a Service has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub address: IpAddr,
    /// The name of its pool.
    pub pool: String,
}

/// Why a Service does not get an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No pool has this name.
    NoSuchPool(String),
    /// The pool is for other namespaces.
    NotForNamespace(String),
    /// No address of the family is left in these pools.
    Exhausted(IpFamily, Vec<String>),
    /// No pool may be used that has addresses of the family.
    NoPool(IpFamily),
    /// The address that it asks for is in no pool that it may use.
    NotInPool(IpAddr),
    /// The address that it asks for is another Service's, and they cannot share it.
    Taken(IpAddr, ServiceKey),
    /// It asks for an address of a family that it does not have.
    WrongFamily(IpAddr),
    /// It asks for two addresses of one family.
    TwoOfFamily(IpAddr, IpAddr),
    /// The value of this field is no address.
    NoAddress(&'static str, String),
    /// Two fields that ask for different addresses or pools.
    Contradiction(&'static str, &'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPool(name) => write!(f, "there is no pool {name:?}"),
            Self::NotForNamespace(name) => {
                write!(f, "pool {name:?} is not for this namespace")
            }
            Self::Exhausted(family, pools) => {
                let pools = pools.join(", ");
                write!(f, "no {} address is left in {pools}", name(*family))
            }
            Self::NoPool(family) => {
                write!(f, "no pool with {} addresses may be used", name(*family))
            }
            Self::NotInPool(address) => {
                write!(f, "{address} is in no pool that the Service may use")
            }
            Self::Taken(address, (namespace, name)) => {
                write!(
                    f,
                    "{address} is the address of {namespace}/{name}, which does not share it"
                )
            }
            Self::WrongFamily(address) => {
                write!(
                    f,
                    "{address} is of no family of the Service (spec.ipFamilies)"
                )
            }
            Self::TwoOfFamily(one, other) => {
                write!(f, "{one} and {other} are of one family")
            }
            Self::NoAddress(field, value) => {
                write!(f, "{field} has {value:?}, which is no IP address")
            }
            Self::Contradiction(one, other) => {
                write!(f, "{one} and {other} do not ask for the same")
            }
        }
    }
}

const fn name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}

/// The family of an address.
#[must_use]
pub const fn family(address: IpAddr) -> IpFamily {
    match address {
        IpAddr::V4(_) => IpFamily::V4,
        IpAddr::V6(_) => IpFamily::V6,
    }
}

/// The addresses that a Service has in its status.
pub fn addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    service.ingress.iter().filter_map(|ingress| ingress.ip)
}

/// The status that a decision asks for; `mode` is its `ipMode`.
#[must_use]
pub fn ingress(decision: &Decision, mode: &str) -> Vec<Ingress> {
    let given = match decision {
        Decision::Has { given, .. } => given.as_slice(),
        Decision::Cleared => &[],
    };
    let points = given.iter().map(|given| Ingress {
        ip: Some(given.address),
        hostname: String::new(),
        mode: mode.to_owned(),
    });
    points.collect()
}

/// Decides about every Service that these pools are for. Those that another load balancer serves are not in the result; their
/// addresses stay theirs.
#[must_use]
pub fn decide<'a>(
    settings: &Settings,
    services: impl IntoIterator<Item = &'a Service>,
) -> BTreeMap<ServiceKey, Decision> {
    let mut services: Vec<&Service> = services.into_iter().collect();
    services.sort_by_key(|service| {
        let meta = &service.meta;
        (&meta.created, &meta.namespace, &meta.name)
    });
    let mut round = Round {
        settings,
        holders: BTreeMap::new(),
    };
    let mut decisions = BTreeMap::new();
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for service in services {
        match round.relation(service) {
            Relation::Own => own.push(Case::new(service)),
            Relation::Foreign => others.push(service),
            Relation::Former => {
                others.push(service);
                decisions.insert(key(service), Decision::Cleared);
            }
        }
    }
    for case in &mut own {
        round.keep(case);
    }
    // After all that Services have: no Service takes another's address by writing it down.
    for case in &own {
        round.hold_external(case.service);
    }
    for service in others {
        round.block(service);
    }
    for case in &mut own {
        round.give_wanted(case);
    }
    for case in &mut own {
        round.search(case);
    }
    decisions.extend(own.into_iter().map(|case| (key(case.service), case.end())));
    decisions
}

fn key(service: &Service) -> ServiceKey {
    (service.meta.namespace.clone(), service.meta.name.clone())
}

/// The relation of a Service to the pools.
enum Relation {
    /// It gets its addresses from them.
    Own,
    /// It has addresses of them and is of another type.
    Former,
    /// It is another's.
    Foreign,
}

/// A Service that the pools are for.
struct Case<'a> {
    service: &'a Service,
    request: Result<Request, Refusal>,
    /// By family.
    given: BTreeMap<bool, Given>,
    /// The addresses that it loses as soon as it gets those that it asks for.
    replaced: BTreeMap<bool, Given>,
    missing: Option<Refusal>,
}

impl<'a> Case<'a> {
    fn new(service: &'a Service) -> Self {
        Self {
            request: Request::of(service),
            service,
            given: BTreeMap::new(),
            replaced: BTreeMap::new(),
            missing: None,
        }
    }

    fn end(mut self) -> Decision {
        // An address that works is better than a wanted one that cannot be had.
        for (family, before) in self.replaced {
            self.given.entry(family).or_insert(before);
        }
        let first_is_v6 = self
            .service
            .ip_families
            .first()
            .is_some_and(|family| *family == IpFamily::V6);
        let mut given: Vec<Given> = self.given.into_values().collect();
        if first_is_v6 {
            given.reverse();
        }
        Decision::Has {
            given,
            missing: self.missing.or_else(|| self.request.err()),
        }
    }
}

/// One time that everything is decided.
struct Round<'s> {
    settings: &'s Settings,
    /// The Services that have an address.
    holders: BTreeMap<IpAddr, Vec<Holder>>,
}

impl<'s> Round<'s> {
    fn relation(&self, service: &Service) -> Relation {
        let in_pools = |address: IpAddr| self.settings.pools.iter().any(|pool| pool.has(address));
        let has_any = addresses(service).next().is_some();
        let is_ours = service
            .ingress
            .iter()
            .all(|point| point.hostname.is_empty() && point.ip.is_none_or(in_pools));
        let class = match self.settings.class.as_deref() {
            None => service.load_balancer_class.is_empty(),
            Some(class) => service.load_balancer_class == class,
        };
        match service.kind {
            ServiceType::LoadBalancer if class && is_ours && !is_ignored(service) => Relation::Own,
            ServiceType::LoadBalancer => Relation::Foreign,
            _ if has_any && is_ours => Relation::Former,
            _ => Relation::Foreign,
        }
    }

    /// Notes that another has these addresses: no Service gets them.
    fn block(&mut self, service: &Service) {
        for address in addresses(service).chain(service.external_ips.iter().copied()) {
            let holders = self.holders.entry(address).or_default();
            holders.push(Holder::alone(service));
        }
    }

    fn hold(&mut self, address: IpAddr, service: &Service) {
        let holders = self.holders.entry(address).or_default();
        if !holders.iter().any(|holder| holder.is(service)) {
            holders.push(Holder::of(service));
        }
    }

    /// Keeps others from the addresses that an owner has written down (`spec.externalIPs`).
    fn hold_external(&mut self, service: &Service) {
        for address in service.external_ips.iter().copied() {
            if self.opponent(address, service).is_none() {
                self.hold(address, service);
            }
        }
    }

    /// The first holder that does not share an address with a Service.
    fn opponent(&self, address: IpAddr, service: &Service) -> Option<&Holder> {
        let own = Holder::of(service);
        let holders = self.holders.get(&address)?;
        let mut others = holders.iter().filter(|holder| !holder.is(service));
        others.find(|holder| !holder.shares_with(&own))
    }

    /// The pools that a Service may use for an address that it has or asks for.
    fn allowed(&self, service: &Service, pool: Option<&str>) -> Result<Vec<&'s Pool>, Refusal> {
        let namespace = service.meta.namespace.as_str();
        let pools = self.settings.pools.iter();
        let Some(wanted) = pool else {
            return Ok(pools.filter(|pool| pool.is_for(namespace)).collect());
        };
        let mut pools = pools.filter(|pool| pool.name == wanted).peekable();
        if pools.peek().is_none() {
            return Err(Refusal::NoSuchPool(wanted.to_owned()));
        }
        let pools: Vec<&'s Pool> = pools.filter(|pool| pool.is_for(namespace)).collect();
        match pools.is_empty() {
            true => Err(Refusal::NotForNamespace(wanted.to_owned())),
            false => Ok(pools),
        }
    }

    /// The pool that a Service names. A group of the keepalived operator is a name of a pool only where there is such a pool:
    /// the operator's groups give no addresses.
    fn pool_of<'r>(&self, request: &'r Request) -> Option<&'r str> {
        let is_pool = |name: &&str| self.settings.pools.iter().any(|pool| pool.name == **name);
        let group = request.group.as_deref().filter(is_pool);
        request.pool.as_deref().or(group)
    }

    /// The families that a Service is to have addresses of.
    fn families(&self, service: &Service) -> Vec<IpFamily> {
        let mut families = service.ip_families.clone();
        if families.is_empty() {
            families = service.cluster_ips.iter().copied().map(family).collect();
        }
        if families.is_empty() {
            let mut ranges = self.settings.pools.iter().flat_map(|pool| &pool.ranges);
            families.push(match ranges.any(|range| !range.is_ipv6()) {
                true => IpFamily::V4,
                false => IpFamily::V6,
            });
        }
        if service.ip_family_policy == "SingleStack" {
            families.truncate(1);
        }
        families
    }

    /// Lets a Service keep what it has, as far as it may.
    fn keep(&mut self, case: &mut Case<'_>) {
        let service = case.service;
        let families = self.families(service);
        let request = case.request.as_ref().ok();
        let pool = request.and_then(|request| self.pool_of(request));
        let allowed = self.allowed(service, pool);
        let every = self.allowed(service, None).unwrap_or_default();
        for address in addresses(service) {
            let is_v6 = address.is_ipv6();
            let is_first = !case.given.contains_key(&is_v6) && !case.replaced.contains_key(&is_v6);
            let is_of_family = families.contains(&family(address));
            let holder = every.iter().find(|pool| pool.has(address));
            let Some(holder) = holder.filter(|_| is_first && is_of_family) else {
                continue;
            };
            if self.opponent(address, service).is_some() {
                continue;
            }
            let given = Given {
                address,
                pool: holder.name.clone(),
            };
            let is_in_allowed = allowed
                .as_ref()
                .is_ok_and(|pools| pools.iter().any(|pool| pool.has(address)));
            let is_wanted = request.is_none_or(|request| {
                let mut wanted = request.of_family(is_v6);
                wanted.all(|wanted| wanted == address)
            });
            match is_in_allowed && is_wanted {
                true => case.given.insert(is_v6, given),
                false => case.replaced.insert(is_v6, given),
            };
            self.hold(address, service);
        }
    }

    /// Gives a Service the addresses that it asks for.
    fn give_wanted(&mut self, case: &mut Case<'_>) {
        let service = case.service;
        let Ok(request) = &case.request else { return };
        let families = self.families(service);
        let pool = self.pool_of(request);
        for address in request.addresses.clone() {
            let is_v6 = address.is_ipv6();
            if case.given.contains_key(&is_v6) || service.meta.deleting {
                continue;
            }
            let found = self.wanted(service, pool, &families, address);
            match found {
                Ok(pool) => {
                    self.hold(address, service);
                    case.given.insert(is_v6, Given { address, pool });
                }
                Err(refusal) => case.missing = case.missing.take().or(Some(refusal)),
            }
        }
    }

    /// The pool of an address that a Service asks for.
    fn wanted(
        &self,
        service: &Service,
        pool: Option<&str>,
        families: &[IpFamily],
        address: IpAddr,
    ) -> Result<String, Refusal> {
        if !families.contains(&family(address)) {
            return Err(Refusal::WrongFamily(address));
        }
        let pools = self.allowed(service, pool)?;
        let holder = pools.iter().find(|pool| pool.has(address));
        let holder = holder.ok_or(Refusal::NotInPool(address))?;
        match self.opponent(address, service) {
            Some(other) => Err(Refusal::Taken(address, other.service.clone())),
            None => Ok(holder.name.clone()),
        }
    }

    /// Searches for the addresses that a Service has not.
    fn search(&mut self, case: &mut Case<'_>) {
        let service = case.service;
        let Ok(request) = &case.request else { return };
        if service.meta.deleting || case.missing.is_some() {
            return;
        }
        let pool = self.pool_of(request);
        let mut found = Vec::new();
        for family in self.families(service) {
            let is_v6 = family == IpFamily::V6;
            if case.given.contains_key(&is_v6) || request.of_family(is_v6).next().is_some() {
                continue;
            }
            match self.free(service, pool, family) {
                Ok(given) => found.push((is_v6, given)),
                Err(refusal) => case.missing = case.missing.take().or(Some(refusal)),
            }
        }
        // It wants both, or none.
        let needs_both = service.ip_family_policy == "RequireDualStack";
        if needs_both && case.missing.is_some() && case.given.is_empty() {
            return;
        }
        for (is_v6, given) in found {
            self.hold(given.address, service);
            case.given.insert(is_v6, given);
        }
    }

    /// An address of a family that a Service may have: one that it may share, or one that is free.
    fn free(
        &self,
        service: &Service,
        pool: Option<&str>,
        family: IpFamily,
    ) -> Result<Given, Refusal> {
        let mut pools = self.allowed(service, pool)?;
        if pool.is_none() {
            pools.retain(|pool| pool.automatic);
            // Those for its namespace alone before those for all.
            pools.sort_by_key(|pool| pool.namespaces.is_empty());
        }
        let is_v6 = family == IpFamily::V6;
        pools.retain(|pool| pool.ranges.iter().any(|range| range.is_ipv6() == is_v6));
        if pools.is_empty() {
            return Err(Refusal::NoPool(family));
        }
        let given = |pool: &Pool, address| Given {
            address,
            pool: pool.name.clone(),
        };
        if let Some((pool, address)) = self.shared(service, &pools, is_v6) {
            return Ok(given(pool, address));
        }
        let begin = u128::from(hash(service));
        for pool in &pools {
            let ranges = pool.ranges.iter().filter(|range| range.is_ipv6() == is_v6);
            for range in ranges {
                if let Some(address) = self.unused(pool, range, begin) {
                    return Ok(given(pool, address));
                }
            }
        }
        let names = pools.iter().map(|pool| pool.name.clone());
        Err(Refusal::Exhausted(family, names.collect()))
    }

    /// An address in use that a Service may share.
    fn shared<'p>(
        &self,
        service: &Service,
        pools: &[&'p Pool],
        is_v6: bool,
    ) -> Option<(&'p Pool, IpAddr)> {
        let own = Holder::of(service);
        let of_family = self.holders.iter();
        let of_family = of_family.filter(|(address, _)| address.is_ipv6() == is_v6);
        let mut shared =
            of_family.filter(|(_, holders)| holders.iter().all(|holder| holder.shares_with(&own)));
        shared.find_map(|(address, _)| {
            let mut pools = pools.iter().copied();
            pools
                .find(|pool| pool.has(*address))
                .map(|pool| (pool, *address))
        })
    }

    fn unused(&self, pool: &Pool, range: &AddressRange, begin: u128) -> Option<IpAddr> {
        let size = range.size();
        // Among that many places one is free, if any is: those in use, those that are left out, and one more.
        let left_out = if pool.avoid_buggy { size / 128 + 2 } else { 0 };
        let enough = (self.holders.len() as u128)
            .saturating_add(left_out)
            .saturating_add(1);
        (0..size.min(enough))
            .map(|step| range.at((begin % size + step) % size))
            .find(|address| !self.holders.contains_key(address) && !pool.leaves_out(*address))
    }
}

/// FNV-1a of a Service's name: the same on every node and in every version.
fn hash(service: &Service) -> u64 {
    let meta = &service.meta;
    let text = [meta.namespace.as_str(), "/", meta.name.as_str()];
    let octets = text.iter().flat_map(|part| part.bytes());
    octets.fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The addresses that pools have twice; each is given once all the same.
#[must_use]
pub fn overlaps(pools: &[Pool]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (place, pool) in pools.iter().enumerate() {
        for other in pools.iter().skip(place + 1) {
            let meet = |one: &AddressRange, two: &AddressRange| {
                one.contains(two.first()) || two.contains(one.first())
            };
            let mut pairs = pool
                .ranges
                .iter()
                .flat_map(|one| other.ranges.iter().map(move |two| (one, two)));
            if pairs.any(|(one, two)| meet(one, two)) {
                found.insert((pool.name.clone(), other.name.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
