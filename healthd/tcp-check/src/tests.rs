use super::*;

fn send(text: &str) -> CheckStep {
    CheckStep::Send(text.into())
}

fn expect(text: &str) -> CheckStep {
    CheckStep::Expect(Expectation {
        content: Content::Octets(text.into()),
        is_wanted: true,
    })
}

fn pattern(pattern: &str) -> CheckStep {
    CheckStep::Expect(Expectation {
        content: Content::Pattern(pattern.to_owned()),
        is_wanted: true,
    })
}

fn never(step: CheckStep) -> CheckStep {
    match step {
        CheckStep::Expect(expectation) => CheckStep::Expect(Expectation {
            is_wanted: false,
            ..expectation
        }),
        step @ CheckStep::Send(_) => step,
    }
}

/// The conversation with a target that says these, one each time something is received: what was sent, and the outcome.
/// After the last one the target closes.
fn talk(steps: &[CheckStep], says: &[&[u8]]) -> (String, Result<String, String>) {
    let mut conversation = Conversation::new(steps).unwrap();
    let mut says = says.iter();
    let mut sent = String::new();
    loop {
        match conversation.next_action() {
            Next::Send(octets) => sent.push_str(&octets.escape_ascii().to_string()),
            Next::Receive => conversation.receive(says.next().copied().unwrap_or_default()),
            Next::Done(outcome) => return (sent, outcome),
        }
    }
}

#[track_caller]
fn check(steps: &[CheckStep], says: &[&str], expected: Result<&str, &str>) {
    let says: Vec<&[u8]> = says.iter().map(|text| text.as_bytes()).collect();
    let (_, outcome) = talk(steps, &says);
    let expected = expected.map(str::to_owned).map_err(str::to_owned);
    assert_eq!(outcome, expected, "{steps:?} {says:?}");
}

#[test]
fn steps_are_taken_one_after_the_other() {
    let redis = [
        send("PING\r\n"),
        expect("+PONG"),
        send("info replication\r\n"),
        expect("role:master"),
        send("QUIT\r\n"),
        expect("+OK"),
    ];
    let (sent, outcome) = talk(
        &redis,
        &[
            b"+PONG\r\n",
            b"$40\r\n# Replication\r\nrole:master\r\n",
            b"+OK\r\n",
        ],
    );
    assert_eq!(sent, r"PING\r\ninfo replication\r\nQUIT\r\n");
    assert_eq!(outcome, Ok("6 steps".to_owned()));
    let (sent, outcome) = talk(&redis, &[b"+PONG\r\n", b"role:slave\r\n"]);
    assert_eq!(sent, r"PING\r\ninfo replication\r\n");
    let reason = r#"step 4: "role:slave\r\n", not "role:master""#;
    assert_eq!(outcome, Err(reason.to_owned()));
}

#[test]
fn every_state_and_every_input() {
    let text = || expect("ok");
    let not = || never(expect("err"));
    for (steps, says, expected) in [
        // No step at all.
        (&[][..], &[][..], Ok("connected")),
        (&[send("x")], &[], Ok("1 step")),
        // Wanted: it fits, in pieces, later, never.
        (&[text()], &["ok"], Ok("1 step")),
        (&[text()], &["o", "k"], Ok("1 step")),
        (&[text()], &["no\n", "no\n", "it is ok\n"], Ok("1 step")),
        (&[text()], &["no"], Err(r#"step 1: "no", not "ok""#)),
        (&[text()], &[], Err(r#"step 1: closed, not "ok""#)),
        // Unwanted: something must come, and it must not fit.
        (&[not()], &["ok"], Ok("1 step")),
        (&[not()], &["err"], Err(r#"step 1: "err", which has "err""#)),
        (&[not()], &[], Err(r#"step 1: closed, not "err""#)),
        // Those that follow each other look at the same octets.
        (&[text(), text(), not()], &["ok"], Ok("3 steps")),
        (&[text(), expect("more")], &["ok", "more"], Ok("2 steps")),
        // Octets that came before something was sent count for nothing.
        (
            &[text(), send("x"), text()],
            &["ok"],
            Err(r#"step 3: closed, not "ok""#),
        ),
        (&[text(), send("x"), text()], &["ok", "ok"], Ok("3 steps")),
        // Patterns.
        (&[pattern("^2[0-9]{2}[ -]")], &["220 mx\r\n"], Ok("1 step")),
        (
            &[pattern("^2[0-9]{2}[ -]")],
            &["554 no\r\n"],
            Err(r#"step 1: "554 no\r\n", not /^2[0-9]{2}[ -]/"#),
        ),
        (&[never(pattern("^E"))], &["R"], Ok("1 step")),
    ] {
        check(steps, says, expected);
    }
}

#[test]
fn patterns_are_of_octets() {
    let steps = [pattern(r"(?s)^.{3}\x00[^\xff]")];
    let greeting: &[u8] = b"\x4a\0\0\0\x0a8.0.36\0";
    assert_eq!(talk(&steps, &[greeting]).1, Ok("1 step".to_owned()));
    let refusal: &[u8] = b"\x10\0\0\0\xff\x6a\x04Host";
    let (_, outcome) = talk(&steps, &[refusal]);
    assert!(
        outcome
            .unwrap_err()
            .contains(r#""\x10\x00\x00\x00\xffj\x04Host""#)
    );
}

#[test]
fn a_target_that_never_stops_is_bad_after_a_bounded_number_of_octets() {
    let mut conversation = Conversation::new(&[expect("ok")]).unwrap();
    let mut n_received = 0;
    let outcome = loop {
        match conversation.next_action() {
            Next::Receive => conversation.receive(&[b'x'; 1000]),
            Next::Done(outcome) => break outcome,
            Next::Send(_) => panic!(),
        }
        n_received += 1000;
    };
    assert!(n_received < MOST_RECEIVED + 1000);
    assert_eq!(conversation.received.len(), MOST_RECEIVED);
    assert!(outcome.unwrap_err().ends_with("...\", not \"ok\""));
}

#[test]
fn steps_that_cannot_be_are_refused() {
    let refused = |steps: &[CheckStep]| Conversation::new(steps).unwrap_err();
    assert!(refused(&vec![send("x"); MOST_STEPS + 1]).contains("64 steps"));
    assert!(refused(&[send("")]).contains("1 to 4096 octets"));
    assert!(refused(&[expect(&"x".repeat(LONGEST_STEP + 1))]).contains("1 to 4096 octets"));
    for wrong in ["(", "a{1000}{1000}", r"(a)\1"] {
        let words = refused(&[pattern(wrong)]);
        assert!(words.contains("is no pattern: "), "{wrong}: {words}");
    }
}

#[test]
fn what_must_not_come_is_decided_when_nothing_more_comes() {
    let steps = [send("PING\r\n"), never(pattern("^-ERR"))];
    let mut conversation = Conversation::new(&steps).unwrap();
    assert!(matches!(conversation.next_action(), Next::Send(_)));
    conversation.receive(b"+PONG\r\n");
    assert_eq!(conversation.next_action(), Next::Receive);
    conversation.receive(b"");
    assert_eq!(
        conversation.next_action(),
        Next::Done(Ok("2 steps".to_owned()))
    );
    // Octets that must not come are bad at once.
    let mut conversation = Conversation::new(&steps).unwrap();
    assert!(matches!(conversation.next_action(), Next::Send(_)));
    conversation.receive(b"-ERR\r\n");
    assert!(matches!(conversation.next_action(), Next::Done(Err(_))));
}
