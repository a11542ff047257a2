//! Selection, the clock discipline, leap seconds, the own time.

use toml::Spanned;

use super::spec::{ClockSpec, LeapSpec, LocalSpec, SelectionSpec, TemperatureSpec};
use super::{MAX_SPAN, Reader};
use time_model::settings::{
    AuthSelectMode, FallbackDrift, LeapMode, Local, MakeStep, MaxChange, Settings, SmoothTime,
    TemperatureCompensation, TemperatureLaw,
};

impl Reader<'_> {
    pub(super) fn selection(&mut self, spec: &SelectionSpec, settings: &mut Settings) {
        let to = &mut settings.selection;
        self.int(spec.minsources.as_ref(), 1..=1000, &mut to.min_sources);
        self.span(
            spec.maxdistance.as_ref(),
            0.0..=MAX_SPAN,
            &mut to.max_distance,
        );
        self.span(spec.maxjitter.as_ref(), 0.0..=MAX_SPAN, &mut to.max_jitter);
        self.float(spec.combinelimit.as_ref(), 0.0..=1e9, &mut to.combine_limit);
        let distance = &mut to.reselect_distance;
        self.span(spec.reselectdist.as_ref(), 0.0..=MAX_SPAN, distance);
        self.span(
            spec.stratumweight.as_ref(),
            0.0..=MAX_SPAN,
            &mut to.stratum_weight,
        );
        let modes = [
            ("require", AuthSelectMode::Require),
            ("prefer", AuthSelectMode::Prefer),
            ("mix", AuthSelectMode::Mix),
            ("ignore", AuthSelectMode::Ignore),
        ];
        self.choice(spec.authselectmode.as_ref(), &modes, &mut to.authentication);
    }

    #[expect(clippy::too_many_lines, reason = "a few lines for each key")]
    pub(super) fn clock(&mut self, spec: ClockSpec, settings: &mut Settings) {
        let to = &mut settings.clock;
        if spec.driftfile.is_some() {
            to.drift_file = spec.driftfile;
        }
        let interval = &mut to.drift_file_interval;
        self.span(spec.driftfile_interval.as_ref(), 0.0..=MAX_SPAN, interval);
        if let Some(step) = &spec.makestep {
            let mut threshold = 0.0;
            self.span(Some(&step.threshold), 0.0..=MAX_SPAN, &mut threshold);
            let mut limit = None;
            self.some_int(step.limit.as_ref(), 1..=i64::from(u32::MAX), &mut limit);
            to.makestep = Some(MakeStep { threshold, limit });
        }
        if let Some(change) = &spec.maxchange {
            let mut max = MaxChange {
                offset: 0.0,
                delay: 0,
                ignore: None,
            };
            self.span(Some(&change.offset), 0.0..=MAX_SPAN, &mut max.offset);
            self.int(Some(&change.delay), 0..=i64::from(u32::MAX), &mut max.delay);
            self.some_int(
                change.ignore.as_ref(),
                0..=i64::from(u32::MAX),
                &mut max.ignore,
            );
            to.max_change = Some(max);
        }
        self.float(
            spec.maxslewrate.as_ref(),
            1e-3..=100_000.0,
            &mut to.max_slew_rate,
        );
        self.float(spec.maxdrift.as_ref(), 0.0..=500_000.0, &mut to.max_drift);
        self.float(
            spec.maxupdateskew.as_ref(),
            0.0..=1e6,
            &mut to.max_update_skew,
        );
        self.float(
            spec.maxclockerror.as_ref(),
            0.0..=1e6,
            &mut to.max_clock_error,
        );
        let ratio = &mut to.correction_time_ratio;
        self.float(spec.corrtimeratio.as_ref(), 1e-3..=1e6, ratio);
        self.some_span(spec.clockprecision.as_ref(), 1e-9..=1.0, &mut to.precision);
        to.rtcsync |= spec.rtcsync;
        if let Some(fallback) = &spec.fallbackdrift {
            let mut drift = FallbackDrift { min: 1, max: 24 };
            self.int(Some(&fallback.min), 1..=24, &mut drift.min);
            self.int(
                Some(&fallback.max),
                i64::from(drift.min)..=24,
                &mut drift.max,
            );
            to.fallback_drift = Some(drift);
        }
        if let Some(smooth) = &spec.smoothtime {
            let mut time = SmoothTime {
                max_frequency: 0.0,
                max_wander: 0.0,
                leap_only: smooth.leap_only,
            };
            self.float(
                Some(&smooth.max_frequency),
                0.0..=1e6,
                &mut time.max_frequency,
            );
            self.float(Some(&smooth.max_wander), 0.0..=1e6, &mut time.max_wander);
            to.smoothtime = Some(time);
        }
        if let Some(temperature) = spec.tempcomp {
            to.temperature = Some(self.temperature(temperature));
        }
        self.span(spec.logchange.as_ref(), 0.0..=MAX_SPAN, &mut to.log_change);
    }

    fn temperature(&mut self, spec: TemperatureSpec) -> TemperatureCompensation {
        let mut interval = 30.0;
        self.span(Some(&spec.interval), 0.1..=MAX_SPAN, &mut interval);
        let mut number = |value: Option<&Spanned<f64>>| {
            let mut number = 0.0;
            self.float(value, -1e12..=1e12, &mut number);
            number
        };
        let (t0, k0) = (number(spec.t0.as_ref()), number(spec.k0.as_ref()));
        let (k1, k2) = (number(spec.k1.as_ref()), number(spec.k2.as_ref()));
        TemperatureCompensation {
            file: spec.file,
            interval,
            law: match spec.points {
                Some(points) => TemperatureLaw::Points(points),
                None => TemperatureLaw::Quadratic { t0, k0, k1, k2 },
            },
        }
    }

    pub(super) fn leap(&mut self, spec: LeapSpec, settings: &mut Settings) {
        let to = &mut settings.leap;
        if spec.timezone.is_some() {
            to.time_zone = spec.timezone;
        }
        if spec.list.is_some() {
            to.list = spec.list;
        }
        let modes = [
            ("system", LeapMode::System),
            ("step", LeapMode::Step),
            ("slew", LeapMode::Slew),
            ("ignore", LeapMode::Ignore),
        ];
        self.choice(spec.mode.as_ref(), &modes, &mut to.mode);
    }

    pub(super) fn local(&mut self, spec: &LocalSpec) -> Local {
        let mut to = Local {
            orphan: spec.orphan,
            ..Local::default()
        };
        self.int(spec.stratum.as_ref(), 1..=15, &mut to.stratum);
        self.span(spec.distance.as_ref(), 0.0..=MAX_SPAN, &mut to.distance);
        self.span(spec.activate.as_ref(), 0.0..=MAX_SPAN, &mut to.activate);
        let waits = [
            (&spec.waitsynced, &mut to.wait_synchronised),
            (&spec.waitunsynced, &mut to.wait_unsynchronised),
        ];
        for (wait, to) in waits {
            self.span(wait.as_ref(), 0.0..=MAX_SPAN, to);
        }
        to
    }
}
