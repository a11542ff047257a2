//! Follows one peer: connects, hears its findings, and begins again when the stream has ended.
//!
//! The peer is the one that its certificate names. A peer whose machine refuses a connection, or takes it and says nothing, is
//! not a silent one: its machine is reached. systemd holds the socket of a healthd that is away, and the kernel accepts there.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use daemon::node_tls::{Identity, NodeStream};
use daemon::{Backoff, exit};
use exchange::members::{Finding, Message, PeerId};
use hyper_util::rt::TokioIo;
use proto::health::Target;
use proto::wire;
use proto::wire::exchange_client::ExchangeClient;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

use super::MAX_MESSAGE;
use crate::config::PeerAddress;
use crate::driver::Driver;

/// A connection attempt that takes longer has failed: peers are one switch away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The wait after the first failed attempt.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The longest: a machine that refuses says so within the time that its silence is noticed in.
const LONGEST_WAIT: Duration = Duration::from_millis(800);

/// A connection to a peer.
type PeerStream = NodeStream<TlsStream<TcpStream>>;

/// One peer, and what is needed to follow it.
pub(super) struct Follower {
    pub(super) id: PeerId,
    pub(super) peer: PeerAddress,
    pub(super) silence: Duration,
    pub(super) identity: Arc<Identity>,
    pub(super) driver: Driver,
}

/// Why a stream has ended, or did not begin.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    /// No connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection does not come to be in time.
    #[error("no connection within {CONNECT_TIMEOUT:?}")]
    Slow,
    /// The connection does not prove to be the peer's.
    #[error("no handshake")]
    Handshake(#[source] io::Error),
    /// The peer does not take part in the handshake in time.
    #[error("no handshake within {CONNECT_TIMEOUT:?}: its healthd is away")]
    Absent,
    /// HTTP/2 cannot begin.
    #[error("cannot begin")]
    Transport(#[source] tonic::transport::Error),
    /// The peer ends the stream, or refuses it.
    #[error("{}", .0.message())]
    Refused(tonic::Status),
    /// The peer ends the stream without a word.
    #[error("the stream has ended")]
    Ended,
    /// The peer is silent.
    #[error("silent")]
    Silent,
    /// A message is missing.
    #[error("a message is missing")]
    Gap,
}

impl FollowError {
    /// Whether the peer's machine has answered.
    fn is_answer(&self) -> bool {
        match self {
            Self::Connect(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
            ),
            Self::Handshake(_) | Self::Absent | Self::Refused(_) | Self::Ended | Self::Gap => true,
            Self::Slow | Self::Transport(_) | Self::Silent => false,
        }
    }
}

impl Follower {
    /// Follows the peer for ever; dropped, it ends.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            let mut has_heard = false;
            let error = self.follow(&mut has_heard).await;
            self.driver.leases().set_channel(self.id, None);
            if has_heard {
                backoff.reset();
            }
            if error.is_answer() && !has_heard {
                let id = self.id;
                self.driver.step(|monitor, now| monitor.refused(id, now));
            }
            self.note(&exit::chain(&error));
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Hears one stream to its end.
    async fn follow(&self, has_heard: &mut bool) -> FollowError {
        let channel = match self.connect().await {
            Ok(channel) => channel,
            Err(error) => return error,
        };
        let id = self.id;
        self.driver.leases().set_channel(id, Some(channel.clone()));
        let number = self.driver.step(|monitor, _| monitor.begin_stream(id));
        let mut client = ExchangeClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let request = client.follow(wire::FollowRequest {});
        let mut stream = match tokio::time::timeout(self.silence, request).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return FollowError::Refused(status),
            Err(_) => return FollowError::Silent,
        };
        loop {
            let next = tokio::time::timeout(self.silence, stream.message()).await;
            let message = match next {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return FollowError::Ended,
                Ok(Err(status)) => return FollowError::Refused(status),
                Err(_) => return FollowError::Silent,
            };
            let message = parse(message);
            let is_good = self
                .driver
                .step(|monitor, now| monitor.hear(id, number, message, now));
            if !is_good {
                return FollowError::Gap;
            }
            if !*has_heard {
                *has_heard = true;
                self.note("");
            }
        }
    }

    async fn connect(&self) -> Result<Channel, FollowError> {
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, self.dial())
            .await
            .map_err(|_| FollowError::Slow)?
            .map_err(FollowError::Connect)?;
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, self.handshake(stream))
            .await
            .map_err(|_| FollowError::Absent)?
            .map_err(FollowError::Handshake)?;
        // Never resolved: the connection is there.
        let endpoint = Endpoint::from(Uri::from_static("http://peer"));
        endpoint
            .connect_with_connector(Connected(Some(stream)))
            .await
            .map_err(FollowError::Transport)
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.peer.address.as_str()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<PeerStream> {
        self.identity.connect(stream, &self.peer.name).await
    }

    /// Keeps why the peer is not heard, empty if it is, and logs it when it changes.
    fn note(&self, error: &str) {
        let (name, address) = (&self.peer.name, &self.peer.address);
        if self.driver.set_peer_error(self.id, error) {
            match error {
                "" => tracing::info!(%name, "Findings of another node are heard"),
                error => {
                    tracing::warn!(%name, %address, error, "Findings of another node are not heard");
                }
            }
        }
    }
}

/// Findings of targets that this version cannot probe are left out.
fn parse(message: wire::Findings) -> Message {
    let finding = |finding: wire::Finding| {
        Some(Finding {
            liveness: finding.liveness().into(),
            target: Target::try_from(finding.target?).ok()?,
            reason: finding.reason,
        })
    };
    Message {
        sequence: message.sequence,
        full: message.full,
        findings: message.findings.into_iter().filter_map(finding).collect(),
    }
}

/// Gives tonic a connection that was made already.
struct Connected(Option<PeerStream>);

impl Service<Uri> for Connected {
    type Response = TokioIo<PeerStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take();
        Box::pin(async move {
            let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
            Ok(TokioIo::new(stream))
        })
    }
}
