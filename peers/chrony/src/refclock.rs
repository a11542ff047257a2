//! `refclock DRIVER PARAMETER[:OPTION]… [OPTION]…` and `hwtimestamp INTERFACE [OPTION]…`.

use super::Reader;
use super::line::{Line, Word};
use super::source::MAX_SAMPLES;
use super::values::Options;
use time_model::settings::{
    DEFAULT_PTP_SOCKET, ExternalPulses, HardwareStamps, MAX_POLL, MIN_POLL, PhcOptions,
    ReceiveFilter, RefclockDriver, RefclockOptions, RefclockSettings, default_id, reference_id,
};

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
        let Some(driver) = self.driver(line, driver, parameter) else {
            return;
        };
        let index = self.settings.refclocks.len();
        let mut options = RefclockOptions {
            reference_id: default_id(driver.name(), index),
            ..RefclockOptions::default()
        };
        let mut words = Options::new(line, 2);
        while let Some(option) = words.take() {
            self.refclock_option(&mut words, option, &mut options);
        }
        let id = options.reference_id;
        let mut others = self.settings.refclocks.iter();
        if others.any(|other| other.options.reference_id == id) {
            let message = "another reference clock has this refid";
            self.problem(line.start(), message);
        }
        if self.problems.len() == n_problems {
            let clock = RefclockSettings { driver, options };
            self.settings.refclocks.push(clock);
        }
    }

    /// The driver with its parameter and its own options, which follow after colons.
    #[expect(clippy::too_many_lines, reason = "a few lines for each key")]
    fn driver(
        &mut self,
        line: &Line<'_>,
        driver: Word<'_>,
        parameter: Word<'_>,
    ) -> Option<RefclockDriver> {
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
        let driver = match name.as_str() {
            "PHC" => Some(RefclockDriver::Phc {
                device: main.into(),
                options: PhcOptions {
                    no_cross: has("nocrossts"),
                    external_pulses: has("extpps").then(|| ExternalPulses {
                        pin: value("pin").and_then(|pin| pin.parse().ok()).unwrap_or(0),
                        channel: value("channel").and_then(|n| n.parse().ok()).unwrap_or(0),
                        clear: has("clear"),
                    }),
                },
            }),
            "PPS" => Some(RefclockDriver::Pps {
                device: main.into(),
                clear: has("clear"),
            }),
            "SHM" => {
                let mode = value("perm").unwrap_or("0600");
                let mode = u32::from_str_radix(mode, 8)
                    .ok()
                    .filter(|mode| *mode <= 0o777);
                main.parse()
                    .ok()
                    .zip(mode)
                    .map(|(segment, mode)| RefclockDriver::Shm { segment, mode })
            }
            "SOCK" => Some(RefclockDriver::Sock { path: main.into() }),
            _ => Some(RefclockDriver::Ptp4l {
                socket: if main == "-" {
                    DEFAULT_PTP_SOCKET
                } else {
                    main
                }
                .into(),
                domain: value("domain")
                    .and_then(|domain| domain.parse().ok())
                    .unwrap_or(0),
            }),
        };
        if driver.is_none() {
            let message = format!("`{}` is no parameter of {name}", parameter.text);
            self.problem(line.at(parameter), message);
        }
        driver
    }

    fn refclock_option<'t>(
        &mut self,
        words: &mut Options<'_, 't>,
        option: Word<'t>,
        to: &mut RefclockOptions,
    ) {
        match option.text.to_ascii_lowercase().as_str() {
            "pps" => to.pulses = true,
            "tai" => to.tai = true,
            "local" => to.local = true,
            "noselect" => to.select.noselect = true,
            "prefer" => to.select.prefer = true,
            "trust" => to.select.trust = true,
            "require" => to.select.require = true,
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
        to: &mut RefclockOptions,
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
                to.precision = self.float(line, value, 0.0..=1.0).filter(|p| *p > 0.0);
            }
            "maxdispersion" => {
                to.max_dispersion = self.float(line, value, 0.0..=MAX_SPAN).filter(|d| *d > 0.0);
            }
            "refid" => set(&mut to.reference_id, self.refid(line, value)),
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
        self.settings.client.hardware_stamps.push(stamps);
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
