//! A recursor.conf as this server's TOML.

use std::fmt::Display;
use std::time::Duration;

use config_text::toml::{list, quoted};
use peer_recursor_conf::{Cache, Clients, Dnssec, Local, RecursorConf, Upstreams};

/// The memory of one entry, roughly, in octets: pdns bounds its cache by entries only.
const ENTRY_SIZE: usize = 700;
/// The least memory of a cache, in MiB.
const MIN_CACHE: usize = 64;
/// The bounds of the time that a failure is remembered.
const FAILURE_TTL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// A recursor.conf as TOML, with remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The configuration.
    pub toml: String,
    /// The differences in behaviour, beside the settings that are [dropped](RecursorConf::dropped) and
    /// [warned of](RecursorConf::warnings).
    pub notes: Vec<String>,
}

/// Writes a recursor.conf as a configuration of this server.
#[must_use]
pub fn import(conf: &RecursorConf) -> Conversion {
    let mut page = Page {
        text: String::new(),
        notes: Vec::new(),
    };
    let files: Vec<_> = conf
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    page.comment(&format!("From {}.", files.join(", ")));
    for dropped in &conf.dropped {
        let (key, value, reason) = (&dropped.key, &dropped.value, dropped.reason);
        page.comment(&format!("not carried: {key}={value}: {reason}"));
    }
    page.line("version = \"v1\"");
    page.list("listen", &conf.listen);
    if let Some(threads) = conf.clients.threads {
        page.line(&format!("threads = {threads}"));
    }
    page.list("allow-from", &conf.allow_from);
    if !conf.allow_notify_from.is_empty() {
        page.list("notify-from", &conf.allow_notify_from);
    }
    page.upstreams(&conf.upstreams);
    page.cache(&conf.cache);
    page.clients(&conf.clients);
    page.local(&conf.local);
    page.forwards(conf);
    if conf.dont_query.is_some() {
        page.note(
            "dont-query",
            "a referral may lead to any host except this server",
        );
    }
    if conf.dnssec == Some(Dnssec::Off) {
        page.note("dnssec=off", "clients that ask for DNSSEC records get them");
    }
    Conversion {
        toml: page.text,
        notes: page.notes,
    }
}

/// The text and the notes so far.
struct Page {
    text: String,
    notes: Vec<String>,
}

impl Page {
    fn upstreams(&mut self, upstreams: &Upstreams) {
        let sources = upstreams.sources.iter();
        let mut sources: Vec<_> = sources.filter(|source| !source.is_unspecified()).collect();
        let n_given = sources.len();
        // A stable sort keeps the first of each family first.
        sources.sort_by_key(|source| source.is_ipv6());
        sources.dedup_by_key(|source| source.is_ipv6());
        if sources.len() < n_given {
            let reason = "queries leave from the first IPv4 and the first IPv6 address only";
            self.note("query-local-address", reason);
        }
        if !sources.is_empty() {
            self.list("source-addresses", &sources);
        }
        match upstreams.deadline {
            Some(Duration::ZERO) => {
                self.note("max-total-msec=0", "every question has a deadline");
            }
            Some(deadline) => {
                let deadline = format!("deadline = \"{}ms\"", deadline.as_millis());
                self.section("resolve", &[deadline]);
            }
            None => {}
        }
        if upstreams.timeout.is_some() {
            self.note(
                "network-timeout",
                "the server waits for an upstream as long as that upstream usually takes",
            );
        }
        if upstreams.udp_size.is_some() {
            self.note(
                "edns-outgoing-bufsize",
                "upstreams may send 1232 octets over UDP",
            );
        }
        if upstreams.client_subnet {
            self.note(
                "use-incoming-edns-subnet",
                "no client's subnet is passed on",
            );
        }
    }

    fn cache(&mut self, cache: &Cache) {
        let mut lines = Vec::new();
        if let Some(entries) = cache.entries {
            let octets = entries.saturating_mul(ENTRY_SIZE);
            lines.push(format!("entries = {entries}"));
            lines.push(format!(
                "size = \"{}MiB\"",
                octets.div_ceil(1 << 20).max(MIN_CACHE)
            ));
        }
        let ttls = [
            ("min-ttl", cache.min_ttl),
            ("max-ttl", cache.max_ttl),
            ("negative-max-ttl", cache.max_negative_ttl),
        ];
        for (key, ttl) in ttls {
            lines.extend(ttl.map(|ttl| format!("{key} = {}", seconds(ttl))));
        }
        let [least, most] = FAILURE_TTL;
        if let Some(ttl) = cache.packets.failure_ttl {
            let held = ttl.clamp(least, most);
            if held != ttl {
                let key = format!("packetcache-servfail-ttl={}", ttl.as_secs());
                self.note(&key, "failures are remembered for 1 to 5 seconds");
            }
            lines.push(format!("failure-ttl = {}", seconds(held)));
        }
        if let Some(percent) = cache.refresh_percent {
            lines.push(format!("prefetch = {}", percent > 0));
        }
        self.section("cache", &lines);
        if let Some(stale) = cache.stale {
            self.section("stale", &[format!("max-age = {}", seconds(stale))]);
        }
        let packets = &cache.packets;
        let set = [
            ("disable-packetcache", packets.disabled),
            ("max-packetcache-entries", packets.entries.is_some()),
            ("packetcache-ttl", packets.ttl.is_some()),
            ("packetcache-negative-ttl", packets.negative_ttl.is_some()),
        ];
        for (key, _) in set.iter().filter(|(_, is_set)| *is_set) {
            self.note(key, "one cache keeps whole answers");
        }
    }

    fn clients(&mut self, clients: &Clients) {
        let mut lines = Vec::new();
        for (key, number) in [
            ("connections", clients.tcp_connections),
            ("per-client", clients.tcp_per_client),
            ("pipeline", clients.tcp_pipeline),
        ] {
            // Zero means no limit of its own.
            let number = number.filter(|number| *number > 0);
            lines.extend(number.map(|number| format!("{key} = {number}")));
        }
        let idle = clients.tcp_idle;
        lines.extend(idle.map(|idle| format!("idle = {}", seconds(idle))));
        self.section("tcp", &lines);
        if clients.udp_limit.is_some_and(|limit| limit != 1232) {
            let key = "udp-truncation-threshold";
            self.note(
                key,
                "answers over UDP are as long as the client allows, up to 1232 octets",
            );
        }
    }

    fn local(&mut self, local: &Local) {
        let mut lines = vec![format!("private-reverse = {}", local.private_reverse)];
        for (key, text) in [("version", &local.version), ("id", &local.server_id)] {
            let text = text.iter().filter(|text| !text.is_empty());
            lines.extend(text.map(|text| format!("{key} = {}", quoted(text))));
        }
        self.section("local", &lines);
        if let Some(hosts) = &local.hosts {
            let key = format!("etc-hosts-file={}", hosts.file.display());
            self.note(&key, "this server does not answer from a hosts file");
        }
    }

    fn forwards(&mut self, conf: &RecursorConf) {
        for forward in &conf.forwards {
            self.line("\n[[forward]]");
            self.line(&format!("zone = {}", quoted(&forward.zone.to_string())));
            self.list("upstreams", &forward.upstreams);
            if forward.recursive {
                self.line("recursive = true");
            }
        }
    }

    //--- Small things

    fn note(&mut self, key: &str, what: &str) {
        self.notes
            .push(format!("`{key}` is not carried over: {what}"));
    }

    fn section(&mut self, name: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.line(&format!("\n[{name}]"));
        for line in lines {
            self.line(line);
        }
    }

    fn list<T: Display>(&mut self, key: &str, items: &[T]) {
        self.line(&format!("{key} = {}", list(items)));
    }

    fn comment(&mut self, text: &str) {
        let text = text.replace(char::is_control, " ");
        self.line(&format!("# {text}"));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn seconds(duration: Duration) -> String {
    format!("\"{}s\"", duration.as_secs())
}

#[cfg(test)]
mod tests {
    use daemon::config::Document;
    use dns_resolve::forward::Mode;

    use crate::config::{Config, v1};

    use super::*;

    #[track_caller]
    fn imported(text: &[u8]) -> (Config, Conversion) {
        let imported = import(&peer_recursor_conf::parse_bytes(text).unwrap());
        let config = v1::parse(&Document::inline("x.toml", imported.toml.as_str()));
        let config = config.unwrap_or_else(|error| panic!("{error}\n{}", imported.toml));
        (config, imported)
    }

    #[test]
    fn the_seed_file_means_what_it_meant() {
        let text = include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/seed/recursor.conf"
        ));
        let (config, imported) = imported(text);
        let listen: Vec<_> = config
            .network
            .listen
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(listen, ["0.0.0.0:53", "[::]:53"]);
        let allowed = config.access.allow.networks();
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
            imported.notes,
            ["`dnssec=off` is not carried over: clients that ask for DNSSEC records get them"]
        );
        assert!(imported.toml.starts_with(
            "# From recursor.conf.\n# not carried: setgid=pdns-recursor: the process runs as \
             the user that starts it\n"
        ));
    }

    #[test]
    fn an_empty_file_is_what_pdns_would_be() {
        let (config, imported) = imported(b"");
        let listen: Vec<_> = config
            .network
            .listen
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(listen, ["127.0.0.1:53"]);
        let allowed = config.access.allow.networks();
        assert!(allowed.contains("192.168.7.9".parse().unwrap()));
        assert!(!allowed.contains("203.0.113.9".parse().unwrap()));
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    }

    #[test]
    fn every_setting_with_a_counterpart_reaches_it() {
        let (config, imported) = imported(
            b"threads=3\nquery-local-address=192.0.2.1 ::\nmax-total-msec=1500\n\
              max-cache-entries=1000000\nminimum-ttl-override=4\nmax-cache-ttl=5\n\
              max-negative-ttl=6\npacketcache-servfail-ttl=2\nrefresh-on-ttl-perc=0\n\
              serve-stale-extensions=120\nmax-tcp-clients=7\nmax-tcp-per-client=8\n\
              client-tcp-timeout=9\nmax-concurrent-requests-per-tcp-connection=10\n\
              serve-rfc1918=no\nversion-string=a \"b\" \\c\nserver-id=\xe5\x85\x81\n\
              allow-notify-from=192.0.2.7",
        );
        assert_eq!(config.network.threads, 3);
        assert_eq!(config.network.source.v4.to_string(), "192.0.2.1");
        assert_eq!(config.resolve.deadline, Duration::from_millis(1500));
        let limits = config.resolve.limits;
        assert_eq!(
            (
                limits.positive_min,
                limits.positive_max,
                limits.negative_max
            ),
            (4, 5, 6)
        );
        assert_eq!(config.cache.positive.entries, 1_000_000);
        assert_eq!(config.cache.positive.octets, 668 << 20);
        assert_eq!(config.cache.stale, Duration::from_secs(3600));
        assert_eq!(config.serve.recheck, Duration::from_secs(2));
        assert!(!config.serve.prefetch && !config.local.private_reverse);
        let tcp = config.network.tcp;
        assert_eq!((tcp.connections, tcp.per_client, tcp.pipeline), (7, 8, 10));
        assert_eq!(tcp.idle, Duration::from_secs(9));
        assert_eq!(config.local.version.as_deref(), Some("a \"b\" \\c"));
        assert_eq!(config.local.id.as_deref(), Some("\u{5141}"));
        assert!(config.access.notify.contains("192.0.2.7".parse().unwrap()));
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    }

    #[test]
    fn of_several_source_addresses_the_first_of_each_family_is_kept() {
        let (config, imported) =
            imported(b"query-local-address=192.0.2.2 fd00::2 192.0.2.1 fd00::1");
        let source = config.network.source;
        assert_eq!(
            (source.v4.to_string(), source.v6.to_string()),
            ("192.0.2.2".to_owned(), "fd00::2".to_owned())
        );
        assert_eq!(imported.notes.len(), 1, "{:?}", imported.notes);
        assert!(imported.notes[0].contains("query-local-address"));
    }

    #[test]
    fn what_cannot_be_said_is_noted() {
        let (config, imported) = imported(
            b"network-timeout=1\nmax-total-msec=0\nedns-outgoing-bufsize=4096\n\
              use-incoming-edns-subnet\ndisable-packetcache\nmax-packetcache-entries=1\n\
              packetcache-ttl=1\npacketcache-negative-ttl=1\npacketcache-servfail-ttl=60\n\
              udp-truncation-threshold=4096\nexport-etc-hosts\ndont-query=\ndnssec=off\n\
              max-tcp-clients=0",
        );
        assert_eq!(config.serve.recheck, Duration::from_secs(5));
        assert_eq!(imported.notes.len(), 13, "{:#?}", imported.notes);
    }
}
