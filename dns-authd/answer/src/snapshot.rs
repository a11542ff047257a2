//! Zones and settings at one moment.

use crate::settings::Settings;
use crate::table::Table;

/// Zones and settings at one moment: an answer depends on them and the query alone.
#[derive(Debug)]
pub struct Snapshot {
    /// The zones.
    pub table: Table,
    /// The settings.
    pub settings: Settings,
}
