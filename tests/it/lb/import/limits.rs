//! Limits of sessions, and queues.

use std::time::Duration;

use super::servers::Kind;
use super::{Case, Vector, run, tcp};

/// Sources, one for each vector: the counts of the one before may still be there.
const fn source(number: u8) -> [u8; 4] {
    [127, 93, 0, number]
}

fn listen(name: &'static str, head: &str, lines: &str) -> Case {
    Case::new(
        name,
        &tcp(&format!("{head}listen l\n bind {{front}}:7000{lines}")),
    )
}

#[test]
fn limits_and_queues_are_alike() {
    const SECOND: Duration = Duration::from_secs(1);
    run(vec![
        listen(
            "a server with room for one",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n",
        )
        .vectors([
            Vector::to("the first", 7000),
            Vector::to("the second", 7000).beside(1).within(SECOND),
        ]),
        listen(
            "two servers with room for one each",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n server s1 {s1} maxconn 1\n",
        )
        .vectors([Vector::to("three", 7000).pile(3)]),
        listen(
            "a backup server is for servers that are down, not for full ones",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n server s1 {s1} backup\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a queue without a time of its own has that of connecting",
            "",
            "\n timeout connect 1s\n server s0 {s0} maxconn 1\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a frontend with room for one",
            "",
            "\n maxconn 1\n server s0 {s0}\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a listener with room for one",
            "",
            " maxconn 1\n server s0 {s0}\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a default for servers",
            "",
            "\n timeout queue 1s\n default-server maxconn 1\n server s0 {s0}\n server s1 {s1} maxconn 2\n",
        )
        .vectors([Vector::to("four", 7000).pile(4)]),
        listen(
            "no room at all in the queue",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1 maxqueue 1\n server s1 {s1} maxconn 1 maxqueue 1\n",
        )
        .vectors([Vector::to("three", 7000).pile(3)]),
        listen(
            "limits that move",
            "",
            "\n fullconn 10\n server s0 {s0} minconn 1 maxconn 2\n",
        )
        .servers(&[("s0", Kind::Greets)])
        .vectors([Vector::to("the first", 7000)]),
    ]);
}

/// A frontend with a stick table of its own, and rules.
fn counted(name: &'static str, store: &str, rules: &str) -> Case {
    let table = format!("\n stick-table type ip size 10k expire 5m store {store}\n");
    let lines = format!("{table}{rules} server s0 {{s0}}\n");
    listen(name, "", &lines)
}

const TRACK: &str = " tcp-request connection track-sc0 src\n";

#[test]
fn limits_of_sources_are_alike() {
    let at_a_time = || {
        [
            Vector::to("the first", 7000).from(source(1)),
            Vector::to("the second", 7000).from(source(2)).beside(1),
            Vector::to("the third", 7000).from(source(3)).beside(2),
            Vector::to("the fourth", 7000).from(source(4)).beside(3),
        ]
    };
    let in_a_time = || [Vector::to("six", 7000).from(source(5)).spread(6)];
    let reject = |condition: &str| format!(" tcp-request connection reject if {condition}\n");
    run(vec![
        counted(
            "connections at a time, once they are counted",
            "conn_cur",
            &format!("{TRACK}{}", reject("{ sc0_conn_cur gt 2 }")),
        )
        .vectors(at_a_time()),
        counted(
            "connections at a time, before they are counted",
            "conn_cur",
            &format!("{}{TRACK}", reject("{ src_conn_cur gt 2 }")),
        )
        .vectors(at_a_time()),
        counted(
            "from a number on, by an acl",
            "conn_cur",
            &format!(
                " acl busy src_conn_cur ge 3\n{TRACK}{}",
                reject("busy")
            ),
        )
        .vectors(at_a_time()),
        counted(
            "in other phases",
            "conn_cur",
            " tcp-request session track-sc1 src\n tcp-request content reject if { sc_conn_cur(1) gt 2 }\n",
        )
        .vectors(at_a_time()),
        counted(
            "the rate of connections",
            "conn_rate(1m)",
            &format!("{TRACK}{}", reject("{ sc0_conn_rate gt 4 }")),
        )
        .vectors(in_a_time()),
        counted(
            "the rate of connections, before they are counted",
            "conn_rate(1m)",
            &format!("{}{TRACK}", reject("{ src_conn_rate gt 4 }")),
        )
        .vectors(in_a_time()),
        counted(
            "both in one table",
            "conn_cur,conn_rate(1m)",
            &format!(
                "{TRACK}{}",
                reject("{ sc0_conn_cur gt 2 } or { sc0_conn_rate gt 4 }")
            ),
        )
        .vectors(at_a_time().into_iter().chain(in_a_time())),
        Case::new(
            "a table of its own section",
            &tcp(
                "backend sources\n stick-table type ip size 10k expire 5m store conn_cur\n\
                 frontend f\n bind {front}:7000\n tcp-request connection track-sc0 src table sources\n\
                 \x20tcp-request connection reject if { src_conn_cur(sources) gt 2 }\n default_backend b\n\
                 backend b\n server s0 {s0}\n",
            ),
        )
        .vectors(at_a_time()),
        counted(
            "a count that no rule makes",
            "conn_cur",
            &reject("{ src_conn_cur gt 2 }"),
        )
        .vectors(at_a_time()),
    ]);
}

#[test]
fn limits_of_sources_that_would_be_others_are_refused() {
    const THIRD: &str = "the third of a source";
    let beside = || [Vector::to(THIRD, 7000).from(source(6)).beside(2)];
    let reject = " tcp-request connection reject if { sc0_conn_cur gt 2 }\n";
    run(vec![
        Case::new(
            "one table for two frontends",
            &tcp(&format!(
                "backend sources\n stick-table type ip size 10k expire 5m store conn_cur\n\
                 listen l\n bind {{front}}:7000\n tcp-request connection track-sc0 src table sources\n{reject} server s0 {{s0}}\n\
                 listen m\n bind {{front}}:7001\n tcp-request connection track-sc0 src table sources\n{reject} server s0 {{s0}}\n",
            )),
        )
        .vectors(beside())
        .refused("counts for several frontends")
        .differs(THIRD, "counts for several frontends"),
        counted(
            "clients that are accepted before",
            "conn_cur",
            &format!("{TRACK} tcp-request connection accept if {{ src 127.94.0.0/16 }}\n{reject}"),
        )
        .vectors(beside())
        .refused("have no limit there")
        .differs(THIRD, "have no limit there"),
        counted(
            "another count",
            "conn_cur,sess_rate(1m)",
            &format!("{TRACK} tcp-request connection reject if {{ sc0_sess_rate gt 0 }}\n"),
        )
        .vectors(beside())
        .refused("sc0_sess_rate")
        .differs(THIRD, "sc0_sess_rate"),
    ]);
}
