//! Replies over QUIC, and connections and streams beyond the bounds.

use quinn::ClientConfig;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::*;
use crate::testing::{Echo, limits};

struct Server {
    address: SocketAddr,
    service: Arc<Echo>,
    root: CertificateDer<'static>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn start(service: Arc<Echo>) -> Server {
    let made = rcgen::generate_simple_self_signed(["ns.example".to_owned()]).unwrap();
    let root = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![root.clone()], key.into())
        .unwrap();
    tls.alpn_protocols = vec![crate::DOQ.to_vec()];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let endpoint = endpoint(socket, Arc::new(tls), &service.limits).unwrap();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(serve(endpoint, Arc::clone(&service), stopped));
    Server {
        address,
        service,
        root,
        stop,
        task,
    }
}

impl Server {
    async fn connect(&self, protocol: &[u8]) -> Option<(Endpoint, Connection)> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        let connecting = endpoint.connect(self.address, "ns.example").unwrap();
        Some((endpoint, connecting.await.ok()?))
    }
}

async fn ask_once(connection: &Connection, query: &[u8]) -> Option<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await.ok()?;
    let mut frame = Replies::default();
    frame.push(query);
    send.write_all(frame.octets()).await.ok()?;
    send.finish().ok()?;
    receive.read_to_end(1 << 17).await.ok()
}

#[tokio::test]
async fn each_stream_has_its_reply_with_the_id_zero() {
    let server = start(Echo::new(limits(), false));
    let (_endpoint, connection) = server.connect(crate::DOQ).await.unwrap();
    for query in [&b"\x12\x34first"[..], b"\0\0second"] {
        let reply = ask_once(&connection, query).await.unwrap();
        assert_eq!(usize::from(reply[1]), query.len());
        assert_eq!(reply[2..4], [0, 0]);
        assert_eq!(reply[4..], query[2..]);
    }
    assert!(server.connect(b"h3").await.is_none(), "not DNS");
    // What is longer than a query ends its stream, not the connection.
    assert_eq!(ask_once(&connection, &[0; MAX_QUERY + 1]).await, None);
    assert!(ask_once(&connection, b"\0\0third").await.is_some());
}

#[tokio::test]
async fn connections_beyond_the_bounds_are_refused_and_counted() {
    let limits = Limits {
        connections: 4,
        per_client: 3,
        ..limits()
    };
    let server = start(Echo::new(limits, true));
    let mut open = Vec::new();
    let mut answers = JoinSet::new();
    for _ in 0..3 {
        let (endpoint, connection) = server.connect(crate::DOQ).await.unwrap();
        let asking = connection.clone();
        answers.spawn(async move { while ask_once(&asking, b"\0\0query").await.is_some() {} });
        open.push((endpoint, connection));
    }
    let quic = &server.service.counters().quic;
    // One by one they have answers in flight, and then none gives way.
    while server.connect(crate::DOQ).await.is_some() {}
    assert_eq!((quic.open(), quic.refused() > 0), (3, true));
    // A connection that ends gives its place back.
    let (endpoint, connection) = open.pop().unwrap();
    connection.close(NO_ERROR, b"");
    endpoint.wait_idle().await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while server.connect(crate::DOQ).await.is_none() {
        assert!(tokio::time::Instant::now() < deadline);
    }
}

#[tokio::test]
async fn streams_beyond_the_bound_wait_for_others_to_end() {
    let server = start(Echo::new(limits(), true));
    let (_endpoint, connection) = server.connect(crate::DOQ).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..limits().pipeline {
        let (mut send, receive) = connection.open_bi().await.unwrap();
        send.write_all(b"\0\x05\0\0abc").await.unwrap();
        send.finish().unwrap();
        open.push((send, receive));
    }
    let soon = Duration::from_millis(100);
    assert!(timeout(soon, connection.open_bi()).await.is_err());
    for (_, receive) in &mut open {
        assert_eq!(receive.read_to_end(100).await.unwrap(), b"\0\x05\0\0abc");
    }
    assert!(ask_once(&connection, b"\0\0later").await.is_some());
}

#[tokio::test]
async fn queries_that_wait_when_the_server_stops_are_answered() {
    let server = start(Echo::new(limits(), true));
    let (_endpoint, connection) = server.connect(crate::DOQ).await.unwrap();
    let asking = connection.clone();
    let reply = tokio::spawn(async move { ask_once(&asking, b"\0\0query").await });
    sleep(Duration::from_millis(100)).await;
    server.stop.send_replace(true);
    assert!(reply.await.unwrap().is_some());
    timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap();
}
