use daemon::config::{Document, Problems};
use registry_auth::Action;
use registry_auth::acl::{Acl, Who};

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

const TEMPLATE: &str = include_str!("../../../deploy/config/registry-svc.toml");

/// What the template says without its comments.
const OWN: &str = r#"
[tls]
certificates = [
  { certificate = "/etc/outpost/registry.pem", key = "/etc/outpost/registry.key" },
]
"#;

#[test]
fn the_template_is_the_default_configuration_with_one_certificate() {
    let template = v1::parse(&Document::inline("template", TEMPLATE)).unwrap();
    assert_eq!(
        format!("{template:?}"),
        format!("{:?}", parse(OWN).unwrap())
    );
    assert_eq!(template.warnings.len(), 1, "{:?}", template.warnings);
}

/// The template with every commented key that begins with one of these uncommented.
fn uncommented(is_wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let key = line.strip_prefix('#').filter(|rest| {
            let is_text = rest.starts_with(' ') && !rest.starts_with("  {");
            !rest.is_empty() && !is_text && !rest.starts_with('-')
        });
        match key {
            Some(key) if is_wanted(key) => text.push_str(key),
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[test]
fn what_the_template_shows_as_defaults_are_the_defaults() {
    let examples = [
        "client-ca =",
        "htpasswd =",
        "anonymous =",
        "groups =",
        "key =",
        "trusted =",
        "realm =",
        "blob =",
    ];
    // Examples as a whole begin with their table.
    let mut is_example = false;
    let text: String = TEMPLATE
        .lines()
        .map(|line| {
            is_example = match line {
                _ if line.starts_with("#[") => true,
                _ if line.starts_with('[') => false,
                _ => is_example,
            };
            let key = line.strip_prefix('#').filter(|rest| {
                let is_key = rest.starts_with(|c: char| c.is_ascii_lowercase());
                is_key && !is_example && !examples.iter().any(|key| rest.starts_with(key))
            });
            format!("{}\n", key.unwrap_or(line))
        })
        .collect();
    assert!(text.contains("\nread-only = false\n"), "{text}");
    let shown = v1::parse(&Document::inline("template", text)).unwrap();
    let mut default = parse(OWN).unwrap();
    // Zero is one per core, whatever the machine has.
    default.workers = shown.workers;
    assert_eq!(format!("{shown:?}"), format!("{default:?}"));
}

#[test]
fn every_key_of_the_template_is_understood() {
    let text = uncommented(|key| !key.starts_with("plain ="));
    let config = v1::parse(&Document::inline("template", text)).unwrap();
    let cluster = config.cluster.unwrap();
    assert_eq!(
        (cluster.node.as_str(), cluster.peers.len()),
        ("master-0", 2)
    );
    assert_eq!(config.mirrors.len(), 1);
    assert_eq!(config.webhooks.len(), 1);
    assert_eq!(config.space.quotas.len(), 1);
    assert_eq!(config.access.acl.rules.len(), 2);
    assert!(config.s3.is_some() && config.access.token.is_some());
    assert_eq!(config.limits.blob, Some(64 << 30));
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
        "x.toml:8:22: has to be from 1m to 1d",
        "x.toml:8:37: a realm is the URL",
        "x.toml:10:16: `A` is in no repository's name",
        "x.toml:11:11: there is no group `opz`; did you mean `ops`?",
        "x.toml:13:12: has to be at least 64KiB",
        "x.toml:14:11: with 0 nothing",
        "x.toml:16:8: `warn` has to come before `stop`",
        "x.toml:19:12: `often` is not a duration",
        "x.toml:21:8: a node's name",
        "x.toml:22:34: an address with its port",
        "x.toml:22:50: that is the name of another node",
        "x.toml:27:12: a URL is wanted",
        "x.toml:28:10: a prefix is the beginning",
        "x.toml:30:8: a webhook's name",
        "x.toml:31:7: a URL is wanted",
        "x.toml:32:23: an action is one of",
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
    assert!(parse("plain = true").unwrap().tls.is_none());
    assert_eq!(problems("plain = false").len(), 1);
    let both = problems(&format!("plain = true\n{OWN}"));
    assert!(both[0].contains("exclude each other"), "{both:?}");
    let required = "[tls]\nclient-certificates = \"required\"\n";
    assert_eq!(problems(required).len(), 2);
    let name = "[tls]\ncertificates = [{ certificate = \"a\", key = \"b\", names = [\"*.a.example\", \"a b\"] }]";
    assert_eq!(problems(name).len(), 1);
}

#[test]
fn access_is_open_until_somebody_can_be_known() {
    let acl = |text: &str| Acl::new(parse(&format!("plain = true\n{text}")).unwrap().access.acl);
    let user = Who::User {
        name: "a",
        groups: &[],
    };
    assert!(acl("").is_open());
    let closed = acl("[access]\nhtpasswd = \"users\"");
    assert!(!closed.allows(Who::Anonymous, "a", Action::Pull));
    assert!(closed.allows(user, "a", Action::Delete));
    let ruled = acl(
        "[access]\nhtpasswd = \"users\"\nanonymous = \"pull\"\n[[access.rule]]\nrepositories = [\"x/*\", \"y\"]\nusers = [\"a\"]\nactions = [\"push\"]",
    );
    assert!(ruled.allows(user, "x/z", Action::Push));
    assert!(ruled.allows(user, "y", Action::Push));
    assert!(!ruled.allows(user, "z", Action::Pull));
    assert!(ruled.allows(Who::Anonymous, "z", Action::Pull));
}

#[test]
fn what_is_odd_is_said() {
    let warnings = |text: &str| parse(text).unwrap().warnings;
    let reachable = warnings("plain = true");
    assert!(
        reachable[0].contains("may push without saying"),
        "{reachable:?}"
    );
    let plain = warnings("plain = true\n[access]\nhtpasswd = \"users\"");
    assert!(plain[0].contains("plain text"), "{plain:?}");
    assert_eq!(
        warnings("plain = true\nlisten = [\"127.0.0.1:5000\"]"),
        [""; 0]
    );
    assert_eq!(warnings("plain = true\nread-only = true"), [""; 0]);
}

#[test]
fn intervals_may_be_never() {
    let config = parse("plain = true\n[sweep]\ninterval = \"never\"\n[scrub]\ninterval = \"1h\"");
    let config = config.unwrap();
    assert_eq!(config.sweep.interval, None);
    assert_eq!(config.scrub.interval, Some(Duration::from_hours(1)));
}

#[test]
fn the_summary_says_what_is_configured() {
    let text = "plain = true\nlisten = [\"127.0.0.1:5000\"]\nread-only = true\n[[mirror]]\nupstream = \"https://a.example\"\nprefix = \"a\"";
    assert_eq!(
        parse(text).unwrap().summary(),
        "/var/lib/outpost/registry on 127.0.0.1:5000 (plain text), for everybody, 1 mirror, read-only"
    );
}
