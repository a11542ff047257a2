//! A virtual router on its own machine.

use std::process::Command;
use std::time::Instant;

use tests::daemon::run;

use super::link::{self, Kind, SLACK};
use super::{for_kinds, measured, node};

#[test]
#[ignore = "needs network namespaces"]
fn an_address_outlives_no_ordered_end() {
    for_kinds(&Kind::ALL, |link| {
        let kind = link.kind;
        let us = link.start_us(100);
        link.wait_for_us(kind.down(100));
        // No router was ever heard: one that is there answers within the longest skew time.
        let asked = Instant::now();
        drop(us.hand_over());
        let took = asked.elapsed();
        measured(link, "a router that is alone hands over to nobody", took);
        assert!(
            took < kind.skew(0) + kind.interval() / 2 + SLACK,
            "{took:?}"
        );
        assert_eq!(link.holders(), (false, false));
        let us = link.start_us(100);
        link.wait_for_us(kind.down(100));
        us.release();
        assert_eq!(link.holders(), (false, false));
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn somebody_who_has_the_address_and_does_not_advertise_is_found_at_the_start() {
    for_kinds(
        &[Kind::new(3, false, false), Kind::new(3, false, true)],
        |link| {
            let kind = link.kind;
            let length = if kind.is_ipv6 { 128 } else { 32 };
            let address = format!("{}/{length}", link.virtual_address());
            link.them.address("add", &address);
            let us = link.start_us(100);
            tests::wait::for_it("the holder is found", kind.down(100) + SLACK, || {
                us.log()
                    .contains("A node has an address and does not advertise it")
            });
            assert_eq!(link.holders(), (false, true));
            link.them.address("del", &address);
            link.wait_for_us(2 * kind.interval());
            // One that advertises is explained.
            us.release();
            let _them = link.start_them(50);
            link.wait_for_them(kind.down(50) + kind.interval());
            let us = link.start_us(100);
            link.wait_for_us(kind.down(100));
            assert!(!us.log().contains("does not advertise it"), "{}", us.log());
        },
    );
}

#[test]
#[ignore = "needs root, to have something to give up"]
fn without_capabilities_it_says_what_is_missing() {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_admin", "--"]);
    command.arg(std::env::current_exe().unwrap());
    node::run_in(&mut command, &link::Link::new(Kind::ALL[0]).settings(100));
    let (status, stdout, stderr) = run(command);
    assert!(!status.success());
    let said = format!("{stdout}{stderr}");
    assert!(said.contains("missing: NET_ADMIN"), "{said}");
}
