//! The certificate that encrypted listeners show; read anew without dropping a connection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// A certificate chain with its key, from two files.
#[derive(Debug)]
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file that cannot be read or is no PEM.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// A chain file without a certificate.
    #[error("{path} holds no certificate", path = .0.display())]
    Empty(PathBuf),
    /// A key that does not belong to the certificate, or of a kind that TLS does not use.
    #[error("certificate {chain} and key {key} do not work together", chain = chain.display(), key = key.display())]
    Mismatch {
        /// The chain's file.
        chain: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What TLS says of them.
        #[source]
        source: rustls::Error,
    },
}

/// What handshakes show; swapped as a whole.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Certificate {
    /// Reads both files.
    ///
    /// # Errors
    /// When either cannot be used.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let certified = load(chain, key)?;
        Ok(Self {
            chain: chain.to_owned(),
            key: key.to_owned(),
            current: Arc::new(Current(RwLock::new(Arc::new(certified)))),
        })
    }

    /// Reads both files anew; later handshakes show what they hold.
    ///
    /// # Errors
    /// When either cannot be used; the certificate in use stays.
    pub fn reload(&self) -> Result<(), CertificateError> {
        let certified = Arc::new(load(&self.chain, &self.key)?);
        *self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }

    /// What TLS asks for the certificate at each handshake.
    #[must_use]
    pub fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::<Current>::clone(&self.current)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(
            &self.0.read().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

fn load(chain: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::Read { path, source }
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(chain))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty(chain.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    CertifiedKey::from_der(certificates, private, &ring::default_provider()).map_err(|source| {
        CertificateError::Mismatch {
            chain: chain.to_owned(),
            key: key.to_owned(),
            source,
        }
    })
}
