//! The screen, line by line.

use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::event::Event;
use crate::view::{Offer, ServiceView};
use site::service::PerService;

fn view() -> View {
    let service = |serves: &str, pid, rate| ServiceView {
        state: State::Ready,
        pid: Some(pid),
        uptime: Some(Duration::from_secs(192)),
        restarts: 0,
        serves: serves.to_owned(),
        rate: Some(rate),
    };
    let master = |name: &str, last: u8, seen: Seen| MasterView {
        name: name.to_owned(),
        address: [127, 0, 0, last].into(),
        taken_down: seen == Seen::Down,
        seen: vec![seen; 3],
    };
    let offer = |what: &str, port| Offer {
        what: what.to_owned(),
        port,
    };
    View {
        site: "ocp4".to_owned(),
        domain: "ocp4.redhat.ren".to_owned(),
        dns: ([127, 0, 0, 1], 5300).into(),
        elapsed: Duration::from_secs(193),
        services: PerService {
            healthd: service("9 targets, 6 up", 4711, 9.0),
            clusterd: ServiceView {
                state: State::Absent,
                ..ServiceView::default()
            },
            dns_authd: service("127.0.0.1:5301, 1 zone", 4712, 0.4),
            dns_recursor: service("127.0.0.1:5300", 4713, 12_345.6),
            lb_proxy: service("127.0.0.1, 2 open", 4714, 3.0),
            registry_svc: service("127.0.0.1:5000", 4715, 7.0),
            timesync_agent: service("local, stratum 10", 4716, 2.0),
        },
        offers: vec![
            offer("API", 6443),
            offer("ingress", 8443),
            offer("registry", 5443),
        ],
        masters: vec![
            master("master-0", 13, Seen::Up),
            master("master-1", 14, Seen::Down),
            master("master-2", 15, Seen::Unknown),
        ],
        commands: ["api", "c.apps", "helper"]
            .map(|name| format!("dig @127.0.0.1 -p 5300 {name}.ocp4.redhat.ren"))
            .into_iter()
            .chain(["outpost master down master-1".to_owned()])
            .collect(),
        events: VecDeque::from([
            (
                Duration::from_millis(210),
                Event::Ready {
                    service: Service::Healthd,
                    after: Duration::from_millis(40),
                },
            ),
            (
                Duration::from_millis(12_150),
                Event::Switched {
                    master: "master-1".to_owned(),
                    up: false,
                },
            ),
        ]),
        log: VecDeque::from([(Service::Healthd, "Serving".to_owned())]),
    }
}

const PLAIN: Canvas = Canvas {
    columns: 80,
    rows: 24,
    colour: false,
    unicode: true,
};

/// The lines as they stand on the screen, without trailing blanks.
fn shown(view: &View, page: Page, look: Canvas) -> Vec<String> {
    lines(view, page, look)
        .iter()
        .map(|line| {
            let mut text = String::new();
            line.paint(
                &mut text,
                Canvas {
                    colour: false,
                    ..look
                },
            );
            text.trim_end().to_owned()
        })
        .collect()
}

#[test]
fn the_whole_site_fits_an_old_terminal() {
    let shown = shown(&view(), Page::Site, PLAIN);
    assert_eq!(
        shown,
        [
            " Outpost  ocp4 · ocp4.redhat.ren                                       up 3m13s",
            " SERVICE        STATE       SERVES                     PER SECOND     UP     PID",
            " healthd        ● ready     9 targets, 6 up            9.0 probes  3m12s    4711",
            " dns-authd      ● ready     127.0.0.1:5301, 1 zone    0.4 queries  3m12s    4712",
            " dns-recursor   ● ready     127.0.0.1:5300         12,346 queries  3m12s    4713",
            " lb-proxy       ● ready     127.0.0.1, 2 open        3.0 sessions  3m12s    4714",
            " registry-svc   ● ready     127.0.0.1:5000           7.0 requests  3m12s    4715",
            " timesync-agent ● ready     local, stratum 10        2.0 requests  3m12s    4716",
            "",
            " MASTER         ADDRESS         API :6443      ingress :8443  registry :5443",
            " master-0       127.0.0.13      ● up           ● up           ● up",
            " master-1       127.0.0.14      ○ down         ○ down         ○ down         off",
            " master-2       127.0.0.15      ○ unknown      ○ unknown      ○ unknown",
            "",
            " TRY, in another terminal",
            "   dig @127.0.0.1 -p 5300 api.ocp4.redhat.ren",
            "   dig @127.0.0.1 -p 5300 c.apps.ocp4.redhat.ren",
            "   dig @127.0.0.1 -p 5300 helper.ocp4.redhat.ren",
            "   outpost master down master-1",
            "",
            " EVENTS",
            "    12.2s  master-1        taken down",
            "",
            " 0 1 2 master down or up   r restart a service   l log   q quit",
        ]
    );
}

#[test]
fn what_is_served_ends_with_a_whole_word() {
    for (text, width, expected) in [
        ("local, stratum 10", 22, "local, stratum 10"),
        (
            "locked to 192.168.7.13, stratum 3",
            22,
            "locked to 192.168.7.13",
        ),
        ("locked to 192.168.7.13, stratum 3", 21, "locked to"),
        (
            "locked to ntp.example.org, stratum 3",
            30,
            "locked to ntp.example.org",
        ),
        ("antidisestablishmentarianism", 10, "antidisest"),
        (" x", 1, " "),
        ("", 5, ""),
    ] {
        assert_eq!(whole_words(text, width), expected, "{text:?} in {width}");
    }
    let mut view = view();
    view.services.timesync_agent.serves = "locked to 192.168.7.113, stratum 3".to_owned();
    let narrow = shown(&view, Page::Site, PLAIN);
    assert!(narrow[7].contains(" locked to   "), "{}", narrow[7]);
    let wide = Canvas {
        columns: 100,
        ..PLAIN
    };
    let wide = shown(&view, Page::Site, wide);
    assert!(wide[7].contains("192.168.7.113, stratum 3 "), "{}", wide[7]);
    assert_eq!(
        wide[1].chars().count(),
        wide[7].chars().count(),
        "the columns stand below their headings"
    );
}

#[test]
fn clusterd_is_shown_where_it_runs() {
    let mut view = view();
    let has = |view: &View, page, word: &str| {
        let shown = shown(view, page, PLAIN);
        shown.iter().any(|line| line.contains(word))
    };
    assert!(!has(&view, Page::Site, "clusterd"));
    assert!(!has(&view, Page::AskRestart, " c clusterd"));
    view.services.clusterd.state = State::Ready;
    assert!(has(&view, Page::Site, " clusterd "));
    assert!(has(&view, Page::AskRestart, " c clusterd"));
    assert_eq!(view.facts().services[1].name, "clusterd");
}

#[test]
fn no_frame_is_larger_than_its_terminal() {
    for page in [Page::Site, Page::AskRestart, Page::Log, Page::Stopping] {
        for rows in [1, 2, 5, 11, 17, 19, 22, 24, 60] {
            for columns in [1, 10, 40, 80, 200] {
                let look = Canvas {
                    columns,
                    rows,
                    ..PLAIN
                };
                let shown = shown(&view(), page, look);
                assert!(shown.len() <= rows, "{page:?} {rows} rows: {shown:#?}");
                for line in shown {
                    assert!(line.chars().count() <= columns, "{columns} columns: {line}");
                }
            }
        }
    }
}

#[test]
fn the_keys_stay_on_the_last_row() {
    for rows in [1, 8, 24, 50] {
        let shown = shown(&view(), Page::Site, Canvas { rows, ..PLAIN });
        assert_eq!(shown.len(), rows);
        assert!(shown.last().unwrap().ends_with("q quit"), "{shown:#?}");
    }
}

#[test]
fn a_service_that_is_not_ready_says_why_where_it_says_what_it_serves() {
    let mut view = view();
    view.services.dns_authd.state = State::NotReady("zones are loading\x1b[2J".to_owned());
    let shown = shown(&view, Page::Site, PLAIN);
    assert_eq!(
        shown[3],
        " dns-authd      ○ not ready zones are loading\\x1b[2J"
    );
}

#[test]
fn the_log_page_shows_the_last_lines() {
    let mut view = view();
    for n in 0..100 {
        view.log.push_back((Service::DnsAuthd, format!("line {n}")));
    }
    let shown = shown(&view, Page::Log, PLAIN);
    assert_eq!(shown[21], " dns-authd      line 99");
    assert_eq!(shown[23], " l back to the site   q quit");
}

#[test]
fn a_long_line_of_log_goes_on_below() {
    let mut view = view();
    let line = format!("2026-11-21T11:27:09.711Z WARN  {} the end", "x".repeat(60));
    view.log.push_back((Service::Healthd, line));
    let shown = shown(&view, Page::Log, PLAIN);
    assert_eq!(shown[2], " healthd        Serving");
    assert_eq!(
        shown[3],
        format!(" healthd        11:27:09.711Z WARN  {}", "x".repeat(44))
    );
    assert_eq!(
        shown[4],
        format!("                {} the end", "x".repeat(16))
    );
}

#[test]
fn an_ascii_terminal_gets_ascii_only() {
    let look = Canvas {
        unicode: false,
        ..PLAIN
    };
    assert!(frame(&view(), Page::Site, look).is_ascii());
}

#[test]
fn colours_are_switched_off_at_the_end_of_each_piece() {
    let frame = frame(
        &view(),
        Page::Site,
        Canvas {
            colour: true,
            ..PLAIN
        },
    );
    assert!(frame.contains("\x1b[32m● ready     \x1b[0m"), "{frame:?}");
    assert!(frame.starts_with("\x1b[?2026h"));
    assert!(frame.ends_with("\x1b[J\x1b[?2026l"));
}
