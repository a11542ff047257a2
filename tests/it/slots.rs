//! Two processes of each service with the same sockets: who can be asked what, and what becomes of the
//! service when one takes over from the other, or dies having done so.

mod hand_over;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use tests::daemon::Daemon;
use tests::lb::{self, Place};
use tests::registry::Registry;
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::slots::{Slots, with};
use tests::sockets::{Held, HeldPath};
use tests::stream::Server;
use tests::time::Agent;
use tests::upstream::{Action, Upstream};

const ZONE: &str =
    "$TTL 60\n@ SOA ns hostmaster 7 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\na A 192.0.2.1\n";

/// Slots of dns-authd with one zone.
fn authority() -> Slots {
    let site = Site::new();
    site.configure_authd(&[("example.com", ZONE)], "");
    let held = Held::bind(site.authority());
    Slots::new("dns-authd", move |arguments| {
        held.hand_to("dns", &with(site.serve("dns-authd"), arguments))
    })
}

/// Slots of a service that keeps its state to itself: sockets under a name, and what is to be kept alive.
fn registry() -> (Slots, std::net::SocketAddr) {
    let registry = Registry::open();
    let address = registry.name().parse().unwrap();
    let held = Held::bind(address);
    let slots = Slots::new("registry-svc", move |arguments| {
        held.hand_to("registry", &with(registry.command("serve"), arguments))
    });
    (slots, address)
}

/// Slots of healthd, which know the tests' own directory.
fn health() -> (Slots, Site) {
    let site = Site::new();
    let held = HeldPath::bind(&site.socket());
    let serve = tests::binaries::binary("healthd");
    let config = site.files.join("healthd.toml");
    let slots = Slots::new("healthd", move |arguments| {
        let mut command = Command::new(&serve);
        command.arg("serve").arg("--config").arg(&config);
        held.hand_to("healthd", &with(command, arguments))
    });
    (slots, site)
}

/// Slots of healthd without a socket that another process holds.
fn unheld_health() -> (Site, Slots) {
    let site = Site::new();
    let config = site.files.join("healthd.toml");
    let slots = Slots::new("healthd", move |arguments| {
        let mut command = Command::new(tests::binaries::binary("healthd"));
        command.arg("serve").arg("--config").arg(&config);
        with(command, arguments)
    });
    (site, slots)
}

/// Slots of clusterd with one Service among its manifests, and its socket.
fn cluster() -> (Slots, Scratch) {
    let files = Scratch::new("cluster");
    let manifests = files.join("manifests");
    std::fs::create_dir_all(&manifests).unwrap();
    let web = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 172.30.0.20}\n";
    std::fs::write(manifests.join("web.yaml"), web).unwrap();
    let socket = files.join("clusterd.sock");
    let config = files.write(
        "clusterd.toml",
        &format!(
            "version = \"v1\"\nsocket = \"{}\"\nstate = \"{}\"\nmanifests = \"{}\"\nadmin.listen = \"none\"\n",
            socket.display(),
            files.join("state").display(),
            manifests.display()
        ),
    );
    let held = HeldPath::bind(&socket);
    let serve = tests::binaries::binary("clusterd");
    let slots = Slots::new("clusterd", move |arguments| {
        let mut command = Command::new(&serve);
        command.arg("serve").arg("--config").arg(&config);
        held.hand_to("clusterd", &with(command, arguments))
    });
    (slots, files)
}

/// Slots of lb-proxy in front of a server.
fn balancer(server: &Server) -> (Slots, std::net::SocketAddr) {
    let place = Place::new();
    place.configure(&lb::pair(&place, "", "", &[server.address()]));
    let front = place.front();
    let held = Held::bind(front);
    let slots = Slots::new("lb-proxy", move |arguments| {
        held.hand_to("front", &with(place.serve(), arguments))
    });
    (slots, front)
}

fn clock() -> Slots {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\n");
    let held = Held::bind(agent.address());
    Slots::new("timesync-agent", move |arguments| {
        held.hand_to("ntp", &with(agent.serve(), arguments))
    })
}

/// Asks a slot everything that a swap asks.
fn ask(slots: &Slots, expected: &str) {
    let a: Daemon = slots.start("a");
    let socket = slots.socket("a");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "who may ask");
    let status = slots.status("a");
    assert_eq!(status["slot"], "a", "{status:#}");
    assert!(status["version"].is_string(), "{status:#}");
    let checked = slots.self_check("a").unwrap();
    assert!(checked.contains(expected), "{checked}");
    a.stop();
    assert!(!socket.exists(), "the socket goes with its process");
}

#[test]
fn dns_authd_answers_for_its_zones_when_it_checks_itself() {
    ask(&authority(), "1 zone answers");
}

#[test]
fn a_zone_that_cannot_be_answered_for_fails_the_self_check() {
    let site = Site::new();
    site.configure_authd(&[("example.com", ZONE), ("broken.example", "nonsense")], "");
    let slots = Slots::new("dns-authd", move |arguments| {
        with(site.serve("dns-authd"), arguments)
    });
    let a = slots.start("a");
    let reason = slots.self_check("a").unwrap_err();
    assert!(reason.starts_with("zone broken.example.: "), "{reason}");
    a.stop();
}

#[test]
fn dns_recursor_resolves_a_zone_when_it_checks_itself() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, |asked| Action::Send(asked.answer(0, &[])));
    let site = Site::new();
    site.configure_recursor(
        &format!("[[forward]]\nzone = \"example\"\nupstreams = [\"{to}\"]\n"),
        "",
    );
    let held = Held::bind(site.resolver());
    let slots = Slots::new("dns-recursor", move |arguments| {
        held.hand_to("dns", &with(site.serve("dns-recursor"), arguments))
    });
    ask(&slots, "example. is resolved");
    // No server answers for the zone: the self-check says so.
    drop(upstream);
    let a = slots.start("a");
    let reason = slots.self_check("a").unwrap_err();
    assert!(reason.contains("example.: no server answers"), "{reason}");
    a.stop();
}

#[test]
fn registry_svc_reads_its_store_when_it_checks_itself() {
    ask(&registry().0, "answers /v2/ with 200");
}

#[test]
fn healthd_lists_its_targets_when_it_checks_itself() {
    let (slots, _site) = health();
    ask(&slots, "lists 0 targets");
}

#[test]
fn clusterd_has_a_snapshot_when_it_checks_itself() {
    let (slots, _files) = cluster();
    ask(&slots, " of generation ");
}

#[test]
fn lb_proxy_has_listeners_and_choices_when_it_checks_itself() {
    let server = Server::echo(at(loopback(), lb::FRONT));
    let (slots, _front) = balancer(&server);
    ask(&slots, "1 listener, 1 of 1 frontend with servers");
}

#[test]
fn timesync_agent_answers_when_it_checks_itself() {
    ask(&clock(), "answers at stratum ");
}

#[test]
fn a_socket_that_a_killed_process_left_is_replaced() {
    let slots = authority();
    slots.start("a").kill();
    assert!(slots.socket("a").exists());
    let again = slots.start("a");
    assert_eq!(slots.status("a")["slot"], "a");
    again.stop();
}

#[test]
fn both_processes_can_be_asked_while_they_overlap() {
    let slots = authority();
    let a = slots.start("a");
    let b = slots.start("b");
    for slot in ["a", "b"] {
        assert_eq!(slots.status(slot)["slot"], slot);
        assert!(slots.get(slot, "/readyz").is_success());
    }
    a.stop();
    assert!(slots.self_check("b").is_ok());
    b.stop();
}
