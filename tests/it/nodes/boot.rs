//! The nodes themselves: they boot, keep their disk over a power cut, and cannot set the clock.

use tests::netns::Network;
use tests::node::{Node, or_skip};

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn a_node_boots_and_keeps_its_disk_over_a_power_cut() {
    let Some(root) = or_skip() else { return };
    let mut network = Network::new();
    let machine = network.machine("m0", "192.168.7.13/24");
    let mut node = Node::new(root, machine, "master-0");
    node.start();
    assert_eq!(node.wait_booted(), "running", "{}", node.failures());
    node.run(&[
        "sh",
        "-c",
        "echo here >/etc/kept; echo there >/var/lib/outpost/kept",
    ]);
    node.cut_power();
    node.start();
    assert_eq!(node.wait_booted(), "running", "{}", node.failures());
    assert_eq!(
        node.run(&["cat", "/etc/kept", "/var/lib/outpost/kept"]),
        "here\nthere\n"
    );
    for process in ["1", "self"] {
        let status = format!("/proc/{process}/status");
        let bounding = node.run(&["sed", "-n", "s/^CapBnd:[[:space:]]*//p", &status]);
        let bounding = u64::from_str_radix(bounding.trim(), 16).unwrap();
        assert_eq!(bounding >> CAP_SYS_TIME & 1, 0, "nodes share this clock");
    }
    node.shut_down();
}

/// The capability to set the clock, by its number.
const CAP_SYS_TIME: u32 = 25;
