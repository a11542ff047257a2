//! How a server proves who it is (RFC 8310).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The files of the authorities that systems trust: Debian, Red Hat, SUSE.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// The SHA-256 of a public key (RFC 7858 §4.2).
pub type Pin = [u8; 32];

/// The certificates that a server may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any: the connection is encrypted, and the server unknown.
    Anyone,
    /// Signed by one of these authorities for the server's name, and with one of these keys if there are any.
    Authorities(Vec<CertificateDer<'static>>, Vec<Pin>),
    /// With one of these keys, signed by anyone, for any name.
    Pins(Vec<Pin>),
}

/// Why no server can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file of the authorities cannot be read, or is no PEM.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// It has no certificate that could sign others.
    #[error("{path} holds no certificate of an authority", path = .0.display())]
    Empty(PathBuf),
    /// The system has no such file.
    #[error(
        "the system has no certificates of authorities; `ca` names a file with those of the upstreams"
    )]
    NoSystem,
    /// The authorities cannot be used.
    #[error("certificates of upstreams cannot be verified")]
    Unfit(#[source] Error),
}

impl Trust {
    /// The authorities in a file (PEM), or without one those of the system.
    ///
    /// # Errors
    /// When there are none.
    pub fn read(file: Option<&Path>, pins: Vec<Pin>) -> Result<Self, TrustError> {
        let system = || SYSTEM_BUNDLES.iter().map(Path::new).find(|it| it.is_file());
        let path = file.or_else(system).ok_or(TrustError::NoSystem)?;
        let unreadable = |source| TrustError::Read {
            path: path.to_owned(),
            source,
        };
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unreadable)?;
        match roots(&certificates).is_empty() {
            true => Err(TrustError::Empty(path.to_owned())),
            false => Ok(Self::Authorities(certificates, pins)),
        }
    }

    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let (authorities, pins) = match self {
            Self::Anyone => (None, Vec::new()),
            Self::Pins(pins) => (None, pins.clone()),
            Self::Authorities(certificates, pins) => {
                let roots = Arc::new(roots(certificates));
                let built =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                let unfit = |error: rustls::server::VerifierBuilderError| {
                    TrustError::Unfit(Error::General(error.to_string()))
                };
                (Some(built.build().map_err(unfit)?), pins.clone())
            }
        };
        Ok(Arc::new(Verifier {
            authorities,
            pins,
            provider: Arc::clone(provider),
        }))
    }
}

/// Reads a pin: the SHA-256 of a public key in base64, as in `sha256/…` of other programs.
#[must_use]
pub fn pin(text: &str) -> Option<Pin> {
    let text = text.strip_prefix("sha256/").unwrap_or(text);
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// A system's bundle may hold an authority that TLS does not use any more; the others count.
fn roots(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}

/// Verifies a server as its [`Trust`] says. The server always proves that it holds the key of its certificate.
#[derive(Debug)]
struct Verifier {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    pins: Vec<Pin>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            authorities.verify_server_cert(certificate, chain, name, ocsp, now)?;
        }
        if !self.pins.is_empty() {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let key = parsed.subject_public_key_info();
            let digest = digest::digest(&digest::SHA256, key.as_ref());
            if !self.pins.iter().any(|pin| pin == digest.as_ref()) {
                let refused = CertificateError::ApplicationVerificationFailure;
                return Err(Error::InvalidCertificate(refused));
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
