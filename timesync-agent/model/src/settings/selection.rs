//! Selection of sources.

/// Selection of sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionSettings {
    /// `minsources`: selectable sources below which the clock is let alone; at least 1.
    pub min_sources: usize,
    /// `maxdistance`: root distance above which a source is of no use.
    pub max_distance: f64,
    /// `maxjitter`: deviation above which it is of none.
    pub max_jitter: f64,
    /// `combinelimit`: distance of combined sources, in distances of the best one; 0 is no combining.
    pub combine_limit: f64,
    /// `reselectdist`: the advantage that another source must have.
    pub reselect_distance: f64,
    /// `stratumweight`: distance that a stratum counts for.
    pub stratum_weight: f64,
    /// `authselectmode`.
    pub authentication: AuthSelectMode,
}

impl Default for SelectionSettings {
    fn default() -> Self {
        Self {
            min_sources: 1,
            max_distance: 3.0,
            max_jitter: 1.0,
            combine_limit: 3.0,
            reselect_distance: 1e-4,
            stratum_weight: 1e-3,
            authentication: AuthSelectMode::Mix,
        }
    }
}

/// The role of authentication in selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthSelectMode {
    /// Sources without it are not selected.
    Require,
    /// Nor are they if one has it.
    Prefer,
    /// Those with it and reference clocks are required and trusted if there are sources without.
    #[default]
    Mix,
    /// Nothing.
    Ignore,
}
