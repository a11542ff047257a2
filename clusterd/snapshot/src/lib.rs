//! The picture of a cluster that clusterd keeps: changes go in, snapshots with generations come out.
//!
//! A source says what is there ([`Picture::replace`]) or what has changed ([`Picture::put`], [`Picture::delete`]).
//! [`Picture::publish`] makes a snapshot of it, with a new generation if anything is other than in the last one. A list
//! that is read again after an outage and has the same objects makes no generation.

#![warn(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{Freshness, Key, Kind, Object, Snapshot};

/// The picture.
#[derive(Clone, Debug)]
pub struct Picture {
    snapshot: Arc<Snapshot>,
    /// The next snapshot; its generation is that of the last one.
    next: Snapshot,
    is_changed: bool,
    /// The most objects of one kind.
    most: usize,
    /// Objects without room, by kind.
    without_room: BTreeMap<Kind, BTreeSet<Key>>,
}

impl Picture {
    /// A picture that begins with the objects of an earlier process, which are old until a source has been read. The first
    /// generation is given; it has to be above all that were published before.
    #[must_use]
    pub fn new(restored: Snapshot, generation: u64, most: usize) -> Self {
        let mut next = restored;
        for kind in Kind::ALL {
            if next.freshness(kind) == Freshness::Current {
                next.set_freshness(kind, Freshness::Old);
            }
        }
        next.generation = generation;
        Self {
            snapshot: Arc::new(next.clone()),
            next,
            is_changed: false,
            most,
            without_room: BTreeMap::new(),
        }
    }

    /// Takes up everything that a source has of a kind. Objects that it does not name are gone, but for those of `kept`: they
    /// are there and cannot be read, so their earlier form stays.
    pub fn replace(&mut self, kind: Kind, objects: Vec<Object>, kept: &BTreeSet<Key>) {
        self.room_mut(kind).clear();
        let named: BTreeSet<Key> = objects.iter().map(Object::key).collect();
        let gone: Vec<Key> = self
            .next
            .of_kind(kind)
            .map(|object| object.key())
            .filter(|key| !named.contains(key) && !kept.contains(key))
            .collect();
        for key in gone {
            self.delete(&key);
        }
        for object in objects {
            self.put(object);
        }
        self.is_changed |= self.next.set_freshness(kind, Freshness::Current);
    }

    /// Takes up a new or changed object. One beyond the bound has no room: it is counted, and left out.
    pub fn put(&mut self, object: Object) {
        let key = object.key();
        let kind = key.kind;
        if self.next.get(&key).is_none() && self.next.count(kind) >= self.most {
            // No larger than the bound itself: the names of any more would only be weight.
            if self.without_room(kind) < self.most {
                self.room_mut(kind).insert(key);
            }
            return;
        }
        self.room_mut(kind).remove(&key);
        self.is_changed |= self.next.put(object);
    }

    /// Removes an object.
    pub fn delete(&mut self, key: &Key) {
        self.room_mut(key.kind).remove(key);
        self.is_changed |= self.next.remove(key);
    }

    /// Makes a snapshot; none when nothing is other than in the last one.
    pub fn publish(&mut self) -> Option<Arc<Snapshot>> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        // Changes may have undone each other since the last snapshot.
        if self.next == *self.snapshot {
            return None;
        }
        self.next.generation = self.snapshot.generation.saturating_add(1);
        self.snapshot = Arc::new(self.next.clone());
        Some(Arc::clone(&self.snapshot))
    }

    /// The last snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// How many objects of a kind had no room; a list that is read again counts them again.
    #[must_use]
    pub fn without_room(&self, kind: Kind) -> usize {
        self.without_room.get(&kind).map_or(0, BTreeSet::len)
    }

    fn room_mut(&mut self, kind: Kind) -> &mut BTreeSet<Key> {
        self.without_room.entry(kind).or_default()
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Meta, Namespace};

    use super::*;

    fn namespace(name: &str, uid: &str) -> Object {
        Object::Namespace(Namespace {
            meta: Meta {
                name: name.to_owned(),
                uid: uid.to_owned(),
                ..Meta::default()
            },
        })
    }

    fn key(name: &str) -> Key {
        namespace(name, "").key()
    }

    fn names(picture: &mut Picture) -> Vec<String> {
        picture.publish();
        let snapshot = picture.current();
        let names = snapshot.objects().map(|object| object.meta().name.clone());
        names.collect()
    }

    #[test]
    fn what_is_the_same_makes_no_generation() {
        let mut picture = Picture::new(Snapshot::default(), 7, 10);
        assert!(picture.publish().is_none());
        let objects = || vec![namespace("a", "1"), namespace("b", "1")];
        picture.replace(Kind::Namespace, objects(), &BTreeSet::new());
        assert_eq!(picture.publish().map(|it| it.generation), Some(8));
        picture.replace(Kind::Namespace, objects(), &BTreeSet::new());
        assert!(picture.publish().is_none());
        picture.delete(&key("a"));
        picture.put(namespace("a", "1"));
        assert!(
            picture.publish().is_none(),
            "undone before it was published"
        );
        picture.put(namespace("a", "2"));
        assert_eq!(picture.publish().map(|it| it.generation), Some(9));
    }

    #[test]
    fn a_list_removes_what_it_does_not_name_and_keeps_what_it_could_not_read() {
        let mut picture = Picture::new(Snapshot::default(), 1, 10);
        let all = ["a", "b", "c"].map(|name| namespace(name, "1"));
        picture.replace(Kind::Namespace, all.to_vec(), &BTreeSet::new());
        assert_eq!(names(&mut picture), ["a", "b", "c"]);
        let kept = BTreeSet::from([key("b")]);
        picture.replace(Kind::Namespace, vec![namespace("c", "1")], &kept);
        assert_eq!(names(&mut picture), ["b", "c"]);
    }

    #[test]
    fn a_restored_picture_is_old_until_it_is_read() {
        let mut first = Picture::new(Snapshot::default(), 1, 10);
        first.replace(Kind::Namespace, vec![namespace("a", "1")], &BTreeSet::new());
        first.publish();
        let mut picture = Picture::new(Snapshot::clone(&first.current()), 100, 10);
        let current = picture.current();
        assert_eq!((current.generation, current.len()), (100, 1));
        assert_eq!(current.freshness(Kind::Namespace), Freshness::Old);
        assert_eq!(current.freshness(Kind::Node), Freshness::Unread);
        picture.replace(Kind::Namespace, vec![namespace("a", "1")], &BTreeSet::new());
        let read = picture.publish();
        assert_eq!(
            read.map(|it| it.freshness(Kind::Namespace)),
            Some(Freshness::Current)
        );
    }

    #[test]
    fn objects_beyond_the_bound_are_counted_and_left_out() {
        let mut picture = Picture::new(Snapshot::default(), 1, 2);
        let all = ["a", "b", "c", "d", "e"].map(|name| namespace(name, "1"));
        picture.replace(Kind::Namespace, all.to_vec(), &BTreeSet::new());
        assert_eq!(
            picture.without_room(Kind::Namespace),
            2,
            "as many as are remembered"
        );
        picture.delete(&key("c"));
        assert_eq!(picture.without_room(Kind::Namespace), 1);
        picture.put(namespace("a", "2"));
        assert_eq!(names(&mut picture), ["a", "b"]);
        picture.delete(&key("a"));
        picture.put(namespace("d", "1"));
        assert_eq!(picture.without_room(Kind::Namespace), 0);
        assert_eq!(names(&mut picture), ["b", "d"]);
    }
}
