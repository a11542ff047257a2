use std::sync::LazyLock;

use super::*;
use crate::testing::{Everything, addresses, answer, query, question, response};

static ROOT: LazyLock<Name> = LazyLock::new(Name::root);

const ANSWER: Section = Section::Answer;
const AUTHORITY: Section = Section::Authority;
const ADDITIONAL: Section = Section::Additional;

fn reader(question: &[u8]) -> Reader<'_> {
    Reader {
        question,
        limits: TtlLimits::default(),
        trust_ad: false,
        dnssec_ok: false,
        zone: &ROOT,
        bailiwick: &Everything,
    }
}

fn ttls(message: &Message) -> Vec<u32> {
    Records::new(message.bytes())
        .unwrap()
        .map(|record| record.unwrap().ttl)
        .collect()
}

#[test]
fn the_lifetime_is_the_least_ttl_of_the_records_that_answer() {
    let kept = answer(
        "www.example",
        Type::A,
        Rcode::NOERROR,
        &[
            (ANSWER, "www.example", Type::CNAME, 300, "web.example"),
            (ANSWER, "web.example", Type::A, 60, "192.0.2.1"),
            (AUTHORITY, "example", Type::NS, 3600, "ns.example"),
            (ADDITIONAL, "ns.example", Type::A, 30, "192.0.2.53"),
        ],
    );
    assert_eq!(
        (kept.pool, kept.lifetime, kept.dangling),
        (Pool::Positive, 60, None)
    );
    assert_eq!(ttls(&kept.message), [300, 60]);
    assert_eq!(kept.message.ttl_offsets().count(), 2);
    for offset in kept.message.ttl_offsets() {
        let ttl: [u8; 4] = kept.message.bytes()[offset..offset + 4].try_into().unwrap();
        assert!(ttls(&kept.message).contains(&u32::from_be_bytes(ttl)));
    }
}

#[test]
fn a_denial_lives_as_long_as_its_soa_allows() {
    // SOA TTL, MINIMUM, expected.
    for (ttl, minimum, expected) in [(180, "604800", 180), (3600, "30", 30), (7200, "7200", 3600)] {
        for rcode in [Rcode::NXDOMAIN, Rcode::NOERROR] {
            let soa = (AUTHORITY, "example", Type::SOA, ttl, minimum);
            let kept = answer("x.example", Type::A, rcode, &[soa]);
            assert_eq!((kept.pool, kept.lifetime), (Pool::Negative, expected));
            assert_eq!(ttls(&kept.message), [expected]);
        }
    }
    let bare = answer("x.example", Type::A, Rcode::NXDOMAIN, &[]);
    assert_eq!((bare.pool, bare.lifetime), (Pool::Negative, 0));
}

#[test]
fn a_chain_without_an_end_says_where_it_leads() {
    let alias = (ANSWER, "www.example", Type::CNAME, 300, "web.other");
    let kept = answer("www.example", Type::A, Rcode::NOERROR, &[alias]);
    assert_eq!(kept.dangling, Some(Name::parse("web.other").unwrap()));
    let far = (AUTHORITY, "elsewhere", Type::SOA, 60, "60");
    let kept = answer("www.example", Type::A, Rcode::NOERROR, &[alias, far]);
    assert_eq!(kept.dangling, Some(Name::parse("web.other").unwrap()));
    let soa = (AUTHORITY, "other", Type::SOA, 60, "60");
    let kept = answer("www.example", Type::A, Rcode::NOERROR, &[alias, soa]);
    assert_eq!((kept.dangling, kept.pool), (None, Pool::Negative));
    let kept = answer("www.example", Type::CNAME, Rcode::NOERROR, &[alias]);
    assert_eq!((kept.dangling, kept.pool), (None, Pool::Positive));
    let kept = answer("www.example", Type::ANY, Rcode::NOERROR, &[alias]);
    assert_eq!(kept.dangling, None);
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let question = question("x.example", Type::A);
    let query = query(1, &question, Some(false));
    let mut scratch = vec![0; MAX_MESSAGE];
    let mut read = |flags, rcode, rows: &[_]| {
        reader(&question).read(&response(&query, flags, rcode, rows), &mut scratch)
    };
    for rcode in [
        Rcode::SERVFAIL,
        Rcode::REFUSED,
        Rcode::FORMERR,
        Rcode::NOTAUTH,
    ] {
        assert_eq!(read(0, rcode, &[]), Err(Unusable::Rcode(rcode)));
    }
    assert_eq!(
        read(0, Rcode::BADVERS, &[]),
        Err(Unusable::Rcode(Rcode::BADVERS))
    );
    let delegation = (AUTHORITY, "example", Type::NS, 60, "ns.example");
    assert!(matches!(
        read(0, Rcode::NOERROR, &[delegation]),
        Err(Unusable::Referral(_))
    ));
    // There are servers that set AA in referrals.
    assert!(matches!(
        read(Flags::AA, Rcode::NOERROR, &[delegation]),
        Err(Unusable::Referral(_))
    ));
    for apex in [".", "elsewhere"] {
        let lame = (AUTHORITY, apex, Type::NS, 60, "ns.example");
        assert_eq!(read(0, Rcode::NOERROR, &[lame]), Err(Unusable::Lame));
        let empty = read(Flags::AA, Rcode::NOERROR, &[lame]).unwrap();
        assert_eq!((empty.pool, empty.lifetime), (Pool::Negative, 0));
    }
    let unrelated = (ANSWER, "y.example", Type::A, 60, "192.0.2.1");
    assert_eq!(
        read(0, Rcode::NOERROR, &[unrelated]),
        Err(Unusable::Malformed)
    );
    let circle = (ANSWER, "x.example", Type::CNAME, 60, "x.example");
    assert_eq!(read(0, Rcode::NOERROR, &[circle]), Err(Unusable::Malformed));
}

#[test]
fn opt_goes_and_ad_stays_only_on_trust() {
    let question = question("x.example", Type::A);
    let query = query(1, &question, Some(true));
    let row = (ANSWER, "x.example", Type::A, 60, "192.0.2.1");
    let message = response(
        &query,
        Flags::AD | Flags::AA | Flags::RA,
        Rcode::NOERROR,
        &[row],
    );
    for trust_ad in [false, true] {
        let reader = Reader {
            trust_ad,
            ..reader(&question)
        };
        let kept = reader.read(&message, &mut vec![0; MAX_MESSAGE]).unwrap();
        assert_eq!(header::counts(kept.message.bytes()), Some([1, 1, 0, 0]));
        assert_eq!(kept.message.flags().has(Flags::AD), trust_ad);
        assert!(!kept.message.flags().has(Flags::AA));
    }
}

#[test]
fn ttls_are_held_to_the_limits() {
    let question = question("x.example", Type::A);
    let query = query(1, &question, None);
    let read = |ttl, limits| {
        let row = (ANSWER, "x.example", Type::A, ttl, "192.0.2.1");
        let message = response(&query, 0, Rcode::NOERROR, &[row]);
        let reader = Reader {
            limits,
            ..reader(&question)
        };
        reader
            .read(&message, &mut vec![0; MAX_MESSAGE])
            .unwrap()
            .lifetime
    };
    let limits = TtlLimits {
        positive_min: 10,
        positive_max: 900,
        negative_max: 30,
    };
    assert_eq!(
        (read(5, limits), read(60, limits), read(9000, limits)),
        (10, 60, 900)
    );
    assert_eq!(read(5, TtlLimits::default()), 5);
    // RFC 2181 §8.
    assert_eq!(read(0x8000_0000, TtlLimits::default()), 0);
    let absurd = TtlLimits {
        positive_min: 1000,
        ..limits
    };
    assert_eq!(read(5, absurd), 900);
}

#[test]
fn broken_responses_are_refused_wherever_they_break() {
    let question = question("www.example", Type::A);
    let query = query(1, &question, Some(true));
    let rows = [
        (ANSWER, "www.example", Type::CNAME, 300, "web.example"),
        (ANSWER, "web.example", Type::A, 60, "192.0.2.1"),
    ];
    let whole = response(&query, 0, Rcode::NOERROR, &rows);
    let mut scratch = vec![0; MAX_MESSAGE];
    for cut in 0..whole.len() {
        assert!(
            reader(&question).read(&whole[..cut], &mut scratch).is_err(),
            "{cut}"
        );
    }
    // Whatever single octet is wrong, nothing panics and what comes out can be walked.
    for at in 2..whole.len() {
        for flip in [0x01, 0x40, 0x80, 0xc0, 0xff] {
            let mut broken = whole.clone();
            broken[at] ^= flip;
            if let Ok(kept) = reader(&question).read(&broken, &mut scratch) {
                let records = Records::new(kept.message.bytes()).unwrap();
                assert!(records.into_iter().all(|r| r.is_ok()));
            }
        }
    }
}

#[test]
fn a_joined_chain_has_both_parts_and_the_last_ones_code() {
    let alias = (ANSWER, "www.example", Type::CNAME, 300, "web.other");
    let first = answer("www.example", Type::A, Rcode::NOERROR, &[alias]).message;
    let address = (ANSWER, "web.other", Type::A, 60, "192.0.2.7");
    let rest = answer("web.other", Type::A, Rcode::NOERROR, &[address]).message;
    let joined = join(&first, &rest, &mut vec![0; MAX_MESSAGE]).unwrap();
    assert_eq!(joined.question(), first.question());
    assert_eq!(addresses(joined.bytes()), ["192.0.2.7"]);
    assert_eq!(ttls(&joined), [300, 60]);

    let soa = (AUTHORITY, "other", Type::SOA, 60, "60");
    let denial = answer("web.other", Type::A, Rcode::NXDOMAIN, &[soa]).message;
    let joined = join(&first, &denial, &mut vec![0; MAX_MESSAGE]).unwrap();
    assert_eq!(joined.rcode(), Rcode::NXDOMAIN);
    assert_eq!(header::counts(joined.bytes()), Some([1, 1, 1, 0]));
}

#[test]
fn an_aged_message_counts_down_and_stops_at_zero() {
    let rows = [
        (ANSWER, "x.example", Type::CNAME, 60, "y.example"),
        (ANSWER, "y.example", Type::A, 20, "192.0.2.2"),
    ];
    let message = answer("x.example", Type::A, Rcode::NOERROR, &rows).message;
    assert_eq!(ttls(&message.aged(30)), [30, 0]);
    assert_eq!(
        addresses(message.aged(30).bytes()),
        addresses(message.bytes())
    );
}

#[test]
fn a_referral_names_servers_and_where_they_are() {
    let question = question("x.sub.example", Type::A);
    let rows = [
        (AUTHORITY, "sub.example", Type::NS, 60, "a.sub.example"),
        (AUTHORITY, "sub.example", Type::NS, 60, "A.sub.example"),
        (AUTHORITY, "SUB.example", Type::NS, 60, "b.other"),
        (AUTHORITY, "elsewhere", Type::NS, 60, "c.other"),
        (ADDITIONAL, "a.sub.example", Type::A, 60, "192.0.2.1"),
        (ADDITIONAL, "A.sub.example", Type::AAAA, 40, "2001:db8::1"),
        (ADDITIONAL, "c.other", Type::A, 60, "192.0.2.3"),
    ];
    let response = response(&query(1, &question, None), 0, Rcode::NOERROR, &rows);
    let mut scratch = vec![0; MAX_MESSAGE];
    let Err(Unusable::Referral(referral)) = reader(&question).read(&response, &mut scratch) else {
        panic!("no referral");
    };
    let server = |name: &str, addresses: &[&str]| NameServer {
        name: Name::parse(name).unwrap(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
    };
    assert_eq!(
        *referral,
        Referral {
            zone: Name::parse("sub.example").unwrap(),
            servers: vec![
                server("a.sub.example", &["192.0.2.1", "2001:db8::1"]),
                server("b.other", &[]),
            ],
            ttl: 40,
            ds: None,
        }
    );
}

#[test]
fn the_addresses_of_an_answer_are_those_of_its_answer_section() {
    let rows = [
        (ANSWER, "ns.example", Type::CNAME, 60, "a.example"),
        (ANSWER, "a.example", Type::A, 60, "192.0.2.1"),
        (ADDITIONAL, "b.example", Type::A, 60, "192.0.2.2"),
    ];
    let kept = answer("ns.example", Type::A, Rcode::NOERROR, &rows);
    let expected: std::net::IpAddr = "192.0.2.1".parse().unwrap();
    assert_eq!(kept.message.addresses(), [expected]);
}
