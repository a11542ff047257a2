//! Writing of configuration files, and the keys that a reload cannot take up.

use std::time::Duration;

use config::healthd::{Healthd, Kind, Listen, Target};
use config::{Document, HumanDuration, Whole, Written, at, restart_needed};

fn config() -> Healthd {
    let mut config = Healthd {
        listen: vec![Listen::Unix("/run/x.sock".into())],
        ..Healthd::default()
    };
    config.probes.grace = HumanDuration(Duration::from_mins(2));
    let target = |port| Target {
        fall: Whole::new(3),
        headers: Some(vec![["A".to_owned(), "b\n\"".to_owned()]]),
        ..Target::new(Kind::Http, ([192, 0, 2, 1], port).into())
    };
    config.target = vec![target(80), target(81)];
    config
}

#[test]
fn only_values_that_are_no_defaults_are_written() {
    let nothing = Written::new(&Healthd::default()).unwrap().to_string();
    assert_eq!(nothing, "version = \"v1\"\n");
    let written = Written::new(&config())
        .unwrap()
        .head("Rendered.\n\nSecond\u{7} line.")
        .comment(&at!["listen"], "The socket.")
        .comment(&at!["target", 1], "The second.")
        .comment(&at!["target", 0, "fall"], "Patient.")
        .comment(&at!["absent"], "Nowhere.")
        .to_string();
    assert_eq!(
        written,
        r#"# Rendered.
#
# Second  line.
version = "v1"
# The socket.
listen = ["unix:/run/x.sock"]

[probes]
grace = "2m"

[[target]]
kind = "http"
address = "192.0.2.1:80"
# Patient.
fall = 3
headers = [["A", """
b
""""]]

# The second.
[[target]]
kind = "http"
address = "192.0.2.1:81"
fall = 3
headers = [["A", """
b
""""]]
"#
    );
}

#[test]
fn a_written_file_reads_back() {
    let written = Written::new(&config()).unwrap().to_string();
    let read: Healthd = Document::inline("x", written).parse().unwrap();
    assert_eq!(read, config());
}

#[test]
fn keys_that_need_a_restart_are_named() {
    let old = config();
    let mut new = old.clone();
    new.probes.grace = HumanDuration(Duration::ZERO);
    new.target.clear();
    assert!(restart_needed(&old, &new).is_empty());
    new.listen.clear();
    new.admin.listen = None.into();
    assert_eq!(restart_needed(&old, &new), ["listen", "admin.listen"]);
}

#[test]
fn documentation_and_examples_stand_where_they_belong() {
    use config::site::{Network, Site};
    let mut site = Site::new("edge", "edge.example.org");
    site.networks = vec!["192.0.2.0/24".parse::<Network>().unwrap()];
    site.registry.names = vec!["quay".to_owned()];
    let written = Written::new(&site)
        .unwrap()
        .documented()
        .example(&["registry", "users"])
        .example(&["registry", "names"])
        .example(&["time", "servers"])
        .example(&["record"])
        .example(&["no", "such", "key"])
        .to_string();
    let expected = r#"# The registry. Every node that runs registry-svc holds the same content.
[registry]
# The users who may push: a file of htpasswd -B or registry-svc password, relative to this file.
# Without it no client may push, unless the registry is open.
#users = "registry.users"
# Its names, below the domain.
names = ["quay"]

# NTP servers outside the site: addresses or names. Without them the nodes agree on a time among
# themselves.
#[time]
#servers = ["ntp1.core.example", "192.0.2.123"]

# Further records, below the domain: address (or addresses) for a host, type and value for any other
# record of a zone file.
#[[record]]
#name = "mirror"
#type = "CNAME"
#value = "helper"
#ttl = 600
"#;
    assert!(written.ends_with(expected), "{written}");
    let read: Site = Document::inline("x", written).parse().unwrap();
    assert_eq!(read, site);
}
