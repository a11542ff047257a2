//! Backends by the name in the ClientHello, and by what else HAProxy asks.

use std::time::Duration;

use super::servers::Kind;
use super::{Case, Vector, run, tcp};

/// A frontend with routes to `a`, `b` and `c`, whose servers are s0, s1 and s2.
fn routed(name: &'static str, lines: &str) -> Case {
    let text = format!(
        "frontend f\n bind {{front}}:7000\n{lines}backend a\n server s0 {{s0}}\nbackend b\n server s1 {{s1}}\n\
         backend c\n server s2 {{s2}}\n"
    );
    Case::new(name, &tcp(&text))
        .servers(&[
            ("s0", Kind::Greets),
            ("s1", Kind::Greets),
            ("s2", Kind::Greets),
        ])
        .vectors([
            Vector::to("a.example", 7000).hello("a.example"),
            Vector::to("A.Example", 7000).hello("A.Example"),
            Vector::to("b.example", 7000).hello("b.example"),
            Vector::to("x.b.example", 7000).hello("x.b.example"),
            Vector::to("x.y.b.example", 7000).hello("x.y.b.example"),
            Vector::to("another name", 7000).hello("c.example"),
            Vector::to("no name", 7000).nameless_hello(),
            Vector::to("no TLS", 7000).says(b"GET / HTTP/1.0\r\nhost: a.example\r\n\r\n"),
        ])
}

const LOOK: &str =
    " tcp-request inspect-delay 1s\n tcp-request content accept if { req.ssl_hello_type 1 }\n";

#[test]
fn names_lead_to_the_same_backends() {
    let silent = || Vector::to("silence", 7000).within(Duration::from_secs(1));
    let look = |name, lines: &str| routed(name, &format!("{LOOK}{lines}"));
    run(vec![
        look(
            "exact and below, without regard to case",
            " use_backend a if { req.ssl_sni -i a.example }\n use_backend b if { req.ssl_sni -i -m end .b.example }\n\
             \x20default_backend c\n",
        )
        .vectors([silent()]),
        look(
            "in lower case",
            " use_backend a if { req.ssl_sni,lower a.example }\n use_backend b if { req_ssl_sni,lower -m end .b.example }\n\
             \x20default_backend c\n",
        ),
        look(
            "by acls, and only with TLS",
            " acl tls req.ssl_hello_type 1\n acl a req.ssl_sni -i a.example\n acl b req.ssl_sni -i b.example x.b.example\n\
             \x20use_backend a if tls a\n use_backend b if tls b\n default_backend c\n",
        ),
        look(
            "exactly as written",
            " use_backend a if { req.ssl_sni a.example }\n default_backend c\n",
        )
        .differs("A.Example", "without regard to case"),
        look(
            "the first that fits",
            " use_backend a if { req.ssl_sni -i -m end .b.example }\n use_backend b if { req.ssl_sni -i x.b.example }\n\
             \x20default_backend c\n",
        ),
        look(
            "no default",
            " use_backend a if { req.ssl_sni -i a.example }\n",
        ),
        look(
            "any name",
            " use_backend a if { req.ssl_sni -m found }\n default_backend c\n",
        ),
        look(
            "no route at all",
            " default_backend a\n",
        ),
        look(
            "without a condition",
            " use_backend b if { req.ssl_sni -i b.example }\n use_backend a\n default_backend c\n",
        ),
    ]);
}

#[test]
fn texts_in_names_lead_to_the_same_backends() {
    let look = |name, condition: &str| {
        let rules = format!(
            "{LOOK} use_backend a if {{ req.ssl_sni -i {condition} }}\n use_backend b if {{ req.ssl_sni -i b.example }}\n\
             \x20default_backend c\n"
        );
        routed(name, &rules).vectors([
            Vector::to("no pattern", 7000).hello("xaxb.example"),
            Vector::to("hyphens", 7000).hello("shop-7.b.example"),
        ])
    };
    run(vec![
        look("the beginning of a name", "-m beg a. x.y"),
        look("a part of a name", "-m sub b.ex"),
        look("an end without a dot", "-m end b.example"),
        look("labels of a name", "-m dom b"),
        look("labels with dots", "-m dom .y.b."),
        look("a directory", "-m dir b.example"),
        look("a regular expression", "-m reg ^(a|x\\.y)\\."),
        look("a regular expression anywhere", "-m reg [0-9]\\.b"),
        look("an asterisk", "*.b.example"),
        routed(
            "in the order of the file",
            &format!(
                "{LOOK} use_backend a if {{ req.ssl_sni -i -m sub y.b }}\n use_backend b if {{ req.ssl_sni -i -m end .b.example }}\n\
                 \x20use_backend c if {{ req.ssl_sni -i x.b.example }}\n use_backend c if {{ req.ssl_sni -i -m reg . }}\n default_backend a\n"
            ),
        ),
    ]);
}

#[test]
fn protocols_lead_to_the_same_backends_or_the_import_says_otherwise() {
    let alpn = |name, rules: &str| {
        routed(name, &format!("{LOOK}{rules} default_backend c\n")).vectors([
            Vector::to("acme", 7000).hello_offering("a.example", &["acme-tls/1"]),
            Vector::to("acme and h2", 7000).hello_offering("a.example", &["acme-tls/1", "h2"]),
            Vector::to("h2 and acme", 7000).hello_offering("a.example", &["h2", "acme-tls/1"]),
            Vector::to("h2 and http/1.1", 7000).hello_offering("b.example", &["h2", "http/1.1"]),
            Vector::to("h2c", 7000).hello_offering("b.example", &["h2c"]),
        ])
    };
    run(vec![
        alpn("alone", " use_backend a if { req.ssl_alpn acme-tls/1 }\n"),
        alpn("one of them", " use_backend b if { req.ssl_alpn -m sub h2 }\n")
            .differs("h2c", "protocols are compared whole"),
        alpn(
            "with a name",
            " acl h2 req.ssl_alpn -m sub h2\n acl b req.ssl_sni -i b.example\n use_backend b if h2 b\n\
             \x20use_backend a if b\n",
        )
        .differs("h2c", "protocols are compared whole"),
    ]);
}

#[test]
fn a_route_that_is_lost_is_said() {
    let lost = |name, rule: &str, words: &'static str, differ: &[&'static str]| {
        let lines = format!("{LOOK} use_backend a if {rule}\n default_backend c\n");
        let case = routed(name, &lines).refused(words);
        differ
            .iter()
            .fold(case, |case, vector| case.differs(vector, words))
    };
    run(vec![
        lost(
            "the length of a name",
            "{ req.ssl_sni -m len 9 }",
            "names are not matched by `len`",
            &["a.example", "A.Example", "b.example", "another name"],
        ),
        lost(
            "by port",
            "{ dst_port 7000 }",
            "`dst_port` cannot be asked here",
            &[
                "a.example",
                "A.Example",
                "b.example",
                "x.b.example",
                "x.y.b.example",
                "another name",
                "no name",
                "no TLS",
            ],
        ),
        lost(
            "by source",
            "{ src 127.90.0.0/16 }",
            "connections are routed by the name",
            &[],
        ),
        lost(
            "by the number of servers",
            "{ nbsrv(b) lt 1 }",
            "connections are routed by the name",
            &[],
        ),
        routed(
            "all names but one",
            " tcp-request inspect-delay 1s\n tcp-request content accept if { req.ssl_hello_type 1 }\n\
             \x20use_backend a unless { req.ssl_sni -i b.example }\n default_backend c\n",
        )
        .refused("connections are routed by the name")
        .differs("a.example", "connections are routed by the name")
        .differs("A.Example", "connections are routed by the name")
        .differs("x.b.example", "connections are routed by the name")
        .differs("x.y.b.example", "connections are routed by the name")
        .differs("another name", "connections are routed by the name")
        .differs("no name", "connections are routed by the name")
        .differs("no TLS", "connections are routed by the name"),
    ]);
}
