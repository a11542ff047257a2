//! What programs come to: fixed, a choice, or to be run for each query.

use super::*;

#[test]
fn constants_are_fixed() {
    for (code, expected) in [
        ("'192.0.2.1'", &["192.0.2.1"][..]),
        ("{'192.0.2.1', '192.0.2.2'}", &["192.0.2.1", "192.0.2.2"]),
        (";return '192.0.2.' .. 1 + 1", &["192.0.2.2"]),
        (
            ";local t = {} for i = 1, 3 do t[i] = '192.0.2.' .. i end return t",
            &["192.0.2.1", "192.0.2.2", "192.0.2.3"],
        ),
        ("all({'192.0.2.1'})", &["192.0.2.1"]),
        ("{}", &[]),
        ("pickrandom({'192.0.2.1'})", &["192.0.2.1"]),
    ] {
        assert_eq!(outcome(code), fixed(expected), "{code}");
    }
}

#[test]
fn a_pick_that_is_returned_is_a_choice() {
    for (code, select) in [
        ("pickrandom({'192.0.2.1', '192.0.2.2'})", Select::Random),
        ("pickhashed({'192.0.2.1', '192.0.2.2'})", Select::Hashed),
        (
            "pickrandomsample(2, {'192.0.2.1', '192.0.2.2'})",
            Select::Sample(2),
        ),
        (
            "pickwrandom({{1, '192.0.2.1'}, {9, '192.0.2.2'}})",
            Select::WeightedRandom,
        ),
        (
            "pickwhashed({{1, '192.0.2.1'}, {9, '192.0.2.2'}})",
            Select::WeightedHashed,
        ),
        (
            "picknamehashed({{1, '192.0.2.1'}, {9, '192.0.2.2'}})",
            Select::NameHashed,
        ),
        (
            ";local x = pickrandom({'192.0.2.1', '192.0.2.2'}) return x",
            Select::Random,
        ),
        (
            ";local x = pickrandom({'192.0.2.1', '192.0.2.2'}) return {x}",
            Select::Random,
        ),
        (
            "(function() return pickhashed({'192.0.2.1', '192.0.2.2'}) end)()",
            Select::Hashed,
        ),
    ] {
        let choice = choice(outcome(code));
        assert_eq!(choice.select, select, "{code}");
        assert_eq!(choice.members.len(), 2, "{code}");
        assert_eq!(
            (choice.certainty, choice.ttl_bound),
            (Certainty::Known, None)
        );
    }
}

#[test]
fn a_pick_that_is_looked_at_runs_per_query() {
    for code in [
        "pickrandom({'192.0.2.', '198.51.100.'}) .. '1'",
        ";if pickrandom({'a', 'b'}) == 'a' then return '192.0.2.1' else return '192.0.2.2' end",
        ";local x = pickrandom({'192.0.2.1', '192.0.2.2'}) if x == '192.0.2.2' then return '192.0.2.3' end return x",
        "{pickrandom({'192.0.2.1', '192.0.2.2'}), pickrandom({'192.0.2.1', '192.0.2.2'})}",
        ";local t = pickrandomsample(2, {'192.0.2.1', '192.0.2.2', '192.0.2.3'}) return {t[1]}",
        ";local t = all({'192.0.2.1', '192.0.2.2'}) return t[math.random(2)]",
        "'192.0.2.' .. pdnsrandom(200)",
    ] {
        assert_eq!(outcome(code), Ok(Outcome::PerQuery), "{code}");
    }
}

#[test]
fn a_pick_that_changes_nothing_is_not_in_the_way() {
    let code = ";local x = pickrandom({'a', 'b'}) return '192.0.2.1'";
    assert_eq!(outcome(code), fixed(&["192.0.2.1"]));
}

#[test]
fn reading_the_query_runs_per_query() {
    for name in [
        "who",
        "bestwho",
        "ecswho",
        "localwho",
        "dh",
        "tcp",
        "dnssecOK",
        "ednsPKTSize",
    ] {
        for code in [
            format!(";local x = {name} return '192.0.2.1'"),
            format!(";local x = _G.{name} return '192.0.2.1'"),
            format!(";local x = _ENV['{name}'] return '192.0.2.1'"),
        ] {
            assert_eq!(outcome(&code), Ok(Outcome::PerQuery), "{code}");
        }
    }
    for code in [
        "view({{{'0.0.0.0/0'}, {'192.0.2.1'}}})",
        ";netmask({'::/0'}) return '192.0.2.1'",
    ] {
        let code = code.replace(";netmask", ";local x = netmask");
        assert_eq!(outcome(&code), Ok(Outcome::PerQuery), "{code}");
    }
}

#[test]
fn a_global_of_the_same_name_is_the_programs_own() {
    assert_eq!(
        outcome(";who = '192.0.2.1' return who"),
        fixed(&["192.0.2.1"])
    );
}

#[test]
fn the_name_asked_for_is_constant_unless_a_wildcard_owns_the_record() {
    let code = "qname:toString()";
    let of = |owner| outcome_of(owner, Type::TXT, code);
    assert_eq!(of("Www"), fixed(&["Www.example.org."]));
    assert_eq!(of("*.www"), Ok(Outcome::PerQuery));
    let zone = outcome_of("*.www", Type::TXT, "zone:toString()");
    assert_eq!(zone, fixed(&["example.org."]));
}

#[test]
fn nothing_a_program_does_outlives_its_run() {
    let mut evaluator = evaluator();
    let view = Board::default().view();
    let counter = snippet(
        "a",
        Type::TXT,
        ";counter = (counter or 0) + 1 string.format = nil table.x = 1 return counter",
    );
    let format = snippet(
        "a",
        Type::TXT,
        "string.format('%s', table.x) .. ('x'):rep(2)",
    );
    for _ in 0..3 {
        let first = evaluator.evaluate(&counter, &view).outcome;
        assert_eq!(first, fixed(&["1"]));
        let second = evaluator.evaluate(&format, &view).outcome;
        assert_eq!(second, fixed(&["nilxx"]));
    }
}
