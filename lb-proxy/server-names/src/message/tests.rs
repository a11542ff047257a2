use dns_wire::testing::{self, Written};

use super::*;

const ID: u16 = 0x1234;
const OK: u16 = Flags::QR | Flags::RD;
const NXDOMAIN: u16 = OK | 3;
const SERVFAIL: u16 = OK | 2;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn question(kind: Kind) -> Question {
    Question {
        name: name("Web.example"),
        kind,
    }
}

/// A response to the question for a kind.
fn response(kind: Kind, flags: u16, records: &[Written]) -> Vec<u8> {
    let asked = dns_wire::Question {
        id: ID,
        name: &name("web.EXAMPLE"),
        rtype: kind.rtype(),
    };
    testing::response(&asked, flags, records)
}

fn a(owner: &'static str, ttl: u32, last: u8) -> Written {
    (Section::Answer, owner, Type::A, ttl, vec![192, 0, 2, last])
}

fn alias(owner: &'static str, ttl: u32, target: &str) -> Written {
    let target = name(target).as_wire().to_vec();
    (Section::Answer, owner, Type::CNAME, ttl, target)
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Written {
    let mut data: Vec<u8> = [priority, weight, port]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    data.extend_from_slice(name(target).as_wire());
    (Section::Answer, "web.example", Type::SRV, 60, data)
}

/// The SOA record of `example`: its TTL and its last field.
fn soa(ttl: u32, minimum: u32) -> Written {
    let mut data = vec![0, 0];
    data.extend_from_slice(&[0; 16]);
    data.extend_from_slice(&minimum.to_be_bytes());
    (Section::Authority, "example", Type::SOA, ttl, data)
}

fn found(records: impl IntoIterator<Item = Record>, ttl: u64) -> Judged {
    Judged::Answer(Outcome::Found {
        records: records.into_iter().collect(),
        ttl: Duration::from_secs(ttl),
    })
}

fn address(last: u8) -> Record {
    Record::Address([192, 0, 2, last].into())
}

fn denied(exists: bool, ttl: Option<u64>) -> Judged {
    Judged::Answer(Outcome::Denied {
        exists,
        ttl: ttl.map(Duration::from_secs),
    })
}

#[test]
fn responses_are_read() {
    let damaged = Judged::Answer(Outcome::Failed(Failure::Damaged));
    let place = |priority, weight, port, target| {
        Record::Place(Place {
            priority,
            weight,
            port,
            target: name(target),
        })
    };
    let loopback = Ipv6Addr::LOCALHOST.octets().to_vec();
    let aaaa = (Section::Answer, "web.example", Type::AAAA, 9, loopback);
    let cases: Vec<Case> = vec![
        (
            Kind::V4,
            OK,
            vec![a("web.example", 60, 2), a("web.example", 30, 1)],
            found([address(1), address(2)], 30),
        ),
        (
            Kind::V6,
            OK,
            vec![aaaa],
            found([Record::Address(Ipv6Addr::LOCALHOST.into())], 9),
        ),
        // Records of other names and types do not count, and the TTL of an alias does.
        (
            Kind::V4,
            OK,
            vec![
                alias("web.example", 5, "x.example"),
                a("X.example", 60, 1),
                a("other.example", 1, 2),
            ],
            found([address(1)], 5),
        ),
        (
            Kind::V4,
            OK,
            vec![alias("web.example", 5, "web.example")],
            damaged,
        ),
        (
            Kind::Service,
            OK,
            vec![srv(1, 10, 80, "a.example"), srv(2, 0, 81, "b.example")],
            found(
                [place(1, 10, 80, "a.example"), place(2, 0, 81, "b.example")],
                60,
            ),
        ),
    ];
    check(cases);
}

/// A question, flags and records of its response, and what they say.
type Case = (Kind, u16, Vec<Written>, Judged);

fn check(cases: Vec<Case>) {
    for (kind, flags, records, expected) in cases {
        let message = response(kind, flags, &records);
        assert_eq!(
            question(kind).judge(ID, &message),
            expected,
            "{flags:x} {records:?}"
        );
    }
}

#[test]
fn responses_without_records_are_told_apart() {
    let damaged = Judged::Answer(Outcome::Failed(Failure::Damaged));
    let short = (Section::Answer, "web.example", Type::A, 9, vec![1, 2, 3]);
    let any = (Section::Answer, "web.example", Type::A, 9, vec![0; 4]);
    check(vec![
        // RFC 2782: a target of the root says that there is no such service.
        (
            Kind::Service,
            OK,
            vec![srv(0, 0, 0, ".")],
            denied(true, None),
        ),
        (Kind::V4, OK, vec![soa(60, 7)], denied(true, Some(7))),
        (Kind::V4, NXDOMAIN, vec![soa(3, 7)], denied(false, Some(3))),
        (Kind::V4, NXDOMAIN, vec![], denied(false, None)),
        (Kind::V4, OK, vec![short], damaged.clone()),
        (Kind::V4, OK, vec![any], damaged),
        (
            Kind::V4,
            SERVFAIL,
            vec![],
            Judged::Answer(Outcome::Failed(Failure::Rcode(Rcode::SERVFAIL))),
        ),
        (Kind::V4, OK | Flags::TC, vec![], Judged::Truncated),
        (Kind::V4, Flags::RD, vec![], Judged::Foreign),
    ]);
}

#[test]
fn a_response_to_another_question_is_foreign() {
    let message = response(Kind::V4, OK, &[a("web.example", 60, 1)]);
    assert_eq!(question(Kind::V6).judge(ID, &message), Judged::Foreign);
    assert_eq!(question(Kind::V4).judge(ID + 1, &message), Judged::Foreign);
    let other = Question {
        name: name("other.example"),
        kind: Kind::V4,
    };
    assert_eq!(other.judge(ID, &message), Judged::Foreign);
}

#[test]
fn an_answer_is_bounded() {
    let records: Vec<Written> = (0..=u8::MAX)
        .rev()
        .map(|n| srv(u16::from(n), 0, 80, "a.example"))
        .collect();
    let message = response(Kind::Service, OK, &records);
    let Judged::Answer(Outcome::Found { records, .. }) =
        question(Kind::Service).judge(ID, &message)
    else {
        panic!("there are records");
    };
    assert_eq!(records.len(), MAX_RECORDS);
    let last = records.last().unwrap();
    assert!(
        matches!(last, Record::Place(place) if usize::from(place.priority) == MAX_RECORDS - 1),
        "the best priorities stay: {last:?}"
    );
}

#[test]
fn no_cut_and_no_changed_octet_upsets_the_reader() {
    let message = response(
        Kind::Service,
        OK,
        &[alias("web.example", 5, "web.example"), srv(1, 2, 3, "a.b")],
    );
    for end in 0..message.len() {
        drop(question(Kind::Service).judge(ID, &message[..end]));
    }
    for at in 0..message.len() {
        for value in 0..=u8::MAX {
            let mut bent = message.clone();
            bent[at] = value;
            drop(question(Kind::Service).judge(ID, &bent));
        }
    }
}
