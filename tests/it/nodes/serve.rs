//! From the site file alone: three nodes boot and serve the site to a client that has no other network.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::daemon::run;
use tests::gap::Gap;
use tests::node::lan::{ADDRESSES, DOMAIN, Lan};
use tests::node::{images_or_skip, or_skip};
use tests::registry::image;
use tests::scratch::Scratch;
use tests::stream::connect;
use tests::time::chronyd_measures;
use tests::wait;

use super::SETTLED;

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn three_nodes_serve_the_site_from_its_file_alone() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let start = Instant::now();
    let mut lan = Lan::provision(root, images, "");
    let provisioned = start.elapsed();
    lan.boot();
    let booted = start.elapsed();
    names_are_answered(&lan);
    connections_are_balanced(&lan);
    images_are_kept_by_all(&lan);
    time_is_given(&lan);
    lan.assert_nothing_left();
    eprintln!(
        "three nodes: {provisioned:?} to Ignition applied, {booted:?} to all services ready, {:?} in all",
        start.elapsed()
    );
}

/// Every kind of name, at every node.
fn names_are_answered(lan: &Lan) {
    wait::for_it("health checks have seen all masters", SETTLED, || {
        ADDRESSES.iter().all(|server| {
            let names = (0..16).map(|n| format!("n{n}.apps.{DOMAIN}"));
            let mut found: Vec<String> = names.flat_map(|name| lan.dig(server, &[&name])).collect();
            found.sort();
            found.dedup();
            found == ADDRESSES
        })
    });
    for server in ADDRESSES {
        for name in ["api", "api-int", "console.apps", "registry", "quay"] {
            let found = lan.dig(server, &[&format!("{name}.{DOMAIN}")]);
            let is_one = matches!(&found[..], [one] if ADDRESSES.contains(&one.as_str()));
            assert!(is_one, "{name} at {server}: {found:?}");
        }
        for (name, address) in [
            ("master-1", "192.168.7.14"),
            ("etcd-2", "192.168.7.15"),
            ("worker-0", "192.168.7.16"),
            ("helper", "192.168.7.11"),
        ] {
            assert_eq!(
                lan.dig(server, &[&format!("{name}.{DOMAIN}")]),
                [address],
                "at {server}"
            );
        }
        let reverse = lan.dig(server, &["-x", "192.168.7.14"]);
        assert_eq!(reverse, [format!("master-1.{DOMAIN}.")], "at {server}");
        // There is no way out, and no wait for one: a wait would be in every answer, and what a busy
        // machine adds is not.
        let took = (0..5).map(|n| {
            let start = Instant::now();
            let found = lan.dig(server, &[&format!("n{n}.example.com")]);
            assert_eq!(found, Vec::<String>::new());
            start.elapsed()
        });
        let fastest = took.min().expect("there are five");
        assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    }
}

/// The port of lb-proxy on a node, whose own port is taken by the router.
fn connections_are_balanced(lan: &Lan) {
    for address in ADDRESSES {
        // Which one depends on where the client is: browsers come back to the same router.
        let greeted = greeting(lan, &format!("{address}:9443"));
        assert!(
            greeted.starts_with("master-"),
            "{greeted} through {address}"
        );
        let api: SocketAddr = format!("{address}:9445").parse().unwrap();
        let https = lan.https();
        let status = lan.client.inside(|| {
            https
                .get_at(api, "master-0", "/readyz")
                .or_else(|_| {
                    // Whichever master it is, it has its own name.
                    https.get_at(api, "master-1", "/readyz")
                })
                .or_else(|_| https.get_at(api, "master-2", "/readyz"))
        });
        assert_eq!(status.unwrap(), 200, "the API through {address}");
    }
}

/// The first line of the server behind an address.
fn greeting(lan: &Lan, address: &str) -> String {
    let address = address.parse().unwrap();
    lan.client.inside(|| {
        let stream = connect(address);
        tests::stream::line(&stream)
    })
}

/// Pushed to one node with TLS by name, pulled from another.
fn images_are_kept_by_all(lan: &Lan) {
    let scratch = Scratch::new("images");
    let digest = image(&scratch.join("app"), "1", &[b"one", b"two"]);
    let certificates = scratch.join("certificates");
    std::fs::create_dir_all(&certificates).unwrap();
    std::fs::copy(lan.files.join("pki/ca.crt"), certificates.join("ca.crt")).unwrap();
    let from = format!("oci:{}:1", scratch.join("app").display());
    copy(
        lan,
        &from,
        &format!("docker://master-0.{DOMAIN}:5443/site/app:1"),
        &certificates,
    );
    let to = format!("oci:{}:1", scratch.join("pulled").display());
    for name in ["master-2", "registry"] {
        copy(
            lan,
            &format!("docker://{name}.{DOMAIN}:5443/site/app:1"),
            &to,
            &certificates,
        );
    }
    let index = std::fs::read_to_string(scratch.join("pulled/index.json")).unwrap();
    assert!(index.contains(&digest), "{digest} is not in {index}");
}

fn copy(lan: &Lan, from: &str, to: &str, certificates: &Path) {
    let mut command: Command = lan.client_command("skopeo");
    command.args(["--insecure-policy", "copy", "--preserve-digests"]);
    command.arg("--src-cert-dir").arg(certificates);
    command.arg("--dest-cert-dir").arg(certificates);
    command.args([from, to]);
    let (status, out, complaint) = run(command);
    assert!(status.success(), "{from} to {to}: {out}{complaint}");
}

/// An island's nodes agree on a time, and give it.
fn time_is_given(lan: &Lan) {
    for address in ADDRESSES {
        let socket = format!("{address}:123").parse().unwrap();
        wait::for_it(&format!("{address} gives time"), SETTLED, || {
            let reply = lan.client.inside(|| tests::time::ask(socket));
            reply.is_ok_and(|reply| reply.leap() == 0 && (1..=11).contains(&reply.stratum))
        });
        let server = format!("server {address} iburst");
        let offset = chronyd_measures(lan.client.command("chronyd"), &server);
        assert!(
            offset.abs() < 0.05,
            "{address} is {offset} s off the clock that it has"
        );
    }
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn a_virtual_address_moves_when_its_node_loses_power() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let mut lan = Lan::provision(root, images, VIPS);
    lan.boot();
    for name in ["api", "console.apps"] {
        let expected = if name == "api" { API } else { INGRESS };
        let found = lan.dig(ADDRESSES[0], &[&format!("{name}.{DOMAIN}")]);
        assert_eq!(found, [expected], "{name}");
    }
    let vip = INGRESS.parse().unwrap();
    let holder = wait::until("one node holds the address", SETTLED, || lan.holder(vip));
    wait::for_it("the address answers", SETTLED, || {
        let address = format!("{INGRESS}:443").parse().unwrap();
        lan.client
            .inside(|| tests::stream::try_connect(address).is_ok())
    });
    // Clients connect to the service's own port.
    let greeted = greeting(&lan, &format!("{INGRESS}:443"));
    assert!(greeted.starts_with("master-"), "{greeted}");
    let known = lan.client.neighbour(vip);
    assert_eq!(known, Some(lan.nodes[holder].machine.hardware()));

    let gap = Gap::start(&lan.client, vip);
    lan.nodes[holder].cut_power();
    let next = wait::until("another node holds the address", SETTLED, || {
        lan.holder(vip).filter(|next| *next != holder)
    });
    wait::for_it("the client is told whose it is", SETTLED, || {
        lan.client.neighbour(vip) == Some(lan.nodes[next].machine.hardware())
    });
    let silence = gap.stop();
    greeting(&lan, &format!("{INGRESS}:443"));
    // An address that stays away is; a busy machine is late by seconds.
    assert!(silence < Duration::from_secs(10), "silent for {silence:?}");
    lan.assert_nothing_left();
    eprintln!("virtual address: moved, silent for {silence:?}");
}

const API: &str = "192.168.7.100";
const INGRESS: &str = "192.168.7.101";

/// The site with virtual addresses.
const VIPS: &str = "\n[[vip]]\nname = \"api\"\nrole = \"api\"\naddress = \"192.168.7.100\"\n\
    [[vip]]\nname = \"ingress\"\nrole = \"ingress\"\naddress = \"192.168.7.101\"\n";
