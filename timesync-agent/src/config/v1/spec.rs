//! The keys of the file. Most are chrony's words.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use daemon::config::{AdminSpec, HumanDuration, LogSpec};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

type Text = Spanned<String>;
pub(super) type Int = Spanned<i64>;
type Float = Spanned<f64>;
type Time = Spanned<Seconds>;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Spec {
    pub(super) log: LogSpec,
    pub(super) admin: AdminSpec,
    pub(super) drain: Option<HumanDuration>,
    pub(super) health: HealthSpec,
    pub(super) node: Option<String>,
    pub(super) correct_clock: Option<bool>,
    pub(super) sandbox: Option<bool>,
    pub(super) batch: Option<bool>,
    pub(super) threads: Option<Int>,
    pub(super) chrony_conf: Option<Spanned<PathBuf>>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) source_directories: Vec<PathBuf>,
    pub(super) server: Vec<SourceSpec>,
    pub(super) pool: Vec<SourceSpec>,
    pub(super) refclock: Vec<RefclockSpec>,
    pub(super) ptp: Vec<PtpSpec>,
    pub(super) selection: SelectionSpec,
    pub(super) clock: ClockSpec,
    pub(super) leap: LeapSpec,
    pub(super) local: Option<LocalSpec>,
    pub(super) client: ClientSpec,
    pub(super) serve: ServeSpec,
    pub(super) commands: CommandsSpec,
    pub(super) logs: LogsSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HealthSpec {
    #[serde(alias = "socket")]
    pub(super) endpoint: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub(super) struct SourceSpec {
    #[serde(alias = "name", alias = "address")]
    pub(super) host: Text,
    pub(super) maxsources: Option<Int>,
    pub(super) port: Option<u16>,
    pub(super) minpoll: Option<Int>,
    pub(super) maxpoll: Option<Int>,
    pub(super) polltarget: Option<Int>,
    #[serde(default)]
    pub(super) iburst: bool,
    #[serde(default)]
    pub(super) burst: bool,
    pub(super) presend: Option<Int>,
    #[serde(default)]
    pub(super) xleave: bool,
    #[serde(rename = "version")]
    pub(super) ntp_version: Option<Int>,
    pub(super) key: Option<Int>,
    #[serde(default)]
    pub(super) offline: bool,
    #[serde(default)]
    pub(super) auto_offline: bool,
    pub(super) maxdelay: Option<Time>,
    pub(super) maxdelayratio: Option<Float>,
    pub(super) maxdelaydevratio: Option<Float>,
    pub(super) maxdelayquant: Option<Float>,
    pub(super) mindelay: Option<Time>,
    pub(super) asymmetry: Option<Float>,
    pub(super) offset: Option<Time>,
    pub(super) filter: Option<Int>,
    pub(super) minsamples: Option<Int>,
    pub(super) maxsamples: Option<Int>,
    #[serde(default)]
    pub(super) noselect: bool,
    #[serde(default)]
    pub(super) prefer: bool,
    #[serde(default)]
    pub(super) trust: bool,
    #[serde(default)]
    pub(super) require: bool,
    #[serde(default)]
    pub(super) copy: bool,
    pub(super) family: Option<FamilySpec>,
    pub(super) minstratum: Option<Int>,
    pub(super) maxunreach: Option<Int>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FamilySpec {
    Ipv4,
    Ipv6,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub(super) struct RefclockSpec {
    pub(super) driver: Text,
    pub(super) device: Option<PathBuf>,
    #[serde(default)]
    pub(super) nocrossts: bool,
    pub(super) extpps: Option<PulsesSpec>,
    #[serde(default)]
    pub(super) clear: bool,
    pub(super) segment: Option<Int>,
    pub(super) perm: Option<Text>,
    pub(super) path: Option<PathBuf>,
    pub(super) socket: Option<PathBuf>,
    pub(super) domain: Option<Int>,
    pub(super) refid: Option<Text>,
    pub(super) poll: Option<Int>,
    pub(super) dpoll: Option<Int>,
    pub(super) filter: Option<Int>,
    pub(super) lock: Option<Text>,
    pub(super) rate: Option<Int>,
    pub(super) maxlockage: Option<Int>,
    pub(super) width: Option<Time>,
    #[serde(default)]
    pub(super) pps: bool,
    pub(super) offset: Option<Time>,
    pub(super) delay: Option<Time>,
    pub(super) stratum: Option<Int>,
    pub(super) precision: Option<Time>,
    pub(super) maxdispersion: Option<Time>,
    #[serde(default)]
    pub(super) tai: bool,
    #[serde(default)]
    pub(super) local: bool,
    pub(super) minsamples: Option<Int>,
    pub(super) maxsamples: Option<Int>,
    pub(super) maxunreach: Option<Int>,
    #[serde(default)]
    pub(super) noselect: bool,
    #[serde(default)]
    pub(super) prefer: bool,
    #[serde(default)]
    pub(super) trust: bool,
    #[serde(default)]
    pub(super) require: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PulsesSpec {
    pub(super) pin: Option<Int>,
    pub(super) channel: Option<Int>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub(super) struct PtpSpec {
    pub(super) interface: String,
    pub(super) transport: Option<Text>,
    pub(super) timestamps: Option<Text>,
    pub(super) domain: Option<Int>,
    pub(super) delay: Option<Text>,
    pub(super) delay_interval: Option<Int>,
    pub(super) announce_interval: Option<Int>,
    pub(super) announce_timeout: Option<Int>,
    pub(super) asymmetry: Option<Time>,
    pub(super) utc_offset: Option<Int>,
    pub(super) refid: Option<Text>,
    pub(super) poll: Option<Int>,
    pub(super) dpoll: Option<Int>,
    pub(super) filter: Option<Int>,
    pub(super) offset: Option<Time>,
    pub(super) stratum: Option<Int>,
    pub(super) precision: Option<Time>,
    #[serde(default)]
    pub(super) noselect: bool,
    #[serde(default)]
    pub(super) prefer: bool,
    #[serde(default)]
    pub(super) trust: bool,
    #[serde(default)]
    pub(super) require: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SelectionSpec {
    pub(super) minsources: Option<Int>,
    pub(super) maxdistance: Option<Time>,
    pub(super) maxjitter: Option<Time>,
    pub(super) combinelimit: Option<Float>,
    pub(super) reselectdist: Option<Time>,
    pub(super) stratumweight: Option<Time>,
    pub(super) authselectmode: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClockSpec {
    pub(super) driftfile: Option<PathBuf>,
    pub(super) driftfile_interval: Option<Time>,
    pub(super) makestep: Option<MakeStepSpec>,
    pub(super) maxchange: Option<MaxChangeSpec>,
    pub(super) maxslewrate: Option<Float>,
    pub(super) maxdrift: Option<Float>,
    pub(super) maxupdateskew: Option<Float>,
    pub(super) maxclockerror: Option<Float>,
    pub(super) corrtimeratio: Option<Float>,
    pub(super) clockprecision: Option<Time>,
    pub(super) rtcsync: bool,
    pub(super) fallbackdrift: Option<FallbackSpec>,
    pub(super) smoothtime: Option<SmoothSpec>,
    pub(super) tempcomp: Option<TemperatureSpec>,
    pub(super) logchange: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MakeStepSpec {
    pub(super) threshold: Time,
    pub(super) limit: Option<Int>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MaxChangeSpec {
    pub(super) offset: Time,
    pub(super) delay: Int,
    pub(super) ignore: Option<Int>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FallbackSpec {
    pub(super) min: Int,
    pub(super) max: Int,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SmoothSpec {
    pub(super) max_frequency: Float,
    pub(super) max_wander: Float,
    #[serde(default)]
    pub(super) leap_only: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TemperatureSpec {
    pub(super) file: PathBuf,
    pub(super) interval: Time,
    pub(super) points: Option<PathBuf>,
    pub(super) t0: Option<Float>,
    pub(super) k0: Option<Float>,
    pub(super) k1: Option<Float>,
    pub(super) k2: Option<Float>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LeapSpec {
    pub(super) timezone: Option<String>,
    pub(super) list: Option<PathBuf>,
    pub(super) mode: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LocalSpec {
    pub(super) stratum: Option<Int>,
    pub(super) distance: Option<Time>,
    pub(super) orphan: bool,
    pub(super) activate: Option<Time>,
    pub(super) waitsynced: Option<Time>,
    pub(super) waitunsynced: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClientSpec {
    pub(super) port: Option<u16>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) device: Option<String>,
    pub(super) dscp: Option<Int>,
    pub(super) minsamples: Option<Int>,
    pub(super) maxsamples: Option<Int>,
    pub(super) hwtimestamp: Vec<StampsSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct StampsSpec {
    pub(super) interface: String,
    pub(super) minpoll: Option<Int>,
    pub(super) maxpoll: Option<Int>,
    pub(super) minsamples: Option<Int>,
    pub(super) maxsamples: Option<Int>,
    pub(super) precision: Option<Time>,
    pub(super) txcomp: Option<Time>,
    pub(super) rxcomp: Option<Time>,
    #[serde(default)]
    pub(super) nocrossts: bool,
    pub(super) rxfilter: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServeSpec {
    pub(super) port: Option<u16>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) device: Option<String>,
    pub(super) access: Vec<Text>,
    pub(super) ratelimit: Option<RateSpec>,
    pub(super) clientloglimit: Option<Int>,
    pub(super) noclientlog: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RateSpec {
    pub(super) interval: Option<Int>,
    pub(super) burst: Option<Int>,
    pub(super) leak: Option<Int>,
    pub(super) kod: Option<Int>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CommandsSpec {
    pub(super) port: Option<u16>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) device: Option<String>,
    pub(super) socket: Option<PathBuf>,
    pub(super) access: Vec<Text>,
    pub(super) ratelimit: Option<RateSpec>,
    pub(super) open: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LogsSpec {
    pub(super) directory: Option<PathBuf>,
    pub(super) banner: Option<Int>,
    pub(super) write: Vec<Text>,
}

/// A span: `"2s"`, or a number of seconds, which may be negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) f64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor)
    }
}

struct SecondsVisitor;

impl de::Visitor<'_> for SecondsVisitor {
    type Value = Seconds;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a duration, as in \"2s\" or \"100us\", or a number of seconds")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Seconds, E> {
        if number.is_finite() {
            Ok(Seconds(number))
        } else {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no span is that long")]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Seconds, E> {
        Ok(Seconds(number as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
        let (sign, text) = match text.strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text),
        };
        let duration: HumanDuration = text.parse().map_err(E::custom)?;
        Ok(Seconds(sign * duration.0.as_secs_f64()))
    }
}
