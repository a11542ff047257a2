//! The template, problems with their places, and what a peer's files come to.

use std::path::Path;

use daemon::config::{Document, Problems};
use dns_answer::Any;

use super::v1::Spec;
use super::{Config, DEFAULT_ADMIN, DEFAULT_LISTEN, Fixed, import, peer};

const TEMPLATE: &str = include_str!("../../../deploy/config/dns-authd.toml");

fn read(text: &str) -> Result<Config, Problems> {
    let document = Document::inline("/etc/x/dns-authd.toml", text);
    let spec: Spec = document.parse()?;
    spec.into_config(&document, None, "node")
}

fn problems(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn the_template_loads_and_says_what_the_defaults_are() {
    let template = read(TEMPLATE).unwrap();
    assert_eq!(template.network.listen, [DEFAULT_LISTEN]);
    assert_eq!(template.common.admin, Some(DEFAULT_ADMIN));
    let bare = read("version = \"v1\"").unwrap();
    assert_eq!(format!("{template:?}"), format!("{bare:?}"));

    // What is written behind a `#` is the default, but for these, which have none.
    let without_default = [
        "receive-buffer",
        "allow-from",
        "named-conf",
        "directory",
        "id",
    ];
    let written: String = TEMPLATE
        .lines()
        .take_while(|line| !line.contains("Encrypted transports"))
        .map(|line| {
            let key = line
                .strip_prefix("# ")
                .filter(|rest| rest.contains(" = ") && !rest.starts_with("name "))
                .filter(|rest| !rest.starts_with("file "))
                .filter(|rest| !without_default.iter().any(|key| rest.starts_with(key)));
            format!("{}\n", key.unwrap_or(line))
        })
        .collect();
    assert!(written.contains("\nunknown-ttl = \"5s\"\n"), "{written}");
    let written = read(&written).unwrap();
    assert_eq!(format!("{written:?}"), format!("{bare:?}"));
}

#[test]
fn every_example_in_the_template_loads() {
    let all: String = TEMPLATE
        .lines()
        .map(|line| {
            let rest = line.strip_prefix("# ").unwrap_or(line);
            let is_key = rest.contains(" = ") || rest.starts_with('[');
            format!("{}\n", if is_key { rest } else { line })
        })
        .collect();
    let config = read(&all).unwrap();
    let tls = config.tls.unwrap();
    assert_eq!((tls.dot.len(), tls.doh.len(), tls.doq.len()), (1, 1, 1));
    assert_eq!(config.zones.declared.len(), 1);
    assert_eq!(config.answers.nsid.as_deref(), Some(&b"master-0"[..]));
}

#[test]
fn who_may_ask_is_everybody_unless_there_is_a_list() {
    let access = |text: &str| read(&format!("version = \"v1\"\n{text}\n")).unwrap();
    let client = "198.51.100.1".parse().unwrap();
    assert!(access("").access.may_ask(client));
    assert!(!access("allow-from = []").access.may_ask(client));
    let odd = access("allow-from = [\"198.51.100.7/24\"]");
    assert!(odd.access.may_ask(client));
    assert_eq!(
        odd.warnings.len(),
        1,
        "bits beyond the prefix: {:?}",
        odd.warnings
    );
}

#[test]
fn a_zone_file_is_beside_the_configuration_unless_told_otherwise() {
    let file = |text: &str| {
        let config = read(&format!(
            "version = \"v1\"\n{text}\n[[zone]]\nname = \"example.com\"\nfile = \"z\"\n"
        ));
        config.unwrap().zones.declared[0].file.clone().unwrap()
    };
    assert_eq!(file(""), Path::new("/etc/x/z"));
    assert_eq!(file("zones.directory = \"/srv\""), Path::new("/srv/z"));
}

#[test]
fn what_makes_no_sense_is_told_with_its_place() {
    for (text, wanted) in [
        (
            "[[zone]]\nname = \"a..b\"\nfile = \"z\"",
            "dns-authd.toml:3:8: `a..b` is not a zone name",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"z\"\n[[zone]]\nname = \"A.\"\nfile = \"z\"",
            "dns-authd.toml:6:8: zone A. is declared twice",
        ),
        (
            "zones.check-interval = \"soon\"",
            "dns-authd.toml:2:24: `soon` is not a duration",
        ),
        ("health.endpoint = \"tcp:1\"", "dns-authd.toml:2:19: "),
        (
            "answers.udp-payload = 100",
            "dns-authd.toml:2:23: udp-payload is 512 to 4096",
        ),
        ("transfers.allow = [\"x\"]", "dns-authd.toml:2:19: "),
        ("allow-from = [\"10.0.0.0/33\"]", "dns-authd.toml:2:14: "),
        (
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\ndoh-path = \"dns-query\"",
            "dns-authd.toml:5:12: doh-path is the path of a URL, as /dns-query, not `dns-query`",
        ),
        (
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\ndoh-path = \"/q{?dns}\"",
            "dns-authd.toml:5:12: doh-path is the path of a URL",
        ),
        ("zoen = 1", "did you mean `zone`?"),
        ("health.all-down = \"any\"", "unknown value `any`"),
    ] {
        let found = problems(&format!("version = \"v1\"\n{text}\n"));
        assert!(found.contains(wanted), "{text}: {found}");
    }
}

#[test]
fn what_a_reload_leaves_for_a_restart_is_told() {
    const TLS: &str = "tls = { certificate = \"c\", key = \"k\", doh = [\"127.0.0.1:443\"] }";
    let fixed = |text: &str| Fixed::of(&read(&format!("version = \"v1\"\n{text}\n")).unwrap());
    let check = |before: &str, after: &str, expected: &[&str]| {
        let left = fixed(before).left_for_restart(&fixed(after));
        let words = left.iter().zip(expected);
        assert!(
            words.clone().all(|(told, word)| told.contains(word)),
            "{left:?}"
        );
        assert_eq!(left.len(), expected.len(), "{before} {after}: {left:?}");
    };
    check("", "answers.id = \"x\"", &[]);
    check("", "threads = 3", &["Listen addresses"]);
    check("", TLS, &["[tls]"]);
    check(TLS, "", &["[tls]"]);
    check(TLS, &TLS.replace("443", "444"), &["[tls]"]);
    check(TLS, &TLS.replace("doh =", "dot ="), &["[tls]"]);
    check(TLS, &TLS.replace("\"c\"", "\"other\""), &[]);
    check("", "health.endpoint = \"none\"", &["[health]"]);
    check(
        "",
        "health.hold = \"1s\"\ntcp.idle = \"1s\"",
        &["TCP", "[health]"],
    );
}

#[test]
fn checking_never_and_asking_nobody_are_possible() {
    let config = read(
        "version = \"v1\"\nzones.check-interval = \"never\"\nhealth.endpoint = \"none\"\n\
         health.hold = \"0\"\nanswers.id = \"none\"\nanswers.version = \"x\"\n",
    )
    .unwrap();
    assert_eq!(config.zones.check_interval, None);
    assert_eq!(config.health, None);
    assert!(config.live.hold.is_zero());
    assert_eq!(config.answers.nsid, None);
    assert_eq!(config.answers.chaos.len(), 2);
}

const PDNS: &[u8] = b"launch=bind\nlocal-address=127.0.0.1\nlocal-port=5301\nsetgid=pdns\n\
    bind-config=/etc/pdns/bind.conf\nbind-check-interval=300\nenable-lua-records=yes\n\
    allow-axfr-ips=192.0.2.0/24\nlua-health-checks-interval=7\nserver-id=a \"b\"\n";
const BIND: &[u8] = b"options { directory \"/var/named\"; };\n\
      zone \"ocp4.redhat.ren\" { type master; file \"/etc/pdns/inside-out.xyz\"; };\n\
      zone \"other.test\" { type slave; masters { 192.0.2.1; }; file \"other\"; };\n";

#[test]
fn an_imported_pdns_conf_means_what_it_meant() {
    let pdns = peer_pdns::parse_bytes(PDNS).unwrap();
    let named = peer_bind::parse_bytes(BIND).unwrap();
    let direct = peer::config(&pdns, named.clone(), "0.1.0", "node");
    let page = import::pdns_conf(&pdns, &named);
    assert!(page.contains("# not carried: setgid=pdns: "), "{page}");
    assert!(page.contains("# not carried: zone other.test.: "), "{page}");
    let imported = read(&page).unwrap_or_else(|problems| panic!("{problems}\n{page}"));
    assert_eq!(imported.network, direct.network);
    assert_eq!(imported.live, direct.live);
    assert_eq!(imported.access, direct.access);
    assert_eq!(imported.lua, direct.lua);
    assert_eq!(imported.zones.check_interval, direct.zones.check_interval);
    assert_eq!(imported.answers.any, Any::AllOverTcp);
    assert_eq!(imported.answers.nsid, direct.answers.nsid);
    assert_eq!(imported.answers.udp_payload, direct.answers.udp_payload);
    assert_eq!(imported.zones.options, direct.zones.options);
    let zones = |config: &Config| {
        let zones = config.zones.declared.iter();
        zones
            .map(|zone| (zone.name.clone(), zone.file.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(zones(&imported), zones(&direct));
    assert_eq!(zones(&direct).len(), 1);
}

#[test]
fn an_imported_zone_list_includes_from_where_it_did() {
    let named = peer_bind::parse_bytes(BIND).unwrap();
    let page = import::named_conf(&named);
    let imported = read(&page).unwrap_or_else(|problems| panic!("{problems}\n{page}"));
    let directory = imported.zones.options.directory.as_deref();
    assert_eq!(directory, Some(Path::new("/var/named")));
}

#[test]
fn an_imported_pdns_conf_without_an_id_has_none_and_its_udp_limit_is_legal() {
    let named = peer_bind::parse_bytes(BIND).unwrap();
    for (limit, kept) in [(10, 512), (8192, 4096)] {
        let text = format!("udp-truncation-threshold={limit}\nserver-id=disabled\n");
        let pdns = peer_pdns::parse_bytes(&[PDNS, text.as_bytes()].concat()).unwrap();
        let direct = peer::config(&pdns, named.clone(), "0.1.0", "node");
        let imported = read(&import::pdns_conf(&pdns, &named)).unwrap();
        for config in [direct, imported] {
            assert_eq!(config.answers.udp_payload, kept);
            assert_eq!(config.answers.nsid, None);
            let names = config
                .answers
                .chaos
                .iter()
                .map(|(name, _)| name.to_string());
            assert_eq!(
                names.collect::<Vec<_>>(),
                ["version.bind.", "version.server."]
            );
        }
    }
}
