//! Settings of a source that chronyc changes, until the configuration is read again.

use super::{Association, NO_STRATUM};
use time_model::settings::SelectOptions;

/// The longest delay that chronyc may set, in seconds, and the largest ratio; chrony's.
const LONGEST_DELAY: f64 = 1e3;
const LARGEST_RATIO: f64 = 1e6;

/// A setting of a source; bounds are chrony's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuning {
    /// `maxdelay`, in seconds.
    MaxDelay(f64),
    /// `maxdelayratio`.
    MaxDelayRatio(f64),
    /// `maxdelaydevratio`.
    MaxDelayDeviationRatio(f64),
    /// `minstratum`.
    MinStratum(u8),
    /// `polltarget`.
    PollTarget(u32),
    /// `offset`, in seconds.
    Offset(f64),
    /// `noselect`, `prefer`, `trust` and `require`.
    Select {
        /// Those of them that change.
        mask: SelectOptions,
        /// Their values from now on.
        to: SelectOptions,
    },
}

/// Options of selection of which those in `mask` become what they are in `to`.
pub(crate) fn reselected(
    before: SelectOptions,
    mask: SelectOptions,
    to: SelectOptions,
) -> SelectOptions {
    let chosen = |mask: bool, before: bool, to: bool| if mask { to } else { before };
    SelectOptions {
        noselect: chosen(mask.noselect, before.noselect, to.noselect),
        prefer: chosen(mask.prefer, before.prefer, to.prefer),
        trust: chosen(mask.trust, before.trust, to.trust),
        require: chosen(mask.require, before.require, to.require),
    }
}

impl Association {
    /// chronyc's changes of a source, within chrony's bounds.
    pub fn tune(&mut self, tuning: Tuning) {
        let options = &mut self.options;
        match tuning {
            Tuning::MaxDelay(seconds) => options.max_delay = seconds.clamp(0.0, LONGEST_DELAY),
            Tuning::MaxDelayRatio(ratio) => {
                options.max_delay_ratio = Some(ratio.clamp(0.0, LARGEST_RATIO));
            }
            Tuning::MaxDelayDeviationRatio(ratio) => {
                options.max_delay_deviation_ratio = ratio.clamp(0.0, LARGEST_RATIO);
            }
            Tuning::MinStratum(stratum) => options.min_stratum = stratum.min(NO_STRATUM),
            Tuning::PollTarget(target) => options.polltarget = target.max(1),
            Tuning::Offset(seconds) => options.offset = seconds,
            Tuning::Select { mask, to } => {
                let chosen = reselected(options.select(), mask, to);
                options.noselect = chosen.noselect;
                options.prefer = chosen.prefer;
                options.trust = chosen.trust;
                options.require = chosen.require;
            }
        }
    }
}
