//! Clients of a virtual IP whose connections the kernel forwards hear it when the address moves.

use std::net::SocketAddr;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::Daemon;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{End, Server, end_within, try_connect, try_line};
use tests::wait;

const SERVER: &str = "192.168.7.15:5443";
const VIP: &str = "192.168.7.100";
const AT: &str = "192.168.7.100:5443";

/// How long anything may take: the machine may be building.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node of this priority, and its files.
fn start(machine: &Machine, priority: u8) -> (Daemon, Scratch) {
    let files = Scratch::new("vip-kernel");
    let text = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
         [[frontend]]\nname = \"registry\"\nlisten = [\"{AT}\"]\npath = \"kernel\"\nbackend = \"registry\"\n\
         [[vip]]\nname = \"registry\"\naddresses = [\"{VIP}\"]\ninterface = \"eth0\"\n\
         router-id = 51\npriority = {priority}\n\
         [[backend]]\nname = \"registry\"\n\
         [[backend.server]]\nname = \"m0\"\naddress = \"{SERVER}\"\n",
    );
    let config = files.write("lb-proxy.toml", &text);
    let mut command = machine.command(binary("lb-proxy"));
    command.arg("serve").arg("--config").arg(config);
    (Daemon::start("lb-proxy", command), files)
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_client_that_waits_hears_that_the_address_is_handed_over() {
    let mut network = Network::new();
    let first = network.machine("m0", "192.168.7.13/24");
    let second = network.machine("m1", "192.168.7.14/24");
    let third = network.machine("m2", "192.168.7.15/24");
    let outside = network.machine("client", "192.168.7.20/24");
    for machine in [&first, &second] {
        machine.configure("net/ipv4/ip_forward", "1");
    }
    let server: SocketAddr = SERVER.parse().unwrap();
    let _server = third.inside(|| Server::named(server, "registry"));
    let vip = VIP.parse().unwrap();
    let at: SocketAddr = AT.parse().unwrap();
    let connect = || {
        let stream = outside.inside(|| try_connect(at).unwrap());
        assert_eq!(try_line(&stream).unwrap(), "registry");
        stream
    };

    let (one, _files) = start(&first, 150);
    wait::for_it("the address is held", PATIENCE, || first.has_address(vip));
    let (_other, _others) = start(&second, 100);
    // It sends no more: only a node that got the last message knows.
    let stream = connect();
    one.stop();
    assert!(second.has_address(vip) && !first.has_address(vip));
    assert_eq!(end_within(&stream, PATIENCE), End::Reset(0));
    connect();
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_client_that_waits_hears_that_the_address_is_taken_out_with_its_frontend() {
    let server: SocketAddr = SERVER.parse().unwrap();
    let vip = VIP.parse().unwrap();
    let at: SocketAddr = AT.parse().unwrap();
    let base = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
         [[backend]]\nname = \"registry\"\n\
         [[backend.server]]\nname = \"m0\"\naddress = \"{SERVER}\"\n",
    );
    let frontend = |name: &str, listen: &str, path: &str| {
        format!(
            "[[frontend]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\npath = \"{path}\"\nbackend = \"registry\"\n"
        )
    };
    let goes = format!(
        "{}[[vip]]\nname = \"registry\"\naddresses = [\"{VIP}\"]\ninterface = \"eth0\"\nrouter-id = 51\n",
        frontend("registry", AT, "kernel"),
    );
    // Whether or not the kernel still has something to forward.
    for path in ["kernel", "user"] {
        let mut network = Network::new();
        let node = network.machine("m0", "192.168.7.13/24");
        let third = network.machine("m2", "192.168.7.15/24");
        let outside = network.machine("client", "192.168.7.20/24");
        node.configure("net/ipv4/ip_forward", "1");
        let _server = third.inside(|| Server::named(server, "registry"));
        let stays = format!("{base}{}", frontend("stays", "192.168.7.13:7443", path));
        let files = Scratch::new("vip-kernel");
        let config = files.write("lb-proxy.toml", &format!("{stays}{goes}"));
        let mut command = node.command(binary("lb-proxy"));
        command.arg("serve").arg("--config").arg(config);
        let mut lb = Daemon::start("lb-proxy", command);
        wait::for_it("the address is held", PATIENCE, || node.has_address(vip));
        let stream = outside.inside(|| try_connect(at).unwrap());
        assert_eq!(try_line(&stream).unwrap(), "registry");

        files.write("lb-proxy.toml", &stays);
        lb.forget_told();
        lb.hang_up();
        lb.wait_told("READY=1");
        wait::for_it("the address is gone", PATIENCE, || !node.has_address(vip));
        assert_eq!(
            end_within(&stream, PATIENCE),
            End::Reset(0),
            "{path}: {}",
            lb.log()
        );
    }
}
