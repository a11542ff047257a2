use std::net::SocketAddr;
use std::sync::Arc;

use dns_wire::{Name, Rcode};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tls_trust::Trust;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{ExchangeError, Primary, ask};

/// A server over TLS that refuses every question, and says how often it has got one.
async fn refusing(
    versions: &[&'static rustls::SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> (SocketAddr, Trust, tokio::sync::mpsc::Receiver<()>) {
    let made = rcgen::generate_simple_self_signed(["ns.test".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, questions) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let Ok(length) = stream.read_u16().await else {
                continue;
            };
            let mut message = vec![0; usize::from(length)];
            stream.read_exact(&mut message).await.unwrap();
            asked.send(()).await.unwrap();
            // A response, REFUSED.
            message[2] |= 0x80;
            message[3] |= 5;
            stream.write_u16(length).await.unwrap();
            stream.write_all(&message).await.unwrap();
            stream.flush().await.unwrap();
        }
    });
    let trust = Trust::Authorities(vec![certificate], Vec::new());
    (address, trust, questions)
}

async fn question(address: SocketAddr, name: Option<&str>, trust: Trust) -> ExchangeError {
    let primary = Primary::over_tls(address, name, trust).unwrap();
    let zone: Name = "a.test.".parse().unwrap();
    ask(&primary, &zone, None).await.unwrap_err()
}

#[tokio::test]
async fn a_primary_over_tls_gets_its_question_when_it_has_proven_who_it_is() {
    let (address, trust, mut questions) = refusing(&[&rustls::version::TLS13], &[b"dot"]).await;
    for (name, trust, is_asked) in [
        (Some("ns.test"), trust.clone(), true),
        (Some("other.test"), trust.clone(), false),
        (None, trust, false),
        (None, Trust::Pins(vec![[7; 32]]), false),
        (Some("other.test"), Trust::Anyone, true),
    ] {
        let error = question(address, name, trust.clone()).await;
        let is_refused = matches!(error, ExchangeError::Rcode(Rcode::REFUSED));
        assert_eq!(is_refused, is_asked, "{name:?} {trust:?}: {error}");
        assert_eq!(questions.try_recv().is_ok(), is_asked, "{name:?} {trust:?}");
    }
}

#[tokio::test]
async fn an_older_tls_and_another_protocol_are_not_taken() {
    for (versions, protocols) in [
        (&[&rustls::version::TLS12], &b"dot"[..]),
        (&[&rustls::version::TLS13], b"h2"),
    ] {
        let (address, _, mut questions) = refusing(versions, &[protocols]).await;
        let error = question(address, None, Trust::Anyone).await;
        assert!(matches!(error, ExchangeError::Io(_)), "{error}");
        assert!(questions.try_recv().is_err());
    }
}

#[test]
fn a_primary_is_another_one_when_it_has_to_prove_something_else() {
    let address = "192.0.2.1:853".parse().unwrap();
    let over_tls = |name, trust| Primary::over_tls(address, name, trust).unwrap();
    let one = over_tls(Some("a.test"), Trust::Anyone);
    assert_eq!(one, over_tls(Some("a.test"), Trust::Anyone));
    assert_ne!(one, over_tls(Some("b.test"), Trust::Anyone));
    assert_ne!(one, over_tls(Some("a.test"), Trust::Pins(vec![[1; 32]])));
    assert_ne!(one, Primary::plain(address));
    assert_eq!(one.to_string(), "192.0.2.1:853 (TLS)");
    assert_eq!(Primary::plain(address).to_string(), "192.0.2.1:853");
    assert!(Primary::over_tls(address, Some("a b"), Trust::Anyone).is_err());
}
