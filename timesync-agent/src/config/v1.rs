//! `version = "v1"` of the configuration, as people write it.

mod clock;
mod refclock;
mod server;
mod spec;
mod value;

use config_text::Files;
use daemon::config::{Common, Document, Problems};
use proto::endpoint::Endpoint;

use self::spec::{FamilySpec, HealthSpec, SourceSpec, Spec};
use super::{Config, DEFAULT_ADMIN, host_name};

use time_model::settings::{
    Connectivity, DEFAULT_POOL_SOURCES, Family, Host, MAX_POLL, MAX_POOL_SOURCES, MAX_STRATUM,
    MIN_POLL, SelectOptions, Settings, SourceOptions, SourceSettings,
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
        // The values of this file override those of a chrony.conf.
        let mut settings = Settings::default();
        if let Some(path) = &spec.chrony_conf {
            match peer_chrony::parse(path.get_ref(), files) {
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
        let (more, odd) = peer_chrony::parse_source_directories(&spec.source_directories, files);
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
        let stratum = &mut to.min_stratum;
        self.int(spec.minstratum.as_ref(), 0..=MAX_STRATUM.into(), stratum);
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
