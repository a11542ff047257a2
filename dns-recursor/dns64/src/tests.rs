use dns_cache::testing::{answer, question};
use dns_wire::records;

use super::*;

const NAME: &str = "www.example";

fn dns64() -> Dns64 {
    Dns64 {
        prefixes: vec!["2001:db8:64::/96".parse().unwrap()],
        clients: None,
        exclude: vec!["::ffff:0:0/96".parse().unwrap()],
        mapped: None,
        break_dnssec: false,
    }
}

fn lines(message: &Message) -> Vec<String> {
    let bytes = message.bytes();
    let records = Records::new(bytes).unwrap().map(Result::unwrap);
    records
        .map(|record| records::line(bytes, &record, 0).unwrap())
        .collect()
}

/// The answer to the AAAA question, with these records.
fn six(rcode: Rcode, rows: &[(Section, &str, Type, u32, &str)]) -> Message {
    answer(NAME, Type::AAAA, rcode, rows).message
}

fn no_data(ttl: u32) -> Message {
    let soa = (Section::Authority, "example", Type::SOA, ttl, "900");
    six(Rcode::NOERROR, &[soa])
}

fn four(rows: &[(Section, &str, Type, u32, &str)]) -> Message {
    answer(NAME, Type::A, Rcode::NOERROR, rows).message
}

fn made(dns64: &Dns64, denial: Option<&Message>, answer: &Message) -> Option<Vec<String>> {
    let question = question(NAME, Type::AAAA);
    let made = dns64.synthesize(&question, denial, answer, false)?;
    assert_eq!(made.question(), question);
    Some(lines(&made))
}

#[test]
fn an_answer_without_a_record_that_counts_is_replaced() {
    use Section::Answer as In;
    let mapped = (In, NAME, Type::AAAA, 60, "::ffff:192.0.2.1");
    let native = (In, NAME, Type::AAAA, 60, "2001:db8::1");
    let alias = (In, NAME, Type::CNAME, 60, "x.example");
    for (message, is_replaced, is_mixed) in [
        (no_data(60), true, false),
        (six(Rcode::NOERROR, &[]), true, false),
        (six(Rcode::NOERROR, &[alias]), true, false),
        (six(Rcode::NOERROR, &[mapped]), true, false),
        (six(Rcode::NOERROR, &[native]), false, false),
        (six(Rcode::NOERROR, &[mapped, native]), false, true),
        (six(Rcode::NXDOMAIN, &[]), false, false),
    ] {
        let dns64 = dns64();
        let said = (
            dns64.wants_addresses(&message, false),
            dns64.is_mixed(&message),
        );
        assert_eq!(said, (is_replaced, is_mixed), "{:?}", lines(&message));
    }
    let mixed = six(Rcode::NOERROR, &[mapped, native]);
    let clean = dns64().without_excluded(&mixed).unwrap();
    assert_eq!(lines(&clean), ["www.example. 60 IN AAAA 2001:db8::1"]);
}

#[test]
fn records_are_made_with_every_prefix_and_the_lesser_ttl() {
    use Section::Answer as In;
    let rows = [
        (In, NAME, Type::CNAME, 30, "x.example"),
        (In, "x.example", Type::A, 1000, "192.0.2.1"),
        (In, "x.example", Type::A, 1000, "192.0.2.2"),
    ];
    let denial = no_data(120);
    assert_eq!(
        made(&dns64(), Some(&denial), &four(&rows)).unwrap(),
        [
            "www.example. 30 IN CNAME x.example.",
            "x.example. 120 IN AAAA 2001:db8:64::c000:201",
            "x.example. 120 IN AAAA 2001:db8:64::c000:202",
        ]
    );
    // Without a SOA record in the denial, ten minutes.
    let without = made(&dns64(), None, &four(&rows)).unwrap();
    assert_eq!(without[1], "x.example. 600 IN AAAA 2001:db8:64::c000:201");
    let two = Dns64 {
        prefixes: vec![Prefix::WELL_KNOWN, "2001:db8::/32".parse().unwrap()],
        ..dns64()
    };
    let row = (In, NAME, Type::A, 60, "8.8.4.4");
    assert_eq!(
        made(&two, None, &four(&[row])).unwrap(),
        [
            "www.example. 60 IN AAAA 64:ff9b::808:404",
            "www.example. 60 IN AAAA 2001:db8:808:404::",
        ]
    );
}

#[test]
fn addresses_that_are_not_mapped_leave_the_denial() {
    use Section::Answer as In;
    let private = four(&[(In, NAME, Type::A, 60, "192.168.7.13")]);
    let well_known = Dns64 {
        prefixes: vec![Prefix::WELL_KNOWN],
        ..dns64()
    };
    assert_eq!(made(&well_known, None, &private), None);
    assert!(made(&dns64(), None, &private).is_some());
    for (mapped, is_made) in [("192.168.0.0/16", true), ("10.0.0.0/8", false)] {
        let chosen = Dns64 {
            mapped: Some(Cidrs::parse(mapped).unwrap()),
            ..well_known.clone()
        };
        assert_eq!(made(&chosen, None, &private).is_some(), is_made, "{mapped}");
    }
    let alias = four(&[(In, NAME, Type::CNAME, 60, "x.example")]);
    assert_eq!(made(&dns64(), None, &alias), None);
    let soa = (Section::Authority, "example", Type::SOA, 60, "60");
    let none = answer(NAME, Type::A, Rcode::NXDOMAIN, &[soa]).message;
    assert_eq!(made(&dns64(), None, &none), None);
}

#[test]
fn a_client_that_may_validate_gets_signed_answers_as_they_are() {
    let name = Name::parse(NAME).unwrap();
    // The type that is covered is all that counts here.
    let signature = [&[0, 28, 13, 2][..], &[0; 14], &[0], &[1; 64]].concat();
    let address = [192, 0, 2, 1];
    let row = |rtype, rdata| Row {
        section: Section::Answer,
        owner: &name,
        rtype,
        ttl: 60,
        rdata,
    };
    let signed = |qtype, rows: &[Row<'_>]| {
        Message::compose(&question(NAME, qtype), Rcode::NOERROR, rows).unwrap()
    };
    let denial = signed(Type::AAAA, &[row(Type::RRSIG, &signature)]);
    let found = signed(
        Type::A,
        &[row(Type::A, &address), row(Type::RRSIG, &signature)],
    );
    let dns64 = dns64();
    let asked = question(NAME, Type::AAAA);
    for (dnssec_ok, breaks, is_replaced) in [
        (false, false, true),
        (true, false, false),
        (true, true, true),
    ] {
        let dns64 = Dns64 {
            break_dnssec: breaks,
            ..dns64.clone()
        };
        assert_eq!(dns64.wants_addresses(&denial, dnssec_ok), is_replaced);
        let made = dns64.synthesize(&asked, Some(&denial), &found, dnssec_ok);
        assert_eq!(made.is_some(), is_replaced);
    }
    // Validated without signatures for the client: both are authentic, or it is not.
    let (denial, found) = (denial.with_ad(true), found.with_ad(true));
    let made = |denial, found| dns64.synthesize(&asked, denial, found, false).unwrap();
    assert!(made(Some(&denial), &found).flags().has(Flags::AD));
    assert!(!made(None, &found).flags().has(Flags::AD));
    let unsigned = found.clone().with_ad(false);
    assert!(!made(Some(&denial), &unsigned).flags().has(Flags::AD));
}

#[test]
fn a_reverse_name_below_the_prefix_leads_to_that_of_the_ipv4_address() {
    let dns64 = dns64();
    let of = |address: &str| {
        let address: Ipv6Addr = address.parse().unwrap();
        let mut text = String::new();
        for octet in address.octets().iter().rev() {
            text += &format!("{:x}.{:X}.", octet & 15, octet >> 4);
        }
        Name::parse(&(text + "ip6.ARPA.")).unwrap()
    };
    let (name, target) = (of("2001:db8:64::c000:201"), "1.2.0.192.in-addr.arpa.");
    assert_eq!(dns64.reverse(&name).unwrap().to_string(), target);
    let (first, led_to) = dns64
        .alias(&question(&name.to_string(), Type::PTR))
        .unwrap();
    assert_eq!(led_to.to_string(), target);
    let line = lines(&first)[0].to_ascii_lowercase();
    assert!(line.ends_with(&format!(" 600 in cname {target}")), "{line}");
    for other in [
        of("2001:db8:65::c000:201"),
        of("2001:db8:64:1::c000:201"),
        name.suffix(33),
        name.prepend(b"x").unwrap(),
        Name::parse("1.2.0.192.in-addr.arpa.").unwrap(),
    ] {
        assert_eq!(dns64.reverse(&other), None, "{other}");
    }
}

#[test]
fn the_name_that_shows_the_prefix_is_answered_here() {
    let dns64 = dns64();
    let ask = |name: &str, qtype| dns64.well_known(&question(name, qtype));
    let found = |name: &str, qtype| lines(&ask(name, qtype).unwrap());
    assert_eq!(
        found("ipv4only.arpa", Type::A),
        [
            "ipv4only.arpa. 86400 IN A 192.0.0.170",
            "ipv4only.arpa. 86400 IN A 192.0.0.171",
        ]
    );
    assert_eq!(
        found("ipv4only.arpa", Type::AAAA),
        [
            "ipv4only.arpa. 86400 IN AAAA 2001:db8:64::c000:aa",
            "ipv4only.arpa. 86400 IN AAAA 2001:db8:64::c000:ab",
        ]
    );
    assert_eq!(
        found("171.0.0.192.in-addr.arpa", Type::PTR),
        ["171.0.0.192.in-addr.arpa. 86400 IN PTR ipv4only.arpa."]
    );
    for (name, qtype, rcode) in [
        ("ipv4only.arpa", Type::MX, Rcode::NOERROR),
        ("170.0.0.192.in-addr.arpa", Type::A, Rcode::NOERROR),
        ("x.ipv4only.arpa", Type::A, Rcode::NXDOMAIN),
    ] {
        let denial = ask(name, qtype).unwrap();
        assert_eq!(denial.rcode(), rcode, "{name}");
        assert!(lines(&denial)[0].contains(" IN SOA "), "{name}");
    }
    for name in ["arpa", "xipv4only.arpa", "172.0.0.192.in-addr.arpa"] {
        assert_eq!(ask(name, Type::A), None, "{name}");
    }
    // The well-known prefix has the well-known addresses, though they are not public.
    let well_known = Dns64 {
        prefixes: vec![Prefix::WELL_KNOWN],
        ..dns64
    };
    let shown = well_known.well_known(&question("ipv4only.arpa", Type::AAAA));
    assert_eq!(
        lines(&shown.unwrap()),
        [
            "ipv4only.arpa. 86400 IN AAAA 64:ff9b::c000:aa",
            "ipv4only.arpa. 86400 IN AAAA 64:ff9b::c000:ab",
        ]
    );
}
