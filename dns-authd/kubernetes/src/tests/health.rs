//! Endpoints that healthd knows to be down.

use std::net::SocketAddr;

use super::*;

fn server(probe: &str, skydns: bool) -> Server {
    let file = Kubernetes {
        probe: Some(probe.to_owned()),
        skydns,
        ..Kubernetes::default()
    };
    Server::new(&objects(), &file)
}

fn down(server: &mut Server, places: &[&str]) {
    let places: BTreeSet<SocketAddr> = places.iter().map(|place| place.parse().unwrap()).collect();
    server.cluster.take_down(&Arc::new(places));
    server.take(NOW);
}

const NAME: &str = "hdls1.testns.svc.cluster.local.";

fn addresses(server: &Server, name: &str) -> usize {
    server.ask(name, "A").answer.len()
}

#[test]
fn the_endpoints_of_headless_services_are_probed_at_their_first_tcp_port() {
    let mut server = server("", false);
    let (probed, unprobed) = server.cluster.probed();
    let wanted = [
        "172.0.0.2:80",
        "172.0.0.3:80",
        "172.0.0.4:80",
        "172.0.0.5:80",
        "[5678:abcd::1]:80",
        "[5678:abcd::2]:80",
    ];
    let wanted: BTreeSet<SocketAddr> = wanted.iter().map(|place| place.parse().unwrap()).collect();
    assert_eq!((probed, unprobed), (wanted, 0));
    let gone = slice("hdls1", 1, &[], &[]).key();
    server.snapshot.remove(&gone);
    server.take(NOW);
    assert_eq!(server.cluster.probed().0.len(), 2);
    // Nothing is probed for a Service that is not selected, and without the option.
    assert_eq!(self::server("shown", false).cluster.probed().0.len(), 0);
    let without = Server::new(&objects(), &Kubernetes::default());
    assert_eq!(without.cluster.probed().0.len(), 0);
}

#[test]
fn endpoints_that_are_down_are_left_out_and_come_back() {
    let mut server = server("", false);
    assert_eq!(addresses(&server, NAME), 4);
    down(&mut server, &["172.0.0.2:80", "172.0.0.4:80", "9.9.9.9:80"]);
    server.answers(
        NAME,
        "A",
        0,
        &format!("{NAME} 5 A 172.0.0.3\n{NAME} 5 A 172.0.0.5"),
    );
    let srv = server.ask(&format!("_http._tcp.{NAME}"), "SRV");
    assert_eq!(srv.answer.len(), 4, "two of IPv4 and two of IPv6: {srv:?}");
    // A name of one endpoint keeps it, and a name of two has the other one.
    assert_eq!(addresses(&server, &format!("172-0-0-2.{NAME}")), 1);
    let name = format!("dup-name.{NAME}");
    server.answers(&name, "A", 0, &format!("{name} 5 A 172.0.0.5"));
    down(&mut server, &[]);
    assert_eq!(addresses(&server, NAME), 4);
}

#[test]
fn when_all_are_down_all_are_served() {
    let mut server = server("", false);
    let all: Vec<String> = server
        .cluster
        .probed()
        .0
        .iter()
        .map(ToString::to_string)
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    down(&mut server, &all);
    assert_eq!(addresses(&server, NAME), 4);
}

#[test]
fn a_change_of_liveness_renders_the_part_of_its_service_alone() {
    let mut server = server("", false);
    let places = BTreeSet::from(["172.0.0.2:80".parse().unwrap()]);
    server.cluster.take_down(&Arc::new(places));
    assert_eq!(server.take(NOW), [(0, 1)]);
    assert_eq!(server.take(NOW), []);
}

#[test]
fn names_of_skydns_and_hostnames_follow_liveness_too() {
    let mut server = server("", true);
    let name = "svc1.testns.endpoints.cluster.local.";
    server.put(slice("svc1", 2, &["172.0.0.8"], &["http/tcp/80"]));
    server.take(NOW);
    assert_eq!(addresses(&server, name), 2);
    down(&mut server, &["172.0.0.8:80"]);
    server.answers(name, "A", 0, &format!("{name} 5 A 172.0.0.1"));
    assert_eq!(
        addresses(&server, "svc1.testns.svc.cluster.local."),
        1,
        "the cluster IP"
    );
}

#[test]
fn targets_beyond_the_limit_are_counted() {
    let mut server = server("", false);
    for number in 0..50_u32 {
        let endpoints: Vec<String> = (1..=100).map(|n| format!("10.20.{number}.{n}")).collect();
        let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        server.put(slice("hdls1", 10 + number, &endpoints, &["http/tcp/80"]));
    }
    server.take(NOW);
    let (probed, unprobed) = server.cluster.probed();
    assert_eq!(
        (probed.len(), unprobed),
        (crate::MOST_PROBED, 5006 - crate::MOST_PROBED)
    );
}
