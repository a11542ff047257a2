//! DNS over TLS, HTTPS and QUIC (RFC 7858, 8484, 9250).
//!
//! Hickory's listeners speak the transports; what they carry is answered as over TCP. Their
//! handlers hand over decoded messages, so a response is decoded once more on its way out: some
//! microseconds where a handshake took hundreds.
//!
//! The certificate is read again when its file changes, and taken up by the next handshake.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use daemon_base::snapshot::Cell;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{
    Header, HeaderCounts, Message, MessageType, Metadata, ResponseCode,
};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{self, Client, MAX_MESSAGE, Transport, Verdict};
use crate::config::Tls;
use crate::load::Stamp;
use crate::tcp::Shared;

/// How often the certificate's files are looked at.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(60);
/// How often a waiting query looks whether it can be answered.
const POLL: Duration = Duration::from_millis(2);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or holds no PEM.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// What is wrong.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("{path} holds no certificate")]
    Empty {
        /// The file.
        path: String,
    },
    /// The key is of no known kind, or is not the certificate's.
    #[error("certificate and key do not go together")]
    Unusable(#[source] rustls::Error),
}

/// The certificate that is shown to clients; clones share it.
#[derive(Clone, Debug)]
pub struct Certificate {
    current: Arc<Cell<CertifiedKey>>,
    tls: Tls,
}

impl Certificate {
    /// Reads the certificate.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn open(tls: &Tls) -> Result<Self, CertificateError> {
        Ok(Self {
            current: Cell::new(read(tls)?),
            tls: tls.clone(),
        })
    }

    /// Reads the certificate again; the old one stays when the new one cannot be used.
    pub fn reload(&self) {
        match read(&self.tls) {
            Ok(key) => {
                self.current.publish(key);
                tracing::info!(certificate = %self.tls.certificate.display(), "Certificate is loaded");
            }
            Err(error) => tracing::error!(
                error = daemon_base::exit::chain(&error),
                "Certificate cannot be used, the old one stays"
            ),
        }
    }

    /// Reads the certificate again whenever its files change.
    async fn follow(self) {
        let look = || (Stamp::of(&self.tls.certificate), Stamp::of(&self.tls.key));
        let mut seen = look();
        loop {
            tokio::time::sleep(CERTIFICATE_LOOK).await;
            let stamps = look();
            if stamps != seen {
                seen = stamps;
                self.reload();
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.current())
    }
}

fn read(tls: &Tls) -> Result<CertifiedKey, CertificateError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| CertificateError::Read { path, source }
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(failed(&tls.certificate))?;
    if chain.is_empty() {
        return Err(CertificateError::Empty {
            path: tls.certificate.display().to_string(),
        });
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(failed(&tls.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(CertificateError::Unusable)
}

//--- Listeners

/// The sockets of the encrypted transports.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For TLS.
    pub dot: Vec<TcpListener>,
    /// For HTTPS.
    pub doh: Vec<TcpListener>,
    /// For QUIC.
    pub doq: Vec<UdpSocket>,
}

/// The encrypted transports, ready to serve.
#[derive(Debug)]
pub struct Encrypted {
    /// Their sockets.
    pub listeners: Listeners,
    /// Their certificate.
    pub certificate: Certificate,
    /// The path of DNS over HTTPS.
    pub doh_path: String,
    /// How long a connection may be idle.
    pub idle: Duration,
}

impl Encrypted {
    /// Serves until `stop` is set; needs a tokio runtime.
    ///
    /// # Errors
    /// When a socket cannot be used.
    pub async fn serve(
        self,
        shared: Arc<Shared>,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let mut server = Server::new(Handler { shared });
        let resolver: Arc<dyn ResolvesServerCert> = Arc::new(self.certificate.clone());
        for listener in self.listeners.dot {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            server.register_tls_listener(listener, self.idle, Arc::clone(&resolver))?;
        }
        for listener in self.listeners.doh {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            server.register_https_listener(
                listener,
                self.idle,
                Arc::clone(&resolver),
                None,
                self.doh_path.clone(),
            )?;
        }
        for socket in self.listeners.doq {
            socket.set_nonblocking(true)?;
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            server.register_quic_listener(socket, self.idle, Arc::clone(&resolver))?;
        }
        let following = tokio::spawn(self.certificate.follow());
        // An error means that the sender is gone, and with it the service.
        drop(stop.wait_for(|stop| *stop).await);
        following.abort();
        if let Err(error) = server.shutdown_gracefully().await {
            tracing::warn!(%error, "Encrypted transports did not end well");
        }
        Ok(())
    }
}

/// Answers what Hickory's listeners receive.
struct Handler {
    shared: Arc<Shared>,
}

#[async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response_handle: R,
    ) -> ResponseInfo {
        let Some(reply) = self.answer(request).await else {
            return failed(request);
        };
        let Ok(message) = Message::from_vec(&reply) else {
            tracing::error!("A response cannot be decoded");
            return failed(request);
        };
        let builder = MessageResponseBuilder::new(&request.queries, message.edns.as_ref());
        let response = builder.build(
            message.metadata,
            &message.answers,
            &message.authorities,
            [],
            &message.additionals,
        );
        match response_handle.send_response(response).await {
            Ok(info) => info,
            Err(error) => {
                tracing::debug!(peer = %request.src(), %error, "Response is not sent");
                failed(request)
            }
        }
    }
}

impl Handler {
    /// The response's octets; waits while nothing is known yet.
    async fn answer(&self, request: &Request) -> Option<Vec<u8>> {
        let message = request.as_slice();
        let mut client = client(request);
        let deadline = now() + self.shared.hold();
        let mut out = vec![0; MAX_MESSAGE];
        loop {
            client.can_wait = now() < deadline;
            match self.shared.respond(message, &client, &mut out) {
                Verdict::Reply(length) => {
                    out.truncate(length);
                    return Some(out);
                }
                Verdict::Wait { .. } => tokio::time::sleep(POLL).await,
                Verdict::Silent => return None,
                // Transfers are for TCP, or TLS with a protocol of its own (RFC 9103).
                Verdict::Transfer { .. } => {
                    let rcode = dns_wire::Rcode::REFUSED;
                    let length = answer::refuse(message, rcode, &mut out)?;
                    out.truncate(length);
                    return Some(out);
                }
            }
        }
    }
}

fn client(request: &Request) -> Client {
    Client {
        peer: request.src(),
        local: None,
        local_port: 0,
        transport: match request.protocol() {
            Protocol::Tls => Transport::Tls,
            Protocol::Https => Transport::Https,
            Protocol::Quic => Transport::Quic,
            _ => Transport::Tcp,
        },
        can_wait: true,
    }
}

/// What is told of a request that got no response.
fn failed(request: &Request) -> ResponseInfo {
    let mut metadata = Metadata::new(
        request.metadata.id,
        MessageType::Response,
        request.metadata.op_code,
    );
    metadata.response_code = ResponseCode::ServFail;
    ResponseInfo::from(Header {
        metadata,
        counts: HeaderCounts::default(),
    })
}

/// The addresses of all transports, for the log.
#[must_use]
pub fn addresses(tls: &Tls) -> Vec<SocketAddr> {
    let all = tls.dot.iter().chain(&tls.doh).chain(&tls.doq);
    all.copied().collect()
}

fn now() -> Instant {
    Instant::now()
}
