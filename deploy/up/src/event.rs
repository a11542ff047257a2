//! The events of a running site, one line each: the plain output, and the screen's last lines.

use std::fmt;
use std::time::Duration;

use site::service::Service;

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A service said that it is ready.
    Ready { service: Service, after: Duration },
    /// A ready service says that it is not, and why.
    NotReady { service: Service, reasons: String },
    /// It is ready again.
    ReadyAgain { service: Service },
    /// A service ended by itself and starts again after a pause.
    Ended {
        service: Service,
        ending: Ending,
        again_in: Duration,
    },
    /// A service ended and is not worth another start.
    GaveUp { service: Service, ending: Ending },
    /// A service stops because the user asked for a restart.
    Restarting { service: Service },
    /// A service did not stop in time and was killed.
    Killed { service: Service },
    /// A service is gone, as asked.
    Stopped { service: Service },
    /// The user took a master down or brought it up.
    Switched { master: String, up: bool },
    /// Healthd changed its mind about what a master offers.
    Seen {
        master: String,
        offers: Vec<String>,
        up: bool,
    },
    /// A service wrote a line.
    Log { service: Service, line: String },
    /// Something that `outpost` itself could not do.
    Trouble { what: String },
}

impl Event {
    /// The service or master of the event.
    pub fn subject(&self) -> &str {
        match self {
            Self::Ready { service, .. }
            | Self::NotReady { service, .. }
            | Self::ReadyAgain { service }
            | Self::Ended { service, .. }
            | Self::GaveUp { service, .. }
            | Self::Restarting { service }
            | Self::Killed { service }
            | Self::Stopped { service }
            | Self::Log { service, .. } => service.name(),
            Self::Switched { master, .. } | Self::Seen { master, .. } => master,
            Self::Trouble { .. } => "outpost",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { after, .. } => write!(f, "ready after {:.2} s", after.as_secs_f64()),
            Self::NotReady { reasons, .. } => write!(f, "not ready: {reasons}"),
            Self::ReadyAgain { .. } => f.write_str("ready again"),
            Self::Ended {
                ending, again_in, ..
            } => {
                write!(
                    f,
                    "ended ({ending}); starts again in {:.1} s",
                    again_in.as_secs_f64()
                )
            }
            Self::GaveUp { ending, .. } => write!(f, "does not start ({ending})"),
            Self::Restarting { .. } => f.write_str("stopping, to start again"),
            Self::Killed { .. } => f.write_str("did not stop in time: killed"),
            Self::Stopped { .. } => f.write_str("stopped"),
            Self::Switched { up: true, .. } => f.write_str("brought up"),
            Self::Switched { up: false, .. } => f.write_str("taken down"),
            Self::Seen { offers, up, .. } => {
                let up = if *up { "up" } else { "down" };
                write!(f, "{up}: {}", offers.join(", "))
            }
            Self::Log { line, .. } => f.write_str(line),
            Self::Trouble { what } => f.write_str(what),
        }
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned an exit code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It never ran.
    NotRun(String),
}

impl Ending {
    /// Whether another start would end the same way: wrong use, wrong data, no permission or a
    /// refused configuration (sysexits).
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Code(64 | 65 | 77 | 78) | Self::NotRun(_))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => {
                write!(f, "exit code {code}")?;
                match code {
                    64 => f.write_str(", wrong use"),
                    65 => f.write_str(", wrong data"),
                    69 => f.write_str(", something it needs is not there"),
                    70 => f.write_str(", internal error"),
                    77 => f.write_str(", no permission"),
                    78 => f.write_str(", configuration refused"),
                    _ => Ok(()),
                }
            }
            Self::Signal(9) => f.write_str("killed"),
            Self::Signal(15) => f.write_str("terminated"),
            Self::Signal(6) => f.write_str("aborted"),
            Self::Signal(11) => f.write_str("segmentation fault"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::NotRun(why) => write!(f, "could not be run: {why}"),
        }
    }
}
