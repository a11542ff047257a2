//! Routes that validate, with zones that `dns_validate::testing` signs.

use dns_cache::message::Message;
use dns_validate::denials::SYNTHESIZED;
use dns_validate::testing::{NOW, Record, Reply, TRUTH, World as Zones, name, world as zones};
use dns_validate::{Security, Why};
use dns_wire::{Flags, Name, Records, header};

use super::*;
use crate::forward::{DnssecMode, ForwardMode};

/// How an upstream changes a response.
type Change = fn(&Name, &mut Reply);

struct Bench {
    resolver: Resolver<u64, Random>,
    zones: Zones,
    /// By the last octet of the address.
    changes: Vec<Change>,
    /// The queries that each has got.
    n_queries: Vec<usize>,
    /// The queries in a tree of servers, one a zone: the zone, the name and the type.
    asked: Vec<(String, String, Type)>,
    in_tree: Option<Change>,
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
            asked: Vec::new(),
            in_tree: None,
        }
    }

    /// Each zone has a server of its own, at the address `n` of the zone's place; a change is made to all their responses.
    fn in_tree(change: Change, routes: impl IntoIterator<Item = Route>) -> Self {
        let mut bench = Self::new(&[], DnssecMode::Validate);
        bench.in_tree = Some(change);
        let root = vec![address(bench.zones.server_of(&Name::root())).ip()];
        let table = Table::new(routes)
            .with_anchors(bench.zones.anchors.clone())
            .with_root(root);
        let now = Instant::from_millis(1_500);
        bench.reconfigure(table, now);
        bench
    }

    fn reconfigure(&mut self, table: Table, now: Instant) {
        self.resolver
            .reconfigure(Settings::default(), Arc::new(table), now);
    }

    /// The queries to the servers of zones so far, in an order of their own.
    fn asked(&self) -> Vec<String> {
        let lines = self.asked.iter();
        let mut lines: Vec<String> = lines
            .map(|(zone, name, rtype)| format!("{zone} {name} {rtype}"))
            .collect();
        lines.sort();
        lines
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
        let parsed = dns_wire::Query::parse(query).unwrap();
        let (qname, _) = Name::from_wire(parsed.question).unwrap();
        let qname = qname.to_lowercase();
        let zones = self.zones.zones.iter();
        let mut served = zones.map(|it| &it.name);
        let served = served.find(|it| address(self.zones.server_of(it)) == to);
        let (change, mut reply) = match (self.in_tree, served) {
            (Some(change), Some(zone)) => {
                let line = (zone.to_string(), qname.to_string(), parsed.qtype);
                self.asked.push(line);
                (change, self.zones.reply_of(zone, &qname, parsed.qtype))
            }
            _ => {
                let at = (0..).zip(&self.changes).find(|(n, _)| address(*n) == to);
                let (at, change) = at.unwrap();
                self.n_queries[usize::from(at)] += 1;
                (*change, self.zones.reply(&qname, parsed.qtype))
            }
        };
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
    check_truth(&mut Bench::new(&[honest], DnssecMode::Validate));
    check_truth(&mut Bench::in_tree(honest, [recursing(".")]));
}

fn check_truth(bench: &mut Bench) {
    for (qname, qtype, security, why) in TRUTH {
        for variant in [dnssec_ok(), Variant::default()] {
            let outcome = bench.ask(qname, *qtype, variant);
            let is_ad = |message: &Message| message.flags().has(Flags::AD);
            match (&outcome, security) {
                (Outcome::Answer(message), Security::Secure | Security::Insecure) => {
                    let expected = *security == Security::Secure;
                    assert_eq!(is_ad(message), expected, "{qname} {qtype}");
                    let code = why.and_then(Why::info_code);
                    let found = message.info_code();
                    assert!(
                        found == code || found == Some(SYNTHESIZED),
                        "{qname} {qtype}: {found:?}"
                    );
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
    for qname in ["www.good.test", "alias.good.test", "q.wild.good.test"] {
        bench.ask(qname, Type::A, dnssec_ok());
    }
    assert_eq!(bench.n_queries[0], before + 3);
}

//----------- From the root downwards -----------------------------------------

fn recursing(zone: &str) -> Route {
    let mut route = route(zone, Mode::Authoritative, &[]);
    route.source = ForwardMode::Recurse;
    route.dnssec = DnssecMode::Validate;
    route
}

/// Takes what vouches for a zone out of the referrals to it.
fn mute_referrals(_: &Name, reply: &mut Reply) {
    let is_referral = |it: &Record| it.section == Section::Authority && it.rtype == Type::NS;
    if reply.records.iter().any(is_referral) {
        reply.records.retain(|record| {
            matches!(record.rtype, Type::NS | Type::A) || record.section == Section::Answer
        });
    }
}

/// Says in referrals to `good.test`, with the signature of another zone's denial, that it has no DS records.
fn denying_referrals(owner: &Name, reply: &mut Reply) {
    let is_referral = |it: &Record| it.section == Section::Authority && it.rtype == Type::NS;
    if owner.is_within(&name("good.test")) && reply.records.iter().any(is_referral) {
        let zones = zones();
        let test = zones.zones.iter().find(|zone| zone.name == name("test"));
        mute_referrals(owner, reply);
        let denial = name("plain.test");
        test.unwrap()
            .push(reply, Section::Authority, &denial, (&denial, Type::NSEC));
    }
}

fn is_secure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answer(message) if message.flags().has(Flags::AD))
}

#[test]
fn the_chain_of_trust_comes_with_the_referrals() {
    let mut bench = Bench::in_tree(honest, [recursing(".")]);
    assert!(is_secure(&bench.ask("www.good.test", Type::A, dnssec_ok())));
    let expected = [
        ". . DNSKEY",
        ". . NS",
        ". test. A",
        "good.test. good.test. DNSKEY",
        "good.test. www.good.test. A",
        "test. good.test. A",
        "test. test. DNSKEY",
    ];
    assert_eq!(bench.asked(), expected);
    // Of a zone without signatures nobody is asked for more than the name.
    bench.asked.clear();
    let outcome = bench.ask("www.plain.test", Type::A, dnssec_ok());
    assert!(matches!(&outcome, Outcome::Answer(_)) && !is_secure(&outcome));
    assert_eq!(
        bench.asked(),
        ["plain.test. www.plain.test. A", "test. plain.test. A"]
    );
}

#[test]
fn a_referral_that_proves_nothing_costs_one_question_more() {
    for change in [mute_referrals, denying_referrals] {
        let mut bench = Bench::in_tree(change, [recursing(".")]);
        assert!(is_secure(&bench.ask("www.good.test", Type::A, dnssec_ok())));
        let asked = bench.asked();
        let n_ds = asked.iter().filter(|it| *it == "test. good.test. DS");
        assert_eq!(n_ds.count(), 1, "{asked:?}");
    }
}

#[test]
fn a_zone_that_recurses_alone_has_its_keys_from_the_root_downwards() {
    // The zones above have another route, or none.
    for change in [honest as Change, mute_referrals] {
        for above in [None, Some(route(".", Mode::Recursive, &[99]))] {
            let routes = [recursing("good.test"), recursing("plain.test")];
            let mut bench = Bench::in_tree(change, routes.into_iter().chain(above));
            assert!(is_secure(&bench.ask("www.good.test", Type::A, dnssec_ok())));
            assert!(is_secure(&bench.ask("no.good.test", Type::A, dnssec_ok())));
            let outcome = bench.ask("www.plain.test", Type::A, dnssec_ok());
            assert!(
                matches!(&outcome, Outcome::Answer(_)) && !is_secure(&outcome),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn the_root_is_asked_when_the_upstreams_take_signatures_out() {
    let mut bench = Bench::in_tree(honest, []);
    bench.changes = vec![stripping; 60];
    bench.n_queries = vec![0; 60];
    let mut first = route(".", Mode::Recursive, &[50]);
    first.source = ForwardMode::ForwardFirst;
    first.dnssec = DnssecMode::Validate;
    let root = vec![address(bench.zones.server_of(&Name::root())).ip()];
    let table = Table::new([first])
        .with_anchors(bench.zones.anchors.clone())
        .with_root(root);
    bench.reconfigure(table, Instant::from_millis(1_600));
    assert!(is_secure(&bench.ask("www.good.test", Type::A, dnssec_ok())));
    assert!(bench.n_queries[50] > 0);
}

#[test]
fn a_negative_anchor_ends_at_its_time() {
    let ask = |end: u64| {
        let mut bench = Bench::in_tree(honest, []);
        let anchors = bench.zones.anchors.clone();
        let anchors = anchors.without_until(&name("expired.test"), end);
        let root = vec![address(bench.zones.server_of(&Name::root())).ip()];
        let table = Table::new([recursing(".")]);
        let table = table.with_anchors(anchors).with_root(root);
        bench.reconfigure(table, Instant::from_millis(1_600));
        bench.ask("www.expired.test", Type::A, dnssec_ok())
    };
    // The question is asked a second after that time was set.
    match ask(NOW + 100) {
        Outcome::Answer(message) => {
            assert_eq!(message.info_code(), Why::NegativeAnchor.info_code());
        }
        failed @ Outcome::Failed(_) => panic!("{failed:?}"),
    }
    let outcome = ask(NOW + 1);
    assert!(
        matches!(outcome, Outcome::Failed(Reason::Bogus(Why::Expired))),
        "{outcome:?}"
    );
}

#[test]
fn names_in_a_gap_that_is_known_cost_no_query() {
    for mode in [DnssecMode::Validate, DnssecMode::Off] {
        let mut bench = Bench::new(&[honest], mode);
        bench.ask("no.good.test", Type::A, dnssec_ok());
        let before = bench.n_queries[0];
        for (qname, qtype) in [
            ("never.good.test", Type::A),
            ("x.y.never.good.test", Type::TXT),
            ("www.good.test", Type::TXT),
        ] {
            for variant in [dnssec_ok(), Variant::default()] {
                match bench.ask(qname, qtype, variant) {
                    Outcome::Answer(message) if mode == DnssecMode::Validate => {
                        assert!(message.flags().has(Flags::AD), "{qname}");
                        let n_proofs = n_of(&message, Type::NSEC);
                        assert_eq!(n_proofs > 0, variant.dnssec_ok(), "{qname}");
                    }
                    Outcome::Answer(_) => {}
                    failed @ Outcome::Failed(_) => panic!("{failed:?}"),
                }
            }
        }
        let asked = bench.n_queries[0] - before;
        assert_eq!(
            asked == 0,
            mode == DnssecMode::Validate,
            "{mode:?}: {asked}"
        );
        assert_eq!(bench.resolver.counts().denied > 0, asked == 0);
        // A flush takes it back, and a client that disables checking has asked for the truth.
        let before = bench.n_queries[0];
        bench.ask("never.good.test", Type::A, Variant::new(true, true));
        bench.resolver.forget_denials();
        bench.ask("never.good.test", Type::A, dnssec_ok());
        assert_eq!(bench.n_queries[0], before + 2);
    }
}

#[test]
fn no_zone_denies_names_of_another_route() {
    let mut bench = Bench::new(&[honest], DnssecMode::Validate);
    bench.ask("no.good.test", Type::A, dnssec_ok());
    bench.ask("no.test", Type::A, dnssec_ok());
    let mut routes = [".", "lan.test"].map(|zone| route(zone, Mode::Recursive, &[0]));
    for route in &mut routes {
        route.dnssec = DnssecMode::Validate;
    }
    let table = Table::new(routes).with_anchors(bench.zones.anchors.clone());
    bench.reconfigure(table, Instant::from_millis(1_600));
    bench.ask("no.test", Type::A, dnssec_ok());
    let before = bench.n_queries[0];
    bench.ask("zz.test", Type::A, dnssec_ok());
    assert_eq!(bench.n_queries[0], before);
    bench.ask("www.lan.test", Type::A, dnssec_ok());
    assert!(bench.n_queries[0] > before);
}

#[test]
fn what_a_validation_or_a_referral_has_brought_is_not_asked_again() {
    let mut bench = Bench::in_tree(honest, [recursing(".")]);
    bench.ask("www.good.test", Type::A, dnssec_ok());
    bench.asked.clear();
    assert!(is_secure(&bench.ask("good.test", Type::DS, dnssec_ok())));
    assert_eq!(bench.asked(), [""; 0]);
}
