//! The TLS that clients speak: certificates by name, and who signs those of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::tls::{CertificateError, CertificateFiles, Certificates};
use registry_http::server::ALPN;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{RootCertStore, ServerConfig};

use ::config::registry_svc::{ClientCertificates, Tls};

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authority of client certificates cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// The file has no certificate of an authority.
    #[error("{path} holds no certificate that could sign others", path = .0.display())]
    NoAuthority(PathBuf),
    /// The verifier does not take them.
    #[error("certificates of clients cannot be verified")]
    Verifier(#[from] VerifierBuilderError),
    /// TLS does not take what it is given.
    #[error("TLS cannot be set up")]
    Config(#[from] rustls::Error),
}

/// Certificates to show, which follow their files, and everything else of TLS.
#[derive(Debug)]
pub struct Loaded {
    /// The certificates.
    pub certificates: Certificates,
    /// The configuration of handshakes.
    pub config: ServerConfig,
}

/// Reads everything that a configuration names.
///
/// # Errors
/// When something cannot be used.
pub fn load(tls: &Tls) -> Result<Loaded, TlsError> {
    let certificates = Certificates::read(&files(tls))?;
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let is_required = tls.client_certificates == ClientCertificates::Required;
            builder.with_client_cert_verifier(verifier(ca, is_required)?)
        }
    };
    let mut config = builder.with_cert_resolver(certificates.resolver());
    let protocols = ALPN.iter().filter(|name| tls.http2 || **name != b"h2");
    config.alpn_protocols = protocols.map(|name| name.to_vec()).collect();
    Ok(Loaded {
        certificates,
        config,
    })
}

fn files(tls: &Tls) -> Vec<CertificateFiles> {
    let certificates = tls.certificates.iter();
    certificates
        .map(|one| CertificateFiles {
            names: one.names.iter().map(ToString::to_string).collect(),
            ..CertificateFiles::new(&one.certificate, &one.key)
        })
        .collect()
}

fn verifier(ca: &Path, is_required: bool) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unreadable = |source| TlsError::Authority {
        path: ca.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(unreadable)? {
        roots.add(certificate.map_err(unreadable)?)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoAuthority(ca.to_owned()));
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match is_required {
        true => verifier,
        false => verifier.allow_unauthenticated(),
    };
    Ok(verifier.build()?)
}
