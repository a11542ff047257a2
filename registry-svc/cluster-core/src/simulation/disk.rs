//! A disk, and what a node finds on it.

use std::collections::BTreeMap;

use oci::digest::Digest;
use oci::reference::RepositoryName;
use registry_facts::record::{Fact, Link, Record, Stamped, Vector};

use crate::buckets::{Buckets, Registers};

/// What outlives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) registers: Registers,
    /// Content, and when it was last written or asked for.
    pub(super) held: BTreeMap<Digest, u64>,
    pub(super) journal: Vec<Record>,
    pub(super) vector: Vector,
}

impl Disk {
    /// Takes a record, durably.
    pub(super) fn apply(&mut self, record: Record) {
        if record.sequence != 0 && !self.vector.advance(&record.origin, record.sequence) {
            return;
        }
        for fact in &record.facts {
            let new = stamped(&record, fact);
            let register = self
                .registers
                .entry(fact.key())
                .or_insert_with(|| new.clone());
            if new.rank() > register.rank() {
                *register = new;
            }
        }
        self.journal.push(record);
    }

    /// A record without what has been overwritten, as a compacted journal has it.
    pub(super) fn live(&self, record: &Record) -> Record {
        let mut record = record.clone();
        let rank = record.rank();
        record.facts.retain(|fact| {
            self.registers
                .get(&fact.key())
                .is_some_and(|register| register.rank() <= rank)
        });
        record
    }

    /// Whether a statement holds here, or a later one does.
    pub(super) fn has(&self, stated: &Stamped) -> bool {
        let register = self.registers.get(&stated.fact.key());
        // A tombstone is as good as nothing where nothing is shown.
        let missing = stated.fact.is_tombstone();
        register.map_or(missing, |register| register.rank() >= stated.rank())
    }

    pub(super) fn live_content(&self) -> Vec<Digest> {
        let registers = self.registers.values();
        registers
            .filter_map(|register| register.fact.present_content())
            .collect()
    }

    pub(super) fn manifests(&self, repository: &RepositoryName) -> Vec<Digest> {
        let registers = self.registers.values();
        registers
            .filter_map(|register| match &register.fact {
                Fact::Manifest {
                    repository: of,
                    digest,
                    link: Some(_),
                } if of == repository => Some(*digest),
                _ => None,
            })
            .collect()
    }
}

pub(super) fn stamped(record: &Record, fact: &Fact) -> Stamped {
    Stamped {
        origin: record.origin.clone(),
        sequence: record.sequence,
        stamp: record.stamp,
        fact: fact.clone(),
    }
}

pub(super) fn manifest(repository: &RepositoryName, digest: Digest) -> Fact {
    Fact::Manifest {
        repository: repository.clone(),
        digest,
        link: Some(Link {
            media_type: "a/b".into(),
            size: 1,
            subject: None,
        }),
    }
}

pub(super) fn sums(registers: &Registers) -> Buckets {
    let mut sums = Buckets::default();
    registers
        .values()
        .for_each(|register| sums.add_register(register));
    sums
}
