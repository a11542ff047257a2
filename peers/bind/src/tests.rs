//! Zone lists good and bad.

use std::collections::BTreeMap;

use dns_views::Clients;

use super::*;

fn load(files: &[(&str, &str)]) -> Result<NamedConf, Rejected> {
    load_as(Dialect::Bind, files)
}

fn load_as(dialect: Dialect, files: &[(&str, &str)]) -> Result<NamedConf, Rejected> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    parse(
        Path::new("/etc/named.conf"),
        dialect,
        Path::new("/var/named"),
        &mut |path| match path.to_str().and_then(|it| files.get(it)) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(io::ErrorKind::NotFound.into()),
        },
    )
}

fn conf(text: &str) -> NamedConf {
    load(&[("/etc/named.conf", text)]).unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn zones(conf: &NamedConf) -> Vec<String> {
    let line = |zone: &ZoneDecl| {
        let file = zone
            .file
            .as_ref()
            .map_or_else(|| "-".to_owned(), |it| it.display().to_string());
        format!("{} {:?} {file}", zone.name, zone.kind)
    };
    conf.zones.iter().map(line).collect()
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems
        .iter()
        .map(|it| it.to_string().replace("/etc/named.conf:", ""))
        .collect()
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let rejected = load(&[("/etc/named.conf", text)]).unwrap_err();
    assert_eq!(lines(&rejected.problems), expected, "{text}");
}

#[test]
fn the_seed_file_is_read_as_it_stands() {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/seed/bind.conf"
    ));
    let conf = conf(text);
    assert_eq!(
        zones(&conf),
        ["ocp4.redhat.ren. Primary /etc/pdns/inside-out.xyz"]
    );
    assert_eq!(conf.warnings, []);
    assert_eq!(
        conf.zones.first().unwrap().position.to_string(),
        "/etc/named.conf:1:6"
    );
}

#[test]
fn kinds_of_zones() {
    let conf = conf(
        "zone a { type master; file a; };\n\
         zone \"b.\" IN { type Primary; file \"/x/b\"; };\n\
         zone c in { file c; };\n\
         zone d { type native; file d; };\n\
         zone e { type slave; masters { 192.0.2.1; 2001:db8::1 port 5300 key k; list; }; };\n\
         zone f { type secondary; primaries port 99 { 192.0.2.1; }; file f; };\n\
         zone \".\" { type hint; file h; };\n\
         zone g CH { type master; file g; };\n",
    );
    assert_eq!(
        zones(&conf),
        [
            "a. Primary /etc/a",
            "b. Primary /x/b",
            "c. Native /etc/c",
            "d. Native /etc/d",
            "e. Secondary -",
            "f. Secondary /etc/f",
            ". Other(\"hint\") /etc/h",
            "g. Other(\"class CH\") /etc/g",
        ]
    );
    let served: Vec<_> = conf.zones.iter().map(ZoneDecl::is_served).collect();
    assert_eq!(served, [true, true, true, true, false, false, false, false]);
    let primaries = |n: usize| {
        conf.zones[n]
            .primaries
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(primaries(4), ["192.0.2.1:53", "[2001:db8::1]:5300"]);
    assert_eq!(primaries(5), ["192.0.2.1:99"]);
    assert_eq!(
        lines(&conf.warnings),
        [
            "5:72: `list` is not an address and is left out",
            "5:6: the zone e. (secondary) is not served",
            "6:6: the zone f. (secondary) is not served",
            "7:6: the zone . (hint) is not served",
            "8:6: the zone g. (class CH) is not served",
        ]
    );
}

#[test]
fn the_directory_counts_for_every_zone() {
    let text = "zone a { file a; };\noptions { directory \"zones\"; also-notify { 192.0.2.9; }; };\nzone b { file b; also-notify { ::1 port 54; }; };";
    let conf = conf(text);
    assert_eq!(
        zones(&conf),
        [
            "a. Native /var/named/zones/a",
            "b. Native /var/named/zones/b"
        ],
        "a relative directory is one of the working directory"
    );
    assert_eq!(conf.directory, Path::new("/var/named/zones"));
    assert_eq!(conf.also_notify, ["192.0.2.9:53".parse().unwrap()]);
    assert_eq!(conf.zones[1].also_notify, ["[::1]:54".parse().unwrap()]);
}

#[test]
fn foreign_statements_are_passed_over_with_one_warning_each() {
    let text = "acl x { !10.0.0.1; { 10/8; }; };\nlogging { channel c { file \"f\" versions 3 size 5m; severity info; }; };\n\
         options { recursion no; directory \"/z\"; listen-on port 53 { any; }; };\n\
         controls { };\n\
         zone a { type master; file a; allow-query { any; }; };\n\
         zone b { type master; file b; allow-query { any; }; update-policy { grant k zonesub ANY; }; };\n\
         acl y { };\nview v { zone c { file c; }; };\nkey \"k\" { algorithm hmac-sha256; secret \"x==\"; };";
    let conf = load_as(Dialect::PowerDns, &[("/etc/named.conf", text)]).unwrap();
    assert!(conf.views.is_empty() && conf.keys.is_empty());
    assert!(conf.zones.iter().all(|zone| zone.access.is_open()));
    assert_eq!(zones(&conf), ["a. Primary /z/a", "b. Primary /z/b"]);
    assert_eq!(
        lines(&conf.warnings),
        [
            "1:1: `acl` is not carried over, here and 1 times more",
            "2:1: `logging` is not carried over",
            "3:11: `recursion` in `options` is not carried over",
            "3:41: `listen-on` in `options` is not carried over",
            "4:1: `controls` is not carried over",
            "5:31: `allow-query` in `zone` is not carried over, here and 1 times more",
            "6:53: `update-policy` in `zone` is not carried over",
            "8:1: `view` is not carried over",
            "9:1: `key` is not carried over",
        ]
    );
}

#[test]
fn views_have_zones_of_one_name_and_lists_replace_those_further_out() {
    let conf = conf(
        "acl office { 192.0.2.0/24; key office; };\n\
         key \"office\" { algorithm HMAC-SHA256; secret \"eA==\"; };\n\
         key lab { algorithm hmac-sha512; secret \"eQ==\"; };\n\
         options { directory \"/z\"; allow-transfer { none; }; allow-query { 192/8; }; };\n\
         view inside { match-clients { !key lab; office; 10/8; }; recursion no;\n\
         zone a { type master; file \"in/a\"; allow-query { 10.1/16; }; }; };\n\
         view \"outside\" IN { allow-query { any; }; allow-transfer { key lab; }; also-notify { 192.0.2.53; };\n\
         match-clients { key lab; any; }; zone a { type master; file \"ex/a\"; };\n\
         zone b { in-view inside; }; };",
    );
    assert_eq!(
        zones(&conf),
        [
            "a. Primary /z/in/a",
            "a. Primary /z/ex/a",
            "b. Other(\"in-view\") -"
        ]
    );
    let ids: Vec<String> = conf
        .zones
        .iter()
        .map(|zone| zone.id().to_string())
        .collect();
    assert_eq!(ids, ["a..inside", "a..outside", "b..outside"]);
    let shown = |clients: &Clients| {
        let keys = clients.keys.iter().map(ToString::to_string);
        let all: Vec<String> = clients.networks.entries().chain(keys).collect();
        all.join(" ")
    };
    let views: Vec<String> = conf
        .views
        .iter()
        .map(|view| format!("{}: {}", view.name, shown(&view.clients)))
        .collect();
    assert_eq!(
        views,
        [
            "inside: 192.0.2.0/24 10.0.0.0/8 office.",
            "outside: 0.0.0.0/0 ::/0 lab.",
        ]
    );
    let access = |place: usize| {
        let ZoneAccess {
            query, transfer, ..
        } = &conf.zones[place].access;
        let of = |list: &Option<Clients>| list.as_ref().map(shown);
        (of(query), of(transfer))
    };
    assert_eq!(access(0), (Some("10.1.0.0/16".into()), Some(String::new())));
    assert_eq!(access(1), (None, Some("lab.".into())));
    assert_eq!(
        conf.zones[1].also_notify,
        ["192.0.2.53:53".parse().unwrap()]
    );
    let keys: Vec<String> = conf
        .keys
        .iter()
        .map(|key| format!("{} {} {}", key.name, key.algorithm, key.secret))
        .collect();
    assert_eq!(keys, ["office. hmac-sha256 eA==", "lab. hmac-sha512 eQ=="]);
    assert!(!format!("{conf:?}").contains("eA=="), "the secret is shown");
    assert_eq!(
        lines(&conf.warnings),
        [
            "9:6: the zone b. (in-view) is not served",
            "5:58: `recursion` in `view` is not carried over",
        ]
    );
}

/// What a list means, by an address and perhaps a key, or the warning that it means something else.
fn meaning(list: &str, clients: &[(&str, Option<&str>, bool)]) {
    let text = format!(
        "acl plain {{ 192.0.2.0/24; 2001:db8::/32; }}; acl holed {{ !192.0.2.9; 192.0.2.0/24; }}; acl again {{ again; }};\n\
         zone a {{ type master; file a; allow-query {{ {list} }}; }};"
    );
    let conf = conf(&text);
    let access = &conf.zones[0].access;
    for (address, key, expected) in clients {
        let key: Option<Name> = key.map(|key| key.parse().unwrap());
        let has = access.may_query(address.parse().unwrap(), key.as_ref());
        assert_eq!(
            has, *expected,
            "{list} {address} {key:?} {:?}",
            conf.warnings
        );
    }
    let is_carried = conf.warnings.is_empty();
    assert_eq!(
        is_carried,
        clients.iter().any(|(.., has)| *has),
        "{list} {:?}",
        conf.warnings
    );
}

#[test]
fn the_first_element_that_fits_decides_or_the_list_lets_nobody_in() {
    let all = [
        ("192.0.2.1", None, true),
        ("2001:db8::1", None, true),
        ("10.1.1.1", None, true),
    ];
    meaning("any;", &all);
    meaning("any; !192.0.2.1;", &all);
    meaning("!none; any;", &all);
    meaning("10.1.1.1; 192.0.2.1; !10/8; !192.0.2.0/24; any;", &all);
    meaning(
        "! 10/8; any;",
        &[("10.1.1.1", None, false), ("192.0.2.1", None, true)],
    );
    meaning(
        "10/8; !10.1/16;",
        &[("10.1.1.1", None, true), ("11.0.0.1", None, false)],
    );
    meaning(
        "!10.1/16; 10/8;",
        &[("10.1.1.1", None, false), ("10.2.1.1", None, true)],
    );
    meaning(
        "plain;",
        &[("192.0.2.9", None, true), ("2001:db9::1", None, false)],
    );
    meaning(
        "!plain; any;",
        &[("192.0.2.9", None, false), ("10.0.0.1", None, true)],
    );
    meaning(
        "holed;",
        &[("192.0.2.9", None, false), ("192.0.2.8", None, true)],
    );
    meaning(
        "{ 10/8; { 192.0.2.1; }; };",
        &[("192.0.2.1", None, true), ("192.0.2.2", None, false)],
    );
    meaning(
        "key k; 10/8;",
        &[
            ("192.0.2.1", Some("k"), true),
            ("10.0.0.1", None, true),
            ("192.0.2.1", None, false),
        ],
    );
    // Another order than sets have, or clients that are not known here.
    for list in [
        "holed; any;",
        "!holed; any;",
        "!10/8; key k;",
        "!key k; any;",
        "!localnets; any;",
        "!{ !10/8; any; }; key k;",
        "again;",
        "geoip country NL;",
        "nowhere;",
    ] {
        let nobody = [("10.1.1.1", None, false), ("192.0.2.9", Some("k"), false)];
        meaning(list, &nobody);
    }
    refused(
        "zone a { type master; file a; allow-query { 10/8 192.0.2.1; }; };",
        &["1:45: `10/8` is no element of a list; is a `;` missing?"],
    );
}

#[test]
fn included_files_are_read_in_place() {
    let conf = load(&[
        ("/etc/named.conf", "options { directory \"/z\"; };\ninclude \"a\";\ninclude \"/x/c\";\nzone last { file l; };"),
        ("/etc/a", "zone a { file a; };\ninclude \"b\";"),
        ("/z/b", "zone b { file b; };"),
        ("/x/c", "zone c { file c; };\ninclude \"d\";"),
        ("/x/d", "zone d { file d; };"),
    ])
    .unwrap();
    assert_eq!(
        zones(&conf),
        [
            "a. Native /z/a",
            "b. Native /z/b",
            "c. Native /z/c",
            "d. Native /z/d",
            "last. Native /z/l"
        ]
    );
    let files: Vec<_> = conf
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    assert_eq!(
        files,
        [
            "/etc/named.conf",
            "/z/a",
            "/etc/a",
            "/z/b",
            "/x/c",
            "/z/d",
            "/x/d"
        ]
    );
}

#[test]
fn missing_and_looping_includes_are_refused() {
    refused(
        "include \"x\";",
        &["1:1: cannot read /etc/x: entity not found"],
    );
    refused(
        "include \"named.conf\";",
        &["1:1: /etc/named.conf includes itself"],
    );
    refused(
        "include;",
        &["1:1: `include` takes one name; is a `;` missing?"],
    );
    let mut n_loads = 0;
    let rejected = parse(Path::new("0"), Dialect::Bind, Path::new(""), &mut |path| {
        n_loads += 1;
        let next = path.to_str().unwrap().parse::<u32>().unwrap() + 1;
        Ok(format!("include \"{next}\"; include \"{next}\";").into_bytes())
    });
    let first = rejected.unwrap_err().problems.first().unwrap().to_string();
    assert_eq!(first, "20:1:1: includes nest deeper than 20");
    assert!(n_loads < 200, "{n_loads}");
}

#[test]
fn every_slip_is_reported_with_its_place() {
    refused(
        "zone a { type master; };\n\
         zone b { type master file b; };\n\
         zone c { file c; } zone d { file d; };\n\
         zone e { file e };\n\
         zone E. { file e; };\n\
         zone a..b { file x; };\n\
         zone f;\n\
         zone { file x; };\n\
         { x; };\n\
         zone g { file \"\"; };\n\
         zone h { masters { 192.0.2.1 port x; }; };\n\
         options directory x;\n\
         zone i { file i; }",
        &[
            "4:17: `;` is missing before this brace",
            "13:19: `;` is missing at the end of the file",
            "1:6: the zone a. has no file",
            "2:22: `type` takes one word; is a `;` missing?",
            "3:20: `zone` takes a name, perhaps a class, and a block; is a `;` missing?",
            "5:6: the zone E. is declared at 4:6 too",
            "6:6: empty label in a domain name",
            "7:1: `zone` takes a name, perhaps a class, and a block; is a `;` missing?",
            "8:1: `zone` takes a name, perhaps a class, and a block; is a `;` missing?",
            "9:1: a statement begins with a word",
            "10:15: an empty file name",
            "11:30: no port number follows",
            "12:19: `options` takes one block in braces; is a `;` missing?",
        ],
    );
}

#[test]
fn an_unreadable_file_is_refused() {
    let rejected = load(&[]).unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "cannot read /etc/named.conf: entity not found"
    );
    assert_eq!(rejected.files, [Path::new("/etc/named.conf")]);
}

#[test]
fn tens_of_thousands_of_zones_are_read() {
    let text: String = (0..20_000)
        .map(|n| {
            format!(
                "zone \"z{n}.example\" {{ type master; file \"z{n}\"; allow-query {{ any; }}; }};\n"
            )
        })
        .collect();
    let text = [text.clone(), text.replace('\n', " ").replace("\"z", "\"y")].concat();
    let conf = conf(&text);
    assert_eq!((conf.zones.len(), conf.warnings.len()), (40_000, 0));
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
        "zone",
        "view",
        "acl",
        "key",
        "allow-query",
        "match-clients",
        "!",
        "!a",
        "10/8",
        "options",
        "include",
        "\"a\"",
        "a",
        "{",
        "}",
        ";",
        "type",
        "master",
        "file",
        "masters",
        "port",
        "192.0.2.1",
        "\"",
        "/*",
        "*/",
        "//",
        "#",
        "\n",
        "directory",
        "\u{fc}",
        "\\",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random(30))
            .map(|_| words[random(words.len())].to_owned() + [" ", ""][random(2)])
            .collect();
        drop(parse_bytes(text.as_bytes()));
    }
}

#[test]
fn transfers_over_tls_alone_stay_so() {
    let conf = conf(
        "options { directory \"/z\"; allow-transfer port 853 transport tls { 192.0.2.1; }; };\n\
         zone a { type master; file a; };\n\
         zone b { type master; file b; allow-transfer { 192.0.2.2; }; };\n\
         zone c { type master; file c; allow-transfer transport TLS { key k; }; };\n\
         zone d { type master; file d; allow-transfer port 53 transport tcp { any; }; };",
    );
    let found: Vec<_> = conf
        .zones
        .iter()
        .map(|zone| (zone.access.transfer.is_some(), zone.access.needs_tls))
        .collect();
    let expected = [Some(true), None, Some(true), None];
    assert_eq!(found, expected.map(|needs_tls| (true, needs_tls)));
    for (words, reason) in [
        ("transport quic", "`quic` is no transport of transfers"),
        ("port", "a list in braces"),
        ("over tls", "a list in braces"),
    ] {
        let text = format!("zone a {{ type master; file a; allow-transfer {words} {{ any; }}; }};");
        let error = load(&[("/etc/named.conf", &text)]).unwrap_err();
        let said = lines(&error.problems).concat();
        assert!(said.contains(reason), "{words}: {said}");
    }
}
