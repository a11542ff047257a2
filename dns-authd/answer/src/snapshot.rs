//! Zones and settings at one moment.

use crate::settings::Settings;
use crate::table::Table;

/// Zones and settings at one moment: an answer depends only on them and the query.
#[derive(Debug)]
pub struct Snapshot {
    /// The zones.
    pub table: Table,
    /// The settings.
    pub settings: Settings,
}
