//! Descriptors run out, and clients wait instead of being turned away.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, n_descriptors, pair};
use tests::scratch::{at, loopback};
use tests::stream::{PATIENCE, Server, connect, receive, send};
use tests::wait;

/// How long descriptors are short.
const SHORTAGE: Duration = Duration::from_secs(2);

/// Sessions there is room for.
const ROOM: usize = 8;

fn limit(lb: &Daemon, descriptors: usize) {
    let process = Pid::from_raw(lb.id().try_into().unwrap());
    let wanted = Rlimit {
        current: Some(descriptors.try_into().unwrap()),
        // The hard limit is the one it has inherited.
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    prlimit(process, Resource::Nofile, wanted).unwrap();
}

fn exchange(stream: &TcpStream) -> Result<(), String> {
    receive(stream, 7, 500)
}

fn has_answer(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    // An end is one too: `exchange` says which.
    !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn counter(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn clients_wait_while_descriptors_are_short() {
    let server = Server::echo(at(loopback(), FRONT));
    let place = Place::new();
    let lb = place.start(&pair(&place, "", "", &[server.address()]));
    // Descriptors that are opened once are open then.
    let first = connect(place.front());
    send(&first, 7, 500, 500).unwrap();
    assert_eq!(exchange(&first), Ok(()));
    drop((first, place.metrics()));
    std::thread::sleep(Duration::from_millis(300));
    // And half a session more: the last is accepted, and finds no way to its server.
    limit(&lb, n_descriptors(lb.id()) + 2 * ROOM + 1);

    let clients: Vec<TcpStream> = (0..3 * ROOM)
        .map(|_| {
            let client = connect(place.front());
            send(&client, 7, 500, 500).unwrap();
            client
        })
        .collect();
    wait::for_it("there is room for some", PATIENCE, || {
        clients.iter().filter(|client| has_answer(client)).count() >= ROOM - 2
    });
    std::thread::sleep(SHORTAGE);
    let (mut served, mut waiting): (Vec<TcpStream>, _) = clients.into_iter().partition(has_answer);
    // The process opens and closes a few of its own.
    let n_served = served.len();
    assert!((ROOM - 2..=ROOM + 2).contains(&n_served), "{n_served}");
    // A client that leaves makes room for another, of any worker; none was turned away.
    let deadline = Instant::now() + PATIENCE;
    loop {
        for client in served {
            assert_eq!(exchange(&client), Ok(()));
        }
        if waiting.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{} wait", waiting.len());
        std::thread::sleep(Duration::from_millis(20));
        (served, waiting) = waiting.into_iter().partition(has_answer);
    }
    let metrics = place.metrics();
    let pauses = counter(&metrics, "lb_proxy_accept_errors_total");
    // Each of two workers tries ten times a second, and a session that waits as often.
    assert!((1..200).contains(&pauses), "{pauses} pauses");
    let log = lb.log();
    let told = log.lines().filter(|line| line.contains("for want of"));
    assert_eq!(told.count(), 1, "{log}");
    lb.stop();
}

/// As many as HAProxy serves with that limit, but for one.
#[test]
fn few_descriptors_serve_all_the_sessions_that_they_can() {
    const DESCRIPTORS: &str = "220";
    const SESSIONS: usize = 100;
    let server = Server::echo(at(loopback(), FRONT));
    let place = Place::new();
    place.configure(&pair(&place, "", "", &[server.address()]));
    let serve = place.serve();
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {DESCRIPTORS} && exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(serve.get_program());
    command.args(serve.get_args());
    let lb = Daemon::start("lb-proxy", command);
    let clients: Vec<TcpStream> = (0..SESSIONS).map(|_| connect(place.front())).collect();
    for _ in 0..3 {
        for client in &clients {
            send(client, 7, 500, 500).unwrap();
        }
        for client in &clients {
            assert_eq!(exchange(client), Ok(()));
        }
    }
    lb.stop();
}
