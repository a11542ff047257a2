use std::path::Path;

use config::Class;

use crate::NoHostInfo;
use crate::tests::frontend;

#[test]
fn names_become_routes() {
    let (frontend, remarks) = frontend(
        "tcp-request inspect-delay 7s\n\
         tcp-request content accept if { req.ssl_hello_type 1 }\n\
         acl is_tls req_ssl_hello_type 1\n\
         acl apps req.ssl_sni -i -m end .Apps.Example\n\
         acl apps req_ssl_sni,lower console.example\n\
         use_backend a if is_tls apps\n\
         use_backend b if { req.ssl_sni -m found }\n\
         use_backend a\n",
    );
    assert_eq!(remarks, "");
    assert_eq!(frontend["inspect-timeout"], "7s".into());
    assert_eq!(frontend["backend"], "a".into());
    let routes = frontend["route"].clone();
    let expected: toml::Value = toml::from_str::<toml::Table>(
        "route = [{ names = [\"*.apps.example\", \"console.example\"], backend = \"a\" }, { names = [\"*\"], backend = \"b\" }]",
    )
    .unwrap()["route"]
        .clone();
    assert_eq!(routes, expected);
}

/// The routes of a rule to `a` in the order of the file, and the remarks.
fn in_order(condition: &str) -> (toml::Table, String) {
    let (frontend, remarks) = frontend(&format!("use_backend a if {condition}\ndefault_backend b"));
    assert_eq!(frontend["route-order"], "first".into(), "{condition}");
    let mut route = frontend["route"][0].as_table().unwrap().clone();
    assert_eq!(route.remove("backend"), Some("a".into()));
    (route, remarks)
}

#[test]
fn texts_in_names_become_regular_expressions() {
    for (condition, expected) in [
        ("-m sub b.ex", &["b\\.ex"][..]),
        ("-m beg Shop- eu.", &["^shop\\-", "^eu\\."]),
        ("-m end example", &["example$"]),
        (
            "-m dom .shop. eu",
            &["(^|[/?.:])shop([/?.:]|$)", "(^|[/?.:])eu([/?.:]|$)"],
        ),
        ("-m dir shop", &["(^|[/?])shop([/?]|$)"]),
        ("-m reg ^Shop-[0-9]+\\.", &["^Shop-[0-9]+\\."]),
        // It is no pattern there.
        ("*.example", &["^\\*\\.example$"]),
    ] {
        let (route, remarks) = in_order(&format!("{{ req.ssl_sni -i {condition} }}"));
        let patterns: Vec<&str> = route["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        assert_eq!(patterns, expected, "{condition}");
        assert_eq!((route.len(), &*remarks), (1, ""), "{condition}");
    }
    for (condition, reason) in [
        ("-m reg (?=x)", "look-around"),
        ("-m reg (a{500}){500}", "is no regular expression"),
        ("-m len 5", "names are not matched by `len`"),
    ] {
        let rule = format!("use_backend a if {{ req.ssl_sni {condition} }}\ndefault_backend b");
        let (frontend, remarks) = frontend(&rule);
        assert!(remarks.contains(reason), "{condition}: {remarks}");
        assert_eq!(frontend.get("route"), None, "{condition}");
    }
}

#[test]
fn protocols_become_routes_whose_differences_are_told() {
    let (route, remarks) = in_order("{ req.ssl_alpn acme-tls/1 }");
    assert_eq!(route["protocols"][0], "acme-tls/1".into());
    assert_eq!(remarks, "");
    let (route, remarks) = in_order("{ req.ssl_alpn -i -m sub h2 h3 } { req.ssl_sni -i a.b }");
    assert_eq!(route["protocols"].as_array().unwrap().len(), 2);
    assert_eq!(route["names"][0], "a.b".into());
    for words in ["protocols are compared whole", "with regard to case"] {
        assert!(remarks.contains(words), "{remarks}");
    }
    for (condition, reason) in [
        ("{ req.ssl_alpn -m reg h2 }", "are not matched by `reg`"),
        (
            "{ req.ssl_alpn h2 } { req.ssl_alpn h3 }",
            "routed by the name and the protocols",
        ),
        (
            "!{ req.ssl_alpn h2 }",
            "routed by the name and the protocols",
        ),
    ] {
        let (_, remarks) = frontend(&format!("use_backend a if {condition}\ndefault_backend b"));
        assert!(remarks.contains(reason), "{condition}: {remarks}");
    }
}

#[test]
fn rules_keep_their_order_where_names_alone_do_not_decide() {
    let (frontend, remarks) = frontend(
        "acl shop req.ssl_sni -i -m beg shop-\n\
         acl shop req.ssl_sni -i shop.example\n\
         use_backend a if shop\n\
         use_backend b if { req.ssl_sni -i -m end .example } or { req.ssl_sni -i -m reg ^eu }\n\
         use_backend a if { req.ssl_sni -i eu.example }\n",
    );
    assert_eq!(remarks, "");
    let expected = "route-order = \"first\"\n\
        route = [{ names = [\"shop.example\"], matches = [\"^shop\\\\-\"], backend = \"a\" }, \
        { names = [\"*.example\"], matches = [\"^eu\"], backend = \"b\" }, \
        { names = [\"eu.example\"], backend = \"a\" }]";
    let expected = toml::from_str::<toml::Table>(expected).unwrap();
    for key in ["route-order", "route"] {
        assert_eq!(frontend[key], expected[key]);
    }
}

#[test]
fn a_name_that_a_rule_before_takes_is_not_routed_elsewhere() {
    let (frontend, remarks) = frontend(
        "use_backend a if { req.ssl_sni -i -m end .x.example }\n\
         use_backend b if { req.ssl_sni -i www.x.example }\n\
         use_backend b if { req.ssl_sni -i -m end .y.x.example }\n\
         use_backend b if { req.ssl_sni -i x.example notx.example }\n\
         use_backend a if { req.ssl_sni -i www.x.example }\n",
    );
    let routes = frontend["route"].as_array().unwrap();
    assert_eq!(routes[1]["names"].as_array().unwrap().len(), 2);
    assert_eq!(routes[2]["names"][0], "www.x.example".into());
    assert_eq!(remarks.lines().count(), 2, "{remarks}");
    assert!(
        remarks.contains("`www.x.example` is never reached: `*.x.example` before it goes to a")
    );
}

#[test]
fn capital_letters_are_told_where_they_counted() {
    for (rule, is_told) in [
        ("use_backend a if { req.ssl_sni x.example }", true),
        ("use_backend a if { req.ssl_sni -m end .example }", true),
        (
            "use_backend a if { req.ssl_sni -i x.example } or { req.ssl_sni y.example }",
            true,
        ),
        ("use_backend a if { req.ssl_sni -i x.example }", false),
        ("use_backend a if { req.ssl_sni,lower x.example }", false),
        ("use_backend a if { req.ssl_sni -m found }", false),
    ] {
        let (_, remarks) = frontend(rule);
        assert_eq!(
            remarks.contains("without regard to case"),
            is_told,
            "{rule}: {remarks}"
        );
    }
}

#[test]
fn rules_of_a_proxy_that_connects_are_not_for_its_clients() {
    let import = |bind: &str, phase: &str| {
        let text = format!(
            "listen l\nbind :1 {bind}\ntcp-request {phase} reject if {{ src 192.0.2.66 }}\nserver s 192.0.2.1:1\n"
        );
        let files = [(Path::new("haproxy.cfg"), text.as_bytes())];
        let draft = crate::import(&files, &NoHostInfo).unwrap();
        let denied = draft.config.frontend[0].deny_from.entries().count();
        let classes: Vec<Class> = draft.notes.iter().map(|note| note.class).collect();
        (denied, classes)
    };
    assert_eq!(import("", "connection"), (1, vec![]));
    assert_eq!(
        import("accept-proxy", "connection"),
        (0, vec![Class::Security])
    );
    for phase in ["session", "content"] {
        assert_eq!(import("accept-proxy", phase), (1, vec![]));
    }
}

#[test]
fn routes_by_anything_else_are_reported() {
    for rule in [
        "use_backend a if { src 10.0.0.0/8 }",
        "use_backend a if { path /x }",
        "use_backend a if !{ req.ssl_sni x }",
        "use_backend a unless { req.ssl_sni x }",
        "use_backend a if { req.ssl_sni x } { src 10.0.0.0/8 }",
        "use_backend a if { req.ssl_sni -m reg x( }",
        "use_backend a if { req.ssl_sni -m len 1 }",
        "use_backend a if { req.ssl_sni -f /etc/list }",
        "use_backend a if nothing",
        "use_backend a if",
        "use_backend a if { req.ssl_sni x } or",
        "use_backend a when { req.ssl_sni x }",
        "use_backend %[req.ssl_sni]",
        "use_backend gone if { req.ssl_sni -i x }",
    ] {
        let (frontend, remarks) = frontend(&format!("{rule}\ndefault_backend b"));
        assert_eq!(frontend.get("route"), None, "{rule}");
        assert_eq!(frontend["backend"], "b".into());
        assert_eq!(remarks.lines().count(), 1, "{rule}: {remarks}");
    }
}

#[test]
fn conditions_may_be_turned_around() {
    for rule in [
        "reject if !ours",
        "reject if ! ours",
        "reject unless ours",
        "reject unless { src 10.0.0.0/8 } or { src 192.0.2.1 }",
    ] {
        let acl = "acl ours src 10.0.0.0/8 192.0.2.1";
        let (frontend, remarks) = frontend(&format!(
            "{acl}\ntcp-request connection {rule}\ndefault_backend b"
        ));
        let n_lists = usize::from(frontend.contains_key("allow-from"));
        // Two networks that are not to be is one list only when they are written as one.
        assert!(
            n_lists == 1 || remarks.contains("too intricate"),
            "{rule}: {remarks}"
        );
        assert_eq!(frontend.get("deny-from"), None);
    }
}

/// What `tcp-request` rules come to.
fn check_sources(rules: &[&str], allow: Option<&[&str]>, deny: &[&str], n_remarks: usize) {
    let lines: Vec<String> = rules
        .iter()
        .map(|rule| format!("tcp-request {rule}"))
        .collect();
    let (frontend, remarks) = frontend(&format!("{}\ndefault_backend b", lines.join("\n")));
    let list = |key: &str| {
        let list = frontend.get(key).and_then(toml::Value::as_array)?;
        let items = list.iter().map(|item| item.as_str().unwrap());
        Some(items.collect::<Vec<_>>())
    };
    assert_eq!(list("allow-from").as_deref(), allow, "{rules:?}: {remarks}");
    assert_eq!(
        list("deny-from").unwrap_or_default(),
        deny,
        "{rules:?}: {remarks}"
    );
    assert_eq!(remarks.lines().count(), n_remarks, "{rules:?}: {remarks}");
}

/// Rules; who is allowed, who is denied, and how much is reported.
type Row<'a> = (&'a [&'a str], Option<&'a [&'a str]>, &'a [&'a str], usize);

#[test]
fn sources_come_to_two_lists_or_are_reported() {
    const TEN: &str = "{ src 10.0.0.0/8 }";
    const ONE: &str = "{ src 10.1.0.0/16 }";
    const HELLO: &str = "content accept if { req.ssl_hello_type 1 }";
    const OURS: Option<&[&str]> = Some(&["10.0.0.0/8"]);
    // An empty list of those that may connect would let every client in.
    const EVERY: &[&str] = &["0.0.0.0/0", "::/0"];
    let reject_ten = format!("connection reject if {TEN}");
    let reject_one = format!("connection reject if {ONE}");
    let accept_ten = format!("connection accept if {TEN}");
    let accept_one = format!("connection accept if {ONE}");
    let content_ten = format!("content reject if {TEN}");
    let both = format!("connection reject if {TEN} {ONE}");
    let not_ten = "connection reject if !{ src 10.0.0.0/8 }";
    let not_two = "connection reject if !{ src 192.0.2.1 }";
    let all = "connection reject";
    let table: [Row<'_>; 19] = [
        (&[&reject_ten], None, &["10.0.0.0/8"], 0),
        (
            &[&reject_ten, &reject_one],
            None,
            &["10.0.0.0/8", "10.1.0.0/16"],
            0,
        ),
        (&[&accept_ten, all], OURS, &[], 0),
        (&[not_ten], OURS, &[], 0),
        (&[&reject_one, &accept_ten, all], OURS, &["10.1.0.0/16"], 0),
        (
            &["connection accept if LOCALHOST", all],
            Some(&["127.0.0.0/8", "::1/128"]),
            &[],
            0,
        ),
        // An exception from what is denied cannot be written.
        (&[&accept_one, &reject_ten], None, &[], 1),
        (&[not_ten, not_two], OURS, &[], 1),
        (&[all, &accept_ten], None, EVERY, 1),
        (&["connection accept", &reject_ten], None, &[], 1),
        (&[&both], None, &[], 1),
        (&["connection reject if { src nonsense }"], None, &[], 1),
        // What is asked of the content comes after what is asked of the connection.
        (&[&content_ten], None, &["10.0.0.0/8"], 0),
        (&[HELLO, "content reject"], None, &[], 1),
        (&[HELLO, &content_ten], None, &[], 1),
        (&[HELLO, all], None, EVERY, 0),
        // A drop keeps clients out as a rejection does, and is said to differ.
        (&["session silent-drop"], None, EVERY, 1),
        (
            &["connection silent-drop if !{ src 10.0.0.0/8 }"],
            OURS,
            &[],
            1,
        ),
        (
            &["connection track-sc0 src", "connection what"],
            None,
            &[],
            1,
        ),
    ];
    for (rules, allow, deny, n_remarks) in table {
        check_sources(rules, allow, deny, n_remarks);
    }
}

/// The weights of the notes on rules of a frontend.
fn classes(rules: &str) -> Vec<Class> {
    let text = format!(
        "frontend f\nbind :1\n{rules}\ndefault_backend b\nbackend b\nserver b 192.0.2.2:1\n"
    );
    let files = [(Path::new("haproxy.cfg"), text.as_bytes())];
    let draft = crate::import(&files, &NoHostInfo).unwrap();
    draft.notes.iter().map(|note| note.class).collect()
}

#[test]
fn a_lost_restriction_is_a_matter_of_security() {
    use Class::{Behaviour, Cosmetic, Security};
    let table: [(&str, &[Class]); 23] = [
        // Clients that were kept out would get in.
        (
            "acl lan src -f /etc/lan\ntcp-request connection reject unless lan",
            &[Security],
        ),
        (
            "acl lan src -f /etc/lan\ntcp-request connection silent-drop if !lan",
            &[Security],
        ),
        (
            "tcp-request connection reject if { sc0_sess_rate gt 50 }",
            &[Security],
        ),
        (
            "tcp-request content reject if { req.payload(0,4) -m bin 00 }",
            &[Security],
        ),
        (
            "tcp-request connection accept if { src -f /x }\ntcp-request connection reject",
            &[Security],
        ),
        (
            "tcp-request connection expect-proxy layer4 if { src 10.0.0.0/8 }",
            &[Security],
        ),
        ("tcp-request connection what", &[Security]),
        ("http-request deny unless { src 10.0.0.0/8 }", &[Security]),
        ("http-request auth unless { http_auth(users) }", &[Security]),
        ("http-response deny if { status 500 }", &[Security]),
        ("bind :2 interface eth0", &[Security]),
        ("use_backend b if { path /x }", &[Security]),
        // They are kept out all the same.
        ("tcp-request connection reject", &[]),
        ("tcp-request connection silent-drop", &[Behaviour]),
        ("tcp-request connection reject if !{ src 10.0.0.0/8 }", &[]),
        // These keep no client out.
        (
            "tcp-request connection accept if { src -f /x }",
            &[Cosmetic],
        ),
        (
            "tcp-request connection accept\ntcp-request connection reject if { src -f /x }",
            &[Cosmetic],
        ),
        (
            "tcp-request content accept if { req.ssl_hello_type 1 }\ntcp-request content reject",
            &[Behaviour],
        ),
        ("tcp-request connection track-sc0 src", &[]),
        (
            "tcp-request connection reject if { sc0_conn_rate gt 50 }",
            &[Cosmetic],
        ),
        ("tcp-request content set-var(txn.a) src", &[Behaviour]),
        ("http-request set-header X-Y z", &[Behaviour]),
        ("timeout http-request 5s", &[Behaviour]),
    ];
    for (rules, expected) in table {
        assert_eq!(classes(rules), expected, "{rules}");
    }
}

#[test]
fn a_rule_of_a_backend_is_not_lost_in_silence() {
    let rules = "default_backend b\nbackend b\ntcp-request content reject if { src 10.0.0.0/8 }\n#";
    let text = format!("frontend f\nbind :1\n{rules}\nserver b 192.0.2.2:1\n");
    let files = [(Path::new("haproxy.cfg"), text.as_bytes())];
    let draft = crate::import(&files, &NoHostInfo).unwrap();
    let note = draft.notes.first().unwrap();
    assert_eq!(note.class, Class::Security);
    assert!(note.reason.contains("write the rule there"), "{note}");
}
