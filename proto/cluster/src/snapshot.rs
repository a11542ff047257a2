//! Snapshots, and the differences between them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::object::{Key, Kind, Object};

/// Whether the objects of a kind are those that the source has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// The source was never read: that an object is missing means nothing.
    #[default]
    Unread,
    /// They are from before the last start of clusterd; the source has not been read since.
    Old,
    /// The source has been read since the start of clusterd.
    Current,
}

impl Freshness {
    /// The name, as the status has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::Old => "old",
            Self::Current => "current",
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

type Objects = BTreeMap<Key, Arc<Object>>;

/// The whole picture of a cluster at one generation. Copies are cheap: they share the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the snapshot; 0 before the first one.
    pub generation: u64,
    parts: [Part; Kind::ALL.len()],
}

/// The objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    freshness: Freshness,
    objects: Arc<Objects>,
}

impl Snapshot {
    /// Whether the objects of a kind are those that the source has now.
    #[must_use]
    pub fn freshness(&self, kind: Kind) -> Freshness {
        self.part(kind).freshness
    }

    /// The kinds that count: an optional one does not while it is unread, since clusterd reads it only when told to.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        let kinds = Kind::ALL.into_iter();
        kinds.filter(|kind| !kind.is_optional() || self.freshness(*kind) != Freshness::Unread)
    }

    /// The least fresh kind's freshness.
    #[must_use]
    pub fn least_fresh(&self) -> Freshness {
        let all = self.kinds().map(|kind| self.freshness(kind));
        all.min().unwrap_or_default()
    }

    /// The kinds that are as fresh as this.
    pub fn kinds_of(&self, freshness: Freshness) -> impl Iterator<Item = Kind> {
        let kinds = self.kinds();
        kinds.filter(move |kind| self.freshness(*kind) == freshness)
    }

    /// The objects of a kind, in the order of their names.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.part(kind).objects.values()
    }

    /// Every object, kind by kind.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        Kind::ALL.into_iter().flat_map(|kind| self.of_kind(kind))
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.part(key.kind).objects.get(key)
    }

    /// How many objects of a kind there are.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.part(kind).objects.len()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        Kind::ALL.into_iter().map(|kind| self.count(kind)).sum()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an object in its place; false when the same one is there already.
    pub fn put(&mut self, object: impl Into<Arc<Object>>) -> bool {
        let object = object.into();
        let key = object.key();
        if self.get(&key).is_some_and(|old| *old == object) {
            return false;
        }
        let part = self.part_mut(key.kind);
        Arc::make_mut(&mut part.objects).insert(key, object);
        true
    }

    /// Removes an object; false when there is none.
    pub fn remove(&mut self, key: &Key) -> bool {
        let part = self.part_mut(key.kind);
        part.objects.contains_key(key) && Arc::make_mut(&mut part.objects).remove(key).is_some()
    }

    /// Says how fresh a kind is; false when it was as fresh before.
    pub fn set_freshness(&mut self, kind: Kind, freshness: Freshness) -> bool {
        let part = self.part_mut(kind);
        std::mem::replace(&mut part.freshness, freshness) != freshness
    }

    /// The difference that leads to this snapshot from an earlier one, or from nothing.
    #[must_use]
    pub fn difference_from(&self, before: Option<&Self>) -> Difference {
        let nothing = Self::default();
        let old = before.unwrap_or(&nothing);
        let mut difference = Difference {
            full: before.is_none(),
            generation: self.generation,
            freshness: Kind::ALL.map(|kind| (kind, self.freshness(kind))).into(),
            put: Vec::new(),
            gone: Vec::new(),
        };
        for kind in Kind::ALL {
            let (new_part, old_part) = (self.part(kind), old.part(kind));
            if Arc::ptr_eq(&old_part.objects, &new_part.objects) {
                continue;
            }
            let is_new = |(key, object): &(&Key, &Arc<Object>)| {
                old.get(key)
                    .is_none_or(|old| !Arc::ptr_eq(old, object) && old != *object)
            };
            let put = new_part.objects.iter().filter(is_new);
            difference
                .put
                .extend(put.map(|(_, object)| Arc::clone(object)));
            let gone = old_part.objects.keys();
            let gone = gone.filter(|key| !new_part.objects.contains_key(key));
            difference.gone.extend(gone.cloned());
        }
        difference
    }

    /// The snapshot after a difference.
    #[must_use]
    pub fn with(mut self, difference: Difference) -> Self {
        if difference.full {
            self = Self::default();
        }
        for key in &difference.gone {
            self.remove(key);
        }
        for object in difference.put {
            self.put(object);
        }
        for (kind, freshness) in difference.freshness {
            self.set_freshness(kind, freshness);
        }
        self.generation = difference.generation;
        self
    }

    /// Keeps the objects of the kinds that this snapshot says nothing about, as old ones: a clusterd that has lost its state
    /// takes no object away.
    #[must_use]
    pub fn keep_known(mut self, before: &Self) -> Self {
        for kind in Kind::ALL {
            let known = before.part(kind);
            if self.freshness(kind) == Freshness::Unread && known.freshness != Freshness::Unread {
                *self.part_mut(kind) = Part {
                    freshness: Freshness::Old,
                    objects: Arc::clone(&known.objects),
                };
            }
        }
        self
    }

    fn part(&self, kind: Kind) -> &Part {
        let [node, namespace, service, slice, dns] = &self.parts;
        match kind {
            Kind::Node => node,
            Kind::Namespace => namespace,
            Kind::Service => service,
            Kind::EndpointSlice => slice,
            Kind::Dns => dns,
        }
    }

    fn part_mut(&mut self, kind: Kind) -> &mut Part {
        let [node, namespace, service, slice, dns] = &mut self.parts;
        match kind {
            Kind::Node => node,
            Kind::Namespace => namespace,
            Kind::Service => service,
            Kind::EndpointSlice => slice,
            Kind::Dns => dns,
        }
    }
}

/// The way from one snapshot to a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Whether it leads from nothing: a reader forgets the objects from before.
    pub full: bool,
    /// The generation that it leads to.
    pub generation: u64,
    /// How fresh each kind is then.
    pub freshness: BTreeMap<Kind, Freshness>,
    /// The objects that are new or other than before.
    pub put: Vec<Arc<Object>>,
    /// The objects that are gone.
    pub gone: Vec<Key>,
}

impl Difference {
    /// Whether it changes no object.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Meta;
    use crate::object::{Namespace, Node};

    fn namespace(name: &str, uid: &str) -> Object {
        Object::Namespace(Namespace {
            meta: Meta {
                name: name.to_owned(),
                uid: uid.to_owned(),
                ..Meta::default()
            },
        })
    }

    #[test]
    fn a_difference_leads_from_one_snapshot_to_the_other() {
        let mut one = Snapshot::default();
        for name in ["a", "b", "c"] {
            assert!(one.put(namespace(name, "1")));
        }
        one.generation = 1;
        let mut two = one.clone();
        assert!(!two.put(namespace("a", "1")), "nothing has changed");
        assert!(two.put(namespace("b", "2")), "made again");
        assert!(two.remove(&namespace("c", "1").key()));
        assert!(!two.remove(&namespace("c", "1").key()));
        assert!(two.put(Object::Node(Node::default())));
        two.set_freshness(Kind::Node, Freshness::Current);
        two.generation = 2;
        let difference = two.difference_from(Some(&one));
        assert_eq!((difference.put.len(), difference.gone.len()), (2, 1));
        assert!(!difference.full);
        assert_eq!(one.clone().with(difference), two);
        let back = one.difference_from(Some(&two));
        assert_eq!(two.clone().with(back).len(), 3);
        assert_eq!(one.with(two.difference_from(None)), two);
        assert!(two.difference_from(Some(&two)).is_empty());
    }

    #[test]
    fn copies_share_their_objects() {
        let mut one = Snapshot::default();
        one.put(namespace("a", "1"));
        let mut two = one.clone();
        two.put(namespace("b", "1"));
        assert_eq!((one.len(), two.len()), (1, 2));
        let key = namespace("a", "1").key();
        let same = one.get(&key).zip(two.get(&key));
        assert!(same.is_some_and(|(one, two)| Arc::ptr_eq(one, two)));
    }

    #[test]
    fn kinds_that_are_unread_keep_their_objects() {
        let mut before = Snapshot::default();
        before.put(namespace("a", "1"));
        before.put(Object::Node(Node::default()));
        before.set_freshness(Kind::Namespace, Freshness::Current);
        before.set_freshness(Kind::Node, Freshness::Current);
        let mut next = Snapshot::default();
        next.set_freshness(Kind::Node, Freshness::Current);
        next.generation = 9;
        let kept = next.keep_known(&before);
        assert_eq!(
            (kept.count(Kind::Namespace), kept.count(Kind::Node)),
            (1, 0)
        );
        assert_eq!(kept.freshness(Kind::Namespace), Freshness::Old);
        assert_eq!(kept.freshness(Kind::Service), Freshness::Unread);
        assert_eq!(kept.generation, 9);
    }

    #[test]
    fn the_least_fresh_kind_counts() {
        let mut snapshot = Snapshot::default();
        assert_eq!(snapshot.least_fresh(), Freshness::Unread);
        for kind in Kind::ALL {
            snapshot.set_freshness(kind, Freshness::Current);
        }
        assert_eq!(snapshot.least_fresh(), Freshness::Current);
        snapshot.set_freshness(Kind::Service, Freshness::Old);
        assert_eq!(snapshot.least_fresh(), Freshness::Old);
    }
}
