//! Every type both ways, the test vectors of the RFCs, and what has to be refused.

use super::*;

fn origin() -> Name {
    Name::parse("example.").unwrap()
}

fn read(rtype: &str, text: &str) -> Result<Vec<u8>, RdataError> {
    from_text(rtype.parse().unwrap_or(Type::NULL), text, &origin())
}

/// What a type's text comes back as after a trip through the wire form; and the wire form must
/// survive both its own text and the generic one.
#[track_caller]
fn check(rtype: &str, text: &str, expected: &str) {
    let code: Type = rtype.parse().unwrap();
    let wire = read(rtype, text).unwrap_or_else(|error| panic!("{rtype} {text}: {error}"));
    assert!(is_valid(code, &wire), "{rtype} {text}");
    let printed = display(code, &wire);
    assert_eq!(printed, expected, "{rtype} {text}");
    assert_eq!(read(rtype, &printed).unwrap(), wire, "{rtype} {printed}");
    let mut generic = format!(r"\# {} ", wire.len());
    base::push_hex(&wire, &mut generic);
    assert_eq!(read(rtype, &generic).unwrap(), wire, "{rtype} {generic}");
}

#[track_caller]
fn same(rtype: &str, text: &str) {
    check(rtype, text, text);
}

#[track_caller]
fn refused(rtype: &str, texts: &[&str]) {
    for text in texts {
        assert!(read(rtype, text).is_err(), "{rtype} {text}");
    }
}

#[test]
fn addresses() {
    same("A", "192.0.2.1");
    same("A", "0.0.0.0");
    refused(
        "A",
        &[
            "",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.1 x",
            "not.an.ip",
            "\"192.0.2.1\"",
            "1",
        ],
    );
    check("AAAA", "2001:DB8:0:0::1", "2001:db8::1");
    same("AAAA", "::ffff:192.0.2.1");
    same("AAAA", "::");
    refused(
        "AAAA",
        &[
            "",
            "2001:db8::1::",
            "2001:db8",
            "fe80::1%eth0",
            "12345::",
            "192.0.2.1",
        ],
    );
}

#[test]
fn names_are_relative_to_the_origin_and_print_absolute() {
    for rtype in ["NS", "CNAME", "DNAME", "PTR", "MB"] {
        check(rtype, "ns1", "ns1.example.");
        check(rtype, "@", "example.");
        same(rtype, ".");
        same(rtype, r"a\.b.\000\255.Test.");
        refused(rtype, &["", "a b", "a..b", ".a", "\"ns1\"", r"a\256b"]);
    }
    check("MX", "10 mail", "10 mail.example.");
    refused(
        "MX",
        &[
            "mail",
            "65536 mail",
            "-1 mail",
            "10",
            "10 mail x",
            "+1 mail",
        ],
    );
    same("AFSDB", "1 a.");
    same("KX", "2 a.");
    same("RT", "3 a.");
    same("LP", "10 l64-subnet1.example.com.");
    same("PX", "10 a. b.");
    same("RP", "mbox. txt.");
    same("MINFO", "a. b.");
    same("SRV", "0 5 5060 sip.example.");
    refused("SRV", &["0 5 sip.example.", "0 5 65536 a."]);
    same("TALINK", "a. b.");
}

#[test]
fn the_longest_names_fit_and_longer_ones_do_not() {
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
    same("NS", &long);
    refused(
        "NS",
        &[&format!("{label}.{label}.{label}.{}.", "a".repeat(62))],
    );
    refused("NS", &[&format!("a{label}.")]);
}

#[test]
fn soa_takes_binds_units() {
    check(
        "SOA",
        "ns1 postmaster 2014080704 3H 30M 2W 1W",
        "ns1.example. postmaster.example. 2014080704 10800 1800 1209600 604800",
    );
    refused(
        "SOA",
        &[
            "a. b. 1 2 3 4",
            "a. b. 4294967296 2 3 4 5",
            "a. b. 1 2 3 4 5 6",
            "a. b. 1h 2 3 4 5",
        ],
    );
}

#[test]
fn strings() {
    same("TXT", r#""a b" "c""#);
    check("TXT", "a b", r#""a" "b""#);
    same("TXT", r#""""#);
    check("TXT", r#""\065\;\000\255\"""#, r#""A;\000\255\"""#);
    check("TXT", "k=\"v w\"", r#""k=" "v w""#);
    check("TXT", "k=\"\"", r#""k=" """#);
    check(
        "TXT",
        &"x".repeat(600),
        &format!("\"{0}\" \"{0}\" \"{1}\"", "x".repeat(255), "x".repeat(90)),
    );
    refused("TXT", &["", r#""a"#, r"\999", "a \\"]);
    same("SPF", r#""v=spf1 -all""#);
    same("HINFO", r#""PC Intel" "NT""#);
    refused("HINFO", &["a", "a b c", &format!("a {}", "b".repeat(256))]);
    same("X25", r#""311061700956""#);
    same("ISDN", r#""150862028003217" "004""#);
    same("ISDN", r#""150862028003217""#);
    same("GPOS", r#""-32.6882" "116.8652" "10.0""#);
    same(
        "NAPTR",
        r#"100 50 "s" "http+I2L+I2C+I2R" "" _http._tcp.gatech.edu."#,
    );
    same(
        "NAPTR",
        r#"100 10 "U" "E2U+sip" "!^.*$!sip:info@example.com!" ."#,
    );
    same(
        "CAA",
        r#"0 issue "letsencrypt.org; validationmethods=dns-01""#,
    );
    check("CAA", "128 tbs Unknown", r#"128 tbs "Unknown""#);
    same("CAA", r#"0 issue """#);
    refused(
        "CAA",
        &["256 issue x", "0 \"issue\" x", "0 is-sue x", "0 issue"],
    );
    same("URI", r#"10 1 "ftp://ftp1.example.com/public""#);
    same("LUA", r#"A "ifportup(443, {'192.0.2.1'})" "x""#);
}

#[test]
fn dnssec() {
    let key =
        "AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10h";
    same("DNSKEY", &format!("256 3 5 {key}"));
    let (head, tail) = key.split_at(40);
    check(
        "DNSKEY",
        &format!("257 3 RSASHA256 {head} {tail}"),
        &format!("257 3 8 {key}"),
    );
    refused(
        "DNSKEY",
        &[
            "256 3 5",
            "256 3 NOSUCH AQPS",
            "256 3 5 A",
            "256 3 5 \"AQPS\"",
        ],
    );
    same("CDNSKEY", "0 3 0 AA==");
    same("KEY", "49152 3 5");
    let digest = "2BB183AF5F22588179A53B0A98631FAD1A292118";
    same("DS", &format!("60485 5 1 {digest}"));
    let (head, tail) = digest.split_at(10);
    let spread = format!("60485 RSASHA1 1 {head} {}", tail.to_lowercase());
    check("DS", &spread, &format!("60485 5 1 {digest}"));
    same("CDS", "0 0 0 00");
    same("DLV", &format!("60485 5 1 {digest}"));
    refused("DS", &["60485 5 1", "60485 5 1 0", "60485 5 1 zz"]);
    check(
        "RRSIG",
        "A 5 3 1d 20030322173103 20030220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr",
        "A 5 3 86400 20030322173103 20030220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr",
    );
    same("NSEC", "host.example.com. A MX RRSIG NSEC TYPE1234");
    check("NSEC", "a. nsec a TYPE1 CAA ANY", "a. A NSEC ANY CAA");
    same("NSEC", "a.");
    refused("NSEC", &["", "a. NOSUCH", "a. \"A\""]);
    same(
        "NSEC3",
        "1 1 12 AABBCCDD 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR NS SOA MX RRSIG NSEC3PARAM",
    );
    same("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR");
    refused("NSEC3", &["1 0 0 - -", "1 0 0 A 2T7B4G4V", "1 0 0 - W"]);
    same("NSEC3PARAM", "1 0 12 AABBCCDD");
    same("NSEC3PARAM", "1 0 0 -");
    same("CSYNC", "66 3 A NS AAAA");
    same(
        "ZONEMD",
        &format!("2018031500 1 1 {}", "FEBE3D4C".repeat(12)),
    );
    same("DSYNC", "CDS 1 5359 cds-scanner.example.net.");
}

#[test]
fn the_wire_form_of_nsec_is_that_of_rfc_4034() {
    // RFC 4034 §4.3.
    let wire = read("NSEC", "host.example.com. A MX RRSIG NSEC TYPE1234").unwrap();
    let mut expected = b"\x04host\x07example\x03com\x00".to_vec();
    expected.extend([0, 6, 0x40, 0x01, 0, 0, 0, 0x03, 4, 0x1b]);
    expected.extend([0; 26]);
    expected.push(0x20);
    assert_eq!(wire, expected);
}

#[test]
fn certificates_and_fingerprints() {
    same("SSHFP", "2 1 123456789ABCDEF67890123456789ABCDEF67890");
    check(
        "TLSA",
        "3 1 1 d2abde240d7cd3ee 6b4b28c54df034b9",
        "3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B9",
    );
    same("SMIMEA", "3 0 0 AA");
    check("CERT", "PKIX 1 RSASHA1 AQPS", "1 1 5 AQPS");
    same("CERT", "65534 65535 254 MxFcby9k");
    same("OPENPGPKEY", "mQENBA==");
    same("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=");
    refused("SSHFP", &["2 1", "2 1 0", "2 \"1\" 00"]);
    refused("CERT", &["NOSUCH 1 1 AQPS"]);
    refused("OPENPGPKEY", &["", "="]);
}

#[test]
fn identifiers() {
    same("EUI48", "00-00-5e-00-53-2a");
    same("EUI64", "00-00-5e-ef-10-00-00-2a");
    refused(
        "EUI48",
        &[
            "00-00-5e-00-53",
            "0-00-5e-00-53-2a",
            "00:00:5e:00:53:2a",
            "+0-00-5e-00-53-2a",
        ],
    );
    same("NID", "10 0014:4fff:ff20:ee64");
    check("L64", "10 2001:db8:1140:1000", "10 2001:0db8:1140:1000");
    refused(
        "NID",
        &["10 0014:4fff:ff20", "10 0014:4fff:ff20:ee64:0", "10 :::"],
    );
    same("L32", "10 10.1.2.0");
    check("NSAP", "0x47.0005.80.005a00.0000", "0x47000580005A000000");
    refused("NSAP", &["47.0005", "0x", "0x4"]);
    same("APL", "1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8");
    same("APL", "");
    refused(
        "APL",
        &[
            "1:192.168.32.0",
            "1:192.168.32.0/33",
            "3:192.168.32.0/8",
            "!",
            "1:/8",
        ],
    );
}

#[test]
fn the_host_bits_of_a_prefix_are_kept() {
    assert_eq!(
        read("APL", "1:192.0.2.0/24").unwrap(),
        [0, 1, 24, 3, 192, 0, 2]
    );
    assert_eq!(read("APL", "!2:::/0").unwrap(), [0, 2, 0, 0x80]);
}

#[test]
fn gateways() {
    same(
        "IPSECKEY",
        "10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==",
    );
    same("IPSECKEY", "10 0 2 . AQNRU3mG");
    same("IPSECKEY", "10 2 2 2001:db8::1 AQNRU3mG");
    same("IPSECKEY", "10 3 0 gw.example.");
    refused(
        "IPSECKEY",
        &["10 4 2 . AQ==", "10 0 2 x AQ==", "10 1 2 2001:db8::1"],
    );
    same("AMTRELAY", "10 0 1 203.0.113.15");
    same("AMTRELAY", "128 1 3 amtrelays.example.com.");
    same("AMTRELAY", "0 0 0 .");
    refused("AMTRELAY", &["10 2 1 203.0.113.15", "10 0 4 ."]);
    same(
        "HIP",
        "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc rvs1.example. rvs2.example.",
    );
    same("HIP", "2 20 AwEA");
    refused("HIP", &["2 20", "2 2 AwEA", "2 20 Aw"]);
}

#[test]
fn places() {
    same(
        "LOC",
        "42 21 54.000 N 71 6 18.000 W -24.00m 30.00m 10000.00m 10.00m",
    );
    check(
        "LOC",
        "42 21 43.952 N 71 5 6.344 W -24m 1m 200m",
        "42 21 43.952 N 71 5 6.344 W -24.00m 1.00m 200.00m 10.00m",
    );
    check(
        "LOC",
        "52 14 05 N 00 08 50 E 10m",
        "52 14 5.000 N 0 8 50.000 E 10.00m 1.00m 10000.00m 10.00m",
    );
    check(
        "LOC",
        "32 7 S 116 2 E 10",
        "32 7 0.000 S 116 2 0.000 E 10.00m 1.00m 10000.00m 10.00m",
    );
    check(
        "LOC",
        "90 s 180 w -100000 90000000m 0 0.09",
        "90 0 0.000 S 180 0 0.000 W -100000.00m 90000000.00m 0.00m 0.09m",
    );
}

#[test]
fn places_off_the_globe_are_refused() {
    refused(
        "LOC",
        &[
            "91 N 0 E 0",
            "90 0 0.001 N 0 E 0",
            "0 60 N 0 E 0",
            "0 0 60 N 0 E 0",
            "0 N 181 E 0",
            "0 N 0 N 0",
            "0 N 0 E",
            "0 N 0 E x",
            "0 N 0 E -100000.01",
            "0 N 0 E 0 90000000000000",
            "0 0 0.0001 N 0 E 0",
            "0 0 0 0 N 0 E 0",
            "0 N 0 E 0 1 1 1 1",
            "0 N 0 E 0 -1",
            "4294967295 N 0 E 0",
        ],
    );
}

#[test]
fn service_parameters_of_rfc_9460_appendix_d() {
    same("HTTPS", "0 foo.example.com.");
    same("SVCB", "1 .");
    same("SVCB", "16 foo.example.com. port=53");
    check(
        "SVCB",
        "1 foo.example.com. key667=hello",
        r#"1 foo.example.com. key667="hello""#,
    );
    same("SVCB", r#"1 foo.example.com. key667="hello\210qoo""#);
    same(
        "SVCB",
        "1 foo.example.com. ipv6hint=2001:db8::1,2001:db8::53:1",
    );
    check(
        "SVCB",
        "1 example.com. ipv6hint=\"2001:db8:122:344::192.0.2.33\"",
        "1 example.com. ipv6hint=2001:db8:122:344::c000:221",
    );
    check(
        "SVCB",
        "16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1",
        r#"16 foo.example.org. mandatory=alpn,ipv4hint alpn="h2,h3-19" ipv4hint=192.0.2.1"#,
    );
    let escaped = read("SVCB", r#"16 foo.example.org. alpn="f\\\\oo\\,bar,h2""#).unwrap();
    assert_eq!(
        escaped,
        read("SVCB", r"16 foo.example.org. alpn=f\\\092oo\092,bar,h2").unwrap()
    );
    assert!(escaped.ends_with(b"\x00\x01\x00\x0c\x08f\\oo,bar\x02h2"));
    same(
        "HTTPS",
        r#"1 . alpn="h3" no-default-alpn ech=AEj+DQ== key9="\001""#,
    );
    same("HTTPS", r#"1 . dohpath="/dns-query{?dns}" ohttp"#);
    check("SVCB", r"1 . key3=\000\053", "1 . port=53");
    check("SVCB", "1 . key4000 key4001=", "1 . key4000 key4001");
}

#[test]
fn service_parameters_that_rfc_9460_forbids_are_refused() {
    refused(
        "SVCB",
        &[
            "1 foo.example.com. key123=abc key123=def",
            "1 foo.example.com. mandatory",
            "1 foo.example.com. alpn",
            "1 foo.example.com. port",
            "1 foo.example.com. ipv4hint",
            "1 foo.example.com. ipv6hint",
            "1 foo.example.com. no-default-alpn=abc",
            "1 foo.example.com. mandatory=key123",
            "1 foo.example.com. mandatory=mandatory",
            "1 foo.example.com. mandatory=key123,key123 key123=abc",
            "1 . key65535=x",
            "1 . key65536=x",
            "1 . key01=x",
            "1 . nosuch=x",
            "1 . Port=1",
            "1 . port=65536",
            "1 . alpn=a,,b",
            "1 . \"alpn=h2\"",
            "1 . ipv4hint=1.2.3",
            "1 . ech=",
            "1",
            "1 . key3=x",
            r"1 . dohpath=\255",
            r#"1 . alpn="h2"#,
        ],
    );
}

#[test]
fn the_generic_form_serves_every_type() {
    for code in [0, 1, 61, 731, 65_280, 65_535] {
        let wire = parse(Type(code), &tokens(br"\# 4 0A00 0001").unwrap(), &origin());
        assert_eq!(wire.unwrap(), [10, 0, 0, 1]);
    }
    assert_eq!(display(Type(731), &[0xab, 0xcd]), r"\# 2 ABCD");
    assert_eq!(display(Type(731), &[]), r"\# 0");
    assert_eq!(read("TYPE731", r"\# 0").unwrap(), []);
    assert_eq!(read("NULL", r"\# 1 00").unwrap(), [0]);
    refused(
        "TYPE731",
        &[
            r"\# 1",
            r"\# 1 0",
            r"\# 1 0000",
            r"\#",
            r"\# x",
            "abc",
            "",
            r#""\#" 0"#,
        ],
    );
    refused("A", &[r"\# 3 0A0000", r"\# 5 0A00000000"]);
    refused("NS", &[r"\# 2 C00C", r"\# 3 016100 00"]);
}

#[test]
fn what_is_no_data_of_its_type_prints_in_the_generic_form() {
    for (rtype, wire) in [
        (Type::A, &[1, 2, 3][..]),
        (Type::NS, &[0xc0, 0x0c]),
        (Type::TXT, &[]),
        (Type::TXT, &[5, b'a']),
        (Type::SOA, &[0, 0]),
        (Type::NSEC, &[0, 0, 0]),
        (Type::NSEC, &[0, 1, 1, 1, 0, 1, 1]),
        (Type::LOC, &[0; 15]),
        (Type::SVCB, &[0, 1, 0, 0, 3, 0, 1, 1]),
        (Type::APL, &[0, 1, 24, 4, 192, 0, 2, 0]),
    ] {
        assert!(!is_valid(rtype, wire), "{rtype}");
        assert!(display(rtype, wire).starts_with(r"\# "), "{rtype}");
    }
}

#[test]
fn errors_point_at_the_word() {
    let at = |rtype: &str, text: &str| {
        let error = read(rtype, text).unwrap_err();
        (error.token, error.to_string())
    };
    let expect = |token: usize, message: &str| (token, message.to_owned());
    assert_eq!(
        at("A", "not.an.ip"),
        expect(0, "`not.an.ip` is no IPv4 address")
    );
    assert_eq!(at("A", ""), expect(0, "an IPv4 address is missing"));
    assert_eq!(at("MX", "10"), expect(1, "a domain name is missing"));
    assert_eq!(at("MX", "10 a. b"), expect(2, "`b` is one word too many"));
    assert_eq!(
        at("SRV", "0 5 99999 a."),
        expect(2, "`99999` is no number from 0 to 65535")
    );
    assert_eq!(at("TXT", r"a \300 c").0, 1);
    assert_eq!(
        at("DS", "1 5 1 aa bb c"),
        expect(5, "an odd number of hexadecimal digits")
    );
    assert_eq!(
        at("A", r"\# 3 00"),
        expect(1, "3 octets announced, 1 given")
    );
    assert_eq!(at("SOA", "a. b. 1 2 3x 4 5").0, 4);
}

#[test]
fn garbage_never_panics() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let alphabet = b"019afAZ.\\\"=-:/,# @$;\0\xff\t!xNSEWm";
    for round in 0..200_000_u32 {
        let rtype = Type(u16::try_from(random() % 264).unwrap());
        let length = usize::try_from(random() % 24).unwrap();
        let octets: Vec<u8> = (0..length).map(|_| random().to_be_bytes()[0]).collect();
        let printed = display(rtype, &octets);
        let back = from_text(rtype, &printed, &origin());
        if fields(rtype).is_some() && is_valid(rtype, &octets) {
            assert_eq!(
                back.as_deref(),
                Ok(&octets[..]),
                "round {round}: {rtype} {printed}"
            );
        }
        let line: Vec<u8> = octets
            .iter()
            .map(|o| alphabet[usize::from(*o) % alphabet.len()])
            .collect();
        let Ok(words) = tokens(&line) else { continue };
        if let Ok(wire) = parse(rtype, &words, &origin()) {
            assert!(
                is_valid(rtype, &wire),
                "{rtype} {}",
                String::from_utf8_lossy(&line)
            );
        }
    }
}
