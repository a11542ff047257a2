//! The configuration: the file, and what it comes to.

mod upstreams;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::config::dns_recursor::{self as file, ADMIN_PORT, DnsRecursor, QueryLog};
use ::config::{Address, Check, Document, LogLevel, Networks, Problem, Problems, Step, at};
use config_text::counted;
use daemon::acl::{self, Cidrs};
use daemon::calendar::Timestamp;
use daemon::clock;
use daemon::config::Common;
use daemon::tls::CertificateFiles;
use dns_cookie::Cookies;
use dns_front::local::Local;
use dns_iterate::hints;
use dns_names::names::{Given, GivenData, HostsOptions};
use dns_names::policy;
use dns_resolve::forward::{DnssecMode, ForwardMode, Mode, Policy, Protocol, Route, Table};
use dns_rewrite::{Rewrites, Rule};
use dns_validate::anchors::ROOT;
use dns_validate::{Anchor, Anchors};
use dns_wire::Name;
use dns64::{Dns64, PrefixError};
use ipnet::{IpNet, Ipv6Net};

use crate::names::{Contents, NamePlan, PolicyFile};
pub use upstreams::{Servers, StreamUpstream, read as read_upstreams};

/// The address of the admin listener unless the configuration has another.
pub const DEFAULT_ADMIN: SocketAddr = Address::loopback(ADMIN_PORT).0;

/// The most threads for datagrams: with more, locks in the kernel are the limit.
const MAX_THREADS: usize = 64;

/// The most rules that change questions.
const MAX_REWRITES: usize = 1000;
/// The most prefixes of DNS64: answers grow with each.
const MAX_PREFIXES: usize = 8;

/// The configuration of one server.
#[derive(Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: DnsRecursor,
    /// The clients that get answers.
    pub allow: Allow,
    /// The zones and their servers.
    pub forwards: Vec<Forward>,
    /// The upstreams with connections, as they are written.
    pub streams: Vec<StreamUpstream>,
    /// The same, with what their files hold.
    pub servers: Servers,
    /// The addresses that queries to upstreams leave from.
    pub source: Source,
    /// The trust anchors, with those that trust begins with in zones whose keys are followed.
    pub anchors: Anchors,
    /// The zones whose keys are followed.
    pub managed: Managed,
    /// The addresses of the root's servers.
    pub root: Vec<IpAddr>,
    /// The rules that change questions.
    pub rewrites: Arc<Rewrites>,
    /// The making of AAAA records from A records.
    pub dns64: Option<Arc<Dns64>>,
    /// The answer to cookies.
    pub cookies: Option<Arc<Cookies>>,
    /// The names that the configuration has.
    pub names: NamePlan,
    /// The content of their files.
    pub contents: Contents,
    /// Settings that are understood, but odd.
    pub warnings: Vec<Problem>,
}

/// The source addresses of queries to upstreams; unspecified is the kernel's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// To IPv4 upstreams.
    pub v4: Ipv4Addr,
    /// To IPv6 upstreams.
    pub v6: Ipv6Addr,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            v4: Ipv4Addr::UNSPECIFIED,
            v6: Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// The clients that get answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// Loopback and the private networks that the node has at the time.
    Local,
    /// These.
    Listed(Cidrs),
}

impl Allow {
    /// The current networks.
    #[must_use]
    pub fn networks(&self) -> Cidrs {
        match self {
            Self::Local => acl::local_networks()
                .into_iter()
                .filter(is_private)
                .collect(),
            Self::Listed(networks) => networks.clone(),
        }
    }
}

/// Whether a network is private: only the site's own clients can be in it (RFC 1918, RFC 6598, RFC 3927,
/// RFC 4193, loopback and link-local).
fn is_private(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => {
            let address = network.network();
            let shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
            let wide_enough = network.prefix_len() >= 8;
            wide_enough
                && (address.is_private()
                    || address.is_loopback()
                    || address.is_link_local()
                    || shared)
        }
        IpNet::V6(network) => {
            let address = network.network();
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

/// A zone and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The zone's apex.
    pub zone: Name,
    pub mode: Mode,
    /// The source of answers.
    pub source: ForwardMode,
    /// The upstreams.
    pub upstreams: Vec<SocketAddr>,
    /// The order of the upstreams.
    pub policy: Policy,
    /// The transport.
    pub protocol: Protocol,
    /// Whether the AD bit is passed on.
    pub trust_ad: bool,
    /// Whether answers are validated; the zone's own setting, if it has one.
    pub dnssec: Option<DnssecMode>,
    /// How long a client waits before it gets a stale answer; the zone's own setting, if it has one.
    pub stale_wait: Option<Duration>,
    /// How long the last good answer wins over a denial.
    pub keep_last_good: Duration,
}

/// The zones whose keys are followed (RFC 5011).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The directory of what was learned of them; none if no zone is followed.
    pub directory: Option<PathBuf>,
    /// The keys that trust begins with, by zone.
    pub initial: Initial,
    /// How long a new key is seen before it counts.
    pub add_holddown: Duration,
    /// How long a revoked key is kept.
    pub del_holddown: Duration,
    /// How long a missing key stays trusted; none for ever.
    pub keep_missing: Option<Duration>,
}

/// The keys that trust begins with, by zone.
pub type Initial = BTreeMap<Name, Vec<Anchor>>;

/// The trust anchors of zones whose keys are followed, as they are; none of a zone that has lost all.
pub type Followed = BTreeMap<Name, Vec<Anchor>>;

impl Managed {
    fn of(file: &file::Dnssec, initial: Initial) -> Self {
        Self {
            directory: file.managed_keys_directory.clone(),
            initial,
            add_holddown: *file.add_holddown,
            del_holddown: *file.del_holddown,
            keep_missing: Some(file.keep_missing.0).filter(|it| !it.is_zero()),
        }
    }
}

/// The part of a configuration that the cluster has.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The zones and their servers.
    pub forwards: Vec<Forward>,
    /// Their upstreams with connections.
    pub servers: Servers,
    /// The longest TTLs of answers and of denials; `None` for no other than the configuration's.
    pub max_ttls: Option<(::config::HumanDuration, ::config::HumanDuration)>,
    /// The query log that its log level asks for; none for that of the configuration alone.
    pub query_log: Option<QueryLog>,
    /// Parts of the object that have no effect.
    pub remarks: Vec<String>,
}

impl Config {
    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_document(document: &Document) -> Result<Self, Problems> {
        let (mut forwards, mut source) = (Vec::new(), Source::default());
        let (mut anchors, mut streams) = (Anchors::default(), Vec::new());
        let mut initial = Initial::new();
        let mut warnings = Vec::new();
        let mut names = NamePlan::default();
        let mut dns64 = None;
        let mut rewrites = Vec::new();
        let file = document.parse_with(|file: &DnsRecursor, check| {
            source = sources(file, check);
            forwards = forwarded(file, check);
            streams = upstreams::of(file, check);
            (anchors, initial) = trusted(file, &forwards, check);
            warnings.extend(unused(file, &forwards, &anchors, check));
            without_effect(file, check);
            if file.lameduck.0 >= file.drain.0 && !file.lameduck.0.is_zero() {
                let message = "as long as `drain`, of which it is a part";
                check.problem(&at!["lameduck"], message);
            }
            if let Some(tls) = file.tls.as_ref().filter(|tls| !tls.is_path()) {
                let path = &tls.doh_path;
                let message = format!("doh-path is the path of a URL, as /dns-query, not `{path}`");
                check.problem(&at!["tls", "doh-path"], message);
            }
            records(file, check, &mut warnings);
            names = name_plan(file, check);
            rewrites = rules(file, check);
            dns64 = file.dns64.as_ref().map(|it| translation(it, check));
            warnings.extend(unprobed(file, check));
            warnings.extend(odd_networks(file, check));
        })?;
        Ok(Self {
            common: Common::of(file.log, file.admin, file.drain),
            allow: match &file.allow_from {
                None => Allow::Local,
                Some(listed) => Allow::Listed(listed.0.clone()),
            },
            forwards,
            streams,
            servers: Servers::default(),
            source,
            anchors,
            managed: Managed::of(&file.dnssec, initial),
            root: hints::public(),
            rewrites: Arc::new(Rewrites::new(rewrites)),
            dns64: dns64.map(Arc::new),
            cookies: None,
            names,
            contents: Contents::default(),
            warnings,
            file,
        })
    }

    /// The routes. All upstreams begin as healthy.
    #[must_use]
    pub fn table(&self) -> Table {
        self.table_with(&Learned::default(), &Followed::new())
    }

    /// The query log: that of the configuration, and else that of the cluster.
    #[must_use]
    pub fn query_log<'l>(&'l self, learned: &'l Learned) -> &'l QueryLog {
        let own = &self.file.query_log;
        let learned = learned.query_log.as_ref();
        learned.filter(|_| !own.enabled).unwrap_or(own)
    }

    /// The zones of the cluster that the configuration does not forward itself.
    pub fn joining<'l>(&'l self, learned: &'l Learned) -> impl Iterator<Item = &'l Forward> {
        let is_written = |zone: &Name| self.forwards.iter().any(|own| own.zone == *zone);
        let learned = learned.forwards.iter();
        learned.filter(move |forward| !is_written(&forward.zone))
    }

    /// The routes with those that the cluster has, and with the trust anchors of zones whose keys are followed.
    #[must_use]
    pub fn table_with(&self, learned: &Learned, followed: &Followed) -> Table {
        let followed = followed
            .iter()
            .filter(|(zone, _)| self.managed.initial.contains_key(*zone));
        let anchors = followed.fold(self.anchors.clone(), |anchors, (zone, theirs)| {
            anchors.with_zone(zone, theirs.clone())
        });
        // A zone with upstreams of its own is known to the site alone, and the zone above would deny it.
        let private = self.joining(learned).filter(|forward| !is_public(forward));
        let private = private.filter(|forward| !self.anchors.has(&forward.zone));
        let anchors = private.fold(anchors, |anchors, forward| anchors.without(&forward.zone));
        let routes = self.forwards.iter().chain(self.joining(learned));
        let routes = routes.map(|forward| {
            let zone = forward.zone.clone();
            let mut route = Route::new(zone, forward.mode, forward.upstreams.clone());
            route.source = forward.source;
            route.policy = forward.policy;
            route.protocol = forward.protocol;
            route.trust_ad = forward.trust_ad;
            route.dnssec = validation(&self.file, &self.anchors, forward);
            let outside = is_public(forward).then_some(self.file.stale.wait_outside.0);
            route.stale_wait = forward.stale_wait.or(outside);
            route.keep_last_good = forward.keep_last_good;
            route
        });
        Table::new(routes)
            .with_local(self.local().zones().cloned())
            .with_anchors(anchors)
            .with_root(self.root.clone())
    }

    /// The local names.
    #[must_use]
    pub fn local(&self) -> Local {
        Local::new(&self.file.local)
    }

    /// The number of threads for datagrams.
    #[must_use]
    pub fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        match self.file.threads {
            0 => cores,
            threads => threads,
        }
        .min(MAX_THREADS)
    }

    /// The addresses to listen on.
    #[must_use]
    pub fn listen(&self) -> Vec<SocketAddr> {
        self.file.listen.iter().map(|address| address.0).collect()
    }

    /// Every upstream, once.
    #[must_use]
    pub fn upstreams(&self) -> Vec<SocketAddr> {
        let all = self.forwards.iter().flat_map(|forward| &forward.upstreams);
        let mut upstreams: Vec<SocketAddr> = all.copied().collect();
        upstreams.sort_unstable();
        upstreams.dedup();
        upstreams
    }

    /// A summary of the configuration in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let zones: Vec<String> = self.forwards.iter().map(|f| f.zone.to_string()).collect();
        match zones.as_slice() {
            [] => "nothing is forwarded".to_owned(),
            zones => format!(
                "{} for {}: {}",
                counted(self.upstreams().len(), "upstream"),
                counted(zones.len(), "zone"),
                zones.join(" ")
            ),
        }
    }
}

/// Whether a zone is the internet's: its chain of trust begins at the root.
fn is_public(forward: &Forward) -> bool {
    forward.zone.is_root() || forward.source == ForwardMode::Recurse
}

/// The mode of validation of a zone.
fn validation(file: &DnsRecursor, anchors: &Anchors, forward: &Forward) -> DnssecMode {
    match forward.dnssec {
        Some(own) => own,
        None if is_public(forward) || anchors.has(&forward.zone) => file.dnssec.mode,
        None => DnssecMode::Off,
    }
}

/// The files of the certificate.
#[must_use]
pub fn certificate(tls: &file::Tls) -> CertificateFiles {
    CertificateFiles::new(&tls.certificate, &tls.key)
}

//--- Names

/// The names of the configuration.
fn name_plan(file: &DnsRecursor, check: &mut Check<'_>) -> NamePlan {
    let mut known = BTreeSet::new();
    let mut given = Vec::new();
    for (index, name) in file.name.iter().enumerate() {
        let Some(one) = given_name(index, name, check) else {
            continue;
        };
        if !known.insert((one.name.to_lowercase(), one.is_below)) {
            let message = format!(
                "`{}` is given twice; list all its addresses in one place",
                name.name
            );
            check.problem(&at!["name", index, "name"], message);
        }
        given.push(one);
    }
    let mut policies = Vec::new();
    for (index, policy) in file.response_policy.iter().enumerate() {
        let zone = policy.zone.as_ref().map(|text| {
            Name::parse(text).map_err(|_| {
                let message = format!("`{text}` is not a domain name");
                check.problem(&at!["response-policy", index, "zone"], message);
            })
        });
        if let Ok(zone) = zone.transpose() {
            policies.push(PolicyFile {
                path: policy.file.clone(),
                zone,
                fixed: policy::Rule::of(policy.action),
            });
        }
    }
    NamePlan {
        given,
        hosts: file.hosts.files.clone(),
        options: HostsOptions {
            ttl: seconds(file.hosts.ttl),
            has_reverse: file.hosts.reverse,
        },
        policies,
        domain_needed: file.local.domain_needed,
    }
}

fn seconds(span: ::config::HumanDuration) -> u32 {
    u32::try_from(span.0.as_secs()).unwrap_or(i32::MAX.cast_unsigned())
}

fn given_name(index: usize, name: &file::GivenName, check: &mut Check<'_>) -> Option<Given> {
    let text = &name.name;
    let (apex, is_below) = match text.strip_prefix("*.") {
        Some(apex) => (apex, true),
        None => (text.as_str(), false),
    };
    let Ok(parsed) = Name::parse(apex) else {
        let message = format!("`{text}` is not a domain name");
        check.problem(&at!["name", index, "name"], message);
        return None;
    };
    let data = match (&name.alias, name.addresses.is_empty()) {
        (None, false) => GivenData::Addresses {
            addresses: name.addresses.iter().map(|address| address.0).collect(),
            port: name.probe_port.map(|port| *port),
        },
        (Some(alias), true) => match Name::parse(alias) {
            Ok(alias) => GivenData::Alias(alias.to_lowercase()),
            Err(_) => {
                let message = format!("`{alias}` is not a domain name");
                check.problem(&at!["name", index, "alias"], message);
                return None;
            }
        },
        (alias, _) => {
            let key = if alias.is_some() {
                "alias"
            } else {
                "addresses"
            };
            let message = "a name has either `addresses` or an `alias`";
            check.problem(&at!["name", index, key], message);
            return None;
        }
    };
    if let (Some(_), Some(_)) = (&name.alias, name.probe_port) {
        let message = "`probe-port` has no effect: an alias has no addresses here";
        check.problem(&at!["name", index, "probe-port"], message);
    }
    Some(Given {
        name: parsed.to_lowercase(),
        is_below,
        ttl: seconds(name.ttl),
        has_reverse: name.reverse,
        data,
    })
}

/// The rules that change questions.
fn rules(file: &DnsRecursor, check: &mut Check<'_>) -> Vec<Rule> {
    if file.rewrite.len() > MAX_REWRITES {
        let message =
            format!("there are more than {MAX_REWRITES} rules, which every query would go through");
        check.problem(&at!["rewrite", MAX_REWRITES], message);
    }
    let mut rules = Vec::new();
    for (index, rewrite) in file.rewrite.iter().take(MAX_REWRITES).enumerate() {
        match Rule::new(rewrite) {
            Ok(rule) => rules.push(rule),
            Err(error) => check.problem(&at!["rewrite", index, "from"], error.to_string()),
        }
    }
    rules
}

/// The making of AAAA records from A records.
fn translation(file: &file::Dns64, check: &mut Check<'_>) -> Dns64 {
    let mut prefixes = Vec::new();
    for (index, text) in file.prefixes.iter().enumerate() {
        match text.parse() {
            Ok(prefix) => prefixes.push(prefix),
            Err(error) => {
                let error: PrefixError = error;
                check.problem(&at!["dns64", "prefixes", index], error.to_string());
            }
        }
    }
    if !(1..=MAX_PREFIXES).contains(&file.prefixes.len()) {
        let message = format!("DNS64 has one prefix, and at most {MAX_PREFIXES}");
        check.problem(&at!["dns64", "prefixes"], message);
    }
    let mut exclude = Vec::new();
    for (index, text) in file.exclude.iter().enumerate() {
        match text.parse::<Ipv6Net>() {
            Ok(network) => exclude.push(network),
            Err(_) => {
                let message =
                    format!("`{text}` is no IPv6 network; write one such as 2001:db8::/32");
                check.problem(&at!["dns64", "exclude", index], message);
            }
        }
    }
    Dns64 {
        prefixes,
        clients: file.clients.as_ref().map(|networks| networks.0.clone()),
        exclude,
        mapped: file.mapped.as_ref().map(|networks| networks.0.clone()),
        break_dnssec: file.break_dnssec,
    }
}

/// Warnings about networks that are written in an odd way.
fn odd_networks(file: &DnsRecursor, check: &Check<'_>) -> Vec<Problem> {
    let of_dns64 = file.dns64.as_ref();
    let lists: [(Option<&Networks>, &[Step<'_>]); 5] = [
        (file.allow_from.as_ref(), &at!["allow-from"]),
        (Some(&file.notify_from), &at!["notify-from"]),
        (
            Some(&file.recursion.dont_query),
            &at!["recursion", "dont-query"],
        ),
        (
            of_dns64.and_then(|it| it.clients.as_ref()),
            &at!["dns64", "clients"],
        ),
        (
            of_dns64.and_then(|it| it.mapped.as_ref()),
            &at!["dns64", "mapped"],
        ),
    ];
    let odd = lists.into_iter().filter_map(|(list, place)| {
        let list = list?;
        Some(list.warnings_at(check.position(place)))
    });
    odd.flatten().collect()
}

/// Warnings about addresses that no healthd probes.
fn unprobed(file: &DnsRecursor, check: &Check<'_>) -> Vec<Problem> {
    let has_healthd = file.health.endpoint.0.is_some();
    let names = file.name.iter().enumerate();
    let unprobed = names.filter(|(_, name)| name.probe_port.is_some() && !has_healthd);
    let warning = |(index, _): (usize, _)| {
        let place = check.position(&at!["name", index, "probe-port"]);
        Problem::at(
            place,
            "`probe-port` has no effect: `[health]` names no healthd",
        )
    };
    unprobed.map(warning).collect()
}

/// One source address of each family.
fn sources(file: &DnsRecursor, check: &mut Check<'_>) -> Source {
    let (mut v4, mut v6) = (None, None);
    for (index, address) in file.source_addresses.iter().enumerate() {
        let before = match address.0 {
            IpAddr::V4(address) => v4.replace(address).map(IpAddr::V4),
            IpAddr::V6(address) => v6.replace(address).map(IpAddr::V6),
        };
        if let Some(before) = before {
            let message = format!(
                "`{address}` is one too many: IPv4 and IPv6 have one source address each, and {before} is given"
            );
            check.problem(&at!["source-addresses", index], message);
        }
    }
    let default = Source::default();
    Source {
        v4: v4.unwrap_or(default.v4),
        v6: v6.unwrap_or(default.v6),
    }
}

/// The trust anchors, and those of them that trust begins with in zones whose keys are followed. A zone with its own upstreams and without a
/// setting of its own has a negative one: its site alone knows it, and the zone above would deny it.
fn trusted(file: &DnsRecursor, forwards: &[Forward], check: &mut Check<'_>) -> (Anchors, Initial) {
    let root = ROOT.map(str::to_owned).to_vec();
    let dnssec = &file.dnssec;
    let follows = dnssec.managed_keys_directory.is_some();
    let listed = match &dnssec.trust_anchors {
        Some(listed) => listed.as_slice(),
        None if follows => &[],
        None => &root,
    };
    let mut positive = anchors(listed, "trust-anchors", check);
    let has_root = positive.iter().any(|anchor| anchor.zone.is_root());
    let begun = match &dnssec.initial_anchors {
        Some(listed) => listed.as_slice(),
        None if follows && !has_root => &root,
        None => &[],
    };
    if dnssec.initial_anchors.is_some() && !follows {
        let message = "needs `managed-keys-directory`, the place of the keys that were learned";
        check.problem(&at!["dnssec", "initial-anchors"], message);
    }
    let mut initial = Initial::new();
    for anchor in anchors(begun, "initial-anchors", check) {
        if positive.iter().any(|other| other.zone == anchor.zone) {
            let message = format!(
                "`{}` has a trust anchor that stays as it is written, and one that follows the keys of the zone",
                anchor.zone
            );
            check.problem(&at!["dnssec", "initial-anchors"], message);
        }
        initial.entry(anchor.zone.clone()).or_default().push(anchor);
    }
    if initial.len() > anchor_store::MAX_ZONES {
        let message = format!(
            "the keys of at most {} zones are followed",
            anchor_store::MAX_ZONES
        );
        check.problem(&at!["dnssec", "initial-anchors"], message);
    }
    positive.extend(initial.values().flatten().cloned());
    let (mut negative, mut ending) = (Vec::new(), Vec::new());
    for (index, text) in file.dnssec.negative_trust_anchors.iter().enumerate() {
        match negative_anchor(text) {
            Ok((zone, None)) => negative.push(zone),
            Ok((zone, Some(end))) => ending.push((zone, end)),
            Err(message) => check.problem(&at!["dnssec", "negative-trust-anchors", index], message),
        }
    }
    let is_anchored = |zone: &Name| positive.iter().any(|anchor| anchor.zone == *zone);
    let private = forwards.iter().filter(|forward| {
        let own = forward.dnssec.is_some_and(|mode| mode != DnssecMode::Off);
        !own && !is_public(forward) && !is_anchored(&forward.zone)
    });
    negative.extend(private.map(|forward| forward.zone.clone()));
    let all = Anchors::new(positive, negative);
    let all = ending.iter().fold(all, |anchors, (zone, end)| {
        anchors.without_until(zone, *end)
    });
    (all, initial)
}

/// The trust anchors of a list.
fn anchors(listed: &[String], key: &str, check: &mut Check<'_>) -> Vec<Anchor> {
    let mut anchors = Vec::new();
    for (index, text) in listed.iter().enumerate() {
        match Anchor::parse(text) {
            Ok(anchor) => anchors.push(anchor),
            Err(error) => {
                let message = format!("`{text}` {error}");
                check.problem(&at!["dnssec", key, index], message);
            }
        }
    }
    anchors
}

/// A zone that is not validated, and the time at which that ends: `ZONE`, or `ZONE until TIME`.
fn negative_anchor(text: &str) -> Result<(Name, Option<u64>), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (zone, time) = match words[..] {
        [zone] => (zone, None),
        [zone, "until", time] => (zone, Some(time)),
        _ => {
            return Err(format!(
                "`{text}` has not the form `ZONE` or `ZONE until TIME`"
            ));
        }
    };
    let zone = Name::parse(zone).map_err(|_| format!("`{zone}` is not a domain name"))?;
    let time = time.map(|time| {
        let message = format!(
            "`{time}` is no time: it needs the form `2026-12-05` or `2026-12-05T09:30:00Z`"
        );
        let parsed = Timestamp::parse(time).ok_or(message);
        parsed.map(|time| time.since_epoch().as_secs())
    });
    Ok((zone, time.transpose()?))
}

/// Settings about upstreams of a zone that has none.
fn without_effect(file: &DnsRecursor, check: &mut Check<'_>) {
    for (index, forward) in file.forward.iter().enumerate() {
        if forward.mode != ForwardMode::Recurse {
            continue;
        }
        for (key, is_set) in [
            ("recursive", forward.recursive),
            ("policy", forward.policy != Policy::default()),
            ("trust-ad", forward.trust_ad),
        ] {
            if is_set {
                let message = format!(
                    "`{key}` has no effect: a zone with `mode = \"recurse\"` has no upstreams"
                );
                check.problem(&at!["forward", index, key], message);
            }
        }
    }
}

/// Checks the query log and dnstap.
fn records(file: &DnsRecursor, check: &mut Check<'_>, warnings: &mut Vec<Problem>) {
    if file.query_log.enabled && file.log.level < LogLevel::Info {
        let message = format!(
            "no query is logged: its lines have the level `info`, and `log.level` is `{}`",
            file.log.level
        );
        let place = check.position(&at!["query-log", "enabled"]);
        warnings.push(Problem::at(place, message));
    }
    let Some(dnstap) = &file.dnstap else {
        return;
    };
    match (&dnstap.socket, &dnstap.file) {
        (None, None) => check.problem(&at!["dnstap"], "dnstap needs a `socket` or a `file`"),
        (Some(_), Some(_)) => {
            let message = "dnstap has a `socket` or a `file`, and not both";
            check.problem(&at!["dnstap", "file"], message);
        }
        _ => {}
    }
    let paths = [("socket", &dnstap.socket), ("file", &dnstap.file)];
    for (key, path) in paths {
        if path.as_ref().is_some_and(|path| !path.is_absolute()) {
            check.problem(&at!["dnstap", key], "needs an absolute path");
        }
    }
}

/// Warnings about settings that nothing here makes use of.
fn unused(
    file: &DnsRecursor,
    forwards: &[Forward],
    anchors: &Anchors,
    check: &Check<'_>,
) -> Vec<Problem> {
    let recurses = forwards.iter().any(|it| it.source != ForwardMode::Forward);
    let mut validates = forwards.iter().map(|it| validation(file, anchors, it));
    let validates = validates.any(|mode| mode != DnssecMode::Off);
    let settings = [
        (
            file.recursion.root_hints.is_some() && !recurses,
            at!["recursion", "root-hints"].to_vec(),
            "`root-hints` has no effect: no zone is resolved from the root's servers downwards",
        ),
        (
            file.dnssec.trust_anchors.is_some() && !validates,
            at!["dnssec", "trust-anchors"].to_vec(),
            "`trust-anchors` has no effect: no zone is validated",
        ),
        (
            file.dnssec.managed_keys_directory.is_some() && !validates,
            at!["dnssec", "managed-keys-directory"].to_vec(),
            "`managed-keys-directory` has no effect: no zone is validated",
        ),
    ];
    let unused = settings.into_iter().filter(|(is_unused, ..)| *is_unused);
    let unused = unused.map(|(_, at, message)| Problem::at(check.position(&at), message));
    let now = clock::since_1970().as_secs();
    let ended = anchors.negative_zones().filter_map(|(zone, end)| {
        let message = format!("the negative trust anchor of `{zone}` has ended: it is validated");
        let place = check.position(&at!["dnssec", "negative-trust-anchors"]);
        end.filter(|end| *end <= now)
            .map(|_| Problem::at(place, message))
    });
    unused.chain(ended).collect()
}

fn forwarded(file: &DnsRecursor, check: &mut Check<'_>) -> Vec<Forward> {
    let mut forwards: Vec<Forward> = Vec::new();
    for (index, forward) in file.forward.iter().enumerate() {
        let text = &forward.zone;
        let Ok(zone) = Name::parse(text) else {
            let message = format!("`{text}` is not a domain name");
            check.problem(&at!["forward", index, "zone"], message);
            continue;
        };
        if forwards.iter().any(|known| known.zone == zone) {
            let message =
                format!("`{text}` is forwarded twice; list all its upstreams in one place");
            check.problem(&at!["forward", index, "zone"], message);
        }
        let recurses = forward.mode == ForwardMode::Recurse;
        match forward.upstreams.is_empty() {
            true if !recurses => {
                let message =
                    "a zone needs at least one upstream, unless it has `mode = \"recurse\"`";
                check.problem(&at!["forward", index, "upstreams"], message);
            }
            false if recurses => {
                let message = "a zone with `mode = \"recurse\"` has no upstreams; \
                    `mode = \"forward-first\"` asks these first";
                check.problem(&at!["forward", index, "upstreams"], message);
            }
            _ => {}
        }
        if forward.mode != ForwardMode::Forward && forward.protocol != Protocol::Udp {
            let message = "the root's servers and those below get queries over UDP first; \
                only `mode = \"forward\"` can begin with another protocol";
            check.problem(&at!["forward", index, "protocol"], message);
        }
        for (place, upstream) in forward.upstreams.iter().enumerate() {
            if let Some(words) = refusal(upstream.at(forward.protocol.port()), file) {
                let message = format!("`{upstream}` {words}");
                check.problem(&at!["forward", index, "upstreams", place], message);
            }
        }
        forwards.push(Forward {
            zone,
            mode: match forward.recursive {
                true => Mode::Recursive,
                false => Mode::Authoritative,
            },
            source: forward.mode,
            upstreams: upstreams::addresses(forward),
            policy: forward.policy,
            protocol: forward.protocol,
            trust_ad: forward.trust_ad,
            dnssec: forward.dnssec,
            stale_wait: forward.stale_wait.map(|wait| wait.0),
            keep_last_good: forward.keep_last_good.0,
        });
        if forward.keep_last_good.0 > file.stale.max_age.0 {
            let message = "longer than `stale.max-age`: answers are not kept for so long";
            check.problem(&at!["forward", index, "keep-last-good"], message);
        }
    }
    forwards
}

/// The reason why an address cannot be an upstream.
fn refusal(upstream: SocketAddr, file: &DnsRecursor) -> Option<&'static str> {
    if upstream.ip().is_unspecified() || upstream.port() == 0 {
        return Some("is not the address of a server");
    }
    let own = file.listen.iter().any(|listen| {
        let everywhere = listen.ip().is_unspecified()
            && listen.is_ipv4() == upstream.is_ipv4()
            && upstream.ip().is_loopback();
        listen.port() == upstream.port() && (listen.ip() == upstream.ip() || everywhere)
    });
    own.then_some("is this server itself: its queries would go in a circle")
}

#[cfg(test)]
mod tests;
