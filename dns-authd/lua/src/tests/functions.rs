//! Every function of `PowerDNS` but those of health, one by one.

use super::*;

/// Runs a program for a client at 192.0.2.77 that asks for the record's own name.
fn run(owner: &str, qname: &str, code: &str) -> Result<Vec<String>, LuaError> {
    ask(
        &snippet(owner, Type::TXT, code),
        &client("192.0.2.77", qname),
    )
}

fn check(cases: &[(&str, &[&str])]) {
    for (code, expected) in cases {
        let result = run("a", "a.example.org", code);
        assert_eq!(result, Ok(owned(expected)), "{code}");
    }
}

fn check_errors(cases: &[(&str, &str)]) {
    for (code, part) in cases {
        match run("a", "a.example.org", code) {
            Err(LuaError::Program(message)) => {
                assert!(message.contains(part), "{code}: {message}");
            }
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[test]
fn picks_refuse_what_is_no_list() {
    for name in [
        "all",
        "pickrandom",
        "pickhashed",
        "pickclosest",
        "pickwrandom",
        "pickwhashed",
        "picknamehashed",
        "pickchashed",
    ] {
        check_errors(&[
            (&format!("{name}()"), "must be a list, not nil"),
            (
                &format!("{name}('192.0.2.1')"),
                "must be a list, not `192.0.2.1`",
            ),
            (&format!("{name}({{}})"), "the list is empty"),
            (&format!("{name}({{a = 'b'}})"), "has the key `a`"),
        ]);
    }
    check_errors(&[
        ("pickrandomsample()", "must be a whole number, not nil"),
        ("pickrandomsample(2)", "must be a list, not nil"),
        ("pickrandomsample(2, {})", "the list is empty"),
        (
            "pickrandomsample('x', {'a'})",
            "must be a whole number, not `x`",
        ),
        ("pickrandom({{'a'}})", "must hold strings, not table"),
        ("pickrandom({true})", "must hold strings, not boolean"),
    ]);
}

#[test]
fn weights_must_be_whole_and_above_zero() {
    for name in [
        "pickwrandom",
        "pickwhashed",
        "picknamehashed",
        "pickchashed",
    ] {
        for (weight, shown) in [
            ("0", "`0`"),
            ("-1", "`-1`"),
            ("1.5", "`1.5`"),
            ("'x'", "`x`"),
            ("''", "``"),
            ("2^32", "`4294967296`"),
            ("nil", "nil"),
            ("true", "boolean"),
            ("0/0", "`NaN`"),
        ] {
            let code = format!("{name}({{{{{weight}, 'a'}}}})");
            let part = format!("a weight must be a whole number above 0, not {shown}");
            check_errors(&[(&code, &part)]);
        }
        check_errors(&[
            (
                &format!("{name}({{{{1}}}})"),
                "a weight needs a string beside it, not nil",
            ),
            (
                &format!("{name}({{{{1, {{}}}}}})"),
                "a weight needs a string beside it, not table",
            ),
            (
                &format!("{name}({{'a'}})"),
                "must hold {weight, value}, not `a`",
            ),
        ]);
        for weight in ["1", "'1'", "' 1 '", "1.0", "2^31"] {
            if name == "pickchashed" && weight == "2^31" {
                continue;
            }
            check(&[(&format!("{name}({{{{{weight}, 'a'}}}})"), &["a"])]);
        }
    }
    check_errors(&[(
        "pickchashed({{65537, 'a'}})",
        "weights sum to more than 65536",
    )]);
}

#[test]
fn samples_have_as_many_answers_as_asked_for() {
    for (n, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3), (-1, 3)] {
        let code = format!("pickrandomsample({n}, {{'a', 'b', 'c'}})");
        let mut answers = run("a", "a.example.org", &code).unwrap();
        assert_eq!(answers.len(), expected, "{n}");
        answers.sort();
        answers.dedup();
        assert_eq!(answers.len(), expected, "{n}");
    }
}

#[test]
fn all_keeps_the_order_written() {
    check(&[
        ("all({'b', 'a', 'b'})", &["b", "a", "b"]),
        ("all({1, 2.0})", &["1", "2"]),
    ]);
}

#[test]
fn the_client_is_seen_as_powerdns_shows_it() {
    check(&[
        ("who:toString()", &["192.0.2.77"]),
        ("who:toStringWithPort()", &["192.0.2.77:4711"]),
        ("who:getPort()", &["4711"]),
        ("bestwho:toString()", &["192.0.2.77"]),
        ("tostring(ecswho)", &["nil"]),
        ("localwho:toStringWithPort()", &["127.0.0.1:53"]),
        ("tostring(tcp)", &["false"]),
        ("tostring(dnssecOK)", &["false"]),
        ("ednsPKTSize", &["1232"]),
        ("tostring(dh:getRD())", &["false"]),
        ("dh:getQDCOUNT()", &["1"]),
        ("qname:toString()", &["a.example.org."]),
        ("zone:toStringNoDot()", &["example.org"]),
        ("type(zoneid)", &["number"]),
        (";who:truncate(24) return who:toString()", &["192.0.2.0"]),
    ]);
    let subnet = Client {
        subnet: "198.51.100.9/24".parse().ok(),
        tcp: true,
        dnssec_ok: true,
        payload_size: None,
        header: [0x12, 0x34, 0x01, 0x10, 0, 1, 0, 2, 0, 3, 0, 4],
        ..client("2001:db8::1", "a.example.org")
    };
    for (code, expected) in [
        ("who:toStringWithPort()", "[2001:db8::1]:4711"),
        ("bestwho:toString()", "198.51.100.0"),
        ("ecswho:toString()", "198.51.100.0/24"),
        ("ecswho:getMaskedNetwork():toString()", "198.51.100.0"),
        (
            "tostring(tcp) .. tostring(dnssecOK) .. ednsPKTSize",
            "truetrue-1",
        ),
        ("dh:getID()", "4660"),
        (
            "tostring(dh:getRD()) .. tostring(dh:getCD()) .. tostring(dh:getAD())",
            "truetruefalse",
        ),
        (
            "dh:getANCOUNT() .. dh:getNSCOUNT() .. dh:getARCOUNT()",
            "234",
        ),
        (
            "tostring(dh:getTC()) .. tostring(dh:getRA()) .. tostring(dh:getAA())",
            "falsefalsefalse",
        ),
        ("dh:getRCODE() .. dh:getOPCODE()", "00"),
    ] {
        let answers = ask(&snippet("a", Type::TXT, code), &subnet);
        assert_eq!(answers, Ok(owned(&[expected])), "{code}");
    }
}

#[test]
fn netmask_and_view_judge_the_client() {
    check(&[
        ("tostring(netmask({'192.0.2.0/24'}))", &["true"]),
        ("tostring(netmask({'192.0.2.77'}))", &["true"]),
        ("tostring(netmask({'192.0.2.9/24'}))", &["true"]),
        ("tostring(netmask({'10.0.0.0/8', '::/0'}))", &["false"]),
        ("tostring(netmask({}))", &["false"]),
        (
            "view({{{'10.0.0.0/8'}, {'a'}}, {{'192.0.0.0/8', '::/0'}, {'b'}}, {{'0.0.0.0/0'}, {'c'}}})",
            &["b"],
        ),
        ("view({{{'10.0.0.0/8'}, {'a'}}})", &[""]),
        ("view({})", &[""]),
    ]);
    check_errors(&[
        (
            "tostring(netmask({'192.0.2.0/33'}))",
            "`192.0.2.0/33` is no network",
        ),
        ("netmask('192.0.2.0/24')", "must be a list"),
        ("view()", "must be a list, not nil"),
        (
            "view({{{'0.0.0.0/0'}}})",
            "a list of networks and a list of answers",
        ),
        ("view({{{'0.0.0.0/0'}, {}}})", "a rule without answers"),
        (
            "view({{'0.0.0.0/0', 'a'}})",
            "must be a list, not `0.0.0.0/0`",
        ),
        ("view({{{'x'}, {'a'}}})", "`x` is no network"),
    ]);
    // No data of most types is empty, so a view without a match gives SERVFAIL as in PowerDNS.
    assert!(rdata(Type::A, "").is_err());
    assert!(rdata(Type::TXT, "").is_ok());
}

#[test]
fn without_a_database_every_client_is_nowhere() {
    check(&[
        ("tostring(country('NL'))", &["false"]),
        ("tostring(country({'NL', 'BE'}))", &["false"]),
        ("tostring(continent('EU'))", &["false"]),
        ("tostring(region('CA'))", &["false"]),
        ("tostring(asnum(4242))", &["false"]),
        (
            "countryCode() .. continentCode() .. regionCode()",
            &["------"],
        ),
        ("latlon()", &["0.000000 0.000000"]),
        (
            "latlonloc()",
            &["0 0 -0 S 0 0 -0 W 0.00m 1.00m 10000.00m 10.00m"],
        ),
        (
            "geoiplookup('192.0.2.1', GeoIPQueryAttribute.City)",
            &["unknown"],
        ),
        ("pickclosest({'a'})", &["a"]),
        (
            "string.format('%d %d %d %d %d %d %d', GeoIPQueryAttribute.ASn, GeoIPQueryAttribute.City, \
          GeoIPQueryAttribute.Continent, GeoIPQueryAttribute.Country, GeoIPQueryAttribute.Country2, \
          GeoIPQueryAttribute.Name, GeoIPQueryAttribute.Region, GeoIPQueryAttribute.Location)",
            &["0 1 2 3 4 5 6"],
        ),
    ]);
    let evaluation = evaluator().evaluate(
        &snippet("a", Type::TXT, "countryCode()"),
        &Board::default().view(),
    );
    assert_eq!(evaluation.outcome, fixed(&["--"]));
    assert_eq!(evaluation.notes[0].severity, Severity::Warning);
}

#[test]
fn magic_names_carry_their_addresses() {
    let of = |qname: &str, code: &str| run("*.magic", &format!("{qname}.magic.example.org"), code);
    for seed in 0..8 {
        let snippet = snippet("*.magic", Type::A, "closestMagic()");
        let client = client("192.0.2.77", "1-1-1-3.17-1-2-4.x.1-2-3-5.magic.example.org");
        let view = Board::default().view();
        let answer = evaluator()
            .answer_for(&snippet, &view, &client, seed)
            .unwrap();
        assert!(["1.1.1.3", "17.1.2.4"].contains(&answer.values[0].as_str()));
    }
    assert!(of("failure", "closestMagic()").is_err());
    assert_eq!(
        of("1.2.3.4", "latlonMagic()"),
        Ok(owned(&["0.000000 0.000000"]))
    );
    assert_eq!(run("a", "a", "latlonMagic()"), Ok(owned(&["unknown"])));
}

#[test]
fn addresses_are_made_and_taken_apart() {
    check(&[
        ("newCA('192.0.2.1'):toString()", &["192.0.2.1"]),
        ("newCA('192.0.2.1:53'):getPort()", &["53"]),
        (
            "newCA('[2001:DB8::1]:53'):toStringWithPort()",
            &["[2001:db8::1]:53"],
        ),
        ("tostring(newCA('2001:db8:0::1'))", &["2001:db8::1"]),
        (
            "tostring(newCA('::1'):isIPv6()) .. tostring(newCA('::1'):isIPv4())",
            &["truefalse"],
        ),
        (
            "newCA('::ffff:192.0.2.1'):mapToIPv4():toString()",
            &["192.0.2.1"],
        ),
        (
            "tostring(newCA('::ffff:192.0.2.1'):isMappedIPv4())",
            &["true"],
        ),
        ("tostring(newCA('::1'):isMappedIPv4())", &["false"]),
        ("newCA('65.66.67.68'):getRaw()", &["ABCD"]),
        ("newCAFromRaw('ABCD'):toString()", &["65.66.67.68"]),
        (
            "newCAFromRaw('ABCD020340506070'):toString()",
            &["4142:4344:3032:3033:3430:3530:3630:3730"],
        ),
        (
            "newCAFromRaw('ABCD', 53):toStringWithPort()",
            &["65.66.67.68:53"],
        ),
        (
            "tostring(newCA('192.0.2.1') == newCA('192.0.2.1'))",
            &["true"],
        ),
        (
            "tostring(newCA('192.0.2.1:1'):equal(newCA('192.0.2.1:2')))",
            &["true"],
        ),
        (
            ";local a = newCA('2001:db8:ffff::1') a:truncate(36) return a:toString()",
            &["2001:db8:f000::"],
        ),
        (
            ";local a = newCA('192.0.2.1') a:truncate(0) return a:toString()",
            &["0.0.0.0"],
        ),
        (
            ";local a = newCA('192.0.2.1') a:truncate(99) return a:toString()",
            &["192.0.2.1"],
        ),
        (
            ";local s = newCAS() s:add('192.0.2.1') s:add(newCA('192.0.2.2')) s:add({'192.0.2.3'}) \
          return tostring(s:check(newCA('192.0.2.3'))) .. tostring(s:check(newCA('192.0.2.4')))",
            &["truefalse"],
        ),
    ]);
    check_errors(&[
        ("newCA('here')", "`here` is no address"),
        ("newCA('::1'):mapToIPv4()", "maps no IPv4 address"),
        ("newCAFromRaw('ABC')", "takes 4 or 16 octets, not 3"),
    ]);
}

#[test]
fn names_are_made_and_taken_apart() {
    check(&[
        ("newDN('www.example.com'):toString()", &["www.example.com."]),
        (
            "newDN('www.example.com.'):toStringNoDot()",
            &["www.example.com"],
        ),
        ("tostring(newDN('.'))", &["."]),
        ("tostring(newDN(''))", &["."]),
        ("newDN('www.example.com'):countLabels()", &["3"]),
        ("newDN('www.example.com'):wireLength()", &["17"]),
        ("newDN('www.example.com'):wirelength()", &["17"]),
        (
            "tostring(newDN('WWW.example.com'):isPartOf(newDN('Example.com')))",
            &["true"],
        ),
        (
            "tostring(newDN('example.com'):isPartOf(newDN('www.example.com')))",
            &["false"],
        ),
        (
            "newDN('bb.a.example.com'):makeRelative(newDN('example.com')):toString()",
            &["bb.a."],
        ),
        (
            "table.concat(newDN('b\\\\.b.a'):getRawLabels(), '|')",
            &["b.b|a"],
        ),
        (
            ";local n = newDN('a.b') local r = {} repeat r[#r + 1] = n:toString() until not n:chopOff() return table.concat(r)",
            &["a.b.b.."],
        ),
        ("tostring(newDN('A.b') == newDN('a.B'))", &["true"]),
        ("tostring(newDN('a.b'):equal('A.B.'))", &["true"]),
        ("tostring(newDN('a.b') < newDN('b.b'))", &["true"]),
        (
            "tostring(newDN('z.a'):canonCompare(newDN('a.b')))",
            &["true"],
        ),
        ("tostring(qname == newDN('a.example.org'))", &["true"]),
    ]);
    check_errors(&[("newDN('a..b')", "`a..b` is no name")]);
}

#[test]
fn networks_are_made_and_matched() {
    check(&[
        ("tostring(newNetmask('192.0.2.1/24'))", &["192.0.2.0/24"]),
        (
            "newNetmask('192.0.2.1/24'):getNetwork():toString()",
            &["192.0.2.0"],
        ),
        (
            "newNetmask('192.0.2.1/24'):getMaskedNetwork():toString()",
            &["192.0.2.0"],
        ),
        ("newNetmask('192.0.2.1'):getBits()", &["32"]),
        (
            "tostring(newNetmask('192.0.2.1/24'):match('192.0.2.8'))",
            &["true"],
        ),
        ("tostring(newNetmask('192.0.2.1/24'):match(who))", &["true"]),
        (
            "tostring(newNetmask('::/0'):isIPv4()) .. tostring(newNetmask('::/0'):isIpv6())",
            &["falsetrue"],
        ),
        ("tostring(newNetmask('::/0'):empty())", &["false"]),
        ("tostring(newNMG({'192.0.2.0/24'}):match(who))", &["true"]),
        ("tostring(newNMG():match(who))", &["false"]),
        (
            ";local g = newNMG() g:addMask('192.0.0.0/8') g:addMasks({'!192.0.2.0/24', '192.0.2.77'}) \
          return tostring(g:match(who)) .. tostring(g:match(newCA('192.0.2.1'))) .. tostring(g:match(newCA('192.9.9.9')))",
            &["truefalsetrue"],
        ),
    ]);
    check_errors(&[
        ("newNetmask('x')", "`x` is no network"),
        ("newNMG({'x'})", "`x` is no network"),
    ]);
}

#[test]
fn constants_have_their_numbers() {
    check(&[
        ("pdns.A", &["1"]),
        ("pdns.HTTPS", &["65"]),
        ("pdns.NXDOMAIN", &["3"]),
        ("pdns.loglevels.Warning", &["4"]),
        ("tostring(pdns.NOSUCHTYPE)", &["nil"]),
        (";local a, b = unpack({'x', 'y'}) return a .. b", &["xy"]),
        ("_VERSION", &["Lua 5.4"]),
    ]);
}

#[test]
fn what_programs_say_is_handed_back() {
    let code = ";pdnslog('hm') pdnslog('no', pdns.loglevels.Error) print('a', 1, nil) return 'x'";
    let record = snippet("a", Type::TXT, code);
    let evaluation = evaluator().evaluate(&record, &Board::default().view());
    let notes: Vec<(Severity, &str)> = evaluation
        .notes
        .iter()
        .map(|note| (note.severity, note.message.as_str()))
        .collect();
    let expected = [
        (Severity::Warning, "hm"),
        (Severity::Error, "no"),
        (Severity::Info, "a\t1\tnil"),
    ];
    assert_eq!(notes, expected);
    let chatty = snippet("a", Type::TXT, ";for i = 1, 200 do print(i) end return 'x'");
    let evaluation = evaluator().evaluate(&chatty, &Board::default().view());
    assert_eq!(evaluation.notes.len(), 16);
}

#[test]
fn random_numbers_follow_the_seed() {
    let record = snippet(
        "a",
        Type::TXT,
        "math.random(1000) .. ' ' .. pdnsrandom() .. ' ' .. math.random()",
    );
    let view = Board::default().view();
    let mut evaluator = evaluator();
    let asker = client("192.0.2.77", "a.example.org");
    let mut of = |seed| {
        evaluator
            .answer_for(&record, &view, &asker, seed)
            .unwrap()
            .values
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    check(&[
        ("math.random(3, 3)", &["3"]),
        ("pdnsrandom(1)", &["0"]),
        ("tostring(math.random() < 1)", &["true"]),
        (";math.randomseed(1) return 'x'", &["x"]),
        ("math.type(math.random(math.mininteger, 0))", &["integer"]),
    ]);
    check_errors(&[
        ("math.random(0)", "the interval is empty"),
        ("math.random(2, 1)", "the interval is empty"),
    ]);
}

//--- Names from addresses and back, as PowerDNS's own regression tests have them

#[test]
fn forward_names_become_addresses() {
    let filter = "filterForward(createForward(), newNMG{'1.0.0.0/8', '64.0.0.0/8'})";
    for (label, expected) in [
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4.static", "1.2.3.4"),
        ("1.2.3.4.5.6", "1.2.3.4"),
        ("invalid.1.2.3.4", "0.0.0.0"),
        ("invalid", "0.0.0.0"),
        ("1-2-3-4", "1.2.3.4"),
        ("1-2-3-4.foo", "1.2.3.4"),
        ("1-2-3-4.foo.bar", "1.2.3.4"),
        ("1-2-3-4aa.foo.bar", "0.0.0.0"),
        ("1-2-3-4.foo.bar.baz", "0.0.0.0"),
        ("1-2-3-4.foo.bar.baz.quux", "0.0.0.0"),
        ("ip-1-2-3-4", "1.2.3.4"),
        ("ip-is-here-for-you-1-2-3-4", "1.2.3.4"),
        ("40414243", "64.65.66.67"),
        ("p40414243", "64.65.66.67"),
        ("ip40414243", "64.65.66.67"),
        ("ipp40414243", "64.65.66.67"),
        ("ip4041424", "0.0.0.0"),
        ("ip-441424", "0.0.0.0"),
        ("ip-5abcdef", "0.0.0.0"),
        ("some-text-with-more-than-five-dashes", "0.0.0.0"),
        ("host64-22-33-44", "64.22.33.44"),
        ("2.2.2.2", "0.0.0.0"),
        ("256.2.3.4", "0.0.0.0"),
        ("+1.2.3.4", "0.0.0.0"),
        ("ÿ1-2-3-4", "1.2.3.4"),
    ] {
        let qname = format!("{label}.cf.example.org");
        assert_eq!(
            run("*.cf", &qname, filter),
            Ok(owned(&[expected])),
            "{label}"
        );
    }
    assert_eq!(
        run("a", "a.example.org", "createForward()"),
        Ok(owned(&["0.0.0.0"]))
    );
    assert_eq!(
        run("a", "a.example.org", "createForward6()"),
        Ok(owned(&["::"]))
    );
}

#[test]
fn forward_names_become_ipv6_addresses() {
    let filter = "filterForward(createForward6(), newNMG{'2000::/3'}, 'fe80::1')";
    for (label, expected) in [
        ("2001--db8", "2001::db8"),
        ("20010002000300040005000600070db8", "2001:2:3:4:5:6:7:db8"),
        (
            "blabla20010002000300040005000600070db8",
            "2001:2:3:4:5:6:7:db8",
        ),
        ("2001.db8.6.5.4.3.2.1", "2001:db8:6:5:4:3:2:1"),
        ("4000-db8--1", "fe80::1"),
        ("l1.l2.l3.l4.l5.l6.l7.l8", "fe80::1"),
        ("x", "fe80::1"),
        ("a.b", "fe80::1"),
    ] {
        let qname = format!("{label}.cf6.example.org");
        assert_eq!(
            run("*.cf6", &qname, filter),
            Ok(owned(&[expected])),
            "{label}"
        );
    }
    for (label, expected) in [
        ("0--0", "::"),
        ("0--1", "::1"),
        ("0aa--0", "aa::"),
        ("0aa--1", "aa::1"),
        ("2001--0", "2001::"),
        ("a-b--c", "a:b::c"),
        ("a--b-c", "a::b:c"),
    ] {
        let qname = format!("{label}.cf6.example.org");
        assert_eq!(
            run("*.cf6", &qname, "createForward6()"),
            Ok(owned(&[expected])),
            "{label}"
        );
    }
}

#[test]
fn reverse_names_become_names() {
    let except = "{['10.10.10.10'] = 'quad10.example.com.'}";
    for (format, name, expected) in [
        ("%5%.example.com", "4.3.2.1", "1-2-3-4.example.com"),
        ("%5%.example.com", "10.10.10.10", "quad10.example.com."),
        ("%5%.example.com", "256.384.512.640", "error"),
        ("%1%.%2%.%3%.%4%.x", "4.3.2.1", "1.2.3.4.x"),
        ("%6%.x", "15.0.0.127", "7f00000f.x"),
        ("%7%.x", "4.3.2.1", ".x"),
        ("%%%1%", "4.3.2.1", "%1"),
        ("%1", "4.3.2.1", "error"),
        ("%x%", "4.3.2.1", "error"),
        ("%0%", "4.3.2.1", "error"),
        ("plain", "4.3.2.1", "plain"),
    ] {
        let code = format!("createReverse('{format}', {except})");
        let qname = format!("{name}.cr.example.org");
        assert_eq!(
            run("*.cr", &qname, &code),
            Ok(owned(&[expected])),
            "{format} {name}"
        );
    }
    assert_eq!(
        run("a", "a.b", "createReverse('x')"),
        Ok(owned(&["unknown"]))
    );
    check_errors(&[
        ("createReverse()", "the format must be a string, not nil"),
        ("createReverse('x', 'y')", "the exceptions must be a table"),
        ("createReverse('x', {x = 'y'})", "`x` is no address"),
    ]);
}

#[test]
fn reverse_names_of_ipv6_become_names() {
    let reversed = |address: &str| -> String {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        let digits = format!("{:032x}", u128::from(address));
        let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
        labels.join(".")
    };
    let code = |format: &str| {
        format!("createReverse6('{format}', {{['2001:db8::1'] = 'example.example.com.'}})")
    };
    for (format, address, expected) in [
        ("%33%.x", "2001::db8", "2001--db8.x"),
        ("%33%.x", "2001:db8::1", "example.example.com."),
        ("%33%.x", "::", "0--0.x"),
        ("%33%.x", "::1", "0--1.x"),
        ("%33%.x", "aa::", "0aa--0.x"),
        ("%33%.x", "aa::1", "0aa--1.x"),
        ("%33%.x", "2001::", "2001--0.x"),
        ("%33%.x", "a:b::c", "a-b--c.x"),
        ("%33%.x", "a::b:c", "a--b-c.x"),
        ("%34%.%35%.%41%", "2001:a:b::123", "2001.000a.0123"),
        ("%1%%2%%3%%4%.%32%", "2001:a:b::123", "2001.3"),
    ] {
        let qname = format!("{}.cr6.example.org", reversed(address));
        let result = run("*.cr6", &qname, &code(format));
        assert_eq!(result, Ok(owned(&[expected])), "{format} {address}");
    }
    for (name, expected) in [
        (
            "8.b.d.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.2",
            "unknown",
        ),
        (
            "O.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.b.c.A.2.F.E.9.C.0.0.3.0.0.2.I",
            "error",
        ),
        (
            "+.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.b.c.A.2.F.E.9.C.0.0.3.0.0.2.1",
            "error",
        ),
    ] {
        let qname = format!("{name}.cr6.example.org");
        let result = run("*.cr6", &qname, &code("%33%.example.com"));
        assert_eq!(result, Ok(owned(&[expected])), "{name}");
    }
}

#[test]
fn filters_fall_back() {
    check(&[
        (
            "filterForward('192.0.2.1', newNMG{'192.0.2.0/24'})",
            &["192.0.2.1"],
        ),
        (
            "filterForward('192.0.2.1', newNMG{'198.51.100.0/24'})",
            &["0.0.0.0"],
        ),
        ("filterForward('2001:db8::1', newNMG())", &["::"]),
        (
            "filterForward('192.0.2.1', newNMG{'198.51.100.0/24'}, '192.0.2.9')",
            &["192.0.2.9"],
        ),
        (
            "filterForward('192.0.2.1', newNMG{'198.51.100.0/24'}, '')",
            &[],
        ),
    ]);
    check_errors(&[("filterForward('x', newNMG())", "`x` is no address")]);
}

//--- Other records

#[derive(Debug)]
struct Zone;

impl Records for Zone {
    fn programs(&self, name: &Name) -> Vec<Arc<str>> {
        match name.to_string().as_str() {
            "config.example.org." => vec!["ips = {'a', 'b'} ".into(), "x = #ips".into()],
            "broken.example.org." => vec!["x = 'before' error('no')".into()],
            "loop.example.org." => vec!["include('loop')".into()],
            "endless.example.org." => vec!["while true do end".into()],
            _ => vec![],
        }
    }

    fn data(&self, name: &Name, rtype: Type) -> Vec<String> {
        match (name.to_string().as_str(), rtype) {
            ("www.example.org.", Type::A) => owned(&["192.0.2.5"]),
            _ => vec![],
        }
    }
}

fn with_records(code: &str) -> Evaluation {
    let record = Snippet {
        records: Arc::new(Zone),
        ..snippet("a", Type::TXT, code)
    };
    evaluator().evaluate(&record, &Board::default().view())
}

#[test]
fn included_programs_share_their_globals() {
    for (code, expected) in [
        (";include('config') return ips[2] .. x", "b2"),
        (";include('config.example.org.') return ips[1]", "a"),
        (";include('broken') return x", "before"),
        (";include('nothing') return 'x'", "x"),
        (";include('loop') return 'x'", "x"),
    ] {
        let evaluation = with_records(code);
        assert_eq!(evaluation.outcome, fixed(&[expected]), "{code}");
        let odd = ["broken", "nothing", "loop"]
            .iter()
            .any(|name| code.contains(name));
        assert_eq!(!evaluation.notes.is_empty(), odd, "{code}");
    }
    let endless = with_records(";include('endless') return 'x'").outcome;
    assert_eq!(endless, Err(LuaError::Instructions { limit: 1000 }));
}

#[test]
fn data_of_other_records_can_be_read() {
    for (code, expected) in [
        ("dblookup('www.example.org', pdns.A)[1]", "192.0.2.5"),
        ("dblookup('www.example.org', 'A')", "192.0.2.5"),
        ("#dblookup('www.example.org', pdns.AAAA)", "0"),
    ] {
        assert_eq!(with_records(code).outcome, fixed(&[expected]), "{code}");
    }
    for code in ["dblookup('a..b', 1)", "dblookup('a', 'x')", "dblookup('a')"] {
        assert!(with_records(code).outcome.is_err(), "{code}");
    }
}
