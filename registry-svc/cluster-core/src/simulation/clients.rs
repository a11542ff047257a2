//! What clients do, and what they are told.

use oci::digest::{Algorithm, Digest};
use oci::reference::{RepositoryName, Tag};
use registry_facts::record::{Fact, Record};

use super::disk::{manifest, stamped};
use super::{Node, World};
use crate::acknowledge::Outcome as Acknowledged;
use crate::intake::Kind;

impl World {
    pub(super) fn client(&mut self) {
        let up: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].up)
            .collect();
        let Some(at) = self.random.pick(&up) else {
            return;
        };
        let repository: RepositoryName = format!("r{}", self.random.below(3)).parse().unwrap();
        let tag: Tag = format!("t{}", self.random.below(4)).parse().unwrap();
        let shown = self.nodes[at].disk.manifests(&repository);
        match self.random.below(10) {
            0 => self.state(
                at,
                vec![Fact::Tag {
                    repository,
                    tag,
                    target: None,
                }],
            ),
            1 if !shown.is_empty() => {
                let digest = self.random.pick(&shown).unwrap();
                self.delete(at, &repository, digest);
            }
            2 if !shown.is_empty() => self.push_index(at, repository, tag, &shown),
            _ => self.push_image(at, repository, tag),
        }
    }

    /// Pushes blobs and a manifest; at times the blobs went to another node before.
    fn push_image(&mut self, at: usize, repository: RepositoryName, tag: Tag) {
        let blobs: Vec<Digest> = (0..1 + self.random.below(3))
            .map(|_| self.digest(40))
            .collect();
        let first = match self.random.chance(30) {
            true => usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap(),
            false => at,
        };
        if !self.linked(first, at) {
            return;
        }
        for digest in &blobs {
            self.nodes[first].disk.held.insert(*digest, self.time);
            self.nodes[at].disk.held.insert(*digest, self.time);
            let fact = Fact::Blob {
                repository: repository.clone(),
                digest: *digest,
                size: Some(size_of(digest)),
            };
            self.state(first, vec![fact]);
        }
        let refers: Vec<(Digest, Kind)> = blobs.iter().map(|blob| (*blob, Kind::Blob)).collect();
        self.put(at, repository, tag, refers);
    }

    /// Pushes an index of manifests that are there, and at times of one that is nowhere.
    fn push_index(&mut self, at: usize, repository: RepositoryName, tag: Tag, shown: &[Digest]) {
        let mut refers: Vec<(Digest, Kind)> = Vec::new();
        for _ in 0..2 {
            let child = self.random.pick(shown).unwrap();
            if !refers.contains(&(child, Kind::Manifest)) {
                refers.push((child, Kind::Manifest));
            }
        }
        if self.random.chance(30) {
            let missing = self.digest(u64::MAX);
            self.nowhere.insert(missing);
            refers.push((missing, Kind::Manifest));
            self.tally.sparse += 1;
        }
        self.put(at, repository, tag, refers);
    }

    fn put(
        &mut self,
        at: usize,
        repository: RepositoryName,
        tag: Tag,
        refers: Vec<(Digest, Kind)>,
    ) {
        let digest = self.digest(u64::MAX);
        let mut facts = Vec::new();
        for (content, kind) in refers
            .iter()
            .filter(|(content, _)| !self.nowhere.contains(content))
        {
            // The links of what a manifest refers to are stated again with it.
            facts.push(match kind {
                Kind::Blob => Fact::Blob {
                    repository: repository.clone(),
                    digest: *content,
                    size: Some(size_of(content)),
                },
                Kind::Manifest => manifest(&repository, *content),
            });
        }
        facts.push(manifest(&repository, digest));
        facts.push(Fact::Tag {
            repository,
            tag,
            target: Some(digest),
        });
        self.content.insert(digest, refers);
        self.nodes[at].disk.held.insert(digest, self.time);
        self.state(at, facts);
    }

    fn delete(&mut self, at: usize, repository: &RepositoryName, digest: Digest) {
        let mut facts = vec![Fact::Manifest {
            repository: repository.clone(),
            digest,
            link: None,
        }];
        for register in self.nodes[at].disk.registers.values() {
            if let Fact::Tag {
                repository: of,
                tag,
                target: Some(target),
            } = &register.fact
                && of == repository
                && *target == digest
            {
                facts.push(Fact::Tag {
                    repository: of.clone(),
                    tag: tag.clone(),
                    target: None,
                });
            }
        }
        self.state(at, facts);
    }

    /// The node states facts of its own, and awaits their acknowledgement.
    pub(super) fn state(&mut self, at: usize, facts: Vec<Fact>) {
        let (time, now, wall) = (self.time, self.now(), self.wall(at));
        let node = &self.nodes[at];
        let n_origins = node.disk.vector.iter().count();
        if node.continuity.needs_incarnation(n_origins) {
            self.renew(at);
        }
        let node = &mut self.nodes[at];
        let milliseconds = node.clocks.range(now).nearest(wall, 0);
        self.tally.clamped += u64::from(milliseconds != wall);
        let changed = facts.iter().filter_map(|fact| {
            let register = node.disk.registers.get(&fact.key())?;
            (register.fact != *fact).then_some(register.stamp)
        });
        let overwritten = changed.max();
        let record = Record {
            origin: node.id.clone(),
            sequence: node.disk.vector.of(&node.id) + 1,
            stamp: node.stamps.state(milliseconds, overwritten),
            facts,
        };
        let position = record.position().unwrap();
        self.positions.insert(position.clone(), record.stamp);
        let all = record.facts.iter().map(|fact| stamped(&record, fact));
        node.writes
            .push((position.clone(), all.collect(), time + 10_000));
        node.disk.apply(record.clone());
        for fact in &record.facts {
            let register = node.disk.registers.get(&fact.key());
            assert_eq!(
                register.map(|register| &register.fact),
                Some(fact),
                "a statement lost against what its node had seen: seed {}",
                self.seed
            );
        }
        let knows = |node: &Node| node.intake.expected().covers(&position);
        for other in (0..self.nodes.len()).filter(|other| *other != at) {
            assert!(
                !knows(&self.nodes[other]),
                "{position:?} names two records: seed {}",
                self.seed
            );
        }
        self.check(at);
        self.acknowledge(at);
    }

    pub(super) fn acknowledge(&mut self, at: usize) {
        let (now, time) = (self.now(), self.time);
        let node = &mut self.nodes[at];
        let (acknowledged, tally) = (&mut self.acknowledged, &mut self.tally);
        node.writes.retain(|(position, facts, deadline)| {
            match node.followers.decide(position, now, time >= *deadline) {
                None => true,
                Some(answer) => {
                    if answer.outcome == Acknowledged::Enough {
                        tally.acknowledged += 1;
                        let others = node.followers.reachable(now);
                        let mut ahead = others.filter_map(|(_, follower)| follower.ahead.as_ref());
                        let is_ahead = ahead.any(|ahead| ahead.covers(position));
                        tally.acknowledged_ahead += u64::from(is_ahead);
                        acknowledged.extend(facts.iter().cloned());
                    } else {
                        tally.fewer += 1;
                    }
                    false
                }
            }
        });
    }

    /// One of few digests, or a new one.
    fn digest(&mut self, of: u64) -> Digest {
        let number = self.random.below(of);
        Digest::of(Algorithm::Sha256, &number.to_be_bytes())
    }
}

/// One of three sizes, by chance and always the same.
fn size_of(digest: &Digest) -> u64 {
    [1, 2 << 20, 200 << 20][usize::from(digest.shard()) % 3]
}
