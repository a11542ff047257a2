//! Files beside the configuration: those that it names are looked at, and logs are written as chronyd writes them.

use std::path::{Path, PathBuf};

use tests::daemon::run;
use tests::time::{Agent, Chronyd, PATIENCE, Says, Server};
use tests::wait;

/// The output of `check` for an agent's chrony.conf, and its exit code.
fn check(agent: &Agent) -> (Option<i32>, String) {
    let mut command = agent.command("check");
    command
        .arg("--chrony-conf")
        .arg(agent.files.join("chrony.conf"));
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout + &stderr)
}

#[test]
fn check_reads_every_file_that_is_named() {
    let agent = Agent::on_loopback("");
    let file = |name: &str, text: &str| agent.files.write(name, text).display().to_string();
    let (keys, leaps) = (file("keys", "1 0123456789\n2\n"), file("leaps", "x\n"));
    let (points, sensor) = (file("points", "20000 1\n21000 0.5\n"), file("sensor", "-"));
    let drift = file("drift", "fast\n");
    agent.configure(&format!(
        "server 127.9.8.7 key 7 offline\nkeyfile {keys}\nleapseclist {leaps}\ntempcomp {sensor} 30 {points}\n"
    ));
    let (code, text) = check(&agent);
    assert_eq!(code, Some(0), "the time is kept all the same: {text}");
    for place in [
        format!("warning: {keys}:2:1: "),
        "warning: there is no key 7: 127.9.8.7 is not asked".to_owned(),
        format!("warning: {leaps}:1:1: "),
        format!("warning: {drift}:1:1: "),
        format!("warning: there is no temperature: cannot use {sensor}"),
    ] {
        assert!(text.contains(&place), "no {place} in {text}");
    }
    // chronyd does not start with this.
    agent.files.write("points", "20000 1\n19000 0.5\n");
    let (code, text) = check(&agent);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains(&format!("{points}:2:1: ")), "{text}");
}

#[test]
fn without_its_points_it_does_not_start_and_a_reload_changes_nothing() {
    let agent = Agent::on_loopback("");
    let points = agent.files.write("points", "20000 1\n21000 0.5\n");
    let sensor = agent.files.write("sensor", "20500\n");
    agent.configure(&format!(
        "tempcomp {} 1 {}\n",
        sensor.display(),
        points.display()
    ));
    let daemon = agent.start();
    agent.files.write("points", "20000 1\n");
    daemon.hang_up();
    daemon.wait_log("Reload refused, nothing has changed");
    daemon.stop();
    let (status, stdout, stderr) = run(agent.serve());
    let text = stdout + &stderr;
    assert_eq!(status.code(), Some(78), "{text}");
    assert!(text.contains(&points.display().to_string()), "{text}");
}

/// The end of a line's words.
fn ends(line: &str) -> Vec<usize> {
    let letters: Vec<char> = line.chars().collect();
    let is_end =
        |at: &usize| letters[*at] != ' ' && letters.get(at + 1).is_none_or(|letter| *letter == ' ');
    (0..letters.len()).filter(is_end).collect()
}

/// A log's heading, and its last line.
fn read(path: &Path) -> Option<(Vec<String>, String)> {
    let text = std::fs::read_to_string(path).ok()?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // A line that is being written has no end yet.
    let is_whole = text.ends_with('\n') && lines.len() > 6;
    is_whole.then(|| {
        (
            lines[..3].to_vec(),
            lines.last().cloned().unwrap_or_default(),
        )
    })
}

#[test]
fn logs_stand_in_chronyds_columns() {
    const LOGS: [&str; 4] = ["measurements", "selection", "statistics", "tracking"];
    let server = Server::on_loopback(Says::default());
    let agent = Agent::on_loopback("");
    let lines = |directory: &PathBuf| {
        format!(
            "{}logdir {}\nlog {}\n",
            server.line("iburst minpoll 0 maxpoll 0 trust"),
            directory.display(),
            LOGS.join(" ")
        )
    };
    let directories = ["ours", "theirs"].map(|name| agent.files.join(name));
    let [ours, theirs] = &directories;
    agent.configure(&lines(ours));
    let daemon = agent.start();
    let _chronyd = Chronyd::on_loopback(&format!("port 0\ncmdport 0\n{}", lines(theirs)));
    for log in LOGS {
        let [ours, theirs] = directories.each_ref().map(|directory| {
            let path = directory.join(format!("{log}.log"));
            wait::until(&format!("{} is written", path.display()), PATIENCE, || {
                read(&path)
            })
        });
        assert_eq!(ours.0, theirs.0, "{log}");
        assert_eq!(ends(&ours.1), ends(&theirs.1), "{log}: {ours:?} {theirs:?}");
    }
    daemon.stop();
}
