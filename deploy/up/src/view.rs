//! The view of a running site for people: the same facts for the screen, the plain lines and `--json`.
//!
//! Never asks anybody anything; the shell (`outpost up`) fills it in.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::outpost::{UpMaster, UpOffer, UpService, UpSite};

use crate::event::Event;
use site::service::{PerService, Service};

/// Everything there is to see.
#[derive(Clone, Debug)]
pub struct View {
    /// The site's name.
    pub site: String,
    /// Its domain.
    pub domain: String,
    /// The address for DNS clients.
    pub dns: SocketAddr,
    /// How long the site has run.
    pub elapsed: Duration,
    /// The services.
    pub services: PerService<ServiceView>,
    /// The ports that every master offers.
    pub offers: Vec<Offer>,
    /// The masters.
    pub masters: Vec<MasterView>,
    /// Commands to try in another terminal.
    pub commands: Vec<String>,
    /// Recent events, oldest first.
    pub events: VecDeque<(Duration, Event)>,
    /// Recent log lines of the services, oldest first.
    pub log: VecDeque<(Service, String)>,
}

/// One service.
#[derive(Clone, Debug, Default)]
pub struct ServiceView {
    /// The state.
    pub state: State,
    /// Its process, while it has one.
    pub pid: Option<u32>,
    /// How long that process has run.
    pub uptime: Option<Duration>,
    /// How often it started after the first time.
    pub restarts: u32,
    /// A summary of what it serves.
    pub serves: String,
    /// How much of it per second.
    pub rate: Option<f64>,
}

/// The state of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It does not run here.
    Absent,
    /// Its turn to start has not come.
    #[default]
    Waiting,
    /// It is starting.
    Starting,
    /// It serves.
    Ready,
    /// It runs, and says why it is not ready.
    NotReady(String),
    /// It died; it starts again after a pause. The last line that it wrote.
    Died(String),
    /// It is stopping.
    Stopping,
    /// It is gone.
    Stopped,
}

impl State {
    /// The state in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::NotReady(_) => "not ready",
            Self::Died(_) => "died",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }

    /// Why it is so, if there is more to say.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NotReady(reason) | Self::Died(reason) => Some(reason),
            Self::Absent
            | Self::Waiting
            | Self::Starting
            | Self::Ready
            | Self::Stopping
            | Self::Stopped => None,
        }
    }
}

/// Something that every master offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub what: String,
    /// On which port.
    pub port: u16,
}

/// One master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterView {
    /// Its name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Whether the user took it down.
    pub taken_down: bool,
    /// The liveness of each offer, in the order of [`View::offers`].
    pub seen: Vec<Seen>,
}

/// The liveness of a port, from healthd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It answers.
    Up,
    /// It does not.
    Down,
}

impl Seen {
    /// The state in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

impl View {
    /// Remembers an event, and forgets the oldest when there are many.
    pub fn remember(&mut self, at: Duration, event: Event) {
        if let Event::Log { service, line } = event {
            if self.log.len() >= LOG_LINES {
                self.log.pop_front();
            }
            self.log.push_back((service, line));
        } else {
            if self.events.len() >= EVENTS {
                self.events.pop_front();
            }
            self.events.push_back((at, event));
        }
    }

    /// The last line that a service wrote.
    pub fn last_line(&self, service: Service) -> Option<&str> {
        self.log
            .iter()
            .rev()
            .find(|(of, _)| *of == service)
            .map(|(_, line)| line.as_str())
    }

    /// The services that run here.
    pub fn running(&self) -> impl Iterator<Item = (Service, &ServiceView)> {
        let is_here = |(_, view): &(Service, &ServiceView)| view.state != State::Absent;
        self.services.iter().filter(is_here)
    }

    /// Whether every service is ready.
    pub fn is_ready(&self) -> bool {
        self.running()
            .all(|(_, service)| service.state == State::Ready)
    }

    /// The view for programs.
    pub fn facts(&self) -> UpSite {
        UpSite {
            site: self.site.clone(),
            domain: self.domain.clone(),
            dns: self.dns.to_string(),
            ready: self.is_ready(),
            uptime_seconds: self.elapsed.as_secs(),
            services: self
                .running()
                .map(|(service, view)| view.facts(service))
                .collect(),
            masters: self
                .masters
                .iter()
                .map(|master| self.master(master))
                .collect(),
        }
    }

    fn master(&self, master: &MasterView) -> UpMaster {
        let offers = self.offers.iter().zip(&master.seen);
        UpMaster {
            name: master.name.clone(),
            address: master.address.to_string(),
            taken_down: master.taken_down,
            offers: offers
                .map(|(offer, seen)| UpOffer {
                    what: offer.what.clone(),
                    port: offer.port,
                    state: seen.word().to_owned(),
                })
                .collect(),
        }
    }
}

impl ServiceView {
    fn facts(&self, service: Service) -> UpService {
        UpService {
            name: service.name().to_owned(),
            state: self.state.word().to_owned(),
            reason: self.state.reason().map(str::to_owned),
            pid: self.pid,
            uptime_seconds: self.uptime.map(|uptime| uptime.as_secs()),
            restarts: self.restarts,
            serves: self.serves.clone(),
            rate: self.rate,
        }
    }
}

/// A span of time in at most six characters: `42s`, `3m12s`, `5h07m`, `12d3h`.
pub fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// A rate people can take in: `0`, `0.5`, `9.0`, `12`, `12,345`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second < 0.05 {
        return "0".to_owned();
    }
    if per_second < 9.95 {
        return format!("{per_second:.1}");
    }
    let digits = format!("{per_second:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Makes a line safe to show: no control characters, so no escape sequences.
pub fn clean(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    for character in line.chars() {
        match character {
            '\t' => clean.push(' '),
            control if control.is_control() => {
                // Writing to a `String` cannot fail.
                let _infallible = write!(clean, "\\x{:02x}", u32::from(control));
            }
            plain => clean.push(plain),
        }
    }
    clean
}

/// Lines of log kept for the log view.
const LOG_LINES: usize = 500;
/// Events kept for the screen.
const EVENTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_stay_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m00s"),
            (3_599, "59m59s"),
            (3_600, "1h00m"),
            (86_399, "23h59m"),
            (86_400, "1d0h"),
            (1_000_000, "11d13h"),
        ] {
            assert_eq!(short(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn rates_have_as_many_digits_as_they_deserve() {
        for (per_second, text) in [
            (0.0, "0"),
            (0.04, "0"),
            (0.5, "0.5"),
            (9.0, "9.0"),
            (9.96, "10"),
            (999.4, "999"),
            (1_234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
            (-3.0, "0"),
        ] {
            assert_eq!(rate(per_second), text, "{per_second}");
        }
    }

    #[test]
    fn a_logged_escape_sequence_cannot_reach_the_terminal() {
        assert_eq!(clean("a\tb\x1b[2Jc\r\u{9b}d"), "a b\\x1b[2Jc\\x0d\\x9bd");
    }
}
