//! The driver on its threads. The thread that has received a question asks the upstream, and a response is taken on the one that waits
//! for all sockets to upstreams; timers, connections to upstreams and commands have a third. Each has the driver to itself for as
//! long as one of these takes, and sends what comes of it afterwards. A thread of clients does not wait for it: its question goes to
//! the third thread then.

use std::mem;
use std::sync::Arc;

use daemon::clock;
use daemon::run::Heartbeat;
use dns_cache::instant::Instant;
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep_until;

use super::{Command, Driver, Job, Outbox};
use crate::clock::Clock;
use crate::upstream::Event;
use crate::upstream::udp::{Outgoing, Waiter};

/// The most jobs or events taken at a time, so that neither starves the other.
const BATCH: usize = 64;

/// The driver, for all of its threads.
pub(super) struct Shared {
    /// `None` when it has ended.
    state: Mutex<Option<State>>,
    clock: Clock,
    /// Wakes the thread of timers.
    asked: Arc<Notify>,
}

struct State {
    driver: Driver,
    /// The time until which the thread of timers sleeps. `None` is for ever.
    sleeps_until: Option<Instant>,
}

/// The queues of the thread of timers.
pub(super) struct Queues {
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: mpsc::Receiver<Event>,
}

/// The way of questions to the resolver.
#[derive(Clone)]
pub struct Questions {
    shared: Arc<Shared>,
    /// For when another thread is at it.
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

impl Questions {
    pub(super) const fn new(shared: Arc<Shared>, jobs: mpsc::Sender<Job>) -> Self {
        Self { shared, jobs }
    }

    /// Has a question resolved, on this thread as far as nothing has to be waited for. False when there are too many, or the
    /// resolver has ended.
    #[must_use]
    pub fn ask(&self, job: Job) -> bool {
        let Some(mut state) = self.shared.state.try_lock() else {
            return self.jobs.try_send(job).is_ok();
        };
        let Some(known) = &mut *state else {
            return false;
        };
        let work = |driver: &mut Driver, now| driver.take(job, now);
        let outbox = self.shared.visit(known, work);
        drop(state);
        self.shared.post(outbox);
        true
    }
}

impl Shared {
    pub(super) fn new(driver: Driver, clock: Clock, asked: Arc<Notify>) -> Self {
        Self {
            state: Mutex::new(Some(State {
                driver,
                sleeps_until: None,
            })),
            clock,
            asked,
        }
    }

    /// Does something on another thread than that of timers, and wakes that one if it would sleep for too long.
    fn visit(&self, state: &mut State, work: impl FnOnce(&mut Driver, Instant)) -> Outbox {
        let State {
            driver,
            sleeps_until,
        } = state;
        let now = self.clock.now();
        driver.resolver.set_time(clock::since_1970().as_secs(), now);
        work(driver, now);
        driver.take_outcomes(now);
        driver.take_lost(now);
        driver.show_at_times(now);
        let deadline = driver.next_deadline();
        let is_late = deadline.is_some_and(|at| sleeps_until.is_none_or(|until| at < until));
        if is_late {
            *sleeps_until = deadline;
        }
        if is_late || driver.is_idle_at_last() {
            self.asked.notify_one();
        }
        mem::take(&mut driver.outbox)
    }

    /// Sends what has come of something.
    fn post(&self, mut outbox: Outbox) {
        loop {
            for (path, reply) in outbox.replies.drain(..) {
                if let Err(error) = path.send(&reply) {
                    tracing::debug!(peer = %path.peer(), %error, "Cannot send an answer");
                }
            }
            let sent = outbox.queries.drain(..);
            let failed = sent.filter_map(|outgoing| Some((outgoing.send().err()?, outgoing)));
            let failed: Vec<(Errno, Outgoing)> = failed.collect();
            if failed.is_empty() {
                return;
            }
            // Each query is sent a few times at most, so this ends.
            let mut state = self.state.lock();
            let Some(state) = &mut *state else { return };
            outbox = self.visit(state, |driver, now| {
                for (error, outgoing) in &failed {
                    driver.send_again(outgoing, *error, now);
                }
            });
        }
    }

    /// Receives from upstreams until the driver has ended.
    pub(super) fn receive(&self, waiter: &Waiter, heartbeat: &Heartbeat) {
        let mut ready = Vec::new();
        loop {
            heartbeat.rest();
            let waited = waiter.wait(&mut ready);
            heartbeat.beat();
            if let Err(error) = waited {
                tracing::error!(%error, "Cannot wait for responses");
                return;
            }
            let mut state = self.state.lock();
            let Some(known) = &mut *state else { return };
            let outbox = self.visit(known, |driver, now| driver.receive(&ready, now));
            drop(state);
            self.post(outbox);
        }
    }

    /// Runs timers, connections to upstreams and commands, until a command ends the driver.
    pub(super) async fn run(&self, mut queues: Queues, heartbeat: Heartbeat) {
        let mut questions = Vec::with_capacity(BATCH);
        let mut events = Vec::with_capacity(BATCH);
        loop {
            let deadline = self.go_to_sleep();
            let deadline = deadline.map(|at| self.clock.instant(at));
            let Queues {
                jobs,
                commands,
                events: arrivals,
            } = &mut queues;
            let mut order = None;
            let is_over = tokio::select! {
                _ = jobs.recv_many(&mut questions, BATCH) => jobs.is_closed() && jobs.is_empty(),
                _ = arrivals.recv_many(&mut events, BATCH) => false,
                command = commands.recv() => {
                    order = command;
                    order.is_none()
                }
                () = self.asked.notified() => false,
                () = until(deadline) => false,
            };
            let mut work = |driver: &mut Driver| {
                let now = self.clock.now();
                driver.resolver.set_time(clock::since_1970().as_secs(), now);
                let is_stopped = order.take().is_some_and(|order| driver.obey(order));
                for event in events.drain(..) {
                    driver.happened(event, now);
                }
                for job in questions.drain(..) {
                    driver.take(job, now);
                }
                driver.settle(now);
                driver.take_lost(now);
                driver.show_at_times(now);
                if jobs.is_empty() {
                    driver.tell_idle();
                }
                (mem::take(&mut driver.outbox), is_stopped)
            };
            let mut state = self.state.lock();
            let Some(known) = &mut *state else { return };
            let (outbox, is_stopped) = work(&mut known.driver);
            heartbeat.beat();
            if is_over || is_stopped {
                *state = None;
            }
            drop(state);
            self.post(outbox);
            if is_over || is_stopped {
                return;
            }
        }
    }

    /// The time of the next timer, until which the thread of timers sleeps.
    fn go_to_sleep(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        let state = state.as_mut()?;
        state.sleeps_until = state.driver.next_deadline();
        state.sleeps_until
    }
}

/// Waits until the deadline; without one, forever.
async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
