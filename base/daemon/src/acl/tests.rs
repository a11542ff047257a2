use super::*;

#[test]
fn the_node_serves_itself() {
    let own: Cidrs = local_networks().into_iter().collect();
    assert!(own.contains("127.0.0.1".parse().unwrap()));
    assert!(own.contains("::1".parse().unwrap()));
    assert!(!own.contains("8.8.8.8".parse().unwrap()));
}

#[test]
fn the_loopback_interface_is_every_machines_own_and_examples_are_nobodys() {
    for (address, expected) in [
        ("127.0.0.1", true),
        ("127.9.9.9", true),
        ("::1", true),
        ("192.0.2.1", false),
        ("2001:db8::1", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(is_own(address.parse().unwrap()), expected, "{address}");
    }
}
