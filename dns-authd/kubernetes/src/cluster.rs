//! The zones of a cluster, kept up to date with its snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cluster::{EndpointSlice, Freshness, Key, Kind, Namespace, Object, Service, Snapshot};
use config::dns_authd::PodNames;
use config_text::Problem;
use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::zone::split::Split;
use dns_zone::{Record, Soa, Zone};

use crate::endpoints::{Down, dashed};
use crate::hostnames::{self, Hostnames, RefusedHostname};
use crate::options::{Options, reverse_name};
use crate::render::{Names, Pointer, Rendered, render, render_external};
use crate::shape::{Change, PARTS, Part, Shape, content};
use crate::skydns;

/// The most places that healthd probes: a quarter of what it takes from one subscriber. The others are served unprobed.
pub const MOST_PROBED: usize = 4096;

/// The kinds of objects that names are made of.
const KINDS: [Kind; 3] = [Kind::Namespace, Kind::Service, Kind::EndpointSlice];

/// The zones of a cluster.
#[derive(Debug)]
pub struct Cluster {
    options: Arc<Options>,
    seed: Seed,
    names: Names,
    snapshot: Arc<Snapshot>,
    serial: u32,
    /// The namespaces whose names are served.
    namespaces: BTreeSet<String>,
    /// The slices of each Service, by the Service's key.
    slices: BTreeMap<Key, BTreeSet<Key>>,
    /// The names of each Service beside those below `svc`: their removal has to be known.
    others: BTreeMap<Key, OtherNames>,
    domain: Domain,
    reverse: Vec<Reverse>,
    external: Option<External>,
    hostnames: Hostnames,
    /// The places of each Service that healthd is to probe.
    probed: BTreeMap<Key, BTreeSet<SocketAddr>>,
    /// Those that healthd knows to be down.
    down: Arc<Down>,
    /// The Services that have one of the places whose state is another than when they were rendered.
    moved: BTreeSet<Key>,
}

/// The names of a Service that are not below its own.
#[derive(Debug, Default, PartialEq, Eq)]
struct OtherNames {
    reverse: Vec<Pointer>,
    pods: Vec<IpAddr>,
}

/// The zone of the domain.
#[derive(Debug)]
struct Domain {
    shape: Shape,
    /// The Services whose names are in each part.
    services: Vec<BTreeSet<Key>>,
    /// The Services whose endpoints have names in each part, below `endpoints`.
    endpoints: Vec<BTreeSet<Key>>,
    /// The addresses of pods with names in each part, by namespace, each with the number of Services that have it.
    pods: Vec<BTreeMap<(String, IpAddr), usize>>,
}

/// The zone of external names.
#[derive(Debug)]
struct External {
    shape: Shape,
    /// The Services that may have names in each part.
    services: Vec<BTreeSet<Key>>,
}

/// A reverse zone.
#[derive(Debug)]
struct Reverse {
    shape: Shape,
    /// The names of addresses, those of the root under `None`.
    pointers: BTreeMap<Option<usize>, BTreeMap<(Pointer, Key), Name>>,
}

/// The parts that have to be rendered again.
#[derive(Debug, Default)]
struct Dirty {
    root: bool,
    domain: BTreeSet<usize>,
    external: BTreeSet<usize>,
    /// Each with its zone.
    hostnames: BTreeSet<(usize, usize)>,
    reverse: BTreeMap<usize, BTreeSet<Option<usize>>>,
}

impl Cluster {
    /// A cluster without a snapshot: it has no zones yet.
    #[must_use]
    pub fn new(options: Arc<Options>, seed: Seed) -> Self {
        let reverse = options.reverse.iter();
        Self {
            names: Names::of(&options.domain),
            seed,
            snapshot: Arc::default(),
            serial: 0,
            namespaces: BTreeSet::new(),
            slices: BTreeMap::new(),
            others: BTreeMap::new(),
            domain: Domain {
                // The Service's own name, or the pod's: the names below it are in the same part.
                shape: Shape::new(&options.domain, options.domain.n_labels() + 3),
                services: vec![BTreeSet::new(); PARTS],
                endpoints: vec![BTreeSet::new(); PARTS],
                pods: vec![BTreeMap::new(); PARTS],
            },
            reverse: reverse
                .map(|apex| Reverse {
                    shape: Shape::new(apex, reverse_depth(apex)),
                    pointers: BTreeMap::new(),
                })
                .collect(),
            external: options.external.as_ref().map(|apex| External {
                shape: Shape::new(apex, apex.n_labels() + 2),
                services: vec![BTreeSet::new(); PARTS],
            }),
            hostnames: Hostnames::new(&options.hostname_zones),
            probed: BTreeMap::new(),
            down: Arc::default(),
            moved: BTreeSet::new(),
            options,
        }
    }

    /// The way in which each zone is split, in the order of [`Options::apexes`].
    pub fn splits(options: &Options) -> impl Iterator<Item = Split> {
        let domain = std::iter::once(options.domain.n_labels() + 3);
        let external = options.external.as_ref().map(|apex| apex.n_labels() + 2);
        let depths = domain.chain(options.reverse.iter().map(reverse_depth));
        let depths = depths.chain(external);
        let depths = depths.chain(options.hostname_zones.iter().map(hostnames::depth));
        depths.map(|depth| Split {
            depth,
            parts: PARTS,
        })
    }

    /// The serial of the zones.
    #[must_use]
    pub const fn serial(&self) -> u32 {
        self.serial
    }

    /// Whether a snapshot has everything that names are made of.
    #[must_use]
    pub fn is_complete(snapshot: &Snapshot) -> bool {
        let mut kinds = KINDS.into_iter();
        kinds.all(|kind| snapshot.freshness(kind) != Freshness::Unread)
    }

    /// The places that healthd is to probe, and how many there are beyond [`MOST_PROBED`].
    #[must_use]
    pub fn probed(&self) -> (BTreeSet<SocketAddr>, usize) {
        let all: BTreeSet<SocketAddr> = self.probed.values().flatten().copied().collect();
        let n_left_out = all.len().saturating_sub(MOST_PROBED);
        (all.into_iter().take(MOST_PROBED).collect(), n_left_out)
    }

    /// Takes the places that healthd knows to be down; the next snapshot that is taken has the names without them.
    pub fn take_down(&mut self, down: &Arc<BTreeSet<SocketAddr>>) {
        if Arc::ptr_eq(&self.down, down) {
            return;
        }
        let before = std::mem::replace(&mut self.down, Arc::clone(down));
        let moved: BTreeSet<&SocketAddr> = before.symmetric_difference(down).collect();
        let services = self.probed.iter();
        let services = services.filter(|(_, places)| places.iter().any(|one| moved.contains(one)));
        self.moved.extend(services.map(|(key, _)| key.clone()));
    }

    /// The number of names that Services have by annotations.
    #[must_use]
    pub fn n_hostnames(&self) -> usize {
        self.hostnames.n_names()
    }

    /// The names that Services ask for by annotations and do not have.
    #[must_use]
    pub fn refused_hostnames(&self) -> Vec<RefusedHostname> {
        self.hostnames.refused()
    }

    /// Takes a snapshot. `now` is the time in seconds since 1970, which serials follow. Without a change of names there is
    /// nothing to publish.
    ///
    /// # Errors
    /// When a part has too many names for its table; the part stays as it was.
    pub fn take(
        &mut self,
        snapshot: &Arc<Snapshot>,
        now: u32,
    ) -> Result<Vec<Change>, Vec<Problem>> {
        if !Self::is_complete(snapshot) {
            return Ok(Vec::new());
        }
        let difference = snapshot.difference_from(Some(&self.snapshot));
        let before = std::mem::replace(&mut self.snapshot, Arc::clone(snapshot));
        let mut dirty = Dirty::default();
        let mut services = self.follow_namespaces(&mut dirty);
        services.append(&mut self.moved);
        let put = difference.put.iter().map(|object| object.key());
        for key in put.chain(difference.gone.iter().cloned()) {
            match key.kind {
                Kind::Service => {
                    services.insert(key);
                }
                Kind::EndpointSlice => self.follow_slice(&key, &before, &mut services),
                Kind::Node | Kind::Namespace | Kind::Dns => {}
            }
        }
        for service in services {
            self.follow_service(service, &mut dirty);
        }
        self.render(&dirty, now)
    }

    /// Takes the namespaces; returns the Services of those that have come or gone.
    fn follow_namespaces(&mut self, dirty: &mut Dirty) -> BTreeSet<Key> {
        let all = self.snapshot.of_kind(Kind::Namespace);
        let namespaces = all.filter_map(|object| match &**object {
            Object::Namespace(namespace) => Some(namespace),
            _ => None,
        });
        let served = namespaces.filter(|namespace| self.serves(namespace));
        let served: BTreeSet<String> = served.map(|one| one.meta.name.clone()).collect();
        if served == self.namespaces {
            return BTreeSet::new();
        }
        dirty.root = true;
        let before = std::mem::replace(&mut self.namespaces, served);
        let moved: BTreeSet<&String> = before.symmetric_difference(&self.namespaces).collect();
        let services = self.snapshot.of_kind(Kind::Service);
        let services = services.filter(|service| moved.contains(&service.meta().namespace));
        services.map(|service| service.key()).collect()
    }

    fn serves(&self, namespace: &Namespace) -> bool {
        let (options, meta) = (&self.options, &namespace.meta);
        (options.namespaces.is_empty() || options.namespaces.contains(&meta.name))
            && options.namespace_labels.selects(&meta.labels)
    }

    /// Notes the Services of a slice, before and now.
    fn follow_slice(&mut self, key: &Key, before: &Snapshot, services: &mut BTreeSet<Key>) {
        if let Some(service) = service_of(before, key) {
            if let Some(slices) = self.slices.get_mut(&service) {
                slices.remove(key);
                if slices.is_empty() {
                    self.slices.remove(&service);
                }
            }
            services.insert(service);
        }
        if let Some(service) = service_of(&self.snapshot, key) {
            let slices = self.slices.entry(service.clone()).or_default();
            slices.insert(key.clone());
            services.insert(service);
        }
    }

    /// Notes which parts a Service has names in, before and now.
    fn follow_service(&mut self, key: Key, dirty: &mut Dirty) {
        let Some(part) = self.part_of(&self.names.svc, &key) else {
            return;
        };
        let mut rendered = self.render_service(&key);
        let is_served = rendered.is_some();
        let probed = rendered.as_mut().map(|one| std::mem::take(&mut one.probed));
        match probed.filter(|probed| !probed.is_empty()) {
            Some(probed) => drop(self.probed.insert(key.clone(), probed)),
            None => drop(self.probed.remove(&key)),
        }
        let new = rendered.map_or_else(OtherNames::default, |rendered| OtherNames {
            reverse: rendered.reverse,
            pods: rendered.pods,
        });
        let services = self.domain.services.get_mut(part);
        follow_part(services, &key, part, is_served, &mut dirty.domain);
        if self.options.skydns
            && let Some(part) = self.part_of(&self.names.endpoints, &key)
        {
            let services = self.domain.endpoints.get_mut(part);
            follow_part(services, &key, part, is_served, &mut dirty.domain);
        }
        self.follow_external(&key, is_served, dirty);
        let service = service(&self.snapshot, &key).filter(|_| is_served);
        let parts = self.hostnames.follow(&key, service, self.seed);
        dirty.hostnames.extend(parts);
        let old = self.others.remove(&key).unwrap_or_default();
        if old != new {
            self.replace_pods(&key.namespace, &old.pods, &new.pods, dirty);
            self.replace_pointers(&key, &old.reverse, &new.reverse, dirty);
        }
        if new != OtherNames::default() {
            self.others.insert(key, new);
        }
    }

    /// Notes that a Service may have other external names than before.
    fn follow_external(&mut self, key: &Key, is_served: bool, dirty: &mut Dirty) {
        let Some(external) = &mut self.external else {
            return;
        };
        let name = external.shape.apex.prepend(key.namespace.as_bytes());
        let Ok(name) = name.and_then(|name| name.prepend(key.name.as_bytes())) else {
            return;
        };
        let Some(part) = external.shape.part_of(&name, self.seed) else {
            return;
        };
        let services = external.services.get_mut(part);
        follow_part(services, key, part, is_served, &mut dirty.external);
    }

    fn replace_pods(&mut self, namespace: &str, old: &[IpAddr], new: &[IpAddr], dirty: &mut Dirty) {
        for (addresses, is_new) in [(old, false), (new, true)] {
            for address in addresses {
                let part = self.pod_name(namespace, *address);
                let part = part.and_then(|name| self.domain.shape.part_of(&name, self.seed));
                let Some((part, pods)) =
                    part.and_then(|part| Some((part, self.domain.pods.get_mut(part)?)))
                else {
                    continue;
                };
                dirty.domain.insert(part);
                let place = (namespace.to_owned(), *address);
                let count = pods.entry(place.clone()).or_default();
                match is_new {
                    true => *count += 1,
                    false => *count = count.saturating_sub(1),
                }
                if *count == 0 {
                    pods.remove(&place);
                }
            }
        }
    }

    fn replace_pointers(&mut self, key: &Key, old: &[Pointer], new: &[Pointer], dirty: &mut Dirty) {
        for (pointers, is_new) in [(old, false), (new, true)] {
            for pointer in pointers {
                let Ok(owner) = reverse_name(pointer.address) else {
                    continue;
                };
                let zones = self.reverse.iter_mut().enumerate();
                let zones = zones.filter(|(_, zone)| owner.is_within(&zone.shape.apex));
                // The networks may lie in each other: the smallest answers.
                let smallest = zones.max_by_key(|(_, zone)| zone.shape.apex.n_labels());
                let Some((place, zone)) = smallest else {
                    continue;
                };
                let part = zone.shape.part_of(&owner, self.seed);
                let pointers = zone.pointers.entry(part).or_default();
                let entry = (pointer.clone(), key.clone());
                match is_new {
                    true => drop(pointers.insert(entry, owner)),
                    false => drop(pointers.remove(&entry)),
                }
                if pointers.is_empty() {
                    zone.pointers.remove(&part);
                }
                dirty.reverse.entry(place).or_default().insert(part);
            }
        }
    }

    //--- Rendering

    /// The names of a Service; `None` if it is not served.
    fn render_service(&self, key: &Key) -> Option<Rendered> {
        let service = service(&self.snapshot, key)?;
        let is_served = self.namespaces.contains(&key.namespace)
            && self.options.labels.selects(&service.meta.labels);
        if !is_served {
            return None;
        }
        let slices = self.slices_of(key);
        let shown = (&self.names, &*self.options);
        let mut rendered = render(service, &slices, shown, &self.down);
        if self.options.skydns {
            skydns::add(service, &slices, shown, &self.down, &mut rendered);
        }
        Some(rendered)
    }

    /// The slices of a Service.
    fn slices_of(&self, key: &Key) -> Vec<&EndpointSlice> {
        let slices = self.slices.get(key).into_iter().flatten();
        let slices = slices.filter_map(|slice| match &**self.snapshot.get(slice)? {
            Object::EndpointSlice(slice) => Some(slice),
            _ => None,
        });
        slices.collect()
    }

    fn render(&mut self, dirty: &Dirty, now: u32) -> Result<Vec<Change>, Vec<Problem>> {
        let is_first = !self.domain.shape.is_begun;
        let domain = self.build_domain(&dirty.domain)?;
        let mut reverse = BTreeMap::new();
        for (place, parts) in &dirty.reverse {
            reverse.insert(*place, self.build_reverse(*place, parts)?);
        }
        let external = self.build_external(&dirty.external)?;
        let hostnames = self.build_hostnames(&dirty.hostnames)?;
        let is_domain_other = is_first || dirty.root || !domain.is_empty();
        let is_other = !reverse.is_empty() || !external.is_empty() || !hostnames.is_empty();
        if !is_domain_other && !is_other {
            return Ok(Vec::new());
        }
        let next = self.serial.wrapping_add(1);
        self.serial = match is_first || Soa::is_newer(now, next) {
            true => now.max(1),
            false => next,
        };
        let mut changes = Vec::new();
        if is_domain_other {
            let root = self.build_domain_root()?;
            let empty = self.build_empty(&self.domain.shape)?;
            changes.push(self.domain.shape.change(0, (root, empty), domain));
        }
        for place in 0..self.reverse.len() {
            let parts = reverse.remove(&place);
            if is_first || parts.is_some() {
                let root = self.build_reverse_root(place)?;
                let zone = self.reverse.get(place);
                let empty = zone.map(|zone| self.build_empty(&zone.shape)).transpose()?;
                let (empty, parts) = (empty.flatten(), parts.unwrap_or_default());
                let zone = self.reverse.get_mut(place);
                changes.extend(zone.map(|zone| {
                    let number = place + 1;
                    zone.shape.change(number, (root, empty), parts)
                }));
            }
        }
        if is_domain_other || !external.is_empty() {
            changes.extend(self.change_external(external)?);
        }
        self.change_hostnames(is_first, hostnames, &mut changes)?;
        Ok(changes)
    }

    /// The parts of the zones of hostnames whose content is other than before.
    fn build_hostnames(
        &self,
        parts: &BTreeSet<(usize, usize)>,
    ) -> Result<BTreeMap<usize, Vec<Part>>, Vec<Problem>> {
        let mut built: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
        for (zone, part) in parts {
            let Some(shape) = self.hostnames.shapes().nth(*zone) else {
                continue;
            };
            let mut records = Vec::new();
            for (name, key, is_internal) in self.hostnames.names_of(*zone, *part) {
                if let Some(service) = service(&self.snapshot, key) {
                    let shown = (&self.names, &*self.options);
                    let slices = self.slices_of(key);
                    let name = (name, is_internal);
                    let rendered = hostnames::render(name, service, &slices, shown, &self.down);
                    records.extend(rendered);
                }
            }
            let content = content(&records, &[]);
            if shape.has_other(*part, content) {
                let zone_part = self.build_part(shape, *part, records, &[])?;
                built
                    .entry(*zone)
                    .or_default()
                    .push((*part, zone_part, content));
            }
        }
        Ok(built)
    }

    /// Adds the changes of the zones of hostnames with these parts.
    fn change_hostnames(
        &mut self,
        is_first: bool,
        mut parts: BTreeMap<usize, Vec<Part>>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Vec<Problem>> {
        let first = 1 + self.reverse.len() + usize::from(self.external.is_some());
        for zone in 0..self.options.hostname_zones.len() {
            let parts = parts.remove(&zone);
            let Some(shape) = self.hostnames.shapes().nth(zone) else {
                continue;
            };
            if parts.is_some() || is_first {
                let records = self.names.apex(&shape.apex, self.serial, &self.options);
                let root = shape.build(None, &records, &[], self.seed)?;
                let empty = self.build_empty(shape)?;
                let shape = self.hostnames.shape_mut(zone);
                let parts = parts.unwrap_or_default();
                let change = shape.map(|shape| shape.change(first + zone, (root, empty), parts));
                changes.extend(change);
            }
        }
        Ok(())
    }

    /// The parts of the zone of external names whose content is other than before.
    fn build_external(&self, parts: &BTreeSet<usize>) -> Result<Vec<Part>, Vec<Problem>> {
        let Some(external) = &self.external else {
            return Ok(Vec::new());
        };
        let (apex, mut built) = (&external.shape.apex, Vec::new());
        for part in parts {
            let services = external.services.get(*part).into_iter().flatten();
            let services = services.filter_map(|key| service(&self.snapshot, key));
            let records = services
                .flat_map(|service| render_external(service, apex, &self.names, &self.options));
            let records: Vec<Record> = records.collect();
            let content = content(&records, &[]);
            if external.shape.has_other(*part, content) {
                let zone = self.build_part(&external.shape, *part, records, &[])?;
                built.push((*part, zone, content));
            }
        }
        Ok(built)
    }

    /// The change of the zone of external names with these parts. Its namespaces exist, as those of the domain.
    fn change_external(&mut self, parts: Vec<Part>) -> Result<Option<Change>, Vec<Problem>> {
        let Some(external) = &self.external else {
            return Ok(None);
        };
        let shape = &external.shape;
        let records = self.names.apex(&shape.apex, self.serial, &self.options);
        let namespaces = self.namespaces.iter();
        let empty = namespaces.filter_map(|name| shape.apex.prepend(name.as_bytes()).ok());
        let empty: Vec<Name> = empty.collect();
        let root = shape.build(None, &records, &empty, self.seed)?;
        let first = self.build_empty(shape)?;
        let place = self.reverse.len() + 1;
        let external = self.external.as_mut();
        Ok(external.map(|external| external.shape.change(place, (root, first), parts)))
    }

    /// The parts of the domain whose content is other than before.
    fn build_domain(&mut self, parts: &BTreeSet<usize>) -> Result<Vec<Part>, Vec<Problem>> {
        let mut built = Vec::with_capacity(parts.len());
        for part in parts {
            let (records, empty) = self.records_of_part(*part);
            let content = content(&records, &empty);
            if self.domain.shape.has_other(*part, content) {
                let zone = self.build_part(&self.domain.shape, *part, records, &empty)?;
                built.push((*part, zone, content));
            }
        }
        Ok(built)
    }

    /// The names of the domain above its parts.
    fn build_domain_root(&self) -> Result<Arc<Zone>, Vec<Problem>> {
        let shape = &self.domain.shape;
        let mut records = self.names.apex(&shape.apex, self.serial, &self.options);
        records.extend(self.names.fixed(&self.options));
        // The name server exists, also without an address.
        let names = [&self.names.svc, &self.names.pod, &self.names.server];
        let is_skydns = self.options.skydns;
        let names = names
            .into_iter()
            .chain(is_skydns.then_some(&self.names.endpoints));
        let mut empty: Vec<Name> = names.cloned().collect();
        for namespace in &self.namespaces {
            empty.extend(self.names.svc.prepend(namespace.as_bytes()));
            if is_skydns {
                empty.extend(self.names.endpoints.prepend(namespace.as_bytes()));
            }
            if self.options.pods != PodNames::Disabled {
                empty.extend(self.names.pod.prepend(namespace.as_bytes()));
            }
        }
        shape.build(None, &records, &empty, self.seed)
    }

    /// The parts of a reverse zone that have changed.
    fn build_reverse(
        &self,
        place: usize,
        parts: &BTreeSet<Option<usize>>,
    ) -> Result<Vec<Part>, Vec<Problem>> {
        let Some(zone) = self.reverse.get(place) else {
            return Ok(Vec::new());
        };
        let mut built = Vec::with_capacity(parts.len());
        for part in parts.iter().filter_map(|part| *part) {
            let records = self.pointers(zone, Some(part));
            let content = content(&records, &[]);
            let part_zone = self.build_part(&zone.shape, part, records, &[])?;
            built.push((part, part_zone, content));
        }
        Ok(built)
    }

    fn build_reverse_root(&self, place: usize) -> Result<Arc<Zone>, Vec<Problem>> {
        let Some(zone) = self.reverse.get(place) else {
            return Err(Vec::new());
        };
        let mut records = self
            .names
            .apex(&zone.shape.apex, self.serial, &self.options);
        records.extend(self.pointers(zone, None));
        let empty = zone.names_above_parts();
        zone.shape.build(None, &records, &empty, self.seed)
    }

    /// A part without names, for a zone that had none before.
    fn build_empty(&self, shape: &Shape) -> Result<Option<Arc<Zone>>, Vec<Problem>> {
        match shape.is_begun {
            true => Ok(None),
            false => self.build_part(shape, 0, Vec::new(), &[]).map(Some),
        }
    }

    /// Builds a part. It has a SOA record for its negative answers, in which the server writes the serial of the zone.
    fn build_part(
        &self,
        shape: &Shape,
        part: usize,
        mut records: Vec<Record>,
        empty: &[Name],
    ) -> Result<Arc<Zone>, Vec<Problem>> {
        records.push(self.names.soa(&shape.apex, 0, self.options.ttl));
        shape.build(Some(part), &records, empty, self.seed)
    }

    /// The records of a part of the domain, and its names without one.
    fn records_of_part(&self, part: usize) -> (Vec<Record>, Vec<Name>) {
        let (mut records, mut empty) = (Vec::new(), Vec::new());
        let services = self.domain.services.get(part).into_iter().flatten();
        for rendered in services.filter_map(|service| self.render_service(service)) {
            records.extend(rendered.records);
            empty.extend(rendered.empty);
        }
        let services = self.domain.endpoints.get(part).into_iter().flatten();
        for rendered in services.filter_map(|service| self.render_service(service)) {
            records.extend(rendered.endpoints);
            empty.extend(rendered.empty_endpoints);
        }
        let pods = self.domain.pods.get(part).into_iter().flatten();
        for ((namespace, address), _) in pods {
            let name = self.pod_name(namespace, *address);
            let ttl = self.options.ttl;
            records.extend(name.map(|name| self.names.address(&name, ttl, *address)));
        }
        (records, empty)
    }

    /// The records of the addresses of a part.
    fn pointers(&self, zone: &Reverse, part: Option<usize>) -> Vec<Record> {
        let Some(pointers) = zone.pointers.get(&part) else {
            return Vec::new();
        };
        let services = pointers.keys().filter(|(pointer, _)| pointer.is_service);
        let services: BTreeSet<IpAddr> = services.map(|(pointer, _)| pointer.address).collect();
        let shown = pointers
            .iter()
            .filter(|((pointer, _), _)| pointer.is_service || !services.contains(&pointer.address));
        let records = shown.map(|((pointer, _), owner)| {
            let target = pointer.target.as_wire().to_vec();
            self.names
                .record(owner, self.options.ttl, Type::PTR, target)
        });
        records.collect()
    }

    //--- Names

    /// The part of the name of a Service below `svc` or `endpoints`.
    fn part_of(&self, above: &Name, key: &Key) -> Option<usize> {
        let name = above.prepend(key.namespace.as_bytes()).ok()?;
        let name = name.prepend(key.name.as_bytes()).ok()?;
        self.domain.shape.part_of(&name, self.seed)
    }

    fn pod_name(&self, namespace: &str, address: IpAddr) -> Option<Name> {
        let name = self.names.pod.prepend(namespace.as_bytes()).ok()?;
        name.prepend(dashed(address).as_bytes()).ok()
    }
}

impl Reverse {
    /// The names above the parts that have names below them: they exist (RFC 8020).
    fn names_above_parts(&self) -> Vec<Name> {
        let depth = self.shape.split.depth;
        let first = self.shape.apex.n_labels() + 1;
        if first >= depth {
            return Vec::new();
        }
        let owners = self.pointers.values().flat_map(BTreeMap::values);
        let above: BTreeSet<Name> = owners.map(|owner| owner.suffix(depth - 1)).collect();
        above.into_iter().collect()
    }
}

/// The labels by which a reverse zone is split: all but one of an address's, or one below the apex.
fn reverse_depth(apex: &Name) -> usize {
    let is_six = apex
        .labels()
        .any(|label| label.eq_ignore_ascii_case(b"ip6"));
    let whole = if is_six { 34 } else { 6 };
    (whole - 1).max(apex.n_labels() + 1)
}

/// Notes whether a Service has names in a part, before and now.
fn follow_part(
    services: Option<&mut BTreeSet<Key>>,
    key: &Key,
    part: usize,
    is_served: bool,
    dirty: &mut BTreeSet<usize>,
) {
    let Some(services) = services else {
        return;
    };
    let was_served = match is_served {
        true => !services.insert(key.clone()),
        false => services.remove(key),
    };
    if was_served || is_served {
        dirty.insert(part);
    }
}

fn service<'s>(snapshot: &'s Snapshot, key: &Key) -> Option<&'s Service> {
    match &**snapshot.get(key)? {
        Object::Service(service) => Some(service),
        _ => None,
    }
}

/// The key of the Service that a slice belongs to.
fn service_of(snapshot: &Snapshot, slice: &Key) -> Option<Key> {
    match &**snapshot.get(slice)? {
        Object::EndpointSlice(slice) if !slice.service.is_empty() => Some(Key {
            kind: Kind::Service,
            namespace: slice.meta.namespace.clone(),
            name: slice.service.clone(),
        }),
        _ => None,
    }
}
