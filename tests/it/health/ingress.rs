//! A site with workers as `outpost` renders it: connections to the ingress reach a router, which runs on workers alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tests::daemon::run;
use tests::dns::ask_a;
use tests::netns::Machine;
use tests::scratch::Scratch;
use tests::stream::{Server, try_connect, try_line};
use tests::wait;

use super::exchange::{Site, outpost};
use super::one_truth::{Services, authority};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const MASTER: &str = "192.168.7.13";
const WORKERS: [(&str, &str); 2] = [("worker-0", "192.168.7.16"), ("worker-1", "192.168.7.17")];
const VIP: &str = "192.168.7.101";

#[test]
#[ignore = "needs root for network namespaces"]
fn without_virtual_ips_names_and_balancer_lead_to_the_workers_routers() {
    // Clients connect to the ports of lb-proxy, or to the node that the name has.
    let addresses = WORKERS.map(|(_, address)| address);
    try_ingress(
        &[],
        &[(443, 9443), (80, 9080)].map(|(of, port)| (of, format!("{MASTER}:{port}"))),
        &addresses,
    );
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_virtual_ip_of_the_ingress_leads_to_the_workers_routers() {
    let more = ["--ingress-vip", VIP, "--interface", "eth0"];
    try_ingress(
        &more,
        &[443, 80].map(|port| (port, format!("{VIP}:{port}"))),
        &[VIP],
    );
}

/// Tries a site with these flags of `init`: the ports of the ingress with what clients connect to for each, and the addresses
/// that its names have.
fn try_ingress(flags: &[&str], ports: &[(u16, String)], named: &[&str]) {
    let files = Scratch::new("ingress");
    let output = files.path().display().to_string();
    let master = format!("master-0={MASTER}");
    let workers = WORKERS.map(|(name, address)| format!("--worker={name}={address}"));
    let [one, other] = &workers;
    let init = [
        "init",
        "--yes",
        "--name",
        "ocp4",
        "--domain",
        DOMAIN,
        "--network",
        "192.168.7.0/24",
        "--master",
        &master,
        one,
        other,
        "--output",
        &output,
    ];
    outpost(&[&init[..], flags].concat());
    let with_length = |address: &str| format!("{address}/24");
    let beside: Vec<(&str, String)> = WORKERS
        .iter()
        .map(|(name, address)| (*name, with_length(address)))
        .chain([("client", with_length("192.168.7.20"))])
        .collect();
    let beside: Vec<(&str, &str)> = beside
        .iter()
        .map(|(name, at)| (*name, at.as_str()))
        .collect();
    let (mut site, machines) = Site::of(files, &[("master-0", &with_length(MASTER))], &beside);
    let [workers @ .., client] = &machines[..] else {
        panic!("there is a client");
    };
    redirect(&site);
    site.nodes[0].start();
    let _services = Services::start(&site.nodes[0]);

    let mut routers: Vec<Vec<Server>> = WORKERS
        .iter()
        .zip(workers)
        .map(|((name, _), machine)| {
            let at = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            machine.inside(|| {
                ports
                    .iter()
                    .map(|(port, _)| Server::named(at(*port), name))
                    .collect()
            })
        })
        .collect();
    let master = &site.nodes[0].machine;
    wait::for_it("the names of the ingress", LIMIT, || {
        let found = answers(master);
        !found.is_empty()
            && found
                .iter()
                .all(|address| named.contains(&address.as_str()))
    });
    for (_, address) in ports {
        wait_greeted(client, address, &WORKERS.map(|(name, _)| name));
    }

    // One worker's router ends: the other one has every connection, and the name.
    drop(routers.remove(0));
    for (_, address) in ports {
        wait_greeted(client, address, &["worker-1"]);
    }
    let left: Vec<&str> = match named {
        [vip] => vec![vip],
        _ => vec![WORKERS[1].1],
    };
    wait::for_it("the names of what is left", LIMIT, || {
        answers(master) == left
    });
}

/// Loads the rendered table that leads ports of virtual IPs to lb-proxy, if there is one.
fn redirect(site: &Site) {
    let table = site
        .files
        .join("out/quadlet/master-0/etc/outpost/redirect.nft");
    if !table.exists() {
        return;
    }
    let mut nft = site.nodes[0].machine.command("nft");
    nft.arg("--file").arg(table);
    let (status, _, complaint) = run(nft);
    assert!(status.success(), "{complaint}");
}

/// Waits until several connections in a row are each greeted by one of these routers.
fn wait_greeted(client: &Machine, address: &str, routers: &[&str]) {
    let address: SocketAddr = address.parse().expect("an address");
    let greeted = || {
        let line = || try_line(&try_connect(address)?);
        let lines: Vec<String> = (0..8).filter_map(|_| line().ok()).collect();
        lines.len() == 8 && lines.iter().all(|line| routers.contains(&line.trim()))
    };
    let what = format!("{address} leads to {routers:?}");
    client.inside(|| wait::for_it(&what, LIMIT, greeted));
}

/// The addresses of a name of the ingress, from several answers.
fn answers(master: &Machine) -> Vec<String> {
    let name = format!("console.apps.{DOMAIN}");
    let answer = |_| {
        ask_a(authority(), &name).map_or_else(
            |_| Vec::new(),
            |found| found.addresses().into_iter().collect(),
        )
    };
    let mut found: Vec<String> = master.inside(|| {
        (0..8)
            .flat_map(answer)
            .map(|address| address.to_string())
            .collect()
    });
    found.sort();
    found.dedup();
    found
}

const DOMAIN: &str = "ocp4.redhat.ren";
