//! DNS64 beside Unbound's, and the parts that Unbound does not have.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use tests::daemon::Daemon;
use tests::dns::{
    A, AAAA, CNAME, Message, NOERROR, NXDOMAIN, PTR, Question, SERVFAIL, ask, name_to_wire,
};
use tests::scratch::{Scratch, at, loopback};
use tests::stream::PATIENCE;
use tests::upstream::{Action, Asked, Upstream};
use tests::wait;

use super::explain::explain;
use super::validation::question;
use super::{Forward, address, configure, start};

const PREFIX: &str = "2001:db8:64::/96";
const NATIVE: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const MAPPED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];

/// Names of every kind, below `test`.
fn act(asked: &Asked) -> Action {
    let (name, rtype) = (asked.name(), asked.message.questions[0].1);
    let four = (A, 300, address(1));
    let six = (AAAA, 300, NATIVE.to_vec());
    let records = match (name.as_str(), rtype) {
        ("none.test.", _) => return Action::Send(asked.negative(NXDOMAIN, "test", 60)),
        ("fails.test.", AAAA) => return Action::Send(asked.answer(SERVFAIL, &[])),
        ("alias.test.", _) => vec![(CNAME, 300, name_to_wire("four.test"))],
        ("four.test." | "fails.test." | "mapped.test." | "both.test.", A) => vec![four],
        ("six.test." | "both.test.", AAAA) => vec![six],
        ("mapped.test.", AAAA) => vec![(AAAA, 300, MAPPED.to_vec())],
        _ => return Action::Send(asked.negative(NOERROR, "test", 60)),
    };
    Action::Send(asked.answer(NOERROR, &records))
}

fn start_unbound(files: &Scratch, server: SocketAddr, upstream: SocketAddr) -> Daemon {
    let text = format!(
        "server:\n  directory: \"\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
         do-daemonize: no\n  logfile: \"\"\n  interface: {}@{}\n  do-not-query-localhost: no\n  \
         module-config: \"dns64 iterator\"\n  dns64-prefix: {PREFIX}\n  local-zone: \"test.\" nodefault\n  \
         num-threads: 1\nremote-control:\n  control-enable: no\n\
         forward-zone:\n  name: \".\"\n  forward-addr: {}@{}\n",
        server.ip(),
        server.port(),
        upstream.ip(),
        upstream.port(),
    );
    let mut command = Command::new("unbound");
    command.arg("-d").arg("-c");
    command.arg(files.write("unbound.conf", &text));
    Daemon::spawn("unbound", command)
}

fn everything(to: &[SocketAddr]) -> Forward<'_> {
    Forward {
        zone: ".",
        to,
        recursive: true,
    }
}

fn found(message: &Message) -> (u16, BTreeSet<IpAddr>) {
    (message.rcode, message.addresses())
}

#[test]
fn answers_are_unbounds() {
    let files = Scratch::new("dns64");
    let to = [at(loopback(), 5300)];
    let _upstream = Upstream::start(to[0], act);
    let (site, _daemon) = start(
        &[everything(&to)],
        &format!("dns64.prefixes = [{PREFIX:?}]\n"),
    );
    let peer = at(loopback(), 5300);
    let _unbound = start_unbound(&files, peer, to[0]);
    wait::for_it("Unbound answers", PATIENCE, || {
        ask(peer, &Question::new("four.test", A)).is_ok()
    });
    // The second time, all of it is in the caches.
    for _ in 0..2 {
        for name in ["four", "six", "both", "none", "empty", "alias"] {
            for rtype in [A, AAAA] {
                let asked = Question::new(format!("{name}.test").as_str(), rtype);
                let ours = found(&ask(site.resolver(), &asked).unwrap());
                let theirs = found(&ask(peer, &asked).unwrap());
                assert_eq!(ours, theirs, "{name} {rtype}");
            }
        }
        // A client that validates by itself.
        let disabled = Question {
            checking_disabled: true,
            ..question("four.test", AAAA, true)
        };
        let ours = found(&ask(site.resolver(), &disabled).unwrap());
        assert_eq!(ours, found(&ask(peer, &disabled).unwrap()));
        assert_eq!(ours.1.len(), 0);
    }
    let alias = ask(site.resolver(), &Question::new("alias.test", AAAA)).unwrap();
    assert_eq!(alias.answers.len(), 2);
    let told = explain(&site, &["four.test", "AAAA"]);
    assert!(told.contains("DNS64 makes them of its A records"), "{told}");
    let metrics = site.get("dns-recursor", "/metrics").1;
    assert!(metrics.contains("plugin=\"dns64\""), "{metrics}");
}

#[test]
fn what_is_mapped_refused_or_reversed_is_translated_for_the_clients_of_the_nat64_alone() {
    let to = [at(loopback(), 5300)];
    let upstream = Upstream::start(to[0], act);
    let more = format!(
        "[dns64]\nprefixes = [{PREFIX:?}]\n[[name]]\nname = \"node.test\"\naddresses = [\"192.0.2.9\"]\n"
    );
    let (site, daemon) = start(&[everything(&to)], &more);
    let server = site.resolver();
    let six = |name: &str| {
        let answer = ask(server, &Question::new(name, AAAA)).unwrap();
        let all = answer.addresses();
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        for name in ["mapped.test", "fails.test", "four.test"] {
            assert_eq!(six(name), ["2001:db8:64::c000:201"], "{name}");
        }
    }
    assert_eq!(six("node.test"), ["2001:db8:64::c000:209"]);
    let before = upstream.n_udp();
    assert_eq!(
        six("ipv4only.arpa"),
        ["2001:db8:64::c000:aa", "2001:db8:64::c000:ab"]
    );
    assert_eq!(upstream.n_udp(), before);
    let reverse = "9.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let pointer = ask(server, &Question::new(reverse, PTR)).unwrap();
    let types: Vec<u16> = pointer.answers.iter().map(|it| it.rtype).collect();
    assert_eq!(types, [CNAME, PTR]);
    // Its upstreams are away: what is known is translated, too.
    upstream.act(|_| Action::Silence);
    assert_eq!(six("four.test"), ["2001:db8:64::c000:201"]);
    upstream.act(act);
    // Another prefix counts at once, and for other clients only nothing does.
    let other = "dns64.prefixes = [\"2001:db8::/32\"]\n";
    configure(&site, &[everything(&to)], other);
    daemon.hang_up();
    wait::for_it("the new prefix counts", PATIENCE, || {
        six("four.test") == ["2001:db8:c000:201::"]
    });
    configure(
        &site,
        &[everything(&to)],
        "dns64.clients = [\"2001:db8:7::/64\"]\n",
    );
    daemon.hang_up();
    wait::for_it("the client is no longer one of them", PATIENCE, || {
        six("four.test").is_empty()
    });
}
