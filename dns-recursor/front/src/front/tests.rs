mod dns64;
mod rewrite;

use dns_cache::cache::{CacheOptions, Capacity, Keep};
use dns_cache::key::Seed;
use dns_cache::message::Message;
use dns_cache::testing::{self, addresses, answer, counts, rcode};
use dns_resolve::forward::{Mode, Route};
use dns_wire::{Section, header};

use super::*;
use crate::foresee::Foreseen;
use crate::local::LocalOptions;

const ALLOWED: Permissions = Permissions {
    ask: true,
    notify: true,
};

const CLIENT: std::net::Ipv4Addr = std::net::Ipv4Addr::new(198, 51, 100, 100);
/// The time of cookies.
const NOW: u32 = 1_559_731_985;

/// A key that nobody here knows (RFC 8945 §4.2).
const TSIG: &[u8] = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x15\x01h\0\0\0\x12\x34\x56\x78\x01\x2c\
    \0\x02mm\x12\x34\0\0\0\0";

struct Server {
    view: View,
    names: Names,
    cache: Cache,
    now: u64,
}

fn server() -> Server {
    let capacity = Capacity {
        entries: 1000,
        octets: 1 << 20,
    };
    let options = CacheOptions {
        positive: capacity,
        negative: capacity,
        stale: Duration::from_secs(86_400),
    };
    let upstream = "192.0.2.1:53".parse().unwrap();
    Server {
        view: View {
            table: Arc::new(Table::new([Route::new(
                Name::root(),
                Mode::Recursive,
                vec![upstream],
            )])),
            local: Local::new(&LocalOptions::default()),
            outsiders: Outsiders::Refuse,
            stale_ttl: Duration::from_secs(30),
            prefetch: true,
            cookies: None,
            nocookie_limit: 1232,
            dns64: None,
            rewrites: Arc::default(),
        },
        names: Names::default(),
        cache: Cache::new(&options, Seed(3)),
        now: 0,
    }
}

/// What came of a message, without the borrows.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Reply(Vec<u8>),
    Refresh(Vec<u8>),
    Silent,
    Changed(Name),
    Resolve { has_stale: bool },
}

impl Server {
    fn front(&self, now: u64) -> Front<'_> {
        Front {
            view: &self.view,
            names: &self.names,
            cache: &self.cache,
            now: Instant::from_millis(now),
            client: CLIENT.into(),
            clock: || NOW,
        }
    }

    fn judge_as(&self, message: &[u8], permissions: Permissions) -> (Done, Source) {
        let front = self.front(self.now);
        let mut out = [0xee; 1500];
        let mut key = Key::default();
        let judged = front.judge(message, permissions, Transport::Udp, &mut key, &mut out);
        let done = match judged.verdict {
            Verdict::Reply(length) => Done::Reply(out[..length].to_vec()),
            Verdict::ReplyAndRefresh(length) => Done::Refresh(out[..length].to_vec()),
            Verdict::Silent => Done::Silent,
            Verdict::Changed { zone, .. } => Done::Changed(zone),
            Verdict::Resolve { has_stale, .. } => Done::Resolve { has_stale },
        };
        (done, judged.source)
    }

    fn judge(&self, message: &[u8]) -> (Done, Source) {
        self.judge_as(message, ALLOWED)
    }

    fn reply(&self, message: &[u8]) -> Vec<u8> {
        match self.judge(message).0 {
            Done::Reply(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn store(&self, name: &str, rcode: Rcode, rows: &[testing::Row<'_>]) {
        let answer = answer(name, Type::A, rcode, rows);
        let keep = Keep {
            pool: answer.pool,
            lifetime: Duration::from_secs(answer.lifetime.into()),
        };
        self.cache.store(
            &key(name),
            answer.message,
            keep,
            Instant::from_millis(self.now),
        );
    }
}

fn key(name: &str) -> Key {
    Key::new(
        Seed(3),
        &testing::question(name, Type::A),
        Variant::default(),
    )
}

fn ask(name: &str) -> Vec<u8> {
    testing::query(7, &testing::question(name, Type::A), None)
}

fn ask_with_edns(name: &str) -> Vec<u8> {
    testing::query(7, &testing::question(name, Type::A), Some(false))
}

const ADDRESS: testing::Row<'_> = (Section::Answer, "a.example", Type::A, 60, "192.0.2.7");

#[test]
fn a_cached_answer_is_sent_with_what_is_left_of_its_ttl() {
    let mut server = server();
    assert_eq!(
        server.judge(&ask("a.example")).0,
        Done::Resolve { has_stale: false }
    );
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    server.now = 12_345;
    let (done, source) = server.judge(&ask("A.Example"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(
        (source, addresses(&reply)),
        (Source::Positive, vec!["192.0.2.7".to_owned()])
    );
    let record = dns_wire::Records::new(&reply)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(record.ttl, 48);
    assert!(reply[12..].starts_with(b"\x01A\x07Example\0"));
}

#[test]
fn a_name_in_demand_is_refreshed_near_its_end() {
    let mut server = server();
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    server.judge(&ask("a.example"));
    server.judge(&ask("a.example"));
    server.now = 55_000;
    assert!(matches!(
        server.judge(&ask("a.example")).0,
        Done::Refresh(_)
    ));
    assert!(matches!(server.judge(&ask("a.example")).0, Done::Reply(_)));
}

#[test]
fn what_has_expired_is_resolved_or_stale_when_no_upstream_is_left() {
    let mut server = server();
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    server.now = 61_000;
    let (done, _) = server.judge(&ask_with_edns("a.example"));
    assert_eq!(done, Done::Resolve { has_stale: true });
    server.view.table.routes().next().unwrap().set_down(true);
    let (done, source) = server.judge(&ask_with_edns("a.example"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Stale);
    let ttl = dns_wire::Records::new(&reply)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .ttl;
    assert_eq!(ttl, 30);
    assert!(reply.ends_with(&[0, 15, 0, 2, 0, 3]));
    // A name that is not cached is the resolver's, which knows that nobody is there.
    assert_eq!(
        server.judge(&ask("b.example")).0,
        Done::Resolve { has_stale: false }
    );
}

#[test]
fn a_stale_denial_says_that_it_is_one() {
    let mut server = server();
    let soa = (Section::Authority, "example", Type::SOA, 60, "60");
    server.store("x.example", Rcode::NXDOMAIN, &[soa]);
    assert_eq!(server.judge(&ask("x.example")).1, Source::Negative);
    server.now = 70_000;
    server.view.table.routes().next().unwrap().set_down(true);
    let reply = server.reply(&ask_with_edns("x.example"));
    assert_eq!(rcode(&reply), Rcode::NXDOMAIN);
    assert!(reply.ends_with(&[0, 15, 0, 2, 0, 19]));
}

#[test]
fn a_remembered_failure_says_so() {
    let server = server();
    let failure = Message::empty(&testing::question("a.example", Type::A), Rcode::SERVFAIL);
    let second = Duration::from_secs(1);
    server
        .cache
        .note_failure(&key("a.example"), failure, second, Instant::START);
    let (done, source) = server.judge(&ask_with_edns("a.example"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((rcode(&reply), source), (Rcode::SERVFAIL, Source::Failure));
    assert!(reply.ends_with(&[0, 15, 0, 2, 0, 13]));
}

#[test]
fn outsiders_are_refused_or_ignored() {
    let mut server = server();
    let outsider = Permissions {
        ask: false,
        notify: false,
    };
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let (Done::Reply(reply), _) = server.judge_as(&ask_with_edns("a.example"), outsider) else {
        panic!();
    };
    assert_eq!(
        (rcode(&reply), counts(&reply)),
        (Rcode::REFUSED, [1, 0, 0, 1])
    );
    assert!(reply.ends_with(&[0, 15, 0, 2, 0, 18]));
    assert_eq!(
        server
            .judge_as(b"\0\x01\x01\0\0\x05\0\0\0\0\0\0", outsider)
            .0,
        Done::Silent
    );
    server.view.outsiders = Outsiders::Ignore;
    assert_eq!(
        server.judge_as(&ask("a.example"), outsider),
        (Done::Silent, Source::Dropped)
    );
}

#[test]
fn without_rd_only_what_is_known_is_answered() {
    let server = server();
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let without_rd = |name| {
        let mut message = ask_with_edns(name);
        message[2] = 0;
        server.reply(&message)
    };
    assert_eq!(addresses(&without_rd("a.example")), ["192.0.2.7"]);
    let refused = without_rd("b.example");
    assert_eq!(rcode(&refused), Rcode::REFUSED);
    assert!(refused.ends_with(&[0, 15, 0, 2, 0, 20]));
}

#[test]
fn local_names_are_answered_here() {
    let server = server();
    assert_eq!(addresses(&server.reply(&ask("LocalHost"))), ["127.0.0.1"]);
    for (name, expected) in [
        ("_dns.resolver.arpa", Rcode::NOERROR),
        ("x.service.arpa", Rcode::NXDOMAIN),
    ] {
        let reply = server.reply(&ask(name));
        assert_eq!(
            (rcode(&reply), addresses(&reply).len()),
            (expected, 0),
            "{name}"
        );
    }
    let reply = server.reply(&ask("x.invalid"));
    assert_eq!(rcode(&reply), Rcode::NXDOMAIN);
    let mut chaos = testing::query(7, &testing::question("version.bind", Type::TXT), None);
    let class = chaos.len() - 1;
    chaos[class] = 3;
    assert_eq!(rcode(&server.reply(&chaos)), Rcode::REFUSED);
}

#[test]
fn what_is_no_query_gets_what_it_deserves() {
    let server = server();
    let mut response = ask("a.example");
    response[2] |= 0x80;
    assert_eq!(server.judge(&response).0, Done::Silent);
    assert_eq!(server.judge(b"short").0, Done::Silent);
    let mut update = ask("a.example");
    update[2] = 0x28;
    assert_eq!(rcode(&server.reply(&update)), Rcode::NOTIMP);
    let mut two = ask("a.example");
    two[5] = 2;
    assert_eq!(rcode(&server.reply(&two)), Rcode::FORMERR);
    let transfer = testing::query(7, &testing::question("example", Type::AXFR), None);
    assert_eq!(rcode(&server.reply(&transfer)), Rcode::REFUSED);
}

#[test]
fn notify_counts_from_those_who_may_send_it() {
    let mut server = server();
    let notify = |zone: &str| {
        let mut notify = testing::query(7, &testing::question(zone, Type::SOA), None);
        notify[2] = 0x24;
        notify
    };
    let stranger = Permissions {
        ask: true,
        notify: false,
    };
    let refused = |server: &Server, zone: &str| match server.judge_as(&notify(zone), stranger).0 {
        Done::Reply(reply) => rcode(&reply) == Rcode::NOTIMP,
        _ => false,
    };
    let changed = |zone: &str| Done::Changed(Name::parse(zone).unwrap());
    assert!(refused(&server, "EXAMPLE"));
    // In notify-from.
    assert_eq!(
        server.judge(&notify("EXAMPLE")),
        (changed("example"), Source::Local)
    );
    // An upstream of the root, and one that is recursive, speak for no zone; one that is authoritative for this zone alone.
    let route =
        |zone: &str, mode| Route::new(Name::parse(zone).unwrap(), mode, vec![(CLIENT, 53).into()]);
    server.view.table = Arc::new(Table::new([
        route(".", Mode::Authoritative),
        route("example", Mode::Authoritative),
        route("rec.example", Mode::Recursive),
    ]));
    for (zone, counts) in [
        ("EXAMPLE", true),
        ("sub.example", true),
        ("rec.example", false),
        ("other", true),
        (".", false),
    ] {
        let (done, _) = server.judge_as(&notify(zone), stranger);
        assert_eq!(done == changed(zone), counts, "{zone}: {done:?}");
    }
    server.view.table = Arc::new(Table::new([Route::new(
        Name::parse("example").unwrap(),
        Mode::Authoritative,
        vec!["192.0.2.1:53".parse().unwrap()],
    )]));
    assert!(refused(&server, "example"), "another server's zone");
    let outsider = Permissions {
        ask: false,
        notify: false,
    };
    assert_eq!(
        server.judge_as(&notify("example"), outsider).0,
        Done::Silent
    );
}

#[test]
fn no_single_wrong_octet_does_harm() {
    let server = server();
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let whole = ask_with_edns("a.example");
    for at in 0..whole.len() {
        for xor in 1..=255 {
            let mut broken = whole.clone();
            broken[at] ^= xor;
            server.judge(&broken);
            server.judge(&broken[..at]);
        }
    }
}

#[test]
fn a_signed_query_is_told_that_its_key_is_not_known() {
    let server = server();
    let mut message = testing::query(7, &testing::question("x.example", Type::A), None);
    message[11] = 1;
    message.extend_from_slice(TSIG);
    let (done, source) = server.judge_as(&message, ALLOWED);
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((rcode(&reply), source), (Rcode::NOTAUTH, Source::Error));
    assert_eq!(counts(&reply), [1, 0, 0, 1]);
}

/// Foresees a query, and then judges it: both agree.
fn foreseen(server: &Server, message: &[u8], may_ask: bool) -> Foreseen {
    let front = server.front(server.now);
    let query = Query::parse(message).unwrap();
    let mut key = Key::default();
    let foreseen = front.foresee(&query, may_ask, &mut key);
    let permissions = Permissions {
        ask: may_ask,
        notify: false,
    };
    let (done, source) = server.judge_as(message, permissions);
    assert_eq!(foreseen.alias, None);
    let foreseen = foreseen.foreseen;
    let expected = match foreseen {
        Foreseen::Refused | Foreseen::Rejected => Source::Error,
        Foreseen::Ignored => Source::Dropped,
        Foreseen::Fresh if source == Source::Negative => Source::Negative,
        Foreseen::Fresh => Source::Positive,
        Foreseen::Failed => Source::Failure,
        Foreseen::Held | Foreseen::Unreachable => Source::Stale,
        Foreseen::Local => Source::Local,
        Foreseen::Names => Source::Names,
        Foreseen::Policy => Source::Policy,
        Foreseen::Resolve { .. } | Foreseen::NoRoute => Source::Resolver,
    };
    assert_eq!(source, expected, "{foreseen:?}");
    if let Foreseen::Resolve { has_stale } = foreseen {
        assert_eq!(done, Done::Resolve { has_stale });
    }
    foreseen
}

#[test]
fn what_is_foreseen_is_what_comes_and_changes_nothing() {
    let mut server = server();
    let asked = |server: &Server, name: &str| foreseen(server, &ask(name), true);
    let unknown = Foreseen::Resolve { has_stale: false };
    assert_eq!(asked(&server, "a.example"), unknown);
    assert_eq!(asked(&server, "localhost"), Foreseen::Local);
    let transfer = testing::query(7, &testing::question("example", Type::AXFR), None);
    assert_eq!(foreseen(&server, &transfer, true), Foreseen::Rejected);
    assert_eq!(
        foreseen(&server, &ask("a.example"), false),
        Foreseen::Refused
    );
    let soa = (Section::Authority, "example", Type::SOA, 60, "60");
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    server.store("x.example", Rcode::NXDOMAIN, &[soa]);
    assert_eq!(asked(&server, "a.example"), Foreseen::Fresh);
    assert_eq!(asked(&server, "x.example"), Foreseen::Fresh);
    let failure = Message::empty(&testing::question("f.example", Type::A), Rcode::SERVFAIL);
    let second = Duration::from_secs(1);
    server
        .cache
        .note_failure(&key("f.example"), failure, second, Instant::START);
    assert_eq!(asked(&server, "f.example"), Foreseen::Failed);
    server.now = 70_000;
    let stale = Foreseen::Resolve { has_stale: true };
    assert_eq!(asked(&server, "a.example"), stale);
    server.view.table.routes().next().unwrap().set_down(true);
    assert_eq!(asked(&server, "a.example"), Foreseen::Unreachable);
    server.view.table.routes().next().unwrap().set_down(false);
    let now = Instant::from_millis(server.now);
    server
        .cache
        .note_failure(&key("a.example"), None, second, now);
    assert_eq!(asked(&server, "a.example"), Foreseen::Held);
    server.view.outsiders = Outsiders::Ignore;
    assert_eq!(
        foreseen(&server, &ask("a.example"), false),
        Foreseen::Ignored
    );
    server.view.table = Arc::new(Table::default());
    assert_eq!(asked(&server, "b.example"), Foreseen::NoRoute);
}

#[test]
fn a_look_ahead_asks_for_no_refresh() {
    let mut server = server();
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let front = |server: &Server, now: u64| {
        let message = ask("a.example");
        let query = Query::parse(&message).unwrap();
        let mut key = Key::default();
        server.front(now).foresee(&query, true, &mut key).foreseen
    };
    for _ in 0..3 {
        assert_eq!(front(&server, 1_000), Foreseen::Fresh);
    }
    server.now = 59_500;
    let judged = server.judge(&ask("a.example"));
    assert!(matches!(judged.0, Done::Reply(_)), "it is in no demand");
    server.judge(&ask("a.example"));
    for _ in 0..3 {
        assert_eq!(front(&server, 59_600), Foreseen::Fresh);
    }
    assert!(
        matches!(server.judge(&ask("a.example")).0, Done::Refresh(_)),
        "the first client in demand asks for it"
    );
}

/// A query with a COOKIE option.
fn ask_with_cookie(name: &str, data: &[u8]) -> Vec<u8> {
    let mut message = ask_with_edns(name);
    let length = u8::try_from(data.len()).unwrap();
    message.truncate(message.len() - 2);
    message.extend([0, length + 4, 0, 10, 0, length]);
    message.extend(data);
    message
}

/// The option of a reply, which ends with it.
fn cookie_of(reply: &[u8]) -> [u8; 24] {
    let (rest, cookie) = reply.split_last_chunk().unwrap();
    assert!(rest.ends_with(&[0, 28, 0, 10, 0, 24]), "{reply:?}");
    *cookie
}

#[test]
fn a_cookie_is_answered_from_the_cache_and_for_the_resolver() {
    let mut server = server();
    server.view.cookies = Some(Arc::new(Cookies {
        secrets: dns_cookie::Secrets::alone([5; 16]),
        is_required: false,
    }));
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let own = [7; 8];
    let cookie = cookie_of(&server.reply(&ask_with_cookie("a.example", &own)));
    assert!(cookie.starts_with(&own));
    // A good cookie comes back as it is; a bad one is answered as well.
    let again = server.reply(&ask_with_cookie("a.example", &cookie));
    assert_eq!((cookie_of(&again), rcode(&again)), (cookie, Rcode::NOERROR));
    let mut bad = cookie;
    bad[20] ^= 1;
    assert_eq!(
        cookie_of(&server.reply(&ask_with_cookie("a.example", &bad))),
        cookie
    );
    // A broken option is refused, with an OPT record that has none.
    let broken = server.reply(&ask_with_cookie("a.example", &own[..7]));
    assert_eq!(
        (rcode(&broken), counts(&broken)),
        (Rcode::FORMERR, [1, 0, 0, 1])
    );
    assert!(broken.ends_with(&[0, 0]));
    // Without the option there is none.
    assert!(server.reply(&ask_with_edns("a.example")).ends_with(&[0, 0]));
    // The resolver answers later, with the same cookie.
    let message = ask_with_cookie("unknown.example", &own);
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let judged = front.judge(&message, ALLOWED, Transport::Udp, &mut key, &mut out);
    let Verdict::Resolve { asker, .. } = judged.verdict else {
        panic!("{judged:?}");
    };
    assert_eq!(
        (asker.cookie, judged.cookie_state),
        (Some(cookie), CookieState::New)
    );
}

#[test]
fn a_required_cookie_is_asked_for_over_udp_alone() {
    let mut server = server();
    server.view.cookies = Some(Arc::new(Cookies {
        secrets: dns_cookie::Secrets::alone([5; 16]),
        is_required: true,
    }));
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let first = server.reply(&ask_with_cookie("a.example", &[7; 8]));
    let cookie = cookie_of(&first);
    // BADCOOKIE is 23: the low half in the header, the high one in the OPT record.
    let high = first.len() - 28 - 6;
    assert_eq!(
        (first[3] & 15, first[high], counts(&first)),
        (7, 1, [1, 0, 0, 1])
    );
    let second = server.reply(&ask_with_cookie("a.example", &cookie));
    assert_eq!(counts(&second), [1, 1, 0, 1]);
    assert_eq!(counts(&server.reply(&ask("a.example"))), [1, 1, 0, 0]);
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let message = ask_with_cookie("a.example", &[7; 8]);
    let judged = front.judge(&message, ALLOWED, Transport::Tcp, &mut key, &mut out);
    assert!(matches!(judged.verdict, Verdict::Reply(_)));
    assert_eq!(counts(&out), [1, 1, 0, 1]);
}

#[test]
fn a_client_without_a_cookie_gets_less_over_udp() {
    let mut server = server();
    server.view.cookies = Some(Arc::new(Cookies {
        secrets: dns_cookie::Secrets::alone([5; 16]),
        is_required: false,
    }));
    server.view.nocookie_limit = 512;
    let addresses: Vec<String> = (1..=40).map(|last| format!("192.0.2.{last}")).collect();
    let row = |address| (Section::Answer, "a.example", Type::A, 60, address);
    let rows: Vec<_> = addresses
        .iter()
        .map(|address| row(address.as_str()))
        .collect();
    server.store("a.example", Rcode::NOERROR, &rows);
    let first = server.reply(&ask_with_cookie("a.example", &[7; 8]));
    let is_cut = |reply: &[u8]| Flags::read(reply).unwrap().has(Flags::TC);
    assert!(is_cut(&first) && first.len() < 100);
    let second = server.reply(&ask_with_cookie("a.example", &cookie_of(&first)));
    assert!(!is_cut(&second) && second.len() > 512);
    assert!(is_cut(&server.reply(&ask_with_edns("a.example"))));
}

//--- Names of the configuration

/// A server that denies `bad.example`, has `tcp.example` asked for over TCP, and has an alias of `a.example`.
fn server_with_names() -> Server {
    let name = |text: &str| Name::parse(text).unwrap();
    let mut zone = dns_names::policy::PolicyZone::default();
    zone.add(&name("bad.example"), dns_names::policy::Rule::NxDomain);
    zone.add(&name("tcp.example"), dns_names::policy::Rule::TcpOnly);
    zone.add(&name("quiet.example"), dns_names::policy::Rule::Drop);
    let alias = dns_names::policy::Rule::Alias {
        ttl: 60,
        target: name("a.example"),
    };
    zone.add(&name("www.example"), alias);
    let mut server = server();
    server.names.policies = vec![Arc::new(zone)];
    server
}

#[test]
fn a_rule_comes_before_the_cache() {
    let server = server_with_names();
    let address = (Section::Answer, "bad.example", Type::A, 60, "192.0.2.7");
    server.store("bad.example", Rcode::NOERROR, &[address]);
    let (done, source) = server.judge(&ask("bad.example"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((rcode(&reply), source), (Rcode::NXDOMAIN, Source::Policy));
    assert_eq!(
        foreseen(&server, &ask("bad.example"), true),
        Foreseen::Policy
    );
    assert_eq!(
        server.judge(&ask("quiet.example")),
        (Done::Silent, Source::Dropped)
    );
    let stranger = Permissions {
        ask: false,
        notify: false,
    };
    let (_, source) = server.judge_as(&ask("bad.example"), stranger);
    assert_eq!(source, Source::Error);
}

#[test]
fn an_alias_ends_in_the_cache_or_with_the_resolver() {
    let server = server_with_names();
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let message = ask("www.example");
    let judged = front.judge(&message, ALLOWED, Transport::Udp, &mut key, &mut out);
    let Verdict::Resolve { asker, derived, .. } = judged.verdict else {
        panic!("{judged:?}");
    };
    let whole = derived
        .unwrap()
        .whole(&answer("a.example", Type::A, Rcode::NOERROR, &[ADDRESS]).message);
    assert_eq!(counts(whole.unwrap().bytes()), [1, 2, 0, 0]);
    assert!(asker.question.starts_with(b"\x03www"));
    assert_eq!(key.name(), b"\x01a\x07example\0");
    let query = Query::parse(&message).unwrap();
    let prospect = front.foresee(&query, true, &mut key);
    assert_eq!(prospect.alias, Some(Name::parse("a.example").unwrap()));
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let (done, source) = server.judge(&message);
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((counts(&reply)[1], source), (2, Source::Policy));
    assert_eq!(addresses(&reply).len(), 1);
}

#[test]
fn over_tcp_a_rule_for_tcp_has_been_followed() {
    let server = server_with_names();
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let message = ask("tcp.example");
    let judged = front.judge(&message, ALLOWED, Transport::Udp, &mut key, &mut out);
    assert!(matches!(judged.verdict, Verdict::Reply(_)), "{judged:?}");
    assert!(Flags::read(&out).unwrap().has(Flags::TC));
    let judged = front.judge(&message, ALLOWED, Transport::Tcp, &mut key, &mut out);
    assert!(matches!(
        judged.verdict,
        Verdict::Resolve { derived: None, .. }
    ));
}
