//! `refclock DRIVER PARAMETER[:OPTION]… [OPTION]…` and `hwtimestamp INTERFACE [OPTION]…`.

use config::timesync_agent::{
    DEFAULT_PTP_SOCKET, Driver, ExternalPulses, HardwareStamps, MAX_POLL, MAX_SAMPLES, MIN_POLL,
    Permissions, ReceiveFilter, Refclock, default_id, reference_id,
};

use super::Reader;
use super::directives::precision;
use super::line::{Line, Word};
use super::values::Options;

/// chrony's drivers, and ours.
const DRIVERS: &[&str] = &["PHC", "PPS", "PTP4L", "SHM", "SOCK"];

/// Every option of chrony 4.8.
const OPTIONS: &[&str] = &[
    "delay",
    "dpoll",
    "filter",
    "local",
    "lock",
    "maxdispersion",
    "maxlockage",
    "maxsamples",
    "maxunreach",
    "minsamples",
    "noselect",
    "offset",
    "poll",
    "pps",
    "precision",
    "prefer",
    "rate",
    "refid",
    "require",
    "stratum",
    "tai",
    "trust",
    "width",
];

const STAMP_OPTIONS: &[&str] = &[
    "maxpoll",
    "maxsamples",
    "minpoll",
    "minsamples",
    "nocrossts",
    "precision",
    "rxcomp",
    "rxfilter",
    "txcomp",
];

/// The largest offset or delay that is one.
const MAX_SPAN: f64 = 1e9;

/// Sets what was read, if it could be.
fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}

/// The name of a clock: its own, or that of its driver and place.
fn name_of(clock: &Refclock, index: usize) -> u32 {
    let default = || default_id(clock.driver.name(), index);
    clock.reference_id.unwrap_or_else(default)
}

/// The segment of gpsd, or of another program.
fn shared_memory(segment: &str, perm: Option<&str>) -> Option<Refclock> {
    let perm = perm.map(|perm| perm.parse::<Permissions>().map(|mode| mode.0));
    Some(Refclock {
        driver: Driver::Shm,
        segment: Some(segment.parse().ok()?),
        perm: perm
            .transpose()
            .ok()?
            .filter(|mode| *mode != Permissions::DEFAULT),
        ..Refclock::default()
    })
}

/// Pulses on a pin. No NIC has more pins or channels than the range of the keys.
fn pulses(pin: Option<&str>, channel: Option<&str>) -> ExternalPulses {
    let number = |text: Option<&str>, least: i32| {
        let number = text.and_then(|text| text.parse().ok());
        number.filter(|number| (least..=1000).contains(number))
    };
    ExternalPulses {
        pin: number(pin, -1).unwrap_or(0),
        channel: number(channel, 0).map_or(0, i32::unsigned_abs),
        ..ExternalPulses::default()
    }
}

impl Reader<'_> {
    pub(super) fn refclock(&mut self, line: &Line<'_>) {
        let n_problems = self.problems.len();
        let (Some(driver), Some(parameter)) =
            (line.words.first().copied(), line.words.get(1).copied())
        else {
            let message =
                "`refclock` takes a driver and its parameter, as in `refclock PHC /dev/ptp0`";
            return self.problem(line.end(), message);
        };
        let Some(mut clock) = self.driver(line, driver, parameter) else {
            return;
        };
        let mut words = Options::new(line, 2);
        while let Some(option) = words.take() {
            self.refclock_option(&mut words, option, &mut clock);
        }
        let own = name_of(&clock, self.config.refclock.len());
        if self.reference_ids().any(|id| id == own) {
            let message = "another reference clock has this refid";
            self.problem(line.start(), message);
        }
        if self.problems.len() == n_problems {
            self.config.refclock.push(clock);
        }
    }

    /// The names of the clocks so far.
    pub(super) fn reference_ids(&self) -> impl Iterator<Item = u32> {
        let clocks = self.config.refclock.iter().enumerate();
        clocks.map(|(index, clock)| name_of(clock, index))
    }

    /// The driver with its parameter and its own options, which follow after colons.
    fn driver(
        &mut self,
        line: &Line<'_>,
        driver: Word<'_>,
        parameter: Word<'_>,
    ) -> Option<Refclock> {
        let mut parts = parameter.text.split(':');
        let main = parts.next().unwrap_or_default();
        let options: Vec<&str> = parts.collect();
        let name = driver.text.to_ascii_uppercase();
        let known: &[&str] = match name.as_str() {
            "PHC" => &["nocrossts", "extpps", "pin", "channel", "clear"],
            "PPS" => &["clear"],
            "SHM" => &["perm"],
            "SOCK" => &[],
            "PTP4L" => &["domain"],
            _ => {
                let mut message = format!("no reference clock has the driver `{}`", driver.text);
                if driver.is("RTC") {
                    message.push_str("; a real-time clock is none here");
                } else if let Some(near) =
                    config_text::nearest(driver.text, DRIVERS.iter().copied())
                {
                    message.push_str(&format!("; did you mean `{near}`?"));
                }
                self.problem(line.at(driver), message);
                return None;
            }
        };
        for option in &options {
            let key = option.split('=').next().unwrap_or_default();
            if !known.contains(&key) {
                let message = format!("driver {name} has no option `{key}`");
                self.problem(line.at(parameter), message);
                return None;
            }
        }
        let has = |key: &str| options.contains(&key);
        let value = |key: &str| {
            let mut values = options.iter().filter_map(|option| option.split_once('='));
            values
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let of = |driver| Refclock {
            driver,
            clear: has("clear"),
            ..Refclock::default()
        };
        let clock = match name.as_str() {
            "PHC" => Some(Refclock {
                device: Some(main.into()),
                no_cross: has("nocrossts"),
                external_pulses: has("extpps").then(|| pulses(value("pin"), value("channel"))),
                ..of(Driver::Phc)
            }),
            "PPS" => Some(Refclock {
                device: Some(main.into()),
                ..of(Driver::Pps)
            }),
            "SHM" => shared_memory(main, value("perm")),
            "SOCK" => Some(Refclock {
                path: Some(main.into()),
                ..of(Driver::Sock)
            }),
            _ => Some(Refclock {
                socket: (main != "-" && main != DEFAULT_PTP_SOCKET).then(|| main.into()),
                domain: value("domain")
                    .and_then(|domain| domain.parse().ok())
                    .unwrap_or(0),
                ..of(Driver::Ptp4l)
            }),
        };
        if clock.is_none() {
            let message = format!("`{}` is no parameter of {name}", parameter.text);
            self.problem(line.at(parameter), message);
        }
        clock
    }

    fn refclock_option<'t>(
        &mut self,
        words: &mut Options<'_, 't>,
        option: Word<'t>,
        to: &mut Refclock,
    ) {
        match option.text.to_ascii_lowercase().as_str() {
            "pps" => to.pulses = true,
            "tai" => to.tai = true,
            "local" => to.local = true,
            "noselect" => to.noselect = true,
            "prefer" => to.prefer = true,
            "trust" => to.trust = true,
            "require" => to.require = true,
            name if OPTIONS.contains(&name) => {
                if let Some(value) = self.value(words, option) {
                    self.refclock_value(words.line, name, value, to);
                }
            }
            _ => self.unknown_option(words.line, option, OPTIONS.iter().copied()),
        }
    }

    fn refclock_value(
        &mut self,
        line: &Line<'_>,
        option: &str,
        value: Word<'_>,
        to: &mut Refclock,
    ) {
        let samples = 0..=MAX_SAMPLES;
        let polls = MIN_POLL..=MAX_POLL;
        match option {
            "poll" => set(&mut to.poll, self.integer(line, value, polls)),
            "dpoll" => set(&mut to.driver_poll, self.integer(line, value, polls)),
            "filter" => set(&mut to.filter, self.integer(line, value, 1..=MAX_SAMPLES)),
            "rate" => set(&mut to.rate, self.integer(line, value, 1..=1000)),
            "maxlockage" => set(
                &mut to.max_lock_age,
                self.integer(line, value, 0..=u32::MAX),
            ),
            "stratum" => set(&mut to.stratum, self.integer(line, value, 0..=15)),
            "maxunreach" => set(&mut to.max_unreach, self.integer(line, value, 0..=u32::MAX)),
            "minsamples" => to.min_samples = self.integer(line, value, samples),
            "maxsamples" => {
                to.max_samples = self.integer(line, value, samples).filter(|n| *n > 0);
            }
            "offset" => set(
                &mut to.offset,
                self.float(line, value, -MAX_SPAN..=MAX_SPAN),
            ),
            "delay" => set(&mut to.delay, self.float(line, value, 0.0..=MAX_SPAN)),
            "width" => set(&mut to.width, self.float(line, value, 0.0..=1.0)),
            "precision" => {
                to.precision = self.float(line, value, 0.0..=1.0).and_then(precision);
            }
            "maxdispersion" => {
                to.max_dispersion = self.float(line, value, 0.0..=MAX_SPAN).filter(|d| *d > 0.0);
            }
            "refid" => to.reference_id = self.refid(line, value).or(to.reference_id),
            _ => {
                if let Some(lock) = self.refid(line, value) {
                    to.lock = Some(lock);
                    self.locks.push((line.at(value), lock));
                }
            }
        }
    }

    fn refid(&mut self, line: &Line<'_>, word: Word<'_>) -> Option<u32> {
        let id = reference_id(word.text);
        if id.is_none() {
            let message = format!("`{}` is no refid, which has one to four letters", word.text);
            self.problem(line.at(word), message);
        }
        id
    }

    pub(super) fn hwtimestamp(&mut self, line: &Line<'_>) {
        let Some(interface) = line.words.first() else {
            let message = "`hwtimestamp` takes an interface, or `*` for all of them";
            return self.problem(line.end(), message);
        };
        let mut stamps = HardwareStamps::new(interface.text);
        let mut words = Options::new(line, 1);
        while let Some(option) = words.take() {
            let name = option.text.to_ascii_lowercase();
            if name == "nocrossts" {
                stamps.no_cross = true;
            } else if STAMP_OPTIONS.contains(&name.as_str()) {
                if let Some(value) = self.value(&mut words, option) {
                    self.stamp_value(line, &name, value, &mut stamps);
                }
            } else {
                self.unknown_option(line, option, STAMP_OPTIONS.iter().copied());
            }
        }
        self.config.client.hardware_stamps.push(stamps);
    }

    fn stamp_value(
        &mut self,
        line: &Line<'_>,
        option: &str,
        value: Word<'_>,
        to: &mut HardwareStamps,
    ) {
        let samples = 1..=MAX_SAMPLES;
        match option {
            "minpoll" => set(&mut to.minpoll, self.integer(line, value, -6..=20)),
            "maxpoll" => to.maxpoll = self.integer(line, value, -6..=20),
            "minsamples" => set(&mut to.min_samples, self.integer(line, value, samples)),
            "maxsamples" => set(&mut to.max_samples, self.integer(line, value, samples)),
            "precision" => set(&mut to.precision, self.float(line, value, 1e-9..=1.0)),
            "txcomp" => set(
                &mut to.transmit_compensation,
                self.float(line, value, -1.0..=1.0),
            ),
            "rxcomp" => set(
                &mut to.receive_compensation,
                self.float(line, value, -1.0..=1.0),
            ),
            _ => {
                let filters = [
                    ("none", ReceiveFilter::None),
                    ("ntp", ReceiveFilter::Ntp),
                    ("ptp", ReceiveFilter::Ptp),
                    ("all", ReceiveFilter::All),
                ];
                set(&mut to.filter, self.choice(line, value, &filters));
            }
        }
    }
}
