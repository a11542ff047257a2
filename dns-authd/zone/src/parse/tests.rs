//! Master files good and bad.
//!
//! Size: one table for each rule of the format.

use std::collections::BTreeMap;

use dns_wire::rdata;

use super::*;
use crate::record::RecordData;

/// Files by name; `zone` is the one that is read.
fn load(files: &[(&str, &[u8])], options: &Options) -> Result<ZoneFile, Rejected> {
    let files: BTreeMap<&str, &[u8]> = files.iter().copied().collect();
    let mut load = |path: &Path| match files.get(path.to_str().unwrap()) {
        Some(text) => Ok(text.to_vec()),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    let apex = Name::parse("example.").unwrap_or_else(|_| Name::root());
    parse(Path::new("zone"), &apex, &mut load, options)
}

/// What every zone needs; three lines.
const APEX: &str = "$TTL 180\n@ SOA ns1 host 1 2 3 4 5\n  NS ns1\n";
const APEX_LINES: usize = 3;

/// The records of the zone behind those of [`APEX`], one a line.
fn records(text: &str) -> Vec<String> {
    records_of(
        &[("zone", format!("{APEX}{text}").as_bytes())],
        &Options::default(),
    )
}

fn records_of(files: &[(&str, &[u8])], options: &Options) -> Vec<String> {
    let zone = load(files, options).unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
    zone.records.iter().skip(2).map(line).collect()
}

fn line(record: &Record) -> String {
    let Record {
        owner, ttl, data, ..
    } = record;
    match data {
        RecordData::Wire { rtype, rdata } => {
            format!("{owner} {ttl} {rtype} {}", rdata::display(*rtype, rdata))
        }
        RecordData::Lua { rtype, program } => format!("{owner} {ttl} LUA {rtype} {}", program.code),
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(records(text), expected, "{text}");
}

/// The problems of the zone, with lines counted behind [`APEX`].
fn problems(text: &[u8]) -> Vec<String> {
    let zone = [APEX.as_bytes(), text].concat();
    let rejected = load(&[("zone", &zone)], &Options::default()).unwrap_err();
    rejected.problems.iter().map(shift).collect()
}

fn shift(problem: &Problem) -> String {
    match &problem.position {
        Some(at) => format!("{}:{} {}", at.line - APEX_LINES, at.column, problem.message),
        None => problem.message.clone(),
    }
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    assert_eq!(problems(text.as_bytes()), expected, "{text}");
}

fn warnings(text: &str) -> Vec<String> {
    let zone = load(
        &[("zone", format!("{APEX}{text}").as_bytes())],
        &Options::default(),
    );
    zone.unwrap().warnings.iter().map(shift).collect()
}

const SEED: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/seed/inside-out.xyz"
));

#[test]
fn the_seed_zone_loads_as_it_stands() {
    let apex = Name::parse("ocp4.redhat.ren").unwrap();
    let path = Path::new("/etc/pdns/inside-out.xyz");
    let mut load = |_: &Path| Ok(SEED.to_vec());
    let zone = parse(path, &apex, &mut load, &Options::default()).unwrap();
    assert_eq!(zone.warnings, []);
    assert_eq!(zone.files, [path]);
    assert_eq!(zone.records.len(), 25);
    assert!(zone.records.iter().all(|record| record.ttl == 180));
    let lines: Vec<String> = zone.records.iter().map(line).collect();
    assert_eq!(
        lines.first().unwrap(),
        "ocp4.redhat.ren. 180 SOA ns1.ocp4.redhat.ren. postmaster.ocp4.redhat.ren. \
         2014080704 10800 1800 1209600 604800"
    );
    let api = "api.ocp4.redhat.ren. 180 LUA A \
               ifportup(6443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})";
    assert!(lines.iter().any(|line| line == api), "{lines:#?}");
    let wildcards = lines
        .iter()
        .filter(|line| line.starts_with("*.apps."))
        .count();
    assert_eq!(wildcards, 1);
    let soa = &zone.records.first().unwrap().position;
    assert_eq!(soa.to_string(), "/etc/pdns/inside-out.xyz:2:1");
}

#[test]
fn owners_are_relative_inherited_or_the_origin() {
    check(
        "a A 192.0.2.1\n A 192.0.2.2\n\t\n; x\n\tA 192.0.2.3\nb.example. A 192.0.2.4\n@ A 192.0.2.5\n",
        &[
            "a.example. 180 A 192.0.2.1",
            "a.example. 180 A 192.0.2.2",
            "a.example. 180 A 192.0.2.3",
            "b.example. 180 A 192.0.2.4",
            "example. 180 A 192.0.2.5",
        ],
    );
    check(
        r"\000\255\.\; A 192.0.2.1",
        &[r"\000\255\.\;.example. 180 A 192.0.2.1"],
    );
    check("EXAMPLE. A 192.0.2.1", &["EXAMPLE. 180 A 192.0.2.1"]);
    check("*.b A 192.0.2.1", &["*.b.example. 180 A 192.0.2.1"]);
    check("a A 192.0.2.1", &["a.example. 180 A 192.0.2.1"]);
    check(
        "a\tA\t192.0.2.1\r\n\tTXT\tx\r\n",
        &["a.example. 180 A 192.0.2.1", "a.example. 180 TXT \"x\""],
    );
}

#[test]
fn owners_in_utf_8_and_latin_1_are_octets() {
    check("ü A 192.0.2.1 ; ü", &[r"\195\188.example. 180 A 192.0.2.1"]);
    let zone = [APEX.as_bytes(), b"\xfc A 192.0.2.1 ; \xfc\n"].concat();
    assert_eq!(
        records_of(&[("zone", &zone)], &Options::default()),
        [r"\252.example. 180 A 192.0.2.1"]
    );
}

#[test]
fn class_and_ttl_come_in_either_order() {
    for head in [
        "IN 1H A",
        "1h IN A",
        "in 60M TYPE1",
        "3600 A",
        "3600 CLASS1 a",
        "IN 3600 A",
    ] {
        check(
            &format!("a {head} 192.0.2.1"),
            &["a.example. 3600 A 192.0.2.1"],
        );
    }
    check("in IN A 192.0.2.1", &["in.example. 180 A 192.0.2.1"]);
    check("3600 A 192.0.2.1", &["3600.example. 180 A 192.0.2.1"]);
    check("a A (\n192.0.2.1 ; x\n)", &["a.example. 180 A 192.0.2.1"]);
}

#[test]
fn the_ttl_is_that_of_the_directive_or_the_last_or_the_minimum() {
    let ttls = |text: &str| {
        let zone = load(&[("zone", text.as_bytes())], &Options::default()).unwrap();
        zone.records
            .iter()
            .map(|record| record.ttl)
            .collect::<Vec<_>>()
    };
    let rest = "a A 192.0.2.1\nb 9 A 192.0.2.1\nc A 192.0.2.1\n";
    let zone =
        |first: &str, soa: &str| ttls(&format!("{first}@ {soa} SOA a b 1 2 3 4 5\n@ NS a\n{rest}"));
    assert_eq!(zone("$TTL 1M\n", ""), [60, 60, 60, 9, 60]);
    assert_eq!(zone("$TTL 1M\n", "7"), [7, 60, 60, 9, 60]);
    assert_eq!(zone("", "7"), [7, 7, 7, 9, 9]);
    assert_eq!(zone("", ""), [5, 5, 5, 9, 5]);
    assert_eq!(ttls("@ NS a\n@ SOA a b 1 2 3 4 5\n"), [3600, 3600]);
}

#[test]
fn the_origin_may_be_relative_and_moves_all_names() {
    check(
        "$ORIGIN b\na MX 1 m\n$origin c.\n$ORIGIN d.example.\n@ NS @\n",
        &[
            "a.b.example. 180 MX 1 m.b.example.",
            "d.example. 180 NS d.example.",
        ],
    );
}

#[test]
fn strings_and_generic_spellings() {
    check(
        "a TXT \"a;b\" c\\;d \"\\\"\"\na TYPE731 \\# 2 ab cd\na A \\# 4 c0000201\na HTTPS 1 . alpn=\"h2,h3\"\n",
        &[
            r#"a.example. 180 TXT "a;b" "c;d" "\"""#,
            r"a.example. 180 TYPE731 \# 2 ABCD",
            "a.example. 180 A 192.0.2.1",
            r#"a.example. 180 HTTPS 1 . alpn="h2,h3""#,
        ],
    );
}

//--- Programs

#[test]
fn programs_keep_their_backslashes() {
    check(
        r#"a LUA A ";if true then return '\065\n\\' else return \"x\" end"
b 60 IN LUA CNAME ( "pickrandom({'a.',"
  "'b.'})" ) ; comment
c LUA LUA "x=1"
d LUA TYPE28 ifportup
e TYPE65402 A "x"
f LUA \# 6 0001 03 782b79
"#,
        &[
            r#"a.example. 180 LUA A ;if true then return '\065\n\\' else return "x" end"#,
            "b.example. 60 LUA CNAME pickrandom({'a.',   'b.'})",
            "c.example. 180 LUA LUA x=1",
            "d.example. 180 LUA AAAA ifportup",
            "e.example. 180 LUA A x",
            "f.example. 180 LUA A x+y",
        ],
    );
}

#[test]
fn parts_of_programs_are_joined_as_powerdns_joins_them() {
    // Strings, then what 4.9 and 5.0 make from them.
    for (strings, before, since) in [
        ("\"x\"", "x", "x"),
        ("\"x\" \"y\"", "x   y", "xy"),
        ("\"x \" \" y\"", "x     y", "x  y"),
        ("\"x\" \"\" \"y\"", "x     y", "xy"),
        ("\"x\" \" \" \"y\"", "x       y", "xy"),
    ] {
        for (lua_whitespace, joined) in [(true, before), (false, since)] {
            let zone = format!("{APEX}a LUA A {strings}");
            let options = Options {
                lua_whitespace,
                ..Options::default()
            };
            assert_eq!(
                records_of(&[("zone", zone.as_bytes())], &options),
                [format!("a.example. 180 LUA A {joined}")],
                "{strings}"
            );
        }
    }
    let long = "x".repeat(2000);
    check(
        &format!("a LUA A \"{long}\""),
        &[&format!("a.example. 180 LUA A {long}")],
    );
}

#[test]
fn a_program_is_placed_where_its_text_begins() {
    let zone = format!("{APEX}a LUA A (\n   \"x\" )\nb A 192.0.2.1");
    let zone = load(&[("zone", zone.as_bytes())], &Options::default()).unwrap();
    let positions: Vec<_> = zone
        .records
        .iter()
        .map(|it| it.position.to_string())
        .collect();
    assert_eq!(positions, ["zone:2:1", "zone:3:3", "zone:5:4", "zone:6:1"]);
}

#[test]
fn broken_programs_are_refused() {
    refused("a LUA", &["1:3 the type that the program makes is missing"]);
    refused("a LUA A", &["1:7 the program is missing"]);
    refused("a LUA A \" \"", &["1:9 the program is missing"]);
    refused("a LUA ifportup", &["1:7 `ifportup` is no record type"]);
    refused("a LUA ANY x", &["1:7 `ANY` is no record type"]);
    refused(
        r"a LUA \# 1 00",
        &["1:7 these octets are not valid LUA data"],
    );
    refused(
        r"a LUA \# 4 0001 0578",
        &["1:7 these octets are not valid LUA data"],
    );
}

//--- Includes

#[test]
fn included_files_have_their_own_origin_and_owner() {
    let zone = format!(
        "{APEX}a A 192.0.2.1\n$INCLUDE sub s\n A 192.0.2.2\nb A 192.0.2.3\n$include \"sub\"\n"
    );
    let files: &[(&str, &[u8])] = &[
        ("zone", zone.as_bytes()),
        ("sub", b"$TTL 9\nx A 192.0.2.4\n$ORIGIN y\n@ A 192.0.2.5"),
    ];
    assert_eq!(
        records_of(files, &Options::default()),
        [
            "a.example. 9 A 192.0.2.1",
            "x.s.example. 9 A 192.0.2.4",
            "y.s.example. 9 A 192.0.2.5",
            "a.example. 9 A 192.0.2.2",
            "b.example. 9 A 192.0.2.3",
            "x.example. 9 A 192.0.2.4",
            "y.example. 9 A 192.0.2.5",
        ]
    );
    let zone = load(files, &Options::default()).unwrap();
    assert_eq!(zone.files, [Path::new("zone"), Path::new("sub")]);
}

#[test]
fn an_included_file_does_not_inherit_the_owner() {
    let zone = format!("{APEX}a A 192.0.2.1\n$INCLUDE sub\n");
    let files: &[(&str, &[u8])] = &[("zone", zone.as_bytes()), ("sub", b"\n A 192.0.2.4")];
    let rejected = load(files, &Options::default()).unwrap_err();
    let problems: Vec<_> = rejected.problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        problems,
        ["sub:2:2: no line before this one names an owner"]
    );
}

#[test]
fn includes_are_looked_for_in_the_directory_then_beside() {
    let mut tried = Vec::new();
    let apex = Name::parse("example.").unwrap();
    let mut load = |path: &Path| {
        tried.push(path.display().to_string());
        match path.to_str() {
            Some("/z/zone") => Ok(format!("{APEX}$INCLUDE sub/a\n").into_bytes()),
            Some("/z/sub/a") => Ok(b"$INCLUDE b\n".to_vec()),
            Some("/d/b") => Ok(b"x A 192.0.2.1\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let options = Options {
        directory: Some("/d".into()),
        ..Options::default()
    };
    let zone = parse(Path::new("/z/zone"), &apex, &mut load, &options).unwrap();
    assert_eq!(tried, ["/z/zone", "/d/sub/a", "/z/sub/a", "/d/b"]);
    let files: Vec<_> = zone
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(files, ["/z/zone", "/d/sub/a", "/z/sub/a", "/d/b"]);
}

#[test]
fn missing_and_looping_includes_are_refused() {
    refused(
        "$INCLUDE nosuch",
        &["1:10 cannot read nosuch: entity not found"],
    );
    refused("$INCLUDE zone", &["1:10 zone includes itself"]);
    refused(
        "$INCLUDE",
        &["1:1 $INCLUDE takes a file, and perhaps an origin"],
    );
    refused(
        "$INCLUDE a b c",
        &["1:10 $INCLUDE takes a file, and perhaps an origin"],
    );
    let rejected = parse_bytes(b"$INCLUDE nosuch").unwrap_err();
    assert_eq!(rejected.files, [Path::new("zone"), Path::new("nosuch")]);
}

#[test]
fn includes_are_bounded_in_depth_and_number() {
    // Every file includes the next one twice: 2^20 files if nothing stopped it.
    let mut n_loads = 0;
    let apex = Name::parse("example.").unwrap();
    let mut load = |path: &Path| {
        n_loads += 1;
        let level: u32 = path
            .to_str()
            .unwrap()
            .trim_start_matches("zone")
            .parse()
            .unwrap_or(0);
        let next = level + 1;
        Ok(format!("$INCLUDE zone{next}\n$INCLUDE zone{next}\n").into_bytes())
    };
    let rejected = parse(Path::new("zone"), &apex, &mut load, &Options::default()).unwrap_err();
    assert_eq!(
        rejected.problems.first().unwrap().to_string(),
        "zone20:1:1: $INCLUDE nests deeper than 20"
    );
    assert!(rejected.problems.len() <= MAX_PROBLEMS + 1);
    assert!(n_loads <= 200, "{n_loads}");
    let mut n_loads = 0;
    let mut load = |path: &Path| {
        n_loads += 1;
        Ok(if path == Path::new("zone") {
            "$INCLUDE x\n".repeat(1000)
        } else {
            String::new()
        }
        .into_bytes())
    };
    let options = Options {
        include_files: 10,
        ..Options::default()
    };
    let rejected = parse(Path::new("zone"), &apex, &mut load, &options).unwrap_err();
    assert_eq!(n_loads, 11);
    let first = rejected.problems.first().unwrap();
    assert_eq!(
        first.to_string(),
        "zone:11:1: more than 10 files are included"
    );
}

//--- Generated records

#[test]
fn one_line_generates_many_records() {
    check(
        "$GENERATE 1-3 host$ A 192.0.2.${10}\n$GENERATE 8-9/1 ${0,3,d} 60 IN CNAME $.$$.x\n",
        &[
            "host1.example. 180 A 192.0.2.11",
            "host2.example. 180 A 192.0.2.12",
            "host3.example. 180 A 192.0.2.13",
            r"008.example. 60 CNAME 8.\$.x.example.",
            r"009.example. 60 CNAME 9.\$.x.example.",
        ],
    );
    check(
        "$GENERATE 1-1 $ MX $ m$",
        &["1.example. 180 MX 1 m1.example."],
    );
    check(
        "$GENERATE 1-2 a$ TXT \"x $\"",
        &["a1.example. 180 TXT \"x 1\"", "a2.example. 180 TXT \"x 2\""],
    );
    check(
        "$GENERATE 1-1 a$ LUA A \"f($)\"",
        &["a1.example. 180 LUA A f(1)"],
    );
}

#[test]
fn generated_records_are_refused_like_written_ones() {
    refused(
        "$GENERATE 250-260 a$ A 192.0.2.$",
        &["1:24 `192.0.2.256` is no IPv4 address (at 256)"],
    );
    refused(
        "$GENERATE 0-9 a${-5} A 192.0.2.1",
        &["1:15 0 falls below zero"],
    );
    refused(
        "$GENERATE 9-1 a A 192.0.2.1",
        &["1:11 a range is START-STOP or START-STOP/STEP, both below 2^31"],
    );
    refused(
        "$GENERATE 0-2147483647 a$ A 192.0.2.1",
        &["1:11 $GENERATE makes more than 1048576 records in this zone"],
    );
    refused(
        "$GENERATE 1-2 a${x} A 192.0.2.1",
        &["1:15 a number's form is ${OFFSET,WIDTH,BASE}, the base one of d o x X n N"],
    );
    refused("$GENERATE 1-2 a$", &["1:15 the record's type is missing"]);
    refused(
        "$GENERATE 1-2",
        &["1:11 $GENERATE takes a range, an owner, a type and data"],
    );
    refused(
        "$GENERATE 1-2 $.other. A 192.0.2.1",
        &["1:15 1.other. is outside the zone example. (at 1)"],
    );
    refused(
        "$GENERATE 1-2 ${0,70} A 192.0.2.1",
        &["1:15 label longer than 63 octets (at 1)"],
    );
}

#[test]
fn a_giant_generate_is_refused_at_once_even_in_parts() {
    let text = "$GENERATE 1-600000 a$ A 192.0.2.1\n$GENERATE 1-600000 b$ A 192.0.2.1\n";
    assert_eq!(problems(text.as_bytes()).len(), 1);
}

//--- What is refused

#[test]
fn every_slip_of_a_file_is_reported_with_its_place() {
    refused(
        "a A not.an.ip\nb  NOSUCH x\nc A\n\td\nc MX 1\n  CNAME a b ; x\n$FOO\n$TTL x\n$ORIGIN\ne \"f\n.. A 192.0.2.1\n A 192.0.2.2\ng A 192.0.2.9 x\n",
        &[
            "1:5 `not.an.ip` is no IPv4 address",
            "2:4 `NOSUCH` is no record type",
            "3:3 an IPv4 address is missing",
            "4:2 `d` is no record type",
            "5:6 a domain name is missing",
            "6:11 `b` is one word too many",
            "7:1 unknown directive $FOO",
            "8:6 `x` is no TTL in seconds",
            "9:1 $ORIGIN takes one domain name",
            "10:3 this quote is not closed on its line",
            "11:1 empty label in a domain name",
            "13:15 `x` is one word too many",
        ],
    );
}

/// The records that the zone leaves out, with lines counted behind [`APEX`]; the rest loads.
fn left_out(text: &str) -> Vec<String> {
    let zone = format!("{APEX}{text}");
    let zone = load(&[("zone", zone.as_bytes())], &Options::default());
    let zone = zone.unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
    assert!(zone.left_out.count >= zone.left_out.first.len());
    zone.left_out.first.iter().map(shift).collect()
}

#[test]
fn a_record_of_an_unknown_kind_is_left_out_alone() {
    for (line, slip) in [
        ("a ALIAS www.example.net.", "3 `ALIAS` is no record type"),
        (
            "a 60 IN ALIAS www.example.net.",
            "9 `ALIAS` is no record type",
        ),
        ("a LUA ALIAS \"'www'\"", "7 `ALIAS` is no record type"),
        (
            "a HTTPS 1 . alpn=h2 tls-later=29",
            "21 `tls-later=29` is no known service parameter",
        ),
        (
            "a SVCB 1 . mandatory=tls-later",
            "12 `mandatory=tls-later` is no legal service parameter",
        ),
        (
            "a SVCB 1 . key00997=x",
            "12 `key00997=x` is no known service parameter",
        ),
        ("a DS 1 LATER 2 00", "8 `LATER` is no algorithm"),
        ("a CERT LATER 1 2 AAAA", "8 `LATER` is no certificate type"),
        ("a NSEC b A LATER", "12 `LATER` is no record type"),
        (
            "a WKS 192.0.2.1 tcp smtp",
            r"7 type WKS is written as `\# LENGTH HEX` only (RFC 3597)",
        ),
        ("$GENERATE 1-3 a$ ALIAS b$", "18 `ALIAS` is no record type"),
    ] {
        let text = format!("{line}\nb A 192.0.2.1\n");
        let wanted = format!("1:{slip}; the record is left out");
        assert_eq!(left_out(&text), [wanted], "{line}");
        assert_eq!(records(&text).len(), 1, "{line}");
    }
}

#[test]
fn lines_behind_a_record_that_is_left_out_have_its_owner_and_its_ttl() {
    let text = "@ 60 SOA ns1 host 1 2 3 4 5\n NS ns1\na 77 ALIAS x\n A 192.0.2.1\n";
    let zone = load(&[("zone", text.as_bytes())], &Options::default()).unwrap();
    assert_eq!(line(&zone.records[2]), "a.example. 77 A 192.0.2.1");
    let text = text.replace("ALIAS x", "HTTPS 1 . later=1");
    let zone = load(&[("zone", text.as_bytes())], &Options::default()).unwrap();
    assert_eq!(line(&zone.records[2]), "a.example. 77 A 192.0.2.1");
}

#[test]
fn the_number_of_named_records_that_are_left_out_is_bounded() {
    let text = format!("{APEX}{}", "a ALIAS b\n".repeat(5_000));
    let zone = load(&[("zone", text.as_bytes())], &Options::default()).unwrap();
    assert_eq!(zone.left_out.count, 5_000);
    assert_eq!(zone.left_out.first.len(), MAX_LEFT_OUT);
}

#[test]
fn unknown_types_and_keys_are_taken_by_number() {
    check(
        "a TYPE65280 \\# 4 c0000201\na HTTPS 1 . key997=x key9=\\000\\029 key1=\\002h2\n",
        &[
            r"a.example. 180 TYPE65280 \# 4 C0000201",
            r#"a.example. 180 HTTPS 1 . alpn="h2" key9="\000\029" key997="x""#,
        ],
    );
}

#[test]
fn the_number_of_reported_problems_is_bounded() {
    let all = problems("a A x\n".repeat(100_000).as_bytes());
    assert_eq!(all.len(), MAX_PROBLEMS + 1);
    assert_eq!(
        all.last().unwrap(),
        "there may be more problems; these are the first"
    );
}

#[test]
fn records_outside_the_zone_are_refused_or_skipped() {
    refused(
        "a.other. A 192.0.2.1\n A 192.0.2.2\nxexample. A 192.0.2.1",
        &[
            "1:1 a.other. is outside the zone example.",
            "3:1 xexample. is outside the zone example.",
        ],
    );
    let zone = format!("{APEX}a.other. A 192.0.2.1\n A 192.0.2.2\nb A 192.0.2.1\n");
    let options = Options {
        out_of_zone: OutOfZone::Skip,
        ..Options::default()
    };
    let zone = load(&[("zone", zone.as_bytes())], &options).unwrap();
    assert_eq!(zone.records.len(), 3);
    assert_eq!(
        shift(zone.warnings.first().unwrap()),
        "1:1 a.other. is outside the zone example. and left out"
    );
}

#[test]
fn other_classes_and_meta_types_are_refused() {
    refused(
        "a CH TXT x",
        &["1:3 class CH: only zones of class IN are served"],
    );
    for rtype in ["ANY", "AXFR", "OPT", "TSIG", "TYPE250"] {
        assert_eq!(
            problems(format!("a {rtype} x").as_bytes()).len(),
            1,
            "{rtype}"
        );
    }
    refused(
        "a 1H2 A 192.0.2.1",
        &["1:3 `1H2` is neither TTL, class nor type"],
    );
    refused("a 1 2 A 192.0.2.1", &["1:5 `2` is no record type"]);
    refused("a IN IN A 192.0.2.1", &["1:6 `IN` is no record type"]);
    refused("a \"A\" 192.0.2.1", &["1:3 `A` is no record type"]);
    refused("\"a\" A 192.0.2.1", &["1:1 a domain name has no quotes"]);
    refused("a", &["1:1 the record's type is missing"]);
}

#[test]
fn names_at_their_limits() {
    let label = "a".repeat(63);
    // 3 * 64 + 53 + 1 + 9 for `example.` make 255.
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(53));
    assert_eq!(records(&format!("{longest} A 192.0.2.1")).len(), 1);
    refused(
        &format!("{longest}a A 192.0.2.1"),
        &["1:1 domain name longer than 255 octets"],
    );
    refused(
        &format!("{label}a A 192.0.2.1"),
        &["1:1 label longer than 63 octets"],
    );
}

#[test]
fn damaged_files_are_refused() {
    assert_eq!(
        problems(&[0; 100]),
        ["1:1 an octet of value 0: the file is damaged"]
    );
    refused("a A 192.0.2.1 (", &["1:15 this parenthesis is not closed"]);
    refused("a A 192.0.2.1 )", &["1:15 this parenthesis closes nothing"]);
    refused(
        "a TXT \"x\ny",
        &[
            "1:7 this quote is not closed on its line",
            "2:1 the record's type is missing",
        ],
    );
}

#[test]
fn a_zone_needs_one_soa_and_an_ns_at_its_apex() {
    let problems = |text: &str| {
        let rejected = parse_bytes(text.as_bytes()).unwrap_err();
        rejected
            .problems
            .iter()
            .map(Problem::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        problems(""),
        [
            "zone:1:1: the zone example. has no SOA at its apex",
            "zone:1:1: the zone example. has no NS at its apex"
        ]
    );
    assert_eq!(
        problems("@ 1 SOA a b 1 2 3 4 5\na NS b"),
        ["zone:1:1: the zone example. has no NS at its apex"]
    );
    assert_eq!(
        problems("@ 1 NS a\na SOA a b 1 2 3 4 5\n"),
        [
            "zone:2:1: only the apex example. may have an SOA",
            "zone:1:1: the zone example. has no SOA at its apex"
        ]
    );
    assert_eq!(
        problems("@ 1 SOA a b 1 2 3 4 5\n@ NS a\n@ SOA a b 2 2 3 4 5\n"),
        ["zone:3:1: a second SOA; the first is on line 1"]
    );
    assert!(parse_bytes(b"@ 1 SOA a b 1 2 3 4 5\n@ NS a\n@ SOA A b 1 2 3 4 5\n").is_ok());
}

#[test]
fn a_zone_that_cannot_be_read_is_refused() {
    let rejected = load(&[], &Options::default()).unwrap_err();
    let problem = rejected.problems.first().unwrap().to_string();
    assert_eq!(problem, "cannot read zone file zone: entity not found");
}

//--- What is levelled

#[test]
fn duplicates_are_left_out_with_a_warning() {
    let text = "a A 192.0.2.1\nA A 192.0.2.1\na MX 1 m\na MX 1 M\na TXT x\na TXT X\na LUA A y\na LUA A y\n";
    check(
        text,
        &[
            "a.example. 180 A 192.0.2.1",
            "a.example. 180 MX 1 m.example.",
            "a.example. 180 TXT \"x\"",
            "a.example. 180 TXT \"X\"",
            "a.example. 180 LUA A y",
        ],
    );
    assert_eq!(
        warnings(text),
        [
            "2:1 the same record is on line 4",
            "4:1 the same record is on line 6",
            "8:9 the same record is on line 10",
        ]
    );
}

#[test]
fn the_lowest_ttl_of_a_set_is_taken_for_all() {
    let text = "a 300 A 192.0.2.1\na 60 A 192.0.2.2\na 90 A 192.0.2.3\na TXT x\na 70 LUA A y\n";
    check(
        text,
        &[
            "a.example. 60 A 192.0.2.1",
            "a.example. 60 A 192.0.2.2",
            "a.example. 60 A 192.0.2.3",
            "a.example. 180 TXT \"x\"",
            "a.example. 60 LUA A y",
        ],
    );
    assert_eq!(
        warnings(text),
        ["2:1 a.example. A has different TTLs; 60 is used for all"]
    );
}

#[test]
fn odd_ttls_and_strings_are_warned_of() {
    check(
        "a 4294967295 A 192.0.2.1",
        &["a.example. 2147483647 A 192.0.2.1"],
    );
    assert_eq!(
        warnings("a 4294967295 A 192.0.2.1"),
        ["1:1 TTL 4294967295 is above 2147483647 (RFC 2181 §8), which is used"]
    );
    assert_eq!(
        warnings(&format!("a TXT {}", "x".repeat(300))),
        ["1:1 a string of more than 255 octets is split"]
    );
    assert!(warnings("$TTL 0\na A 192.0.2.1\n").is_empty());
}

#[test]
fn garbage_never_panics() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let words = [
        "$TTL",
        "$ORIGIN",
        "$INCLUDE",
        "$GENERATE",
        "1-3",
        "@",
        "a",
        "*",
        " ",
        "\n",
        "\n ",
        "\t",
        "(",
        ")",
        "\"",
        ";",
        "\\",
        "IN",
        "A",
        "192.0.2.1",
        "MX",
        "10",
        "LUA",
        "TXT",
        "\\#",
        "4",
        "00000000",
        "$",
        "${",
        "}",
        "0,3,x",
        "SOA",
        "NS",
        "zone",
        "1h",
        "\0",
        "\u{fc}",
        "HTTPS",
        "alpn=",
        "example.",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random(30))
            .map(|_| words[random(words.len())].to_owned() + [" ", ""][random(2)])
            .collect();
        drop(parse_bytes(text.as_bytes()));
    }
}
