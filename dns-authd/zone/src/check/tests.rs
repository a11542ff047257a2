//! Zones with one thing wrong, and zones with nothing wrong.

use std::path::Path;

use dns_wire::Name;

use super::*;
use crate::parse::{Options, parse};

fn load(apex: &str, text: &[u8]) -> ZoneFile {
    let apex = Name::parse(apex).unwrap();
    let zone = parse(
        Path::new("z"),
        &apex,
        &mut |_| Ok(text.to_vec()),
        &Options::default(),
    );
    zone.unwrap_or_else(|rejected| panic!("{rejected}"))
}

const APEX: &str = "$TTL 180\n@ SOA ns1 host 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n";
const APEX_LINES: usize = 4;

/// The findings of a zone, with lines counted behind [`APEX`].
#[track_caller]
fn check_zone(text: &str, expected: &[&str]) {
    let zone = load("sin.example.", format!("{APEX}{text}").as_bytes());
    let findings: Vec<String> = check(&zone)
        .iter()
        .map(|finding| {
            let line = finding.position.as_ref().unwrap().line;
            format!(
                "{} {}: {}",
                line - APEX_LINES,
                finding.severity,
                finding.message
            )
        })
        .collect();
    assert_eq!(findings, expected, "{text}");
}

#[test]
fn nothing_is_found_in_the_seed_zone() {
    let text = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/seed/inside-out.xyz"
    ));
    assert_eq!(check(&load("ocp4.redhat.ren", text)), []);
}

#[test]
fn records_that_are_left_out_are_errors() {
    check_zone(
        "a ALIAS b\nb A 192.0.2.2\n",
        &["1 error: `ALIAS` is no record type; the record is left out"],
    );
    let many = format!(
        "{APEX}{}",
        "a ALIAS b\n".repeat(crate::parse::MAX_LEFT_OUT + 7)
    );
    let findings = check(&load("sin.example.", many.as_bytes()));
    assert!(
        findings
            .iter()
            .any(|it| it.message == "7 more records are left out")
    );
}

#[test]
fn nothing_is_found_in_a_zone_of_every_feature() {
    check_zone(
        "@ MX 10 mail\n@ MX 20 mx.other.\n@ CAA 0 issue \"x\"\nmail A 192.0.2.2\n\
         www CNAME mail\nalso CNAME www\nfar CNAME x.other.\n*.w A 192.0.2.3\nc CNAME any.w\n\
         _sip._tcp SRV 0 0 5060 any.w\n_no._tcp SRV 0 0 0 .\nnull MX 0 .\n\
         sub NS ns.sub\nsub NS ns.other.\nsub DS 1 8 1 2BB183AF5F22588179A53B0A98631FAD1A292118\n\
         ns.sub A 192.0.2.4\nlow NS deep.sub\nd DNAME other.\nd TXT x\nx CNAME y.d\nx2 CNAME y.sub\n\
         _443._tcp TLSA 3 1 0 00\n_dmarc TXT x\nsvc HTTPS 1 . alpn=h2 no-default-alpn\n\
         svc2 HTTPS 0 svc\nlua LUA A \"x\"\nm MX 1 lua\nlc LUA CNAME \"x\"\nptr PTR mail\n",
        &[],
    );
}

#[test]
fn aliases_stand_alone() {
    check_zone(
        "two CNAME ns1\ntwo CNAME ns1.other.\n",
        &["2 error: two.sin.example. has more than one CNAME"],
    );
    check_zone(
        "mix A 192.0.2.1\nmix CNAME ns1",
        &["2 error: mix.sin.example. has CNAME and A (RFC 1034 §3.6.2)"],
    );
    check_zone(
        "mix CNAME ns1\nmix LUA A \"x\"",
        &["1 error: mix.sin.example. has CNAME and A (RFC 1034 §3.6.2)"],
    );
    check_zone(
        "d DNAME a.\nd DNAME b.",
        &["2 error: d.sin.example. has more than one DNAME"],
    );
}

#[test]
fn aliases_lead_somewhere() {
    check_zone(
        "a CNAME nosuch",
        &["1 warning: CNAME to nosuch.sin.example., which does not exist"],
    );
    check_zone(
        "a CNAME b\nb CNAME a\nc CNAME c\nd CNAME a",
        &[
            "1 error: a.sin.example. leads back to itself",
            "2 error: b.sin.example. leads back to itself",
            "3 error: c.sin.example. leads back to itself",
            "4 warning: d.sin.example. leads through more than 16 CNAMEs",
        ],
    );
    check_zone(
        "a CNAME ns1.sin.example",
        &[
            "1 warning: CNAME to ns1.sin.example.sin.example., which does not exist",
            "1 warning: CNAME to ns1.sin.example.sin.example.; is a final dot missing?",
        ],
    );
}

#[test]
fn hosts_exist_have_addresses_and_are_no_aliases() {
    check_zone(
        "cn CNAME ns1\n@ MX 10 cn\n@ MX 10 nomail\n@ NS txt\ntxt TXT x\n@ MX 10 b.c\na.b.c A 192.0.2.1\n",
        &[
            "2 warning: MX points to cn.sin.example., which is a CNAME",
            "3 warning: MX points to nomail.sin.example., which does not exist",
            "4 warning: NS points to txt.sin.example., which has no address",
            "6 warning: MX points to b.c.sin.example., which has no address",
        ],
    );
    check_zone(
        "@ NS 192.0.2.1.\n@ MX 1 192.0.2.1\n@ MX 1 a_b\na_b A 192.0.2.1",
        &[
            "1 error: NS points to 192.0.2.1.: an address is not a name",
            "2 warning: MX points to 192.0.2.1.sin.example., which does not exist",
            "3 warning: MX points to a_b.sin.example., which is not a hostname",
            "4 note: a_b.sin.example. has A but is not a hostname",
        ],
    );
    check_zone(
        "-foo A 192.0.2.1\n*.foo A 192.0.2.1\nfoo- AAAA ::1\n",
        &[
            "1 note: -foo.sin.example. has A but is not a hostname",
            "3 note: foo-.sin.example. has AAAA but is not a hostname",
        ],
    );
}

#[test]
fn delegations_have_glue_and_hide_what_is_below() {
    check_zone(
        "del NS ns.del\ndel NS del\nns.del AAAA ::1\nx.del TXT foo\ndel TXT bar\nlow.del NS ns\n",
        &[
            "2 warning: del.sin.example. is delegated to del.sin.example., whose glue is missing",
            "4 warning: x.del.sin.example. TXT is hidden by the NS of del.sin.example.",
            "5 warning: del.sin.example. TXT is hidden by the delegation there",
            "6 warning: NS points to ns.sin.example., which does not exist",
            "6 warning: low.del.sin.example. NS is hidden by the NS of del.sin.example.",
        ],
    );
    check_zone(
        "dn DNAME other.\nx.dn A 192.0.2.1\n",
        &["2 warning: x.dn.sin.example. A is hidden by the DNAME of dn.sin.example."],
    );
    check_zone(
        "*.w NS ns1\n",
        &["1 warning: NS at a wildcard means little (RFC 4592 §4)"],
    );
}

#[test]
fn types_stand_where_they_belong() {
    let digest = "2BB183AF5F22588179A53B0A98631FAD1A292118";
    check_zone(
        &format!(
            "@ DS 1 8 1 {digest}\nd DS 1 8 1 {digest}\nk DNSKEY 256 3 8 AQPS\nk CDS 0 0 0 00\n"
        ),
        &[
            "1 warning: DS belongs to the parent zone, not to the apex",
            "2 warning: d.sin.example. has DS but is not delegated",
            "3 warning: DNSKEY belongs to the apex",
            "4 warning: CDS belongs to the apex",
        ],
    );
    check_zone(
        "d NS ns1\nd DS 1 8 1 00\nd DS 1 8 9 00",
        &["2 error: a digest of type 1 has 20 octets, not 1"],
    );
}

#[test]
fn digests_are_as_long_as_their_algorithm_says() {
    check_zone(
        "a SSHFP 2 1 00\na SSHFP 2 9 00\nb TLSA 3 1 1 00\nb TLSA 3 1 0 00\nc SMIMEA 3 1 2 00\n@ ZONEMD 1 1 1 00\n@ CDS 0 0 0 00\n",
        &[
            "1 error: a digest of type 1 has 20 octets, not 1",
            "3 error: a digest of type 1 has 32 octets, not 1",
            "5 error: a digest of type 2 has 64 octets, not 1",
            "6 error: a digest of type 1 has 48 octets, not 1",
        ],
    );
}

#[test]
fn signatures_need_a_key() {
    let signature = "RRSIG A 5 3 180 20300322173103 20030220173103 2642 @ oJB1";
    check_zone(
        &format!("s {signature}\ns A 192.0.2.1\nn NSEC a A\n"),
        &[
            "1 error: RRSIG in a zone that has no DNSKEY",
            "3 error: NSEC in a zone that has no DNSKEY",
        ],
    );
    check_zone(
        &format!(
            "@ DNSKEY 256 3 8 AQPS\ns {signature}\ns A 192.0.2.1\ns CNAME x.\nt LUA A \"x\"\n@ NSEC3PARAM 1 0 5 AB"
        ),
        &[
            "4 error: s.sin.example. has CNAME and A (RFC 1034 §3.6.2)",
            "5 warning: a LUA record's answers cannot carry the zone's signatures",
            "6 warning: NSEC3 with 5 iterations; RFC 9276 asks for none",
            "6 note: NSEC3 with a salt; RFC 9276 asks for none",
        ],
    );
}

#[test]
fn services_are_consistent() {
    check_zone(
        "a HTTPS 0 a\nb HTTPS 0 ns1 alpn=h2\nc HTTPS 0 ns1\nc HTTPS 0 x.\nd HTTPS 0 nosuch\ne HTTPS 0 .\n\
         f HTTPS 1 f\ng SVCB 1 nosuch\nh HTTPS 1 . no-default-alpn\ni HTTPS 0 ns1\ni HTTPS 1 ns1\n",
        &[
            "1 error: HTTPS in alias form points to its own name",
            "2 warning: parameters of HTTPS in alias form mean nothing",
            "4 warning: more than one alias form of HTTPS",
            "5 warning: HTTPS points to nosuch.sin.example., which does not exist",
            "8 warning: SVCB points to nosuch.sin.example., which does not exist",
            "9 warning: `no-default-alpn` without `alpn` (RFC 9460 §7.1.1)",
            "10 warning: the alias form of HTTPS makes its service forms ignored",
        ],
    );
}

#[test]
fn what_the_parser_warned_of_is_found_too() {
    check_zone(
        "a A 192.0.2.1\na A 192.0.2.1\nb 10 A 192.0.2.1\nb 20 A 192.0.2.2\n",
        &[
            "2 warning: the same record is on line 5",
            "4 warning: b.sin.example. A has different TTLs; 10 is used for all",
        ],
    );
}

#[test]
fn a_mailbox_has_no_at_sign() {
    let zone = load(
        "sin.example.",
        b"$TTL 5\n@ SOA ns1 host@x 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n",
    );
    let findings: Vec<_> = check(&zone).iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        ["z:2:1: warning: the SOA's mailbox has an `@`, which is written as a dot"]
    );
}

#[test]
fn children_are_delegated_in_their_parents() {
    let parent = load("sin.example.", format!("{APEX}a NS ns1\n").as_bytes());
    let a = load("a.sin.example.", APEX.as_bytes());
    let b = load("B.sin.example.", APEX.as_bytes());
    let below_a = load("x.y.a.sin.example.", APEX.as_bytes());
    let other = load("other.example.", APEX.as_bytes());
    let findings = check_parents([&parent, &a, &b, &below_a, &other]);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        [
            "z:2:1: error: B.sin.example. has no delegation in sin.example.",
            "z:2:1: error: x.y.a.sin.example. has no delegation in a.sin.example.",
        ]
    );
}

#[test]
fn the_number_of_findings_is_bounded() {
    let text: String = (0..20_000)
        .map(|n| format!("a_{n} A 192.0.2.1\n"))
        .collect();
    let zone = load("sin.example.", format!("{APEX}{text}").as_bytes());
    assert_eq!(check(&zone).len(), MAX_FINDINGS);
}

#[test]
fn any_mixture_of_records_is_checked_to_the_end() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let names = [
        "@",
        "a",
        "b",
        "*",
        "a.b",
        "*.a.b",
        "c.a.b",
        "ns1",
        ".",
        "x.other.",
        "host.sin.example",
    ];
    let data = [
        "A 192.0.2.1",
        "AAAA ::1",
        "NS ",
        "CNAME ",
        "DNAME ",
        "MX 1 ",
        "SRV 0 0 0 ",
        "HTTPS 0 ",
        "HTTPS 1 ",
        "DS 1 8 1 00",
        "DNSKEY 256 3 8 AQPS",
        "NSEC3PARAM 1 0 5 AB",
        "LUA A x",
        "NSEC a. A",
        "TXT x",
        "PTR ",
    ];
    for _ in 0..2_000 {
        let mut text = APEX.to_owned();
        for _ in 0..random(20) {
            let data = data[random(data.len())];
            let target = if data.ends_with(' ') {
                names[random(names.len())]
            } else {
                ""
            };
            text.push_str(&format!("{} {data}{target}\n", names[random(8)]));
        }
        let zone = load("sin.example.", text.as_bytes());
        let findings = check(&zone);
        assert!(
            findings.is_sorted_by(|a, b| a.position <= b.position),
            "{text}"
        );
    }
}
