//! A program, and the records of its zone that it may read.

use std::fmt;
use std::sync::Arc;

use config_text::Position;
use dns_wire::{Name, Type};

use crate::listed;

/// A `LUA` record: a program and the records it makes.
#[derive(Clone, Debug)]
pub struct Snippet {
    /// The zone it is in.
    pub zone: Name,
    /// The owner of the records it makes.
    pub owner: Name,
    /// The type of the records it makes.
    pub rtype: Type,
    /// The TTL it was written with.
    pub ttl: u32,
    /// The program; `return ` is put in front unless it begins with `;`.
    pub code: Arc<str>,
    /// Its place in the file.
    pub position: Position,
    /// The records it may read; [`NoRecords`] if none.
    pub records: Arc<dyn Records>,
}

impl Snippet {
    /// Whether its results may depend on the nodes of lists: an included program may name them too.
    #[must_use]
    pub fn may_name_nodes(&self) -> bool {
        [listed::NAME, "include"]
            .iter()
            .any(|word| self.code.contains(word))
    }
}

/// The records that programs may read, as the server holds them.
pub trait Records: fmt::Debug + Send + Sync {
    /// The programs of the `LUA LUA` records at this name, in zone order.
    fn programs(&self, name: &Name) -> Vec<Arc<str>>;

    /// The data of the records of this name and type, as text.
    fn data(&self, name: &Name, rtype: Type) -> Vec<String>;
}

/// No records at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRecords;

impl Records for NoRecords {
    fn programs(&self, _: &Name) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn data(&self, _: &Name, _: Type) -> Vec<String> {
        Vec::new()
    }
}
