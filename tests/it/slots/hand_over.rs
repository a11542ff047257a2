//! Services of which one process works at a time: the second one takes over, and back.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use daemon::succession;
use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::lb;
use tests::scratch::{at, loopback};
use tests::slots::Slots;
use tests::stream::{self, Server, receive, send};

use super::{balancer, clock, cluster, health, registry, unheld_health};

/// Does something over and over, and counts; what goes wrong once ends it.
struct Clients {
    stop: Arc<AtomicBool>,
    n: Arc<AtomicU64>,
    thread: JoinHandle<Result<(), String>>,
}

impl Clients {
    fn start(mut visit: impl FnMut() -> Result<(), String> + Send + 'static) -> Self {
        let (stop, n) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (asked, counted) = (Arc::clone(&stop), Arc::clone(&n));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                visit()?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { stop, n, thread }
    }

    fn assert_served(self) {
        let served = self.n.load(Ordering::Relaxed);
        tests::wait::for_it("clients are served", Duration::from_secs(20), || {
            self.n.load(Ordering::Relaxed) > served || self.thread.is_finished()
        });
        self.stop.store(true, Ordering::Relaxed);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}

/// The second takes over from the first, dies, and the first takes over again.
fn there_and_back(slots: &Slots) {
    let mut a = slots.start("a");
    let b = slots.start("b");
    let status = a.wait();
    assert!(
        status.success(),
        "it has handed over: {status}\n{}",
        a.log()
    );
    assert_eq!(slots.status("b")["slot"], "b");
    assert!(slots.self_check("b").is_ok());
    // It dies at once, as one that passes its start and then fails does.
    b.kill();
    let mut a = slots.start("a");
    assert!(slots.self_check("a").is_ok());
    // And again, with a successor that lives.
    let b = slots.start("b");
    assert!(a.wait().success(), "{}", a.log());
    b.stop();
}

/// A new connection for each request, which waits while no process accepts.
fn get(address: SocketAddr, path: &str) -> Result<(), String> {
    use std::io::{Read as _, Write as _};
    let mut stream =
        std::net::TcpStream::connect(address).map_err(|error| format!("refused: {error}"))?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let asked = stream.write_all(request.as_bytes());
    asked.map_err(|error| format!("asking: {error}"))?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    read.map_err(|error| format!("answer: {error}"))?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => Err(format!("answer: {answer:?}")),
    }
}

#[test]
fn the_registry_goes_from_slot_to_slot_and_refuses_nobody() {
    let (slots, address) = registry();
    let first = slots.start("a");
    let clients = Clients::start(move || get(address, "/v2/"));
    let mut current = first;
    for slot in ["b", "a", "b"] {
        let next = slots.start(slot);
        let mut old = std::mem::replace(&mut current, next);
        assert!(old.wait().success(), "{}", old.log());
    }
    clients.assert_served();
    current.stop();
}

/// Reads what is answered until the line of the head that begins with `name`, and the rest of the head.
fn header(stream: &mut std::net::TcpStream, name: &str) -> String {
    use std::io::Read as _;
    let mut head = Vec::new();
    let mut octet = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut octet).unwrap();
        head.push(octet[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("{head}")).1.to_owned()
}

/// Begins an upload whose last bytes the client holds back, so that a drain waits for it.
fn unfinished_upload(address: SocketAddr) -> std::net::TcpStream {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let host = "Host: registry.example.org";
    let begin =
        format!("POST /v2/a/blobs/uploads/ HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(begin.as_bytes()).unwrap();
    let location = header(&mut stream, "Location");
    let put = format!(
        "PATCH {location} HTTP/1.1\r\n{host}\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    );
    stream.write_all(put.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 25]).unwrap();
    stream
}

#[test]
fn a_process_whose_successor_dies_while_it_waits_is_started_again() {
    use std::io::{Read as _, Write as _};
    let (slots, address) = registry();
    let mut a = slots.start("a");
    let mut stream = unfinished_upload(address);
    let b = Daemon::spawn("registry-svc-b", slots.command_of("b"));
    a.wait_told("STOPPING=1");
    b.kill();
    stream.write_all(b"0123456789").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    // With an error, systemd starts it again (Restart=on-failure).
    assert_eq!(a.wait().code(), Some(75), "{}", a.log());
    let a = slots.start("a");
    assert_eq!(get(address, "/v2/"), Ok(()));
    a.stop();
}

#[test]
fn several_successors_do_not_cut_short_what_has_begun() {
    use std::io::{Read as _, Write as _};
    let (slots, address) = registry();
    let mut a = slots.start("a");
    let mut stream = unfinished_upload(address);
    for _ in 0..2 {
        assert_eq!(slots.post("a", succession::PATH).status, 200);
    }
    a.wait_told("STOPPING=1");
    // A new one asks a process that is ending already.
    assert_eq!(slots.post("a", succession::PATH).status, 200);
    let successor = slots.command_of("b");
    let b = std::thread::spawn(|| Daemon::start("registry-svc-b", successor));
    stream.write_all(b"01234").unwrap();
    tests::wait::for_it("it is asked once more", Duration::from_secs(20), || {
        a.log().matches("A successor asks").count() >= 4
    });
    stream.write_all(b"56789").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}\n{}", a.log());
    assert!(a.wait().success(), "{}", a.log());
    b.join().unwrap().stop();
}

#[test]
fn a_registry_that_dies_after_it_took_over_is_followed_by_the_one_before() {
    there_and_back(&registry().0);
}

#[test]
fn a_clock_that_dies_after_it_was_taken_over_is_taken_over_again() {
    there_and_back(&clock());
}

#[test]
fn clusterd_goes_from_slot_to_slot_and_every_question_is_answered() {
    let (slots, files) = cluster();
    let socket = files.join("clusterd.sock");
    let mut current = slots.start("a");
    let get = move || {
        let mut command = Command::new(binary("clusterd"));
        let arguments = ["get", "service", "shop/web", "--socket"];
        command.args(arguments).arg(&socket);
        let (status, told, complaint) = run(command);
        match status.success() && told.contains("172.30.0.20") {
            true => Ok(()),
            false => Err(format!("{status}: {told}{complaint}")),
        }
    };
    tests::wait::for_it("the manifests are read", Duration::from_secs(10), || {
        get().is_ok()
    });
    let clients = Clients::start(get);
    // A successor answers from the snapshot on disk before it has read its source.
    for slot in ["b", "a", "b"] {
        let next = slots.start(slot);
        let mut old = std::mem::replace(&mut current, next);
        assert!(old.wait().success(), "{}", old.log());
    }
    clients.assert_served();
    current.stop();
    there_and_back(&slots);
}

#[test]
fn healthd_goes_from_slot_to_slot_with_what_an_operator_said() {
    let (slots, site) = health();
    let a = slots.start("a");
    let socket = site.socket();
    let mark = |slot: &str, state: &str| {
        let mut command = Command::new(binary("healthd"));
        command
            .args(["mark", "192.0.2.7", state, "--socket"])
            .arg(slots.socket(slot));
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{stdout}{stderr}");
    };
    mark("a", "maintenance");
    let clients = Clients::start(move || {
        let connected = UnixStream::connect(&socket);
        connected
            .map(drop)
            .map_err(|error| format!("refused: {error}"))
    });
    let mut a = a;
    let b = slots.start("b");
    assert!(a.wait().success(), "{}", a.log());
    let state = std::fs::read_dir(site.files.join("state")).unwrap().count();
    assert!(state > 1, "the states and the lock");
    clients.assert_served();
    let checked = slots.self_check("b").unwrap();
    assert!(checked.contains("lists"), "{checked}");
    mark("b", "ready");
    b.stop();
    there_and_back(&slots);
}

/// As on a node, where no unit holds the socket: containers could not connect to it.
#[test]
fn healthd_goes_from_slot_to_slot_with_a_socket_that_it_binds_itself() {
    let (site, slots) = unheld_health();
    let mut a = slots.start("a");
    UnixStream::connect(site.socket()).unwrap();
    // It is ready once it has the directory, and with it the socket.
    let b = slots.start("b");
    assert!(a.wait().success(), "{}", a.log());
    UnixStream::connect(site.socket()).unwrap();
    b.stop();
    assert!(!site.socket().exists(), "the file goes with the process");
    there_and_back(&slots);
}

#[test]
fn a_proxy_that_dies_after_it_took_over_is_followed_by_the_one_before() {
    let server = Server::echo(at(loopback(), lb::FRONT));
    let (slots, front) = balancer(&server);
    let mut a = slots.start("a");
    let long = stream::connect(front);
    send(&long, 1, 1000, 1000).unwrap();
    assert_eq!(receive(&long, 1, 1000), Ok(()));
    let b = slots.start("b");
    assert!(a.wait().success(), "{}", a.log());
    // The new process serves the open connections.
    send(&long, 2, 1000, 1000).unwrap();
    assert_eq!(receive(&long, 2, 1000), Ok(()));
    assert_eq!(slots.status("b")["slot"], "b");
    let mut seed = 10;
    let clients = Clients::start(move || {
        seed += 1;
        let stream = stream::try_connect(front).map_err(|error| format!("refused: {error}"))?;
        // A connection that the killed process had accepted is lost with it, and no other.
        let exchanged = send(&stream, seed, 100, 100)
            .map_err(|error| error.to_string())
            .and_then(|()| receive(&stream, seed, 100));
        drop(exchanged);
        Ok(())
    });
    b.kill();
    let a = slots.start("a");
    let stream = stream::connect(front);
    send(&stream, 3, 1000, 1000).unwrap();
    assert_eq!(receive(&stream, 3, 1000), Ok(()));
    clients.assert_served();
    a.stop();
}
