//! gRPC health checking protocol v1 (`grpc.health.v1.Health/Check`), without TLS.

use std::net::{IpAddr, SocketAddr};

use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Outcome, root_cause};

pub(super) async fn probe(address: SocketAddr, source: Option<IpAddr>, service: &str) -> Outcome {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| root_cause(&error))?;
    let channel = endpoint.local_address(source).connect().await;
    let channel = channel.map_err(|error| root_cause(&error))?;
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    match HealthClient::new(channel).check(request).await {
        Ok(response) => match response.into_inner().status() {
            ServingStatus::Serving => Ok("serving".to_owned()),
            ServingStatus::NotServing => Err("not serving".to_owned()),
            ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
                Err("serving status unknown".to_owned())
            }
        },
        Err(status) => Err(match status.code() {
            Code::NotFound => format!("no service {service:?}"),
            Code::Unimplemented => "no health service".to_owned(),
            code => format!("{}: {}", code.description(), status.message()),
        }),
    }
}
