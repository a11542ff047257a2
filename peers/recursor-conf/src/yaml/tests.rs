use std::io;

use super::*;
use crate::{Action, Dnssec, Policy, RecursorConf, parse, parse_bytes, parse_yaml_bytes};

/// A site of pdns 5, with the settings that its documentation has as examples.
const SITE: &str = "# The recursor of a site.
dnssec:
  validation: validate
  log_bogus: true
  trustanchors:
    - name: example.com
      dsrecords:
      - 10000 8 2 a06d44b80b8f1d39a95c0b0d7c65d08458e880409bbc683457104237c7f8ec8d
  negative_trustanchors:
    - name: broken.example
      reason: an example
incoming:
  listen:
    - 0.0.0.0:5301
    - '[::]:5301'
  allow_from: [ '2001:DB8::/32', 128.66.0.0/16, '!128.66.1.2' ]
  tcp_timeout: 7
outgoing:
  dont_query: []
  source_address:
    - 0.0.0.0
    - '::'
recordcache:
  max_ttl: 3600
recursor:
  threads: 4
  serve_rfc1918: false
  setuid: pdns
  forward_zones:
    - zone: ocp4.example
      forwarders: [ 127.0.0.1:5300, '[::1]:53' ]
      notify_allowed: true
  forward_zones_recurse:
    - zone: .
      forwarders:
        - 192.0.2.53
        - 192.0.2.54:853
logging:
  loglevel: 6
  quiet: false
";

struct Tree(&'static [(&'static str, &'static str)]);

impl Files for Tree {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == path);
        let (_, text) = found.ok_or(io::ErrorKind::NotFound)?;
        Ok(text.as_bytes().to_vec())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.0.iter().map(|(name, _)| PathBuf::from(name));
        Ok(paths.filter(|it| it.parent() == Some(directory)).collect())
    }
}

fn conf(files: &'static [(&'static str, &'static str)]) -> RecursorConf {
    let read = parse(Path::new("recursor.yml"), &mut Tree(files), &[]);
    read.unwrap_or_else(|rejected| panic!("{:#?}", rejected.problems))
}

fn problems(text: &str) -> Vec<String> {
    let rejected = parse_yaml_bytes(text.as_bytes()).unwrap_err();
    rejected.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_in_yaml_means_what_the_same_settings_in_lines_mean() {
    let ours = conf(&[("recursor.yml", SITE)]);
    let lines = "dnssec=validate\ndnssec-log-bogus=yes\nlocal-address=0.0.0.0:5301, [::]:5301\n\
        allow-from=2001:DB8::/32, 128.66.0.0/16, !128.66.1.2\nclient-tcp-timeout=7\ndont-query=\n\
        query-local-address=0.0.0.0, ::\nmax-cache-ttl=3600\nthreads=4\nserve-rfc1918=no\nsetuid=pdns\n\
        forward-zones=ocp4.example=127.0.0.1:5300;[::1]:53\n\
        forward-zones-recurse=.=192.0.2.53;192.0.2.54:853\nloglevel=6\nquiet=no\n";
    let theirs = parse_bytes(lines.as_bytes()).unwrap();
    assert_eq!(ours.listen, theirs.listen);
    assert_eq!(ours.allow_from, theirs.allow_from);
    assert_eq!(ours.dont_query, theirs.dont_query);
    assert_eq!(ours.dnssec, theirs.dnssec);
    assert_eq!(ours.cache, theirs.cache);
    assert_eq!(ours.clients, theirs.clients);
    assert_eq!(ours.upstreams, theirs.upstreams);
    assert_eq!(ours.local, theirs.local);
    let zones = |conf: &RecursorConf| -> Vec<_> {
        let forwards = conf.forwards.iter();
        let zone = |it: &crate::Forward| (it.zone.clone(), it.recursive, it.upstreams.clone());
        forwards.map(zone).collect()
    };
    assert_eq!(zones(&ours), zones(&theirs));
    assert!(ours.forwards.iter().any(|it| it.notify), "notify_allowed");
    assert_eq!(
        ours.trust_anchors,
        Some(vec![
            "example.com DS 10000 8 2 a06d44b80b8f1d39a95c0b0d7c65d08458e880409bbc683457104237c7f8ec8d".to_owned()
        ])
    );
    assert_eq!(ours.negative_anchors, ["broken.example"]);
    let dropped: Vec<String> = ours
        .dropped
        .iter()
        .map(|it| format!("{} {}", it.position.as_ref().unwrap(), it.key))
        .collect();
    assert_eq!(
        dropped,
        [
            "recursor.yml:4:3 dnssec.log_bogus",
            "recursor.yml:28:3 recursor.setuid",
            "recursor.yml:39:3 logging.loglevel",
        ]
    );
    let warnings: Vec<String> = ours.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings
            .iter()
            .any(|it| it.starts_with("recursor.yml:3:3: `dnssec.validation=validate`")),
        "{warnings:?}"
    );
}

#[test]
fn a_recursor_conf_with_sections_is_yaml() {
    for (name, text, expected) in [
        ("recursor.conf", "# pdns 5\n\nincoming:\n  port: 53\n", true),
        ("recursor.conf", "---\nincoming:\n", true),
        ("recursor.conf", "local-port=53\n", false),
        ("recursor.conf", "# incoming:\nquiet\n", false),
        ("recursor.conf", "other:\n", false),
        ("recursor.conf", "", false),
        ("recursor.yml", "local-port=53\n", true),
    ] {
        assert_eq!(
            is_yaml(Path::new(name), text.as_bytes()),
            expected,
            "{text}"
        );
    }
    let conf = parse_bytes(b"incoming:\n  port: 5300\n").unwrap();
    assert_eq!(
        conf.listen.first().map(std::net::SocketAddr::port),
        Some(5300)
    );
}

#[test]
fn files_of_a_directory_come_after_and_add_to_lists() {
    let conf = conf(&[
        (
            "recursor.yml",
            "recursor:\n  include_dir: /d\n  threads: 2\n  forward_zones_file: /zones.yml\nincoming:\n  allow_from: [10.0.0.0/8]\n",
        ),
        (
            "/d/b.yml",
            "recursor:\n  threads: 3\nincoming:\n  allow_from: [192.0.2.0/24]\n",
        ),
        ("/d/a.yml", "recursor:\n  threads: 9\n"),
        ("/d/c.conf", "threads=7"),
        (
            "/zones.yml",
            "- zone: a.example\n  forwarders: [192.0.2.1]\n- zone: .\n  forwarders: [192.0.2.2]\n  recurse: true\n",
        ),
    ]);
    assert_eq!(conf.clients.threads, Some(3));
    assert_eq!(conf.allow_from.len(), 2);
    let recursive: Vec<bool> = conf.forwards.iter().map(|it| it.recursive).collect();
    assert_eq!(recursive, [false, true]);
    let files: Vec<String> = conf
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    assert_eq!(
        files,
        ["recursor.yml", "/d/a.yml", "/d/b.yml", "/zones.yml"]
    );
}

#[test]
fn response_policies_of_files_are_carried_and_transferred_ones_are_named() {
    let conf = conf(&[
        (
            "recursor.yml",
            "recursor:\n  rpzs:\n  - name: /etc/block.rpz\n    defpol: NXDOMAIN\n    tags: [a]\n    policyName: block\n\
             \x20 - name: rpz.example\n    addresses: [192.0.2.1]\n  sortlists: []\n  lua_start_stop_script: /x\n",
        ),
        ("/etc/block.rpz", "block.test. 60 IN SOA a. b. 1 2 3 4 5\n"),
    ]);
    assert_eq!(
        conf.policies,
        [Policy {
            file: "/etc/block.rpz".into(),
            zone: "block.test.".to_owned(),
            action: Action::NxDomain,
        }]
    );
    let dropped: Vec<(String, String)> = conf
        .dropped
        .iter()
        .map(|it| (it.key.clone(), it.value.clone()))
        .collect();
    let expected = [
        ("recursor.rpzs.tags", "a"),
        ("recursor.rpzs", "rpz.example"),
        ("recursor.lua_start_stop_script", "/x"),
    ];
    assert_eq!(
        dropped,
        expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
}

#[test]
fn what_pdns_would_refuse_is_refused_with_its_place() {
    for (text, expected) in [
        (
            "recursr:\n  threads: 1\n",
            "recursor.yml:1:1: unknown section `recursr`, did you mean `recursor`?",
        ),
        (
            "recursor:\n  thread: 1\n",
            "recursor.yml:2:3: unknown setting `recursor.thread`, did you mean `recursor.threads`?",
        ),
        (
            "recursor:\n  threads: many\n",
            "recursor.yml:2:3: `recursor.threads` takes a number, not `many`",
        ),
        (
            "recursor:\n  forward_zones:\n  - zone: a\n    forwarders: [x]\n",
            "recursor.yml:4:18: `a` is forwarded to `x`: not an address",
        ),
        (
            "recursor:\n  forward_zones:\n  - a=192.0.2.1\n",
            "an item of `forward_zones` has fields",
        ),
        (
            "recursor:\n  threads: {a: 1}\n",
            "`recursor.threads` is a value or a list of values",
        ),
        (
            "dnssec:\n  trustanchors:\n  - name: .\n    dsrecords: [x]\n",
            "recursor.yml:4:17: `x` is not the data of a DS record",
        ),
        ("recursor: 1\n", "`recursor` is a section with settings"),
        ("- a\n", "the file has sections"),
        (
            "recursor:\n  rpzs:\n  - name: /none\n",
            "is no file with the SOA record",
        ),
        ("recursor:\n\tthreads: 1\n", "recursor.yml:"),
    ] {
        let problems = problems(text);
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{text}: {problems:?}"
        );
    }
}

#[test]
fn settings_without_values_are_those_of_pdns() {
    let conf = conf(&[(
        "recursor.yml",
        "dnssec:\nincoming:\n  allow_from:\nrecursor: {}\n",
    )]);
    assert_eq!(conf.dnssec, None::<Dnssec>);
    let plain = parse_bytes(b"").unwrap();
    assert_eq!(conf.allow_from, plain.allow_from);
    assert_eq!(conf.dropped, []);
}
