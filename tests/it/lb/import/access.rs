//! Clients that may connect: `tcp-request` rules, `accept-proxy`, and what else keeps clients out.

use super::servers::Kind;
use super::{Case, TCP, Vector, run, tcp};

/// Clients of three networks.
const OFFICE: [u8; 4] = [127, 90, 0, 7];
const NEIGHBOUR: [u8; 4] = [127, 90, 0, 8];
const STRANGER: [u8; 4] = [127, 91, 0, 1];
const ODD_ONE: [u8; 4] = [127, 92, 0, 1];

/// A frontend with rules, and everybody who may ask.
fn ruled(name: &'static str, rules: &str) -> Case {
    let lines = format!(
        "frontend f\n bind {{front}}:7000\n{rules} default_backend b\nbackend b\n server s0 {{s0}}\n"
    );
    everybody(Case::new(name, &tcp(&lines)))
}

fn everybody(case: Case) -> Case {
    case.vectors([
        Vector::to("office", 7000).from(OFFICE),
        Vector::to("neighbour", 7000).from(NEIGHBOUR),
        Vector::to("stranger", 7000).from(STRANGER),
        Vector::to("odd one", 7000).from(ODD_ONE),
        Vector::to("node", 7000),
    ])
}

#[test]
fn sources_are_let_in_and_kept_out_alike() {
    run(vec![
        ruled(
            "reject some",
            " acl bad src 127.91.0.0/16 127.92.0.1\n tcp-request connection reject if bad\n",
        ),
        ruled(
            "one acl in two lines, with a mask",
            " acl bad src 127.91.0.0/255.255.0.0\n acl bad src 127.92.0.1\n tcp-request connection reject if bad\n",
        ),
        ruled(
            "reject unless",
            " tcp-request connection reject unless { src 127.90.0.0/16 }\n",
        ),
        ruled(
            "reject if not, by content",
            " tcp-request inspect-delay 1s\n tcp-request content reject if !{ src 127.90.0.0/16 }\n",
        ),
        ruled(
            "reject if not, by session",
            " acl office src 127.90.0.0/16\n tcp-request session reject if !office\n",
        ),
        ruled(
            "accept some, reject the others",
            " tcp-request connection accept if { src 127.90.0.0/16 } || { src 127.92.0.1 }\n\
             \x20tcp-request connection reject\n",
        ),
        ruled(
            "reject one, accept its network, reject the others",
            " acl office src 127.90.0.0/16\n tcp-request connection reject if { src 127.90.0.7 }\n\
             \x20tcp-request connection accept if office\n tcp-request connection reject\n",
        ),
        ruled("reject everybody", " tcp-request connection reject\n"),
        ruled(
            "accept everybody first",
            " tcp-request connection accept\n tcp-request connection reject\n",
        ),
        ruled(
            "acls that HAProxy has",
            " tcp-request connection reject if !LOCALHOST\n tcp-request connection reject if FALSE\n\
             \x20tcp-request connection accept if TRUE\n",
        ),
        ruled(
            "two phases",
            " tcp-request connection reject if { src 127.91.0.0/16 }\n tcp-request content reject if { src 127.92.0.1 }\n",
        ),
        ruled(
            "silence instead of an answer",
            " tcp-request connection silent-drop if { src 127.91.0.0/16 }\n",
        )
        .differs("stranger", "the connection is reset at once"),
    ]);
}

#[test]
fn a_restriction_that_is_lost_refuses_the_import() {
    let listen = |options: &str, rules: &str| {
        tcp(&format!(
            "listen l\n bind {{front}}:7000{options}\n{rules} server s0 {{s0}}\n"
        ))
    };
    run(vec![
        ruled(
            "accept one of those that are rejected after it",
            " tcp-request connection accept if { src 127.90.0.7 }\n tcp-request connection reject if { src 127.90.0.0/16 }\n",
        )
        .refused("some of them were accepted before")
        .differs("neighbour", "some of them were accepted before"),
        ruled(
            "reject by port",
            " bind {front}:7001\n tcp-request connection reject if { dst_port 7001 }\n",
        )
        .vectors([Vector::to("the other port", 7001)])
        .refused("`dst_port` cannot be asked here")
        .differs("the other port", "`dst_port` cannot be asked here"),
        ruled(
            "accept by port before all are rejected",
            " bind {front}:7001\n tcp-request connection accept if { dst_port 7001 }\n tcp-request connection reject\n",
        )
        .vectors([Vector::to("the other port", 7001)])
        .refused("`dst_port` cannot be asked here")
        .differs("the other port", "`dst_port` cannot be asked here"),
        ruled(
            "reject all that is not TLS",
            " tcp-request inspect-delay 1s\n tcp-request content reject unless { req.ssl_hello_type 1 }\n",
        )
        .vectors([Vector::to("hello", 7000).hello("a.example")])
        .refused("only the source of a connection decides")
        .differs("office", "only the source of a connection decides")
        .differs("neighbour", "only the source of a connection decides")
        .differs("stranger", "only the source of a connection decides")
        .differs("odd one", "only the source of a connection decides")
        .differs("node", "only the source of a connection decides"),
        everybody(Case::new(
            "a rule of a backend",
            &tcp(
                "frontend f\n bind {front}:7000\n default_backend b\nbackend b\n\
                 \x20tcp-request content reject if { src 127.91.0.0/16 }\n server s0 {s0}\n",
            ),
        ))
        .refused("a backend takes every client of its frontends")
        .differs("stranger", "a backend takes every client of its frontends"),
        everybody(Case::new("an interface", &listen(" interface lo", "")))
            .refused("listen on an address of that interface"),
        everybody(Case::new(
            "counters of sources",
            &listen(
                "",
                " stick-table type ip size 1k expire 1m store conn_cur\n tcp-request connection track-sc0 src\n\
                 \x20tcp-request connection reject if { sc0_conn_cur gt 1 }\n",
            ),
        ))
        .vectors([
            Vector::to("the first of a source", 7000).from(OFFICE),
            Vector::to("the third of a source", 7000).beside(2),
        ]),
    ]);
}

#[test]
fn rules_see_the_same_address_of_a_client_behind_a_proxy() {
    let header = |source: &str| format!("PROXY TCP4 {source} 192.0.2.8 7000 443\r\n").into_bytes();
    let proxied = |name, rules: &str| {
        let file = format!(
            "{TCP}frontend f\n bind {{front}}:7000 accept-proxy\n{rules} default_backend b\n\
             backend b\n server s0 {{s0}} send-proxy\n"
        );
        Case::new(name, &file)
            .servers(&[("s0", Kind::TakesProxy)])
            .vectors([
                Vector::to("a client", 7000).says(&header("192.0.2.7")),
                Vector::to("a client that is kept out", 7000).says(&header("192.0.2.66")),
                Vector::to("another proxy", 7000)
                    .from(STRANGER)
                    .says(&header("192.0.2.7")),
                Vector::to("no header", 7000).says(b"GET / HTTP/1.0\r\n\r\n"),
            ])
    };
    run(vec![
        proxied("no rule", ""),
        proxied(
            "by session",
            " tcp-request session reject if { src 192.0.2.66 }\n",
        ),
        proxied(
            "by content",
            " tcp-request content reject unless { src 192.0.2.7 }\n",
        ),
        proxied(
            "by the connection, which is the proxy's",
            " tcp-request connection reject if { src 127.91.0.0/16 }\n",
        )
        .refused("before the PROXY header")
        .differs("another proxy", "before the PROXY header"),
        proxied(
            "by the connection, which is never the client's",
            " tcp-request connection reject if { src 192.0.2.66 }\n",
        )
        .refused("before the PROXY header"),
    ]);
}

#[test]
fn servers_are_told_of_clients_alike() {
    let sent = |name, options: [&str; 2]| {
        let [one, other] = options;
        let file = format!(
            "{TCP}listen l\n bind {{front}}:7000\n server s0 {{s0}} {one}\n server s1 {{s1}} {other} backup\n"
        );
        let kind = |option: &str| match option.contains("send-proxy") {
            true => Kind::TakesProxy,
            false => Kind::Sees,
        };
        Case::new(name, &file)
            .servers(&[("s0", kind(one)), ("s1", kind(other))])
            .vectors([Vector::to("a client", 7000).from(OFFICE).says(b"\n")])
    };
    run(vec![
        sent("nothing", ["", ""]),
        sent("version 1", ["send-proxy", "send-proxy"]),
        sent("version 2", ["send-proxy-v2", "send-proxy-v2"]),
        Case::new(
            "the source address of connections",
            &tcp("listen l\n bind {front}:7000\n source 127.90.0.9\n server s0 {s0}\n"),
        )
        .servers(&[("s0", Kind::Sees)])
        .vectors([Vector::to("a client", 7000).from(OFFICE)]),
        Case::new(
            "a server without the header that the other gets",
            &tcp("listen l\n bind {front}:7000\n server s0 {s0} send-proxy\n server s1 {s1}\n"),
        )
        .servers(&[("s0", Kind::TakesProxy), ("s1", Kind::Answers)])
        .vectors([Vector::to("two clients", 7000).says(b"x\n").spread(2)]),
    ]);
}
