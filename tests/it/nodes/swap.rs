//! Every service is swapped while clients use it, and none of them notices.
//!
//! The services of one node take the place of each other in turn: another build, an image that never
//! serves, a process that is killed, a start that takes long. Each time every query has to be answered
//! and every connection accepted. What was in the hands of a process when it was killed is the one thing
//! that may fail.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tests::binaries::SERVICES;
use tests::node::lan::{Lan, live_unit};
use tests::node::{Node, images_or_skip, or_skip};
use tests::stream::{connect, line};
use tests::wait;

use super::WINDOW;
use super::using::{Found, Using};

/// A change of a service.
#[derive(Clone, Copy, Debug)]
enum Event {
    NewBuild,
    BrokenImage,
    Kill,
    SlowStart,
}

impl Event {
    const ALL: [Self; 4] = [
        Self::NewBuild,
        Self::BrokenImage,
        Self::Kill,
        Self::SlowStart,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::NewBuild => "new build",
            Self::BrokenImage => "broken image",
            Self::Kill => "kill -9",
            Self::SlowStart => "slow start",
        }
    }
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn every_service_is_swapped_under_load_and_nothing_is_lost() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let mut lan = Lan::provision(root, images, "");
    lan.boot();
    for node in &lan.nodes {
        for service in SERVICES {
            for (archive, name) in [
                (images.archive(service), "good"),
                (images.new_build(service), "new"),
                (images.broken(service), "broken"),
            ] {
                node.put(&archive, &incoming(service, name));
            }
        }
    }
    let lan = &lan;
    // Two services on each node: the nodes work at the same time.
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let threads: Vec<_> = lan
            .nodes
            .iter()
            .zip(SERVICES.chunks(2))
            .map(|(node, services)| {
                scope.spawn(move || {
                    let matrix = services
                        .iter()
                        .flat_map(|service| matrix(lan, node, service));
                    matrix.collect::<Vec<Row>>()
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Row>>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    let mut table = String::from(
        "| service | event | UDP sent | lost | TCP tried | refused | failed | longest wait |\n",
    );
    for row in &rows {
        writeln!(table, "{row}").unwrap();
    }
    eprintln!("{table}");
    for row in &rows {
        assert_eq!(row.trouble, None, "{}: {}", row.service, row.event.name());
        row.found
            .assert_served(&table, matches!(row.event, Event::Kill));
    }
    // The proxy of the third node is as it was when it booted.
    connections_outlive(lan, &lan.nodes[2]);
    lan.assert_nothing_left();
}

/// A line of the table.
struct Row {
    service: &'static str,
    event: Event,
    found: Found,
    /// Why the event did not go as it should: told when all others are known.
    trouble: Option<String>,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "| {} | {} {}",
            self.service,
            self.event.name(),
            self.found
        )
    }
}

fn matrix<'n>(
    lan: &'n Lan,
    node: &'n Node,
    service: &'static str,
) -> impl Iterator<Item = Row> + use<'n> {
    Event::ALL.into_iter().map(move |event| {
        let using = Using::start(lan, node, service);
        std::thread::sleep(WINDOW);
        let trouble = happen(node, service, event).err();
        if let Some(trouble) = &trouble {
            eprintln!("{}: {service}: {}: {trouble}", node.name(), event.name());
        }
        std::thread::sleep(WINDOW);
        Row {
            service,
            event,
            found: using.stop(),
            trouble,
        }
    })
}

fn happen(node: &Node, service: &str, event: Event) -> Result<(), String> {
    let before = live_unit(node, service).ok_or("not one slot is active")?;
    let moved = |said: String| match live_unit(node, service) {
        Some(live) if live != before => Ok(()),
        live => Err(format!("{live:?} is live after {before}\n{said}")),
    };
    match event {
        Event::NewBuild => moved(swap(node, service, "new")?),
        Event::BrokenImage => {
            let (status, out, complaint) = try_swap(node, service, "broken");
            let is_there = live_unit(node, service) == Some(before);
            (status.code() == Some(1) && is_there)
                .then_some(())
                .ok_or_else(|| format!("{status}\n{out}{complaint}"))
        }
        Event::Kill => {
            let process = || node.run(&["systemctl", "show", "-P", "MainPID", &before]);
            let old = process();
            // Process ids are the node's own, and so is the process of that name.
            node.run(&["pkill", "-KILL", "-x", service]);
            wait::for_it(&format!("{service} is back"), PATIENCE, || {
                live_unit(node, service).as_ref() == Some(&before) && process() != old
            });
            Ok(())
        }
        Event::SlowStart => {
            let directory =
                |slot| format!("/run/systemd/system/outpost-{service}-{slot}.service.d");
            let drop_in = "[Service]\\nExecStartPre=/usr/bin/sleep 2\\n";
            let both = ["a", "b"].map(|slot| {
                let directory = directory(slot);
                format!("mkdir -p {directory}; printf '{drop_in}' >{directory}/slow.conf")
            });
            node.run(&["sh", "-c", &both.join(";")]);
            node.run(&["systemctl", "daemon-reload"]);
            let swapped = swap(node, service, "good");
            node.run(&["sh", "-c", &format!("rm -r {}", directory("?"))]);
            node.run(&["systemctl", "daemon-reload"]);
            moved(swapped?)
        }
    }
}

/// A long connection continues through a swap of the proxy and the way back.
fn connections_outlive(lan: &Lan, node: &Node) {
    let address = SocketAddr::new(node.address(), 9443);
    let stream = lan.client.inside(|| connect(address));
    assert!(line(&stream).starts_with("master-"));
    let echo = |text: &str| {
        use std::io::Write as _;
        writeln!(&stream, "{text}").unwrap();
        assert_eq!(line(&stream), text);
    };
    echo("before");
    let before = live_unit(node, "lb-proxy");
    swap(node, "lb-proxy", "new").unwrap_or_else(|said| panic!("{said}"));
    assert_ne!(live_unit(node, "lb-proxy"), before);
    echo("after the swap");
    node.run(&["outpost", "rollback", "lb-proxy", "--canary", CANARY]);
    assert_eq!(live_unit(node, "lb-proxy"), before);
    echo("after the way back");
}

/// The path of the archive to swap to, on a node.
fn incoming(service: &str, name: &str) -> String {
    format!("/var/lib/outpost/incoming/{service}-{name}.tar")
}

/// Swaps, and says what the command said.
fn swap(node: &Node, service: &str, name: &str) -> Result<String, String> {
    let (status, out, complaint) = try_swap(node, service, name);
    let said = format!("{status}\n{out}{complaint}");
    if status.success() {
        Ok(said)
    } else {
        Err(said)
    }
}

fn try_swap(node: &Node, service: &str, name: &str) -> (std::process::ExitStatus, String, String) {
    node.try_run(&[
        "outpost",
        "swap",
        service,
        &incoming(service, name),
        "--canary",
        CANARY,
    ])
}

/// How long a new process has to stay well here.
const CANARY: &str = "1s";

/// How long anything may take. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
