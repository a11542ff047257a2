//! How nodes prove to each other who they are: both sides show a certificate of the site's authority that is for the
//! name of a configured node.
//!
//! The files are read again at a reload, or when they have changed ([`Identity::follow`]); open connections stay as they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::nodes::{NodeFiles, NodeName};
use parking_lot::RwLock;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::disk::Stamp;
use crate::exit;

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
    current: RwLock<Sides>,
}

/// One for the connections this node makes, one for those it takes.
#[derive(Clone, Debug)]
struct Sides {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
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
            current: RwLock::new(load(node, files)?),
        })
    }

    /// Reads the files again; if they cannot be used, the present ones stay in force.
    ///
    /// # Errors
    ///
    /// When they cannot be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        let sides = load(&self.node, &self.files)?;
        *self.current.write() = sides;
        Ok(())
    }

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

    /// For the connections that this node makes.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.sides().client)
    }

    /// For the connections that it takes.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.sides().server)
    }

    fn sides(&self) -> Sides {
        self.current.read().clone()
    }
}

/// The node that a certificate is for.
#[must_use]
pub fn node_of<'a>(
    certificate: &CertificateDer<'_>,
    mut nodes: impl Iterator<Item = &'a NodeName>,
) -> Option<&'a NodeName> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    nodes.find(|node| {
        server_name(node).is_some_and(|name| verify_server_name(&parsed, &name).is_ok())
    })
}

/// A node's name as certificates have it.
#[must_use]
pub fn server_name(node: &NodeName) -> Option<ServerName<'static>> {
    ServerName::try_from(node.as_str().to_owned()).ok()
}

fn load(node: &NodeName, files: &NodeFiles) -> Result<Sides, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.ca)? {
        roots.add(authority).map_err(|source| TlsError::Unfit {
            certificate: files.ca.clone(),
            source,
        })?;
    }
    let roots = Arc::new(roots);
    let chain = certificates(&files.certificate)?;
    let is_own = chain
        .first()
        .is_some_and(|own| node_of(own, std::iter::once(node)).is_some());
    if !is_own {
        return Err(TlsError::OtherName {
            certificate: files.certificate.clone(),
            node: node.clone(),
        });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Read {
        path: files.key.clone(),
        source,
    })?;
    let unfit = |source| TlsError::Unfit {
        certificate: files.certificate.clone(),
        source,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|source| TlsError::Authority {
                ca: files.ca.clone(),
                source,
            })?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(unfit)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(unfit)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Sides {
        client: Arc::new(client),
        server: Arc::new(server),
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
