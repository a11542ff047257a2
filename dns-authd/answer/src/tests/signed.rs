//! Answers from signed zones: `dnssec-signzone` of BIND 9.18 has signed them, and delv judges whole responses in
//! the end-to-end tests. Here is which records a response has.

use std::path::Path;

use dns_wire::hash::Seed;
use dns_wire::{Name, Rcode, Records, Type};
use dns_zone::Zone;
use dns_zone::parse::{Options, parse};

use crate::client::Transport;
use crate::programs::NoPrograms;
use crate::responder::Responder;
use crate::settings::{Any, Settings};
use crate::snapshot::Snapshot;
use crate::table::{Origin, Served, Table};
use crate::testing::{client, query};
use crate::verdict::Verdict;

const NSEC: &str = include_str!("../../../../tests/data/signed/nsec.zone");
const NSEC3: &str = include_str!("../../../../tests/data/signed/nsec3.zone");
const OPT_OUT: &str = include_str!("../../../../tests/data/signed/optout.zone");

fn snapshot(text: &str) -> Snapshot {
    let apex: Name = "s.test.".parse().unwrap();
    let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
    let file = parse(Path::new("z"), &apex, &mut load, &Options::default());
    let file = file.unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
    let seed = Seed(7);
    let zone = Zone::build(&apex, &file.records, seed).unwrap();
    assert!(zone.is_signed());
    let served = Served {
        apex,
        zone: Some(zone.into()),
        parts: None,
        live: std::sync::Arc::default(),
        origin: Origin::Configured,
        view: None,
        access: None,
    };
    Snapshot {
        table: Table::new(seed, &[served.into()]),
        views: crate::ViewTables::default(),
        settings: Settings::default(),
    }
}

/// The response: its code, and the types of the records in its three sections, a signature as `type+` behind
/// the type it covers.
fn ask(snapshot: &Snapshot, name: &str, rtype: Type, signed: bool) -> (u16, [Vec<String>; 3]) {
    let mut message = query(&name.parse().unwrap(), rtype);
    if signed {
        message[11] = 1;
        message.extend(b"\0\0\x29\x10\0\0\0\x80\0\0\0");
    }
    let mut out = vec![0; 65_535];
    let mut responder = Responder::new(NoPrograms, 1);
    let verdict = responder.respond(snapshot, &message, &client(Transport::Tcp), &mut out);
    let Verdict::Reply(length) = verdict else {
        panic!("{verdict:?}");
    };
    let whole = &out[..length];
    let mut sections = [const { Vec::new() }; 3];
    for record in Records::new(whole).unwrap() {
        let record = record.unwrap();
        let text = match (record.rtype, &whole[record.rdata.clone()]) {
            (Type::OPT, _) => continue,
            (Type::RRSIG, [high, low, ..]) => {
                format!("{}+", Type(u16::from_be_bytes([*high, *low])))
            }
            (rtype, _) => rtype.to_string(),
        };
        sections[record.section as usize].push(text);
    }
    (u16::from(whole[3] & 0xf), sections)
}

/// Name, type, code, and the records of the answer and authority sections with NSEC and with NSEC3.
type Row = (
    &'static str,
    Type,
    Rcode,
    &'static str,
    &'static str,
    &'static str,
);

const ROWS: [Row; 25] = [
    ("www.s.test.", Type::A, Rcode::NOERROR, "A A+", "", ""),
    (
        "WWW.S.test.",
        Type::AAAA,
        Rcode::NOERROR,
        "AAAA AAAA+",
        "",
        "",
    ),
    (
        "s.test.",
        Type::DNSKEY,
        Rcode::NOERROR,
        "DNSKEY DNSKEY DNSKEY+ DNSKEY+",
        "",
        "",
    ),
    ("s.test.", Type::SOA, Rcode::NOERROR, "SOA SOA+", "", ""),
    ("s.test.", Type::MX, Rcode::NOERROR, "MX MX+", "", ""),
    (
        "alias.s.test.",
        Type::A,
        Rcode::NOERROR,
        "CNAME CNAME+ A A+",
        "",
        "",
    ),
    (
        "alias.s.test.",
        Type::CNAME,
        Rcode::NOERROR,
        "CNAME CNAME+",
        "",
        "",
    ),
    (
        "a1.s.test.",
        Type::A,
        Rcode::NOERROR,
        "CNAME CNAME+ CNAME CNAME+ A A+",
        "",
        "",
    ),
    (
        "far.s.test.",
        Type::A,
        Rcode::NOERROR,
        "CNAME CNAME+",
        "",
        "",
    ),
    // NODATA: the name's own proof; an empty non-terminal has none with NSEC.
    (
        "www.s.test.",
        Type::MX,
        Rcode::NOERROR,
        "",
        "SOA SOA+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+",
    ),
    (
        "b.c.s.test.",
        Type::A,
        Rcode::NOERROR,
        "",
        "SOA SOA+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+",
    ),
    (
        "a2.s.test.",
        Type::MX,
        Rcode::NOERROR,
        "CNAME CNAME+",
        "SOA SOA+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+",
    ),
    // NXDOMAIN.
    (
        "none.s.test.",
        Type::A,
        Rcode::NXDOMAIN,
        "",
        "SOA SOA+ NSEC NSEC+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+ NSEC3 NSEC3+ NSEC3 NSEC3+",
    ),
    (
        "dangling.s.test.",
        Type::A,
        Rcode::NXDOMAIN,
        "CNAME CNAME+",
        "SOA SOA+ NSEC NSEC+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+ NSEC3 NSEC3+ NSEC3 NSEC3+",
    ),
    // Wildcards: the name itself does not exist.
    (
        "x.wild.s.test.",
        Type::A,
        Rcode::NOERROR,
        "A A+",
        "NSEC NSEC+",
        "NSEC3 NSEC3+",
    ),
    (
        "x.y.wild.s.test.",
        Type::A,
        Rcode::NOERROR,
        "A A+",
        "NSEC NSEC+",
        "NSEC3 NSEC3+",
    ),
    (
        "towild.s.test.",
        Type::A,
        Rcode::NOERROR,
        "CNAME CNAME+ A A+",
        "NSEC NSEC+",
        "NSEC3 NSEC3+",
    ),
    (
        "x.wildalias.s.test.",
        Type::A,
        Rcode::NOERROR,
        "CNAME CNAME+ A A+",
        "NSEC NSEC+",
        "NSEC3 NSEC3+",
    ),
    ("*.wild.s.test.", Type::A, Rcode::NOERROR, "A A+", "", ""),
    (
        "x.wild.s.test.",
        Type::MX,
        Rcode::NOERROR,
        "",
        "SOA SOA+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+ NSEC3 NSEC3+ NSEC3 NSEC3+",
    ),
    // The substitution of a DNAME is not signed (RFC 6672 §5.3.1).
    (
        "x.moved.s.test.",
        Type::A,
        Rcode::NOERROR,
        "DNAME DNAME+ CNAME A A+",
        "NSEC NSEC+",
        "NSEC3 NSEC3+",
    ),
    // Delegations.
    (
        "www.secure.s.test.",
        Type::A,
        Rcode::NOERROR,
        "",
        "NS DS DS+",
        "NS DS DS+",
    ),
    ("secure.s.test.", Type::DS, Rcode::NOERROR, "DS DS+", "", ""),
    (
        "www.insecure.s.test.",
        Type::A,
        Rcode::NOERROR,
        "",
        "NS NSEC NSEC+",
        "NS NSEC3 NSEC3+",
    ),
    (
        "insecure.s.test.",
        Type::DS,
        Rcode::NOERROR,
        "",
        "SOA SOA+ NSEC NSEC+",
        "SOA SOA+ NSEC3 NSEC3+",
    ),
];

#[test]
fn signed_zones_are_answered_with_signatures_and_proofs() {
    let (nsec, nsec3) = (snapshot(NSEC), snapshot(NSEC3));
    for (name, rtype, rcode, answer, with_nsec, with_nsec3) in ROWS {
        for (zone, authority) in [(&nsec, with_nsec), (&nsec3, with_nsec3)] {
            let (code, [answers, authorities, _]) = ask(zone, name, rtype, true);
            assert_eq!(code, rcode.0, "{name} {rtype}");
            assert_eq!(answers.join(" "), answer, "{name} {rtype}");
            // Some proofs are one record, depending on where hashes fall.
            let found = authorities.join(" ");
            let is_shorter = authority.starts_with(&found) && authority.ends_with("NSEC3+");
            let is_enough = is_shorter && found.matches("NSEC3+").count() >= 2;
            assert!(
                found == authority || is_enough,
                "{name} {rtype}: {found}, not {authority}"
            );
        }
    }
}

#[test]
fn names_that_an_opt_out_leaves_without_a_hash_are_proved_by_their_encloser() {
    let zone = snapshot(OPT_OUT);
    for (name, rtype, first) in [
        ("www.insecure.s.test.", Type::A, "NS"),
        ("insecure.s.test.", Type::DS, "SOA SOA+"),
        ("x.deep.only.deleg.s.test.", Type::A, "NS"),
        // An empty non-terminal above unsigned delegations only.
        ("only.deleg.s.test.", Type::A, "SOA SOA+"),
    ] {
        let (code, [_, authorities, _]) = ask(&zone, name, rtype, true);
        let found = authorities.join(" ");
        assert_eq!(code, 0, "{name} {rtype}");
        let proof = found
            .strip_prefix(first)
            .unwrap_or_else(|| panic!("{name}: {found}"));
        assert!(
            [" NSEC3 NSEC3+ NSEC3 NSEC3+", " NSEC3 NSEC3+"].contains(&proof),
            "{name} {rtype}: {found}"
        );
    }
}

#[test]
fn without_the_do_bit_nothing_of_it_is_added() {
    let is_part = |text: &String| text.ends_with('+') || text.starts_with("NSEC") || text == "DS";
    for text in [NSEC, NSEC3, OPT_OUT] {
        let zone = snapshot(text);
        for (name, rtype, rcode, ..) in ROWS {
            let (code, sections) = ask(&zone, name, rtype, false);
            assert_eq!(code, rcode.0, "{name} {rtype}");
            let mut added = sections.iter().flatten().filter(|text| is_part(text));
            let wanted = rtype == Type::DS;
            assert!(
                wanted || added.next().is_none(),
                "{name} {rtype}: {sections:?}"
            );
        }
    }
}

#[test]
fn the_hash_of_a_name_is_no_name() {
    let zone = snapshot(NSEC3);
    let owner = NSEC3.lines().find(|line| line.contains(" IN NSEC3 "));
    let owner = owner.and_then(|line| line.split(' ').next()).unwrap();
    for rtype in [Type::A, Type::NSEC3] {
        let (code, _) = ask(&zone, owner, rtype, true);
        assert_eq!(code, Rcode::NXDOMAIN.0, "{owner}");
    }
    assert_eq!(
        ask(&zone, &format!("x.{owner}"), Type::A, true).0,
        Rcode::NXDOMAIN.0
    );
}

#[test]
fn any_gets_data_with_its_signature() {
    let mut zone = snapshot(NSEC);
    let (_, [answers, ..]) = ask(&zone, "www.s.test.", Type::ANY, true);
    assert_eq!(answers, ["A", "A+"]);
    zone.settings.any = Any::AllOverTcp;
    let (_, [answers, ..]) = ask(&zone, "zz.s.test.", Type::ANY, true);
    assert_eq!(
        answers.len(),
        4,
        "TXT, NSEC and two signatures: {answers:?}"
    );
}
