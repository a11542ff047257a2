//! Routes that validate, with zones that `dns_validate::testing` signs.

use dns_cache::message::Message;
use dns_validate::testing::{NOW, Reply, TRUTH, World as Zones, name, world as zones};
use dns_validate::{Security, Why};
use dns_wire::{Flags, Name, Records, header};

use super::*;
use crate::forward::DnssecMode;

/// How an upstream changes a response.
type Change = fn(&Name, &mut Reply);

struct Bench {
    resolver: Resolver<u64, Random>,
    zones: Zones,
    /// By the last octet of the address.
    changes: Vec<Change>,
    /// The queries that each has got.
    n_queries: Vec<usize>,
}

/// The outcome of a question.
#[derive(Debug)]
enum Outcome {
    Answer(Message),
    Failed(Reason),
}

fn honest(_: &Name, _: &mut Reply) {}

fn stripping(_: &Name, reply: &mut Reply) {
    reply.records.retain(|record| record.rtype != Type::RRSIG);
}

fn silent_keys(owner: &Name, reply: &mut Reply) {
    if *owner == name("good.test") {
        reply.rcode = Rcode::SERVFAIL;
    }
}

impl Bench {
    fn new(changes: &[Change], mode: DnssecMode) -> Self {
        let zones = zones();
        let upstreams: Vec<u8> = (0..).take(changes.len()).collect();
        let mut route = route(".", Mode::Recursive, &upstreams);
        route.dnssec = mode;
        let table = Table::new([route]).with_anchors(zones.anchors.clone());
        let start = Instant::from_millis(1_000);
        let mut resolver =
            Resolver::new(Settings::default(), Arc::new(table), SEED, Random(7), start);
        resolver.set_time(NOW, start);
        Self {
            resolver,
            zones,
            changes: changes.to_vec(),
            n_queries: vec![0; changes.len()],
        }
    }

    /// Asks, and answers all queries at once.
    fn ask(&mut self, qname: &str, qtype: Type, variant: Variant) -> Outcome {
        let now = Instant::from_millis(2_000);
        let question = testing::question(qname, qtype);
        let key = Key::new(SEED, &question, variant);
        let request = ResolveRequest {
            key: &key,
            question: &question,
            client: Some(1),
            origin: None,
            has_stale: false,
        };
        self.resolver.ask(request, now);
        while let Some(output) = self.resolver.poll_output() {
            match output {
                Output::Send {
                    exchange,
                    to,
                    message,
                    ..
                } => {
                    let response = self.respond(to, &message);
                    self.resolver.received(exchange, &response, now);
                }
                Output::LookUp { flight, key } => {
                    self.resolver
                        .looked_up(flight, &key, CacheResult::Nothing, now);
                }
                Output::Answer {
                    answer, clients, ..
                } if !clients.is_empty() => return Outcome::Answer(answer.message),
                Output::Fail {
                    reason, clients, ..
                } if !clients.is_empty() => return Outcome::Failed(reason),
                _ => {}
            }
        }
        panic!("no outcome for {qname} {qtype}");
    }

    fn respond(&mut self, to: SocketAddr, query: &[u8]) -> Vec<u8> {
        let at = (0..).zip(&self.changes).find(|(n, _)| address(*n) == to);
        let (at, change) = at.unwrap();
        self.n_queries[usize::from(at)] += 1;
        let parsed = dns_wire::Query::parse(query).unwrap();
        let (qname, _) = Name::from_wire(parsed.question).unwrap();
        let qname = qname.to_lowercase();
        let mut reply = self.zones.reply(&qname, parsed.qtype);
        change(&qname, &mut reply);
        if !parsed.dnssec_ok() {
            stripping(&qname, &mut reply);
        }
        let mut response = reply.message(&qname, parsed.qtype).bytes().to_vec();
        header::set_word(&mut response, 0, parsed.id);
        let end = header::LENGTH + parsed.question.len();
        response[header::LENGTH..end].copy_from_slice(parsed.question);
        response
    }
}

fn dnssec_ok() -> Variant {
    Variant::new(true, false)
}

fn n_of(message: &Message, rtype: Type) -> usize {
    let records = Records::new(message.bytes()).unwrap();
    records
        .filter(|it| it.as_ref().unwrap().rtype == rtype)
        .count()
}

#[test]
fn each_answer_has_the_flag_or_the_error_that_its_zones_deserve() {
    let mut bench = Bench::new(&[honest], DnssecMode::Validate);
    for (qname, qtype, security, why) in TRUTH {
        for variant in [dnssec_ok(), Variant::default()] {
            let outcome = bench.ask(qname, *qtype, variant);
            let is_ad = |message: &Message| message.flags().has(Flags::AD);
            match (&outcome, security) {
                (Outcome::Answer(message), Security::Secure | Security::Insecure) => {
                    let expected = *security == Security::Secure;
                    assert_eq!(is_ad(message), expected, "{qname} {qtype}");
                    let code = why.and_then(Why::info_code);
                    assert_eq!(message.info_code(), code, "{qname} {qtype}");
                    if !variant.dnssec_ok() {
                        assert_eq!(n_of(message, Type::RRSIG), 0, "{qname} {qtype}");
                        assert_eq!(n_of(message, Type::NSEC3), 0, "{qname} {qtype}");
                    }
                }
                (Outcome::Failed(Reason::Bogus(found)), Security::Bogus) => {
                    assert_eq!(Some(*found), *why, "{qname} {qtype}");
                }
                _ => panic!("{qname} {qtype}: {outcome:?}"),
            }
        }
    }
    let counts = bench.resolver.counts().validated;
    assert!(counts.secure > 50 && counts.insecure > 10, "{counts:?}");
    assert_eq!(counts.indeterminate, 0);
}

#[test]
fn another_upstream_makes_good_what_the_first_strips() {
    let mut bench = Bench::new(&[stripping, honest], DnssecMode::Validate);
    match bench.ask("www.lonely", Type::A, dnssec_ok()) {
        Outcome::Answer(message) => assert!(message.flags().has(Flags::AD)),
        failed @ Outcome::Failed(_) => panic!("{failed:?}"),
    }
    let mut bench = Bench::new(&[stripping, stripping], DnssecMode::Validate);
    let outcome = bench.ask("www.good.test", Type::A, dnssec_ok());
    assert!(
        matches!(outcome, Outcome::Failed(Reason::Bogus(_))),
        "{outcome:?}"
    );
    assert!(
        bench.n_queries.iter().sum::<usize>() <= 12,
        "{:?}",
        bench.n_queries
    );
}

#[test]
fn without_checking_and_without_validation_data_comes_as_it_is() {
    let mut bench = Bench::new(&[honest], DnssecMode::Validate);
    let mut off = Bench::new(&[honest], DnssecMode::Off);
    for (bench, variant) in [
        (&mut bench, Variant::new(true, true)),
        (&mut off, dnssec_ok()),
    ] {
        for qname in ["www.expired.test", "www.good.test"] {
            match bench.ask(qname, Type::A, variant) {
                Outcome::Answer(message) => {
                    assert!(!message.flags().has(Flags::AD), "{qname}");
                    assert_eq!(n_of(&message, Type::RRSIG), 1, "{qname}");
                }
                failed @ Outcome::Failed(_) => panic!("{failed:?}"),
            }
        }
    }
}

#[test]
fn keys_that_no_upstream_gives_are_an_error_of_their_own() {
    let mut bench = Bench::new(&[silent_keys], DnssecMode::Validate);
    match bench.ask("www.good.test", Type::A, dnssec_ok()) {
        Outcome::Failed(Reason::Bogus(Why::Unanswered)) => {}
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(bench.resolver.counts().validated.indeterminate, 1);
}

#[test]
fn keys_are_asked_once_for_all_names_of_a_zone() {
    let mut bench = Bench::new(&[honest], DnssecMode::Validate);
    bench.ask("www.good.test", Type::A, dnssec_ok());
    let before = bench.n_queries[0];
    assert!(before <= 6, "{before}");
    for qname in ["no.good.test", "ent.good.test", "q.wild.good.test"] {
        bench.ask(qname, Type::A, dnssec_ok());
    }
    assert_eq!(bench.n_queries[0], before + 3);
}
