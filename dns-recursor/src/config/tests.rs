use ::config::dns_recursor::QueryClass;
use ::config::restart_needed;
use daemon::config::{Document, Problems};
use dns_cache::message::TtlLimits;

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::from_document(&Document::inline(
        "x.toml",
        format!("version = \"v1\"\n{text}"),
    ))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

const TEMPLATE: &str = include_str!("../../../deploy/config/dns-recursor.toml");

fn template(examples: bool) -> Config {
    let lines = TEMPLATE.lines().map(|line| match line.strip_prefix("#~ ") {
        Some(example) if examples => format!("{example}\n"),
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    let document = Document::inline("template", text.as_str());
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn the_template_is_the_default_configuration() {
    assert_eq!(template(false).file, DnsRecursor::default());
    let tables = "[log]\n[admin]\n[cache]\n[stale]\n[resolve]\n[tcp]\n[local]\n[health]\n";
    assert_eq!(parse(tables).unwrap().file, DnsRecursor::default());
    assert_eq!(parse("").unwrap().common.admin, Some(DEFAULT_ADMIN));
}

#[test]
fn the_examples_of_the_template_can_be_used() {
    let shown = template(true);
    assert_eq!(shown.forwards.len(), 2);
    assert_eq!(shown.file.tls.unwrap().listen.len(), 2);
    assert_eq!(shown.file.local.id.as_deref(), Some("master-0"));
}

#[test]
fn the_keys_that_need_a_restart_are_told_from_the_others() {
    let changed = |text: &str| {
        let (plain, other) = (parse("").unwrap(), parse(text).unwrap());
        restart_needed(&plain.file, &other.file)
    };
    let endpoint = "[health]\nendpoint = \"unix:/run/a.sock\"\n";
    assert_eq!(changed(endpoint), ["health.endpoint"]);
    assert!(changed("source-addresses = [\"127.0.0.2\"]\n").is_empty());
    assert!(changed("allow-from = [\"192.0.2.0/24\"]\n").is_empty());
    let several = "[tcp]\nidle = \"7s\"\n[stale]\nmax-age = \"2d\"\n[cache]\nentries = 1000\n";
    assert_eq!(
        changed(several),
        ["cache.entries", "stale.max-age", "tcp.idle"]
    );
}

#[test]
fn an_empty_file_is_a_server_that_forwards_nothing() {
    let config = parse("").unwrap();
    assert_eq!(config.file.listen.len(), 2);
    assert_eq!(config.allow, Allow::Local);
    assert!(config.table().is_empty());
    assert_eq!(config.summary(), "nothing is forwarded");
}

#[test]
fn coredns_cache_settings_can_be_said() {
    // cache 900 { denial 9984 30 }
    let config =
        parse("[cache]\nmax-ttl = \"15m\"\nnegative-entries = 9984\nnegative-max-ttl = \"30s\"")
            .unwrap();
    let limits = TtlLimits::of(&config.file.cache);
    assert_eq!((limits.positive_max, limits.negative_max), (900, 30));
    assert_eq!(config.file.cache.negative_entries, 9984);
}

#[test]
fn addresses_may_do_without_a_port() {
    let config = parse(
        "listen = [\"127.0.0.1:5300\", \"::1\"]\n[[forward]]\nzone = \"a\"\n\
         upstreams = [\"192.0.2.1\", \"192.0.2.1:5353\", \"fd00::1\", \"[fd00::1]:5353\", \"[fd00::2]\"]",
    )
    .unwrap();
    assert_eq!(config.file.listen[1].to_string(), "[::1]:53");
    let upstreams: Vec<String> = config.forwards[0]
        .upstreams
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        upstreams,
        [
            "192.0.2.1:53",
            "192.0.2.1:5353",
            "[fd00::1]:53",
            "[fd00::1]:5353",
            "[fd00::2]:53"
        ]
    );
}

#[test]
fn every_problem_is_told_with_its_place() {
    let text = "listen = [\"nowhere\"]\nallow-from = [\"10.0.0.0/33\"]\nsource-addresses = [\"x\"]\n\
        [[forward]]\nzone = \"a..b\"\nupstreams = [\"192.0.2.1\"]\n\
        [[forward]]\nzone = \"c\"\nupstreams = []\n\
        [[forward]]\nzone = \"C.\"\nupstreams = [\"0.0.0.0\", \"192.0.2.1:0\"]\n\
        [cache]\nfailure-ttl = \"1m\"\n[resolve]\ndeadline = \"0s\"\n[health]\nendpoint = \"x:y\"";
    let problems = problems(text);
    for (place, words) in [
        ("x.toml:2:11", "`nowhere` is not an address"),
        ("x.toml:3:15", "10.0.0.0/33"),
        ("x.toml:4:21", "`x` is no IP address"),
        ("x.toml:6:8", "`a..b` is not a domain name"),
        ("x.toml:10:13", "at least one upstream"),
        ("x.toml:12:8", "twice"),
        ("x.toml:13:14", "the address of a server"),
        ("x.toml:13:25", "the address of a server"),
        ("x.toml:15:15", "from 1s to 5s"),
        ("x.toml:17:12", "at least 1ms"),
        ("x.toml:19:12", ""),
    ] {
        let found = problems
            .iter()
            .any(|p| p.starts_with(place) && p.contains(words));
        assert!(found, "{place} {words}: {problems:#?}");
    }
    assert_eq!(problems.len(), 11, "{problems:#?}");
}

#[test]
fn queries_leave_from_one_address_of_each_family() {
    let config = parse("source-addresses = [\"192.0.2.1\", \"fd00::1\"]").unwrap();
    let source = config.source;
    assert_eq!(
        (source.v4.to_string(), source.v6.to_string()),
        ("192.0.2.1".to_owned(), "fd00::1".to_owned())
    );
    let problems = problems("source-addresses = [\"192.0.2.1\", \"192.0.2.2\"]");
    assert!(
        problems[0].contains("`192.0.2.2` is one too many"),
        "{problems:?}"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    let problems = problems("[cache]\nmax-tll = \"1h\"");
    assert!(problems[0].contains("max-ttl"), "{problems:?}");
}

#[test]
fn what_recursion_makes_no_use_of_is_told() {
    let text = "[[forward]]\nzone = \".\"\nmode = \"recurse\"\nrecursive = true\n\
        policy = \"random\"\nprotocol = \"tcp\"\ntrust-ad = true\nupstreams = [\"192.0.2.1\"]";
    let problems = problems(text);
    for (line, words) in [
        (5, "`recursive` has no effect"),
        (6, "`policy` has no effect"),
        (7, "can begin with another protocol"),
        (8, "`trust-ad` has no effect"),
        (9, "has no upstreams"),
    ] {
        let start = format!("x.toml:{line}:");
        let found = problems
            .iter()
            .any(|it| it.starts_with(&start) && it.contains(words));
        assert!(found, "{line} {words}: {problems:#?}");
    }
    assert_eq!(problems.len(), 5, "{problems:#?}");
    let unused = "[recursion]\nroot-hints = \"/x\"\n[dnssec]\ntrust-anchors = []\n[[forward]]\n\
        zone = \".\"\n";
    let forwarding = format!("{unused}upstreams = [\"192.0.2.1\"]");
    assert_eq!(parse(&forwarding).unwrap().warnings.len(), 2);
    let recursing = format!("{unused}mode = \"recurse\"\ndnssec = \"validate\"");
    assert_eq!(parse(&recursing).unwrap().warnings, []);
}

#[test]
fn dnstap_needs_one_place_and_a_query_log_that_is_not_heard_is_told() {
    for (table, words) in [
        ("", "needs a `socket` or a `file`"),
        ("socket = \"/a\"\nfile = \"/b\"", "and not both"),
        ("socket = \"tap.sock\"", "needs an absolute path"),
        ("file = \"tap\"", "needs an absolute path"),
    ] {
        let problems = problems(&format!("[dnstap]\n{table}"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(words), "{problems:?}");
    }
    assert!(parse("[dnstap]\nfile = \"/tap\"").is_ok());
    for (level, n) in [("warn", 1), ("info", 0), ("debug", 0)] {
        let text = format!("log.level = \"{level}\"\n[query-log]\nenabled = true");
        let warnings = parse(&text).unwrap().warnings;
        assert_eq!(warnings.len(), n, "{level}: {warnings:?}");
    }
}

#[test]
fn the_query_log_of_the_file_comes_before_that_of_the_cluster() {
    let log = |enabled: bool| parse(&format!("query-log.enabled = {enabled}")).unwrap();
    let of_cluster = Learned {
        query_log: Some(QueryLog {
            enabled: true,
            classes: vec![QueryClass::Error],
            ..QueryLog::default()
        }),
        ..Learned::default()
    };
    let none = Learned::default();
    for (enabled, learned, expected) in [
        (false, &none, None),
        (false, &of_cluster, Some(QueryClass::Error)),
        (true, &none, Some(QueryClass::All)),
        (true, &of_cluster, Some(QueryClass::All)),
    ] {
        let config = log(enabled);
        let log = config.query_log(learned);
        let class = log.classes.first().copied().filter(|_| log.enabled);
        assert_eq!(class, expected, "{enabled}");
    }
}

#[test]
fn zones_are_validated_as_the_file_says() {
    let upstreams = "upstreams = [\"192.0.2.1\"]";
    for (forward, expected) in [
        ("zone = \".\"\nmode = \"recurse\"", DnssecMode::Validate),
        (
            "zone = \"a.example\"\nmode = \"recurse\"",
            DnssecMode::Validate,
        ),
        (
            "zone = \"a.example\"\nmode = \"recurse\"\ndnssec = \"off\"",
            DnssecMode::Off,
        ),
        (
            &format!("zone = \".\"\nmode = \"forward-first\"\n{upstreams}"),
            DnssecMode::Validate,
        ),
        // The site's own.
        (
            &format!("zone = \"a.example\"\n{upstreams}"),
            DnssecMode::Off,
        ),
    ] {
        let text = format!("[dnssec]\nmode = \"validate\"\n[[forward]]\n{forward}");
        let config = parse(&text).unwrap();
        let table = config.table();
        let route = table.routes().next().unwrap();
        assert_eq!(route.dnssec, expected, "{forward}");
        let negative = table.anchors().negative_zones().count();
        let is_private = route.source != ForwardMode::Recurse && !route.zone.is_root();
        assert_eq!(negative, usize::from(is_private), "{forward}");
    }
}

#[test]
fn a_negative_anchor_may_end() {
    let anchors = |list: &str| {
        let text = format!("[dnssec]\nnegative-trust-anchors = [{list}]");
        let config = parse(&text)?;
        let zones = config.anchors.negative_zones();
        let ends: Vec<(String, Option<u64>)> =
            zones.map(|(zone, end)| (zone.to_string(), end)).collect();
        Ok::<_, Problems>(ends)
    };
    let list =
        "\"A.example\", \"b.example until 2026-12-05\", \"c.example until 2026-12-05T00:00:09Z\"";
    let expected = [
        ("a.example.".to_owned(), None),
        ("b.example.".to_owned(), Some(1_796_428_800)),
        ("c.example.".to_owned(), Some(1_796_428_809)),
    ];
    assert_eq!(anchors(list).unwrap(), expected);
    let past = "[dnssec]\nnegative-trust-anchors = [\"a.example until 2024-01-01\"]";
    let warnings = parse(past).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for bad in [
        "\"a..b\"",
        "\"a.example until\"",
        "\"a.example until soon\"",
        "\"a.example for 2026-12-05\"",
        "\"\"",
    ] {
        assert!(anchors(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_server_does_not_forward_to_itself() {
    for (listen, upstream, own) in [
        ("0.0.0.0:53", "127.0.0.1", true),
        ("127.0.0.1:5300", "127.0.0.1:5300", true),
        ("[::]:53", "::1", true),
        ("127.0.0.1:5300", "127.0.0.1:5301", false),
        ("127.0.0.1:53", "127.0.0.2:53", false),
        ("0.0.0.0:53", "127.0.0.1:5301", false),
        ("0.0.0.0:53", "::1", false),
        ("[::]:53", "127.0.0.1", false),
    ] {
        let text = format!(
            "listen = [\"{listen}\"]\n[[forward]]\nzone = \"a\"\nupstreams = [\"{upstream}\"]"
        );
        assert_eq!(parse(&text).is_err(), own, "{listen} {upstream}");
    }
}

#[test]
fn host_bits_are_taken_with_a_warning() {
    let config = parse("allow-from = [\"192.168.7.0/0\"]").unwrap();
    let Allow::Listed(networks) = &config.allow else {
        panic!();
    };
    assert!(networks.contains("8.8.8.8".parse().unwrap()));
    assert!(!networks.contains("::1".parse().unwrap()));
    assert_eq!(config.warnings.len(), 1);
}

#[test]
fn only_private_networks_of_the_node_are_allowed_by_default() {
    for (network, private) in [
        ("127.0.0.0/8", true),
        ("10.1.0.0/16", true),
        ("192.168.7.0/24", true),
        ("172.31.0.0/16", true),
        ("100.64.0.0/10", true),
        ("169.254.0.0/16", true),
        ("::1/128", true),
        ("fd00::/64", true),
        ("fe80::/64", true),
        ("0.0.0.0/0", false),
        ("8.8.8.0/24", false),
        ("100.128.0.0/16", false),
        ("2001:db8::/32", false),
    ] {
        assert_eq!(is_private(&network.parse().unwrap()), private, "{network}");
    }
    assert!(
        Allow::Local
            .networks()
            .contains(IpAddr::V4(Ipv4Addr::LOCALHOST))
    );
}

#[test]
fn prefixes_of_dns64_are_those_of_the_rfc() {
    assert_eq!(parse("").unwrap().dns64, None);
    let config = parse("[dns64]\nclients = [\"2001:db8:7::1/64\"]\n").unwrap();
    assert!(config.warnings[0].to_string().contains("2001:db8:7::"));
    let dns64 = config.dns64.unwrap();
    assert_eq!(dns64.prefixes, [dns64::Prefix::WELL_KNOWN]);
    assert_eq!(dns64.exclude.len(), 1);
    let many = ["\"64:ff9b::/96\""; 9].join(", ");
    for (text, expected) in [
        (
            "prefixes = [\"64:ff9b::/96\", \"64:ff9b::/95\"]".to_owned(),
            "x.toml:3:29: `64:ff9b::/95` has another length than 32, 40, 48, 56, 64 or 96",
        ),
        (
            "prefixes = []".to_owned(),
            "x.toml:3:12: DNS64 has one prefix, and at most 8",
        ),
        (
            format!("prefixes = [{many}]"),
            "x.toml:3:12: DNS64 has one prefix, and at most 8",
        ),
        (
            "exclude = [\"192.0.2.0/24\"]".to_owned(),
            "x.toml:3:12: `192.0.2.0/24` is no IPv6 network; write one such as 2001:db8::/32",
        ),
    ] {
        assert_eq!(problems(&format!("[dns64]\n{text}\n")), [expected]);
    }
}

#[test]
fn rules_that_cannot_be_are_told_with_their_place() {
    let rule =
        |from: &str| format!("[[rewrite]]\nmatch = \"regex\"\nfrom = \"{from}\"\nto = \"b\"\n");
    assert!(parse(&rule("a")).is_ok());
    assert_eq!(
        problems(&rule("(a")),
        ["x.toml:4:8: `(a` is no regular expression: unclosed group"]
    );
    let many = rule("a").repeat(1001);
    assert!(problems(&many)[0].contains("there are more than 1000 rules"));
}

#[test]
fn the_keys_of_the_root_are_followed_when_there_is_a_place_for_them() {
    let anchor =
        "example DS 12345 13 2 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08";
    let root = ". DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16";
    let place = "managed-keys-directory = \"/x\"";
    for (lines, followed, anchored) in [
        (String::new(), &[][..], &["."][..]),
        (place.to_owned(), &["."], &["."]),
        (
            format!("{place}\ntrust-anchors = [\"{anchor}\"]"),
            &["."],
            &[".", "example."],
        ),
        (
            format!("{place}\ntrust-anchors = [\"{root}\"]"),
            &[],
            &["."],
        ),
        (
            format!("{place}\ninitial-anchors = [\"{anchor}\"]"),
            &["example."],
            &["example."],
        ),
    ] {
        let config = parse(&format!("[dnssec]\nmode = \"validate\"\n{lines}")).unwrap();
        let zones: Vec<String> = config.managed.initial.keys().map(Name::to_string).collect();
        assert_eq!(zones, followed, "{lines}");
        let zones: Vec<String> = config.anchors.zones().map(Name::to_string).collect();
        assert_eq!(zones, anchored, "{lines}");
    }
    for (lines, words) in [
        (
            format!("initial-anchors = [\"{anchor}\"]"),
            "needs `managed-keys-directory`",
        ),
        (
            format!("{place}\ninitial-anchors = [\"{anchor}\"]\ntrust-anchors = [\"{anchor}\"]"),
            "stays as it is written",
        ),
        (
            format!("{place}\ninitial-anchors = [\"x\"]"),
            "is not a trust anchor",
        ),
    ] {
        let problems = parse(&format!("[dnssec]\n{lines}"))
            .unwrap_err()
            .to_string();
        assert!(problems.contains(words), "{problems}");
    }
}

#[test]
fn what_was_learned_of_a_followed_zone_is_in_the_table() {
    let config = parse("[dnssec]\nmanaged-keys-directory = \"/x\"").unwrap();
    let key =
        Anchor::parse(". DNSKEY 257 3 15 CI+NE5VUVzm4DFM8YxqQI2EtQk/6+r7i9Gxn1Nvr5Jw=").unwrap();
    let [root, other] = [".", "example"].map(|name| Name::parse(name).unwrap());
    let table = |followed| config.table_with(&Learned::default(), &followed);
    let words = |followed| table(followed).anchors().words(&other, 0);
    assert_eq!(words(Followed::new()), "that of ., keys 20326 38696");
    let followed = Followed::from([
        (root.clone(), vec![key.clone()]),
        (other.clone(), vec![key]),
    ]);
    assert!(words(followed).starts_with("that of ., key "));
    // All keys are revoked.
    assert_eq!(words(Followed::from([(root, Vec::new())])), "none");
}
