//! Commands to a running proxy, and its answers.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tests::binaries::checkout;
use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::{End, PATIENCE, Server, connect, end, end_within, line, receive, reset, send};
use tests::wait;

struct Site {
    place: Place,
    servers: Vec<Server>,
    lb: Daemon,
}

impl Site {
    fn new(back: &str, more: &str) -> Self {
        let servers: Vec<Server> = (0..2)
            .map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")))
            .collect();
        let addresses: Vec<_> = servers.iter().map(Server::address).collect();
        let place = Place::new();
        let back = format!("balance = \"round-robin\"\n{back}");
        let lb = place.start(&format!("{more}{}", pair(&place, "", &back, &addresses)));
        Self { place, servers, lb }
    }

    fn restart(self) -> Self {
        let Self { place, servers, lb } = self;
        lb.stop();
        let mut serve = place.serve();
        serve.arg("--admin-socket").arg(place.admin_socket());
        let lb = Daemon::start("lb-proxy", serve);
        Self { place, servers, lb }
    }

    fn next(&self) -> (TcpStream, String) {
        let stream = connect(self.place.front());
        let name = line(&stream);
        (stream, name)
    }

    /// The servers that ten connections get.
    fn chosen(&self) -> BTreeSet<String> {
        (0..10).map(|_| self.next().1).collect()
    }
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn works(stream: &TcpStream) {
    send(stream, 3, 2000, 2000).unwrap();
    assert_eq!(receive(stream, 3, 2000), Ok(()));
}

#[test]
fn a_server_is_drained_and_made_ready() {
    let site = Site::new("", "");
    let held = [site.next(), site.next()];
    assert_eq!(site.chosen(), names(["s0", "s1"]));
    site.place.done(&["backend", "drain", "back/s1"]);
    assert_eq!(site.chosen(), names(["s0"]));
    held.iter().for_each(|(stream, _)| works(stream));
    let status = site.place.done(&["status"]);
    assert!(status.contains("drain"), "{status}");
    site.place.done(&["backend", "ready", "back/s1"]);
    assert_eq!(site.chosen(), names(["s0", "s1"]));
}

#[test]
fn a_decision_has_an_end_a_reason_and_a_name_and_outlives_a_restart() {
    let site = Site::new("", "");
    let weigh = ["backend", "weight", "back/s0", "90", "--for", "1h"];
    site.place
        .done(&[&weigh[..], &["--reason", "a new disk", "--by", "anna"]].concat());
    site.place
        .done(&["backend", "drain", "back/s1", "--for", "3s"]);
    let status = site.place.done(&["status"]);
    let line = |text: &str, word: &str| {
        let line = text.lines().find(|line| line.contains(word));
        line.unwrap_or_else(|| panic!("no {word} in {text}"))
            .to_owned()
    };
    let told = line(&status, "an operator said weight 90 since ");
    assert!(
        told.contains(" until ") && told.ends_with(" by anna: a new disk"),
        "{told}"
    );
    // What takes a decision back has no end.
    for verb in [
        &["backend", "ready", "back/s1"][..],
        &["backend", "weight", "back/s0", "reset"],
    ] {
        let (status, _, stderr) = site.place.verb(&[verb, &["--for", "1h"]].concat());
        assert!(
            !status.success() && stderr.contains("has no end"),
            "{stderr}"
        );
    }

    let site = site.restart();
    let explained = site.place.done(&["explain"]);
    assert!(explained.contains(told.trim()), "{explained}");
    wait::for_it("the drain has ended", PATIENCE, || {
        site.chosen() == names(["s0", "s1"])
    });
    let status = site.place.done(&["status"]);
    assert!(!status.contains("said drain"), "{status}");
    line(&status, "an operator said weight 90");
}

#[test]
fn maintenance_ends_the_sessions_of_a_backend_that_resets() {
    let site = Site::new("on-down = \"reset\"", "");
    let held = [site.next(), site.next()];
    site.place.done(&["backend", "maintenance", "back/s1"]);
    assert_eq!(site.chosen(), names(["s0"]));
    for (stream, name) in &held {
        if name == "s1" {
            assert_eq!(end_within(stream, PATIENCE), End::Reset(0));
        } else {
            works(stream);
        }
    }
    site.place.done(&["backend", "ready", "back/s1"]);
    assert_eq!(site.chosen(), names(["s0", "s1"]));
}

#[test]
fn a_weight_is_changed() {
    let site = Site::new("", "");
    site.place.done(&["backend", "weight", "back/s0", "0"]);
    assert_eq!(site.chosen(), names(["s1"]));
    site.place.done(&["backend", "weight", "back/s0", "100"]);
    assert_eq!(site.chosen(), names(["s0", "s1"]));
}

#[test]
fn a_server_may_have_more_sessions_when_an_operator_says_so() {
    let site = Site::new("max-connections = 1\nqueue-timeout = \"20s\"", "");
    let held = [site.next(), site.next()];
    let third = connect(site.place.front());
    wait::for_it("the third waits", PATIENCE, || {
        site.place.done(&["status"]).contains("1 wait")
    });
    let verb = |most: &str| {
        site.place
            .done(&["backend", "max-connections", "back/s1", most])
    };
    assert_eq!(verb("2"), "back/s1 may have 2 sessions at a time\n");
    assert_eq!(line(&third), "s1");
    let explained = site.place.done(&["explain", "back"]);
    assert!(
        explained.contains("an operator said 2 sessions at a time"),
        "{explained}"
    );
    // Fewer: those that are there stay.
    assert_eq!(verb("reset"), "back/s1 has its configured limit\n");
    held.iter().for_each(|(stream, _)| works(stream));
    assert_eq!(verb("none"), "back/s1 has no limit\n");
    assert_eq!(site.chosen(), names(["s1"]));
}

#[test]
fn what_does_not_exist_is_said() {
    let site = Site::new("", "");
    for arguments in [
        ["backend", "drain", "back/s7"],
        ["backend", "drain", "front/s1"],
        ["backend", "ready", "nonsense"],
    ] {
        let (status, stdout, stderr) = site.place.verb(&arguments);
        assert!(!status.success(), "{arguments:?}: {stdout}");
        let wrong = arguments[2].rsplit('/').next().unwrap();
        assert!(
            stderr.contains(wrong) || stderr.contains("front"),
            "{arguments:?}: {stderr}"
        );
    }
    let (status, _, stderr) = site.place.verb(&["backend", "weight", "back/s0", "257"]);
    assert!(!status.success(), "{stderr}");
    assert_eq!(site.chosen(), names(["s0", "s1"]));
}

#[test]
fn what_was_drained_stays_so_over_a_reload_and_a_new_process() {
    let mut site = Site::new("", "");
    site.place.done(&["backend", "drain", "back/s1"]);
    site.lb.forget_told();
    site.lb.hang_up();
    site.lb.wait_told("READY=1");
    assert_eq!(site.chosen(), names(["s0"]));
    let new = Daemon::start("lb-proxy 2", site.place.serve());
    assert!(site.lb.wait().success());
    site.lb = new;
    assert_eq!(site.chosen(), names(["s0"]));
}

#[test]
fn sessions_are_listed_and_killed() {
    let site = Site::new("", "");
    let held = [site.next(), site.next()];
    let text = site.place.done(&["sessions"]);
    let json = site.place.done(&["sessions", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (stream, name) in &held {
        let client = stream.local_addr().unwrap().to_string();
        assert!(
            text.contains(&client) && text.contains(name.as_str()),
            "{text}"
        );
        assert!(json.to_string().contains(&client), "{json}");
    }
    site.place.done(&["kill", "--server", "back/s1"]);
    for (stream, name) in &held {
        if name == "s1" {
            assert_eq!(end_within(stream, PATIENCE), End::Reset(0));
        } else {
            works(stream);
        }
    }
    let text = site.place.done(&["sessions"]);
    assert!(!text.contains("s1"), "{text}");
    site.place.done(&["kill", "--all"]);
    assert!(!matches!(end_within(&held[0].0, PATIENCE), End::Open(_)));
}

#[test]
fn status_tells_of_every_frontend_backend_and_server() {
    let site = Site::new("", "");
    let _held = [site.next(), site.next()];
    let text = site.place.done(&["status"]);
    for word in ["front", "back", "s0", "s1"] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    let address = site.servers[0].address().to_string();
    let json = site.place.done(&["status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let json = json.to_string();
    for word in ["front", "back", "s0", "s1", &address] {
        assert!(json.contains(word), "no {word} in {json}");
    }
}

#[test]
fn the_access_log_has_a_record_for_every_session() {
    let servers = [Server::named(at(loopback(), FRONT), "s0")];
    let place = Place::new();
    let config = pair(&place, "", "", &[servers[0].address()]);
    let lb = place.start(&format!("{config}{}", place.access_log()));
    // Ended by the client, in the usual way.
    let stream = connect(place.front());
    let client = stream.local_addr().unwrap();
    line(&stream);
    works(&stream);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(end(&stream), End::Closed(0));
    let records = place.wait_records(1);
    let record = &records[0];
    for (key, expected) in [
        ("frontend", "front"),
        ("backend", "back"),
        ("server", "s0"),
        ("termination", "--"),
    ] {
        assert_eq!(record[key], expected, "{record}");
    }
    assert_eq!(record["client"], client.to_string(), "{record}");
    assert_eq!(record["bytes_in"], 2000, "{record}");
    assert_eq!(record["bytes_out"], 2003, "{record}");
    // Reset by the client.
    let stream = connect(place.front());
    line(&stream);
    reset(stream);
    let records = place.wait_records(2);
    assert_eq!(records[1]["termination"], "CD", "{}", records[1]);
    lb.stop();
}

#[test]
fn the_access_log_can_be_that_of_haproxy() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let config = pair(&place, "", "", &[server.address()]);
    let log = place.access_log().replace("\"json\"", "\"text\"");
    let lb = place.start(&format!("{config}{log}"));
    let stream = connect(place.front());
    let client = stream.local_addr().unwrap();
    line(&stream);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(end(&stream), End::Closed(0));
    let text = wait::until("a line", PATIENCE, || {
        let text = std::fs::read_to_string(place.files.join("access.log")).unwrap_or_default();
        text.ends_with('\n').then_some(text)
    });
    // client [date] frontend backend/server Tw/Tc/Tt bytes termination counts queues
    let words: Vec<&str> = text.split_whitespace().collect();
    let start = words.iter().position(|word| *word == client.to_string());
    let start = start.unwrap_or_else(|| panic!("{text}"));
    assert!(words[start + 1].starts_with('['), "{text}");
    assert_eq!(&words[start + 2..start + 4], ["front", "back/s0"], "{text}");
    let timers: Vec<i64> = words[start + 4]
        .split('/')
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(timers.len(), 3, "{text}");
    assert_eq!(&words[start + 5..start + 7], ["3", "--"], "{text}");
    assert_eq!(words[start + 7].split('/').count(), 5, "{text}");
    assert_eq!(words[start + 8], "0/0", "{text}");
    lb.stop();
}

#[test]
fn metrics_count_and_are_documented() {
    let site = Site::new("", "");
    let _held = [site.next(), site.next()];
    let documented = std::fs::read_to_string(checkout().join("docs/metrics.md")).unwrap();
    let text = site.place.metrics();
    let missing: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter(|rest| {
            let (name, kind) = rest.split_once(' ').unwrap();
            !documented.contains(&format!("| `{name}` | {kind} |"))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "not in docs/metrics.md:\n{}",
        missing.join("\n")
    );
    for name in [
        "haproxy_frontend_current_sessions",
        "haproxy_frontend_sessions_total",
        "haproxy_server_current_sessions",
        "haproxy_server_status",
        "haproxy_backend_active_servers",
        "haproxy_backend_agg_server_status",
        "haproxy_backend_downtime_seconds_total",
        "haproxy_backend_server_aborts_total",
        "haproxy_server_current_queue",
    ] {
        assert!(text.contains(&format!("\n{name}{{")), "no {name}:\n{text}");
    }
}

/// A counter of the server `s1`.
fn counter_of_s1(place: &Place, name: &str) -> u64 {
    let metrics = place.metrics();
    let of_s1 =
        |line: &&str| line.starts_with(&format!("{name}{{")) && line.contains("server=\"s1\"");
    let line = metrics.lines().find(of_s1);
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} of s1:\n{metrics}"))
}

/// A session that ends because its backup server is not needed any more has no culprit in the log.
#[test]
fn who_breaks_a_session_off_is_counted() {
    let servers: Vec<Server> = (0..2)
        .map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")))
        .collect();
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let place = Place::new();
    let text = pair(
        &place,
        "",
        "on-up = \"reset\"\non-down = \"reset\"",
        &addresses,
    );
    let _lb = place.start(&format!("{text}backup = true\n"));
    place.done(&["backend", "maintenance", "back/s0"]);
    let next = || {
        let stream = connect(place.front());
        assert_eq!(line(&stream), "s1");
        stream
    };
    reset(next());
    wait::for_it("the reset is counted", PATIENCE, || {
        counter_of_s1(&place, "haproxy_server_client_aborts_total") == 1
    });
    let held = next();
    place.done(&["backend", "ready", "back/s0"]);
    assert_eq!(end_within(&held, PATIENCE), End::Reset(0));
    assert_eq!(counter_of_s1(&place, "lb_proxy_server_resets_total"), 0);
    // One that went away is.
    place.done(&["backend", "maintenance", "back/s0"]);
    let held = next();
    place.done(&["backend", "maintenance", "back/s1"]);
    assert_eq!(end_within(&held, PATIENCE), End::Reset(0));
    assert_eq!(counter_of_s1(&place, "lb_proxy_server_resets_total"), 1);
    assert_eq!(
        counter_of_s1(&place, "haproxy_server_client_aborts_total"),
        1
    );
    assert_eq!(
        counter_of_s1(&place, "haproxy_server_server_aborts_total"),
        0
    );
    // At the end, once, no server was left.
    let downs = place.metrics();
    let downs = downs
        .lines()
        .find(|line| line.starts_with("haproxy_backend_check_up_down_total{proxy=\"back\"}"));
    assert!(downs.is_some_and(|line| line.ends_with(" 1")), "{downs:?}");
}

#[test]
fn mistakes_in_the_configuration_are_named_with_their_place() {
    let server = at(loopback(), FRONT);
    let place = Place::new();
    let good = pair(&place, "", "", &[server]);
    place.configure(&good);
    let (status, stdout, stderr) = place.check();
    assert!(status.success(), "{stdout}{stderr}");
    for (from, to, word) in [
        ("name = \"back\"", "nam = \"back\"", "nam"),
        ("backend = \"back\"", "backend = \"none\"", "none"),
        ("address = \"", "address = \"x", "address"),
        (
            "[[backend]]\nname = \"back\"",
            "[[backend]]\nbalance = \"luck\"\nname = \"back\"",
            "luck",
        ),
        (
            "[[backend]]\nname = \"back\"",
            "[[backend]]\nqueue-timeout = \"soon\"\nname = \"back\"",
            "soon",
        ),
        (
            "[[backend.server]]",
            "[[backend.server]]\nweight = 257",
            "257 is out of range; `weight` is from 0 to 256",
        ),
        (
            "[[frontend]]",
            "[[frontend]]\npath = \"kernel\"\naccept-proxy = \"required\"",
            "kernel",
        ),
        (
            "[[frontend]]",
            "[[frontend]]\nallow-from = [\"10.0.0.0/33\"]",
            "10.0.0.0/33",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let path = place.configure(&text);
        let (status, stdout, stderr) = place.check();
        assert_eq!(status.code(), Some(78), "{to}: {stdout}{stderr}");
        let said = format!("{stdout}{stderr}");
        let whole = std::fs::read_to_string(&path).unwrap();
        // The line on which the changed text stands, or one that belongs to it.
        let at = whole[..whole.find(to).unwrap()].matches('\n').count() + 1;
        let places: Vec<usize> = said
            .split(&format!("{}:", path.display()))
            .skip(1)
            .filter_map(|rest| rest.split(':').next()?.parse().ok())
            .collect();
        assert!(
            places.iter().any(|line| (at..at + 4).contains(line)),
            "{to} on line {at}: {said}"
        );
        assert!(said.contains(word), "{to}: {said}");
    }
}

#[test]
fn a_taken_address_is_said_and_ends_with_an_error() {
    let server = at(loopback(), FRONT);
    let place = Place::new();
    let _other = Server::echo(place.front());
    place.configure(&pair(&place, "", "", &[server]));
    let mut lb = Daemon::spawn("lb-proxy", place.serve());
    let status = lb.wait();
    assert!(!status.success(), "{status}");
    lb.wait_log(&place.front().to_string());
}

#[test]
fn a_proxy_that_ends_lets_sessions_finish_first() {
    let site = Site::new("", "drain = \"5s\"\n");
    let (stream, _) = site.next();
    let mut lb = site.lb;
    lb.signal(rustix::process::Signal::TERM);
    wait::for_it("nobody new is accepted", PATIENCE, || {
        TcpStream::connect(site.place.front()).is_err()
    });
    works(&stream);
    assert!(lb.is_running());
    let start = Instant::now();
    drop(stream);
    assert!(lb.wait().success(), "{}", lb.log());
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
}
