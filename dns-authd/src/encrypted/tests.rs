//! Answers over TLS, and certificates that change.

use std::fs;
use std::path::PathBuf;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;

const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03ApI\x07example\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

/// A folder with a fresh certificate for `ns.example`, removed with the value.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.renew();
        files
    }

    /// Writes another certificate over the first.
    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["ns.example".to_owned()]).unwrap();
        fs::write(self.chain(), made.cert.pem()).unwrap();
        fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    fn chain(&self) -> PathBuf {
        self.0.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn tls(&self) -> Tls {
        Tls {
            certificate: self.chain(),
            key: self.key(),
            dot: Vec::new(),
            doh: Vec::new(),
            doq: Vec::new(),
            doh_path: "/dns-query".to_owned(),
        }
    }
}

/// Answers every query with one A record and an OPT record, silent to queries for type TXT.
fn ask() -> Ask {
    Arc::new(|query, _, transport| {
        Box::pin(async move {
            assert_eq!(transport, Transport::Tls);
            let question_end = 12 + 13 + 4;
            if query.get(question_end - 3) == Some(&16) {
                return None;
            }
            let mut reply = query.get(..question_end)?.to_vec();
            reply[2] = 0x85;
            reply[7] = 1;
            reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc0\xa8\x07\x0d");
            reply.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
            Some(reply)
        })
    })
}

async fn connect(
    address: SocketAddr,
    root: &Files,
) -> std::io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(root.chain()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"dot".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("ns.example").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn exchange(
    stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin),
    query: &[u8],
) -> Vec<u8> {
    stream
        .write_u16(u16::try_from(query.len()).unwrap())
        .await
        .unwrap();
    stream.write_all(query).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await.unwrap();
    reply
}

#[tokio::test]
async fn our_answer_arrives_over_tls_and_the_certificate_is_renewed_in_place() {
    let files = Files::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = Sockets {
        dot: vec![listener],
        ..Sockets::default()
    };
    let encrypted = Encrypted::start(&files.tls(), sockets, ask()).unwrap();

    let mut first = connect(address, &files).await.unwrap();
    let reply = exchange(&mut first, QUERY).await;
    assert_eq!(&reply[..4], b"\x12\x34\x85\0");
    assert!(reply.windows(4).any(|window| window == [192, 168, 7, 13]));
    assert!(
        reply.windows(3).any(|window| window == [0, 0, 41]),
        "OPT is kept"
    );

    let silent = [&QUERY[..26], &[16], &QUERY[27..]].concat();
    assert_eq!(exchange(&mut first, &silent).await[3] & 15, 5);

    files.renew();
    assert!(
        connect(address, &files).await.is_err(),
        "the old certificate is still shown"
    );
    encrypted.certificates().reload();
    let mut second = connect(address, &files).await.unwrap();
    exchange(&mut second, QUERY).await;
    exchange(&mut first, QUERY).await;
    drop((first, second));
    assert!(encrypted.drain(Duration::from_secs(5)).await);
}
