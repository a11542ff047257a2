//! What a server answers from.

use crate::settings::Settings;
use crate::table::Table;

/// Everything an answer depends on beside the query.
#[derive(Debug)]
pub struct Snapshot {
    /// The zones.
    pub table: Table,
    /// What the operator decided.
    pub settings: Settings,
}
