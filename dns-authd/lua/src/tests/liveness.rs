//! The functions of health, and what follows from what is known of it.

use std::collections::BTreeSet;
use std::time::Duration;

use config::dns_authd::Health;
use config::{HumanDuration, Whole};
use proto::health::{HttpProbe, TargetKind, Verify};

use super::*;

const A: &str = "192.0.2.1:443";
const B: &str = "192.0.2.2:443";
const C: &str = "192.0.2.3:443";

fn evaluate(code: &str, board: &Board, settings: LuaSettings) -> Evaluation {
    let mut evaluator = Evaluator::new(Arc::new(settings)).unwrap();
    evaluator.evaluate(&snippet("a", Type::A, code), &board.clone().view())
}

fn decided(code: &str, board: &Board) -> Choice {
    choice(evaluate(code, board, LuaSettings::default()).outcome)
}

/// The last octets of the members, how they are drawn, and how sure that is.
fn gist(choice: &Choice) -> (String, Select, Certainty) {
    let members: Vec<&str> = values(choice)
        .into_iter()
        .filter_map(|value| value.rsplit('.').next())
        .collect();
    (members.join(" "), choice.select.clone(), choice.certainty)
}

fn addresses(evaluation: &Evaluation) -> BTreeSet<String> {
    evaluation
        .targets
        .iter()
        .map(|watched| watched.target.address.to_string())
        .collect()
}

const FLAT: &str = "ifportup(443, {'192.0.2.1', '192.0.2.2', '192.0.2.3'})";
const SETS: &str = "ifportup(443, {{'192.0.2.1', '192.0.2.2'}, {'192.0.2.3'}})";

#[test]
fn those_that_are_up_are_drawn_from() {
    use Certainty::{AllDown, Known, Unknown};
    use Select::{All, Random};
    for (code, up, down, expected) in [
        (FLAT, &[A, B, C][..], &[][..], ("1 2 3", Random, Known)),
        (FLAT, &[A, C], &[B], ("1 3", Random, Known)),
        (FLAT, &[B], &[A, C], ("2", Random, Known)),
        (FLAT, &[B], &[A], ("2", Random, Known)),
        (FLAT, &[], &[A, B, C], ("1 2 3", Random, AllDown)),
        (FLAT, &[], &[A, B], ("3", All, Unknown)),
        (FLAT, &[], &[], ("1 2 3", All, Unknown)),
        (SETS, &[A, B, C], &[], ("1 2", Random, Known)),
        (SETS, &[A, C], &[B], ("1", Random, Known)),
        (SETS, &[A], &[], ("1", Random, Known)),
        (SETS, &[C], &[A, B], ("3", Random, Known)),
        (SETS, &[C], &[A], ("3", Random, Unknown)),
        (SETS, &[C], &[], ("3", Random, Unknown)),
        (SETS, &[], &[A, B], ("3", All, Unknown)),
        (SETS, &[], &[A], ("2", All, Unknown)),
        (SETS, &[], &[C], ("1 2", All, Unknown)),
        (SETS, &[], &[A, B, C], ("1 2", Random, AllDown)),
    ] {
        let choice = decided(code, &Board::new(up, down));
        let (members, select, certainty) = expected;
        let found = gist(&choice);
        // With one member there is nothing to draw, however it is drawn.
        let select = if members.len() == 1 {
            found.1.clone()
        } else {
            select
        };
        assert_eq!(
            found,
            (members.to_owned(), select, certainty),
            "{code} {up:?} {down:?}"
        );
    }
}

#[test]
fn selectors_draw_as_they_say() {
    let up = Board::new(&[A, B], &[C]);
    let down = Board::new(&[], &[A, B, C]);
    for (option, when_up, when_down) in [
        ("selector='all'", Select::All, Select::Random),
        ("selector='random'", Select::Random, Select::Random),
        ("selector='hashed'", Select::Hashed, Select::Random),
        ("selector='pickclosest'", Select::Random, Select::Random),
        ("selector='nonsense'", Select::Random, Select::Random),
        ("backupSelector='all'", Select::Random, Select::All),
        ("backupSelector='hashed'", Select::Random, Select::Hashed),
        ("backupSelector='nonsense'", Select::Random, Select::Random),
    ] {
        let code = FLAT.replace("})", &format!("}}, {{{option}}})"));
        let choice = decided(&code, &up);
        assert_eq!(
            gist(&choice),
            ("1 2".to_owned(), when_up, Certainty::Known),
            "{option}"
        );
        let choice = decided(&code, &down);
        let expected = ("1 2 3".to_owned(), when_down, Certainty::AllDown);
        assert_eq!(gist(&choice), expected, "{option}");
        let evaluation = evaluate(&code, &up, LuaSettings::default());
        let odd = ["nonsense", "pickclosest"]
            .iter()
            .any(|name| option.contains(name));
        assert_eq!(!evaluation.notes.is_empty(), odd, "{option}");
    }
}

#[test]
fn the_empty_selector_answers_without_data() {
    let code = FLAT.replace("})", "}, {backupSelector='empty'})");
    let choice = decided(&code, &Board::new(&[], &[A, B, C]));
    assert_eq!(
        gist(&choice),
        (String::new(), Select::All, Certainty::AllDown)
    );
    assert!(choice.ttl_bound.is_some());
    let choice = decided(&code, &Board::new(&[A], &[B, C]));
    assert_eq!(gist(&choice).0, "1");
}

#[test]
fn the_configuration_says_what_is_answered_when_all_is_down() {
    let down = Board::new(&[], &[A, B, C]);
    let with = |all_down, code: &str| {
        let mut settings = LuaSettings::default();
        settings.health.all_down = all_down;
        evaluate(code, &down, settings).outcome
    };
    let all = choice(with(AllDown::All, SETS));
    assert_eq!(
        gist(&all),
        ("1 2".to_owned(), Select::All, Certainty::AllDown)
    );
    let empty = choice(with(AllDown::Empty, SETS));
    assert_eq!(
        gist(&empty),
        (String::new(), Select::All, Certainty::AllDown)
    );
    assert_eq!(with(AllDown::Servfail, SETS), Err(LuaError::AllDown));
    // What the record says itself goes before that.
    let own = SETS.replace("})", "}, {backupSelector='hashed'})");
    let hashed = choice(with(AllDown::Servfail, &own));
    assert_eq!(
        gist(&hashed),
        ("1 2".to_owned(), Select::Hashed, Certainty::AllDown)
    );
}

#[test]
fn what_is_unknown_can_count_as_down() {
    let mut settings = LuaSettings::default();
    settings.health.while_unknown = WhileUnknown::AsDown;
    let choice = choice(evaluate(SETS, &Board::default(), settings).outcome);
    assert_eq!(
        gist(&choice),
        ("1 2".to_owned(), Select::Random, Certainty::Unknown)
    );
}

#[test]
fn a_record_can_refuse_to_answer_before_the_first_check() {
    let code = FLAT.replace("})", "}, {failOnIncompleteCheck='true'})");
    let outcome = |board| evaluate(&code, &board, LuaSettings::default()).outcome;
    assert_eq!(outcome(Board::default()), Err(LuaError::Incomplete));
    assert_eq!(
        gist(&choice(outcome(Board::new(&[], &[A])))).2,
        Certainty::Unknown
    );
    assert_eq!(gist(&choice(outcome(Board::new(&[B], &[])))).0, "2");
    assert!(!LuaError::Incomplete.is_defect());
}

#[test]
fn empty_sets_are_passed_over_and_no_address_is_an_error() {
    let code = "ifportup(443, {{}, {'192.0.2.1'}, {}, {'192.0.2.2'}})";
    assert_eq!(gist(&decided(code, &Board::new(&[A, B], &[]))).0, "1");
    assert_eq!(gist(&decided(code, &Board::new(&[], &[A, B]))).0, "1");
    for code in [
        "ifportup(443, {})",
        "ifportup(443, {{}, {}})",
        "ifurlextup({})",
    ] {
        let outcome = evaluate(code, &Board::default(), LuaSettings::default()).outcome;
        match outcome {
            Err(LuaError::Program(message)) => {
                assert!(message.ends_with("no address is given"), "{message}");
            }
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[test]
fn wrong_arguments_are_errors_that_name_the_function() {
    for (code, part) in WRONG_ARGUMENTS {
        match outcome(code) {
            Err(LuaError::Program(message)) => assert!(message.contains(part), "{code}: {message}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}

const WRONG_ARGUMENTS: &[(&str, &str)] = &[
    (
        "ifportup()",
        "ifportup: the port must be a whole number, not nil",
    ),
    (
        "ifportup('https', {'192.0.2.1'})",
        "ifportup: the port must be a whole number",
    ),
    (
        "ifportup(443)",
        "ifportup: the addresses must be a list, not nil",
    ),
    (
        "ifportup(443, '192.0.2.1')",
        "ifportup: the addresses must be a list",
    ),
    (
        "ifportup(443, {'www.example.org'})",
        "ifportup: `www.example.org` is no address",
    ),
    (
        "ifportup(443, {'192.0.2.1', {'192.0.2.2'}})",
        "must hold strings, not table",
    ),
    (
        "ifportup(443, {{'192.0.2.1'}, '192.0.2.2'})",
        "must hold strings, not table",
    ),
    (
        "ifportup(443, {{{'192.0.2.1'}}})",
        "must hold strings, not table",
    ),
    (
        "ifportup(443, {'192.0.2.1'}, 'all')",
        "ifportup: options must be a table, not `all`",
    ),
    (
        "ifportup(443, {'192.0.2.1'}, {timeout={}})",
        "option `timeout` must not be a table",
    ),
    (
        "ifportup(443, {'192.0.2.1'}, {timeout='x'})",
        "ifportup: option `timeout` is no number",
    ),
    (
        "ifportup(443, {'192.0.2.1'}, {timeout=print})",
        "option `timeout` must not be a function",
    ),
    (
        "ifportup(443, {'192.0.2.1'}, {source='x'})",
        "ifportup: option `source` is no address",
    ),
    (
        "ifurlup('www', {'192.0.2.1'})",
        "ifurlup: `www` is no URL to probe: it has no scheme",
    ),
    (
        "ifurlup(nil, {'192.0.2.1'})",
        "ifurlup: the URL must be a string, not nil",
    ),
    (
        "ifurlup('ftp://x/', {'192.0.2.1'})",
        "neither http nor https",
    ),
    (
        "ifurlextup({'192.0.2.1'})",
        "ifurlextup takes a list of tables",
    ),
    (
        "ifurlextup({{['192.0.2.1']='http://www/'}})",
        "the host of a URL must be an address",
    ),
    (
        "ifurlextup({{x='http://192.0.2.1/'}})",
        "ifurlextup: `x` is no address",
    ),
];

#[test]
fn ports_are_kept_in_range() {
    for (port, expected) in [
        ("443", Some(443)),
        ("'443'", Some(443)),
        ("443.0", Some(443)),
        ("65535", Some(65535)),
        ("65536", Some(65535)),
        ("2^40", Some(65535)),
        ("0", None),
        ("-7", None),
    ] {
        let code = format!("ifportup({port}, {{'192.0.2.1'}})");
        let evaluation = evaluate(&code, &Board::default(), LuaSettings::default());
        let ports: Vec<u16> = evaluation
            .targets
            .iter()
            .map(|watched| watched.target.address.port())
            .collect();
        assert_eq!(ports, Vec::from_iter(expected), "{port}");
        assert_eq!(evaluation.notes.is_empty(), expected.is_some(), "{port}");
        let certainty = choice(evaluation.outcome).certainty;
        assert_eq!(
            certainty == Certainty::AllDown,
            expected.is_none(),
            "{port}"
        );
    }
    let own = "ifportup(443, {'192.0.2.1:8443', '[2001:db8::1]:80', '2001:db8::2'})";
    let record = snippet("a", Type::TXT, own);
    let evaluation = evaluator().evaluate(&record, &Board::default().view());
    let expected = ["192.0.2.1:8443", "[2001:db8::1]:80", "[2001:db8::2]:443"];
    assert_eq!(
        addresses(&evaluation),
        BTreeSet::from(expected.map(str::to_owned))
    );
    assert_eq!(
        values(&choice(evaluation.outcome)),
        ["192.0.2.1", "2001:db8::1", "2001:db8::2"]
    );
}

#[test]
fn options_shape_the_targets() {
    let code = "ifurlup('https://www.example.org:8443/ping?x', {'192.0.2.1'}, {timeout=1, interval=9, \
                minimumFailures=3, source='192.0.2.9', stringmatch='pong', useragent='me', \
                byteslimit=99, httpcode=404, headers={X_Y='z'}})";
    let evaluation = evaluate(code, &Board::default(), LuaSettings::default());
    let Watched { target, deviation } = &evaluation.targets[0];
    let expected = HttpProbe {
        method: "GET".to_owned(),
        host: "www.example.org:8443".to_owned(),
        path: "/ping?x".to_owned(),
        status: 404,
        body: Some("pong".to_owned()),
        user_agent: "me".to_owned(),
        headers: vec![("X-Y".to_owned(), "z".to_owned())],
        byte_limit: Some(99),
        verify: Verify::Off,
    };
    assert_eq!(target.kind, TargetKind::Https(expected));
    assert_eq!(target.address, "192.0.2.1:8443".parse().unwrap());
    assert_eq!(target.source, "192.0.2.9".parse().ok());
    assert_eq!(deviation.interval, Some(Duration::from_secs(9)));
    assert_eq!(deviation.timeout, Some(Duration::from_secs(1)));
    assert_eq!((deviation.rise, deviation.fall), (None, Some(3)));

    let plain = evaluate(FLAT, &Board::default(), LuaSettings::default());
    assert!(plain.targets[0].deviation.is_none(), "healthd's schedule");
    assert_eq!(plain.targets[0].target.kind, TargetKind::Tcp);
}

#[test]
fn selectors_do_not_make_other_targets() {
    let targets = |code: &str| evaluate(code, &Board::default(), LuaSettings::default()).targets;
    let hashed = FLAT.replace("})", "}, {selector='hashed', backupSelector='all'})");
    assert_eq!(targets(FLAT), targets(&hashed));
}

#[test]
fn answers_can_differ_from_what_is_probed() {
    let code = "ifurlextup({{['192.0.2.101']='http://192.0.2.1:443/404', \
                ['192.0.2.102']='http://192.0.2.2:443/404'}, {['192.0.2.103']='http://192.0.2.3:443/'}})";
    let board = Board::new(&[C], &[A, B]);
    let evaluation = evaluate(code, &board, LuaSettings::default());
    assert_eq!(
        addresses(&evaluation),
        BTreeSet::from([A, B, C].map(str::to_owned))
    );
    assert_eq!(values(&choice(evaluation.outcome)), ["192.0.2.103"]);
    assert_eq!(
        gist(&decided(code, &Board::new(&[], &[A, B, C]))).0,
        "101 102"
    );
}

#[test]
fn every_target_is_found_in_backups_and_branches_too() {
    for code in [
        SETS.to_owned(),
        ";local a = ifportup(443, {'192.0.2.1', '192.0.2.2'}, {backupSelector='empty'}) \
         if #a > 0 then return a end return ifportup(443, {'192.0.2.3'})"
            .to_owned(),
        ";if netmask({'10.0.0.0/8'}) then return ifportup(443, {'192.0.2.1'}) \
         else return ifportup(443, {'192.0.2.2', '192.0.2.3'}) end"
            .to_owned(),
        ";if country('NL') and not continent('AS') then return ifportup(443, {'192.0.2.1'}) \
         else return ifportup(443, {'192.0.2.2', '192.0.2.3'}) end"
            .to_owned(),
        ";if ifportup(443, {'192.0.2.1'}, {selector='all', backupSelector='empty'})[1] then \
         return ifportup(443, {'192.0.2.2'}) else return ifportup(443, {'192.0.2.3'}) end"
            .to_owned(),
        ";local x = pickrandom({'192.0.2.1', '192.0.2.2', '192.0.2.3'}) return ifportup(443, {x})"
            .to_owned(),
    ] {
        for board in [
            Board::default(),
            Board::new(&[A, B, C], &[]),
            Board::new(&[], &[A, B, C]),
        ] {
            let evaluation = evaluate(&code, &board, LuaSettings::default());
            let expected = BTreeSet::from([A, B, C].map(str::to_owned));
            assert_eq!(addresses(&evaluation), expected, "{code}");
        }
    }
}

#[test]
fn health_that_is_computed_on_is_settled_too() {
    let board = Board::new(&[A, B], &[C]);
    for (code, expected, select) in [
        // The first that is up, however it would have been drawn.
        (
            "ifportup(443, {'192.0.2.3', '192.0.2.2'})[1]",
            "2",
            Select::Random,
        ),
        (
            ";local up = ifportup(443, {'192.0.2.1', '192.0.2.2'}, {selector='all'}) return up[#up]",
            "2",
            Select::All,
        ),
        (
            ";if #ifportup(443, {'192.0.2.3'}, {backupSelector='empty'}) == 0 then return '192.0.2.9' end",
            "9",
            Select::All,
        ),
        (
            ";local a, b = ifportup(443, {'192.0.2.1'}), ifportup(443, {'192.0.2.1', '192.0.2.2'}) return b",
            "1 2",
            Select::Random,
        ),
    ] {
        let choice = decided(code, &board);
        let found = gist(&choice);
        assert_eq!(found.0, expected, "{code}");
        if expected.len() > 1 {
            assert_eq!(found.1, select, "{code}");
        }
        assert!(choice.ttl_bound.is_some(), "{code}");
    }
    let first = "ifportup(443, {'192.0.2.1', '192.0.2.2'})[1]";
    assert_eq!(
        gist(&decided(first, &board)),
        ("1 2".to_owned(), Select::Random, Certainty::Known)
    );
    let joined = ";local a = ifportup(443, {'192.0.2.1', '192.0.2.2'}) return a[1] .. ''";
    assert_eq!(gist(&decided(joined, &board)).0, "1 2");
    let computed =
        "'192.0.2.' .. 9 - tonumber(ifportup(443, {'192.0.2.1', '192.0.2.2'})[1]:sub(-1))";
    let outcome = evaluate(computed, &board, LuaSettings::default()).outcome;
    assert_eq!(outcome, Ok(Outcome::PerQuery));
}

#[test]
fn doubt_anywhere_is_doubt_in_the_answer() {
    let code = ";local a = ifportup(443, {'192.0.2.1'}, {selector='all', backupSelector='empty'}) \
                return ifportup(443, {'192.0.2.2', '192.0.2.3'})";
    let certainty = |up: &[&str], down: &[&str]| decided(code, &Board::new(up, down)).certainty;
    assert_eq!(certainty(&[A, B], &[C]), Certainty::Known);
    assert_eq!(certainty(&[B], &[C]), Certainty::Unknown);
    assert_eq!(certainty(&[B], &[A, C]), Certainty::Known);
    assert_eq!(certainty(&[A], &[B, C]), Certainty::AllDown);
}

#[test]
fn the_ttl_is_bounded_by_the_next_possible_change() {
    let settings = LuaSettings {
        health: Health {
            interval: Some(HumanDuration(Duration::from_secs(10))),
            fast_interval: Some(HumanDuration(Duration::from_secs(2))),
            rise: Some(Whole::clamped(3)),
            fall: Some(Whole::clamped(2)),
            min_ttl: HumanDuration(Duration::from_secs(4)),
            ..Health::default()
        },
        ..LuaSettings::default()
    };
    let bound = |code: &str, up: &[&str], down: &[&str]| {
        let evaluation = evaluate(code, &Board::new(up, down), settings.clone());
        choice(evaluation.outcome).ttl_bound.unwrap().as_secs()
    };
    // Up to down takes 10 s and one more result; down to up takes two more.
    assert_eq!(bound(FLAT, &[A, B, C], &[]), 12);
    assert_eq!(bound(FLAT, &[], &[A, B, C]), 14);
    assert_eq!(bound(FLAT, &[A], &[B, C]), 12);
    // What has not been probed may change at once, and the minimum holds.
    assert_eq!(bound(FLAT, &[A, B], &[]), 4);
    // A set that no answer came from does not count, one that was passed over does.
    let sets = SETS.replace("})", "}, {minimumFailures=5})");
    assert_eq!(bound(&sets, &[A, B], &[]), 18);
    assert_eq!(bound(&sets, &[C], &[A, B]), 14);
    let hasty = FLAT.replace("})", "}, {interval=1})");
    assert_eq!(bound(&hasty, &[A, B, C], &[]), 4);
}

#[test]
fn an_answer_of_the_wrong_family_is_an_error() {
    for (rtype, code) in [
        (Type::A, "ifportup(443, {'2001:db8::1'})"),
        (Type::A, "ifportup(443, {'192.0.2.1', '2001:db8::1'})"),
        (Type::AAAA, "pickrandom({'2001:db8::1', '192.0.2.1'})"),
        (Type::A, "'www.example.org'"),
        (Type::A, "''"),
        (Type::MX, "'mail'"),
        (Type::CNAME, "'a..b'"),
    ] {
        let view = Board::default().view();
        let outcome = evaluator()
            .evaluate(&snippet("a", rtype, code), &view)
            .outcome;
        assert!(
            matches!(outcome, Err(LuaError::Answer { .. })),
            "{code}: {outcome:?}"
        );
    }
    for (rtype, code) in [
        (Type::AAAA, "ifportup(443, {'2001:db8::1'})"),
        (Type::MX, "'10 mail.example.org'"),
        (Type::CNAME, "'helper'"),
        (Type::SRV, "'0 0 443 www.example.org.'"),
        (
            Type::LOC,
            "'51 59 0.000 N 5 55 0.000 E 4.00m 1.00m 10000.00m 10.00m'",
        ),
        (Type::TXT, "'anything'"),
    ] {
        let view = Board::default().view();
        let outcome = evaluator()
            .evaluate(&snippet("a", rtype, code), &view)
            .outcome;
        assert!(outcome.is_ok(), "{code}: {outcome:?}");
    }
    let helper = Name::parse("helper.").unwrap();
    assert_eq!(rdata(Type::CNAME, "helper").unwrap(), helper.as_wire());
}

#[test]
fn a_snapshot_is_a_view() {
    use proto::health::{AdminState, Snapshot, TargetStatus};
    let evaluation = evaluate(FLAT, &Board::default(), LuaSettings::default());
    let status = |liveness, admin| TargetStatus {
        liveness,
        admin,
        ..TargetStatus::default()
    };
    let states = [
        status(Liveness::Up, AdminState::Ready),
        status(Liveness::Up, AdminState::Drain),
        status(Liveness::Down, AdminState::Ready),
    ];
    let targets = evaluation.targets.into_iter();
    let targets = targets.map(|watched| watched.target);
    let snapshot = Snapshot {
        generation: 1,
        targets: targets.zip(states).collect(),
        ..Snapshot::default()
    };
    let view: Arc<dyn LivenessView> = Arc::new(snapshot);
    let outcome = evaluator()
        .evaluate(&snippet("a", Type::A, FLAT), &view)
        .outcome;
    assert_eq!(
        gist(&choice(outcome)),
        ("1".to_owned(), Select::Random, Certainty::Known)
    );
}

#[test]
fn a_query_gets_what_health_says_at_that_moment() {
    let code = ";if netmask({'192.0.2.0/24'}) then return ifportup(443, {'192.0.2.1', '192.0.2.2'}) \
                else return '198.51.100.1' end";
    let record = snippet("a", Type::A, code);
    let view = Board::new(&[B], &[A]).view();
    let mut evaluator = evaluator();
    assert_eq!(
        evaluator.evaluate(&record, &view).outcome,
        Ok(Outcome::PerQuery)
    );
    let near = client("192.0.2.77", "a.example.org");
    let answer = evaluator.answer_for(&record, &view, &near, 1).unwrap();
    assert_eq!(answer.values, ["192.0.2.2"]);
    assert_eq!(
        (answer.certainty, answer.ttl_bound.is_some()),
        (Certainty::Known, true)
    );
    let far = client("203.0.113.1", "a.example.org");
    let answer = evaluator.answer_for(&record, &view, &far, 1).unwrap();
    assert_eq!(answer.values, ["198.51.100.1"]);
    assert_eq!(
        (answer.certainty, answer.ttl_bound),
        (Certainty::Known, None)
    );
}

#[test]
fn hashed_queries_agree_with_the_choice() {
    let list = "{'192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'}";
    let settled = snippet("a", Type::A, &format!("pickhashed({list})"));
    let per_query = snippet(
        "a",
        Type::A,
        &format!(";local x = who return pickhashed({list})"),
    );
    let view = Board::default().view();
    let mut evaluator = evaluator();
    let choice = choice(evaluator.evaluate(&settled, &view).outcome);
    for host in 0..50 {
        let asker = client(&format!("10.0.0.{host}"), "a.example.org");
        let draw = Draw {
            client: asker.best_who(),
            qname: asker.qname.as_wire(),
            seed: 0,
        };
        let mut picks = Vec::new();
        choice.draw(&draw, &mut picks);
        let answer = evaluator.answer_for(&per_query, &view, &asker, 9).unwrap();
        assert_eq!(answer.values, [choice.members[picks[0]].value.as_str()]);
    }
}

//--- check

#[test]
fn check_names_the_broken_ones_where_they_stand() {
    let programs = [
        (Type::A, FLAT),
        (Type::A, "ifportpu(443, {'192.0.2.1'})"),
        (Type::A, "ifportup(443, {'2001:db8::1'})"),
        (Type::A, "pickrandom()"),
        (Type::A, ";if"),
        (Type::A, "view({{{'203.0.113.0/24'}, {'192.0.2.1'}}})"),
        (Type::A, "who:toSting()"),
        (Type::TXT, "ecswho:toString()"),
        (Type::TXT, "tostring(ecswho) .. who:toString()"),
        (
            Type::A,
            "ifportup(443, {'192.0.2.1'}, {failOnIncompleteCheck='true'})",
        ),
        (Type::LUA, "settings = {}"),
        (Type::LUA, "settings = {"),
        (Type::A, ";while true do end"),
    ];
    let snippets: Vec<Snippet> = programs
        .iter()
        .zip(1..)
        .map(|((rtype, code), line)| {
            let mut snippet = snippet("a", *rtype, code);
            snippet.position.line = line;
            snippet
        })
        .collect();
    let problems = check(&snippets, &Arc::new(LuaSettings::default()));
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        "example.org.zone:2:1: LUA A of a.example.org.: attempt to call a nil value (global 'ifportpu')",
        "example.org.zone:3:1: LUA A of a.example.org.: `2001:db8::1` is no A data: ",
        "example.org.zone:4:1: LUA A of a.example.org.: pickrandom: its argument must be a list, not nil",
        "example.org.zone:5:1: LUA A of a.example.org.: unexpected symbol near <eof>",
        "example.org.zone:7:1: LUA A of a.example.org.: attempt to call a nil value (method 'toSting')",
        "example.org.zone:12:1: LUA LUA of a.example.org.: unexpected symbol near <eof>",
        "example.org.zone:13:1: LUA A of a.example.org.: runs for more than 1000 instructions",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

//--- Threads

#[test]
fn each_thread_keeps_its_interpreter() {
    let settings = Arc::new(LuaSettings::default());
    let record = snippet("a", Type::A, "'192.0.2.1'");
    let work = || {
        let view = Board::default().view();
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let outcome = on_this_thread(&settings, |evaluator| {
                evaluator.evaluate(&record, &view).outcome
            });
            outcomes.push(outcome.unwrap());
        }
        outcomes
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            for outcome in thread.join().unwrap() {
                assert_eq!(outcome, fixed(&["192.0.2.1"]));
            }
        }
    });
}

#[test]
fn long_programs_do_not_use_up_the_memory_of_others() {
    let mut evaluator = evaluator();
    let view = Board::default().view();
    for n in 0..60 {
        let ballast = "'x', ".repeat(5000);
        let record = snippet(
            "a",
            Type::TXT,
            &format!(";local t = {{{ballast}}} return {n}"),
        );
        let mut settings = LuaSettings::default();
        settings.limits.instructions = 0;
        if n == 0 {
            evaluator = Evaluator::new(Arc::new(settings)).unwrap();
        }
        assert_eq!(
            evaluator.evaluate(&record, &view).outcome,
            fixed(&[&n.to_string()])
        );
    }
}

#[test]
fn an_evaluator_keeps_only_so_many_programs() {
    let mut evaluator = evaluator();
    let view = Board::default().view();
    for n in 0..3000 {
        let record = snippet("a", Type::TXT, &format!("{n}"));
        assert_eq!(
            evaluator.evaluate(&record, &view).outcome,
            fixed(&[&n.to_string()])
        );
    }
}
