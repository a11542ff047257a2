//! The whole server on loopback, with upstreams that do as they are told.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use daemon::clock::now;
use daemon::config::Document;
use dns_cache::testing::{self, addresses, counts, question, rcode, response};
use dns_resolve::resolver;
use dns_wire::{Flags, Name, Query, Rcode, Section, Type};

use super::*;
use crate::config::Config;

mod bailiwick;
mod cache_file;

/// No answer takes longer than this, unless something is wrong.
const LONG: Duration = Duration::from_secs(10);

//----------- Upstream --------------------------------------------------------

/// A query as an upstream saw it.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    from: SocketAddr,
    message: Vec<u8>,
    tcp: bool,
}

impl Seen {
    /// Whether it is a question of a client's and not a probe.
    fn is_for_a_client(&self) -> bool {
        !matches!(
            Query::parse(&self.message).unwrap().qtype,
            Type::SOA | Type::NS
        )
    }
}

type Script = Box<dyn Fn(&Seen) -> Option<Vec<u8>> + Send + Sync>;

/// A server that answers by a script, over UDP and TCP on one port.
struct Upstream {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
}

impl Upstream {
    fn start(script: Script) -> Self {
        loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = udp.local_addr().unwrap();
            // The port may be taken for TCP.
            if let Ok(tcp) = TcpListener::bind(address) {
                return Self::on(udp, tcp, script);
            }
        }
    }

    fn at(address: SocketAddr, script: Script) -> Self {
        let udp = UdpSocket::bind(address).unwrap();
        Self::on(udp, TcpListener::bind(address).unwrap(), script)
    }

    fn on(udp: UdpSocket, tcp: TcpListener, script: Script) -> Self {
        let address = udp.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let script = Arc::new(script);
        udp.set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        tcp.set_nonblocking(true).unwrap();
        let note = {
            let seen = Arc::clone(&seen);
            move |message: &[u8], from, tcp| {
                let (name, _) = Name::from_wire(&message[12..]).unwrap();
                let entry = Seen {
                    name: name.to_string().to_lowercase(),
                    from,
                    message: message.to_vec(),
                    tcp,
                };
                seen.lock().push(entry.clone());
                script(&entry)
            }
        };
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((n, from)) = udp.recv_from(&mut buffer)
                    && let Some(reply) = note(&buffer[..n], from, false)
                {
                    udp.send_to(&reply, from).unwrap();
                }
                if let Ok((mut stream, from)) = tcp.accept() {
                    stream.set_nonblocking(false).unwrap();
                    let query = read_framed(&mut stream);
                    if let Some(reply) = note(&query, from, true) {
                        write_framed(&mut stream, &reply);
                    }
                }
            }
        });
        Self {
            address,
            seen,
            stop,
        }
    }

    /// The questions of clients that came here.
    fn seen(&self) -> Vec<Seen> {
        let seen = self.seen.lock();
        seen.iter()
            .filter(|seen| seen.is_for_a_client())
            .cloned()
            .collect()
    }

    /// Closes the port.
    fn stop(self) -> SocketAddr {
        self.stop.store(true, Ordering::Relaxed);
        // The thread looks every few milliseconds.
        while UdpSocket::bind(self.address).is_err() || TcpListener::bind(self.address).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        self.address
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read_framed(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    message
}

fn write_framed(stream: &mut TcpStream, message: &[u8]) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, message].concat()).unwrap();
}

/// Answers every A question with one address that lives this long.
fn answers(address: &'static str, ttl: u32) -> Script {
    Box::new(move |seen| Some(answer(seen, address, ttl)))
}

fn answer(seen: &Seen, address: &str, ttl: u32) -> Vec<u8> {
    let row = (Section::Answer, seen.name.as_str(), Type::A, ttl, address);
    let rows = match Query::parse(&seen.message).unwrap().qtype {
        Type::A => &[row][..],
        _ => &[],
    };
    response(&seen.message, Flags::AA, Rcode::NOERROR, rows)
}

//----------- Server ----------------------------------------------------------

struct Server {
    recursor: Recursor,
    context: Context,
    address: SocketAddr,
}

/// A configuration with a port of its own and the rest as given.
fn config(rest: &str) -> Config {
    let text = format!("version = \"v1\"\nlisten = [\"127.0.0.1:0\"]\nthreads = 2\n{rest}");
    match Config::from_document(&Document::inline("test", text)) {
        Ok(config) => config,
        Err(problems) => panic!("{problems}"),
    }
}

/// One zone with these upstreams.
fn forward(zone: &str, recursive: bool, upstreams: &[&Upstream]) -> String {
    let upstreams: Vec<String> = upstreams
        .iter()
        .map(|u| format!("\"{}\"", u.address))
        .collect();
    format!(
        "[[forward]]\nzone = \"{zone}\"\nrecursive = {recursive}\nupstreams = [{}]\n",
        upstreams.join(", ")
    )
}

impl Server {
    async fn start(rest: &str) -> Self {
        let mut context = Context::detached("dns-recursor");
        // The port that is free for UDP may be taken for TCP.
        let recursor = loop {
            match Recursor::start(config(rest), &mut context).await {
                Ok(recursor) => break recursor,
                Err(error) => assert!(format!("{error:?}").contains("AddrInUse"), "{error:?}"),
            }
        };
        let address = recursor.addresses[0];
        Self {
            recursor,
            context,
            address,
        }
    }

    fn send(&self, name: &str) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let query = testing::query(7, &question(name, Type::A), Some(false));
        socket.send(&query).unwrap();
        socket
    }

    /// Asks over UDP, and waits for the answer.
    fn ask(&self, name: &str) -> Vec<u8> {
        receive(&self.send(name))
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 4096];
    let n = socket.recv(&mut buffer).unwrap();
    buffer[..n].to_vec()
}

/// Asks until the answer is this address; how long it took.
fn wait_for(server: &Server, name: &str, address: &str) -> Duration {
    let start = now();
    loop {
        if addresses(&server.ask(name)) == [address] {
            return start.elapsed();
        }
        assert!(start.elapsed() < LONG, "{name} is not {address}");
        thread::sleep(Duration::from_millis(10));
    }
}

//----------- Tests -----------------------------------------------------------

#[tokio::test]
async fn names_go_where_they_should_and_come_back() {
    let site = Upstream::start(answers("192.0.2.1", 60));
    let world = Upstream::start(answers("192.0.2.2", 60));
    let rest = forward("site.example", false, &[&site]) + &forward(".", true, &[&world]);
    let server = Server::start(&rest).await;
    let asked = server.ask("Www.Site.Example");
    assert_eq!(addresses(&asked), ["192.0.2.1"]);
    assert_eq!(counts(&asked), [1, 1, 0, 1]);
    assert!(asked[12..].starts_with(b"\x03Www\x04Site\x07Example\0"));
    assert_eq!(addresses(&server.ask("www.example")), ["192.0.2.2"]);
    let before = site.seen().len();
    assert_eq!(addresses(&server.ask("www.site.example")), ["192.0.2.1"]);
    assert_eq!(site.seen().len(), before, "from the cache");
    let rd = |upstream: &Upstream| {
        let seen = upstream.seen();
        let query = Query::parse(&seen[0].message).unwrap();
        assert_eq!(query.edns.map(|edns| edns.udp_size), Some(1232));
        query.flags.has(Flags::RD)
    };
    assert_eq!((rd(&site), rd(&world)), (false, true));
    assert!(server.recursor.drain(LONG).await);
}

#[tokio::test]
async fn queries_upstream_have_ports_ids_and_letter_case_of_their_own() {
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let server = Server::start(&forward("example", false, &[&upstream])).await;
    for n in 0..50 {
        server.ask(&format!("a-name-with-letters-{n}.example"));
    }
    let seen = upstream.seen();
    let ports: BTreeSet<u16> = seen.iter().map(|seen| seen.from.port()).collect();
    let ids: BTreeSet<[u8; 2]> = seen.iter().map(|s| [s.message[0], s.message[1]]).collect();
    let cases: BTreeSet<&[u8]> = seen.iter().map(|s| &s.message[13..30]).collect();
    assert!(ports.len() > 45 && ids.len() > 45 && cases.len() > 45);
}

#[tokio::test]
async fn a_hundred_clients_with_one_cold_name_cost_one_query() {
    let upstream = Upstream::start(Box::new(|seen| {
        thread::sleep(Duration::from_millis(50));
        Some(answer(seen, "192.0.2.1", 60))
    }));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    let clients: Vec<UdpSocket> = (0..100).map(|_| server.send("cold.example")).collect();
    for client in &clients {
        assert_eq!(addresses(&receive(client)), ["192.0.2.1"]);
    }
    // One, which is said again to an upstream that takes long.
    let n_asked = upstream.seen().len();
    assert!(n_asked <= resolver::MAX_SENDS as usize, "{n_asked}");
}

#[tokio::test]
async fn names_that_nobody_answers_for_fail_at_once() {
    let server = Server::start("").await;
    let start = now();
    let refused = server.ask("www.example");
    assert_eq!(rcode(&refused), Rcode::SERVFAIL);
    assert!(refused.ends_with(&[0, 15, 0, 2, 0, 22]));
    // Sooner than a question is given up.
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(addresses(&server.ask("localhost")), ["127.0.0.1"]);
}

#[tokio::test]
async fn a_server_with_nothing_to_forward_to_is_not_ready() {
    let server = Server::start("").await;
    assert!(!server.context.readiness.is_ready());
    let reasons = server.context.readiness.unready_reasons();
    assert!(reasons[0].contains("no zone is forwarded"), "{reasons:?}");
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let forwards = forward("example", false, &[&upstream]);
    server.recursor.reload(config(&forwards)).await.unwrap();
    assert!(server.context.readiness.is_ready());
    server.recursor.reload(config("")).await.unwrap();
    assert!(!server.context.readiness.is_ready());
}

#[tokio::test]
async fn an_upstream_that_goes_and_comes_back_does_not_show() {
    let upstream = Upstream::start(answers("192.0.2.1", 1));
    let server = Server::start(&forward("example", false, &[&upstream])).await;
    assert_eq!(addresses(&server.ask("www.example")), ["192.0.2.1"]);
    let address = upstream.stop();
    thread::sleep(Duration::from_millis(1100));
    for n in 0..50 {
        let answer = server.ask("www.example");
        assert_eq!(addresses(&answer), ["192.0.2.1"], "query {n}");
        assert!(
            answer.ends_with(&[0, 15, 0, 2, 0, 3]),
            "query {n} is not marked stale"
        );
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(rcode(&server.ask("new.example")), Rcode::SERVFAIL);
    let detail = server.context.readiness.details();
    assert_eq!(detail, ["zone example.: no upstream answers"]);
    let _back = Upstream::at(address, answers("192.0.2.2", 60));
    // Within a second by design; the rest is for a machine that is busy.
    let took = wait_for(&server, "newer.example", "192.0.2.2");
    assert!(took < Duration::from_secs(5), "{took:?}");
    wait_for(&server, "www.example", "192.0.2.2");
    assert!(server.context.readiness.details().is_empty());
}

#[tokio::test]
async fn a_silent_first_upstream_holds_up_hardly_anybody() {
    let silent = Upstream::start(Box::new(|_| None));
    let good = Upstream::start(answers("192.0.2.2", 60));
    let server = Server::start(&forward(".", true, &[&silent, &good])).await;
    let start = now();
    for n in 0..40 {
        assert_eq!(
            addresses(&server.ask(&format!("n{n}.example"))),
            ["192.0.2.2"]
        );
    }
    // Were each held up for as long as a question may take, it would be minutes.
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    assert!(silent.seen().len() < 10);
}

#[tokio::test]
async fn a_truncated_response_is_asked_for_over_tcp() {
    let upstream = Upstream::start(Box::new(|seen| match seen.tcp {
        true => {
            // Names are long: fourteen aliases are more than 3000 octets.
            let long = |n: usize| format!("{}{n}.example", "a-label-of-some-length.".repeat(10));
            let names: Vec<String> = (0..14).map(long).collect();
            let owners = [&seen.name].into_iter().chain(&names);
            let aliases = owners.clone().zip(&names);
            let mut rows: Vec<testing::Row<'_>> = aliases
                .map(|(owner, target)| (Section::Answer, &**owner, Type::CNAME, 60, &**target))
                .collect();
            rows.push((Section::Answer, &names[13], Type::A, 60, "192.0.2.3"));
            Some(response(&seen.message, 0, Rcode::NOERROR, &rows))
        }
        false => Some(response(&seen.message, Flags::TC, Rcode::NOERROR, &[])),
    }));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    // Too large for the client's datagram, so it is told to come back over TCP.
    let cut = server.ask("big.example");
    assert!(Flags::read(&cut).unwrap().has(Flags::TC));
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write_framed(
        &mut stream,
        &testing::query(9, &question("big.example", Type::A), None),
    );
    let whole = read_framed(&mut stream);
    assert_eq!(addresses(&whole), ["192.0.2.3"]);
    assert!(whole.len() > 3000);
    let over_tcp: Vec<bool> = upstream.seen().iter().map(|seen| seen.tcp).collect();
    assert!(!over_tcp[0] && over_tcp.contains(&true), "{over_tcp:?}");
}

#[tokio::test]
async fn a_connection_carries_many_queries_answered_as_they_become_ready() {
    let others_answered = Arc::new(AtomicBool::new(false));
    let may_answer = Arc::clone(&others_answered);
    let upstream = Upstream::start(Box::new(move |seen| {
        while seen.name.starts_with("slow") && !may_answer.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Some(answer(seen, "192.0.2.1", 60))
    }));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    server.ask("known.example");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let names = ["slow.example", "known.example", "localhost"];
    for (id, name) in (1..).zip(names) {
        write_framed(
            &mut stream,
            &testing::query(id, &question(name, Type::A), None),
        );
    }
    let mut next = || read_framed(&mut stream)[1];
    assert_eq!([next(), next()], [2, 3]);
    others_answered.store(true, Ordering::Relaxed);
    assert_eq!(next(), 1);
    // A burst in pieces, then the client closes its half: everything is answered still.
    let burst: Vec<u8> = (0..300_u16)
        .flat_map(|id| {
            let query = testing::query(id, &question(&format!("n{id}.example"), Type::A), None);
            let length = u16::try_from(query.len()).unwrap().to_be_bytes();
            [&length[..], &query].concat()
        })
        .collect();
    for piece in burst.chunks(777) {
        stream.write_all(piece).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answered: BTreeSet<u16> = (0..300)
        .map(|_| {
            let answer = read_framed(&mut stream);
            assert_eq!(addresses(&answer), ["192.0.2.1"]);
            u16::from_be_bytes([answer[0], answer[1]])
        })
        .collect();
    assert_eq!(answered.len(), 300);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn many_queries_at_once_for_a_long_answer_are_all_answered() {
    let upstream = Upstream::start(Box::new(|seen| {
        let text = "x".repeat(3000);
        let row = (
            Section::Answer,
            seen.name.as_str(),
            Type::TXT,
            60,
            text.as_str(),
        );
        Some(match seen.tcp {
            true => response(&seen.message, 0, Rcode::NOERROR, &[row]),
            false => response(&seen.message, Flags::TC, Rcode::NOERROR, &[]),
        })
    }));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    let query = testing::query(9, &question("big.example", Type::TXT), None);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write_framed(&mut stream, &query);
    let length = read_framed(&mut stream).len();
    assert!(length > 3000);
    let framed = [
        &u16::try_from(query.len()).unwrap().to_be_bytes()[..],
        &query,
    ]
    .concat();
    stream.write_all(&framed.repeat(500)).unwrap();
    for n in 0..500 {
        assert_eq!(read_framed(&mut stream).len(), length, "{n}");
    }
}

#[tokio::test]
async fn queries_over_tls_are_answered_and_a_reload_shows_the_new_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| directory.path().join(name));
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    };
    let first = renew();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let rest = format!("[tls]\nlisten = [\"{address}\"]\ncertificate = {chain:?}\nkey = {key:?}\n");
    let server = Server::start(&rest).await;
    assert_eq!(
        addresses(&ask_tls(address, &first, "localhost")),
        ["127.0.0.1"]
    );
    let second = renew();
    server.recursor.reload(config(&rest)).await.unwrap();
    assert_eq!(
        addresses(&ask_tls(address, &second, "localhost")),
        ["127.0.0.1"]
    );
    // It is taken up without being told, too.
    let third = renew();
    let mut n_tries = 0;
    while try_tls(address, &third, "localhost").is_err() {
        n_tries += 1;
        assert!(n_tries < 2000, "still the old one");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = third;
    // A certificate that cannot be read leaves the one before in use, and is told.
    std::fs::write(&chain, "nonsense").unwrap();
    let problems = server.recursor.reload(config(&rest)).await.unwrap_err();
    assert!(problems.to_string().contains("chain.pem"), "{problems}");
    assert_eq!(
        addresses(&ask_tls(address, &second, "localhost")),
        ["127.0.0.1"]
    );
}

/// Asks over TLS a server that shows just this certificate.
fn ask_tls(
    address: SocketAddr,
    certificate: &rustls::pki_types::CertificateDer<'static>,
    name: &str,
) -> Vec<u8> {
    try_tls(address, certificate, name).unwrap()
}

#[expect(
    clippy::unwrap_in_result,
    reason = "only what the server does is a result"
)]
fn try_tls(
    address: SocketAddr,
    certificate: &rustls::pki_types::CertificateDer<'static>,
    name: &str,
) -> std::io::Result<Vec<u8>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"dot".to_vec()];
    let server = rustls::pki_types::ServerName::try_from("dns.example").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(tls), server).unwrap();
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let query = testing::query(1, &question(name, Type::A), None);
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[tokio::test]
async fn connections_are_bounded() {
    let server = Server::start("[tcp]\nper-client = 3\nidle = \"2s\"\n").await;
    let mut open: Vec<TcpStream> = (0..5)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let mut n_served = 0;
    for stream in &mut open {
        stream.set_read_timeout(Some(LONG)).unwrap();
        // The place may be refused before or after the query is taken by the kernel.
        let query = testing::query(1, &question("localhost", Type::A), None);
        let length = u16::try_from(query.len()).unwrap().to_be_bytes();
        if stream.write_all(&[&length[..], &query].concat()).is_ok()
            && stream.read_exact(&mut [0; 2]).is_ok()
        {
            n_served += 1;
        }
    }
    // One that was answered is idle, and gives way to one that the server takes later.
    assert!(n_served >= 3, "{n_served}");
    assert!(server.recursor.connections.tcp.open() <= 3);
    // Those that say nothing more are closed.
    let mut rest = Vec::new();
    let [first, ..] = &mut open[..] else {
        panic!("no connection");
    };
    first.read_to_end(&mut rest).unwrap();
}

#[tokio::test]
async fn strangers_take_no_places_from_those_who_may_ask() {
    let closed = "allow-from = [\"127.0.0.2\"]\nnotify-from = []\n";
    let server = Server::start(&format!("{closed}[tcp]\nconnections = 2\n")).await;
    let query = testing::query(1, &question("localhost", Type::A), None);
    let strangers: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    // Who may ask has a place whoever else is there, and may ask again.
    let mut guest = connect_from([127, 0, 0, 2], server.address).await;
    for _ in 0..2 {
        write_framed(&mut guest, &query);
        assert_eq!(addresses(&read_framed(&mut guest)), ["127.0.0.1"]);
    }
    // A stranger is told, and the connection ends. It may have been the end of those that came before.
    let mut last = strangers.into_iter().next_back().unwrap();
    last.set_read_timeout(Some(LONG)).unwrap();
    write_framed(&mut last, &query);
    assert_eq!(rcode(&read_framed(&mut last)), Rcode::REFUSED);
    assert_eq!(last.read(&mut [0]).unwrap(), 0);
    // Or is told nothing.
    let ignoring = config(&format!("outsiders = \"ignore\"\n{closed}"));
    server.recursor.reload(ignoring).await.unwrap();
    let mut stranger = TcpStream::connect(server.address).unwrap();
    stranger.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(stranger.read(&mut [0]).unwrap(), 0);
}

/// A connection from another address of loopback.
async fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    let stream = socket.connect(to).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

#[tokio::test]
async fn a_reload_keeps_the_cache_but_for_zones_that_go_elsewhere() {
    let one = Upstream::start(answers("192.0.2.1", 600));
    let two = Upstream::start(answers("192.0.2.2", 600));
    let server = Server::start(&forward(".", true, &[&one])).await;
    for name in ["a.site.example", "a.example"] {
        assert_eq!(addresses(&server.ask(name)), ["192.0.2.1"]);
    }
    let n_asked = one.seen().len();
    let rest = forward(".", true, &[&one]) + &forward("site.example", false, &[&two]);
    let summary = server.recursor.reload(config(&rest)).await.unwrap();
    assert!(summary.ends_with("1 cached answers dropped"), "{summary}");
    assert_eq!(addresses(&server.ask("a.site.example")), ["192.0.2.2"]);
    assert_eq!(addresses(&server.ask("a.example")), ["192.0.2.1"]);
    assert_eq!(one.seen().len(), n_asked);
    // Who may ask is taken up as well.
    let closed = format!("allow-from = [\"192.0.2.0/24\"]\n{rest}");
    server.recursor.reload(config(&closed)).await.unwrap();
    let refused = wait_for_rcode(&server, "a.example", Rcode::REFUSED);
    assert!(refused.ends_with(&[0, 15, 0, 2, 0, 18]));
}

fn wait_for_rcode(server: &Server, name: &str, expected: Rcode) -> Vec<u8> {
    let start = now();
    loop {
        let answer = server.ask(name);
        if rcode(&answer) == expected {
            return answer;
        }
        assert!(start.elapsed() < LONG);
    }
}

#[tokio::test]
async fn draining_answers_those_who_wait() {
    let upstream = Upstream::start(Box::new(|seen| {
        thread::sleep(Duration::from_millis(300));
        Some(answer(seen, "192.0.2.1", 60))
    }));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    let client = server.send("slow.example");
    while upstream.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(server.recursor.drain(LONG).await);
    assert_eq!(addresses(&receive(&client)), ["192.0.2.1"]);
}

#[tokio::test]
async fn draining_answers_a_query_that_is_still_on_its_way() {
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let server = Server::start(&forward(".", true, &[&upstream])).await;
    let query = testing::query(7, &question("www.example", Type::A), Some(false));
    let mut connection = TcpStream::connect(server.address).unwrap();
    let (stops, stopping) = std::sync::mpsc::channel();
    let client = thread::spawn(move || {
        stopping.recv().unwrap();
        // The server is told to stop in this time; were it not, the query would come before, and be answered.
        thread::sleep(Duration::from_millis(50));
        write_framed(&mut connection, &query);
        let answer = read_framed(&mut connection);
        let mut rest = Vec::new();
        (answer, connection.read_to_end(&mut rest).unwrap())
    });
    let connections = &server.recursor.connections.tcp;
    while connections.open() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stops.send(()).unwrap();
    assert!(server.recursor.drain(LONG).await);
    let (answer, n_more) = client.join().unwrap();
    assert_eq!(
        (addresses(&answer), n_more),
        (vec!["192.0.2.1".to_owned()], 0)
    );
}

#[tokio::test]
async fn a_server_that_would_ask_itself_does_not_start() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    let text = format!(
        "version = \"v1\"\nlisten = [\"0.0.0.0:{port}\"]\n\
         [[forward]]\nzone = \".\"\nupstreams = [\"127.0.0.2:{port}\"]"
    );
    // A wildcard and any loopback address are caught as the file is read.
    let problems = Config::from_document(&Document::inline("x", text)).unwrap_err();
    assert!(problems.to_string().contains("this server itself"));
}

#[test]
fn of_the_usual_listeners_those_are_opened_that_the_kernel_has() {
    // A kernel without IPv6.
    let open = |listen: &[SocketAddr]| match listen.iter().find(|address| address.is_ipv6()) {
        None => Ok(listen.to_vec()),
        Some(address) => Err(ListenError {
            transport: listen::Transport::Udp,
            address: *address,
            owner: None,
            source: Errno::AFNOSUPPORT.into(),
        }),
    };
    let opened = open_what_there_is(&LISTEN, open).unwrap();
    assert_eq!(opened, LISTEN[..1]);
    let chosen = ["[::1]:53".parse().unwrap()];
    assert!(open_what_there_is(&chosen, open).is_err());
}

#[tokio::test]
async fn what_is_going_on_is_told() {
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let server = Server::start(&forward("example", false, &[&upstream])).await;
    for _ in 0..3 {
        server.ask("www.example");
    }
    let exposition = daemon::metrics::Exposition::Prometheus;
    let page = server.context.metrics.encode(exposition);
    for line in [
        "coredns_dns_responses_total{server=",
        "plugin=\"cache\"} 2",
        "plugin=\"forward\"} 1",
        "coredns_panics_total 0",
        "coredns_cache_hits_total{",
        "dns_recursor_udp_received_datagrams_total ",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    let status = server.recursor.status();
    assert_eq!(status.queries, 3);
    assert_eq!(status.answers.cache, 2);
    assert_eq!(status.zones[0].zone, "example.");
    assert_eq!(status.cache.positive, 1);
}
