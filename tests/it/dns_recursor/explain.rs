//! `dns-recursor explain`: the route, the cache and the answer, without a query.

use std::process::Command;

use tests::binaries::binary;
use tests::daemon::run;
use tests::dns::{A, NOERROR, ask_a};
use tests::site::Site;
use tests::stream::PATIENCE;
use tests::upstream::Action;
use tests::wait;

use super::{address, with_upstream};

pub(super) fn explain(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(binary("dns-recursor"));
    command.arg("explain").args(arguments).arg("--admin");
    command.arg(site.admin("dns-recursor").to_string());
    let (status, text, complaint) = run(command);
    assert!(status.success(), "{complaint}");
    text
}

#[test]
fn a_stale_answer_is_foreseen_and_no_upstream_is_asked_for_that() {
    let (site, _daemon, upstream) =
        with_upstream(|asked| Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))])));
    let unknown = explain(&site, &["www.example"]);
    assert!(
        unknown.contains("asks an upstream: the cache has no answer"),
        "{unknown}"
    );
    assert_eq!(upstream.n_udp(), 0, "{unknown}");
    ask_a(site.resolver(), "www.example").unwrap();
    let before = upstream.n_udp();
    let cached = explain(&site, &["WWW.example"]);
    assert!(cached.contains("cached answer: NOERROR, "), "{cached}");
    assert!(cached.contains("IN A 192.0.2.1"), "{cached}");
    assert_eq!(upstream.n_udp(), before, "{cached}");
    upstream.act(|_| Action::Silence);
    wait::for_it("no upstream answers", PATIENCE, || {
        ask_a(site.resolver(), "www.example").unwrap();
        explain(&site, &["www.example"]).contains("answers from its cache with a STALE answer: ")
    });
    let told = explain(&site, &["www.example"]);
    assert!(
        told.contains(", STALE for ") || told.contains("0s old"),
        "{told}"
    );
    let refused = explain(&site, &["www.example", "--client", "198.51.100.7"]);
    assert!(
        refused.starts_with("dns-recursor refuses the client: it gets REFUSED\n"),
        "{refused}"
    );
    assert!(
        refused.contains("198.51.100.7 is not in allow-from: "),
        "{refused}"
    );
}
