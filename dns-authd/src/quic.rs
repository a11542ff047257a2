//! DNS over QUIC (RFC 9250).
//!
//! hickory-server carries the transport: handshakes, framing, time-outs. What it carries is ours: its
//! handler hands us the query's octets and sends the response we made, record by record, for it takes no
//! finished octets. Its zone stores and catalogue are not used.
//!
//! It accepts connections itself and counts none, so that none can be turned away when there are too many:
//! what bounds them is [`SILENCE`] and QUIC's own bounds.
//!
//! Never decides an answer; [`Ask`] does.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use daemon::tls::Certificates;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Message, Metadata, ResponseCode};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;

/// A handshake that takes longer is given up, and so is a connection that is silent so long.
pub const SILENCE: Duration = Duration::from_secs(10);

/// An answer that is being made; `None` is silence.
pub type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// Answers a query's octets from a peer.
pub type Ask = Arc<dyn Fn(Vec<u8>, SocketAddr) -> Answering + Send + Sync>;

/// The running listeners.
pub struct Quic(Server<Handler>);

impl std::fmt::Debug for Quic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Quic").finish_non_exhaustive()
    }
}

impl Quic {
    /// Starts to serve these sockets, already bound, with these certificates; needs a tokio runtime.
    pub fn start(
        certificates: &Certificates,
        sockets: Vec<UdpSocket>,
        ask: Ask,
    ) -> std::io::Result<Self> {
        let mut server = Server::new(Handler { ask });
        for socket in sockets {
            socket.set_nonblocking(true)?;
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            server.register_quic_listener(socket, SILENCE, certificates.resolver())?;
        }
        Ok(Self(server))
    }

    /// Takes no new connections and waits for those that are open; true when all ended in time.
    pub async fn drain(mut self, deadline: Duration) -> bool {
        let ended = tokio::time::timeout(deadline, self.0.shutdown_gracefully()).await;
        matches!(ended, Ok(Ok(())))
    }
}

/// Between hickory's typed messages and our octets.
struct Handler {
    ask: Ask,
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response_handle: R,
    ) -> ResponseInfo {
        let octets = (self.ask)(request.as_slice().to_vec(), request.src()).await;
        let answer = octets.and_then(|octets| Message::from_vec(&octets).ok());
        let mut builder = MessageResponseBuilder::from_message_request(request);
        let sent = match &answer {
            Some(message) => {
                if let Some(edns) = &message.edns {
                    builder.edns(edns);
                }
                let Message {
                    answers,
                    authorities,
                    additionals,
                    ..
                } = message;
                let response =
                    builder.build(message.metadata, answers, authorities, [], additionals);
                response_handle.send_response(response).await
            }
            // Over a stream silence would keep the client waiting for its whole time-out.
            None => {
                let refusal = builder.error_msg(&request.metadata, ResponseCode::Refused);
                response_handle.send_response(refusal).await
            }
        };
        sent.unwrap_or_else(|error| {
            tracing::debug!(%error, peer = %request.src(), "Response was not sent");
            let mut metadata = Metadata::response_from_request(&request.metadata);
            metadata.response_code = ResponseCode::ServFail;
            let header = hickory_server::proto::op::Header {
                metadata,
                counts: hickory_server::proto::op::HeaderCounts::default(),
            };
            ResponseInfo::from(header)
        })
    }
}
