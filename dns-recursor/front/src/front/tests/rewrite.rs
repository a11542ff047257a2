//! Questions that rules change.

use dns_rewrite::Rule;

use super::*;

fn server_with_rule(kind: config::dns_recursor::RewriteMatch, from: &str, to: &str) -> Server {
    let rule = config::dns_recursor::Rewrite {
        kind,
        from: from.to_owned(),
        to: to.to_owned(),
        answer: true,
        answer_name: Vec::new(),
        answer_value: Vec::new(),
        then: config::dns_recursor::RewriteThen::Stop,
    };
    let mut server = server_with_names();
    let rule = Rule::new(&rule).unwrap();
    server.view.rewrites = Arc::new(Rewrites::new(vec![rule]));
    server
}

#[test]
fn a_changed_question_is_answered_as_the_clients_own() {
    use config::dns_recursor::RewriteMatch::Suffix;
    let server = server_with_rule(Suffix, ".test", ".example");
    let asked = ask("a.test");
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let judged = front.judge(&asked, ALLOWED, Transport::Udp, &mut key, &mut out);
    let Verdict::Resolve { asker, derived, .. } = judged.verdict else {
        panic!("{judged:?}");
    };
    assert_eq!(key.name(), b"\x01a\x07example\0");
    assert!(asker.question.starts_with(b"\x01a\x04test\0"));
    let found = answer("a.example", Type::A, Rcode::NOERROR, &[ADDRESS]);
    let whole = derived.unwrap().whole(&found.message).unwrap();
    assert_eq!(whole.question(), testing::question("a.test", Type::A));
    let query = Query::parse(&asked).unwrap();
    let rewritten = front.foresee(&query, true, &mut key).rewritten;
    assert_eq!(
        rewritten,
        Some((Name::parse("a.example").unwrap(), Type::A))
    );
    // From the cache, and by a response policy, whose alias leads to the cache.
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    for (name, n_answers, expected) in [
        ("a.test", 1, Source::Positive),
        ("www.test", 2, Source::Policy),
    ] {
        let (done, source) = server.judge(&ask(name));
        let Done::Reply(reply) = done else {
            panic!("{done:?}");
        };
        assert_eq!((counts(&reply)[1], source), (n_answers, expected));
        assert_eq!(addresses(&reply), ["192.0.2.7"]);
        let owner = Name::read(&reply, 12 + testing::question(name, Type::A).len());
        assert_eq!(owner.unwrap().0, Name::parse(name).unwrap());
    }
    let (done, source) = server.judge(&ask("bad.test"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((rcode(&reply), source), (Rcode::NXDOMAIN, Source::Policy));
}

#[test]
fn a_question_that_rules_make_no_name_of_fails() {
    use config::dns_recursor::RewriteMatch::Prefix;
    let server = server_with_rule(Prefix, "a", &"x".repeat(64));
    let (done, source) = server.judge(&ask("a.test"));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!((rcode(&reply), source), (Rcode::SERVFAIL, Source::Error));
    assert!(matches!(
        server.judge(&ask("b.test")).0,
        Done::Resolve { .. }
    ));
}
