//! The conversation of a probe of kind `tcp-check` with its target.
//!
//! ```text
//!          Send: what came is forgotten          Expect: it fits
//!  step n ──────────────────────────────> step n+1 <──────────── step n
//!                                                                  │ not yet: receive more
//!                                                                  └ closed, or enough came: bad
//!  behind the last step: good
//! ```
//!
//! As with HAProxy (configuration.txt, `tcp-check`), expectations that follow each other look at the same octets, and those
//! that came before something is sent count for nothing after it. The end of the connection is no failure by itself: octets that
//! must not come have not come once the target has said something and closed, or has said more than is kept.
//!
//! Never opens a socket and never reads a clock; `health-probe` does, and ends a probe at its timeout.

use std::fmt;

use health::{CheckStep, Content, Expectation};
use regex::bytes::{Regex, RegexBuilder};

/// The most steps of a check: the longest that HAProxy's manual shows has 12.
pub const MOST_STEPS: usize = 64;

/// The most octets of one step, sent or expected.
pub const LONGEST_STEP: usize = 4096;

/// The most octets that are kept of what comes between two steps that send: HAProxy's `tune.chksize`.
pub const MOST_RECEIVED: usize = 16_384;

/// The largest program of a pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 18;

/// The most octets of an answer in a reason.
const SHOWN: usize = 40;

/// A conversation that is under way.
#[derive(Debug)]
pub struct Conversation {
    steps: Vec<Step>,
    /// The number of steps that are done.
    n_done: usize,
    /// The octets that came since something was sent.
    received: Vec<u8>,
    is_closed: bool,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send these octets.
    Send(Vec<u8>),
    /// Receive some, and give them to [`Conversation::receive`].
    Receive,
    /// Nothing: the target is as it should be, or this is wrong with it.
    Done(Result<String, String>),
}

#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    Expect {
        test: Test,
        is_wanted: bool,
        /// For reasons.
        name: String,
    },
}

#[derive(Debug)]
enum Test {
    Octets(Vec<u8>),
    Pattern(Regex),
}

impl Conversation {
    /// The conversation that these steps are.
    ///
    /// # Errors
    /// When they cannot be: too many, too long, or a pattern with an error.
    pub fn new(steps: &[CheckStep]) -> Result<Self, String> {
        if steps.len() > MOST_STEPS {
            return Err(format!("a check has {MOST_STEPS} steps at most"));
        }
        Ok(Self {
            steps: steps.iter().map(Step::new).collect::<Result<_, _>>()?,
            n_done: 0,
            received: Vec::new(),
            is_closed: false,
        })
    }

    /// Takes what came; nothing for the end of the connection.
    pub fn receive(&mut self, octets: &[u8]) {
        let room = MOST_RECEIVED.saturating_sub(self.received.len());
        self.received.extend(octets.iter().take(room));
        self.is_closed |= octets.is_empty();
    }

    /// The next action; asked again once it is done.
    pub fn next_action(&mut self) -> Next {
        loop {
            let number = self.n_done + 1;
            let Some(step) = self.steps.get(self.n_done) else {
                return Next::Done(Ok(self.good()));
            };
            match step {
                Step::Send(octets) => {
                    let octets = octets.clone();
                    self.n_done = number;
                    self.received.clear();
                    return Next::Send(octets);
                }
                Step::Expect {
                    test,
                    is_wanted,
                    name,
                } => {
                    let may_come = !self.is_closed && self.received.len() < MOST_RECEIVED;
                    let fits = test.fits(&self.received);
                    match (fits, *is_wanted, self.received.is_empty()) {
                        // Octets that must not come may still come.
                        (_, _, true) | (false, _, false) if may_come => return Next::Receive,
                        (_, _, true) => {
                            return Next::Done(Err(format!("step {number}: closed, not {name}")));
                        }
                        (true, true, _) | (false, false, _) => self.n_done = number,
                        (false, true, _) => {
                            let got = shown(&self.received);
                            return Next::Done(Err(format!("step {number}: {got}, not {name}")));
                        }
                        (true, false, _) => {
                            let got = shown(&self.received);
                            return Next::Done(Err(format!(
                                "step {number}: {got}, which has {name}"
                            )));
                        }
                    }
                }
            }
        }
    }

    fn good(&self) -> String {
        match self.steps.len() {
            0 => "connected".to_owned(),
            1 => "1 step".to_owned(),
            number => format!("{number} steps"),
        }
    }
}

impl Step {
    fn new(step: &CheckStep) -> Result<Self, String> {
        let length = match step {
            CheckStep::Send(octets) => octets.len(),
            CheckStep::Expect(expectation) => match &expectation.content {
                Content::Octets(octets) => octets.len(),
                Content::Pattern(pattern) => pattern.len(),
            },
        };
        if length == 0 || length > LONGEST_STEP {
            return Err(format!("a step has 1 to {LONGEST_STEP} octets"));
        }
        Ok(match step {
            CheckStep::Send(octets) => Self::Send(octets.clone()),
            CheckStep::Expect(expectation) => Self::expect(expectation)?,
        })
    }

    fn expect(expectation: &Expectation) -> Result<Self, String> {
        let (test, name) = match &expectation.content {
            Content::Octets(octets) => (Test::Octets(octets.clone()), shown(octets)),
            Content::Pattern(pattern) => {
                let regex = RegexBuilder::new(pattern)
                    .unicode(false)
                    .size_limit(PATTERN_SIZE)
                    .build();
                let regex = regex.map_err(|error| {
                    let error = error.to_string();
                    let last = error.lines().last().unwrap_or_default();
                    format!("{pattern:?} is no pattern: {last}")
                })?;
                (Test::Pattern(regex), format!("/{pattern}/"))
            }
        };
        Ok(Self::Expect {
            test,
            is_wanted: expectation.is_wanted,
            name,
        })
    }
}

impl Test {
    fn fits(&self, received: &[u8]) -> bool {
        match self {
            Self::Octets(octets) => received
                .windows(octets.len())
                .any(|window| window == octets),
            Self::Pattern(regex) => regex.is_match(received),
        }
    }
}

/// Octets for a reason: the beginning, on one line.
fn shown(octets: &[u8]) -> String {
    struct Shown<'a>(&'a [u8]);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            let (beginning, rest) = self.0.split_at(self.0.len().min(SHOWN));
            let dots = if rest.is_empty() { "" } else { "..." };
            write!(formatter, "\"{}{dots}\"", beginning.escape_ascii())
        }
    }
    Shown(octets).to_string()
}

#[cfg(test)]
mod tests;
