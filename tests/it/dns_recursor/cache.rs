//! The cache of dns-recursor: its content, its lifetimes, and the failures that it survives.

use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::dns::{A, AAAA, CNAME, NOERROR, NXDOMAIN, Question, ask, ask_a, ask_tcp, name_to_wire};
use tests::load::{Load, Mix};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::sockets::Held;
use tests::upstream::{Action, Upstream};
use tests::wait;

use super::{Forward, address, addresses, configure, plain, start, with_upstream};

#[test]
fn answers_are_kept_and_their_ttls_count_down() {
    let (site, _daemon, upstream) = with_upstream(|asked| match asked.name().as_str() {
        "none.example." => Action::Send(asked.negative(NXDOMAIN, "example", 60)),
        "empty.example." => Action::Send(asked.negative(NOERROR, "example", 60)),
        "alias.example." => {
            Action::Send(asked.answer(NOERROR, &[(CNAME, 20, name_to_wire("www.example"))]))
        }
        _ => Action::Send(asked.answer(NOERROR, &[(A, 20, address(1)), (A, 20, address(2))])),
    });
    let server = site.resolver();
    let asked = Instant::now();
    let first = ask_a(server, "www.example").unwrap();
    let kept = Instant::now();
    ask_a(server, "none.example").unwrap();
    ask_a(server, "empty.example").unwrap();
    let before = upstream.n_udp();
    std::thread::sleep(Duration::from_millis(2_100));
    for _ in 0..10 {
        let least = kept.elapsed().as_secs();
        let again = ask_a(server, "WWW.example").unwrap();
        let most = asked.elapsed().as_secs() + 1;
        assert_eq!(addresses(&again), ["192.0.2.1", "192.0.2.2"]);
        let (then, now) = (first.answers[0].ttl, again.answers[0].ttl);
        let aged = u64::from(then - now);
        assert!((least..=most).contains(&aged), "{then} then {now}");
        assert_eq!(
            ask_a(server, "none.example").unwrap().rcode,
            u16::from(NXDOMAIN)
        );
        let empty = ask_a(server, "empty.example").unwrap();
        assert_eq!((empty.rcode, empty.authority.len()), (0, 1));
        assert!(empty.authority[0].ttl <= 58, "{}", empty.authority[0].ttl);
    }
    assert_eq!(upstream.n_udp(), before, "all from the cache");
    // Another type is another question.
    ask(server, &Question::new("www.example", AAAA)).unwrap();
    assert!(upstream.n_udp() > before);
}

#[test]
fn an_answer_of_no_lifetime_is_not_kept() {
    let (site, _daemon, upstream) =
        with_upstream(|asked| Action::Send(asked.answer(NOERROR, &[(A, 0, address(1))])));
    for _ in 0..3 {
        let answer = ask_a(site.resolver(), "www.example").unwrap();
        assert_eq!(
            (addresses(&answer), answer.answers[0].ttl),
            (vec!["192.0.2.1".to_owned()], 0)
        );
    }
    assert!(upstream.n_udp() >= 3, "{}", upstream.n_udp());
}

#[test]
fn stale_answers_bridge_an_upstream_that_says_nothing() {
    let (site, _daemon, upstream) =
        with_upstream(|asked| Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))])));
    let server = site.resolver();
    assert_eq!(
        addresses(&ask_a(server, "www.example").unwrap()),
        ["192.0.2.1"]
    );
    upstream.act(|_| Action::Silence);
    std::thread::sleep(Duration::from_millis(1_500));
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begin = Instant::now();
        let stale = ask_a(server, "www.example").unwrap();
        slowest = slowest.max(begin.elapsed());
        assert_eq!(addresses(&stale), ["192.0.2.1"]);
        assert_eq!(stale.extended_errors(), [3], "{stale:?}");
        assert!(
            (1..=30).contains(&stale.answers[0].ttl),
            "RFC 8767 §4: {}",
            stale.answers[0].ttl
        );
    }
    // RFC 8767 §5: a client is not kept waiting for as long as the upstream is waited for.
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
    // The upstream's answer after its return counts.
    upstream.act(|asked| Action::Send(asked.answer(NOERROR, &[(A, 300, address(9))])));
    wait::for_it("the answer is fresh again", Duration::from_secs(10), || {
        addresses(&ask_a(server, "www.example").unwrap()) == ["192.0.2.9"]
    });
}

#[test]
fn a_denial_is_believed_even_when_a_stale_answer_is_there() {
    let (site, _daemon, upstream) =
        with_upstream(|asked| Action::Send(asked.answer(NOERROR, &[(A, 1, address(1))])));
    assert_eq!(
        addresses(&ask_a(site.resolver(), "www.example").unwrap()),
        ["192.0.2.1"]
    );
    upstream.act(|asked| Action::Send(asked.negative(NXDOMAIN, "example", 60)));
    wait::for_it("the name is gone", Duration::from_secs(5), || {
        ask_a(site.resolver(), "www.example").unwrap().rcode == u16::from(NXDOMAIN)
    });
}

#[test]
fn a_reload_keeps_the_cache() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, plain);
    let forward = [Forward {
        zone: "example",
        to: &[to],
        recursive: false,
    }];
    let (site, mut daemon) = start(&forward, "");
    ask_a(site.resolver(), "www.example").unwrap();
    let before = upstream.n_udp();
    let load = Load::start(
        site.resolver(),
        500,
        Mix {
            questions: vec![Question::new("www.example", A)],
            judge: Box::new(|_, message| match addresses(message).as_slice() {
                [one] if one == "192.0.2.1" => Ok(()),
                _ => Err(format!("{message:?}")),
            }),
        },
    );
    for n in 0..5 {
        let other = at(loopback(), 5300);
        let more = Forward {
            zone: &format!("other{n}.test"),
            to: &[other],
            recursive: true,
        };
        let [first] = &forward;
        configure(&site, &[Forward { ..*first }, more], "");
        daemon.forget_told();
        daemon.hang_up();
        daemon.wait_told("READY=1");
    }
    load.stop().assert_clean();
    assert_eq!(upstream.n_udp(), before, "asked before the first reload");
}

#[test]
fn two_processes_share_sockets_and_swap_without_losing_a_query() {
    let to = at(loopback(), 5300);
    let _upstream = Upstream::start(to, plain);
    let site = Site::new();
    let forward = Forward {
        zone: "example",
        to: &[to],
        recursive: false,
    };
    configure(&site, &[forward], "");
    let held = Held::bind(site.resolver());
    let start = || {
        Daemon::start(
            "dns-recursor",
            held.hand_to("dns", &site.serve("dns-recursor")),
        )
    };
    let mut current = start();
    let mix = Mix {
        questions: (0..200)
            .map(|n| Question::new(&format!("n{n}.example"), A))
            .collect(),
        judge: Box::new(|_, message| match addresses(message).as_slice() {
            [one] if one == "192.0.2.1" => Ok(()),
            _ => Err(format!("{message:?}")),
        }),
    };
    let load = Load::start(site.resolver(), 1_000, mix).go_on(Duration::from_millis(500));
    for _ in 0..4 {
        let next = start();
        std::mem::replace(&mut current, next).stop();
        let question = Question::new("n1.example", A);
        assert_eq!(
            ask_tcp(site.resolver(), &question).unwrap().answers.len(),
            1
        );
    }
    load.stop().assert_clean();
    current.stop();
}
