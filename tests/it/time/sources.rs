//! Whom the agent asks: servers that are right, wrong, silent or away, and a clock of its own.

use std::os::unix::net::UnixDatagram;

use clocks::refclock::sock::Sample;
use tests::time::{Agent, Chronyd, PATIENCE, Says, Server, ask_patiently};
use tests::wait;
use time_model::view::Leap;
use timesync_agent::system::clock;

/// Often enough for a test.
const OFTEN: &str = "iburst minpoll -2 maxpoll -2";

#[track_caller]
fn wait_ready(agent: &Agent) {
    wait::for_it("it is ready", PATIENCE, || {
        agent.get("/readyz").is_ok_and(|(code, _)| code == 200)
    });
}

fn source<'a>(status: &'a serde_json::Value, server: &Server) -> &'a serde_json::Value {
    let ip = server.address.ip().to_string();
    let sources = status["sources"].as_array().expect("a list");
    let found = sources
        .iter()
        .find(|source| source["address"] == ip.as_str());
    found.unwrap_or_else(|| panic!("no {ip} in {status:#}"))
}

#[test]
fn clients_are_given_the_time_of_who_is_followed() {
    let server = Server::on_loopback(Says {
        ahead: 0.25,
        ..Says::default()
    });
    let agent = Agent::on_loopback(&format!("{}allow 127.0.0.0/8\n", server.line(OFTEN)));
    let daemon = agent.start();
    let status = agent.wait_state(&["locked", "syncing"]);
    assert_eq!(status["stratum"], 2);
    assert_eq!(status["corrects_clock"], false);
    // The agent leaves the clock alone, and corrects the served time.
    agent.wait_offset(0.25, 0.01);
    // The rest of the process hears of it a moment later.
    wait_ready(&agent);
    daemon.stop();
}

#[test]
fn who_knows_no_time_is_not_ready_and_says_so_to_clients() {
    let server = Server::on_loopback(Says {
        is_silent: true,
        ..Says::default()
    });
    let agent = Agent::on_loopback(&format!("{}allow 127.0.0.0/8\n", server.line(OFTEN)));
    let daemon = agent.start();
    wait::for_it("the server is asked", PATIENCE, || server.n_requests() > 2);
    let (code, reasons) = agent.get("/readyz").unwrap();
    assert_eq!(code, 503);
    assert!(reasons.contains("clock: unsynchronised"), "{reasons}");
    let reply = ask_patiently(agent.address());
    assert_eq!((reply.leap(), reply.stratum), (3, 0), "{reply:?}");
    // It comes to itself when the server does.
    server.say(|says| says.is_silent = false);
    agent.wait_state(&["locked", "syncing"]);
    wait_ready(&agent);
    daemon.stop();
}

#[test]
fn a_falseticker_is_known_and_not_followed() {
    let good: Vec<Server> = (0..3)
        .map(|_| Server::on_loopback(Says::default()))
        .collect();
    let bad = Server::on_loopback(Says {
        ahead: 0.5,
        ..Says::default()
    });
    let lines: String = good
        .iter()
        .chain([&bad])
        .map(|server| server.line(OFTEN))
        .collect();
    let agent = Agent::on_loopback(&format!("{lines}allow 127.0.0.0/8\n"));
    let daemon = agent.start();
    let status = agent.wait_status("the falseticker is known", |status| {
        status["state"] == "locked" && source(status, &bad)["state"] == "falseticker"
    });
    for server in &good {
        let state = source(&status, server)["state"].as_str().unwrap();
        assert!(
            ["best", "combined", "outlier"].contains(&state),
            "{status:#}"
        );
    }
    agent.wait_offset(0.0, 0.05);
    daemon.stop();
}

#[test]
fn a_server_that_goes_away_leaves_a_clock_that_holds() {
    let server = Server::on_loopback(Says {
        ahead: 0.1,
        ..Says::default()
    });
    let agent = Agent::on_loopback(&format!("{}allow 127.0.0.0/8\n", server.line(OFTEN)));
    let daemon = agent.start();
    agent.wait_state(&["locked"]);
    server.say(|says| says.is_silent = true);
    let status = agent.wait_state(&["holdover"]);
    assert_eq!(status["sources"][0]["reach"], "0");
    agent.wait_offset(0.1, 0.01);
    assert_eq!(
        agent.get("/readyz").unwrap().0,
        200,
        "holding is good enough"
    );
    server.say(|says| says.is_silent = false);
    agent.wait_state(&["locked"]);
    daemon.stop();
}

#[test]
fn a_server_that_wants_to_be_left_alone_is_asked_less() {
    let server = Server::on_loopback(Says::default());
    let agent = Agent::on_loopback(&server.line("iburst minpoll -2 maxpoll 4"));
    let daemon = agent.start();
    agent.wait_state(&["locked", "syncing"]);
    let before = agent.status()["sources"][0]["poll"].as_i64().unwrap();
    server.say(|says| {
        says.stratum = 0;
        says.leap = 3;
        says.reference_id = u32::from_be_bytes(*b"RATE");
    });
    agent.wait_status("the interval is longer", |status| {
        status["sources"][0]["poll"]
            .as_i64()
            .is_some_and(|poll| poll > before)
    });
    daemon.stop();
}

#[test]
fn chronyd_is_followed_like_any_other_server() {
    let ip = tests::scratch::loopback();
    let keys = "1 SHA1 HEX:000102030405060708090a0b0c0d0e0f10111213\n";
    let agent = Agent::on_loopback("");
    let keys = agent.files.write("keys", keys);
    let _chronyd = Chronyd::on_loopback(&format!(
        "local stratum 5\nallow\nport 11124\nbindaddress {ip}\ncmdport 0\nkeyfile {}\n",
        keys.display()
    ));
    agent.configure(&format!(
        "server {ip} port 11124 {OFTEN} xleave key 1\nkeyfile {}\nallow 127.0.0.0/8\n",
        keys.display()
    ));
    let daemon = agent.start();
    let status = agent.wait_status("it is interleaved", |status| {
        status["state"] == "locked" && status["sources"][0]["interleaved"] == true
    });
    assert_eq!(status["stratum"], 6);
    assert_eq!(status["sources"][0]["authenticated"], true);
    agent.wait_offset(0.0, 0.05);
    daemon.stop();
}

#[test]
fn a_name_that_is_not_resolved_holds_up_nobody() {
    let server = Server::on_loopback(Says::default());
    let lines = format!(
        "server time.invalid iburst\n{}allow 127.0.0.0/8\n",
        server.line(OFTEN)
    );
    let agent = Agent::on_loopback(&lines);
    let daemon = agent.start();
    let status = agent.wait_state(&["locked"]);
    assert_eq!(status["unresolved_names"], 1, "{status:#}");
    daemon.stop();
}

#[test]
fn a_clock_of_tai_is_followed_without_anybody_else() {
    let agent = Agent::on_loopback("");
    let list = agent.files.write("leap-seconds.list", "3550089600 35\n");
    let path = agent.files.join("gps.sock");
    agent.configure(&format!(
        "refclock SOCK {} poll -1 dpoll -2 filter 2 tai\nleapseclist {}\n",
        path.display(),
        list.display()
    ));
    let daemon = agent.start();
    let writer = UnixDatagram::unbound().unwrap();
    agent.wait_status("it is followed", |status| {
        let sample = Sample {
            local: clock::wall(),
            offset: 35.0,
            is_pulse: false,
            leap: Leap::Normal,
        };
        // It listens a moment after the start.
        drop(writer.send_to(&sample.encode(), &path));
        status["state"] == "locked"
    });
    daemon.stop();
}
