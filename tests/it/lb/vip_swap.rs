//! A new process takes a virtual IP over with everything else, or nothing at all.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::gap::Gap;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{Server, try_line};
use tests::wait;

const NODE: &str = "192.168.7.13";
const VIP: &str = "192.168.7.100";
const API: u16 = 6443;

/// How long anything may take: the machine may be building.
const PATIENCE: Duration = Duration::from_secs(20);

/// For how long the address may not answer: less than it takes to become active again.
const BOUND: Duration = Duration::from_secs(2);

fn configure(files: &Scratch, interface: &str) {
    let swap = files.join("swap.sock");
    let text = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\n\
         swap.socket = \"{}\"\n\
         [[frontend]]\nname = \"api\"\nlisten = [\"{VIP}:{API}\"]\nbackend = \"api\"\n\
         [[vip]]\nname = \"api\"\naddresses = [\"{VIP}/24\"]\ninterface = \"{interface}\"\n\
         router-id = 51\n\
         [[backend]]\nname = \"api\"\n\
         [[backend.server]]\nname = \"m0\"\naddress = \"{NODE}:{API}\"\n",
        swap.display(),
    );
    files.write("lb-proxy.toml", &text);
}

fn lb_proxy(machine: &Machine, files: &Scratch) -> Command {
    let mut command = machine.command(binary("lb-proxy"));
    command.arg("serve").arg("--config");
    command.arg(files.join("lb-proxy.toml"));
    command
}

fn visit(client: &Machine) -> std::io::Result<String> {
    let address: SocketAddr = format!("{VIP}:{API}").parse().unwrap();
    client.inside(|| {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        try_line(&stream)
    })
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_process_that_cannot_hold_the_address_does_not_take_it_over() {
    let mut network = Network::new();
    let node = network.machine("m0", &format!("{NODE}/24"));
    let client = network.machine("client", "192.168.7.20/24");
    let at: SocketAddr = format!("{NODE}:{API}").parse().unwrap();
    let _server = node.inside(|| Server::named(at, "api"));
    let files = Scratch::new("vip-swap");
    configure(&files, "eth0");
    let vip = VIP.parse().unwrap();
    let mut first = Daemon::start("first", lb_proxy(&node, &files));
    wait::for_it("the address is held", PATIENCE, || node.has_address(vip));
    assert_eq!(visit(&client).unwrap(), "api");

    let gap = Gap::start(&client, vip);
    configure(&files, "eth9");
    let (status, stdout, stderr) = run(lb_proxy(&node, &files));
    let said = format!("{stdout}{stderr}");
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(
        said.contains("cannot take over the virtual IP api"),
        "{said}"
    );
    first.wait_log("Hand-over did not take place");
    assert!(first.is_running(), "{}", first.log());
    assert!(node.has_address(vip));
    assert_eq!(visit(&client).unwrap(), "api");

    configure(&files, "eth0");
    let second = Daemon::start("second", lb_proxy(&node, &files));
    assert!(first.wait().success(), "{}", first.log());
    assert!(node.has_address(vip), "{}", second.log());
    assert_eq!(visit(&client).unwrap(), "api");
    let gap = gap.stop();
    assert!(gap < BOUND, "{gap:?}");
    for process in [&first, &second] {
        // Only the process that was taken over from has ended.
        let log = process.log();
        let mut lost = log.lines().filter(|line| line.contains("from=active"));
        assert!(lost.all(|line| line.contains("to=initialize")), "{log}");
    }
    second.stop();
    assert!(!node.has_address(vip));
}
