mod bailiwick;
mod coherence;
mod links;
mod recursion;
mod referrals;
mod reloads;
mod shares;
mod validation;

use dns_cache::key::Variant;
use dns_cache::testing::{self, Random};
use dns_wire::{Rcode, Section, Type};

use super::simulation::{Behaviour, Got, OwnedRow, Presence, SEED, World, address, expected};
use super::*;
use crate::forward::{Fitness, Mode, Policy};

fn route(zone: &str, mode: Mode, upstreams: &[u8]) -> Route {
    let upstreams = upstreams.iter().map(|n| address(*n)).collect();
    Route::new(Name::parse(zone).unwrap(), mode, upstreams)
}

/// Everything goes to these upstreams, which are recursive.
fn world(upstreams: &[u8]) -> World {
    World::new(1, Table::new([route(".", Mode::Recursive, upstreams)]))
}

fn good(name: &str) -> Got {
    Got::Address(expected(name))
}

/// Asks and waits; what came back, and after how many milliseconds.
fn ask(world: &mut World, name: &str) -> (u64, Got) {
    let client = world.ask(name);
    world.run_for(5_000);
    world.got(client).unwrap()
}

fn n_asked(world: &World, upstream: u8) -> usize {
    world.asked.get(&address(upstream)).map_or(0, Vec::len)
}

//----------- The usual -------------------------------------------------------

#[test]
fn a_hundred_clients_with_one_cold_name_cost_one_query() {
    let mut world = world(&[1, 2]);
    let clients: Vec<u64> = (0..100).map(|_| world.ask("a.example")).collect();
    world.run_for(100);
    for client in clients {
        assert_eq!(world.got(client).unwrap().1, good("a.example"));
    }
    assert_eq!((n_asked(&world, 1), n_asked(&world, 2)), (1, 0));
    assert_eq!(world.resolver.counts().joined, 99);
}

#[test]
fn names_without_a_route_fail_at_once() {
    let mut world = World::new(
        1,
        Table::new([route("site.example", Mode::Authoritative, &[1])]),
    );
    let client = world.ask("example.org");
    assert_eq!(world.got(client), Some((0, Got::Failed(Reason::NoRoute))));
    assert_eq!(ask(&mut world, "a.site.example").1, good("a.site.example"));
}

#[test]
fn policies_spread_queries_as_they_say() {
    for (policy, expected) in [
        (Policy::Sequential, [60, 0, 0]),
        (Policy::RoundRobin, [20, 20, 20]),
    ] {
        let mut all = route(".", Mode::Recursive, &[1, 2, 3]);
        all.policy = policy;
        let mut world = World::new(1, Table::new([all]));
        for i in 0..60 {
            world.ask(&format!("n{i}.example"));
            world.run_for(10);
        }
        assert_eq!([1, 2, 3].map(|n| n_asked(&world, n)), expected);
    }
}

#[test]
fn a_ttl_of_zero_is_answered_and_not_kept() {
    let mut world = world(&[1]);
    world.zone = |name, _| {
        let row = (Section::Answer, name.to_owned(), Type::A, 0, expected(name));
        (Rcode::NOERROR, vec![row])
    };
    for _ in 0..2 {
        assert_eq!(ask(&mut world, "a.example").1, good("a.example"));
    }
    assert_eq!(n_asked(&world, 1), 2);
}

//----------- Failing over ----------------------------------------------------

#[test]
fn a_failing_answer_sends_the_query_to_the_next_upstream() {
    for rcode in [
        Rcode::SERVFAIL,
        Rcode::REFUSED,
        Rcode::NOTIMP,
        Rcode::NOTAUTH,
    ] {
        let mut world = world(&[1, 2]);
        world.behave(1, |how| (how.failing, how.rcode) = (100, rcode));
        for i in 0..30 {
            let name = format!("n{i}.example");
            let (took, got) = ask(&mut world, &name);
            assert_eq!(got, good(&name), "{rcode}");
            assert!(took < 10);
        }
    }
}

#[test]
fn when_all_fail_the_client_is_told_and_the_failure_is_kept_for_a_second() {
    let mut world = world(&[1, 2]);
    for upstream in [1, 2] {
        world.behave(upstream, |how| how.failing = 100);
    }
    let client = world.ask("a.example");
    world.run_for(50);
    assert_eq!(world.got(client).unwrap().1, Got::Failed(Reason::Refused));
    let again = world.ask("a.example");
    assert_eq!(world.got(again).unwrap().0, 0);
    assert_eq!((n_asked(&world, 1), n_asked(&world, 2)), (1, 1));
    world.behave(2, |how| how.failing = 0);
    world.run_for(1_000);
    assert_eq!(ask(&mut world, "a.example").1, good("a.example"));
}

/// 20 new names a second for five seconds; how many took longer than 100 ms, and the longest.
fn load(world: &mut World, label: &str) -> (usize, u64) {
    let clients: Vec<(u64, String)> = (0..100)
        .map(|i| {
            let name = format!("{label}{i}.example");
            let client = world.ask(&name);
            world.run_for(50);
            (client, name)
        })
        .collect();
    world.run_for(5_000);
    let mut slow = 0;
    let mut longest = 0;
    for (client, name) in clients {
        let (took, got) = world.got(client).unwrap();
        assert_eq!(got, good(&name));
        slow += usize::from(took > 100);
        longest = longest.max(took);
    }
    (slow, longest)
}

#[test]
fn a_dead_first_upstream_costs_no_client_more_than_a_blink() {
    for presence in [Presence::Silent, Presence::Closed, Presence::Unreachable] {
        // Dead from the start, and dying under load.
        for warm in [false, true] {
            let mut world = world(&[1, 2]);
            if warm {
                load(&mut world, "warm");
            }
            world.behave(1, |how| how.presence = presence);
            let (slow, longest) = load(&mut world, "n");
            assert_eq!(
                (slow, longest <= 90),
                (0, true),
                "{presence:?} {warm}: {longest} ms"
            );
            let before = n_asked(&world, 1);
            world.behave(1, |how| how.presence = Presence::Here);
            world.run_for(1_000);
            load(&mut world, "back");
            assert!(
                n_asked(&world, 1) > before + 90,
                "the first is used again: {presence:?}"
            );
        }
    }
}

#[test]
fn when_all_are_silent_names_fail_at_their_deadline_and_soon_once_that_lasts() {
    for upstreams in [&[1_u8][..], &[1, 2], &[1, 2, 3]] {
        let mut world = world(upstreams);
        for upstream in upstreams {
            world.behave(*upstream, |how| how.presence = Presence::Silent);
        }
        let (took, got) = ask(&mut world, "a.example");
        assert_eq!(got, Got::Failed(Reason::Unanswered));
        assert_eq!(took, 4_000, "{upstreams:?}");
        world.run_for(7_000);
        // As long as one that has just returned would take.
        let (took, got) = ask(&mut world, "b.example");
        assert_eq!(got, Got::Failed(Reason::Absent));
        assert!(took <= 300, "{upstreams:?}: {took} ms");
        world.behave(1, |how| how.presence = Presence::Here);
        world.run_for(800);
        assert_eq!(ask(&mut world, "c.example").1, good("c.example"));
    }
}

#[test]
fn without_a_way_or_with_a_closed_port_failure_is_immediate() {
    for (presence, limit) in [(Presence::Unreachable, 0), (Presence::Closed, 4)] {
        let mut world = world(&[1, 2]);
        for upstream in [1, 2] {
            world.behave(upstream, |how| how.presence = presence);
        }
        let (took, got) = ask(&mut world, "a.example");
        assert_eq!(got, Got::Failed(Reason::Unanswered));
        assert!(took <= limit, "{presence:?}: {took} ms");
    }
}

#[test]
fn a_lost_datagram_is_sent_again() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.loss = 100);
    let client = world.ask("a.example");
    world.run_for(100);
    world.behave(1, |how| how.loss = 0);
    world.run_for(400);
    let (took, got) = world.got(client).unwrap();
    assert_eq!(got, good("a.example"));
    assert!(took < 450, "{took} ms");
    assert_eq!(n_asked(&world, 1), 2);
}

#[test]
fn a_new_name_is_answered_at_the_moment_an_upstream_is_back() {
    for presence in [Presence::Silent, Presence::Closed, Presence::Unreachable] {
        for upstreams in [&[1_u8][..], &[1, 2]] {
            let mut world = world(upstreams);
            for upstream in upstreams {
                world.behave(*upstream, |how| how.presence = presence);
            }
            ask(&mut world, "first.example");
            // Probes have backed off, and the last has just gone out.
            for away in 0..10 {
                let (_, got) = ask(&mut world, &format!("a{away}.example"));
                assert_eq!(got, Got::Failed(Reason::Absent), "{presence:?}");
                world.run_for(77);
            }
            world.behave(upstreams[upstreams.len() - 1], |how| {
                how.presence = Presence::Here;
            });
            let client = world.ask("new.example");
            world.run_for(100);
            assert_eq!(
                world.got(client).unwrap().1,
                good("new.example"),
                "{presence:?}"
            );
            let client = world.ask("next.example");
            world.run_for(10);
            assert_eq!(world.got(client).unwrap().1, good("next.example"));
        }
    }
}

#[test]
fn an_upstream_that_an_operator_has_taken_out_gets_no_trial() {
    let mut world = world(&[1]);
    let now = Instant::from_millis(world.now);
    world.resolver.reported(address(1), Report::Drained, now);
    world.drain();
    let client = world.ask("a.example");
    assert_eq!(world.got(client), Some((0, Got::Failed(Reason::Absent))));
    assert_eq!(n_asked(&world, 1), 0);
}

#[test]
fn an_upstream_that_is_merely_slow_gets_each_question_once() {
    for upstreams in [&[1_u8][..], &[1, 2]] {
        let mut world = world(upstreams);
        for upstream in upstreams {
            world.behave(*upstream, |how| how.delay = (590, 610));
        }
        let ask_all = |world: &mut World, label: &str| {
            let names = (0..60).map(|n| format!("{label}{n}.example"));
            let clients: Vec<(u64, String)> = names
                .map(|name| {
                    let client = world.ask(&name);
                    world.run_for(50);
                    (client, name)
                })
                .collect();
            world.run_for(3_000);
            for (client, name) in clients {
                assert_eq!(world.got(client).unwrap().1, good(&name));
            }
            let sent = world.resolver.counts().sent;
            usize::try_from(sent).unwrap()
        };
        // Nothing is known of the first ones' round trip.
        let cold = ask_all(&mut world, "cold");
        assert!(cold <= 60 * 3 / 2, "{upstreams:?}: {cold}");
        let warm = ask_all(&mut world, "warm") - cold;
        assert_eq!(warm, 60, "{upstreams:?}");
    }
}

#[test]
fn a_slow_upstream_that_is_there_is_waited_for() {
    let mut world = world(&[1]);
    ask(&mut world, "warm.example");
    // Probes are answered at once, this name takes three seconds.
    world.behave(1, |how| {
        (how.delay, how.probe_delay) = ((3_000, 3_000), Some(1));
    });
    let client = world.ask("slow.example");
    world.run_for(4_500);
    assert_eq!(world.got(client).unwrap().1, good("slow.example"));
    assert!(
        world
            .health
            .iter()
            .all(|(_, _, fitness)| *fitness != Fitness::Absent)
    );
}

#[test]
fn healthd_moves_queries_at_once_both_ways() {
    let mut world = world(&[1, 2]);
    world.behave(1, |how| how.presence = Presence::Silent);
    world
        .resolver
        .reported(address(1), Report::Silent, Instant::START);
    world.drain();
    let (slow, longest) = load(&mut world, "n");
    assert_eq!((slow, longest), (0, 2));
    assert_eq!(n_asked(&world, 1), 0);
    world.behave(1, |how| how.presence = Presence::Here);
    let now = Instant::from_millis(world.now);
    world.resolver.reported(address(1), Report::Answers, now);
    world.drain();
    ask(&mut world, "back.example");
    assert_eq!(n_asked(&world, 1), 1);
}

//----------- Stale answers ---------------------------------------------------

#[test]
fn while_the_upstream_is_away_cached_names_never_fail() {
    for presence in [Presence::Closed, Presence::Silent] {
        let mut world = world(&[1]);
        ask(&mut world, "a.example");
        world.run_for(100);
        world.behave(1, |how| how.presence = presence);
        let away = world.now;
        let (mut stale, mut waits) = (0, 0);
        while world.now < away + 5_000 {
            let client = world.ask("a.example");
            world.run_for(500);
            let (took, got) = world.got(client).unwrap();
            assert_eq!(got, Got::Stale(expected("a.example")), "{presence:?}");
            stale += 1;
            waits += usize::from(took > 50);
            assert!(took <= 400, "{took} ms");
        }
        assert!(
            stale >= 9 && waits <= 2,
            "{presence:?}: {waits} of {stale} waited"
        );
        world.behave(1, |how| how.presence = Presence::Here);
        world.run_for(1_000);
        for name in ["a.example", "new.example"] {
            let client = world.ask(name);
            world.run_for(20);
            assert_eq!(world.got(client).unwrap().1, good(name), "{presence:?}");
        }
    }
}

#[test]
fn an_upstream_that_answers_is_never_overruled_by_a_stale_answer() {
    let mut world = world(&[1]);
    ask(&mut world, "a.example");
    world.zone = |_, _| {
        let row = (
            Section::Authority,
            "example".to_owned(),
            Type::SOA,
            60,
            "60".to_owned(),
        );
        (Rcode::NXDOMAIN, vec![row])
    };
    world.run_for(10_000);
    assert_eq!(ask(&mut world, "a.example").1, Got::Denied);
}

#[test]
fn a_slow_answer_is_bridged_by_the_stale_one_after_400_ms() {
    let mut world = world(&[1]);
    ask(&mut world, "a.example");
    world.run_for(6_000);
    world.behave(1, |how| {
        (how.delay, how.probe_delay) = ((900, 900), Some(1));
    });
    let first = world.ask("a.example");
    world.run_for(450);
    assert_eq!(
        world.got(first).unwrap(),
        (400, Got::Stale(expected("a.example")))
    );
    let second = world.ask("a.example");
    assert_eq!(
        world.got(second).unwrap(),
        (0, Got::Stale(expected("a.example")))
    );
    world.run_for(600);
    let third = world.ask("a.example");
    assert_eq!(world.got(third).unwrap(), (0, good("a.example")));
}

#[test]
fn a_hot_name_is_refreshed_before_it_expires() {
    let mut world = world(&[1]);
    let mut longest = 0;
    for _ in 0..300 {
        let client = world.ask("hot.example");
        world.run_for(100);
        longest = longest.max(world.got(client).unwrap().0);
    }
    // Thirty seconds of a five-second TTL: only the first asker ever waited.
    assert!(longest <= 2, "{longest} ms");
    let waits = world
        .clients
        .values()
        .filter(|(asked, answer)| answer.as_ref().is_some_and(|(at, _)| at > asked));
    assert_eq!(waits.count(), 1);
    assert!(
        (6..=8).contains(&n_asked(&world, 1)),
        "{}",
        n_asked(&world, 1)
    );
}

//----------- Odd upstreams ---------------------------------------------------

#[test]
fn truncation_and_guesses_are_settled_over_tcp() {
    type Change = fn(&mut Behaviour);
    let cases: [(&str, Change); 4] = [
        ("truncated", |how| how.truncated = 100),
        ("wrong id", |how| how.wrong_id = 100),
        ("wrong question", |how| how.wrong_question = 100),
        ("wrong case", |how| how.lower_case = true),
    ];
    for (what, change) in cases {
        let mut world = world(&[1]);
        world.behave(1, change);
        let (took, got) = ask(&mut world, "a-longer-name.example");
        assert_eq!(got, good("a-longer-name.example"), "{what}");
        assert!(took < 20, "{what}: {took} ms");
        assert_eq!(world.resolver.counts().sent_tcp, 1, "{what}");
    }
}

#[test]
fn a_server_without_tcp_that_lowers_case_is_asked_in_lower_case() {
    let mut world = world(&[1]);
    world.behave(1, |how| {
        (how.lower_case, how.tcp) = (true, Presence::Closed);
    });
    assert_eq!(
        ask(&mut world, "first-name.example").1,
        good("first-name.example")
    );
    assert_eq!(
        ask(&mut world, "second-name.example").1,
        good("second-name.example")
    );
    let counts = world.resolver.counts();
    assert_eq!((counts.other_case, counts.sent_tcp, counts.sent), (1, 1, 4));
}

#[test]
fn a_server_that_lowers_case_behind_a_filter_of_tcp_is_asked_in_lower_case() {
    let mut world = world(&[1]);
    world.behave(1, |how| {
        (how.lower_case, how.tcp) = (true, Presence::Silent);
    });
    for name in ["first-name.example", "second-name.example"] {
        assert_eq!(ask(&mut world, name).1, good(name));
    }
    let counts = world.resolver.counts();
    assert_eq!((counts.other_case, counts.sent_tcp, counts.sent), (1, 1, 4));
}

#[test]
fn a_server_that_takes_offence_at_edns_is_asked_without() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.refuses_edns = true);
    for name in ["a.example", "b.example"] {
        assert_eq!(ask(&mut world, name).1, good(name));
    }
    assert_eq!(n_asked(&world, 1), 3);
}

#[test]
fn a_formerr_for_another_reason_is_a_failure_and_edns_stays() {
    let mut world = world(&[1]);
    world.behave(1, |how| (how.failing, how.rcode) = (100, Rcode::FORMERR));
    assert_eq!(ask(&mut world, "a.example").1, Got::Failed(Reason::Refused));
    world.behave(1, |how| how.failing = 0);
    world.run_for(1_000);
    assert_eq!(ask(&mut world, "b.example").1, good("b.example"));
    assert_eq!(n_asked(&world, 1), 3);
}

#[test]
fn a_truncated_answer_without_tcp_fails_over() {
    let mut world = world(&[1, 2]);
    world.behave(1, |how| (how.truncated, how.tcp) = (100, Presence::Closed));
    assert_eq!(ask(&mut world, "a.example").1, good("a.example"));
    assert_eq!((n_asked(&world, 1), n_asked(&world, 2)), (2, 1));
}

#[test]
fn a_query_that_comes_back_is_refused_and_told() {
    let key = Key::new(
        SEED,
        &testing::question("a-long-enough-name.example", Type::A),
        Variant::default(),
    );
    let table = Table::new([route(".", Mode::Recursive, &[1])]);
    let now = Instant::START;
    let mut resolver = Resolver::new(Settings::default(), Arc::new(table), SEED, Random(1), now);
    let ask = |client, question| ResolveRequest {
        key: &key,
        question,
        client: Some(client),
        origin: None,
        has_stale: false,
    };
    resolver.ask(ask(1, key.question()), now);
    let Some(Output::Send { message, .. }) = resolver.poll_output() else {
        panic!("nothing was sent");
    };
    let asked = dns_wire::Query::parse(&message).unwrap().question;
    resolver.ask(ask(2, asked), now);
    let looped = resolver.poll_output();
    assert!(matches!(looped, Some(Output::Loop { upstream }) if upstream == address(1)));
    let failed = resolver.poll_output();
    assert!(matches!(
        failed,
        Some(Output::Fail {
            reason: Reason::Loop,
            ..
        })
    ));
    // A client that asks in lower case is not mistaken for a loop.
    resolver.ask(ask(3, key.question()), now);
    assert!(resolver.poll_output().is_none());
    resolver.check_invariants();
}

//----------- CNAME chains ----------------------------------------------------

/// `cN.site.example` is an alias of `cN+1.site.example` up to `end`, which is in another zone.
fn chains(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    let alias = |target: &str| {
        let row = (
            Section::Answer,
            name.to_owned(),
            Type::CNAME,
            60,
            target.to_owned(),
        );
        (Rcode::NOERROR, vec![row])
    };
    match name {
        "www.site.example" => alias("end.example"),
        "gone.site.example" => alias("nowhere.example"),
        "round.site.example" => alias("about.other.example"),
        "about.other.example" => alias("round.site.example"),
        "nowhere.example" => {
            let row = (
                Section::Authority,
                "example".to_owned(),
                Type::SOA,
                60,
                "60".to_owned(),
            );
            (Rcode::NXDOMAIN, vec![row])
        }
        _ => match name.strip_prefix('c').and_then(|n| n.split_once('.')) {
            Some((n, "site.example")) => {
                let n: u32 = n.parse().unwrap();
                alias(&format!("c{}.other.example", n + 1))
            }
            Some((n, "other.example")) => {
                let n: u32 = n.parse().unwrap();
                alias(&format!("c{}.site.example", n + 1))
            }
            _ => {
                let row = (Section::Answer, name.to_owned(), Type::A, 5, expected(name));
                (Rcode::NOERROR, vec![row])
            }
        },
    }
}

fn chained() -> World {
    let mut world = World::new(
        1,
        Table::new([
            route(".", Mode::Recursive, &[1]),
            route("site.example", Mode::Authoritative, &[2]),
            route("other.example", Mode::Authoritative, &[3]),
        ]),
    );
    world.zone = chains;
    world
}

#[test]
fn a_chain_that_leaves_the_zone_is_followed() {
    let mut world = chained();
    let (took, got) = ask(&mut world, "www.site.example");
    assert_eq!(got, good("end.example"));
    assert!(took < 10, "{took} ms");
    assert_eq!(world.asked[&address(1)], ["end.example."]);
    // The end is cached by itself, and so is the whole.
    world.run_for(100);
    assert_eq!(ask(&mut world, "gone.site.example").1, Got::Denied);
}

#[test]
fn the_end_of_a_chain_is_taken_from_the_cache() {
    let mut world = chained();
    let first = world.ask("end.example");
    world.run_for(10);
    let second = world.ask("www.site.example");
    world.run_for(10);
    assert_eq!(world.got(first).unwrap().1, good("end.example"));
    assert_eq!(world.got(second).unwrap().1, good("end.example"));
    assert_eq!(n_asked(&world, 1), 1);
}

#[test]
fn the_end_of_a_chain_that_has_just_failed_is_not_asked_for_again() {
    let mut world = chained();
    world.behave(1, |how| how.failing = 100);
    ask(&mut world, "end.example");
    world.run_for(1_000);
    let first = world.ask("end.example");
    world.run_for(10);
    assert_eq!(world.got(first).unwrap().1, Got::Failed(Reason::Refused));
    let n_before = n_asked(&world, 1);
    let second = world.ask("www.site.example");
    world.run_for(10);
    let failed = Got::Failed(Reason::Unanswered);
    assert_eq!(world.got(second).unwrap().1, failed);
    assert_eq!(n_asked(&world, 1), n_before);
    // The memory of a failure lasts a second.
    world.behave(1, |how| how.failing = 0);
    world.run_for(1_000);
    let (_, got) = ask(&mut world, "www.site.example");
    assert_eq!(got, good("end.example"));
}

#[test]
fn chains_that_do_not_end_are_given_up() {
    let mut world = chained();
    for name in ["round.site.example", "c0.site.example"] {
        let (took, got) = ask(&mut world, name);
        assert_eq!(got, Got::Failed(Reason::Chain), "{name}");
        assert!(took < 100, "{name}: {took} ms");
    }
    assert_eq!(world.resolver.n_flights(), 0);
}

#[test]
fn many_that_wait_for_one_end_all_get_it() {
    let mut world = chained();
    world.behave(1, |how| how.delay = (50, 50));
    let clients: Vec<u64> = (0..10).map(|_| world.ask("www.site.example")).collect();
    let direct = world.ask("end.example");
    world.run_for(200);
    for client in clients.into_iter().chain([direct]) {
        assert_eq!(world.got(client).unwrap().1, good("end.example"));
    }
    assert_eq!(n_asked(&world, 1), 1);
}

/// `n0` to `n2999.site.example`, all asked before any is answered, each an alias of the next but for the
/// last; answered by turns that begin this far apart.
fn asked_ahead(apart: usize) {
    const NAMES: usize = 3000;
    let name = |n: usize| format!("n{n}.site.example");
    let table = Table::new([route("site.example", Mode::Authoritative, &[1])]);
    let now = Instant::START;
    let mut resolver = Resolver::new(Settings::default(), Arc::new(table), SEED, Random(1), now);
    let mut sent = Vec::new();
    for n in 0..NAMES {
        let question = testing::question(&name(n), Type::A);
        let key = Key::new(SEED, &question, Variant::default());
        let ask = ResolveRequest {
            key: &key,
            question: &question,
            client: Some(n),
            origin: None,
            has_stale: false,
        };
        resolver.ask(ask, now);
        let Some(Output::Send {
            exchange, message, ..
        }) = resolver.poll_output()
        else {
            panic!("nothing was sent");
        };
        sent.push((exchange, message));
    }
    let mut told = 0;
    let turns = (0..apart).flat_map(|first| (first..NAMES - 1).step_by(apart));
    for n in turns.rev().chain([NAMES - 1]) {
        let (owner, target) = (name(n), name(n + 1));
        let row = match n == NAMES - 1 {
            true => (Section::Answer, owner.as_str(), Type::A, 60, "192.0.2.9"),
            false => (
                Section::Answer,
                owner.as_str(),
                Type::CNAME,
                60,
                target.as_str(),
            ),
        };
        let (exchange, message) = &sent[n];
        let response = testing::response(message, dns_wire::Flags::AA, Rcode::NOERROR, &[row]);
        resolver.received(*exchange, &response, now);
        while let Some(output) = resolver.poll_output() {
            match output {
                Output::LookUp { flight, key } => {
                    resolver.looked_up(flight, &key, CacheResult::Nothing, now);
                }
                Output::Answer { clients, .. } | Output::Fail { clients, .. } => {
                    told += clients.len();
                }
                _ => {}
            }
        }
    }
    resolver.check_invariants();
    assert_eq!(resolver.n_clients(), NAMES - told);
}

#[test]
fn chains_among_questions_under_way_are_bounded_as_those_that_are_followed() {
    // A chain as long as there are questions would end a thread with little to put it on.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let asking = small.spawn(|| {
        for apart in [1, 2, 7] {
            asked_ahead(apart);
        }
    });
    asking.unwrap().join().unwrap();
}

//----------- Bounds ----------------------------------------------------------

#[test]
fn what_is_too_much_is_refused_and_the_rest_goes_on() {
    let mut world = world(&[1]);
    let settings = Settings {
        max_flights: 2,
        max_clients: 5,
        ..Settings::default()
    };
    let table = Table::new([route(".", Mode::Recursive, &[1])]);
    world
        .resolver
        .reconfigure(settings, Arc::new(table), Instant::START);
    let first: Vec<u64> = (0..4).map(|_| world.ask("a.example")).collect();
    let second = world.ask("b.example");
    let over = [world.ask("b.example"), world.ask("c.example")];
    for client in over {
        assert_eq!(world.got(client), Some((0, Got::Failed(Reason::Overload))));
    }
    world.run_for(100);
    for client in first.into_iter().chain([second]) {
        assert!(matches!(world.got(client), Some((_, Got::Address(_)))));
    }
    assert_eq!(world.resolver.counts().overload, 2);
}
