//! Connections to healthd.

use std::time::Duration;

use tonic::transport::Channel;

pub use health::{Endpoint, EndpointError, HealthdArg};

/// A connection attempt that takes longer than this has failed. healthd is on the same node, or
/// one switch away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of pings to a silent healthd, and the time limit of its answer. A healthd that hangs
/// without ending its streams is noticed within the sum.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Connects to healthd once.
///
/// # Errors
/// When healthd does not accept the connection in time.
pub async fn connect(endpoint: &Endpoint) -> Result<Channel, tonic::transport::Error> {
    let endpoint = tonic::transport::Endpoint::from_shared(endpoint.to_string())?;
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .connect()
        .await
}
