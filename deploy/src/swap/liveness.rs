//! What healthd thinks of a service on this node.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use proto::endpoint::Endpoint;
use proto::wire::health_client::HealthClient;
use proto::wire::{self, Liveness, Observation, TargetStatus};

/// How long healthd may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What healthd says of targets, by what names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Targets(BTreeMap<String, TargetStatus>);

/// Asks healthd for every target.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn list(socket: &Path) -> anyhow::Result<Vec<TargetStatus>> {
    let listing = async {
        let channel = Endpoint::Unix(socket.to_owned()).connect().await?;
        let mut client = HealthClient::new(channel);
        let answer = client.list(wire::ListRequest::default()).await?;
        Ok::<_, anyhow::Error>(answer.into_inner().targets)
    };
    let listed = tokio::time::timeout(ANSWER, listing).await;
    listed
        .context("healthd does not answer")?
        .context("healthd cannot be asked")
}

/// Tells healthd of a doubt about targets that it takes for up, so that it probes each at once.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn doubt(socket: &Path, targets: &Targets) -> anyhow::Result<()> {
    let doubts: Vec<Observation> = targets
        .0
        .values()
        .map(|status| Observation {
            target: status.target.clone(),
            success: false,
            reason: "another process serves it".to_owned(),
        })
        .collect();
    let telling = async {
        let channel = Endpoint::Unix(socket.to_owned()).connect().await?;
        let mut client = HealthClient::new(channel);
        client.report(tokio_stream::iter(doubts)).await?;
        Ok::<_, anyhow::Error>(())
    };
    let told = tokio::time::timeout(ANSWER, telling).await;
    told.context("healthd does not answer")?
        .context("healthd cannot be told")
}

impl Targets {
    /// Those of this node's own addresses at one of these ports that are up.
    pub(crate) fn up_here(listed: Vec<TargetStatus>, ports: &[u16]) -> Self {
        Self::up(listed, |address, port| {
            ports.contains(&port) && is_own(address)
        })
    }

    fn up(listed: Vec<TargetStatus>, is_ours: impl Fn(IpAddr, u16) -> bool) -> Self {
        let ours = listed.into_iter().filter(|status| {
            let place = place(status);
            status.liveness() == Liveness::Up && place.is_some_and(|(ip, port)| is_ours(ip, port))
        });
        Self(ours.filter_map(|one| Some((name(&one)?, one))).collect())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Which of them are not up any longer, and what healthd says of it.
    pub(crate) fn gone(&self, listed: &[TargetStatus]) -> Option<String> {
        let now: BTreeMap<String, &TargetStatus> = listed
            .iter()
            .filter_map(|status| Some((name(status)?, status)))
            .collect();
        self.0.keys().find_map(|name| {
            let status = now.get(name)?;
            let is_down = status.liveness() == Liveness::Down;
            is_down.then(|| format!("{name} is down: {}", status.reason))
        })
    }
}

fn place(status: &TargetStatus) -> Option<(IpAddr, u16)> {
    let target = status.target.as_ref()?;
    let port = u16::try_from(target.port).ok()?;
    Some((target.address.parse().ok()?, port))
}

/// What is probed and where, in words.
pub(crate) fn name(status: &TargetStatus) -> Option<String> {
    use wire::target::Kind;
    let target = status.target.as_ref()?;
    let (address, port) = place(status)?;
    let at = std::net::SocketAddr::new(address, port);
    Some(match target.kind.as_ref()? {
        Kind::Tcp(_) => format!("tcp {at}"),
        Kind::Http(http) => format!("http {at}{}", http.path),
        Kind::Https(http) => format!("https {at}{}", http.path),
        Kind::Grpc(grpc) => format!("grpc {at} {}", grpc.service),
        Kind::Dns(dns) => format!("dns {at} {}", dns.name),
        Kind::Ntp(_) => format!("ntp {at}"),
    })
}

/// Whether an address is this node's: only what is can be bound.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(address: &str, port: u32, liveness: Liveness) -> TargetStatus {
        TargetStatus {
            target: Some(wire::Target {
                address: address.to_owned(),
                port,
                kind: Some(wire::target::Kind::Tcp(wire::TcpProbe {})),
                ..wire::Target::default()
            }),
            liveness: liveness.into(),
            reason: "connection refused".to_owned(),
            ..TargetStatus::default()
        }
    }

    #[test]
    fn what_was_up_here_is_missed_when_it_is_down() {
        let before = vec![
            status("127.0.0.1", 53, Liveness::Up),
            status("127.0.0.1", 54, Liveness::Up),
            status("127.0.0.2", 53, Liveness::Down),
            status("192.0.2.1", 53, Liveness::Up),
            status("nonsense", 53, Liveness::Up),
        ];
        let targets = Targets::up_here(before, &[53]);
        assert_eq!(targets.len(), 1);
        assert_eq!(targets.gone(&[]), None, "a healthd that has just started");
        assert_eq!(targets.gone(&[status("127.0.0.1", 53, Liveness::Up)]), None);
        let now = [
            status("127.0.0.1", 54, Liveness::Down),
            status("127.0.0.1", 53, Liveness::Down),
        ];
        let told = "tcp 127.0.0.1:53 is down: connection refused";
        assert_eq!(targets.gone(&now).unwrap(), told);
    }
}
