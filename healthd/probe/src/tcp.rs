//! TCP: up when the connection is accepted.

use std::net::{IpAddr, SocketAddr};

use super::Outcome;

pub(super) async fn probe(address: SocketAddr, source: Option<IpAddr>) -> Outcome {
    super::connect(address, source).await?;
    Ok("connected".to_owned())
}
