//! DNS over TLS (RFC 7858), HTTPS (RFC 8484) and QUIC (RFC 9250).
//!
//! hickory-server carries the transports: handshakes, HTTP/2 and QUIC framing, time-outs. What it
//! carries is ours: its handler hands us the query's octets and sends the response we made, record
//! by record, for it takes no finished octets. Its zone stores and catalogue are not used.
//!
//! Never decides an answer; [`Ask`] does.

use std::future::Future;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use daemon_base::tls::{CertificateError, CertificateFiles, Certificates};
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Message, Metadata, ResponseCode};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;

use crate::answer::Transport;
use crate::config::Tls;

/// A handshake that takes longer is given up, and so is a connection that is silent so long.
const SILENCE: Duration = Duration::from_secs(10);

/// An answer that is being made; `None` is silence.
pub type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// Answers a query's octets from a peer on a transport.
pub type Ask = Arc<dyn Fn(Vec<u8>, SocketAddr, Transport) -> Answering + Send + Sync>;

/// The sockets of the encrypted transports, already bound.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For TLS.
    pub dot: Vec<TcpListener>,
    /// For HTTPS.
    pub doh: Vec<TcpListener>,
    /// For QUIC.
    pub doq: Vec<UdpSocket>,
}

/// The running listeners.
pub struct Encrypted {
    server: Server<Handler>,
    certificates: Certificates,
}

impl std::fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encrypted")
            .field("certificates", &self.certificates)
            .finish_non_exhaustive()
    }
}

/// Why the listeners could not start.
#[derive(Debug, thiserror::Error)]
pub enum EncryptedError {
    /// The certificate or its key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A socket that the runtime would not take.
    #[error("cannot listen for encrypted queries")]
    Listen(#[from] std::io::Error),
}

impl Encrypted {
    /// Reads the certificate and starts to serve; needs a tokio runtime.
    ///
    /// # Errors
    /// When the certificate cannot be used or a socket is refused.
    pub fn start(tls: &Tls, sockets: Sockets, ask: Ask) -> Result<Self, EncryptedError> {
        let files = CertificateFiles::new(&tls.certificate, &tls.key);
        let certificates = Certificates::read(&[files])?;
        let mut server = Server::new(Handler { ask });
        for listener in sockets.dot {
            let listener = tcp(listener)?;
            server.register_tls_listener(listener, SILENCE, certificates.resolver())?;
        }
        for listener in sockets.doh {
            let listener = tcp(listener)?;
            // Any host name will do: the certificate says who we are.
            let path = tls.doh_path.clone();
            server.register_https_listener(
                listener,
                SILENCE,
                certificates.resolver(),
                None,
                path,
            )?;
        }
        for socket in sockets.doq {
            socket.set_nonblocking(true)?;
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            server.register_quic_listener(socket, SILENCE, certificates.resolver())?;
        }
        Ok(Self {
            server,
            certificates,
        })
    }

    /// The certificate in use, to be read anew on reload.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        self.certificates.clone()
    }

    /// Takes no new connections and waits for those that are open; true when all ended in time.
    pub async fn drain(mut self, deadline: Duration) -> bool {
        let ended = tokio::time::timeout(deadline, self.server.shutdown_gracefully()).await;
        matches!(ended, Ok(Ok(())))
    }
}

fn tcp(listener: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
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
        let transport = match request.protocol() {
            Protocol::Tls => Transport::Tls,
            Protocol::Quic => Transport::Quic,
            Protocol::Https => Transport::Https,
            _ => Transport::Tcp,
        };
        let octets = (self.ask)(request.as_slice().to_vec(), request.src(), transport).await;
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

#[cfg(test)]
mod tests;
