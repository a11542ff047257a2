//! Bytes that are still on their way when a session would end: slow readers, readers that pause, and dead ones.

use std::io::Read as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, haproxy_pair, pair};
use tests::netns::Network;
use tests::scratch::{Scratch, at, loopback};
use tests::stream::{End, PATIENCE, Pattern, Server, connect, end, receive, send};
use tests::wait;

/// More than a client's kernel takes that is not asked to, and less than both kernels do.
const ANSWER: u64 = 300_000;

/// More than all buffers between the two ends.
const DOWNLOAD: u64 = 24 << 20;

/// Longer than `user-timeout` in these tests.
const PAUSE: Duration = Duration::from_secs(6);

/// What a proxy is configured with besides its servers.
struct Settings<'a> {
    haproxy: [&'a str; 2],
    front: &'a str,
    back: &'a str,
}

/// HAProxy first, so that nothing is demanded that it does not do.
fn beside(settings: &Settings<'_>, server: SocketAddr, check: impl Fn(SocketAddr, &str)) {
    let place = Place::new();
    let [front, back] = settings.haproxy;
    let haproxy = place.start_haproxy(&haproxy_pair(&place, front, back, "", &[server]));
    check(place.front(), "HAProxy");
    drop(haproxy);
    let place = Place::new();
    let lb = place.start(&pair(&place, settings.front, settings.back, &[server]));
    check(place.front(), "lb-proxy");
    lb.stop();
}

/// Reads a piece every tenth of a second: 100 kB/s.
fn read_slowly(mut stream: &TcpStream, seed: u64, length: u64) -> Result<(), String> {
    let mut pattern = Pattern::new(seed);
    let mut piece = vec![0; 10_000];
    for _ in 0..length / 10_000 {
        std::thread::sleep(Duration::from_millis(100));
        stream
            .read_exact(&mut piece)
            .map_err(|error| error.to_string())?;
        pattern.check(&piece)?;
    }
    Ok(())
}

#[test]
fn a_slow_reader_gets_all_that_a_server_sent_before_it_closed() {
    let server = Server::start(at(loopback(), FRONT), |stream| {
        drop(send(stream, 1, ANSWER, 65536));
    });
    // The time that OpenShift's own haproxy.cfg has.
    let settings = Settings {
        haproxy: ["\n timeout client-fin 1s", ""],
        front: "",
        back: "client-fin = \"1s\"",
    };
    beside(&settings, server.address(), |front, name| {
        let stream = connect(front);
        assert_eq!(read_slowly(&stream, 1, ANSWER), Ok(()), "{name}");
        assert_eq!(end(&stream), End::Closed(0), "{name}");
    });
}

#[test]
fn a_slow_reader_is_not_idle() {
    let server = Server::start(at(loopback(), FRONT), |stream| {
        drop(send(stream, 2, ANSWER, 65536));
        // It stays open: the proxy is the one who ends the session.
        end(stream);
    });
    let settings = Settings {
        haproxy: ["\n timeout client 1s", " timeout server 1s\n"],
        front: "",
        back: "idle-timeout = \"1s\"",
    };
    beside(&settings, server.address(), |front, name| {
        let stream = connect(front);
        assert_eq!(read_slowly(&stream, 2, ANSWER), Ok(()), "{name}");
        assert_eq!(end(&stream), End::Closed(0), "{name}");
    });
}

#[test]
fn a_client_that_pauses_longer_than_the_user_timeout_loses_nothing() {
    let server = Server::start(at(loopback(), FRONT), |stream| {
        drop(send(stream, 3, DOWNLOAD, 65536));
    });
    // HAProxy is not given `tcp-ut`: its connections would be ended by the kernel.
    let settings = Settings {
        haproxy: ["", ""],
        front: "client = { user-timeout = \"2s\" }",
        back: "connection = { user-timeout = \"2s\" }",
    };
    beside(&settings, server.address(), |front, name| {
        let stream = connect(front);
        assert_eq!(receive(&stream, 3, 0), Ok(()), "{name}");
        std::thread::sleep(PAUSE);
        assert_eq!(receive(&stream, 3, DOWNLOAD), Ok(()), "{name}");
        assert_eq!(end(&stream), End::Closed(0), "{name}");
    });
}

#[test]
fn a_server_that_pauses_longer_than_the_user_timeout_loses_nothing() {
    let (told, results) = mpsc::channel();
    let server = Server::start(at(loopback(), FRONT), move |stream| {
        std::thread::sleep(PAUSE);
        let received = receive(stream, 4, DOWNLOAD).map(|()| end(stream));
        drop(told.send(received));
    });
    let settings = Settings {
        haproxy: ["", ""],
        front: "client = { user-timeout = \"2s\" }",
        back: "connection = { user-timeout = \"2s\" }",
    };
    beside(&settings, server.address(), |front, name| {
        let stream = connect(front);
        let sent = send(&stream, 4, DOWNLOAD, 65536);
        assert!(sent.is_ok(), "{name}: {sent:?}");
        stream.shutdown(Shutdown::Write).unwrap();
        let received = results.recv_timeout(PATIENCE).unwrap();
        assert_eq!(received, Ok(End::Closed(0)), "{name}");
    });
}

#[test]
fn a_connection_that_waits_in_the_queue_for_too_long_is_closed_and_not_reset() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let back = " timeout queue 500ms\n";
    let servers = [server.address()];
    let haproxy = place.start_haproxy(&haproxy_pair(&place, "", back, "maxconn 1", &servers));
    let check = |front: SocketAddr, name: &str| {
        let first = connect(front);
        assert_eq!(tests::stream::line(&first), "s0", "{name}");
        let second = connect(front);
        send(&second, 5, 1000, 1000).unwrap();
        assert_eq!(end(&second), End::Closed(0), "{name}");
    };
    check(place.front(), "HAProxy");
    drop(haproxy);
    let place = Place::new();
    let back = "max-connections = 1\nqueue-timeout = \"500ms\"";
    let lb = place.start(&pair(&place, "", back, &servers));
    check(place.front(), "lb-proxy");
    lb.stop();
}

const NODE: &str = "192.168.7.13";

/// The ends of the sessions in an access log, in HAProxy's two letters.
fn ends(log: &Scratch) -> Vec<String> {
    let text = std::fs::read_to_string(log.join("access.log")).unwrap_or_default();
    let records = text.lines().filter_map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(record.get("termination")?.as_str()?.to_owned())
    });
    records.collect()
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_client_that_is_gone_without_a_word_ends_its_session_paused_or_not() {
    let mut network = Network::new();
    let node = network.machine("m0", &format!("{NODE}/24"));
    let client = network.machine("client", "192.168.7.20/24");
    let files = Scratch::new("lb-gone");
    let front: SocketAddr = format!("{NODE}:443").parse().unwrap();
    let back: SocketAddr = format!("{NODE}:6443").parse().unwrap();
    let text = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\n\
         [access-log]\ntarget = \"{}\"\nformat = \"json\"\n\
         [[frontend]]\nname = \"api\"\nlisten = [\"{front}\"]\nbackend = \"api\"\nlog = true\n\
         client = {{ user-timeout = \"2s\" }}\n\
         [[backend]]\nname = \"api\"\n\
         [[backend.server]]\nname = \"m0\"\naddress = \"{back}\"\n",
        files.join("access.log").display(),
    );
    let config = files.write("lb-proxy.toml", &text);
    let mut command = node.command(binary("lb-proxy"));
    command.arg("serve").arg("--config").arg(config);
    let lb = Daemon::start("lb-proxy", command);
    let (call, called) = mpsc::channel::<()>();
    let called = std::sync::Mutex::new(called);
    // The second connection gets its bytes when the client is gone already.
    let server = node.inside(|| {
        Server::start(back, move |mut stream| {
            let mut kind = [0];
            if stream.read_exact(&mut kind).is_err() {
                return;
            }
            if kind[0] == b'l' {
                called.lock().unwrap().recv().unwrap_or_default();
                drop(send(stream, 7, 1000, 1000));
            } else {
                drop(send(stream, 6, DOWNLOAD, 65536));
            }
            end(stream);
        })
    });
    let streams = client.inside(|| {
        let paused = connect(front);
        send_kind(&paused, b"p");
        let later = connect(front);
        send_kind(&later, b"l");
        (paused, later)
    });
    wait::for_it("both are served", PATIENCE, || server.n_open() == 2);
    // The first one's window is closed, and the client answers for it: nothing ends.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(ends(&files), Vec::<String>::new());
    client.cut_off();
    call.send(()).unwrap();
    wait::for_it("both sessions end", PATIENCE, || ends(&files).len() == 2);
    assert_eq!(ends(&files), ["CD", "CD"], "{}", lb.log());
    drop(streams);
}

fn send_kind(mut stream: &TcpStream, kind: &[u8]) {
    use std::io::Write as _;
    stream.write_all(kind).unwrap();
}
