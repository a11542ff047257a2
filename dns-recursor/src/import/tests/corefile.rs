//! Imported Corefiles: the configuration that results, and what its own check says.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::Refused;
use ::config::dns_recursor::QueryClass;
use config_text::Files;
use daemon::config::Document;
use dns_cache::message::TtlLimits;
use dns_resolve::forward::{Policy, Protocol};

use crate::config::Config;
use crate::import::corefile as import;

struct Memory<'a>(&'a str);

impl Files for Memory<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("Corefile") => Ok(self.0.into()),
            Some("/etc/resolv.conf") => {
                Ok(b"search x\nnameserver 192.0.2.53\nnameserver fd00::53 # two\n".to_vec())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[expect(
    clippy::panic_in_result_fn,
    reason = "TOML that is not understood is a failed test, not an error of the file"
)]
fn read(text: &str) -> Result<(Config, Vec<String>), Vec<String>> {
    let told = |refused: Refused| refused.problems.0.iter().map(ToString::to_string).collect();
    match import(Path::new("Corefile"), &mut Memory(text)) {
        Ok(imported) => {
            let toml = imported
                .written("")
                .map_or_else(|error| error.to_string(), |toml| toml.to_string());
            let document = Document::inline("import", toml.as_str());
            let config = Config::from_document(&document).unwrap_or_else(|p| panic!("{p}\n{toml}"));
            let remarks = imported.notes.iter().map(ToString::to_string);
            Ok((config, remarks.collect()))
        }
        Err(refused) => Err(told(refused)),
    }
}

#[test]
fn a_clusters_corefile_keeps_its_routes_and_its_cache() {
    let (config, remarks) = read(
        ".:5353 {\n    bufsize 512\n    errors\n    health {\n        lameduck 20s\n    }\n    ready\n    \
         kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n        \
         fallthrough in-addr.arpa ip6.arpa\n    }\n    prometheus 127.0.0.1:9153\n    \
         forward . /etc/resolv.conf {\n        policy sequential\n    }\n    \
         cache 900 {\n        denial 9984 30\n    }\n    reload\n}\n",
    )
    .unwrap();
    let listen: Vec<String> = config.file.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["0.0.0.0:5353", "[::]:5353"]);
    let ends = [config.file.lameduck, config.file.drain].map(|it| it.0.as_secs());
    assert_eq!(ends, [20, 30]);
    let [forward] = config.forwards.as_slice() else {
        panic!();
    };
    assert_eq!(
        (forward.zone.to_string().as_str(), forward.policy),
        (".", Policy::Sequential)
    );
    let upstreams: Vec<String> = forward.upstreams.iter().map(ToString::to_string).collect();
    assert_eq!(upstreams, ["192.0.2.53:53", "[fd00::53]:53"]);
    let limits = TtlLimits::of(&config.file.cache);
    assert_eq!((limits.positive_max, limits.negative_max), (900, 30));
    assert_eq!(
        (
            config.file.cache.entries,
            config.file.cache.negative_entries
        ),
        (9984, 9984)
    );
    for words in [
        "Corefile:2:5: `bufsize 512`",
        "Corefile:8:5: `kubernetes",
        "`health`",
        "`reload`",
    ] {
        assert!(
            remarks
                .iter()
                .any(|remark| remark.starts_with(words) || remark.contains(words)),
            "{words}: {remarks:#?}"
        );
    }
}

#[test]
fn the_log_has_the_classes_of_all_blocks_and_dnstap_its_socket() {
    let with = |lines: &str| format!(".:5353 {{\n    forward . 192.0.2.1\n    {lines}\n}}\n");
    for (lines, classes) in [
        ("errors", &[][..]),
        ("log", &[QueryClass::All]),
        ("log . {\n        class error\n    }", &[QueryClass::Error]),
        (
            "log . {\n        class denial error\n    }\n    log {\n class error success\n }",
            &[QueryClass::Denial, QueryClass::Error, QueryClass::Success],
        ),
    ] {
        let (config, remarks) = read(&with(lines)).unwrap();
        let log = &config.file.query_log;
        assert_eq!(log.enabled, !classes.is_empty(), "{lines}");
        if log.enabled {
            assert_eq!(log.classes, classes, "{lines}");
        }
        assert_eq!(remarks, Vec::<String>::new(), "{lines}");
    }
    for lines in [
        "dnstap /run/t full",
        "dnstap unix:///run/t {\n identity me\n }",
    ] {
        let dnstap = read(&with(lines)).unwrap().0.file.dnstap.unwrap();
        assert_eq!(dnstap.socket.as_deref(), Some(Path::new("/run/t")));
        let has_identity = lines.contains("identity");
        assert_eq!(dnstap.identity.is_some(), has_identity, "{lines}");
    }
    for (lines, words) in [
        ("log example.org", "`log example.org`"),
        (
            "dnstap tcp://192.0.2.1:6000",
            "`dnstap tcp://192.0.2.1:6000`",
        ),
        ("dnstap /t {\n extra x\n }", "`dnstap extra`"),
    ] {
        let (_, remarks) = read(&with(lines)).unwrap();
        assert_eq!(remarks.len(), 1, "{lines}: {remarks:?}");
        assert!(remarks[0].contains(words), "{lines}: {remarks:?}");
    }
    for lines in ["log {\n class x\n }", "log {\n x\n }", "dnstap"] {
        assert!(read(&with(lines)).is_err(), "{lines}");
    }
}

#[test]
fn every_block_is_a_zone_of_its_own() {
    let (config, remarks) = read(
        "# servers\nfoo.com:5353 bar.com:5353 {\n  forward . 1.1.1.1 2.2.2.2:5353 dns://[fd00::1]:54 {\n    \
         force_tcp\n    policy round_robin\n    max_concurrent 500\n  }\n  cache\n}\n\
         a.example,\nb.example {\n  bind 127.0.0.1\n  forward sub.a.example 192.0.2.1\n}\n\
         hostname.bind:5353 {\n  chaos \"my server\"\n}\n",
    )
    .unwrap();
    let zones: Vec<String> = config
        .forwards
        .iter()
        .map(|f| {
            format!(
                "{} {:?} {:?} {}",
                f.zone,
                f.policy,
                f.protocol,
                f.upstreams.len()
            )
        })
        .collect();
    assert_eq!(
        zones,
        [
            "b.example. Random Udp 1",
            "bar.com. RoundRobin Tcp 3",
            "foo.com. RoundRobin Tcp 3",
            "sub.a.example. Random Udp 1",
        ]
    );
    assert_eq!(config.forwards[1].protocol, Protocol::Tcp);
    let listen: Vec<String> = config.file.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:53", "0.0.0.0:5353", "[::]:5353"]);
    assert_eq!(config.file.local.version.as_deref(), Some("my server"));
    assert_eq!(config.file.resolve.max_questions.get(), 500);
    let limits = TtlLimits::of(&config.file.cache);
    assert_eq!((limits.positive_max, limits.negative_max), (3600, 1800));
    assert!(
        remarks
            .iter()
            .any(|remark| remark.contains("hostname.bind:5353")),
        "{remarks:?}"
    );
}

#[test]
fn networks_are_the_zones_of_their_reverse_names() {
    let (config, remarks) = read(
        "10.0.0.0/24 172.16.2.0/23:5353 2001:db8::/32 {\n forward . 192.0.2.1\n}\n\
         . {\n forward 192.168.0.0/16 192.0.2.2\n}\n\
         .:54 {\n forward 198.18.0.0/15 192.0.2.3 {\n  max_concurrent 0\n }\n}\n",
    )
    .unwrap();
    let zones: Vec<String> = config.forwards.iter().map(|f| f.zone.to_string()).collect();
    assert_eq!(
        zones,
        [
            "0.0.10.in-addr.arpa.",
            "168.192.in-addr.arpa.",
            "18.198.in-addr.arpa.",
            "2.16.172.in-addr.arpa.",
            "3.16.172.in-addr.arpa.",
            "8.b.d.0.1.0.0.2.ip6.arpa.",
        ]
    );
    let ports: Vec<u16> = config.listen().iter().map(SocketAddr::port).collect();
    assert_eq!(ports, [53, 53, 54, 54, 5353, 5353]);
    let several = |remark: &String| remark.contains("`198.18.0.0/15` is several zones");
    assert!(remarks.iter().any(several), "{remarks:?}");
    // No bound in CoreDNS: the usual one here.
    let usual = dns_resolve::resolver::Settings::default().max_flights;
    assert_eq!(config.file.resolve.max_questions.get(), usual);
}

#[test]
fn what_cannot_be_carried_over_is_said() {
    let (_, remarks) = read(
        ". {\n forward . 192.0.2.1 tls://9.9.9.9 {\n  tls_servername dns.quad9.net\n  tls a.crt a.key\n }\n template IN A lan\n \
         rewrite rcode name exact a NXDOMAIN NOERROR\n acl {\n  block\n }\n}\n",
    )
    .unwrap();
    for words in [
        "192.0.2.1",
        "tls with a certificate of its own",
        "template IN A lan",
        "rewrite rcode name exact a NXDOMAIN NOERROR",
        "acl",
    ] {
        assert!(
            remarks.iter().any(|remark| remark.contains(words)),
            "{words}: {remarks:#?}"
        );
    }
}

#[test]
fn upstreams_over_tls_are_carried_over() {
    let of = |body: &str| {
        let text = format!(". {{\n forward . tls://9.9.9.9 tls://[2620:fe::fe]:8853 {body}\n}}\n");
        let (config, remarks) = read(&text).unwrap();
        assert_eq!(remarks, [""; 0], "{body}");
        config.file.forward[0].clone()
    };
    let plain = of("");
    assert_eq!((plain.protocol, plain.tls), (Protocol::Tls, None));
    let upstreams: Vec<String> = plain.upstreams.iter().map(ToString::to_string).collect();
    assert_eq!(upstreams, ["9.9.9.9:853", "[2620:fe::fe]:8853"]);
    let tls = of("{\n  tls_servername dns.quad9.net\n  tls /etc/ca.crt\n }")
        .tls
        .unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("dns.quad9.net"));
    assert_eq!(tls.ca.as_deref(), Some(Path::new("/etc/ca.crt")));
    assert_eq!(of("{\n  tls\n }").tls, None);
}

#[test]
fn dns64_is_carried_over() {
    let of = |text: &str| {
        let (config, remarks) =
            read(&format!(". {{\n forward . 192.0.2.1\n {text}\n}}\n")).unwrap();
        assert_eq!(remarks, [""; 0], "{text}");
        config.file.dns64.unwrap()
    };
    let plain = of("dns64");
    assert_eq!(plain.prefixes, ["64:ff9b::/96"]);
    assert_eq!(plain.exclude, ["::ffff:0:0/96"]);
    let clients = plain.clients.unwrap();
    assert!(clients.contains("2001:db8::1".parse().unwrap()));
    assert!(!clients.contains("192.0.2.1".parse().unwrap()));
    let own = of("dns64 2001:db8:64::/96 {\n  allow_ipv4\n  translate_all\n }");
    assert_eq!(own.prefixes, ["2001:db8:64::/96"]);
    assert_eq!(own.exclude, ["::/0"]);
    assert_eq!(own.clients, None);
    assert_eq!(
        of("dns64 {\n  prefix 64:1337::/96\n }").prefixes,
        ["64:1337::/96"]
    );
    let zone = read("example {\n forward . 192.0.2.1\n dns64\n}\n")
        .unwrap()
        .1;
    assert!(zone[0].contains("of all zones here"), "{zone:?}");
    let errors = read(". {\n forward . 192.0.2.1\n dns64 {\n  nonsense\n }\n}\n").unwrap_err();
    assert_eq!(errors, ["Corefile:4:3: `nonsense` is no option of `dns64`"]);
}

#[test]
fn rules_that_change_names_are_carried_over() {
    let (config, remarks) = read(
        ". {\n forward . 192.0.2.1\n rewrite name a.example b.example\n rewrite continue type ANY HINFO\n \
         rewrite name suffix .coredns.rocks .service.consul answer auto\n rewrite stop {\n  \
         name regex (.*)-(us)\\.rocks {1}.service.{2}.consul\n  answer name (.*)\\.service\\.(us)\\.consul {1}-{2}.rocks\n  \
         answer value x y\n }\n rewrite name prefix foo bar\n}\n",
    )
    .unwrap();
    assert_eq!(remarks, [""; 0]);
    let rules = config.file.rewrite.iter().map(|rule| {
        let then = rule.then == ::config::dns_recursor::RewriteThen::Continue;
        (rule.from.as_str(), rule.to.as_str(), rule.answer, then)
    });
    let rules: Vec<_> = rules.collect();
    assert_eq!(
        rules,
        [
            ("a.example", "b.example", true, false),
            ("ANY", "HINFO", true, true),
            (".coredns.rocks", ".service.consul", true, false),
            (r"(.*)-(us)\.rocks", "{1}.service.{2}.consul", false, false),
            ("foo", "bar", false, false),
        ]
    );
    let regex = &config.file.rewrite[3];
    assert_eq!(regex.answer_name[0].to, "{1}-{2}.rocks");
    assert_eq!(regex.answer_value[0].from, "x");
    let of = |rule: &str| read(&format!(". {{\n forward . 192.0.2.1\n {rule}\n}}\n")).unwrap_err();
    for (rule, expected) in [
        ("rewrite", "Corefile:3:2: `rewrite` has no field"),
        (
            "rewrite nonsense a b",
            "Corefile:3:10: `nonsense` is no field of `rewrite`",
        ),
        (
            "rewrite name a",
            "Corefile:3:2: `rewrite` takes a name and another",
        ),
        (
            "rewrite name nonsense a b",
            "Corefile:3:15: `nonsense` is no kind of match of `rewrite`",
        ),
        (
            "rewrite name exact a b c",
            "Corefile:3:25: `c` is no rule for answers of `rewrite`",
        ),
    ] {
        assert_eq!(of(rule), [expected]);
    }
}

#[test]
fn hosts_become_names_and_files() {
    let (config, remarks) = read(
        ". {\n forward . 192.0.2.1\n hosts /etc/nodes {\n  192.0.2.7 a.example a\n  fd00::7 a.example\n  ttl 30\n  \
         reload 1s\n  fallthrough\n }\n}\n. {\n hosts {\n  no_reverse\n }\n}\n",
    )
    .unwrap();
    let file = &config.file;
    let names: Vec<&str> = file.name.iter().map(|name| name.name.as_str()).collect();
    assert_eq!(names, ["a.example.", "a."]);
    assert_eq!(
        (
            file.name[0].addresses.len(),
            file.name[0].reverse,
            file.name[1].reverse
        ),
        (2, true, false)
    );
    assert_eq!(
        file.hosts.files,
        [Path::new("/etc/nodes"), Path::new("/etc/hosts")]
    );
    assert_eq!(
        (file.hosts.ttl.0.as_secs(), file.hosts.reverse),
        (30, false)
    );
    let odd = |remark: &&String| remark.contains("without `fallthrough`");
    assert_eq!(remarks.iter().filter(odd).count(), 1, "{remarks:#?}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, expected) in [
        (
            ". {\n forward .\n}\n",
            "Corefile:2:2: `forward` has no upstream",
        ),
        (
            ". {\n forward . /nowhere\n}\n",
            "Corefile:2:12: cannot read /nowhere",
        ),
        ("a..b {\n}\n", "Corefile:1:1: `a..b` is no zone"),
        (
            ". {\n forward . 192.0.2.1 {\n  max_concurrent many\n }\n}\n",
            "Corefile:3:3: `max_concurrent` takes a number",
        ),
        (".:53 \n", "Corefile:1:1: `.:53` is no server block"),
        (". {\n cache\n", "Corefile:1:1: `. {` is not closed"),
        (". {\n cache {\n", "Corefile:2:2: `cache {` is not closed"),
    ] {
        let errors = read(text).unwrap_err();
        assert!(
            errors.iter().any(|error| error.starts_with(expected)),
            "{expected}: {errors:?}"
        );
    }
    assert!(import(Path::new("none"), &mut Memory("")).is_err());
}
