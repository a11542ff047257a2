//! What a virtual router does on its own machine.

use std::process::Command;

use tests::daemon::run;

use super::link::{self, Kind};
use super::{for_kinds, node};

#[test]
#[ignore = "needs network namespaces"]
fn an_address_outlives_no_ordered_end() {
    for_kinds(&Kind::ALL, |link| {
        let kind = link.kind;
        let us = link.start_us(100);
        link.wait_for_us(kind.down(100));
        // Alone, handing over ends when nobody has taken over in time.
        us.hand_over();
        assert_eq!(link.holders(), (false, false));
        let us = link.start_us(100);
        link.wait_for_us(kind.down(100));
        us.release();
        assert_eq!(link.holders(), (false, false));
    });
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
