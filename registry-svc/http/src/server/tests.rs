//! Real connections on loopback, to an API over a real store.

use std::io::ErrorKind;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use l4_core::proxy_protocol::{Header, Version, write_v1, write_v2};
use oci::digest::{Algorithm, Digest};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::tests::Registry;
use crate::{Limits, tests};

/// A server of its own, with what it serves.
struct Site {
    server: Server,
    registry: Registry,
}

impl Site {
    async fn plain(settings: Settings, limits: Limits) -> Self {
        Self::start(settings, limits, None).await
    }

    async fn start(
        settings: Settings,
        limits: Limits,
        tls: Option<Arc<Latest<ServerConfig>>>,
    ) -> Self {
        let registry = Registry::with(limits).await;
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let server = Server::start(vec![listener], registry.api(), tls, settings).unwrap();
        Self { server, registry }
    }

    fn address(&self) -> SocketAddr {
        *self.server.addresses().first().unwrap()
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address()).await.unwrap())
    }
}

/// A client that writes octets and reads answers.
struct Client(TcpStream);

impl Client {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// An answer's head and body.
    async fn answer(&mut self) -> (String, Vec<u8>) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        (head, body)
    }

    async fn is_answered(&mut self, status: u16) -> String {
        let (head, body) = self.answer().await;
        let is_so = head.starts_with(&format!("http/1.1 {status} "));
        assert!(is_so, "{head}{}", String::from_utf8_lossy(&body));
        head
    }

    /// Waits until the other side closes; anything that it says before is dropped.
    async fn is_closed(&mut self) {
        let mut octets = [0; 1024];
        loop {
            match self.0.read(&mut octets).await {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                    return;
                }
            }
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tests::block_on(async {
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, future).await.expect("it ends")
    })
}

fn short() -> Settings {
    Settings {
        handshake: Duration::from_millis(100),
        head: Duration::from_millis(100),
        ..Settings::default()
    }
}

const BASE: &str = "GET /v2/ HTTP/1.1\r\nHost: registry.example.org\r\n\r\n";

//--- What is spoken

#[test]
fn a_connection_serves_one_request_after_another() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        for _ in 0..3 {
            client.send(BASE).await;
            let (head, body) = client.answer().await;
            assert!(head.starts_with("http/1.1 200 "), "{head}");
            assert!(head.contains("docker-distribution-api-version: registry/2.0\r\n"));
            assert_eq!(body, b"{}");
        }
        client.send(&BASE.replace("GET", "HEAD")).await;
        let mut head = vec![0; 17];
        client.0.read_exact(&mut head).await.unwrap();
        assert_eq!(head, b"HTTP/1.1 200 OK\r\n");
        assert!(site.server.drain(Duration::from_secs(10)).await);
    });
}

/// Pushes and pulls a blob of several pieces.
async fn exchange<F, R>(mut send: F)
where
    F: FnMut(Request<Full<Bytes>>) -> R,
    R: Future<Output = (StatusCode, Bytes)>,
{
    let octets = Bytes::from(vec![7; 1 << 20]);
    let digest = Digest::of(Algorithm::Sha256, &octets);
    let authority = "http://registry.example.org";
    let push = format!("{authority}/v2/a/blobs/uploads/?digest={digest}");
    let request = Request::post(push).header("host", "registry.example.org");
    let (status, body) = send(request.body(Full::new(octets.clone())).unwrap()).await;
    assert_eq!(status, 201, "{body:?}");
    let pull = format!("{authority}/v2/a/blobs/{digest}");
    let request = Request::get(pull).header("host", "registry.example.org");
    let (status, body) = send(request.body(Full::default()).unwrap()).await;
    assert_eq!((status, body.len()), (StatusCode::OK, octets.len()));
    assert_eq!(body, octets);
}

async fn speak_http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let sender = Arc::new(tokio::sync::Mutex::new(sender));
    exchange(|mut request| {
        let sender = Arc::clone(&sender);
        // HTTP/1.1 names the path alone.
        *request.uri_mut() = request
            .uri()
            .path_and_query()
            .unwrap()
            .as_str()
            .parse()
            .unwrap();
        async move {
            let mut sender = sender.lock().await;
            sender.ready().await.unwrap();
            let answer = sender.send_request(request).await.unwrap();
            (answer.status(), answer.collect().await.unwrap().to_bytes())
        }
    })
    .await;
}

async fn speak_http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    exchange(|request| {
        let mut sender = sender.clone();
        async move {
            let answer = sender.send_request(request).await.unwrap();
            (answer.status(), answer.collect().await.unwrap().to_bytes())
        }
    })
    .await;
}

#[test]
fn both_protocols_are_spoken_in_the_clear() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        speak_http1(site.connect().await.0).await;
        speak_http2(site.connect().await.0).await;
    });
}

/// A connection on which what the client says first arrives in two pieces.
fn split(mut stream: TcpStream, n_first: usize) -> tokio::io::DuplexStream {
    let (client, mut inner) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let mut first = vec![0; n_first];
        inner.read_exact(&mut first).await.unwrap();
        stream.write_all(&first).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // How the exchange ends is the client's to judge.
        drop(tokio::io::copy_bidirectional(&mut inner, &mut stream).await);
    });
    client
}

#[test]
fn what_is_spoken_is_told_apart_wherever_the_first_segment_ends() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        for n_first in [1, 3, 4, 5] {
            speak_http2(split(site.connect().await.0, n_first)).await;
            speak_http1(split(site.connect().await.0, n_first)).await;
        }
        // Whoever goes no further is cut off as others are.
        let site = Site::plain(short(), Limits::default()).await;
        for said in ["P", "PRI"] {
            let mut client = site.connect().await;
            client.send(said).await;
            client.is_closed().await;
        }
    });
}

#[test]
fn both_protocols_are_spoken_in_tls_and_the_first_is_preferred() {
    block_on(async {
        let (config, roots) = certificate();
        let tls = Some(Latest::new(config));
        let site = Site::start(Settings::default(), Limits::default(), tls).await;
        for (offered, chosen) in [
            (&[&b"h2"[..], b"http/1.1"][..], &b"http/1.1"[..]),
            (&[&b"h2"[..]][..], &b"h2"[..]),
            (&[][..], &b""[..]),
        ] {
            let mut config = ClientConfig::builder()
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let connector = TlsConnector::from(Arc::new(config));
            let name = ServerName::try_from("registry.example.org").unwrap();
            let stream = connector
                .connect(name, site.connect().await.0)
                .await
                .unwrap();
            let spoken = stream
                .get_ref()
                .1
                .alpn_protocol()
                .unwrap_or_default()
                .to_vec();
            assert_eq!(spoken, chosen);
            match chosen == b"h2" {
                true => speak_http2(stream).await,
                false => speak_http1(stream).await,
            }
        }
    });
}

fn certificate() -> (ServerConfig, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["registry.example.org".to_owned()]).unwrap();
    let chain: CertificateDer<'static> = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(chain.clone()).unwrap();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
    (config, roots)
}

//--- Bounds

#[test]
fn who_says_nothing_or_half_of_it_is_cut_off() {
    block_on(async {
        let site = Site::plain(short(), Limits::default()).await;
        for said in ["", "GET /v2/ HT", "GET /v2/ HTTP/1.1\r\nHost: x\r\n", BASE] {
            let mut client = site.connect().await;
            client.send(said).await;
            client.is_closed().await;
        }
    });
}

#[test]
fn who_does_not_finish_a_handshake_is_cut_off() {
    block_on(async {
        let tls = Some(Latest::new(certificate().0));
        let site = Site::start(short(), Limits::default(), tls).await;
        for said in ["", "\u{16}\u{3}\u{1}"] {
            let mut client = site.connect().await;
            client.send(said).await;
            client.is_closed().await;
        }
        let mut client = site.connect().await;
        client.send(BASE).await;
        client.is_closed().await;
    });
}

#[test]
fn a_body_that_stands_still_is_refused() {
    block_on(async {
        let limits = Limits {
            idle: Duration::from_millis(100),
            ..Limits::default()
        };
        let site = Site::plain(Settings::default(), limits).await;
        let mut client = site.connect().await;
        let path = begin(&mut client).await;
        client
            .send(&format!(
                "PATCH {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01234"
            ))
            .await;
        let head = client.is_answered(408).await;
        assert!(head.contains("connection: close\r\n"), "{head}");
        client.is_closed().await;
        let mut client = site.connect().await;
        client
            .send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .await;
        let head = client.is_answered(204).await;
        assert!(head.contains("range: 0-4\r\n"), "{head}");
    });
}

#[test]
fn a_head_without_end_is_refused() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        let long = "x".repeat(100 << 10);
        client
            .send(&BASE.replace("Host", &format!("X-Long: {long}\r\nHost")))
            .await;
        client.is_answered(431).await;
        client.is_closed().await;
    });
}

#[test]
fn a_request_names_one_host() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        for hosts in ["", "Host: a\r\nHost: b\r\n"] {
            let mut client = site.connect().await;
            client
                .send(&format!("GET /v2/ HTTP/1.1\r\n{hosts}\r\n"))
                .await;
            client.is_answered(400).await;
            client.is_closed().await;
        }
        let mut client = site.connect().await;
        client.send("GET /v2/ HTTP/1.0\r\n\r\n").await;
        let (head, _) = client.answer().await;
        assert!(head.starts_with("http/1.0 200 "), "{head}");
    });
}

#[test]
fn one_client_has_not_all_connections() {
    block_on(async {
        let settings = Settings {
            connections: 2,
            ..Settings::default()
        };
        let site = Site::plain(settings, Limits::default()).await;
        let mut kept = Vec::new();
        for _ in 0..2 {
            let mut client = site.connect().await;
            client.send(BASE).await;
            client.is_answered(200).await;
            kept.push(client);
        }
        // Its next one replaces its oldest, and so does that of another address.
        let mut third = site.connect().await;
        third.send(BASE).await;
        third.is_answered(200).await;
        kept.remove(0).is_closed().await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = Client(socket.connect(site.address()).await.unwrap());
        other.send(BASE).await;
        other.is_answered(200).await;
        kept.remove(0).is_closed().await;
    });
}

#[test]
fn whose_body_is_refused_gets_to_read_why() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        let length = 12 << 20;
        let head = format!(
            "PUT /v2/a/manifests/b HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        );
        client.send(&head).await;
        // More than the sockets hold: somebody has to read it.
        client.0.write_all(&vec![b'x'; length]).await.unwrap();
        let head = client.is_answered(413).await;
        assert!(head.contains("connection: close\r\n"), "{head}");
    });
}

#[test]
fn nobody_is_told_to_go_on_with_a_body_that_is_refused() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        let head = "PUT /v2/a/manifests/b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n";
        client
            .send(&format!("{head}Content-Length: 99999999\r\n\r\n"))
            .await;
        client.is_answered(413).await;
        let mut client = site.connect().await;
        client
            .send(&format!("{head}Content-Length: 2\r\n\r\n"))
            .await;
        client.is_answered(100).await;
        client.send("{}").await;
        client.is_answered(400).await;
    });
}

//--- The end

/// Where a new upload session is.
async fn begin(client: &mut Client) -> String {
    client
        .send("POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        .await;
    let head = client.is_answered(202).await;
    let location = head
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    location.unwrap().to_owned()
}

#[test]
fn a_request_that_has_begun_is_answered_before_the_end() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        let mut idle = site.connect().await;
        idle.send(BASE).await;
        idle.is_answered(200).await;
        let path = begin(&mut client).await;
        client
            .send(&format!("PATCH {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"))
            .await;
        client.is_answered(100).await;
        client.send("01234").await;
        let address = site.address();
        let draining = tokio::spawn(site.server.drain(Duration::from_secs(30)));
        // Whoever has asked nothing is told to go at once, and nobody new comes in.
        idle.is_closed().await;
        assert!(TcpStream::connect(address).await.is_err());
        client.send("56789").await;
        client.is_answered(202).await;
        client.is_closed().await;
        assert!(draining.await.unwrap());
        drop(site.registry);
    });
}

#[test]
fn what_is_left_at_the_deadline_is_ended() {
    block_on(async {
        let site = Site::plain(Settings::default(), Limits::default()).await;
        let mut client = site.connect().await;
        let path = begin(&mut client).await;
        client
            .send(&format!("PATCH {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"))
            .await;
        client.is_answered(100).await;
        assert!(!site.server.drain(Duration::from_millis(50)).await);
        client.is_closed().await;
        drop(site.registry);
    });
}

//--- Load balancers

/// What a load balancer sends first for a client.
fn header(version: Version, client: &str) -> Vec<u8> {
    let (client, here) = (client.parse().unwrap(), "192.0.2.9:5443".parse().unwrap());
    let header = Header::relayed(version, client, here);
    let mut octets = Vec::new();
    match version {
        Version::V1 => write_v1(&header, &mut octets),
        Version::V2 => write_v2(&header, &mut octets),
    }
    octets
}

fn behind(load_balancers: &str) -> Settings {
    Settings {
        load_balancers: Cidrs::parse(load_balancers).unwrap(),
        ..short()
    }
}

impl Site {
    /// A connection through the load balancer that was served once.
    async fn connect_as(&self, client: &str) -> Client {
        let mut connection = self.connect().await;
        let header = header(Version::V2, client);
        connection.0.write_all(&header).await.unwrap();
        connection.send(BASE).await;
        connection.is_answered(200).await;
        connection
    }

    fn n_refused(&self) -> u64 {
        self.registry.api().parts.metrics.proxy_headers_refused()
    }
}

#[test]
fn a_load_balancer_names_the_client_in_whatever_segments() {
    block_on(async {
        let site = Site::plain(behind("127.0.0.0/8"), Limits::default()).await;
        for version in [Version::V1, Version::V2] {
            let said = [header(version, "198.51.100.7:1234"), BASE.into()].concat();
            for n_first in [1, 5, 12, 20, said.len()] {
                let mut client = site.connect().await;
                let (first, rest) = said.split_at(n_first);
                client.0.write_all(first).await.unwrap();
                tokio::task::yield_now().await;
                client.0.write_all(rest).await.unwrap();
                client.is_answered(200).await;
            }
        }
        // A probe of the load balancer's own.
        let mut local = Vec::new();
        write_v2(&Header::local(Version::V2), &mut local);
        let mut client = site.connect().await;
        client.0.write_all(&local).await.unwrap();
        client.send(BASE).await;
        client.is_answered(200).await;
        assert_eq!(site.n_refused(), 0);
    });
}

#[test]
fn a_header_comes_before_tls() {
    block_on(async {
        let (config, roots) = certificate();
        let tls = Some(Latest::new(config));
        let settings = Settings {
            load_balancers: Cidrs::parse("127.0.0.1").unwrap(),
            ..Settings::default()
        };
        let site = Site::start(settings, Limits::default(), tls).await;
        let mut client = site.connect().await;
        let header = header(Version::V2, "[2001:db8::7]:1234");
        client.0.write_all(&header).await.unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("registry.example.org").unwrap();
        speak_http1(connector.connect(name, client.0).await.unwrap()).await;
        assert_eq!(site.n_refused(), 0);
    });
}

/// Octets that a client sends, and whether the service counts the end of the connection.
type Said = Vec<(Vec<u8>, bool)>;

#[test]
fn who_may_send_a_header_has_to_and_nobody_else_may() {
    block_on(async {
        let long = [b"PROXY ".to_vec(), vec![b'1'; 300]].concat();
        let good = header(Version::V2, "198.51.100.7:1234");
        let text = header(Version::V1, "198.51.100.7:1234");
        let mut bad = good.clone();
        bad[12] = 0x30;
        let tables: [(&str, Said); 2] = [
            (
                "127.0.0.1",
                vec![
                    (BASE.into(), true),
                    (bad, true),
                    (long, true),
                    // It took too long.
                    (good[..20].to_vec(), true),
                    (Vec::new(), true),
                ],
            ),
            (
                "192.0.2.1",
                vec![(good, true), (text, true), (b"PRO".to_vec(), false)],
            ),
        ];
        for (load_balancers, table) in tables {
            let site = Site::plain(behind(load_balancers), Limits::default()).await;
            let mut n_refused = 0;
            for (said, is_counted) in table {
                let mut client = site.connect().await;
                client.0.write_all(&said).await.unwrap();
                client.is_closed().await;
                n_refused += u64::from(is_counted);
                assert_eq!(site.n_refused(), n_refused, "{said:?}");
            }
        }
        // Without load balancers a header is a request that is none, and everybody else is served.
        let site = Site::plain(behind("192.0.2.1"), Limits::default()).await;
        for request in [
            BASE,
            "POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        ] {
            let mut client = site.connect().await;
            client.send(request).await;
            let (head, _) = client.answer().await;
            assert!(head.starts_with("http/1.1 20"), "{head}");
        }
        assert_eq!(site.n_refused(), 0);
    });
}

#[test]
fn clients_behind_a_load_balancer_have_shares_of_their_own() {
    block_on(async {
        let settings = Settings {
            connections: 64,
            load_balancers: Cidrs::parse("127.0.0.1").unwrap(),
            ..Settings::default()
        };
        let site = Site::plain(settings, Limits::default()).await;
        let mut open = Vec::new();
        // As many as one client may have, with one of another client among them.
        for number in 0..9 {
            let client = match number {
                4 => "198.51.100.8:1",
                _ => "198.51.100.7:1",
            };
            open.push(site.connect_as(client).await);
        }
        open.push(site.connect_as("198.51.100.7:2").await);
        open.remove(0).is_closed().await;
        for connection in &mut open {
            connection.send(BASE).await;
            connection.is_answered(200).await;
        }
        assert_eq!(site.n_refused(), 0);
    });
}
