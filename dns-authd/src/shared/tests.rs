//! Answers over TLS, certificates that change, connections that are too many, and queries one behind the
//! other.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use ::config::dns_authd::Tcp;
use daemon::connections::{Class, Opening, Source};
use daemon::latest::Latest;
use daemon::tls::{CertificateFiles, Certificates};
use dns_answer::Snapshot;
use dns_answer::live::{LiveAnswer, LiveSets};
use dns_answer::table::{Origin, Served, Table};
use dns_answer::testing::{query, records, snapshot};
use dns_serve::{MAX_QUERY, Protocol, converse, serve};
use dns_wire::Type;
use dns_wire::hash::Seed;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::access::Access;
use crate::metrics::Totals;
use crate::secondary::Notified;
use crate::updates::Updates;
use dns_primary::histories::Histories;

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

    fn read(&self) -> Certificates {
        Certificates::read(&[CertificateFiles::new(self.chain(), self.key())]).unwrap()
    }
}

async fn connect(
    address: SocketAddr,
    root: &Files,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
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
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("ns.example").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

fn transfers() -> Transfers {
    Transfers::new(
        &::config::dns_authd::Transfers::default(),
        Histories::default(),
        Arc::default(),
    )
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

/// A server without zones, which refuses every query, over TLS.
async fn start(certificates: &Certificates, limits: Tcp) -> SocketAddr {
    let cell = Latest::new(Snapshot {
        table: Table::new(Seed(1), &[]),
        views: dns_answer::ViewTables::default(),
        settings: dns_answer::Settings::default(),
    });
    let access = Latest::new(Access::default());
    let shared = Shared::new(
        cell,
        (limits, transfers(), Notified::nowhere(), Updates::nowhere()),
        Duration::ZERO,
        access,
        Totals::default(),
    );
    let config = certificates.server_config(&[b"dot"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        serve(listener, Protocol::Tls(acceptor), shared, stopped).await;
        drop(stop);
    });
    address
}

fn assert_refused(reply: &[u8]) {
    assert_eq!(&reply[..2], b"\x12\x34");
    assert_eq!(reply[3] & 15, 5, "{reply:?}");
}

#[tokio::test]
async fn answers_come_over_tls_and_the_certificate_is_renewed_in_place() {
    let files = Files::new();
    let certificates = files.read();
    let address = start(&certificates, Tcp::default()).await;
    let mut first = connect(address, &files).await.unwrap();
    assert_refused(&exchange(&mut first, QUERY).await);

    files.renew();
    assert!(
        connect(address, &files).await.is_err(),
        "the old certificate is still shown"
    );
    certificates.reload();
    let mut second = connect(address, &files).await.unwrap();
    assert_refused(&exchange(&mut second, QUERY).await);
    assert_refused(&exchange(&mut first, QUERY).await);
}

#[tokio::test]
async fn connections_over_tls_have_the_bounds_of_those_over_tcp() {
    let files = Files::new();
    let limits = Tcp {
        connections: 2,
        per_client: 1,
        ..Tcp::default()
    };
    let address = start(&files.read(), limits).await;
    // One that never shakes hands has the place, until the next needs it. An idle one as well.
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut first = connect(address, &files).await.unwrap();
    assert!(matches!(silent.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    assert_refused(&exchange(&mut first, QUERY).await);
    let mut second = connect(address, &files).await.unwrap();
    assert!(matches!(first.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    assert_refused(&exchange(&mut second, QUERY).await);
}

//--- Pipelining

/// What connections to a server share that has one zone, in which queries for the live set wait this long.
fn waiting(hold: Duration, idle: Duration) -> (Arc<Shared>, Arc<Latest<Access>>) {
    let text = "example. 60 SOA a. b. 7 2 3 4 5\nlive.example. 60 LUA A ifportup()\n";
    let plain = snapshot("example.", &records(text));
    let served = plain.table.zones().get(0).unwrap();
    let live = LiveAnswer {
        hold: true,
        ..LiveAnswer::default()
    };
    let served = Served {
        apex: served.apex.clone(),
        zone: served.zone.clone(),
        parts: None,
        live: Arc::new(LiveSets::new(vec![live], None)),
        origin: Origin::Configured,
        view: None,
        access: None,
    };
    let cell = Latest::new(Snapshot {
        table: plain.table.replace([Arc::new(served)]),
        views: dns_answer::ViewTables::default(),
        settings: plain.settings,
    });
    let limits = Tcp {
        idle: ::config::HumanDuration(idle),
        ..Tcp::default()
    };
    let access = Latest::new(Access::default());
    let totals = Totals::default();
    let shared = Shared::new(
        cell,
        (limits, transfers(), Notified::nowhere(), Updates::nowhere()),
        hold,
        Arc::clone(&access),
        totals,
    );
    (shared, access)
}

/// A server over TCP of these; it stops when it is told to.
async fn listen(shared: Arc<Shared>) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, Protocol::Plain, shared, stopped));
    (address, stop)
}

/// A server in which queries wait, but for no time at all.
async fn start_waiting() -> (SocketAddr, watch::Sender<bool>) {
    let (shared, _) = waiting(Duration::ZERO, Duration::from_secs(60));
    listen(shared).await
}

/// So many queries that wait, each with its number, one behind the other.
fn pipelined(n: u16) -> Vec<u8> {
    let mut frames = Vec::new();
    for id in 0..n {
        let mut message = query(&"live.example.".parse().unwrap(), Type::A);
        message[..2].copy_from_slice(&id.to_be_bytes());
        frames.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
        frames.extend(message);
    }
    frames
}

/// Reads so many answers; gives their numbers, in order.
async fn answered(stream: &mut TcpStream, n: u16) -> Vec<u16> {
    let mut numbers = Vec::new();
    for _ in 0..n {
        let length = stream.read_u16().await.unwrap();
        let mut reply = vec![0; usize::from(length)];
        stream.read_exact(&mut reply).await.unwrap();
        numbers.push(u16::from_be_bytes([reply[0], reply[1]]));
    }
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn more_queries_than_may_wait_are_all_answered() {
    let (address, _stop) = start_waiting().await;
    let n = 3 * u16::try_from(Tcp::default().pipeline).unwrap() + 1;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&pipelined(n)).await.unwrap();
    assert_eq!(answered(&mut stream, n).await, Vec::from_iter(0..n));
    // Also those of a client that asks no more.
    stream.write_all(&pipelined(n)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(answered(&mut stream, n).await, Vec::from_iter(0..n));
    assert_eq!(stream.read_u8().await.ok(), None);
}

#[tokio::test]
async fn what_was_asked_before_noise_is_answered() {
    let (address, _stop) = start_waiting().await;
    let too_long = u16::try_from(MAX_QUERY + 1).unwrap().to_be_bytes();
    for noise in [&[0, 0], &too_long, &b"\0\x03GET"[..]] {
        let mut frames = pipelined(3);
        frames.extend_from_slice(noise);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&frames).await.unwrap();
        assert_eq!(answered(&mut stream, 3).await, [0, 1, 2], "{noise:?}");
        assert_eq!(stream.read_u8().await.ok(), None);
    }
}

#[tokio::test]
async fn queries_that_wait_when_the_connection_has_had_its_time_are_answered() {
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(60));
    // What ends the time is idleness, or the server, which is told to stop.
    for (hold, idle) in [(5 * short, short), (2 * LAST, long)] {
        let (shared, _) = waiting(hold, idle);
        let (address, stop) = listen(Arc::clone(&shared)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&pipelined(3)).await.unwrap();
        while shared.counters().tcp.open() == 0 {
            tokio::time::sleep(POLL).await;
        }
        if idle == long {
            stop.send_replace(true);
        }
        assert_eq!(answered(&mut stream, 3).await, [0, 1, 2], "{idle:?}");
        assert_eq!(stream.read_u8().await.ok(), None);
    }
}

//--- Who may ask

#[tokio::test]
async fn who_may_ask_no_more_is_refused_on_a_connection_of_before() {
    let (shared, access) = waiting(Duration::ZERO, Duration::from_secs(60));
    // The node itself may always ask.
    let peer = "192.0.2.7:5353".parse().unwrap();
    let from = dns_serve::Client {
        peer,
        local: None,
        transport: dns_serve::Transport::Tcp,
    };
    let (mut client, server) = tokio::io::duplex(MAX_QUERY);
    let (_stop, stopped) = watch::channel(false);
    let connections = &shared.counters().tcp;
    let source = Source::Address(peer.ip());
    let place = connections.admit(source, Class::Other, Opening::Request);
    let place = place.unwrap();
    tokio::spawn(async move { converse(server, &place, from, false, shared, stopped).await });
    let query = query(&"example.".parse().unwrap(), Type::SOA);
    let rcode = |reply: Vec<u8>| reply[3] & 15;
    assert_eq!(rcode(exchange(&mut client, &query).await), 0);
    access.publish(Access {
        ask: Some("198.51.100.0/24".parse().unwrap()),
        ..Access::default()
    });
    assert_eq!(rcode(exchange(&mut client, &query).await), 5);
    access.publish(Access::default());
    assert_eq!(rcode(exchange(&mut client, &query).await), 0);
}

//--- Transfers

/// A frame around a query for a name of the zone.
fn frame(name: &str, rtype: Type) -> Vec<u8> {
    let message = query(&name.parse().unwrap(), rtype);
    let mut frame = u16::try_from(message.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(message);
    frame
}

/// Reads one message, and counts its answers.
async fn count(stream: &mut TcpStream) -> u16 {
    let length = stream.read_u16().await.unwrap();
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await.unwrap();
    u16::from_be_bytes([reply[6], reply[7]])
}

#[tokio::test]
async fn other_clients_are_answered_while_a_zone_is_transferred_at_its_pace() {
    const RECORDS: usize = 20_000;
    let mut text = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n".to_owned();
    for number in 0..RECORDS {
        text.push_str(&format!("n{number}.example. 60 TXT \"{number}\"\n"));
    }
    let plain = snapshot("example.", &records(&text));
    let cell = Latest::new(Snapshot {
        table: plain.table,
        views: dns_answer::ViewTables::default(),
        settings: plain.settings,
    });
    let access = Latest::new(Access {
        transfer: dns_views::Clients {
            networks: "127.0.0.0/8".parse().unwrap(),
            keys: Vec::new(),
        },
        ..Access::default()
    });
    // Half a mebibyte takes a second.
    let limits = ::config::dns_authd::Transfers {
        at_once: ::config::Whole::clamped(1),
        rate: ::config::ByteSize(512 << 10),
        ..Default::default()
    };
    let transfers = Transfers::new(&limits, Histories::default(), Arc::default());
    let bounds = (
        Tcp::default(),
        transfers,
        Notified::nowhere(),
        Updates::nowhere(),
    );
    let shared = Shared::new(cell, bounds, Duration::ZERO, access, Totals::default());
    let (address, _stop) = listen(shared).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first
        .write_all(&frame("example.", Type::AXFR))
        .await
        .unwrap();
    let mut n_records = usize::from(count(&mut first).await);
    let mut second = TcpStream::connect(address).await.unwrap();
    for number in 0..20 {
        let asked = frame(&format!("n{number}.example."), Type::TXT);
        second.write_all(&asked).await.unwrap();
        assert_eq!(count(&mut second).await, 1);
    }
    // The transfer is still under way: another one has to come later.
    let asked = frame("example.", Type::AXFR);
    second.write_all(&asked).await.unwrap();
    assert_eq!(count(&mut second).await, 0);
    while n_records < RECORDS + 3 {
        n_records += usize::from(count(&mut first).await);
    }
    assert_eq!(n_records, RECORDS + 3);
    // The place is free again, and so is the connection for its next query.
    first
        .write_all(&frame("n1.example.", Type::TXT))
        .await
        .unwrap();
    assert_eq!(count(&mut first).await, 1);
}
