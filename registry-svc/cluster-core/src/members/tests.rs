use registry_facts::record::NodeId;

use super::*;

const AGE: u64 = 1000;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn names(texts: &[&str]) -> BTreeSet<NodeName> {
    texts.iter().map(|text| name(text)).collect()
}

/// Node a of a site with these.
fn members(others: &[&str]) -> Members {
    Members::new(name("a"), names(others), BTreeMap::new(), 0, AGE)
}

fn forgotten(forgotten: u64) -> Membership {
    Membership {
        forgotten,
        ..Membership::default()
    }
}

#[test]
fn a_majority_forgets_a_node_that_is_away_for_too_long() {
    // The others, those of them that are connected, and those that are forgotten once the age is over.
    let table: &[(&[&str], &[&str], &[&str])] = &[
        (&["b"], &[], &[]),
        (&["b", "c"], &[], &[]),
        (&["b", "c"], &["b"], &["c"]),
        (&["b", "c"], &["b", "c"], &[]),
        (&["b", "c", "d"], &["b"], &[]),
        (&["b", "c", "d"], &["b", "c"], &["d"]),
        (&["b", "c", "d", "e"], &["b", "c"], &["d", "e"]),
        (&["b", "c", "d", "e"], &["b"], &[]),
    ];
    for (others, connected, expected) in table {
        let mut members = members(others);
        let connected = names(connected);
        members.look(&connected, 5000);
        members.look(&connected, 5000 + AGE - 1);
        assert_eq!(members.overdue(&connected, 5000 + AGE - 1), names(&[]));
        let overdue = members.overdue(&connected, 5000 + AGE);
        assert_eq!(overdue, names(expected), "{others:?} {connected:?}");
    }
}

#[test]
fn a_clock_that_was_ahead_keeps_no_node() {
    let mut members = members(&["b", "c"]);
    members.look(&names(&["b", "c"]), 1_000_000);
    members.look(&names(&["b"]), 5000);
    assert_eq!(members.overdue(&names(&["b"]), 5000 + AGE), names(&["c"]));
}

#[test]
fn deletions_that_a_node_has_not_heard_of_are_remembered() {
    let mut members = members(&["b", "c"]);
    assert_eq!(members.unheard_since(), Some(0));
    members.look(&names(&["b", "c"]), 7000);
    members.look(&names(&["b"]), 9000);
    assert_eq!(members.unheard_since(), Some(7000));
    members.state([(name("c"), forgotten(1))].into());
    assert_eq!(members.unheard_since(), Some(9000));
    members.state([(name("b"), forgotten(1)), (name("c"), forgotten(1))].into());
    assert_eq!(members.unheard_since(), None);
}

#[test]
fn an_operator_forgets_and_adds() {
    let mut members = members(&["b", "c"]);
    let both = names(&["b"]);
    assert_eq!(
        members.forget(&name("a"), &both, true, 7),
        Err(Obstacle::Own)
    );
    assert_eq!(
        members.forget(&name("d"), &both, true, 7),
        Err(Obstacle::Unknown)
    );
    let alone = members.forget(&name("c"), &names(&[]), false, 7);
    assert_eq!(alone, Err(Obstacle::NoMajority));
    assert_eq!(
        members.forget(&name("c"), &names(&[]), true, 7),
        Ok(Some(forgotten(7)))
    );
    let membership = members
        .forget(&name("c"), &both, false, 7)
        .unwrap()
        .unwrap();
    assert!(members.state([(name("c"), membership)].into()));
    assert_eq!(members.forget(&name("c"), &both, false, 7), Ok(None));
    assert_eq!(members.others().collect::<Vec<_>>(), [&name("b")]);
    // It is configured, so that it may begin anew.
    assert!(members.may_connect(&name("c")) && !members.is_member(&name("c")));

    assert_eq!(members.add(&name("d"), None), Err(Obstacle::NoAddress));
    assert_eq!(members.add(&name("b"), None), Ok(None));
    let added = members.add(&name("d"), Some("d:1")).unwrap().unwrap();
    let again = members.add(&name("c"), None).unwrap().unwrap();
    assert_eq!((again.is_member, again.forgotten), (true, 7));
    members.state([(name("c"), again), (name("d"), added)].into());
    // A clock that has gone back does not make it less.
    let later = members.forget(&name("c"), &both, true, 3);
    assert_eq!(later, Ok(Some(forgotten(8))));
    assert_eq!(members.others().count(), 3);
    assert_eq!(members.add(&name("d"), Some("d:1")), Ok(None));
    assert!(members.add(&name("d"), Some("d:2")).unwrap().is_some());
}

#[test]
fn only_a_new_journal_comes_back() {
    use Reception::{Beginner, Member, Refused};
    let vector = |names: &[&str]| -> Vector {
        let id = |text: &&str| NodeId {
            name: name(text),
            incarnation: 1,
        };
        names.iter().map(|text| (id(text), 3)).collect()
    };
    let mut members = members(&["b", "c"]);
    let known = vector(&["a", "b", "c"]);
    let receive = |members: &Members, began, holds: &[&str]| {
        let claim = Claim {
            began,
            ..Claim::default()
        };
        members.receive(&name("c"), claim, &vector(holds), &known)
    };
    assert_eq!(receive(&members, 0, &["a", "c"]), Member);
    members.state([(name("c"), forgotten(2))].into());
    for (began, holds, expected) in [
        (0, &["a", "c"] as &[&str], Refused),
        (1, &["c"], Refused),
        (1, &[], Beginner),
        // Pushed to it before it has met another node.
        (0, &["x"], Beginner),
        (2, &["a", "c"], Refused),
        // It has heard more than this node has, and was not taken in.
        (3, &["a"], Refused),
    ] {
        assert_eq!(
            receive(&members, began, holds),
            expected,
            "{began} {holds:?}"
        );
    }
    let claim = |began| Claim {
        began,
        is_taken_in: true,
    };
    // Another node has taken it in, and this one was away.
    let receive_taken = |began| members.receive(&name("c"), claim(began), &known, &known);
    assert_eq!((receive_taken(1), receive_taken(2)), (Refused, Member));
    members.look(&names(&["b", "c"]), 10);
    let taken_in = members.add(&name("c"), None).unwrap().unwrap();
    members.state([(name("c"), taken_in)].into());
    assert_eq!(receive(&members, 2, &["a", "c"]), Member);
    assert_eq!(receive(&members, 1, &["a", "c"]), Refused);
    // It is not overdue because it was away before.
    let both = names(&["b"]);
    members.look(&both, 10 + 2 * AGE);
    assert_eq!(members.overdue(&both, 10 + 2 * AGE), names(&[]));
}

#[test]
fn a_node_begins_anew_when_too_few_take_it() {
    let of_three = members(&["b", "c"]);
    for (refusing, connected, expected) in [
        (&[] as &[&str], &[] as &[&str], false),
        (&["b"], &[], true),
        (&["b"], &["c"], false),
        (&["b", "c"], &[], true),
    ] {
        let begins = of_three.has_to_begin(&names(refusing), &names(connected));
        assert_eq!(begins, expected, "{refusing:?} {connected:?}");
    }
    assert!(members(&["b"]).has_to_begin(&names(&["b"]), &names(&[])));
}

#[test]
fn a_node_that_begins_takes_only_from_current_ones() {
    // Its own time, that of the other one, whether it takes its records, and its time then.
    for (own, together, expected, then) in [
        (0, 0, true, 0),
        (0, FILLING, false, 0),
        (0, 5000 - AGE, false, 0),
        (0, 5001 - AGE, true, FILLING),
        (0, 5000, true, FILLING),
        (FILLING, FILLING, false, FILLING),
        (FILLING, 5000 - AGE, false, FILLING),
        (2, 5000 - AGE, true, 2),
    ] {
        let others = names(&["b", "c"]);
        let mut members = Members::new(name("a"), others, BTreeMap::new(), own, AGE);
        let takes = members.takes_from(&name("b"), together, 5000);
        assert_eq!(
            (takes, members.together()),
            (expected, then),
            "{own} {together}"
        );
    }
}

#[test]
fn nodes_that_all_fill_take_from_each_other() {
    let mut members = Members::new(name("a"), names(&["b", "c"]), BTreeMap::new(), FILLING, AGE);
    let mut takes = |from: &str, together| members.takes_from(&name(from), together, 5000);
    assert!(!takes("b", FILLING), "c has said nothing");
    assert!(!takes("c", 5000 - AGE), "c may know of deletions");
    assert!(!takes("b", FILLING));
    assert!(takes("c", FILLING), "nobody knows more");
    assert!(takes("b", FILLING));
}

/// When the node had caught up, when those that it catches up with had, and what comes of it.
type Case = (u64, &'static [(&'static str, u64)], u64);

#[test]
fn a_majority_is_current_and_a_minority_does_not_keep_itself_so() {
    // Its own time, what those say that it has caught up with, and its time afterwards.
    let table: &[Case] = &[
        // A site that begins.
        (0, &[("b", 0)], 0),
        (0, &[("b", 0), ("c", 0)], 9000),
        // One that begins beside others, and takes over what they say.
        (0, &[("b", 7000)], 7000),
        (0, &[("b", 7000), ("c", 0)], 7000),
        (7000, &[("b", 7000)], 7000),
        (7000, &[("b", 7000), ("c", 0)], 7000),
        (7000, &[("b", 8000), ("c", 7000)], 9000),
        (0, &[("b", 0), ("c", 0), ("d", 0), ("e", 2)], 9000),
        // Clocks that were ahead.
        (FILLING, &[("b", 0), ("c", FILLING)], 9000),
        (FILLING, &[("b", 7000), ("c", 0)], 7000),
        (99_000, &[("b", 99_000)], 9000),
        // One that is no member.
        (7000, &[("x", 8000)], 7000),
    ];
    for (own, said, expected) in table {
        let others = names(&["b", "c", "d", "e"]);
        let mut members = Members::new(name("a"), others, BTreeMap::new(), *own, AGE);
        let said = said.iter().map(|(text, time)| (name(text), *time));
        members.catch_up(&said.collect(), 9000);
        assert_eq!(members.together(), *expected, "{own}");
    }
}
