//! The virtual router under test: this test program again, on a machine, driven by lines.
//!
//! `apply JSON` edits it, `status` has it say what it shows. SIGTERM hands over, SIGINT releases.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use daemon::latest::Latest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tests::netns::Machine;
use tests::wait;
use tokio::io::{AsyncBufReadExt as _, BufReader as AsyncBufReader};
use tokio::signal::unix::{SignalKind, signal};
use vrrp::checksum::ChecksumForm;
use vrrp::machine::Departure;
use vrrp::packet::{Authentication, Refusal, Version};
use vrrp::priority::{PrioritySettings, WhenUnable};
use vrrp::settings::{Peers, RouterSettings, VirtualAddress};
use vrrp_net::{Hooks, LeaseStates, Observations, Resetting, VirtualRouter, Vrrp};

/// Says what the process is to be.
const VARIABLE: &str = "OUTPOST_TEST_VIRTUAL_ROUTER";

/// Begins lines that are not the test harness's.
const MARK: &str = "@";

/// The configuration of a virtual router.
#[derive(Clone, Debug)]
pub struct Settings {
    pub version: u8,
    pub router_id: u8,
    pub priority: u8,
    pub interval: Duration,
    pub addresses: Vec<IpAddr>,
    /// `None`: multicast.
    pub peers: Option<Vec<IpAddr>>,
    pub password: Option<String>,
    pub rfc_checksum: bool,
    pub preempt: bool,
}

impl Settings {
    fn to_json(&self) -> Value {
        json!({
            "version": self.version,
            "router-id": self.router_id,
            "priority": self.priority,
            "interval": u64::try_from(self.interval.as_millis()).unwrap(),
            "addresses": self.addresses,
            "peers": self.peers,
            "password": self.password,
            "rfc-checksum": self.rfc_checksum,
            "preempt": self.preempt,
        })
    }
}

/// A running virtual router. Dropped, it is killed.
#[derive(Debug)]
pub struct Node {
    child: Child,
    commands: ChildStdin,
    lines: mpsc::Receiver<String>,
    log: Arc<Mutex<String>>,
}

impl Node {
    /// Starts it, and waits until it runs.
    pub fn start(machine: &Machine, settings: &Settings) -> Self {
        let mut command = machine.command(std::env::current_exe().unwrap());
        run_in(&mut command, settings);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (lines, received) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The harness does not end its own line before the test does.
                if let Some((_, line)) = line.split_once(MARK) {
                    drop(lines.send(line.to_owned()));
                }
            }
        });
        let log = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&log);
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = sink.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let node = Self {
            commands: child.stdin.take().unwrap(),
            child,
            lines: received,
            log,
        };
        assert_eq!(node.line(), "started");
        node
    }

    /// Its log.
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Waits until it has logged `text`.
    pub fn wait_log(&self, text: &str) {
        let what = format!("the log says {text:?}");
        wait::for_it(&what, Duration::from_secs(10), || self.log().contains(text));
    }

    /// Edits it in place.
    pub fn apply(&mut self, settings: &Settings) {
        writeln!(self.commands, "apply {}", settings.to_json()).unwrap();
        assert_eq!(self.line(), "applied");
    }

    /// Its status.
    pub fn status(&mut self) -> Value {
        writeln!(self.commands, "status").unwrap();
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Asks it to hand over and end; what it logged.
    pub fn hand_over(self) -> String {
        self.end(Signal::TERM)
    }

    /// Asks it to release its addresses and end.
    pub fn release(self) {
        drop(self.end(Signal::INT));
    }

    /// Kills it as a crash would.
    pub fn kill(self) {
        drop(self);
    }

    /// It does not run for a while.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// It runs again.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, with: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, with).unwrap();
    }

    fn end(mut self, with: Signal) -> String {
        self.signal(with);
        let status = wait::until("the virtual router ends", PATIENCE, || {
            self.child.try_wait().unwrap()
        });
        assert!(status.success(), "{status}");
        self.log()
    }

    fn line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|_| panic!("the virtual router says nothing:\n{}", self.log()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of the virtual router\n{}---", self.log());
        }
    }
}

/// How long it may take to start, answer or end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has this test program be a virtual router.
pub fn run_in(command: &mut Command, settings: &Settings) {
    command
        .args([
            "--ignored",
            "--exact",
            "lb_vrrp::node::process",
            "--nocapture",
        ])
        .env(VARIABLE, settings.to_json().to_string());
}

//--- The process

#[test]
#[ignore = "the process that other tests start in network namespaces"]
fn process() {
    let Ok(settings) = std::env::var(VARIABLE) else {
        return;
    };
    daemon::log::start(daemon::log::LogSettings::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(serve(&settings));
}

async fn serve(settings: &str) {
    let hooks = Hooks {
        reset_flows: Arc::new(|_| -> Resetting { Box::pin(std::future::ready(())) }),
        demand: Arc::new(|_, _| ()),
    };
    // Nothing is tracked here.
    let observations = Latest::new(Observations::default()).reader();
    let leases = Latest::new(LeaseStates::default()).reader();
    let routers = vec![router(settings)];
    let vrrp = Vrrp::start(routers, &BTreeSet::new(), observations, leases, hooks).await;
    let mut vrrp = vrrp.unwrap_or_else(|error| panic!("{error}"));
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let mut interrupted = signal(SignalKind::interrupt()).unwrap();
    println!("{MARK}started");
    let mut commands = AsyncBufReader::new(stdin()).lines();
    let departure = loop {
        tokio::select! {
            _ = terminated.recv() => break Departure::HandOver,
            _ = interrupted.recv() => break Departure::Release,
            command = commands.next_line() => match command.unwrap().as_deref() {
                Some("status") => println!("{MARK}{}", status(&vrrp)),
                Some(command) => {
                    vrrp.apply(vec![router(command.strip_prefix("apply ").unwrap())]).await;
                    println!("{MARK}applied");
                }
                None => break Departure::Release,
            },
        }
    };
    vrrp.shut_down(departure).await;
}

/// Standard input as a pipe: tokio's own would keep the process from ending.
fn stdin() -> tokio::net::unix::pipe::Receiver {
    let input = rustix::io::dup(std::io::stdin()).unwrap();
    tokio::net::unix::pipe::Receiver::from_owned_fd(input).unwrap()
}

fn status(vrrp: &Vrrp) -> Value {
    let router = vrrp.status().remove(0);
    let counters = &router.machine.counters;
    let refused = Refusal::ALL.map(|refusal| (refusal.metric(), counters.refused(refusal)));
    json!({
        "state": router.machine.state.to_string(),
        "source": router.machine.source,
        "faults": router.machine.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "become-master": counters.become_master,
        "release-master": counters.release_master,
        "pauses": counters.pauses,
        "lower-rcvd": counters.lower_rcvd,
        "duplicates": counters.duplicates,
        "refused": refused.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "restored": router.tally.restored,
        "announcements": router.tally.announcements,
        "send-errors": router.tally.send_errors,
        "address-errors": router.tally.address_errors,
    })
}

fn router(settings: &str) -> VirtualRouter {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let number = |key: &str| u8::try_from(settings[key].as_u64().unwrap()).unwrap();
    let list =
        |key: &str| -> Vec<IpAddr> { serde_json::from_value(settings[key].clone()).unwrap() };
    let addresses = list("addresses").into_iter().map(|address| VirtualAddress {
        address,
        prefix_length: if address.is_ipv6() { 128 } else { 32 },
    });
    let mut router = RouterSettings::new("vip", "eth0", number("router-id"), addresses.collect());
    router.version = match number("version") {
        2 => Version::V2,
        _ => Version::V3,
    };
    router.priority = number("priority");
    router.interval = Duration::from_millis(settings["interval"].as_u64().unwrap());
    if settings["peers"].is_array() {
        router.peers = Peers::Unicast(list("peers"));
    }
    if let Some(password) = settings["password"].as_str() {
        router.authentication = Authentication::password(password);
    }
    if settings["rfc-checksum"] == true {
        router.checksum = ChecksumForm::Rfc;
    }
    router.announce.refresh = Some(3 * router.interval);
    if settings["preempt"] == false {
        router.preempt = vrrp::settings::Preempt::Never;
    }
    assert_eq!(router.faults(), []);
    VirtualRouter {
        priority: PrioritySettings {
            base: router.priority,
            tracked: Vec::new(),
            hold_down: Duration::ZERO,
            when_unable: WhenUnable::default(),
        },
        settings: Arc::new(router),
        notify: None,
        lease: None,
    }
}
