//! TLS for `https` probes: the authorities that sign the certificates of targets.
//!
//! Client configs are kept, one for each way to check; a CA file that changed is read again. Sessions
//! are never resumed: each probe sees the certificate that a new client would see.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use daemon::exit::chain;
use health::Verify;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tls_trust::{Trust, system_bundle};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::words;

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
            Verify::System => named_bundle().or_else(system_bundle),
            Verify::Ca(file) => Some(PathBuf::from(file)),
        };
        let modified = file.as_deref().and_then(modified);
        let mut kept = self.kept.lock();
        if let Some(found) = kept.get(verify).filter(|kept| kept.modified == modified) {
            return Ok(Arc::clone(&found.config));
        }
        let trust = match verify {
            Verify::Off => Trust::Anyone,
            Verify::System | Verify::Ca(_) => authorities(file.as_deref())?,
        };
        let config = Arc::new(build(&trust)?);
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

/// The file of authorities that the environment names, as for OpenSSL.
fn named_bundle() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.filter(|path| path.is_file())
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().ok()?.modified().ok()
}

fn build(trust: &Trust) -> Result<ClientConfig, String> {
    let config = trust.client(rustls::DEFAULT_VERSIONS, &[b"http/1.1"]);
    let mut config = config.map_err(|error| chain(&error))?;
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The authorities in a file, or those of the system.
pub(super) fn authorities(file: Option<&Path>) -> Result<Trust, String> {
    Trust::read(file, Vec::new()).map_err(|error| chain(&error))
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
        assert!(
            empty
                .unwrap_err()
                .contains("holds no certificate of an authority")
        );
        assert!(configs.client(&Verify::Off).is_ok());
    }
}
