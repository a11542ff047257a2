//! The whole life, seen from outside: the daemon runs as a process of its own, which is this test
//! program started again for the one test that is the daemon.

use super::*;
use crate::config::{AdminSpec, HumanDuration, LogSpec, Problem};
use crate::listen::{self, UdpOptions};
use crate::udp::{Collector, Datagram, Engine, EngineOptions, Outcome, Respond};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

const CONFIG_VARIABLE: &str = "DAEMON_BASE_TEST_CONFIG";

//--- The daemon

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Spec {
    #[serde(default)]
    log: LogSpec,
    #[serde(default)]
    admin: AdminSpec,
    #[serde(default)]
    drain: Option<HumanDuration>,
    listen: Vec<SocketAddr>,
    greeting: toml::Spanned<String>,
    #[serde(default)]
    work: HumanDuration,
    #[serde(default)]
    stall: bool,
    #[serde(default)]
    warm_up: HumanDuration,
    #[serde(default)]
    gives_up: Option<HumanDuration>,
}

/// The keys whose change is reported.
#[derive(Clone, Serialize, JsonSchema)]
struct File {
    #[schemars(extend("x-reload" = "restart"))]
    work: u64,
    greeting: String,
}

struct Config {
    common: Common,
    file: File,
    listen: Vec<SocketAddr>,
    greeting: String,
    work: Duration,
    stall: bool,
    warm_up: Duration,
    gives_up: Option<Duration>,
}

fn load() -> Result<Config, Problems> {
    let path = std::env::var_os(CONFIG_VARIABLE).unwrap_or_default();
    let document = crate::config::read(PathBuf::from(path))?;
    let spec: Spec = document.parse()?;
    if spec.greeting.get_ref().is_empty() {
        return Err(document
            .problem(spec.greeting.span(), "a greeting has words")
            .into());
    }
    let default_admin = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(Config {
        common: Common::new(spec.log, spec.admin, spec.drain, default_admin),
        file: File {
            work: spec.work.0.as_secs(),
            greeting: spec.greeting.get_ref().clone(),
        },
        listen: spec.listen,
        greeting: spec.greeting.into_inner(),
        work: spec.work.0,
        stall: spec.stall,
        warm_up: spec.warm_up.0,
        gives_up: spec.gives_up.map(|after| after.0),
    })
}

/// Greets whoever sends a datagram.
struct Greeter {
    engine: Engine,
    greeting: Arc<crate::latest::Latest<String>>,
    address: SocketAddr,
    work: Duration,
    gives_up: Option<Duration>,
}

struct Greet(crate::latest::Reader<String>);

impl Respond for Greet {
    fn refresh(&mut self) {
        self.0.refresh();
    }

    fn respond(&mut self, _: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let greeting = self.0.get().as_bytes();
        reply[..greeting.len()].copy_from_slice(greeting);
        Outcome::Reply(greeting.len())
    }
}

impl Service for Greeter {
    const NAME: &'static str = "greeter";
    type Config = Config;
    type Status = Value;
    type File = File;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &File {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        let is_odd = config.greeting == "odd";
        is_odd
            .then(|| "no guest expects this".to_owned())
            .into_iter()
            .collect()
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let options = UdpOptions::default();
        let sockets = listen::udp(&mut context.inherited, "greet", &config.listen, options)?;
        let address = sockets[0].local_addr()?;
        let greeting = crate::latest::Latest::new(config.greeting);
        let engine = Engine::start(sockets, 1, EngineOptions::default(), |_| {
            Greet(crate::latest::Reader::new(Arc::clone(&greeting)))
        })?;
        context.progress.register_all(engine.heartbeats());
        if config.stall {
            // Held by somebody who never counts it up.
            let beat = Heartbeat::default();
            context.progress.register("lazy", Arc::clone(&beat));
            Box::leak(Box::new(beat));
        }
        let latch = context.readiness.latch("words");
        tokio::spawn(async move {
            tokio::time::sleep(config.warm_up).await;
            latch.release();
        });
        let collector = Collector::new("greeter", engine.counters());
        context.metrics.register_collector(collector);
        context.admin.post("/echo", |request| async move {
            crate::admin::Reply::text(200, request.text())
        });
        Ok(Self {
            engine,
            greeting,
            address,
            work: config.work,
            gives_up: config.gives_up,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        tokio::time::sleep(config.work).await;
        if config.greeting == "never" {
            return Err(Problem::new("the greeter refuses to say never").into());
        }
        self.greeting.publish(config.greeting);
        Ok(format!("generation {}", self.greeting.generation()))
    }

    fn status(&self) -> Value {
        json!({ "address": self.address.to_string() })
    }

    async fn failure(&self) -> Box<dyn Error + Send + Sync> {
        match self.gives_up {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
        "the greeter has lost its voice".into()
    }

    async fn drain(self, deadline: Duration) -> bool {
        self.engine.stop();
        tokio::time::sleep(self.work.min(deadline)).await;
        self.work <= deadline
    }
}

/// What to serve is in the environment.
#[derive(Clone, Debug, Default, clap::Args)]
struct NoArgs {}

#[test]
#[ignore = "the daemon itself, which the other tests run as a process of its own"]
fn daemon() {
    let directory = PathBuf::from(std::env::var_os(CONFIG_VARIABLE).unwrap_or_default());
    let slot = SlotArgs {
        slot: None,
        admin_socket: Some(directory.with_file_name("admin.sock")),
    };
    let args = ServeArgs {
        slot,
        ..ServeArgs::default()
    };
    let code = serve::<Greeter, NoArgs>(&args, |_| load());
    crate::outln!("ended with {code:?}");
}

//--- The outside

struct Process {
    child: Child,
    directory: TempDir,
    manager: UnixDatagram,
}

/// A configuration with these lines besides those every test needs.
fn config(lines: &str) -> String {
    format!(
        "version = \"v1\"\nlisten = [\"127.0.0.1:0\"]\n{lines}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n"
    )
}

impl Process {
    fn start(lines: &str) -> Self {
        Self::start_with(&config(lines), None, &[])
    }

    fn start_with(config: &str, inherited: Option<OwnedFd>, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("config.toml"), config).unwrap();
        let manager = UnixDatagram::bind(path.join("notify")).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // The shell turns standard input into descriptor 3 and knows its own process id.
        let script = match inherited {
            Some(_) => "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=greet exec \"$0\" \"$@\" 3<&0",
            None => "exec \"$0\" \"$@\"",
        };
        let log = fs::File::create(path.join("log")).unwrap();
        let output = fs::File::create(path.join("output")).unwrap();
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .args(["run::tests::daemon", "--exact", "--ignored", "--nocapture"])
            .env(CONFIG_VARIABLE, path.join("config.toml"))
            .env("NOTIFY_SOCKET", path.join("notify"))
            .envs(variables.iter().copied())
            .stdin(inherited.map_or_else(Stdio::null, Stdio::from))
            .stdout(output)
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            directory,
            manager,
        }
    }

    /// The next message to the service manager that is not about the watchdog.
    fn notified(&self) -> String {
        loop {
            let message = self.next_message();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    fn next_message(&self) -> String {
        let mut buffer = [0; 1024];
        let length = self.manager.recv(&mut buffer).unwrap_or_else(|error| {
            panic!(
                "no message to the service manager: {error}; log:\n{}",
                self.log()
            )
        });
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Where the admin listener is, from the log.
    fn admin(&self) -> SocketAddr {
        let log = self.log();
        let ready = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|event| event["message"] == "Ready")
            .unwrap_or_else(|| panic!("not ready:\n{log}"));
        ready["admin"].as_str().unwrap().parse().unwrap()
    }

    fn get(&self, path: &str) -> (u16, String) {
        let answer = block_on(crate::admin::get(self.admin(), path)).unwrap();
        (answer.status, answer.text())
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status").1).unwrap()
    }

    fn greeted_at(&self, address: SocketAddr) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket.send_to(b"hello", address).unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn greeted(&self) -> String {
        let address = self.status()["detail"]["address"].as_str().unwrap().parse();
        self.greeted_at(address.unwrap())
    }

    fn rewrite(&self, lines: &str) {
        fs::write(self.directory.path().join("config.toml"), config(lines)).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Waits for the end and returns the exit code.
    fn ended(mut self) -> u8 {
        self.child.wait().unwrap();
        let mut output = String::new();
        fs::File::open(self.directory.path().join("output"))
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        let (_, code) = output
            .rsplit_once("unix_exit_status(")
            .unwrap_or_else(|| panic!("no exit code in {output}; log:\n{}", self.log()));
        code.split_once(')').unwrap().0.parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_daemon_starts_serves_reloads_and_ends() {
    let process = Process::start("greeting = \"good day\"");
    assert_eq!(process.notified(), "READY=1");
    assert_eq!(process.get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(process.get("/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(process.greeted(), "good day");
    let status = process.status();
    assert_eq!(status["service"], "greeter");
    assert_eq!(status["state"], "serving");
    assert_eq!(status["ready"], true);
    assert_eq!(status["pid"], process.child.id());

    process.rewrite("greeting = \"good night\"");
    process.signal(Signal::HUP);
    let message = process.notified();
    let (state, time) = message.split_once("\nMONOTONIC_USEC=").unwrap();
    assert_eq!(state, "RELOADING=1");
    assert!(time.parse::<u64>().unwrap() > 0);
    assert_eq!(process.notified(), "READY=1");
    // An idle thread looks for a new snapshot when the next datagram has come.
    assert_eq!(process.greeted(), "good night");

    process.signal(Signal::TERM);
    assert_eq!(process.notified(), "STOPPING=1");
    assert_eq!(process.ended(), exit::OK);
}

#[test]
fn a_reload_with_a_problem_changes_nothing_and_is_told() {
    let process = Process::start("greeting = \"good day\"");
    assert_eq!(process.notified(), "READY=1");
    for (lines, told) in [
        ("greeting = \"\"", "config.toml:3:12: a greeting has words"),
        (
            "greting = \"x\"",
            "config.toml:3:1: unknown key `greting`, did you mean `greeting`?",
        ),
        ("greeting = \"never\"", "the greeter refuses to say never"),
    ] {
        process.rewrite(lines);
        process.signal(Signal::HUP);
        assert!(process.notified().starts_with("RELOADING=1"));
        assert_eq!(process.notified(), "READY=1");
        assert_eq!(process.greeted(), "good day");
        let (status, text) = process.get("/readyz");
        assert_eq!(status, 200);
        assert!(text.starts_with("ok\nreload: refused"), "{text}");
        assert!(text.contains(told), "{text}");
        // The log is JSON, which puts a backslash before a quote.
        let log = process.log().replace("\\\"", "\"");
        assert!(log.contains(told), "{log}");
    }
    let metrics = process.get("/metrics").1;
    assert!(
        metrics.contains("\noutpost_reload_failed_total 3\n"),
        "{metrics}"
    );
    assert!(metrics.contains("\noutpost_ready 1\n"), "{metrics}");
    // A reply is counted just after it is sent.
    let counted = (0..100).any(|_| {
        let metrics = process.get("/metrics").1;
        metrics.contains("\ngreeter_udp_sent_datagrams_total 3\n")
    });
    assert!(counted, "{metrics}");
    process.rewrite("greeting = \"evening\"");
    process.signal(Signal::HUP);
    assert!(process.notified().starts_with("RELOADING=1"));
    assert_eq!(process.notified(), "READY=1");
    assert_eq!(process.get("/readyz").1, "ok\n");
    let metrics = process.get("/metrics").1;
    assert!(metrics.contains("\noutpost_reload_total 1\n"), "{metrics}");
}

#[test]
fn readiness_is_announced_when_the_last_latch_is_released() {
    let process = Process::start("greeting = \"x\"\nwarm-up = \"10s\"");
    process.manager.set_nonblocking(true).unwrap();
    while !process.log().contains("Starting") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(process.manager.recv(&mut [0; 64]).is_err());
    process.manager.set_nonblocking(false).unwrap();
    assert_eq!(process.notified(), "READY=1");
    assert_eq!(process.status()["state"], "serving");
}

#[test]
fn a_service_that_cannot_go_on_drains_and_ends_with_an_error() {
    let process = Process::start("greeting = \"x\"\ngives-up = \"200ms\"");
    assert_eq!(process.notified(), "READY=1");
    assert_eq!(
        process.notified(),
        "STATUS=failed: the greeter has lost its voice"
    );
    assert_eq!(process.notified(), "STOPPING=1");
    let log = process.directory.path().join("log");
    while !fs::read_to_string(&log).unwrap().contains("Drained") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("the greeter has lost its voice"), "{told}");
    assert_eq!(process.ended(), exit::SOFTWARE);
}

#[test]
fn a_reload_asked_for_during_a_reload_is_not_lost() {
    let process = Process::start("greeting = \"one\"\nwork = \"500ms\"");
    assert_eq!(process.notified(), "READY=1");
    process.rewrite("greeting = \"two\"\nwork = \"500ms\"");
    process.signal(Signal::HUP);
    assert!(process.notified().starts_with("RELOADING=1"));
    // The first reload has read its file when it says so, or reads this one.
    std::thread::sleep(Duration::from_millis(100));
    process.rewrite("greeting = \"three\"");
    process.signal(Signal::HUP);
    assert_eq!(process.notified(), "READY=1");
    assert!(process.notified().starts_with("RELOADING=1"));
    assert_eq!(process.notified(), "READY=1");
    assert_eq!(process.greeted(), "three");
}

#[test]
fn a_stop_during_a_reload_is_obeyed() {
    let process = Process::start("greeting = \"one\"");
    assert_eq!(process.notified(), "READY=1");
    process.rewrite("greeting = \"two\"\nwork = \"1h\"");
    process.signal(Signal::HUP);
    assert!(process.notified().starts_with("RELOADING=1"));
    assert_eq!(process.status()["state"], "reloading");
    process.signal(Signal::TERM);
    assert_eq!(process.notified(), "STOPPING=1");
    assert_eq!(process.ended(), exit::OK);
}

#[test]
fn a_refused_configuration_ends_with_its_code() {
    for (text, told) in [
        (
            config("greeting = \"\""),
            "config.toml:3:12: a greeting has words",
        ),
        ("version = \"v9\"\n".to_owned(), "unknown version `v9`"),
    ] {
        let mut process = Process::start_with(&text, None, &[]);
        process.child.wait().unwrap();
        assert!(process.log().contains(told), "{}", process.log());
        assert_eq!(process.ended(), exit::CONFIG);
    }
}

#[test]
fn a_taken_port_ends_the_start_and_says_by_whom() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let text = config("greeting = \"x\"").replace("127.0.0.1:0\"]", &format!("{address}\"]"));
    let mut process = Process::start_with(&text, None, &[]);
    assert!(
        process
            .notified()
            .starts_with("STATUS=start failed: cannot listen on udp")
    );
    process.child.wait().unwrap();
    let us = format!("(pid {})", std::process::id());
    let log = process.log();
    assert!(
        log.contains(&format!("udp {address}, taken by ")) && log.contains(&us),
        "{log}"
    );
    assert_eq!(process.ended(), exit::SOFTWARE);
}

#[test]
fn a_second_request_to_stop_ends_a_long_drain_at_once() {
    let process = Process::start("greeting = \"x\"\nwork = \"1h\"\ndrain = \"2h\"");
    assert_eq!(process.notified(), "READY=1");
    let admin = process.admin();
    process.signal(Signal::TERM);
    assert_eq!(process.notified(), "STOPPING=1");
    // Not ready, and it says so for as long as it drains.
    let answer = block_on(crate::admin::get(admin, "/readyz")).unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (503, "waiting: end of the process\n")
    );
    process.signal(Signal::INT);
    assert_eq!(process.ended(), exit::OK);
}

#[test]
fn a_drain_ends_at_its_deadline() {
    let mut process = Process::start("greeting = \"x\"\nwork = \"1h\"\ndrain = \"100ms\"");
    assert_eq!(process.notified(), "READY=1");
    process.signal(Signal::TERM);
    process.child.wait().unwrap();
    assert!(
        process.log().contains("Drain ran out of time"),
        "{}",
        process.log()
    );
    assert_eq!(process.ended(), exit::OK);
}

#[test]
fn inherited_sockets_outlive_the_process_and_lose_nothing() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let start = |greeting: &str| {
        let shared = OwnedFd::from(socket.try_clone().unwrap());
        let text = config(&format!("greeting = \"{greeting}\""));
        Process::start_with(&text, Some(shared), &[])
    };
    let first = start("first");
    assert_eq!(first.notified(), "READY=1");
    assert_eq!(first.greeted_at(address), "first");
    let second = start("second");
    assert_eq!(second.notified(), "READY=1");
    first.signal(Signal::TERM);
    assert_eq!(first.ended(), exit::OK);
    assert_eq!(second.greeted_at(address), "second");
    second.signal(Signal::TERM);
    assert_eq!(second.ended(), exit::OK);
    // With nobody there a datagram waits for the next process.
    let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.send_to(b"hello", address).unwrap();
    let third = start("third");
    let mut buffer = [0; 16];
    let length = asker.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"third");
    drop(third);
}

#[test]
fn the_watchdog_is_fed_while_the_data_path_moves() {
    let text = config("greeting = \"x\"");
    let process = Process::start_with(&text, None, &[("WATCHDOG_USEC", "1000000")]);
    assert_eq!(process.notified(), "READY=1");
    for _ in 0..4 {
        assert_eq!(process.next_message(), "WATCHDOG=1");
    }
}

#[test]
fn the_watchdog_starves_when_a_data_path_stands_still() {
    let text = config("greeting = \"x\"\nstall = true");
    let process = Process::start_with(&text, None, &[("WATCHDOG_USEC", "400000")]);
    assert_eq!(process.notified(), "READY=1");
    process
        .manager
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    // Fed until it is noticed, then no more.
    let mut buffer = [0; 64];
    let mut fed = 0;
    while process.manager.recv(&mut buffer).is_ok() {
        fed += 1;
        assert!(fed < 40, "it is fed on and on");
    }
    assert_eq!(
        process.get("/livez"),
        (503, "lazy makes no progress\n".to_owned())
    );
    let (status, text) = process.get("/readyz");
    assert_eq!(
        (status, text.as_str()),
        (503, "progress: no progress in lazy\n")
    );
}

#[test]
fn changes_are_taken_by_post_alone() {
    let process = Process::start("greeting = \"x\"");
    assert_eq!(process.notified(), "READY=1");
    let socket = process.directory.path().join("admin.sock");
    assert_eq!(
        process.status()["admin_socket"],
        socket.display().to_string()
    );
    let echo = block_on(crate::admin::post(socket.as_path(), "/echo", "said")).unwrap();
    assert_eq!((echo.status, echo.text().as_str()), (200, "said"));
    let refused = block_on(crate::admin::post(process.admin(), "/echo", "said")).unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text());
    let (status, text) = process.get("/echo");
    assert_eq!((status, text.as_str()), (405, "this path takes POST\n"));
    let (status, text) = process.get("/nowhere");
    assert_eq!(status, 404);
    assert!(
        text.contains("GET /readyz\n") && text.contains("POST /echo\n"),
        "{text}"
    );
    let shown = block_on(crate::admin::post(process.admin(), "/status", "")).unwrap();
    assert_eq!(shown.status, 405);
}

#[test]
fn the_admin_address_is_taken_over_from_the_slot_that_ends() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = free.local_addr().unwrap();
    drop(free);
    let start = || {
        let shared = OwnedFd::from(socket.try_clone().unwrap());
        let text = config("greeting = \"x\"").replace(
            "[admin]\nlisten = \"127.0.0.1:0\"",
            &format!("[admin]\nlisten = \"{admin}\""),
        );
        Process::start_with(&text, Some(shared), &[])
    };
    let pid = || {
        let answer = block_on(crate::admin::get(admin, "/status")).ok()?;
        serde_json::from_slice::<Value>(&answer.body).ok()?["pid"].as_u64()
    };
    let first = start();
    assert_eq!(first.notified(), "READY=1");
    assert_eq!(pid(), Some(u64::from(first.child.id())));
    let second = start();
    assert_eq!(second.notified(), "READY=1");
    assert_eq!(pid(), Some(u64::from(first.child.id())));
    first.signal(Signal::TERM);
    assert_eq!(first.ended(), exit::OK);
    let expected = Some(u64::from(second.child.id()));
    let taken_over = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        pid() == expected
    });
    assert!(taken_over, "{}", second.log());
}

#[test]
fn a_stranger_on_the_admin_address_ends_the_start() {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = stranger.local_addr().unwrap();
    let text = config("greeting = \"x\"").replace(
        "[admin]\nlisten = \"127.0.0.1:0\"",
        &format!("[admin]\nlisten = \"{admin}\""),
    );
    let process = Process::start_with(&text, None, &[]);
    let told = process.notified();
    assert!(told.contains(&format!("tcp {admin}, taken by ")), "{told}");
    assert_eq!(process.ended(), exit::SOFTWARE);
}

#[test]
fn what_a_daemon_declares_is_logged_at_the_start_and_at_reloads() {
    let process = Process::start("greeting = \"odd\"");
    assert_eq!(process.notified(), "READY=1");
    let count = |sentence: &str| process.log().matches(sentence).count();
    assert_eq!(count("no guest expects this"), 1);
    let reload = |more: &str| {
        fs::write(process.directory.path().join("config.toml"), config(more)).unwrap();
        process.signal(Signal::HUP);
        assert!(process.notified().starts_with("RELOADING=1"));
        assert_eq!(process.notified(), "READY=1");
    };
    reload("greeting = \"x\"");
    assert_eq!(count("change with the next restart"), 0);
    reload("greeting = \"odd\"\nwork = \"7s\"");
    assert_eq!(count("no guest expects this"), 2);
    assert_eq!(count("These keys change with the next restart"), 1);
    assert!(process.log().contains("work"), "{}", process.log());
}

#[test]
fn the_log_follows_the_configuration() {
    let process = Process::start("greeting = \"x\"");
    assert_eq!(process.notified(), "READY=1");
    let reload = |level: &str| {
        let text =
            config("greeting = \"x\"").replace("[log]", &format!("[log]\nlevel = \"{level}\""));
        fs::write(process.directory.path().join("config.toml"), text).unwrap();
        process.signal(Signal::HUP);
        assert!(process.notified().starts_with("RELOADING=1"));
        assert_eq!(process.notified(), "READY=1");
        process.log().matches("Reloaded").count()
    };
    // The line about a reload is itself the first at the new level.
    assert_eq!(reload("warn"), 0);
    assert_eq!(reload("error"), 0);
    assert_eq!(reload("info"), 1);
    assert_eq!(reload("trace"), 2);
}
