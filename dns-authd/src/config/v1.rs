//! `version = "v1"` of the configuration, as people write it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config_text::Position;
use daemon::acl::Cidrs;
use daemon::config::{
    AdminSpec, ByteSize, Common, Document, HumanDuration, LogSpec, Problem, Problems,
};
use dns_answer::{Any, Settings};
use dns_lua::{AllDown, LuaSettings, WhileUnknown};
use dns_wire::Name;
use dns_wire::edns::UDP_PAYLOADS;
use dns_zone::parse::{Options, OutOfZone};
use peer_bind::{NamedConf, ZoneDecl, ZoneKind};
use proto::endpoint::Endpoint;
use serde::Deserialize;
use toml::Spanned;

use super::{Config, DEFAULT_ADMIN, DEFAULT_LISTEN, Network, TcpLimits, Tls, Zones};
use crate::access::Access;
use crate::programs::LiveSettings;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    log: LogSpec,
    admin: AdminSpec,
    drain: Option<HumanDuration>,
    listen: Option<Vec<SocketAddr>>,
    threads: usize,
    receive_buffer: Option<ByteSize>,
    allow_from: Option<Spanned<Vec<String>>>,
    zones: ZonesSpec,
    zone: Vec<ZoneSpec>,
    lua: LuaSpec,
    health: HealthSpec,
    answers: AnswersSpec,
    tcp: TcpSpec,
    tls: Option<TlsSpec>,
    transfers: TransfersSpec,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ZonesSpec {
    named_conf: Option<Spanned<PathBuf>>,
    directory: Option<PathBuf>,
    check_interval: Option<Spanned<String>>,
    notify: bool,
    default_ttl: u32,
    include_depth: usize,
    generate_steps: u32,
    skip_out_of_zone: bool,
}

impl Default for ZonesSpec {
    fn default() -> Self {
        let options = Options::default();
        Self {
            named_conf: None,
            directory: None,
            check_interval: None,
            notify: true,
            default_ttl: options.default_ttl,
            include_depth: options.include_depth,
            generate_steps: options.generate_steps,
            skip_out_of_zone: false,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ZoneSpec {
    name: Spanned<String>,
    file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct LuaSpec {
    enabled: bool,
    instructions: u32,
    memory: ByteSize,
    insert_whitespace: bool,
}

impl Default for LuaSpec {
    fn default() -> Self {
        let settings = LuaSettings::default();
        Self {
            enabled: true,
            instructions: settings.instructions.map_or(0, NonZeroU32::get),
            memory: ByteSize(settings.memory as u64),
            insert_whitespace: true,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HealthSpec {
    endpoint: Option<Spanned<String>>,
    interval: Option<HumanDuration>,
    fast_interval: Option<HumanDuration>,
    timeout: Option<HumanDuration>,
    rise: Option<NonZeroU32>,
    fall: Option<NonZeroU32>,
    hold: Option<HumanDuration>,
    all_down: AllDownSpec,
    while_unknown: WhileUnknownSpec,
    min_ttl: Option<HumanDuration>,
    unknown_ttl: Option<HumanDuration>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AllDownSpec {
    #[default]
    Random,
    All,
    Empty,
    Servfail,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WhileUnknownSpec {
    #[default]
    All,
    AsDown,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct AnswersSpec {
    version: Option<String>,
    id: Option<String>,
    any: AnySpec,
    udp_payload: Spanned<u16>,
    client_subnet: bool,
}

impl Default for AnswersSpec {
    fn default() -> Self {
        Self {
            version: None,
            id: None,
            any: AnySpec::default(),
            udp_payload: Spanned::new(0..0, Settings::default().udp_payload),
            client_subnet: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AnySpec {
    #[default]
    One,
    AllOverTcp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct TcpSpec {
    connections: Option<usize>,
    per_client: Option<usize>,
    idle: Option<HumanDuration>,
    pipeline: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TlsSpec {
    certificate: PathBuf,
    key: PathBuf,
    #[serde(default)]
    dot: Vec<SocketAddr>,
    #[serde(default)]
    doh: Vec<SocketAddr>,
    #[serde(default)]
    doq: Vec<SocketAddr>,
    doh_path: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct TransfersSpec {
    allow: Option<Spanned<Vec<String>>>,
}

/// The default interval of checks of zone files.
const DEFAULT_CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// The default time that the first queries wait for first results.
pub(super) const DEFAULT_HOLD: Duration = Duration::from_millis(150);
/// The default TTL of answers while the liveness is unknown.
pub(super) const DEFAULT_UNKNOWN_TTL: Duration = Duration::from_secs(5);

impl Spec {
    /// The named.conf that lists zones, if there is one, with its place in the document.
    #[must_use]
    pub fn named_conf(&self) -> Option<&Path> {
        self.zones
            .named_conf
            .as_ref()
            .map(|path| path.get_ref().as_path())
    }

    /// Makes the config, with the zones of the named.conf. `host` is the node's name.
    pub fn into_config(
        self,
        document: &Document,
        named: Option<NamedConf>,
        host: &str,
    ) -> Result<Config, Problems> {
        let mut problems = Problems::default();
        let directory = self.zones.directory.clone();
        let (mut declared, mut warnings) = (Vec::new(), Vec::new());
        if let Some(named) = named {
            declared.extend(named.zones.into_iter().filter(ZoneDecl::is_served));
            warnings.extend(named.warnings);
        }
        for zone in &self.zone {
            match zone.declare(document, directory.as_deref()) {
                Ok(zone) if declared.iter().any(|known| known.name == zone.name) => {
                    let message = format!("zone {} is declared twice", zone.name);
                    problems.push(document.problem(zone_span(&self.zone, &zone.name), message));
                }
                Ok(zone) => declared.push(zone),
                Err(problem) => problems.push(problem),
            }
        }
        let check_interval = self.zones.interval(document, &mut problems);
        let health = self.health.endpoint(document, &mut problems);
        let access = self.access(document, &mut problems, &mut warnings);
        let answers = self
            .answers
            .settings(document, host, &self.tcp, &mut problems);
        let tls = self.tls.map(|tls| tls.into_tls(document, &mut problems));
        let config = Config {
            common: Common::new(self.log, self.admin, self.drain, DEFAULT_ADMIN),
            network: Network {
                listen: self.listen.unwrap_or_else(|| vec![DEFAULT_LISTEN]),
                threads: self.threads,
                receive_buffer: self
                    .receive_buffer
                    .and_then(|size| usize::try_from(size.0).ok()),
                tcp: self.tcp.limits(),
            },
            tls,
            zones: Zones {
                declared,
                check_interval,
                notify: self.zones.notify,
                options: Arc::new(Options {
                    directory,
                    default_ttl: self.zones.default_ttl,
                    include_depth: self.zones.include_depth,
                    generate_steps: self.zones.generate_steps,
                    lua_whitespace: self.lua.insert_whitespace,
                    out_of_zone: match self.zones.skip_out_of_zone {
                        true => OutOfZone::Skip,
                        false => OutOfZone::Refuse,
                    },
                    ..Options::default()
                }),
            },
            live: self.health.live(&self.lua),
            lua: self.lua.enabled,
            health,
            answers,
            access,
            warnings,
        };
        problems.unless_empty(config)
    }

    fn access(
        &self,
        document: &Document,
        problems: &mut Problems,
        warnings: &mut Vec<Problem>,
    ) -> Access {
        let mut list = |list| cidrs(list, document, problems);
        let access = Access {
            ask: self.allow_from.as_ref().map(&mut list),
            transfer: (self.transfers.allow.as_ref()).map_or_else(Cidrs::none, list),
        };
        for list in access.ask.iter().chain([&access.transfer]) {
            let odd = list.warnings().iter().map(|odd| Problem::new(odd.clone()));
            warnings.extend(odd);
        }
        access
    }
}

impl ZoneSpec {
    fn declare(&self, document: &Document, directory: Option<&Path>) -> Result<ZoneDecl, Problem> {
        let text = self.name.get_ref();
        let name = Name::parse(text).map_err(|error| {
            document.problem(
                self.name.span(),
                format!("`{text}` is not a zone name: {error}"),
            )
        })?;
        // A relative file is beside the configuration unless `directory` is set.
        let home = directory.or_else(|| document.path.parent());
        let place = document.position(self.name.span().start);
        Ok(ZoneDecl {
            name,
            kind: ZoneKind::Primary,
            file: Some(home.map_or_else(|| self.file.clone(), |home| home.join(&self.file))),
            primaries: Vec::new(),
            also_notify: Vec::new(),
            position: Position {
                file: place.file,
                line: place.line,
                column: place.column,
            },
        })
    }
}

fn zone_span(zones: &[ZoneSpec], name: &Name) -> std::ops::Range<usize> {
    let same = |zone: &&ZoneSpec| Name::parse(zone.name.get_ref()).as_ref() == Ok(name);
    zones
        .iter()
        .rfind(same)
        .map_or(0..0, |zone| zone.name.span())
}

impl ZonesSpec {
    fn interval(&self, document: &Document, problems: &mut Problems) -> Option<Duration> {
        let Some(written) = &self.check_interval else {
            return Some(DEFAULT_CHECK_INTERVAL);
        };
        if written.get_ref() == "never" {
            return None;
        }
        match written.get_ref().parse::<HumanDuration>() {
            Ok(interval) if !interval.0.is_zero() => Some(interval.0),
            Ok(_) => None,
            Err(error) => {
                problems.push(document.problem(written.span(), error.to_string()));
                None
            }
        }
    }
}

impl HealthSpec {
    fn endpoint(&self, document: &Document, problems: &mut Problems) -> Option<Endpoint> {
        let Some(written) = &self.endpoint else {
            return Some(Endpoint::default());
        };
        if written.get_ref() == "none" {
            return None;
        }
        match written.get_ref().parse() {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                problems.push(document.problem(written.span(), format!("{error}")));
                None
            }
        }
    }

    fn live(&self, lua: &LuaSpec) -> LiveSettings {
        let default = LuaSettings::default();
        let or = |written: Option<HumanDuration>, default: Duration| {
            written.map_or(default, |duration| duration.0)
        };
        LiveSettings {
            lua: Arc::new(LuaSettings {
                instructions: NonZeroU32::new(lua.instructions),
                memory: usize::try_from(lua.memory.0).unwrap_or(usize::MAX),
                interval: or(self.interval, default.interval),
                fast_interval: or(self.fast_interval, default.fast_interval),
                timeout: or(self.timeout, default.timeout),
                rise: self.rise.map_or(default.rise, NonZeroU32::get),
                fall: self.fall.map_or(default.fall, NonZeroU32::get),
                all_down: match self.all_down {
                    AllDownSpec::Random => AllDown::Random,
                    AllDownSpec::All => AllDown::All,
                    AllDownSpec::Empty => AllDown::Empty,
                    AllDownSpec::Servfail => AllDown::Servfail,
                },
                while_unknown: match self.while_unknown {
                    WhileUnknownSpec::All => WhileUnknown::All,
                    WhileUnknownSpec::AsDown => WhileUnknown::AsDown,
                },
                min_ttl: or(self.min_ttl, default.min_ttl),
            }),
            unknown_ttl: or(self.unknown_ttl, DEFAULT_UNKNOWN_TTL),
            hold: or(self.hold, DEFAULT_HOLD),
        }
    }
}

impl AnswersSpec {
    fn settings(
        &self,
        document: &Document,
        host: &str,
        tcp: &TcpSpec,
        problems: &mut Problems,
    ) -> Settings {
        let udp_payload = *self.udp_payload.get_ref();
        if !UDP_PAYLOADS.contains(&udp_payload) {
            let (least, most) = (UDP_PAYLOADS.start(), UDP_PAYLOADS.end());
            let message = format!("udp-payload is {least} to {most} octets, not {udp_payload}");
            problems.push(document.problem(self.udp_payload.span(), message));
        }
        let id = identity(self.id.as_deref(), host);
        Settings {
            udp_payload,
            any: match self.any {
                AnySpec::One => Any::One,
                AnySpec::AllOverTcp => Any::AllOverTcp,
            },
            chaos: chaos(self.version.as_deref(), id.as_deref()),
            nsid: id.map(|id| id.into_bytes().into()),
            client_subnet: self.client_subnet,
            keepalive: keepalive(tcp.limits().idle),
        }
    }
}

/// The server's identity: the configured one, nothing for `none`, else the node's name.
pub(super) fn identity(written: Option<&str>, host: &str) -> Option<String> {
    match written {
        Some("none" | "") => None,
        Some(id) => Some(id.chars().take(128).collect()),
        None => Some(host.to_owned()),
    }
}

/// The answers to CHAOS TXT questions. The version is answered only if it is configured.
pub(super) fn chaos(version: Option<&str>, id: Option<&str>) -> Vec<(Name, String)> {
    let version = version.filter(|version| !matches!(*version, "none" | ""));
    let entries = [
        ("version.bind.", version),
        ("version.server.", version),
        ("id.server.", id),
        ("hostname.bind.", id),
    ];
    entries
        .into_iter()
        .filter_map(|(name, text)| Some((Name::parse(name).ok()?, text?.to_owned())))
        .collect()
}

/// An idle time in the units of RFC 7828.
pub(super) fn keepalive(idle: Duration) -> u16 {
    u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX)
}

impl TcpSpec {
    fn limits(&self) -> TcpLimits {
        let default = TcpLimits::default();
        TcpLimits {
            connections: self.connections.unwrap_or(default.connections),
            per_client: self.per_client.unwrap_or(default.per_client),
            idle: self.idle.map_or(default.idle, |idle| idle.0),
            pipeline: self.pipeline.unwrap_or(default.pipeline).max(1),
        }
    }
}

impl TlsSpec {
    fn into_tls(self, document: &Document, problems: &mut Problems) -> Tls {
        if let Some(path) = &self.doh_path
            && !is_path(path.get_ref())
        {
            let written = path.get_ref();
            let message = format!("doh-path is the path of a URL, as /dns-query, not `{written}`");
            problems.push(document.problem(path.span(), message));
        }
        let doh_path = self.doh_path.map(Spanned::into_inner);
        Tls {
            certificate: self.certificate,
            key: self.key,
            dot: self.dot,
            doh: self.doh,
            doq: self.doq,
            doh_path: doh_path.unwrap_or_else(|| "/dns-query".to_owned()),
        }
    }
}

/// Whether this can be the path of a request: it begins with a slash and holds no `?` or `#`.
fn is_path(written: &str) -> bool {
    written.starts_with('/')
        && !written.contains(|c: char| "?#{".contains(c) || !c.is_ascii_graphic())
}

/// A list of networks as it is written.
fn cidrs(written: &Spanned<Vec<String>>, document: &Document, problems: &mut Problems) -> Cidrs {
    Cidrs::from_items(written.get_ref()).unwrap_or_else(|error| {
        problems.push(document.problem(written.span(), error.to_string()));
        Cidrs::none()
    })
}
