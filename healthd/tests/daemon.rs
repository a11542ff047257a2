//! The program itself, with subscribers that stay while it is killed, restarted and swapped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use api::healthd::Marked;
use daemon::admin;
use daemon::clock::now;
use daemon::latest::Reader;
use healthd::state;
use proto::endpoint::Endpoint;
use proto::health::{Deviation, Liveness, Snapshot, Target, Watched};
use proto::report::Reporter;
use proto::watch::Watcher;
use proto::wire;
use proto::wire::health_client::HealthClient;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient as StandardClient;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Long enough for evidence to have come, usually; nothing fails when it has not.
const HEARD: Duration = Duration::from_secs(1);

/// Longer than healthd rests between two writes of its state, so that the next change is written at once.
const RESTED: Duration = Duration::from_secs(1);

//--- Scaffold

/// A healthd of its own, with its directory; killed and removed at the end.
struct Daemon {
    directory: TempDir,
    child: Option<Child>,
}

impl Daemon {
    fn new() -> Self {
        Self::configured("")
    }

    /// With further lines in its file.
    fn configured(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let config = path.join("healthd.toml");
        let text = format!(
            "version = \"v1\"\nlisten = [\"unix:{0}/s\"]\nstate = \"{0}/state\"\nadmin.listen = \"none\"\n{lines}",
            path.display()
        );
        std::fs::write(config, text).expect("a file");
        Self {
            directory,
            child: None,
        }
    }

    fn started() -> Self {
        let mut daemon = Self::new();
        daemon.start();
        daemon
    }

    /// Probes at this interval, in milliseconds; each result decides.
    fn probing(millis: u32) -> Self {
        let mut daemon = Self::configured(&format!(
            "[schedule]\ninterval = \"{millis}ms\"\nfast-interval = \"100ms\"\ntimeout = \"2s\"\nrise = 1\nfall = 1\n"
        ));
        daemon.start();
        daemon
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_healthd"));
        command.args(["serve", "--log-level", "warn", "--config"]);
        command.arg(self.directory.path().join("healthd.toml"));
        command.stdout(Stdio::null());
        command
    }

    fn start(&mut self) {
        let mut command = self.command();
        command.arg("--admin-socket").arg(self.admin_socket());
        self.child = Some(command.spawn().expect("healthd starts"));
        let begun = now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(begun.elapsed() < LIMIT, "healthd does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        let mut child = self.child.take().expect("a running healthd");
        child.kill().expect("a signal");
        child.wait().expect("an end");
    }

    /// Asks it to end, and returns its exit code.
    fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok()?;
        child.wait().ok()?.code()
    }

    /// Waits until what a snapshot says is on disk.
    async fn wait_saved(&self, snapshot: &Snapshot) {
        let path = self.directory.path().join("state/state");
        let begun = now();
        loop {
            let octets = std::fs::read(&path).unwrap_or_default();
            let saved = state::decode(&octets).map_or(0, |saved| saved.generation);
            if saved >= snapshot.generation {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{saved} is on disk: {snapshot:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    fn admin_socket(&self) -> PathBuf {
        self.directory.path().join("admin")
    }

    /// Decides as an operator does; gives the status and the answer.
    async fn mark(&self, decision: &str) -> (u16, String) {
        let path = format!("/marks?{decision}");
        let answer = admin::post(self.admin_socket().as_path(), &path, "").await;
        let answer = answer.expect("healthd answers");
        (answer.status, answer.text())
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.socket())
    }

    async fn client(&self) -> HealthClient<tonic::transport::Channel> {
        HealthClient::new(
            proto::endpoint::connect(&self.endpoint())
                .await
                .expect("a connection"),
        )
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// A server that takes connections until it is dropped.
struct Open(tokio::task::JoinHandle<()>);

impl Open {
    async fn at(address: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let accept = async move {
            loop {
                drop(listener.accept().await);
            }
        };
        (Self(tokio::spawn(accept)), address)
    }

    async fn close(self) {
        self.0.abort();
        assert!(self.0.await.is_err(), "the port is closed");
    }
}

async fn open() -> (Open, SocketAddr) {
    Open::at(([127, 0, 0, 1], 0).into()).await
}

async fn wait_for(
    snapshots: &mut Reader<Snapshot>,
    target: &Target,
    wanted: Liveness,
) -> Arc<Snapshot> {
    let seen = snapshots.wait_for(|snapshot| snapshot.liveness(target) == wanted);
    tokio::time::timeout(LIMIT, seen).await.expect("in time")
}

/// Waits until the watcher has been connected so many times.
async fn wait_connected(watcher: &Watcher, connections: u64) {
    let begun = now();
    while watcher.state().connections < connections || !watcher.state().connected {
        assert!(begun.elapsed() < LIMIT, "{:?}", watcher.state());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything a watcher publishes until `stop` is dropped.
fn record(
    watcher: &Watcher,
    mut stop: oneshot::Receiver<()>,
) -> tokio::task::JoinHandle<Vec<Arc<Snapshot>>> {
    let mut snapshots = watcher.subscribe();
    tokio::spawn(async move {
        snapshots.refresh();
        let mut seen = vec![snapshots.shared()];
        loop {
            tokio::select! {
                () = snapshots.changed() => seen.push(snapshots.shared()),
                _ = &mut stop => return seen,
            }
        }
    })
}

//--- Behaviour

#[test]
fn a_target_that_goes_and_comes_is_told_within_its_interval() {
    let daemon = Daemon::probing(1000);
    block_on(async {
        let (open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let mut snapshots = watcher.subscribe();
        let up = wait_for(&mut snapshots, &target, Liveness::Up).await;
        assert!(up.status(&target).unwrap().since.is_some());
        open.close().await;
        let begun = now();
        let down = wait_for(&mut snapshots, &target, Liveness::Down).await;
        // Within its interval, and what a busy machine is late by.
        assert!(begun.elapsed() < Duration::from_secs(10));
        let status = down.status(&target).unwrap();
        assert_eq!(status.reason, "connection refused");
        assert!(down.generation > up.generation);
        let _again = Open::at(address).await;
        wait_for(&mut snapshots, &target, Liveness::Up).await;
    });
}

#[test]
fn a_restart_flips_nothing_and_generations_grow() {
    let mut daemon = Daemon::probing(200);
    block_on(async {
        let (_open, address) = open().await;
        let (closed, gone) = open().await;
        closed.close().await;
        let targets = vec![Target::tcp(address), Target::tcp(gone)];
        let watcher = Watcher::start(daemon.endpoint(), "test", targets.clone());
        let mut snapshots = watcher.subscribe();
        wait_for(&mut snapshots, &targets[0], Liveness::Up).await;
        let first = wait_for(&mut snapshots, &targets[1], Liveness::Down).await;
        let (stop, stopped) = oneshot::channel();
        let record = record(&watcher, stopped);
        for round in 0..3 {
            daemon.wait_saved(&watcher.current()).await;
            daemon.kill();
            let lost = watcher.current();
            assert_eq!(lost.liveness(&targets[0]), Liveness::Up, "kept");
            if round == 2 {
                // Even without its state healthd does not make its subscribers forget.
                std::fs::remove_dir_all(daemon.directory.path().join("state")).unwrap();
            }
            daemon.start();
            wait_connected(&watcher, round + 2).await;
            let mut moved = watcher.subscribe();
            let later = moved.wait_for(|snapshot| snapshot.generation > lost.generation);
            tokio::time::timeout(LIMIT, later).await.unwrap();
        }
        drop((watcher, stop));
        let seen = record.await.unwrap();
        assert!(seen.len() > 3);
        let mut generation = 0;
        for snapshot in &seen {
            assert!(snapshot.generation >= generation, "generations grow");
            generation = snapshot.generation;
            assert_eq!(snapshot.liveness(&targets[0]), Liveness::Up);
            assert_eq!(snapshot.liveness(&targets[1]), Liveness::Down);
        }
        let since = |snapshot: &Snapshot| snapshot.status(&targets[0]).unwrap().since;
        // The state was there at the first two restarts, and it says since when.
        assert_eq!(since(&first), since(&seen[1]));
    });
}

#[test]
fn a_newcomer_after_a_restart_is_served_the_states_from_before() {
    let mut daemon = Daemon::probing(60_000);
    block_on(async {
        let (_open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let first = wait_for(&mut watcher.subscribe(), &target, Liveness::Up).await;
        drop(watcher);
        daemon.wait_saved(&first).await;
        daemon.kill();
        daemon.start();
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let mut snapshots = watcher.subscribe();
        let served = snapshots.wait_for(|snapshot| snapshot.generation > 0);
        let served = tokio::time::timeout(LIMIT, served).await.unwrap();
        let status = served.status(&target).unwrap();
        assert_eq!(status.liveness, Liveness::Up);
        assert_eq!(status.since, first.status(&target).unwrap().since);
    });
}

#[test]
fn evidence_has_a_probe_run_at_once() {
    let daemon = Daemon::probing(600_000);
    block_on(async {
        let (open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let mut snapshots = watcher.subscribe();
        wait_for(&mut snapshots, &target, Liveness::Up).await;
        let observation = |target: &Target, success| wire::Observation {
            target: Some(target.into()),
            success,
            reason: "test".to_owned(),
        };
        let nobodys = Target::tcp(([127, 0, 0, 1], 1).into());
        let observations = [
            observation(&target, true),
            observation(&target, false),
            observation(&nobodys, false),
            wire::Observation::default(),
        ];
        open.close().await;
        let mut client = daemon.client().await;
        let response = client.report(tokio_stream::iter(observations)).await;
        let response = response.unwrap().into_inner();
        assert_eq!((response.accepted, response.dropped), (1, 3));
        wait_for(&mut snapshots, &target, Liveness::Down).await;
    });
}

#[test]
fn a_reporter_finds_healthd_again() {
    let mut daemon = Daemon::probing(600_000);
    block_on(async {
        let (open, address) = open().await;
        let target = Target::tcp(address);
        let reporter = Reporter::start(daemon.endpoint());
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let mut snapshots = watcher.subscribe();
        let up = wait_for(&mut snapshots, &target, Liveness::Up).await;
        reporter.report(&target, false, "it seems gone");
        tokio::time::sleep(HEARD).await;
        daemon.wait_saved(&up).await;
        daemon.kill();
        open.close().await;
        // Nobody hears this, and nobody waits for it.
        reporter.report(&target, false, "to nobody");
        daemon.start();
        wait_connected(&watcher, 2).await;
        // Only evidence has it probed within ten minutes.
        let told = async {
            loop {
                reporter.report(&target, false, "refused");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            _ = wait_for(&mut snapshots, &target, Liveness::Down) => {}
            () = told => unreachable!(),
        }
    });
}

#[test]
fn an_operators_decision_reaches_subscribers_and_survives_a_restart() {
    let mut daemon = Daemon::probing(200);
    block_on(async {
        let (_open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        let mut snapshots = watcher.subscribe();
        wait_for(&mut snapshots, &target, Liveness::Up).await;
        let all = format!("address={}", address.ip());
        let (status, text) = daemon.mark(&format!("{all}&state=drain")).await;
        assert_eq!(status, 200, "{text}");
        let marked: Marked = serde_json::from_str(&text).unwrap();
        assert_eq!(marked.targets, 1);
        let drained = wait_for(&mut snapshots, &target, Liveness::Down).await;
        assert!(drained.generation >= marked.generation, "{marked:?}");
        let status = drained.status(&target).unwrap();
        assert_eq!(status.liveness, Liveness::Up, "probes find it up");
        let (status, text) = daemon.mark(&format!("{all}&state=asleep")).await;
        assert_eq!(status, 400, "{text}");
        assert_eq!(daemon.mark(&format!("{all}&state=ready")).await.0, 200);
        daemon.wait_saved(&watcher.current()).await;
        tokio::time::sleep(RESTED).await;
        // The first is written at once, the second after a rest; that it was acknowledged is enough.
        let first = format!("{all}&port=7&state=drain");
        assert_eq!(daemon.mark(&first).await.0, 200);
        assert_eq!(daemon.mark(&format!("{all}&state=drain")).await.0, 200);
        daemon.kill();
        daemon.start();
        wait_connected(&watcher, 2).await;
        let mut client = daemon.client().await;
        let listed = client.list(wire::ListRequest {}).await.unwrap();
        let listed = Snapshot::from(&listed.into_inner());
        assert_eq!(listed.liveness(&target), Liveness::Down);
        assert_eq!(daemon.mark(&format!("{all}&state=ready")).await.0, 200);
        wait_for(&mut snapshots, &target, Liveness::Up).await;
        // Over the contract root alone decides: services subscribe there.
        let request = wire::SetAdminStateRequest {
            address: address.ip().to_string(),
            port: 0,
            admin_state: 0,
        };
        let asked = client.set_admin_state(request).await;
        let code = asked.map_or_else(|status| status.code(), |_| tonic::Code::Ok);
        let expected = match rustix::process::geteuid().is_root() {
            true => tonic::Code::Ok,
            false => tonic::Code::PermissionDenied,
        };
        assert_eq!(code, expected);
    });
}

#[test]
fn any_grpc_tool_can_ask() {
    let daemon = Daemon::probing(200);
    block_on(async {
        let (open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        wait_for(&mut watcher.subscribe(), &target, Liveness::Up).await;
        let channel = proto::endpoint::connect(&daemon.endpoint()).await.unwrap();
        let mut client = StandardClient::new(channel);
        let ask = |service: &str| HealthCheckRequest {
            service: service.to_owned(),
        };
        for service in [
            "",
            "outpost.health.v1.Health",
            &address.to_string(),
            &target.to_string(),
        ] {
            let status = client.check(ask(service)).await.unwrap().into_inner();
            assert_eq!(status.status(), ServingStatus::Serving, "{service}");
        }
        let missing = client.check(ask("192.0.2.1:1")).await.unwrap_err();
        assert_eq!(missing.code(), tonic::Code::NotFound);
        let stream = client.watch(ask(&address.to_string())).await.unwrap();
        let mut stream = stream.into_inner();
        let mut next = async || stream.message().await.unwrap().unwrap().status();
        assert_eq!(next().await, ServingStatus::Serving);
        open.close().await;
        assert_eq!(next().await, ServingStatus::NotServing);
    });
}

#[test]
fn statements_of_a_later_version_are_served_as_far_as_they_are_understood() {
    let daemon = Daemon::started();
    block_on(async {
        let (open, address) = open().await;
        let good = wire::Target {
            schedule: Some(wire::Schedule {
                // Below the bound: the echo differs, and the number tells which target it is.
                interval_ms: 1,
                ..Default::default()
            }),
            ..wire::Target::from(&Target::tcp(address))
        };
        let later = wire::Target {
            kind: None,
            ..good.clone()
        };
        let (statements, queue) = mpsc::channel(4);
        let request = |statement, targets| wire::WatchRequest {
            targets,
            subscriber: "later".to_owned(),
            statement,
            all: false,
        };
        let first = request(41, vec![later, good.clone()]);
        statements.send(first).await.unwrap();
        let mut client = daemon.client().await;
        let stream = client.watch(ReceiverStream::new(queue)).await.unwrap();
        let mut stream = stream.into_inner();
        let full = stream.message().await.unwrap().unwrap();
        assert_eq!((full.full, full.statement), (true, 41));
        assert_eq!(full.targets.len(), 1);
        assert_eq!(full.targets[0].stated, 2);
        let delta = stream.message().await.unwrap().unwrap();
        assert_eq!((delta.full, delta.targets[0].stated), (false, 2));
        assert_eq!(delta.targets[0].liveness(), wire::Liveness::Up);
        // A restatement is answered in full, and one who only listens goes on listening.
        statements.send(request(42, vec![good])).await.unwrap();
        drop(statements);
        let full = stream.message().await.unwrap().unwrap();
        assert_eq!((full.full, full.statement), (true, 42));
        assert_eq!(full.targets[0].stated, 1);
        open.close().await;
        let delta = stream.message().await.unwrap().unwrap();
        assert_eq!(delta.targets[0].liveness(), wire::Liveness::Down);
    });
}

#[test]
fn two_thousand_targets_are_known_in_a_moment() {
    let daemon = Daemon::probing(1000);
    block_on(async {
        let (_open, address) = open().await;
        let targets: Vec<Target> = (0..2000)
            .map(|number| {
                let [high, low] = u16::to_be_bytes(number);
                Target::tcp(([127, 1, high, low], address.port()).into())
            })
            .collect();
        let watcher = Watcher::start(daemon.endpoint(), "test", targets);
        let mut snapshots = watcher.subscribe();
        let known = snapshots.wait_for(|snapshot| {
            let mut all = snapshot.targets.values();
            snapshot.targets.len() == 2000 && all.all(|status| status.liveness == Liveness::Down)
        });
        tokio::time::timeout(LIMIT, known).await.unwrap();
    });
}

#[test]
fn subscribers_with_other_schedules_share_one_probe_and_see_their_own_views() {
    let daemon = Daemon::probing(60_000);
    block_on(async {
        let (open, address) = open().await;
        let target = Target::tcp(address);
        let patient = Watched {
            target: target.clone(),
            deviation: Deviation {
                interval: Some(Duration::from_millis(200)),
                fall: Some(1_000_000),
                ..Deviation::NONE
            },
        };
        let own = Watcher::start(daemon.endpoint(), "own", vec![patient.clone()]);
        let site = Watcher::start(daemon.endpoint(), "site", vec![target.clone()]);
        let mut snapshots = site.subscribe();
        wait_for(&mut snapshots, &target, Liveness::Up).await;
        let listed = daemon.client().await.list(wire::ListRequest {}).await;
        assert_eq!(listed.unwrap().into_inner().targets.len(), 1, "one record");
        open.close().await;
        // The site's schedule has a probe a minute; the deviation has it five times a second.
        let down = wait_for(&mut snapshots, &target, Liveness::Down).await;
        let status = down.status(&target).unwrap();
        assert_eq!(status.schedule.interval, Duration::from_millis(200));
        assert_eq!(status.schedule.fall, 1);
        let begun = now();
        while own.current().generation < down.generation {
            assert!(begun.elapsed() < LIMIT, "{:?}", own.current());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let current = own.current();
        let view = current.watched(&patient).expect("a view");
        assert_eq!(view.liveness, Liveness::Up, "by its own fall");
        assert_eq!(view.schedule.fall, 1_000_000);
        assert!(current.targets.is_empty(), "it has only its view");
    });
}

#[test]
fn a_subscriber_of_the_version_before_states_schedules_and_is_served() {
    let daemon = Daemon::probing(60_000);
    block_on(async {
        let (open, address) = open().await;
        // Every field of the schedule, and the number of the target, as that version sends them.
        let stated = |fall| wire::Target {
            schedule: Some(wire::Schedule {
                interval_ms: 200,
                fast_interval_ms: 100,
                timeout_ms: 2000,
                rise: 1,
                fall,
            }),
            ..wire::Target::from(&Target::tcp(address))
        };
        let (statements, queue) = mpsc::channel(4);
        let request = wire::WatchRequest {
            targets: vec![stated(1), stated(1_000_000)],
            subscriber: "before".to_owned(),
            statement: 1,
            all: false,
        };
        statements.send(request).await.unwrap();
        let mut client = daemon.client().await;
        let stream = client.watch(ReceiverStream::new(queue)).await.unwrap();
        let mut stream = stream.into_inner();
        let full = stream.message().await.unwrap().unwrap();
        let echoed: Vec<_> = full.targets.iter().map(|one| one.target.clone()).collect();
        assert_eq!(echoed, [Some(stated(1)), Some(stated(1_000_000))]);
        let mut states = [wire::Liveness::Unknown; 2];
        let mut open = Some(open);
        let both_seen = async {
            loop {
                if states == [wire::Liveness::Up; 2]
                    && let Some(open) = open.take()
                {
                    open.close().await;
                }
                if open.is_none() && states == [wire::Liveness::Down, wire::Liveness::Up] {
                    return;
                }
                let delta = stream.message().await.unwrap().unwrap();
                for status in &delta.targets {
                    states[status.stated as usize - 1] = status.liveness();
                }
            }
        };
        tokio::time::timeout(LIMIT, both_seen)
            .await
            .expect("two views");
    });
}

#[test]
fn more_targets_than_there_is_room_for_are_served_as_far_as_it_goes() {
    let mut daemon = Daemon::configured("[probes]\ntargets = 2\n");
    daemon.start();
    block_on(async {
        let (_open, address) = open().await;
        let target = |last| Target::tcp(([127, 0, 0, last], address.port()).into());
        let all = vec![target(1), target(2), target(3)];
        let watcher = Watcher::start(daemon.endpoint(), "test", all);
        let mut snapshots = watcher.subscribe();
        wait_for(&mut snapshots, &target(1), Liveness::Up).await;
        wait_for(&mut snapshots, &target(2), Liveness::Down).await;
        let snapshot = watcher.current();
        let without = snapshot.status(&target(3)).expect("a status that says why");
        assert_eq!(without.liveness, Liveness::Unknown);
        assert!(without.reason.starts_with("no room"), "{}", without.reason);
        watcher.set_targets(vec![target(1), target(3)]);
        wait_for(&mut snapshots, &target(3), Liveness::Down).await;
    });
}

//--- Process

#[test]
fn it_ends_when_asked_even_with_subscribers_and_leaves_no_socket() {
    let mut daemon = Daemon::probing(200);
    block_on(async {
        let (_open, address) = open().await;
        let target = Target::tcp(address);
        let watcher = Watcher::start(daemon.endpoint(), "test", vec![target.clone()]);
        wait_for(&mut watcher.subscribe(), &target, Liveness::Up).await;
        let code = tokio::task::spawn_blocking(move || {
            let code = daemon.stop();
            assert!(!daemon.socket().exists());
            assert!(daemon.directory.path().join("state/state").is_file());
            code
        });
        assert_eq!(code.await.unwrap(), Some(0));
        assert_eq!(watcher.current().liveness(&target), Liveness::Up);
    });
}

#[test]
fn a_second_one_does_not_take_the_socket_of_the_first() {
    let daemon = Daemon::started();
    let refused = || {
        let output = daemon.command().output().unwrap();
        assert_eq!(output.status.code(), Some(70));
        String::from_utf8(output.stderr).unwrap()
    };
    let words = refused();
    assert!(words.contains("is in use by process"), "{words}");
    // With a state of its own it comes as far as the socket.
    let config = daemon.directory.path().join("healthd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("/state\"", "/other\"")).unwrap();
    let words = refused();
    assert!(words.contains("another process answers there"), "{words}");
    assert!(std::os::unix::net::UnixStream::connect(daemon.socket()).is_ok());
}

#[test]
fn a_damaged_state_is_moved_aside_and_not_fatal() {
    let mut daemon = Daemon::new();
    let state = daemon.directory.path().join("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("state"), "rubbish").unwrap();
    // Its socket is there before it has read its state.
    daemon.start();
    let begun = now();
    let aside = loop {
        match std::fs::read_to_string(state.join("state.refused")) {
            Ok(aside) => break aside,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(aside, "rubbish");
}

#[test]
fn exit_codes_tell_what_happened() {
    let daemon = Daemon::new();
    let bad = daemon.directory.path().join("bad.toml");
    std::fs::write(&bad, "version = \"v1\"\nlisten = []\nsocket = 1\n").unwrap();
    let healthd = |words: &[&str], file: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_healthd"));
        command.args(words).args(file);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        (output.status.code().unwrap(), text)
    };
    let socket = daemon.socket();
    let good = daemon.directory.path().join("healthd.toml");
    for (words, file, code, says) in [
        (&["--version"][..], None, 0, "healthd 0."),
        (&["check", "--config"], Some(&*good), 0, "ok: 0 targets"),
        (&["check", "--config"], Some(&*bad), 78, "bad.toml:3:1"),
        (&["serve", "--config"], Some(&*bad), 78, "bad.toml:3:1"),
        (&["probe", "tcp", "127.0.0.1:1"], None, 69, "refused"),
        (&["probe", "tcp", "127.0.0.1"], None, 64, "needs a port"),
        (
            &["watch", "--socket"],
            Some(&*socket),
            69,
            "/s: transport error: No such file",
        ),
        (
            &["status", "--admin", "127.0.0.1:1"],
            None,
            69,
            "127.0.0.1:1",
        ),
        (&["frobnicate"], None, 64, "frobnicate"),
    ] {
        let (exit, text) = healthd(words, file);
        assert_eq!(exit, code, "{words:?}: {text}");
        assert!(text.contains(says), "{words:?}: {text}");
    }
}
