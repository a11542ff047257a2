//! Changes by chronyc while the agent runs, as with chronyd. A restart forgets them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::time::{Agent, Chronyd, PATIENCE, Says, Server, ask, ask_patiently};
use tests::wait;

/// Often enough for a test.
const OFTEN: &str = "iburst minpoll -2 maxpoll -2";

/// Has a command done by who may ask for everything.
#[track_caller]
fn told(agent: &Agent, command: &str, expected: (i32, &str)) {
    let words: Vec<&str> = command.split(' ').collect();
    let (code, text) = agent.chronyc_unix(&words);
    assert_eq!(
        (code, text.trim()),
        (Some(expected.0), expected.1),
        "{command}"
    );
}

fn is_answered(agent: &Agent) -> bool {
    ask(agent.address()).is_ok()
}

/// Serves with the threads of the server, or with the loop alone.
fn start(agent: &Agent, batch: bool) -> Daemon {
    let lines = format!("node = \"test\"\nbatch = {batch}\n");
    Daemon::start("timesync-agent", agent.serve_by(agent.admin(), &lines))
}

#[test]
fn who_is_answered_changes_at_once() {
    for batch in [true, false] {
        let agent = Agent::on_loopback("local stratum 8\n");
        let daemon = start(&agent, batch);
        let own = format!("accheck {}", agent.ip);
        assert!(!is_answered(&agent), "nobody is allowed");
        told(&agent, &own, (0, "209 Access denied"));
        // The first who is allowed has the sockets opened.
        told(&agent, "allow 127.0.0.0/8", (0, "200 OK"));
        wait::for_it("clients are answered", PATIENCE, || is_answered(&agent));
        told(&agent, &own, (0, "208 Access allowed"));
        // Requests come from here, wherever they go to.
        told(&agent, "deny 127.0.0.1", (0, "200 OK"));
        told(&agent, "accheck 127.0.0.1", (0, "209 Access denied"));
        told(&agent, "accheck 127.0.0.2", (0, "208 Access allowed"));
        told(&agent, "deny all", (0, "200 OK"));
        wait::for_it("nobody is answered", PATIENCE, || !is_answered(&agent));
        told(&agent, "allow all 127", (0, "200 OK"));
        wait::for_it("clients are answered again", PATIENCE, || {
            is_answered(&agent)
        });
        daemon.stop();
        let daemon = start(&agent, batch);
        assert!(!is_answered(&agent), "it is forgotten");
        daemon.stop();
    }
}

#[test]
fn who_may_command_changes_at_once_and_not_from_afar() {
    let agent = Agent::on_loopback("");
    let daemon = agent.start();
    let far = |words: &[&str]| {
        let (code, text) = agent.chronyc(words);
        (code, text.trim().to_owned())
    };
    for command in [
        &["allow"][..],
        &["cmdallow", "all"],
        &["delete", "192.0.2.1"],
    ] {
        assert_eq!(far(command), (Some(1), "501 Not authorised".to_owned()));
    }
    assert_eq!(far(&["tracking"]).0, Some(0));
    told(&agent, "cmddeny all", (0, "200 OK"));
    told(&agent, "cmdaccheck 127.0.0.1", (0, "209 Access denied"));
    assert_eq!(far(&["tracking"]).0, Some(1), "nobody is answered");
    told(&agent, "cmdallow 127.0.0.0/8", (0, "200 OK"));
    assert_eq!(far(&["tracking"]).0, Some(0));
    daemon.stop();
}

#[test]
fn sources_come_and_go() {
    let (first, second) = (
        Server::on_loopback(Says::default()),
        Server::on_loopback(Says::default()),
    );
    let agent = Agent::on_loopback(&first.line(OFTEN));
    let daemon = agent.start();
    agent.wait_state(&["locked", "syncing"]);
    let add = format!("add {}", second.line(OFTEN).trim_end());
    told(&agent, &add, (0, "200 OK"));
    told(&agent, &add, (1, "511 Source already present"));
    let n_sources = |status: &serde_json::Value| status["sources"].as_array().map_or(0, Vec::len);
    agent.wait_status("both are reached", |status| {
        let sources = status["sources"].as_array();
        n_sources(status) == 2
            && sources.is_some_and(|all| all.iter().all(|source| source["reach"] != "0"))
    });
    // Without those of the configuration it follows that one.
    told(
        &agent,
        &format!("delete {}", first.address.ip()),
        (0, "200 OK"),
    );
    told(
        &agent,
        &format!("delete {}", first.address.ip()),
        (1, "503 No such source"),
    );
    let status = agent.wait_status("one is left", |status| n_sources(status) == 1);
    assert_eq!(
        status["sources"][0]["address"],
        second.address.ip().to_string()
    );
    // A name takes its own way through the resolver; its loopback addresses are not polled here.
    told(
        &agent,
        "add pool localhost maxsources 2 offline",
        (0, "200 OK"),
    );
    agent.wait_status("and those of a name", |status| n_sources(status) > 1);
    // chronyc has the keys read again, and nothing is lost by that.
    told(&agent, "rekey", (0, "200 OK"));
    agent.wait_status("they are still there", |status| n_sources(status) > 1);
    // The configuration does not know of any of this.
    daemon.hang_up();
    let status = agent.wait_status("as configured", |status| {
        status["sources"][0]["address"] == first.address.ip().to_string()
    });
    assert_eq!(n_sources(&status), 1);
    daemon.stop();
}

#[test]
fn what_chronyc_has_said_stays_when_files_are_read_again() {
    let agent = Agent::on_loopback("allow 127.0.0.0/8\n");
    let daemon = agent.start();
    told(&agent, "local stratum 5", (0, "200 OK"));
    let is_given = |status: &serde_json::Value| status["state"] == "local";
    agent.wait_status("it gives its own time", is_given);
    for command in ["rekey", "cyclelogs", "reload sources", "deny 192.0.2.0/24"] {
        told(&agent, command, (0, "200 OK"));
        // Told, and the settings taken up: whatever is to follow has followed then.
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(30));
            let reply = ask_patiently(agent.address());
            assert_eq!(reply.stratum, 5, "{command}");
        }
    }
    // The configuration does not know of it.
    daemon.hang_up();
    agent.wait_status("as configured", |status| {
        status["state"] == "unsynchronised"
    });
    daemon.stop();
}

/// An agent and a chronyd of the same lines.
fn both(lines: &str, port: u16) -> (Agent, Daemon, Chronyd) {
    let agent = Agent::on_loopback(lines);
    let daemon = agent.start();
    let chronyd = Chronyd::on_loopback(&format!("port 0\ncmdport {port}\n{lines}"));
    (agent, daemon, chronyd)
}

/// The columns of `selectdata` that do not depend on the moment: state, name, authentication, options.
fn columns(text: &str) -> Vec<String> {
    let line = |line: &str| line.split(',').take(11).collect::<Vec<_>>().join(",");
    text.lines().map(line).collect()
}

#[test]
fn commands_end_as_with_chronyd() {
    let (agent, daemon, chronyd) = both("", 0);
    for command in [
        "allow 127.0.0.0/8",
        "allow all",
        "deny 10",
        "deny all",
        "cmdallow 192.0.2.0/24",
        "cmddeny all",
        "cmdallow all",
        "add server 127.9.9.9 port 9 offline",
        "add server 127.9.9.9 port 10 offline",
        "add peer 127.9.9.8 port 9 offline key 7",
        "delete 127.9.9.9",
        "delete 127.9.9.9",
        "delete 192.0.2.77",
        "settime 12:00",
        "makestep",
        "authdata",
        "-c authdata",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let (theirs, ours) = (chronyd.chronyc(&words), agent.chronyc_unix(&words));
        assert_eq!(ours, theirs, "{command}");
    }
    daemon.stop();
}

#[test]
fn keys_and_reasons_are_shown_as_chronyd_shows_them() {
    let servers: Vec<Server> = (0..5)
        .map(|_| Server::on_loopback(Says::default()))
        .collect();
    let [plain, preferred, shown, silent, wrong] = servers.as_slice() else {
        panic!("five");
    };
    silent.say(|says| says.is_silent = true);
    wrong.say(|says| says.stratum = 0);
    let mut lines = String::new();
    for (server, options) in [
        (plain, "trust"),
        (preferred, "prefer trust"),
        (shown, "noselect"),
        (silent, ""),
        (wrong, "require"),
    ] {
        lines += &server.line(&format!("iburst minpoll 0 maxpoll 0 {options}"));
    }
    // Without a source that is required there is no system peer.
    let lines = lines.replace("require", "");
    let (agent, daemon, chronyd) = both(&lines, 0);
    let select = ["-c", "-n", "selectdata"];
    let begun = Instant::now();
    loop {
        let theirs = columns(&chronyd.chronyc(&select).1);
        let ours = columns(&agent.chronyc_unix(&select).1);
        if theirs == ours && ours.iter().any(|line| line.starts_with('*')) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{theirs:#?} {ours:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.stop();

    // Every kind of key that both know.
    let agent = Agent::on_loopback("");
    let mut keys = String::new();
    let mut lines = format!("keyfile {}\n", agent.files.join("keys").display());
    for (id, kind) in ["MD5", "SHA1", "SHA256", "SHA384", "SHA512"]
        .iter()
        .enumerate()
    {
        writeln!(keys, "{} {kind} ASCII:{}", id + 1, "x".repeat(12 + id)).unwrap();
        writeln!(lines, "server 127.9.8.{} key {} offline", id + 1, id + 1).unwrap();
    }
    keys += "6 AES128 HEX:000102030405060708090a0b0c0d0e0f\n";
    lines += "server 127.9.8.6 key 6 offline\nserver 127.9.8.7 key 77 offline\n";
    agent.files.write("keys", &keys);
    agent.configure(&lines);
    let daemon = agent.start();
    let chronyd = Chronyd::on_loopback(&format!("port 0\ncmdport 0\n{lines}"));
    for flags in ["-n", "-c"] {
        let (theirs, ours) = (
            chronyd.chronyc(&[flags, "authdata"]),
            agent.chronyc_unix(&[flags, "authdata"]),
        );
        assert_eq!(ours, theirs);
        assert_eq!(ours.0, Some(0));
    }
    daemon.stop();
}
