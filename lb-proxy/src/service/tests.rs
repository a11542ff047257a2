//! The whole proxy on loopback.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use daemon::config::Document;
use proto::health::{AdminState, Terms};

use super::*;
use crate::config::Config;

/// Nothing takes longer than this, unless something is wrong.
const LONG: Duration = Duration::from_secs(10);

/// A server that says its name to everybody, and then what it is told.
fn server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                stream.write_all(name.as_bytes()).ok();
                let mut copy = stream.try_clone().unwrap();
                std::io::copy(&mut stream, &mut copy).ok();
            });
        }
    });
    address
}

/// A server of datagrams that answers in capitals.
fn datagram_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let answer = buffer[..length].to_ascii_uppercase();
            socket.send_to(&answer, from).ok();
        }
    });
    address
}

fn config(text: &str) -> Config {
    let text = format!(
        "version = \"v1\"\nworkers = 2\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nstate = \"/proc/nowhere\"\n{text}"
    );
    Config::from_document(&Document::inline("x", text)).unwrap()
}

/// One frontend and one backend of these servers.
fn pair(servers: &[(&str, SocketAddr)]) -> String {
    let mut text = "swap.socket = \"none\"\n[[frontend]]\nname = \"front\"\nlisten = [\"127.0.0.1:0\"]\nbackend = \"back\"\n\
         [[backend]]\nname = \"back\"\non-down = \"reset\"\ncheck = \"none\"\n"
        .to_owned();
    for (name, address) in servers {
        text.push_str(&format!(
            "[[backend.server]]\nname = \"{name}\"\naddress = \"{address}\"\n"
        ));
    }
    text
}

async fn start(text: &str) -> Proxy {
    let mut context = Context::detached("lb-proxy");
    Proxy::start(config(text), &mut context).await.unwrap()
}

fn address_of(proxy: &Proxy, frontend: &str) -> SocketAddr {
    let listening = proxy.engine.listening();
    let own = listening.iter().find(|(name, _)| &**name == frontend);
    own.unwrap().1
}

/// Connects and hears who is there; the connection stays open.
async fn connect(address: SocketAddr) -> (TcpStream, String) {
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut name = [0; 1];
        let length = stream.read(&mut name).unwrap_or(0);
        (
            stream,
            String::from_utf8_lossy(&name[..length]).into_owned(),
        )
    })
    .await
    .unwrap()
}

async fn echo(mut stream: TcpStream) -> (TcpStream, bool) {
    tokio::task::spawn_blocking(move || {
        let mut answer = [0; 4];
        let is_well = stream.write_all(b"ping").is_ok() && stream.read_exact(&mut answer).is_ok();
        (stream, is_well && answer == *b"ping")
    })
    .await
    .unwrap()
}

/// Waits until a session that says nothing is ended.
async fn until_ended(mut stream: TcpStream) {
    let read = tokio::task::spawn_blocking(move || stream.read(&mut [0; 4]));
    let read = read.await.unwrap().map_err(|error| error.kind());
    assert_eq!(read, Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn an_operator_takes_a_server_out_and_back() {
    let proxy = start(&pair(&[("a", server("A")), ("b", server("B"))])).await;
    let address = address_of(&proxy, "front");
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        seen.insert(connect(address).await.1);
    }
    assert_eq!(seen.len(), 2);
    proxy
        .builder
        .set_state("back", "a", AdminState::Drain, Terms::default())
        .unwrap();
    for _ in 0..4 {
        assert_eq!(connect(address).await.1, "B");
    }
    // Maintenance ends sessions, as `on-down` says.
    let (stream, _) = connect(address).await;
    let (stream, is_well) = echo(stream).await;
    assert!(is_well);
    proxy
        .builder
        .set_state("back", "a", AdminState::Ready, Terms::default())
        .unwrap();
    proxy
        .builder
        .set_state("back", "b", AdminState::Maintenance, Terms::default())
        .unwrap();
    until_ended(stream).await;
    assert_eq!(connect(address).await.1, "A");
    assert!(proxy.drain(Duration::from_secs(2)).await);
}

#[tokio::test]
async fn a_reload_changes_servers_and_listeners_and_touches_no_session() {
    let (a, b) = (server("A"), server("B"));
    let proxy = start(&pair(&[("a", a)])).await;
    let address = address_of(&proxy, "front");
    let (held, name) = connect(address).await;
    assert_eq!(name, "A");
    let more = format!(
        "{}[[frontend]]\nname = \"more\"\nlisten = [\"127.0.0.1:0\"]\nbackend = \"back\"\n",
        pair(&[("b", b)])
    );
    let summary = proxy.reload(config(&more)).await.unwrap();
    assert!(
        summary.starts_with("2 frontends for front more"),
        "{summary}"
    );
    assert_eq!(address_of(&proxy, "front"), address);
    assert_eq!(connect(address).await.1, "B");
    assert_eq!(connect(address_of(&proxy, "more")).await.1, "B");
    let (held, is_well) = echo(held).await;
    assert!(is_well);
    // One that cannot be listened on changes nothing.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|own| (own, taken)).unwrap();
    let bad = more.replace(
        "name = \"more\"\nlisten = [\"127.0.0.1:0\"]",
        &format!("name = \"more\"\nlisten = [\"{}\"]", taken.0),
    );
    let problems = proxy.reload(config(&bad)).await.unwrap_err();
    assert!(
        problems.to_string().contains("cannot listen on tcp"),
        "{problems}"
    );
    assert_eq!(connect(address).await.1, "B");
    assert_eq!(proxy.engine.listening().len(), 2);
    assert!(echo(held).await.1);
}

#[tokio::test]
async fn datagrams_are_balanced_over_a_reload() {
    let server = datagram_server();
    let text = |port: u16| {
        format!(
            "swap.socket = \"none\"\n[[frontend]]\nname = \"udp\"\nlisten = [\"127.0.0.1:{port}\"]\nprotocol = \"udp\"\nbackend = \"udp\"\n\
             [[backend]]\nname = \"udp\"\n[[backend.server]]\nname = \"s\"\naddress = \"{server}\"\n"
        )
    };
    let proxy = start(&text(0)).await;
    let ask = |address: SocketAddr| {
        tokio::task::spawn_blocking(move || {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            client.send_to(b"ping", address).unwrap();
            let mut answer = [0; 16];
            let (length, from) = client.recv_from(&mut answer).unwrap();
            assert_eq!(from, address);
            answer[..length].to_vec()
        })
    };
    let first = proxy.datagrams.listening("udp")[0];
    assert_eq!(ask(first).await.unwrap(), b"PING");
    // Nothing of the frontend changes: the balancer stays, with its flows.
    proxy.reload(config(&text(0))).await.unwrap();
    assert_eq!(proxy.datagrams.status()[0].flows, 1);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    proxy.reload(config(&text(port))).await.unwrap();
    let second = proxy.datagrams.listening("udp")[0];
    assert_eq!(second.port(), port);
    assert_eq!(ask(second).await.unwrap(), b"PING");
    assert!(proxy.drain(Duration::from_secs(2)).await);
}

#[tokio::test]
async fn status_and_metrics_show_what_is_there() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let servers = [("a", server("A")), ("gone", nobody)];
    let mut context = Context::detached("lb-proxy");
    let proxy = Proxy::start(config(&pair(&servers)), &mut context)
        .await
        .unwrap();
    let address = address_of(&proxy, "front");
    let (held, _) = connect(address).await;
    for _ in 0..3 {
        // Who refuses is passed over at once.
        assert_eq!(connect(address).await.1, "A");
    }
    let text = status::render(&api::Status::serving("lb-proxy", proxy.status()));
    for part in [
        &format!("frontend front on {address}: "),
        "backend back: 2 of 2 servers\n",
        " avoided for 1 s more: its last connection failed, 0 sessions, 1 in all, 1 failed connect",
        "healthd is not asked\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let metrics = context
        .metrics
        .encode(daemon::metrics::Exposition::Prometheus);
    for line in [
        "lb_proxy_server_state{backend=\"back\",server=\"a\",state=\"up\"} 1",
        "lb_proxy_server_avoided{backend=\"back\",server=\"a\"} 0",
        "haproxy_server_status{proxy=\"back\",server=\"a\",state=\"UP\"} 1",
        "haproxy_frontend_sessions_total{proxy=\"front\"} 4",
        "haproxy_backend_active_servers{proxy=\"back\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let filter = relay::Filter::all();
    let engine = Arc::clone(&proxy.engine);
    let sessions = tokio::task::spawn_blocking(move || engine.sessions(&filter))
        .await
        .unwrap();
    assert!(
        sessions
            .iter()
            .any(|session| session.client == held.local_addr().unwrap())
    );
}

#[tokio::test]
async fn a_frontend_without_a_server_is_told_of() {
    let mut context = Context::detached("lb-proxy");
    let proxy = Proxy::start(config(&pair(&[("a", server("A"))])), &mut context)
        .await
        .unwrap();
    proxy
        .builder
        .set_state("back", "a", AdminState::Maintenance, Terms::default())
        .unwrap();
    let told = || context.readiness.details();
    let deadline = clock::now() + LONG;
    while told().is_empty() && clock::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        told()[0].contains("no server may be chosen"),
        "{:?}",
        told()
    );
    assert!(context.readiness.is_ready());
    proxy
        .builder
        .set_state("back", "a", AdminState::Ready, Terms::default())
        .unwrap();
    while !told().is_empty() && clock::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(told(), [""; 0]);
}

#[tokio::test]
async fn what_a_predecessor_leaves_is_read_back() {
    let proxy = start(&pair(&[("a", server("A"))])).await;
    proxy
        .builder
        .set_weight("back", "a", Some(9), Terms::default())
        .unwrap();
    let state = swap::state(&proxy.builder.view(), &[]).unwrap();
    let mut others = vec![state];
    let left = PredecessorState::read(&mut others).unwrap();
    assert!(others.is_empty() && left.active.is_empty());
    assert_eq!(
        left.overrides[0].1.weight.as_ref().map(|it| it.value),
        Some(9)
    );
    assert!(PredecessorState::read(&mut others).is_none());
}

#[tokio::test]
async fn what_is_said_while_a_successor_starts_counts() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("swap");
    let text = pair(&[("a", server("A"))]);
    let old = start(&text).await;
    let builder = Arc::clone(&old.builder);
    let next = std::sync::atomic::AtomicU16::new(1);
    // An operator speaks before each time that the state is asked for.
    let state: State = Box::new(move || {
        let weight = next.fetch_add(1, Ordering::Relaxed);
        builder
            .set_weight("back", "a", Some(weight), Terms::default())
            .unwrap();
        swap::state(&builder.view(), &[])
    });
    let engine = Arc::clone(&old.engine);
    let flows = Box::new(old.datagrams.clone());
    let nobody_ends = Box::new(|| {});
    let others: Others = Box::new(Vec::new);
    let giver = HandoverSender::start(&socket, engine, others, state, flows, nobody_ends).unwrap();
    let swaps = format!("swap.socket = \"{}\"", socket.display());
    let new = start(&text.replace("swap.socket = \"none\"", &swaps)).await;
    let said = new.builder.view().overrides.clone();
    let weights: Vec<_> = said
        .values()
        .map(|said| said.weight.as_ref().map(|it| it.value))
        .collect();
    assert_eq!(weights, [Some(2)]);
    drop((giver, old));
    assert!(new.drain(LONG).await);
}
