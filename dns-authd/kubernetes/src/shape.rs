//! A zone in parts: how its names fall to them, what each has, and the change that replaces some.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use config_text::Problem;
use dns_wire::Name;
use dns_wire::hash::{Seed, Suffixes};
use dns_zone::zone::split::{Extent, Split};
use dns_zone::{Record, RecordData, Zone};

/// The parts of a zone. With 5,000 Services a part has the names of some five of them.
pub const PARTS: usize = 1024;

/// The changes of one zone.
#[derive(Clone, Debug)]
pub struct Change {
    /// The zone's place among [`Options::apexes`](crate::Options::apexes).
    pub zone: usize,
    /// The names above the parts.
    pub root: Arc<Zone>,
    /// The parts that are others than before. Those that the first change of a zone does not list are `empty`.
    pub parts: Vec<(usize, Arc<Zone>)>,
    /// A part without names, in the first change of a zone only.
    pub empty: Option<Arc<Zone>>,
    /// The number of records of the whole zone.
    pub n_records: usize,
}

/// A part that was built, with the number of its records and a hash of them.
pub(crate) type Part = (usize, Arc<Zone>, (usize, u64));

/// The outline of a zone and of its parts.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) apex: Name,
    pub(crate) split: Split,
    /// The number of records of each part, and a hash of them.
    contents: Vec<(usize, u64)>,
    /// Whether the zone was rendered before.
    pub(crate) is_begun: bool,
}

impl Shape {
    /// A zone that is split by the suffixes of this number of labels.
    pub(crate) fn new(apex: &Name, depth: usize) -> Self {
        Self {
            apex: apex.clone(),
            split: Split {
                depth,
                parts: PARTS,
            },
            contents: vec![(0, 0); PARTS],
            is_begun: false,
        }
    }

    pub(crate) fn part_of(&self, name: &Name, seed: Seed) -> Option<usize> {
        let mut read = Suffixes::default();
        read.read(seed, name.as_wire());
        self.split.part_of(&read)
    }

    pub(crate) fn build(
        &self,
        part: Option<usize>,
        records: &[Record],
        empty: &[Name],
        seed: Seed,
    ) -> Result<Arc<Zone>, Vec<Problem>> {
        let extent = Extent {
            split: self.split,
            part,
        };
        Zone::build_part(&self.apex, records, empty, extent, seed).map(Arc::new)
    }

    /// Whether a part has other content than this.
    pub(crate) fn has_other(&self, part: usize, content: (usize, u64)) -> bool {
        self.contents.get(part) != Some(&content)
    }

    pub(crate) fn change(
        &mut self,
        zone: usize,
        (root, empty): (Arc<Zone>, Option<Arc<Zone>>),
        parts: Vec<Part>,
    ) -> Change {
        self.is_begun = true;
        for (part, _, content) in &parts {
            if let Some(slot) = self.contents.get_mut(*part) {
                *slot = *content;
            }
        }
        let of_parts: usize = self.contents.iter().map(|(n_records, _)| n_records).sum();
        Change {
            zone,
            n_records: root.n_records() + of_parts,
            root,
            empty,
            parts: parts
                .into_iter()
                .map(|(part, zone, _)| (part, zone))
                .collect(),
        }
    }
}

/// The number of records, and a hash of everything that answers depend on; zero for nothing.
pub(crate) fn content(records: &[Record], empty: &[Name]) -> (usize, u64) {
    if records.is_empty() && empty.is_empty() {
        return (0, 0);
    }
    let mut hasher = DefaultHasher::new();
    empty.hash(&mut hasher);
    for record in records {
        record.owner.hash(&mut hasher);
        record.ttl.hash(&mut hasher);
        if let RecordData::Wire { rtype, rdata } = &record.data {
            (rtype.0, rdata).hash(&mut hasher);
        }
    }
    (records.len(), hasher.finish())
}
