//! How a server over TLS proves who it is to a client (RFC 8310): by an authority and its name, by its key, or not at all.
//!
//! Such servers are dns-recursor's upstreams, dns-authd's primaries, and targets of `https` probes. Reads the files of authorities;
//! opens no connection.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

/// The files of the authorities that systems trust: Debian, Red Hat, SUSE.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// The most keys that the servers of a zone may have.
const MAX_PINS: usize = 16;

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
        "the system has no certificates of authorities; `ca` names a file with those of the servers"
    )]
    NoSystem,
    /// The authorities cannot be used.
    #[error("certificates of servers cannot be verified")]
    Unfit(#[source] Error),
    /// A name that no certificate can have.
    #[error("`{0}` is not the name of a server")]
    Name(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] Error),
}

impl Trust {
    /// The authorities in a file (PEM), or without one those of the system.
    ///
    /// # Errors
    /// When there are none.
    pub fn read(file: Option<&Path>, pins: Vec<Pin>) -> Result<Self, TrustError> {
        let path = file.map(Path::to_owned).or_else(system_bundle);
        let path = path.ok_or(TrustError::NoSystem)?;
        let unreadable = |source| TrustError::Read {
            path: path.clone(),
            source,
        };
        let certificates = CertificateDer::pem_file_iter(&path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unreadable)?;
        match roots(&certificates).is_empty() {
            true => Err(TrustError::Empty(path)),
            false => Ok(Self::Authorities(certificates, pins)),
        }
    }

    /// The certificates of servers that prove who they are: with one of these keys, signed by anyone; or with a file of authorities, or
    /// without keys, signed by an authority.
    ///
    /// # Errors
    /// When there are no authorities.
    pub fn strict(ca: Option<&Path>, pins: Vec<Pin>) -> Result<Self, TrustError> {
        match ca {
            None if !pins.is_empty() => Ok(Self::Pins(pins)),
            ca => Self::read(ca, pins),
        }
    }

    /// The settings of a client's TLS: it trusts these servers, speaks these versions, offers these protocols (ALPN), and shows no
    /// certificate.
    ///
    /// # Errors
    /// When the authorities cannot be used.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(crypto::ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(TrustError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(tls)
    }

    fn verifier(
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

/// The name that the certificate of a server has to be for: the one that it has here, or its address.
///
/// # Errors
/// When no certificate can have the name.
pub fn server_name(name: Option<&str>, address: IpAddr) -> Result<ServerName<'static>, TrustError> {
    let Some(name) = name else {
        return Ok(ServerName::IpAddress(address.into()));
    };
    let bare = name.trim_end_matches('.').to_owned();
    ServerName::try_from(bare).map_err(|_| TrustError::Name(name.to_owned()))
}

/// Reads the pins of some servers. Reports each mistake, with the place of its pin.
pub fn pins(texts: &[String], mut report: impl FnMut(usize, String)) -> Vec<Pin> {
    if texts.len() > MAX_PINS {
        report(MAX_PINS, format!("there are more than {MAX_PINS} keys"));
    }
    let mut pins = Vec::new();
    for (place, text) in texts.iter().enumerate() {
        match pin(text) {
            Some(pin) => pins.push(pin),
            None => {
                let message = format!("`{text}` is not the SHA-256 of a key in base64");
                report(place, message);
            }
        }
    }
    pins
}

/// Reads a pin: the SHA-256 of a public key in base64, as in `sha256/…` of other programs.
#[must_use]
pub fn pin(text: &str) -> Option<Pin> {
    let text = text.strip_prefix("sha256/").unwrap_or(text);
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// The file of the authorities that the system trusts, if it has one.
#[must_use]
pub fn system_bundle() -> Option<PathBuf> {
    let mut usual = SYSTEM_BUNDLES.into_iter().map(PathBuf::from);
    usual.find(|path| path.is_file())
}

/// A bundle may hold an authority that TLS does not use any more; the others count.
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
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_the_digest_of_a_key_in_base64() {
        let text = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        let expected = Some(*b"0123456789abcdef0123456789abcdef");
        assert_eq!(pin(text), expected);
        assert_eq!(pin(&format!("sha256/{text}")), expected);
        for odd in ["", "AAAA", "sha256/", "not base64", "sha1/AAAA"] {
            assert_eq!(pin(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_name_of_a_server_is_its_own_or_its_address() {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let named = server_name(Some("dns.example."), address).unwrap();
        assert_eq!(named.to_str(), "dns.example");
        let bare = server_name(None, address).unwrap();
        assert_eq!(bare.to_str(), "192.0.2.1");
        let odd = server_name(Some("a b"), address).unwrap_err();
        assert_eq!(odd.to_string(), "`a b` is not the name of a server");
    }

    #[test]
    fn files_without_an_authority_are_refused() {
        let missing = Trust::read(Some(Path::new("/nonexistent/ca.pem")), Vec::new());
        assert!(
            matches!(missing, Err(TrustError::Read { .. })),
            "{missing:?}"
        );
        let empty = Trust::read(Some(Path::new("/dev/null")), Vec::new());
        assert!(matches!(empty, Err(TrustError::Empty(_))), "{empty:?}");
    }

    #[test]
    fn a_client_offers_its_protocols() {
        let tls = Trust::Anyone.client(&[&rustls::version::TLS13], &[b"dot"]);
        assert_eq!(tls.unwrap().alpn_protocols, [b"dot".to_vec()]);
    }
}
