//! The liveness of a service on this node, from healthd.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use daemon::acl::is_own;
use proto::endpoint::Endpoint;
use proto::wire::health_client::HealthClient;
use proto::wire::{self, Liveness, Observation, TargetStatus};

/// How long a target may be away that was up: that it was may be what healthd knew of the old process,
/// and the admin address changes hands a moment after the new one is ready.
const BLINK: Duration = Duration::from_secs(2);

/// How long healthd may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The liveness of targets, by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets(BTreeMap<String, TargetStatus>);

/// Asks healthd for every target.
///
/// # Errors
/// When it does not answer.
pub async fn list(socket: &Path) -> anyhow::Result<Vec<TargetStatus>> {
    let listing = async {
        let channel = proto::endpoint::connect(&Endpoint::Unix(socket.to_owned())).await?;
        let mut client = HealthClient::new(channel);
        let answer = client.list(wire::ListRequest::default()).await?;
        Ok::<_, anyhow::Error>(answer.into_inner().targets)
    };
    let listed = tokio::time::timeout(ANSWER, listing).await;
    listed
        .context("healthd does not answer")?
        .context("cannot reach healthd")
}

/// Tells healthd of a doubt about targets that it takes for up, so that it probes each at once.
///
/// # Errors
/// When it does not answer.
pub async fn doubt(socket: &Path, targets: &Targets) -> anyhow::Result<()> {
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
        let channel = proto::endpoint::connect(&Endpoint::Unix(socket.to_owned())).await?;
        let mut client = HealthClient::new(channel);
        client.report(tokio_stream::iter(doubts)).await?;
        Ok::<_, anyhow::Error>(())
    };
    let told = tokio::time::timeout(ANSWER, telling).await;
    told.context("healthd does not answer")?
        .context("cannot report to healthd")
}

impl Targets {
    /// Those of this node's own addresses at one of these ports that are up.
    pub fn up_here(listed: Vec<TargetStatus>, ports: &[u16]) -> Self {
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
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes up what healthd says so long after the new process was ready; see [`Seen`].
    pub fn look(&self, listed: &[TargetStatus], at: Duration, seen: &mut Seen) {
        seen.missing = None;
        seen.lost = None;
        for status in listed {
            let Some(name) = name(status).filter(|name| self.0.contains_key(name)) else {
                continue;
            };
            let told = || format!("{name} is down: {}", status.reason);
            match status.liveness() {
                Liveness::Up => {
                    seen.away.remove(&name);
                    seen.again.insert(name);
                }
                Liveness::Down if seen.again.contains(&name) => {
                    let told = Some(told());
                    let since = *seen.away.entry(name).or_insert(at);
                    match at.saturating_sub(since) >= BLINK {
                        true => seen.lost = told,
                        false => seen.missing = told,
                    }
                }
                Liveness::Down => seen.missing = Some(told()),
                Liveness::Unknown => {}
            }
        }
    }
}

/// The reports of healthd since the new process was ready.
///
/// A service of which one process works at a time is not there for a moment while it is taken over, and
/// healthd may have noticed. That is no fault, as long as each target comes up; one that goes down
/// having been up since, for longer than a [blink](BLINK), is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    again: BTreeSet<String>,
    /// Targets that are down and were up since, and from when on.
    away: BTreeMap<String, Duration>,
    /// A target that is down, and was not up since or is away for a blink.
    pub missing: Option<String>,
    /// A target that is down and was up since.
    pub lost: Option<String>,
}

fn place(status: &TargetStatus) -> Option<(IpAddr, u16)> {
    let target = status.target.as_ref()?;
    let port = u16::try_from(target.port).ok()?;
    Some((target.address.parse().ok()?, port))
}

/// The kind and the address of the probe, in words.
pub fn name(status: &TargetStatus) -> Option<String> {
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
        Kind::TcpCheck(_) => format!("tcp-check {at}"),
    })
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
        let mut seen = Seen::default();
        let second = Duration::from_secs;
        targets.look(&[], second(0), &mut seen);
        assert_eq!(seen, Seen::default(), "a healthd that has just started");
        let down = [
            status("127.0.0.1", 54, Liveness::Down),
            status("127.0.0.1", 53, Liveness::Down),
        ];
        let told = Some("tcp 127.0.0.1:53 is down: connection refused".to_owned());
        targets.look(&down, second(1), &mut seen);
        assert_eq!((&seen.missing, &seen.lost), (&told, &None), "taken over");
        let up = [status("127.0.0.1", 53, Liveness::Up)];
        for begin in [second(2), second(20)] {
            targets.look(&up, begin, &mut seen);
            assert_eq!((&seen.missing, &seen.lost), (&None, &None));
            targets.look(&down, begin + second(1), &mut seen);
            targets.look(&down, begin + second(2), &mut seen);
            assert_eq!((&seen.missing, &seen.lost), (&told, &None), "a blink");
        }
        targets.look(&down, second(23), &mut seen);
        assert_eq!((&seen.missing, &seen.lost), (&None, &told));
    }
}
