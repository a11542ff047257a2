//! The next version of a zone of which few names differ: a copy, in which only those names are built again.
//!
//! The former records of a name still take room in the copy, and a name that has gone keeps its place in the table without being found. When
//! that adds up, or when a change reaches further than single names (delegations, wildcards, DNAMEs, programs, signatures), the
//! zone has to be built as a whole.

use std::collections::BTreeSet;

use dns_wire::hash::Suffixes;
use dns_wire::name::labels;
use dns_wire::{Name, Type};

use super::build::n_labels;
use super::cursor::ZoneRecord;
use super::resolve::target_name;
use super::{Kind, Node, NodeAnswers, Place, RrSet, SetData, Zone, rendering};
use crate::name_table::Index;
use crate::record::SoaTimes;
use crate::store::append;

/// A name, and its records in the next version.
pub type Edit = (Name, Vec<ZoneRecord<'static>>);

/// A small zone is built as a whole when this many names were changed in copies; a larger one when half as many were as it has.
const FEW: usize = 1000;

impl Zone {
    /// Every record of a name, hidden ones too, as a transfer sends them.
    #[must_use]
    pub fn records_at(&self, name: &Name) -> Vec<ZoneRecord<'static>> {
        let mut read = Suffixes::default();
        read.read(self.seed, name.as_wire());
        let visible = self.visible_node(&read, read.n_labels());
        let index = visible.or_else(|| self.occluded_node(&read));
        let mut records = Vec::new();
        let Some((index, node)) = index.and_then(|index| Some((index, self.node(index)?))) else {
            return records;
        };
        let owner = self.spelling(index);
        let mut push = |rtype, ttl, rdata: Vec<u8>| {
            records.push(ZoneRecord {
                owner: owner.clone(),
                rtype,
                ttl,
                rdata: rdata.into(),
            });
        };
        for set in self.sets_of(node) {
            for rdata in self.rdata_of(set) {
                push(set.rtype, self.ttl_of(node, set, rdata), rdata.to_vec());
            }
            let SetData::Live(number) = set.data else {
                continue;
            };
            if let Some(live) = self.live_sets.get(number as usize) {
                for rdata in &live.fixed {
                    push(live.rtype, live.fixed_ttl, rdata.to_vec());
                }
                for program in &live.programs {
                    push(Type::LUA, program.ttl, program.rdata(live.rtype));
                }
            }
        }
        for (_, program) in self.libraries.iter().filter(|(owner, _)| owner == name) {
            push(Type::LUA, program.ttl, program.rdata(Type::LUA));
        }
        records
    }

    /// The zone in which these names have these records, and only the serial of the SOA record differs; `None` when it has to be built
    /// as a whole. The records of a set have one TTL, and none is twice.
    #[must_use]
    pub fn patched(&self, edits: &[Edit]) -> Option<Self> {
        let n_patched = self.n_patched + edits.len();
        let is_wasteful = n_patched > FEW.max(self.nodes.len() / 2);
        if self.is_signed() || self.extent.is_some() || is_wasteful {
            return None;
        }
        let mut patch = Patch {
            zone: self.copy(),
            edited: BTreeSet::new(),
            changed: Vec::new(),
        };
        for (owner, records) in edits {
            patch.edit(owner, records)?;
        }
        let mut zone = patch.finish()?;
        zone.n_patched = n_patched;
        Some(zone)
    }

    fn copy(&self) -> Self {
        Self {
            apex: self.apex.clone(),
            apex_labels: self.apex_labels,
            max_labels: self.max_labels,
            soa: self.soa,
            seed: self.seed,
            extent: self.extent,
            nodes: self.nodes.clone(),
            names: self.names.clone(),
            spellings: self.spellings.clone(),
            visible: self.visible.clone(),
            occluded: self.occluded.clone(),
            sets: self.sets.clone(),
            rdata: self.rdata.clone(),
            n_records: self.n_records,
            live_sets: self.live_sets.clone(),
            libraries: self.libraries.clone(),
            answers: self.answers.clone(),
            store: self.store.clone(),
            onward: self.onward.clone(),
            nodata: self.nodata,
            nxdomain: self.nxdomain,
            denial: None,
            signed: Box::default(),
            n_patched: self.n_patched,
        }
    }
}

/// A copy of a zone while its names are changed.
struct Patch {
    zone: Zone,
    /// The nodes with other records.
    edited: BTreeSet<Index>,
    /// The names, in lower case, whose data or whose place in the zone has changed; those below too, if it says so.
    changed: Vec<(Vec<u8>, bool)>,
}

/// Whether answers for more than the name depend on a record of this type.
const fn reaches_further(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::LUA
            | Type::DNAME
            | Type::DNSKEY
            | Type::RRSIG
            | Type::NSEC
            | Type::NSEC3
            | Type::NSEC3PARAM
    )
}

impl Patch {
    /// Gives a name these records.
    fn edit(&mut self, owner: &Name, records: &[ZoneRecord<'static>]) -> Option<()> {
        let mut read = Suffixes::default();
        read.read(self.zone.seed, owner.as_wire());
        let is_apex = *owner == self.zone.apex;
        if is_apex && self.set_serial(records)? {
            return Some(());
        }
        let has_wildcard = owner.labels().any(|label| label == b"*");
        let may_not = |rtype| reaches_further(rtype) || !is_apex && rtype == Type::NS;
        if has_wildcard || records.iter().any(|record| may_not(record.rtype)) {
            return None;
        }
        let Some(index) = self.zone.visible_node(&read, read.n_labels()) else {
            if records.is_empty() {
                return self.zone.occluded_node(&read).is_none().then_some(());
            }
            let index = self.insert(owner, &read)?;
            return self.set(index, records);
        };
        let node = self.zone.node(index)?;
        let mut sets = self.zone.sets_of(node).iter();
        let has_live =
            |set: &RrSet| matches!(set.data, SetData::Live(_)) || reaches_further(set.rtype);
        let has_library = self.zone.libraries.iter().any(|(name, _)| name == owner);
        if node.kind != Kind::Plain || has_library || sets.any(has_live) {
            return None;
        }
        if records.is_empty() {
            return self.remove(index, &read);
        }
        self.changed.push((read.name().to_vec(), false));
        self.set(index, records)
    }

    /// Takes the serial from the records of the apex. Returns whether nothing else differs.
    fn set_serial(&mut self, records: &[ZoneRecord<'static>]) -> Option<bool> {
        let zone = &mut self.zone;
        let before = zone.records_at(&zone.apex);
        let is_soa = |record: &&ZoneRecord<'static>| record.rtype == Type::SOA;
        let (old, new) = (before.iter().find(is_soa)?, records.iter().find(is_soa)?);
        let serial = SoaTimes::of(&new.rdata)?.serial;
        let same = old.with_serial(serial)?;
        if same.rdata != new.rdata || old.ttl != new.ttl {
            return None;
        }
        let set = zone.set_of(zone.node(Index::FIRST)?, Type::SOA)?;
        let SetData::Fixed { start, end } = set.data else {
            return None;
        };
        let data = zone.rdata.get_mut(start as usize..end as usize)?;
        let [s3, s2, s1, s0, ..] = data.last_chunk_mut::<20>()?;
        [*s3, *s2, *s1, *s0] = serial.to_be_bytes();
        zone.soa.serial = serial;
        zone.store.set_serial(serial);
        let others = |records: &[ZoneRecord<'static>]| {
            let others = records.iter().filter(|record| record.rtype != Type::SOA);
            let mut others: Vec<_> = others
                .map(|it| (it.rtype, it.ttl, it.rdata.to_vec()))
                .collect();
            others.sort();
            others
        };
        Some(others(&before) == others(records))
    }

    /// Adds a name, and those between it and the closest one above that is there.
    fn insert(&mut self, owner: &Name, read: &Suffixes) -> Option<Index> {
        let encloser = self.zone.node(self.zone.closest_encloser(read))?;
        if encloser.kind != Kind::Plain {
            return None;
        }
        let above = n_labels(self.zone.name_of(encloser));
        self.changed.push((read.suffix(above + 1).to_vec(), true));
        let mut last = None;
        for n in above + 1..=read.n_labels() {
            last = Some(self.insert_one(owner, read, n)?);
        }
        last
    }

    /// Adds the last `n` labels of a name.
    fn insert_one(&mut self, owner: &Name, read: &Suffixes, n: usize) -> Option<Index> {
        let zone = &mut self.zone;
        let lower = read.suffix(n);
        let index = Index::new(zone.nodes.len())?;
        if !zone.visible.insert(read.hash(n), index) {
            return None;
        }
        zone.nodes.push(Node {
            name_start: u32::try_from(zone.names.len()).ok()?,
            name_length: u8::try_from(lower.len()).ok()?,
            kind: Kind::Plain,
            occluded: false,
            wildcard: None,
            sets_start: 0,
            n_sets: 0,
            answers: NodeAnswers::default(),
        });
        zone.names.extend_from_slice(lower);
        let spelled = owner.suffix(n);
        if spelled.as_wire() != lower {
            zone.spellings
                .insert(u32::try_from(index.get()).ok()?, spelled);
        }
        zone.max_labels = zone.max_labels.max(n);
        self.edited.insert(index);
        Some(index)
    }

    /// Gives a node these records.
    fn set(&mut self, index: Index, records: &[ZoneRecord<'static>]) -> Option<()> {
        let n_before = self.n_records(index);
        let mut records: Vec<&ZoneRecord<'static>> = records.iter().collect();
        records.sort_by(|a, b| (a.rtype, &a.rdata).cmp(&(b.rtype, &b.rdata)));
        let zone = &mut self.zone;
        let sets_start = u32::try_from(zone.sets.len()).ok()?;
        let mut sets = Vec::new();
        for alike in records.chunk_by(|a, b| a.rtype == b.rtype) {
            let start = u32::try_from(zone.rdata.len()).ok()?;
            let mut data = Vec::new();
            for record in alike {
                data.extend(u16::try_from(record.rdata.len()).ok()?.to_be_bytes());
                data.extend_from_slice(&record.rdata);
            }
            append(&mut zone.rdata, &mut data);
            sets.push(RrSet {
                rtype: alike.first()?.rtype,
                ttl: alike.iter().map(|record| record.ttl).min()?,
                data: SetData::Fixed {
                    start,
                    end: u32::try_from(zone.rdata.len()).ok()?,
                },
            });
        }
        let n_sets = u16::try_from(sets.len()).ok()?;
        append(&mut zone.sets, &mut sets);
        let node = zone.nodes.get_mut(index.get())?;
        (node.sets_start, node.n_sets) = (sets_start, n_sets);
        zone.n_records = (zone.n_records + records.len()).checked_sub(n_before)?;
        self.edited.insert(index);
        Some(())
    }

    fn n_records(&self, index: Index) -> usize {
        let node = self.zone.node(index);
        let sets = node.map_or(&[][..], |node| self.zone.sets_of(node));
        sets.iter().map(|set| self.zone.rdata_of(set).count()).sum()
    }

    /// Takes all records of a name away, and the name with those above it that only led to it.
    fn remove(&mut self, index: Index, read: &Suffixes) -> Option<()> {
        self.set(index, &[])?;
        let mut n = read.n_labels();
        if self.is_needed(index) {
            self.changed.push((read.name().to_vec(), false));
            return Some(());
        }
        let mut next = Some(index);
        while let Some(index) = next {
            let number = u32::try_from(index.get()).ok()?;
            self.zone.spellings.remove(&number);
            self.edited.remove(&index);
            // No name is empty, so it is found no more.
            let node = self.zone.nodes.get_mut(index.get())?;
            (node.name_length, node.n_sets) = (0, 0);
            node.answers = NodeAnswers::default();
            n -= 1;
            let above = self.zone.visible_node(read, n);
            next = above.filter(|above| !self.is_needed(*above));
        }
        self.changed.push((read.suffix(n + 1).to_vec(), true));
        Some(())
    }

    /// Whether a name exists for its own sake, or for one below it.
    fn is_needed(&self, index: Index) -> bool {
        let Some(node) = self.zone.node(index) else {
            return true;
        };
        let name = self.zone.name_of(node);
        let is_below = |other: &Node| {
            let other = self.zone.name_of(other);
            other.len() > name.len() && is_at_or_below(other, name)
        };
        index == Index::FIRST || node.n_sets > 0 || self.zone.nodes.iter().any(is_below)
    }

    /// Makes the answers again of all names that have others.
    fn finish(mut self) -> Option<Zone> {
        let others = self.dependents()?;
        self.edited.extend(others);
        rendering::render_again(&mut self.zone, self.edited);
        Some(self.zone)
    }

    /// The nodes whose answers have records of the changed names, or would if these had any. `None` if there are DNAMEs: the
    /// names below them depend on more.
    fn dependents(&self) -> Option<BTreeSet<Index>> {
        let zone = &self.zone;
        let mut found = BTreeSet::new();
        let mut aliases: Vec<(Index, Name)> = Vec::new();
        for (place, node) in zone
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| !node.occluded)
        {
            for set in zone.sets_of(node) {
                match set.rtype {
                    Type::CNAME | Type::NS | Type::MX | Type::SRV | Type::SVCB | Type::HTTPS => {}
                    Type::DNAME => return None,
                    _ => continue,
                }
                let index = Index::new(place)?;
                let owner = zone.spelling(index);
                for rdata in zone.rdata_of(set) {
                    let target = target_name(set.rtype, rdata, Some(&owner));
                    let Some(target) = target.filter(|target| target.is_within(&zone.apex)) else {
                        continue;
                    };
                    if self.has_changed(&target) {
                        found.insert(index);
                    } else if set.rtype == Type::CNAME {
                        aliases.push((index, target));
                    }
                }
            }
        }
        let mut read = Suffixes::default();
        let mut is_growing = !found.is_empty();
        while is_growing {
            is_growing = false;
            aliases.retain(|(index, target)| {
                read.read(zone.seed, target.as_wire());
                let reached = match zone.locate(&read) {
                    Place::Exact(index) | Place::Wildcard(index) | Place::BelowCut(index) => index,
                    Place::BelowDname(_) | Place::Missing => return true,
                };
                let is_reached = found.contains(&reached);
                if is_reached {
                    is_growing |= found.insert(*index);
                }
                !is_reached
            });
        }
        Some(found)
    }

    fn has_changed(&self, name: &Name) -> bool {
        let mut lower = name.as_wire().to_vec();
        lower.make_ascii_lowercase();
        let mut changed = self.changed.iter();
        changed.any(|(changed, and_below)| {
            *changed == lower || *and_below && is_at_or_below(&lower, changed)
        })
    }
}

/// Whether a name is another one or below it, both in wire form and in lower case.
fn is_at_or_below(name: &[u8], other: &[u8]) -> bool {
    let Some(above) = name.len().checked_sub(other.len()) else {
        return false;
    };
    if name.get(above..) != Some(other) {
        return false;
    }
    // The octets of a label may look like labels.
    let mut at = 0;
    for label in labels(name) {
        if at >= above {
            break;
        }
        at += label.len() + 1;
    }
    at == above
}

#[cfg(test)]
mod tests;
