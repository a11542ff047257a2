//! Settings as TOML: values that differ from the defaults, and no more.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use config_text::toml::{line, list, quoted};
use daemon::config::HumanDuration;

use time_model::settings::{
    AccessRule, AuthSelectMode, ClientMatch, ClockSettings, Connectivity, Family, LeapMode, Local,
    PtpDelay, PtpSettings, PtpStamps, PtpTransport, RateLimit, ReceiveFilter, RefclockDriver,
    RefclockOptions, SelectOptions, Settings, SourceOptions, SourceSettings, TemperatureLaw,
    reference_id_text,
};

/// Settings as a file of `version = "v1"`.
#[must_use]
pub fn toml(settings: &Settings) -> String {
    let mut page = Page::default();
    line(&mut page.text, format_args!("version = \"v1\""));
    page.path("key-file", settings.key_file.as_deref());
    if !settings.source_directories.is_empty() {
        let directories = settings.source_directories.iter();
        page.item(
            "source-directories",
            list(directories.map(|it| it.display())),
        );
    }
    for source in &settings.sources {
        page.source(source);
    }
    for clock in &settings.refclocks {
        page.driver(&clock.driver);
        page.refclock(
            &clock.options,
            matches!(clock.driver, RefclockDriver::Ptp(_)),
        );
    }
    page.selection(settings);
    page.clock(&settings.clock);
    page.leap(settings);
    if let Some(local) = &settings.local {
        page.local(local);
    }
    page.client(settings);
    page.serve(settings);
    page.commands(settings);
    page.logs(settings);
    page.text
}

/// The text, and a heading that is written once something follows it.
#[derive(Default)]
struct Page {
    text: String,
    heading: Option<&'static str>,
}

impl Page {
    fn table(&mut self, heading: &'static str) {
        self.heading = Some(heading);
    }

    /// A table that stands there even if it is empty.
    fn begin(&mut self, heading: &'static str) {
        self.heading = None;
        line(&mut self.text, format_args!("\n{heading}"));
    }

    fn item(&mut self, key: &str, value: impl Display) {
        if let Some(heading) = self.heading.take() {
            line(&mut self.text, format_args!("\n{heading}"));
        }
        line(&mut self.text, format_args!("{key} = {value}"));
    }

    /// A value that is not the default.
    fn unless<T: PartialEq + Display>(&mut self, default: &T, key: &str, value: &T) {
        if value != default {
            self.item(key, value);
        }
    }

    fn some<T: Display>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.item(key, value);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.item(key, true);
        }
    }

    fn path(&mut self, key: &str, value: Option<&Path>) {
        self.some(key, value.map(|path| quoted(&path.display().to_string())));
    }

    fn text(&mut self, key: &str, value: Option<&str>) {
        self.some(key, value.map(quoted));
    }

    fn number(&mut self, default: f64, key: &str, value: f64) {
        if value.to_bits() != default.to_bits() {
            self.item(key, number(value));
        }
    }

    fn span(&mut self, default: f64, key: &str, value: f64) {
        if value.to_bits() != default.to_bits() {
            self.item(key, seconds(value));
        }
    }

    //--- Sources

    fn source(&mut self, source: &SourceSettings) {
        let is_pool = source.pool.is_some();
        self.begin(if is_pool { "[[pool]]" } else { "[[server]]" });
        self.item("host", quoted(&source.host.to_string()));
        if let Some(n) = source.pool {
            self.unless(
                &time_model::settings::DEFAULT_POOL_SOURCES,
                "maxsources",
                &n,
            );
        }
        let (default, options) = (SourceOptions::default(), &source.options);
        self.unless(&default.port, "port", &options.port);
        self.unless(&default.minpoll, "minpoll", &options.minpoll);
        // Without it, it is no less than `minpoll`.
        self.unless(
            &default.maxpoll.max(options.minpoll),
            "maxpoll",
            &options.maxpoll,
        );
        self.unless(&default.polltarget, "polltarget", &options.polltarget);
        self.flag("iburst", options.iburst);
        self.flag("burst", options.burst);
        self.some("presend", options.presend);
        self.flag("xleave", options.xleave);
        self.some("version", options.version);
        self.some("key", options.key);
        self.flag("offline", options.connectivity == Connectivity::Offline);
        self.flag(
            "auto-offline",
            options.connectivity == Connectivity::AutoOffline,
        );
        self.span(default.max_delay, "maxdelay", options.max_delay);
        self.some("maxdelayratio", options.max_delay_ratio.map(number));
        let ratio = default.max_delay_deviation_ratio;
        self.number(ratio, "maxdelaydevratio", options.max_delay_deviation_ratio);
        self.some("maxdelayquant", options.max_delay_quantile.map(number));
        self.some("mindelay", options.min_delay.map(seconds));
        self.some("asymmetry", options.asymmetry.map(number));
        self.span(0.0, "offset", options.offset);
        self.some("filter", options.filter);
        self.some("minsamples", options.min_samples);
        self.some("maxsamples", options.max_samples);
        self.select(options.select);
        self.flag("copy", options.copy);
        let family = options.family.map(|family| match family {
            Family::V4 => "\"ipv4\"",
            Family::V6 => "\"ipv6\"",
        });
        self.some("family", family);
        self.unless(&default.min_stratum, "minstratum", &options.min_stratum);
        self.unless(&default.max_unreach, "maxunreach", &options.max_unreach);
    }

    fn select(&mut self, options: SelectOptions) {
        self.flag("noselect", options.noselect);
        self.flag("prefer", options.prefer);
        self.flag("trust", options.trust);
        self.flag("require", options.require);
    }

    fn driver(&mut self, driver: &RefclockDriver) {
        if let RefclockDriver::Ptp(ptp) = driver {
            return self.ptp(ptp);
        }
        self.begin("[[refclock]]");
        self.item("driver", quoted(driver.name()));
        match driver {
            RefclockDriver::Phc { device, options } => {
                self.path("device", Some(device));
                self.flag("nocrossts", options.no_cross);
                if let Some(pulses) = options.external_pulses {
                    let (pin, channel) = (pulses.pin, pulses.channel);
                    self.item("extpps", format!("{{ pin = {pin}, channel = {channel} }}"));
                    self.flag("clear", pulses.clear);
                }
            }
            RefclockDriver::Shm { segment, mode } => {
                self.item("segment", segment);
                if *mode != 0o600 {
                    self.item("perm", quoted(&format!("{mode:04o}")));
                }
            }
            RefclockDriver::Sock { path } => self.path("path", Some(path)),
            RefclockDriver::Pps { device, clear } => {
                self.path("device", Some(device));
                self.flag("clear", *clear);
            }
            RefclockDriver::Ptp4l { socket, domain } => {
                self.path("socket", Some(socket));
                self.unless(&0, "domain", domain);
            }
            RefclockDriver::Ptp(_) => {}
        }
    }

    fn ptp(&mut self, ptp: &PtpSettings) {
        let default = PtpSettings::new("");
        self.begin("[[ptp]]");
        self.item("interface", quoted(&ptp.interface));
        if ptp.transport == PtpTransport::Ethernet {
            self.item("transport", "\"ethernet\"");
        }
        match ptp.stamps {
            PtpStamps::Best => {}
            PtpStamps::Software => self.item("timestamps", "\"software\""),
            PtpStamps::Hardware => self.item("timestamps", "\"hardware\""),
        }
        self.unless(&default.domain, "domain", &ptp.domain);
        if ptp.delay == PtpDelay::PeerToPeer {
            self.item("delay", "\"p2p\"");
        }
        self.unless(
            &default.delay_interval,
            "delay-interval",
            &ptp.delay_interval,
        );
        self.unless(
            &default.announce_interval,
            "announce-interval",
            &ptp.announce_interval,
        );
        self.unless(
            &default.announce_timeout,
            "announce-timeout",
            &ptp.announce_timeout,
        );
        self.span(default.asymmetry, "asymmetry", ptp.asymmetry);
        self.some("utc-offset", ptp.utc_offset);
    }

    fn refclock(&mut self, options: &RefclockOptions, is_ptp: bool) {
        let default = RefclockOptions::default();
        self.item("refid", quoted(&reference_id_text(options.reference_id)));
        self.unless(&default.poll, "poll", &options.poll);
        self.unless(&default.driver_poll, "dpoll", &options.driver_poll);
        self.unless(&default.filter, "filter", &options.filter);
        self.span(default.offset, "offset", options.offset);
        self.unless(&default.stratum, "stratum", &options.stratum);
        self.some("precision", options.precision.map(seconds));
        self.select(options.select);
        if is_ptp {
            return;
        }
        self.some(
            "lock",
            options.lock.map(|lock| quoted(&reference_id_text(lock))),
        );
        self.unless(&default.rate, "rate", &options.rate);
        self.unless(&default.max_lock_age, "maxlockage", &options.max_lock_age);
        self.span(default.width, "width", options.width);
        self.flag("pps", options.pulses);
        self.span(default.delay, "delay", options.delay);
        self.some("maxdispersion", options.max_dispersion.map(seconds));
        self.flag("tai", options.tai);
        self.flag("local", options.local);
        self.some("minsamples", options.min_samples);
        self.some("maxsamples", options.max_samples);
        self.unless(&default.max_unreach, "maxunreach", &options.max_unreach);
    }

    //--- Clock

    fn selection(&mut self, settings: &Settings) {
        let default = Settings::default().selection;
        let selection = &settings.selection;
        self.table("[selection]");
        self.unless(&default.min_sources, "minsources", &selection.min_sources);
        self.span(default.max_distance, "maxdistance", selection.max_distance);
        self.span(default.max_jitter, "maxjitter", selection.max_jitter);
        self.number(
            default.combine_limit,
            "combinelimit",
            selection.combine_limit,
        );
        self.span(
            default.reselect_distance,
            "reselectdist",
            selection.reselect_distance,
        );
        self.span(
            default.stratum_weight,
            "stratumweight",
            selection.stratum_weight,
        );
        let mode = match selection.authentication {
            AuthSelectMode::Mix => None,
            AuthSelectMode::Require => Some("require"),
            AuthSelectMode::Prefer => Some("prefer"),
            AuthSelectMode::Ignore => Some("ignore"),
        };
        self.text("authselectmode", mode);
    }

    #[expect(clippy::too_many_lines, reason = "a few lines for each key")]
    fn clock(&mut self, clock: &ClockSettings) {
        let default = ClockSettings::default();
        self.table("[clock]");
        self.path("driftfile", clock.drift_file.as_deref());
        let interval = clock.drift_file_interval;
        self.span(default.drift_file_interval, "driftfile-interval", interval);
        if let Some(step) = clock.makestep {
            let limit = step
                .limit
                .map_or_else(String::new, |n| format!(", limit = {n}"));
            let threshold = seconds(step.threshold);
            self.item("makestep", format!("{{ threshold = {threshold}{limit} }}"));
        }
        if let Some(change) = clock.max_change {
            let ignore = change
                .ignore
                .map_or_else(String::new, |n| format!(", ignore = {n}"));
            let (offset, delay) = (seconds(change.offset), change.delay);
            self.item(
                "maxchange",
                format!("{{ offset = {offset}, delay = {delay}{ignore} }}"),
            );
        }
        self.number(default.max_slew_rate, "maxslewrate", clock.max_slew_rate);
        self.number(default.max_drift, "maxdrift", clock.max_drift);
        self.number(
            default.max_update_skew,
            "maxupdateskew",
            clock.max_update_skew,
        );
        self.number(
            default.max_clock_error,
            "maxclockerror",
            clock.max_clock_error,
        );
        self.number(
            default.correction_time_ratio,
            "corrtimeratio",
            clock.correction_time_ratio,
        );
        self.some("clockprecision", clock.precision.map(seconds));
        self.flag("rtcsync", clock.rtcsync);
        if let Some(drift) = clock.fallback_drift {
            let (min, max) = (drift.min, drift.max);
            self.item("fallbackdrift", format!("{{ min = {min}, max = {max} }}"));
        }
        if let Some(smooth) = clock.smoothtime {
            let (frequency, wander) = (number(smooth.max_frequency), number(smooth.max_wander));
            let only = if smooth.leap_only {
                ", leap-only = true"
            } else {
                ""
            };
            let value = format!("{{ max-frequency = {frequency}, max-wander = {wander}{only} }}");
            self.item("smoothtime", value);
        }
        if let Some(temperature) = &clock.temperature {
            let file = quoted(&temperature.file.display().to_string());
            let law = match &temperature.law {
                TemperatureLaw::Points(points) => {
                    format!("points = {}", quoted(&points.display().to_string()))
                }
                TemperatureLaw::Quadratic { t0, k0, k1, k2 } => format!(
                    "t0 = {}, k0 = {}, k1 = {}, k2 = {}",
                    number(*t0),
                    number(*k0),
                    number(*k1),
                    number(*k2)
                ),
            };
            let interval = seconds(temperature.interval);
            self.item(
                "tempcomp",
                format!("{{ file = {file}, interval = {interval}, {law} }}"),
            );
        }
        self.span(default.log_change, "logchange", clock.log_change);
    }

    fn leap(&mut self, settings: &Settings) {
        self.table("[leap]");
        self.text("timezone", settings.leap.time_zone.as_deref());
        self.path("list", settings.leap.list.as_deref());
        let mode = match settings.leap.mode {
            LeapMode::System => None,
            LeapMode::Step => Some("step"),
            LeapMode::Slew => Some("slew"),
            LeapMode::Ignore => Some("ignore"),
        };
        self.text("mode", mode);
    }

    fn local(&mut self, local: &Local) {
        let default = Local::default();
        self.begin("[local]");
        self.unless(&default.stratum, "stratum", &local.stratum);
        self.span(default.distance, "distance", local.distance);
        self.flag("orphan", local.orphan);
        self.span(default.activate, "activate", local.activate);
        self.span(
            default.wait_synchronised,
            "waitsynced",
            local.wait_synchronised,
        );
        self.span(
            default.wait_unsynchronised,
            "waitunsynced",
            local.wait_unsynchronised,
        );
    }

    //--- Client and server

    fn client(&mut self, settings: &Settings) {
        let (default, client) = (Settings::default().client, &settings.client);
        self.table("[client]");
        self.some("port", client.port);
        if !client.bind_addresses.is_empty() {
            self.item("addresses", list(&client.bind_addresses));
        }
        self.text("device", client.bind_device.as_deref());
        self.unless(&default.dscp, "dscp", &client.dscp);
        self.unless(&default.min_samples, "minsamples", &client.min_samples);
        self.some("maxsamples", client.max_samples);
        for stamps in &client.hardware_stamps {
            let default = time_model::settings::HardwareStamps::new(&stamps.interface);
            self.begin("[[client.hwtimestamp]]");
            self.item("interface", quoted(&stamps.interface));
            self.unless(&default.minpoll, "minpoll", &stamps.minpoll);
            self.some("maxpoll", stamps.maxpoll);
            self.unless(&default.min_samples, "minsamples", &stamps.min_samples);
            self.unless(&default.max_samples, "maxsamples", &stamps.max_samples);
            self.span(default.precision, "precision", stamps.precision);
            self.span(0.0, "txcomp", stamps.transmit_compensation);
            self.span(0.0, "rxcomp", stamps.receive_compensation);
            self.flag("nocrossts", stamps.no_cross);
            let filter = match stamps.filter {
                ReceiveFilter::Any => None,
                ReceiveFilter::None => Some("none"),
                ReceiveFilter::Ntp => Some("ntp"),
                ReceiveFilter::Ptp => Some("ptp"),
                ReceiveFilter::All => Some("all"),
            };
            self.text("rxfilter", filter);
        }
    }

    fn serve(&mut self, settings: &Settings) {
        let (default, server) = (Settings::default().server, &settings.server);
        self.table("[serve]");
        self.unless(&default.port, "port", &server.port);
        if !server.bind_addresses.is_empty() {
            self.item("addresses", list(&server.bind_addresses));
        }
        self.text("device", server.bind_device.as_deref());
        self.access(&server.access);
        self.rate(server.rate_limit, RateLimit::default());
        self.unless(
            &default.client_log_limit,
            "clientloglimit",
            &server.client_log_limit,
        );
        self.flag("noclientlog", server.no_client_log);
    }

    fn commands(&mut self, settings: &Settings) {
        let (default, commands) = (Settings::default().commands, &settings.commands);
        self.table("[commands]");
        self.unless(&default.port, "port", &commands.port);
        if !commands.bind_addresses.is_empty() {
            self.item("addresses", list(&commands.bind_addresses));
        }
        self.text("device", commands.bind_device.as_deref());
        if commands.socket != default.socket {
            let none = Path::new("none");
            self.path("socket", Some(commands.socket.as_deref().unwrap_or(none)));
        }
        self.access(&commands.access);
        self.rate(commands.rate_limit, RateLimit::COMMANDS);
        if commands.open != default.open {
            self.item("open", list(&commands.open));
        }
    }

    fn access(&mut self, rules: &[AccessRule]) {
        let rules = rules.iter().map(|rule| {
            let verb = if rule.allow { "allow" } else { "deny" };
            let all = if rule.all { " all" } else { "" };
            match &rule.whom {
                ClientMatch::Everybody => format!("{verb}{all}"),
                ClientMatch::Network(network) => format!("{verb}{all} {network}"),
                ClientMatch::Name(name) => format!("{verb}{all} {name}"),
            }
        });
        let rules: Vec<String> = rules.collect();
        if !rules.is_empty() {
            self.item("access", list(rules));
        }
    }

    fn rate(&mut self, limit: Option<RateLimit>, default: RateLimit) {
        let Some(limit) = limit else {
            return;
        };
        let values = [
            (
                "interval",
                i64::from(limit.interval),
                i64::from(default.interval),
            ),
            ("burst", limit.burst.into(), default.burst.into()),
            ("leak", limit.leak.into(), default.leak.into()),
            ("kod", limit.kod.into(), default.kod.into()),
        ];
        let given = values.iter().filter(|(_, value, default)| value != default);
        let given: Vec<String> = given
            .map(|(key, value, _)| format!("{key} = {value}"))
            .collect();
        let given = given.join(", ");
        self.item(
            "ratelimit",
            if given.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {given} }}")
            },
        );
    }

    fn logs(&mut self, settings: &Settings) {
        let (default, logs) = (Settings::default().logs, &settings.logs);
        self.table("[logs]");
        self.path("directory", logs.directory.as_deref());
        self.unless(&default.banner, "banner", &logs.banner);
        let names = [
            ("measurements", logs.measurements),
            ("rawmeasurements", logs.raw_measurements),
            ("refclocks", logs.refclocks),
            ("selection", logs.selection),
            ("statistics", logs.statistics),
            ("tempcomp", logs.temperature),
            ("tracking", logs.tracking),
        ];
        let on: Vec<&str> = names
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| *name)
            .collect();
        if !on.is_empty() {
            self.item("write", list(on));
        }
    }
}

/// A number as TOML has it: with a point.
fn number(value: f64) -> String {
    format!("{value:?}")
}

/// A span with its unit, where it is a whole number of nanoseconds; else a number.
fn seconds(value: f64) -> String {
    match Duration::try_from_secs_f64(value) {
        Ok(span) if span.as_secs_f64().to_bits() == value.to_bits() => {
            quoted(&HumanDuration(span).to_string())
        }
        _ => number(value),
    }
}
