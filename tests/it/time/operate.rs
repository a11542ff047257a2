//! The life of the agent: checks, reloads, restarts, a successor.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tests::daemon::{Daemon, run};
use tests::sockets::Held;
use tests::time::{Agent, PATIENCE, Says, Server, ask, ask_patiently, now, request};
use tests::wait;

#[test]
fn check_names_everything_that_is_wrong() {
    let agent = Agent::on_loopback("srever ntp.example.org\npool\nmakestep 1 x\n");
    let mut command = agent.command("check");
    command
        .arg("--chrony-conf")
        .arg(agent.files.join("chrony.conf"));
    let (status, stdout, stderr) = run(command);
    assert_eq!(status.code(), Some(78), "{stdout}{stderr}");
    for place in [":7:1: ", ":8:5: ", ":9:12: "] {
        assert!(stdout.contains(place), "no {place} in {stdout}");
    }
    // An obsolete directive of chronyd is a warning.
    agent.configure("server ntp.example.org\ncommandkey 1\n");
    let mut command = agent.command("check");
    command
        .arg("--chrony-conf")
        .arg(agent.files.join("chrony.conf"));
    let (status, stdout, stderr) = run(command);
    assert_eq!(status.code(), Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("warning: ") && stdout.contains("commandkey"),
        "{stdout}"
    );
}

#[test]
fn check_refuses_a_configuration_whose_sources_are_all_left_out() {
    let agent = Agent::on_loopback("");
    let sources = agent.files.join("sources.d");
    std::fs::create_dir(&sources).unwrap();
    agent.configure(&format!("sourcedir {}\n", sources.display()));
    let check = |lines: &str| {
        std::fs::write(sources.join("site.sources"), lines).unwrap();
        let mut command = agent.command("check");
        command
            .arg("--chrony-conf")
            .arg(agent.files.join("chrony.conf"));
        let (status, stdout, stderr) = run(command);
        (status.code(), stdout + &stderr)
    };
    let secure = "server nts.example.org iburst nts\npool nts.example.net iburst nts\n";
    let (code, text) = check(secure);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("no usable source is left"), "{text}");
    assert!(text.contains("warning: ") && text.contains("nts"), "{text}");
    // One that can be used is enough, and none at all is what the operator wants.
    for lines in [&format!("{secure}server ntp.example.org\n")[..], ""] {
        let (code, text) = check(lines);
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_file_with_a_problem_changes_nothing() {
    let server = Server::on_loopback(Says::default());
    let another = Server::on_loopback(Says::default());
    let line = |server: &Server| server.line("iburst minpoll -2 maxpoll -2");
    let agent = Agent::on_loopback(&line(&server));
    let daemon = agent.start();
    agent.wait_state(&["locked", "syncing"]);
    agent.configure("srever nowhere\n");
    daemon.hang_up();
    daemon.wait_log("srever");
    let n = server.n_requests();
    wait::for_it("the server is asked as before", PATIENCE, || {
        server.n_requests() > n
    });
    assert_eq!(agent.status()["sources"].as_array().map(Vec::len), Some(1));
    // A good one is applied, and sources in both continue.
    agent.configure(&format!("{}{}", line(&server), line(&another)));
    daemon.hang_up();
    let status = agent.wait_status("both are asked", |status| {
        let sources = status["sources"].as_array();
        sources.is_some_and(|sources| {
            sources.iter().all(|source| source["reach"] != "0") && sources.len() == 2
        })
    });
    assert_ne!(status["state"], "unsynchronised");
    daemon.stop();
}

#[test]
fn what_is_known_of_the_clock_outlives_the_process() {
    let agent = Agent::on_loopback("");
    std::fs::write(
        agent.drift_file(),
        "            -23.456             0.500\n",
    )
    .unwrap();
    let daemon = agent.start();
    let frequency = |status: &serde_json::Value| status["frequency_ppm"].as_f64().unwrap_or(0.0);
    let status = agent.wait_status("the drift is taken up", |status| frequency(status) != 0.0);
    assert!((frequency(&status) + 23.456).abs() < 1e-3, "{status:#}");
    daemon.stop();

    // Learned from a server, written at the end, and read by the next one.
    std::fs::remove_file(agent.drift_file()).unwrap();
    let server = Server::on_loopback(Says::default());
    agent.configure(&server.line("iburst minpoll -3 maxpoll -3"));
    let daemon = agent.start();
    agent.wait_status("it has learned", |status| {
        status["state"] == "locked" && status["updates"].as_u64().is_some_and(|n| n > 12)
    });
    daemon.stop();
    let text = std::fs::read_to_string(agent.drift_file()).expect("the drift is kept");
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(numbers.len(), 2, "{text}");
    server.say(|says| says.is_silent = true);
    let daemon = agent.start();
    let status = agent.wait_status("it answers", |status| status.is_object());
    assert!(
        (frequency(&status) - numbers[0]).abs() < 2e-3,
        "{numbers:?} {status:#}"
    );
    daemon.stop();
}

#[test]
fn who_cannot_go_on_ends_with_an_error() {
    let server = Server::on_loopback(Says::default());
    let lines = server.line("iburst minpoll -3 maxpoll -3");
    let agent = Agent::on_loopback(&format!("{lines}maxchange 100 3 0\n"));
    let mut daemon = agent.start();
    agent.wait_status("it has updates", |status| {
        status["updates"].as_u64().is_some_and(|n| n > 6)
    });
    // No clock changes by as much on its own: something is badly wrong, and another process may find out what.
    server.say(|says| says.ahead = 1000.0);
    assert_eq!(daemon.wait().code(), Some(70));
    daemon.wait_log("maxchange");
    assert!(
        agent.drift_file().exists(),
        "what was learned of the frequency is kept"
    );
}

/// Asks all the time, and counts what is not answered.
struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<Vec<u64>>,
}

impl Load {
    fn start(address: std::net::SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let thread = std::thread::spawn({
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            move || ask_until(&socket, &stop, &sent)
        });
        Self { stop, sent, thread }
    }

    /// Waits for this many more requests.
    fn wait(&self, n: u64) {
        let until = self.sent.load(Ordering::Relaxed) + n;
        wait::for_it("requests are sent", PATIENCE, || {
            self.sent.load(Ordering::Relaxed) >= until
        });
    }

    /// How many were sent, and which of them were not answered.
    fn stop(self) -> (u64, Vec<u64>) {
        self.stop.store(true, Ordering::Relaxed);
        let lost = self.thread.join().unwrap();
        (self.sent.load(Ordering::Relaxed), lost)
    }
}

fn ask_until(socket: &UdpSocket, stop: &AtomicBool, sent: &AtomicU64) -> Vec<u64> {
    socket.set_nonblocking(true).unwrap();
    let mut waiting = std::collections::BTreeMap::new();
    let receive = |waiting: &mut std::collections::BTreeMap<u64, u64>| {
        let mut buffer = [0; 64];
        while let Ok(length) = socket.recv(&mut buffer) {
            assert_eq!(length, 48);
            waiting.remove(&u64::from_be_bytes(buffer[24..32].try_into().unwrap()));
        }
    };
    while !stop.load(Ordering::Relaxed) {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let stamp = now() ^ number;
        waiting.insert(stamp, number);
        socket.send(&request(stamp)).unwrap();
        // A socket's default buffer holds as much as comes in two seconds and more, then: as long as a loaded machine may take to
        // start a process.
        std::thread::sleep(Duration::from_millis(10));
        receive(&mut waiting);
    }
    // Whatever is on its way.
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(20));
        receive(&mut waiting);
        if waiting.is_empty() {
            break;
        }
    }
    waiting.into_values().collect()
}

#[test]
fn a_successor_takes_over_the_sockets_and_no_request_is_lost() {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\n");
    take_over(&agent, &agent.serve());
}

#[test]
fn the_loop_itself_takes_over_sockets_too() {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\n");
    let command = with_batch(&agent, false)();
    take_over(&agent, &command);
}

#[test]
fn a_successor_is_synchronised_from_its_first_answer() {
    for batch in [true, false] {
        let server = Server::on_loopback(Says::default());
        let line = server.line("iburst minpoll -2 maxpoll -2");
        let agent = Agent::on_loopback(&format!("{line}allow 127.0.0.0/8\n"));
        let serve = with_batch(&agent, batch);
        let held = Held::bind(agent.address());
        let start = |number| {
            let serve = at_socket(&agent, &serve(), number);
            Daemon::start("timesync-agent", held.hand_to("ntp", &serve))
        };
        let first = start(1);
        agent.wait_status("it has the time", |status| {
            status["state"] == "locked" && status["updates"].as_u64().is_some_and(|n| n > 6)
        });
        let before = ask_patiently(agent.address());
        assert_eq!((before.leap(), before.stratum), (0, 2));
        // The successor gets no time from a server.
        server.say(|says| says.is_silent = true);
        let next = start(2);
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut answers = Vec::new();
        // Until a process answers for a while, whichever it is.
        let mut n_since = 0;
        while n_since < 100 {
            assert!(std::time::Instant::now() < deadline, "{}", next.log());
            if let Ok(reply) = ask(agent.address()) {
                answers.push(reply);
                n_since += usize::from(next.log().contains("is taken over"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for reply in &answers {
            assert_eq!((reply.leap(), reply.stratum), (0, 2), "{reply:?}");
            assert_eq!(reply.reference_id, before.reference_id);
            // Half of what this process waits for its turn is in it.
            assert!(reply.offset.abs() < 0.5, "{reply:?}");
        }
        let mut offsets: Vec<f64> = answers.iter().map(|reply| reply.offset).collect();
        offsets.sort_by(f64::total_cmp);
        let median = offsets[offsets.len() / 2];
        assert!(median.abs() < 0.01, "{offsets:?}");
        // An unconfirmed time is less sure with time, and never surer.
        let growth =
            |pair: &[tests::time::Reply]| pair[1].root_dispersion - pair[0].root_dispersion;
        let is_silent = answers.len() - 100;
        assert!(
            answers[is_silent..]
                .windows(2)
                .all(|pair| growth(pair) >= 0.0),
            "{answers:?}"
        );
        let state = agent.status()["state"].clone();
        assert_eq!(state, "holdover", "{}", next.log());
        drop(first);
        next.stop();
    }
}

/// Serves with the threads of the server, or with the loop alone.
fn with_batch(agent: &Agent, batch: bool) -> impl Fn() -> std::process::Command {
    let lines = format!("node = \"test\"\nbatch = {batch}\n");
    move || agent.serve_by(agent.admin(), &lines)
}

/// The same command, whose process can be asked for what it has.
fn at_socket(agent: &Agent, serve: &std::process::Command, number: usize) -> std::process::Command {
    let mut command = std::process::Command::new(serve.get_program());
    command.args(serve.get_args());
    let socket = agent.files.join(&format!("{number}.admin"));
    command.arg("--admin-socket").arg(socket);
    command
}

/// Processes take over from one another while clients ask.
fn take_over(agent: &Agent, serve: &std::process::Command) {
    let held = Held::bind(agent.address());
    let start = |number| {
        let serve = at_socket(agent, serve, number);
        let daemon = Daemon::start("timesync-agent", held.hand_to("ntp", &serve));
        // The next one takes this address over in its turn.
        let own = format!("\"pid\":{}", daemon.id());
        wait::for_it("it has the admin address", PATIENCE, || {
            let status = agent.get("/status").map_or(String::new(), |(_, text)| text);
            status.replace(' ', "").contains(&own)
        });
        daemon
    };
    let mut serving = start(0);
    let load = Load::start(agent.address());
    for number in 1..=3 {
        load.wait(80);
        let next = start(number);
        load.wait(80);
        std::mem::replace(&mut serving, next).stop();
    }
    load.wait(80);
    let (n, lost) = load.stop();
    assert!(lost.is_empty(), "lost {lost:?} of {n}");
    serving.stop();
}

#[test]
fn a_process_that_was_handed_nothing_ends_and_says_who_is_there() {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\n");
    let daemon = agent.start();
    let owner = format!("(pid {})", daemon.id());
    // The same admin address; another one, and the same port of NTP.
    for (admin, taken) in [
        (agent.admin(), format!("tcp {}", agent.admin())),
        (
            tests::scratch::at(agent.ip, 9407),
            format!("udp {}", agent.address()),
        ),
    ] {
        let (status, stdout, stderr) = run(agent.serve_by(admin, ""));
        let text = stdout + &stderr;
        assert_eq!(status.code(), Some(70), "{text}");
        let told = format!("cannot listen on {taken}, taken by ");
        assert!(text.contains(&told) && text.contains(&owner), "{text}");
    }
    daemon.stop();
}

#[test]
fn asked_once_it_measures_and_ends() {
    let server = Server::on_loopback(Says {
        ahead: 0.125,
        ..Says::default()
    });
    let agent = Agent::on_loopback(&server.line("iburst"));
    let mut command = agent.serve();
    command.arg("-Q");
    let (status, stdout, stderr) = run(command);
    let text = format!("{stdout}{stderr}");
    assert!(status.success(), "{text}");
    assert!(text.contains("0.1"), "{text}");
    // No process there: it says so, and does not wait for ever.
    server.say(|says| says.is_silent = true);
    let mut command = agent.serve();
    command.args(["-Q", "-t", "3"]);
    let (status, stdout, stderr) = run(command);
    assert!(!status.success(), "{stdout}{stderr}");
}
