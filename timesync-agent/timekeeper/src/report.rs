//! The time for clients, and its quality for people.

use super::knowledge::Root;
use super::{LOCAL_REFERENCE_ID, Reference, SourceId, Timekeeper};
use time_model::sample::root_distance;
use time_model::time::{Reading, Span, UnixTime};
use time_model::view::{ClockState, SourceView, Tracking};

/// Updates after which a clock that is within its root distance is locked.
const LOCKED_UPDATES: u64 = 4;
/// A clock that is as near as this is locked, however small the root distance: otherwise the state would follow the noise of single
/// samples.
const LOCKED_ANYWAY: f64 = 0.001;
/// A clock further off than this is not locked, whatever the root distance.
const LOCKED_WITHIN: f64 = 0.1;

impl Timekeeper {
    /// How good the time is.
    #[must_use]
    pub fn state(&self, now: Reading) -> ClockState {
        if self.local_active {
            return ClockState::Local;
        }
        let (Some(knowledge), Some(root)) = (&self.knowledge, &self.root) else {
            return ClockState::Unsynchronised;
        };
        if !self.following {
            return ClockState::Holdover;
        }
        // A clock that is left alone keeps its time, and clients get the missing correction added: no correction remains.
        let left = match self.free_running {
            true => 0.0,
            false => knowledge.offset(now).abs(),
        };
        let distance = root_distance(root.delay, root.dispersion);
        let bound = distance.clamp(LOCKED_ANYWAY, LOCKED_WITHIN);
        if self.discipline.n_updates >= LOCKED_UPDATES && left <= bound {
            ClockState::Locked
        } else {
            ClockState::Syncing
        }
    }

    /// The time for clients.
    #[must_use]
    pub fn reference(&self, now: Reading) -> Reference {
        self.smoothed(self.own_reference(now), now)
    }

    /// The reference for clients, for the clock as it is.
    pub(super) fn own_reference(&self, now: Reading) -> Reference {
        let offset = match &self.knowledge {
            Some(knowledge) => knowledge.offset(now),
            None => 0.0,
        };
        // While the clock is slewed, what is left of it is served already, as chronyd does: clients of a clock that is being
        // corrected are not led astray.
        let (slew, left) = self.discipline.slew(now.raw);
        let base = Reference {
            at: now.wall,
            offset: if self.free_running { offset } else { left },
            offset_rate: match &self.knowledge {
                Some(knowledge) if self.free_running => knowledge.frequency,
                // In the wall clock's own seconds, which the slew makes longer or shorter.
                _ => -slew / (1.0 + slew),
            },
            offset_ends: self
                .discipline
                .slew_ends_wall(now.raw, now.wall)
                .filter(|_| !self.free_running)
                .unwrap_or(UnixTime(i64::MAX)),
            ..Reference::default()
        };
        if let (true, Some(local)) = (self.local_active, self.local) {
            return Reference {
                leap: self.leap.pending(),
                stratum: local.stratum,
                reference_id: LOCAL_REFERENCE_ID,
                reference_time: now.wall,
                ..base
            };
        }
        let Some(root) = &self.root else {
            return base;
        };
        Reference {
            leap: self.leap.pending(),
            stratum: root.stratum.saturating_add(1).min(16),
            reference_id: root.reference_id,
            reference_time: root.at.wall,
            root_delay: root.delay,
            root_dispersion: self.root_dispersion(root, now),
            dispersion_rate: self.dispersion_rate(),
            ..base
        }
    }

    /// The error that the system peer reported, and its growth since.
    pub(super) fn root_dispersion(&self, root: &Root, now: Reading) -> f64 {
        let aside = match &self.knowledge {
            Some(knowledge) if !self.free_running => {
                let (_, left) = self.discipline.slew(now.raw);
                (knowledge.offset(now) - left).abs()
            }
            _ => 0.0,
        };
        let age = (now.raw - root.at.raw).seconds().max(0.0);
        root.dispersion + aside + self.dispersion_rate() * age
    }

    /// The values of chronyc's `tracking`.
    #[must_use]
    pub fn tracking(&self, now: Reading) -> Tracking {
        let reference = self.own_reference(now);
        let leading = self.root.as_ref().and_then(|root| {
            let source = self.consensus.source(root.source?)?;
            source.filter.estimate(now.raw)
        });
        Tracking {
            reference_id: reference.reference_id,
            address: None,
            stratum: if reference.is_synchronised() {
                reference.stratum
            } else {
                0
            },
            leap: reference.leap,
            reference_time: reference.reference_time,
            correction: self.offset(now).unwrap_or(0.0),
            update_offset: self.discipline.update_offset,
            last_offset: self.discipline.last_offset,
            rms_offset: self.discipline.rms_offset(),
            frequency: -self.crystal_frequency() * 1e6,
            residual_frequency: leading.map_or(0.0, |estimate| {
                (self.discipline.frequency - estimate.frequency) * 1e6
            }),
            skew: self.discipline.skew * 1e6,
            root_delay: reference.root_delay,
            root_dispersion: reference.root_dispersion,
            update_interval: self.discipline.update_interval,
            n_updates: self.discipline.n_updates,
            n_steps: self.discipline.n_steps,
        }
    }

    /// Fills in what is known here of a source.
    pub fn source(&self, id: SourceId, now: Reading, view: &mut SourceView) {
        let Some(source) = self.consensus.source(id) else {
            return;
        };
        view.reference_id = source.reference_id;
        view.mode = source.options.mode;
        view.state = source.state;
        view.selection = source.selection;
        view.poll = source.poll;
        view.reach = source.reach;
        if let Some(sample) = &source.last {
            view.stratum = sample.stratum;
            view.last_sample = Some(sample.at);
            view.root_distance = sample.root_distance();
            let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
            let gained = self.discipline.frequency * (now.raw - sample.at).seconds();
            view.adjusted_offset = Span(sample.ahead.saturating_sub(wall_ahead)).seconds() + gained;
            view.measured_offset = source.measured;
        }
        view.statistics = source.filter.statistics(now.raw, self.discipline.frequency);
        if let Some(estimate) = source.filter.estimate(now.raw) {
            view.statistics.offset = source.offset(&estimate, now);
        }
    }

    /// The leading source.
    #[must_use]
    pub fn leading(&self) -> Option<SourceId> {
        self.root
            .as_ref()
            .filter(|_| self.following)
            .and_then(|root| root.source)
    }
}
