use std::time::Duration;

use ::config::restart_needed;
use registry_auth::Action;
use registry_auth::acl::{Acl, Requester};

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

const TEMPLATE: &str = include_str!("../../../deploy/config/registry-svc.toml");

fn template(examples: bool) -> Config {
    let lines = TEMPLATE.lines().map(|line| match line.strip_prefix("#~ ") {
        Some(example) if examples => format!("{example}\n"),
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    let document = Document::inline("template", text.as_str());
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// The template has this beside the defaults.
const OWN: &str = r#"
[tls]
certificates = [
  { certificate = "/etc/outpost/registry.pem", key = "/etc/outpost/registry.key" },
]
"#;

#[test]
fn the_template_is_the_default_configuration_with_one_certificate() {
    let template = template(false);
    let own = parse(OWN).unwrap();
    assert_eq!(template.file, own.file);
    assert_eq!(template.acl, own.acl);
    let default = RegistrySvc {
        tls: own.file.tls.clone(),
        ..RegistrySvc::default()
    };
    assert_eq!(template.file, default);
    let tables =
        "[access]\n[access.token]\n[limits]\n[space]\n[sweep]\n[scrub]\n[index]\n[admin]\n[log]\n";
    assert_eq!(parse(&format!("{OWN}{tables}")).unwrap().file, default);
    assert_eq!(template.common.admin, Some(DEFAULT_ADMIN));
    assert_eq!(template.warnings.len(), 0, "{:?}", template.warnings);
}

#[test]
fn the_examples_of_the_template_can_be_used() {
    let config = template(true);
    let cluster = config.file.cluster.as_ref().unwrap();
    assert_eq!(
        (cluster.node.as_str(), cluster.peers.len()),
        ("master-0", 2)
    );
    assert_eq!(config.file.mirror.len(), 1);
    assert_eq!(config.file.webhook.len(), 1);
    assert_eq!(config.quotas.len(), 1);
    assert_eq!(config.acl.rules.len(), 2);
    assert!(config.file.s3.is_some() && config.token().is_some());
    let blob = config.file.limits.blob.map(::config::SizeWithin::get);
    assert_eq!(blob, Some(64 << 30));
}

#[test]
fn the_keys_that_need_a_restart_are_told_from_the_others() {
    let changed = |text: &str| {
        let (old, new) = (parse("plain = true").unwrap(), parse(text).unwrap());
        restart_needed(&old.file, &new.file)
    };
    assert_eq!(changed(OWN), ["plain"]);
    let several = "plain = true\nlisten = [\"127.0.0.1:5000\"]\nworkers = 2\nroot = \"/srv\"\n\
        [limits]\nconnections = 9\nbody-timeout = \"2m\"\nblob = \"1GiB\"\n[index]\nkind = \"sled\"\n\
        [[mirror]]\nupstream = \"https://a.example\"\nprefix = \"a\"\n\
        [cluster]\nnode = \"a\"\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n\
        [s3]\nbucket = \"b\"\naccess-key-file = \"a\"\nsecret-key-file = \"b\"\n";
    assert_eq!(
        changed(several),
        [
            "listen",
            "root",
            "workers",
            "limits.connections",
            "limits.body-timeout",
            "index",
            "cluster",
            "mirror",
            "s3"
        ]
    );
    let live = "plain = true\nread-only = true\nlog-requests = true\n[access]\nhtpasswd = \"users\"\n\
        [limits]\nuploads = 9\nsparse = \"all\"\n[space]\nstop = 96\n[sweep]\ngrace = \"3h\"\n\
        [scrub]\nrate = \"1MiB\"\n[[webhook]]\nname = \"a\"\nurl = \"https://a.example\"\n";
    assert!(changed(live).is_empty(), "{:?}", changed(live));
}

#[test]
fn nobody_is_known_by_a_certificate_where_none_is_asked_for() {
    for of_tls in ["plain = true\n[access]", &format!("{OWN}[access]")] {
        let found = problems(&format!("{of_tls}\ncertificates = \"dns\""));
        let line = of_tls.lines().count() + 2;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains(&format!("x.toml:{line}:16:")),
            "{found:?}"
        );
        assert!(found[0].contains("client-ca"), "{found:?}");
        parse(&format!("{of_tls}\ncertificates = \"none\"")).unwrap();
    }
    parse(&format!(
        "{OWN}client-ca = \"ca.pem\"\n[access]\ncertificates = \"dns\""
    ))
    .unwrap();
}

#[test]
fn every_problem_is_named_with_its_place() {
    let text = r#"
listen = []
[access]
htpasswd = "users"
groups = { ops = ["a"] }
service = "a \"b\""
token = { lifetime = "59s", realm = "token" }
[[access.rule]]
repositories = "Abc"
groups = ["opz"]
[limits]
manifest = "1KiB"
uploads = 0
[space]
warn = 99
stop = 90
[sweep]
interval = "often"
[cluster]
node = "Master"
peers = [{ name = "b", address = "b" }, { name = "b", address = "b:5444" }]
ca = "a"
certificate = "b"
key = "c"
[[mirror]]
upstream = ["registry.example.org"]
prefix = "A b"
[[webhook]]
name = "a b"
url = "https://user:secret@example.org"
ignore = { actions = ["fly"] }
[s3]
bucket = "b"
endpoint = "http://192.0.2.1:9000"
access-key-file = "a"
secret-key-file = "b"
"#;
    let problems = problems(text);
    let expected = [
        "x.toml:1:1: there is no certificate",
        "x.toml:3:10: there has to be an address",
        "x.toml:7:11: a service is named",
        "x.toml:8:22: 59s is out of range; `lifetime` is from 1m to 1d",
        "x.toml:8:37: a realm is the URL",
        "x.toml:10:16: `A` is in no repository's name",
        "x.toml:11:11: there is no group `opz`; did you mean `ops`?",
        "x.toml:13:12: 1KiB is out of range; `manifest` is from 64KiB to 64MiB",
        "x.toml:14:11: 0 is out of range; `uploads` is at least 1",
        "x.toml:16:8: `warn` has to come before `stop`",
        "x.toml:19:12: `often` is not a duration",
        "x.toml:21:8: a node's name",
        "x.toml:22:34: an address with its port",
        "x.toml:22:50: that is the name of another node",
        "x.toml:27:13: a URL is wanted",
        "x.toml:28:10: a prefix is the beginning",
        "x.toml:30:8: a webhook's name",
        "x.toml:31:7: a URL is wanted",
        "x.toml:32:23: unknown value `fly`, known here: `push`, `pull`, `mount`, `delete`",
        "x.toml:35:12: plain HTTP is used only with",
    ];
    for one in expected {
        assert!(
            problems.iter().any(|problem| problem.starts_with(one)),
            "{one} in {problems:#?}"
        );
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn plain_text_and_certificates_exclude_each_other() {
    assert!(parse("plain = true").unwrap().file.tls.is_none());
    assert_eq!(problems("plain = false").len(), 1);
    let both = problems(&format!("plain = true\n{OWN}"));
    assert!(both[0].contains("exclude each other"), "{both:?}");
    let required = "[tls]\nclient-certificates = \"required\"\n";
    assert_eq!(problems(required).len(), 2);
    let name = "[tls]\ncertificates = [{ certificate = \"a\", key = \"b\", names = [\"*.a.example\", \"a b\"] }]";
    assert_eq!(problems(name).len(), 1);
}

#[test]
fn clients_only_pull_until_one_can_be_known_or_the_file_lets_all_push() {
    let acl = |text: &str| Acl::new(parse(&format!("plain = true\n{text}")).unwrap().acl);
    let user = Requester::User {
        name: "a",
        groups: &[],
    };
    let default = acl("");
    assert!(default.allows(Requester::Anonymous, "a", Action::Pull));
    assert!(!default.allows(Requester::Anonymous, "a", Action::Push));
    assert!(!default.allows(Requester::Anonymous, "a", Action::Delete));
    assert!(acl("[access]\nanonymous = \"all\"").is_open());
    let closed = acl("[access]\nhtpasswd = \"users\"");
    assert!(!closed.allows(Requester::Anonymous, "a", Action::Pull));
    assert!(closed.allows(user, "a", Action::Delete));
    let ruled = acl(
        "[access]\nhtpasswd = \"users\"\nanonymous = \"pull\"\n[[access.rule]]\nrepositories = [\"x/*\", \"y\"]\nusers = [\"a\"]\nactions = [\"push\"]",
    );
    assert!(ruled.allows(user, "x/z", Action::Push));
    assert!(ruled.allows(user, "y", Action::Push));
    assert!(!ruled.allows(user, "z", Action::Push));
    // Who logs in has at least what all others have.
    for who in [user, Requester::Anonymous] {
        assert!(ruled.allows(who, "z", Action::Pull));
    }
}

#[test]
fn what_is_odd_is_said() {
    let warnings = |text: &str| -> Vec<String> {
        let warnings = parse(text).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(warnings("plain = true"), [""; 0]);
    let open = "[access]\nanonymous = \"all\"";
    let reachable = warnings(&format!("plain = true\n{open}"));
    assert!(
        reachable[0].contains("may push without saying"),
        "{reachable:?}"
    );
    let plain = warnings("plain = true\n[access]\nhtpasswd = \"users\"");
    assert!(plain[0].contains("plain text"), "{plain:?}");
    assert_eq!(
        warnings(&format!(
            "plain = true\nlisten = [\"127.0.0.1:5000\"]\n{open}"
        )),
        [""; 0]
    );
    let read_only = format!("plain = true\nread-only = true\n{open}");
    assert_eq!(warnings(&read_only), [""; 0]);
}

#[test]
fn intervals_may_be_never() {
    let config = parse("plain = true\n[sweep]\ninterval = \"never\"\n[scrub]\ninterval = \"1h\"");
    let config = config.unwrap();
    assert_eq!(config.file.sweep.interval.0, None);
    assert_eq!(config.file.scrub.interval.0, Some(Duration::from_hours(1)));
}

#[test]
fn the_summary_says_what_is_configured() {
    let text = "plain = true\nlisten = [\"127.0.0.1:5000\"]\nread-only = true\n[[mirror]]\nupstream = \"https://a.example\"\nprefix = \"a\"";
    assert_eq!(
        parse(text).unwrap().summary(),
        "/var/lib/outpost/registry on 127.0.0.1:5000 (plain text), for pulls alone, 1 mirror, read-only"
    );
}
