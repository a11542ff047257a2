//! Waiting for something to become true, with a limit.

use std::time::{Duration, Instant};

/// Asks again and again until `question` has an answer, and panics with `what` after `limit`.
#[track_caller]
pub fn until<T>(what: &str, limit: Duration, question: impl FnMut() -> Option<T>) -> T {
    until_at(STEP, what, limit, question)
}

/// As [`until`], for a question that costs something: asked again only after `step`.
#[track_caller]
pub fn until_at<T>(
    step: Duration,
    what: &str,
    limit: Duration,
    mut question: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(step);
    }
}

/// As [`until`], for a plain condition.
#[track_caller]
pub fn for_it(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || condition().then_some(()));
}

/// Time between two looks. Short against every interval that the tests measure.
const STEP: Duration = Duration::from_millis(10);
