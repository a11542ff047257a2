use config::dns_recursor::{AnswerChange, Rewrite, RewriteMatch, RewriteThen};
use dns_cache::message::Message;
use dns_cache::testing::{answer, question};
use dns_wire::{Rcode, Records, Section, records};

use super::*;

fn file(kind: RewriteMatch, from: &str, to: &str) -> Rewrite {
    Rewrite {
        kind,
        from: from.to_owned(),
        to: to.to_owned(),
        answer: true,
        answer_name: Vec::new(),
        answer_value: Vec::new(),
        then: RewriteThen::Stop,
    }
}

fn change(from: &str, to: &str) -> Vec<AnswerChange> {
    vec![AnswerChange {
        from: from.to_owned(),
        to: to.to_owned(),
    }]
}

fn rewrites(files: &[Rewrite]) -> Rewrites {
    Rewrites::new(files.iter().map(|file| Rule::new(file).unwrap()).collect())
}

/// The name and type that a question becomes, and the way back.
fn asked(rules: &[Rewrite], name: &str, qtype: Type) -> Option<(String, Type, Back)> {
    match rewrites(rules).apply(&question(name, qtype)) {
        Rewritten::Question(question, back) => {
            let (name, _) = Name::from_wire(&question).unwrap();
            Some((name.to_string(), key::qtype(&question), back))
        }
        Rewritten::Unchanged => None,
        Rewritten::NoName => Some((String::new(), qtype, Back::new(b""))),
    }
}

fn lines(message: &Message) -> Vec<String> {
    let bytes = message.bytes();
    let records = Records::new(bytes).unwrap().map(Result::unwrap);
    records
        .map(|record| records::line(bytes, &record, 0).unwrap())
        .collect()
}

/// The cases of CoreDNS's own tests among them.
#[test]
fn names_become_others_as_with_coredns() {
    use RewriteMatch::{Exact, Prefix, Regex, Substring, Suffix};
    for (kind, from, to, name, expected) in [
        (
            Exact,
            "a.example",
            "B.example",
            "a.example",
            Some("b.example."),
        ),
        (Exact, "a.example", "b.example", "x.a.example", None),
        (
            Prefix,
            "foo",
            "bar",
            "foo.example.com",
            Some("bar.example.com."),
        ),
        (
            Prefix,
            "foo.",
            "bar.",
            "foo.example.com",
            Some("bar.example.com."),
        ),
        (Prefix, "foo", "bar", "coredns.foo", None),
        (Prefix, "foo", "bar", "food.example", None),
        (
            Suffix,
            ".schmoogle.com.",
            ".google.com.",
            "www.schmoogle.com",
            Some("www.google.com."),
        ),
        (
            Suffix,
            ".schmoogle.com",
            ".google.com",
            "schmoogle.com",
            None,
        ),
        (
            Substring,
            "service.us-west-1.example.org",
            "service.us-west-1.consul",
            "ftp.service.us-west-1.example.org",
            Some("ftp.service.us-west-1.consul."),
        ),
        (
            Regex,
            r"(.*)-(us-west-1)\.example\.org",
            "{1}.service.{2}.consul",
            "ftp-us-west-1.example.org",
            Some("ftp.service.us-west-1.consul."),
        ),
        (
            Regex,
            r"(x)?a\.example",
            "b{1}.example",
            "a.example",
            Some("b.example."),
        ),
        (Exact, "a.example", "b..example", "a.example", Some("")),
        (Prefix, "a", &"x".repeat(64), "a.example", Some("")),
    ] {
        let found = asked(&[file(kind, from, to)], name, Type::A);
        let found = found.map(|(name, ..)| name);
        assert_eq!(found.as_deref(), expected, "{kind:?} {from} {name}");
    }
}

#[test]
fn rules_stop_or_go_on() {
    let first = file(RewriteMatch::Suffix, "a.example", "b.example");
    let second = file(RewriteMatch::Suffix, "b.example", "c.example");
    let both = [first.clone(), second.clone()];
    let name = |rules: &[Rewrite]| asked(rules, "x.a.example", Type::A).unwrap().0;
    assert_eq!(name(&both), "x.b.example.");
    let goes_on = Rewrite {
        then: RewriteThen::Continue,
        ..first
    };
    let (name, _, back) = asked(&[goes_on, second], "x.a.example", Type::A).unwrap();
    assert_eq!(name, "x.c.example.");
    let row = (Section::Answer, "x.c.example", Type::A, 60, "192.0.2.1");
    let found = answer("x.c.example", Type::A, Rcode::NOERROR, &[row]);
    let found = back.apply(&found.message).unwrap();
    assert_eq!(lines(&found), ["x.a.example. 60 IN A 192.0.2.1"]);
    assert_eq!(found.question(), question("x.a.example", Type::A));
}

#[test]
fn a_type_becomes_another() {
    let rules = [file(RewriteMatch::Type, "any", "HINFO")];
    let (name, qtype, back) = asked(&rules, "a.example", Type::ANY).unwrap();
    assert_eq!((name.as_str(), qtype), ("a.example.", Type::HINFO));
    assert!(asked(&rules, "a.example", Type::A).is_none());
    let soa = (Section::Authority, "example", Type::SOA, 60, "60");
    let denial = answer("a.example", Type::HINFO, Rcode::NXDOMAIN, &[soa]);
    let found = back.apply(&denial.message).unwrap();
    assert_eq!(found.rcode(), Rcode::NXDOMAIN);
    assert_eq!(found.question(), question("a.example", Type::ANY));
}

#[test]
fn names_of_answers_change_back() {
    use Section::Answer as In;
    let rows = [
        (In, "www.b.example", Type::CNAME, 60, "x.b.example"),
        (In, "x.b.example", Type::A, 60, "192.0.2.1"),
    ];
    let found = answer("www.b.example", Type::A, Rcode::NOERROR, &rows).message;
    let exact = file(RewriteMatch::Exact, "www.a.example", "www.b.example");
    let suffix = file(RewriteMatch::Suffix, "a.example", "b.example");
    let as_it_is = Rewrite {
        answer: false,
        ..suffix.clone()
    };
    let regex = Rewrite {
        answer_name: change(r"(.*)\.b\.example", "{1}.c.example"),
        ..as_it_is.clone()
    };
    let values = Rewrite {
        answer_value: change(r"^x\.(.*)\.$", "y.{1}"),
        ..as_it_is.clone()
    };
    for (rule, expected) in [
        (
            exact,
            [
                "www.a.example. 60 IN CNAME x.b.example.",
                "x.b.example. 60 IN A 192.0.2.1",
            ],
        ),
        (
            suffix,
            [
                "www.a.example. 60 IN CNAME x.a.example.",
                "x.a.example. 60 IN A 192.0.2.1",
            ],
        ),
        (
            as_it_is,
            [
                "www.b.example. 60 IN CNAME x.b.example.",
                "x.b.example. 60 IN A 192.0.2.1",
            ],
        ),
        (
            regex,
            [
                "www.c.example. 60 IN CNAME x.b.example.",
                "x.c.example. 60 IN A 192.0.2.1",
            ],
        ),
        (
            values,
            [
                "www.b.example. 60 IN CNAME y.b.example.",
                "x.b.example. 60 IN A 192.0.2.1",
            ],
        ),
    ] {
        let (_, _, back) = asked(&[rule], "www.a.example", Type::A).unwrap();
        assert_eq!(lines(&back.apply(&found).unwrap()), expected);
    }
}

#[test]
fn names_in_data_of_every_type_change_back_and_signatures_go() {
    let rules = rewrites(&[file(RewriteMatch::Suffix, "a.example", "b.example")]);
    let asked = question("www.a.example", Type::ANY);
    let Rewritten::Question(inner, back) = rules.apply(&asked) else {
        panic!("not rewritten");
    };
    let owner = Name::parse("www.b.example").unwrap();
    let target = owner.as_wire();
    let row = |rtype, rdata| dns_cache::message::Row {
        section: Section::Answer,
        owner: &owner,
        rtype,
        ttl: 60,
        rdata,
    };
    let (mx, srv) = (
        [&[0, 10], target].concat(),
        [&[0, 1, 0, 2, 0, 80], target].concat(),
    );
    let naptr = [&[0, 1, 0, 2, 1, b'u', 0, 0], target].concat();
    let signature = [&[0, 1, 13, 2][..], &[0; 14], &[0], &[1; 64]].concat();
    let rows = [
        row(Type::MX, &mx),
        row(Type::SRV, &srv),
        row(Type::NAPTR, &naptr),
        row(Type::NS, target),
        row(Type::TXT, b"\x01x"),
        row(Type::RRSIG, &signature),
    ];
    let found = Message::compose(&inner, Rcode::NOERROR, &rows).unwrap();
    let lines = lines(&back.apply(&found.with_ad(true)).unwrap());
    assert_eq!(lines.len(), 5);
    for line in lines.iter().take(4) {
        assert!(line.starts_with("www.a.example. 60 IN "), "{line}");
        assert!(line.ends_with(" www.a.example."), "{line}");
    }
}

#[test]
fn rules_that_cannot_be_are_told() {
    use RewriteMatch::{Exact, Regex, Type};
    for (kind, from, to, expected) in [
        (Exact, "", "b", "`from` is empty"),
        (Type, "nonsense", "A", "`nonsense` is no type of records"),
        (
            Regex,
            "(a)",
            "{1}{2}",
            "`{1}{2}` names the group {2}, which `(a)` does not have",
        ),
        (
            Regex,
            "(a",
            "b",
            "`(a` is no regular expression: unclosed group",
        ),
    ] {
        let error = Rule::new(&file(kind, from, to)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let long = file(Regex, &"a".repeat(10_001), "b");
    assert_eq!(Rule::new(&long).unwrap_err(), RuleError::Long);
    let answers = Rewrite {
        answer_name: change("a", "b"),
        ..file(Type, "ANY", "HINFO")
    };
    assert_eq!(Rule::new(&answers).unwrap_err(), RuleError::Answer);
}
