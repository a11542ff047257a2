//! Corefiles as OpenShift's DNS operator renders them, in each shape that its template has.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ::config::dns_recursor::QueryClass;
use config_text::Files;
use daemon::config::Document;
use dns_resolve::forward::{Policy, Protocol};

use crate::config::Config;
use crate::import::{checked, corefile};

struct Memory(String);

impl Files for Memory {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("Corefile") => Ok(self.0.clone().into_bytes()),
            Some("/etc/resolv.conf") => Ok(b"nameserver 192.0.2.53\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A `forward` of the template.
#[derive(Clone, Copy)]
struct Upstreams {
    to: &'static str,
    policy: &'static str,
    /// The lines before the policy, and after it.
    more: [&'static str; 2],
}

const SYSTEM: Upstreams = Upstreams {
    to: "/etc/resolv.conf",
    policy: "sequential",
    more: ["", ""],
};

impl Upstreams {
    fn lines(&self) -> String {
        let [before, after] = self.more;
        let policy = self.policy;
        format!(
            "    forward . {} {{\n{before}        policy {policy}\n{after}    }}\n",
            self.to
        )
    }
}

/// The lines that all blocks have.
fn common(class: &str, cache: [u32; 2], hook: &str) -> String {
    let [positive, negative] = cache;
    format!(
        "    errors\n    log . {{\n        class {class}\n    }}\n    bufsize 1232\n    cache {positive} {{\n        \
         denial 9984 {negative}\n    }}\n{hook}"
    )
}

/// The whole file, with a block for each of `servers`.
fn rendered(
    servers: &[(&str, Upstreams)],
    default: Upstreams,
    class: &str,
    cache: [u32; 2],
    hook: &str,
) -> String {
    let common = common(class, cache, hook);
    let mut text = String::new();
    for (index, (zones, upstreams)) in servers.iter().enumerate() {
        let keys: Vec<String> = zones
            .split(' ')
            .map(|zone| format!("{zone}:5353"))
            .collect();
        text.push_str(&format!(
            "# server-{index}\n{} {{\n    prometheus 127.0.0.1:9153\n{}{common}}}\n",
            keys.join(" "),
            upstreams.lines()
        ));
    }
    text.push_str(&format!(
        ".:5353 {{\n    health {{\n        lameduck 20s\n    }}\n    ready\n    kubernetes cluster.local in-addr.arpa \
         ip6.arpa {{\n        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n    }}\n    prometheus \
         127.0.0.1:9153\n{}{common}    reload\n}}\nhostname.bind:5353 {{\n    chaos\n}}\n",
        default.lines()
    ));
    text
}

/// Imports a file: its configuration, and the notes; each note is there once.
fn read(text: String) -> (Config, Vec<String>) {
    let shown = text.clone();
    let draft = corefile(Path::new("Corefile"), &mut Memory(text));
    let draft = draft.unwrap_or_else(|refused| panic!("{refused}\n{shown}"));
    let draft = checked(draft, &[]).unwrap_or_else(|refused| panic!("{refused}\n{shown}"));
    let said: BTreeSet<_> = draft
        .notes
        .iter()
        .map(|note| (&note.what, &note.reason))
        .collect();
    assert_eq!(said.len(), draft.notes.len(), "{:#?}", draft.notes);
    let toml = draft.written("").unwrap().to_string();
    let config = Config::from_document(&Document::inline("import", toml.as_str()));
    let config = config.unwrap_or_else(|problems| panic!("{problems}\n{toml}"));
    let notes = draft.notes.iter().map(ToString::to_string);
    (config, notes.collect())
}

const TLS_NAME: &str = "        tls_servername dns.example\n        tls\n";
const TLS_BUNDLE: &str = "        tls_servername dns.example\n        tls /etc/pki/dns.example-ca-bundle-1/ca-bundle.crt\n";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of upstreams")]
fn every_upstream_of_a_server_or_of_all_names_is_carried_over() {
    let plain = |to, policy| Upstreams {
        to,
        policy,
        ..SYSTEM
    };
    let tls = |to, before| Upstreams {
        to,
        more: [before, ""],
        ..SYSTEM
    };
    for (upstreams, addresses, policy, protocol) in [
        (
            plain("1.1.1.1", "random"),
            &["1.1.1.1:53"][..],
            Policy::Random,
            Protocol::Udp,
        ),
        (
            plain("1.1.1.1 2.2.2.2:5353", "round_robin"),
            &["1.1.1.1:53", "2.2.2.2:5353"],
            Policy::RoundRobin,
            Protocol::Udp,
        ),
        (
            plain("1.1.1.1:53 [FE80::1]:5353 [1001:AAAA::2]:53", "sequential"),
            &["1.1.1.1:53", "[fe80::1]:5353", "[1001:aaaa::2]:53"],
            Policy::Sequential,
            Protocol::Udp,
        ),
        (
            Upstreams {
                more: ["", "        force_tcp\n"],
                ..plain("1.1.1.1", "random")
            },
            &["1.1.1.1:53"],
            Policy::Random,
            Protocol::Tcp,
        ),
        (
            SYSTEM,
            &["192.0.2.53:53"],
            Policy::Sequential,
            Protocol::Udp,
        ),
        (
            Upstreams {
                to: "/etc/resolv.conf 1.1.1.1:53",
                ..SYSTEM
            },
            &["192.0.2.53:53", "1.1.1.1:53"],
            Policy::Sequential,
            Protocol::Udp,
        ),
        (
            tls("tls://1.1.1.1", TLS_NAME),
            &["1.1.1.1:853"],
            Policy::Sequential,
            Protocol::Tls,
        ),
        (
            tls("tls://1.1.1.1:5353 tls://[1001:AAAA::2]:853", TLS_NAME),
            &["1.1.1.1:5353", "[1001:aaaa::2]:853"],
            Policy::Sequential,
            Protocol::Tls,
        ),
        (
            tls("tls://1.1.1.1", TLS_BUNDLE),
            &["1.1.1.1:853"],
            Policy::Sequential,
            Protocol::Tls,
        ),
    ] {
        for is_default in [true, false] {
            let text = match is_default {
                true => rendered(&[], upstreams, "error", [900, 30], ""),
                false => rendered(&[("foo.com", upstreams)], SYSTEM, "error", [900, 30], ""),
            };
            let (config, _) = read(text);
            let zone = if is_default { "." } else { "foo.com." };
            let mut forwards = config.forwards.iter();
            let forward = forwards.find(|it| it.zone.to_string() == zone).unwrap();
            let found: Vec<_> = forward.upstreams.iter().map(ToString::to_string).collect();
            assert_eq!(found, addresses, "{zone}");
            assert_eq!(
                (forward.policy, forward.protocol),
                (policy, protocol),
                "{zone} {}",
                upstreams.to
            );
        }
    }
}

#[test]
fn every_set_of_servers_keeps_its_zones() {
    let to = Upstreams {
        to: "1.1.1.1",
        policy: "random",
        ..SYSTEM
    };
    for (servers, zones) in [
        (&[][..], &["."][..]),
        (&[("foo.com", to)], &[".", "foo.com."]),
        (&[("foo.com bar.com", to)], &[".", "bar.com.", "foo.com."]),
        (
            &[("foo.com", to), ("bar.com test.com", to)],
            &[".", "bar.com.", "foo.com.", "test.com."],
        ),
        (
            &[("cluster.foo.com", to), ("foo.com", to)],
            &[".", "cluster.foo.com.", "foo.com."],
        ),
        // A zone of addresses.
        (&[("10.in-addr.arpa", to)], &[".", "10.in-addr.arpa."]),
    ] {
        let (config, _) = read(rendered(servers, SYSTEM, "error", [900, 30], ""));
        let found: BTreeSet<_> = config
            .forwards
            .iter()
            .map(|it| it.zone.to_string())
            .collect();
        assert_eq!(found, zones.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(config.file.lameduck.0.as_secs(), 20);
    }
}

#[test]
fn every_log_level_cache_and_hook_is_carried_over_or_said() {
    let classes = |text: &str| {
        let (config, notes) = read(rendered(
            &[("foo.com", SYSTEM)],
            SYSTEM,
            text,
            [900, 30],
            "",
        ));
        assert!(config.file.query_log.enabled);
        (config.file.query_log.classes, notes)
    };
    let (error, notes) = classes("error");
    assert_eq!(error, [QueryClass::Error]);
    assert_eq!(
        classes("denial error").0,
        [QueryClass::Denial, QueryClass::Error]
    );
    assert_eq!(classes("all").0, [QueryClass::All]);
    // What both blocks have is said once, with its class.
    for (words, n) in [
        ("prometheus", 1),
        ("cosmetic: `prometheus", 1),
        ("kubernetes", 1),
        ("reload", 1),
    ] {
        let found = notes.iter().filter(|note| note.contains(words)).count();
        assert_eq!(found, n, "{words}: {notes:#?}");
    }
    for cache in [[900, 30], [1, 1], [3600, 1800]] {
        let (config, _) = read(rendered(&[], SYSTEM, "error", cache, ""));
        let cached = &config.file.cache;
        let ttls = [cached.max_ttl, cached.negative_max_ttl].map(|it| it.0.as_secs());
        assert_eq!(ttls, cache.map(u64::from));
    }
    let hook = "    ocp_dnsnameresolver {\n        namespaces openshift-ovn-kubernetes\n    }\n";
    let (_, notes) = read(rendered(
        &[("foo.com", SYSTEM)],
        SYSTEM,
        "error",
        [900, 30],
        hook,
    ));
    let said = notes
        .iter()
        .filter(|note| note.contains("ocp_dnsnameresolver"));
    assert_eq!(said.count(), 1, "{notes:#?}");
}

#[test]
fn an_error_does_not_hide_what_else_is_not_carried() {
    let text = rendered(&[("foo.com", SYSTEM)], SYSTEM, "nothing", [900, 30], "");
    let refused = corefile(Path::new("Corefile"), &mut Memory(text)).unwrap_err();
    assert!(!refused.problems.0.is_empty());
    let told = refused.to_string();
    for words in [
        "`nothing` is no class of the log",
        "kubernetes",
        "prometheus",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
