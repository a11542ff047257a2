//! A virtual address has a holder and a reason.

use std::process::Command;

use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::netns::Network;
use tests::scratch::Scratch;
use tests::stream::PATIENCE;
use tests::wait;

const VIP: &str = "192.168.7.100";

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_virtual_address_is_explained_by_its_holder() {
    let mut network = Network::new();
    let node = network.machine_with("m0", &["192.168.7.13/24"]);
    let files = Scratch::new("vip-explain");
    let config = files.write(
        "lb-proxy.toml",
        &format!(
            "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
             [[frontend]]\nname = \"api\"\nlisten = [\"0.0.0.0:6443\"]\nbackend = \"api\"\n\
             [[backend]]\nname = \"api\"\n\
             [[backend.server]]\nname = \"m0\"\naddress = \"192.168.7.13:7443\"\n\
             [[vip]]\nname = \"api\"\naddresses = [\"{VIP}\"]\ninterface = \"eth0\"\nrouter-id = 51\n"
        ),
    );
    let mut command = node.command(binary("lb-proxy"));
    command.arg("serve").arg("--config").arg(config);
    command
        .arg("--admin-socket")
        .arg(files.join("lb-proxy.admin"));
    let lb = Daemon::start("lb-proxy", command);
    wait::for_it("the address is held", PATIENCE, || {
        node.has_address(VIP.parse().unwrap())
    });
    let mut command = Command::new(binary("outpost"));
    command.args(["explain", VIP, "--run-dir"]);
    command.arg(files.join(""));
    let (status, text, complaint) = run(command);
    // healthd is not here.
    assert_eq!(status.code(), Some(69), "{text}{complaint}");
    for line in [
        "  frontend api on 0.0.0.0:6443 to backend api: 0 sessions now\n",
        "  backend api (",
        "    m0 192.168.7.13:7443 ",
        "  virtual address api 192.168.7.100 on eth0: this node holds it: it won the election with priority ",
        "! healthd could NOT be asked: nothing listens at ",
        "dns-recursor has no part in it: the question is about an address\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    lb.stop();
}
