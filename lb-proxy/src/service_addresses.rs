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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

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

/// Addresses of one family, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
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
    let of_family = ranges.filter(|range| range.first.is_ipv6() == ipv6);
    Ok(of_family.copied().collect())
}

/// FNV-1a: the same on every node and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

//--- Ranges

impl AddressRange {
    /// From one address to another of the same family, which is not lower.
    #[must_use]
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// How many addresses; all of IPv6 count one less.
    fn size(&self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    fn at(&self, place: u128) -> IpAddr {
        let number = number(self.first) + place;
        match self.first {
            IpAddr::V4(_) => {
                u32::try_from(number).map_or(self.last, |number| Ipv4Addr::from_bits(number).into())
            }
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// `192.168.7.200-192.168.7.220`, `192.168.7.200/28` or one address. From an IPv4 network, the network's
/// and the broadcast address are left out.
impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = |part: &str| part.trim().parse().map_err(|_| AddressRangeError::Syntax);
        if let Some((first, last)) = text.split_once('-') {
            return Self::new(address(first)?, address(last)?).ok_or(AddressRangeError::Order);
        }
        let Ok(network) = text.trim().parse::<IpNet>() else {
            let only = address(text)?;
            return Ok(Self {
                first: only,
                last: only,
            });
        };
        let all = Self {
            first: network.network(),
            last: network.broadcast(),
        };
        let is_point_to_point = network.prefix_len() + 1 >= network.max_prefix_len();
        if all.first.is_ipv6() || is_point_to_point {
            return Ok(all);
        }
        Ok(Self {
            first: all.at(1),
            last: all.at(all.size() - 2),
        })
    }
}

/// Why a text is no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRangeError {
    /// It is none of the three forms.
    Syntax,
    /// The ends are of two families, or the last is the lower.
    Order,
}

impl fmt::Display for AddressRangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Syntax => "expected `FIRST-LAST`, a network or an address",
            Self::Order => "the last address is before the first, or of another family",
        })
    }
}

impl std::error::Error for AddressRangeError {}

#[cfg(test)]
mod tests;
