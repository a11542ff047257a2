//! A recursor.conf as a configuration of this server.

use std::time::Duration;

use ::config::dns_recursor::{
    self as file, Cache, DnsRecursor, DnssecMode, Forward, ForwardTls, Hosts, Local, PolicyAction,
    Protocol, Recursion, Resolve, ResponsePolicy, Stale, Tcp,
};
use ::config::{
    Authentication, ByteSize, Class, DnsAddress, Draft, DurationWithin, HumanDuration, Ip,
    Networks, Notes, Whole,
};
use config_text::Problem;
use daemon::acl::Cidrs;
use peer_recursor_conf::{self as peer, Dnssec, Network, RecursorConf};

/// The memory of one entry, roughly, in octets: pdns bounds its cache by entries only.
const ENTRY_SIZE: u64 = 700;
/// The least memory of a cache, in octets.
const MIN_CACHE: u64 = 64 << 20;

/// The settings of `pdns_recursor` that let in, answer or trust less than this server does without them. Those of its
/// web server are not among them: this server's admin listener is on loopback.
const SECURITY: [&str; 9] = [
    "allow-notify-for",
    "allow-notify-for-file",
    "lua-dns-script",
    "proxy-protocol-exceptions",
    "proxy-protocol-from",
    "dnssec.trustanchorfile",
    "incoming.proxymappings",
    "outgoing.tls_configurations",
    "recursor.rpzs",
];

/// Words of the settings that change only logs, figures or the way in which the process is started.
const COSMETIC: [&str; 11] = [
    "carbon",
    "daemon",
    "distrib",
    "log",
    "reuseport",
    "security-poll",
    "setgid",
    "setuid",
    "snmp",
    "socket",
    "statist",
];

/// A recursor.conf as a configuration, with notes.
#[must_use]
pub fn import(conf: &RecursorConf) -> Draft<DnsRecursor> {
    let mut page = Page {
        notes: Notes::default(),
        is_yaml: conf.is_yaml,
    };
    for dropped in &conf.dropped {
        let what = format!("{}={}", dropped.key, dropped.value);
        let at = dropped.position.as_ref();
        page.notes
            .lost(class(&dropped.key), at, &what, dropped.reason);
    }
    let dnssec = conf.places.get("dnssec");
    // The note below says more than the parser's remark.
    let is_said = |warning: &Problem| {
        conf.validates()
            && warning.position.as_ref() == dnssec
            && warning.message.contains("validation is left to")
    };
    for warning in conf.warnings.iter().filter(|it| !is_said(it)) {
        let at = warning.position.as_ref();
        page.notes.odd(Class::Behaviour, at, &warning.message);
    }
    let default = DnsRecursor::default();
    let config = DnsRecursor {
        listen: conf.listen.iter().copied().map(DnsAddress).collect(),
        threads: conf.clients.threads.unwrap_or(default.threads),
        allow_from: Some(networks(&conf.allow_from)),
        notify_from: match conf.allow_notify_from.as_slice() {
            [] => default.notify_from,
            listed => networks(listed),
        },
        source_addresses: page.sources(&conf.upstreams),
        resolve: page.resolve(&conf.upstreams),
        cache: page.cache(&conf.cache),
        stale: stale(conf),
        tcp: page.tcp(&conf.clients),
        local: page.local(&conf.local),
        hosts: Hosts {
            files: conf.local.hosts.iter().map(|it| it.file.clone()).collect(),
            ..Hosts::default()
        },
        forward: conf.forwards.iter().map(forward).collect(),
        dnssec: dnssec_of(conf),
        recursion: Recursion {
            dont_query: networks(conf.dont_query.as_deref().unwrap_or_default()),
            ..Recursion::default()
        },
        response_policy: conf.policies.iter().map(policy).collect(),
        query_log: query_log(conf),
        dns64: conf.local.dns64_prefix.as_deref().and_then(dns64),
        ..DnsRecursor::default()
    };
    match conf.dnssec {
        Some(Dnssec::Off) => {
            let words = "clients that ask for DNSSEC records get them";
            page.note(Class::Behaviour, "dnssec=off", words);
        }
        Some(Dnssec::LogFail) => {
            let words = "bogus answers are SERVFAIL, not only logged";
            page.note(Class::Behaviour, "dnssec=log-fail", words);
        }
        _ => {}
    }
    Draft {
        config,
        notes: page.notes.into_notes(),
    }
}

fn query_log(conf: &RecursorConf) -> file::QueryLog {
    file::QueryLog {
        enabled: conf.local.logs_queries,
        ..file::QueryLog::default()
    }
}

fn stale(conf: &RecursorConf) -> Stale {
    let default = Stale::default();
    Stale {
        max_age: conf.cache.stale.map_or(default.max_age, HumanDuration),
        ..default
    }
}

/// The mode of validation: that of pdns, of which `log-fail` is the strict one here.
fn dnssec_of(conf: &RecursorConf) -> file::Dnssec {
    file::Dnssec {
        trust_anchors: conf.trust_anchors.clone(),
        negative_trust_anchors: conf.negative_anchors.clone(),
        mode: match conf.dnssec {
            Some(Dnssec::Process) => DnssecMode::Process,
            Some(Dnssec::LogFail | Dnssec::Validate) => DnssecMode::Validate,
            Some(Dnssec::Off | Dnssec::ProcessNoValidate) | None => DnssecMode::Off,
        },
        ..file::Dnssec::default()
    }
}

/// A response policy zone.
fn policy(policy: &peer::Policy) -> ResponsePolicy {
    ResponsePolicy {
        file: policy.file.clone(),
        zone: Some(policy.zone.clone()),
        action: match policy.action {
            peer::Action::Given => PolicyAction::Given,
            peer::Action::Drop => PolicyAction::Drop,
            peer::Action::NoAction => PolicyAction::Passthru,
            peer::Action::NoData => PolicyAction::Nodata,
            peer::Action::NxDomain => PolicyAction::Nxdomain,
            peer::Action::Truncate => PolicyAction::TcpOnly,
        },
    }
}

/// The making of AAAA records from A records; an empty prefix turns it off.
fn dns64(prefix: &str) -> Option<file::Dns64> {
    (!prefix.is_empty()).then(|| file::Dns64 {
        prefixes: vec![prefix.to_owned()],
        ..file::Dns64::default()
    })
}

/// The class of a setting, by its name in a recursor.conf, or in recursor.yml if only that has it.
fn class(key: &str) -> Class {
    let old = peer::old_name(key);
    Class::of_setting(old.as_deref().unwrap_or(key), &SECURITY, &COSMETIC)
}

fn networks(listed: &[Network]) -> Networks {
    let listed = listed.iter().map(ToString::to_string);
    Networks(Cidrs::from_items(listed).unwrap_or_default())
}

fn forward(forward: &peer::Forward) -> Forward {
    let protocol = match forward.tls {
        true => Protocol::Tls,
        false => Protocol::Udp,
    };
    let tls = forward.tls.then(|| ForwardTls {
        authentication: Authentication::Opportunistic,
        ..ForwardTls::default()
    });
    Forward {
        recursive: forward.recursive,
        protocol,
        tls,
        ..Forward::new(forward.zone.to_string(), &forward.upstreams)
    }
}

/// The notes so far.
struct Page {
    notes: Notes,
    /// Whether the settings have the names of recursor.yml.
    is_yaml: bool,
}

impl Page {
    fn sources(&mut self, upstreams: &peer::Upstreams) -> Vec<Ip> {
        let sources = upstreams.sources.iter();
        let mut sources: Vec<_> = sources.filter(|source| !source.is_unspecified()).collect();
        let n_given = sources.len();
        // A stable sort keeps the first of each family first.
        sources.sort_by_key(|source| source.is_ipv6());
        sources.dedup_by_key(|source| source.is_ipv6());
        if sources.len() < n_given {
            let reason = "queries leave from the first IPv4 and the first IPv6 address only";
            self.note(Class::Behaviour, "query-local-address", reason);
        }
        sources.into_iter().copied().map(Ip).collect()
    }

    fn resolve(&mut self, upstreams: &peer::Upstreams) -> Resolve {
        let mut resolve = Resolve::default();
        match upstreams.deadline {
            Some(Duration::ZERO) => {
                let reason = "every question has a deadline";
                self.note(Class::Behaviour, "max-total-msec=0", reason);
            }
            Some(deadline) => resolve.deadline = DurationWithin::clamped(deadline),
            None => {}
        }
        if upstreams.timeout.is_some() {
            let reason = "the server waits for an upstream as long as that upstream usually takes";
            self.note(Class::Behaviour, "network-timeout", reason);
        }
        if upstreams.udp_size.is_some() {
            let reason = "upstreams may send 1232 octets over UDP";
            self.note(Class::Behaviour, "edns-outgoing-bufsize", reason);
        }
        if upstreams.client_subnet {
            let reason = "no client's subnet is passed on";
            self.note(Class::Behaviour, "use-incoming-edns-subnet", reason);
        }
        resolve
    }

    fn cache(&mut self, from: &peer::Cache) -> Cache {
        let mut cache = Cache::default();
        if let Some(entries) = from.entries {
            let octets = u64::try_from(entries).unwrap_or(u64::MAX);
            let octets = octets.saturating_mul(ENTRY_SIZE).max(MIN_CACHE);
            cache.entries = entries;
            // In whole MiB, as people write it.
            cache.size = ByteSize(octets.checked_next_multiple_of(1 << 20).unwrap_or(octets));
        }
        let ttl = |ttl: Option<Duration>, default| ttl.map_or(default, HumanDuration);
        cache.min_ttl = ttl(from.min_ttl, cache.min_ttl);
        cache.max_ttl = ttl(from.max_ttl, cache.max_ttl);
        cache.negative_max_ttl = ttl(from.max_negative_ttl, cache.negative_max_ttl);
        if let Some(ttl) = from.packets.failure_ttl {
            cache.failure_ttl = DurationWithin::clamped(ttl);
            if *cache.failure_ttl != ttl {
                let key = format!("packetcache-servfail-ttl={}", ttl.as_secs());
                let reason = "failures are remembered for 1 to 5 seconds";
                self.note(Class::Behaviour, &key, reason);
            }
        }
        if let Some(percent) = from.refresh_percent {
            cache.prefetch = percent > 0;
        }
        let packets = &from.packets;
        let set = [
            ("disable-packetcache", packets.disabled),
            ("max-packetcache-entries", packets.entries.is_some()),
            ("packetcache-ttl", packets.ttl.is_some()),
            ("packetcache-negative-ttl", packets.negative_ttl.is_some()),
        ];
        for (key, _) in set.iter().filter(|(_, is_set)| *is_set) {
            self.note(Class::Behaviour, key, "one cache keeps whole answers");
        }
        cache
    }

    fn tcp(&mut self, clients: &peer::Clients) -> Tcp {
        if clients.udp_limit.is_some_and(|limit| limit != 1232) {
            let reason = "answers over UDP are as long as the client allows, up to 1232 octets";
            self.note(Class::Behaviour, "udp-truncation-threshold", reason);
        }
        let default = Tcp::default();
        // Zero means no limit of its own.
        let number = |number: Option<usize>| number.filter(|number| *number > 0);
        let pipeline = number(clients.tcp_pipeline).and_then(|n| i64::try_from(n).ok());
        Tcp {
            connections: number(clients.tcp_connections).unwrap_or(default.connections),
            per_client: number(clients.tcp_per_client).unwrap_or(default.per_client),
            pipeline: pipeline.map_or(default.pipeline, Whole::clamped),
            idle: clients.tcp_idle.map_or(default.idle, HumanDuration),
        }
    }

    fn local(&mut self, local: &peer::Local) -> Local {
        let suffix = local.hosts.as_ref().and_then(|it| it.suffix.as_ref());
        if let Some(suffix) = suffix {
            let key = format!("export-etc-hosts-search-suffix={suffix}");
            let reason = "names of a hosts file are answered as they stand there";
            self.note(Class::Behaviour, &key, reason);
        }
        let written = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Local {
            private_reverse: local.private_reverse,
            version: written(&local.version),
            id: written(&local.server_id),
            ..Local::default()
        }
    }

    fn note(&mut self, class: Class, key: &str, reason: &str) {
        let what = self.named(key);
        self.notes.lost(class, None, &what, reason);
    }

    /// A setting of a recursor.conf, with its value or without, by the name that it has in the file.
    fn named(&self, setting: &str) -> String {
        let (key, value) = setting.split_at(setting.find('=').unwrap_or(setting.len()));
        let full = self.is_yaml.then(|| peer::full_name(key)).flatten();
        format!("{}{value}", full.as_deref().unwrap_or(key))
    }
}

#[cfg(test)]
mod tests {
    use ::config::Disposition;
    use daemon::config::Document;
    use dns_cache::message::TtlLimits;
    use dns_resolve::forward::Mode;

    use crate::config::Config;

    use super::*;

    #[track_caller]
    fn imported(text: &[u8]) -> (Config, Vec<String>, String) {
        let draft = import(&peer_recursor_conf::parse_bytes(text).unwrap());
        let toml = draft.written("From recursor.conf.").unwrap().to_string();
        let config = Config::from_document(&Document::inline("x.toml", toml.as_str()));
        let config = config.unwrap_or_else(|error| panic!("{error}\n{toml}"));
        let notes = draft
            .notes
            .iter()
            .filter(|note| note.disposition != Disposition::Odd);
        let notes = notes.map(ToString::to_string);
        (config, notes.collect(), toml)
    }

    #[test]
    fn the_seed_file_means_what_it_meant() {
        let text = include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/seed/recursor.conf"
        ));
        let (config, notes, toml) = imported(text);
        let listen: Vec<_> = config.file.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["0.0.0.0:53", "[::]:53"]);
        let allowed = config.allow.networks();
        assert!(allowed.contains("203.0.113.9".parse().unwrap()));
        assert!(!allowed.contains("::1".parse().unwrap()));
        let forwards: Vec<_> = config
            .forwards
            .iter()
            .map(|it| (it.zone.to_string(), it.mode, it.upstreams.clone()))
            .collect();
        let local = "127.0.0.1:5301".parse().unwrap();
        let public = "114.114.114.114:53".parse().unwrap();
        assert_eq!(
            forwards,
            [
                (
                    "ocp4.redhat.ren.".to_owned(),
                    Mode::Authoritative,
                    vec![local]
                ),
                (".".to_owned(), Mode::Recursive, vec![public]),
            ]
        );
        assert_eq!(
            notes[0],
            "`dnssec=off` is not carried over: clients that ask for DNSSEC records get them"
        );
        assert!(
            toml.contains(
                "cosmetic: setgid=pdns-recursor: the process runs as the user that starts it\n"
            ),
            "{toml}"
        );
    }

    #[test]
    fn an_empty_file_is_what_pdns_would_be() {
        let (config, notes, _) = imported(b"");
        let listen: Vec<_> = config.file.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["127.0.0.1:53"]);
        let allowed = config.allow.networks();
        assert!(allowed.contains("192.168.7.9".parse().unwrap()));
        assert!(!allowed.contains("203.0.113.9".parse().unwrap()));
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn every_setting_with_a_counterpart_reaches_it() {
        let (config, notes, _) = imported(
            b"threads=3\nquery-local-address=192.0.2.1 ::\nmax-total-msec=1500\n\
              max-cache-entries=1000000\nminimum-ttl-override=4\nmax-cache-ttl=5\n\
              max-negative-ttl=6\npacketcache-servfail-ttl=2\nrefresh-on-ttl-perc=0\n\
              serve-stale-extensions=120\nmax-tcp-clients=7\nmax-tcp-per-client=8\n\
              client-tcp-timeout=9\nmax-concurrent-requests-per-tcp-connection=10\n\
              serve-rfc1918=no\nversion-string=a \"b\" \\c\nserver-id=\xe5\x85\x81\n\
              allow-notify-from=192.0.2.7\ndns64-prefix=2001:db8:64::/96\n\
              dont-query=10.0.0.0/8, !10.1.0.0/16",
        );
        let barred = &config.file.recursion.dont_query.0;
        for (address, expected) in [("10.0.0.1", true), ("10.1.0.1", false)] {
            assert_eq!(barred.contains(address.parse().unwrap()), expected);
        }
        let dns64 = config.file.dns64.as_ref();
        assert_eq!(dns64.unwrap().prefixes, ["2001:db8:64::/96"]);
        assert_eq!(config.threads(), 3);
        assert_eq!(config.source.v4.to_string(), "192.0.2.1");
        assert_eq!(*config.file.resolve.deadline, Duration::from_millis(1500));
        let limits = TtlLimits::of(&config.file.cache);
        assert_eq!(
            (
                limits.positive_min,
                limits.positive_max,
                limits.negative_max
            ),
            (4, 5, 6)
        );
        assert_eq!(config.file.cache.entries, 1_000_000);
        assert_eq!(config.file.cache.size.0, 668 << 20);
        assert_eq!(config.file.stale.max_age.0, Duration::from_secs(3600));
        assert_eq!(*config.file.cache.failure_ttl, Duration::from_secs(2));
        assert!(!config.file.cache.prefetch && !config.file.local.private_reverse);
        let tcp = config.file.tcp;
        assert_eq!(
            (tcp.connections, tcp.per_client, tcp.pipeline.get()),
            (7, 8, 10)
        );
        assert_eq!(tcp.idle.0, Duration::from_secs(9));
        assert_eq!(config.file.local.version.as_deref(), Some("a \"b\" \\c"));
        assert_eq!(config.file.local.id.as_deref(), Some("\u{5141}"));
        assert!(
            config
                .file
                .notify_from
                .contains("192.0.2.7".parse().unwrap())
        );
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn of_several_source_addresses_the_first_of_each_family_is_kept() {
        let (config, notes, _) =
            imported(b"query-local-address=192.0.2.2 fd00::2 192.0.2.1 fd00::1");
        let source = config.source;
        assert_eq!(
            (source.v4.to_string(), source.v6.to_string()),
            ("192.0.2.2".to_owned(), "fd00::2".to_owned())
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("query-local-address"));
    }

    #[test]
    fn settings_in_yaml_are_carried_and_named_as_they_are_written() {
        let text = "dnssec:\n  validation: validate\n  trustanchors:\n  - name: example\n    dsrecords:\n    - 12345 13 2 \
            9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\n  negative_trustanchors:\n  - name: nta.example\n\
            outgoing:\n  network_timeout: 1500\nrecursor:\n  forward_zones_recurse:\n  - zone: .\n    forwarders: [192.0.2.53]\n\
            \x20 lua_dns_script: /x.lua\n  rpzs:\n  - name: rpz.example\n    addresses: [192.0.2.1]\nlogging:\n  loglevel: 6\n";
        let (config, notes, toml) = imported(text.as_bytes());
        let zones: Vec<String> = config.anchors.zones().map(ToString::to_string).collect();
        assert_eq!(zones, ["example."]);
        let negative = config.anchors.negative_zones();
        let negative: Vec<String> = negative.map(|(zone, _)| zone.to_string()).collect();
        assert_eq!(negative, ["nta.example."]);
        for line in [
            "`outgoing.network_timeout` is not carried over",
            "recursor.conf:15:3: security: `recursor.lua_dns_script=/x.lua`",
            "`recursor.rpzs=rpz.example`",
            "`logging.loglevel=6`",
        ] {
            assert!(
                notes.iter().any(|note| note.contains(line)),
                "{line}: {notes:#?}"
            );
        }
        for line in [
            "security: recursor.lua_dns_script=/x.lua",
            "security: recursor.rpzs=rpz.example",
            "cosmetic: logging.loglevel=6",
        ] {
            assert!(toml.contains(line), "{line}: {toml}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_noted() {
        let (config, notes, _) = imported(
            b"network-timeout=1\nmax-total-msec=0\nedns-outgoing-bufsize=4096\n\
              use-incoming-edns-subnet\ndisable-packetcache\nmax-packetcache-entries=1\n\
              packetcache-ttl=1\npacketcache-negative-ttl=1\npacketcache-servfail-ttl=60\n\
              udp-truncation-threshold=4096\nexport-etc-hosts\ndont-query=\ndnssec=off\n\
              max-tcp-clients=0",
        );
        assert_eq!(*config.file.cache.failure_ttl, Duration::from_secs(5));
        assert_eq!(notes.len(), 11, "{notes:#?}");
    }
}
