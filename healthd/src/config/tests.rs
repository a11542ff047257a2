use std::time::Duration;

use proto::health::{HttpProbe, TargetKind, Verify};

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::from_document(&Document::inline("healthd.toml", text))
}

#[test]
fn the_template_loads_and_says_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/healthd.toml");
    let config = Config::load(Some(Path::new(path)), &Overrides::default());
    assert_eq!(
        config.unwrap_or_else(|error| panic!("{error}")),
        Config::default()
    );
    // What the template shows in comments is right, too.
    let text = std::fs::read_to_string(path).unwrap();
    let shown: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("#~ ").unwrap_or(line))
        .collect();
    let config = parse(&shown.join("\n")).unwrap_or_else(|error| panic!("{error}"));
    let kinds: Vec<&str> = config
        .targets
        .iter()
        .map(|target| target.kind.name())
        .collect();
    assert_eq!(kinds, ["tcp", "https", "grpc", "dns", "ntp"]);
}

const FULL: &str = r#"
        version = "v1"
        drain = "3s"
        listen = ["unix:/tmp/h.sock", "http://127.0.0.1:9400"]
        state = "/tmp/state"
        [admin]
        listen = "127.0.0.1:1"
        [probes]
        in-flight = 5
        targets = 7
        grace = "2m"
        [metrics]
        targets = 3
        [schedule]
        interval = "4s"
        fast-interval = "300ms"
        timeout = "3s"
        rise = 3
        fall = 4
        [[override]]
        kind = "dns"
        address = "::1"
        port = 53
        fall = 9
        [[target]]
        kind = "https"
        address = "192.168.7.13:6443"
        source = "192.168.7.1"
        interval = "2s"
        fast-interval = "500ms"
        timeout = "1s"
        rise = 2
        fall = 3
        method = "HEAD"
        path = "/readyz"
        host = "api.ocp4.redhat.ren"
        status = 204
        body = "ok"
        user-agent = "me"
        headers = [["A", "b"]]
        byte-limit = "4KiB"
        ca-file = "/ca.pem"
        [[target]]
        kind = "dns"
        address = "[::1]:53"
        name = "ocp4.redhat.ren"
        type = "NS"
        rcode = "NXDOMAIN"
        "#;

#[test]
fn everything_can_be_said() {
    let config = parse(FULL).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        config.file.listen,
        [
            Listen::Unix("/tmp/h.sock".into()),
            Listen::Tcp("127.0.0.1:9400".parse().unwrap())
        ]
    );
    assert_eq!((config.limits().in_flight, config.limits().targets), (5, 7));
    assert_eq!(config.limits().grace, Duration::from_mins(2));
    assert_eq!(config.file.metrics.targets, 3);
    let [https, dns] = &config.targets[..] else {
        panic!("{:?}", config.targets);
    };
    assert_eq!(
        https.kind,
        TargetKind::Https(HttpProbe {
            method: "HEAD".to_owned(),
            host: "api.ocp4.redhat.ren".to_owned(),
            path: "/readyz".to_owned(),
            status: 204,
            body: Some("ok".to_owned()),
            user_agent: "me".to_owned(),
            headers: vec![("A".to_owned(), "b".to_owned())],
            byte_limit: Some(4096),
            verify: Verify::Ca("/ca.pem".to_owned()),
        })
    );
    let schedule = config.schedules.of(https);
    let millis = Duration::from_millis;
    assert_eq!(
        (schedule.interval, schedule.fast_interval, schedule.timeout),
        (millis(2000), millis(500), millis(1000))
    );
    assert_eq!((schedule.rise, schedule.fall), (2, 3));
    let schedule = config.schedules.of(dns);
    assert_eq!(
        (schedule.interval, schedule.fast_interval, schedule.timeout),
        (millis(4000), millis(300), millis(3000))
    );
    assert_eq!((schedule.rise, schedule.fall), (3, 9));
    assert_eq!(dns.to_string(), "dns [::1]:53 ocp4.redhat.ren.");
    for target in &config.targets {
        let wire = proto::wire::Target::from(target);
        let back = Target::try_from(wire);
        assert_eq!(back.as_ref(), Ok(target), "subscribers name the same");
    }
}

#[test]
fn problems_are_all_told_with_their_place() {
    let problems = parse(
        r#"version = "v1"
listen = ["http://192.168.7.13:9400", "tcp:x"]
[probes]
in-flight = 0
[[target]]
kind = "tcp"
address = "192.168.7.13:6443"
interval = "50ms"
path = "/x"
[[target]]
kind = "ping"
address = "192.168.7.13:1"
[[target]]
kind = "https"
address = "192.168.7.13:443"
verify = "ca"
status = 99
rise = 0
"#,
    )
    .unwrap_err();
    let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    let expected = [
        "2:11: 192.168.7.13:9400 can be reached",
        "2:39: \"tcp:x\" is no endpoint",
        "4:13: 0 is out of range; `in-flight` is at least 1",
        "8:12: 50ms is out of range; `interval` is from 100ms",
        "9:8: a target of kind tcp has no `path`",
        "11:8: unknown value `ping`",
        "16:10: `ca-file` is missing",
        "17:10: 99 is out of range; `status` is from 100 to 999",
        "18:8: 0 is out of range; `rise` is at least 1",
    ];
    for (told, expected) in told.iter().zip(expected) {
        assert!(
            told.starts_with(&format!("healthd.toml:{expected}")),
            "{told}"
        );
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_a_problem() {
    let problems = parse(
        r#"version = "v1"
[schedule]
interval = "1s"
fast-interval = "2s"
[[override]]
fall = 3
[[override]]
port = 443
[[override]]
port = 443
interval = "1.0005s"
[[target]]
kind = "tcp"
address = "192.168.7.13:443"
interval = "200ms"
fast-interval = "300ms"
"#,
    )
    .unwrap_err();
    let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    let expected = [
        "4:17: the fast interval is longer",
        "5:1: an override names a `kind`",
        "7:1: this override sets nothing",
        "11:12: a time in whole milliseconds",
        "16:17: the fast interval is longer",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for expected in expected {
        let expected = format!("healthd.toml:{expected}");
        assert!(
            told.iter().any(|told| told.starts_with(&expected)),
            "{expected} in {told:#?}"
        );
    }
}

#[test]
fn a_target_that_can_never_be_probed_is_a_problem() {
    let problems = parse(
        r#"version = "v1"
[[target]]
kind = "http"
address = "192.168.7.13:80"
method = "GE T"
path = "/a b"
user-agent = "a\nb"
headers = [["X-A", "b"], ["X A", "b"]]
[[target]]
kind = "https"
address = "192.168.7.13:443"
host = "api of ocp4"
"#,
    )
    .unwrap_err();
    let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    let expected = [
        "5:10: \"GE T\" is no method",
        "6:8: \"/a b\" is no path",
        "7:14: \"a\\nb\" cannot be in a header",
        "8:11: \"X A\" is no header",
        "12:8: \"api of ocp4\" is no server name",
    ];
    assert_eq!(told, expected.map(|text| format!("healthd.toml:{text}")));
}

#[test]
fn a_check_reads_the_authorities_and_a_start_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    let text = format!(
        "version = \"v1\"\n[[target]]\nkind = \"https\"\naddress = \"192.168.7.13:443\"\nca-file = {file:?}\n"
    );
    for contents in [None, Some("no certificate")] {
        if let Some(contents) = contents {
            std::fs::write(&file, contents).unwrap();
        }
        let config = parse(&text).unwrap();
        let problems = config.with_files().unwrap_err().to_string();
        assert!(
            problems.starts_with("https 192.168.7.13:443/") && problems.contains("ca.pem"),
            "{problems}"
        );
    }
}

#[test]
fn a_misspelt_key_is_named() {
    let problems = parse("version = \"v1\"\n[probes]\ninflight = 5\n").unwrap_err();
    assert!(problems.to_string().contains("`in-flight`"), "{problems}");
}

#[test]
fn the_command_line_wins() {
    let overrides = Overrides {
        socket: Some("/tmp/x.sock".into()),
        state_dir: Some("/tmp/x".into()),
        admin: Some("127.0.0.1:7".parse().unwrap()),
    };
    let config = Config::load(None, &overrides).unwrap();
    assert_eq!(config.file.listen, [Listen::Unix("/tmp/x.sock".into())]);
    assert_eq!(config.file.state, Path::new("/tmp/x"));
    assert_eq!(config.common.admin, overrides.admin);
}

#[test]
fn other_nodes_are_checked_and_without_one_nothing_is_exchanged() {
    let file = |node: &str, peers: &str| {
        parse(&format!(
            "version = \"v1\"\n[exchange]\nnode = \"{node}\"\npeers = [{peers}]\n\
             ca = \"/ca\"\ncertificate = \"/crt\"\nkey = \"/key\"\n"
        ))
    };
    let peer =
        |name: &str, address: &str| format!("{{ name = \"{name}\", address = \"{address}\" }}");
    let two = [peer("b", "192.0.2.2:5445"), peer("c", "c.example:5445")].join(", ");
    let config = file("a", &two).unwrap();
    let exchange = config.exchange.as_ref().unwrap();
    assert_eq!(exchange.settings.peers, ["b", "c"]);
    assert_eq!(exchange.settings.silence, Duration::from_secs(2));
    assert_eq!(exchange.settings.hold, Duration::from_mins(1));
    assert_eq!(exchange.settings.max_findings, 16_384);
    assert_eq!(exchange.listen.len(), 2);
    let unreadable = config.with_files().unwrap_err().to_string();
    assert!(
        unreadable.contains("exchange: cannot read /ca"),
        "{unreadable}"
    );
    assert_eq!(file("a", "").unwrap().exchange, None);
    assert_eq!(parse("version = \"v1\"").unwrap().exchange, None);
    let many: Vec<String> = (0..16)
        .map(|number| peer(&format!("n{number}"), "192.0.2.2:1"))
        .collect();
    for (node, peers, expected) in [
        ("A", two.as_str(), "a node's name"),
        ("a", &peer("a", "192.0.2.2:1"), "another node"),
        ("a", &peer("b", "192.0.2.2"), "with its port"),
        ("a", &peer("", "192.0.2.2:1"), "a node's name"),
        ("a", &many.join(", "), "at most 15"),
    ] {
        let problems = file(node, peers).unwrap_err().to_string();
        assert!(problems.contains(expected), "{problems}");
    }
}
