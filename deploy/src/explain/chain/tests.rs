//! The chain, link by link.

use api::explain::Tell as _;
use api::explain::node::Explanation;
use serde_json::{Value, json};

use super::*;

fn recursor(outcome: &str, route: &Value, records: &[&str]) -> dns_recursor::Explanation {
    serde_json::from_value(json!({
        "name": "api.example.", "type": "A", "client": null, "allow_from": "127.0.0.0/8",
        "outcome": outcome, "local_zone": null, "route": route,
        "cached": [{
            "rcode": "NOERROR", "failure": false, "dnssec_ok": false, "checking_disabled": false,
            "secure": false, "age_seconds": 2, "left_seconds": 3, "records": records,
        }],
    }))
    .unwrap()
}

fn route(iterates: bool, recursive: bool) -> Value {
    json!({
        "zone": "example.", "iterates": iterates, "recursive": recursive, "down": false,
        "dnssec": "off", "upstreams": [],
    })
}

fn authority(targets: &[&str], answer: &[&str]) -> dns_authd::Explanation {
    let target = |address: &&str| {
        json!({
            "target": format!("tcp {address}"), "address": address, "liveness": "up",
            "admin": "ready", "reason": "",
        })
    };
    let targets: Vec<Value> = targets.iter().map(target).collect();
    serde_json::from_value(json!({
        "name": "api.example.", "type": "A", "client": null, "allowed": true, "allow_from": null,
        "zone": null, "generation": 7,
        "steps": [{
            "name": "api.example.", "place": "exact",
            "live": [{
                "owner": "api.example.", "type": "A", "programs": [], "certainty": "known",
                "members": [], "ttl": 5, "targets": targets, "messages": [],
            }],
        }],
        "response": { "rcode": "NOERROR", "authoritative": true, "answer": answer, "authority": [] },
        "health": { "state": "connected", "targets": 0 },
    }))
    .unwrap()
}

#[test]
fn a_word_is_an_address_or_a_name() {
    for (about, expected) in [
        ("192.0.2.1", Subject::Address),
        ("2001:db8::1", Subject::Address),
        ("192.0.2.1:443", Subject::Port),
        ("[2001:db8::1]:443", Subject::Port),
        ("api.example", Subject::Name),
        ("192.0.2.256", Subject::Name),
    ] {
        assert_eq!(Subject::of(about), expected, "{about}");
    }
}

#[test]
fn dns_authd_is_asked_when_the_route_leads_there() {
    let answer = |outcome, route| Part::Answer(recursor(outcome, &route, &[]));
    for (part, expected) in [
        (answer("cache", route(false, false)), true),
        (answer("refused", route(false, false)), true),
        (answer("cache", route(false, true)), false),
        (answer("cache", route(true, false)), false),
        (answer("local", Value::Null), false),
        (answer("no-route", Value::Null), false),
        (Part::Unreachable("away".to_owned()), true),
        (Part::None("not here".to_owned()), true),
    ] {
        assert_eq!(leads_to_authority(&part).is_ok(), expected, "{part:?}");
    }
}

#[test]
fn an_answer_has_places() {
    let cached = recursor(
        "cache",
        &route(false, true),
        &["a. 5 IN CNAME b.", "b. 5 IN A 192.0.2.9"],
    );
    assert_eq!(places(Some(&cached), None), ["192.0.2.9"]);
    let live = authority(
        &["192.0.2.13:6443", "192.0.2.14:6443"],
        &["a. 5 IN A 192.0.2.13", "a. 5 IN A 192.0.2.10"],
    );
    assert_eq!(
        places(Some(&cached), Some(&live)),
        ["192.0.2.13:6443", "192.0.2.14:6443", "192.0.2.10"]
    );
    assert!(places(None, None).is_empty());
    let text = authority(&[], &["a. 5 IN TXT \"x\"", "nonsense"]);
    assert!(places(None, Some(&text)).is_empty());
}

#[test]
fn the_targets_are_those_of_the_answer_and_of_the_servers() {
    let places = ["192.0.2.10".to_owned()];
    assert_eq!(targets(&places, None, None), places);
    let live = authority(&["192.0.2.13:6443"], &[]);
    let server = |address: &str, target: Option<&str>| {
        let probe = target.map(|target| {
            json!({
                "target": target, "liveness": "up", "admin": "ready", "reason": "", "latency_ms": 1.0,
            })
        });
        json!({
            "name": "s", "address": address, "state": null, "since_seconds": null, "chosen": true,
            "why": "is chosen", "probe": probe, "weight": 1, "backup": false, "sessions": 0,
            "limit": null, "total": 0, "connect_errors": 0, "resets": 0, "bytes_in": 0, "bytes_out": 0,
        })
    };
    let balancer: lb_proxy::Explanation = serde_json::from_value(json!({
        "about": [], "frontends": [], "vips": [], "healthd": null,
        "backends": [{
            "balance": "round-robin",
            "backend": { "name": "b", "usable": 3, "queued": 0, "servers": [
                server("192.0.2.13:6443", Some("tcp 192.0.2.13:6443")),
                server("192.0.2.14:6443", Some("https 192.0.2.14:6443/readyz")),
                server("192.0.2.15:6443", None),
            ]},
        }],
    }))
    .unwrap();
    assert_eq!(
        targets(&places, Some(&live), Some(&balancer)),
        ["192.0.2.13:6443", "192.0.2.14:6443"]
    );
}

#[test]
fn a_part_that_could_not_be_asked_is_told() {
    let explanation = Explanation {
        node: "master-0".to_owned(),
        about: "api.example".to_owned(),
        rtype: Some("A".to_owned()),
        client: None,
        dns_recursor: Part::Unreachable("nothing listens at /x".to_owned()),
        dns_authd: Part::None("this node does not have it".to_owned()),
        healthd: Part::None("the answer has no address".to_owned()),
        lb_proxy: Part::None("the answer has no address".to_owned()),
    };
    assert!(!explanation.is_whole());
    assert_eq!(
        explanation.told(),
        "api.example A, as master-0 has it\n\
         ! dns-recursor could NOT be asked: nothing listens at /x\n\
         dns-authd has no part in it: this node does not have it\n\
         healthd has no part in it: the answer has no address\n\
         lb-proxy has no part in it: the answer has no address\n"
    );
    let text = serde_json::to_string(&explanation).unwrap();
    assert_eq!(
        serde_json::from_str::<Explanation>(&text).unwrap(),
        explanation
    );
    let whole = Explanation {
        dns_recursor: Part::None("not here".to_owned()),
        ..explanation
    };
    assert!(whole.is_whole());
}
