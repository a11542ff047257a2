//! Stands in for healthd in one of its subscribers, while healthd is away.
//!
//! The last states of healthd hold for a while. Then the subscriber probes its targets itself, by the same code as healthd, and
//! [`Link`] gives out what it finds, marked as such. healthd's word counts again as soon as it is connected.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | stand-in | waits for healthd to go or come, for the next due time, for a wake-up | with the last clone |
//! | a probe, at most as many as may be in flight | probes once, reports | at its timeout |
//!
//! Decides nothing; [`liveness::stand_in`] does.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::config::HumanDuration;
use daemon::readiness::Readiness;
use health::{HttpProbe, Target, TargetKind, Verify, Watched};
use health_probe::{Prober, check_authorities};
use liveness::monitor::{Limits, Probe};
use liveness::now::Now;
use liveness::stand_in::{Machine, ProbeId, Source};
use liveness::table::Finding;
use parking_lot::Mutex;
use proto::link::Link;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The bounds of one subscriber's own probes. A site has some dozens of targets; with more than these the first ones are
/// probed, as healthd does, and the states of the others are unknown.
pub const LIMITS: Limits = Limits {
    in_flight: 64,
    targets: 4096,
    grace: Duration::from_secs(10),
};

/// The key of the detail on `/readyz`.
const DETAIL: &str = "healthd";

/// The stand-in of one service; clones share it. Without healthd in the configuration it does nothing.
#[derive(Clone, Debug, Default)]
pub struct StandIn {
    running: Option<Arc<Running>>,
}

/// Ends the task with the last clone.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    service: &'static str,
    link: Link,
    readiness: Readiness,
    machine: Mutex<Machine>,
    wake: Notify,
    prober: Prober,
}

/// The link at the last step.
#[derive(Default)]
struct SeenLink {
    n_connections: u64,
    targets: Arc<[Watched]>,
    began: Option<Instant>,
}

impl StandIn {
    /// Watches the link, and probes its targets when healthd has been away for this time; needs a tokio runtime.
    #[must_use]
    pub fn start(
        service: &'static str,
        link: &Link,
        after: Duration,
        readiness: Readiness,
    ) -> Self {
        if link.state().is_none() {
            return Self::default();
        }
        let seed = RandomState::new().hash_one(std::process::id());
        let shared = Arc::new(Shared {
            service,
            link: link.clone(),
            readiness,
            machine: Mutex::new(Machine::new(after, LIMITS, seed, clock::now())),
            wake: Notify::new(),
            prober: Prober::new(),
        });
        let task = tokio::spawn(Arc::clone(&shared).run());
        Self {
            running: Some(Arc::new(Running { shared, task })),
        }
    }

    /// Takes up another time without healthd.
    pub fn set_after(&self, after: Duration) {
        if let Some(running) = &self.running {
            running.shared.machine.lock().set_after(after);
            running.shared.wake.notify_one();
        }
    }

    /// The service's own use of a target went well or not. If that is news, the target is probed at once.
    pub fn report(&self, target: &Target, success: bool) {
        if let Some(running) = &self.running
            && running.shared.machine.lock().report(target, success, now())
        {
            running.shared.wake.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        let (Some(mut is_connected), Some(mut stated)) =
            (self.link.is_connected(), self.link.stated())
        else {
            return;
        };
        let mut seen = SeenLink::default();
        loop {
            is_connected.refresh();
            stated.refresh();
            let (probes, deadline) = self.step(&mut seen, &stated.shared().targets);
            for (id, probe) in probes {
                let shared = Arc::clone(&self);
                tokio::spawn(async move {
                    let finding = Box::pin(shared.probe(&probe.target, probe.timeout)).await;
                    shared.machine.lock().finish(id, finding, now());
                    shared.wake.notify_one();
                });
            }
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_connected.changed() => {}
                () = stated.changed() => {}
                () = self.wake.notified() => {}
                () = due => {}
            }
        }
    }

    /// Takes up the state of the link, and does what is due. Returns the probes to start, and the time to look again.
    fn step(
        &self,
        seen: &mut SeenLink,
        stated: &Arc<[Watched]>,
    ) -> (Vec<(ProbeId, Probe)>, Option<Instant>) {
        let state = self.link.state().unwrap_or_default();
        let now = now();
        let mut machine = self.machine.lock();
        let before = machine.source();
        if state.connections != seen.n_connections {
            // healthd may have come and gone since; its word ended the own probes all the same.
            seen.n_connections = state.connections;
            machine.set_connected(true, now.steady);
        }
        machine.set_connected(state.connected, now.steady);
        if !Arc::ptr_eq(&seen.targets, stated) {
            seen.targets = Arc::clone(stated);
            machine.set_targets(Arc::clone(stated), now);
        }
        machine.advance(|| self.link.current(), now);
        let probes = std::iter::from_fn(|| machine.poll(now)).collect();
        let deadline = machine.next_deadline();
        let snapshot = machine.take_snapshot();
        let (after, n_targets) = (machine.source(), machine.n_targets());
        let longest = machine.after();
        drop(machine);
        if let Some(snapshot) = snapshot {
            // If healthd has connected meanwhile, its word counts.
            self.link.stand_in(snapshot);
        }
        if before != after {
            self.say(seen, (before, after), n_targets, longest);
        }
        (probes, deadline)
    }

    fn say(
        &self,
        seen: &mut SeenLink,
        (before, after): (Source, Source),
        (n_targets, n_without_room): (usize, usize),
        longest: Duration,
    ) {
        let service = self.service;
        if after == Source::OwnProbes {
            seen.began = Some(clock::now());
            tracing::warn!(
                n_targets,
                n_without_room,
                "healthd is away; this service probes its targets itself"
            );
        }
        if before == Source::OwnProbes {
            let lasted = seen.began.take().map(|began| began.elapsed());
            let lasted = HumanDuration(lasted.unwrap_or_default());
            tracing::info!(%lasted, "healthd is back; this service has ended its own probes");
        }
        let detail = match (after, n_without_room) {
            (Source::Healthd, _) => None,
            (Source::LastStates, _) => {
                let longest = HumanDuration(longest);
                Some(format!(
                    "healthd is away; its last states hold for {longest}"
                ))
            }
            (Source::OwnProbes, 0) => Some(format!(
                "healthd is away; {service} probes its targets itself"
            )),
            (Source::OwnProbes, _) => Some(format!(
                "healthd is away; {service} probes {n_targets} targets itself, and has no room for {n_without_room}"
            )),
        };
        self.readiness.set_reason(DETAIL, detail);
    }

    /// Probes a target once. The file with its authorities may be one that only healthd can read: then the certificate is not
    /// checked, since clients check it themselves.
    async fn probe(&self, target: &Target, timeout: Duration) -> Finding {
        let Err(words) = check_authorities(target) else {
            return self.prober.probe(target, timeout).await;
        };
        let mut target = target.clone();
        if let TargetKind::Https(HttpProbe { verify, .. }) = &mut target.kind {
            *verify = Verify::Off;
        }
        let finding = self.prober.probe(&target, timeout).await;
        Finding {
            reason: format!(
                "{}; its certificate is not checked: {words}",
                finding.reason
            ),
            ..finding
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

fn now() -> Now {
    Now {
        steady: clock::now(),
        wall: clock::since_1970(),
    }
}

#[cfg(test)]
mod tests;
