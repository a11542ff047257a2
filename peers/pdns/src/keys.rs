//! Every setting that `pdns_server` knows, from 4.7 to 5.1 with the bind backend, and its treatment here.

use pdns_settings::Catalogue;

pub(super) static CATALOGUE: Catalogue = Catalogue {
    kept: KEPT,
    dropped: DROPPED,
    families: &[(BACKEND, &BACKENDS)],
    defaults: &[],
};

const KEPT: &[&str] = &[
    "allow-axfr-ips",
    "also-notify",
    "any-to-tcp",
    "bind-check-interval",
    "bind-config",
    "bind-ignore-broken-records",
    "default-ttl",
    "disable-axfr",
    "edns-subnet-processing",
    "enable-lua-records",
    "ignore-unknown-settings",
    "include-dir",
    "launch",
    "local-address",
    "local-port",
    "lua-health-checks-interval",
    "lua-records-exec-limit",
    "lua-records-insert-whitespace",
    "master",
    "max-generate-steps",
    "max-include-depth",
    "max-tcp-connections",
    "primary",
    "receiver-threads",
    "server-id",
    "tcp-idle-timeout",
    "udp-truncation-threshold",
    "version-string",
];

const BACKEND: &str = "only the bind backend's zones are served";

/// The prefixes of other backends' settings.
const BACKENDS: [&str; 12] = [
    "geoip-",
    "gmysql-",
    "godbc-",
    "gpgsql-",
    "gsqlite3-",
    "ldap-",
    "lmdb-",
    "lua2-",
    "pipe-",
    "random-",
    "remote-",
    "tinydns-",
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
            "daemon",
            "guardian",
            "write-pid",
            "socket-dir",
            "traceback-handler",
            "config-dir",
            "config-name",
            "module-dir",
            "load-modules",
            "consistent-backends",
            "entropy-source",
            "rng",
            "non-local-bind",
            "local-address-nonexist-fail",
            "reuseport",
            "tcp-fast-open",
        ],
    ),
    (
        "answers are made when a zone is loaded, so there is no cache to tune",
        &[
            "cache-ttl",
            "max-cache-entries",
            "max-ent-entries",
            "max-packet-cache-entries",
            "negquery-cache-ttl",
            "query-cache-ttl",
            "zone-cache-refresh-interval",
            "zone-metadata-cache-ttl",
            "domain-metadata-cache-ttl",
            "dnssec-key-cache-ttl",
            "max-signature-cache-entries",
        ],
    ),
    (
        "answers need no queues and no threads to look them up",
        &[
            "distributor-threads",
            "max-queue-length",
            "overload-queue-length",
            "queue-limit",
            "signing-threads",
            "retrieval-threads",
        ],
    ),
    (
        "zones are not fetched from other servers",
        &[
            "allow-notify-from",
            "allow-unsigned-autoprimary",
            "allow-unsigned-notify",
            "allow-unsigned-supermaster",
            "autosecondary",
            "axfr-fetch-timeout",
            "axfr-lower-serial",
            "bind-autoprimaries",
            "bind-autoprimary-config",
            "bind-autoprimary-destdir",
            "bind-supermaster-config",
            "bind-supermaster-destdir",
            "bind-supermasters",
            "default-catalog-zone",
            "forward-notify",
            "lua-axfr-script",
            "secondary",
            "secondary-check-signature-freshness",
            "secondary-do-renotify",
            "slave",
            "slave-cycle-interval",
            "slave-renotify",
            "superslave",
            "trusted-notification-proxy",
            "xfr-cycle-interval",
            "xfr-max-received-mbytes",
        ],
    ),
    (
        "zones are served as their files have them; nothing is signed here",
        &[
            "bind-dnssec-db",
            "bind-dnssec-db-journal-mode",
            "bind-hybrid",
            "default-api-rectify",
            "default-ksk-algorithm",
            "default-ksk-size",
            "default-publish-cdnskey",
            "default-publish-cds",
            "default-soa-content",
            "default-soa-edit",
            "default-soa-edit-signed",
            "default-zsk-algorithm",
            "default-zsk-size",
            "direct-dnskey",
            "direct-dnskey-signature",
            "disable-axfr-rectify",
            "max-nsec3-iterations",
            "svc-autohints",
        ],
    ),
    (
        "zones change with their files, not by dynamic update",
        &[
            "allow-dnsupdate-from",
            "dnsupdate",
            "dnsupdate-require-tsig",
            "enable-gss-tsig",
            "enable-lua-record-updates",
            "forward-dnsupdate",
            "lua-dnsupdate-policy-script",
        ],
    ),
    (
        "NOTIFY goes to every listed server at once, from the address that the system chooses",
        &[
            "delay-notifications",
            "only-notify",
            "prevent-self-notification",
            "query-local-address",
            "send-signed-notify",
        ],
    ),
    (
        "the admin listener has status and metrics",
        &[
            "api",
            "api-key",
            "carbon-instance",
            "carbon-interval",
            "carbon-namespace",
            "carbon-ourname",
            "carbon-server",
            "webserver",
            "webserver-address",
            "webserver-allow-from",
            "webserver-connection-timeout",
            "webserver-hash-plaintext-credentials",
            "webserver-loglevel",
            "webserver-max-bodysize",
            "webserver-password",
            "webserver-port",
            "webserver-print-arguments",
        ],
    ),
    (
        "the log has settings of its own",
        &[
            "disable-syslog",
            "log-dns-details",
            "log-dns-queries",
            "log-timestamp",
            "logging-facility",
            "loglevel",
            "loglevel-show",
            "query-logging",
            "structured-logging",
        ],
    ),
    (
        "the `dns-authd` command reads and steers the server through its admin listener",
        &[
            "control-console",
            "tcp-control-address",
            "tcp-control-port",
            "tcp-control-range",
            "tcp-control-secret",
        ],
    ),
    (
        "the only programs that run are LUA records",
        &["lua-prequery-script", "lua-global-include-dir"],
    ),
    (
        "targets are watched for as long as a record names them",
        &["lua-health-checks-expire-delay"],
    ),
    (
        "consistent hashing keeps no state that would expire",
        &[
            "lua-consistent-hashes-cleanup-interval",
            "lua-consistent-hashes-expire-delay",
        ],
    ),
    (
        "ALIAS records need a resolver, and there may be none",
        &["expand-alias", "outgoing-axfr-expand-alias", "resolver"],
    ),
    (
        "the server never looks up versions on the Internet",
        &["security-poll-suffix"],
    ),
    (
        "names may hold any octet, and DNAME is always followed",
        &[
            "8bit-dns",
            "dname-processing",
            "no-shuffle",
            "upgrade-unknown-types",
            "resolve-across-zones",
        ],
    ),
    (
        "it has no counterpart in this server",
        &[
            "edns-cookie-secret",
            "max-tcp-connection-duration",
            "max-tcp-connections-per-client",
            "max-tcp-transactions-per-conn",
            "proxy-protocol-from",
            "proxy-protocol-maximum-size",
            "views",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pdns_settings::Disposition;

    use super::*;

    #[test]
    fn no_setting_is_listed_twice() {
        let mut seen = BTreeSet::new();
        for key in CATALOGUE.names() {
            assert!(seen.insert(key), "{key}");
        }
    }

    #[test]
    fn dispositions() {
        let disposition = |key| CATALOGUE.disposition(key);
        assert_eq!(disposition("launch"), Some(Disposition::Kept));
        assert_eq!(
            disposition("setuid"),
            Some(Disposition::Dropped(
                "the process runs as the user that starts it"
            ))
        );
        assert_eq!(
            disposition("gmysql-host"),
            Some(Disposition::Dropped(BACKEND))
        );
        assert_eq!(disposition("local-adress"), None);
        assert_eq!(disposition(""), None);
    }

    #[test]
    fn misspelt_settings_find_their_neighbour() {
        let nearest = |key| CATALOGUE.nearest(key);
        assert_eq!(nearest("local-adress"), Some("local-address"));
        assert_eq!(nearest("localport"), Some("local-port"));
        assert_eq!(nearest("enable-lua-record"), Some("enable-lua-records"));
        assert_eq!(nearest("utterly-else"), None);
        assert_eq!(nearest("x"), None);
    }
}
