//! The journal: the facts about names and tags, one record after the other, on the disk.
//!
//! Segments `00000001.log`, `00000002.log`… are appended to and never changed; `00000005.snapshot`
//! stands for all segments before the fifth. One thread writes: everything that is queued when it
//! comes round goes out in one write and one sync (group commit), and only then is it applied to
//! the index and acknowledged.
//!
//! Everything is kept [twice](copy), so damage to one file loses nothing. A journal that is damaged in both
//! copies is [set aside](salvage), and another is made of what can be read of them.
//!
//! When a write fails the segment is cut back, durably, and the statements are refused. **When a sync
//! fails nothing is written any more**: the kernel may have dropped the dirty pages and call the next
//! sync a success, so that what was acknowledged after it would stand on a hole. The statements that
//! were refused then may be there after the next start, so until then nothing is acknowledged that
//! relies on their refusal, and nothing is swept.

pub mod copy;
pub mod current;
pub mod feed;
pub mod files;
pub mod salvage;
pub mod snapshot;
pub mod writer;

use std::io;

use registry_facts::record::RecordError;
use thiserror::Error;

/// Why the journal did not do something. Names of files are those inside of its directory.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Acknowledged records are damaged.
    #[error("the journal is damaged: {file} at octet {at}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in it.
        at: u64,
        /// The damage.
        what: String,
    },
    /// A whole record cannot be understood.
    #[error(
        "the journal cannot be read: {file} at octet {at}: {what}; start the version of registry-svc \
         that wrote it"
    )]
    Newer {
        /// The file.
        file: String,
        /// The offset in it.
        at: u64,
        /// The reason.
        what: RecordError,
    },
    /// The disk has no room.
    #[error("no room for the journal")]
    Full,
    /// A sync failed before.
    #[error("the journal is read-only")]
    ReadOnly,
    /// The disk failed.
    #[error("cannot {doing}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// How it failed.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// A place in the journal: everything before it has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of a segment.
    pub segment: u64,
    /// An octet of it.
    pub at: u64,
}

#[cfg(test)]
mod tests;
