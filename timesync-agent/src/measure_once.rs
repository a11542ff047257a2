//! Measures once, and sets the clock by it or only says how far off it is (chronyd's `-q` and `-Q`).

use std::fmt;
use std::path::Path;

use crate::agent::{self, AgentError, Options, Seen};
use crate::system::clock::{self, Clock};
use crate::system::other_daemons;
use ntp::keys::KeyRing;
use time_model::settings::Settings;
use time_model::time::{SECOND, Span};

/// The use of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The clock is stepped.
    Set,
    /// Nothing.
    Measure,
}

/// Time to wait for slower sources once one can be followed: a burst of the fewest requests.
const PATIENCE: Span = Span(8 * SECOND);

/// Why there is no measurement.
#[derive(Debug)]
pub enum MeasureError {
    /// The agent gave up.
    Agent(AgentError),
    /// No source could be followed in time.
    Late,
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(error) => error.fmt(f),
            Self::Late => f.write_str("no source could be followed in time"),
        }
    }
}

impl std::error::Error for MeasureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Agent(error) => error.source(),
            Self::Late => None,
        }
    }
}

/// Measures, within `timeout` if there is one, and gives by how much the clock is or was wrong; positive if slow.
///
/// # Errors
///
/// No source could be followed in time, or the clock cannot be set.
pub fn run(
    settings: &Settings,
    keys: KeyRing,
    mode: Mode,
    timeout: Option<Span>,
) -> Result<Span, MeasureError> {
    if mode == Mode::Set
        && let Some(service) = other_daemons::find(Path::new("/proc"), false)
    {
        return Err(MeasureError::Agent(AgentError::CompetingService(service)));
    }
    let mut settings = settings.clone();
    // Waits no longer than a burst takes, writes nothing, and serves no client.
    for source in &mut settings.sources {
        source.options.iburst = true;
    }
    settings.logs.directory = None;
    settings.clock.drift_file = None;
    settings.local = None;
    let began = clock::read().raw;
    let mut followed = None;
    let measured = agent::run_until(&settings, keys, Options::new(false), |seen: &Seen<'_>| {
        let now = seen.now.raw;
        let timekeeper = seen.engine.timekeeper();
        let offset = timekeeper
            .offset(seen.now)
            .filter(|_| timekeeper.leading().is_some());
        if let Some(offset) = offset {
            let since = *followed.get_or_insert(now);
            if !seen.engine.is_bursting() || now - since >= PATIENCE {
                return Some(Some(Span::from_seconds(offset)));
            }
        }
        timeout
            .is_some_and(|timeout| now - began >= timeout)
            .then_some(None)
    });
    let offset = measured
        .map_err(MeasureError::Agent)?
        .flatten()
        .ok_or(MeasureError::Late)?;
    if mode == Mode::Set {
        let step = Clock::new(true, settings.clock.rtcsync).step(offset);
        step.map_err(|error| MeasureError::Agent(AgentError::Clock(error)))?;
    }
    Ok(offset)
}
