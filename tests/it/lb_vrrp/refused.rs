//! Addresses that the kernel does not take.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tests::daemon::run;

use super::for_kinds;
use super::link::{Kind, SLACK};
use super::node::Node;

/// The group address of advertisements, and their number among the protocols (RFC 9568 §5.1.2).
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);
const VRRP: i32 = 112;

/// No host can have a multicast address for its own.
const REFUSED: &str = "ff05::100";

#[test]
#[ignore = "needs network namespaces"]
fn a_claim_that_the_kernel_refuses_is_heard_by_nobody_and_made_again_later_each_time() {
    for_kinds(&[Kind::new(3, false, true)], |link| {
        let kind = link.kind;
        let mut command = link.them.command("ip");
        command.args(["-o", "link", "show", "dev", "eth0"]);
        let (_, shown, _) = run(command);
        let index = shown.split(':').next().unwrap().parse().unwrap();
        let ears = link.them.inside(|| {
            let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(VRRP))).unwrap();
            socket.join_multicast_v6(&GROUP, index).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        let heard = || {
            let mut buffer = [std::mem::MaybeUninit::uninit(); 256];
            std::iter::from_fn(|| ears.recv(&mut buffer).ok()).count()
        };
        let mut settings = link.settings(100);
        settings.addresses = vec![REFUSED.parse::<IpAddr>().unwrap()];
        let mut us = Node::start(&link.us, &settings);
        let errors = |us: &mut Node| us.status()["address-errors"].as_u64().unwrap();
        tests::wait::for_it("the kernel is asked twice", Duration::from_secs(10), || {
            errors(&mut us) >= 2
        });
        assert_eq!(us.status()["state"], "fault", "{}", us.log());
        tests::wait::for_it("each time is said", Duration::from_secs(10), || {
            let said = us.log().matches("it will be asked again").count();
            said as u64 == errors(&mut us)
        });
        // Half a second, one, two, four: a tight loop would have hundreds.
        std::thread::sleep(Duration::from_secs(3));
        assert!(errors(&mut us) < 10, "{}", us.log());
        assert_eq!(heard(), 0, "{}", us.log());
        // The other addresses are taken when their time has come.
        us.apply(&link.settings(100));
        link.wait_for_us(Duration::from_secs(8) + kind.down(100));
        tests::wait::for_it("it advertises", kind.interval() + SLACK, || heard() > 0);
    });
}
