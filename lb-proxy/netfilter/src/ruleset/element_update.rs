//! From one table to the next by elements.

use std::collections::BTreeMap;

use super::TableName;
use super::elements::Element;
use super::share::Draw;

/// A change of elements alone, and of the rules that draw numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ElementUpdate {
    /// The table.
    pub(crate) table: TableName,
    /// The chains whose one rule draws other numbers: their names, and those of their maps, which are the same.
    pub(crate) draws: Vec<(String, Draw)>,
    /// The elements that go, by the names of their maps and sets.
    pub(crate) removed: BTreeMap<String, Vec<Element>>,
    /// Those that come.
    pub(crate) added: BTreeMap<String, Vec<Element>>,
}

impl ElementUpdate {
    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.draws.is_empty() && self.removed.is_empty() && self.added.is_empty()
    }

    /// How many elements go and come.
    pub(crate) fn n_elements(&self) -> usize {
        let changes = self.removed.values().chain(self.added.values());
        changes.map(Vec::len).sum()
    }
}
