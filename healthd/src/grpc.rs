//! The contract's service: `Watch`, `Report`, `List`, `SetAdminState`, `ReportClock`, `Lease`.
//!
//! Each `Watch` stream has one task: it reads statements, follows the generation and sends what the
//! subscriber has not seen. A subscriber that reads slowly delays no other: it gets all changes in between
//! as one delta when it reads again. The task ends with the stream, or when the daemon drains, and the
//! subscriber's targets are released.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use daemon::drain::Guard;
use proto::health::{AdminState, ClockReport, HealthError, Target, Watched};
use proto::wire;
use proto::wire::health_server::Health;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status, Streaming};

use crate::driver::Driver;
use crate::marks::{self, MarkError};
use crate::trail::Change;
use crate::{status, wire_form};
use liveness::admin_rules::Scope;
use liveness::clocks::TooManyClocks;
use liveness::monitor::{Changes, Limits, Owner, Statement, SubscriberId};

/// Responses that wait for a subscriber to read. Changes beyond them become one delta.
const RESPONSE_QUEUE: usize = 2;

/// The time between two deltas of one stream. A change after a quiet time is sent at once; when a node
/// dies, one delta has all of its targets.
const DELTA_GAP: Duration = Duration::from_millis(5);

/// Open `Watch` streams. Every service of a node has one; this many are a mistake somewhere.
const MAX_SUBSCRIBERS: usize = 1024;

/// A subscriber's name is shown, never parsed.
const MAX_NAME: usize = 64;

/// Targets without room that the log names.
const NAMED: usize = 8;

/// Serves the contract.
#[derive(Clone, Debug)]
pub struct HealthApi {
    driver: Driver,
    guard: Guard,
}

impl HealthApi {
    /// Serves what the driver knows until the drain begins.
    #[must_use]
    pub fn new(driver: Driver, guard: Guard) -> Self {
        Self { driver, guard }
    }

    /// Refuses a subscriber beyond the bound of all, or of its owner.
    fn has_place(&self, owner: Owner) -> Result<(), Status> {
        let (all, own) = self.driver.look(|monitor| {
            let own = monitor.subscribers().filter(|one| one.owner == owner);
            (monitor.subscribers().count(), own.count())
        });
        if all >= MAX_SUBSCRIBERS {
            return Err(Status::resource_exhausted("too many subscribers"));
        }
        if own >= MAX_SUBSCRIBERS / 4 {
            return Err(Status::resource_exhausted(
                "too many subscribers of one user",
            ));
        }
        Ok(())
    }
}

/// The owner of a subscriber, by the credentials that the kernel vouches for.
fn owner(extensions: &tonic::Extensions) -> Owner {
    let local = extensions.get::<UdsConnectInfo>();
    let credentials = local.and_then(|local| local.peer_cred);
    credentials.map_or(Owner::Network, |user| Owner::User(user.uid()))
}

type Responses = Pin<Box<dyn Stream<Item = Result<wire::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for HealthApi {
    type WatchStream = Responses;

    async fn watch(
        &self,
        request: Request<Streaming<wire::WatchRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let owner = owner(request.extensions());
        self.has_place(owner)?;
        let (responses, queue) = mpsc::channel(RESPONSE_QUEUE);
        let session = Session {
            subscription: Subscription::open(self.driver.clone(), owner),
            generations: self.driver.generations(),
            responses,
            guard: self.guard.clone(),
            seen: None,
            next_delta: Instant::now(),
        };
        tokio::spawn(session.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }

    async fn report(
        &self,
        request: Request<Streaming<wire::Observation>>,
    ) -> Result<Response<wire::ReportResponse>, Status> {
        let mut observations = request.into_inner();
        let mut guard = self.guard.clone();
        let mut response = wire::ReportResponse::default();
        loop {
            let observation = tokio::select! {
                observation = observations.message() => observation?,
                () = guard.asked() => return Err(ending()),
            };
            let Some(observation) = observation else {
                return Ok(Response::new(response));
            };
            if self.take_evidence(observation) {
                response.accepted += 1;
                self.driver.counters().evidence_accepted();
            } else {
                response.dropped += 1;
                self.driver.counters().evidence_dropped();
            }
        }
    }

    async fn list(
        &self,
        _: Request<wire::ListRequest>,
    ) -> Result<Response<wire::ListResponse>, Status> {
        let response = self.driver.look_now(|monitor, now| wire::ListResponse {
            clocks: monitor
                .clocks()
                .iter()
                .map(|clock| wire_form::clock(clock, now.steady))
                .collect(),
            generation: monitor.generation(),
            targets: monitor
                .table()
                .entries()
                .map(|entry| wire_form::status(0, entry))
                .collect(),
        });
        Ok(Response::new(response))
    }

    async fn set_admin_state(
        &self,
        request: Request<wire::SetAdminStateRequest>,
    ) -> Result<Response<wire::SetAdminStateResponse>, Status> {
        let peer = request.extensions().get::<UdsConnectInfo>();
        let peer = peer.and_then(|peer| peer.peer_cred);
        may_decide(peer.map(|peer| peer.uid()))?;
        let request = request.into_inner();
        let (scope, state) = decision(&request)?;
        let marked = marks::set(&self.driver, scope, state.into()).await;
        let marked = marked.map_err(|error| match error {
            MarkError::TooMany => Status::resource_exhausted(error.to_string()),
            MarkError::NotOnDisk => Status::aborted(error.to_string()),
        })?;
        Ok(Response::new(wire::SetAdminStateResponse {
            targets: u32::try_from(marked.targets).unwrap_or(u32::MAX),
            generation: marked.generation,
        }))
    }

    async fn report_clock(
        &self,
        request: Request<wire::ClockReport>,
    ) -> Result<Response<wire::ReportClockResponse>, Status> {
        let report = ClockReport::try_from(request.into_inner());
        let report = report.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.take_clock(report)?;
        Ok(Response::new(wire::ReportClockResponse {}))
    }

    async fn lease(
        &self,
        request: Request<wire::LeaseRequest>,
    ) -> Result<Response<wire::LeaseResponse>, Status> {
        if request.extensions().get::<UdsConnectInfo>().is_none() {
            return Err(Status::permission_denied(
                "leases are for the services of this node, at a Unix socket",
            ));
        }
        let mut guard = self.guard.clone();
        tokio::select! {
            response = self.driver.leases().call(request.into_inner()) => Ok(Response::new(response)),
            () = guard.asked() => Err(ending()),
        }
    }
}

impl HealthApi {
    /// Keeps a report, and says so when the state is another.
    fn take_clock(&self, report: ClockReport) -> Result<(), Status> {
        let (name, state) = (report.reporter.clone(), report.state);
        let offset = status::seconds(report.offset);
        let taken = self.driver.step(|monitor, now| {
            let before = monitor.clocks_mut().report(report, now)?;
            let is_known = |name: &str| {
                monitor
                    .clocks()
                    .iter()
                    .any(|one| one.report.reporter == name)
            };
            self.driver
                .trail(|trail| trail.note_offset(&name, offset, is_known));
            Ok::<_, TooManyClocks>(before)
        });
        let before = taken.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        if let Some(before) = before {
            tracing::info!(name, %before, %state, "Clock changed its state");
            self.driver.note(Change {
                what: format!("clock of {name}"),
                state: state.to_string(),
                ..Change::default()
            });
        }
        Ok(())
    }

    /// Whether a probe follows from an observation.
    fn take_evidence(&self, observation: wire::Observation) -> bool {
        let target = observation.target.map(Target::try_from);
        let Some(Ok(target)) = target else {
            return false;
        };
        let success = observation.success;
        let accepted = self
            .driver
            .step(|monitor, now| monitor.report(&target, success, now));
        if accepted {
            let reason = observation.reason;
            tracing::debug!(%target, success, reason, "Evidence has a probe run");
        }
        accepted
    }
}

/// Lets root decide, at a Unix socket. The services that subscribe here decide nothing; operators do so at the admin
/// socket.
fn may_decide(user: Option<u32>) -> Result<(), Status> {
    match user {
        Some(0) => Ok(()),
        _ => Err(Status::permission_denied(
            "only root decides here; operators use `healthd mark`",
        )),
    }
}

fn decision(request: &wire::SetAdminStateRequest) -> Result<(Scope, AdminState), Status> {
    let refused = |what: String| Status::invalid_argument(what);
    let address: IpAddr = request
        .address
        .parse()
        .map_err(|_| refused(format!("{:?} is no IP address", request.address)))?;
    let port =
        u16::try_from(request.port).map_err(|_| refused(format!("{} is no port", request.port)))?;
    // Read strictly: to take an unknown state as ready would put a target into service.
    let state = wire::AdminState::try_from(request.admin_state)
        .map_err(|_| refused(format!("{} is no state known here", request.admin_state)))?;
    let scope = match port {
        0 => Scope::Address(address),
        port => Scope::Port(SocketAddr::new(address, port)),
    };
    Ok((scope, state.into()))
}

fn ending() -> Status {
    Status::unavailable("healthd is ending")
}

//--- Watch

/// A subscriber of the monitor, which leaves it when dropped.
#[derive(Debug)]
struct Subscription {
    driver: Driver,
    id: SubscriberId,
}

impl Subscription {
    fn open(driver: Driver, owner: Owner) -> Self {
        let id = driver.step(|monitor, now| monitor.open_of(owner, now));
        Self { driver, id }
    }

    fn state(&self, statement: Statement) -> wire::WatchResponse {
        let subscriber = statement.subscriber.clone();
        let (response, n_waiting) = self.driver.step(|monitor, now| {
            let n_waiting = monitor.state(self.id, statement, now);
            let limits = monitor.limits();
            let full = monitor.full(self.id);
            let full = full.map(|changes| response(changes, limits));
            (full.unwrap_or_default(), n_waiting)
        });
        warn_of_waiting(&self.driver, self.id, &subscriber, n_waiting);
        response
    }

    /// The changes after a generation, and the generation that they bring the subscriber to.
    fn changes(&self, since: u64) -> (u64, Option<wire::WatchResponse>) {
        self.driver.look(|monitor| {
            let limits = monitor.limits();
            let changes = monitor.changes(self.id, since);
            let changes = changes.map(|changes| response(changes, limits));
            (monitor.generation(), changes)
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.driver.step(|monitor, now| monitor.close(self.id, now));
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over")]
fn response(news: Changes<'_>, limits: Limits) -> wire::WatchResponse {
    let entries = news.entries.iter();
    let entries = entries.map(|(place, seen)| wire_form::status(*place, *seen));
    let waiting = news.waiting.iter();
    let waiting =
        waiting.map(|(place, watched)| wire_form::without_room(*place, watched, limits.targets));
    wire::WatchResponse {
        generation: news.generation,
        full: news.full,
        statement: news.statement,
        targets: entries.chain(waiting).collect(),
    }
}

/// Names the targets of a statement for which there is no room.
pub(crate) fn warn_of_waiting(
    driver: &Driver,
    id: SubscriberId,
    subscriber: &str,
    n_waiting: usize,
) {
    if n_waiting == 0 {
        return;
    }
    let (limit, named) = driver.look(|monitor| {
        let named = monitor.subscriber(id).into_iter();
        let named = named.flat_map(|subscriber| subscriber.waiting().take(NAMED));
        let named: Vec<String> = named.map(ToString::to_string).collect();
        (monitor.limits().targets, named.join(", "))
    });
    tracing::warn!(
        subscriber,
        n_waiting,
        limit,
        first = named,
        "There is no room for some targets; they are unknown until others leave"
    );
}

/// The task of one `Watch` stream.
struct Session {
    subscription: Subscription,
    generations: watch::Receiver<u64>,
    responses: mpsc::Sender<Result<wire::WatchResponse, Status>>,
    guard: Guard,
    /// The generation the subscriber has seen; `None` before its first statement.
    seen: Option<u64>,
    /// When the next delta may be sent.
    next_delta: Instant,
}

/// The subscriber has gone, or the daemon drains.
struct Over;

impl Session {
    async fn run(mut self, mut statements: Streaming<wire::WatchRequest>) {
        // A subscriber that only listens may end its side: it is served for as long as it reads.
        let mut listening_only = false;
        loop {
            let next = tokio::select! {
                statement = statements.message(), if !listening_only => match statement {
                    Ok(Some(statement)) => self.state(statement).await,
                    Ok(None) => {
                        listening_only = true;
                        Ok(())
                    }
                    Err(_) => Err(Over),
                },
                moved = self.generations.changed(), if self.seen.is_some() => match moved {
                    Ok(()) => self.tell().await,
                    Err(_) => Err(Over),
                },
                () = self.responses.closed() => Err(Over),
                () = self.guard.asked() => Err(Over),
            };
            if next.is_err() {
                return;
            }
        }
    }

    /// Takes in a statement and sends the full snapshot that answers it.
    async fn state(&mut self, request: wire::WatchRequest) -> Result<(), Over> {
        let response = self.subscription.state(statement(request));
        self.seen = Some(response.generation);
        self.send(Ok(response)).await
    }

    /// Sends what changed since the subscriber last heard.
    async fn tell(&mut self) -> Result<(), Over> {
        let Some(seen) = self.seen else {
            return Ok(());
        };
        // A subscriber that leaves meanwhile releases its targets at once.
        tokio::select! {
            () = tokio::time::sleep_until(self.next_delta) => {}
            () = self.responses.closed() => return Err(Over),
        }
        let (generation, changes) = self.subscription.changes(seen);
        self.seen = Some(generation);
        match changes {
            Some(changes) => {
                self.next_delta = Instant::now() + DELTA_GAP;
                self.send(Ok(changes)).await
            }
            None => Ok(()),
        }
    }

    async fn send(&mut self, response: Result<wire::WatchResponse, Status>) -> Result<(), Over> {
        tokio::select! {
            sent = self.responses.send(response) => sent.map_err(|_| Over),
            () = self.guard.asked() => Err(Over),
        }
    }
}

/// The statement in a request. Targets that cannot be probed are left out.
fn statement(request: wire::WatchRequest) -> Statement {
    let mut subscriber = request.subscriber;
    subscriber.retain(|letter| !letter.is_control());
    let subscriber: String = subscriber.chars().take(MAX_NAME).collect();
    let mut refused: Option<HealthError> = None;
    let mut n_refused = 0_usize;
    let mut targets = Vec::with_capacity(request.targets.len());
    for (place, target) in (1..).zip(request.targets) {
        match Watched::try_from(target) {
            Ok(watched) => targets.push((place, watched)),
            Err(error) => {
                n_refused += 1;
                refused.get_or_insert(error);
            }
        }
    }
    if let Some(error) = refused {
        tracing::warn!(subscriber, n_refused, %error, "Some stated targets cannot be probed");
    }
    Statement {
        subscriber,
        number: request.statement,
        targets,
        all: request.all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_alone_decides() {
        assert!(may_decide(Some(0)).is_ok());
        for user in [None, Some(65_520), Some(65_523), Some(1000), Some(65_534)] {
            let refused = may_decide(user).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{user:?}");
        }
    }

    #[test]
    fn a_decision_is_read_strictly() {
        let request = |address: &str, port, admin_state| wire::SetAdminStateRequest {
            address: address.to_owned(),
            port,
            admin_state,
        };
        let api = SocketAddr::from(([192, 168, 7, 13], 6443));
        let good = decision(&request("192.168.7.13", 6443, 1)).unwrap();
        assert_eq!(good, (Scope::Port(api), AdminState::Drain));
        let all = decision(&request("192.168.7.13", 0, 2)).unwrap();
        assert_eq!(all, (Scope::Address(api.ip()), AdminState::Maintenance));
        for bad in [
            request("master-0", 6443, 1),
            request("192.168.7.13", 65_536, 1),
            request("192.168.7.13", 6443, 3),
        ] {
            let status = decision(&bad).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{bad:?}");
        }
    }

    #[test]
    fn a_target_that_cannot_be_probed_does_not_spoil_the_statement() {
        let good = wire::Target::from(&Target::tcp("192.168.7.13:6443".parse().unwrap()));
        let later = wire::Target {
            kind: None,
            ..good.clone()
        };
        let request = wire::WatchRequest {
            targets: vec![later.clone(), good, later],
            subscriber: format!("a\nb{}", "x".repeat(100)),
            statement: 5,
            all: false,
        };
        let statement = statement(request);
        assert_eq!(statement.targets.len(), 1);
        assert_eq!(statement.targets[0].0, 2, "places are counted as stated");
        assert!(statement.subscriber.starts_with("abx"));
        assert_eq!(statement.subscriber.len(), MAX_NAME);
    }
}
