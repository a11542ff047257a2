//! What goes wrong: nodes that crash, links that break, disks that lose, clocks that step.

use registry_facts::continuity::Continuity;
use registry_facts::hlc::Stamps;
use registry_facts::record::Vector;

use super::disk::Disk;
use super::{CLOCK_BOUND, Event, World, limits, others};
use crate::acknowledge::{Followers, Mode};
use crate::clocks::Clocks;
use crate::intake::Intake;

impl World {
    pub(super) fn fault(&mut self) {
        let n_nodes = self.nodes.len() as u64;
        let at = usize::try_from(self.random.below(n_nodes)).unwrap();
        match self.random.below(9) {
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
            // The disk is copied, and the copy put back later.
            4 if self.nodes[at].copy.is_none() => {
                let node = &mut self.nodes[at];
                node.copy = Some((node.disk.clone(), node.id.clone()));
            }
            5 if self.nodes[at].up && self.can_lose(at) => self.restore(at),
            6 | 7 => {
                const DAY: i64 = 24 * 3_600_000;
                let days = [-20, -3, 0, 0, 1, 3, 40];
                self.tally.clock_steps += 1;
                self.nodes[at].ahead = self.random.pick(&days).unwrap_or_default() * DAY;
            }
            _ => {}
        }
    }

    /// The node comes back with an old copy of its disk.
    fn restore(&mut self, at: usize) {
        let Some((disk, id)) = self.nodes[at].copy.clone() else {
            return;
        };
        self.tally.restores += 1;
        self.crash(at);
        let node = &mut self.nodes[at];
        node.intake = Intake::new(limits(), disk.vector.clone());
        node.disk = disk;
        node.id = id;
        if self.random.chance(50) {
            self.nodes[at].copy = None;
        }
    }

    pub(super) fn crash(&mut self, at: usize) {
        self.tally.crashes += 1;
        let n_nodes = self.nodes.len();
        let node = &mut self.nodes[at];
        node.up = false;
        node.life += 1;
        node.intake = Intake::new(limits(), node.disk.vector.clone());
        node.followers = Followers::new(Mode::MajorityOfReachable, n_nodes - 1);
        node.writes.clear();
        node.known.clear();
        node.stamps = Stamps::default();
        node.continuity = Continuity::new(others(at, n_nodes));
        node.clocks = Clocks::new(CLOCK_BOUND);
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
