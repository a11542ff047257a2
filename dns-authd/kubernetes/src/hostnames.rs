//! Names that Services ask for by the annotations of external-dns, in the zones that allow it.
//!
//! An annotation is what a user writes: it gets no name outside these zones, no apex and no wildcard. When several Services ask for one
//! name, the oldest has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::{EndpointSlice, Key, Service, ServiceType};
use dns_wire::Name;
use dns_wire::hash::Seed;
use dns_zone::Record;

use crate::endpoints::{Down, Place, living, places};
use crate::options::Options;
use crate::render::{Names, Writer};
use crate::shape::{PARTS, Shape};

/// The prefixes of external-dns's annotations; the first that has one counts (external-dns 0.22 has changed it).
const PREFIXES: [&str; 2] = [
    "external-dns.kubernetes.io/",
    "external-dns.alpha.kubernetes.io/",
];
/// The value of its annotation `controller` that means every controller of names.
const CONTROLLER: &str = "dns-controller";
/// The most names that one Service may ask for.
const MOST_NAMES: usize = 16;
/// The most targets that one Service may give in place of its addresses.
const MOST_TARGETS: usize = 64;
/// The largest TTL (RFC 2181 §8).
const LARGEST_TTL: u64 = 0x7fff_ffff;

/// The names of all Services by annotations.
#[derive(Debug)]
pub(crate) struct Hostnames {
    zones: Vec<HostnameZone>,
    asked: BTreeMap<Key, Asked>,
    /// The Services that ask for each name; the first has it.
    claims: BTreeMap<Name, BTreeSet<Claim>>,
}

#[derive(Debug)]
struct HostnameZone {
    shape: Shape,
    /// The names in each part.
    names: Vec<BTreeSet<Name>>,
}

/// The names that a Service asks for.
#[derive(Debug, Default)]
struct Asked {
    /// Each with the zone that it lies in.
    names: Vec<(usize, Name, Claim)>,
    refused: Vec<RefusedHostname>,
}

/// A Service that asks for a name. The order is that of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    /// Whether it does not say when it was made: one of a manifest.
    is_ageless: bool,
    created: String,
    uid: String,
    service: Key,
    /// Whether the name is for the cluster IPs.
    is_internal: bool,
}

/// A name that a Service asks for and does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedHostname {
    /// The Service.
    pub service: Key,
    /// The name, as it is written.
    pub hostname: String,
    /// The reason.
    pub reason: String,
}

impl Hostnames {
    /// No names yet, in these zones.
    pub(crate) fn new(zones: &[Name]) -> Self {
        let zones = zones.iter().map(|apex| HostnameZone {
            shape: Shape::new(apex, depth(apex)),
            names: vec![BTreeSet::new(); PARTS],
        });
        Self {
            zones: zones.collect(),
            asked: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// The zones, in the order of the options.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.zones.iter().map(|zone| &zone.shape)
    }

    pub(crate) fn shape_mut(&mut self, zone: usize) -> Option<&mut Shape> {
        self.zones.get_mut(zone).map(|zone| &mut zone.shape)
    }

    /// Takes what a Service asks for; `None` if it is not served. Returns the parts of zones whose names may be others.
    pub(crate) fn follow(
        &mut self,
        key: &Key,
        service: Option<&Service>,
        seed: Seed,
    ) -> BTreeSet<(usize, usize)> {
        if self.zones.is_empty() {
            return BTreeSet::new();
        }
        let new = service.map(|service| self.read(key, service));
        let new = new.unwrap_or_default();
        let old = self.asked.remove(key).unwrap_or_default();
        let mut parts = BTreeSet::new();
        for (zone, name, claim) in &old.names {
            if let Some(claims) = self.claims.get_mut(name) {
                claims.remove(claim);
            }
            parts.extend(self.part_of(*zone, name, seed));
        }
        for (zone, name, claim) in &new.names {
            let claims = self.claims.entry(name.clone()).or_default();
            claims.insert(claim.clone());
            parts.extend(self.part_of(*zone, name, seed));
        }
        for (zone, name, _) in old.names.iter().chain(&new.names) {
            let is_claimed = self.claims.get(name).is_some_and(|all| !all.is_empty());
            if !is_claimed {
                self.claims.remove(name);
            }
            let part = self.part_of(*zone, name, seed);
            let names = part.and_then(|(_, part)| self.zones.get_mut(*zone)?.names.get_mut(part));
            if let Some(names) = names {
                match is_claimed {
                    true => drop(names.insert(name.clone())),
                    false => drop(names.remove(name)),
                }
            }
        }
        if !new.names.is_empty() || !new.refused.is_empty() {
            self.asked.insert(key.clone(), new);
        }
        parts
    }

    fn part_of(&self, zone: usize, name: &Name, seed: Seed) -> Option<(usize, usize)> {
        let shape = &self.zones.get(zone)?.shape;
        Some((zone, shape.part_of(name, seed)?))
    }

    /// Reads the annotations of a Service.
    fn read(&self, key: &Key, service: &Service) -> Asked {
        let mut asked = Asked::default();
        let is_ours = annotation(service, "controller").is_none_or(|value| value == CONTROLLER);
        if !is_ours {
            return asked;
        }
        let meta = &service.meta;
        for (annotated, is_internal) in [("hostname", false), ("internal-hostname", true)] {
            let listed = annotation(service, annotated).unwrap_or_default();
            let listed = listed.split(',').map(str::trim);
            for hostname in listed.filter(|hostname| !hostname.is_empty()) {
                let found = match asked.names.len() < MOST_NAMES {
                    true => self.place_of(hostname),
                    false => Err(format!("a Service has {MOST_NAMES} names at most")),
                };
                match found {
                    Ok((zone, name)) => {
                        let claim = Claim {
                            is_ageless: meta.created.is_empty(),
                            created: meta.created.clone(),
                            uid: meta.uid.clone(),
                            service: key.clone(),
                            is_internal,
                        };
                        asked.names.push((zone, name, claim));
                    }
                    Err(reason) => {
                        // One more says that there are more.
                        if asked.refused.len() <= MOST_NAMES {
                            asked.refused.push(RefusedHostname {
                                service: key.clone(),
                                hostname: hostname.to_owned(),
                                reason,
                            });
                        }
                    }
                }
            }
        }
        asked
    }

    /// The zone that a name lies in.
    fn place_of(&self, hostname: &str) -> Result<(usize, Name), String> {
        if hostname.starts_with('*') {
            return Err("it is a wildcard".to_owned());
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !hostname.chars().all(is_plain) {
            return Err("it is no hostname".to_owned());
        }
        let name = Name::parse(&hostname.to_ascii_lowercase())
            .map_err(|error| format!("it is no hostname: {error}"))?;
        let zones = self.zones.iter().enumerate();
        let zones = zones.filter(|(_, zone)| name.is_within(&zone.shape.apex));
        match zones.max_by_key(|(_, zone)| zone.shape.apex.n_labels()) {
            None => Err("it lies in no zone of `hostname-zones`".to_owned()),
            Some((_, zone)) if zone.shape.apex == name => {
                Err("it is the apex of a zone of `hostname-zones`".to_owned())
            }
            Some((place, _)) => Ok((place, name)),
        }
    }

    /// The names in a part of a zone, each with the Service that has it, and whether it is for the cluster IPs.
    pub(crate) fn names_of(
        &self,
        zone: usize,
        part: usize,
    ) -> impl Iterator<Item = (&Name, &Key, bool)> {
        let zone = self.zones.get(zone);
        let names = zone.and_then(|zone| zone.names.get(part));
        names.into_iter().flatten().filter_map(|name| {
            let claim = self.claims.get(name)?.first()?;
            Some((name, &claim.service, claim.is_internal))
        })
    }

    /// The number of names that Services have.
    pub(crate) fn n_names(&self) -> usize {
        self.claims.len()
    }

    /// The names that Services ask for and do not have.
    pub(crate) fn refused(&self) -> Vec<RefusedHostname> {
        let refused = self.asked.values().flat_map(|asked| &asked.refused);
        let mut refused: Vec<RefusedHostname> = refused.cloned().collect();
        for (name, claims) in &self.claims {
            let mut claims = claims.iter();
            let Some(first) = claims.next() else {
                continue;
            };
            let others: BTreeSet<&Key> = claims.map(|claim| &claim.service).collect();
            let others = others.into_iter().filter(|other| **other != first.service);
            refused.extend(others.map(|other| RefusedHostname {
                service: other.clone(),
                hostname: name.to_string(),
                reason: format!("{} has it", first.service),
            }));
        }
        refused
    }
}

/// The labels by which a zone of hostnames is split.
pub(crate) fn depth(apex: &Name) -> usize {
    apex.n_labels() + 1
}

/// An annotation of external-dns.
fn annotation<'s>(service: &'s Service, key: &str) -> Option<&'s str> {
    let mut found = PREFIXES
        .iter()
        .filter_map(|prefix| service.meta.annotations.get(&format!("{prefix}{key}")));
    found.next().map(|value| value.trim())
}

/// The records of a name that a Service has. There are none while it has no address.
pub(crate) fn render(
    (name, is_internal): (&Name, bool),
    service: &Service,
    slices: &[&EndpointSlice],
    (names, options): (&Names, &Options),
    down: &Down,
) -> Vec<Record> {
    let ttl = annotation(service, "ttl").and_then(ttl);
    let mut records = Vec::new();
    let mut writer = Writer {
        names,
        ttl: ttl.unwrap_or(options.ttl),
        records: &mut records,
    };
    if is_internal {
        writer.addresses(name, service.cluster_ips.iter().copied());
        return records;
    }
    let (mut addresses, mut aliases): (Vec<IpAddr>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut take = |target: &'_ str| target.parse().map(|address| addresses.push(address));
    if let Some(targets) = annotation(service, "target") {
        let targets = targets.split(',').map(str::trim);
        let targets = targets.filter(|target| !target.is_empty());
        aliases.extend(
            targets
                .take(MOST_TARGETS)
                .filter(|target| take(target).is_err()),
        );
    } else if service.kind == ServiceType::ExternalName {
        aliases.extend(Some(&*service.external_name).filter(|target| take(target).is_err()));
    } else if !service.external_ips.is_empty() {
        addresses.extend(&service.external_ips);
    } else if service.headless {
        let places = places(service, slices, name, (options, down));
        endpoints(name, &places, &mut writer);
        return records;
    } else {
        addresses.extend(service.ingress.iter().filter_map(|ingress| ingress.ip));
        let hosts = service.ingress.iter().map(|ingress| &*ingress.hostname);
        aliases.extend(hosts.filter(|host| !host.is_empty()));
    }
    let mut aliases = aliases
        .into_iter()
        .filter_map(|text| Name::parse(text).ok());
    // A name is an alias, or has addresses: these come first.
    let alias = aliases.find(|target| !target.is_root() && target != name);
    match alias.filter(|_| addresses.is_empty()) {
        Some(target) => {
            let alias = names.alias(name, writer.ttl, &target);
            records.push(alias);
        }
        None => writer.addresses(name, addresses.into_iter()),
    }
    records
}

/// The endpoints of a headless Service: all at the name, and each with a hostname below it.
fn endpoints(name: &Name, places: &[Place<'_>], writer: &mut Writer<'_>) {
    let all = living(places.iter().collect());
    writer.addresses(name, all.iter().map(|place| place.address));
    let mut by_name: BTreeMap<&Name, Vec<&Place<'_>>> = BTreeMap::new();
    for place in places.iter().filter(|place| !place.hostname.is_empty()) {
        by_name.entry(&place.name).or_default().push(place);
    }
    for (name, places) in by_name {
        writer.addresses(name, living(places).iter().map(|place| place.address));
    }
}

/// A TTL as external-dns takes it: seconds, or a duration such as `10m` or `1h30m`.
fn ttl(text: &str) -> Option<u32> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => duration(text)?,
    };
    let is_legal = (1..=LARGEST_TTL).contains(&seconds);
    u32::try_from(seconds).ok().filter(|_| is_legal)
}

/// The seconds of a duration as Go writes it, in whole hours, minutes and seconds.
fn duration(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let mut letters = after.chars();
        let unit = match letters.next()? {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        rest = letters.as_str();
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_seconds_or_a_duration() {
        for (text, wanted) in [
            ("60", Some(60)),
            ("1h30m", Some(5400)),
            ("10s", Some(10)),
            ("0", None),
            ("2147483647", Some(0x7fff_ffff)),
            ("2147483648", None),
            ("-5", None),
            ("10ms", None),
            ("m", None),
            ("", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(ttl(text), wanted, "{text}");
        }
    }
}
