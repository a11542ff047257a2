//! The other ends of TLS: a client that trusts one authority, and something that stands for an API server.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream,
};

use crate::stream::{Server, try_connect};

/// A client of HTTPS.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// One that trusts the authority of this certificate (PEM), and no other.
    ///
    /// # Panics
    ///
    /// Panics if there is no such certificate.
    #[must_use]
    pub fn trusting(authority: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(authority)
            .unwrap_or_else(|error| panic!("{}: {error}", authority.display()));
        roots.add(certificate).expect("it is an authority's");
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring has the suites of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            config: Arc::new(config),
        }
    }

    /// One request on a connection of its own, over a stream that is connected: the status.
    ///
    /// # Errors
    ///
    /// Fails if the peer is not who it should be, or does not answer in time.
    pub fn get(&self, mut stream: TcpStream, name: &str, path: &str) -> io::Result<u16> {
        let peer = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let config = Arc::clone(&self.config);
        let mut session = ClientConnection::new(config, peer).map_err(io::Error::other)?;
        let mut tls = Stream::new(&mut session, &mut stream);
        write!(
            tls,
            "GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        )?;
        let mut head = [0; 12];
        tls.read_exact(&mut head)?;
        let status = std::str::from_utf8(&head).ok();
        let status = status.and_then(|head| head.strip_prefix("HTTP/1.1 ")?.parse().ok());
        status.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// One request with a body on a connection of its own: the status, the head and the body of the answer.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub fn exchange(
        &self,
        mut stream: TcpStream,
        name: &str,
        request: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<(u16, String, Vec<u8>)> {
        let peer = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let config = Arc::clone(&self.config);
        let mut session = ClientConnection::new(config, peer).map_err(io::Error::other)?;
        let mut tls = Stream::new(&mut session, &mut stream);
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}"
        );
        let written = tls.write_all(&[head.as_bytes(), b"\r\n", body].concat());
        let mut answer = Vec::new();
        let read = tls.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return Err(written
                .and(read.map(drop))
                .err()
                .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        };
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        Ok((status, head, answer.split_off(end + 4)))
    }

    /// As [`Self::get`], on a new connection.
    ///
    /// # Errors
    ///
    /// As [`Self::get`], and if the connection is refused.
    pub fn get_at(&self, address: SocketAddr, name: &str, path: &str) -> io::Result<u16> {
        self.get(try_connect(address)?, name, path)
    }
}

/// Says `200` to every request, as an API server that is ready does to `/readyz`.
///
/// # Panics
///
/// Panics if there is no such certificate or key, or the address is taken.
#[must_use]
pub fn api_server(address: SocketAddr, certificate: &Path, key: &Path) -> Server {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .unwrap_or_else(|error| panic!("{}: {error}", certificate.display()))
        .collect();
    let key = PrivateKeyDer::from_pem_file(key)
        .unwrap_or_else(|error| panic!("{}: {error}", key.display()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of both versions")
        .with_no_client_auth()
        .with_single_cert(chain.expect("certificates"), key)
        .expect("the key is the certificate's");
    let config = Arc::new(config);
    Server::start(address, move |mut stream| {
        // A client that only connects has its answer.
        drop(answer(Arc::clone(&config), &mut stream));
    })
}

fn answer(config: Arc<ServerConfig>, stream: &mut &TcpStream) -> io::Result<()> {
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut tls = Stream::new(&mut session, stream);
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match tls.read(&mut buffer)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&buffer[..length]),
        }
    }
    tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")?;
    tls.conn.send_close_notify();
    tls.flush()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
