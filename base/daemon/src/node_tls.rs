//! How nodes prove to each other who they are: both sides show a certificate of the site's authority that is for the
//! name of a configured node, and that the authority has not revoked.
//!
//! The authority's file may have lists of revoked certificates after the authority (PEM, `X509 CRL`, RFC 5280 §5). The files are
//! read again at a reload, or when they have changed ([`Identity::follow`]). An open connection ends when its peer's
//! certificate has been revoked, or the authority replaced; other connections stay as they are.

mod judge;
mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::nodes::{NodeFiles, NodeName};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use self::judge::{Judge, Role};
use crate::disk::Stamp;
use crate::exit;
use crate::expiry::{Dated, Source};

pub use self::stream::NodeStream;

/// How often [`Identity::follow`] looks at the files: a new certificate comes days before the old one runs out.
const LOOK: Duration = Duration::from_secs(60);

/// Why nodes cannot prove who they are.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or is no PEM.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// A file without a certificate.
    #[error("{path} holds no certificate", path = .0.display())]
    Empty(PathBuf),
    /// TLS cannot use the files.
    #[error("certificate {certificate} does not work", certificate = certificate.display())]
    Unfit {
        /// The certificate's file.
        certificate: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The authority's file cannot be used to check peers.
    #[error("the authority {ca} does not work", ca = ca.display())]
    Authority {
        /// The authority's file.
        ca: PathBuf,
        /// The cause.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    /// A list of revoked certificates that cannot be believed: the authority has not signed it, or it is damaged.
    #[error("the list of revoked certificates in {ca} cannot be used", ca = ca.display())]
    Revocations {
        /// The authority's file.
        ca: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The certificate is for another name: no peer would believe it.
    #[error("certificate {certificate} is not for the name {node}", certificate = certificate.display(), node = node.as_str())]
    OtherName {
        /// The certificate's file.
        certificate: PathBuf,
        /// This node.
        node: NodeName,
    },
}

/// The TLS of both directions, replaced as a whole.
#[derive(Debug)]
pub struct Identity {
    node: NodeName,
    files: NodeFiles,
    current: watch::Sender<Sides>,
}

/// One for the connections this node makes, one for those it takes.
#[derive(Clone, Debug)]
struct Sides {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    judge: Arc<Judge>,
    own: CertificateDer<'static>,
    authority: CertificateDer<'static>,
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When they cannot be used, or are another node's.
    pub fn read(node: &NodeName, files: &NodeFiles) -> Result<Self, TlsError> {
        Ok(Self {
            node: node.clone(),
            files: files.clone(),
            current: watch::Sender::new(load(node, files)?),
        })
    }

    /// Reads the files again, and ends connections whose peers are not trusted any more. If the files cannot be used, the
    /// present ones stay in force.
    ///
    /// # Errors
    ///
    /// When they cannot be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        let sides = load(&self.node, &self.files)?;
        self.current.send_replace(sides);
        Ok(())
    }

    //--- Connections

    /// Lets a node in that has connected: one of `nodes`, with a certificate for its name.
    ///
    /// # Errors
    ///
    /// When the handshake fails, or the certificate is for none of them.
    pub async fn accept<'a, S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        nodes: impl Iterator<Item = &'a NodeName>,
    ) -> io::Result<(NodeStream<server::TlsStream<S>>, NodeName)> {
        let changes = self.current.subscribe();
        let config = Arc::clone(&changes.borrow().server);
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let node = chain.first().and_then(|own| node_of(own, nodes)).cloned();
        let node = node.ok_or_else(|| {
            io::Error::other("its certificate is for no node that this one knows")
        })?;
        let chain = owned(chain);
        let stream = NodeStream::new(stream, untrusted(changes, chain, Role::Client));
        Ok((stream, node))
    }

    /// Proves to the node `peer`, at the other end of a stream, who this node is, and has it prove the same.
    ///
    /// # Errors
    ///
    /// When the handshake fails.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: &NodeName,
    ) -> io::Result<NodeStream<client::TlsStream<S>>> {
        let name = server_name(peer)
            .ok_or_else(|| io::Error::other("the peer's name cannot stand in a certificate"))?;
        let changes = self.current.subscribe();
        let config = Arc::clone(&changes.borrow().client);
        let connector = TlsConnector::from(config);
        let stream = connector.connect(name.clone(), stream).await?;
        let chain = owned(stream.get_ref().1.peer_certificates().unwrap_or_default());
        let until = untrusted(changes, chain, Role::Server(name));
        Ok(NodeStream::new(stream, until))
    }

    //--- Files

    /// [Reloads](Self::reload) whenever a file has changed, for ever; dropped, it ends.
    pub async fn follow(self: Arc<Self>) {
        self.follow_every(LOOK).await;
    }

    /// The same, with another time between two looks.
    pub async fn follow_every(self: Arc<Self>, look: Duration) {
        let mut seen = self.stamps();
        loop {
            tokio::time::sleep(look).await;
            let stamps = self.stamps();
            if stamps == seen {
                continue;
            }
            seen = stamps;
            if let Err(error) = self.reload() {
                let error = exit::chain(&error);
                tracing::error!(
                    error,
                    "Certificate of the node cannot be used, the old one stays"
                );
                continue;
            }
            let path = self.files.certificate.display();
            tracing::info!(%path, "Certificate of the node is read again");
        }
    }

    fn stamps(&self) -> [Stamp; 3] {
        let NodeFiles {
            ca,
            certificate,
            key,
        } = &self.files;
        [ca, certificate, key].map(|path| Stamp::of(path))
    }
}

impl Source for Identity {
    fn dated(&self) -> Vec<Dated> {
        let current = self.current.borrow();
        let of = |path: &Path, certificate: &CertificateDer<'static>| {
            Dated::new(path.to_owned(), certificate.clone())
        };
        vec![
            of(&self.files.ca, &current.authority),
            of(&self.files.certificate, &current.own),
        ]
    }
}

fn owned(chain: &[CertificateDer<'_>]) -> Vec<CertificateDer<'static>> {
    chain.iter().map(|one| one.clone().into_owned()).collect()
}

/// Ends when the peer that has shown a chain of certificates is not trusted any more. The dates were looked at in the handshake,
/// and are not again: a connection does not end because a clock was set.
async fn untrusted(
    mut changes: watch::Receiver<Sides>,
    chain: Vec<CertificateDer<'static>>,
    role: Role,
) {
    let begun = UnixTime::now();
    while changes.changed().await.is_ok() {
        let judge = Arc::clone(&changes.borrow_and_update().judge);
        if let Err(error) = judge.trusts(&chain, &role, begun) {
            tracing::warn!(%error, "A connection with another node ends: its certificate is not trusted any more");
            return;
        }
    }
    // The files are not read again.
    std::future::pending::<()>().await;
}

/// The node that a certificate is for.
fn node_of<'a>(
    certificate: &CertificateDer<'_>,
    mut nodes: impl Iterator<Item = &'a NodeName>,
) -> Option<&'a NodeName> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    nodes.find(|node| {
        server_name(node).is_some_and(|name| verify_server_name(&parsed, &name).is_ok())
    })
}

/// A node's name as certificates have it.
fn server_name(node: &NodeName) -> Option<ServerName<'static>> {
    ServerName::try_from(node.as_str().to_owned()).ok()
}

fn load(node: &NodeName, files: &NodeFiles) -> Result<Sides, TlsError> {
    let mut roots = RootCertStore::empty();
    let authorities = certificates(&files.ca)?;
    let Some(authority) = authorities.first().cloned() else {
        return Err(TlsError::Empty(files.ca.clone()));
    };
    for authority in authorities {
        roots.add(authority).map_err(|source| TlsError::Unfit {
            certificate: files.ca.clone(),
            source,
        })?;
    }
    let chain = certificates(&files.certificate)?;
    let own = chain
        .first()
        .filter(|own| node_of(own, std::iter::once(node)).is_some());
    let Some(own) = own.cloned() else {
        return Err(TlsError::OtherName {
            certificate: files.certificate.clone(),
            node: node.clone(),
        });
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Read {
        path: files.key.clone(),
        source,
    })?;
    let unfit = |source| TlsError::Unfit {
        certificate: files.certificate.clone(),
        source,
    };
    let revoked = revoked(&files.ca)?;
    let judge = Judge::new(roots, revoked).map_err(|source| TlsError::Authority {
        ca: files.ca.clone(),
        source,
    })?;
    judge
        .look_at_own(&chain, &files.certificate)
        .map_err(|source| TlsError::Revocations {
            ca: files.ca.clone(),
            source,
        })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_client_cert_verifier(judge.of_clients())
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(unfit)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .dangerous()
        .with_custom_certificate_verifier(judge.of_servers())
        .with_client_auth_cert(chain, key)
        .map_err(unfit)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Sides {
        client: Arc::new(client),
        server: Arc::new(server),
        judge: Arc::new(judge),
        own,
        authority,
    })
}

/// The lists of revoked certificates in a file; none is the common case.
fn revoked(ca: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    CertificateRevocationListDer::pem_file_iter(ca)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Read {
            path: ca.to_owned(),
            source,
        })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Read {
            path: path.to_owned(),
            source,
        })?;
    match certificates.is_empty() {
        true => Err(TlsError::Empty(path.to_owned())),
        false => Ok(certificates),
    }
}
