//! dns-recursor, from outside: forwarding, the cache, what it accepts from upstreams and clients.

mod authorities;
mod cache;
mod clients;
mod cluster;
mod coherence;
mod delegation;
mod dns64;
mod explain;
mod links;
mod names;
mod node_hosts;
mod recursion;
mod rewrite;
mod rollover;
mod safety;
mod signed_tree;
mod transports;
mod validation;
mod watch;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tests::daemon::{Daemon, run};
use tests::dns::{
    self, A, Message, NOERROR, Question, REFUSED, SERVFAIL, TXT, ask, ask_a, ask_tcp, name_to_wire,
};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::upstream::{Action, Asked, Upstream};
use tests::wait;

/// The most messages that one question costs, whatever the upstreams do.
const MOST_FOR_ONE_QUESTION: u64 = 12;

//--- A resolver and what it forwards to

/// The upstreams of a forwarded zone.
struct Forward<'a> {
    zone: &'a str,
    to: &'a [SocketAddr],
    recursive: bool,
}

impl Forward<'_> {
    fn to_toml(&self) -> String {
        let upstreams: Vec<String> = self.to.iter().map(|to| format!("\"{to}\"")).collect();
        format!(
            "[[forward]]\nzone = \"{}\"\nupstreams = [{}]\nrecursive = {}\n\n",
            self.zone,
            upstreams.join(", "),
            self.recursive
        )
    }
}

fn start(forwards: &[Forward<'_>], more: &str) -> (Site, Daemon) {
    let site = Site::new();
    configure(&site, forwards, more);
    let daemon = site.start("dns-recursor");
    (site, daemon)
}

fn configure(site: &Site, forwards: &[Forward<'_>], more: &str) {
    let text: String = forwards.iter().map(Forward::to_toml).collect();
    site.configure_recursor(&text, more);
}

/// A resolver of `example` with one upstream, authoritative for it.
fn with_upstream(act: impl FnMut(&Asked) -> Action + Send + 'static) -> (Site, Daemon, Upstream) {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, act);
    let (site, daemon) = start(
        &[Forward {
            zone: "example",
            to: &[to],
            recursive: false,
        }],
        "",
    );
    (site, daemon, upstream)
}

fn address(last: u8) -> Vec<u8> {
    vec![192, 0, 2, last]
}

fn addresses(message: &Message) -> Vec<String> {
    message
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Answers every question for an address with 192.0.2.1.
fn plain(asked: &Asked) -> Action {
    Action::Send(asked.answer(NOERROR, &[(A, 300, address(1))]))
}

//--- Forwarding

#[test]
fn the_longest_suffix_decides_who_is_asked_and_how() {
    let (outer, inner) = (at(loopback(), 5300), at(loopback(), 5300));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let answer = |last: u8, seen: &Arc<Mutex<Vec<(String, bool)>>>| {
        let seen = Arc::clone(seen);
        move |asked: &Asked| {
            seen.lock()
                .unwrap()
                .push((asked.name(), asked.message.recursion_desired));
            Action::Send(asked.answer(NOERROR, &[(A, 300, address(last))]))
        }
    };
    let _outer = Upstream::start(outer, answer(1, &seen));
    let _inner = Upstream::start(inner, answer(2, &seen));
    let (site, _daemon) = start(
        &[
            Forward {
                zone: ".",
                to: &[outer],
                recursive: true,
            },
            Forward {
                zone: "in.example",
                to: &[inner],
                recursive: false,
            },
        ],
        "",
    );
    for (name, last) in [
        ("a.in.example", 2),
        ("IN.example", 2),
        ("in2.example", 1),
        ("xin.example", 1),
        ("example", 1),
    ] {
        let answer = ask_a(site.resolver(), name).unwrap();
        assert_eq!(addresses(&answer), [format!("192.0.2.{last}")], "{name}");
        assert!(
            answer.recursion_available && !answer.authoritative,
            "{answer:?}"
        );
    }
    for (name, recursion_desired) in seen.lock().unwrap().iter() {
        assert_eq!(
            *recursion_desired,
            !name.ends_with(".in.example.") && name != "in.example.",
            "RD for {name}"
        );
    }
}

#[test]
fn an_outside_name_fails_at_once_when_there_is_no_way_out() {
    // No process listens on the only upstream.
    let nowhere = at(loopback(), 5300);
    let (site, _daemon) = start(
        &[Forward {
            zone: ".",
            to: &[nowhere],
            recursive: true,
        }],
        "",
    );
    for n in 0..5 {
        let begin = Instant::now();
        let answer = ask_a(site.resolver(), &format!("www{n}.example.org")).unwrap();
        assert_eq!(answer.rcode, u16::from(SERVFAIL));
        // Sooner than a question is given up.
        assert!(
            begin.elapsed() < Duration::from_secs(3),
            "took {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn many_clients_with_one_question_cost_one_query_upstream() {
    let (site, _daemon, upstream) = with_upstream(|asked| {
        Action::SendLater(
            Duration::from_millis(60),
            asked.answer(NOERROR, &[(A, 300, address(1))]),
        )
    });
    let server = site.resolver();
    let clients: Vec<_> = (0..50)
        .map(|n| {
            // Letter case does not make another question. So many letters that a query upstream does not have the same by chance, which
            // would be a circle.
            let name = if n % 2 == 0 {
                "cold-and-never-asked-for-before.example"
            } else {
                "COLD-And-Never-Asked-For-Before.Example"
            };
            std::thread::spawn(move || ask_a(server, name))
        })
        .collect();
    for client in clients {
        assert_eq!(addresses(&client.join().unwrap().unwrap()), ["192.0.2.1"]);
    }
    // One, which is said again to an upstream that takes long.
    let n_asked = upstream.n_udp() + upstream.n_tcp();
    assert!(n_asked <= MOST_FOR_ONE_QUESTION, "{n_asked}");
}

#[test]
fn a_truncated_answer_is_asked_for_again_over_tcp() {
    let (site, _daemon, upstream) = with_upstream(|asked| {
        let mut answer = asked.answer(NOERROR, &[(A, 300, address(1))]);
        if !asked.over_tcp {
            answer = asked.answer(NOERROR, &[]);
            answer[2] |= 2;
        }
        Action::Send(answer)
    });
    assert_eq!(
        addresses(&ask_a(site.resolver(), "big.example").unwrap()),
        ["192.0.2.1"]
    );
    assert!(upstream.n_udp() > 0);
    assert_eq!(upstream.n_tcp(), 1);
}

#[test]
fn what_is_too_big_for_the_client_is_truncated_and_whole_over_tcp() {
    let (site, _daemon, _upstream) = with_upstream(|asked| {
        let text = |n: u8| (TXT, 300, [&[200][..], &[b'a' + n; 200]].concat());
        let records: Vec<_> = (0..20).map(text).collect();
        let whole = asked.answer(NOERROR, &records);
        if asked.over_tcp {
            return Action::Send(whole);
        }
        let mut short = asked.answer(NOERROR, &[]);
        short[2] |= 2;
        Action::Send(short)
    });
    let question = Question::new("big.example", TXT);
    for _ in 0..2 {
        let answer = ask(site.resolver(), &question).unwrap();
        assert!(answer.truncated, "{answer:?}");
        let whole = ask_tcp(site.resolver(), &question).unwrap();
        assert_eq!((whole.truncated, whole.answers.len()), (false, 20));
    }
}

#[test]
fn a_silent_upstream_is_left_for_the_other_one() {
    let (first, second) = (at(loopback(), 5300), at(loopback(), 5300));
    let silent = Upstream::start(first, |_| Action::Silence);
    let _answering = Upstream::start(second, plain);
    let (site, _daemon) = start(
        &[Forward {
            zone: "example",
            to: &[first, second],
            recursive: false,
        }],
        "",
    );
    let mut slow = 0;
    for n in 0..40 {
        let begin = Instant::now();
        let answer = ask_a(site.resolver(), &format!("n{n}.example")).unwrap();
        assert_eq!(addresses(&answer), ["192.0.2.1"], "{n}");
        slow += u32::from(begin.elapsed() > Duration::from_millis(300));
    }
    assert!(
        slow <= 3,
        "{slow} of 40 queries waited for a server that says nothing"
    );
    // It is used again when it is back.
    silent.act(|asked| Action::Send(asked.answer(NOERROR, &[(A, 300, address(2))])));
    let mut n = 100;
    wait::for_it(
        "the first upstream is used again",
        Duration::from_secs(20),
        || {
            n += 1;
            std::thread::sleep(Duration::from_millis(100));
            addresses(&ask_a(site.resolver(), &format!("n{n}.example")).unwrap()) == ["192.0.2.2"]
        },
    );
}

#[test]
fn an_upstream_that_refuses_or_fails_is_not_the_last_word() {
    for rcode in [SERVFAIL, REFUSED] {
        let (first, second) = (at(loopback(), 5300), at(loopback(), 5300));
        let _failing = Upstream::start(first, move |asked| Action::Send(asked.answer(rcode, &[])));
        let _answering = Upstream::start(second, plain);
        let (site, _daemon) = start(
            &[Forward {
                zone: "example",
                to: &[first, second],
                recursive: false,
            }],
            "",
        );
        for n in 0..5 {
            let answer = ask_a(site.resolver(), &format!("n{n}.example")).unwrap();
            assert_eq!(addresses(&answer), ["192.0.2.1"], "rcode {rcode}");
        }
    }
}

//--- What is believed

#[test]
fn forged_answers_are_not_believed() {
    let (site, _daemon, _upstream) = with_upstream(|asked| {
        // Before the true answer come forgeries: another id, another question, no question, another
        // class, a query. All from the right address to the right port.
        let Ok(forger) = UdpSocket::bind("127.0.0.1:0") else {
            return Action::Silence;
        };
        let truth = asked.answer(NOERROR, &[(A, 300, address(1))]);
        let lie = asked.answer(NOERROR, &[(A, 300, address(66))]);
        let change = |at: usize, bits: u8| {
            let mut forged = lie.clone();
            forged[at] ^= bits;
            forged
        };
        // One that is right but for the address that it comes from.
        drop(forger.send_to(&lie, asked.from));
        if asked.name().starts_with("id") {
            return Action::Send(change(1, 1));
        }
        if asked.name().starts_with("name") {
            return Action::Send(change(13, 1));
        }
        if asked.name().starts_with("query") {
            return Action::Send(change(2, 0x80));
        }
        Action::Send(truth)
    });
    let true_one = ask_a(site.resolver(), "www.example").unwrap();
    assert_eq!(addresses(&true_one), ["192.0.2.1"]);
    for name in ["id.example", "name.example", "query.example"] {
        // Nothing but a forgery ever comes: no answer is right, SERVFAIL is honest.
        match dns::exchange_udp(
            site.resolver(),
            &Question::new(name, A).to_wire(3),
            Duration::from_secs(8),
        ) {
            Ok(raw) => {
                let answer = Message::read(&raw).unwrap();
                assert_eq!(
                    (answer.rcode, answer.answers.len()),
                    (u16::from(SERVFAIL), 0),
                    "{name}"
                );
            }
            Err(error) => panic!("{name}: clients are told when nothing is to be had: {error}"),
        }
    }
}

#[test]
fn letter_case_guards_against_forgery_and_clients_get_their_own_back() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let spelt = Arc::clone(&seen);
    let (site, _daemon, _upstream) = with_upstream(move |asked| {
        spelt
            .lock()
            .unwrap()
            .insert(asked.message.questions[0].0.clone());
        plain(asked)
    });
    for n in 0..20 {
        // The harness holds the question against what was asked, case included.
        let answer = ask_a(
            site.resolver(),
            &format!("aLongEnoughNameToBeMixed{n}.exAmple"),
        )
        .unwrap();
        assert_eq!(addresses(&answer), ["192.0.2.1"]);
    }
    let mixed = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|name| {
            name.contains(|c: char| c.is_ascii_uppercase()) && !name.contains("aLongEnough")
        })
        .count();
    assert!(mixed >= 15, "{:?}", seen.lock().unwrap());
}

#[test]
fn an_upstream_that_does_not_keep_letter_case_is_still_used() {
    let (site, _daemon, _upstream) = with_upstream(|asked| {
        let mut answer = asked.answer(NOERROR, &[(A, 300, address(1))]);
        let name_end = answer.len() - 16 - 4;
        answer[12..name_end].make_ascii_lowercase();
        Action::Send(answer)
    });
    for n in 0..5 {
        let answer = ask_a(
            site.resolver(),
            &format!("a-name-with-many-letters-{n}.example"),
        )
        .unwrap();
        assert_eq!(addresses(&answer), ["192.0.2.1"]);
    }
}

#[test]
fn source_ports_and_ids_cannot_be_guessed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&seen);
    let (site, _daemon, _upstream) = with_upstream(move |asked| {
        sent.lock()
            .unwrap()
            .push((asked.from.port(), asked.message.id));
        plain(asked)
    });
    for n in 0..200 {
        ask_a(site.resolver(), &format!("n{n}.example")).unwrap();
    }
    let seen = seen.lock().unwrap();
    let ports: BTreeSet<u16> = seen.iter().map(|(port, _)| *port).collect();
    let ids: BTreeSet<u16> = seen.iter().map(|(_, id)| *id).collect();
    assert!(ports.len() >= 20, "{} ports in 200 queries", ports.len());
    assert!(ids.len() >= 190, "{} ids in 200 queries", ids.len());
    let steps: BTreeSet<u16> = seen
        .windows(2)
        .map(|pair| pair[1].1.wrapping_sub(pair[0].1))
        .collect();
    assert!(steps.len() > 150, "ids follow a pattern");
}

#[test]
fn what_nobody_asked_for_does_not_get_into_the_cache() {
    let (site, _daemon, upstream) = with_upstream(|asked| {
        // The answer brings a record for a name out of the zone, and one in it.
        let mut answer = asked.answer(NOERROR, &[(A, 300, address(1))]);
        for name in ["www.bank.test", "other.example"] {
            answer.extend(name_to_wire(name));
            answer.extend([0, 1, 0, 1, 0, 0, 14, 16, 0, 4]);
            answer.extend(address(66));
        }
        answer[11] = 2;
        Action::Send(answer)
    });
    assert_eq!(
        addresses(&ask_a(site.resolver(), "www.example").unwrap()),
        ["192.0.2.1"]
    );
    let bank = ask_a(site.resolver(), "www.bank.test").unwrap();
    assert!(addresses(&bank).is_empty(), "{bank:?}");
    upstream.act(plain);
    let other = ask_a(site.resolver(), "other.example").unwrap();
    assert_eq!(addresses(&other), ["192.0.2.1"], "{other:?}");
}

#[test]
fn malformed_answers_end_in_servfail_and_nothing_worse() {
    let n = Arc::new(Mutex::new(0_usize));
    let count = Arc::clone(&n);
    let (site, mut daemon, _upstream) = with_upstream(move |asked| {
        let mut n = count.lock().unwrap();
        *n += 1;
        let good = asked.answer(NOERROR, &[(A, 300, address(1))]);
        let question_end = good.len() - 16;
        let mut bad = good.clone();
        match *n % 7 {
            // Cut off at some place behind the header.
            0 => bad.truncate(12 + *n % (good.len() - 12)),
            // An owner that points at itself, one that points ahead.
            1 => bad[question_end + 1] = u8::try_from(question_end).unwrap_or(0),
            2 => bad[question_end + 1] = 0xff,
            // More records than there are, data longer than the message.
            3 => bad[7] = 200,
            4 => bad[question_end + 10] = 0xff,
            // An address of three octets.
            5 => {
                bad[question_end + 11] = 3;
                bad.pop();
            }
            _ => bad.push(0),
        }
        Action::Send(bad)
    });
    for n in 0..14 {
        let wire = Question::new(&format!("n{n}.example"), A).to_wire(n);
        let raw = dns::exchange_udp(site.resolver(), &wire, Duration::from_secs(8)).unwrap();
        let answer = Message::read(&raw).unwrap();
        assert!(
            answer.rcode == u16::from(SERVFAIL) || addresses(&answer) == ["192.0.2.1"],
            "{answer:?}"
        );
    }
    assert!(daemon.is_running());
}

#[test]
fn a_loop_of_forwarding_is_broken() {
    let site = Site::new();
    let itself = site.resolver();
    configure(
        &site,
        &[Forward {
            zone: ".",
            to: &[itself],
            recursive: true,
        }],
        "",
    );
    let (status, stdout, _) = {
        let mut command = std::process::Command::new(tests::binaries::binary("dns-recursor"));
        command
            .arg("check")
            .arg("--config")
            .arg(site.files.join("dns-recursor.toml"));
        run(command)
    };
    if status.success() {
        // Not seen in the configuration: then it has to be noticed at work.
        let mut daemon = site.start("dns-recursor");
        let begin = Instant::now();
        let wire = Question::new("www.example.org", A).to_wire(3);
        let raw = dns::exchange_udp(itself, &wire, Duration::from_secs(8)).unwrap();
        assert_ne!(Message::read(&raw).unwrap().rcode, 0);
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "{:?}",
            begin.elapsed()
        );
        assert!(daemon.is_running());
    } else {
        assert!(stdout.contains("dns-recursor.toml:"), "{stdout}");
    }
}
