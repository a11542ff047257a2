//! The effect of the temperature on the frequency: `tempcomp`.
//!
//! It corrects no error: the time of day does not change, only its gain from now on. So clients of smooth time see nothing of
//! it, and the drift file, `tracking` and the filters know the crystal as it is without.

use super::Timekeeper;
use time_model::time::Reading;

impl Timekeeper {
    /// From here on the clock has to gain so much on its crystal because of the temperature, in parts per million.
    pub fn temper(&mut self, ppm: f64, now: Reading) {
        let rate = ppm * 1e-6;
        let more = rate - self.tempered;
        if more == 0.0 {
            return;
        }
        self.tempered = rate;
        self.consensus.temper(rate, now.raw);
        if let Some(knowledge) = &mut self.knowledge {
            knowledge.turn(knowledge.frequency + more, now.raw);
        }
        self.discipline.frequency += more;
        self.set_rate();
    }

    /// The gain of the clock in a second while it is not slewed.
    #[must_use]
    pub fn frequency(&self) -> f64 {
        self.discipline.frequency
    }

    /// The learned frequency of the crystal: the frequency without the effect of the temperature.
    pub(super) fn crystal_frequency(&self) -> f64 {
        self.discipline.frequency - self.tempered
    }
}
