//! What operators see of queries: the query log, `dns-recursor top`, and dnstap by the tools of others.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, run};
use tests::dns::{A, NOERROR, NXDOMAIN, Question, SERVFAIL, ask, ask_a, ask_tcp};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::stream::PATIENCE;
use tests::upstream::{Action, Asked, Upstream};
use tests::wait;

use super::{Forward, address, start};

/// Answers names below `good`, denies those below `none`, and fails for others.
fn act(asked: &Asked) -> Action {
    let name = asked.name().to_lowercase();
    Action::Send(match name.as_str() {
        name if name.contains("good.") => asked.answer(NOERROR, &[(A, 300, address(1))]),
        name if name.contains("none.") => asked.answer(NXDOMAIN, &[]),
        _ => asked.answer(SERVFAIL, &[]),
    })
}

fn resolver(more: &str) -> (Site, Daemon, (Upstream, SocketAddr)) {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, act);
    let forward = Forward {
        zone: "example",
        to: &[to],
        recursive: false,
    };
    let (site, daemon) = start(&[forward], more);
    (site, daemon, (upstream, to))
}

/// Runs a verb against the running server.
fn verb(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(binary("dns-recursor"));
    command.args(arguments).arg("--admin");
    command.arg(site.admin("dns-recursor").to_string());
    let (status, text, complaint) = run(command);
    assert!(status.success(), "{arguments:?}: {text}{complaint}");
    text
}

fn lines(daemon: &Daemon) -> Vec<String> {
    let log = daemon.log();
    let lines = log.lines().filter(|line| line.contains(" Query client="));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_line_says_who_asked_what_how_it_was_answered_and_how_long_that_took() {
    let (site, daemon, (_upstream, to)) = resolver("query-log.enabled = true\n");
    ask_a(site.resolver(), "WWW.good.example").unwrap();
    ask_tcp(site.resolver(), &Question::new("www.good.example", A)).unwrap();
    ask_a(site.resolver(), "www.none.example").unwrap();
    wait::for_it("three lines", PATIENCE, || lines(&daemon).len() == 3);
    let logged = lines(&daemon);
    let by = format!("answer=forward upstream={}", to);
    for (line, words) in logged.iter().zip([
        [
            "name=WWW.good.example.",
            "type=A class=IN transport=udp",
            "rcode=NOERROR",
            &by,
        ],
        [
            "name=www.good.example.",
            "type=A class=IN transport=tcp",
            "rcode=NOERROR",
            "answer=cache took=",
        ],
        [
            "name=www.none.example.",
            "type=A class=IN transport=udp",
            "rcode=NXDOMAIN",
            &by,
        ],
    ]) {
        for word in words
            .iter()
            .chain(&["client=127.", "flags=rd", "took=", "size="])
        {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
}

#[test]
fn the_log_is_turned_on_by_class_for_a_while_and_off_again() {
    let (site, daemon, _upstream) = resolver("");
    ask_a(site.resolver(), "before.good.example").unwrap();
    let told = verb(
        &site,
        &[
            "query-log",
            "on",
            "--class",
            "denial",
            "--class",
            "error",
            "--for",
            "5m",
        ],
    );
    assert_eq!(told, "logging queries for 5m\n");
    let status = verb(&site, &["status"]);
    assert!(
        status.contains("query log: denial error for another "),
        "{status}"
    );
    for name in ["a.good.example", "a.none.example", "a.bad.example"] {
        ask_a(site.resolver(), name).unwrap();
    }
    wait::for_it("two lines", PATIENCE, || lines(&daemon).len() == 2);
    assert_eq!(
        verb(&site, &["query-log", "back"]),
        "logging no queries, as configured\n"
    );
    ask_a(site.resolver(), "b.bad.example").unwrap();
    // A command of one second ends by itself.
    verb(&site, &["query-log", "on", "--for", "1s"]);
    wait::for_it("the command ends", PATIENCE, || {
        let log = daemon.log();
        log.matches("The query log is as configured again").count() == 2
    });
    ask_a(site.resolver(), "c.bad.example").unwrap();
    let logged = lines(&daemon).join("\n");
    for name in ["before.good", "a.good", "b.bad", "c.bad"] {
        assert!(!logged.contains(name), "{name}: {logged}");
    }
    for name in ["a.none.example. ", "a.bad.example. "] {
        assert!(logged.contains(name), "{name}: {logged}");
    }
}

#[test]
fn a_flood_is_logged_up_to_its_rate_and_the_rest_is_counted() {
    let (site, daemon, _upstream) = resolver("[query-log]\nenabled = true\nrate = 1\n");
    ask_a(site.resolver(), "www.good.example").unwrap();
    for _ in 0..50 {
        ask_a(site.resolver(), "www.good.example").unwrap();
    }
    daemon.wait_log("Queries left out of the query log");
    let metric = |name: &str| {
        let (_, metrics) = http_get(site.admin("dns-recursor"), "/metrics").unwrap();
        tests::daemon::metric(&metrics, name).unwrap_or_default()
    };
    wait::for_it("each query is counted", PATIENCE, || {
        let left_out = metric("dns_recursor_query_log_left_out_queries_total");
        let logged = metric("dns_recursor_query_log_lines_total");
        left_out > 0.5 && (left_out + logged - 51.0).abs() < 0.5
    });
}

#[test]
fn top_ranks_names_clients_and_zones_by_queries_misses_and_failures() {
    let (site, _daemon, _upstream) = resolver("");
    for _ in 0..3 {
        ask_a(site.resolver(), "WWW.Good.example").unwrap();
    }
    for name in ["a.bad.example", "b.bad.example", "b.bad.example"] {
        assert_eq!(
            ask_a(site.resolver(), name).unwrap().rcode,
            u16::from(SERVFAIL)
        );
    }
    ask(site.resolver(), &Question::new("x.y.localhost", A)).unwrap();
    let ranked = |arguments: &[&str]| {
        let text = verb(&site, &[&["top", "--json"], arguments].concat());
        let top: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = top["rankings"][0]["rows"].as_array().unwrap().clone();
        let row = |row: &serde_json::Value| {
            (
                row["item"].as_str().unwrap().to_owned(),
                row["count"].as_u64().unwrap(),
            )
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let is = |ranked: Vec<(String, u64)>, expected: &[(&str, u64)]| {
        let expected = expected.iter().map(|(item, n)| ((*item).to_owned(), *n));
        assert_eq!(ranked, expected.collect::<Vec<_>>());
    };
    is(
        ranked(&["names", "-n", "2"]),
        &[("www.good.example.", 3), ("b.bad.example.", 2)],
    );
    is(ranked(&["zones"]), &[("example.", 6), ("y.localhost.", 1)]);
    is(ranked(&["clients", "--by", "queries"]), &[("127.0.0.1", 7)]);
    let failed = ranked(&["names", "--by", "servfail"]);
    is(failed, &[("b.bad.example.", 2), ("a.bad.example.", 1)]);
    let missed = ranked(&["names", "--by", "misses"]);
    assert!(
        missed.contains(&("www.good.example.".to_owned(), 1)),
        "{missed:?}"
    );
    let text = verb(&site, &["top"]);
    assert!(text.contains("names by queries, 7 in "), "{text}");
    assert!(
        text.contains("clients by queries") && text.contains("zones by queries"),
        "{text}"
    );
}

//--- dnstap

/// A capture by the reader of Frame Streams' own project.
struct Capture(Child);

impl Capture {
    fn start(socket: &Path, file: &Path) -> Self {
        let mut command = Command::new("fstrm_capture");
        command.args(["-t", "protobuf:dnstap.Dnstap", "-u"]);
        command.arg(socket).arg("-w").arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command
            .spawn()
            .expect("fstrm_capture of fstrm-bin is installed");
        let capture = Self(child);
        wait::for_it("the capture listens", PATIENCE, || socket.exists());
        capture
    }

    /// Ends it; it writes what it has got.
    fn stop(mut self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// What BIND's reader makes of a file.
fn read(file: &Path) -> String {
    let mut command = Command::new("dnstap-read");
    command.arg(file);
    let (status, text, complaint) = run(command);
    assert!(status.success(), "{complaint}");
    text
}

#[test]
fn the_tools_of_others_read_queries_and_responses_of_both_sides() {
    let files = Scratch::new("dnstap");
    let (socket, file) = (files.join("tap.sock"), files.join("tap"));
    let table = format!(
        "[dnstap]\nsocket = \"{}\"\nidentity = \"master-0\"\n",
        socket.display()
    );
    // The reader comes later than the server.
    let (site, daemon, (_upstream, to)) = resolver(&table);
    daemon.wait_log("dnstap messages cannot be written: trying again");
    let capture = Capture::start(&socket, &file);
    daemon.wait_log("Writing dnstap messages");
    ask_a(site.resolver(), "www.good.example").unwrap();
    ask_tcp(site.resolver(), &Question::new("www.good.example", A)).unwrap();
    let written = || {
        let (_, metrics) = http_get(site.admin("dns-recursor"), "/metrics").unwrap();
        tests::daemon::metric(&metrics, "dns_recursor_dnstap_messages_total").unwrap_or_default()
    };
    wait::for_it("six messages", PATIENCE, || written() > 5.5);
    daemon.stop();
    capture.stop();
    let text = read(&file);
    for (kind, transport, n) in [
        (" CQ ", " UDP ", 1),
        (" CR ", " UDP ", 1),
        (" CQ ", " TCP ", 1),
        (" CR ", " TCP ", 1),
        (" FQ ", " UDP ", 1),
        (" FR ", " UDP ", 1),
    ] {
        let is = |line: &&str| {
            line.contains(kind)
                && line.contains(transport)
                && line.to_lowercase().contains("www.good.example/in/a")
        };
        assert_eq!(
            text.lines().filter(is).count(),
            n,
            "{kind} {transport}: {text}"
        );
    }
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(text.contains(&to.ip().to_string()), "{text}");
}

#[test]
fn a_file_has_the_messages_that_are_wanted() {
    let files = Scratch::new("dnstap");
    let file = files.join("tap");
    let table = format!(
        "[dnstap]\nfile = \"{}\"\nmessages = [\"client-response\"]\n",
        file.display()
    );
    let (site, daemon, _upstream) = resolver(&table);
    daemon.wait_log("Writing dnstap messages");
    for name in ["a.good.example", "b.none.example"] {
        ask_a(site.resolver(), name).unwrap();
    }
    daemon.stop();
    let text = read(&file);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|line| line.contains(" CR ")), "{text}");
}
