//! The way into the API: addresses, authorities, credentials. Read whole from their files, each time anything changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cluster_objects::kubeconfig::{self, Kubeconfig, Pem, Token};
use daemon::disk::{self, Stamp};
use hyper::header::HeaderValue;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::address::{AddressError, ApiAddress};

/// The places of the credentials and the addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessSettings {
    /// A kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// The addresses before that of the kubeconfig.
    pub addresses: Vec<ApiAddress>,
    /// The name of the servers' certificates.
    pub server_name: Option<ServerName<'static>>,
    /// The authorities; none for those of the kubeconfig.
    pub ca_file: Option<PathBuf>,
    /// The bearer token; none for the credentials of the kubeconfig.
    pub token_file: Option<PathBuf>,
    /// The name of the program, for the logs of the API servers.
    pub agent: &'static str,
}

/// The way into the API.
#[derive(Clone)]
pub struct Access {
    /// The addresses in the order of preference.
    pub addresses: Vec<ApiAddress>,
    /// The name of the servers' certificates; none for the host of each address.
    pub server_name: Option<ServerName<'static>>,
    /// The `Authorization` header.
    pub(super) authorization: Option<HeaderValue>,
    /// The `User-Agent` header.
    pub(super) agent: &'static str,
    /// TLS with the authorities, and the certificate of the client if there is one.
    pub(super) tls: Arc<ClientConfig>,
    /// The texts of the files, to compare with.
    texts: Texts,
}

/// The secrets and certificates as they were read.
#[derive(Clone, Default, PartialEq, Eq)]
struct Texts {
    authorities: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl PartialEq for Access {
    fn eq(&self, other: &Self) -> bool {
        self.addresses == other.addresses
            && self.server_name == other.server_name
            && self.authorization == other.authorization
            && self.texts == other.texts
    }
}

impl fmt::Debug for Access {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("addresses", &self.addresses)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Why there is no way into the API.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file that cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A kubeconfig that cannot be used.
    #[error("{path} cannot be used: {problem}", path = .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The address in a kubeconfig.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The name in a kubeconfig.
    #[error("{0:?} is no name of a server")]
    ServerName(String),
    /// A token that fits into no header.
    #[error("the token has letters that no header can carry")]
    Token,
    /// Certificates or a key that cannot be read.
    #[error("{what} cannot be used")]
    Pem {
        /// The name of the part.
        what: &'static str,
        /// The cause.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// There is no authority to verify the servers with.
    #[error("there is no authority to verify the API servers with: give `ca-file`")]
    NoAuthority,
    /// A certificate with half of its parts.
    #[error("a client certificate needs its key, and a key its certificate")]
    HalfCertificate,
    /// TLS refuses the certificates.
    #[error("the certificates cannot be used")]
    Tls(#[from] rustls::Error),
}

/// Reads everything.
///
/// # Errors
/// The first thing that cannot be used.
pub fn read(settings: &AccessSettings) -> Result<Access, AccessError> {
    let kubeconfig = match &settings.kubeconfig {
        Some(path) => read_kubeconfig(path)?,
        None => Kubeconfig::default(),
    };
    let mut addresses = settings.addresses.clone();
    if !kubeconfig.server.is_empty() {
        let last: ApiAddress = kubeconfig.server.parse()?;
        if !addresses.contains(&last) {
            addresses.push(last);
        }
    }
    let server_name = match (&settings.server_name, &kubeconfig.server_name) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(name)) => {
            let parsed = ServerName::try_from(name.clone());
            Some(parsed.map_err(|_| AccessError::ServerName(name.clone()))?)
        }
        (None, None) => None,
    };
    // Plain HTTP, on loopback, needs no authority: the files of a pod may be missing there.
    let is_plain = addresses.iter().all(|address| !address.is_tls);
    let token = settings.token_file.clone().map(Token::File);
    let token = match token.or(kubeconfig.token) {
        Some(Token::File(path)) if is_plain && !path.exists() => None,
        Some(Token::File(path)) => Some(String::from_utf8_lossy(&read_file(&path)?).into_owned()),
        Some(Token::Inline(token)) => Some(token),
        None => None,
    };
    let authorities = settings.ca_file.clone().map(Pem::File);
    let texts = Texts {
        authorities: match authorities.or(kubeconfig.authorities) {
            Some(Pem::File(path)) if is_plain && !path.exists() => Vec::new(),
            pem => read_pem(pem)?,
        },
        certificate: read_pem(kubeconfig.certificate)?,
        key: read_pem(kubeconfig.key)?,
    };
    let authorization = token.map(|token| authorization(&token)).transpose()?;
    Ok(Access {
        tls: Arc::new(tls(&texts, is_plain)?),
        addresses,
        server_name,
        authorization,
        agent: settings.agent,
        texts,
    })
}

fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, AccessError> {
    let octets = read_file(path)?;
    let problem = |problem| AccessError::Kubeconfig {
        path: path.to_owned(),
        problem,
    };
    let text = String::from_utf8(octets).map_err(|_| problem("it is no text".to_owned()))?;
    kubeconfig::read(&text, durable::directory_of(path)).map_err(problem)
}

fn authorization(token: &str) -> Result<HeaderValue, AccessError> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| AccessError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_file(path: &Path) -> Result<Vec<u8>, AccessError> {
    disk::read(path).map_err(|source| AccessError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_pem(pem: Option<Pem>) -> Result<Vec<u8>, AccessError> {
    match pem {
        None => Ok(Vec::new()),
        Some(Pem::Inline(octets)) => Ok(octets),
        Some(Pem::File(path)) => read_file(&path),
    }
}

fn tls(texts: &Texts, is_plain: bool) -> Result<ClientConfig, AccessError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("the file of authorities", &texts.authorities)? {
        roots.add(certificate)?;
    }
    if roots.is_empty() && !is_plain {
        return Err(AccessError::NoAuthority);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match (texts.certificate.is_empty(), texts.key.is_empty()) {
        (true, true) => builder.with_no_client_auth(),
        (false, false) => {
            let chain = certificates("the client certificate", &texts.certificate)?;
            let key =
                PrivateKeyDer::from_pem_slice(&texts.key).map_err(|source| AccessError::Pem {
                    what: "the key of the client certificate",
                    source,
                })?;
            builder.with_client_auth_cert(chain, key)?
        }
        _ => return Err(AccessError::HalfCertificate),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(
    what: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, AccessError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.map_err(|source| AccessError::Pem { what, source })
}

/// The states of the files that [`read`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamps(Vec<(PathBuf, Stamp)>);

impl Stamps {
    /// The states at this moment.
    #[must_use]
    pub fn of(settings: &AccessSettings) -> Self {
        let mut paths: Vec<PathBuf> = [
            &settings.kubeconfig,
            &settings.ca_file,
            &settings.token_file,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
        let kubeconfig = settings.kubeconfig.as_ref();
        if let Some(Ok(kubeconfig)) = kubeconfig.map(|path| read_kubeconfig(path)) {
            paths.extend(kubeconfig.files().map(Path::to_owned));
        }
        let stamps = paths.into_iter().map(|path| {
            let stamp = Stamp::of(&path);
            (path, stamp)
        });
        Self(stamps.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(directory: &Path) -> AccessSettings {
        AccessSettings {
            kubeconfig: Some(directory.join("config")),
            addresses: vec!["https://192.168.7.13:6443".parse().unwrap()],
            server_name: None,
            ca_file: None,
            token_file: None,
            agent: "test",
        }
    }

    #[test]
    fn everything_is_read_and_a_rotated_token_is_another_access() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        let key = rcgen::generate_simple_self_signed(["kubernetes".to_owned()]).unwrap();
        fs::write(path.join("ca.crt"), key.cert.pem()).unwrap();
        fs::write(path.join("token"), "first-secret\n").unwrap();
        fs::write(
            path.join("config"),
            "current-context: a\nclusters: [{name: a, cluster: {server: 'https://b:1', certificate-authority: ca.crt}}]\n\
             contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {tokenFile: token}}]\n",
        )
        .unwrap();
        let settings = settings(path);
        let first = read(&settings).unwrap();
        let stamps = Stamps::of(&settings);
        let shown: Vec<String> = first.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["https://192.168.7.13:6443", "https://b:1"]);
        assert_eq!(first.authorization.as_ref().unwrap(), "Bearer first-secret");
        assert_eq!(first, read(&settings).unwrap());
        assert!(
            !format!("{first:?}").contains("secret"),
            "no secret in a log"
        );
        fs::write(path.join("token"), "two, longer\n").unwrap();
        assert_ne!(stamps, Stamps::of(&settings));
        assert_ne!(first, read(&settings).unwrap());
        fs::write(path.join("ca.crt"), "").unwrap();
        assert!(matches!(read(&settings), Err(AccessError::NoAuthority)));
        fs::remove_file(path.join("token")).unwrap();
        assert!(matches!(read(&settings), Err(AccessError::Read { .. })));
    }
}
