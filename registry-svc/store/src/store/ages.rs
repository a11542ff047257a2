//! The ages of what is on the disk, whatever the wall clock does: see [`registry_facts::ages`].
//!
//! How dates of files relate to the time of the store is noted in the file `ages`: with each jump of the wall clock, before
//! content that was written after it is relied on, and from time to time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use registry_facts::ages::Ages;

use super::layout::{Layout, read_whole, write_whole};
use super::{Inner, Settings, Store, StoreError, blocking};
use crate::disk::Disk;
use crate::journal::writer::{SteadyClock, WallClock};

/// The mark with what is noted.
const NAME: &str = "ages";

/// The longest mark: a line of four numbers for each span.
const LONGEST: u64 = 16 << 10;

/// The time of a store, by the clocks of its process.
#[derive(Debug)]
pub(crate) struct StoreAges {
    ages: Mutex<Ages>,
    /// Held by the one who writes the mark.
    noting: Mutex<()>,
    wall: WallClock,
    steady: SteadyClock,
    /// Whether nothing can be noted.
    is_read_only: bool,
}

impl StoreAges {
    /// Reads the mark, and writes it where the clock has jumped. Without it ages go by what the dates of files say.
    pub(super) fn open(
        settings: &Settings,
        disk: &dyn Disk,
        layout: &Layout,
        is_read_only: bool,
    ) -> Self {
        let note = match read_whole(disk, &layout.mark(NAME), LONGEST) {
            Ok(octets) => octets.and_then(|octets| String::from_utf8(octets).ok()),
            Err(error) => {
                tracing::warn!(%error, "The file ages cannot be read and is written again");
                None
            }
        };
        let (wall, steady) = (settings.wall, settings.steady);
        let between = milliseconds(settings.between);
        let ages = Self {
            ages: Mutex::new(Ages::open(note.as_deref(), wall(), steady(), between)),
            noting: Mutex::default(),
            wall,
            steady,
            is_read_only,
        };
        ages.note_news(disk, layout);
        ages
    }

    /// The wall clock.
    pub(super) fn date(&self) -> u64 {
        (self.wall)()
    }

    /// The clock that never steps.
    pub(super) fn steady(&self) -> u64 {
        (self.steady)()
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The time now.
    pub(super) fn now(&self) -> u64 {
        let mut ages = self.ages.lock();
        ages.now((self.wall)(), (self.steady)())
    }

    /// The time that the date of a file means.
    pub(super) fn time_of(&self, modified: SystemTime) -> u64 {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH);
        self.ages
            .lock()
            .time_of(milliseconds(since.unwrap_or_default()))
    }

    /// Notes a jump of the wall clock, durably; blocks. One that cannot be noted is tried again with the next.
    fn note_news(&self, disk: &dyn Disk, layout: &Layout) {
        self.now();
        let is_news = self.ages.lock().is_news();
        if is_news {
            self.note(disk, layout);
        }
    }

    /// Writes the mark, durably; blocks.
    fn note(&self, disk: &dyn Disk, layout: &Layout) {
        if self.is_read_only {
            return;
        }
        let _alone = self.noting.lock();
        self.now();
        let note = self.ages.lock().note();
        if let Err(error) = write_whole(disk, &layout.mark(NAME), note.as_bytes()) {
            self.ages.lock().failed();
            let is_read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
            if !is_read_only {
                tracing::warn!(%error, "The file ages cannot be written");
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Inner {
    /// The time of the store, which no jump of the wall clock changes.
    pub(super) fn now(&self) -> u64 {
        self.ages.now()
    }

    /// Whether the wall clock has jumped and that is not noted.
    pub(super) fn has_jumped(&self) -> bool {
        self.ages.ages.lock().is_news()
    }

    /// Notes how dates of files relate to the time of the store; blocks.
    pub(super) fn note_time(&self) {
        self.ages.note(&*self.disk, &self.layout);
    }

    /// The same where the wall clock has jumped, before content that was written after it is relied on; blocks.
    pub(super) fn note_jump(&self) {
        self.ages.note_news(&*self.disk, &self.layout);
    }
}

impl Store {
    /// For how long a file with this date has been there, whatever the wall clock did meanwhile; no time for one of the
    /// future. A minute may be wrong, and of the time in which nothing had the store open an hour counts at most.
    #[must_use]
    pub fn age(&self, modified: SystemTime) -> Duration {
        let now = self.inner.now();
        Duration::from_millis(now.saturating_sub(self.inner.ages.time_of(modified)))
    }

    /// Notes the present time of the store, for the next process to continue from. To be called at least
    /// [every so often](registry_facts::ages::NOTED_EVERY).
    ///
    /// # Errors
    ///
    /// Fails when the runtime ends. A mark that cannot be written is logged: content then stays longer than it has to.
    pub async fn note_time(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            inner.note_time();
            Ok(())
        })
        .await
    }
}
