//! Nodes without podman: plain units of systemd run the programs themselves, shut in by systemd.

use std::net::SocketAddr;

use tests::binaries::SERVICES;
use tests::node::lan::{ADDRESSES, DOMAIN, Lan, live_unit};
use tests::node::{Node, images_or_skip, or_skip};
use tests::wait;

use super::using::Using;
use super::{SETTLED, WINDOW};

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn nodes_without_containers_serve_and_a_service_is_swapped() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    // The last table of the example's site file is [platform].
    let mut lan = Lan::provision(root, images, "podman = \"none\"\n");
    lan.boot();
    for node in &lan.nodes {
        for service in SERVICES {
            runs_by_itself_and_shut_in(node, service);
        }
    }
    names_and_the_api_are_served(&lan);

    let node = &lan.nodes[0];
    let archive = "/var/lib/outpost/incoming/dns-authd.tar";
    node.put(&images.new_build("dns-authd"), archive);
    let before = live_unit(node, "dns-authd");
    let using = Using::start(&lan, node, "dns-authd");
    std::thread::sleep(WINDOW);
    let said = node.run(&["outpost", "swap", "dns-authd", archive, "--canary", "1s"]);
    std::thread::sleep(WINDOW);
    let after = live_unit(node, "dns-authd");
    assert!(after.is_some() && after != before, "{after:?}\n{said}");
    using.stop().assert_served(&said, false);
    runs_by_itself_and_shut_in(node, "dns-authd");
    lan.assert_nothing_left();
}

/// No container engine between systemd and the program, and none of root's rights in it.
fn runs_by_itself_and_shut_in(node: &Node, service: &str) {
    let unit = live_unit(node, service).unwrap_or_else(|| panic!("no slot of {service} is active"));
    let shown = |property| node.run(&["systemctl", "show", "-P", property, &unit]);
    let start = shown("ExecStart");
    let program = format!("/var/lib/outpost/bin/{service}-");
    assert!(start.contains(&program), "{start}");
    let status = format!("/proc/{}/status", shown("MainPID").trim());
    let status = node.run(&["cat", &status]);
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(field("NoNewPrivs:"), "1", "{service}");
    assert_eq!(field("Seccomp:"), "2", "{service}");
    let user = node.run(&["id", "-u", &format!("outpost-{service}")]);
    let user = user.trim();
    assert_eq!(field("Uid:"), [user; 4].join(" "), "{service}");
    // Virtual addresses and the clock need some; nothing else does.
    let has_none = field("CapEff:").trim_matches('0').is_empty();
    let may_have = ["lb-proxy", "timesync-agent"].contains(&service);
    assert!(has_none || may_have, "{service}: {}", field("CapEff:"));
}

fn names_and_the_api_are_served(lan: &Lan) {
    wait::for_it("every node names a master that is up", SETTLED, || {
        ADDRESSES.iter().all(|server| {
            let found = lan.dig(server, &[&format!("api.{DOMAIN}")]);
            matches!(&found[..], [one] if ADDRESSES.contains(&one.as_str()))
        })
    });
    let https = lan.https();
    for address in ADDRESSES {
        let proxy: SocketAddr = format!("{address}:9445").parse().unwrap();
        // Whichever master it leads to, it has its own name.
        let names = ["master-0", "master-1", "master-2"];
        let status = lan.client.inside(|| {
            let mut tries = names.iter();
            tries.find_map(|name| https.get_at(proxy, name, "/readyz").ok())
        });
        assert_eq!(status, Some(200), "the API through {address}");
    }
}
