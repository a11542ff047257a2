//! Words, and the holders of virtual addresses.

use api::lb_proxy::{Path, Protocol, Server};

use super::*;

fn frontend(listen: &[&str]) -> lb_proxy::Frontend {
    lb_proxy::Frontend {
        name: "api".to_owned(),
        protocol: Protocol::Tcp,
        path: Path::User,
        listen: listen.iter().map(|text| (*text).to_owned()).collect(),
        able: None,
        flows: None,
        flows_opened: None,
        tally: None,
    }
}

#[test]
fn a_word_means_the_frontends_that_clients_reach_there() {
    let own = |address: IpAddr| address.to_string().ends_with(".11") || address.is_ipv6();
    for (word, listen, expected) in [
        ("api", "0.0.0.0:6443", true),
        ("ap", "0.0.0.0:6443", false),
        ("192.0.2.11", "0.0.0.0:6443", true),
        ("192.0.2.11:6443", "0.0.0.0:6443", true),
        ("192.0.2.11:6443", "[::]:6443", true),
        ("[2001:db8::1]:6443", "[::]:6443", true),
        ("[2001:db8::1]:6443", "0.0.0.0:6443", false),
        ("192.0.2.11:443", "0.0.0.0:6443", false),
        ("192.0.2.12:6443", "0.0.0.0:6443", false),
        ("192.0.2.12:6443", "192.0.2.12:6443", true),
        ("192.0.2.12", "192.0.2.12:6443", true),
        ("192.0.2.12", "192.0.2.13:6443", false),
    ] {
        let found = Word::of(word).means_frontend(&frontend(&[listen]), &own);
        assert_eq!(found, expected, "{word} {listen}");
    }
}

#[test]
fn a_word_means_the_backends_of_a_server() {
    let backend = lb_proxy::Backend {
        name: "back".to_owned(),
        usable: 1,
        queued: 0,
        servers: vec![server("192.0.2.13:6443"), server("192.0.2.14:6443")],
    };
    for (word, expected) in [
        ("back", true),
        ("api", false),
        ("192.0.2.13:6443", true),
        ("192.0.2.14", true),
        ("192.0.2.14:443", false),
        ("192.0.2.15", false),
    ] {
        assert_eq!(Word::of(word).means_backend(&backend), expected, "{word}");
    }
}

fn server(address: &str) -> Server {
    Server {
        name: "s".to_owned(),
        address: address.to_owned(),
        state: None,
        since_seconds: None,
        chosen: true,
        why: "is chosen".to_owned(),
        origin: None,
        decisions: Vec::new(),
        avoided_seconds: None,
        probe: None,
        weight: 1,
        backup: false,
        sessions: 0,
        limit: None,
        total: 0,
        connect_errors: 0,
        resets: 0,
        bytes_in: 0,
        bytes_out: 0,
    }
}

fn vip(state: &str, lease: Option<&str>, active: Option<(&str, u8)>) -> lb_proxy::Vip {
    lb_proxy::Vip {
        name: "api".to_owned(),
        interface: "eth0".to_owned(),
        router_id: 51,
        addresses: vec!["192.0.2.10".to_owned()],
        state: state.to_owned(),
        since_seconds: Some(5),
        priority: 100,
        faults: Vec::new(),
        active: active.map(|(address, _)| address.to_owned()),
        active_priority: active.map(|(_, priority)| priority),
        handing_over: false,
        advertisements_sent: 0,
        advertisements_received: 0,
        became_active: 0,
        duplicates: 0,
        lease: lease.map(str::to_owned),
        overruled: 0,
    }
}

#[test]
fn a_virtual_address_has_a_holder_and_a_reason() {
    let other = Some(("192.0.2.12", 120));
    for (state, lease, active, expected, reason) in [
        (
            "active",
            Some("own"),
            None,
            Some("this node"),
            "has promised it the lease",
        ),
        (
            "active",
            None,
            None,
            Some("this node"),
            "won the election with priority 100",
        ),
        (
            "active",
            Some("none: VRRP alone decides (away)"),
            None,
            Some("this node"),
            "priority 100; lease none: VRRP alone decides (away)",
        ),
        (
            "backup",
            Some("held by master-1"),
            other,
            Some("master-1"),
            "it has the lease",
        ),
        (
            "backup",
            None,
            other,
            Some("192.0.2.12"),
            "it advertises priority 120, and this node has 100",
        ),
        (
            "backup",
            Some("free"),
            None,
            None,
            "this node is backup, and the lease is free",
        ),
        (
            "initialize",
            None,
            None,
            None,
            "this node is initialize, and hears no active router",
        ),
    ] {
        let (holder, why) = holder(&vip(state, lease, active));
        assert_eq!(holder.as_deref(), expected, "{state} {lease:?}");
        assert!(why.contains(reason), "{why}");
    }
    let faulty = lb_proxy::Vip {
        faults: vec!["no link".to_owned()],
        ..vip("fault", Some("held by master-2"), None)
    };
    let (holder, why) = holder(&faulty);
    assert_eq!(holder.as_deref(), Some("master-2"));
    assert_eq!(why, "this node may not hold it: no link");
}
