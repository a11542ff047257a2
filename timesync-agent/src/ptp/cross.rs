//! The clock of a network card beside the raw clock: stamps of the one as times of the other.

use crate::time::{RawTime, SECOND, UnixTime};

/// Both clocks were read so far apart that nobody knows what happened between.
const GAP: i64 = 10 * SECOND;

/// A card's clock may gain or lose a thousandth.
const MOST_DRIFT: f64 = 1e-3;

/// The last two readings of both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cross {
    last: Option<(UnixTime, RawTime)>,
    /// Raw nanoseconds for each of the card's, less one.
    drift: f64,
}

impl Cross {
    /// Both were read at one moment.
    pub(super) fn put(&mut self, card: UnixTime, raw: RawTime) {
        if let Some((last_card, last_raw)) = self.last {
            let (of_card, of_raw) = ((card - last_card).0, (raw - last_raw).0);
            if (1..GAP).contains(&of_card) && (1..GAP).contains(&of_raw) {
                self.drift =
                    (float(of_raw - of_card) / float(of_card)).clamp(-MOST_DRIFT, MOST_DRIFT);
            } else {
                self.drift = 0.0;
            }
        }
        self.last = Some((card, raw));
    }

    /// Where a stamp of the card lies; nothing if that is not near a reading.
    pub(super) fn raw(&self, card: UnixTime) -> Option<RawTime> {
        let (last_card, last_raw) = self.last?;
        let since = (card - last_card).0;
        if since.saturating_abs() > GAP {
            return None;
        }
        Some(RawTime(
            last_raw
                .0
                .checked_add(since)?
                .checked_add(nearest(self.drift * float(since)))?,
        ))
    }
}

#[expect(clippy::cast_precision_loss, reason = "below ten seconds")]
fn float(value: i64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a thousandth of ten seconds"
)]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_lie_between_readings() {
        let mut cross = Cross::default();
        assert_eq!(cross.raw(UnixTime(0)), None);
        // The card loses 100 ppm.
        cross.put(UnixTime(1_000 * SECOND), RawTime(5 * SECOND));
        cross.put(UnixTime(1_001 * SECOND), RawTime(6 * SECOND + 100_000));
        for (card, raw) in [
            (SECOND / 2, SECOND / 2 + 50_000),
            (SECOND, SECOND + 100_000),
            (SECOND + SECOND / 2, SECOND + SECOND / 2 + 150_000),
        ] {
            let stamp = cross.raw(UnixTime(1_000 * SECOND + card));
            assert_eq!(stamp, Some(RawTime(5 * SECOND + raw)), "{card}");
        }
        assert_eq!(cross.raw(UnixTime(1_012 * SECOND)), None);
        // It was set.
        cross.put(UnixTime(7), RawTime(7 * SECOND));
        assert_eq!(
            cross.raw(UnixTime(1_007)),
            Some(RawTime(7 * SECOND + 1_000))
        );
        assert_eq!(cross.raw(UnixTime(i64::MIN)), None);
    }
}
