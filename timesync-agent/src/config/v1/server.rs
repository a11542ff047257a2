//! The poll of servers, the answers to clients, chronyc's protocol, logs.

use toml::Spanned;

use super::spec::{ClientSpec, CommandsSpec, Int, LogsSpec, RateSpec, ServeSpec, StampsSpec};
use super::{MAX_SAMPLES, Reader};

use time_model::settings::{AccessRule, HardwareStamps, RateLimit, ReceiveFilter, Settings};

impl Reader<'_> {
    pub(super) fn client(&mut self, spec: ClientSpec, settings: &mut Settings) {
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
    pub(super) fn samples(
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

    pub(super) fn serve(&mut self, spec: ServeSpec, settings: &mut Settings) {
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

    pub(super) fn commands(&mut self, spec: CommandsSpec, settings: &mut Settings) {
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
                [] => Ok(time_model::settings::ClientMatch::Everybody),
                [whom] => peer_chrony::whom(whom),
                _ => Err("one network a line".to_owned()),
            };
            match whom {
                Ok(whom) => to.push(AccessRule { allow, all, whom }),
                Err(message) => self.problem(line.span(), message),
            }
        }
    }

    pub(super) fn logs(&mut self, spec: LogsSpec, settings: &mut Settings) {
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
}
