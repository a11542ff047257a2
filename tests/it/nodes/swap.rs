//! Every service is swapped while it is used, and nobody who uses it notices.
//!
//! The services of one node take the place of each other in turn: another build, an image that never
//! serves, a process that is killed, a start that takes long. Each time every query has to be answered
//! and every connection accepted. What was in the hands of a process when it was killed is the one thing
//! that may fail.

mod using;

use std::fmt::Write as _;
use std::time::Duration;

use tests::node::lan::{Lan, live_unit};
use tests::node::{Node, SERVICES, images_or_skip, or_skip};
use tests::stream::{connect, line};
use tests::wait;

use using::{Found, Using};

/// What happens to a service.
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
        row.found
            .assert_served(&table, matches!(row.event, Event::Kill));
    }
    lan.assert_nothing_left();
}

/// A line of the table.
struct Row {
    service: &'static str,
    event: Event,
    found: Found,
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
        happen(node, service, event);
        std::thread::sleep(WINDOW);
        Row {
            service,
            event,
            found: using.stop(),
        }
    })
}

fn happen(node: &Node, service: &str, event: Event) {
    let before = live_unit(node, service).expect("one slot is active");
    match event {
        Event::NewBuild => {
            swap(node, service, "new");
            assert_ne!(live_unit(node, service), Some(before), "{service}");
        }
        Event::BrokenImage => {
            let (status, out, complaint) = try_swap(node, service, "broken");
            assert_eq!(status.code(), Some(1), "{service}: {out}{complaint}");
            assert_eq!(
                live_unit(node, service),
                Some(before),
                "{service}: {out}{complaint}"
            );
        }
        Event::Kill => {
            let process = |unit: &str| node.run(&["systemctl", "show", "-P", "MainPID", unit]);
            let old = process(&before);
            // Process ids are the node's own, and so is whoever has that name.
            node.run(&["pkill", "-KILL", "-x", service]);
            wait::for_it(&format!("{service} is back"), PATIENCE, || {
                live_unit(node, service).as_ref() == Some(&before) && process(&before) != old
            });
        }
        Event::SlowStart => {
            let both = ["a", "b"].map(|slot| {
                let directory = format!("/run/systemd/system/outpost-{service}-{slot}.service.d");
                format!("mkdir -p {directory}; printf '[Service]\\nExecStartPre=/usr/bin/sleep 2\\n' >{directory}/slow.conf")
            });
            node.run(&["sh", "-c", &both.join(";")]);
            node.run(&["systemctl", "daemon-reload"]);
            swap(node, service, "good");
            assert_ne!(live_unit(node, service), Some(before), "{service}");
            node.run(&[
                "sh",
                "-c",
                &format!("rm -r /run/systemd/system/outpost-{service}-?.service.d"),
            ]);
            node.run(&["systemctl", "daemon-reload"]);
        }
    }
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn a_connection_outlives_the_swap_of_the_proxy_and_a_rollback() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let mut lan = Lan::provision(root, images, "");
    lan.boot();
    let node = &lan.nodes[0];
    node.put(&images.new_build("lb-proxy"), &incoming("lb-proxy", "new"));
    let address = "192.168.7.13:9443".parse().unwrap();
    let stream = lan.client.inside(|| connect(address));
    assert!(line(&stream).starts_with("master-"));
    let echo = |text: &str| {
        use std::io::Write as _;
        writeln!(&stream, "{text}").unwrap();
        assert_eq!(line(&stream), text);
    };
    echo("before");
    let before = live_unit(node, "lb-proxy");
    swap(node, "lb-proxy", "new");
    assert_ne!(live_unit(node, "lb-proxy"), before);
    echo("after the swap");
    node.run(&["outpost", "rollback", "lb-proxy", "--canary", CANARY]);
    assert_eq!(live_unit(node, "lb-proxy"), before);
    echo("after the way back");
}

/// Where a node is given an archive to swap to.
fn incoming(service: &str, name: &str) -> String {
    format!("/var/lib/outpost/incoming/{service}-{name}.tar")
}

fn swap(node: &Node, service: &str, name: &str) {
    let (status, out, complaint) = try_swap(node, service, name);
    assert!(
        status.success(),
        "{}: swap of {service}: {status}\n{out}{complaint}",
        node.name()
    );
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

/// Use before and after what happens.
const WINDOW: Duration = Duration::from_millis(700);

/// How long a new process has to stay well here.
const CANARY: &str = "1s";

/// How long anything may take. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
