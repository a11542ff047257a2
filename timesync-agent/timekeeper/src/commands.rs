//! The commands of chronyc.

use super::{SourceId, Timekeeper};
use time_model::settings::{Local, MakeStep};
use time_model::time::{Reading, Span};

impl Timekeeper {
    /// chronyc's `makestep` without arguments: corrects the remaining offset at once. False if the clock is left alone.
    pub fn makestep(&mut self, now: Reading) -> bool {
        if self.free_running {
            return false;
        }
        if let Some(knowledge) = self.knowledge {
            let span = Span::from_seconds(knowledge.offset(now));
            self.step(span);
            self.set_rate();
        }
        true
    }

    /// chronyc's `makestep` with arguments.
    pub fn allow_steps(&mut self, makestep: Option<MakeStep>) {
        self.clock.makestep = makestep;
        self.discipline.allow_steps(makestep);
    }

    /// chronyc's `maxupdateskew`, in parts per million.
    pub fn set_max_update_skew(&mut self, ppm: f64) {
        self.clock.max_update_skew = ppm;
    }

    /// chronyc's `local` with and without arguments.
    pub fn set_local(&mut self, local: Option<Local>, now: Reading) {
        self.local = local;
        self.reselect(None, now);
    }

    /// chronyc's `reselect`: there is no system peer until one is chosen. The last time stays in force, in case that there is
    /// none.
    pub fn reselect_now(&mut self, now: Reading) {
        if let Some(root) = &mut self.root {
            root.source = None;
        }
        self.reselect(None, now);
    }

    /// chronyc's `reselectdist`, in seconds.
    pub fn set_reselect_distance(&mut self, distance: f64) {
        self.consensus.rules.reselect_distance = distance;
    }

    /// Forgets the samples of a source (all sources for `None`), as chronyc's `reset sources` does.
    pub fn reset_source(&mut self, id: Option<SourceId>, now: Reading) {
        let known = self.known_frequency();
        self.consensus.restart(id, known);
        self.reselect(None, now);
    }
}
