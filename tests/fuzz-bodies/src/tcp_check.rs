//! Any answers to the probe of kind `tcp-check`, whatever its steps are.

use health::{CheckStep, Content, Expectation};
use tcp_check::{Conversation, MOST_STEPS, Next};

/// Steps, one a line and ended by an empty one, and behind them what the target says, a line at a time.
pub(super) fn body(data: &[u8]) {
    let mut lines = data.split(|octet| *octet == b'\n');
    let steps: Vec<CheckStep> = lines
        .by_ref()
        .take_while(|line| !line.is_empty())
        .filter_map(step)
        .collect();
    let Ok(mut conversation) = Conversation::new(&steps) else {
        return;
    };
    let mut n_sent = 0;
    let outcome = loop {
        match conversation.next_action() {
            Next::Send(octets) => {
                n_sent += 1;
                assert!(
                    steps.contains(&CheckStep::Send(octets)),
                    "only steps are sent"
                );
            }
            Next::Receive => {
                let line = lines.next().unwrap_or_default();
                conversation.receive(line);
            }
            Next::Done(outcome) => break outcome,
        }
    };
    assert!(steps.len() <= MOST_STEPS);
    let sends = |step: &&CheckStep| matches!(step, CheckStep::Send(_));
    match outcome {
        Ok(_) => assert_eq!(n_sent, steps.iter().filter(sends).count(), "all is sent"),
        Err(reason) => {
            assert!(n_sent < steps.len(), "an answer was expected");
            assert!(reason.starts_with("step "), "{reason}");
        }
    }
}

fn step(line: &[u8]) -> Option<CheckStep> {
    let (kind, octets) = line.split_first()?;
    let expect = |content, is_wanted| Some(CheckStep::Expect(Expectation { content, is_wanted }));
    let pattern = || Content::Pattern(String::from_utf8_lossy(octets).into_owned());
    match kind {
        b'>' => Some(CheckStep::Send(octets.to_vec())),
        b'<' => expect(Content::Octets(octets.to_vec()), true),
        b'!' => expect(Content::Octets(octets.to_vec()), false),
        b'/' => expect(pattern(), true),
        b'~' => expect(pattern(), false),
        _ => None,
    }
}

/// Pieces of steps and answers.
pub(super) const WORDS: &[&str] = &[
    "\n",
    "\n\n",
    ">PING\n",
    "<+PONG\n",
    "!-ERR\n",
    "/^2[0-9]{2}[- ]\n",
    "~^E\n",
    "+PONG\n",
    "220 mx\n",
    "(?s)^.{3}",
    "\\x00",
    "{1000}",
    "(",
    "[",
];
