use dns_wire::header;
use dns_wire::testing::{self, Written};

use super::*;

const ID: u16 = 0x1234;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A response: its flags, and records.
fn response(flags: u16, records: &[Written]) -> Vec<u8> {
    let asked = dns_wire::Question {
        id: ID,
        name: &name("r.svc"),
        rtype: Type::A,
    };
    testing::response(&asked, flags, records)
}

fn judge(message: &[u8]) -> Judged {
    let asked = name("R.svc");
    let question = Question {
        id: ID,
        name: &asked,
        family: Family::V4,
    };
    question.judge(message, Allow::Nothing)
}

const OK: u16 = Flags::QR | Flags::RD;
const NXDOMAIN: u16 = OK | 3;

fn a(owner: &'static str, ttl: u32, last: u8) -> Written {
    (Section::Answer, owner, Type::A, ttl, vec![10, 0, 0, last])
}

fn alias(owner: &'static str, target: &str) -> Written {
    let target = name(target).as_wire().to_vec();
    (Section::Answer, owner, Type::CNAME, 20, target)
}

fn soa(apex: &'static str) -> Written {
    (Section::Authority, apex, Type::SOA, 5, vec![0; 22])
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of all outcomes")]
fn responses_come_to_addresses_denials_and_failures() {
    let addresses = |last: &[u8], ttl| {
        let addresses = last.iter().map(|last| IpAddr::from([10, 0, 0, *last]));
        Judged::Answer(Outcome::Addresses {
            addresses: addresses.collect(),
            ttl: Duration::from_secs(ttl),
        })
    };
    let failed = |failure| Judged::Answer(Outcome::Failed(failure));
    let empty = Judged::Answer(Outcome::Empty);
    let denied = Judged::Answer(Outcome::Denied);
    let lame = failed(Failure::Lame);
    for (told, message, expected) in [
        (
            "sorted, each once, the smallest TTL",
            response(
                OK,
                &[a("r.svc", 30, 2), a("R.SVC", 5, 1), a("r.svc", 30, 2)],
            ),
            addresses(&[1, 2], 5),
        ),
        (
            "by an alias",
            response(OK, &[a("t.svc", 30, 1), alias("r.svc", "t.svc")]),
            addresses(&[1], 20),
        ),
        (
            "addresses of another name",
            response(OK, &[a("other", 30, 1)]),
            lame.clone(),
        ),
        (
            "nothing, and no server says so",
            response(OK, &[]),
            lame.clone(),
        ),
        (
            "nothing, by the zone",
            response(OK, &[soa("svc")]),
            empty.clone(),
        ),
        (
            "nothing, by its server",
            response(OK | Flags::AA, &[]),
            empty,
        ),
        (
            "a SOA of another zone",
            response(OK, &[soa("x.svc")]),
            lame.clone(),
        ),
        (
            "NXDOMAIN by the zone",
            response(NXDOMAIN, &[soa("svc")]),
            denied.clone(),
        ),
        (
            "NXDOMAIN by its server",
            response(NXDOMAIN | Flags::AA, &[]),
            denied,
        ),
        ("NXDOMAIN of no server", response(NXDOMAIN, &[]), lame),
        (
            "SERVFAIL",
            response(OK | 2, &[]),
            failed(Failure::Rcode(Rcode::SERVFAIL)),
        ),
        (
            "a circle of aliases",
            response(OK, &[alias("r.svc", "t"), alias("t", "r.svc")]),
            failed(Failure::Damaged),
        ),
        (
            "three octets",
            response(OK, &[(Section::Answer, "r.svc", Type::A, 5, vec![1, 2, 3])]),
            failed(Failure::Damaged),
        ),
        (
            "loopback alone",
            response(
                OK,
                &[(Section::Answer, "r.svc", Type::A, 5, vec![127, 0, 0, 1])],
            ),
            failed(Failure::Forbidden),
        ),
        (
            "loopback and another",
            response(
                OK,
                &[
                    (Section::Answer, "r.svc", Type::A, 5, vec![127, 0, 0, 1]),
                    a("r.svc", 30, 7),
                ],
            ),
            addresses(&[7], 5),
        ),
        ("cut", response(OK | Flags::TC, &[]), Judged::Truncated),
        ("a query", response(Flags::RD, &[]), Judged::Foreign),
    ] {
        assert_eq!(judge(&message), expected, "{told}");
    }
}

#[test]
fn a_response_to_another_question_is_waited_over() {
    let good = response(OK, &[a("r.svc", 30, 1)]);
    for (offset, what) in [(0, "id"), (13, "name"), (20, "type"), (22, "class")] {
        let mut other = good.clone();
        other[offset] ^= 1;
        assert_eq!(judge(&other), Judged::Foreign, "{what}");
    }
    for length in 0..good.len() {
        let judged = judge(&good[..length]);
        let is_nothing = matches!(
            judged,
            Judged::Foreign | Judged::Answer(Outcome::Failed(Failure::Damaged))
        );
        assert!(is_nothing, "{length}: {judged:?}");
    }
    // An error without a question is the server's.
    let mut refused = good;
    refused.truncate(header::LENGTH);
    header::set_word(&mut refused, 2, OK | 5);
    header::set_word(&mut refused, 4, 0);
    header::set_word(&mut refused, 6, 0);
    let refusal = Outcome::Failed(Failure::Rcode(Rcode::REFUSED));
    assert_eq!(judge(&refused), Judged::Answer(refusal));
}

#[test]
fn a_service_has_addresses_that_lead_to_it() {
    for (address, nothing, loopback) in [
        ("172.30.1.1", true, true),
        ("fd00::1", true, true),
        ("0.0.0.0", false, false),
        ("::", false, false),
        ("127.0.0.1", false, true),
        ("::1", false, true),
        ("::ffff:127.0.0.1", false, true),
        ("224.0.0.1", false, false),
        ("ff02::1", false, false),
        ("255.255.255.255", false, false),
        ("fe80::1", false, false),
    ] {
        let found = [Allow::Nothing, Allow::Loopback]
            .map(|allow| is_usable(address.parse().unwrap(), allow));
        assert_eq!(found, [nothing, loopback], "{address}");
    }
}

#[test]
fn addresses_are_bounded() {
    let records: Vec<_> = (0..100).map(|last| a("r.svc", 30, last)).collect();
    let Judged::Answer(Outcome::Addresses { addresses, .. }) = judge(&response(OK, &records))
    else {
        panic!("no addresses");
    };
    assert_eq!(addresses.len(), MAX_ADDRESSES);
}
