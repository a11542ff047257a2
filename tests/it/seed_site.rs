//! The example site on its own addresses, from its own files as they stand.
//!
//! Three machines on one wire, 192.168.7.13 to 192.168.7.15, each with the services of a node, and
//! a client beside them that asks with `dig`. Each machine starts its services in another way, and
//! all have to answer alike.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::binaries::{binary, checkout};
use tests::daemon::{Daemon, run};
use tests::masters::Master;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::wait;

const ADDRESSES: [&str; 3] = ["192.168.7.13", "192.168.7.14", "192.168.7.15"];

/// Names that point to whichever masters work.
const BALANCED: [&str; 6] = [
    "ocp4.redhat.ren",
    "api.ocp4.redhat.ren",
    "api-int.ocp4.redhat.ren",
    "c.apps.ocp4.redhat.ren",
    "registry.ocp4.redhat.ren",
    "quay.ocp4.redhat.ren",
];

/// Names that point to one machine.
const FIXED: [(&str, &str); 7] = [
    ("helper.ocp4.redhat.ren", "192.168.7.11"),
    ("master-0.ocp4.redhat.ren", "192.168.7.13"),
    ("master-2.ocp4.redhat.ren", "192.168.7.15"),
    ("worker-1.ocp4.redhat.ren", "192.168.7.17"),
    ("etcd-1.ocp4.redhat.ren", "192.168.7.14"),
    ("tmp-registry.ocp4.redhat.ren", "192.168.7.177"),
    ("ns2.ocp4.redhat.ren", "8.8.4.4"),
];

/// The interval of health checks when nothing else is said, as in PowerDNS.
const INTERVAL: Duration = Duration::from_secs(5);

/// How a machine starts its DNS servers.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// From the peers' own files.
    Files,
    /// With the options of `pdns_server`.
    Options,
    /// From what `import` makes of those files.
    Import,
}

/// A machine of the site with its files and services.
struct Node<'n> {
    machine: &'n Machine,
    files: Scratch,
    services: Vec<Daemon>,
}

impl<'n> Node<'n> {
    fn new(machine: &'n Machine, pdns_conf: &str) -> Self {
        let files = Scratch::new("node");
        for directory in [
            "etc/pdns",
            "etc/pdns-recursor",
            "run/outpost",
            "lib/outpost/healthd",
        ] {
            std::fs::create_dir_all(files.join(directory)).unwrap();
        }
        let seed = checkout().join("tests/data/seed");
        for (from, to) in [
            (seed.join(pdns_conf), "etc/pdns/pdns.conf"),
            (seed.join("bind.conf"), "etc/pdns/bind.conf"),
            (seed.join("inside-out.xyz"), "etc/pdns/inside-out.xyz"),
            (
                seed.join("recursor.conf"),
                "etc/pdns-recursor/recursor.conf",
            ),
            (Path::new("/etc/passwd").to_owned(), "etc/passwd"),
            (Path::new("/etc/group").to_owned(), "etc/group"),
        ] {
            std::fs::copy(from, files.join(to)).unwrap();
        }
        Self {
            machine,
            files,
            services: Vec::new(),
        }
    }

    /// A command on this machine, with its own /etc, /run and /var/lib.
    ///
    /// `ip netns exec` has already made a mount namespace of its own.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.machine.command("sh");
        let script = "mount --bind \"$0/etc\" /etc && mount --bind \"$0/run\" /run && \
                      mount --bind \"$0/lib\" /var/lib && exec \"$@\"";
        command.args(["-c", script]).arg(self.files.path());
        command.arg(binary(program)).args(arguments);
        command
    }

    fn start(&mut self, program: &str, arguments: &[&str]) {
        let daemon = Daemon::start(program, self.command(program, arguments));
        self.services.push(daemon);
    }

    fn start_healthd(&mut self) {
        self.files.write("etc/healthd.toml", "version = \"v1\"\n");
        self.start("healthd", &["serve", "--config", "/etc/healthd.toml"]);
    }

    fn start_authd(&mut self, how: Start) {
        match how {
            Start::Files => {
                self.start(
                    "dns-authd",
                    &["serve", "--pdns-conf", "/etc/pdns/pdns.conf"],
                );
            }
            Start::Options => self.start(
                "dns-authd",
                &[
                    "serve",
                    "--config-dir=/etc/pdns",
                    "--local-address=127.0.0.1",
                    "--local-port=5301",
                ],
            ),
            Start::Import => {
                self.import("dns-authd", "pdns", "/etc/pdns/pdns.conf");
                self.start("dns-authd", &["serve", "--config", "/etc/dns-authd.toml"]);
            }
        }
    }

    fn start_recursor(&mut self, how: Start) {
        const FILE: &str = "/etc/pdns-recursor/recursor.conf";
        if let Start::Import = how {
            self.import("dns-recursor", "recursor", FILE);
            self.start(
                "dns-recursor",
                &["serve", "--config", "/etc/dns-recursor.toml"],
            );
        } else {
            self.start("dns-recursor", &["serve", "--recursor-conf", FILE]);
        }
    }

    /// Writes /etc/PROGRAM.toml from a peer's file, and has the program check it.
    fn import(&self, program: &str, format: &str, file: &str) {
        let (status, stdout, stderr) = run(self.command(program, &["import", format, file]));
        assert!(status.success(), "{program} import: {status}\n{stderr}");
        self.files.write(&format!("etc/{program}.toml"), &stdout);
        let config = format!("/etc/{program}.toml");
        let (status, _, stderr) = run(self.command(program, &["check", "--config", &config]));
        assert!(
            status.success(),
            "{program} check of what was imported: {stderr}\n{stdout}"
        );
    }

    /// The files of the site are as they were.
    fn assert_untouched(&self, pdns_conf: &str) {
        let seed = checkout().join("tests/data/seed");
        for (name, place) in [
            (pdns_conf, "etc/pdns/pdns.conf"),
            ("bind.conf", "etc/pdns/bind.conf"),
            ("inside-out.xyz", "etc/pdns/inside-out.xyz"),
            ("recursor.conf", "etc/pdns-recursor/recursor.conf"),
        ] {
            let (ours, given) = (
                std::fs::read(self.files.join(place)),
                std::fs::read(seed.join(name)),
            );
            assert_eq!(ours.unwrap(), given.unwrap(), "{place}");
        }
    }
}

/// Asks with `dig`: what it prints with `+noall` and these sections.
fn dig(client: &Machine, server: &str, arguments: &[&str]) -> String {
    let mut command = client.command("dig");
    command
        .arg(format!("@{server}"))
        .args(["+time=3", "+tries=1"])
        .args(arguments);
    let (_, stdout, stderr) = run(command);
    assert!(stderr.is_empty(), "dig @{server} {arguments:?}: {stderr}");
    stdout
}

/// The addresses of a name.
fn short(client: &Machine, server: &str, name: &str) -> BTreeSet<String> {
    dig(client, server, &["+short", name, "A"])
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The `status:` of an answer.
fn status(client: &Machine, server: &str, arguments: &[&str]) -> String {
    let text = dig(client, server, arguments);
    let status = text
        .split("status: ")
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    status
        .unwrap_or_else(|| panic!("no answer: {text}"))
        .to_owned()
}

fn masters<'n>(machines: &[&'n Machine]) -> Vec<Master<'n>> {
    let on = |(machine, address): (&&'n Machine, &str)| {
        let at = |port| format!("{address}:{port}").parse().unwrap();
        Master::on(machine, [6443, 443, 5443].map(at).to_vec())
    };
    machines.iter().zip(ADDRESSES).map(on).collect()
}

/// All servers answer for every name as the site is meant to.
fn assert_answers(client: &Machine, working: &[&str]) {
    let working: BTreeSet<&str> = working.iter().copied().collect();
    for server in ADDRESSES {
        for name in BALANCED {
            let found = short(client, server, name);
            let [address] = &found.iter().collect::<Vec<_>>()[..] else {
                panic!("{name} at {server}: {found:?}");
            };
            assert!(
                working.contains(address.as_str()),
                "{name} at {server}: {address}"
            );
        }
        for (name, address) in FIXED {
            assert_eq!(
                short(client, server, name),
                BTreeSet::from([address.to_owned()]),
                "{name}"
            );
        }
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn three_nodes_answer_from_the_files_of_the_site() {
    let mut network = Network::new();
    let [first, second, third] =
        [0, 1, 2].map(|n| network.machine(&format!("m{n}"), &format!("{}/24", ADDRESSES[n])));
    let client = network.machine("client", "192.168.7.20/24");
    let machines = [&first, &second, &third];
    let mut masters = masters(&machines);
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for (machine, how) in machines
        .into_iter()
        .zip([Start::Files, Start::Options, Start::Import])
    {
        let mut node = Node::new(machine, "pdns.conf");
        node.start_healthd();
        node.start_authd(how);
        node.start_recursor(how);
        nodes.push(node);
    }

    assert_answers(&client, &ADDRESSES);
    for server in ADDRESSES {
        assert_eq!(
            status(&client, server, &["nobody.ocp4.redhat.ren", "A"]),
            "NXDOMAIN"
        );
        assert_eq!(
            status(&client, server, &["helper.ocp4.redhat.ren", "AAAA"]),
            "NOERROR"
        );
        let soa = dig(&client, server, &["+short", "ocp4.redhat.ren", "SOA"]);
        assert_eq!(
            soa.trim(),
            "ns1.ocp4.redhat.ren. postmaster.ocp4.redhat.ren. 2014080704 10800 1800 1209600 604800"
        );
        let ns = dig(&client, server, &["+short", "ocp4.redhat.ren", "NS"]);
        assert_eq!(ns.lines().count(), 2, "{ns}");
        let tcp = dig(
            &client,
            server,
            &["+tcp", "+short", "helper.ocp4.redhat.ren"],
        );
        assert_eq!(tcp.trim(), "192.168.7.11");

        // There is no way out of the site: an outside name fails, and fails at once.
        let start = Instant::now();
        assert_eq!(
            status(&client, server, &["www.example.com", "A"]),
            "SERVFAIL"
        );
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "took {:?}",
            start.elapsed()
        );
    }

    // A master that refuses connections leaves all answers, and comes back.
    masters[1].down();
    let left = [ADDRESSES[0], ADDRESSES[2]];
    settle(&client, &left, "the master that is down leaves the answers");
    assert_answers(&client, &left);
    masters[1].up();
    settle(
        &client,
        &ADDRESSES,
        "the master that is up again comes back",
    );

    // So does one that vanishes with its node. The others answer on.
    third.unplug();
    wait::for_it(
        "the node without a cable leaves the answers",
        3 * INTERVAL,
        || {
            ADDRESSES[..2].iter().all(|server| {
                (0..12).all(|n| {
                    let found = short(&client, server, &format!("n{n}.apps.ocp4.redhat.ren"));
                    !found.is_empty() && !found.contains(ADDRESSES[2])
                })
            })
        },
    );
    for node in &nodes {
        node.assert_untouched("pdns.conf");
    }
    for mut node in nodes {
        for service in node.services.drain(..).rev() {
            service.stop();
        }
    }
}

/// Waits until every server gives exactly these addresses over many names below the wildcard.
///
/// The time is that of one check that has just begun, one more, and what a resolver may keep.
fn settle(client: &Machine, expected: &[&str], what: &str) {
    let expected: BTreeSet<String> = expected
        .iter()
        .map(|address| (*address).to_owned())
        .collect();
    wait::for_it(what, 3 * INTERVAL, || {
        ADDRESSES.iter().all(|server| {
            let names = (0..24).map(|n| format!("n{n}.apps.ocp4.redhat.ren"));
            names
                .flat_map(|name| short(client, server, &name))
                .collect::<BTreeSet<_>>()
                == expected
        })
    });
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn the_authority_answers_alone_on_port_53() {
    let mut network = Network::new();
    let machine = network.machine("m0", "192.168.7.13/24");
    let client = network.machine("client", "192.168.7.20/24");
    let _master = Master::on(&machine, vec!["192.168.7.13:6443".parse().unwrap()]);
    let mut node = Node::new(&machine, "pdns-alone.conf");
    node.start_healthd();
    node.start_authd(Start::Files);

    // Of three masters one is there, and the very first answer knows.
    assert_eq!(
        short(&client, ADDRESSES[0], "api.ocp4.redhat.ren"),
        BTreeSet::from([ADDRESSES[0].to_owned()])
    );
    let text = dig(&client, ADDRESSES[0], &["helper.ocp4.redhat.ren"]);
    assert!(text.contains("flags: qr aa rd;"), "{text}");
    assert_eq!(
        status(&client, ADDRESSES[0], &["www.example.com"]),
        "REFUSED"
    );
    node.assert_untouched("pdns-alone.conf");
    for service in node.services.drain(..).rev() {
        service.stop();
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn what_a_peer_file_says_is_checked_before_anything_starts() {
    let mut network = Network::new();
    let machine = network.machine("m0", "192.168.7.13/24");
    let node = Node::new(&machine, "pdns.conf");
    let check =
        |program: &str, flag: &str, file: &str| run(node.command(program, &["check", flag, file]));
    for (program, flag, file) in [
        ("dns-authd", "--pdns-conf", "/etc/pdns/pdns.conf"),
        (
            "dns-recursor",
            "--recursor-conf",
            "/etc/pdns-recursor/recursor.conf",
        ),
    ] {
        let (status, stdout, stderr) = check(program, flag, file);
        assert!(status.success(), "{program}: {stdout}{stderr}");
    }
    // A slip in a snippet has its file and line, and PowerDNS's own tool does not see it.
    let zone = std::fs::read_to_string(node.files.join("etc/pdns/inside-out.xyz")).unwrap();
    node.files.write(
        "etc/pdns/inside-out.xyz",
        &zone.replacen("ifportup(443", "ifportpu(443", 1),
    );
    let line = zone
        .lines()
        .position(|line| line.starts_with("*.apps"))
        .unwrap()
        + 1;
    let (status, stdout, stderr) = check("dns-authd", "--pdns-conf", "/etc/pdns/pdns.conf");
    assert_eq!(status.code(), Some(78), "{stdout}{stderr}");
    let place = format!("/etc/pdns/inside-out.xyz:{line}:");
    assert!(
        format!("{stdout}{stderr}").contains(&place),
        "{place} is not in\n{stdout}{stderr}"
    );
}
