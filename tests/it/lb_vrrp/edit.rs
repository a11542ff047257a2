//! Edits while the address is held, and what does not fit the other side.

use std::time::Duration;

use super::link::{Kind, SLACK};
use super::{for_each_kind, for_kinds, measured};

/// How long what is certain to come may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs network namespaces"]
fn edits_in_place_do_not_move_the_address() {
    for_each_kind(|link| {
        let kind = link.kind;
        let mut us = link.start_us(150);
        let them = link.start_them(100);
        link.wait_for_us(kind.down(150) + kind.interval());
        std::thread::sleep(kind.interval());

        let gap = link.gap();
        // Another peer, which is not there.
        let mut settings = link.settings(150);
        if let Some(peers) = &mut settings.peers {
            peers.push(link.address(15));
        }
        us.apply(&settings);
        // Another address, and back again. They do not compare, once they know us.
        settings.addresses.push(link.address(101));
        us.apply(&settings);
        assert!(link.us.has_address(link.address(101)));
        std::thread::sleep(kind.interval());
        settings.addresses.pop();
        settings.priority = 140;
        us.apply(&settings);
        assert!(!link.us.has_address(link.address(101)));
        std::thread::sleep(kind.interval());
        let gap = gap.stop();
        measured(link, "peers, addresses, priority are edited", gap);
        let status = us.status();
        // A loaded machine pauses a router whose advertisements come every 200 ms, and it steps back.
        if status["pauses"] == 0 {
            assert!(gap < SLACK / 2, "{}: {gap:?}", kind.name());
            assert_eq!(status["become-master"], 1, "{}", us.log());
            assert!(!them.log().contains("MASTER STATE"), "{}", them.log());
        }
        assert_eq!(status["send-errors"], 0, "{}", us.log());
        link.wait_for_us(kind.down(140));
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn an_address_that_somebody_removes_is_put_back() {
    for_each_kind(|link| {
        let kind = link.kind;
        let mut us = link.start_us(100);
        link.wait_for_us(kind.down(100));
        let gap = link.gap();
        let length = if kind.is_ipv6 { 128 } else { 32 };
        let address = format!("{}/{length}", link.virtual_address());
        link.us.address("del", &address);
        tests::wait::for_it("the address is put back", PATIENCE, || {
            link.us.has_address(link.virtual_address())
        });
        let gap = gap.stop();
        measured(link, "somebody removes the address", gap);
        let status = us.status();
        // The paused router steps back, and claims the address again.
        if status["pauses"] == 0 {
            assert_eq!(status["restored"], 1, "{}", us.log());
            assert_eq!(status["become-master"], 1, "{}", us.log());
        }
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn somebody_else_with_the_address_is_seen_and_answered() {
    for_kinds(
        &[Kind::new(3, false, false), Kind::new(3, false, true)],
        |link| {
            let kind = link.kind;
            let mut us = link.start_us(100);
            link.wait_for_us(kind.down(100));
            // Over IPv6, who has just taken over may be told so by its predecessor.
            std::thread::sleep(Duration::from_millis(200));
            let length = if kind.is_ipv6 { 128 } else { 32 };
            let address = format!("{}/{length}", link.virtual_address());
            link.them.address("add", &address);
            // Says so, as a host does whose interface has just got another link-layer address.
            link.them.configure("net/ipv4/conf/eth0/arp_notify", "1");
            link.them.configure("net/ipv6/conf/eth0/ndisc_notify", "1");
            link.them.set_hardware("02:00:00:00:00:99");
            tests::wait::for_it("the duplicate is seen", PATIENCE, || {
                us.status()["duplicates"] != 0
            });
            us.wait_log("Another node has an address");
        },
    );
}

#[test]
#[ignore = "needs network namespaces"]
fn another_password_is_refused_and_counted() {
    for_kinds(&[Kind::new(2, false, false)], |link| {
        let kind = link.kind;
        let _them = link.start_them(100);
        let mut settings = link.settings(150);
        settings.password = Some("another".to_owned());
        let mut us = super::node::Node::start(&link.us, &settings);
        // Two holders: neither believes the other. It is said, and it ends with the password.
        link.wait_for((true, true), kind.down(100) + kind.interval());
        tests::wait::for_it("the password is refused", PATIENCE, || {
            us.status()["refused"]["auth_failure"] != 0
        });
        us.wait_log("wrong password");
        us.apply(&link.settings(150));
        link.wait_for_us(2 * kind.interval());
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn the_checksum_of_the_standard_is_refused_by_keepalived_until_edited() {
    for_kinds(&[Kind::new(3, false, false)], |link| {
        let kind = link.kind;
        let them = link.start_them(100);
        let mut settings = link.settings(150);
        settings.rfc_checksum = true;
        let mut us = super::node::Node::start(&link.us, &settings);
        link.wait_for((true, true), kind.down(100) + kind.interval());
        tests::wait::for_it("keepalived refuses", PATIENCE, || {
            them.log().contains("Invalid VRRPv3 checksum")
        });
        // We take both forms, and say that theirs is the other.
        assert_eq!(us.status()["refused"]["chk_err"], 0);
        us.wait_log("other form of checksum");
        us.apply(&link.settings(150));
        link.wait_for_us(2 * kind.interval());
    });
}
