use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oci::digest::{Algorithm, Digest};
use oci::reference::{RepositoryName, Tag};
use registry_facts::hlc::Hlc;
use registry_facts::index::key::{BLOB, MANIFEST};
use registry_facts::index::memory::MemoryIndex;
use registry_facts::index::view::View;
use registry_facts::index::{Batch, Entry, Index, IndexError, Summary, summary};
use registry_facts::record::{Fact, Link, Membership, NodeId, Record};

use super::sled::SledIndex;
use crate::disk::faulty::Chance;
use crate::journal::Place;
use crate::journal::current::Current;

/// Runs a check on an empty index of each kind.
fn on_each(check: impl Fn(Arc<dyn Index>)) {
    check(Arc::new(MemoryIndex::default()));
    let scratch = tempfile::tempdir().unwrap();
    let index = SledIndex::open(
        &scratch.path().join("sled"),
        1 << 20,
        Duration::from_secs(60),
    )
    .unwrap();
    check(Arc::new(index));
}

fn entry(key: &[u8], value: &[u8]) -> Entry {
    (key.to_vec(), value.to_vec())
}

#[test]
fn each_kind_is_an_ordered_map_that_changes_in_steps() {
    on_each(|index| {
        assert_eq!(index.get(b"a"), Ok(None));
        assert_eq!(summary(&*index), Ok(Summary::default()));
        let entries = [b"b\0a", b"b\0b", b"b\0c", b"c\0a"];
        let batch = entries.map(|key| (key.to_vec(), Some(vec![key[2]])));
        index.write(batch.into()).unwrap();
        assert_eq!(index.get(b"b\0b"), Ok(Some(b"b".to_vec())));
        let scan = |prefix: &[u8], after: Option<&[u8]>, limit| index.scan(prefix, after, limit);
        let all = [
            entry(b"b\0a", b"a"),
            entry(b"b\0b", b"b"),
            entry(b"b\0c", b"c"),
        ];
        assert_eq!(scan(b"b", None, 9), Ok(all.to_vec()));
        assert_eq!(scan(b"b", None, 2), Ok(all[..2].to_vec()));
        assert_eq!(scan(b"b", Some(b"b\0a"), 9), Ok(all[1..].to_vec()));
        assert_eq!(scan(b"b", Some(b"b\0aa"), 1), Ok(all[1..2].to_vec()));
        assert_eq!(scan(b"b", Some(b"a"), 1), Ok(all[..1].to_vec()));
        assert_eq!(scan(b"b", Some(b"b\0c"), 9), Ok(vec![]));
        assert_eq!(scan(b"b", Some(b"d"), 9), Ok(vec![]));
        assert_eq!(scan(b"", None, 9).unwrap().len(), 4);
        assert_eq!(scan(b"b", None, 0), Ok(vec![]));
        let change = Batch::from([
            (b"b\0a".to_vec(), None),
            (b"b\0d".to_vec(), None),
            (b"b\0b".to_vec(), Some(b"new".to_vec())),
        ]);
        let before = summary(&*index).unwrap();
        index.write(change).unwrap();
        assert_eq!(scan(b"b", None, 1), Ok(vec![entry(b"b\0b", b"new")]));
        let after = summary(&*index).unwrap();
        assert_eq!((before.n_entries, after.n_entries), (4, 3));
        assert_ne!(before.sum, after.sum);
        index.flush().unwrap();
    });
}

//--- Records by chance

fn node(number: u64) -> NodeId {
    NodeId {
        name: format!("n{number}").parse().unwrap(),
        incarnation: number,
    }
}

fn digest(number: u64) -> Digest {
    let algorithm = if number.is_multiple_of(5) {
        Algorithm::Sha512
    } else {
        Algorithm::Sha256
    };
    Digest::of(algorithm, &number.to_le_bytes())
}

fn repository(number: u64) -> RepositoryName {
    ["a", "a-b", "a/b", "b"][usize::try_from(number).unwrap()]
        .parse()
        .unwrap()
}

fn tag(number: u64) -> Tag {
    format!("t{number}").parse().unwrap()
}

fn fact(chance: &mut Chance) -> Fact {
    let repository = repository(chance.below(4));
    let digest = digest(chance.below(6));
    let is_there = chance.permille(650);
    match chance.below(4) {
        0 => Fact::Blob {
            repository,
            digest,
            size: is_there.then(|| chance.below(9)),
        },
        1 => Fact::Manifest {
            repository,
            digest,
            link: is_there.then(|| Link {
                media_type: format!("m/{}", chance.below(3)).into(),
                size: chance.below(9),
                subject: chance.permille(500).then(|| self::digest(chance.below(6))),
            }),
        },
        2 => Fact::Node {
            name: node(chance.below(3)).name,
            membership: Membership {
                is_member: is_there,
                address: chance.permille(500).then(|| "192.0.2.1:5444".into()),
                forgotten: chance.below(9),
            },
        },
        _ => Fact::Tag {
            repository,
            tag: tag(chance.below(4)),
            target: is_there.then_some(digest),
        },
    }
}

fn records(chance: &mut Chance) -> Vec<Record> {
    (1..=60)
        .map(|number| Record {
            origin: node(chance.below(3)),
            sequence: if chance.permille(100) { 0 } else { number },
            // Few stamps: the origin often has to decide.
            stamp: Hlc::at(chance.below(25)),
            facts: (0..chance.below(4)).map(|_| fact(chance)).collect(),
        })
        .collect()
}

fn shuffled(records: &[Record], chance: &mut Chance) -> Vec<Record> {
    let mut shuffled = records.to_vec();
    for _ in 0..20 {
        let at = usize::try_from(chance.below(records.len() as u64)).unwrap();
        shuffled.push(records[at].clone());
    }
    for last in (1..shuffled.len()).rev() {
        let at = usize::try_from(chance.below(last as u64 + 1)).unwrap();
        shuffled.swap(at, last);
    }
    shuffled
}

fn content(index: &dyn Index) -> Vec<Entry> {
    index.scan(b"", None, usize::MAX).unwrap()
}

#[test]
fn records_in_any_order_and_number_give_the_same_index_of_either_kind() {
    for seed in 0..20 {
        let mut chance = Chance::new(seed);
        let records = records(&mut chance);
        let view = View::new(Arc::new(MemoryIndex::default()));
        view.apply(&records).unwrap();
        let expected = content(view.index());
        assert!(!expected.is_empty());
        on_each(|index| {
            let mut chance = Chance::new(seed + 1000);
            let view = View::new(index);
            for group in shuffled(&records, &mut chance).chunks(7) {
                view.apply(group).unwrap();
            }
            assert_eq!(content(view.index()), expected, "seed {seed}");
            for record in &records {
                assert_eq!(view.is_news(record), Ok(false), "seed {seed}");
            }
        });
    }
}

#[test]
fn what_is_derived_says_what_the_registers_say() {
    for seed in 0..40 {
        let mut chance = Chance::new(seed);
        let view = View::new(Arc::new(MemoryIndex::default()));
        view.apply(&records(&mut chance)).unwrap();
        let registers = view.registers(None, usize::MAX).unwrap();
        let mut paged = Vec::new();
        while let Some(page) = Some(view.registers(paged.last(), 3).unwrap())
            && !page.is_empty()
        {
            paged.extend(page.iter().map(|register| register.fact.key()));
        }
        let keys: Vec<_> = registers
            .iter()
            .map(|register| register.fact.key())
            .collect();
        assert!(keys.is_sorted());
        assert_eq!(paged, keys, "seed {seed}");
        for number in 0..4 {
            check_repository(&view, &repository(number), &registers);
        }
        let names = view.repositories(None, 99).unwrap();
        assert!(names.is_sorted());
        let second = view.repositories(names.first().map(RepositoryName::as_str), 1);
        assert_eq!(second.unwrap().first(), names.get(1));
    }
}

fn check_repository(
    view: &View,
    name: &RepositoryName,
    registers: &[registry_facts::record::Stamped],
) {
    let facts: Vec<&Fact> = registers
        .iter()
        .map(|register| &register.fact)
        .filter(|fact| fact.repository() == Some(name) && !fact.is_tombstone())
        .collect();
    let has_any = facts.iter().any(|fact| !matches!(fact, Fact::Tag { .. }));
    assert_eq!(view.has(name), Ok(has_any));
    assert_eq!(view.repositories(None, 99).unwrap().contains(name), has_any);
    let mut tags = Vec::new();
    for fact in &facts {
        match fact {
            Fact::Blob { digest, size, .. } => {
                assert_eq!(view.blob(name, digest), Ok(*size));
                assert!(view.holders(digest, BLOB, 99).unwrap().contains(name));
            }
            Fact::Manifest { digest, link, .. } => {
                assert_eq!(view.manifest(name, digest), Ok(link.clone()));
                assert!(view.holders(digest, MANIFEST, 99).unwrap().contains(name));
                if let Some(subject) = link.as_ref().and_then(|link| link.subject) {
                    assert!(
                        view.referrers(name, &subject, None, 100)
                            .unwrap()
                            .contains(digest)
                    );
                }
            }
            Fact::Tag { tag, target, .. } => {
                let target = target.unwrap();
                assert!(view.tags_of(name, &target).unwrap().contains(tag));
                let link = view.manifest(name, &target).unwrap();
                assert_eq!(view.tag(name, tag), Ok(link.map(|link| (target, link))));
                if view.tag(name, tag).unwrap().is_some() {
                    tags.push(tag.clone());
                }
            }
            Fact::Node { name, .. } => panic!("the node {name} is of no repository"),
        }
    }
    assert_eq!(view.tags(name, None, 99).unwrap(), tags);
    assert_eq!(
        view.tags(name, Some("t1"), 1).unwrap().first(),
        tags.iter().find(|tag| tag.as_str() > "t1")
    );
    let n_referring: usize = (0..6)
        .map(|number| {
            view.referrers(name, &digest(number), None, 100)
                .unwrap()
                .len()
        })
        .sum();
    let refers = |fact: &&&Fact| matches!(fact, Fact::Manifest { link: Some(link), .. } if link.subject.is_some());
    assert_eq!(n_referring, facts.iter().filter(refers).count());
}

#[test]
fn only_old_tombstones_that_stand_are_forgotten() {
    let view = View::new(Arc::new(MemoryIndex::default()));
    let record = |stamp, size| Record {
        origin: node(0),
        sequence: 1,
        stamp: Hlc::at(stamp),
        facts: vec![Fact::Blob {
            repository: repository(0),
            digest: digest(0),
            size,
        }],
    };
    view.apply(&[record(5, None)]).unwrap();
    let tombstone = view.registers(None, 1).unwrap().remove(0);
    assert_eq!(
        view.forget(&tombstone, Hlc::at(5)),
        Ok(false),
        "not that old"
    );
    view.apply(&[record(6, Some(1))]).unwrap();
    assert_eq!(
        view.forget(&tombstone, Hlc::at(9)),
        Ok(false),
        "overwritten"
    );
    let standing = view.registers(None, 1).unwrap().remove(0);
    assert_eq!(
        view.forget(&standing, Hlc::at(9)),
        Ok(false),
        "no tombstone"
    );
    view.apply(&[record(7, None)]).unwrap();
    let tombstone = view.registers(None, 1).unwrap().remove(0);
    assert_eq!(view.forget(&tombstone, Hlc::at(9)), Ok(true));
    assert_eq!(content(view.index()), []);
}

//--- Failing

/// Fails from some moment on.
#[derive(Debug, Default)]
struct Failing {
    index: MemoryIndex,
    fails: AtomicBool,
}

impl Failing {
    fn check(&self) -> Result<(), IndexError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(IndexError::Failed("by the test".to_owned()));
        }
        Ok(())
    }
}

impl Index for Failing {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.check().and_then(|()| self.index.get(key))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>, IndexError> {
        self.check()
            .and_then(|()| self.index.scan(prefix, after, limit))
    }

    fn write(&self, batch: Batch) -> Result<(), IndexError> {
        self.check().and_then(|()| self.index.write(batch))
    }

    fn flush(&self) -> Result<(), IndexError> {
        self.check()
    }
}

#[test]
fn when_an_index_fails_memory_serves_on_and_nobody_is_refused() {
    let mut chance = Chance::new(7);
    let records: Vec<Arc<Record>> = records(&mut chance).into_iter().map(Arc::new).collect();
    let (before, after) = records.split_at(40);
    for fails_at_a_read in [true, false] {
        let failing = Arc::new(Failing::default());
        let journal = before.to_vec();
        let place = Place { segment: 1, at: 40 };
        let rebuild = move |view: &View, until| {
            assert_eq!(until, place);
            view.apply(journal.iter().map(|record| &**record)).unwrap();
            Ok(())
        };
        let index = Arc::clone(&failing) as Arc<dyn Index>;
        let current = Current::new(View::new(index), Place::default(), Box::new(rebuild));
        current.apply(before, place).unwrap();
        let expected = current.read(|view| view.registers(None, 999)).unwrap();
        failing.fails.store(true, Ordering::Relaxed);
        if fails_at_a_read {
            let found = current.read(|view| view.registers(None, 999)).unwrap();
            assert_eq!(found, expected);
        }
        let end = Place { segment: 1, at: 60 };
        current.apply(after, end).unwrap();
        assert_eq!((current.n_failed(), current.applied()), (1, end));
        let whole = View::new(Arc::new(MemoryIndex::default()));
        whole.apply(records.iter().map(|record| &**record)).unwrap();
        assert_eq!(content(current.view().index()), content(whole.index()));
    }
}
