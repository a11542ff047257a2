//! `version = "v1"` of the configuration, as people write it.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use daemon::config::{
    AdminSpec, ByteSize, Common, Document, HumanDuration, LogSpec, Problem, Problems,
};
use dns_wire::{Name, Rcode, Type};
use proto::endpoint::Endpoint;
use proto::health::{DnsProbe, HttpProbe, Schedule, Target, TargetKind, Verify};
use serde::Deserialize;
use toml::Spanned;

use super::{Config, DEFAULT_ADMIN, Listen};
use health_probe::check_http;
use liveness::monitor::Limits;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Spec {
    log: LogSpec,
    admin: AdminSpec,
    drain: Option<HumanDuration>,
    listen: Option<Vec<Spanned<String>>>,
    state: Option<PathBuf>,
    probes: ProbesSpec,
    metrics: MetricsSpec,
    target: Vec<TargetSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ProbesSpec {
    in_flight: Option<Spanned<usize>>,
    targets: Option<Spanned<usize>>,
    grace: Option<HumanDuration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct MetricsSpec {
    targets: Option<usize>,
}

/// A target; its kind decides which of the later keys it may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TargetSpec {
    kind: Spanned<String>,
    address: Spanned<SocketAddr>,
    source: Option<Spanned<IpAddr>>,
    interval: Option<Spanned<HumanDuration>>,
    fast_interval: Option<Spanned<HumanDuration>>,
    timeout: Option<Spanned<HumanDuration>>,
    rise: Option<Spanned<u32>>,
    fall: Option<Spanned<u32>>,
    // http and https
    method: Option<Spanned<String>>,
    path: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    status: Option<Spanned<u16>>,
    body: Option<Spanned<String>>,
    user_agent: Option<Spanned<String>>,
    headers: Option<Spanned<Vec<[String; 2]>>>,
    byte_limit: Option<Spanned<ByteSize>>,
    // https
    verify: Option<Spanned<String>>,
    ca_file: Option<Spanned<String>>,
    // grpc
    service: Option<Spanned<String>>,
    // dns
    name: Option<Spanned<String>>,
    #[serde(rename = "type")]
    rtype: Option<Spanned<String>>,
    rcode: Option<Spanned<String>>,
}

impl Spec {
    pub(super) fn into_config(self, document: &Document) -> Result<Config, Problems> {
        let default = Config::default();
        let mut reader = Reader {
            document,
            problems: Problems::default(),
        };
        let listen = self.listen.map(|listen| reader.listen(listen));
        let limits = reader.limits(&self.probes, default.limits);
        let targets: Vec<Target> = self
            .target
            .into_iter()
            .filter_map(|target| reader.target(target))
            .collect();
        let config = Config {
            common: Common::new(self.log, self.admin, self.drain, DEFAULT_ADMIN),
            listen: listen.unwrap_or(default.listen),
            state: self.state.unwrap_or(default.state),
            limits,
            max_series: self.metrics.targets.unwrap_or(default.max_series),
            targets,
        };
        if config.targets.len() > config.limits.targets {
            reader.problems.push(Problem::new(format!(
                "there are {} targets, but `targets` in [probes] allows {}",
                config.targets.len(),
                config.limits.targets
            )));
        }
        reader.problems.unless_empty(config)
    }
}

/// Turns values into config, and notes what is wrong with them and where.
struct Reader<'a> {
    document: &'a Document,
    problems: Problems,
}

impl Reader<'_> {
    fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        let problem = self.document.problem(span, message);
        self.problems.push(problem);
    }

    fn listen(&mut self, listeners: Vec<Spanned<String>>) -> Vec<Listen> {
        if listeners.is_empty() {
            self.problem(0..0, "`listen` is empty: no service could subscribe");
        }
        let listeners = listeners.into_iter();
        listeners.filter_map(|one| self.listener(&one)).collect()
    }

    fn listener(&mut self, text: &Spanned<String>) -> Option<Listen> {
        let parsed = match text.get_ref().parse() {
            Ok(Endpoint::Unix(path)) => return Some(Listen::Unix(path)),
            Ok(Endpoint::Http(uri)) => uri
                .strip_prefix("http://")
                .and_then(|rest| rest.trim_end_matches('/').parse::<SocketAddr>().ok())
                .ok_or_else(|| format!("`{uri}` names no IP address and port")),
            Err(error) => Err(error.to_string()),
        };
        match parsed {
            Ok(address) if address.ip().is_loopback() => Some(Listen::Tcp(address)),
            Ok(address) => {
                let words = format!(
                    "{address} can be reached from other nodes, and who reaches it could take targets \
                     out of service: only loopback addresses are listened on"
                );
                self.problem(text.span(), words);
                None
            }
            Err(words) => {
                self.problem(text.span(), words);
                None
            }
        }
    }

    fn limits(&mut self, spec: &ProbesSpec, default: Limits) -> Limits {
        let mut at_least_one = |value: Option<&Spanned<usize>>, default| {
            let Some(value) = value else {
                return default;
            };
            if *value.get_ref() == 0 {
                self.problem(value.span(), "at least 1 is needed");
            }
            *value.get_ref()
        };
        Limits {
            in_flight: at_least_one(spec.in_flight.as_ref(), default.in_flight),
            targets: at_least_one(spec.targets.as_ref(), default.targets),
            grace: spec.grace.map_or(default.grace, Duration::from),
        }
    }

    //--- Targets

    fn target(&mut self, mut spec: TargetSpec) -> Option<Target> {
        let n_problems = self.problems.0.len();
        let address = *spec.address.get_ref();
        if address.port() == 0 {
            self.problem(spec.address.span(), "0 is no port");
        }
        let source = spec.source.as_ref().map(|source| *source.get_ref());
        if let Some(source) = &spec.source
            && source.get_ref().is_ipv4() != address.is_ipv4()
        {
            self.problem(
                source.span(),
                "an address of the target's own family is needed",
            );
        }
        let schedule = self.schedule(&spec);
        let kind = self.kind(&mut spec)?;
        self.refuse_leftovers(&spec);
        let good = self.problems.0.len() == n_problems;
        good.then_some(Target {
            kind,
            address,
            schedule,
            source,
        })
    }

    fn schedule(&mut self, spec: &TargetSpec) -> Schedule {
        let default = Schedule::default();
        let interval = self.time(spec.interval.as_ref(), Schedule::MIN_INTERVAL);
        let interval = interval.unwrap_or(default.interval);
        let fast = self.time(spec.fast_interval.as_ref(), Schedule::MIN_INTERVAL);
        if let (Some(fast), Some(written)) = (fast, &spec.fast_interval)
            && fast > interval
        {
            self.problem(
                written.span(),
                "the fast interval is longer than the interval",
            );
        }
        let timeout = self.time(spec.timeout.as_ref(), Duration::from_millis(1));
        let rise = self.count(spec.rise.as_ref());
        let fall = self.count(spec.fall.as_ref());
        Schedule {
            interval,
            fast_interval: fast.unwrap_or(default.fast_interval).min(interval),
            timeout: timeout.unwrap_or(default.timeout),
            rise: rise.unwrap_or(default.rise),
            fall: fall.unwrap_or(default.fall),
        }
    }

    /// A time in whole milliseconds, as the contract carries it.
    fn time(
        &mut self,
        value: Option<&Spanned<HumanDuration>>,
        least: Duration,
    ) -> Option<Duration> {
        let value = value?;
        let time = value.get_ref().0;
        let millis = u32::try_from(time.as_millis());
        let whole = millis.map(|millis| Duration::from_millis(millis.into()));
        if whole != Ok(time) {
            self.problem(
                value.span(),
                "a time in whole milliseconds below 49 days is needed",
            );
        } else if time < least {
            let words = format!("at least {} is needed", HumanDuration(least));
            self.problem(value.span(), words);
        }
        Some(time)
    }

    fn count(&mut self, value: Option<&Spanned<u32>>) -> Option<u32> {
        let value = value?;
        if *value.get_ref() == 0 {
            self.problem(value.span(), "at least 1 is needed");
        }
        Some(*value.get_ref())
    }

    fn kind(&mut self, spec: &mut TargetSpec) -> Option<TargetKind> {
        Some(match spec.kind.get_ref().as_str() {
            "tcp" => TargetKind::Tcp,
            "ntp" => TargetKind::Ntp,
            "http" => TargetKind::Http(self.http(spec)),
            "https" => {
                let verify = self.verify(spec);
                TargetKind::Https(HttpProbe {
                    verify,
                    ..self.http(spec)
                })
            }
            "grpc" => TargetKind::Grpc {
                service: taken(&mut spec.service).unwrap_or_default(),
            },
            "dns" => TargetKind::Dns(self.dns(spec)),
            other => {
                let words = format!(
                    "unknown kind `{other}`: tcp, http, https, grpc, dns and ntp are known"
                );
                self.problem(spec.kind.span(), words);
                return None;
            }
        })
    }

    fn http(&mut self, spec: &mut TargetSpec) -> HttpProbe {
        let default = HttpProbe::default();
        if let Some(status) = &spec.status
            && !(100..1000).contains(status.get_ref())
        {
            self.problem(status.span(), "no HTTP status");
        }
        if let Some(path) = &spec.path
            && !path.get_ref().starts_with('/')
        {
            self.problem(path.span(), "a path begins with /");
        }
        self.requests(spec);
        let headers = taken(&mut spec.headers).unwrap_or_default();
        HttpProbe {
            method: taken(&mut spec.method).unwrap_or(default.method),
            host: taken(&mut spec.host).unwrap_or(default.host),
            path: taken(&mut spec.path).unwrap_or(default.path),
            status: taken(&mut spec.status).unwrap_or(default.status),
            body: taken(&mut spec.body).filter(|body| !body.is_empty()),
            user_agent: taken(&mut spec.user_agent).unwrap_or_default(),
            headers: headers
                .into_iter()
                .map(|[name, value]| (name, value))
                .collect(),
            byte_limit: taken(&mut spec.byte_limit)
                .map(|limit| limit.0)
                .filter(|limit| *limit != 0),
            verify: Verify::default(),
        }
    }

    /// Each value must be one that a request can have: a probe that cannot be sent finds its target down.
    fn requests(&mut self, spec: &TargetSpec) {
        self.request(spec, spec.method.as_ref(), |probe, method| {
            probe.method.clone_from(method);
        });
        self.request(spec, spec.path.as_ref(), |probe, path| {
            probe.path.clone_from(path);
        });
        self.request(spec, spec.host.as_ref(), |probe, host| {
            probe.host.clone_from(host);
        });
        self.request(spec, spec.user_agent.as_ref(), |probe, agent| {
            probe.user_agent.clone_from(agent);
        });
        self.request(spec, spec.headers.as_ref(), |probe, headers| {
            let pairs = headers.iter().cloned();
            probe.headers = pairs.map(|[name, value]| (name, value)).collect();
        });
    }

    fn request<T>(
        &mut self,
        spec: &TargetSpec,
        value: Option<&Spanned<T>>,
        set: impl FnOnce(&mut HttpProbe, &T),
    ) {
        let Some(value) = value else {
            return;
        };
        let mut probe = HttpProbe::default();
        set(&mut probe, value.get_ref());
        let is_tls = spec.kind.get_ref() == "https";
        if let Err(words) = check_http(&probe, *spec.address.get_ref(), is_tls) {
            self.problem(value.span(), words);
        }
    }

    fn verify(&mut self, spec: &mut TargetSpec) -> Verify {
        let ca_file = taken(&mut spec.ca_file);
        let Some(verify) = spec.verify.take() else {
            return ca_file.map_or(Verify::System, Verify::Ca);
        };
        match (verify.get_ref().as_str(), ca_file) {
            ("system", None) => Verify::System,
            ("none", None) => Verify::Off,
            ("ca", Some(file)) => Verify::Ca(file),
            ("system" | "none", Some(_)) => {
                self.problem(verify.span(), "with `ca-file`, `verify` is \"ca\"");
                Verify::System
            }
            ("ca", None) => {
                self.problem(verify.span(), "`ca-file` is missing");
                Verify::System
            }
            _ => {
                self.problem(
                    verify.span(),
                    "one of \"system\", \"ca\" and \"none\" is needed",
                );
                Verify::System
            }
        }
    }

    fn dns(&mut self, spec: &mut TargetSpec) -> DnsProbe {
        let default = DnsProbe::default();
        let name = spec.name.take().and_then(|name| {
            let parsed = Name::parse(name.get_ref());
            parsed
                .map_err(|error| self.problem(name.span(), error.to_string()))
                .ok()
        });
        let rtype = spec.rtype.take().and_then(|rtype| {
            let parsed = rtype.get_ref().parse::<Type>();
            parsed
                .map_err(|error| self.problem(rtype.span(), error.to_string()))
                .ok()
        });
        let rcode = spec.rcode.take().and_then(|rcode| {
            let parsed = rcode.get_ref().parse::<Rcode>();
            parsed
                .map_err(|error| self.problem(rcode.span(), error.to_string()))
                .ok()
        });
        DnsProbe {
            name: name.map_or(default.name, |name| name.to_string()),
            rtype: rtype.map_or(default.rtype, |rtype| rtype.0),
            rcode: rcode.map(|rcode| rcode.0),
        }
    }

    /// Keys that the target's kind did not take mean something else than their writer thinks.
    fn refuse_leftovers(&mut self, spec: &TargetSpec) {
        let leftovers = [
            ("method", spec.method.as_ref().map(Spanned::span)),
            ("path", spec.path.as_ref().map(Spanned::span)),
            ("host", spec.host.as_ref().map(Spanned::span)),
            ("status", spec.status.as_ref().map(Spanned::span)),
            ("body", spec.body.as_ref().map(Spanned::span)),
            ("user-agent", spec.user_agent.as_ref().map(Spanned::span)),
            ("headers", spec.headers.as_ref().map(Spanned::span)),
            ("byte-limit", spec.byte_limit.as_ref().map(Spanned::span)),
            ("verify", spec.verify.as_ref().map(Spanned::span)),
            ("ca-file", spec.ca_file.as_ref().map(Spanned::span)),
            ("service", spec.service.as_ref().map(Spanned::span)),
            ("name", spec.name.as_ref().map(Spanned::span)),
            ("type", spec.rtype.as_ref().map(Spanned::span)),
            ("rcode", spec.rcode.as_ref().map(Spanned::span)),
        ];
        let kind = spec.kind.get_ref();
        for (key, span) in leftovers {
            if let Some(span) = span {
                self.problem(span, format!("a target of kind {kind} has no `{key}`"));
            }
        }
    }
}

fn taken<T>(value: &mut Option<Spanned<T>>) -> Option<T> {
    value.take().map(Spanned::into_inner)
}
