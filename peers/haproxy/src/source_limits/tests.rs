use std::path::Path;

use config::lb_proxy::LbProxy;
use config::{Class, Note};

use super::*;
use crate::NoHostInfo;

/// The configuration of a file, and its notes.
fn import(text: &str) -> (LbProxy, Vec<Note>) {
    let files = [(Path::new("haproxy.cfg"), text.as_bytes())];
    let draft = crate::import(&files, &NoHostInfo).unwrap();
    (draft.config, draft.notes)
}

/// Connections at a time, and a rate.
type Found = (Option<u32>, Option<String>);

/// The limits of a section with a table and rules: connections, then the rate; and the notes.
fn limits(table: &str, rules: &str) -> (Option<Found>, Vec<Note>) {
    let text =
        format!("listen l\nbind 192.0.2.9:1\nstick-table {table}\n{rules}\nserver s 192.0.2.1:1\n");
    let (config, notes) = import(&text);
    let limits = config.frontend.first().unwrap().limits;
    let limits = limits.map(|limits| {
        let connections = limits.connections.map(Positive::get);
        (connections, limits.rate.map(|rate| rate.to_string()))
    });
    (limits, notes)
}

const TABLE: &str = "type ip size 1k expire 10m store conn_cur,conn_rate(10s)";
const TRACK: &str = "tcp-request connection track-sc0 src\n";

#[test]
fn counts_of_sources_become_limits() {
    let reject = |condition: &str| format!("tcp-request connection reject if {condition}\n");
    let rate = |text: &str| Some(text.to_owned());
    for (rules, expected) in [
        (
            format!("{TRACK}{}", reject("{ sc0_conn_cur gt 20 }")),
            (Some(20), None),
        ),
        (
            format!("{}{TRACK}", reject("{ src_conn_cur gt 20 }")),
            (Some(21), None),
        ),
        (
            format!("{TRACK}{}", reject("{ src_conn_cur ge 20 }")),
            (Some(19), None),
        ),
        (
            format!("{TRACK}{}", reject("{ sc_conn_rate(0) gt 50 }")),
            (None, rate("50/10s")),
        ),
        (
            format!(
                "acl much sc0_conn_rate gt 50\n{TRACK}{}{}",
                reject("much"),
                reject("{ sc0_conn_rate gt 40 } or { sc0_conn_cur gt 9 }")
            ),
            (Some(9), rate("40/10s")),
        ),
        (
            "tcp-request connection track-sc(2) src\ntcp-request content reject if { sc2_conn_cur gt 3 }\n"
                .to_owned(),
            (Some(3), None),
        ),
        (
            format!("{TRACK}tcp-request connection silent-drop if {{ sc0_conn_cur gt 3 }}\n"),
            (Some(3), None),
        ),
    ] {
        let (found, notes) = limits(TABLE, &rules);
        assert_eq!(found, Some(expected), "{rules}: {notes:?}");
        assert!(
            notes.iter().all(|note| note.class != Class::Security),
            "{rules}: {notes:?}"
        );
    }
    let (config, notes) = import(
        "backend t\nstick-table type ipv6 size 1m store conn_cur\n\
         listen l\nbind :1\ntcp-request connection track-sc0 src table t\n\
         tcp-request connection reject if { src_conn_cur(t) gt 5 }\nserver s 192.0.2.1:1\n",
    );
    let frontend = config.frontend.first().unwrap();
    assert_eq!(frontend.limits.unwrap().sources, 1 << 20);
    assert_eq!(config.backend.len(), 1, "a table is no backend");
    assert!(notes.is_empty(), "{notes:?}");
}

const REJECT: &str = "tcp-request connection reject if { sc0_conn_cur gt 2 }\n";

/// A table and rules of which no limit comes, and a part of the note about them.
fn check_lost(cases: &[(&str, String, &str)]) {
    for (table, rules, said) in cases {
        let (found, notes) = limits(table, rules);
        assert_eq!(found, None, "{rules}");
        let note = notes.iter().find(|note| note.reason.contains(*said));
        let note = note.unwrap_or_else(|| panic!("{rules}: {notes:?}"));
        let is_met = !said.contains("never met");
        assert_eq!(note.class == Class::Security, is_met, "{rules}: {note:?}");
    }
}

#[test]
fn conditions_that_cannot_be_limits_are_lost_restrictions() {
    let reject = REJECT;
    check_lost(&[
        (
            TABLE,
            format!("tcp-request connection accept if {{ src 192.0.2.0/24 }}\n{TRACK}{reject}"),
            "have no limit there",
        ),
        (
            TABLE,
            format!("{TRACK}tcp-request connection reject if {{ sc0_conn_cur gt 0 }}\n"),
            "rejects every connection",
        ),
        (
            TABLE,
            format!("{TRACK}tcp-request connection reject if {{ sc0_conn_cur lt 2 }}\n"),
            "compared otherwise",
        ),
        (
            TABLE,
            format!(
                "{TRACK}tcp-request connection reject if {{ sc0_conn_cur gt 2 }} {{ src 192.0.2.1 }}\n"
            ),
            "too intricate",
        ),
        (
            TABLE,
            format!("{TRACK}tcp-request connection reject if {{ sc0_gpc0_rate gt 2 }}\n"),
            "cannot be asked here",
        ),
    ]);
}

#[test]
fn counts_that_cannot_be_limits_are_lost_restrictions() {
    let reject = REJECT;
    check_lost(&[
        (
            TABLE,
            format!("tcp-request connection track-sc0 src if {{ src 192.0.2.1 }}\n{reject}"),
            "or not always",
        ),
        (
            TABLE,
            format!("tcp-request connection track-sc0 src,ipmask(24)\n{reject}"),
            "or not always",
        ),
        (
            TABLE,
            "http-request track-sc0 src\ntcp-request content reject if { src_conn_cur gt 2 }\n"
                .to_owned(),
            "or not always",
        ),
        (
            TABLE,
            format!(
                "tcp-request connection accept if {{ src 192.0.2.1 }}\n{TRACK}tcp-request content reject if {{ sc0_conn_cur gt 2 }}\n"
            ),
            "or not always",
        ),
        (
            "type string len 9 size 1k store conn_cur",
            format!("{TRACK}{reject}"),
            "does not count sources",
        ),
        (
            TABLE,
            format!("{TRACK}tcp-request connection reject if {{ src_conn_cur(gone) gt 2 }}\n"),
            "no such stick table",
        ),
        (
            "type ip size 1k store conn_rate(25d)",
            format!("{TRACK}tcp-request connection reject if {{ sc0_conn_rate gt 2 }}\n"),
            // The time does not fit HAProxy either, so that nothing is stored.
            "never met",
        ),
    ]);
    // Sockets that become several frontends, and a table of several.
    let split = format!(
        "listen l\nbind 192.0.2.9:1\nbind 192.0.2.9:2 maxconn 5\nstick-table {TABLE}\n{TRACK}{reject}server s 192.0.2.1:1\n"
    );
    let shared = format!(
        "backend t\nstick-table {TABLE}\n\
         listen l\nbind 192.0.2.9:1\ntcp-request connection track-sc0 src table t\n{reject}server s 192.0.2.1:1\n\
         listen m\nbind 192.0.2.9:2\ntcp-request connection track-sc0 src table t\nserver s 192.0.2.1:1\n"
    );
    for text in [split, shared] {
        let (config, notes) = import(&text);
        assert!(
            config.frontend.iter().all(|it| it.limits.is_none()),
            "{text}"
        );
        assert!(
            notes.iter().any(|note| note.class == Class::Security),
            "{notes:?}"
        );
    }
}

#[test]
fn a_condition_that_is_never_met_keeps_no_client_out() {
    for (table, rules) in [
        (
            TABLE,
            "tcp-request connection reject if { src_conn_cur gt 2 }\n".to_owned(),
        ),
        (
            TABLE,
            format!("tcp-request connection reject if {{ sc0_conn_cur gt 2 }}\n{TRACK}"),
        ),
        (
            "type ip size 1k store gpc0",
            format!("{TRACK}tcp-request connection reject if {{ sc0_conn_cur gt 2 }}\n"),
        ),
    ] {
        let (found, notes) = limits(table, &rules);
        assert_eq!(found, None, "{rules}");
        assert!(
            notes
                .iter()
                .any(|note| note.class == Class::Cosmetic && note.reason.contains("never met")),
            "{notes:?}"
        );
        assert!(
            notes.iter().all(|note| note.class != Class::Security),
            "{notes:?}"
        );
    }
}

#[test]
fn differences_of_a_limit_are_told() {
    let rules = format!("{TRACK}tcp-request connection reject if {{ sc0_conn_rate gt 5 }}\n");
    for (table, said) in [
        (TABLE, "rejected do not count"),
        (
            "type ip size 1k expire 1s store conn_rate(10s)",
            "whatever `expire` says",
        ),
        (
            "type ip size 1k peers p store conn_rate(10s)",
            "other proxies",
        ),
    ] {
        let (_, notes) = limits(table, &rules);
        assert!(
            notes.iter().any(|note| note.reason.contains(said)),
            "{notes:?}"
        );
    }
    for (kind, said) in [("ip", "IPv6 have the limit"), ("ipv6", "each /64")] {
        let (_, notes) = import(&format!(
            "listen l\nbind :::1\nstick-table type {kind} size 1k store conn_cur\n{TRACK}\
             tcp-request connection reject if {{ sc0_conn_cur gt 5 }}\nserver s 192.0.2.1:1\n"
        ));
        assert!(
            notes.iter().any(|note| note.reason.contains(said)),
            "{notes:?}"
        );
    }
    // A table that is for something else is lost.
    let (_, notes) = limits(TABLE, TRACK);
    assert!(
        notes
            .iter()
            .any(|note| note.what.starts_with("stick-table")),
        "{notes:?}"
    );
}
