//! Addresses and virtual router numbers for services of type `LoadBalancer`, from pools.
//!
//! Every node of a site works them out alone, without a request and with nothing on disk, and all must
//! come to the same end: so the result depends on pools and services alone, in the order they are
//! written. Each service searches one range after the other, beginning at a place that its name decides.
//! A service, range or pool that is added at the end moves no other; a service that is removed moves at
//! most those that had to search past it. An address that must never move is written down.
//!
//! Never remembers anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ::config::lb_proxy::AddressRange;

/// Addresses that may be given to services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPool {
    /// The name that services use.
    pub name: Arc<str>,
    /// The addresses in it.
    pub ranges: Vec<AddressRange>,
    /// Whether services that name no pool may have its addresses.
    pub automatic: bool,
}

/// A service that needs an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// The service.
    pub service: Arc<str>,
    /// From which pool; `None`: from any automatic one.
    pub pool: Option<Arc<str>>,
    /// Exactly this one.
    pub wanted: Option<IpAddr>,
    /// The IPv6 pool, if one is wanted. A service that needs both families has two requests.
    pub ipv6: bool,
}

/// Why a service gets no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// There is no pool of that name.
    NoSuchPool,
    /// The pools have no address of the family left.
    Exhausted,
    /// The address wanted is in no pool that the service may use.
    NotInPool,
    /// The address wanted is another service's.
    Taken(Arc<str>),
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPool => formatter.write_str("there is no such pool"),
            Self::Exhausted => formatter.write_str("no address is left"),
            Self::NotInPool => formatter.write_str("the address is in no pool"),
            Self::Taken(by) => write!(formatter, "the address is {by}'s"),
        }
    }
}

/// One result for each request, in their order. Addresses in `reserved` are not given out.
#[must_use]
pub fn assign_addresses(
    pools: &[AddressPool],
    requests: &[AddressRequest],
    reserved: &BTreeSet<IpAddr>,
) -> Vec<Result<IpAddr, AddressRefusal>> {
    let mut taken: BTreeMap<IpAddr, Arc<str>> = BTreeMap::new();
    // Addresses that are written down precede those that are searched for.
    let fixed: Vec<_> = requests
        .iter()
        .map(|request| {
            let wanted = request.wanted?;
            let result = check_wanted(pools, request, wanted, reserved, &taken);
            if result.is_ok() {
                taken.insert(wanted, Arc::clone(&request.service));
            }
            Some(result)
        })
        .collect();
    let each = requests.iter().zip(fixed);
    each.map(|(request, fixed)| {
        let result = fixed.unwrap_or_else(|| search(pools, request, reserved, &taken));
        if let Ok(address) = &result {
            taken.insert(*address, Arc::clone(&request.service));
        }
        result
    })
    .collect()
}

/// A virtual router number for each service, in their order; `None` when all are taken.
#[must_use]
pub fn assign_router_ids(services: &[Arc<str>], reserved: &BTreeSet<u8>) -> Vec<Option<u8>> {
    let mut taken = reserved.clone();
    let each = services.iter().map(|service| {
        let begin = hash(service) % 255;
        let places = (0..255).map(|step| (begin + step) % 255 + 1);
        let free = places
            .filter_map(|place| u8::try_from(place).ok())
            .find(|id| !taken.contains(id));
        taken.extend(free);
        free
    });
    each.collect()
}

fn check_wanted(
    pools: &[AddressPool],
    request: &AddressRequest,
    wanted: IpAddr,
    reserved: &BTreeSet<IpAddr>,
    taken: &BTreeMap<IpAddr, Arc<str>>,
) -> Result<IpAddr, AddressRefusal> {
    let ranges = usable(pools, request)?;
    if let Some(by) = taken.get(&wanted) {
        return Err(AddressRefusal::Taken(Arc::clone(by)));
    }
    let within = ranges.iter().any(|range| range.contains(wanted));
    (within && !reserved.contains(&wanted))
        .then_some(wanted)
        .ok_or(AddressRefusal::NotInPool)
}

fn search(
    pools: &[AddressPool],
    request: &AddressRequest,
    reserved: &BTreeSet<IpAddr>,
    taken: &BTreeMap<IpAddr, Arc<str>>,
) -> Result<IpAddr, AddressRefusal> {
    let begin = u128::from(hash(&request.service));
    // Among that many places and one more, one is free, if any is.
    let enough = (taken.len() + reserved.len() + 1) as u128;
    for range in usable(pools, request)? {
        let size = range.size();
        let free = (0..size.min(enough))
            .map(|step| range.at((begin % size + step) % size))
            .find(|address| !taken.contains_key(address) && !reserved.contains(address));
        if let Some(address) = free {
            return Ok(address);
        }
    }
    Err(AddressRefusal::Exhausted)
}

/// The addresses that a service may choose from.
fn usable(
    pools: &[AddressPool],
    request: &AddressRequest,
) -> Result<Vec<AddressRange>, AddressRefusal> {
    let allowed = |pool: &&AddressPool| {
        request
            .pool
            .as_ref()
            .map_or(pool.automatic, |name| pool.name == *name)
    };
    let mut found = pools.iter().filter(allowed).peekable();
    if request.pool.is_some() && found.peek().is_none() {
        return Err(AddressRefusal::NoSuchPool);
    }
    let ranges = found.flat_map(|pool| &pool.ranges);
    let ipv6 = request
        .wanted
        .map_or(request.ipv6, |wanted| wanted.is_ipv6());
    let of_family = ranges.filter(|range| range.is_ipv6() == ipv6);
    Ok(of_family.copied().collect())
}

/// FNV-1a: the same on every node and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
