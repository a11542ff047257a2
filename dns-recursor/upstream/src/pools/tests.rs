//! Queries over every transport, to servers of this project and to ones that misbehave.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use daemon::connections::Connections;
use dns_resolve::forward::Protocol;
use dns_serve::{
    Admission, Answer, Client, Counters, DOQ, DOT, HTTPS_PROTOCOLS, Limits, Listeners, Replies,
    Service, Site, Streams,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::server::Settings;
use tls_trust::{Pin, Trust};

/// A server that answers every query with the same message.
struct Echo {
    limits: Limits,
    counters: Counters,
}

impl Service for Echo {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn admit(&self, _: IpAddr, connections: &Arc<Connections>) -> Option<Admission> {
        Some(Admission {
            connections: Arc::clone(connections),
            is_refusal: false,
        })
    }

    fn answer(
        self: &Arc<Self>,
        message: &[u8],
        _: &Client,
        _: &mpsc::Sender<Vec<u8>>,
        replies: &mut Replies,
    ) -> Answer {
        replies.push(message);
        Answer::Now
    }
}

/// The certificate of a server, and its TLS.
struct Identity {
    root: CertificateDer<'static>,
    key: Vec<u8>,
    pin: Pin,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        let root = CertificateDer::from(made.cert);
        let parsed = rustls::server::ParsedCertificate::try_from(&root).unwrap();
        let key = parsed.subject_public_key_info();
        let digest = ring::digest::digest(&ring::digest::SHA256, key.as_ref());
        Self {
            pin: digest.as_ref().try_into().unwrap(),
            key: made.signing_key.serialize_der(),
            root,
        }
    }

    fn server(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.root.clone()], key.into())
            .unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(tls)
    }

    fn authorities(&self) -> Trust {
        Trust::Authorities(vec![self.root.clone()], Vec::new())
    }
}

/// Starts a server of this project; gives its address.
fn start(protocol: Protocol, identity: &Identity, idle: Duration) -> (Streams, SocketAddr) {
    let long = Duration::from_secs(10);
    let limits = Limits {
        connections: 16,
        per_client: 16,
        pipeline: 8,
        idle,
        quic_idle: idle,
        handshake: long,
        write: long,
        last: Duration::ZERO,
        answer: long,
    };
    let here = (Ipv4Addr::LOCALHOST, 0);
    let mut listeners = Listeners::default();
    let address = match protocol {
        Protocol::Quic => {
            let socket = UdpSocket::bind(here).unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            listeners.quic.push((socket, identity.server(&[DOQ])));
            address
        }
        protocol => {
            let listener = TcpListener::bind(here).unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            let spoken = match protocol {
                Protocol::Tls => dns_serve::Protocol::Tls(identity.server(&[DOT]).into()),
                Protocol::Https => dns_serve::Protocol::Https(Site {
                    tls: identity.server(&HTTPS_PROTOCOLS).into(),
                    path: "/dns-query".into(),
                }),
                _ => dns_serve::Protocol::Plain,
            };
            listeners.tcp.push((listener, spoken));
            address
        }
    };
    let service = Arc::new(Echo {
        limits,
        counters: Counters::new(&limits),
    });
    (Streams::start("echo", listeners, service).unwrap(), address)
}

/// Pools with one server.
struct Bench {
    pools: Pools<Report>,
    reports: mpsc::Receiver<Report>,
    place: Place,
    n: u64,
}

fn bench(address: SocketAddr, protocol: Protocol, trust: Trust) -> Bench {
    let (events, reports) = mpsc::channel(64);
    let mut bench = Bench {
        pools: Pools::new(events),
        reports,
        place: (address, protocol),
        n: 0,
    };
    bench.adopt(trust);
    bench
}

impl Bench {
    fn adopt(&mut self, trust: Trust) {
        let (address, protocol) = self.place;
        let server = Server::new(Settings {
            address,
            protocol,
            source: None,
            name: Some("dns.example".to_owned()),
            trust,
            path: "/dns-query".to_owned(),
        });
        let servers = [(self.place, Arc::new(server.unwrap()))];
        self.pools.adopt(&servers.into_iter().collect());
    }

    fn ask(&mut self, id: u16) -> ExchangeId {
        self.n += 1;
        let exchange = ExchangeId(self.n);
        let message = [&id.to_be_bytes()[..], &[1; 30]].concat();
        self.pools
            .ask(self.place, exchange, message, Instant::START);
        exchange
    }

    /// The outcomes of this many queries.
    async fn outcomes(&mut self, n: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < n {
            match self.pools.next_outcome() {
                Some(outcome) => outcomes.push(outcome),
                None => {
                    let report = self.reports.recv().await.unwrap();
                    self.pools.arrived(report, Instant::START);
                }
            }
        }
        outcomes
    }

    async fn lost(&mut self) -> Option<Loss> {
        self.ask(7);
        match self.outcomes(1).await.pop() {
            Some(Outcome::Lost(_, loss)) => Some(loss),
            _ => None,
        }
    }
}

fn is_response(outcome: &Outcome, expected: ExchangeId, id: u16) -> bool {
    match outcome {
        Outcome::Received(exchange, message) => {
            *exchange == expected
                && message.first_chunk() == Some(&id.to_be_bytes())
                && message.get(2..) == Some(&[1; 30])
        }
        Outcome::Lost(..) => false,
    }
}

const ALL: [Protocol; 4] = [
    Protocol::Tcp,
    Protocol::Tls,
    Protocol::Https,
    Protocol::Quic,
];
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn many_queries_share_a_connection_over_every_transport() {
    let identity = Identity::new();
    for protocol in ALL {
        let (_server, address) = start(protocol, &identity, LONG);
        let mut bench = bench(address, protocol, identity.authorities());
        // The same id for all of them.
        let mut asked: Vec<ExchangeId> = (0..50).map(|_| bench.ask(7)).collect();
        let mut outcomes = bench.outcomes(50).await;
        outcomes.sort_by_key(|outcome| match outcome {
            Outcome::Received(exchange, _) | Outcome::Lost(exchange, _) => *exchange,
        });
        for (outcome, exchange) in outcomes.iter().zip(asked.drain(..)) {
            assert!(
                is_response(outcome, exchange, 7),
                "{protocol:?}: {outcome:?}"
            );
        }
        assert_eq!(bench.pools.n_connections(bench.place), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_server_has_to_prove_who_it_is() {
    let (identity, other) = (Identity::new(), Identity::new());
    let authorities = vec![identity.root.clone()];
    let cases = [
        (identity.authorities(), None),
        (Trust::Anyone, None),
        (Trust::Pins(vec![other.pin, identity.pin]), None),
        (
            Trust::Authorities(authorities.clone(), vec![identity.pin]),
            None,
        ),
        (
            Trust::Authorities(authorities, vec![other.pin]),
            Some(Loss::Untrusted),
        ),
        (other.authorities(), Some(Loss::Untrusted)),
        (Trust::Pins(vec![other.pin]), Some(Loss::Untrusted)),
    ];
    for protocol in [Protocol::Tls, Protocol::Https, Protocol::Quic] {
        let (_server, address) = start(protocol, &identity, LONG);
        for (trust, expected) in &cases {
            let mut bench = bench(address, protocol, trust.clone());
            assert_eq!(bench.lost().await, *expected, "{protocol:?}: {trust:?}");
        }
    }
}

#[tokio::test]
async fn other_settings_count_from_the_next_query_on() {
    let (identity, other) = (Identity::new(), Identity::new());
    let (_server, address) = start(Protocol::Tls, &identity, LONG);
    let mut bench = bench(address, Protocol::Tls, identity.authorities());
    assert_eq!(bench.lost().await, None);
    bench.adopt(other.authorities());
    assert_eq!(bench.lost().await, Some(Loss::Untrusted));
    bench.adopt(identity.authorities());
    assert_eq!(bench.lost().await, None);
    bench.pools.adopt(&BTreeMap::new());
    assert!(!bench.pools.has(bench.place));
    assert_eq!(bench.lost().await, Some(Loss::Broken));
}

#[tokio::test]
async fn a_closed_port_is_known_at_once() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for protocol in [Protocol::Tcp, Protocol::Tls, Protocol::Https] {
        let mut bench = bench(address, protocol, Trust::Anyone);
        assert_eq!(bench.lost().await, Some(Loss::Refused), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_loses_no_query() {
    let identity = Identity::new();
    for protocol in ALL {
        let (_server, address) = start(protocol, &identity, Duration::from_millis(20));
        let mut bench = bench(address, protocol, identity.authorities());
        for n in 0..8 {
            let exchange = bench.ask(n);
            let outcomes = bench.outcomes(1).await;
            assert!(
                is_response(&outcomes[0], exchange, n),
                "{protocol:?}: {outcomes:?}"
            );
            // The connection is closed meanwhile, or at the same moment.
            tokio::time::sleep(Duration::from_millis(u64::from(n) * 8)).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_a_connection_after_each_response_loses_no_query() {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let n_connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let length = stream.read_u16().await.unwrap();
            let mut message = vec![0; length.into()];
            stream.read_exact(&mut message).await.unwrap();
            stream.write_u16(length).await.unwrap();
            stream.write_all(&message).await.unwrap();
        }
    });
    let mut bench = bench(address, Protocol::Tcp, Trust::Anyone);
    for n in 0..5 {
        let exchange = bench.ask(n);
        let outcomes = bench.outcomes(1).await;
        assert!(is_response(&outcomes[0], exchange, n), "{outcomes:?}");
    }
    assert_eq!(n_connections.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn an_http_error_is_a_lost_query_and_the_connection_goes_on() {
    let identity = Identity::new();
    let (_server, address) = start(Protocol::Https, &identity, LONG);
    let mut bench = bench(address, Protocol::Https, identity.authorities());
    assert_eq!(bench.lost().await, None);
    let server = Server::new(Settings {
        address,
        protocol: Protocol::Https,
        source: None,
        name: Some("dns.example".to_owned()),
        trust: identity.authorities(),
        path: "/elsewhere".to_owned(),
    });
    let servers = [(bench.place, Arc::new(server.unwrap()))];
    bench.pools.adopt(&servers.into_iter().collect());
    assert_eq!(bench.lost().await, Some(Loss::Broken));
    assert_eq!(bench.lost().await, Some(Loss::Broken));
    assert_eq!(bench.pools.n_connections(bench.place), 1);
}
