//! How soon dns-recursor believes what has changed, and how long it does not: NOTIFY, the last good answer, sick upstreams,
//! and the wait before a stale answer.

use std::time::{Duration, Instant};

use tests::daemon::{metric, run};
use tests::dns::{A, CNAME, NOERROR, NXDOMAIN, Question, SERVFAIL, TXT, ask, ask_a, name_to_wire};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::upstream::{Action, Upstream};
use tests::wait;

use super::{Forward, address, addresses, plain, start, with_upstream};

/// Far longer than anything takes here: a busy machine is no fault.
const LONG: Duration = Duration::from_secs(60);

const ZONE: &str = "$TTL 600\n@ SOA ns hostmaster 1 3600 600 86400 600\n@ NS ns\nns A 192.0.2.53\n\
                    www A 192.0.2.1\nold A 192.0.2.3\n";

fn event(site: &Site, event: &str) -> f64 {
    let text = site.get("dns-recursor", "/metrics").1;
    let name = format!("dns_recursor_resolver_events_total{{event=\"{event}\"}}");
    metric(&text, &name).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn a_change_in_dns_authd_is_seen_at_once() {
    let site = Site::new();
    let notify = format!("notify.also = [\"{}\"]", site.resolver());
    site.configure_authd(&[("example", ZONE)], &notify);
    let other = at(loopback(), 5300);
    let _alias = Upstream::start(other, |asked| {
        Action::Send(asked.answer(NOERROR, &[(CNAME, 600, name_to_wire("www.example"))]))
    });
    let forwards = format!(
        "{}\n[[forward]]\nzone = \"other\"\nupstreams = [\"{other}\"]\n",
        site.forward("example")
    );
    site.configure_recursor(&forwards, "");
    let _recursor = site.start("dns-recursor");
    let authd = site.start("dns-authd");
    let server = site.resolver();
    let found = |name: &str| addresses(&ask_a(server, name).unwrap());
    wait::for_it("the zone is served", LONG, || {
        found("www.example") == ["192.0.2.1"]
    });
    assert_eq!(found("alias.other"), ["192.0.2.1"]);
    assert_eq!(
        ask_a(server, "new.example").unwrap().rcode,
        u16::from(NXDOMAIN)
    );
    let before = event(&site, "notified");
    // An address, a new name and one that is gone: all of it is in the cache for ten minutes.
    let changed = ZONE.replace("hostmaster 1 ", "hostmaster 2 ").replace(
        "www A 192.0.2.1\nold A 192.0.2.3\n",
        "www A 192.0.2.2\nnew A 192.0.2.4\n",
    );
    std::fs::write(site.socket().with_file_name("example.zone"), changed).unwrap();
    authd.hang_up();
    wait::for_it("the address", LONG, || {
        found("www.example") == ["192.0.2.2"]
    });
    wait::for_it("the new name", LONG, || {
        found("new.example") == ["192.0.2.4"]
    });
    wait::for_it("an alias into the zone", LONG, || {
        found("alias.other") == ["192.0.2.2"]
    });
    wait::for_it("the old name", LONG, || {
        ask_a(server, "old.example").unwrap().rcode == u16::from(NXDOMAIN)
    });
    wait::for_it("it is counted", LONG, || event(&site, "notified") > before);
}

#[test]
fn notify_counts_from_the_zones_own_servers_and_is_bounded() {
    let (first, second) = (at(loopback(), 5300), at(loopback(), 5300));
    let upstream = Upstream::start(first, plain);
    let _other = Upstream::start(second, plain);
    let (site, _daemon) = start(
        &[
            Forward {
                zone: "example",
                to: &[first],
                recursive: false,
            },
            Forward {
                zone: "elsewhere",
                to: &[second],
                recursive: false,
            },
        ],
        "notify-from = []\nallow-from = [\"127.0.0.0/8\"]",
    );
    let server = site.resolver();
    let notify = |from: std::net::IpAddr, zone: &str| {
        let socket = std::net::UdpSocket::bind((from, 0)).unwrap();
        socket.connect(server).unwrap();
        let wait = Some(Duration::from_millis(300));
        socket.set_read_timeout(wait).unwrap();
        let question = Question {
            opcode: 4,
            recursion_desired: false,
            ..Question::new(zone, tests::dns::SOA)
        };
        socket.send(&question.to_wire(7)).unwrap();
        let mut reply = [0; 512];
        let length = socket.recv(&mut reply).ok()?;
        Some(reply[..length][3] & 15)
    };
    ask_a(server, "www.example").unwrap();
    let n_asked = upstream.n_udp();
    // Not another zone's server, and not a client.
    assert_eq!(notify(second.ip(), "example"), Some(4));
    assert_eq!(notify(loopback().into(), "example"), Some(4));
    ask_a(server, "www.example").unwrap();
    assert_eq!(upstream.n_udp(), n_asked, "the cache has it");
    assert_eq!(notify(first.ip(), "example"), Some(0));
    wait::for_it("the entry is gone", LONG, || {
        ask_a(server, "www.example").unwrap();
        upstream.n_udp() > n_asked
    });
    // Beyond the bound they hear nothing, and come again.
    let socket = std::net::UdpSocket::bind((first.ip(), 0)).unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let question = Question {
        opcode: 4,
        ..Question::new("example", tests::dns::SOA)
    };
    for n in 0..200 {
        socket.send(&question.to_wire(n)).unwrap();
    }
    let mut n_answers = 0;
    while socket.recv(&mut [0; 512]).is_ok() {
        n_answers += 1;
    }
    assert!((1..200).contains(&n_answers), "{n_answers}");
    wait::for_it("it is taken again", LONG, || {
        notify(first.ip(), "example") == Some(0)
    });
}

#[test]
fn the_last_good_answer_wins_for_a_while_where_that_is_wanted() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))]))
    });
    let site = Site::new();
    let forward = format!(
        "[[forward]]\nzone = \"example\"\nupstreams = [\"{to}\"]\nkeep-last-good = \"10m\"\n\
         [[forward]]\nzone = \"strict\"\nupstreams = [\"{to}\"]\n"
    );
    site.configure_recursor(&forward, "cache.prefetch = false");
    let _daemon = site.start("dns-recursor");
    let server = site.resolver();
    for name in ["gone.example", "empty.example", "gone.strict"] {
        assert_eq!(
            addresses(&ask_a(server, name).unwrap()),
            ["192.0.2.1"],
            "{name}"
        );
    }
    upstream.act(|asked| {
        let zone = asked.name();
        let zone = zone
            .trim_end_matches('.')
            .rsplit('.')
            .next()
            .unwrap_or_default();
        let rcode = if asked.name().starts_with("empty") {
            NOERROR
        } else {
            NXDOMAIN
        };
        Action::Send(asked.negative(rcode, zone, 60))
    });
    std::thread::sleep(Duration::from_millis(1_500));
    for name in ["gone.example", "empty.example"] {
        let n_asked = upstream.n_udp();
        for n in 0..5 {
            let kept = ask_a(server, name).unwrap();
            assert_eq!(addresses(&kept), ["192.0.2.1"], "{name} {n}");
            assert_eq!(kept.extended_errors(), [3], "it is a stale answer");
        }
        assert!(
            upstream.n_udp() <= n_asked + 2,
            "not each client asks again"
        );
    }
    // What was never good is denied, and so is another zone.
    for name in ["never.example", "gone.strict"] {
        assert_eq!(
            ask_a(server, name).unwrap().rcode,
            u16::from(NXDOMAIN),
            "{name}"
        );
    }
    let other_type = ask(server, &Question::new("gone.example", TXT)).unwrap();
    assert_eq!(other_type.rcode, u16::from(NXDOMAIN));
    let outlasted = || event(&site, "denials-outlasted") >= 2.0;
    wait::for_it("they are counted", LONG, outlasted);
    let (_, explained, _) = run({
        let mut command = std::process::Command::new(tests::binaries::binary("dns-recursor"));
        let admin = site.admin("dns-recursor").to_string();
        command.args(["explain", "gone.example", "--admin", &admin]);
        command
    });
    assert!(
        explained.contains("the last good answer wins"),
        "{explained}"
    );
    // An operator who knows better flushes, and a good answer ends it.
    let (status, _, log) = run({
        let mut command = std::process::Command::new(tests::binaries::binary("dns-recursor"));
        let socket = site.admin_socket("dns-recursor");
        command
            .args(["cache", "flush", "gone.example", "--socket"])
            .arg(socket);
        command
    });
    assert!(status.success(), "{log}");
    assert_eq!(
        ask_a(server, "gone.example").unwrap().rcode,
        u16::from(NXDOMAIN)
    );
}

#[test]
fn the_last_good_answer_wins_no_longer_than_that() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))]))
    });
    let site = Site::new();
    let forward = format!(
        "[[forward]]\nzone = \"example\"\nupstreams = [\"{to}\"]\nkeep-last-good = \"3s\"\n"
    );
    site.configure_recursor(&forward, "");
    let _daemon = site.start("dns-recursor");
    let server = site.resolver();
    assert_eq!(
        addresses(&ask_a(server, "www.example").unwrap()),
        ["192.0.2.1"]
    );
    upstream.act(|asked| Action::Send(asked.negative(NXDOMAIN, "example", 1)));
    let begin = Instant::now();
    wait::for_it("the denial counts", LONG, || {
        ask_a(server, "www.example").unwrap().rcode == u16::from(NXDOMAIN)
    });
    assert!(
        begin.elapsed() >= Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn what_a_sick_upstream_has_said_goes_when_it_is_back() {
    let (site, _daemon, upstream) = with_upstream(plain);
    let server = site.resolver();
    assert_eq!(
        addresses(&ask_a(server, "before.example").unwrap()),
        ["192.0.2.1"]
    );
    // It loses its zone, half of the time, and then falls silent.
    let mut n = 0_u32;
    upstream.act(move |asked| {
        n += 1;
        match (asked.name().as_str(), n % 2) {
            ("victim.example.", _) => Action::Send(asked.negative(NXDOMAIN, "example", 3_600)),
            _ => Action::Silence,
        }
    });
    // A name without an answer raises the doubt; the denial comes after it.
    let doubt = std::thread::spawn(move || ask_a(server, "doubt.example"));
    let fitness = |least: f64| {
        let text = site.get("dns-recursor", "/metrics").1;
        let of = text
            .lines()
            .find(|line| line.starts_with("dns_recursor_upstream_fitness{"));
        of.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .is_some_and(|value| value <= least)
    };
    wait::for_it("a doubt", LONG, || fitness(0.5));
    wait::for_it("the denial", LONG, || {
        ask_a(server, "victim.example").unwrap().rcode == u16::from(NXDOMAIN)
    });
    upstream.act(|_| Action::Silence);
    drop(doubt.join());
    wait::for_it("it is absent", LONG, || {
        drop(ask_a(server, "silent.example"));
        fitness(0.0)
    });
    upstream.act(plain);
    wait::for_it("the denial is forgotten", LONG, || {
        addresses(&ask_a(server, "victim.example").unwrap()) == ["192.0.2.1"]
    });
    let dropped = || event(&site, "sick-entries-dropped") >= 1.0;
    wait::for_it("it is counted", LONG, dropped);
}

#[test]
fn each_zone_has_its_own_wait_before_a_stale_answer() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))]))
    });
    let site = Site::new();
    let forward = format!(
        "[[forward]]\nzone = \"near\"\nupstreams = [\"{to}\"]\nstale-wait = \"0s\"\n\
         [[forward]]\nzone = \"far\"\nupstreams = [\"{to}\"]\nstale-wait = \"2s\"\n"
    );
    site.configure_recursor(&forward, "cache.prefetch = false");
    let _daemon = site.start("dns-recursor");
    let server = site.resolver();
    for name in ["www.near", "www.far"] {
        ask_a(server, name).unwrap();
    }
    std::thread::sleep(Duration::from_millis(1_300));
    // Slow, and not silent: the upstream is never absent.
    upstream.act(|asked| {
        let later = asked.answer(NOERROR, &[(A, 1, address(2))]);
        match asked.name().starts_with("www.") {
            true => Action::SendLater(Duration::from_millis(700), later),
            false => Action::Send(asked.answer(SERVFAIL, &[])),
        }
    });
    let near = ask_a(server, "www.near").unwrap();
    assert_eq!(addresses(&near), ["192.0.2.1"], "stale, at once");
    assert_eq!(near.extended_errors(), [3]);
    let far = ask_a(server, "www.far").unwrap();
    assert_eq!(addresses(&far), ["192.0.2.2"], "it waits for the new one");
}
