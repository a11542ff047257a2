//! Scripts that hear of every state a virtual router takes, with keepalived's arguments:
//! `INSTANCE name STATE priority`.
//!
//! One runs after the other, in the order of the states, each for a bounded time and on its own: a
//! router never waits for a script.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::warn;
use vrrp::machine::State;

/// States that a script has not been told of yet. A router that moves more often than its script
/// returns loses the oldest interest anyway: a call that comes when the queue is full is counted and dropped.
const QUEUE: usize = 32;

/// How long a script may run where nothing is written.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// The script and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// A program; it gets the arguments and an empty standard input.
    pub script: PathBuf,
    /// How long it may run before it is killed.
    pub limit: Duration,
}

/// One state.
#[derive(Clone, Debug)]
struct Call {
    name: Arc<str>,
    state: &'static str,
    priority: u8,
}

/// Runs one router's script.
#[derive(Debug)]
pub(super) struct Notifier {
    notify: Notify,
    queue: mpsc::Sender<Call>,
    task: JoinHandle<()>,
    failures: Arc<AtomicU64>,
}

impl Notifier {
    pub(super) fn start(notify: Notify) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE);
        let failures = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(run_all(notify.clone(), calls, Arc::clone(&failures)));
        Self {
            notify,
            queue,
            task,
            failures,
        }
    }

    pub(super) fn notify(&self) -> &Notify {
        &self.notify
    }

    /// Tells the script, later.
    pub(super) fn tell(&self, name: &Arc<str>, state: State, priority: u8) {
        let call = Call {
            name: Arc::clone(name),
            state: word(state),
            priority,
        };
        if self.queue.try_send(call).is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
            warn!(router = %name, %state, "Notify script is behind; it is not told of this state");
        }
    }

    /// Scripts that were not told, failed or took too long.
    pub(super) fn n_failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Waits until everything has been told.
    pub(super) async fn finish(self) {
        drop(self.queue);
        // The task ends with its queue; that it panicked has been said by then.
        drop(self.task.await);
    }
}

/// keepalived's word for a state; it says `STOP` where a router ends.
fn word(state: State) -> &'static str {
    match state {
        State::Initialize => "STOP",
        State::Backup | State::Active | State::Fault => state.keepalived(),
    }
}

async fn run_all(notify: Notify, mut calls: mpsc::Receiver<Call>, failures: Arc<AtomicU64>) {
    while let Some(call) = calls.recv().await {
        if let Err(problem) = run(&notify, &call).await {
            failures.fetch_add(1, Ordering::Relaxed);
            let script = notify.script.display();
            warn!(router = %call.name, %script, state = call.state, problem, "Notify script failed");
        }
    }
}

async fn run(notify: &Notify, call: &Call) -> Result<(), String> {
    let mut command = Command::new(&notify.script);
    command
        .args(["INSTANCE", &call.name, call.state])
        .arg(call.priority.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    match tokio::time::timeout(notify.limit, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            // Killed when `child` is dropped; the processes it has started are its own affair.
            Err(format!("killed after {:?}", notify.limit))
        }
    }
}

#[cfg(test)]
mod tests;
