//! Events to standard error, as text or as JSON, one line each.
//!
//! There is one log for the life of the process: [`start`] makes it before anything can go wrong,
//! [`apply`] gives it what the configuration says, then and on every reload. Under systemd, whose
//! journal knows the time and wants a priority, a text line is `<6>Sentence key=value`; elsewhere it
//! begins with the time.
//!
//! Other people's crates are heard from `warn` up, and fully at `trace`.

mod line;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

pub use ::config::{Log as LogSettings, LogFormat as Format, LogLevel as Level};

use crate::calendar::Timestamp;
use crate::environment::Environment;

const fn tracing_level(level: Level) -> tracing::Level {
    match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
        Level::Trace => tracing::Level::TRACE,
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);
static JSON: AtomicBool = AtomicBool::new(false);

/// Makes the log. A second call only applies the settings.
pub fn start(settings: LogSettings) {
    apply(settings);
    let sink = Sink {
        journal: stderr_is_journal(Environment::current().journal_stream),
    };
    // A test or an embedding program may have made its own log: it stays.
    drop(tracing::subscriber::set_global_default(
        Registry::default().with(sink),
    ));
}

/// Logs from here on as `settings` say.
pub fn apply(settings: LogSettings) {
    JSON.store(settings.format == Format::Json, Ordering::Relaxed);
    let old = LEVEL.swap(settings.level as u8, Ordering::Relaxed);
    if old != settings.level as u8 {
        // Each place that logs remembers whether it is heard.
        tracing::callsite::rebuild_interest_cache();
    }
}

fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        0 => Level::Error,
        1 => Level::Warn,
        2 => Level::Info,
        3 => Level::Debug,
        _ => Level::Trace,
    }
}

/// Crates whose events are the daemon's own, the workspace's: all others are heard from `warn` up.
const OWN: &str = env!("OUTPOST_CRATES");

fn is_own(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or(target);
    // `outpost` is what `deploy` builds.
    krate == "outpost" || OWN.split(',').any(|own| own == krate)
}

fn is_heard(metadata: &Metadata<'_>, level: Level) -> bool {
    let allowed = if level == Level::Trace || is_own(metadata.target()) {
        level
    } else {
        level.min(Level::Warn)
    };
    *metadata.level() <= tracing_level(allowed)
}

/// Writes each event as one line with one write, so that lines of threads never mix.
struct Sink {
    journal: bool,
}

impl<S> Layer<S> for Sink
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_heard(metadata, level()) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        is_heard(metadata, level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(tracing_level(level()).into())
    }

    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        if let Some(span) = context.span(id) {
            let mut fields = line::Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<line::Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = line::Fields::default();
        if let Some(scope) = context.event_scope(event) {
            for span in scope.from_root() {
                if let Some(outer) = span.extensions().get::<line::Fields>() {
                    fields.adopt(outer);
                }
            }
        }
        event.record(&mut fields);
        let line = line::Line {
            time: Timestamp::now(),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            fields: &fields,
        };
        let text = if JSON.load(Ordering::Relaxed) {
            line.json()
        } else if self.journal {
            line.journal()
        } else {
            line.text()
        };
        // There is no place to report that the log cannot be written.
        drop(std::io::stderr().lock().write_all(text.as_bytes()));
    }
}

/// True when standard error is the very stream systemd connected to the journal
/// (systemd.exec(5), `JOURNAL_STREAM`).
fn stderr_is_journal(stream: Option<(u64, u64)>) -> bool {
    let Ok(stat) = rustix::fs::fstat(std::io::stderr()) else {
        return false;
    };
    stream == Some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_print() {
        for level in [
            Level::Error,
            Level::Warn,
            Level::Info,
            Level::Debug,
            Level::Trace,
        ] {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(level.to_string().to_uppercase().parse(), Ok(level));
        }
        assert!("loud".parse::<Level>().is_err());
    }

    #[test]
    fn other_crates_are_quieter_than_our_own() {
        assert!(is_own("dns_authd::reload"));
        assert!(is_own("timesync_agent"));
        assert!(is_own("health_probe::tls") && is_own("daemon") && is_own("outpost"));
        assert!(!is_own("hyper::proto::h1"));
        assert!(!is_own("dns_authd_like") && !is_own(""));
    }

    #[test]
    fn the_journal_is_told_from_other_streams() {
        assert!(!stderr_is_journal(None));
        assert!(!stderr_is_journal(Some((0, 0))));
        let stat = rustix::fs::fstat(std::io::stderr()).unwrap();
        assert!(stderr_is_journal(Some((stat.st_dev, stat.st_ino))));
    }
}
