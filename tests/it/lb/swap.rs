//! A new configuration, or a new process, and no client notices.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::{End, PATIENCE, Pattern, Server, connect, end, receive, send};
use tests::wait;

/// Clients of every kind at once: what each loses is a failure.
struct Clients {
    stop: Arc<AtomicBool>,
    n_visits: Arc<AtomicU64>,
    n_octets: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
    idle: Vec<TcpStream>,
}

impl Clients {
    fn start(front: SocketAddr) -> Self {
        let idle: Vec<TcpStream> = (0..150).map(|_| connect(front)).collect();
        for (seed, stream) in (1000..).zip(&idle) {
            send(stream, seed, 1024, 1024).unwrap();
            assert_eq!(receive(stream, seed, 1024), Ok(()));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let n_visits = Arc::<AtomicU64>::default();
        let n_octets = Arc::<AtomicU64>::default();
        let mut threads = Vec::new();
        for number in 0..3 {
            let (stop, n) = (Arc::clone(&stop), Arc::clone(&n_visits));
            threads.push(std::thread::spawn(move || visits(front, number, &stop, &n)));
        }
        for number in 0..2 {
            let (stop, n) = (Arc::clone(&stop), Arc::clone(&n_visits));
            threads.push(std::thread::spawn(move || talk(front, number, &stop, &n)));
        }
        for seed in 0..2 {
            let (stop, n) = (Arc::clone(&stop), Arc::clone(&n_octets));
            threads.push(std::thread::spawn(move || long(front, seed, &stop, &n)));
        }
        Self {
            stop,
            n_visits,
            n_octets,
            threads,
            idle,
        }
    }

    /// Nothing was refused, broken or wrong.
    fn assert_served(self) {
        // As much as there is to be, however little a loaded machine did meanwhile.
        wait::for_it("it is served for a while", Duration::from_secs(60), || {
            let ended = self.threads.iter().any(JoinHandle::is_finished);
            let n_visits = self.n_visits.load(Ordering::Relaxed);
            ended || n_visits > 300 && self.n_octets.load(Ordering::Relaxed) > 50 << 20
        });
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
        let ends = (2000..).zip(&self.idle).map(|(seed, stream)| {
            send(stream, seed, 1024, 1024).map_err(|error| error.to_string())?;
            receive(stream, seed, 1024)?;
            stream
                .shutdown(Shutdown::Write)
                .map_err(|error| error.to_string())?;
            Ok(end(stream))
        });
        let ends: Vec<Result<End, String>> = ends.collect();
        let lost: Vec<_> = ends
            .iter()
            .filter(|end| **end != Ok(End::Closed(0)))
            .collect();
        assert!(
            lost.is_empty(),
            "{} idle connections, such as {:?}",
            lost.len(),
            lost[0]
        );
    }
}

/// A connection for each exchange.
fn visits(front: SocketAddr, number: u64, stop: &AtomicBool, n: &AtomicU64) -> Result<(), String> {
    let mut seed = number << 32;
    while !stop.load(Ordering::Relaxed) {
        seed += 1;
        let stream = tests::stream::try_connect(front).map_err(|e| format!("refused: {e}"))?;
        send(&stream, seed, 300, 300).map_err(|error| format!("a visit: {error}"))?;
        stream
            .shutdown(Shutdown::Write)
            .map_err(|error| format!("a visit: {error}"))?;
        receive(&stream, seed, 300).map_err(|error| format!("a visit: {error}"))?;
        match end(&stream) {
            End::Closed(0) => {}
            other => return Err(format!("a visit ended {other:?}")),
        }
        n.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// One connection for all exchanges.
fn talk(front: SocketAddr, number: u64, stop: &AtomicBool, n: &AtomicU64) -> Result<(), String> {
    let stream = connect(front);
    let mut seed = number << 40;
    while !stop.load(Ordering::Relaxed) {
        seed += 1;
        send(&stream, seed, 500, 500).map_err(|error| format!("a talk: {error}"))?;
        receive(&stream, seed, 500).map_err(|error| format!("a talk: {error}"))?;
        n.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// An endless transfer both ways, every octet of which is looked at.
fn long(front: SocketAddr, seed: u64, stop: &AtomicBool, n: &AtomicU64) -> Result<(), String> {
    let stream = connect(front);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut pattern = Pattern::new(seed);
            let mut buffer = vec![0; 65536];
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                pattern.fill(&mut buffer);
                std::io::Write::write_all(&mut &stream, &buffer)
                    .map_err(|error| format!("a transfer after {sent} octets: {error}"))?;
                sent += buffer.len() as u64;
            }
            stream
                .shutdown(Shutdown::Write)
                .map_err(|error| error.to_string())?;
            Ok(sent)
        });
        let mut pattern = Pattern::new(seed);
        let mut buffer = vec![0; 65536];
        let mut received = 0;
        let outcome = loop {
            match std::io::Read::read(&mut &stream, &mut buffer) {
                Ok(0) => break Ok(()),
                Ok(length) => {
                    if let Err(error) = pattern.check(&buffer[..length]) {
                        break Err(format!("a transfer: {error}"));
                    }
                    received += length as u64;
                    n.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(error) => break Err(format!("a transfer after {received} octets: {error}")),
            }
        };
        let sent: Result<u64, String> = sender.join().unwrap();
        outcome?;
        let sent = sent?;
        if sent == received {
            Ok(())
        } else {
            Err(format!("{received} of {sent} octets came back"))
        }
    })
}

/// Two servers, of which the second has this weight.
fn config(place: &Place, servers: &[SocketAddr], weight: u32) -> String {
    let mut text = pair(place, "", "balance = \"round-robin\"", servers);
    text.push_str(&format!("weight = {weight}\n"));
    text
}

fn servers() -> ([Server; 2], [SocketAddr; 2]) {
    let servers = [(); 2].map(|()| Server::echo(at(loopback(), FRONT)));
    let addresses = [servers[0].address(), servers[1].address()];
    (servers, addresses)
}

fn reload(lb: &mut Daemon) {
    lb.forget_told();
    lb.hang_up();
    lb.wait_told("READY=1");
}

#[test]
fn nobody_notices_twenty_reloads() {
    let (_servers, addresses) = servers();
    let place = Place::new();
    let mut lb = place.start(&config(&place, &addresses, 100));
    let clients = Clients::start(place.front());
    for number in 0..20 {
        let mut text = config(&place, &addresses, number);
        if number % 2 == 1 {
            // A frontend that comes and goes.
            let extra = at(place.ip, 7000);
            text.push_str(&format!(
                "[[frontend]]\nname = \"extra\"\nlisten = [\"{extra}\"]\nbackend = \"back\"\n"
            ));
        }
        place.configure(&text);
        reload(&mut lb);
        std::thread::sleep(Duration::from_millis(100));
    }
    clients.assert_served();
    lb.stop();
}

#[test]
fn a_reload_with_a_mistake_changes_nothing() {
    let (_servers, addresses) = servers();
    let place = Place::new();
    let mut lb = place.start(&config(&place, &addresses, 100));
    let stream = connect(place.front());
    place.configure(&config(&place, &addresses, 100_000));
    reload(&mut lb);
    lb.wait_log("100000");
    for stream in [&stream, &connect(place.front())] {
        send(stream, 5, 4000, 4000).unwrap();
        assert_eq!(receive(stream, 5, 4000), Ok(()));
    }
    lb.stop();
}

#[test]
fn a_frontend_that_is_gone_refuses_and_its_sessions_go_on() {
    let (_servers, addresses) = servers();
    let place = Place::new();
    let extra = at(place.ip, 7000);
    let with = format!(
        "{}[[frontend]]\nname = \"extra\"\nlisten = [\"{extra}\"]\nbackend = \"back\"\n",
        config(&place, &addresses, 1)
    );
    let mut lb = place.start(&with);
    let stream = connect(extra);
    send(&stream, 5, 4000, 4000).unwrap();
    assert_eq!(receive(&stream, 5, 4000), Ok(()));
    place.configure(&config(&place, &addresses, 1));
    reload(&mut lb);
    // Each worker closes its listener when it next looks, which is at once but not before the reload reaches it.
    wait::for_it("the address refuses", Duration::from_secs(5), || {
        TcpStream::connect(extra).is_err()
    });
    send(&stream, 6, 4000, 4000).unwrap();
    assert_eq!(receive(&stream, 6, 4000), Ok(()));
    place.configure(&with);
    reload(&mut lb);
    let stream = connect(extra);
    send(&stream, 7, 4000, 4000).unwrap();
    assert_eq!(receive(&stream, 7, 4000), Ok(()));
}

#[test]
fn nobody_notices_twenty_new_processes() {
    let (_servers, addresses) = servers();
    let place = Place::new();
    let mut lb = place.start(&config(&place, &addresses, 100));
    let clients = Clients::start(place.front());
    let mut slowest = Duration::ZERO;
    for number in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        let new = Daemon::start(&format!("lb-proxy {number}"), place.serve());
        let status = lb.wait();
        assert!(status.success(), "the old process: {status}\n{}", lb.log());
        slowest = slowest.max(start.elapsed());
        lb = new;
    }
    assert!(slowest < PATIENCE, "{slowest:?}");
    clients.assert_served();
    lb.stop();
}

#[test]
fn a_successor_that_cannot_start_leaves_the_old_process_serving() {
    let (_servers, addresses) = servers();
    let place = Place::new();
    let lb = place.start(&config(&place, &addresses, 100));
    let stream = connect(place.front());
    place.configure("nonsense = true\n");
    let mut new = Daemon::spawn("lb-proxy with a mistake", place.serve());
    assert_eq!(new.wait().code(), Some(78), "{}", new.log());
    for stream in [&stream, &connect(place.front())] {
        send(stream, 5, 4000, 4000).unwrap();
        assert_eq!(receive(stream, 5, 4000), Ok(()));
    }
    lb.stop();
}

#[test]
fn a_session_outlives_its_process_with_its_way_of_ending() {
    // Half-closed either way, refused by the server later, reset: all as without a new process.
    let server = Server::start(at(loopback(), FRONT), |stream| match end(stream) {
        End::Closed(length) => send(stream, length, 300_000, 5000).unwrap_or(()),
        End::Reset(_) | End::Open(_) => {}
    });
    let place = Place::new();
    let lb = place.start(&pair(&place, "", "", &[server.address()]));
    let half = connect(place.front());
    send(&half, 1, 77, 77).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let open = connect(place.front());
    send(&open, 1, 78, 78).unwrap();
    let gone = connect(place.front());
    std::thread::sleep(Duration::from_millis(100));
    let new = Daemon::start("lb-proxy 2", place.serve());
    let mut lb = lb;
    assert!(lb.wait().success());
    assert_eq!(receive(&half, 77, 300_000), Ok(()));
    assert_eq!(end(&half), End::Closed(0));
    open.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive(&open, 78, 300_000), Ok(()));
    assert_eq!(end(&open), End::Closed(0));
    tests::stream::reset(gone);
    wait::for_it("the server's side of it ends", PATIENCE, || {
        server.n_open() == 0
    });
    new.stop();
}
