//! `version = "v1"` of the configuration, as people write it.

mod refclock;
mod spec;

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use config_text::Files;
use daemon_base::config::{Common, Document, Problems};
use proto::endpoint::Endpoint;
use toml::Spanned;

use self::spec::{
    ClientSpec, ClockSpec, CommandsSpec, FamilySpec, HealthSpec, Int, LeapSpec, LocalSpec,
    LogsSpec, RateSpec, Seconds, SelectionSpec, ServeSpec, SourceSpec, Spec, StampsSpec,
    TemperatureSpec,
};
use super::{Config, DEFAULT_ADMIN, host_name};
use crate::chrony_conf;
use crate::settings::{
    AccessRule, AuthSelectMode, Connectivity, DEFAULT_POOL_SOURCES, FallbackDrift, Family,
    HardwareStamps, Host, LeapMode, Local, MAX_POLL, MAX_POOL_SOURCES, MIN_POLL, MakeStep,
    MaxChange, RateLimit, ReceiveFilter, SelectOptions, Settings, SmoothTime, SourceOptions,
    SourceSettings, TemperatureCompensation, TemperatureLaw,
};

/// The longest span that makes sense anywhere, in seconds.
const MAX_SPAN: f64 = 1e9;
/// As many samples as a source may have.
const MAX_SAMPLES: i64 = 1024;
/// Threads that answer; more than this and the kernel's locks are the limit.
const MAX_THREADS: i64 = 256;

/// Makes the config of a document, or says everything that is wrong with it. `files` is for the chrony.conf that it may name.
///
/// # Errors
/// Every problem, with its place.
pub fn parse(document: &Document, files: &mut dyn Files) -> Result<Config, Problems> {
    let spec: Spec = document.parse()?;
    let mut reader = Reader {
        document,
        problems: Problems::default(),
        warnings: Vec::new(),
    };
    let config = reader.config(spec, files);
    reader.problems.unless_empty(config)
}

/// Turns values into config, and notes what is wrong with them and where.
struct Reader<'a> {
    document: &'a Document,
    problems: Problems,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self, spec: Spec, files: &mut dyn Files) -> Config {
        // What stands in this file comes on top of what a chrony.conf says.
        let mut settings = Settings::default();
        if let Some(path) = &spec.chrony_conf {
            match chrony_conf::parse(path.get_ref(), files) {
                Ok(conf) => {
                    settings = conf.settings;
                    self.warnings
                        .extend(conf.warnings.iter().map(ToString::to_string));
                }
                Err(rejected) => self.problems.extend(rejected.problems),
            }
        }
        let servers = spec.server.iter().map(|server| (server, false));
        let mut sources: Vec<_> = servers
            .chain(spec.pool.iter().map(|pool| (pool, true)))
            .collect();
        // The order of the file.
        sources.sort_by_key(|(source, _)| source.host.span().start);
        for (spec, is_pool) in sources {
            let source = self.source(spec, is_pool);
            settings.sources.push(source);
        }
        self.refclocks(&spec.refclock, &spec.ptp, &mut settings.refclocks);
        self.selection(&spec.selection, &mut settings);
        self.clock(spec.clock, &mut settings);
        self.leap(spec.leap, &mut settings);
        if let Some(local) = &spec.local {
            settings.local = Some(self.local(local));
        }
        self.client(spec.client, &mut settings);
        self.serve(spec.serve, &mut settings);
        self.commands(spec.commands, &mut settings);
        self.logs(spec.logs, &mut settings);
        if spec.key_file.is_some() {
            settings.key_file = spec.key_file;
        }
        let (more, odd) = chrony_conf::parse_source_directories(&spec.source_directories, files);
        settings.sources.extend(more);
        settings.source_directories.extend(spec.source_directories);
        self.warnings.extend(odd.iter().map(ToString::to_string));
        let mut threads = None;
        if let Some(n) = &spec.threads {
            let mut n_threads = 1_usize;
            self.int(Some(n), 1..=MAX_THREADS, &mut n_threads);
            threads = Some(n_threads);
        }
        Config {
            common: Common::new(spec.log, spec.admin, spec.drain, DEFAULT_ADMIN),
            settings,
            health: self.health(&spec.health),
            node: spec.node.unwrap_or_else(host_name),
            corrects_clock: spec.correct_clock.unwrap_or(true),
            sandbox: spec.sandbox.unwrap_or(true),
            batch: spec.batch.unwrap_or(true),
            threads,
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    fn health(&mut self, spec: &HealthSpec) -> Option<Endpoint> {
        let Some(text) = &spec.endpoint else {
            return Some(Endpoint::default());
        };
        if text.get_ref() == "none" {
            return None;
        }
        match text.get_ref().parse() {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                self.problem(text.span(), format!("{error}"));
                None
            }
        }
    }

    //--- Sources

    fn source(&mut self, spec: &SourceSpec, is_pool: bool) -> SourceSettings {
        let mut to = SourceOptions::default();
        let mut pool = DEFAULT_POOL_SOURCES;
        let most = i64::try_from(MAX_POOL_SOURCES).unwrap_or(1);
        if let Some(n) = spec.maxsources.as_ref().filter(|_| !is_pool) {
            self.problem(n.span(), "`maxsources` is for a `[[pool]]`");
        }
        self.int(spec.maxsources.as_ref(), 1..=most, &mut pool);
        to.port = spec.port.unwrap_or(to.port);
        let polls = i64::from(MIN_POLL)..=i64::from(MAX_POLL);
        self.int(spec.minpoll.as_ref(), polls.clone(), &mut to.minpoll);
        self.int(spec.maxpoll.as_ref(), polls, &mut to.maxpoll);
        if let Some(maxpoll) = spec.maxpoll.as_ref().filter(|_| to.maxpoll < to.minpoll) {
            self.problem(maxpoll.span(), "`maxpoll` is below `minpoll`");
        }
        to.maxpoll = to.maxpoll.max(to.minpoll);
        self.int(
            spec.polltarget.as_ref(),
            1..=MAX_SAMPLES,
            &mut to.polltarget,
        );
        (to.iburst, to.burst, to.xleave) = (spec.iburst, spec.burst, spec.xleave);
        self.some_int(spec.presend.as_ref(), -7..=127, &mut to.presend);
        self.some_int(spec.ntp_version.as_ref(), 1..=4, &mut to.version);
        self.some_int(spec.key.as_ref(), 1..=i64::from(u32::MAX), &mut to.key);
        to.connectivity = match (spec.offline, spec.auto_offline) {
            (true, _) => Connectivity::Offline,
            (false, true) => Connectivity::AutoOffline,
            (false, false) => Connectivity::Online,
        };
        self.span(spec.maxdelay.as_ref(), 0.0..=1000.0, &mut to.max_delay);
        self.some_float(
            spec.maxdelayratio.as_ref(),
            0.0..=1e6,
            &mut to.max_delay_ratio,
        );
        let deviation = &mut to.max_delay_deviation_ratio;
        self.float(spec.maxdelaydevratio.as_ref(), 0.0..=1e6, deviation);
        let quantile = &mut to.max_delay_quantile;
        self.some_float(spec.maxdelayquant.as_ref(), 0.05..=0.95, quantile);
        self.some_span(spec.mindelay.as_ref(), 0.0..=1000.0, &mut to.min_delay);
        self.some_float(spec.asymmetry.as_ref(), -0.5..=0.5, &mut to.asymmetry);
        self.span(spec.offset.as_ref(), -MAX_SPAN..=MAX_SPAN, &mut to.offset);
        self.some_int(spec.filter.as_ref(), 1..=MAX_SAMPLES, &mut to.filter);
        let samples = [spec.minsamples.as_ref(), spec.maxsamples.as_ref()];
        self.samples(samples, &mut to.min_samples, &mut to.max_samples);
        to.select = select([spec.noselect, spec.prefer, spec.trust, spec.require]);
        to.copy = spec.copy;
        to.family = spec.family.map(|family| match family {
            FamilySpec::Ipv4 => Family::V4,
            FamilySpec::Ipv6 => Family::V6,
        });
        let unreach = &mut to.max_unreach;
        self.int(spec.maxunreach.as_ref(), 0..=i64::from(u32::MAX), unreach);
        let host = spec.host.get_ref();
        if host.is_empty() || host.contains(char::is_whitespace) {
            self.problem(spec.host.span(), "neither an address nor a name");
        }
        SourceSettings {
            host: Host::parse(host),
            pool: is_pool.then_some(pool),
            options: to,
        }
    }

    //--- Clock

    fn selection(&mut self, spec: &SelectionSpec, settings: &mut Settings) {
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
    fn clock(&mut self, spec: ClockSpec, settings: &mut Settings) {
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

    fn leap(&mut self, spec: LeapSpec, settings: &mut Settings) {
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

    fn local(&mut self, spec: &LocalSpec) -> Local {
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

    //--- Client and server

    fn client(&mut self, spec: ClientSpec, settings: &mut Settings) {
        let to = &mut settings.client;
        to.port = spec.port.or(to.port);
        if !spec.addresses.is_empty() {
            to.bind_addresses = spec.addresses;
        }
        if spec.device.is_some() {
            to.bind_device = spec.device;
        }
        self.int(spec.dscp.as_ref(), 0..=63, &mut to.dscp);
        self.int(
            spec.minsamples.as_ref(),
            0..=MAX_SAMPLES,
            &mut to.min_samples,
        );
        self.some_int(
            spec.maxsamples.as_ref(),
            1..=MAX_SAMPLES,
            &mut to.max_samples,
        );
        for stamps in &spec.hwtimestamp {
            let stamps = self.stamps(stamps);
            to.hardware_stamps.push(stamps);
        }
    }

    /// `minsamples` and `maxsamples` of a server or a reference clock.
    fn samples(
        &mut self,
        [min, max]: [Option<&Int>; 2],
        to_min: &mut Option<u32>,
        to_max: &mut Option<u32>,
    ) {
        self.some_int(min, 0..=MAX_SAMPLES, to_min);
        self.some_int(max, 1..=MAX_SAMPLES, to_max);
    }

    fn stamps(&mut self, spec: &StampsSpec) -> HardwareStamps {
        let mut to = HardwareStamps::new(&spec.interface);
        self.int(spec.minpoll.as_ref(), -6..=20, &mut to.minpoll);
        self.some_int(spec.maxpoll.as_ref(), -6..=20, &mut to.maxpoll);
        self.int(
            spec.minsamples.as_ref(),
            1..=MAX_SAMPLES,
            &mut to.min_samples,
        );
        self.int(
            spec.maxsamples.as_ref(),
            1..=MAX_SAMPLES,
            &mut to.max_samples,
        );
        self.span(spec.precision.as_ref(), 1e-9..=1.0, &mut to.precision);
        self.span(
            spec.txcomp.as_ref(),
            -1.0..=1.0,
            &mut to.transmit_compensation,
        );
        self.span(
            spec.rxcomp.as_ref(),
            -1.0..=1.0,
            &mut to.receive_compensation,
        );
        to.no_cross = spec.nocrossts;
        let filters = [
            ("none", ReceiveFilter::None),
            ("ntp", ReceiveFilter::Ntp),
            ("ptp", ReceiveFilter::Ptp),
            ("all", ReceiveFilter::All),
        ];
        self.choice(spec.rxfilter.as_ref(), &filters, &mut to.filter);
        to
    }

    fn serve(&mut self, spec: ServeSpec, settings: &mut Settings) {
        let to = &mut settings.server;
        to.port = spec.port.unwrap_or(to.port);
        if !spec.addresses.is_empty() {
            to.bind_addresses = spec.addresses;
        }
        if spec.device.is_some() {
            to.bind_device = spec.device;
        }
        self.access(&spec.access, &mut to.access);
        if let Some(rate) = &spec.ratelimit {
            to.rate_limit = Some(self.rate(rate, RateLimit::default()));
        }
        let limit = &mut to.client_log_limit;
        self.int(spec.clientloglimit.as_ref(), 0..=i64::from(u32::MAX), limit);
        to.no_client_log |= spec.noclientlog;
    }

    fn commands(&mut self, spec: CommandsSpec, settings: &mut Settings) {
        let to = &mut settings.commands;
        to.port = spec.port.unwrap_or(to.port);
        if !spec.addresses.is_empty() {
            to.bind_addresses = spec.addresses;
        }
        if spec.device.is_some() {
            to.bind_device = spec.device;
        }
        if let Some(socket) = spec.socket {
            to.socket = (socket.as_os_str() != "none").then_some(socket);
        }
        self.access(&spec.access, &mut to.access);
        if let Some(rate) = &spec.ratelimit {
            to.rate_limit = Some(self.rate(rate, RateLimit::COMMANDS));
        }
        if let Some(open) = spec.open {
            to.open = open;
        }
    }

    fn rate(&mut self, spec: &RateSpec, mut to: RateLimit) -> RateLimit {
        self.int(spec.interval.as_ref(), -19..=12, &mut to.interval);
        self.int(spec.burst.as_ref(), 1..=255, &mut to.burst);
        self.int(spec.leak.as_ref(), 1..=4, &mut to.leak);
        self.int(spec.kod.as_ref(), 0..=4, &mut to.kod);
        to
    }

    /// `allow [all] WHOM` and `deny [all] WHOM`, as in a chrony.conf.
    fn access(&mut self, spec: &[Spanned<String>], to: &mut Vec<AccessRule>) {
        for line in spec {
            let words: Vec<&str> = line.get_ref().split_whitespace().collect();
            let (verb, rest) = words.split_first().unwrap_or((&"", &[]));
            let allow = match *verb {
                "allow" => true,
                "deny" => false,
                _ => {
                    let message =
                        "a line begins with `allow` or `deny`, as in \"allow 192.168.7.0/24\"";
                    self.problem(line.span(), message);
                    continue;
                }
            };
            let (all, rest) = match rest {
                ["all", rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let whom = match rest {
                [] => Ok(crate::settings::Whom::Everybody),
                [whom] => chrony_conf::whom(whom),
                _ => Err("one network a line".to_owned()),
            };
            match whom {
                Ok(whom) => to.push(AccessRule { allow, all, whom }),
                Err(message) => self.problem(line.span(), message),
            }
        }
    }

    fn logs(&mut self, spec: LogsSpec, settings: &mut Settings) {
        let to = &mut settings.logs;
        if spec.directory.is_some() {
            to.directory = spec.directory;
        }
        self.int(
            spec.banner.as_ref(),
            0..=i64::from(u32::MAX),
            &mut to.banner,
        );
        for log in &spec.write {
            match log.get_ref().as_str() {
                "measurements" => to.measurements = true,
                "rawmeasurements" => to.raw_measurements = true,
                "refclocks" => to.refclocks = true,
                "selection" => to.selection = true,
                "statistics" => to.statistics = true,
                "tempcomp" => to.temperature = true,
                "tracking" => to.tracking = true,
                other => {
                    let message = format!("there is no log `{other}`");
                    self.problem(log.span(), message);
                }
            }
        }
    }

    //--- Values

    /// Replaces `to` by a whole number of a range, if there is one.
    fn int<T: TryFrom<i64>>(
        &mut self,
        value: Option<&Spanned<i64>>,
        range: RangeInclusive<i64>,
        to: &mut T,
    ) {
        let Some(value) = value else {
            return;
        };
        let number = Some(*value.get_ref()).filter(|number| range.contains(number));
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => *to = number,
            None => self.outside(value.span(), range.start(), range.end()),
        }
    }

    fn some_int<T: TryFrom<i64> + Default>(
        &mut self,
        value: Option<&Spanned<i64>>,
        range: RangeInclusive<i64>,
        to: &mut Option<T>,
    ) {
        if value.is_some() {
            self.int(value, range, to.insert(T::default()));
        }
    }

    fn float(&mut self, value: Option<&Spanned<f64>>, range: RangeInclusive<f64>, to: &mut f64) {
        if let Some(value) = value {
            if range.contains(value.get_ref()) {
                *to = *value.get_ref();
            } else {
                self.outside(value.span(), range.start(), range.end());
            }
        }
    }

    fn some_float(
        &mut self,
        value: Option<&Spanned<f64>>,
        range: RangeInclusive<f64>,
        to: &mut Option<f64>,
    ) {
        if value.is_some() {
            self.float(value, range, to.insert(0.0));
        }
    }

    fn span(&mut self, value: Option<&Spanned<Seconds>>, range: RangeInclusive<f64>, to: &mut f64) {
        if let Some(value) = value {
            if range.contains(&value.get_ref().0) {
                *to = value.get_ref().0;
            } else {
                let (low, high) = (format!("{} s", range.start()), format!("{} s", range.end()));
                self.outside(value.span(), &low, &high);
            }
        }
    }

    fn some_span(
        &mut self,
        value: Option<&Spanned<Seconds>>,
        range: RangeInclusive<f64>,
        to: &mut Option<f64>,
    ) {
        if value.is_some() {
            self.span(value, range, to.insert(0.0));
        }
    }

    fn choice<T: Copy>(
        &mut self,
        value: Option<&Spanned<String>>,
        choices: &[(&str, T)],
        to: &mut T,
    ) {
        let Some(value) = value else {
            return;
        };
        let mut all = choices.iter();
        match all.find(|(name, _)| name == value.get_ref()) {
            Some((_, choice)) => *to = *choice,
            None => {
                let names: Vec<String> = choices
                    .iter()
                    .map(|(name, _)| format!("`{name}`"))
                    .collect();
                self.problem(value.span(), format!("is one of {}", names.join(", ")));
            }
        }
    }

    fn outside(&mut self, span: Range<usize>, low: &impl Display, high: &impl Display) {
        self.problem(span, format!("is to be from {low} to {high}"));
    }

    fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problems.push(self.document.problem(span, message));
    }
}

/// `noselect`, `prefer`, `trust` and `require` of a server or a reference clock.
const fn select([noselect, prefer, trust, require]: [bool; 4]) -> SelectOptions {
    SelectOptions {
        noselect,
        prefer,
        trust,
        require,
    }
}
