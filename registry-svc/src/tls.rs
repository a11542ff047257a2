//! The TLS that clients speak: certificates by name, and who signs those of clients.

use daemon::tls::{
    AuthorityError, CertificateError, CertificateFiles, Certificates, verify_clients,
};
use registry_http::server::ALPN;
use rustls::ServerConfig;

use ::config::registry_svc::{ClientCertificates, RegistrySvc, Tls};
use ::config::renewal::Renewal;

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authority of client certificates.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
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

/// Reads everything that the configuration of a registry names; none where it speaks no TLS.
///
/// # Errors
/// When something cannot be used.
pub fn configured(file: &RegistrySvc) -> Result<Option<Loaded>, TlsError> {
    let tls = file.tls.as_ref();
    tls.map(|tls| load(tls, file.renewal.as_ref())).transpose()
}

fn load(tls: &Tls, renewal: Option<&Renewal>) -> Result<Loaded, TlsError> {
    let certificates = Certificates::read(&files(tls, renewal))?;
    let protocols: Vec<&[u8]> = ALPN
        .into_iter()
        .filter(|name| tls.http2 || *name != b"h2")
        .collect();
    let config = match &tls.client_ca {
        None => certificates.server_config(&protocols)?,
        Some(ca) => {
            let is_required = tls.client_certificates == ClientCertificates::Required;
            let clients = verify_clients(ca, is_required)?;
            certificates.server_config_for(clients, &protocols)?
        }
    };
    Ok(Loaded {
        certificates,
        config,
    })
}

fn files(tls: &Tls, renewal: Option<&Renewal>) -> Vec<CertificateFiles> {
    let certificates = tls.certificates.iter();
    certificates
        .map(|one| CertificateFiles {
            names: one.names.iter().map(ToString::to_string).collect(),
            ..CertificateFiles::new(&one.certificate, &one.key).renewed_by(renewal)
        })
        .collect()
}
