//! The standard `grpc.health.v1.Health`, so that any gRPC tool can ask.
//!
//! | service asked about | answer |
//! | --- | --- |
//! | "" or `outpost.health.v1.Health` | `SERVING` until healthd drains |
//! | an address and port, `192.168.7.13:6443` | `SERVING` if every target there is usable, else `NOT_SERVING` |
//! | a target as `healthd status` shows it, `tcp 192.168.7.13:6443` | the same for that target |
//!
//! A target that was never probed is `UNKNOWN`; one without a subscriber is `NOT_FOUND` to `Check` and
//! `SERVICE_UNKNOWN` to `Watch`, as the protocol has it.

use std::pin::Pin;

use daemon::drain::Guard;
use proto::health::Liveness;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::driver::Driver;

/// The name of the contract's service.
const OWN_SERVICE: &str = "outpost.health.v1.Health";

/// A subscriber that has not read a status needs the newest one only.
const STATUS_QUEUE: usize = 1;

/// Serves the standard protocol.
#[derive(Clone, Debug)]
pub struct StandardHealth {
    driver: Driver,
    guard: Guard,
}

impl StandardHealth {
    /// Serves what the driver knows until the drain begins.
    #[must_use]
    pub fn new(driver: Driver, guard: Guard) -> Self {
        Self { driver, guard }
    }

    /// `None` when no subscriber watches such a target.
    fn status(&self, service: &str) -> Option<ServingStatus> {
        if service.is_empty() || service == OWN_SERVICE {
            return Some(match self.guard.is_asked() {
                true => ServingStatus::NotServing,
                false => ServingStatus::Serving,
            });
        }
        self.driver.look(|monitor| {
            let entries = monitor.table().entries();
            let asked = entries.filter(|entry| {
                let target = &*entry.target;
                target.address.to_string() == service || target.to_string() == service
            });
            let worst = asked.map(|entry| match entry.effective() {
                Liveness::Up => (0, ServingStatus::Serving),
                Liveness::Unknown => (1, ServingStatus::Unknown),
                Liveness::Down => (2, ServingStatus::NotServing),
            });
            let (_, status) = worst.max_by_key(|(rank, _)| *rank)?;
            Some(status)
        })
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

type Statuses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for StandardHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.status(&request.get_ref().service);
        let status =
            status.ok_or_else(|| Status::not_found("no subscriber watches such a target"))?;
        Ok(Response::new(response(status)))
    }

    type WatchStream = Statuses;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Statuses>, Status> {
        let (statuses, queue) = mpsc::channel(STATUS_QUEUE);
        let follower = Follower {
            health: self.clone(),
            service: request.into_inner().service,
            generations: self.driver.generations(),
            statuses,
        };
        tokio::spawn(follower.run());
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }
}

/// The task of one `Watch` stream.
struct Follower {
    health: StandardHealth,
    service: String,
    generations: watch::Receiver<u64>,
    statuses: mpsc::Sender<Result<HealthCheckResponse, Status>>,
}

impl Follower {
    async fn run(mut self) {
        let mut told = None;
        loop {
            let status = self.health.status(&self.service);
            let status = status.unwrap_or(ServingStatus::ServiceUnknown);
            if told != Some(status) {
                told = Some(status);
                if self.statuses.send(Ok(response(status))).await.is_err() {
                    return;
                }
            }
            if self.health.guard.is_asked() {
                return;
            }
            tokio::select! {
                moved = self.generations.changed() => if moved.is_err() {
                    return;
                },
                () = self.statuses.closed() => return,
                () = self.health.guard.asked() => {}
            }
        }
    }
}
