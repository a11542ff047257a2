//! What goes wrong: nodes that crash, links that break, disks that lose.

use registry_facts::record::Vector;

use super::disk::Disk;
use super::limits;
use super::{Event, World};
use crate::acknowledge::{Followers, Mode};
use crate::intake::Intake;

impl World {
    pub(super) fn fault(&mut self) {
        let n_nodes = self.nodes.len() as u64;
        let at = usize::try_from(self.random.below(n_nodes)).unwrap();
        match self.random.below(5) {
            0 => {
                let other = usize::try_from(self.random.below(n_nodes)).unwrap();
                if at != other {
                    self.tally.partitions += 1;
                    self.cut.insert((at.min(other), at.max(other)));
                }
            }
            1 => self.cut.clear(),
            2 if self.nodes[at].up => self.crash(at),
            3 if self.nodes[at].up && self.can_lose(at) => {
                self.tally.wipes += 1;
                self.crash(at);
                self.nodes[at].disk = Disk::default();
                self.nodes[at].id.incarnation = self.random.next();
                self.nodes[at].intake = Intake::new(limits(), Vector::default());
            }
            _ => {}
        }
    }

    pub(super) fn crash(&mut self, at: usize) {
        self.tally.crashes += 1;
        let n_peers = self.nodes.len() - 1;
        let node = &mut self.nodes[at];
        node.up = false;
        node.life += 1;
        node.intake = Intake::new(limits(), node.disk.vector.clone());
        node.followers = Followers::new(Mode::MajorityOfReachable, n_peers);
        node.writes.clear();
        self.after(15_000, Event::Return { at });
    }

    /// Whether what clients were told is safe is on another disk too: two disks that go one after
    /// the other, faster than the first is filled again, are more than the site promises to survive.
    fn can_lose(&self, at: usize) -> bool {
        self.acknowledged.iter().all(|stated| {
            let others = (0..self.nodes.len()).filter(|other| *other != at);
            others
                .into_iter()
                .any(|other| self.nodes[other].disk.has(stated))
        })
    }
}
