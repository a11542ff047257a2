//! TLS for `https` probes: the authorities that sign the certificates of targets.
//!
//! Client configs are kept, one for each way to check; a CA file that changed is read again. Sessions
//! are never resumed: each probe sees the certificate that a new client would see.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use health::Verify;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::words;

/// The files of the authorities that systems trust: Debian, Red Hat, SUSE.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// CA files named by subscribers; a list that grows beyond this starts again.
const MAX_CONFIGS: usize = 64;

/// The client configs in use.
#[derive(Debug, Default)]
pub(super) struct Configs {
    kept: Mutex<BTreeMap<Verify, Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    /// When the file it was made from was last modified.
    modified: Option<SystemTime>,
    config: Arc<ClientConfig>,
}

impl Configs {
    /// The config for a way to check certificates.
    pub(super) fn client(&self, verify: &Verify) -> Result<Arc<ClientConfig>, String> {
        let file = match verify {
            Verify::Off => None,
            Verify::System => Some(system_bundle().ok_or("the system has no CA certificates")?),
            Verify::Ca(file) => Some(PathBuf::from(file)),
        };
        let modified = file.as_deref().and_then(modified);
        let mut kept = self.kept.lock();
        if let Some(found) = kept.get(verify).filter(|kept| kept.modified == modified) {
            return Ok(Arc::clone(&found.config));
        }
        let config = Arc::new(build(file.as_deref())?);
        if kept.len() >= MAX_CONFIGS {
            kept.clear();
        }
        let new = Loaded {
            modified,
            config: Arc::clone(&config),
        };
        kept.insert(verify.clone(), new);
        Ok(config)
    }
}

/// Performs the handshake; the server name (SNI) is the name in the `Host` header.
pub(super) async fn connect(
    config: Arc<ClientConfig>,
    stream: TcpStream,
    host: &str,
    address: SocketAddr,
) -> Result<TlsStream<TcpStream>, String> {
    let name = server_name(host, address)?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    connected.map_err(|error| format!("TLS: {}", words(&error)))
}

/// The name that a certificate has to be for.
pub(super) fn server_name(host: &str, address: SocketAddr) -> Result<ServerName<'static>, String> {
    match without_port(host) {
        "" => Ok(ServerName::IpAddress(address.ip().into())),
        host => {
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no server name"))
        }
    }
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    }
}

fn system_bundle() -> Option<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut places = given
        .into_iter()
        .chain(SYSTEM_BUNDLES.into_iter().map(PathBuf::from));
    places.find(|path| path.is_file())
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().ok()?.modified().ok()
}

fn build(file: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match file {
        Some(file) => builder.with_root_certificates(roots(file)?),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider))),
    };
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The authorities in a file.
pub(super) fn roots(file: &Path) -> Result<RootCertStore, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", file.display());
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| cannot(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| cannot(&error))?;
        // A system's bundle may hold an authority that rustls does not take; the others count.
        roots.add_parsable_certificates([certificate]);
    }
    match roots.is_empty() {
        true => Err(format!("{} holds no CA certificate", file.display())),
        false => Ok(roots),
    }
}

/// Takes any certificate, but has the server prove that it holds its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_name_is_the_host_without_its_port() {
        for (host, name) in [
            ("", ""),
            ("api.ocp4.redhat.ren", "api.ocp4.redhat.ren"),
            ("api.ocp4.redhat.ren:6443", "api.ocp4.redhat.ren"),
            ("192.168.7.13:6443", "192.168.7.13"),
            ("[fd00::1]:6443", "fd00::1"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn a_ca_file_that_is_missing_or_empty_is_said_to_be() {
        let configs = Configs::default();
        let missing = configs.client(&Verify::Ca("/nonexistent/ca.pem".to_owned()));
        assert!(missing.unwrap_err().contains("/nonexistent/ca.pem"));
        let empty = configs.client(&Verify::Ca("/dev/null".to_owned()));
        assert!(empty.unwrap_err().contains("holds no CA certificate"));
        assert!(configs.client(&Verify::Off).is_ok());
    }
}
