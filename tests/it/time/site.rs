//! The agent among the other services: what healthd knows of it.

use serde_json::Value;
use tests::site::Site;
use tests::time::{Agent, PATIENCE, Says, Server};
use tests::wait;

/// The clock that healthd shows, if it knows one.
fn clock(site: &Site) -> Option<Value> {
    let (_, body) = site.get("healthd", "/status");
    let status: Value = serde_json::from_str(&body).ok()?;
    status["detail"]["clocks"].as_array()?.first().cloned()
}

#[test]
fn healthd_is_told_how_good_the_clock_is() {
    let site = Site::new();
    let server = Server::on_loopback(Says::default());
    let agent = Agent::on_loopback(&server.line("iburst minpoll -2 maxpoll -2"));
    let endpoint = format!("unix:{}", site.socket().display());
    // The agent comes first, and healthd when it likes.
    let daemon = tests::daemon::Daemon::start("timesync-agent", agent.serve_with(&endpoint));
    agent.wait_state(&["locked"]);
    let healthd = site.start("healthd");
    let of_state = |wanted: &str| {
        wait::until("healthd knows the clock", PATIENCE, || {
            clock(&site).filter(|clock| clock["state"] == wanted)
        })
    };
    let shown = of_state("locked");
    assert_eq!(
        (&shown["stratum"], &shown["sources"]),
        (&Value::from(2), &Value::from(1))
    );
    assert_eq!(shown["reference"], server.address.ip().to_string().as_str());
    assert_eq!(shown["stale"], false);
    let (_, page) = site.get("healthd", "/");
    assert!(
        page.contains("<h2>Clocks</h2>") && page.contains("locked to 127."),
        "{page}"
    );
    let (_, metrics) = site.get("healthd", "/metrics");
    assert!(metrics.contains("state=\"locked\"} 1.0"), "{metrics}");
    assert!(
        metrics.contains("healthd_clock_root_distance_seconds{"),
        "{metrics}"
    );

    // The agent reports a change, and reports it again to a healthd that was away.
    server.say(|says| says.is_silent = true);
    of_state("holdover");
    healthd.kill();
    server.say(|says| says.is_silent = false);
    agent.wait_state(&["locked"]);
    let healthd = site.start("healthd");
    of_state("locked");
    let status = agent.wait_status("it says so", |status| {
        status["healthd"]["connected"] == true
    });
    assert_eq!(status["healthd"]["error"], "");
    daemon.stop();
    healthd.stop();
}

#[test]
fn the_page_shows_the_clock_and_its_course() {
    let server = Server::on_loopback(Says::default());
    let agent = Agent::on_loopback(&server.line("iburst minpoll -2 maxpoll -2"));
    let daemon = agent.start();
    agent.wait_state(&["locked"]);
    let shown = wait::until("the page has a plot", PATIENCE, || {
        let (code, page) = agent.get("/").ok()?;
        (code == 200 && page.contains("<svg")).then_some(page)
    });
    let ip = server.address.ip();
    assert!(
        shown.contains(&format!("<td class=\"best\">best</td><td>{ip}</td>")),
        "{shown}"
    );
    assert!(
        shown.contains("<title>Offset: ") && shown.contains("<title>Frequency: "),
        "{shown}"
    );
    daemon.stop();
}
