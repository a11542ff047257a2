//! lb-proxy on the files of HAProxy and keepalived as they are.

use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::lb::{FRONT, Place};
use tests::scratch::{at, loopback};
use tests::stream::{Server, connect, line, try_connect};
use tests::wait;

/// EX_CONFIG of sysexits.h.
const CONFIG: i32 = 78;

/// The file, with a frontend at `port` for a server.
fn file(place: &Place, port: u16, server: &Server, more: &str) -> String {
    format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n option redispatch\n\
         frontend f\n bind {}:{port}\n{more} default_backend b\nbackend b\n server s0 {}\n",
        place.ip,
        server.address()
    )
}

fn command(place: &Place, verb: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("lb-proxy"));
    command
        .arg(verb)
        .arg("--haproxy-cfg")
        .arg(place.files.join("haproxy.cfg"))
        .args(arguments)
        .args(["--healthd", "none", "--swap-socket", "none"])
        .arg("--admin")
        .arg(place.admin().to_string());
    command
}

fn serve(place: &Place, arguments: &[&str]) -> Daemon {
    Daemon::start("lb-proxy", command(place, "serve", arguments))
}

#[test]
fn a_haproxy_cfg_is_served_and_read_again_as_it_is() {
    let place = Place::new();
    let [one, other] = ["one", "other"].map(|name| Server::named(at(loopback(), FRONT), name));
    place
        .files
        .write("haproxy.cfg", &file(&place, 7000, &one, " cookie x\n"));
    let lb = serve(&place, &[]);
    assert_eq!(line(&connect(at(place.ip, 7000))), "one");
    let count = |text: &str| lb.log().matches(text).count();
    assert_eq!(count("haproxy.cfg:9:2: "), 1, "{}", lb.log());

    // Another server, and a port more; connections stay.
    let held = connect(at(place.ip, 7000));
    assert_eq!(line(&held), "one");
    let next = file(&place, 7000, &other, &format!(" bind {}:7001\n", place.ip));
    place.files.write("haproxy.cfg", &next);
    lb.hang_up();
    wait::for_it("the other port is served", Duration::from_secs(20), || {
        try_connect(at(place.ip, 7001)).is_ok()
    });
    assert_eq!(line(&connect(at(place.ip, 7001))), "other");
    assert_eq!(line(&connect(at(place.ip, 7000))), "other");

    // A file with an error changes nothing, and the log has its place.
    let broken = format!("{next} server \"s1\n");
    place.files.write("haproxy.cfg", &broken);
    lb.hang_up();
    lb.wait_log("haproxy.cfg:13:");
    // So does one that keeps clients out in a way that is not known here.
    let rule = " tcp-request connection reject unless { src -f /etc/lan }\n";
    place
        .files
        .write("haproxy.cfg", &file(&place, 7002, &one, rule));
    lb.hang_up();
    lb.wait_log("--accept-open");
    assert_eq!(line(&connect(at(place.ip, 7001))), "other");
    assert!(try_connect(at(place.ip, 7002)).is_err());
    drop(held);
    lb.stop();
}

#[test]
fn a_lost_restriction_refuses_start_and_check_until_it_is_accepted() {
    let place = Place::new();
    let server = Server::named(at(loopback(), FRONT), "s");
    let rule = " tcp-request connection reject unless { src -f /etc/lan }\n";
    place
        .files
        .write("haproxy.cfg", &file(&place, 7000, &server, rule));
    for verb in ["serve", "check"] {
        let (status, stdout, stderr) = run(command(&place, verb, &[]));
        assert_eq!(status.code(), Some(CONFIG), "{verb}: {stderr}");
        let said = stdout + &stderr;
        assert!(said.contains("haproxy.cfg:9:2: "), "{verb}: {said}");
        assert!(said.contains("`--accept-open`"), "{verb}: {said}");
    }
    let (status, stdout, stderr) = run(command(&place, "check", &["--accept-open"]));
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("security: "), "{stdout}");
    let lb = serve(&place, &["--accept-open"]);
    assert_eq!(line(&connect(at(place.ip, 7000))), "s");
    assert!(lb.log().contains("security: "), "{}", lb.log());
    lb.stop();
}

#[test]
fn the_files_of_both_peers_are_checked_together() {
    let place = Place::new();
    let server = Server::named(at(loopback(), FRONT), "s");
    place
        .files
        .write("haproxy.cfg", &file(&place, 7000, &server, ""));
    let keepalived = |text: &str| {
        let path = place.files.write("keepalived.conf", text);
        let path = path.display().to_string();
        run(command(&place, "check", &["--keepalived-conf", &path]))
    };
    let instance = "vrrp_instance v {\ninterface e0\nvirtual_router_id 7\nvirtual_ipaddress { 192.0.2.1 }\n}\n";
    let (status, stdout, stderr) = keepalived(instance);
    assert_eq!(status.code(), Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("1 frontend for f"), "{stdout}");
    assert!(stdout.contains("1 virtual IP: v"), "{stdout}");
    // The place of an error is that in the peer's file.
    let (status, stdout, stderr) = keepalived("vrrp_instance v {\n");
    let said = stdout + &stderr;
    assert_eq!(status.code(), Some(CONFIG), "{said}");
    assert!(said.contains("keepalived.conf:1:"), "{said}");
}
