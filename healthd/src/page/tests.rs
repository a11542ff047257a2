use api::Status;
use api::healthd::{Clock, Event, Subscriber, Target};
use api::lb_proxy::{self, Backend, Server};
use proto::health::{AdminState, ClockState, Leap, Liveness};

use super::services::{Asked, Services};
use super::*;

fn target(address: &str, liveness: Liveness, reason: &str) -> Target {
    Target {
        id: String::new(),
        target: format!("tcp {address}"),
        kind: "tcp".to_owned(),
        address: address.to_owned(),
        liveness,
        warm: false,
        admin: AdminState::Ready,
        since: Some("2026-11-21T09:31:00.000Z".to_owned()),
        last_check: None,
        latency_seconds: 0.0123,
        interval: "2s".to_owned(),
        reason: reason.to_owned(),
        transitions: 0,
        generation: 6,
        rise: 2,
        fall: 2,
        deviations: Vec::new(),
        verdict: None,
    }
}

fn server(name: &str, address: &str) -> Server {
    Server {
        name: name.to_owned(),
        address: address.to_owned(),
        state: None,
        since_seconds: None,
        chosen: true,
        why: String::new(),
        origin: None,
        decisions: Vec::new(),
        avoided_seconds: None,
        probe: None,
        weight: 1,
        backup: false,
        sessions: 3,
        limit: None,
        total: 9,
        connect_errors: 0,
        resets: 0,
        bytes_in: 0,
        bytes_out: 0,
    }
}

/// With the answers of other services.
fn seen(services: Services) -> Shown {
    Shown {
        look: Some(Arc::new(Answers::of(services))),
        ..Shown::default()
    }
}

/// The places of parts of the page, in order.
fn assert_in_order(page: &str, parts: &[&str]) {
    let places: Vec<usize> = parts
        .iter()
        .map(|part| {
            page.find(part)
                .unwrap_or_else(|| panic!("no {part} in {page}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?} in {page}");
}

#[test]
fn targets_stand_under_what_they_are_for_with_the_names_of_their_nodes() {
    let backend = Backend {
        name: "api".to_owned(),
        usable: 1,
        queued: 0,
        servers: vec![
            server("master-0", "192.168.7.13:6443"),
            server("master-1", "192.168.7.14:6443"),
        ],
    };
    let detail = lb_proxy::Detail {
        backends: vec![backend],
        ..lb_proxy::Detail::default()
    };
    let status = Status::serving("lb-proxy", detail);
    let shown = Shown {
        detail: Detail {
            serves: "3 targets, 2 up".to_owned(),
            generation: 7,
            subscribers: vec![Subscriber {
                name: "dns-authd".to_owned(),
                targets: 3,
                since: None,
                waiting: 0,
                first_waiting: Vec::new(),
            }],
            targets: vec![
                target("192.168.7.14:6443", Liveness::Up, "connected"),
                target("192.168.7.13:6443", Liveness::Down, "refused"),
                target("192.168.7.14:8080", Liveness::Up, "connected"),
            ],
            ..Detail::default()
        },
        results: vec![Vec::new(), Vec::new(), Vec::new()],
        ..seen(Services {
            lb_proxy: Some(Asked::Answered(Box::new(status))),
            ..Services::default()
        })
    };
    assert_in_order(
        &whole(&shown),
        &[
            "3 targets, 2 up. Generation 7, watched by dns-authd.",
            "<h3>api: 1 of 2 up</h3>",
            "master-0 <small>192.168.7.13:6443</small>",
            "<span class=\"down\">down</span>",
            "12.3 ms",
            "2026-11-21 09:31:00Z",
            "<span class=\"reason\">refused</span>",
            "master-1 <small>192.168.7.14:6443</small>",
            "<h3>tcp, port 8080: 1 of 1 up</h3>",
            "master-1 <small>192.168.7.14:8080</small>",
        ],
    );
}

#[test]
fn what_a_server_said_is_text() {
    let reason = "<script>alert(\"&\")</script>";
    let said = target("192.0.2.1:80", Liveness::Down, reason);
    let page = whole(&Shown {
        detail: Detail {
            targets: vec![said],
            ..Detail::default()
        },
        ..Shown::default()
    });
    assert!(page.contains("&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;"));
    assert!(!page.contains("<script>"), "{page}");
}

#[test]
fn a_service_that_could_not_be_asked_is_shown_so() {
    let page = whole(&seen(Services {
        registry_svc: Some(Asked::Failed("no answer".to_owned())),
        ..Services::default()
    }));
    assert_in_order(
        &page,
        &["registry-svc", "not asked", "could not ask: no answer"],
    );
    assert!(!page.contains("timesync-agent"), "it is left out: {page}");
}

#[test]
fn a_clock_has_its_words_and_its_plot() {
    let clock = Clock {
        reporter: "master-0".to_owned(),
        state: ClockState::Locked,
        stale: false,
        age_seconds: 1.0,
        since: Some("2026-11-21T09:31:00.000Z".to_owned()),
        offset_seconds: -0.000_012,
        root_distance_seconds: 0.0015,
        stratum: 3,
        leap: Leap::Insert,
        sources: 4,
        selectable_sources: 3,
        reference: "<ntp>".to_owned(),
    };
    let shown = Shown {
        detail: Detail {
            clocks: vec![clock],
            ..Detail::default()
        },
        offsets: BTreeMap::from([("master-0".to_owned(), vec![0.001, -0.000_012])]),
        ..Shown::default()
    };
    let words = "master-0: <span class=\"up\">locked to &lt;ntp&gt;, stratum 3, offset -0.012 ms, \
                 root distance 1.500 ms, 3 of 4 sources, leap: insert second</span>";
    assert_in_order(&whole(&shown), &[words, "offsets within 1.0 ms"]);
    assert!(!whole(&Shown::default()).contains("Clocks"));
}

#[test]
fn a_change_says_who_decided_it_and_why() {
    let event = Event {
        at: "2026-11-21T09:31:00.123Z".to_owned(),
        what: "192.168.7.13".to_owned(),
        state: "drain".to_owned(),
        why: "a new disk".to_owned(),
        by: "anna".to_owned(),
    };
    let page = whole(&Shown {
        events: Events {
            total: 1,
            events: vec![event],
        },
        ..Shown::default()
    });
    assert_in_order(
        &page,
        &[
            "2026-11-21 09:31:00Z",
            "drain",
            "a new disk by anna",
            "1 change since",
        ],
    );
}

#[test]
fn thousands_of_targets_are_cut_and_those_that_are_down_are_not() {
    let mut targets: Vec<Target> = (1..=1000)
        .map(|port| target(&format!("192.0.2.1:{port}"), Liveness::Up, "connected"))
        .collect();
    targets.push(target("192.0.2.9:9", Liveness::Down, "refused"));
    let page = whole(&Shown {
        results: vec![Vec::new(); targets.len()],
        detail: Detail {
            targets,
            ..Detail::default()
        },
        ..Shown::default()
    });
    assert!(page.contains("192.0.2.9:9"), "{page}");
    assert!(page.contains("701 more; "), "{page}");
    assert_eq!(page.matches("<svg").count(), 300);
}

#[test]
fn an_idle_healthd_has_a_page() {
    let page = whole(&Shown::default());
    assert_in_order(
        &page,
        &[
            "watched by nobody",
            "No service asks for a target yet.",
            "Nothing has changed since the start.",
        ],
    );
}

#[test]
fn an_event_is_one_whatever_lines_its_content_has() {
    assert_eq!(event("<p>a\r\nb</p>"), "data: <p>a\ndata: b</p>\n\n");
}

#[test]
fn other_nodes_have_their_services_and_lead_to_their_pages() {
    let node = nodes::Node {
        services: vec![nodes::Service {
            name: "dns-authd".to_owned(),
            state: "serving".to_owned(),
            ready: true,
            version: "0.2.0 (1a2b3c4d5)".to_owned(),
            slot: "green".to_owned(),
            uptime_seconds: 60.0,
            ..nodes::Service::default()
        }],
        ..nodes::Node::default()
    };
    let others = BTreeMap::from([
        ("master-1".to_owned(), Ok(node)),
        ("master-2".to_owned(), Err("it is not connected".to_owned())),
    ]);
    let shown = |links| Shown {
        others: Some(Arc::new(others.clone())),
        nodes: Arc::new(BTreeMap::from([(
            [192, 0, 2, 2].into(),
            "master-1".to_owned(),
        )])),
        links,
        listeners: Listeners {
            registry_svc: Some(([127, 0, 0, 1], 9405).into()),
            ..Listeners::default()
        },
        ..Shown::default()
    };
    let text = |links| content::content(&shown(links)).into_string();
    let published = text(Links::Nodes(5446));
    for expected in [
        "<a href=\"https://192.0.2.2:5446/\">master-1</a>",
        "0.2.0 (1a2b3c4d5), slot green",
        "not asked: it is not connected",
    ] {
        assert!(published.contains(expected), "{expected}: {published}");
    }
    assert!(
        !published.contains("http://"),
        "loopback of a node is nowhere for a reader elsewhere: {published}"
    );
    let own = text(Links::Services);
    assert!(own.contains("<a href=\"http://127.0.0.1:9405/\">"), "{own}");
    assert!(!own.contains("https://"), "{own}");
}
