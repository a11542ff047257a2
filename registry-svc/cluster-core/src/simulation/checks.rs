//! What has to hold at every step, and when all have healed.

use std::collections::BTreeSet;

use super::World;
use super::disk::Disk;
use crate::buckets;

impl World {
    /// What is visible on a node is there whole, whenever something has changed on it.
    pub(super) fn check(&self, at: usize) {
        let node = &self.nodes[at];
        let mut todo = node.disk.live_content();
        let mut seen = BTreeSet::new();
        while let Some(digest) = todo.pop() {
            if !seen.insert(digest) || self.nowhere.contains(&digest) {
                continue;
            }
            assert!(
                node.disk.held.contains_key(&digest),
                "{} shows what it lacks, {digest}: seed {} time {}",
                node.id,
                self.seed,
                self.time,
            );
            let refers = self.content.get(&digest).into_iter().flatten();
            todo.extend(refers.map(|(digest, _)| *digest));
        }
    }

    /// Whether all nodes show the same and wait for nothing.
    pub(super) fn is_equal(&self) -> bool {
        let first = &self.nodes[0].disk.registers;
        self.nodes.iter().all(|node| {
            let differences = buckets::register_differences(first, &node.disk.registers);
            differences.is_empty() && node.intake.n_waiting() == 0
        })
    }

    /// After the healing all nodes show the same, and everything that was acknowledged.
    pub(super) fn check_equal(&self) {
        let seed = self.seed;
        let first = &self.nodes[0].disk;
        for node in &self.nodes[1..] {
            let differences = buckets::register_differences(&first.registers, &node.disk.registers);
            assert_eq!(differences, [], "{} differs: seed {seed}", node.id);
            let live = |disk: &Disk| disk.live_content().into_iter().collect::<BTreeSet<_>>();
            assert_eq!(
                live(first),
                live(&node.disk),
                "content of {}: seed {seed}",
                node.id
            );
        }
        // What was deleted since is a tombstone where the deletion was heard, and nothing where the content was
        // never shown: both show nothing.
        for stated in &self.acknowledged {
            let mut nodes = self.nodes.iter();
            assert!(
                nodes.any(|node| node.disk.has(stated)),
                "{stated:?} is lost: seed {seed}"
            );
        }
        for node in &self.nodes {
            assert_eq!(
                node.intake.n_waiting(),
                0,
                "{} still waits: seed {seed}",
                node.id
            );
        }
    }
}
