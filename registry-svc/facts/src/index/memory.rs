//! An index in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;

use super::{Batch, Entry, Index, IndexError};

/// A map that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    entries: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Index for MemoryIndex {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        // Every change is a whole one, so a panic elsewhere leaves nothing half done.
        let entries = self.entries.read();
        Ok(entries.get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>, IndexError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let entries = self.entries.read();
        Ok(entries
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn write(&self, batch: Batch) -> Result<(), IndexError> {
        let mut entries = self.entries.write();
        for (key, value) in batch {
            match value {
                Some(value) => entries.insert(key, value),
                None => entries.remove(&key),
            };
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), IndexError> {
        Ok(())
    }
}
