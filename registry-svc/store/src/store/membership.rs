//! The membership of the nodes: the statements of the journal, and the notes of this disk beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use registry_facts::name::NodeName;
use registry_facts::record::{FILLING, Fact, Key, Membership, Vector};

use super::layout::{Layout, read_whole, write_whole};
use super::{Store, StoreError};
use crate::disk::Disk;

/// The mark with what is noted.
pub(super) const NAME: &str = "members";

/// The mark of a journal that the next start sets aside.
pub(super) const BEGIN_ANEW: &str = "begin-anew";

/// The longest of these marks: a line for each of some hundred nodes.
const LONGEST: u64 = 64 << 10;

/// Nodes in one journal: more than any site has or had.
const MOST_NODES: usize = 1024;

/// The notes of a disk about the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// When this node had been forgotten last before the journal here began, in milliseconds since 1970; 0 when it
    /// never was.
    pub began: u64,
    /// When each other node was connected last, in milliseconds since 1970.
    pub seen: BTreeMap<NodeName, u64>,
    /// When this node had last caught up with a majority; 0 or [`FILLING`] when it never had.
    pub together: u64,
}

impl Noted {
    /// Reads the mark. One that is damaged notes nothing: the others then have this node begin again, should it
    /// have been forgotten, and wait for absent ones from now on.
    pub(super) fn read(disk: &dyn Disk, layout: &Layout) -> io::Result<Self> {
        let octets = match read_whole(disk, &layout.mark(NAME), LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
            octets => octets?,
        };
        let Some(octets) = octets else {
            return Ok(Self::default());
        };
        let noted = std::str::from_utf8(&octets).ok().and_then(Self::parse);
        if noted.is_none() {
            tracing::error!("The file members is damaged and is written again");
        }
        Ok(noted.unwrap_or_default())
    }

    /// Reads the mark beside a journal of these records. One that was damaged may lack what this node had heard.
    pub(super) fn beside(
        disk: &dyn Disk,
        layout: &Layout,
        own: &NodeName,
        journal: &Vector,
        was_damaged: bool,
    ) -> io::Result<Self> {
        let mut noted = Self::read(disk, layout)?;
        let is_of_others = journal.iter().any(|(origin, _)| origin.name != *own);
        let is_empty = journal.iter().next().is_none();
        let together = match (is_empty, was_damaged) {
            (true, _) => 0,
            (false, true) => FILLING,
            (false, false) if is_of_others => noted.together.max(FILLING),
            (false, false) => noted.together,
        };
        let is_less = together < noted.together;
        noted.together = together;
        if is_less {
            match write_whole(disk, &layout.mark(NAME), noted.text().as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                written => written?,
            }
        }
        Ok(noted)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.lines();
        let began = lines.next()?.strip_prefix("began ")?.parse().ok()?;
        let together = lines.next()?.strip_prefix("together ")?.parse().ok()?;
        let seen = lines.map(|line| {
            let (name, time) = line.strip_prefix("seen ")?.split_once(' ')?;
            Some((name.parse().ok()?, time.parse().ok()?))
        });
        Some(Self {
            began,
            seen: seen.collect::<Option<_>>()?,
            together,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("began {}\ntogether {}\n", self.began, self.together);
        for (name, time) in &self.seen {
            // Writing to a string does not fail.
            let _written = writeln!(text, "seen {name} {time}");
        }
        text
    }
}

/// The notes of a disk, and the lock of their changes.
#[derive(Debug)]
pub(super) struct Notes {
    noted: Mutex<Noted>,
    /// Held by the one who changes it, on the disk first.
    changing: Mutex<()>,
}

impl Notes {
    pub(super) fn new(noted: Noted) -> Self {
        Self {
            noted: Mutex::new(noted),
            changing: Mutex::default(),
        }
    }
}

impl Store {
    /// The notes of the disk about the nodes.
    #[must_use]
    pub fn noted(&self) -> Noted {
        self.inner.notes.noted.lock().clone()
    }

    /// Changes what the disk notes of the nodes, durably. One change follows the other, so that none is lost.
    ///
    /// # Errors
    ///
    /// Fails as the disk does; nothing has changed then.
    pub async fn note(
        &self,
        change: impl FnOnce(&mut Noted) + Send + 'static,
    ) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        let write = move |disk: &dyn Disk, layout: &Layout| {
            let _alone = inner.notes.changing.lock();
            let before = inner.notes.noted.lock().clone();
            let mut noted = before.clone();
            change(&mut noted);
            if noted != before {
                write_whole(disk, &layout.mark(NAME), noted.text().as_bytes())?;
                *inner.notes.noted.lock() = noted;
            }
            Ok(())
        };
        self.on_disk("note the nodes", write).await
    }

    /// Has the next start set the journal aside and begin with an empty one. Content stays.
    ///
    /// # Errors
    ///
    /// Fails as the disk does.
    pub async fn begin_anew(&self) -> Result<(), StoreError> {
        let write =
            |disk: &dyn Disk, layout: &Layout| write_whole(disk, &layout.mark(BEGIN_ANEW), b"\n");
        self.on_disk("mark the journal", write).await
    }

    /// The statements of the journal about the nodes.
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn memberships(&self) -> Result<BTreeMap<NodeName, Membership>, StoreError> {
        let registers = self.inner.read(|view| view.nodes(MOST_NODES))?;
        let membership = |fact| match fact {
            Fact::Node { name, membership } => Some((name, membership)),
            Fact::Blob { .. } | Fact::Manifest { .. } | Fact::Tag { .. } => None,
        };
        Ok(registers
            .into_iter()
            .filter_map(|register| membership(register.fact))
            .collect())
    }

    /// States the membership of a node; durable when it returns.
    ///
    /// # Errors
    ///
    /// Fails when it could not be made durable, and when there are too many nodes.
    pub async fn state_membership(
        &self,
        name: NodeName,
        membership: Membership,
    ) -> Result<(), StoreError> {
        self.inner.writable()?;
        let is_new = self.register(&Key::Node { name: name.clone() })?.is_none();
        if is_new && self.memberships()?.len() >= MOST_NODES {
            let source = io::Error::other("too many nodes");
            return Err(StoreError::io("state a node")(source));
        }
        let fact = Fact::Node { name, membership };
        self.inner.writer.state(vec![fact]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::{IndexKind, Settings};

    #[test]
    fn what_is_noted_reads_and_writes_the_same() {
        let noted = Noted {
            began: 3,
            together: 5,
            seen: [("b".parse().unwrap(), 7), ("c".parse().unwrap(), u64::MAX)].into(),
        };
        assert_eq!(Noted::parse(&noted.text()), Some(noted));
        for damaged in [
            "",
            "began 3",
            "began\n",
            "began 1\n",
            "began 1\ntogether 1\nseen b\n",
            "began 1\ntogether 1\nseen B 1\n",
        ] {
            assert_eq!(Noted::parse(damaged), None, "{damaged:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_note_is_lost_among_others() {
        const NOTES: u64 = 16;
        let directory = tempfile::tempdir().unwrap();
        let settings = || {
            let mut settings = Settings::new(directory.path().to_owned(), "a".parse().unwrap());
            settings.index = IndexKind::Memory;
            settings
        };
        let (store, _) = Store::open(settings(), Arc::new(RealDisk)).await.unwrap();
        let notes = (1..=NOTES).map(|began| {
            let store = store.clone();
            tokio::spawn(async move {
                let name: NodeName = format!("node-{began}").parse().unwrap();
                let change = move |noted: &mut Noted| {
                    noted.began = noted.began.max(began);
                    noted.seen.insert(name, began);
                };
                store.note(change).await
            })
        });
        for note in notes.collect::<Vec<_>>() {
            note.await.unwrap().unwrap();
        }
        let noted = store.noted();
        assert_eq!(noted.began, NOTES);
        assert_eq!(noted.seen.len() as u64, NOTES);
        let read = Noted::read(&RealDisk, store.layout()).unwrap();
        assert_eq!(read, noted);
    }
}
