//! The template, problems with their places, and what a peer's files come to.
//!
//! Size: a table of mistakes for each part of the file, with the place that is reported.

use std::path::Path;

use ::config::dns_authd::{DnsAuthd, PORT, Tls};
use ::config::{Address, restart_needed};
use daemon::config::{Document, Problem, Problems};
use dns_answer::Any;
use dns_answer::table::Origin;
use dns_catalog::{Member, Members};
use dns_exchange::Primary;
use dns_flatten::Form;
use dns_views::{ZoneAccess, ZoneId};
use dns_wire::tsig::Algorithm;
use dns_wire::{Name, Type};
use peer_bind::NamedConf;
use peer_pdns::PdnsConf;
use tls_trust::{Pin, Trust, TrustError};

use super::catalogs::Role;
use super::{Config, DEFAULT_ADMIN, Declarations};

const TEMPLATE: &str = include_str!("../../../deploy/config/dns-authd.toml");

fn read(text: &str) -> Result<Config, Problems> {
    let document = Document::inline("/etc/x/dns-authd.toml", text);
    let none = |path: &Path| Err(Problem::new(format!("{} is not here", path.display())).into());
    let mut secret = |path: &Path| match path.to_str() {
        Some("transfer.secret" | "/etc/outpost/tsig/transfer.secret") => {
            Ok("c2VjcmV0\n".to_owned())
        }
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let mut trust = |ca: Option<&Path>, pins: Vec<Pin>| match ca.and_then(Path::to_str) {
        None if pins.is_empty() => Err(TrustError::NoSystem),
        None => Ok(Trust::Pins(pins)),
        Some("/etc/outpost/tls/dns-ca.crt") => Ok(Trust::Authorities(Vec::new(), pins)),
        Some(other) => Err(TrustError::Empty(other.into())),
    };
    Config::from_document(&document, "node", none, &mut secret, &mut trust)
}

/// As the server reads it, without the TOML.
fn direct(pdns: &PdnsConf, named: &NamedConf) -> Config {
    let draft = dns_import::pdns_conf(pdns, named, Some("0.1.0"));
    let served = named.zones.iter().filter(|zone| zone.is_served());
    Config::of(
        draft.config,
        Declarations {
            zones: served.cloned().collect(),
            ..Declarations::default()
        },
        Vec::new(),
        "node",
    )
}

fn plain(address: &str) -> Primary {
    Primary::plain(address.parse().unwrap())
}

fn problems(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn the_template_loads_and_says_what_the_defaults_are() {
    let template = read(TEMPLATE).unwrap();
    let bare = read("version = \"v1\"").unwrap();
    assert_eq!(bare.file.listen, [Address::loopback(PORT)]);
    assert_eq!(bare.common.admin, Some(DEFAULT_ADMIN));
    assert_eq!(bare.file, DnsAuthd::default());
    assert_eq!(format!("{template:?}"), format!("{bare:?}"));
    let tables = "[log]\n[admin]\n[zones]\n[lua]\n[health]\n[answers]\n[tcp]\n[transfers]\n";
    let empty = read(&format!("version = \"v1\"\n{tables}")).unwrap();
    assert_eq!(empty.file, DnsAuthd::default());
}

#[test]
fn every_example_in_the_template_loads() {
    let lines = TEMPLATE.lines();
    let all: String = lines
        .map(|line| format!("{}\n", line.strip_prefix("#~ ").unwrap_or(line)))
        .collect();
    let all = all.replace("named-conf =", "directory =");
    let all = all.replacen("directory = \"/etc/outpost/named.conf\"\n", "", 1);
    let config = read(&all).unwrap_or_else(|problems| panic!("{problems}\n{all}"));
    let tls: Tls = config.file.tls.unwrap();
    assert_eq!((tls.dot.len(), tls.doh.len(), tls.doq.len()), (1, 1, 1));
    let n_declared = config.zones.declared.len();
    assert_eq!(n_declared, 4, "a zone, two of views and a catalog");
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
            "dns-authd.toml:2:23: 100 is out of range; `udp-payload` is from 512 to 4096",
        ),
        ("transfers.allow = [\"x\"]", "dns-authd.toml:2:20: "),
        ("allow-from = [\"10.0.0.0/33\"]", "dns-authd.toml:2:15: "),
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
        (
            "[[health.port]]\nport = 6443\npath = \"readyz\"",
            "dns-authd.toml:4:8: a path begins with /",
        ),
        (
            "[[health.port]]\nport = 80\npath = \"/\"\n[[health.port]]\nport = 80\npath = \"/x\"",
            "dns-authd.toml:6:8: port 80 is there twice",
        ),
    ] {
        let found = problems(&format!("version = \"v1\"\n{text}\n"));
        assert!(found.contains(wanted), "{text}: {found}");
    }
}

#[test]
fn what_a_reload_leaves_for_a_restart_is_told() {
    const TLS: &str = "tls = { certificate = \"c\", key = \"k\", doh = [\"127.0.0.1:443\"] }";
    let check = |before: &str, after: &str, expected: &[&str]| {
        let file = |text: &str| read(&format!("version = \"v1\"\n{text}\n")).unwrap().file;
        let left = restart_needed(&file(before), &file(after));
        assert_eq!(left, expected, "{before} {after}");
    };
    check("", "answers.id = \"x\"", &[]);
    check("", "threads = 3", &["threads"]);
    let all = ["tls.dot", "tls.doh", "tls.doq", "tls.doh-path"];
    check("", TLS, &all);
    check(TLS, "", &all);
    check(TLS, &TLS.replace("443", "444"), &["tls.doh"]);
    check(TLS, &TLS.replace("doh =", "dot ="), &["tls.dot", "tls.doh"]);
    check(TLS, &TLS.replace("\"c\"", "\"other\""), &[]);
    check("", "health.endpoint = \"none\"", &["health.endpoint"]);
    check(
        "",
        "health.hold = \"1s\"\ntcp.idle = \"1s\"",
        &["health.hold", "tcp.idle"],
    );
}

#[test]
fn checking_never_and_asking_nobody_are_possible() {
    let config = read(
        "version = \"v1\"\nzones.check-interval = \"never\"\nhealth.endpoint = \"none\"\n\
         health.hold = \"0\"\nanswers.id = \"none\"\nanswers.version = \"x\"\n",
    )
    .unwrap();
    assert_eq!(config.file.zones.check_interval.0, None);
    assert_eq!(config.file.health.endpoint.0, None);
    assert!(config.hold().is_zero());
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
    let direct = direct(&pdns, &named);
    let draft = dns_import::pdns_conf(&pdns, &named, None);
    let page = draft.written("From pdns.conf.").unwrap().to_string();
    let lost = "# not carried: pdns.conf:4:1: cosmetic: setgid=pdns: ";
    assert!(page.contains(lost), "{page}");
    let lost = "# not carried: named.conf:3:6: zone other.test.: ";
    assert!(page.contains(lost), "{page}");
    let imported = read(&page).unwrap_or_else(|problems| panic!("{problems}\n{page}"));
    let mut file = direct.file.clone();
    file.answers.version = imported.file.answers.version.clone();
    assert_eq!(imported.file, file);
    assert_eq!(imported.access, direct.access);
    assert_eq!(imported.lua, direct.lua);
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
fn pdns_notifies_when_it_is_primary_and_whom_its_files_name() {
    let named = "options { also-notify { 192.0.2.8; }; };\n\
        zone \"a.test\" { type master; file \"a\"; also-notify { 192.0.2.9 port 5300; }; };\n";
    let named = peer_bind::parse_bytes(named.as_bytes()).unwrap();
    for (text, also, of_zone, name_servers) in [
        ("also-notify=192.0.2.7\n", vec![], vec![], false),
        (
            "master=yes\nalso-notify=192.0.2.7\n",
            vec!["192.0.2.7:53", "192.0.2.8:53"],
            vec!["192.0.2.9:5300"],
            true,
        ),
        (
            "primary=yes\nonly-notify=\n",
            vec!["192.0.2.8:53"],
            vec!["192.0.2.9:5300"],
            false,
        ),
    ] {
        let text = [PDNS, text.as_bytes()].concat();
        let pdns = peer_pdns::parse_bytes(&text).unwrap();
        let draft = dns_import::pdns_conf(&pdns, &named, None);
        let notify = &draft.config.notify;
        let texts = |list: &[Address]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&notify.also), also);
        assert_eq!(notify.name_servers, name_servers);
        assert_eq!(texts(&draft.config.zone[0].also_notify), of_zone);
        let imported = read(&draft.written("").unwrap().to_string()).unwrap();
        assert_eq!(imported.file.notify, *notify);
        let zones: Vec<String> = imported
            .notify
            .zones
            .values()
            .flatten()
            .map(ToString::to_string)
            .collect();
        assert_eq!(zones, of_zone);
    }
    let draft = dns_import::named_conf(&named);
    assert_eq!(draft.config.notify.also.len(), 1);
    assert_eq!(draft.config.zone[0].also_notify.len(), 1);
}

/// A pin, and its octets.
const PIN: (&str, Pin) = (
    "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    *b"0123456789abcdef0123456789abcdef",
);

#[test]
fn primaries_over_tls_prove_what_their_table_says_and_groups_of_a_catalog_inherit_it() {
    let (pin, octets) = PIN;
    let text = format!(
        "version = \"v1\"\n\
         [[zone]]\nname = \"a.test\"\nfile = \"a\"\nprimaries = [\"192.0.2.1:853\"]\n\
         tls = {{ server-name = \"ns.test\", ca = \"/etc/outpost/tls/dns-ca.crt\", pins = [\"{pin}\"] }}\n\
         [[zone]]\nname = \"b.test\"\nfile = \"b\"\nprimaries = [\"192.0.2.1:853\"]\n\
         tls.authentication = \"opportunistic\"\n\
         [[catalog]]\nname = \"c.test\"\nfile = \"c\"\ndirectory = \"d\"\nprimaries = [\"192.0.2.1:853\"]\n\
         tls = {{ pins = [\"{pin}\"] }}\n\
         [[catalog.group]]\nname = \"g\"\nprimaries = [\"192.0.2.2:853\"]\n\
         [[catalog.group]]\nname = \"h\"\ntls = {{ authentication = \"opportunistic\" }}\n"
    );
    let config = read(&text).unwrap();
    let over_tls = |address: &str, name, trust| {
        vec![Primary::over_tls(address.parse().unwrap(), name, trust).unwrap()]
    };
    let of = |config: &Config, zone: &str| {
        let zone: Name = zone.parse().unwrap();
        let mut all = config.secondaries.iter();
        all.find(|one| one.name == zone).unwrap().primaries.clone()
    };
    // The test's authorities cannot be used for a connection: that one is left out here.
    assert_eq!(of(&config, "a.test."), []);
    let anyone = over_tls("192.0.2.1:853", None, Trust::Anyone);
    assert_eq!(of(&config, "b.test."), anyone);
    let pinned = |address| over_tls(address, None, Trust::Pins(vec![octets]));
    assert_eq!(of(&config, "c.test."), pinned("192.0.2.1:853"));
    let mut members = Members::new();
    for (zone, groups) in [
        ("g.test.", vec!["g"]),
        ("h.test.", vec!["h"]),
        ("i.test.", vec![]),
    ] {
        let member = Member {
            catalog: "c.test.".parse().unwrap(),
            id: b"x".to_vec().into(),
            groups: groups.into_iter().map(str::to_owned).collect(),
        };
        members.insert(zone.parse().unwrap(), member);
    }
    let whole = config.with_members(&members);
    assert_eq!(of(&whole, "g.test."), pinned("192.0.2.2:853"));
    assert_eq!(of(&whole, "h.test."), anyone);
    assert_eq!(of(&whole, "i.test."), pinned("192.0.2.1:853"));
}

#[test]
fn a_table_of_tls_that_cannot_be_used_is_refused_with_its_place() {
    let (pin, _) = PIN;
    let zone = "[[zone]]\nname = \"a.test\"\nfile = \"a\"\n";
    let primaries = "primaries = [\"192.0.2.1:853\"]\n";
    for (lines, expected) in [
        (
            format!("{primaries}tls = {{ pins = [\"AAAA\"] }}"),
            "not the SHA-256",
        ),
        (
            format!("{primaries}tls = {{ ca = \"/x\" }}"),
            "/x holds no certificate",
        ),
        (
            format!("{primaries}tls = {{}}"),
            "the system has no certificates",
        ),
        (
            format!("{primaries}tls = {{ server-name = \"a b\", pins = [\"{pin}\"] }}"),
            "`a b` is not the name of a server",
        ),
        (
            format!(
                "{primaries}tls = {{ authentication = \"opportunistic\", pins = [\"{pin}\"] }}"
            ),
            "`pins` has no effect",
        ),
        (format!("tls = {{ pins = [\"{pin}\"] }}"), "there are none"),
    ] {
        let said = problems(&format!("version = \"v1\"\n{zone}{lines}\n"));
        assert!(said.contains(expected), "{lines}: {said}");
        let line = if lines.starts_with("tls") {
            ":5:"
        } else {
            ":6:"
        };
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn the_transport_of_transfers_is_that_of_the_peer_the_zone_or_all() {
    let zones = "[[zone]]\nname = \"a.test\"\nfile = \"a\"\nallow-transfer-transport = \"tls\"\n";
    let peers = "[[transfers.peer]]\nnetworks = [\"192.0.2.1\"]\nlua = \"refuse\"\n\
                 [[transfers.peer]]\nnetworks = [\"192.0.2.0/24\"]\ntransport = \"any\"\n";
    let config = read(&format!("version = \"v1\"\n{zones}{peers}")).unwrap();
    let (zone, access) = config
        .zones
        .declared
        .iter()
        .map(|zone| (zone.name.clone(), zone.access.clone()))
        .next()
        .unwrap();
    let needs = |server: &str| {
        let transports = &config.access.transports;
        transports.need_tls((&zone, Some(&access)), server.parse().unwrap(), None)
    };
    assert!(!needs("192.0.2.1"), "the first table says nothing about it");
    assert!(needs("198.51.100.1"));
    let form = |server: &str| {
        config
            .answers
            .forms
            .of(&zone, server.parse().unwrap(), None)
    };
    assert_eq!(
        [form("192.0.2.1"), form("192.0.2.2")],
        [Form::Refuse, Form::Raw]
    );
    let warned = config.warnings.iter().map(ToString::to_string);
    let warned: Vec<String> = warned
        .filter(|line| line.contains("no `tls.dot`"))
        .collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    let empty = "version = \"v1\"\n[[transfers.peer]]\nnetworks = [\"192.0.2.1\"]\n";
    assert!(problems(empty).contains("`lua` or `transport`"));
}

#[test]
fn a_zone_with_primaries_is_a_secondary_with_its_key() {
    let config = read(
        "version = \"v1\"\n[[key]]\nname = \"k\"\nsecret = \"AAAA\"\n\
         [[zone]]\nname = \"a.test\"\nfile = \"a\"\nprimaries = [\"192.0.2.1:53\"]\nkey = \"K.\"\n\
         [[zone]]\nname = \"b.test\"\nfile = \"b\"\n",
    )
    .unwrap();
    let [zone] = config.secondaries.as_slice() else {
        panic!("{:?}", config.secondaries);
    };
    assert_eq!(zone.file, Path::new("/etc/x/a"));
    assert_eq!(zone.primaries, [plain("192.0.2.1:53")]);
    assert_eq!(zone.key.as_ref().unwrap().name().to_string(), "k.");
    let notifiers = config.answers.notifiers.get(&zone.name).unwrap();
    assert_eq!(
        notifiers.addresses,
        ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]
    );
    let found = problems(
        "version = \"v1\"\n[[key]]\nname = \"k\"\nsecret = \"AAAA\"\n\
         [[zone]]\nname = \"b.test\"\nfile = \"b\"\nkey = \"k\"\n",
    );
    assert!(found.contains("it has none"), "{found}");
}

#[test]
fn an_imported_zone_list_includes_from_where_it_did() {
    let named = peer_bind::parse_bytes(BIND).unwrap();
    let page = dns_import::named_conf(&named)
        .written("")
        .unwrap()
        .to_string();
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
        let draft = dns_import::pdns_conf(&pdns, &named, None);
        let imported = read(&draft.written("").unwrap().to_string()).unwrap();
        for config in [direct(&pdns, &named), imported] {
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

#[test]
fn keys_are_read_inline_and_from_files_and_their_problems_have_places() {
    let config = read(
        "version = \"v1\"\ntransfers.allow-keys = [\"A.key.\"]\nnotify.key = \"b.key\"\n\
         [[key]]\nname = \"a.key\"\nsecret = \"AAAA\"\n\
         [[key]]\nname = \"b.key\"\nalgorithm = \"hmac-md5\"\nsecret-file = \"transfer.secret\"\n",
    )
    .unwrap();
    let a = "a.key.".parse().unwrap();
    assert!(config.answers.keys.get(&a).is_some());
    assert!(
        config
            .access
            .transfer
            .has("192.0.2.1".parse().unwrap(), Some(&a))
    );
    assert_eq!(config.notify.key.unwrap().algorithm(), Algorithm::Md5);
    for (text, expected) in [
        (
            "[[key]]\nname = \"a\"",
            "key a. needs either `secret` or `secret-file`",
        ),
        (
            "[[key]]\nname = \"a\"\nsecret = \"%\"",
            "key a.: the secret is not base 64",
        ),
        (
            "[[key]]\nname = \"a\"\nsecret-file = \"x\"",
            "cannot read x",
        ),
        (
            "[[key]]\nname = \"a..b\"\nsecret = \"AAAA\"",
            "is no name of a key",
        ),
        (
            "transfers.allow-keys = [\"a\"]",
            "no [[key]] has the name `a`",
        ),
        ("notify.key = \"a\"", "no [[key]] has the name `a`"),
        (
            "[[key]]\nname = \"a\"\nsecret = \"AAAA\"\n[[key]]\nname = \"A.\"\nsecret = \"AAAA\"",
            "is declared twice",
        ),
    ] {
        let found = problems(&format!("version = \"v1\"\n{text}\n"));
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("AAAA"), "{found}");
    }
}

#[test]
fn mistakes_in_the_names_of_a_cluster_have_their_places() {
    let text = "version = \"v1\"\n[kubernetes]\ndomain = \"a..b\"\nlabels = \"a within b\"\n";
    let found = problems(text);
    assert!(found.contains("dns-authd.toml:3:"), "{found}");
    assert!(found.contains("dns-authd.toml:4:"), "{found}");
    assert!(found.contains("`a within b` is no condition"), "{found}");
    let text = "version = \"v1\"\n[kubernetes]\nreverse = [\"10.0.0.0/8\"]\n\
        [[zone]]\nname = \"cluster.local\"\nfile = \"x\"\n\
        [[zone]]\nname = \"10.in-addr.arpa\"\nfile = \"y\"\n";
    let found = problems(text);
    assert!(
        found.contains("zone cluster.local. is declared twice"),
        "{found}"
    );
    assert!(
        found.contains("zone 10.in-addr.arpa. is declared twice"),
        "{found}"
    );
    let right = read("version = \"v1\"\n[kubernetes]\n").unwrap();
    let options = right.kubernetes.unwrap();
    assert_eq!(options.domain.to_string(), "cluster.local.");
    assert_eq!((options.ttl, options.reverse.len()), (5, 0));
}

#[test]
fn a_grant_of_updates_that_cannot_be_used_is_named_with_its_place() {
    let key = "[[key]]\nname = \"k.\"\nsecret = \"dGhlIHNlY3JldCBvZiB0aHJlZSBzZWNvbmRhcmllcw==\"\n";
    let history = "[history]\ndirectory = \"history\"\n";
    let zone = "[[zone]]\nname = \"a.test\"\nfile = \"a.zone\"\n";
    let grants = |tables: &str, update: &str| {
        let text = format!("version = \"v1\"\n{tables}\n{zone}[[zone.update]]\n{update}");
        read(&text).map(|config| config.answers.grants)
    };
    let all = format!("{history}{key}");
    let update = "key = \"K\"\nnames = [\"*.x.a.test\"]\ntypes = [\"TXT\"]\n";
    let granted = grants(&all, update).unwrap();
    let granted = &granted[&"a.test.".parse::<ZoneId>().unwrap()];
    assert!(granted[0].allows(&"y.x.a.test.".parse().unwrap(), Type::TXT));
    for (tables, update, expected) in [
        (history, "key = \"k\"\n", "no [[key]]"),
        (key, "key = \"k\"\n", "[history] directory"),
        (
            &all,
            "key = \"k\"\nnames = [\"x.b.test\"]\n",
            "not a name within zone",
        ),
        (
            &all,
            "key = \"k\"\ntypes = [\"LUA\"]\n",
            "LUA records cannot be updated",
        ),
        (
            &all,
            "key = \"k\"\ntypes = [\"ANY\"]\n",
            "ANY records cannot be updated",
        ),
        (&all, "key = \"k\"\ntypes = [\"NONESUCH\"]\n", "NONESUCH"),
    ] {
        let problems = grants(tables, update).unwrap_err().to_string();
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    let primaries = zone.replace("file", "primaries = [\"192.0.2.1:53\"]\nfile");
    let problems = problems(&format!(
        "version = \"v1\"\n{all}{primaries}[[zone.update]]\nkey = \"k\"\n"
    ));
    assert!(problems.contains("send updates there"), "{problems}");
}

#[test]
fn forms_of_zones_with_lua_records_are_read_and_their_mistakes_are_named() {
    let key = "[[key]]\nname = \"k\"\nsecret = \"AAAA\"\n";
    let config = read(&format!(
        "version = \"v1\"\nhistory.directory = \"/var/lib/x\"\n[transfers]\nlua = \"refuse\"\n\
         [[transfers.peer]]\nnetworks = [\"192.0.2.1\"]\nkeys = [\"k\"]\nzones = [\"a.test\"]\nlua = \"flatten\"\n{key}"
    ));
    let config = config.unwrap();
    let forms = &config.answers.forms;
    let (zone, holder): (Name, Name) = ("a.test.".parse().unwrap(), "k.".parse().unwrap());
    let form = |ip: &str, key| forms.of(&zone, ip.parse().unwrap(), key);
    assert_eq!(form("192.0.2.1", Some(&holder)), Form::Flatten);
    assert_eq!(form("192.0.2.1", None), Form::Refuse);
    for (text, problem) in [
        (
            "[transfers]\nlua = \"flatten\"",
            "dns-authd.toml:3:7: flattened zones need [history] directory",
        ),
        (
            "[[transfers.peer]]\nlua = \"flatten\"",
            "flattened zones need [history] directory",
        ),
        (
            "[[transfers.peer]]\nlua = \"raw\"\nkeys = [\"k\"]",
            "no [[key]] has the name `k`",
        ),
        (
            "[[transfers.peer]]\nlua = \"raw\"\nzones = [\"a..b\"]",
            "`a..b` is not a zone name",
        ),
        ("[[transfers.peer]]\nlua = \"flat\"", "flat"),
        ("[transfers]\nflatten-rate = 1", "flatten-rate"),
    ] {
        let problems = read(&format!("version = \"v1\"\n{text}\n")).unwrap_err();
        let said = problems.to_string();
        assert!(said.contains(problem), "{text}: {said}");
    }
}

/// A configuration that reads a catalog and writes one.
fn with_catalogs() -> Config {
    let key =
        "[[key]]\nname = \"k\"\nsecret = \"AAAA\"\n[[key]]\nname = \"l\"\nsecret = \"AAAA\"\n";
    let zones =
        "[[zone]]\nname = \"a.test\"\nfile = \"a\"\n[[zone]]\nname = \"b.test\"\nfile = \"b\"\n";
    read(&format!(
        "version = \"v1\"\ntransfers.allow-keys = [\"k\"]\n{key}{zones}\
         [[catalog]]\nname = \"in.test\"\nfile = \"in\"\nprimaries = [\"192.0.2.1:53\"]\nkey = \"k\"\ndirectory = \"m\"\n\
         [[catalog.group]]\nname = \"g\"\nprimaries = [\"192.0.2.2:53\"]\nkey = \"l\"\n\
         [[catalog]]\nname = \"out.test\"\nfile = \"out\"\n[[catalog.group]]\nname = \"h\"\nzones = [\"B.test\"]\n"
    ))
    .unwrap()
}

#[test]
fn catalogs_and_the_zones_that_they_add_are_declared() {
    let config = with_catalogs();
    let name = |text: &str| text.parse::<Name>().unwrap();
    let [_, written] = config.catalogs.as_slice() else {
        panic!("{:?}", config.catalogs);
    };
    let Role::Producer(listed) = &written.role else {
        panic!("{written:?}");
    };
    let listed: Vec<_> = listed
        .iter()
        .map(|it| (it.zone.to_string(), it.groups.join(" ")))
        .collect();
    let expected = [("a.test.", ""), ("b.test.", "h")];
    assert_eq!(
        listed,
        expected.map(|(zone, group)| (zone.to_owned(), group.to_owned()))
    );
    let member = |group: &str| Member {
        catalog: name("in.test."),
        id: b"1".as_slice().into(),
        groups: vec![group.to_owned()],
    };
    let mut members = Members::new();
    members.insert(name("c.test."), member("g"));
    members.insert(name("d.test."), member("other"));
    let mut gone = member("g");
    gone.catalog = name("gone.test.");
    members.insert(name("e.test."), gone);
    let whole = config.with_members(&members);
    let sources: Vec<_> = whole
        .secondaries
        .iter()
        .map(|one| {
            let key = one.key.as_ref().map(|key| key.name().to_string());
            (one.name.to_string(), one.primaries.clone(), key.unwrap())
        })
        .collect();
    let source = |zone: &str, primary: &str, key: &str| {
        (zone.to_owned(), vec![plain(primary)], key.to_owned())
    };
    assert_eq!(
        sources,
        [
            source("in.test.", "192.0.2.1:53", "k."),
            source("c.test.", "192.0.2.2:53", "l."),
            source("d.test.", "192.0.2.1:53", "k."),
        ]
    );
    for zone in ["c.test.", "d.test.", "in.test."] {
        assert!(whole.answers.notifiers.contains_key(&name(zone)), "{zone}");
    }
    assert_eq!(whole.zones.declared.len(), 6);
    assert!(matches!(
        whole.origins.of(&name("C.test.").into()),
        Origin::Member
    ));
    assert!(matches!(
        whole.origins.of(&name("a.test.").into()),
        Origin::Configured
    ));
    let Origin::Catalog(readers) = whole.origins.of(&name("out.test.").into()) else {
        panic!("no catalog");
    };
    let outside = "192.0.2.9".parse().unwrap();
    assert!(readers.has(outside, Some(&name("k."))) && !readers.has(outside, None));
}

#[test]
fn a_catalog_that_cannot_be_used_is_named_with_its_place() {
    let read_it = "primaries = [\"192.0.2.1:53\"]\ndirectory = \"m\"\n";
    let zone = "[[zone]]\nname = \"a.test\"\nfile = \"a\"\n";
    for (more, problem) in [
        ("primaries = [\"192.0.2.1:53\"]", "needs a `directory`"),
        (
            &format!("{read_it}key = \"k\""),
            "no [[key]] has the name `k`",
        ),
        (
            &format!("{read_it}zones = [\"a.test\"]"),
            "comes from its primaries",
        ),
        (
            &format!("{read_it}[[catalog.group]]\nname = \"g\"\nzones = [\"a.test\"]"),
            "comes from its primaries",
        ),
        (
            &format!("{read_it}[[catalog.group]]\nname = \"g\"\nkey = \"k\""),
            "no [[key]] has the name `k`",
        ),
        ("zones = [\"b.test\"]", "zone `b.test` is not declared"),
        ("directory = \"m\"", "this one has no primaries"),
        (
            "[[catalog.group]]\nname = \"g\"\nprimaries = [\"192.0.2.1:53\"]",
            "this one has no primaries",
        ),
        ("max-members = 0", "max-members"),
    ] {
        let found = problems(&format!(
            "version = \"v1\"\n{zone}[[catalog]]\nname = \"c.test\"\nfile = \"c\"\n{more}\n"
        ));
        assert!(found.contains(problem), "{more}: {found}");
        assert!(found.contains("dns-authd.toml:"), "{found}");
    }
    for (name, problem) in [
        ("a.test", "zone a.test. is declared twice"),
        ("a..test", "is not a zone name"),
    ] {
        let found = problems(&format!(
            "version = \"v1\"\n{zone}[[catalog]]\nname = \"{name}\"\nfile = \"c\"\n"
        ));
        assert!(found.contains(problem), "{found}");
    }
    let long = format!("{0}.{0}.{0}.{1}.test", "x".repeat(63), "y".repeat(30));
    let found = problems(&format!(
        "version = \"v1\"\n{zone}[[catalog]]\nname = \"{long}\"\nfile = \"c\"\n"
    ));
    assert!(found.contains("leaves no room"), "{found}");
}

const VIEWS: &str = "version = \"v1\"\n[[key]]\nname = \"k\"\nsecret = \"AAAA\"\n\
    [[view]]\nname = \"in\"\nmatch-clients = [\"10.0.0.0/8\"]\nnotify-key = \"k\"\n\
    [[view]]\nname = \"keyed\"\nmatch-keys = [\"K.\"]\n[[view]]\nname = \"out\"\n";

#[test]
fn views_have_zones_of_one_name_and_zones_have_lists() {
    let config = read(&format!(
        "{VIEWS}[[zone]]\nname = \"a.test\"\nview = \"in\"\nfile = \"in\"\nalso-notify = [\"192.0.2.9:53\"]\n\
         allow-query = [\"10.1.0.0/16\"]\nallow-transfer = []\n\
         [[zone]]\nname = \"A.test.\"\nview = \"out\"\nfile = \"out\"\nallow-query-keys = [\"k\"]\n\
         [[zone]]\nname = \"a.test\"\nfile = \"plain\"\nprimaries = [\"192.0.2.1:53\"]\nkey = \"k\"\n\
         [[zone]]\nname = \"a.test\"\nview = \"keyed\"\nfile = \"keyed\"\nprimaries = [\"192.0.2.2:53\"]\n"
    ))
    .unwrap();
    let client = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    let key: Name = "k.".parse().unwrap();
    let seen = |address: &str, key: Option<&Name>| {
        let place = dns_views::choose(config.views.iter(), client(address), key)?;
        Some(config.views[place].name.to_string())
    };
    assert_eq!(seen("10.0.0.1", None).as_deref(), Some("in"));
    assert_eq!(seen("10.0.0.1", Some(&key)).as_deref(), Some("keyed"));
    assert_eq!(seen("192.0.2.1", None).as_deref(), Some("out"));
    let zones = &config.zones.declared;
    let ids: Vec<String> = zones.iter().map(|zone| zone.id().to_string()).collect();
    assert_eq!(
        ids,
        ["a.test..in", "A.test..out", "a.test.", "a.test..keyed"]
    );
    let [one, two, three, _] = zones.as_slice() else {
        panic!("{zones:?}");
    };
    assert!(one.access.may_query(client("10.1.0.1"), None));
    assert!(!one.access.may_query(client("10.2.0.1"), Some(&key)));
    assert!(
        !one.access
            .transfer
            .as_ref()
            .unwrap()
            .has(client("10.1.0.1"), Some(&key))
    );
    assert!(two.access.may_query(client("10.2.0.1"), Some(&key)) && two.access.transfer.is_none());
    assert_eq!(three.access, ZoneAccess::default());
    // The key of a secondary is that of the zone in its view; a NOTIFY names no view.
    let keys: Vec<bool> = config
        .secondaries
        .iter()
        .map(|one| one.key.is_some())
        .collect();
    assert_eq!(keys, [true, false]);
    let notifiers = &config.answers.notifiers[&one.name];
    assert_eq!((notifiers.addresses.len(), notifiers.keys.len()), (2, 1));
    assert_eq!(config.notify.zones.keys().collect::<Vec<_>>(), [&one.id()]);
    assert_eq!(config.notify.keys.len(), 1);
}

#[test]
fn problems_of_views_have_places() {
    let zone = |more: &str| format!("[[zone]]\nname = \"a.test\"\nfile = \"a\"\n{more}\n");
    let secondary = "primaries = [\"192.0.2.1:53\"]\nview =";
    for (text, expected) in [
        (
            "[[view]]\nname = \"a/b\"\n".to_owned(),
            "15:8: `a/b` is no name of a view",
        ),
        (
            "[[view]]\nname = \"in\"\n".to_owned(),
            "15:8: view in is declared twice",
        ),
        (
            "[[view]]\nname = \"x\"\nmatch-keys = [\"o\"]\n".to_owned(),
            "16:14: no [[key]] has the name `o`",
        ),
        (
            "[[view]]\nname = \"x\"\nnotify-key = \"o\"\n".to_owned(),
            "16:14: no [[key]] has the name `o`",
        ),
        (
            zone("view = \"attic\""),
            "17:8: no [[view]] has the name `attic`",
        ),
        (
            zone("allow-query-keys = [\"o\"]"),
            "no [[key]] has the name `o`",
        ),
        (
            zone("allow-transfer-keys = [\"o\"]"),
            "no [[key]] has the name `o`",
        ),
        (
            zone("view = \"in\"").repeat(2),
            "zone a.test..in is declared twice",
        ),
        (
            zone(&format!("{secondary} \"in\"")) + &zone(&format!("{secondary} \"out\"")),
            "a.test..out and a.test..in have one file",
        ),
    ] {
        let found = problems(&format!("{VIEWS}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn views_and_lists_of_a_named_conf_are_carried_over() {
    let named = "key k { algorithm hmac-sha256; secret \"AAAA\"; };\n\
        view in { match-clients { 10/8; key k; }; allow-query { 10.1/16; };\n\
        zone a.test { type master; file \"/in\"; allow-transfer { key k; }; }; };\n\
        view out { zone a.test { type master; file \"/out\"; }; };\n";
    let named = peer_bind::parse_bytes(named.as_bytes()).unwrap();
    let draft = dns_import::named_conf(&named);
    assert_eq!(draft.notes, []);
    let page = draft.written("").unwrap().to_string();
    let imported = read(&page).unwrap_or_else(|problems| panic!("{problems}\n{page}"));
    assert_eq!(imported.views, named.views);
    let zones = |zones: &[peer_bind::ZoneDecl]| {
        let zones = zones.iter();
        let zones = zones.map(|zone| (zone.id(), zone.file.clone(), zone.access.clone()));
        zones.collect::<Vec<_>>()
    };
    assert_eq!(zones(&imported.zones.declared), zones(&named.zones));
    assert!(imported.answers.keys.get(&"k.".parse().unwrap()).is_some());
    // The same file at run time.
    let document = Document::inline(
        "/etc/x/dns-authd.toml",
        "version = \"v1\"\nzones.named-conf = \"named.conf\"\n",
    );
    let read_named = |_: &Path| Ok(named.clone());
    let direct = Config::from_document(
        &document,
        "node",
        read_named,
        &mut |_| unreachable!(),
        &mut |_, _| unreachable!(),
    );
    let direct = direct.unwrap();
    assert_eq!(direct.views, named.views);
    assert_eq!(zones(&direct.zones.declared), zones(&named.zones));
    assert!(direct.answers.keys.get(&"k.".parse().unwrap()).is_some());
}
