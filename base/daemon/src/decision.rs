//! Decisions of operators: the end, the reason and the operator of each. The same words at every command, in every
//! request and in every status.

use std::time::{Duration, UNIX_EPOCH};

use health::Terms;

use crate::admin::Request;
use crate::calendar::Timestamp;
use crate::config::HumanDuration;

/// The longest time that a decision may have: a longer one is meant to have no end.
const MAX_TIME: Duration = Duration::from_hours(366 * 24);

/// The longest reason and name, in characters.
const MAX_TEXT: usize = 200;

/// Arguments of a command that decides.
#[derive(Clone, Debug, clap::Args)]
pub struct DecisionArgs {
    /// End the decision by itself after this time, such as 30m or 2h
    #[arg(long = "for", value_name = "DURATION")]
    pub lasts: Option<HumanDuration>,

    /// The reason, for status, page and log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,

    /// The operator, for status, page and log [default: the user who runs this]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

impl DecisionArgs {
    /// The parameters of the request, which [`read`] reads.
    #[must_use]
    pub fn parameters(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("for", self.lasts.map(|lasts| lasts.to_string())),
            ("reason", self.reason.clone()),
            ("by", self.by.clone().or_else(user)),
        ]
    }
}

/// The user who runs this, also by sudo.
fn user() -> Option<String> {
    let names = ["SUDO_USER", "USER", "LOGNAME"];
    names.into_iter().find_map(|name| std::env::var(name).ok())
}

/// Reads the terms of a decision: the parameters `for`, `reason` and `by`.
///
/// # Errors
///
/// The parameter that is wrong, and why.
pub fn read(request: &Request, now: Duration) -> Result<Terms, String> {
    // As exact as it is shown.
    let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    Ok(Terms {
        since: Some(now),
        until: time(request)?.map(|time| now + time),
        reason: text(request, "reason")?,
        by: text(request, "by")?,
    })
}

/// The time that a decision has, if it has an end.
fn time(request: &Request) -> Result<Option<Duration>, String> {
    let Some(text) = request.parameter("for") else {
        return Ok(None);
    };
    let time: HumanDuration = text
        .parse()
        .map_err(|error| format!("{text:?} is no time: {error}"))?;
    match time.0 {
        Duration::ZERO => Err("a decision lasts longer than 0s".to_owned()),
        time if time > MAX_TIME => Err("a decision with an end lasts 366 days at most".to_owned()),
        time => Ok(Some(time)),
    }
}

/// A text that goes into logs and pages: one line.
fn text(request: &Request, name: &str) -> Result<String, String> {
    let text = request.parameter(name).unwrap_or_default();
    if text.chars().any(char::is_control) {
        return Err(format!("`{name}` is one line of text"));
    }
    if text.chars().count() > MAX_TEXT {
        return Err(format!("`{name}` has {MAX_TEXT} characters at most"));
    }
    Ok(text)
}

/// The terms of a decision as a status has them.
#[must_use]
pub fn shown(terms: &Terms) -> api::Terms {
    let time = |time: Duration| Timestamp(UNIX_EPOCH + time).to_string();
    api::Terms {
        since: terms.since.map(time),
        until: terms.until.map(time),
        reason: terms.reason.clone(),
        by: terms.by.clone(),
    }
}

/// The terms that a status has; none when a time in them cannot be read.
#[must_use]
pub fn of_shown(shown: &api::Terms) -> Option<Terms> {
    let time = |text: &Option<String>| match text {
        None => Some(None),
        Some(text) => since_1970(text).map(Some),
    };
    Some(Terms {
        since: time(&shown.since)?,
        until: time(&shown.until)?,
        reason: shown.reason.clone(),
        by: shown.by.clone(),
    })
}

/// The time that [`Timestamp`] displays as `text`; none for any other text.
fn since_1970(text: &str) -> Option<Duration> {
    let time = Timestamp::parse(text).filter(|time| time.to_string() == text);
    time.map(Timestamp::since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_displayed_is_read() {
        for seconds in [
            0,
            86_399,
            951_782_400,
            951_868_800,
            1_800_000_000,
            4_102_444_799,
        ] {
            let since = Duration::from_millis(seconds * 1000 + 7);
            let text = Timestamp(UNIX_EPOCH + since).to_string();
            assert_eq!(since_1970(&text), Some(since));
        }
        for bad in [
            "",
            "soon",
            "2026-11-21T09:30:00Z",
            "2026-02-30T09:30:00.000Z",
            "2026-13-01T09:30:00.000Z",
            "2026-11-21T24:30:00.000Z",
            "1969-11-21T09:30:00.000Z",
            "+026-11-21T09:30:00.000Z",
        ] {
            assert_eq!(since_1970(bad), None, "{bad}");
        }
    }

    const NOW: Duration = Duration::from_millis(1_800_000_000_123);

    fn terms(query: &str) -> Result<Terms, String> {
        let request = Request {
            query: query.to_owned(),
            ..Request::default()
        };
        read(&request, NOW)
    }

    #[test]
    fn terms_are_read_strictly() {
        let none = Terms {
            since: Some(NOW),
            ..Terms::default()
        };
        assert_eq!(terms("state=drain"), Ok(none.clone()));
        assert_eq!(
            terms("for=30m&reason=a+new%20disk&by=anna"),
            Ok(Terms {
                until: Some(NOW + Duration::from_mins(30)),
                reason: "a new disk".to_owned(),
                by: "anna".to_owned(),
                ..none
            })
        );
        let long = format!("reason={}", "x".repeat(MAX_TEXT + 1));
        for bad in [
            "for=soon",
            "for=0s",
            "for=400d",
            "reason=two%0Alines",
            &long,
        ] {
            assert!(terms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn terms_that_are_shown_are_read_as_they_were() {
        let all = terms("for=2h&reason=a+new%20disk&by=anna").unwrap();
        assert_eq!(of_shown(&shown(&all)), Some(all.clone()));
        assert_eq!(
            shown(&all).to_string(),
            " since 2027-01-15T08:00:00.123Z until 2027-01-15T10:00:00.123Z by anna: a new disk"
        );
        let wrong = api::Terms {
            until: Some("soon".to_owned()),
            ..shown(&all)
        };
        assert_eq!(of_shown(&wrong), None);
        assert!(all.is_over(NOW + Duration::from_hours(2)) && !all.is_over(NOW));
    }
}
