//! DNS over TLS (RFC 7858): what the listeners of [`crate::tcp`] shake hands with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// Why TLS cannot be offered.
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
    Certificate {
        /// The chain's file.
        path: PathBuf,
        /// What TLS says of it.
        #[source]
        source: rustls::Error,
    },
}

/// Reads the certificate and makes what shakes hands with it.
///
/// # Errors
/// When a file cannot be read, or certificate and key do not belong together.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Read { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(&tls.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(unreadable(&tls.key))?;
    let unusable = |source| TlsError::Certificate {
        path: tls.certificate.clone(),
        source,
    };
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    // RFC 7858 has no ALPN of its own; RFC 9461 names it for those that offer one.
    config.alpn_protocols = vec![b"dot".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
