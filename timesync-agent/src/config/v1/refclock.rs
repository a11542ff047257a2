//! `[[refclock]]` and `[[ptp]]`.

use toml::Spanned;

use super::spec::{PtpSpec, RefclockSpec};
use super::{MAX_SAMPLES, MAX_SPAN, Reader, select};
use time_model::settings::{
    DEFAULT_PTP_SOCKET, ExternalPulses, MAX_POLL, MIN_POLL, PhcOptions, PtpDelay, PtpSettings,
    PtpStamps, PtpTransport, RefclockDriver, RefclockOptions, RefclockSettings, default_id,
    reference_id,
};

const POLLS: std::ops::RangeInclusive<i64> = MIN_POLL as i64..=MAX_POLL as i64;

impl Reader<'_> {
    pub(super) fn refclocks(
        &mut self,
        clocks: &[RefclockSpec],
        ptp: &[PtpSpec],
        to: &mut Vec<RefclockSettings>,
    ) {
        for spec in clocks {
            if let Some(driver) = self.driver(spec) {
                let mut options = RefclockOptions {
                    reference_id: default_id(driver.name(), to.len()),
                    ..RefclockOptions::default()
                };
                self.refclock(spec, &mut options);
                to.push(RefclockSettings { driver, options });
            }
        }
        for spec in ptp {
            let driver = RefclockDriver::Ptp(self.ptp(spec));
            let mut options = RefclockOptions {
                reference_id: default_id(driver.name(), to.len()),
                ..RefclockOptions::default()
            };
            self.ptp_options(spec, &mut options);
            to.push(RefclockSettings { driver, options });
        }
        let ids: Vec<u32> = to.iter().map(|clock| clock.options.reference_id).collect();
        for (index, spec) in clocks.iter().enumerate() {
            if let Some(text) = &spec.lock
                && !reference_id(text.get_ref()).is_some_and(|lock| ids.contains(&lock))
            {
                self.problem(text.span(), "no reference clock has this refid");
            }
            let twice = spec.refid.as_ref().filter(|text| {
                let others = clocks
                    .iter()
                    .take(index)
                    .filter_map(|other| other.refid.as_ref());
                others
                    .clone()
                    .any(|other| other.get_ref() == text.get_ref())
            });
            if let Some(text) = twice {
                self.problem(text.span(), "another reference clock has this refid");
            }
        }
    }

    fn driver(&mut self, spec: &RefclockSpec) -> Option<RefclockDriver> {
        let span = spec.driver.span();
        let driver = spec.driver.get_ref().to_ascii_uppercase();
        let missing = match driver.as_str() {
            "PHC" | "PPS" if spec.device.is_none() => Some("device"),
            "SHM" if spec.segment.is_none() => Some("segment"),
            "SOCK" if spec.path.is_none() => Some("path"),
            "PHC" | "PPS" | "SHM" | "SOCK" | "PTP4L" => None,
            _ => {
                let message = "is one of `PHC`, `PPS`, `SHM`, `SOCK`, `PTP4L`";
                self.problem(span, message);
                return None;
            }
        };
        if let Some(missing) = missing {
            self.problem(
                span,
                format!("a clock of driver {driver} needs its `{missing}`"),
            );
            return None;
        }
        let device = spec.device.clone().unwrap_or_default();
        Some(match driver.as_str() {
            "PHC" => RefclockDriver::Phc {
                device,
                options: PhcOptions {
                    no_cross: spec.nocrossts,
                    external_pulses: spec.extpps.as_ref().map(|pulses| {
                        let mut to = ExternalPulses {
                            clear: spec.clear,
                            ..ExternalPulses::default()
                        };
                        self.int(pulses.pin.as_ref(), -1..=1000, &mut to.pin);
                        self.int(pulses.channel.as_ref(), 0..=1000, &mut to.channel);
                        to
                    }),
                },
            },
            "PPS" => RefclockDriver::Pps {
                device,
                clear: spec.clear,
            },
            "SHM" => {
                let mut segment = 0;
                self.int(spec.segment.as_ref(), 0..=255, &mut segment);
                let mut mode = 0o600;
                if let Some(text) = &spec.perm {
                    match u32::from_str_radix(text.get_ref(), 8) {
                        Ok(octal) if octal <= 0o777 => mode = octal,
                        _ => self.problem(text.span(), "permissions are octal, as in \"0600\""),
                    }
                }
                RefclockDriver::Shm { segment, mode }
            }
            "SOCK" => RefclockDriver::Sock {
                path: spec.path.clone().unwrap_or_default(),
            },
            _ => {
                let mut domain = 0;
                self.int(spec.domain.as_ref(), 0..=255, &mut domain);
                let socket = spec.socket.clone();
                RefclockDriver::Ptp4l {
                    socket: socket.unwrap_or_else(|| DEFAULT_PTP_SOCKET.into()),
                    domain,
                }
            }
        })
    }

    fn refclock(&mut self, spec: &RefclockSpec, to: &mut RefclockOptions) {
        self.refid(spec.refid.as_ref(), &mut to.reference_id);
        self.int(spec.poll.as_ref(), POLLS, &mut to.poll);
        self.int(spec.dpoll.as_ref(), POLLS, &mut to.driver_poll);
        self.int(spec.filter.as_ref(), 1..=MAX_SAMPLES, &mut to.filter);
        to.lock = spec
            .lock
            .as_ref()
            .and_then(|text| reference_id(text.get_ref()));
        self.int(spec.rate.as_ref(), 1..=1000, &mut to.rate);
        let age = &mut to.max_lock_age;
        self.int(spec.maxlockage.as_ref(), 0..=i64::from(u32::MAX), age);
        self.span(spec.width.as_ref(), 0.0..=1.0, &mut to.width);
        to.pulses = spec.pps;
        self.span(spec.offset.as_ref(), -MAX_SPAN..=MAX_SPAN, &mut to.offset);
        self.span(spec.delay.as_ref(), 0.0..=MAX_SPAN, &mut to.delay);
        self.int(spec.stratum.as_ref(), 0..=15, &mut to.stratum);
        self.some_span(spec.precision.as_ref(), 1e-9..=1.0, &mut to.precision);
        let dispersion = &mut to.max_dispersion;
        self.some_span(spec.maxdispersion.as_ref(), 0.0..=MAX_SPAN, dispersion);
        (to.tai, to.local) = (spec.tai, spec.local);
        let samples = [spec.minsamples.as_ref(), spec.maxsamples.as_ref()];
        self.samples(samples, &mut to.min_samples, &mut to.max_samples);
        let unreach = &mut to.max_unreach;
        self.int(spec.maxunreach.as_ref(), 0..=i64::from(u32::MAX), unreach);
        to.select = select([spec.noselect, spec.prefer, spec.trust, spec.require]);
    }

    fn ptp(&mut self, spec: &PtpSpec) -> PtpSettings {
        let mut to = PtpSettings::new(&spec.interface);
        let transports = [
            ("udp", PtpTransport::Ipv4),
            ("ethernet", PtpTransport::Ethernet),
        ];
        self.choice(spec.transport.as_ref(), &transports, &mut to.transport);
        let stamps = [
            ("best", PtpStamps::Best),
            ("software", PtpStamps::Software),
            ("hardware", PtpStamps::Hardware),
        ];
        self.choice(spec.timestamps.as_ref(), &stamps, &mut to.stamps);
        self.int(spec.domain.as_ref(), 0..=255, &mut to.domain);
        let delays = [("e2e", PtpDelay::EndToEnd), ("p2p", PtpDelay::PeerToPeer)];
        self.choice(spec.delay.as_ref(), &delays, &mut to.delay);
        self.int(spec.delay_interval.as_ref(), POLLS, &mut to.delay_interval);
        let announce = &mut to.announce_interval;
        self.int(spec.announce_interval.as_ref(), POLLS, announce);
        self.int(
            spec.announce_timeout.as_ref(),
            2..=255,
            &mut to.announce_timeout,
        );
        self.span(spec.asymmetry.as_ref(), -1.0..=1.0, &mut to.asymmetry);
        self.some_int(spec.utc_offset.as_ref(), -1000..=1000, &mut to.utc_offset);
        to
    }

    fn ptp_options(&mut self, spec: &PtpSpec, to: &mut RefclockOptions) {
        self.refid(spec.refid.as_ref(), &mut to.reference_id);
        self.int(spec.poll.as_ref(), POLLS, &mut to.poll);
        self.int(spec.dpoll.as_ref(), POLLS, &mut to.driver_poll);
        self.int(spec.filter.as_ref(), 1..=MAX_SAMPLES, &mut to.filter);
        self.span(spec.offset.as_ref(), -MAX_SPAN..=MAX_SPAN, &mut to.offset);
        self.int(spec.stratum.as_ref(), 0..=15, &mut to.stratum);
        self.some_span(spec.precision.as_ref(), 1e-9..=1.0, &mut to.precision);
        to.select = select([spec.noselect, spec.prefer, spec.trust, spec.require]);
    }

    fn refid(&mut self, text: Option<&Spanned<String>>, to: &mut u32) {
        let Some(text) = text else {
            return;
        };
        match reference_id(text.get_ref()) {
            Some(id) => *to = id,
            None => self.problem(text.span(), "a refid has one to four letters"),
        }
    }
}
