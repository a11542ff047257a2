use daemon::config::{Document, Problems};

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    v1::parse(&Document::inline(
        "x.toml",
        format!("version = \"v1\"\n{text}"),
    ))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

const TEMPLATE: &str = include_str!("../../../deploy/config/dns-recursor.toml");

#[test]
fn the_template_is_the_default_configuration_with_one_zone() {
    let template = v1::parse(&Document::inline("template", TEMPLATE)).unwrap();
    let own = parse("[[forward]]\nzone = \"ocp4.redhat.ren\"\nupstreams = [\"127.0.0.1:5301\"]");
    assert_eq!(format!("{template:?}"), format!("{:?}", own.unwrap()));
}

#[test]
fn what_the_template_shows_as_defaults_are_the_defaults() {
    // Every commented key, uncommented; sections that are off by default stay so.
    let mut skip = false;
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let line = match line.strip_prefix('#') {
            Some(bare) if bare.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => bare,
            Some(_) => continue,
            None => line,
        };
        if line.starts_with('[') {
            skip = line.starts_with("[tls]");
        }
        let example = ["allow-from =", "version = \"dns", "id ="];
        let second = line.contains("192.0.2.") || line.starts_with("zone = \".\"");
        if skip || second || example.iter().any(|key| line.starts_with(key)) {
            continue;
        }
        text.push_str(line);
        text.push('\n');
    }
    // The second [[forward]] has lost its keys with its addresses.
    let text = text.replace("[[forward]]\nrecursive = true\n", "");
    let shown = v1::parse(&Document::inline("shown", text.as_str())).unwrap();
    let own = parse("[[forward]]\nzone = \"ocp4.redhat.ren\"\nupstreams = [\"127.0.0.1:5301\"]");
    assert_eq!(format!("{shown:?}"), format!("{:?}", own.unwrap()));
}

#[test]
fn an_empty_file_is_a_server_that_forwards_nothing() {
    let config = parse("").unwrap();
    assert_eq!(config.network.listen.len(), 2);
    assert_eq!(config.access.allow, Allow::Local);
    assert!(config.table().is_empty());
    assert_eq!(config.summary(), "nothing is forwarded");
}

#[test]
fn coredns_cache_settings_can_be_said() {
    // cache 900 { denial 9984 30 }
    let config =
        parse("[cache]\nmax-ttl = \"15m\"\nnegative-entries = 9984\nnegative-max-ttl = \"30s\"")
            .unwrap();
    let limits = config.resolve.limits;
    assert_eq!((limits.positive_max, limits.negative_max), (900, 30));
    assert_eq!(config.cache.negative.entries, 9984);
}

#[test]
fn addresses_may_do_without_a_port() {
    let config = parse(
        "listen = [\"127.0.0.1:5300\", \"::1\"]\n[[forward]]\nzone = \"a\"\n\
         upstreams = [\"192.0.2.1\", \"192.0.2.1:5353\", \"fd00::1\", \"[fd00::1]:5353\", \"[fd00::2]\"]",
    )
    .unwrap();
    assert_eq!(config.network.listen[1].to_string(), "[::1]:53");
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
        ("x.toml:4:21", "`x` is not an address"),
        ("x.toml:6:8", "`a..b` is not a domain name"),
        ("x.toml:10:13", "at least one upstream"),
        ("x.toml:12:8", "twice"),
        ("x.toml:13:14", "the address of a server"),
        ("x.toml:13:25", "the address of a server"),
        ("x.toml:15:15", "1 to 5 seconds"),
        ("x.toml:17:12", "above zero"),
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
    let source = config.network.source;
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
    let Allow::Listed(networks) = &config.access.allow else {
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
