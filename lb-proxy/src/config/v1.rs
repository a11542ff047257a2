//! `version = "v1"` of the configuration, as people write it.

mod backend;
mod frontend;
mod service;
mod spec;
mod vip;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use balance::table::{Keepalive, SideOptions};
use daemon::acl::Cidrs;
use daemon::config::{Common, Document, HumanDuration, Problems};
use l4_core::access_log;
use netfilter::TableName;
use proto::endpoint::Endpoint;
use toml::Spanned;

use self::spec::{AccessLogSpec, FormatSpec, HealthSpec, KeepaliveSpec, SideSpec, Spec};
use super::{Config, DEFAULT_ADMIN, Role, lint};

/// Threads of the data path; more than this and the kernel's locks are the limit.
const MAX_WORKERS: usize = 256;

/// The default socket for a successor.
const DEFAULT_SWAP: &str = "/run/outpost/lb-proxy.swap";

/// Makes the config of a document, or says everything that is wrong with it.
///
/// # Errors
/// Every problem, with its place.
pub fn parse(document: &Document) -> Result<Config, Problems> {
    let spec: Spec = document.parse()?;
    let mut reader = Reader {
        document,
        problems: Problems::default(),
        warnings: Vec::new(),
    };
    let config = reader.config(spec);
    reader.problems.unless_empty(config)
}

/// Turns values into config, and notes what is wrong with them and where.
struct Reader<'a> {
    document: &'a Document,
    problems: Problems,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self, spec: Spec) -> Config {
        let roles = self.roles(&spec);
        let backends = self.backends(&spec, &roles);
        let mut frontends = self.frontends(&spec.frontend);
        self.backends_exist(&spec, &backends);
        let cluster = spec.openshift.cluster.as_deref();
        let mut vips = self.vips(&spec.vip, cluster, &frontends, &backends);
        let services = self.services(&spec, &mut frontends, &mut vips, &backends);
        self.addresses_once(&frontends);
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let workers = match spec.workers {
            0 => cores,
            n => n,
        };
        let mut config = Config {
            common: Common::new(spec.log, spec.admin, spec.drain, DEFAULT_ADMIN),
            workers: workers.min(MAX_WORKERS),
            max_connections: spec.max_connections.map(u64::from),
            freebind: spec.freebind.unwrap_or(!vips.is_empty()),
            health: self.health(&spec.health),
            swap: match spec.swap.socket {
                None => Some(PathBuf::from(DEFAULT_SWAP)),
                Some(path) if path.as_os_str() == "none" => None,
                Some(path) => Some(path),
            },
            access_log: access_log_settings(spec.access_log),
            cluster: spec.openshift.cluster.filter(|_| spec.openshift.keepalived),
            kernel_table: self.kernel_table(spec.kernel.table.as_ref()),
            flow_table: spec.kernel.flow_table.unwrap_or(true),
            frontends,
            backends,
            vips,
            services,
            warnings: std::mem::take(&mut self.warnings),
        };
        let odd = lint::config(&config);
        config.warnings.extend(odd);
        config
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

    fn kernel_table(&mut self, name: Option<&Spanned<String>>) -> TableName {
        let Some(text) = name else {
            return TableName::default();
        };
        TableName::parse(text.get_ref()).unwrap_or_else(|| {
            self.problem(
                text.span(),
                "a table's name is of small letters, digits and `_`, 32 at most",
            );
            TableName::default()
        })
    }

    /// The role of each backend in OpenShift: that of the first frontend that leads there.
    fn roles(&mut self, spec: &Spec) -> BTreeMap<String, Role> {
        let mut roles = BTreeMap::new();
        for frontend in &spec.frontend {
            let role = frontend.role.into();
            if role == Role::Plain {
                continue;
            }
            // A backend that is routed to by name has another role, unless it has no other route.
            let named = frontend.route.iter().map(|route| &route.backend);
            let named = named.filter(|_| frontend.backend.is_none());
            for backend in frontend.backend.iter().chain(named) {
                let name = backend.get_ref().clone();
                let known = *roles.entry(name).or_insert(role);
                if known != role {
                    self.problem(
                        backend.span(),
                        "is the backend of the API and of the ingress; they have different rules",
                    );
                }
            }
        }
        roles
    }

    //--- Values

    fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        let problem = self.document.problem(span, message);
        self.problems.push(problem);
    }

    fn warning(&mut self, span: &Range<usize>, message: impl std::fmt::Display) {
        let place = self.document.position(span.start);
        self.warnings.push(format!("{place}: {message}"));
    }

    fn addresses(&mut self, list: &[Spanned<String>]) -> Vec<SocketAddr> {
        list.iter().filter_map(|text| self.address(text)).collect()
    }

    fn address(&mut self, text: &Spanned<String>) -> Option<SocketAddr> {
        let parsed: Option<SocketAddr> = text.get_ref().parse().ok();
        if parsed.is_none() {
            self.problem(
                text.span(),
                format!(
                    "`{}` is no address with its port, as in 192.168.7.13:6443 or [fd00::1]:6443",
                    text.get_ref()
                ),
            );
        }
        parsed
    }

    fn networks(&mut self, list: &[Spanned<String>]) -> Cidrs {
        for text in list {
            match Cidrs::from_items([text.get_ref()]) {
                Ok(networks) => {
                    for warning in networks.warnings() {
                        self.warning(&text.span(), warning);
                    }
                }
                Err(error) => self.problem(text.span(), error.to_string()),
            }
        }
        Cidrs::from_items(list.iter().map(Spanned::get_ref)).unwrap_or_default()
    }

    /// A name that can be typed on a command line and stand in a URL.
    fn name(&mut self, text: &Spanned<String>) -> Arc<str> {
        let name = text.get_ref();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) {
            self.problem(
                text.span(),
                "a name is of letters, digits and `-` `_` `.` `:` `/`",
            );
        }
        name.as_str().into()
    }

    /// A time above zero.
    fn time(&mut self, value: Option<&Spanned<HumanDuration>>, default: Duration) -> Duration {
        let Some(value) = value else {
            return default;
        };
        if value.get_ref().0.is_zero() {
            self.problem(value.span(), "must be above zero");
        }
        value.get_ref().0
    }

    /// A time above zero that may be absent; `"0s"` says so too.
    fn side(&mut self, spec: &SideSpec) -> SideOptions {
        let default = SideOptions::default();
        let keepalive = match &spec.keepalive {
            None => default.keepalive,
            Some(KeepaliveSpec::Switch(true)) => Some(Keepalive::default()),
            Some(KeepaliveSpec::Switch(false)) => None,
            Some(KeepaliveSpec::Times(times)) => {
                let default = Keepalive::default();
                Some(Keepalive {
                    idle: times.idle.map_or(default.idle, Duration::from),
                    interval: times.interval.map_or(default.interval, Duration::from),
                    count: times.count.unwrap_or(default.count),
                })
            }
        };
        SideOptions {
            keepalive,
            user_timeout: match spec.user_timeout {
                None => default.user_timeout,
                Some(time) => above_zero(time),
            },
        }
    }
}

/// `"0s"` stands for never.
fn above_zero(time: HumanDuration) -> Option<Duration> {
    (!time.0.is_zero()).then_some(time.0)
}

fn access_log_settings(spec: AccessLogSpec) -> access_log::Settings {
    access_log::Settings {
        target: match spec.target {
            None => access_log::Target::Off,
            Some(path) => match path.to_str() {
                Some("off") => access_log::Target::Off,
                Some("stdout") => access_log::Target::Stdout,
                _ => access_log::Target::File(path),
            },
        },
        format: match spec.format {
            FormatSpec::Json => access_log::Format::Json,
            FormatSpec::Text => access_log::Format::Text,
        },
    }
}
