//! Every directive of chrony 4.3, and those that came until 4.8: how many arguments it has, and what it does here.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use config::Class;
use config::timesync_agent::{
    AuthSelectMode, CommandSocket, FallbackDrift, LeapMode, Local, LogFile, MAX_SAMPLES, MakeStep,
    MaxChange, RateLimit, SmoothTime, TemperatureCompensation,
};

use super::Reader;
use super::line::{Line, Word};
use super::source::Kind;
use super::values::{Options, path};

/// The effect of a directive here.
enum Effect {
    /// This.
    Set(fn(&mut Reader<'_>, &Line<'_>)),
    /// Nothing; it is no use to say so either.
    Nothing,
    /// None, for this reason, which becomes a note.
    Lost(Class, &'static str),
}

/// Any number of arguments.
const ANY: RangeInclusive<usize> = 0..=usize::MAX;

const NTS: &str = "NTS is not spoken here";
const UNIT: &str = "the service manager sets it";
const RTC: &str = "the real-time clock is left to the kernel; see `rtcsync`";
const GONE: &str = "chrony does not know it either any more";

/// Directives, in the order of the alphabet.
#[rustfmt::skip]
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself would be of one lifetime"
)]
const DIRECTIVES: &[(&str, RangeInclusive<usize>, Effect)] = &[
    ("acquisitionport", 1..=1, Effect::Set(|r, l| { if let Some(port) = r.port_of(l) { r.config.client.port = Some(port); } })),
    ("allow", ANY, Effect::Set(|r, l| { let rule = r.access(l, true); r.config.serve.access.extend(rule); })),
    ("authselectmode", 1..=1, Effect::Set(|r, l| r.auth_select_mode(l))),
    ("bindacqaddress", 1..=1, Effect::Set(|r, l| { if let Some(a) = r.first(l).and_then(|w| r.address(l, w)) { replace_family(&mut r.config.client.bind_addresses, a); } })),
    ("bindacqdevice", 1..=1, Effect::Set(|r, l| r.config.client.bind_device = text_of(l))),
    ("bindaddress", 1..=1, Effect::Set(|r, l| { if let Some(a) = r.first(l).and_then(|w| r.address(l, w)) { replace_family(&mut r.config.serve.bind_addresses, a); } })),
    ("bindcmdaddress", 1..=1, Effect::Set(|r, l| r.bindcmdaddress(l))),
    ("bindcmddevice", 1..=1, Effect::Set(|r, l| r.config.commands.bind_device = text_of(l))),
    ("binddevice", 1..=1, Effect::Set(|r, l| r.config.serve.bind_device = text_of(l))),
    ("broadcast", 2..=3, Effect::Lost(Class::Behaviour, "nothing is sent to clients that did not ask")),
    ("clientloglimit", 1..=1, Effect::Set(|r, l| { if let Some(n) = r.integer_of(l, 0, 0..=u32::MAX) { r.config.serve.client_log_limit = n.into(); } })),
    ("clockprecision", 1..=1, Effect::Set(|r, l| r.config.clock.precision = r.float_of(l, 0, 0.0..=1.0).and_then(precision))),
    ("cmdallow", ANY, Effect::Set(|r, l| { let rule = r.access(l, true); r.config.commands.access.extend(rule); })),
    ("cmddeny", ANY, Effect::Set(|r, l| { let rule = r.access(l, false); r.config.commands.access.extend(rule); })),
    ("cmdport", 1..=1, Effect::Set(|r, l| { if let Some(port) = r.port_of(l) { r.config.commands.port = port; } })),
    ("cmdratelimit", ANY, Effect::Set(|r, l| r.config.commands.rate_limit = r.rate_limit(l))),
    ("combinelimit", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.selection.combine_limit = x; } })),
    ("commandkey", ANY, Effect::Lost(Class::Cosmetic, GONE)),
    ("confdir", 1..=usize::MAX, Effect::Set(|r, l| r.configuration_directories(l))),
    ("corrtimeratio", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 1e-3..=1e6) { r.config.clock.correction_time_ratio = x; } })),
    ("deny", ANY, Effect::Set(|r, l| { let rule = r.access(l, false); r.config.serve.access.extend(rule); })),
    ("driftfile", 1..=3, Effect::Set(|r, l| r.driftfile(l))),
    ("dscp", 1..=1, Effect::Set(|r, l| { if let Some(n) = r.integer_of(l, 0, 0..=63) { r.config.client.dscp = n; } })),
    ("dumpdir", 1..=1, Effect::Lost(Class::Behaviour, "samples are not kept between runs; the frequency is, in `driftfile`")),
    ("dumponexit", 0..=0, Effect::Nothing),
    ("fallbackdrift", 2..=2, Effect::Set(|r, l| r.fallbackdrift(l))),
    ("generatecommandkey", ANY, Effect::Lost(Class::Cosmetic, GONE)),
    ("hwclockfile", 1..=1, Effect::Lost(Class::Cosmetic, RTC)),
    ("hwtimestamp", 1..=usize::MAX, Effect::Set(|r, l| r.hwtimestamp(l))),
    ("hwtstimeout", 1..=1, Effect::Lost(Class::Behaviour, "stamps of sending that come late are not waited for")),
    ("include", 1..=1, Effect::Set(|r, l| r.include(l))),
    ("initstepslew", 1..=usize::MAX, Effect::Set(|r, l| r.initstepslew(l))),
    ("keyfile", 1..=1, Effect::Set(|r, l| r.config.key_file = path_of(l))),
    ("leapseclist", 1..=1, Effect::Set(|r, l| r.config.leap.list = path_of(l))),
    ("leapsecmode", 1..=1, Effect::Set(|r, l| r.leapsecmode(l))),
    ("leapsectz", 1..=1, Effect::Set(|r, l| r.config.leap.time_zone = text_of(l))),
    ("linux_freq_scale", ANY, Effect::Lost(Class::Cosmetic, GONE)),
    ("linux_hz", ANY, Effect::Lost(Class::Cosmetic, GONE)),
    ("local", ANY, Effect::Set(|r, l| r.local(l))),
    ("lock_all", 0..=0, Effect::Lost(Class::Cosmetic, UNIT)),
    ("log", ANY, Effect::Set(|r, l| r.log(l))),
    ("logbanner", 1..=1, Effect::Set(|r, l| { if let Some(n) = r.integer_of(l, 0, 0..=u32::MAX) { r.config.logs.banner = n; } })),
    ("logchange", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.clock.log_change = x; } })),
    ("logdir", 1..=1, Effect::Set(|r, l| r.config.logs.directory = path_of(l))),
    ("mailonchange", 2..=2, Effect::Lost(Class::Cosmetic, "no mail is sent; the log, metrics and healthd tell of it")),
    ("makestep", 2..=2, Effect::Set(|r, l| r.makestep(l))),
    ("manual", 0..=0, Effect::Set(|r, _| r.config.clock.manual = true)),
    ("maxchange", 3..=3, Effect::Set(|r, l| r.maxchange(l))),
    ("maxclockerror", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e6) { r.config.clock.max_clock_error = x; } })),
    ("maxdistance", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.selection.max_distance = x; } })),
    ("maxdrift", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=500_000.0) { r.config.clock.max_drift = x; } })),
    ("maxjitter", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.selection.max_jitter = x; } })),
    ("maxntsconnections", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("maxsamples", 1..=1, Effect::Set(|r, l| r.config.client.max_samples = r.integer_of(l, 0, 0..=MAX_SAMPLES).filter(|n| *n > 0))),
    ("maxslewrate", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 1e-3..=100_000.0) { r.config.clock.max_slew_rate = x; } })),
    ("maxtxbuffers", 1..=1, Effect::Nothing),
    ("maxupdateskew", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e6) { r.config.clock.max_update_skew = x; } })),
    ("minsamples", 1..=1, Effect::Set(|r, l| { if let Some(n) = r.integer_of(l, 0, 0..=MAX_SAMPLES) { r.config.client.min_samples = n; } })),
    ("minsources", 1..=1, Effect::Set(|r, l| { if let Some(n) = r.integer_of(l, 0, 1..=1000_u32) { r.config.selection.min_sources = n as usize; } })),
    ("nocerttimecheck", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("noclientlog", 0..=0, Effect::Set(|r, _| r.config.serve.no_client_log = true)),
    ("nosystemcert", 0..=0, Effect::Lost(Class::Behaviour, NTS)),
    ("ntpsigndsocket", 1..=1, Effect::Lost(Class::Behaviour, "clients of Samba are not signed for")),
    ("ntsaeads", ANY, Effect::Lost(Class::Behaviour, NTS)),
    ("ntscachedir", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsdumpdir", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsntpserver", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsport", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsprocesses", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsratelimit", ANY, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsrefresh", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsrotate", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsservercert", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntsserverkey", 1..=1, Effect::Lost(Class::Behaviour, NTS)),
    ("ntstrustedcerts", 1..=2, Effect::Lost(Class::Behaviour, NTS)),
    ("opencommands", ANY, Effect::Set(|r, l| r.opencommands(l))),
    ("peer", ANY, Effect::Set(|r, l| r.source(l, Kind::Peer))),
    ("pidfile", 1..=1, Effect::Lost(Class::Cosmetic, UNIT)),
    ("pool", ANY, Effect::Set(|r, l| r.source(l, Kind::Pool))),
    ("port", 1..=1, Effect::Set(|r, l| { if let Some(port) = r.port_of(l) { r.config.serve.port = port; } })),
    ("ptpdomain", 1..=1, Effect::Lost(Class::Behaviour, "NTP is not carried in PTP messages")),
    ("ptpport", 1..=1, Effect::Lost(Class::Behaviour, "NTP is not carried in PTP messages")),
    ("ratelimit", ANY, Effect::Set(|r, l| r.config.serve.rate_limit = r.rate_limit(l))),
    ("refclock", ANY, Effect::Set(|r, l| r.refclock(l))),
    ("refresh", 1..=1, Effect::Lost(Class::Behaviour, "names are resolved again when servers are not reached")),
    ("reselectdist", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.selection.reselect_distance = x; } })),
    ("rtcautotrim", 1..=1, Effect::Lost(Class::Behaviour, RTC)),
    ("rtcdevice", 1..=1, Effect::Lost(Class::Behaviour, RTC)),
    ("rtcfile", 1..=1, Effect::Lost(Class::Behaviour, RTC)),
    ("rtconutc", 0..=0, Effect::Lost(Class::Behaviour, RTC)),
    ("rtcsync", 0..=0, Effect::Set(|r, _| r.config.clock.rtcsync = true)),
    ("sched_priority", 1..=1, Effect::Lost(Class::Cosmetic, UNIT)),
    ("server", ANY, Effect::Set(|r, l| r.source(l, Kind::Server))),
    ("smoothtime", 2..=3, Effect::Set(|r, l| r.smoothtime(l))),
    ("sourcedir", 1..=usize::MAX, Effect::Set(|r, l| r.note_source_directories(l))),
    ("stratumweight", 1..=1, Effect::Set(|r, l| { if let Some(x) = r.float_of(l, 0, 0.0..=1e9) { r.config.selection.stratum_weight = x; } })),
    ("tempcomp", 3..=6, Effect::Set(|r, l| r.tempcomp(l))),
    ("user", 1..=1, Effect::Lost(Class::Cosmetic, UNIT)),
];

/// Every directive that is known.
pub fn names() -> impl Iterator<Item = &'static str> {
    DIRECTIVES.iter().map(|(name, _, _)| *name)
}

impl Reader<'_> {
    /// Does what a line says.
    pub(super) fn directive(&mut self, line: &Line<'_>) {
        let known = DIRECTIVES.iter().find(|(name, _, _)| line.name.is(name));
        let Some((name, arguments, effect)) = known else {
            let mut message = format!("chrony knows no directive `{}`", line.name.text);
            if let Some(near) = config_text::nearest(line.name.text, names()) {
                message.push_str(&format!("; did you mean `{near}`?"));
            }
            return self.problem(line.start(), message);
        };
        if line.words.len() < *arguments.start() {
            let message = format!("`{name}` has too few arguments");
            return self.problem(line.end(), message);
        }
        let one_too_many = line.words.get(*arguments.end());
        if let Some(word) = one_too_many {
            let message =
                format!("`{name}` has too many arguments; a comment stands on a line of its own");
            return self.problem(line.at(*word), message);
        }
        match effect {
            Effect::Set(set) => set(self, line),
            Effect::Nothing => {}
            Effect::Lost(class, why) => self.lost(*class, &line.start(), name, why),
        }
    }

    //--- Arguments

    /// The first argument.
    fn first<'t>(&mut self, line: &Line<'t>) -> Option<Word<'t>> {
        self.argument(line, 0)
    }

    fn argument<'t>(&mut self, line: &Line<'t>, index: usize) -> Option<Word<'t>> {
        let word = line.words.get(index).copied();
        if word.is_none() {
            let message = format!("`{}` has too few arguments", line.name.text);
            self.problem(line.end(), message);
        }
        word
    }

    fn port_of(&mut self, line: &Line<'_>) -> Option<u16> {
        let word = self.first(line)?;
        self.port(line, word)
    }

    fn integer_of<T>(
        &mut self,
        line: &Line<'_>,
        index: usize,
        range: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: Copy + TryFrom<i64> + Into<i64>,
    {
        let word = self.argument(line, index)?;
        self.integer(line, word, range)
    }

    fn float_of(
        &mut self,
        line: &Line<'_>,
        index: usize,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let word = self.argument(line, index)?;
        self.float(line, word, range)
    }

    //--- Directives with more than one argument

    fn auth_select_mode(&mut self, line: &Line<'_>) {
        let modes = [
            ("require", AuthSelectMode::Require),
            ("prefer", AuthSelectMode::Prefer),
            ("mix", AuthSelectMode::Mix),
            ("ignore", AuthSelectMode::Ignore),
        ];
        let mode = self
            .first(line)
            .and_then(|word| self.choice(line, word, &modes));
        if let Some(mode) = mode {
            self.config.selection.authentication = mode;
        }
    }

    fn bindcmdaddress(&mut self, line: &Line<'_>) {
        let Some(word) = self.first(line) else {
            return;
        };
        // A path; chronyd takes `/` for no socket.
        if word.text.starts_with('/') {
            self.config.commands.socket = CommandSocket((word.text != "/").then(|| path(word)));
        } else if let Some(address) = self.address(line, word) {
            replace_family(&mut self.config.commands.bind_addresses, address);
        }
    }

    fn driftfile(&mut self, line: &Line<'_>) {
        self.config.clock.drift_file = path_of(line);
        let mut options = Options::new(line, 1);
        while let Some(option) = options.take() {
            if !option.is("interval") {
                self.unknown_option(line, option, ["interval"]);
            } else if let Some(value) = self.value(&mut options, option)
                && let Some(seconds) = self.float(line, value, 0.0..=1e9)
            {
                self.config.clock.drift_file_interval = seconds;
            }
        }
    }

    fn fallbackdrift(&mut self, line: &Line<'_>) {
        let min = self.integer_of(line, 0, 0..=24);
        let max = self.integer_of(line, 1, 0..=24);
        let both = min.zip(max).filter(|(min, max)| *min > 0 && max >= min);
        self.config.clock.fallback_drift = both.map(|(min, max)| FallbackDrift { min, max });
    }

    /// Deprecated: the servers were asked once before all others, and the clock was stepped. The first update of the clock steps instead.
    fn initstepslew(&mut self, line: &Line<'_>) {
        let Some(threshold) = self.float_of(line, 0, 0.0..=1e9) else {
            return;
        };
        let how = "its servers get no request of their own; the first update of the clock steps beyond its threshold, as with `makestep`";
        self.differs(&line.start(), "initstepslew", how);
        if self.config.clock.makestep.is_none() {
            self.config.clock.makestep = Some(MakeStep {
                threshold,
                limit: Some(1),
            });
        }
    }

    fn leapsecmode(&mut self, line: &Line<'_>) {
        let modes = [
            ("system", LeapMode::System),
            ("step", LeapMode::Step),
            ("slew", LeapMode::Slew),
            ("ignore", LeapMode::Ignore),
        ];
        let mode = self
            .first(line)
            .and_then(|word| self.choice(line, word, &modes));
        if let Some(mode) = mode {
            self.config.leap.mode = mode;
        }
    }

    fn local(&mut self, line: &Line<'_>) {
        const OPTIONS: [&str; 6] = [
            "activate",
            "distance",
            "orphan",
            "stratum",
            "waitsynced",
            "waitunsynced",
        ];
        let mut local = Local::default();
        let mut options = Options::new(line, 0);
        while let Some(option) = options.take() {
            let name = option.text.to_ascii_lowercase();
            if name == "orphan" {
                local.orphan = true;
                continue;
            }
            if !OPTIONS.contains(&name.as_str()) {
                self.unknown_option(line, option, OPTIONS);
                continue;
            }
            let Some(value) = self.value(&mut options, option) else {
                continue;
            };
            if name == "stratum" {
                match value
                    .text
                    .parse()
                    .ok()
                    .filter(|stratum| (1..=15).contains(stratum))
                {
                    Some(stratum) => local.stratum = stratum,
                    None => {
                        let message = format!("`{}` is no stratum from 1 to 15", value.text);
                        self.problem(line.at(value), message);
                    }
                }
                continue;
            }
            let to = match name.as_str() {
                "activate" => &mut local.activate,
                "distance" => &mut local.distance,
                "waitsynced" => &mut local.wait_synchronised,
                _ => &mut local.wait_unsynchronised,
            };
            if let Some(seconds) = self.float(line, value, 0.0..=1e9) {
                *to = seconds;
            }
        }
        self.config.local = Some(local);
    }

    fn log(&mut self, line: &Line<'_>) {
        const LOGS: [&str; 8] = [
            "measurements",
            "rawmeasurements",
            "refclocks",
            "rtc",
            "selection",
            "statistics",
            "tempcomp",
            "tracking",
        ];
        for word in &line.words {
            let file = match word.text.to_ascii_lowercase().as_str() {
                "measurements" => LogFile::Measurements,
                "rawmeasurements" => LogFile::RawMeasurements,
                "refclocks" => LogFile::Refclocks,
                "selection" => LogFile::Selection,
                "statistics" => LogFile::Statistics,
                "tracking" => LogFile::Tracking,
                "tempcomp" => LogFile::Tempcomp,
                "rtc" => {
                    self.lost(Class::Cosmetic, &line.at(*word), "log rtc", RTC);
                    continue;
                }
                _ => {
                    self.unknown_option(line, *word, LOGS);
                    continue;
                }
            };
            self.config.logs.write.insert(file);
        }
    }

    fn makestep(&mut self, line: &Line<'_>) {
        let threshold = self.float_of(line, 0, 0.0..=1e9);
        let limit = self.integer_of(line, 1, i64::from(i32::MIN)..=i64::from(i32::MAX));
        if let Some((threshold, limit)) = threshold.zip(limit) {
            // chronyd has no limit where it is negative, and steps at no update where it is 0.
            let limit = u32::try_from(limit).ok();
            self.config.clock.makestep =
                (limit != Some(0)).then_some(MakeStep { threshold, limit });
        }
    }

    fn maxchange(&mut self, line: &Line<'_>) {
        let offset = self.float_of(line, 0, 0.0..=1e9);
        let delay = self.integer_of(line, 1, 0..=u32::MAX);
        let ignore = self.integer_of(line, 2, i64::from(i32::MIN)..=i64::from(i32::MAX));
        if let (Some(offset), Some(delay), Some(ignore)) = (offset, delay, ignore) {
            let ignore = u32::try_from(ignore).ok();
            let change = MaxChange {
                offset,
                delay,
                ignore,
            };
            self.config.clock.max_change = Some(change);
        }
    }

    fn opencommands(&mut self, line: &Line<'_>) {
        let names = line.words.iter().map(|word| word.text.to_ascii_lowercase());
        self.config.commands.open = names.collect();
    }

    fn rate_limit(&mut self, line: &Line<'_>) -> Option<RateLimit> {
        const OPTIONS: [&str; 4] = ["burst", "interval", "kod", "leak"];
        let mut limit = RateLimit::default();
        let mut options = Options::new(line, 0);
        while let Some(option) = options.take() {
            let name = option.text.to_ascii_lowercase();
            if !OPTIONS.contains(&name.as_str()) {
                self.unknown_option(line, option, OPTIONS);
                continue;
            }
            let Some(value) = self.value(&mut options, option) else {
                continue;
            };
            match name.as_str() {
                "interval" => {
                    let interval = self.integer(line, value, -19..=12);
                    limit.interval = interval.or(limit.interval);
                }
                "burst" => {
                    let burst = self.integer(line, value, 1..=255);
                    limit.burst = burst.unwrap_or(limit.burst);
                }
                "leak" => limit.leak = self.integer(line, value, 1..=4).unwrap_or(limit.leak),
                _ => limit.kod = self.integer(line, value, 0..=4).unwrap_or(limit.kod),
            }
        }
        Some(limit)
    }

    fn smoothtime(&mut self, line: &Line<'_>) {
        let max_frequency = self.float_of(line, 0, 0.0..=1e6);
        let max_wander = self.float_of(line, 1, 0.0..=1e6);
        let last = line.words.get(2).copied();
        if let Some(word) = last.filter(|word| !word.is("leaponly")) {
            self.unknown_option(line, word, ["leaponly"]);
        }
        if let Some((max_frequency, max_wander)) = max_frequency.zip(max_wander) {
            let smooth = SmoothTime {
                max_frequency,
                max_wander,
                leap_only: last.is_some(),
            };
            self.config.clock.smoothtime = Some(smooth);
        }
    }

    fn tempcomp(&mut self, line: &Line<'_>) {
        let (Some(file), Some(interval)) = (path_of(line), self.float_of(line, 1, 0.1..=1e9))
        else {
            return;
        };
        let mut temperature = TemperatureCompensation {
            file,
            interval,
            ..TemperatureCompensation::default()
        };
        match line.words.get(2..) {
            Some([points]) => temperature.points = Some(path(*points)),
            Some([_, _, _, _]) => {
                let numbers: Vec<f64> = (2..6)
                    .filter_map(|index| self.float_of(line, index, -1e12..=1e12))
                    .collect();
                let &[t0, k0, k1, k2] = numbers.as_slice() else {
                    return;
                };
                temperature = TemperatureCompensation {
                    t0,
                    k0,
                    k1,
                    k2,
                    ..temperature
                };
            }
            _ => {
                let message = "`tempcomp` takes a file and an interval, and then four numbers or a file of points";
                return self.problem(line.end(), message);
            }
        }
        self.config.clock.temperature = Some(temperature);
    }
}

/// The precision of a clock: none where chronyd measures it, and else at least a nanosecond.
pub(super) fn precision(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| seconds.max(1e-9))
}

fn path_of(line: &Line<'_>) -> Option<PathBuf> {
    line.words.first().map(|word| path(*word))
}

fn text_of(line: &Line<'_>) -> Option<String> {
    line.words.first().map(|word| word.text.to_owned())
}

/// chronyd has one address of each family; the last one wins.
fn replace_family(addresses: &mut Vec<std::net::IpAddr>, address: std::net::IpAddr) {
    addresses.retain(|other| other.is_ipv4() != address.is_ipv4());
    addresses.push(address);
}
