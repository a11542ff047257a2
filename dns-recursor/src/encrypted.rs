//! DNS over TLS (RFC 7858): what the listeners of [`crate::tcp`] shake hands with.
//!
//! The certificate is read anew on every reload, and swapped without dropping a connection; one
//! that cannot be used leaves that in use as it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// The ALPN name of DNS over TLS (RFC 7858's entry in the IANA registry).
const ALPN: &[u8] = b"dot";

/// A certificate chain with its key, from two files.
#[derive(Clone)]
pub struct Certificate {
    tls: Tls,
    current: Arc<Current>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("chain", &self.tls.certificate)
            .finish_non_exhaustive()
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or is no PEM.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// A certificate and a key that do not work together.
    #[error("certificate {path} cannot be used", path = path.display())]
    Unusable {
        /// The chain's file.
        path: PathBuf,
        /// What TLS says of it.
        #[source]
        source: rustls::Error,
    },
}

/// What handshakes show; swapped as a whole.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl Certificate {
    /// Reads both files.
    ///
    /// # Errors
    /// When either cannot be used.
    pub fn read(tls: &Tls) -> Result<Self, TlsError> {
        let current = Current(RwLock::new(Arc::new(load(tls)?)));
        Ok(Self {
            tls: tls.clone(),
            current: Arc::new(current),
        })
    }

    /// Reads both files anew; later handshakes show what they hold.
    ///
    /// # Errors
    /// When either cannot be used; the certificate in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let certified = Arc::new(load(&self.tls)?);
        let mut current = self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = certified;
        Ok(())
    }

    /// What shakes hands with this certificate.
    ///
    /// # Errors
    /// When TLS cannot be set up at all.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| unusable(&self.tls, source))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Current>::clone(&self.current));
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn load(tls: &Tls) -> Result<CertifiedKey, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Read { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(&tls.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(unreadable(&tls.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|source| unusable(tls, source))
}

fn unusable(tls: &Tls, source: rustls::Error) -> TlsError {
    TlsError::Unusable {
        path: tls.certificate.clone(),
        source,
    }
}
