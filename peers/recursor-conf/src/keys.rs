//! Every setting that `pdns_recursor` knows, from 4.6 to 5.5, and its treatment here.

use pdns_settings::Catalogue;

pub(super) static CATALOGUE: Catalogue = Catalogue {
    kept: KEPT,
    dropped: DROPPED,
    families: &[],
    defaults: DEFAULTS,
};

/// The default of `allow-from`: the networks of a private site.
pub(super) const ALLOW_FROM: &str = "127.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, \
     192.168.0.0/16, 172.16.0.0/12, ::1/128, fc00::/7, fe80::/10";

/// The default of `dont-query`: the addresses that no referral may lead to.
const DONT_QUERY: &str = "127.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, \
     192.168.0.0/16, 172.16.0.0/12, ::1/128, fc00::/7, fe80::/10, 0.0.0.0/8, 192.0.0.0/24, \
     192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 240.0.0.0/4, ::/96, ::ffff:0:0/96, 100::/64, \
     2001:db8::/32";

const DEFAULTS: &[(&str, &str)] = &[
    ("allow-from", ALLOW_FROM),
    ("dont-query", DONT_QUERY),
    ("local-address", "127.0.0.1"),
    ("query-local-address", "0.0.0.0"),
    ("ecs-add-for", ""),
    ("stats-api-blacklist", ""),
    ("stats-api-disabled-list", ""),
    ("stats-carbon-blacklist", ""),
    ("stats-carbon-disabled-list", ""),
    ("stats-rec-control-blacklist", ""),
    ("stats-rec-control-disabled-list", ""),
    ("stats-snmp-blacklist", ""),
    ("stats-snmp-disabled-list", ""),
    ("udp-source-port-avoid", ""),
    ("webserver-address", ""),
    ("webserver-allow-from", ""),
];

const KEPT: &[&str] = &[
    "allow-from",
    "allow-from-file",
    "allow-notify-from",
    "allow-notify-from-file",
    "client-tcp-timeout",
    "disable-packetcache",
    "dns64-prefix",
    "dnssec",
    "dont-query",
    "dot-to-port-853",
    "edns-outgoing-bufsize",
    "etc-hosts-file",
    "export-etc-hosts",
    "export-etc-hosts-search-suffix",
    "forward-zones",
    "forward-zones-file",
    "forward-zones-recurse",
    "ignore-unknown-settings",
    "include-dir",
    "local-address",
    "local-port",
    "max-cache-entries",
    "max-cache-ttl",
    "max-concurrent-requests-per-tcp-connection",
    "max-negative-ttl",
    "max-packetcache-entries",
    "max-tcp-clients",
    "max-tcp-per-client",
    "max-total-msec",
    "minimum-ttl-override",
    "network-timeout",
    "packetcache-negative-ttl",
    "packetcache-servfail-ttl",
    "packetcache-ttl",
    "query-local-address",
    "quiet",
    "refresh-on-ttl-perc",
    "serve-rfc1918",
    "serve-stale-extensions",
    "server-id",
    "threads",
    "udp-truncation-threshold",
    "use-incoming-edns-subnet",
    "version-string",
];

/// Settings without a counterpart, by reason.
const DROPPED: &[(&str, &[&str])] = &[
    (
        "the process runs as the user that starts it",
        &["setgid", "setuid", "chroot"],
    ),
    (
        "systemd or the container runtime starts and watches the process",
        &[
            "config",
            "config-dir",
            "config-name",
            "daemon",
            "enable-old-settings",
            "entropy-source",
            "non-local-bind",
            "processes",
            "rng",
            "stack-cache-size",
            "stack-size",
            "write-pid",
        ],
    ),
    (
        "the kernel spreads queries over the threads",
        &[
            "cpu-map",
            "distribution-load-factor",
            "distribution-pipe-buffer-size",
            "distributor-threads",
            "pdns-distributes-queries",
            "reuseport",
            "tcp-threads",
        ],
    ),
    (
        "the server never looks up versions on the Internet",
        &["security-poll-suffix"],
    ),
    (
        "the admin listener has status and metrics",
        &[
            "api-config-dir",
            "api-key",
            "cross-origin-request-header",
            "carbon-instance",
            "carbon-interval",
            "carbon-namespace",
            "carbon-ourname",
            "carbon-server",
            "latency-statistic-size",
            "snmp-agent",
            "snmp-daemon-socket",
            "snmp-master-socket",
            "statistics-interval",
            "stats-api-blacklist",
            "stats-api-disabled-list",
            "stats-carbon-blacklist",
            "stats-carbon-disabled-list",
            "stats-rec-control-blacklist",
            "stats-rec-control-disabled-list",
            "stats-ringbuffer-entries",
            "stats-snmp-blacklist",
            "stats-snmp-disabled-list",
            "webserver",
            "webserver-address",
            "webserver-allow-from",
            "webserver-hash-plaintext-credentials",
            "webserver-loglevel",
            "webserver-max-request-size",
            "webserver-password",
            "webserver-port",
        ],
    ),
    (
        "the log has settings of its own",
        &[
            "disable-syslog",
            "dnssec-log-bogus",
            "event-trace-enabled",
            "log-common-errors",
            "log-rpz-changes",
            "log-timestamp",
            "logging-facility",
            "loglevel",
            "protobuf-use-kernel-timestamp",
            "structured-logging",
            "structured-logging-backend",
            "trace",
        ],
    ),
    (
        "the `dns-recursor` command reads and steers the server through its admin listener",
        &["socket-dir", "socket-group", "socket-mode", "socket-owner"],
    ),
    (
        "queries are forwarded: the servers between the root and a name are not followed",
        &[
            "delegation-only",
            "dont-throttle-names",
            "dont-throttle-netmasks",
            "hint-file",
            "lowercase-outgoing",
            "max-chain-length",
            "max-ns-address-qperq",
            "max-ns-per-resolve",
            "max-bytesperq",
            "max-qperq",
            "max-recursion-depth",
            "non-resolving-ns-max-fails",
            "non-resolving-ns-throttle-time",
            "public-suffix-list-file",
            "qname-max-minimize-count",
            "qname-minimization",
            "qname-minimize-one-label",
            "root-nx-trust",
            "save-parent-ns-set",
        ],
    ),
    (
        "upstreams are left out and taken back as they answer",
        &[
            "bypass-server-throttling-probability",
            "server-down-max-fails",
            "server-down-throttle-time",
        ],
    ),
    (
        "validation has its own bounds for keys, signatures and hashes",
        &[
            "aggressive-cache-max-nsec3-hash-cost",
            "aggressive-cache-min-nsec3-hit-ratio",
            "aggressive-nsec-cache-size",
            "allow-trust-anchor-query",
            "dnssec-disabled-algorithms",
            "max-cache-bogus-ttl",
            "max-dnskeys",
            "max-ds-per-zone",
            "max-nsec3-hash-computations-per-query",
            "max-nsec3s-per-record",
            "max-rrsigs-per-record",
            "max-signature-validations-per-query",
            "nothing-below-nxdomain",
            "nsec3-max-iterations",
            "nta-extended-error",
            "signature-inception-skew",
            "x-dnssec-names",
        ],
    ),
    (
        "zones are served by `dns-authd`",
        &["auth-zones", "max-generate-steps", "max-include-depth"],
    ),
    (
        "the clients of `allow-notify-from` may notify of every forwarded zone",
        &["allow-notify-for", "allow-notify-for-file"],
    ),
    (
        "no program runs for a query",
        &[
            "gettag-needs-edns-options",
            "lua-global-include-dir",
            "lua-config-file",
            "lua-dns-script",
            "lua-maintenance-interval",
        ],
    ),
    (
        "servers that no setting names get queries over UDP and TCP, and no query has padding",
        &[
            "dot-to-auth-names",
            "edns-padding-from",
            "edns-padding-mode",
            "edns-padding-out",
            "edns-padding-tag",
            "max-busy-dot-probes",
        ],
    ),
    (
        "a client's subnet is passed on as it came or not at all",
        &[
            "ecs-add-for",
            "ecs-cache-limit-ttl",
            "ecs-ipv4-bits",
            "ecs-ipv4-cache-bits",
            "ecs-ipv4-never-cache",
            "ecs-ipv6-bits",
            "ecs-ipv6-cache-bits",
            "ecs-ipv6-never-cache",
            "ecs-minimum-ttl-override",
            "ecs-scope-zero-address",
            "edns-subnet-allow-list",
            "edns-subnet-harden",
            "edns-subnet-whitelist",
        ],
    ),
    (
        "one cache keeps whole answers, with bounds of its own",
        &[
            "max-packetcache-entry-size",
            "max-recordcache-entry-size",
            "max-rrset-size",
            "packetcache-shards",
            "record-cache-locked-ttl-perc",
            "record-cache-shards",
            "soa-minimum-ttl",
        ],
    ),
    (
        "every query leaves from a random port of the kernel's range",
        &[
            "single-socket",
            "spoof-nearmiss-max",
            "udp-source-port-avoid",
            "udp-source-port-max",
            "udp-source-port-min",
        ],
    ),
    (
        "the server has no threads of that kind",
        &["max-mthreads", "max-udp-queries-per-round", "taskthreads"],
    ),
    (
        "failures always carry an extended error",
        &["extended-resolution-errors"],
    ),
    (
        "the kernel's settings for connections apply",
        &[
            "max-tcp-queries-per-connection",
            "tcp-fast-open",
            "tcp-fast-open-connect",
            "tcp-out-max-idle-ms",
            "tcp-out-max-idle-per-auth",
            "tcp-out-max-idle-per-thread",
            "tcp-out-max-queries",
        ],
    ),
    (
        "it has no counterpart in this server",
        &[
            "allow-no-rd",
            "any-to-tcp",
            "devonly-regression-test-mode",
            "limit-qtype-any",
            "max-cnames-followed",
            "max-cnames-per-query",
            "new-domain-db-snapshot-interval",
            "new-domain-db-size",
            "new-domain-history-dir",
            "new-domain-ignore-list",
            "new-domain-ignore-list-file",
            "new-domain-log",
            "new-domain-lookup",
            "new-domain-pb-tag",
            "new-domain-tracking",
            "new-domain-whitelist",
            "no-shuffle",
            "out-any-to-tcp",
            "outgoing-cookies",
            "outgoing-cookies-unsupported",
            "proxy-protocol-exceptions",
            "proxy-protocol-from",
            "proxy-protocol-maximum-size",
            "serve-rfc6303",
            "system-resolver-interval",
            "system-resolver-self-resolve-check",
            "system-resolver-ttl",
            "unique-response-db-size",
            "unique-response-history-dir",
            "unique-response-ignore-list",
            "unique-response-ignore-list-file",
            "unique-response-log",
            "unique-response-pb-tag",
            "unique-response-tracking",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pdns_settings::Disposition;

    use super::*;

    /// What `pdns_recursor --config=default` of 4.8.8 names.
    const OF_4_8: &str = "\
        ignore-unknown-settings aggressive-cache-max-nsec3-hash-cost \
        aggressive-nsec-cache-size allow-from allow-from-file allow-notify-for \
        allow-notify-for-file allow-notify-from allow-notify-from-file \
        allow-trust-anchor-query any-to-tcp api-config-dir api-key auth-zones \
        carbon-instance carbon-interval carbon-namespace carbon-ourname carbon-server chroot \
        client-tcp-timeout config-dir config-name cpu-map daemon disable-packetcache \
        disable-syslog distribution-load-factor distribution-pipe-buffer-size \
        distributor-threads dns64-prefix dnssec dnssec-log-bogus dont-query \
        dont-throttle-names dont-throttle-netmasks dot-to-auth-names dot-to-port-853 \
        ecs-add-for ecs-cache-limit-ttl ecs-ipv4-bits ecs-ipv4-cache-bits \
        ecs-ipv4-never-cache ecs-ipv6-bits ecs-ipv6-cache-bits ecs-ipv6-never-cache \
        ecs-minimum-ttl-override ecs-scope-zero-address edns-outgoing-bufsize \
        edns-padding-from edns-padding-mode edns-padding-out edns-padding-tag \
        edns-subnet-allow-list edns-subnet-whitelist entropy-source etc-hosts-file \
        event-trace-enabled export-etc-hosts export-etc-hosts-search-suffix \
        extended-resolution-errors forward-zones forward-zones-file forward-zones-recurse \
        gettag-needs-edns-options hint-file include-dir latency-statistic-size \
        limit-qtype-any local-address local-port log-common-errors log-rpz-changes \
        log-timestamp logging-facility loglevel lowercase-outgoing lua-config-file \
        lua-dns-script lua-maintenance-interval max-busy-dot-probes max-cache-bogus-ttl \
        max-cache-entries max-cache-ttl max-concurrent-requests-per-tcp-connection \
        max-dnskeys max-ds-per-zone max-generate-steps max-include-depth max-mthreads \
        max-negative-ttl max-ns-address-qperq max-ns-per-resolve \
        max-nsec3-hash-computations-per-query max-nsec3s-per-record max-packetcache-entries \
        max-qperq max-recursion-depth max-rrset-size max-rrsigs-per-record \
        max-signature-validations-per-query max-tcp-clients max-tcp-per-client \
        max-tcp-queries-per-connection max-total-msec max-udp-queries-per-round \
        minimum-ttl-override network-timeout no-shuffle non-local-bind \
        non-resolving-ns-max-fails non-resolving-ns-throttle-time nothing-below-nxdomain \
        nsec3-max-iterations packetcache-servfail-ttl packetcache-ttl \
        pdns-distributes-queries processes protobuf-use-kernel-timestamp proxy-protocol-from \
        proxy-protocol-maximum-size public-suffix-list-file qname-minimization \
        query-local-address quiet record-cache-locked-ttl-perc record-cache-shards \
        refresh-on-ttl-perc reuseport rng root-nx-trust save-parent-ns-set \
        security-poll-suffix serve-rfc1918 serve-stale-extensions server-down-max-fails \
        server-down-throttle-time server-id setgid setuid signature-inception-skew \
        single-socket snmp-agent snmp-daemon-socket snmp-master-socket soa-minimum-ttl \
        socket-dir socket-group socket-mode socket-owner spoof-nearmiss-max stack-size \
        statistics-interval stats-api-blacklist stats-api-disabled-list \
        stats-carbon-blacklist stats-carbon-disabled-list stats-rec-control-blacklist \
        stats-rec-control-disabled-list stats-ringbuffer-entries stats-snmp-blacklist \
        stats-snmp-disabled-list structured-logging structured-logging-backend tcp-fast-open \
        tcp-fast-open-connect tcp-out-max-idle-ms tcp-out-max-idle-per-auth \
        tcp-out-max-idle-per-thread tcp-out-max-queries threads trace udp-source-port-avoid \
        udp-source-port-max udp-source-port-min udp-truncation-threshold \
        use-incoming-edns-subnet version-string webserver webserver-address \
        webserver-allow-from webserver-hash-plaintext-credentials webserver-loglevel \
        webserver-password webserver-port write-pid x-dnssec-names";

    #[test]
    fn no_setting_is_listed_twice() {
        let mut seen = BTreeSet::new();
        for key in CATALOGUE.names() {
            assert!(seen.insert(key), "{key}");
        }
    }

    #[test]
    fn every_setting_of_4_8_is_known() {
        let mut n_settings = 0;
        for key in OF_4_8.split_whitespace() {
            assert_ne!(CATALOGUE.disposition(key), None, "{key}");
            n_settings += 1;
        }
        assert_eq!(n_settings, 187);
    }

    #[test]
    fn what_lists_begin_with_belongs_to_settings() {
        for (key, _) in DEFAULTS {
            assert_ne!(CATALOGUE.disposition(key), None, "{key}");
        }
    }

    #[test]
    fn misspelt_settings_find_their_neighbour() {
        for (key, expected) in [
            ("forward-zone", Some("forward-zones")),
            ("forwarders", None),
            ("forward-zones-recursive", Some("forward-zones-recurse")),
            ("allow_from", Some("allow-from")),
            ("serve-rfc1819", Some("serve-rfc1918")),
            ("bind-config", None),
        ] {
            assert_eq!(CATALOGUE.nearest(key), expected, "{key}");
        }
        assert_eq!(CATALOGUE.disposition("forward-zone"), None);
        assert_eq!(CATALOGUE.disposition("dnssec"), Some(Disposition::Kept));
    }
}
