//! RFC 1034 §4.3.2 as it is written, over a sorted map: slow, and independent of the compiled
//! zone that it checks.

use std::collections::{BTreeMap, BTreeSet};

use dns_wire::layout::{Field, Layout};
use dns_wire::{Name, Rcode, Type};
use dns_zone::{Record, RecordData};

use crate::testing::{Expected, Line, canonical};

type Sets = BTreeMap<Type, (u32, Vec<Vec<u8>>)>;

pub(crate) struct Reference {
    apex: Name,
    names: BTreeMap<Name, Sets>,
    /// Names that have data, or something below them has (RFC 4592 §2.2.2).
    existing: BTreeSet<Name>,
}

impl Reference {
    pub(crate) fn new(apex: &Name, records: &[Record]) -> Self {
        let mut names: BTreeMap<Name, Sets> = BTreeMap::new();
        for record in records {
            let RecordData::Wire { rtype, rdata } = &record.data else {
                continue;
            };
            let set = names
                .entry(record.owner.to_lowercase())
                .or_default()
                .entry(*rtype)
                .or_insert((record.ttl, Vec::new()));
            set.0 = set.0.min(record.ttl);
            let single = matches!(*rtype, Type::CNAME | Type::DNAME | Type::SOA);
            if !single || set.1.is_empty() {
                set.1.push(canonical(*rtype, rdata));
            }
        }
        let ancestors = |owner: &Name| (0..=owner.n_labels()).map(|n| owner.suffix(n)).collect();
        Self {
            apex: apex.to_lowercase(),
            existing: names.keys().flat_map::<Vec<Name>, _>(ancestors).collect(),
            names,
        }
    }

    fn exists(&self, name: &Name) -> bool {
        self.existing.contains(name)
    }

    fn set(&self, name: &Name, rtype: Type) -> Option<&(u32, Vec<Vec<u8>>)> {
        self.names.get(name)?.get(&rtype)
    }

    pub(crate) fn answer(&self, qname: &Name, qtype: Type) -> Expected {
        let mut response = Expected {
            authoritative: true,
            ..Expected::default()
        };
        let mut name = qname.to_lowercase();
        let mut been = BTreeSet::new();
        for _ in 0..16 {
            match self.step(&name, qtype, &mut response) {
                Some(next) if next.is_within(&self.apex) => {
                    been.insert(name);
                    if been.contains(&next) {
                        break;
                    }
                    name = next;
                }
                _ => break,
            }
        }
        self.add_addresses(&mut response);
        response
    }

    /// Walks down from the apex label by label; gives the name to restart with.
    fn step(&self, name: &Name, qtype: Type, response: &mut Expected) -> Option<Name> {
        let depth = self.apex.n_labels();
        for n in depth..=name.n_labels() {
            let here = name.suffix(n);
            let last = n == name.n_labels();
            if n > depth
                && !here.is_wildcard()
                && let Some((ttl, servers)) = self.set(&here, Type::NS)
                && !(last && qtype == Type::DS)
            {
                response.authoritative = !response.answer.is_empty();
                for server in servers {
                    let line = (here.clone(), Type::NS, *ttl, server.clone());
                    response.authority.insert(line);
                }
                return None;
            }
            if last {
                return self.data(&here, &here, qtype, response);
            }
            if let Some((ttl, targets)) = self.set(&here, Type::DNAME) {
                let target = Name::from_wire(&targets[0]).unwrap().0;
                let line = (here.clone(), Type::DNAME, *ttl, targets[0].clone());
                // A DNAME whose target is below its owner redirects once, as in NSD.
                if !response.answer.insert(line) && target.is_within(&here) {
                    return None;
                }
                let mut moved = target;
                for label in name
                    .labels()
                    .take(name.n_labels() - n)
                    .collect::<Vec<_>>()
                    .iter()
                    .rev()
                {
                    match moved.prepend(label) {
                        Ok(longer) => moved = longer,
                        Err(_) => {
                            response.rcode = Rcode::YXDOMAIN.0;
                            return None;
                        }
                    }
                }
                let line = (name.clone(), Type::CNAME, *ttl, moved.as_wire().to_vec());
                response.answer.insert(line);
                return (qtype != Type::CNAME).then_some(moved);
            }
            if !self.exists(&name.suffix(n + 1)) {
                let wildcard = here.prepend(b"*").ok()?;
                if self.exists(&wildcard) {
                    return self.data(&wildcard, name, qtype, response);
                }
                response.rcode = Rcode::NXDOMAIN.0;
                self.add_soa(response);
                return None;
            }
        }
        None
    }

    /// Takes data from `source` for `owner`.
    fn data(
        &self,
        source: &Name,
        owner: &Name,
        qtype: Type,
        response: &mut Expected,
    ) -> Option<Name> {
        // At a delegation, which only a DS question gets to, an alias is below the cut.
        let cut =
            *source != self.apex && !source.is_wildcard() && self.set(source, Type::NS).is_some();
        if let Some((ttl, items)) = self.set(source, qtype) {
            for item in items {
                response
                    .answer
                    .insert((owner.clone(), qtype, *ttl, item.clone()));
            }
            return None;
        }
        if !cut && let Some((ttl, items)) = self.set(source, Type::CNAME) {
            let line = (owner.clone(), Type::CNAME, *ttl, items[0].clone());
            response.answer.insert(line);
            return Some(Name::from_wire(&items[0]).unwrap().0);
        }
        self.add_soa(response);
        None
    }

    fn add_soa(&self, response: &mut Expected) {
        let (ttl, items) = self.set(&self.apex, Type::SOA).unwrap();
        let minimum = u32::from_be_bytes(*items[0].last_chunk().unwrap());
        let line = (
            self.apex.clone(),
            Type::SOA,
            minimum.min(*ttl),
            items[0].clone(),
        );
        response.authority.insert(line);
    }

    fn add_addresses(&self, response: &mut Expected) {
        let mut lines: Vec<Line> = response.answer.iter().cloned().collect();
        lines.extend(response.authority.iter().cloned());
        for (_, rtype, _, rdata) in lines {
            if !matches!(rtype, Type::NS | Type::MX | Type::SRV) {
                continue;
            }
            let skip = match Layout::of(rtype).fields {
                [Field::Octets(n), ..] => *n,
                _ => 0,
            };
            let target = Name::from_wire(&rdata[skip..]).unwrap().0;
            if !target.is_within(&self.apex) {
                continue;
            }
            let Some((source, occluded)) = self.source(&target) else {
                continue;
            };
            if occluded && rtype != Type::NS {
                continue;
            }
            for address in [Type::A, Type::AAAA] {
                if let Some((ttl, items)) = self.set(&source, address) {
                    for item in items {
                        let line = (target.clone(), address, *ttl, item.clone());
                        // What the answer says need not be said again.
                        if !response.answer.contains(&line) {
                            response.additional.insert(line);
                        }
                    }
                }
            }
        }
    }

    /// Whose data a name has, and whether it is below a delegation.
    fn source(&self, name: &Name) -> Option<(Name, bool)> {
        let depth = self.apex.n_labels();
        for n in depth..name.n_labels() {
            let here = name.suffix(n);
            if n > depth && !here.is_wildcard() && self.set(&here, Type::NS).is_some() {
                return Some((name.clone(), true));
            }
            if self.set(&here, Type::DNAME).is_some() {
                return None;
            }
            if !self.exists(&name.suffix(n + 1)) {
                let wildcard = here.prepend(b"*").ok()?;
                return self.exists(&wildcard).then_some((wildcard, false));
            }
        }
        Some((name.clone(), false))
    }
}
