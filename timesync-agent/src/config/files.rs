//! The files that the settings name, looked at before anything is started.
//!
//! Points of `tempcomp` are a part of the configuration: chronyd does not start without them, and neither does this agent.
//! Keys, leap seconds, the drift file and a sensor may be wrong or missing; the agent reports that and keeps the time all the
//! same.

use daemon::config::{Position, Problem, Problems};
use daemon::exit;

use crate::drift_file;
use crate::keys;
use crate::leap_file;
use crate::system::clock;
use crate::thermometer::{self, ThermometerError};
use time_model::settings::Settings;
use timekeeper::tempcomp::TemperatureError;

/// Problems that prevent a start.
#[must_use]
pub fn problems(settings: &Settings) -> Problems {
    let temperature = settings.clock.temperature.as_ref();
    match temperature.map(thermometer::law) {
        Some(Err(error)) => of_points(error).into(),
        Some(Ok(_)) | None => Problems::default(),
    }
}

/// Problems that the agent can run with.
#[must_use]
pub fn warnings(settings: &Settings) -> Vec<String> {
    let (_, mut warnings) = keys::read(settings);
    let (_, of_leaps) = leap_file::read(&settings.leap, clock::wall());
    warnings.extend(of_leaps);
    let drift_file = settings.clock.drift_file.as_deref();
    if let Some(Err(error)) = drift_file.map(drift_file::look) {
        warnings.push(error.to_string());
    }
    if let Some(temperature) = &settings.clock.temperature
        && let Ok(law) = thermometer::law(temperature)
        && let Err(error) = thermometer::read(&temperature.file, &law)
    {
        warnings.push(format!("there is no temperature: {}", exit::chain(&error)));
    }
    warnings
}

/// A problem with the points, with its line where it has one.
fn of_points(error: ThermometerError) -> Problem {
    let (path, source) = match error {
        ThermometerError::Read { .. } => return Problem::new(exit::chain(&error)),
        ThermometerError::Content { path, source } => (path, source),
    };
    let at = |line| Position {
        file: path.as_path().into(),
        line,
        column: 1,
    };
    match source {
        TemperatureError::NoPoint { line } => {
            Problem::at(at(line), "a point is a temperature and a frequency")
        }
        TemperatureError::Order { line } => {
            Problem::at(at(line), "the temperature is not above the one before")
        }
        source => Problem::new(format!("{}: {source}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use peer_chrony::parse_bytes;

    fn settings(text: &str) -> Settings {
        Settings::new(&parse_bytes(text.as_bytes()).unwrap().draft.config)
    }

    #[test]
    fn points_are_named_by_file_and_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("points");
        let settings = settings(&format!("tempcomp /sensor 30 {}", path.display()));
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            problems(&settings).to_string()
        };
        let name = path.display();
        for (text, expected) in [
            ("10 0\n20 1\n", String::new()),
            ("10 0\nwarm 1\n", format!("{name}:2:1: a point is")),
            ("10 0\n20 1\n15 1\n", format!("{name}:3:1: the temperature")),
            ("10 0\n", format!("{name}: two points are the least")),
        ] {
            let said = said(text);
            assert!(said.starts_with(&expected), "{text:?}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{text:?}: {said}");
        }
        fs::remove_file(&path).unwrap();
        let said = problems(&settings).to_string();
        assert!(said.starts_with(&format!("cannot read {name}: ")), "{said}");
        assert_eq!(problems(&Settings::default()), Problems::default());
    }

    #[test]
    fn every_file_that_is_named_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let points = file("points", "10 0\n20 1\n");
        let (drift, leaps) = (
            file("drift", "1 x\n"),
            file("leaps", "2287785600 11\nx 12\n"),
        );
        let (keys, sensor) = (file("keys", "\n7\n"), file("sensor", "warm\n"));
        let warnings = warnings(&settings(&format!(
            "driftfile {drift}\nleapseclist {leaps}\nkeyfile {keys}\ntempcomp {sensor} 30 {points}\nserver a key 7\n"
        )));
        for place in [
            format!("{keys}:2:1: "),
            format!("{leaps}:2:1: "),
            format!("{drift}:1:1: "),
            format!("there is no temperature: cannot use {sensor}: "),
            "there is no key 7: a ".to_owned(),
        ] {
            assert!(
                warnings.iter().any(|warning| warning.starts_with(&place)),
                "no {place} in {warnings:#?}"
            );
        }
        // What was never written is no wonder before the first start.
        let new = format!("driftfile {drift}.new\n");
        assert!(!Path::new(&format!("{drift}.new")).exists());
        assert_eq!(super::warnings(&settings(&new)), [""; 0]);
    }
}
