//! `version = "v1"` of the configuration, as people write it.

mod access;
mod outside;
mod spec;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use daemon::config::{ByteSize, Common, Document, HumanDuration, Problems};
use oci::glob::Glob;
use oci::manifest::Sparse;
use toml::Spanned;

use self::spec::{
    CertificatesSpec, ClientSpec, IndexKindSpec, LimitsSpec, ScrubSpec, SpaceSpec, SparseSpec,
    Spec, SweepSpec,
};
use super::{
    Certificate, Config, DEFAULT_ADMIN, DEFAULT_ROOT, Index, IndexKind, Limits, Quota, Scrub,
    Space, Sweep, Tls, Untagged,
};

/// Threads of the data path; more than this and the kernel's locks are the limit.
const MAX_WORKERS: usize = 256;

/// The default port for clients.
const DEFAULT_PORT: u16 = 5443;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

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
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let workers = match spec.workers {
            0 => cores,
            n => n,
        };
        let tls = self.tls(&spec);
        self.client_certificates(&spec);
        let listen = self.listen(spec.listen);
        let access = self.access(spec.access);
        let is_reachable = listen.iter().any(|address| !address.ip().is_loopback());
        if is_reachable && access.lets_strangers_push() && !spec.read_only {
            self.warnings.push(
                "whoever reaches the registry may push without saying who they are: there is no [access] that asks"
                    .to_owned(),
            );
        }
        if is_reachable && tls.is_none() && access.htpasswd.is_some() {
            self.warnings
                .push("passwords cross the network in plain text".to_owned());
        }
        Config {
            common: Common::new(spec.log, spec.admin, spec.drain, DEFAULT_ADMIN),
            listen,
            tls,
            root: spec.root.unwrap_or_else(|| PathBuf::from(DEFAULT_ROOT)),
            workers: workers.min(MAX_WORKERS),
            read_only: spec.read_only,
            log_requests: spec.log_requests,
            access,
            limits: self.limits(&spec.limits),
            space: self.space(&spec.space),
            sweep: self.sweep(&spec.sweep),
            scrub: self.scrub(&spec.scrub),
            index: Index {
                kind: match spec.index.kind {
                    IndexKindSpec::Sled => IndexKind::Sled,
                    IndexKindSpec::Memory => IndexKind::Memory,
                },
                cache: self.size(spec.index.cache.as_ref(), 64 * MIB, MIB..=64 * GIB),
            },
            cluster: spec.cluster.map(|cluster| self.cluster(cluster)),
            mirrors: self.mirrors(spec.mirror),
            webhooks: self.webhooks(spec.webhook),
            s3: spec.s3.map(|s3| self.s3(s3)),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// Certificates identify clients only if the listener requests one.
    fn client_certificates(&mut self, spec: &Spec) {
        let has_authority = spec
            .tls
            .as_ref()
            .is_some_and(|tls| tls.get_ref().client_ca.is_some());
        if let Some(certificates) = &spec.access.certificates
            && *certificates.get_ref() != CertificatesSpec::None
            && !has_authority
        {
            self.problem(
                certificates.span(),
                "`certificates` needs a `client-ca` in [tls]: nobody could show one",
            );
        }
    }

    fn listen(&mut self, listen: Option<Spanned<Vec<SocketAddr>>>) -> Vec<SocketAddr> {
        let Some(listen) = listen else {
            let any = [
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ];
            return any.map(|ip| SocketAddr::new(ip, DEFAULT_PORT)).into();
        };
        if listen.get_ref().is_empty() {
            self.problem(listen.span(), "there has to be an address to listen on");
        }
        listen.into_inner()
    }

    fn tls(&mut self, spec: &Spec) -> Option<Tls> {
        let plain = spec.plain.as_ref().is_some_and(|plain| *plain.get_ref());
        let Some(tls) = &spec.tls else {
            if !plain {
                let place = spec.plain.as_ref().map_or(0..0, Spanned::span);
                self.problem(
                    place,
                    "there is no certificate: give [tls] certificates, or say `plain = true` to serve in plain text",
                );
            }
            return None;
        };
        if plain {
            self.problem(tls.span(), "`plain = true` and [tls] exclude each other");
        }
        let spec = tls.get_ref();
        if spec.certificates.is_empty() {
            self.problem(tls.span(), "[tls] needs at least one of `certificates`");
        }
        if spec.client_ca.is_none() && spec.client_certificates == ClientSpec::Required {
            self.problem(
                tls.span(),
                "`client-certificates = \"required\"` needs a `client-ca`",
            );
        }
        let certificates = spec.certificates.iter().map(|one| Certificate {
            certificate: one.certificate.clone(),
            key: one.key.clone(),
            names: one
                .names
                .iter()
                .filter_map(|name| self.host_name(name))
                .collect(),
        });
        Some(Tls {
            certificates: certificates.collect(),
            client_ca: spec.client_ca.clone(),
            client_required: spec.client_certificates == ClientSpec::Required,
            http2: spec.http2.unwrap_or(true),
        })
    }

    /// A name as TLS clients send it (RFC 6066 §3), or a pattern `*.NAME`.
    fn host_name(&mut self, name: &Spanned<String>) -> Option<String> {
        let text = name.get_ref().trim_end_matches('.').to_ascii_lowercase();
        let labels = text.strip_prefix("*.").unwrap_or(&text);
        let is_label = |label: &str| {
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=63).contains(&label.len()) && label.bytes().all(is_known)
        };
        if labels.split('.').all(is_label) && text.len() <= 253 {
            return Some(text);
        }
        self.problem(name.span(), "that is no host name");
        None
    }

    fn limits(&mut self, spec: &LimitsSpec) -> Limits {
        let hour = Duration::from_hours(1);
        let time = Duration::from_millis(100)..=hour;
        Limits {
            manifest: self.size(spec.manifest.as_ref(), 8 * MIB, 64 << 10..=64 * MIB),
            blob: spec
                .blob
                .as_ref()
                .map(|blob| self.size(Some(blob), 0, MIB..=u64::MAX)),
            uploads: self.count(spec.uploads.as_ref(), 256),
            connections: self.count(spec.connections.as_ref(), 10_000),
            head: self.time(
                spec.head_timeout.as_ref(),
                Duration::from_secs(10),
                time.clone(),
            ),
            body: self.time(
                spec.body_timeout.as_ref(),
                Duration::from_mins(1),
                time.clone(),
            ),
            idle: self.time(spec.idle_timeout.as_ref(), Duration::from_mins(2), time),
            sparse: match spec.sparse {
                SparseSpec::Refused => Sparse::Refused,
                SparseSpec::Indexes => Sparse::Indexes,
                SparseSpec::All => Sparse::All,
            },
        }
    }

    fn space(&mut self, spec: &SpaceSpec) -> Space {
        let warn = spec.warn.as_ref().map_or(85, |warn| *warn.get_ref());
        let stop = spec.stop.as_ref().map_or(95, |stop| *stop.get_ref());
        for percent in [&spec.warn, &spec.stop].into_iter().flatten() {
            if !(1..=100).contains(percent.get_ref()) {
                self.problem(percent.span(), "a percentage is from 1 to 100");
            }
        }
        if warn > stop
            && let Some(place) = spec.warn.as_ref().or(spec.stop.as_ref())
        {
            self.problem(place.span(), "`warn` has to come before `stop`");
        }
        let mut quotas = Vec::new();
        for quota in &spec.quota {
            let (text, place) = (quota.repositories.get_ref(), quota.repositories.span());
            quotas.extend(self.glob(text, place).map(|repositories| Quota {
                repositories,
                size: quota.size.0,
            }));
        }
        Space {
            warn,
            stop,
            free: spec.free.map_or(2 * GIB, |free| free.0),
            reserve: spec.reserve.map_or(64 * MIB, |reserve| reserve.0),
            quotas,
        }
    }

    fn sweep(&mut self, spec: &SweepSpec) -> Sweep {
        let any = Duration::ZERO..=Duration::from_hours(24 * 365);
        let hour = Duration::from_hours(1);
        Sweep {
            interval: self.interval(spec.interval.as_ref(), hour * 6),
            grace: self.time(spec.grace.as_ref(), hour * 2, any.clone()),
            trash: self.time(spec.trash.as_ref(), hour * 24, any.clone()),
            untagged: match spec.untagged {
                spec::UntaggedSpec::Keep => Untagged::Keep,
                spec::UntaggedSpec::Delete => Untagged::Delete,
            },
            uploads: self.time(spec.uploads.as_ref(), hour * 24, any),
        }
    }

    fn scrub(&mut self, spec: &ScrubSpec) -> Scrub {
        Scrub {
            interval: self.interval(spec.interval.as_ref(), Duration::from_hours(24 * 7)),
            rate: self.size(spec.rate.as_ref(), 32 * MIB, 64 << 10..=u64::MAX),
        }
    }

    //--- Values

    /// A duration, or `"never"`.
    fn interval(&mut self, text: Option<&Spanned<String>>, default: Duration) -> Option<Duration> {
        let Some(text) = text else {
            return Some(default);
        };
        if text.get_ref() == "never" {
            return None;
        }
        match text.get_ref().parse::<HumanDuration>() {
            Ok(interval) if interval.0 >= Duration::from_secs(1) => Some(interval.0),
            Ok(_) => {
                self.problem(text.span(), "once a second is the most; or \"never\"");
                None
            }
            Err(error) => {
                self.problem(text.span(), format!("{error}; or \"never\""));
                None
            }
        }
    }

    fn time(
        &mut self,
        time: Option<&Spanned<HumanDuration>>,
        default: Duration,
        bounds: std::ops::RangeInclusive<Duration>,
    ) -> Duration {
        let Some(time) = time else { return default };
        let value = time.get_ref().0;
        if !bounds.contains(&value) {
            let (low, high) = (HumanDuration(*bounds.start()), HumanDuration(*bounds.end()));
            self.problem(time.span(), format!("has to be from {low} to {high}"));
        }
        value
    }

    fn size(
        &mut self,
        size: Option<&Spanned<ByteSize>>,
        default: u64,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> u64 {
        let Some(size) = size else { return default };
        let value = size.get_ref().0;
        if value < *bounds.start() {
            let low = ByteSize(*bounds.start());
            self.problem(size.span(), format!("has to be at least {low}"));
        } else if value > *bounds.end() {
            let high = ByteSize(*bounds.end());
            self.problem(size.span(), format!("has to be at most {high}"));
        }
        value
    }

    fn count(&mut self, count: Option<&Spanned<usize>>, default: usize) -> usize {
        let Some(count) = count else { return default };
        if *count.get_ref() == 0 {
            self.problem(count.span(), "with 0 nothing could be served");
        }
        *count.get_ref()
    }

    fn glob(&mut self, text: &str, place: Range<usize>) -> Option<Glob> {
        match Glob::parse(text) {
            Ok(glob) => Some(glob),
            Err(error) => {
                self.problem(place, error.to_string());
                None
            }
        }
    }

    fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problems.push(self.document.problem(span, message));
    }
}
