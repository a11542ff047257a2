//! Secondary zones: asks the primaries when the core finds it due, and takes what they send (RFC 1034 §4.3.5).
//!
//! ```text
//! NOTIFY, zone retransfer ─┐
//! SOA timers ──────────────┼─► dns_zone::refresh ─► exchange ─► dns_zone::incoming ─► file ─► publisher
//! ```
//!
//! A transferred zone is kept as a zone file. The publisher loads it as it loads any other, with the same checks; a
//! doubtful version is held back. A file whose name ends in `.checked` says when the data was last known to be
//! current, so that it expires at the right time after a restart.

mod zone_file;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use api::dns_authd::Secondary as View;
use daemon::clock;
use daemon::latest::Latest;
use dns_answer::Snapshot;
use dns_exchange::ExchangeError;
use dns_views::ZoneId;
use dns_wire::Name;
use dns_zone::SoaTimes;
use dns_zone::incoming::Base;
use dns_zone::parse::Options;
use dns_zone::refresh::{Question, Refresh};
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, Secondary};
use crate::publisher::{Command, NotLoaded, Outcome};
use daemon::random;

/// The most zones that dns-authd asks for or transfers at once; each may be in memory twice.
const AT_ONCE: usize = 8;
/// The length of the queue of orders. A NOTIFY that does not fit is repeated by its sender.
const QUEUE: usize = 1024;
/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(20);

/// The zones, and how their files are read.
pub type Plan = (Vec<Secondary>, Arc<Options>);
/// The part of a configuration that is for secondary zones.
#[must_use]
pub fn plan(config: &Config) -> Plan {
    let options = Arc::clone(&config.zones.options);
    (config.secondaries.clone(), options)
}

/// The result of `zone retransfer`, or why there is none.
pub type Retransferred = Result<Outcome, NotRetransferred>;

/// A zone was not transferred on request.
#[derive(Debug, thiserror::Error)]
pub enum NotRetransferred {
    /// It is no secondary zone.
    #[error("zone {0} has no primaries here")]
    NoPrimaries(ZoneId),
    /// No primary gave it, for this reason.
    #[error("{0}")]
    Failed(String),
    /// The request was not carried out to its end.
    #[error("the server ends, or its configuration has changed")]
    Ended,
}
/// The states of the zones.
pub type Views = HashMap<ZoneId, View>;

/// Something to do.
#[derive(Debug)]
enum Order {
    /// Adopt these zones.
    Configure(Plan),
    /// A primary has sent NOTIFY about the zones of this name.
    Notify(Name, IpAddr),
    /// Transfer a zone whatever its serial is.
    Retransfer(ZoneId, oneshot::Sender<Retransferred>),
    /// A question has its result.
    Finished(ZoneId, u64, Result<Update, String>),
}

/// The result of a question.
#[derive(Debug)]
struct Update {
    /// The version here.
    times: SoaTimes,
    /// The result of loading the version that was transferred; `None` if nothing had changed.
    outcome: Option<Outcome>,
}

/// The counts of questions to primaries, by result.
#[derive(Debug, Default)]
pub struct Counts {
    /// Nothing had changed.
    pub current: AtomicU64,
    /// A version was transferred.
    pub transferred: AtomicU64,
    /// No answer, or none of use.
    pub failed: AtomicU64,
    /// The zones that have expired.
    pub expired: AtomicU64,
}

/// The receiver of NOTIFY messages.
#[derive(Clone, Debug)]
pub struct Notified(mpsc::Sender<Order>);

impl Notified {
    /// Takes a NOTIFY that this address has sent.
    pub fn take(&self, zone: Name, from: IpAddr) {
        if let Err(error) = self.0.try_send(Order::Notify(zone, from)) {
            tracing::debug!(%from, %error, "NOTIFY is dropped");
        }
    }

    /// Takes NOTIFY and drops it.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self(mpsc::channel(1).0)
    }
}

/// The running part.
#[derive(Clone, Debug)]
pub struct Handle {
    orders: mpsc::Sender<Order>,
    views: Arc<Latest<Views>>,
}

impl Handle {
    /// The receiver of NOTIFY messages.
    #[must_use]
    pub fn notified(&self) -> Notified {
        Notified(self.orders.clone())
    }

    /// The states of the zones.
    #[must_use]
    pub const fn views(&self) -> &Arc<Latest<Views>> {
        &self.views
    }

    /// Adopts other zones.
    pub async fn configure(&self, plan: Plan) {
        if self.orders.send(Order::Configure(plan)).await.is_err() {
            tracing::error!("The part for secondary zones has ended");
        }
    }

    /// Transfers a zone whatever its serial is.
    pub async fn retransfer(&self, zone: ZoneId) -> Retransferred {
        let (done, result) = oneshot::channel();
        let order = Order::Retransfer(zone, done);
        let sent = self.orders.send(order).await;
        sent.map_err(|_| NotRetransferred::Ended)?;
        result.await.unwrap_or(Err(NotRetransferred::Ended))
    }
}

/// Starts to follow the primaries of these zones.
#[must_use]
pub fn start(
    cell: &Arc<Latest<Snapshot>>,
    publisher: SyncSender<Command>,
    plan: Plan,
    counts: &Arc<Counts>,
) -> Handle {
    let (orders, queue) = mpsc::channel(QUEUE);
    let views = Latest::new(Views::new());
    let mut manager = Manager {
        cell: Arc::clone(cell),
        publisher,
        options: Arc::clone(&plan.1),
        counts: Arc::clone(counts),
        views: Arc::clone(&views),
        orders: orders.clone(),
        zones: HashMap::new(),
        n_running: 0,
        next_number: 0,
    };
    manager.configure(plan);
    tokio::spawn(manager.run(queue));
    Handle { orders, views }
}

struct Zone {
    declared: Secondary,
    /// Tells this zone from a former one of the same name.
    number: u64,
    refresh: Refresh,
    is_running: bool,
    /// Whether the publisher knows the zone as expired.
    is_expired: bool,
    error: Option<String>,
    waiting: Vec<oneshot::Sender<Retransferred>>,
}

struct Manager {
    cell: Arc<Latest<Snapshot>>,
    publisher: SyncSender<Command>,
    options: Arc<Options>,
    counts: Arc<Counts>,
    views: Arc<Latest<Views>>,
    orders: mpsc::Sender<Order>,
    zones: HashMap<ZoneId, Zone>,
    n_running: usize,
    next_number: u64,
}

impl Manager {
    async fn run(mut self, mut queue: mpsc::Receiver<Order>) {
        loop {
            let now = clock::now();
            self.begin(now);
            let is_told = self.tell_expiry(now);
            self.publish();
            let due = match is_told {
                true => self.due(now),
                false => Some(now + RETRY),
            };
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = queue.recv() => match order {
                    Some(order) => self.take(order),
                    None => return,
                },
                () = timer => {}
            }
        }
    }

    /// When something is due. With as many questions as may run at once, the others wait for one of them.
    fn due(&self, now: Instant) -> Option<Instant> {
        let is_full = self.n_running >= AT_ONCE;
        let zones = self.zones.values();
        let due = zones.filter_map(|zone| match is_full {
            true => zone.refresh.expiry().filter(|expiry| *expiry > now),
            false => zone.refresh.due(now),
        });
        due.min()
    }

    fn take(&mut self, order: Order) {
        let now = clock::now();
        match order {
            Order::Configure(plan) => self.configure(plan),
            Order::Notify(name, from) => {
                let from = from.to_canonical();
                // A NOTIFY names no view.
                let zones = self.zones.iter_mut();
                for (id, zone) in zones.filter(|(id, _)| id.apex == name) {
                    let mut primaries = zone.declared.primaries.iter();
                    let primary =
                        primaries.position(|one| one.address().ip().to_canonical() == from);
                    tracing::debug!(zone = %id, %from, "NOTIFY is taken");
                    zone.refresh.notify(primary.unwrap_or(0), now);
                }
            }
            Order::Retransfer(name, done) => match self.zones.get_mut(&name) {
                Some(zone) => {
                    zone.waiting.push(done);
                    zone.refresh.force(now);
                }
                None => drop(done.send(Err(NotRetransferred::NoPrimaries(name)))),
            },
            Order::Finished(name, number, result) => self.finish(&name, number, result, now),
        }
    }

    /// Adopts a configuration. A zone that stays as it was continues.
    fn configure(&mut self, (declared, options): Plan) {
        self.options = options;
        let mut old = std::mem::take(&mut self.zones);
        for secondary in declared {
            let name = secondary.id();
            let before = old.remove(&name);
            let zone = match before {
                Some(zone) if zone.declared == secondary => zone,
                before => self.zone(secondary, before.as_ref()),
            };
            self.zones.insert(name, zone);
        }
    }

    fn zone(&mut self, declared: Secondary, before: Option<&Zone>) -> Zone {
        let have = zone_file::read(&declared);
        self.next_number += 1;
        Zone {
            refresh: Refresh::new(declared.primaries.len(), have, clock::now()),
            declared,
            number: self.next_number,
            is_running: false,
            is_expired: before.is_some_and(|before| before.is_expired),
            error: None,
            waiting: Vec::new(),
        }
    }

    /// Asks the questions that are due.
    fn begin(&mut self, now: Instant) {
        for (name, zone) in &mut self.zones {
            if self.n_running >= AT_ONCE {
                return;
            }
            if zone.is_running {
                continue;
            }
            let Some(question) = zone.refresh.ask(now) else {
                continue;
            };
            zone.is_running = true;
            self.n_running += 1;
            let job = Job {
                secondary: zone.declared.clone(),
                question,
                options: Arc::clone(&self.options),
                cell: Arc::clone(&self.cell),
                publisher: self.publisher.clone(),
            };
            let (orders, name, number) = (self.orders.clone(), name.clone(), zone.number);
            tokio::spawn(async move {
                let result = job.carry_out().await;
                // The receiver is gone when the server ends.
                drop(orders.send(Order::Finished(name, number, result)).await);
            });
        }
    }

    fn finish(&mut self, name: &ZoneId, number: u64, result: Result<Update, String>, now: Instant) {
        self.n_running = self.n_running.saturating_sub(1);
        let zone = self.zones.get_mut(name);
        let Some(zone) = zone.filter(|zone| zone.number == number) else {
            return;
        };
        zone.is_running = false;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "half of the random bits are enough"
        )]
        let jitter = random::seed() as u32;
        let counts = &self.counts;
        let reply = match result {
            Ok(update) => {
                zone.refresh.succeed(update.times, now, jitter);
                zone.error = None;
                if let Err(error) = zone_file::mark_checked(&zone.declared) {
                    tracing::warn!(zone = %name, %error, "Cannot note that the zone is current");
                }
                let count = match update.outcome {
                    Some(_) => &counts.transferred,
                    None => &counts.current,
                };
                count.fetch_add(1, Ordering::Relaxed);
                update
                    .outcome
                    .ok_or_else(|| "it was not transferred".to_owned())
            }
            Err(error) => {
                zone.refresh.fail(now, jitter);
                counts.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(zone = %name, error, "Zone is not refreshed");
                zone.error = Some(error.clone());
                Err(error)
            }
        };
        for done in zone.waiting.drain(..) {
            drop(done.send(reply.clone().map_err(NotRetransferred::Failed)));
        }
    }

    /// Tells the publisher which zones have expired, and which have not any more; `false` if it must be told again.
    fn tell_expiry(&mut self, now: Instant) -> bool {
        let mut n_expired = 0;
        let mut is_told = true;
        for (name, zone) in &mut self.zones {
            let is_expired = zone.refresh.is_expired(now);
            n_expired += u64::from(is_expired);
            if is_expired == zone.is_expired {
                continue;
            }
            let command = Command::Expire(name.clone(), is_expired);
            if self.publisher.try_send(command).is_err() {
                is_told = false;
                continue;
            }
            zone.is_expired = is_expired;
            match is_expired {
                true => tracing::error!(zone = %name, "Zone has expired, its names get SERVFAIL"),
                false => tracing::info!(zone = %name, "Zone is current again"),
            }
        }
        self.counts.expired.store(n_expired, Ordering::Relaxed);
        is_told
    }

    fn publish(&self) {
        let views = self.zones.iter().map(|(name, zone)| {
            let primaries = zone.declared.primaries.iter();
            let view = View {
                primaries: primaries.map(ToString::to_string).collect(),
                running: zone.is_running,
                expired: zone.is_expired,
                checked: zone.refresh.succeeded().map(wall_of),
                next: wall_of(zone.refresh.next()),
                expires: zone.refresh.expiry().map(wall_of),
                error: zone.error.clone(),
            };
            (name.clone(), view)
        });
        self.views.publish_if_changed(views.collect());
    }
}

/// A moment in seconds since 1970.
fn wall_of(moment: Instant) -> u64 {
    let (now, wall) = (clock::now(), clock::since_1970());
    let moment = match moment.checked_duration_since(now) {
        Some(ahead) => wall + ahead,
        None => wall.saturating_sub(now.saturating_duration_since(moment)),
    };
    moment.as_secs()
}

/// One question, and the transfer that may follow it.
struct Job {
    secondary: Secondary,
    question: Question,
    options: Arc<Options>,
    cell: Arc<Latest<Snapshot>>,
    publisher: SyncSender<Command>,
}

impl Job {
    async fn carry_out(self) -> Result<Update, String> {
        let Secondary {
            name, primaries, ..
        } = &self.secondary;
        let Some(primary) = primaries.get(self.question.primary) else {
            return Err("there is no such primary".to_owned());
        };
        let in_words = |error: ExchangeError| format!("{primary}: {error}");
        let key = self.secondary.key.as_ref();
        if let Some(serial) = self.question.serial {
            let theirs = dns_exchange::ask(primary, name, key)
                .await
                .map_err(in_words)?;
            if !dns_zone::Soa::is_newer(theirs.serial, serial) {
                // A primary that has an older version is no source of news, but it is there.
                return Ok(Update {
                    times: SoaTimes { serial, ..theirs },
                    outcome: None,
                });
            }
        }
        let incoming = match self.base() {
            Some(base) => match dns_exchange::transfer(primary, name, key, Some(base)).await {
                Err(error) if error.suggests_whole_zone() => {
                    dns_exchange::transfer(primary, name, key, None).await
                }
                other => other,
            },
            None => dns_exchange::transfer(primary, name, key, None).await,
        };
        let incoming = incoming.map_err(in_words)?;
        let times = incoming.times().ok_or("the zone has no SOA record")?;
        let (secondary, options) = (self.secondary.clone(), Arc::clone(&self.options));
        let n_records = incoming.n_records();
        let kind = if incoming.is_difference() {
            "IXFR"
        } else {
            "AXFR"
        };
        let writing = move || zone_file::write(&secondary, &incoming, &options);
        let written = tokio::task::spawn_blocking(writing).await;
        written.map_err(|_| "the zone was not written")??;
        let serial = times.serial;
        tracing::info!(zone = %self.secondary.id(), serial, records = n_records, %primary, kind, "Zone has come by a transfer");
        let outcome = self.load().await?;
        match outcome.result {
            Err(NotLoaded::Broken(problems)) => Err(problems.join("; ")),
            _ => Ok(Update {
                times,
                outcome: Some(outcome),
            }),
        }
    }

    /// The version here, for a request of differences: it is in service, and the newest that is kept.
    fn base(&self) -> Option<Base> {
        let serial = self.question.serial?;
        let snapshot = self.cell.current();
        let zone = snapshot.zone(&self.secondary.id())?.zone.as_ref()?;
        (zone.soa().serial == serial).then(|| (serial, zone.records()))
    }

    /// Has the publisher load the file.
    async fn load(&self) -> Result<Outcome, String> {
        let (done, outcomes) = oneshot::channel();
        let mut command = Command::Reload(Some(self.secondary.id()), done);
        while let Err(error) = self.publisher.try_send(command) {
            match error {
                std::sync::mpsc::TrySendError::Full(returned) => command = returned,
                std::sync::mpsc::TrySendError::Disconnected(_) => {
                    return Err("the server is ending".to_owned());
                }
            }
            tokio::time::sleep(RETRY).await;
        }
        let outcomes = outcomes.await.map_err(|_| "the server is ending")?;
        let outcomes = outcomes.map_err(|_| "the zone is not served any more")?;
        let outcome = outcomes.into_iter().next();
        outcome.ok_or_else(|| "the zone was not loaded".to_owned())
    }
}
