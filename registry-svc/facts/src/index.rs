//! The index: the content of repositories and the targets of tags, looked up and listed in order.
//!
//! It is derived from the journal and disposable. An [`Index`] is an ordered map of octets, kept in
//! memory or in a database; a [`view::View`] makes registers of it. Both kinds pass one
//! suite of tests, and the same records give the same view in any order.
//!
//! An index never holds the truth: throw a doubtful one away.

pub mod key;
pub mod memory;
pub mod view;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// An ordered map of octets that changes in steps.
pub trait Index: fmt::Debug + Send + Sync + 'static {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError>;

    /// The first `limit` entries whose keys begin with `prefix` and come after `after`, in order.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>, IndexError>;

    /// Changes entries, all or none.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    fn write(&self, batch: Batch) -> Result<(), IndexError>;

    /// Makes everything written durable, where that means something.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    fn flush(&self) -> Result<(), IndexError>;
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Keys and their new values; none takes the entry away.
pub type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Why an index is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// The database said so.
    #[error("the index failed: {0}")]
    Failed(String),
    /// The database did not answer in time.
    #[error("the index did not open within {0:?}")]
    Late(std::time::Duration),
    /// An entry is not of the form.
    #[error("an entry of the index is malformed")]
    Malformed,
    /// It holds something else than it did when it was closed.
    #[error("the index is not as it was left")]
    Changed,
}

/// The sum of an index: the number of entries, and a hash of them that does not depend on their
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries.
    pub n_entries: u64,
    /// The sum of the checksums of the entries.
    pub sum: u64,
}

/// Reads an index from end to end.
///
/// # Errors
///
/// Fails when the index is not to be trusted.
pub fn summary(index: &dyn Index) -> Result<Summary, IndexError> {
    let mut summary = Summary::default();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let entries = index.scan(b"", after.as_deref(), SCAN)?;
        let Some((last, _)) = entries.last() else {
            return Ok(summary);
        };
        after = Some(last.clone());
        for (key, value) in &entries {
            let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
            let sum = crc32c::crc32c(&length.to_le_bytes());
            let sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value);
            summary.n_entries += 1;
            summary.sum = summary.sum.wrapping_add(u64::from(sum));
        }
    }
}

/// Entries read at once where everything is read.
pub const SCAN: usize = 1024;
