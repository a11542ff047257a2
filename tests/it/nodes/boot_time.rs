//! From the start of PID 1 to the first answer of each service: a measurement, not a limit.
//!
//! Two nodes boot in turn. On one, each service waits for its own images, as rendered; on the other, each waits for the images of
//! all, as it was before. Printed are the medians, in seconds, after three kinds of boot: the first, which loads every image;
//! one after a power cut, with nothing to load; and one before which a large image of healthd was put by.
//!
//! `BOOT_ROUNDS` is the number of boots of the latter kinds, `BOOT_MIB` the size of the large image.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tests::binaries::SERVICES;
use tests::daemon::http_get;
use tests::dns::ask_a;
use tests::node::lan::{DOMAIN, Lan, wait_serving};
use tests::node::tls::Client;
use tests::node::{Images, Node, images_or_skip, or_skip};
use tests::scratch::Scratch;
use tests::stream::{Pattern, try_connect, try_line};

/// The service with the large image: the first that is loaded.
const LARGE: &str = "healthd";

/// The times of each service, by the kind of boot and the way of waiting.
type Times = BTreeMap<(&'static str, &'static str), BTreeMap<&'static str, Vec<Duration>>>;

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn boot_to_serving_is_timed() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let rounds = number("BOOT_ROUNDS", 3);
    let files = Scratch::new("large");
    let large = large_images(images, &files);
    let mut lan = Lan::provision(root, images, "");
    wait_for_all(&lan.nodes[1], &files);
    let client = lan.https();
    let mut times = Times::new();
    for (number, waits) in [(0, "own"), (1, "all")] {
        let node = &mut lan.nodes[number];
        record(&mut times, ("first", waits), boot(node, &client));
    }
    for round in 0..rounds {
        for (number, waits) in [(0, "own"), (1, "all")] {
            let node = &mut lan.nodes[number];
            node.cut_power();
            record(&mut times, ("power cut", waits), boot(node, &client));
            node.cut_power();
            node.put(
                &large[round % large.len()],
                &format!("/var/lib/outpost/images/{LARGE}.tar"),
            );
            record(&mut times, ("large", waits), boot(node, &client));
        }
    }
    print(&mut times, rounds);
}

/// Two images of a service that are large, and differ.
fn large_images(images: &Images, files: &Scratch) -> Vec<PathBuf> {
    let mut bytes = vec![0; number("BOOT_MIB", 200) << 20];
    let one = |seed: u64| {
        Pattern::new(seed).fill(&mut bytes);
        let directory = files.join(&seed.to_string());
        std::fs::create_dir_all(&directory).expect("scratch files are writable");
        images.further_build(LARGE, &directory, &bytes)
    };
    (0..2).map(one).collect()
}

/// Has each service of a node wait for the images of all.
fn wait_for_all(node: &Node, files: &Scratch) {
    let waits =
        SERVICES.map(|service| format!("ExecStart=/usr/local/bin/outpost images wait {service}\n"));
    let text = format!("[Service]\nExecStart=\n{}", waits.concat());
    let drop_in = files.write("all.conf", &text);
    for service in SERVICES {
        let place = format!("/etc/systemd/system/outpost-image-{service}.service.d/all.conf");
        node.put(&drop_in, &place);
    }
}

/// Boots a node, and gives the time to the first answer of each of its services.
fn boot(node: &mut Node, client: &Client) -> BTreeMap<&'static str, Duration> {
    node.start();
    let begun = Instant::now();
    let node = &*node;
    let times = std::thread::scope(|scope| {
        let threads = SERVICES.map(|service| {
            scope.spawn(move || {
                node.machine.inside(|| {
                    while !answers(node, service, client) {
                        assert!(begun.elapsed() < LIMIT, "{service} of {}", node.name());
                        std::thread::sleep(STEP);
                    }
                    (service, begun.elapsed())
                })
            })
        });
        threads.map(|thread| thread.join().expect("a thread"))
    });
    wait_serving(node);
    times.into()
}

/// Asks a service once what its clients ask.
fn answers(node: &Node, service: &str, client: &Client) -> bool {
    let address = |port: u16| SocketAddr::new(node.address(), port);
    let own = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let helper = |server: SocketAddr| {
        let answer = ask_a(server, &format!("helper.{DOMAIN}"));
        answer.is_ok_and(|answer| !answer.addresses().is_empty())
    };
    match service {
        "healthd" => http_get(own(9401), "/status").is_ok_and(|(status, _)| status == 200),
        "dns-authd" => helper(own(5301)),
        "dns-recursor" => helper(address(53)),
        "lb-proxy" => try_connect(address(9443))
            .and_then(|stream| try_line(&stream))
            .is_ok(),
        "registry-svc" => client
            .get_at(address(5443), node.name(), "/v2/")
            .is_ok_and(|status| status == 200),
        "timesync-agent" => tests::time::ask(address(123)).is_ok(),
        other => panic!("{other} has no clients here"),
    }
}

fn record(
    times: &mut Times,
    kind: (&'static str, &'static str),
    found: BTreeMap<&'static str, Duration>,
) {
    for (service, time) in found {
        times
            .entry(kind)
            .or_default()
            .entry(service)
            .or_default()
            .push(time);
    }
}

/// Prints a line for each service, and a column for each kind of boot.
fn print(times: &mut Times, rounds: usize) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "boot to first answer, seconds; medians of {rounds}, first boots once; load {}",
        load.trim()
    );
    let kinds: Vec<String> = times
        .keys()
        .map(|(kind, waits)| format!("{kind}, {waits}"))
        .collect();
    println!(
        "{:<15} {}",
        "",
        kinds
            .iter()
            .map(|kind| format!("{kind:>15}"))
            .collect::<String>()
    );
    for service in SERVICES {
        let mut line = format!("{service:<15} ");
        for of_kind in times.values_mut() {
            let all = of_kind.entry(service).or_default();
            all.sort_unstable();
            let median = all
                .get(all.len() / 2)
                .map_or(f64::NAN, Duration::as_secs_f64);
            line.push_str(&format!("{median:>15.2}"));
        }
        println!("{line}");
    }
}

fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

/// Between two questions.
const STEP: Duration = Duration::from_millis(20);

/// How long a service may take.
const LIMIT: Duration = Duration::from_secs(300);
