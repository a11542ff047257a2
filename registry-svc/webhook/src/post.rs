//! One HTTP request to an endpoint.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, pem};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::envelope::MEDIA_TYPE;
use crate::Settings;

/// The files in which systems keep the certificates of public authorities: Debian, then Fedora and
/// Red Hat.
const SYSTEM_CERTIFICATES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// How much of an answer is read, so that its connection ends well.
const ANSWER: usize = 64 << 10;

/// Why an endpoint was not told.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The URL cannot be used.
    #[error("{0} is no URL")]
    Url(String),
    /// A header that cannot be sent.
    #[error("header {0} cannot be sent")]
    Header(String),
    /// The authority of its certificate cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// A certificate that TLS does not take.
    #[error("{path} holds a certificate that cannot be used", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// It cannot be connected to.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// It speaks no HTTP.
    #[error("no answer")]
    Http(#[source] hyper::Error),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It does not want it.
    #[error("it answered {0}")]
    Status(u16),
}

/// Posts to one endpoint.
#[derive(Debug)]
pub(super) struct Client {
    host: String,
    port: u16,
    authority: String,
    path: String,
    tls: Option<(TlsConnectorBox, ServerName<'static>)>,
    headers: HeaderMap,
    timeout: Duration,
}

/// A connector; it says nothing of itself.
#[derive(Clone)]
struct TlsConnectorBox(TlsConnector);

impl std::fmt::Debug for TlsConnectorBox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TlsConnector")
    }
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Result<Self, PostError> {
        let url = || PostError::Url(settings.url.to_string());
        let uri: Uri = settings.url.as_str().parse().map_err(|_| url())?;
        let host = uri.host().ok_or_else(url)?.to_owned();
        let bare = host.trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let tls = match is_tls {
            false => None,
            true => {
                let name = ServerName::try_from(bare.clone()).map_err(|_| url())?;
                let roots = roots(settings.ca.as_deref())?;
                let config = ClientConfig::builder_with_provider(Arc::new(
                    rustls::crypto::ring::default_provider(),
                ))
                .with_safe_default_protocol_versions()
                .map_err(|source| PostError::Certificate {
                    path: settings.ca.clone().unwrap_or_default(),
                    source,
                })?
                .with_root_certificates(roots)
                .with_no_client_auth();
                let connector = TlsConnector::from(Arc::new(config));
                Some((TlsConnectorBox(connector), name))
            }
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let bad = || PostError::Header(name.clone());
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            // It may be a secret.
            value.set_sensitive(true);
            headers.append(key, value);
        }
        Ok(Self {
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: uri.authority().map_or(host, ToString::to_string),
            host: bare,
            path: uri
                .path_and_query()
                .map_or_else(|| "/".to_owned(), ToString::to_string),
            tls,
            headers,
            timeout: settings.timeout.get(),
        })
    }

    /// Posts an envelope; the status if the endpoint has taken it.
    pub(super) async fn post(&self, envelope: Vec<u8>) -> Result<u16, PostError> {
        match tokio::time::timeout(self.timeout, self.exchange(envelope)).await {
            Ok(answered) => answered,
            Err(_) => Err(PostError::Timeout(self.timeout)),
        }
    }

    async fn exchange(&self, envelope: Vec<u8>) -> Result<u16, PostError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(PostError::Connect)?;
        match &self.tls {
            None => self.talk(stream, envelope).await,
            Some((connector, name)) => {
                let connected = connector.0.connect(name.clone(), stream).await;
                self.talk(connected.map_err(PostError::Connect)?, envelope)
                    .await
            }
        }
    }

    async fn talk<S>(&self, stream: S, envelope: Vec<u8>) -> Result<u16, PostError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(PostError::Http)?;
        let mut request = Request::new(Full::new(Bytes::from(envelope)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self
            .path
            .parse()
            .map_err(|_| PostError::Url(self.path.clone()))?;
        let headers = request.headers_mut();
        let host = HeaderValue::from_str(&self.authority);
        headers.insert(
            HOST,
            host.map_err(|_| PostError::Url(self.authority.clone()))?,
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(USER_AGENT, HeaderValue::from_static("registry-svc"));
        headers.extend(self.headers.clone());
        let answered = async {
            let response = sender.send_request(request).await?;
            let status = response.status().as_u16();
            let mut body = response.into_body();
            let mut read = 0;
            while read < ANSWER
                && let Some(frame) = body.frame().await
            {
                read += frame?.data_ref().map_or(0, Bytes::len);
            }
            Ok(status)
        };
        // The connection makes progress only while it is polled.
        let driven = async { drop(connection.await) };
        let answered = async {
            tokio::pin!(answered);
            tokio::pin!(driven);
            tokio::select! {
                answered = &mut answered => answered,
                () = &mut driven => answered.await,
            }
        };
        match answered.await.map_err(PostError::Http)? {
            status @ 200..=399 => Ok(status),
            status => Err(PostError::Status(status)),
        }
    }
}

/// The authorities that may sign an endpoint's certificate.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, PostError> {
    let mut roots = RootCertStore::empty();
    let (path, is_system) = match ca {
        Some(path) => (path, false),
        None => {
            let mut known = SYSTEM_CERTIFICATES.iter().map(Path::new);
            match known.find(|path| path.exists()) {
                Some(path) => (path, true),
                None => return Ok(roots),
            }
        }
    };
    let unreadable = |source| PostError::Authority {
        path: path.to_owned(),
        source,
    };
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        let added = roots.add(certificate.map_err(unreadable)?);
        // A bundle of the system may hold what TLS does not use any more.
        if let Err(source) = added
            && !is_system
        {
            return Err(PostError::Certificate {
                path: path.to_owned(),
                source,
            });
        }
    }
    Ok(roots)
}
