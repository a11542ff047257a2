//! The `status`: JSON from the running server, and lines for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use api::Status;
use api::dns_recursor::{
    Answers, Cache, CacheFile, Cluster, Detail, Dnssec, Dnstap, Fitness, ManagedZone, Names,
    QueryLog, Recursion, Upstream, Zone,
};
use config_text::counted;
use daemon::calendar::Timestamp;
use daemon::config::HumanDuration;
use daemon::run::headline;
use dns_cache::cache::Usage;
use dns_cache::instant::Instant;
use dns_front::front::Source;
use dns_resolve::forward::{self, DnssecMode, ForwardMode, Mode, Table};
use dns_resolve::resolver::UpstreamView;
use dns_wire::Name;

use crate::driver::Observed;
use crate::totals::Sum;

/// The inputs of the status.
#[derive(Debug)]
pub struct Report<'a> {
    /// The counters of the threads.
    pub sum: Sum,
    pub usage: Usage,
    /// The counters of the driver.
    pub observed: Observed,
    pub table: &'a Table,
    /// The part of the routes that the cluster has.
    pub joining: &'a BTreeSet<Name>,
    /// The cluster, if its forwards are learned.
    pub cluster: Option<Cluster>,
    /// Whether healthd is connected; `None` when it is not used.
    pub healthd: Option<bool>,
    /// The cache on disk, if there is one.
    pub file: Option<CacheFile>,
    /// The names of the configuration and of files, if there are any.
    pub names: Option<Names>,
    /// The query log, and dnstap if there is one.
    pub watch: (QueryLog, Option<Dnstap>),
    /// The zones whose keys are followed.
    pub managed: Vec<ManagedZone>,
    /// The time.
    pub now: Instant,
}

impl Report<'_> {
    /// The detail of the status.
    #[must_use]
    pub fn detail(&self) -> Detail {
        let source = |source| self.sum.from_source(source);
        let zones = self.table.routes().map(|route| Zone {
            zone: route.zone.to_string(),
            mode: answers_from(route.source).to_owned(),
            recursive: route.mode == Mode::Recursive,
            down: route.is_down(),
            dnssec: mode(route.dnssec).to_owned(),
            upstreams: route.upstreams.iter().map(ToString::to_string).collect(),
            learned: self.joining.contains(&route.zone),
        });
        let upstreams = self.observed.upstreams.iter();
        let upstreams = upstreams.map(|view| upstream(view, self.now));
        Detail {
            queries: self.sum.n_requests(),
            answers: Answers {
                cache: source(Source::Positive) + source(Source::Negative),
                stale: source(Source::Stale),
                resolved: source(Source::Resolver),
                local: source(Source::Local),
                names: source(Source::Names),
                policy: source(Source::Policy),
                dns64: source(Source::Dns64),
            },
            cache: Cache {
                positive: self.usage.entries[0],
                negative: self.usage.entries[1],
                bytes: self.usage.octets[0] + self.usage.octets[1],
            },
            dnssec: self.dnssec(),
            recursion: self.recursion(),
            names: self.names.clone(),
            questions_under_way: self.observed.n_flights,
            zones: zones.collect(),
            upstreams: upstreams.collect(),
            healthd_connected: self.healthd,
            cache_file: self.file.clone(),
            cluster: self.cluster.clone(),
            query_log: {
                let (log, _) = &self.watch;
                let is_told = log.enabled || log.seconds_left.is_some();
                is_told.then(|| log.clone())
            },
            dnstap: self.watch.1.clone(),
        }
    }

    fn recursion(&self) -> Option<Recursion> {
        let mut routes = self.table.routes();
        let is_used = routes.any(|route| route.source != ForwardMode::Forward);
        let known = self.observed.known;
        is_used.then(|| Recursion {
            root_servers: known
                .root_servers
                .unwrap_or_else(|| self.table.root().len()),
            primed: known.root_servers.is_some(),
            delegations: known.delegations,
        })
    }

    fn dnssec(&self) -> Option<Dnssec> {
        let anchors = self.table.anchors();
        let validated = self.observed.counts.validated;
        let is_used = self.table.routes().any(|route| route.validates());
        is_used.then(|| Dnssec {
            trust_anchors: anchors.zones().map(Name::to_string).collect(),
            managed: self.managed.clone(),
            negative_trust_anchors: anchors.negative_zones().map(negative_anchor).collect(),
            known_zones: self.observed.known.zones,
            denials: self.observed.known.denials,
            denied: self.observed.counts.denied,
            secure: validated.secure,
            insecure: validated.insecure,
            bogus: validated.bogus,
            indeterminate: validated.indeterminate,
        })
    }
}

/// A negative trust anchor, as the configuration has it.
fn negative_anchor((zone, end): (&Name, Option<u64>)) -> String {
    match end {
        None => zone.to_string(),
        Some(end) => {
            let end = Timestamp(UNIX_EPOCH + Duration::from_secs(end));
            format!("{zone} until {end}")
        }
    }
}

/// An upstream.
pub(crate) fn upstream(view: &UpstreamView, now: Instant) -> Upstream {
    Upstream {
        address: view.address.to_string(),
        state: fitness(view.fitness),
        why: view.absence.map(|why| why.to_string()),
        since_seconds: now.since(view.since).as_secs(),
        round_trip_ms: view.round_trip.map(|time| time.as_secs_f64() * 1e3),
    }
}

/// The configuration's word for a mode.
pub(crate) const fn mode(mode: DnssecMode) -> &'static str {
    match mode {
        DnssecMode::Off => "off",
        DnssecMode::Process => "process",
        DnssecMode::Validate => "validate",
    }
}

/// The configuration's word for the source of answers.
const fn answers_from(mode: ForwardMode) -> &'static str {
    match mode {
        ForwardMode::Forward => "forward",
        ForwardMode::ForwardFirst => "forward-first",
        ForwardMode::Recurse => "recurse",
    }
}

const fn fitness(fitness: forward::Fitness) -> Fitness {
    match fitness {
        forward::Fitness::Good => Fitness::Good,
        forward::Fitness::Doubtful => Fitness::Doubtful,
        forward::Fitness::Absent => Fitness::Absent,
    }
}

/// The status of a running server, in lines.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    if let Some(detail) = &status.detail {
        // Writing to a string does not fail.
        let _written = write_detail(&mut text, detail);
    }
    text
}

fn write_file(text: &mut String, file: &CacheFile) -> std::fmt::Result {
    let restored = counted(file.restored, "entry");
    write!(text, "cache file {}: {restored} read", file.path)?;
    match file.written_seconds_ago {
        Some(ago) => writeln!(text, ", {} written {ago} s ago", file.entries)?,
        None => writeln!(text, ", not written yet")?,
    }
    match &file.problem {
        Some(problem) => writeln!(text, "  PROBLEM: {problem}"),
        None => Ok(()),
    }
}

fn write_names(text: &mut String, names: &Names, answers: &Answers) -> std::fmt::Result {
    writeln!(
        text,
        "names: {} of the configuration, {} of hosts files; {} answers, {} by response policies",
        names.given, names.hosts, answers.names, answers.policy,
    )?;
    for file in &names.files {
        let (kind, what) = match file.is_policy {
            true => ("response policy", "rule"),
            false => ("hosts file", "line"),
        };
        write!(
            text,
            "  {kind} {}: {}",
            file.path,
            counted(file.entries, what)
        )?;
        match file.left_out {
            0 => text.push('\n'),
            left_out => writeln!(text, ", {left_out} LEFT OUT")?,
        }
        if let Some(problem) = &file.problem {
            writeln!(text, "    PROBLEM: {problem}")?;
        }
    }
    match names.down.is_empty() {
        true => Ok(()),
        false => writeln!(
            text,
            "  left out, for they are down: {}",
            names.down.join(" ")
        ),
    }
}

fn write_dnssec(text: &mut String, dnssec: &Dnssec) -> std::fmt::Result {
    writeln!(
        text,
        "validated: {} secure, {} insecure, {} bogus, {} indeterminate; {} known; trust anchors: {}",
        dnssec.secure,
        dnssec.insecure,
        dnssec.bogus,
        dnssec.indeterminate,
        counted(dnssec.known_zones, "zone"),
        dnssec.trust_anchors.join(" "),
    )?;
    writeln!(
        text,
        "denied: {} by {}",
        counted(
            usize::try_from(dnssec.denied).unwrap_or(usize::MAX),
            "answer"
        ),
        counted(dnssec.denials, "signed denial"),
    )?;
    for zone in &dnssec.managed {
        write_managed(text, zone)?;
    }
    match dnssec.negative_trust_anchors.as_slice() {
        [] => Ok(()),
        negative => writeln!(text, "not validated: {}", negative.join(", ")),
    }
}

/// A zone whose keys are followed, and each of its keys.
fn write_managed(text: &mut String, managed: &ManagedZone) -> std::fmt::Result {
    let span = |seconds: u64| HumanDuration(Duration::from_secs(seconds));
    let heard = match managed.heard_at {
        Some(at) => {
            let at = Timestamp(UNIX_EPOCH + Duration::from_secs(at));
            format!("last taken at {at}")
        }
        None => "not taken yet".to_owned(),
    };
    writeln!(
        text,
        "keys of {}: {heard}, asked for again in {}",
        managed.zone,
        span(managed.next_in_seconds)
    )?;
    for key in &managed.keys {
        let state = match key.left_seconds {
            Some(left) => format!("{}, counts in {}", key.state, span(left)),
            None => key.state.clone(),
        };
        writeln!(
            text,
            "  key {} (algorithm {}): {state}",
            key.tag, key.algorithm
        )?;
    }
    match &managed.problem {
        Some(problem) => writeln!(text, "  PROBLEM: {problem}"),
        None => Ok(()),
    }
}

fn write_recursion(text: &mut String, recursion: &Recursion) -> std::fmt::Result {
    let source = match recursion.primed {
        true => "as one of them has named them",
        false => "by the hints",
    };
    writeln!(
        text,
        "recursion: the root's servers have {}, {source}; the servers of {} are known",
        counted(recursion.root_servers, "address"),
        counted(recursion.delegations, "delegated zone"),
    )
}

fn write_zones(text: &mut String, zones: &[Zone]) -> std::fmt::Result {
    for zone in zones {
        let down = match zone.down {
            true => "  NO UPSTREAM ANSWERS",
            false => "",
        };
        let dnssec = match zone.dnssec.as_str() {
            "" | "off" => String::new(),
            mode => format!(", dnssec {mode}"),
        };
        let kind = match (zone.mode.as_str(), zone.recursive) {
            ("recurse", _) => "from the root downwards",
            ("forward-first", _) => "else from the root downwards",
            (_, true) => "recursive",
            (_, false) => "authoritative",
        };
        let to = match zone.upstreams.is_empty() {
            true => String::new(),
            false => format!(" to {}", zone.upstreams.join(" ")),
        };
        let learned = match zone.learned {
            true => ", learned",
            false => "",
        };
        writeln!(
            text,
            "zone {}{to} ({kind}{dnssec}{learned}){down}",
            zone.zone
        )?;
    }
    Ok(())
}

fn write_cluster(text: &mut String, cluster: &Cluster) -> std::fmt::Result {
    let connection = match cluster.connected {
        true => "connected".to_owned(),
        false => format!("AWAY ({})", cluster.error),
    };
    let zones = match cluster.zones.is_empty() {
        true => "forwards nothing".to_owned(),
        false => format!("forwards {}", cluster.zones.join(" ")),
    };
    let freshness = match cluster.saved {
        true => "the OLD one of the disk",
        false => cluster.freshness.as_str(),
    };
    writeln!(
        text,
        "clusterd {connection}: the cluster's DNS object is {freshness}, {zones}"
    )?;
    if let Some(problem) = &cluster.problem {
        writeln!(text, "  NOT FOLLOWED as it is now: {problem}")?;
    }
    for remark in &cluster.remarks {
        writeln!(text, "  {remark}")?;
    }
    Ok(())
}

fn write_query_log(text: &mut String, log: &QueryLog) -> std::fmt::Result {
    match log.enabled {
        true => write!(text, "query log: {}", log.classes.join(" "))?,
        false => text.push_str("query log: OFF"),
    }
    if let Some(left) = log.seconds_left {
        let left = HumanDuration(Duration::from_secs(left));
        write!(text, " for another {left}, by command")?;
    }
    let n = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let lines = counted(n(log.lines), "line");
    writeln!(text, "; {lines}, {} left out", log.left_out)
}

fn write_dnstap(text: &mut String, dnstap: &Dnstap) -> std::fmt::Result {
    let state = match dnstap.open {
        true => "",
        false => " IS AWAY",
    };
    let n = usize::try_from(dnstap.written).unwrap_or(usize::MAX);
    let written = counted(n, "message");
    writeln!(
        text,
        "dnstap to {}{state}: {written}, {} dropped",
        dnstap.to, dnstap.dropped
    )
}

fn write_detail(text: &mut String, detail: &Detail) -> std::fmt::Result {
    let answers = &detail.answers;
    writeln!(
        text,
        "queries {}: {} from the cache, {} stale, {} resolved, {} local",
        detail.queries, answers.cache, answers.stale, answers.resolved, answers.local,
    )?;
    let cache = &detail.cache;
    writeln!(
        text,
        "cache: {} and {} in {} KiB",
        counted(cache.positive, "answer"),
        counted(cache.negative, "denial"),
        cache.bytes.div_ceil(1024),
    )?;
    if let Some(file) = &detail.cache_file {
        write_file(text, file)?;
    }
    if let Some(names) = &detail.names {
        write_names(text, names, answers)?;
    }
    write_zones(text, &detail.zones)?;
    if let Some(cluster) = &detail.cluster {
        write_cluster(text, cluster)?;
    }
    if let Some(recursion) = &detail.recursion {
        write_recursion(text, recursion)?;
    }
    if let Some(dnssec) = &detail.dnssec {
        write_dnssec(text, dnssec)?;
    }
    for upstream in &detail.upstreams {
        let since = Duration::from_secs(upstream.since_seconds);
        write!(
            text,
            "upstream {} {} for {}",
            upstream.address,
            upstream.state.name(),
            HumanDuration(since)
        )?;
        if let Some(why) = &upstream.why {
            write!(text, ": {why}")?;
        }
        if let Some(millis) = upstream.round_trip_ms {
            write!(text, ", {millis:.1} ms away")?;
        }
        text.push('\n');
    }
    if let Some(log) = &detail.query_log {
        write_query_log(text, log)?;
    }
    if let Some(dnstap) = &detail.dnstap {
        write_dnstap(text, dnstap)?;
    }
    match detail.healthd_connected {
        Some(true) => writeln!(text, "healthd is connected"),
        Some(false) => writeln!(
            text,
            "healthd is NOT connected; this server probes the upstreams"
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use api::dns_recursor::{ManagedKey, NameFile};
    use dns_resolve::forward::Route;
    use dns_resolve::upstream_state::Absence;

    #[test]
    #[expect(
        clippy::too_many_lines,
        reason = "a status with every part, and its lines"
    )]
    fn people_see_what_is_wrong() {
        let address = "127.0.0.1:5301".parse().unwrap();
        let mut route = Route::new(
            Name::parse("ocp4.redhat.ren").unwrap(),
            Mode::Authoritative,
            vec![address],
        );
        route.dnssec = DnssecMode::Validate;
        route.set_down(true);
        let table = Table::new([route]);
        let report = Report {
            sum: Sum::default(),
            usage: Usage {
                entries: [3, 1],
                octets: [2000, 500],
                evictions: [0, 0],
            },
            observed: Observed {
                upstreams: vec![UpstreamView {
                    address,
                    fitness: forward::Fitness::Absent,
                    absence: Some(Absence::Refused),
                    since: Instant::from_millis(1_000),
                    round_trip: Some(Duration::from_micros(250)),
                }],
                responses: BTreeMap::new(),
                ..Observed::default()
            },
            table: &table,
            joining: &BTreeSet::new(),
            cluster: None,
            healthd: Some(false),
            managed: vec![ManagedZone {
                zone: ".".to_owned(),
                keys: vec![ManagedKey {
                    tag: 38696,
                    algorithm: 8,
                    state: "pending".to_owned(),
                    left_seconds: Some(90_000),
                }],
                heard_at: Some(1_800_000_000),
                next_in_seconds: 3_600,
                problem: Some("no trusted key has signed the keys".to_owned()),
                ..ManagedZone::default()
            }],
            now: Instant::from_millis(66_000),
            file: None,
            names: Some(Names {
                given: 2,
                hosts: 3,
                files: vec![NameFile {
                    path: "/etc/rpz".to_owned(),
                    is_policy: true,
                    entries: 1,
                    left_out: 4,
                    problem: Some("/etc/rpz:2:1: why".to_owned()),
                    ..NameFile::default()
                }],
                down: vec!["192.0.2.1:443".to_owned()],
            }),
            watch: (
                QueryLog {
                    classes: vec!["all".to_owned()],
                    seconds_left: Some(90),
                    lines: 1,
                    left_out: 7,
                    ..QueryLog::default()
                },
                Some(Dnstap {
                    to: "/run/tap".to_owned(),
                    written: 2,
                    dropped: 3,
                    ..Dnstap::default()
                }),
            ),
        };
        let status = Status::serving("dns-recursor", report.detail());
        let text = render(&status);
        for line in [
            "queries 0: 0 from the cache, 0 stale, 0 resolved, 0 local",
            "cache: 3 answers and 1 denial in 3 KiB",
            "names: 2 of the configuration, 3 of hosts files; 0 answers, 0 by response policies",
            "  response policy /etc/rpz: 1 rule, 4 LEFT OUT",
            "    PROBLEM: /etc/rpz:2:1: why",
            "  left out, for they are down: 192.0.2.1:443",
            "keys of .: last taken at 2027-01-15T08:00:00.000Z, asked for again in 1h",
            "  key 38696 (algorithm 8): pending, counts in 1d1h",
            "  PROBLEM: no trusted key has signed the keys",
            "zone ocp4.redhat.ren. to 127.0.0.1:5301 (authoritative, dnssec validate)  NO UPSTREAM ANSWERS",
            "upstream 127.0.0.1:5301 absent for 1m5s: its port is closed, 0.2 ms away",
            "query log: OFF for another 1m30s, by command; 1 line, 7 left out",
            "dnstap to /run/tap IS AWAY: 2 messages, 3 dropped",
            "healthd is NOT connected; this server probes the upstreams",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
