//! Answers follow liveness, and outlive everyone who finds it out.

mod exchange;
mod ingress;
mod leases;
mod one_truth;
mod restart;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use tests::binaries::binary;
use tests::daemon::run;
use tests::dns::{A, Message, NOERROR, Question, ask, ask_a};
use tests::load::{Load, Mix};
use tests::masters::Master;
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::wait;

const PORT: u16 = 6443;

/// A node, and three masters beside it.
struct Cluster {
    site: Site,
    masters: [Ipv4Addr; 3],
}

impl Cluster {
    /// `interval` is that of the health checks, `ttl` that of the zone.
    fn new(interval: u32, ttl: u32) -> Self {
        // A machine on which the first probes take long does not make it guess.
        Self::that_holds(interval, ttl, "10s")
    }

    /// The first queries wait for so long to hear from healthd.
    fn that_holds(interval: u32, ttl: u32, hold: &str) -> Self {
        let site = Site::new();
        let masters = [loopback(), loopback(), loopback()];
        let members = masters.map(|ip| format!("'{ip}'")).join(", ");
        let zone = format!(
            "$TTL {ttl}\n@ SOA ns1 hostmaster 1 3H 30M 2W {ttl}\n NS ns1\nns1 A 192.0.2.53\n\
             helper A 192.0.2.11\n\
             @ LUA A \"ifportup({PORT}, {{{members}}}, {{interval={interval}}})\"\n\
             api LUA A \"ifportup({PORT}, {{{members}}}, {{interval={interval}}})\"\n\
             *.apps LUA A \"ifportup({PORT}, {{{members}}}, {{interval={interval}}})\"\n\
             all LUA A \"ifportup({PORT}, {{{members}}}, {{interval={interval}, selector='all'}})\"\n"
        );
        site.configure_authd(
            &[("ocp4.example", &zone)],
            &format!("health.hold = \"{hold}\""),
        );
        site.configure_recursor(&site.forward("ocp4.example"), "");
        Self { site, masters }
    }

    fn master(&self, number: usize) -> Master<'static> {
        Master::local(vec![at(self.masters[number], PORT)])
    }

    /// The question of the load, and the only masters that an answer may have.
    fn mix(&self, working: &[usize]) -> Mix {
        let working: BTreeSet<IpAddr> = working.iter().map(|n| self.masters[*n].into()).collect();
        let names = [
            "ocp4.example",
            "api.ocp4.example",
            "aPi.Ocp4.exAmple",
            "a.apps.ocp4.example",
            "b.c.apps.ocp4.example",
            "helper.ocp4.example",
        ];
        Mix {
            questions: names.iter().map(|name| Question::new(name, A)).collect(),
            judge: Box::new(move |question, message| judge(question, message, &working)),
        }
    }

    /// The addresses that `server` gives as those of all masters that work.
    fn working(&self, server: SocketAddr) -> BTreeSet<IpAddr> {
        ask_a(server, "all.ocp4.example").unwrap().addresses()
    }

    fn addresses(&self, numbers: &[usize]) -> BTreeSet<IpAddr> {
        numbers.iter().map(|n| self.masters[*n].into()).collect()
    }
}

fn judge(question: &Question, message: &Message, working: &BTreeSet<IpAddr>) -> Result<(), String> {
    if message.rcode != u16::from(NOERROR) {
        return Err(format!("rcode {}", message.rcode));
    }
    let found = message.addresses();
    if question.name == "helper.ocp4.example" {
        let right = found == BTreeSet::from([[192, 0, 2, 11].into()]);
        return if right {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        };
    }
    if found.len() != 1 {
        return Err(format!("{} addresses", found.len()));
    }
    match found.difference(working).next() {
        Some(down) => Err(format!("{down} is down")),
        None => Ok(()),
    }
}

#[test]
fn the_first_answer_is_already_right() {
    let cluster = Cluster::new(5, 180);
    let _up = cluster.master(1);
    let _healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    for n in 0..40 {
        let answer = ask_a(cluster.site.authority(), &format!("n{n}.apps.ocp4.example")).unwrap();
        assert_eq!(answer.addresses(), cluster.addresses(&[1]), "answer {n}");
        assert!(answer.authoritative);
        assert!(answer.answers[0].ttl <= 180, "{}", answer.answers[0].ttl);
    }
}

#[test]
fn a_master_leaves_within_an_interval_and_comes_back() {
    // Two intervals would be more than one and what a machine is late by.
    let cluster = Cluster::new(3, 180);
    let mut masters = [0, 1, 2].map(|n| cluster.master(n));
    let _healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    let server = cluster.site.authority();
    wait::for_it("all masters are known", Duration::from_secs(20), || {
        cluster.working(server) == cluster.addresses(&[0, 1, 2])
    });
    for _ in 0..3 {
        masters[2].down();
        let start = Instant::now();
        wait::for_it("it leaves", Duration::from_secs(20), || {
            cluster.working(server) == cluster.addresses(&[0, 1])
        });
        let took = start.elapsed();
        assert!(
            took < Duration::from_millis(3_200) + SLOW_MACHINE,
            "took {took:?}"
        );
        masters[2].up();
        let start = Instant::now();
        wait::for_it("it comes back", Duration::from_secs(20), || {
            cluster.working(server) == cluster.addresses(&[0, 1, 2])
        });
        let took = start.elapsed();
        assert!(
            took < Duration::from_millis(3_200) + SLOW_MACHINE,
            "took {took:?}"
        );
    }
}

#[test]
fn a_resolver_keeps_no_answer_longer_than_it_can_be_right() {
    let cluster = Cluster::new(1, 180);
    let mut masters = [0, 1, 2].map(|n| cluster.master(n));
    let _healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    let _recursor = cluster.site.start("dns-recursor");
    let server = cluster.site.resolver();
    wait::for_it("all masters are known", Duration::from_secs(20), || {
        cluster.working(server) == cluster.addresses(&[0, 1, 2])
    });
    let ttl = ask_a(cluster.site.authority(), "api.ocp4.example")
        .unwrap()
        .answers[0]
        .ttl;
    masters[0].down();
    let start = Instant::now();
    wait::for_it("it leaves", Duration::from_secs(30), || {
        cluster.working(server) == cluster.addresses(&[1, 2])
    });
    let limit = Duration::from_millis(1_200) + Duration::from_secs(u64::from(ttl)) + SLOW_MACHINE;
    assert!(
        start.elapsed() < limit,
        "took {:?} at a TTL of {ttl}",
        start.elapsed()
    );
}

#[test]
fn the_page_shows_what_is_answered() {
    let cluster = Cluster::new(1, 60);
    let _up = cluster.master(0);
    let _healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    wait::for_it("the page tells", Duration::from_secs(20), || {
        let (status, page) = cluster.site.get("healthd", "/");
        assert_eq!(status, 200);
        let [up, down, _] = cluster.masters;
        // Those of one purpose are together; without a balancer that is the port.
        let row = |address: Ipv4Addr, state: &str| {
            let address = at(address, PORT);
            format!("{address}</span><span class=\"{state}\">{state}</span>")
        };
        page.contains("3 targets, 1 up")
            && page.contains(&format!("<h3>tcp, port {PORT}: 1 of 3 up</h3>"))
            && page.contains(&row(up, "up"))
            && page.contains(&row(down, "down"))
    });
    assert_eq!(
        cluster.working(cluster.site.authority()),
        cluster.addresses(&[0])
    );
}

#[test]
fn with_all_masters_down_one_of_them_is_named_all_the_same() {
    let cluster = Cluster::new(1, 180);
    let _healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    // As in PowerDNS: nothing is known to be better.
    let answer = ask_a(cluster.site.authority(), "api.ocp4.example").unwrap();
    assert_eq!(answer.rcode, 0);
    assert_eq!(answer.addresses().len(), 1, "{answer:?}");
    assert!(
        answer.answers[0].ttl <= 10,
        "a guess is not kept long: {}",
        answer.answers[0].ttl
    );
}

/// healthd is killed and started again while both DNS servers are asked.
fn healthd_comes_and_goes(forget: bool) {
    let cluster = Cluster::new(1, 2);
    // One master is down, so that forgetting what is known would show.
    let _up = [cluster.master(0), cluster.master(2)];
    let healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    let _recursor = cluster.site.start("dns-recursor");
    let first = cluster.working(cluster.site.authority());
    assert_eq!(first, cluster.addresses(&[0, 2]));

    let loads = [cluster.site.authority(), cluster.site.resolver()]
        .map(|server| Load::start(server, 500, cluster.mix(&[0, 2])));
    std::thread::sleep(Duration::from_secs(1));
    let mut healthd = Some(healthd);
    for _ in 0..3 {
        healthd.take().unwrap().kill();
        std::thread::sleep(Duration::from_secs(2));
        if forget {
            std::fs::remove_dir_all(cluster.site.files.join("state")).ok();
        }
        healthd = Some(cluster.site.start("healthd"));
        std::thread::sleep(Duration::from_secs(2));
    }
    for load in loads {
        load.stop().assert_clean();
    }
}

#[test]
fn healthd_killed_and_restarted_changes_no_answer_and_loses_no_query() {
    healthd_comes_and_goes(false);
}

#[test]
fn healthd_restarted_without_its_memory_changes_no_answer_either() {
    healthd_comes_and_goes(true);
}

#[test]
fn what_an_operator_takes_out_of_service_leaves_the_answers_and_stays_out() {
    let cluster = Cluster::new(1, 2);
    let _up = [0, 1, 2].map(|n| cluster.master(n));
    let healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    let server = cluster.site.authority();
    let mark = |state: &str| {
        let mut command = Command::new(binary("healthd"));
        command.args(["mark", &cluster.masters[1].to_string(), state, "--admin"]);
        command.arg(cluster.site.admin("healthd").to_string());
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{stdout}{stderr}");
    };
    let becomes = |what: &str, numbers: &[usize]| {
        wait::for_it(what, Duration::from_secs(20), || {
            cluster.working(server) == cluster.addresses(numbers)
        });
    };
    becomes("all masters are known", &[0, 1, 2]);
    for state in ["maintenance", "drain"] {
        mark(state);
        becomes(state, &[0, 2]);
        mark("ready");
        becomes("ready again", &[0, 1, 2]);
    }
    mark("maintenance");
    becomes("maintenance", &[0, 2]);
    healthd.stop();
    let _healthd = cluster.site.start("healthd");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        cluster.working(server),
        cluster.addresses(&[0, 2]),
        "a restart does not forget"
    );
}

#[test]
fn what_changed_while_healthd_was_away_is_found_out_when_it_is_back() {
    let cluster = Cluster::new(1, 2);
    let mut masters = [0, 1, 2].map(|n| cluster.master(n));
    let healthd = cluster.site.start("healthd");
    let _authd = cluster.site.start("dns-authd");
    let server = cluster.site.authority();
    wait::for_it("all masters are known", Duration::from_secs(20), || {
        cluster.working(server) == cluster.addresses(&[0, 1, 2])
    });
    healthd.kill();
    masters[1].down();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        cluster.working(server),
        cluster.addresses(&[0, 1, 2]),
        "nobody can know"
    );
    let _healthd = cluster.site.start("healthd");
    wait::for_it("it is found out", Duration::from_secs(20), || {
        cluster.working(server) == cluster.addresses(&[0, 2])
    });
}

#[test]
fn neither_dns_server_needs_healthd_or_the_other_to_start() {
    let cluster = Cluster::that_holds(1, 60, "150ms");
    let _up = cluster.master(0);
    let _recursor = cluster.site.start("dns-recursor");
    let _authd = cluster.site.start("dns-authd");
    let server = cluster.site.resolver();
    let helper = ask_a(server, "helper.ocp4.example").unwrap();
    assert_eq!(helper.addresses(), BTreeSet::from([[192, 0, 2, 11].into()]));
    // Nothing is known of the masters: any answer is better than none, and is not kept long.
    let guess = ask_a(server, "api.ocp4.example").unwrap();
    assert_eq!(
        (guess.rcode, guess.addresses().is_empty()),
        (0, false),
        "{guess:?}"
    );
    assert!(guess.answers[0].ttl <= 10, "{}", guess.answers[0].ttl);
    let _healthd = cluster.site.start("healthd");
    wait::for_it("health is known", Duration::from_secs(20), || {
        cluster.working(cluster.site.authority()) == cluster.addresses(&[0])
    });
}

#[test]
fn the_recursor_answers_for_an_authority_that_is_gone_and_finds_it_again() {
    let cluster = Cluster::new(1, 1);
    let _up = [0, 1, 2].map(|n| cluster.master(n));
    let _healthd = cluster.site.start("healthd");
    let authd = cluster.site.start("dns-authd");
    let _recursor = cluster.site.start("dns-recursor");
    let server = cluster.site.resolver();
    wait::for_it("all masters are known", Duration::from_secs(20), || {
        cluster.working(server).len() == 3
    });
    // The names have to be in the cache before their source goes away.
    let warm = Load::start(server, 200, cluster.mix(&[0, 1, 2])).go_on(Duration::from_secs(1));
    warm.stop().assert_clean();

    let load = Load::start(server, 300, cluster.mix(&[0, 1, 2])).go_on(Duration::from_secs(1));
    authd.kill();
    // Long after every TTL.
    std::thread::sleep(Duration::from_secs(5));
    let stale = ask(server, &Question::new("helper.ocp4.example", A)).unwrap();
    assert_eq!(
        stale.extended_errors(),
        [3],
        "a stale answer says so (RFC 8914 §4.4): {stale:?}"
    );
    assert!(
        stale.answers[0].ttl <= 30,
        "and is not kept long: {}",
        stale.answers[0].ttl
    );

    let zone = std::fs::read_to_string(cluster.site.files.join("ocp4.example.zone")).unwrap();
    cluster
        .site
        .files
        .write("ocp4.example.zone", &(zone + "new A 192.0.2.77\n"));
    let _authd = cluster.site.start("dns-authd");
    wait::for_it(
        "the authority is found again",
        Duration::from_secs(20),
        || {
            let answer = ask_a(server, "new.ocp4.example").unwrap();
            answer.addresses() == BTreeSet::from([[192, 0, 2, 77].into()])
        },
    );
    let load = load.go_on(Duration::from_secs(2));
    load.stop().assert_clean();
    // A stale answer says so, and is sent only while no upstream answers in time.
    wait::for_it("answers are fresh", Duration::from_secs(20), || {
        let fresh = ask(server, &Question::new("helper.ocp4.example", A)).unwrap();
        fresh.extended_errors().is_empty()
    });
}

/// The delay allowed to a machine that builds or tests other things at the same time.
const SLOW_MACHINE: Duration = Duration::from_millis(2_500);
