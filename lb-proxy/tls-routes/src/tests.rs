//! Rules from configurations, and the backends that they lead to.

use super::*;

/// A route: names, regular expressions, protocols, backend.
type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);

fn specs(rows: &[Row<'_>]) -> Vec<file::Route> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let spec = |(names, matches, protocols, backend): &Row<'_>| file::Route {
        names: owned(names),
        matches: owned(matches),
        protocols: owned(protocols),
        backend: (*backend).to_owned(),
    };
    rows.iter().map(spec).collect()
}

/// The routes of rows whose backends are numbers.
#[track_caller]
fn routes(order: RouteOrder, rows: &[Row<'_>]) -> Routes {
    let (rules, faults) = read(order, &specs(rows));
    assert_eq!(faults, []);
    Routes::new(&rules, |backend| backend.parse().ok())
}

#[track_caller]
fn check(routes: &Routes, name: &str, protocols: &[&str], expected: Option<usize>) {
    let protocols: Vec<Box<[u8]>> = protocols.iter().map(|it| it.as_bytes().into()).collect();
    let asked = Some(name).filter(|name| !name.is_empty());
    let found = routes.find(asked, &protocols);
    assert_eq!(found, expected, "{name:?} {protocols:?}");
}

#[test]
fn the_closest_name_decides() {
    let rows: [Row<'_>; 3] = [
        (&["console.apps.example.org"], &[], &[], "1"),
        (&["*.apps.example.org"], &[], &[], "2"),
        (&["*.Example.Org."], &[], &[], "3"),
    ];
    let by_name = routes(RouteOrder::Closest, &rows);
    for (name, expected) in [
        ("console.apps.example.org", Some(1)),
        ("oauth.apps.example.org.", Some(2)),
        ("a.b.apps.example.org", Some(2)),
        ("apps.example.org", Some(3)),
        ("example.org", None),
        ("", None),
        ("badexample.org", None),
    ] {
        check(&by_name, name, &["h2"], expected);
    }
    let with_all = [&rows[..], &[(&["*"], &[], &[], "4")]].concat();
    let by_name = routes(RouteOrder::Closest, &with_all);
    check(&by_name, "example.org", &[], Some(4));
    check(&by_name, "", &[], None);
}

#[test]
fn protocols_come_before_names_and_names_before_regular_expressions() {
    let rows: [Row<'_>; 6] = [
        (&[], &["^shop-[0-9]+\\.", "^eu\\."], &[], "1"),
        (&["shop-7.example"], &[], &[], "2"),
        (&["*.example"], &["^API\\."], &[], "3"),
        (&[], &["."], &[], "4"),
        (&[], &[], &["acme-tls/1"], "5"),
        (&["shop-7.example"], &["^eu"], &["h2", "h3"], "6"),
    ];
    let routes = routes(RouteOrder::Closest, &rows);
    for (name, protocols, expected) in [
        ("shop-7.example", &[][..], Some(2)),
        ("shop-8.example", &[], Some(3)),
        ("shop-8.other", &[], Some(1)),
        ("eu.other", &[], Some(1)),
        ("api.other", &[], Some(3)),
        ("other", &[], Some(4)),
        ("", &[], None),
        ("", &["acme-tls/1"], Some(5)),
        ("shop-7.example", &["acme-tls/1", "h2"], Some(5)),
        ("shop-7.example", &["http/1.1", "h3"], Some(6)),
        ("eu.other", &["h2"], Some(6)),
        ("shop-7.example", &["H2"], Some(2)),
        ("us.other", &["h2"], Some(4)),
    ] {
        check(&routes, name, protocols, expected);
    }
}

#[test]
fn the_first_that_fits_decides_if_it_is_to() {
    let rows: [Row<'_>; 4] = [
        (&["*.example"], &[], &[], "1"),
        (&["a.example"], &["^b"], &["h2"], "2"),
        (&["a.example", "*.a.example"], &["^b"], &[], "3"),
        (&["b.test", "a.example"], &[], &[], "4"),
    ];
    let routes = routes(RouteOrder::First, &rows);
    for (name, protocols, expected) in [
        ("a.example", &["h2"][..], Some(1)),
        ("b.test", &["h2"], Some(2)),
        ("b.test", &[], Some(3)),
        ("", &["h2"], None),
        ("c.test", &[], None),
    ] {
        check(&routes, name, protocols, expected);
    }
}

#[test]
fn wrong_values_are_named_with_their_places() {
    let long = "x".repeat(256);
    let rows: [Row<'_>; 6] = [
        (&[], &[], &[], "1"),
        (&["a..b", "a.b"], &["("], &[], "2"),
        (&["A.B."], &["(a{500}){500}"], &[], "3"),
        (&["c.d"], &["(?=x)"], &["", &long], "4"),
        (&["b.a"], &["\\bx\\d"], &[], "5"),
        (&["b.a"], &[], &["h2"], "6"),
    ];
    let (rules, faults) = read(RouteOrder::Closest, &specs(&rows));
    let said: Vec<String> = faults
        .iter()
        .map(|fault| format!("{} {:?} {}", fault.route, fault.value, fault.reason))
        .collect();
    let expected = [
        "0 None a route needs a name in `names`, `matches` or `protocols`",
        "1 Some((\"names\", 0)) `a..b` is no host name",
        "1 Some((\"matches\", 0)) `(` is no regular expression: unclosed group",
        "2 Some((\"names\", 0)) `a.b` has a route already",
        "2 Some((\"matches\", 0)) `(a{500}){500}` is no regular expression",
        "3 Some((\"matches\", 0)) `(?=x)` is no regular expression: look-around",
        "3 Some((\"protocols\", 0)) a protocol has a name",
        "3 Some((\"protocols\", 1)) a protocol's name has at most 255 octets",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    assert_eq!(rules.backends().count(), 6);
    // What comes first is plain in the other order.
    let twice: [Row<'_>; 2] = [(&["a.b"], &[], &[], "1"), (&["a.b"], &[], &[], "2")];
    assert_eq!(read(RouteOrder::First, &specs(&twice)).1, []);
}

#[test]
fn there_are_no_more_regular_expressions_than_a_connection_can_pay_for() {
    let many = vec!["^a"; MOST_PATTERNS];
    let rows: [Row<'_>; 2] = [(&[], &many, &[], "1"), (&[], &["^b"], &[], "2")];
    let (_, faults) = read(RouteOrder::First, &specs(&rows[..1]));
    assert_eq!(faults, []);
    let (_, faults) = read(RouteOrder::First, &specs(&rows));
    let places: Vec<_> = faults.iter().map(|it| (it.route, it.value)).collect();
    assert_eq!(places, [(1, Some(("matches", 0)))]);
}

#[test]
fn a_route_whose_backend_is_gone_leads_nowhere() {
    let rows: [Row<'_>; 2] = [(&["a.b"], &["c"], &[], "gone"), (&[], &[], &["h2"], "gone")];
    assert!(routes(RouteOrder::Closest, &rows).is_empty());
    assert!(!routes(RouteOrder::Closest, &[(&[], &["c"], &[], "1")]).is_empty());
}

#[test]
fn rules_are_told_in_words() {
    let rows: [Row<'_>; 3] = [
        (&["a.b", "*.c"], &[], &[], "1"),
        (&["a.b"], &["^x", "y$"], &["h2", "h3"], "2"),
        (&[], &[], &["h2"], "3"),
    ];
    let (rules, _) = read(RouteOrder::First, &specs(&rows));
    let words = rules.in_words();
    let words: Vec<(&str, &str)> = words.iter().map(|(text, to)| (&**text, &***to)).collect();
    let expected = [
        ("a.b", "1"),
        ("*.c", "1"),
        ("a.b or /^x/ or /y$/ with protocol h2 or h3", "2"),
        ("any name with protocol h2", "3"),
    ];
    assert_eq!(words, expected);
}
