//! Whole files and what is made of them.
//!
//! Size: a table for each section of haproxy.cfg.

use std::path::Path;

use config::lb_proxy::HealthCheck;
use config::{Document, Note};

use super::*;

/// A machine with an environment and a resolver.
struct Here;

impl HostInfo for Here {
    fn variable(&self, name: &str) -> Option<String> {
        let value = match name {
            "PORT" => "6443",
            "SERVERS" => "a  b\tc",
            "EMPTY" => "",
            "ODD" => "x # \"y\" '",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let last = match host.strip_suffix(".ocp4.redhat.ren") {
            Some("bootstrap") => 12,
            Some("master0") => 13,
            Some("master1") => 14,
            Some("master2") => 15,
            Some("compute0") => 16,
            Some("compute1") => 17,
            _ => return Vec::new(),
        };
        vec!["2001:db8::1".parse().unwrap(), [192, 168, 7, last].into()]
    }

    fn nameservers(&self) -> Vec<IpAddr> {
        vec![[192, 168, 7, 11].into()]
    }
}

const FIXTURES: [(&str, &str); 4] = [
    ("helper-node.cfg", include_str!("fixtures/helper-node.cfg")),
    ("upi-sample.cfg", include_str!("fixtures/upi-sample.cfg")),
    ("on-prem.cfg", include_str!("fixtures/on-prem.cfg")),
    (
        "two-clusters.cfg",
        include_str!("fixtures/two-clusters.cfg"),
    ),
];

fn read(text: &str) -> Result<Tree, Vec<Problem>> {
    parse(&[(Path::new("haproxy.cfg"), text.as_bytes())], &Here)
}

/// A file that was imported, as its reader gets it.
pub(super) struct Imported {
    pub(super) toml: String,
    remarks: Vec<Note>,
}

impl Imported {
    fn of(draft: Draft<LbProxy>) -> Self {
        Self {
            toml: draft.written("From haproxy.cfg.").unwrap().to_string(),
            remarks: draft.notes,
        }
    }
}

fn draft(text: &str) -> Draft<LbProxy> {
    import(&[(Path::new("haproxy.cfg"), text.as_bytes())], &Here).unwrap()
}

pub(super) fn imported(text: &str) -> Imported {
    Imported::of(draft(text))
}

/// The TOML of a file, as values.
pub(super) fn values(text: &str) -> toml::Table {
    let toml = imported(text).toml;
    toml.parse()
        .unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

/// The remarks on a file, each on a line.
pub(super) fn remarks(text: &str) -> String {
    let remarks: Vec<String> = imported(text)
        .remarks
        .iter()
        .map(ToString::to_string)
        .collect();
    remarks.join("\n")
}

/// The words of the only line of a section.
fn words(line: &str) -> Vec<String> {
    let tree = read(&format!("global\n{line}\n")).unwrap();
    let words = tree.sections[0].lines[0].words.iter();
    words.map(|word| word.text.clone()).collect()
}

/// A backend section of `text`, and a frontend that leads there.
pub(super) fn backend(text: &str) -> toml::Table {
    let values = values(&format!(
        "frontend f\nbind :6443\ndefault_backend b\nbackend b\n{text}\n"
    ));
    values["backend"][0].as_table().unwrap().clone()
}

/// A frontend section of `text`, with backends a and b to lead to.
pub(super) fn frontend(text: &str) -> (toml::Table, String) {
    let text = format!(
        "frontend f\nbind :8443\n{text}\nbackend a\nserver a 192.0.2.1:443\nbackend b\nserver b 192.0.2.2:443\n"
    );
    let values = values(&text);
    (
        values["frontend"][0].as_table().unwrap().clone(),
        remarks(&text),
    )
}

//--- Words

#[test]
fn words_are_cut_as_haproxy_cuts_them() {
    for (line, expected) in [
        (r"a b	c", &["a", "b", "c"][..]),
        (r"  a   b  # c", &["a", "b"]),
        (r"a b#c", &["a", "b"]),
        (r"a b\#c", &["a", "b#c"]),
        (r"a b\ c", &["a", "b c"]),
        (r"a b\\c", &["a", r"b\c"]),
        (r"a b\qc", &["a", r"b\qc"]),
        (r#"a \"b\" \'c\'"#, &["a", "\"b\"", "'c'"]),
        (r"a \n\r\t\x41\x2f", &["a", "\n\r\tA/"]),
        (r#"a "b c # d" e"#, &["a", "b c # d", "e"]),
        (r#"a "b'c" 'd"e'"#, &["a", "b'c", "d\"e"]),
        (r#"a "b\"c\\d\$e""#, &["a", r#"b"c\d$e"#]),
        (r"a 'b\n$PORT\'", &["a", r"b\n$PORT\"]),
        (r#"a b"c d"'e f'g"#, &["a", "bc de fg"]),
        (r#"a "" ''"#, &["a", "", ""]),
        (r"a $PORT ${PORT}", &["a", "$PORT", "${PORT}"]),
        (
            r#"a "$PORT" "${PORT}0" "x$PORT.y""#,
            &["a", "6443", "64430", "x"],
        ),
        (
            r#"a "${NONE-9}:${PORT-9}" "${EMPTY-9}""#,
            &["a", "9:6443", ""],
        ),
        (r#"a "${SERVERS[*]}" z"#, &["a", "a", "b", "c", "z"]),
        (r#"a "${SERVERS}" "$ODD""#, &["a", "a  b\tc", "x # \"y\" '"]),
        (r#"a "${.LINE}""#, &["a", "2"]),
        ("a b\r", &["a", "b"]),
        ("a ü\u{a0}ß", &["a", "ü\u{a0}ß"]),
    ] {
        // A dot belongs to the name of a variable, as of HAProxy's own.
        assert_eq!(words(line), expected, "{line}");
    }
}

#[test]
fn what_does_not_end_is_told_with_its_place() {
    for (line, expected) in [
        (
            "a \"b",
            "haproxy.cfg:2:3: this quote does not end on its line",
        ),
        (
            "a b'c",
            "haproxy.cfg:2:4: this quote does not end on its line",
        ),
        (
            r"a \x4",
            "haproxy.cfg:2:3: `\\x` wants two hexadecimal digits",
        ),
        (
            r"a \xzz",
            "haproxy.cfg:2:3: `\\x` wants two hexadecimal digits",
        ),
        (
            "a \"${PORT\"",
            "haproxy.cfg:2:4: `${` does not end on its line",
        ),
        (
            "a \"$\"",
            "haproxy.cfg:2:4: the name of a variable is missing after `$`",
        ),
        (
            "a \"$1\"",
            "haproxy.cfg:2:4: the name of a variable is missing after `$`",
        ),
    ] {
        let problems = read(&format!("global\n{line}\n")).unwrap_err();
        assert_eq!(problems.len(), 1, "{line}");
        assert_eq!(problems[0].to_string(), expected, "{line}");
    }
}

//--- Sections

#[test]
fn lines_belong_to_the_section_before_them() {
    let tree =
        read("global\n daemon\ndefaults x from y\n mode tcp\n\nfrontend f from x\n").unwrap();
    let kinds: Vec<Kind> = tree.sections.iter().map(|section| section.kind).collect();
    assert_eq!(kinds, [Kind::Global, Kind::Defaults, Kind::Frontend]);
    assert_eq!(tree.sections[1].name().unwrap().text, "x");
    assert_eq!(tree.sections[1].from().unwrap().text, "y");
    assert_eq!(tree.sections[1].lines[0].text(), "mode tcp");
    assert_eq!(tree.sections[0].from(), None);
}

#[test]
fn a_broken_structure_is_refused() {
    for (text, expected) in [
        (
            "mode tcp\n",
            "haproxy.cfg:1:1: `mode` is outside of any section",
        ),
        ("frontend\n", "haproxy.cfg:1:1: `frontend` wants a name"),
        (".endif\n", "haproxy.cfg:1:1: `.endif` without an `.if`"),
        (
            "global\n.if 1\n.if 0\n.endif\n",
            "haproxy.cfg:2:1: this `.if` has no `.endif`",
        ),
    ] {
        let problems = read(text).unwrap_err();
        assert_eq!(problems[0].to_string(), expected);
    }
}

#[test]
fn lines_of_conditional_blocks_are_reported_and_nothing_else_is_made_of_them() {
    let text = ".if defined(X)\nlisten l\nbind :1\n.elif 1\nbind :2\n.else\n.notice x\n.endif\n";
    let tree = read(text).unwrap();
    assert!(tree.sections.is_empty());
    assert_eq!(remarks(text).lines().count(), 7);
}

#[test]
fn defaults_are_inherited_from_the_last_or_the_named_section() {
    let text = "defaults one\n retries 1\n timeout connect 1s\n\
        defaults two from one\n retries 2\n\
        defaults\n retries 4\n\
        backend a\n server s 192.0.2.1:1\n\
        backend b from two\n server s 192.0.2.1:1\n\
        backend c from one\n retries 9\n server s 192.0.2.1:1\n\
        backend d from none\n server s 192.0.2.1:1\n";
    let values = values(text);
    let of = |index: usize, key: &str| values["backend"][index].get(key).cloned();
    assert_eq!(of(0, "retries"), Some(4.into()));
    assert_eq!(of(0, "connect-timeout"), None);
    assert_eq!(of(1, "retries"), Some(2.into()));
    assert_eq!(of(1, "connect-timeout"), Some("1s".into()));
    assert_eq!(of(2, "retries"), Some(9.into()));
    assert_eq!(of(3, "retries"), None);
    assert!(
        remarks(text)
            .contains("`from none` is not carried over: there is no such defaults section")
    );
}

#[test]
fn defaults_that_name_each_other_end() {
    let text = "defaults a from b\n retries 1\ndefaults b from a\n retries 2\nbackend x from a\nserver s 192.0.2.1:1\n";
    assert_eq!(values(text)["backend"][0]["retries"], 1.into());
}

#[test]
fn what_is_said_twice_of_the_process_counts_once() {
    let values = values(
        "global\nmaxconn 1\nnbthread 2\nmaxconn 3\nglobal\nnbthread 4\nhard-stop-after 1h\n",
    );
    assert_eq!(values["max-connections"], 3.into());
    assert_eq!(values["workers"], 4.into());
    assert_eq!(values["drain"], "1h".into());
}

//--- Frontends

#[test]
fn bind_gives_sockets() {
    for (bind, expected) in [
        ("*:80", &["0.0.0.0:80"][..]),
        (":80", &["0.0.0.0:80"]),
        (
            "192.0.2.1:80,192.0.2.2:81",
            &["192.0.2.1:80", "192.0.2.2:81"],
        ),
        (":::9445 v4v6", &["0.0.0.0:9445", "[::]:9445"]),
        ("[::]:80 v6only", &["[::]:80"]),
        ("2001:db8::1:80", &["[2001:db8::1]:80"]),
        (
            ":8000-8002",
            &["0.0.0.0:8000", "0.0.0.0:8001", "0.0.0.0:8002"],
        ),
        ("localhost:80", &["127.0.0.1:80"]),
        ("ipv4@:80 name x backlog 5 tfo mss 1400", &["0.0.0.0:80"]),
    ] {
        let values = values(&format!("listen l\nbind {bind}\nserver s 192.0.2.9:1\n"));
        let listen = values["frontend"][0]["listen"].as_array().unwrap();
        let listen: Vec<&str> = listen
            .iter()
            .map(|socket| socket.as_str().unwrap())
            .collect();
        assert_eq!(listen, expected, "{bind}");
    }
}

#[test]
fn what_cannot_be_listened_on_is_reported() {
    for bind in [
        "/run/x.sock",
        "unix@/run/x",
        "abns@x",
        "fd@3",
        "quic4@:443 ssl crt x",
        ":443 ssl crt x.pem",
        ":0",
        ":70000",
        ":9-8",
        ":1-65535",
        ":",
        "nowhere.example:80",
        ":80 proto h2",
    ] {
        let text = format!("listen l\nbind {bind}\nserver s 192.0.2.9:1\n");
        assert!(!values(&text).contains_key("frontend"), "{bind}");
        assert!(
            remarks(&text).contains("haproxy.cfg:2:1: `bind "),
            "{bind}: {}",
            remarks(&text)
        );
    }
}

#[test]
fn sockets_that_accept_proxy_are_a_frontend_of_their_own() {
    let values = values(
        "listen l\nbind :1 accept-proxy\nbind :2\nbind :3 accept-proxy\nmaxconn 7\nserver s 192.0.2.9:1\n",
    );
    let frontends = values["frontend"].as_array().unwrap();
    assert_eq!(frontends.len(), 2);
    assert_eq!(frontends[0]["name"], "l".into());
    assert_eq!(frontends[0]["accept-proxy"], "required".into());
    assert_eq!(frontends[0]["listen"].as_array().unwrap().len(), 2);
    assert_eq!(frontends[1]["name"], "l-2".into());
    assert_eq!(frontends[1].get("accept-proxy"), None);
    assert_eq!(frontends[1]["max-connections"], 7.into());
}

#[test]
fn the_role_that_a_port_brings_is_told_with_its_consequence() {
    for (port, expected) in [
        (
            6443,
            "haproxy.cfg:1:1: `frontend f` differs: its port makes it `role = \"api\"`: lb-proxy resets",
        ),
        (22_623, "role = \"api\""),
        (
            443,
            "role = \"ingress\"`: sessions of a server that goes down stay, as with HAProxy",
        ),
        (80, "role = \"ingress\""),
        (8443, ""),
    ] {
        let text = format!(
            "frontend f\nbind :{port}\ndefault_backend b\nbackend b\nserver s 192.0.2.9:1\n"
        );
        let remarks = remarks(&text);
        assert!(remarks.contains(expected), "{port}: {remarks}");
        assert_eq!(remarks.is_empty(), expected.is_empty(), "{port}: {remarks}");
    }
}

//--- Backends

#[test]
fn algorithms_have_our_names() {
    for (balance, expected) in [
        ("", "round-robin"),
        ("balance roundrobin", "round-robin"),
        ("balance static-rr", "round-robin"),
        ("balance leastconn", "least-connections"),
        ("balance random(3)", "random-of-two"),
        ("balance source", "source"),
        ("balance hash src", "source"),
        ("balance uri depth 3", "round-robin"),
        ("balance first", "round-robin"),
    ] {
        assert_eq!(
            backend(&format!("{balance}\nserver s 192.0.2.1:1"))["balance"],
            expected.into()
        );
    }
}

#[test]
fn checks_have_our_terms() {
    for (text, expected) in [
        ("server s 192.0.2.1:1", None),
        ("server s 192.0.2.1:1 check", Some("{ kind = \"tcp\" }")),
        (
            "timeout check 1500\nserver s 192.0.2.1:1 check inter 500 fastinter 100ms rise 1 fall 5 port 80",
            Some(
                "{ kind = \"tcp\", interval = \"500ms\", fast-interval = \"100ms\", timeout = \"1500ms\", rise = 1, fall = 5 }",
            ),
        ),
        (
            "option httpchk GET /readyz HTTP/1.0\nserver s 192.0.2.1:1 check check-ssl verify none",
            Some("{ kind = \"https\", path = \"/readyz\", verify = \"none\" }"),
        ),
        (
            "option httpchk\nserver s 192.0.2.1:1 check",
            Some("{ kind = \"http\", path = \"/\", method = \"OPTIONS\" }"),
        ),
        (
            "option httpchk HEAD / HTTP/1.1\\r\\nHost:\\ x.example\nhttp-check expect status 204\nserver s 192.0.2.1:1 check",
            Some(
                "{ kind = \"http\", path = \"/\", method = \"HEAD\", host = \"x.example\", status = 204 }",
            ),
        ),
        (
            "option httpchk\nhttp-check send meth GET uri /x hdr Host y\nhttp-check expect string ok\nhttp-check connect port 1936 ssl\nserver s 192.0.2.1:1 check ca-file /a.pem",
            Some(
                "{ kind = \"https\", path = \"/x\", host = \"y\", body = \"ok\", port = 1936, verify = \"ca\", ca-file = \"/a.pem\" }",
            ),
        ),
        (
            "option httpchk /x\nno option httpchk\nserver s 192.0.2.1:1 check",
            Some("{ kind = \"tcp\" }"),
        ),
    ] {
        let expected = expected.map(|expected| {
            let text = format!("version = \"v1\"\n[[backend]]\nname = \"b\"\ncheck = {expected}\n");
            let file: LbProxy = Document::inline("x.toml", text).parse().unwrap();
            file.backend[0].check.clone().unwrap()
        });
        let check: Option<HealthCheck> = draft(&format!("backend b\n{text}\n")).config.backend[0]
            .check
            .clone();
        assert_eq!(check, expected, "{text}");
    }
}

#[test]
fn a_check_that_had_a_header_has_none() {
    let differs = |text: &str| {
        let text = format!("backend b\n{text}\n");
        remarks(&text).contains("`send-proxy in checks of backend b` differs")
    };
    let http = "option httpchk GET /readyz\nhttp-check expect status 200";
    for options in [
        "check send-proxy",
        "check check-ssl verify none send-proxy-v2",
    ] {
        assert!(
            differs(&format!("{http}\nserver s 192.0.2.1:1 {options}")),
            "{options}"
        );
    }
    for text in [
        "server s 192.0.2.1:1 check send-proxy".to_owned(),
        format!("{http}\nserver s 192.0.2.1:1 send-proxy"),
        format!("{http}\nserver s 192.0.2.1:1 check send-proxy port 1936"),
        format!("{http}\nhttp-check connect port 1936\nserver s 192.0.2.1:1 check send-proxy"),
        format!("{http}\nserver s 192.0.2.1:1 check"),
    ] {
        assert!(!differs(&text), "{text}");
    }
}

#[test]
fn servers_keep_what_is_theirs() {
    let backend = backend(
        "default-server weight 20 maxconn 100 slowstart 10s check\n\
         server a 192.0.2.1:1\n\
         server b 192.0.2.2:1 backup weight 0 no-check port 9\n\
         server c 192.0.2.3:1 disabled port 9 maxconn 0\n",
    );
    let expected: toml::Table = "[[server]]
        name = \"a\"
        address = \"192.0.2.1:1\"
        weight = 20
        max-connections = 100
        slow-start = \"10s\"
        [[server]]
        name = \"b\"
        address = \"192.0.2.2:1\"
        weight = 0
        backup = true
        max-connections = 100
        slow-start = \"10s\"
        check = false
        [[server]]
        name = \"c\"
        address = \"192.0.2.3:1\"
        weight = 20
        slow-start = \"10s\"
        check-port = 9
        maintenance = true"
        .parse()
        .unwrap();
    assert_eq!(backend["server"], expected["server"]);
}

#[test]
fn sessions_end_where_servers_say_so() {
    let backend = |options: &str| backend(&format!("server a 192.0.2.1:1 {options}\n"));
    let both = "on-marked-down shutdown-sessions on-marked-up shutdown-backup-sessions";
    let words = |table: &toml::Table, key: &str| {
        table.get(key).and_then(|it| it.as_str().map(str::to_owned))
    };
    assert_eq!(words(&backend(both), "on-down").as_deref(), Some("reset"));
    assert_eq!(words(&backend(both), "on-up").as_deref(), Some("reset"));
    assert_eq!(words(&backend("check"), "on-up"), None);
    let odd = remarks("backend b\nserver a 192.0.2.1:1 on-marked-up nothing\n");
    assert!(odd.contains("shutdown-backup-sessions"), "{odd}");
}

#[test]
fn a_server_may_have_the_port_of_the_connection() {
    let of = |bind: &str, address: &str| {
        let text = format!("listen l\nbind {bind}\nserver s {address}\nserver t 192.0.2.9:1\n");
        values(&text)["backend"][0]["server"][0]["address"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(of(":443", "192.0.2.1"), "192.0.2.1:443");
    assert_eq!(of(":443", "192.0.2.1:+8000"), "192.0.2.1:8443");
    assert_eq!(of(":443", "192.0.2.1:-3"), "192.0.2.1:440");
    assert_eq!(of(":443", "[2001:db8::1]"), "[2001:db8::1]:443");
    // Not where there are several, nor out of range.
    assert_eq!(of(":443,:80", "192.0.2.1"), "192.0.2.9:1");
    assert_eq!(of(":443", "192.0.2.1:+70000"), "192.0.2.9:1");
    assert_eq!(of(":443", "192.0.2.1:-443"), "192.0.2.9:1");
}

#[test]
fn the_longest_silence_allowed_is_carried_over() {
    let of = |timeouts: &str| {
        let values = values(&format!(
            "defaults\n{timeouts}\nfrontend f\nbind :6443\ndefault_backend b\nbackend b\nserver s 192.0.2.1:6443\n"
        ));
        values["backend"][0]
            .get("idle-timeout")
            .and_then(toml::Value::as_str)
            .map(str::to_owned)
    };
    assert_eq!(of(""), None);
    assert_eq!(
        of("timeout client 1m\ntimeout server 2m"),
        Some("1m".to_owned())
    );
    assert_eq!(
        of("timeout client 3m\ntimeout server 2m"),
        Some("2m".to_owned())
    );
    assert_eq!(of("timeout client 3m"), Some("3m".to_owned()));
    assert_eq!(
        of("timeout client 1m\ntimeout server 1m\ntimeout tunnel 1h"),
        Some("1h".to_owned())
    );
    assert_eq!(of("timeout client 0\ntimeout server 0"), None);
}

//--- Whole files

#[test]
fn files_follow_each_other() {
    let files: [(&Path, &[u8]); 2] = [
        (
            Path::new("1.cfg"),
            b"defaults\n retries 5\nlisten l\n bind :1\n",
        ),
        (
            Path::new("2.cfg"),
            b" server s 192.0.2.1:1\nlisten m\n frob\n bind :2\n server s 192.0.2.1:2\n",
        ),
    ];
    let imported = Imported::of(import(&files, &NoHostInfo).unwrap());
    assert_eq!(imported.toml.matches("retries = 5").count(), 2);
    let place = imported.remarks[0].position.as_ref().unwrap();
    assert_eq!(place.to_string(), "2.cfg:3:2");
    let broken: [(&Path, &[u8]); 2] = [(Path::new("1"), b"a \"b"), (Path::new("2"), b"a 'b")];
    assert_eq!(parse(&broken, &NoHostInfo).unwrap_err().len(), 2);
}

#[test]
fn nothing_is_lost_silently() {
    for (file, text) in FIXTURES {
        let draft = import(&[(Path::new(file), text.as_bytes())], &Here).unwrap();
        let imported = Imported::of(draft);
        let _values: toml::Table = imported
            .toml
            .parse()
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let comments = imported
            .toml
            .lines()
            .filter(|line| line.starts_with("# not carried: ") || line.starts_with("# differs: "));
        assert_eq!(comments.count(), imported.remarks.len(), "{file}");
        for remark in &imported.remarks {
            assert!(remark.position.is_some(), "{remark}");
        }
    }
}

#[test]
fn every_keyword_is_carried_over_or_reported() {
    let plain = "listen l\nbind :1\nserver s 192.0.2.1:1\n";
    let before = imported(plain);
    // What is so here anyway.
    let fine = [
        "option redispatch",
        "option tcpka",
        "option splice-auto",
        "no option redispatch",
        "enabled",
        "mode tcp",
        "option tcp-check",
        "acl x src 192.0.2.1",
        "option abortonclose",
    ];
    for keyword in [
        "frobnicate",
        "stats enable",
        "monitor-uri /x",
        "log-format x",
        "cookie x",
        "stick on src",
        "http-request deny",
        "option forwardfor",
        "option nolinger",
        "option whatever",
        "timeout http-request 1s",
        "timeout connect x",
        "timeout what 1s",
        "retries x",
        "maxconn x",
        "balance what",
        "mode health",
        "fullconn 9",
        "hash-type consistent",
        "source 0.0.0.0 usesrc clientip",
        "dispatch 192.0.2.1:1",
        "tcp-check send x",
        "http-check expect status 200",
        "server",
        "server x",
        "server x 192.0.2.1:x",
        "server x /run/x",
        "server x 192.0.2.1:1 weight 300",
        "server x 192.0.2.1:1 inter",
        "server x 192.0.2.1:1 what ever",
        "server x 192.0.2.1:1 source 192.0.2.2 usesrc clientip",
        "server-template x 3 y:1",
        "rate-limit sessions 9",
        "tcp-request what",
        "tcp-response content accept",
        "no log what ever",
        "no frobnicate",
        "default_backend gone",
    ] {
        let after = imported(&format!("{plain}{keyword}\n"));
        let is_reported = after.remarks.len() > before.remarks.len();
        let is_carried = keyword.starts_with("no log");
        assert!(is_reported || is_carried, "{keyword}");
    }
    for keyword in fine {
        let after = imported(&format!("{plain}{keyword}\n"));
        assert_eq!(after.remarks, before.remarks, "{keyword}");
        assert_eq!(after.toml, before.toml, "{keyword}");
    }
}

#[test]
fn monitors_are_carried_with_what_makes_them_fail() {
    let monitors = |lines: &str| {
        let text = format!(
            "backend m\nserver s 192.0.2.1:1\nlisten p\nbind :::9454 v4v6\nmode http\n{lines}\n"
        );
        let draft = draft(&text);
        let monitors = draft.config.monitor.iter().map(|monitor| {
            let listen: Vec<String> = monitor.listen.iter().map(|it| it.0.to_string()).collect();
            let needs = monitor
                .needs
                .iter()
                .map(|need| format!(" {}>={}", need.backend, need.servers.get()));
            format!(
                "{} {}{}",
                listen.join(","),
                monitor.path,
                needs.collect::<String>()
            )
        });
        let lost = draft.notes.iter().map(|note| note.what.clone());
        (
            monitors.collect::<Vec<_>>().join(";"),
            lost.collect::<Vec<_>>().join(";"),
        )
    };
    let at = "0.0.0.0:9454,[::]:9454";
    for (lines, expected) in [
        ("monitor-uri /haproxy_ready", format!("{at} /haproxy_ready")),
        (
            "acl down nbsrv(m) lt 1\nmonitor-uri /x\nmonitor fail if down",
            format!("{at} /x m>=1"),
        ),
        (
            "monitor-uri /x\nmonitor fail if { nbsrv(m) le 1 } or { nbsrv(m) eq 0 }",
            format!("{at} /x m>=2 m>=1"),
        ),
        (
            "monitor-uri /x\nmonitor fail if { nbsrv(m) lt 0 }",
            format!("{at} /x"),
        ),
    ] {
        assert_eq!(monitors(lines), (expected, String::new()), "{lines}");
    }
    // One that cannot fail as HAProxy's does is left out.
    for fail in [
        "monitor fail if { nbsrv(m) gt 1 }",
        "monitor fail if { nbsrv(gone) lt 1 }",
        "monitor fail if { nbsrv(m) lt 1 } { src 10.0.0.0/8 }",
        "monitor fail unless { nbsrv(m) lt 1 }",
        "monitor fail if { hour gt 9 }",
        "monitor fail",
    ] {
        let (carried, lost) = monitors(&format!("monitor-uri /x\n{fail}"));
        assert_eq!((carried.as_str(), lost.as_str()), ("", fail));
    }
    let (carried, lost) = monitors("monitor-uri /x\ndefault_backend m");
    assert!(
        carried.is_empty() && lost.ends_with("monitor-uri /x"),
        "{carried} {lost}"
    );
}

#[test]
fn stats_sockets_are_carried_with_their_levels() {
    let text = "global\n\
        stats socket /run/a.sock\n\
        stats timeout 2m\n\
        stats socket unix@/run/b.sock level admin expose-fd listeners\n\
        stats socket /run/c.sock mode 600 level user user haproxy\n\
        stats socket /run/a.sock level admin\n\
        stats socket ipv4@127.0.0.1:9999 level admin\n\
        stats timeout x\n";
    let draft = draft(text);
    let sockets: Vec<(String, String, u64)> = draft
        .config
        .stats_socket
        .iter()
        .map(|socket| {
            let path = socket.path.display().to_string();
            (
                path,
                socket.level.to_string(),
                socket.timeout.get().as_secs(),
            )
        })
        .collect();
    let expected = [
        ("/run/a.sock", "operator"),
        ("/run/b.sock", "admin"),
        ("/run/c.sock", "user"),
    ];
    let expected = expected.map(|(path, level)| (path.to_owned(), level.to_owned(), 120));
    assert_eq!(sockets, expected);
    let notes: Vec<&str> = draft.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        notes,
        [
            "stats socket /run/c.sock mode 600 user haproxy",
            "stats socket /run/a.sock level admin",
            "stats socket ipv4@127.0.0.1:9999 level admin",
            "stats timeout x",
        ]
    );
}

#[test]
fn files_of_openshift_lose_no_restriction() {
    // The last one is no file of OpenShift.
    for (file, text) in FIXTURES.into_iter().take(3) {
        let notes = draft(text).notes;
        let lost = notes
            .iter()
            .find(|note| note.class == config::Class::Security);
        assert_eq!(lost, None, "{file}");
    }
}

#[test]
fn a_note_says_how_much_is_lost() {
    use config::Class::{Behaviour, Cosmetic, Security};
    for (keyword, expected) in [
        ("http-request deny if x", Security),
        ("redirect scheme https", Behaviour),
        ("chroot /x", Cosmetic),
        (
            "tcp-request connection reject if { src_conn_rate gt 9 }",
            Security,
        ),
        ("use_backend l if { path /x }", Security),
        ("rate-limit sessions 9", Security),
        ("maxconn x", Security),
        ("reqdeny x", Security),
        ("timeout http-request 5s", Behaviour),
        ("bind :2 interface eth0", Security),
        ("server x 192.0.2.1:1 maxconn x", Security),
        ("cookie x", Behaviour),
        ("balance uri", Behaviour),
        ("option nolinger", Behaviour),
        ("server x y.example:1 resolvers r", Behaviour),
        ("log-format x", Cosmetic),
        ("stats enable", Cosmetic),
        ("description x", Cosmetic),
        ("option dontlognull", Cosmetic),
    ] {
        let text =
            format!("listen l\nbind :1\noption redispatch\nserver s 192.0.2.1:1\n{keyword}\n");
        let notes = draft(&text).notes;
        assert_eq!(notes[0].class, expected, "{keyword}: {notes:?}");
    }
    let global = draft("global\nmaxconnrate 9\nmaxsessrate 9\nuser x\nlua-load x\n").notes;
    let classes: Vec<_> = global.iter().map(|note| note.class).collect();
    assert_eq!(classes, [Security, Security, Cosmetic, Behaviour]);
    let conditional = draft(".if 1\nlisten l\ntcp-request connection reject\n.endif\n").notes;
    assert!(conditional.iter().any(|note| note.class == Security));
}

#[test]
fn values_out_of_range_are_brought_into_it_and_told() {
    let text =
        "backend b\ntimeout connect 250us\nserver s 192.0.2.1:1 check inter 50ms rise 0 port 0\n";
    let draft = draft(text);
    let check = draft.config.backend[0].check.clone().unwrap();
    assert_eq!(check.interval.unwrap().to_string(), "100ms");
    assert_eq!(check.rise.unwrap().get(), 1);
    assert_eq!(draft.config.backend[0].connect_timeout.to_string(), "1ms");
    assert!(
        remarks(text).contains("every 100ms at most"),
        "{}",
        remarks(text)
    );
}

#[test]
fn passwords_are_not_copied() {
    let imported = imported(FIXTURES[2].1);
    assert!(!imported.toml.contains("Password"), "{}", imported.toml);
}

#[test]
fn nothing_in_a_file_gets_out_of_its_comment_or_string() {
    let nasty = "x\\n[[vip]]\\nname\\ =\\ \\\"y\\\"";
    let text = format!(
        "listen {nasty}\nbind :1\nserver {nasty} 192.0.2.1:1 check\nfrob {nasty}\noption httpchk GET {nasty}\n"
    );
    let values = values(&text);
    assert!(!values.contains_key("vip"));
    assert_eq!(
        values["backend"][0]["name"],
        "x\n[[vip]]\nname = \"y\"".into()
    );
}

#[test]
fn no_prefix_and_no_changed_octet_of_a_file_upsets_the_import() {
    for (file, text) in FIXTURES {
        let check = |octets: &[u8]| {
            if let Ok(draft) = import(&[(Path::new(file), octets)], &Here) {
                // Without the schema of the whole, which `written` looks at each time.
                let toml = toml_edit::ser::to_string(&draft.config).unwrap();
                let parsed: Result<toml::Table, _> = toml.parse();
                assert!(parsed.is_ok(), "{toml}");
            }
        };
        let octets = text.as_bytes();
        for end in (0..octets.len()).step_by(7) {
            check(&octets[..end]);
        }
        for at in (0..octets.len()).step_by(5) {
            let mut changed = octets.to_vec();
            changed[at] = [b'"', b'\\', b'\n', 0, 0xff, b' ', b'{', b':'][at % 8];
            check(&changed);
        }
    }
}
