//! The log of the process: one line for each change.

use ntp::engine::{Engine, Record};
use time_model::labels;
use time_model::view::{ClockState, View};
use timekeeper::Note;

/// Says what has changed.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    state: ClockState,
}

impl Reporter {
    /// How good the time is.
    pub(super) fn state(&mut self, view: &View) {
        if view.state != self.state {
            self.state = view.state;
            tracing::info!(state = ?view.state, "{}", labels::summary(view));
        }
    }

    /// Findings of the timekeeper.
    #[expect(
        clippy::unused_self,
        reason = "notes differ from states, and may come to be counted"
    )]
    pub(super) fn note(&self, note: Note, engine: &Engine) {
        match note {
            Note::Selected(id) => tracing::info!(source = engine.title(id), "Source selected"),
            Note::FellBack { ppm } => tracing::info!(
                ppm,
                "No source has answered for long; the clock continues with the frequency of a longer time"
            ),
            Note::NothingSelectable => tracing::warn!("No source can be selected"),
            Note::NoMajority => {
                tracing::warn!("Sources disagree, and there is no majority among them");
            }
            Note::TooFewSources { n_agreeing } => {
                tracing::warn!(n_agreeing, "Fewer sources agree than are required");
            }
            Note::Falseticker(id) => tracing::warn!(
                source = engine.title(id),
                "Source disagrees with the majority"
            ),
            Note::Impossible(id) => tracing::warn!(
                source = engine.title(id),
                "Source gives a time before the last known one, or too long after it, and is refused"
            ),
            Note::SourceReset(id) => tracing::warn!(
                source = engine.title(id),
                "Source contradicts itself; its samples are forgotten"
            ),
            Note::Offset(span) => {
                tracing::warn!(seconds = span.seconds(), "The clock is wrong by this");
            }
            Note::Stepped(span) => {
                tracing::warn!(seconds = span.seconds(), "The clock was stepped");
            }
            Note::ChangeIgnored(span) => tracing::warn!(
                seconds = span.seconds(),
                "A correction beyond maxchange is ignored"
            ),
            Note::LeapAnnounced(leap) => tracing::info!(?leap, "A leap second is at hand"),
            Note::LeapPassed(leap) => tracing::info!(?leap, "A leap second has passed"),
            Note::LocalActivated { stratum } => {
                tracing::warn!(
                    stratum,
                    "There is no source: clients get the time of this clock"
                );
            }
            Note::LocalEnded => {
                tracing::info!("Clients no longer get this clock's own time");
            }
            Note::Inherited { age } => tracing::info!(
                age_seconds = age.seconds(),
                "The time state of the previous process is taken over"
            ),
            Note::Holdover => tracing::warn!(
                "No source is reached; the clock runs on with the frequency that was learned"
            ),
        }
    }

    /// Events of the engine.
    #[expect(
        clippy::unused_self,
        reason = "records differ from states, and may come to be counted"
    )]
    pub(super) fn record(&self, record: &Record) {
        match record {
            Record::KissOfDeath { address, code } => {
                let code = String::from_utf8_lossy(code).into_owned();
                tracing::warn!(%address, code, "A source sent a kiss-o'-death");
            }
            Record::Resolved {
                name,
                n_addresses: 0,
            } => tracing::warn!(name, "A source's name is not resolved"),
            Record::Resolved { name, n_addresses } => {
                tracing::debug!(name, n_addresses, "A source's name is resolved");
            }
            Record::Replaced { name, old, new } => {
                tracing::info!(name, %old, %new, "A source is replaced");
            }
            Record::Measurement(_)
            | Record::Selection { .. }
            | Record::Statistics(_)
            | Record::Tracking(_)
            | Record::ReferenceClock(_)
            | Record::Temperature(_) => {}
        }
    }
}
