//! The order in which services start and stop, and the reaction to a death.
//!
//! ```text
//!                     before it is ready, or after some patience
//!  Waiting ──────────────────────────────► Starting ──READY──► Ready
//!                                            ▲ │ died            │ died
//!                              pause is over │ ▼                 │
//!                                           BackOff ◄────────────┘
//!
//!  Starting, Ready ──restart──► Leaving ──ended──► Starting
//!  Starting, Ready ──stop─────► Leaving ──ended──► Stopped        one at a time, last started first
//! ```
//!
//! Never starts, signals or waits for a process, and never reads a clock: the shell (`outpost up`) does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::event::{Ending, Event};
use site::service::{PerService, Service};

/// An input of the conductor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Start the first service.
    Begin,
    /// A service said that it is ready.
    Ready(Service),
    /// The process of a service is gone.
    Ended(Service, Ending),
    /// The user asks to restart a service.
    Restart(Service),
    /// The user asks to stop everything.
    Stop,
    /// The user asks to stop at once.
    Hurry,
}

/// An action of the conductor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start the process of a service.
    Spawn(Service),
    /// Ask it to stop.
    Terminate(Service),
    /// Make it stop.
    Kill(Service),
    /// Tell people.
    Tell(Event),
    /// Nothing runs any more, and nothing will.
    Finished,
}

/// The state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its turn to start has not come.
    Waiting,
    /// Its process runs and has not said that it is ready.
    Starting { since: Instant },
    /// It said that it is ready.
    Ready { since: Instant },
    /// It was asked to stop. `kill_at` is empty once it was killed.
    Leaving { kill_at: Option<Instant> },
    /// It died and starts again at `until`.
    BackOff { until: Instant },
    /// It is permanently gone.
    Stopped,
}

impl Phase {
    fn has_process(self) -> bool {
        matches!(
            self,
            Self::Starting { .. } | Self::Ready { .. } | Self::Leaving { .. }
        )
    }
}

/// One service.
#[derive(Clone, Debug)]
struct Part {
    phase: Phase,
    /// Deaths since it last ran for [`STEADY`].
    deaths: u32,
    /// Whether it was ever ready: one that never was is not started for ever.
    was_ready: bool,
}

/// The order of start and stop of all services.
#[derive(Debug)]
pub struct Conductor {
    /// The services that run, in the order in which they start; they stop in reverse.
    order: Vec<Service>,
    parts: PerService<Part>,
    stopping: bool,
    failed: Option<Service>,
    outputs: VecDeque<Output>,
}

impl Conductor {
    /// A conductor under which nothing runs yet; the others of all services never will.
    pub fn new(runs: impl Fn(Service) -> bool) -> Self {
        let part = |service| Part {
            phase: match runs(service) {
                true => Phase::Waiting,
                false => Phase::Stopped,
            },
            deaths: 0,
            was_ready: false,
        };
        Self {
            order: Service::ALL.into_iter().filter(|one| runs(*one)).collect(),
            parts: PerService::from_fn(part),
            stopping: false,
            failed: None,
            outputs: VecDeque::new(),
        }
    }

    /// Whether a service is one of those that run.
    pub fn runs(&self, service: Service) -> bool {
        self.order.contains(&service)
    }

    /// The state of a service.
    pub fn phase(&self, service: Service) -> Phase {
        self.parts.of(service).phase
    }

    /// The service that made everything stop because it does not start.
    pub fn failed(&self) -> Option<Service> {
        self.failed
    }

    /// Whether everything is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Takes one input; the outputs that follow are polled afterwards.
    pub fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Begin => {
                if let Some(first) = self.order.first() {
                    self.start(*first, now);
                }
            }
            Input::Ready(service) => self.ready(service, now),
            Input::Ended(service, ending) => self.ended(service, ending, now),
            Input::Restart(service) => self.restart(service, now),
            Input::Stop if self.stopping => {}
            Input::Stop => self.stop(now),
            Input::Hurry => self.kill_all(),
        }
    }

    /// The next thing to do, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_deadline`] wants to be called, if ever.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.parts
            .iter()
            .filter_map(|(service, _)| self.deadline(service))
            .min()
    }

    /// Does what the passing of time asks for.
    pub fn handle_deadline(&mut self, now: Instant) {
        for service in Service::ALL {
            if self.deadline(service).is_none_or(|deadline| deadline > now) {
                continue;
            }
            match self.phase(service) {
                Phase::Starting { .. } => {
                    if let Some(next) = self.next(service) {
                        self.start(next, now);
                    }
                }
                Phase::BackOff { .. } => self.start(service, now),
                Phase::Leaving { .. } => self.kill(service),
                Phase::Waiting | Phase::Ready { .. } | Phase::Stopped => {}
            }
        }
    }

    fn deadline(&self, service: Service) -> Option<Instant> {
        let next_waits = || {
            self.next(service)
                .is_some_and(|next| self.phase(next) == Phase::Waiting)
        };
        match self.phase(service) {
            Phase::Starting { since } if next_waits() => Some(since + PATIENCE),
            Phase::BackOff { until } => Some(until),
            Phase::Leaving { kill_at } => kill_at,
            Phase::Starting { .. } | Phase::Waiting | Phase::Ready { .. } | Phase::Stopped => None,
        }
    }

    /// The service that starts after this one.
    fn next(&self, service: Service) -> Option<Service> {
        let mut order = self.order.iter().copied();
        order.find(|one| *one == service)?;
        order.next()
    }

    fn start(&mut self, service: Service, now: Instant) {
        self.parts.of_mut(service).phase = Phase::Starting { since: now };
        self.outputs.push_back(Output::Spawn(service));
    }

    fn ready(&mut self, service: Service, now: Instant) {
        let Phase::Starting { since } = self.phase(service) else {
            return;
        };
        let part = self.parts.of_mut(service);
        part.phase = Phase::Ready { since: now };
        part.was_ready = true;
        let after = now.saturating_duration_since(since);
        self.tell(Event::Ready { service, after });
        if let Some(next) = self.next(service)
            && self.phase(next) == Phase::Waiting
        {
            self.start(next, now);
        }
    }

    fn ended(&mut self, service: Service, ending: Ending, now: Instant) {
        let phase = self.phase(service);
        if self.stopping {
            self.parts.of_mut(service).phase = Phase::Stopped;
            self.tell(Event::Stopped { service });
            self.stop_next(now);
            return;
        }
        if let Phase::Leaving { .. } = phase {
            self.start(service, now);
            return;
        }
        let part = self.parts.of_mut(service);
        if matches!(phase, Phase::Ready { since } if now.saturating_duration_since(since) >= STEADY)
        {
            part.deaths = 0;
        }
        part.deaths = part.deaths.saturating_add(1);
        if !part.was_ready && (ending.is_permanent() || part.deaths >= ATTEMPTS) {
            part.phase = Phase::Stopped;
            self.failed = Some(service);
            self.tell(Event::GaveUp { service, ending });
            self.stop(now);
        } else {
            let again_in = pause(part.deaths);
            part.phase = Phase::BackOff {
                until: now + again_in,
            };
            self.tell(Event::Ended {
                service,
                ending,
                again_in,
            });
        }
    }

    fn restart(&mut self, service: Service, now: Instant) {
        if self.stopping {
            return;
        }
        match self.phase(service) {
            Phase::Starting { .. } | Phase::Ready { .. } => {
                self.tell(Event::Restarting { service });
                self.terminate(service, now);
                self.parts.of_mut(service).deaths = 0;
            }
            Phase::BackOff { .. } => self.start(service, now),
            Phase::Waiting | Phase::Leaving { .. } | Phase::Stopped => {}
        }
    }

    fn stop(&mut self, now: Instant) {
        self.stopping = true;
        for service in Service::ALL {
            let part = self.parts.of_mut(service);
            if !part.phase.has_process() {
                part.phase = Phase::Stopped;
            }
        }
        self.stop_next(now);
    }

    /// Stops the last service that still runs; the others are stopped when that one is gone.
    fn stop_next(&mut self, now: Instant) {
        let has_process = |service: &&Service| self.phase(**service).has_process();
        let last = self.order.iter().rev().find(has_process).copied();
        match last {
            // The others wait until it is gone.
            Some(service) if matches!(self.phase(service), Phase::Leaving { .. }) => {}
            Some(service) => self.terminate(service, now),
            None => self.outputs.push_back(Output::Finished),
        }
    }

    fn terminate(&mut self, service: Service, now: Instant) {
        self.parts.of_mut(service).phase = Phase::Leaving {
            kill_at: Some(now + STOP_LIMIT),
        };
        self.outputs.push_back(Output::Terminate(service));
    }

    fn kill(&mut self, service: Service) {
        self.parts.of_mut(service).phase = Phase::Leaving { kill_at: None };
        self.outputs.push_back(Output::Kill(service));
        self.tell(Event::Killed { service });
    }

    fn kill_all(&mut self) {
        for service in Service::ALL {
            if self.phase(service).has_process() {
                self.kill(service);
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Tell(event));
    }
}

/// How long to wait after the `deaths`th death in a row.
fn pause(deaths: u32) -> Duration {
    let doublings = deaths.saturating_sub(1).min(8);
    FIRST_PAUSE
        .saturating_mul(1 << doublings)
        .min(LONGEST_PAUSE)
}

/// A service starts when the one before is ready, or has had this long: none needs another.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a service has to stop. Longer than the drain that is rendered for it.
const STOP_LIMIT: Duration = Duration::from_secs(4);
/// A service that ran this long starts again without a long pause.
const STEADY: Duration = Duration::from_secs(10);
/// Starts of a service that never became ready.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
