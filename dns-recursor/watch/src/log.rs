//! Writes the query log, in a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use config::dns_recursor::{QueryClass, QueryLog};
use parking_lot::{Mutex, RwLock};
use query_log::{Limiter, Line, Question, Switch, classify, is_wanted};

use crate::{Clock, Seen};

/// Lines that wait for the log: those of a second at most, by default.
const QUEUE: usize = 1024;
/// The interval of checks for lines that were left out, and for the end of a command.
const LOOK: Duration = Duration::from_secs(1);

enum Item {
    Line(Box<Line>),
    Look,
    Stop,
}

/// The part of the switch that the threads see.
#[derive(Clone, Debug)]
struct Rules {
    classes: Vec<QueryClass>,
    rate: u32,
}

struct State {
    is_on: AtomicBool,
    rules: RwLock<Rules>,
    switch: Mutex<Switch>,
    limiter: Limiter,
    clock: Clock,
}

/// The query log.
pub(crate) struct Log {
    state: Arc<State>,
    lines: SyncSender<Item>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    pub(crate) fn start(configured: QueryLog, clock: Clock) -> io::Result<Self> {
        let (lines, queue) = sync_channel(QUEUE);
        let state = Arc::new(State {
            is_on: AtomicBool::new(false),
            rules: RwLock::new(Rules {
                classes: Vec::new(),
                rate: 0,
            }),
            switch: Mutex::new(Switch::new(configured)),
            limiter: Limiter::default(),
            clock,
        });
        state.follow_switch();
        let of_thread = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("query-log".to_owned())
            .spawn(move || of_thread.run(&queue))?;
        Ok(Self {
            state,
            lines,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Changes what is logged.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Switch, u64) -> T) -> T {
        let changed = {
            let second = (self.state.clock)();
            change(&mut self.state.switch.lock(), second)
        };
        self.state.follow_switch();
        // Without room the thread is awake anyway.
        let _woken = self.lines.try_send(Item::Look);
        changed
    }

    pub(crate) fn adopt(&self, configured: QueryLog) {
        self.change(|switch, _| switch.adopt(configured));
    }

    #[inline]
    pub(crate) fn answered(&self, seen: &Seen<'_>) {
        if self.state.is_on.load(Ordering::Relaxed) {
            self.log(seen);
        }
    }

    fn log(&self, seen: &Seen<'_>) {
        let class = classify(seen.response);
        let rate = {
            let rules = self.state.rules.read();
            if !is_wanted(&rules.classes, class) {
                return;
            }
            rules.rate
        };
        let limiter = &self.state.limiter;
        if !limiter.take(seen.second, rate) {
            return;
        }
        let line = Line {
            client: seen.peer.address,
            transport: seen.peer.transport,
            question: seen.question.and_then(Question::read),
            flags: seen.flags,
            rcode: seen.rcode(),
            answer: seen.answer,
            upstream: seen.upstream,
            took: seen.took,
            size: seen.response.map_or(0, <[u8]>::len),
        };
        if self.lines.try_send(Item::Line(Box::new(line))).is_err() {
            limiter.give_back();
        }
    }

    pub(crate) fn report(&self, second: u64) -> api::dns_recursor::QueryLog {
        let switch = self.state.switch.lock();
        let current = switch.at(second);
        let [lines, left_out] = self.state.limiter.counts();
        api::dns_recursor::QueryLog {
            enabled: current.enabled,
            classes: current
                .classes
                .iter()
                .map(|class| name(*class).to_owned())
                .collect(),
            rate: current.rate.get(),
            seconds_left: switch.left(second),
            lines,
            left_out,
        }
    }

    /// Writes what waits, and ends the thread.
    pub(crate) fn stop(&self) {
        self.state.is_on.store(false, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            let is_told = self.lines.send(Item::Stop).is_ok();
            if is_told && thread.join().is_err() {
                tracing::error!("The thread of the query log has panicked");
            }
        }
    }
}

impl State {
    /// Passes the switch on to the threads that answer.
    fn follow_switch(&self) {
        let switch = self.switch.lock();
        let current = switch.at((self.clock)());
        *self.rules.write() = Rules {
            classes: current.classes.clone(),
            rate: current.rate.get(),
        };
        self.is_on.store(current.enabled, Ordering::Relaxed);
    }

    fn run(&self, queue: &Receiver<Item>) {
        loop {
            let has_end = {
                let switch = self.switch.lock();
                switch.left((self.clock)()).is_some()
            };
            let is_busy = has_end || self.is_on.load(Ordering::Relaxed);
            // A log that is off wakes no processor.
            let item = match is_busy {
                true => queue.recv_timeout(LOOK),
                false => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match item {
                Ok(Item::Line(line)) => write(&line),
                Ok(Item::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.tell();
                    return;
                }
                Ok(Item::Look) => {}
                Err(RecvTimeoutError::Timeout) => self.tell(),
            }
            if has_end && self.switch.lock().left((self.clock)()).is_none() {
                tracing::info!("The query log is as configured again");
                self.follow_switch();
            }
        }
    }

    fn tell(&self) {
        match self.limiter.tell() {
            0 => {}
            n => tracing::info!(queries = n, "Queries left out of the query log"),
        }
    }
}

fn write(line: &Line) {
    let question = line.question.as_ref();
    tracing::info!(
        client = %line.client,
        name = question.map(|it| tracing::field::display(&it.name)),
        r#type = question.map(|it| tracing::field::display(it.rtype)),
        class = question.map(|it| tracing::field::display(it.class)),
        transport = %line.transport,
        flags = %line.flags,
        rcode = line.rcode.map(tracing::field::display),
        answer = line.answer,
        upstream = line.upstream.map(tracing::field::display),
        took = ?line.took,
        size = line.size,
        "Query"
    );
}

/// The word for a class in the configuration.
pub(crate) const fn name(class: QueryClass) -> &'static str {
    match class {
        QueryClass::All => "all",
        QueryClass::Success => "success",
        QueryClass::Denial => "denial",
        QueryClass::Error => "error",
    }
}
