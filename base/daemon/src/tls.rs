//! The certificates that a server shows: chosen by the name that the client asks for, and read again
//! from their files without dropping a connection.
//!
//! Files that cannot be used when they are read again change nothing: the certificate that was read
//! from them before stays. Never checks whether a certificate has run out: an old one shown is a warning to the
//! client, none shown is an outage. [`verify_clients`] checks certificates of clients.

mod renewed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::renewal::Renewal;
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoClientAuth, ParsedCertificate, ResolvesServerCert, VerifierBuilderError,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::disk::{self, Stamp};
use crate::exit;
use crate::expiry::{Dated, SOON, Source};
use crate::latest::Latest;

pub use self::renewed::{newer, renewed_text};

/// How often [`Certificates::follow`] looks at the files: a new certificate comes hours before the
/// old one runs out.
const LOOK: Duration = Duration::from_secs(60);

/// The files of one certificate, and the names that it is shown for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain in PEM, the server's own certificate first.
    pub chain: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The file of a newer certificate for the same key, which another node has given this one. A file that belongs to another
    /// chain, or that cannot be used, does not count.
    pub renewed: Option<PathBuf>,
    /// How long before its end an operator has to know.
    pub soon: Duration,
    /// Names it is shown for, `*.` before a domain for one label of any text; empty for those it is
    /// valid for.
    pub names: Vec<String>,
}

impl CertificateFiles {
    /// A certificate that is shown for the names it is valid for.
    pub fn new(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            chain: chain.into(),
            key: key.into(),
            renewed: None,
            soon: SOON,
            names: Vec::new(),
        }
    }

    /// The same files, with the certificate that other nodes renew if that is this one.
    #[must_use]
    pub fn renewed_by(self, renewal: Option<&Renewal>) -> Self {
        match renewal.filter(|renewal| renewal.certificate == self.chain) {
            Some(renewal) => Self {
                renewed: Some(renewal.renewed.clone()),
                // The other nodes had as long to renew it.
                soon: Duration::from_secs(u64::from(renewal.days.get()) * 86_400 / 4),
                ..self
            },
            None => self,
        }
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file that cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file that is no PEM, or a key's that holds no key.
    #[error("{path} cannot be used", path = path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The cause.
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
        /// The cause.
        #[source]
        source: rustls::Error,
    },
}

/// Why the certificates of clients cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The file of the authority cannot be read, or is no PEM.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// The file has no certificate of an authority.
    #[error("{path} holds no certificate that could sign others", path = .0.display())]
    Empty(PathBuf),
    /// A certificate that cannot be used.
    #[error("{path} cannot be used", path = path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The verifier does not take them.
    #[error("certificates of clients cannot be verified")]
    Verifier(#[from] VerifierBuilderError),
}

/// Verifies clients by the authorities of a file (PEM), which it reads once. Unless a certificate is required, it lets in
/// clients that show none.
///
/// # Errors
///
/// When the file cannot be used.
pub fn verify_clients(
    ca: &Path,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, AuthorityError> {
    let unreadable = |source| AuthorityError::Read {
        path: ca.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(unreadable)? {
        let added = roots.add(certificate.map_err(unreadable)?);
        added.map_err(|source| AuthorityError::Unfit {
            path: ca.to_owned(),
            source,
        })?;
    }
    if roots.is_empty() {
        return Err(AuthorityError::Empty(ca.to_owned()));
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match is_required {
        true => verifier,
        false => verifier.allow_unauthenticated(),
    };
    Ok(verifier.build()?)
}

/// The certificates of a server; clones share them.
#[derive(Clone, Debug)]
pub struct Certificates {
    shown: Arc<Latest<Vec<Loaded>>>,
    /// Held while files are read, so that what was read last is what is shown.
    reading: Arc<Mutex<()>>,
}

/// A certificate and where it came from.
#[derive(Clone, Debug)]
struct Loaded {
    files: CertificateFiles,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    /// Reads all files. The first certificate is shown to clients that name no server, or one that
    /// none is for.
    ///
    /// # Errors
    ///
    /// When a certificate cannot be used.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, CertificateError> {
        Ok(Self {
            shown: Latest::new(load_all(files)?),
            reading: Arc::default(),
        })
    }

    /// Takes up other files, all of them or none.
    ///
    /// # Errors
    ///
    /// When a certificate cannot be used; those in use stay.
    pub fn replace(&self, files: &[CertificateFiles]) -> Result<(), CertificateError> {
        let reading = self.reading.lock();
        self.shown.publish(load_all(files)?);
        drop(reading);
        Ok(())
    }

    /// Reads the files again and logs the result. Later handshakes show the new certificates; a
    /// certificate that cannot be used stays as it was.
    pub fn reload(&self) {
        for error in self.read_again() {
            tracing::error!(
                error = exit::chain(&error),
                "Certificate cannot be used, the old one stays"
            );
        }
    }

    /// [Reloads](Self::reload) whenever a file has changed, for ever; dropped, it ends.
    pub async fn follow(self) {
        self.follow_every(LOOK).await;
    }

    /// The resolver that gives TLS the certificate of each handshake.
    #[must_use]
    pub fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(self.clone())
    }

    /// TLS 1.2 and 1.3 with these certificates, for clients that show none and speak one of the protocols
    /// (ALPN names, the most wanted first).
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up at all.
    pub fn server_config(&self, protocols: &[&[u8]]) -> Result<ServerConfig, rustls::Error> {
        self.server_config_for(Arc::new(NoClientAuth), protocols)
    }

    /// The same, for clients whose certificates are `verified`.
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up at all.
    pub fn server_config_for(
        &self,
        verified: Arc<dyn ClientCertVerifier>,
        protocols: &[&[u8]],
    ) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verified)
            .with_cert_resolver(self.resolver());
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }

    fn read_again(&self) -> Vec<CertificateError> {
        let reading = self.reading.lock();
        let mut errors = Vec::new();
        let mut loaded = Vec::clone(&self.shown.current());
        for one in &mut loaded {
            match load(&one.files) {
                Ok(key) if key.cert == one.key.cert => {}
                Ok(key) => {
                    one.key = Arc::new(key);
                    tracing::info!(path = %one.files.chain.display(), "Certificate is renewed");
                }
                Err(error) => errors.push(error),
            }
        }
        self.shown.publish(loaded);
        drop(reading);
        errors
    }

    /// The same, with another time between two looks. A change after the call is noticed, however
    /// late the future is polled first.
    pub fn follow_every(self, look: Duration) -> impl Future<Output = ()> + Send + 'static {
        let mut seen = self.stamps();
        async move {
            loop {
                tokio::time::sleep(look).await;
                let stamps = self.stamps();
                if stamps != seen {
                    seen = stamps;
                    self.reload();
                }
            }
        }
    }

    fn stamps(&self) -> Vec<[Stamp; 3]> {
        let loaded = self.shown.current();
        let files = loaded.iter().map(|one| &one.files);
        files
            .map(|files| {
                let renewed = files.renewed.as_ref().unwrap_or(&files.chain);
                [&files.chain, &files.key, renewed].map(|path| Stamp::of(path))
            })
            .collect()
    }
}

impl Source for Certificates {
    fn dated(&self) -> Vec<Dated> {
        let loaded = self.shown.current();
        let dated = loaded.iter().filter_map(|one| {
            let certificate = one.key.cert.first()?.clone();
            Some(Dated {
                path: one.files.chain.clone(),
                certificate,
                soon: one.files.soon,
            })
        });
        dated.collect()
    }
}

impl ResolvesServerCert for Certificates {
    /// The first certificate that is for the name and whose kind of key the client knows; else the
    /// first whose key it knows.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let loaded = self.shown.current();
        let schemes = hello.signature_schemes();
        let known = || {
            let knows = move |one: &&Loaded| one.key.key.choose_scheme(schemes).is_some();
            loaded.iter().filter(knows)
        };
        let named = || known().find(|one| hello.server_name().is_some_and(|name| one.is_for(name)));
        let chosen = match loaded.as_slice() {
            [only] => Some(only),
            _ => named().or_else(|| known().next()),
        };
        chosen.map(|one| Arc::clone(&one.key))
    }
}

impl Loaded {
    fn is_for(&self, name: &str) -> bool {
        if self.files.names.is_empty() {
            return self.is_valid_for(name);
        }
        let mut patterns = self.files.names.iter();
        patterns.any(|pattern| match pattern.strip_prefix("*.") {
            // RFC 9525 §6.3: `*` stands for one label, the leftmost.
            Some(domain) => name
                .split_once('.')
                .is_some_and(|(_, parent)| parent.eq_ignore_ascii_case(domain)),
            None => pattern.eq_ignore_ascii_case(name),
        })
    }

    /// As a client would see it (RFC 9525 §6).
    fn is_valid_for(&self, name: &str) -> bool {
        let parsed = self.key.cert.first().map(ParsedCertificate::try_from);
        let (Some(Ok(certificate)), Ok(name)) = (parsed, ServerName::try_from(name)) else {
            return false;
        };
        verify_server_name(&certificate, &name).is_ok()
    }
}

fn load_all(files: &[CertificateFiles]) -> Result<Vec<Loaded>, CertificateError> {
    let mut loaded = Vec::with_capacity(files.len());
    for one in files {
        loaded.push(Loaded {
            files: one.clone(),
            key: Arc::new(load(one)?),
        });
    }
    Ok(loaded)
}

fn load(files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
    let CertificateFiles {
        chain,
        key,
        renewed,
        ..
    } = files;
    let pem = read(chain)?;
    let newer = renewed
        .as_ref()
        .and_then(|path| Some((path, newer(&pem, path)?)));
    if let Some((path, newer)) = newer {
        match parse(&newer, path, key) {
            Ok(certified) => return Ok(certified),
            // The one that was rendered may have ended, and is better than none.
            Err(error) => tracing::warn!(
                error = exit::chain(&error),
                "The renewed certificate cannot be used; that of the configuration is shown"
            ),
        }
    }
    parse(&pem, chain, key)
}

fn parse(pem: &[u8], chain: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable(chain))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty(chain.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(unusable(key))?;
    CertifiedKey::from_der(certificates, private, &ring::default_provider()).map_err(|source| {
        CertificateError::Mismatch {
            chain: chain.to_owned(),
            key: key.to_owned(),
            source,
        }
    })
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    disk::read(path).map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        source,
    })
}

fn unusable(path: &Path) -> impl Fn(pem::Error) -> CertificateError {
    let path = path.to_owned();
    move |source| CertificateError::Pem {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
