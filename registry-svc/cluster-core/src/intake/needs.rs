//! The content that waiting records need, and the records that wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use oci::digest::Digest;
use registry_facts::name::NodeName;
use registry_facts::record::{Fact, Record};

use super::fetch_queue::{Class, FetchQueue};
use super::{Intake, Kind, Need, Outcome, Output, Phase};

impl Need {
    /// A manifest is small: pushes bound it.
    pub(super) fn class(&self) -> Class {
        match (self.kind, self.size) {
            (Kind::Manifest, _) => Class::Small,
            (Kind::Blob, Some(size)) => Class::of(size),
            (Kind::Blob, None) => Class::Middle,
        }
    }

    /// To be asked for.
    pub(super) fn want(&mut self, digest: Digest, wanted: &mut FetchQueue) {
        self.phase = Phase::Wanted;
        wanted.add(digest, self.class(), self.size);
    }
}

impl Intake {
    /// Has a record wait for a digest, and for all that it refers to as far as that is known.
    pub(super) fn want(&mut self, ticket: u64, digest: Digest, kind: Kind, size: Option<u64>) {
        let mut wanted = vec![(digest, kind, size)];
        let mut seen = BTreeSet::new();
        while let Some((digest, kind, size)) = wanted.pop() {
            let Some(pending) = self.pending.get_mut(&ticket) else {
                return;
            };
            if !seen.insert(digest) {
                continue;
            }
            pending.uses.insert(digest);
            let need = self.needs.entry(digest).or_insert_with(|| {
                let mut need = Need {
                    kind,
                    size,
                    from: pending.from.clone(),
                    users: BTreeSet::new(),
                    phase: Phase::Wanted,
                    failures: 0,
                };
                need.want(digest, &mut self.wanted);
                need
            });
            need.size = need.size.or(size);
            if kind == Kind::Manifest && need.kind == Kind::Blob {
                // A blob in one repository and a manifest in another: it has to be read after all.
                need.kind = Kind::Manifest;
                if matches!(need.phase, Phase::Held(_)) {
                    need.want(digest, &mut self.wanted);
                }
            }
            need.users.insert(ticket);
            match &need.phase {
                Phase::Held(refers) => {
                    let refers = refers.iter();
                    wanted.extend(refers.map(|(digest, kind)| (*digest, *kind, None)));
                }
                Phase::Wanted | Phase::Running(..) | Phase::Resting(_) => {
                    pending.open.insert(digest);
                }
            }
        }
    }

    /// A digest that a record waits for is here.
    pub(super) fn meet(&mut self, ticket: u64, digest: Digest) {
        let Some(pending) = self.pending.get_mut(&ticket) else {
            return;
        };
        pending.open.remove(&digest);
        pending.stuck = None;
        let refers = match self.needs.get(&digest).map(|need| &need.phase) {
            Some(Phase::Held(refers)) => refers.clone(),
            _ => Vec::new(),
        };
        for (digest, kind) in refers {
            self.want(ticket, digest, kind, None);
        }
        self.progress(ticket);
    }

    /// A digest that a record waits for could not be had.
    pub(super) fn fail(
        &mut self,
        ticket: u64,
        digest: Digest,
        outcome: &Outcome,
        asked_from: &NodeName,
        now: Instant,
    ) {
        let Some(pending) = self.pending.get_mut(&ticket) else {
            return;
        };
        let wished = !pending.stated.contains(&digest);
        // Another node may lack what the sender has, and so may the sender after it lost its disk.
        let sender_denies = *outcome == Outcome::Denied
            && pending.from == *asked_from
            && !pending.is_sender_renewed;
        if wished && sender_denies {
            pending.open.remove(&digest);
            self.progress(ticket);
        } else if pending.record.sequence == 0 {
            // The next comparison finds it again.
            self.drop_pending(ticket);
        } else if *outcome == Outcome::NoRoom {
            // The content is there for the taking once there is room: no reason to do without.
            pending.stuck = None;
        } else {
            pending.stuck.get_or_insert(now);
        }
    }

    /// Has the next attempt to get a denied digest ask the sender of another record that waits for it.
    pub(super) fn ask_another_sender(&mut self, digest: &Digest, asked_from: &NodeName) {
        let Some(need) = self.needs.get_mut(digest) else {
            return;
        };
        let users = need.users.iter();
        let waiting = users.filter_map(|ticket| self.pending.get(ticket));
        let waiting = waiting.filter(|pending| pending.open.contains(digest));
        let senders: BTreeSet<&NodeName> = waiting.map(|pending| &pending.from).collect();
        // All of them in turn.
        let behind = senders.iter().find(|sender| **sender > asked_from);
        if let Some(next) = behind.or_else(|| senders.first()) {
            need.from = (*next).clone();
        }
    }

    /// Has what is here looked at when it is time.
    pub(super) fn keep(&mut self, now: Instant) {
        let is_due = self
            .kept
            .is_none_or(|kept| now.saturating_duration_since(kept) >= self.limits.keep);
        if !is_due {
            return;
        }
        self.kept = Some(now);
        for (digest, need) in &self.needs {
            if matches!(need.phase, Phase::Held(_)) {
                self.outputs.push_back(Output::Look { digest: *digest });
            }
        }
    }

    pub(super) fn wake(&mut self, is_due: impl Fn(Instant) -> bool) {
        for (digest, need) in &mut self.needs {
            if matches!(need.phase, Phase::Resting(until) if is_due(until)) {
                need.want(*digest, &mut self.wanted);
            }
        }
    }

    /// Asks for what is wanted, as far as the bound on what runs allows.
    pub(super) fn start_wanted(&mut self) {
        while let Some((digest, class)) = self.wanted.next(self.limits.parallel) {
            let Some(need) = self.needs.get_mut(&digest) else {
                continue;
            };
            if need.phase != Phase::Wanted {
                continue;
            }
            need.phase = Phase::Running(need.kind, class);
            self.wanted.begun(class);
            self.outputs.push_back(Output::Ensure {
                digest,
                kind: need.kind,
                class,
                from: need.from.clone(),
            });
        }
    }
}

/// The content that a record states to be present, and its size as far as the record says that.
pub(super) fn content_of(record: &Record) -> Vec<(Digest, Kind, Option<u64>)> {
    let mut content = BTreeMap::new();
    for fact in &record.facts {
        match fact {
            Fact::Blob {
                digest,
                size: Some(size),
                ..
            } => {
                content.entry(*digest).or_insert((Kind::Blob, Some(*size)));
            }
            Fact::Manifest {
                digest,
                link: Some(_),
                ..
            } => {
                content.insert(*digest, (Kind::Manifest, None));
            }
            Fact::Blob { .. } | Fact::Manifest { .. } | Fact::Tag { .. } | Fact::Node { .. } => {}
        }
    }
    let content = content.into_iter();
    content
        .map(|(digest, (kind, size))| (digest, kind, size))
        .collect()
}
