//! Names that dns-recursor answers by its own configuration.

use std::fs;
use std::net::TcpListener;

use tests::dns::{
    A, AAAA, CNAME, MX, NOERROR, NXDOMAIN, PTR, Question, ask, ask_a, ask_tcp, name_to_wire,
};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::stream::PATIENCE;
use tests::upstream::{Action, Upstream};
use tests::wait;

use super::{Forward, address, addresses, configure, plain, start};

const HEAD: &str = "$TTL 60\n@ SOA l. r. 1 2 3 4 5\n@ NS l.\n";

fn everything(to: &[std::net::SocketAddr]) -> Forward<'_> {
    Forward {
        zone: ".",
        to,
        recursive: true,
    }
}

#[test]
fn names_and_hosts_files_come_before_upstreams_and_follow_their_files() {
    let files = Scratch::new("names");
    let hosts = files.write("hosts", "192.0.2.50 node1.test node1\n");
    let more = format!(
        "local.domain-needed = true\nhosts.files = [{hosts:?}]\n\
         [[name]]\nname = \"*.apps.test\"\naddresses = [\"192.0.2.60\", \"2001:db8::60\"]\n\
         [[name]]\nname = \"www.test\"\nalias = \"out.example\"\n"
    );
    let to = [at(loopback(), 5300)];
    let upstream = Upstream::start(to[0], |asked| match asked.name().as_str() {
        "alias.example." => {
            Action::Send(asked.answer(NOERROR, &[(CNAME, 20, name_to_wire("x.apps.test"))]))
        }
        _ => plain(asked),
    });
    let (site, daemon) = start(&[everything(&to)], &more);
    let server = site.resolver();
    let found = |name: &str| addresses(&ask_a(server, name).unwrap());
    assert_eq!(found("Console.apps.test"), ["192.0.2.60"]);
    assert_eq!(found("node1.test"), ["192.0.2.50"]);
    assert_eq!(found("node1"), ["192.0.2.50"]);
    let none = ask(server, &Question::new("a.apps.test", MX)).unwrap();
    assert_eq!(
        (none.rcode, none.answers.len(), none.authority.len()),
        (0, 0, 1)
    );
    let six = ask(server, &Question::new("a.apps.test", AAAA)).unwrap();
    assert_eq!(six.answers.len(), 1);
    let reverse = ask(server, &Question::new("50.2.0.192.in-addr.arpa", PTR)).unwrap();
    assert_eq!(reverse.answers.len(), 1);
    assert_eq!(ask_a(server, "printer").unwrap().rcode, u16::from(NXDOMAIN));
    assert_eq!(upstream.n_udp(), 0, "all of it is answered here");
    // An alias of the configuration into the outside, from an upstream and from the cache; and one of the outside into it.
    for _ in 0..2 {
        let alias = ask_a(server, "www.test").unwrap();
        assert_eq!(alias.answers.len(), 2);
        assert_eq!(addresses(&alias), ["192.0.2.1"]);
    }
    assert_eq!(upstream.n_udp(), 1);
    assert_eq!(found("alias.example"), ["192.0.2.60"]);
    // The file changes without a reload.
    fs::write(&hosts, "192.0.2.51 node1.test\n").unwrap();
    wait::for_it("the new hosts file counts", PATIENCE, || {
        found("node1.test") == ["192.0.2.51"]
    });
    // A reload brings other names.
    configure(
        &site,
        &[everything(&to)],
        "[[name]]\nname = \"x.apps.test\"\naddresses = [\"192.0.2.61\"]\n",
    );
    daemon.hang_up();
    wait::for_it("the reload has come", PATIENCE, || {
        found("x.apps.test") == ["192.0.2.61"] && found("node1.test") == ["192.0.2.1"]
    });
    let metrics = site.get("dns-recursor", "/metrics").1;
    assert!(metrics.contains("plugin=\"hosts\""), "{metrics}");
}

#[test]
fn a_response_policy_decides_about_names_and_follows_its_file() {
    let files = Scratch::new("policy");
    let zone = files.write(
        "rpz",
        &format!(
            "{HEAD}bad.test CNAME .\n*.bad.test CNAME .\nok.bad.test CNAME rpz-passthru.\n\
             tcp.test CNAME rpz-tcp-only.\nwalled.test CNAME garden.example.\n"
        ),
    );
    let list = files.write("list", "ads.test\n");
    let more = format!(
        "[[response-policy]]\nzone = \"rpz.test\"\nfile = {zone:?}\n\
         [[response-policy]]\nfile = {list:?}\naction = \"null-address\"\n"
    );
    let to = [at(loopback(), 5300)];
    let upstream = Upstream::start(to[0], plain);
    let (site, daemon) = start(&[everything(&to)], &more);
    let server = site.resolver();
    for name in ["bad.test", "a.b.bad.test"] {
        assert_eq!(
            ask_a(server, name).unwrap().rcode,
            u16::from(NXDOMAIN),
            "{name}"
        );
    }
    let found = |name: &str| addresses(&ask_a(server, name).unwrap());
    assert_eq!(found("x.ads.test"), ["0.0.0.0"]);
    assert_eq!(upstream.n_udp(), 0);
    assert_eq!(found("ok.bad.test"), ["192.0.2.1"]);
    let walled = ask_a(server, "walled.test").unwrap();
    assert_eq!(
        (addresses(&walled), walled.answers.len()),
        (vec!["192.0.2.1".to_owned()], 2)
    );
    let cut = ask_a(server, "tcp.test").unwrap();
    assert!(cut.truncated && cut.answers.is_empty(), "{cut:?}");
    let whole = ask_tcp(server, &Question::new("tcp.test", A)).unwrap();
    assert_eq!(addresses(&whole), ["192.0.2.1"]);
    // A file with a problem changes nothing.
    fs::write(&zone, "nonsense\n").unwrap();
    daemon.wait_log("its last content stays");
    assert_eq!(
        ask_a(server, "bad.test").unwrap().rcode,
        u16::from(NXDOMAIN)
    );
    let metrics = site.get("dns-recursor", "/metrics").1;
    let failed = metrics
        .lines()
        .filter(|line| line.starts_with("dns_recursor_name_file_failed{"));
    assert_eq!(
        failed.filter(|line| !line.ends_with(" 0.0")).count(),
        1,
        "{metrics}"
    );
    fs::write(&zone, HEAD).unwrap();
    wait::for_it("the new rules count", PATIENCE, || {
        found("bad.test") == ["192.0.2.1"]
    });
}

#[test]
fn a_response_policy_decides_about_addresses_of_answers() {
    let files = Scratch::new("addresses");
    let zone = files.write(
        "rpz",
        &format!(
            "{HEAD}32.7.2.0.192.rpz-ip CNAME .\n29.16.2.0.192.rpz-ip CNAME *.\n32.20.2.0.192.rpz-ip CNAME garden.test.\n\
             32.21.2.0.192.rpz-ip CNAME rpz-drop.\n32.22.2.0.192.rpz-ip CNAME rpz-tcp-only.\n\
             32.23.2.0.192.rpz-ip A 198.51.100.1\nok7.test CNAME rpz-passthru.\n"
        ),
    );
    let more = format!("[[response-policy]]\nzone = \"rpz.test\"\nfile = {zone:?}\n");
    let to = [at(loopback(), 5300)];
    let upstream = Upstream::start(to[0], |asked| {
        let digits: String = asked.name().chars().filter(char::is_ascii_digit).collect();
        let last = digits.parse().unwrap_or(1);
        Action::Send(asked.answer(NOERROR, &[(A, 300, address(last))]))
    });
    let (site, _daemon) = start(&[everything(&to)], &more);
    let server = site.resolver();
    // The first time from the upstream, and then from the cache.
    for _ in 0..2 {
        let answer = |name: &str| ask_a(server, name).unwrap();
        assert_eq!(answer("a7.test").rcode, u16::from(NXDOMAIN));
        let none = answer("a19.test");
        assert_eq!((none.rcode, none.answers.len()), (0, 0));
        let walled = answer("a20.test");
        assert_eq!(addresses(&walled), ["192.0.2.1"]);
        assert_eq!(walled.answers.len(), 2, "an alias and its address");
        let cut = answer("a22.test");
        assert!(cut.truncated && cut.answers.is_empty(), "{cut:?}");
        let whole = ask_tcp(server, &Question::new("a22.test", A)).unwrap();
        assert_eq!(addresses(&whole), ["192.0.2.22"]);
        for (name, expected) in [
            ("a23.test", "198.51.100.1"),
            ("ok7.test", "192.0.2.7"),
            ("a24.test", "192.0.2.24"),
        ] {
            assert_eq!(addresses(&answer(name)), [expected], "{name}");
        }
    }
    assert!(ask_a(server, "a21.test").is_err(), "it is dropped");
    assert_eq!(upstream.n_udp(), 9, "one query for each name");
    let metrics = site.get("dns-recursor", "/metrics").1;
    assert!(metrics.contains("plugin=\"rpz\""), "{metrics}");
    let explained = site.get("dns-recursor", "/explain?name=a7.test&type=A").1;
    assert!(explained.contains("\"policy\""), "{explained}");
}

#[test]
fn an_address_that_healthd_finds_down_is_left_out() {
    let site = Site::new();
    let _healthd = site.start("healthd");
    let ip = loopback();
    let both = [loopback(), loopback()];
    let [first, second] = both.map(|ip| TcpListener::bind(at(ip, 6443)).unwrap());
    let to = [at(ip, 5300)];
    let _upstream = Upstream::start(to[0], |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 300, address(1))]))
    });
    let more = format!(
        "health.endpoint = \"unix:{}\"\n[[name]]\nname = \"api.test\"\naddresses = [\"{}\", \"{}\"]\nprobe-port = 6443\n",
        site.socket().display(),
        both[0],
        both[1],
    );
    configure(&site, &[everything(&to)], &more);
    let _daemon = site.start("dns-recursor");
    let found = || addresses(&ask_a(site.resolver(), "api.test").unwrap());
    let [a, b] = both.map(|ip| ip.to_string());
    wait::for_it("both are up", PATIENCE, || {
        found() == [a.as_str(), b.as_str()]
    });
    drop(first);
    wait::for_it("one is down", PATIENCE, || found() == [b.as_str()]);
    drop(second);
    wait::for_it("none is up", PATIENCE, || found().len() == 2);
    let _back = TcpListener::bind(at(both[0], 6443)).unwrap();
    wait::for_it("one is up again", PATIENCE, || found() == [a.as_str()]);
}
