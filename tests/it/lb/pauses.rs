//! Peers that read or write slowly, pause, or rest, while the proxy's process is replaced and their server drained in the middle.
//!
//! HAProxy and nginx have the same clients and a reload in the middle, so that nothing is demanded that they do not do. The times are those of
//! a short test; `OUTPOST_PAUSE=95` pauses for 95 s, which is longer than every time-out that a proxy has by default,
//! and leaves lb-proxy's own `user-timeout` at its default of 60 s.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, haproxy_pair, pair, program};
use tests::scratch::{at, loopback};
use tests::stream::{End, Pattern, Server, connect, end, is_listened_on, receive, send};
use tests::wait;

/// More than all buffers between the two ends.
const MUCH: u64 = 24 << 20;

/// What a slow end takes at a time, every tenth of a second.
const PIECE: u64 = 10_000;

/// How long nginx has to end.
const ENDED: Duration = Duration::from_secs(30);

/// No end gives up while another pauses.
const FOREVER: Duration = Duration::from_secs(600);

/// How long a pause is: some seconds, or what `OUTPOST_PAUSE` says.
fn pause() -> Duration {
    let seconds = std::env::var("OUTPOST_PAUSE").ok();
    let seconds = seconds.map(|text| text.parse().expect("OUTPOST_PAUSE has seconds"));
    Duration::from_secs(seconds.unwrap_or(6))
}

/// The octets of a transfer that takes as long as a pause.
fn slow_length() -> u64 {
    pause().as_secs() * 10 * PIECE
}

/// What a client does; its first octet tells the server.
const KINDS: [(u8, &str); 5] = [
    (b'd', "slow download"),
    (b'D', "paused download"),
    (b'u', "slow upload"),
    (b'U', "paused upload"),
    (b'r', "rest"),
];

fn slowly(stream: &TcpStream, seed: u64, length: u64) -> Result<(), String> {
    use std::io::Read as _;
    let mut stream = stream;
    let mut pattern = Pattern::new(seed);
    let mut piece = vec![0; usize::try_from(PIECE).unwrap()];
    for taken in 0..length / PIECE {
        std::thread::sleep(Duration::from_millis(100));
        let read = stream.read_exact(&mut piece);
        read.map_err(|error| format!("{error} after {} of {length}", taken * PIECE))?;
        pattern.check(&piece)?;
    }
    Ok(())
}

fn serve(stream: &TcpStream) {
    stream.set_read_timeout(Some(FOREVER)).unwrap();
    let mut kind = [0];
    if std::io::Read::read_exact(&mut &*stream, &mut kind).is_err() {
        return;
    }
    // An upload that came whole is told so.
    let tell = |result: Result<(), String>| {
        let answer = match (result, end(stream)) {
            (Ok(()), End::Closed(0)) => "whole".to_owned(),
            (result, end) => format!("{result:?} {end:?}"),
        };
        drop(std::io::Write::write_all(&mut &*stream, answer.as_bytes()));
    };
    match kind {
        // The server closes at once, long before the client has read all.
        [b'd'] => drop(send(stream, 1, slow_length(), 65536)),
        [b'D'] => drop(send(stream, 2, MUCH, 65536)),
        [b'u'] => tell(slowly(stream, 3, slow_length())),
        [b'U'] => {
            std::thread::sleep(pause());
            tell(receive(stream, 4, MUCH));
        }
        _ => tests::stream::echo(stream),
    }
}

/// What a client found.
fn client(front: SocketAddr, kind: u8) -> Result<(), String> {
    let stream = connect(front);
    stream.set_read_timeout(Some(FOREVER)).unwrap();
    stream.set_write_timeout(Some(FOREVER)).unwrap();
    let said = |error: std::io::Error| error.to_string();
    std::io::Write::write_all(&mut &stream, &[kind]).map_err(said)?;
    let closed = |stream: &TcpStream| match end(stream) {
        End::Closed(0) => Ok(()),
        other => Err(format!("it ended {other:?}")),
    };
    let upload = |seed: u64, length: u64| {
        send(&stream, seed, length, 65536).map_err(said)?;
        stream.shutdown(Shutdown::Write).map_err(said)?;
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut &stream, &mut answer).map_err(said)?;
        match answer.as_str() {
            "whole" => Ok(()),
            answer => Err(format!("the server has {answer:?}")),
        }
    };
    match kind {
        b'd' => slowly(&stream, 1, slow_length()).and_then(|()| closed(&stream)),
        b'D' => {
            std::thread::sleep(pause());
            receive(&stream, 2, MUCH).and_then(|()| closed(&stream))
        }
        b'u' => upload(3, slow_length()),
        b'U' => upload(4, MUCH),
        _ => {
            std::thread::sleep(pause());
            send(&stream, 5, 1000, 1000).map_err(said)?;
            receive(&stream, 5, 1000)
        }
    }
}

/// Runs all clients at `front`, and does `middle` in the middle of the pauses.
fn run(name: &str, front: SocketAddr, middle: impl FnOnce()) {
    let clients = KINDS.map(|(kind, what)| {
        let client = std::thread::spawn(move || {
            let start = Instant::now();
            (client(front, kind), start.elapsed())
        });
        (what, client)
    });
    std::thread::sleep(pause() / 2);
    middle();
    let mut lost = Vec::new();
    for (what, client) in clients {
        let (result, took) = client.join().unwrap();
        println!(
            "{name}: {what}: {result:?} after {:.1} s",
            took.as_secs_f64()
        );
        if let Err(error) = result {
            lost.push(format!("{name}: {what}: {error}"));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// nginx, whose workers end with it: they would outlive a process that is killed, and hold what the tests print to.
struct Nginx(Daemon);

impl Drop for Nginx {
    fn drop(&mut self) {
        self.0.signal(Signal::TERM);
        let begun = Instant::now();
        while self.0.is_running() && begun.elapsed() < ENDED {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start_nginx(place: &Place, server: SocketAddr) -> Nginx {
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off;\nuser root;\npid {pid};\nerror_log stderr;\n\
         events {{ worker_connections 256; }}\n\
         stream {{\n server {{\n listen {};\n proxy_pass {server};\n proxy_timeout 1h;\n proxy_half_close on;\n }}\n}}\n",
        place.front(),
        pid = place.files.join("nginx.pid").display(),
    );
    let config = place.files.write("nginx.conf", &text);
    let mut command = Command::new(program("nginx"));
    command
        .arg("-c")
        .arg(config)
        .arg("-p")
        .arg(place.files.join(""));
    command.args(["-e", "stderr"]);
    let nginx = Daemon::spawn("nginx", command);
    wait::for_it("nginx serves", FOREVER, || is_listened_on(place.front()));
    Nginx(nginx)
}

#[test]
fn a_new_process_and_a_drain_in_the_middle_cost_no_byte_of_slow_and_paused_peers() {
    let server = Server::start(at(loopback(), FRONT), serve);
    let servers = [server.address()];

    let place = Place::new();
    let front = "\n timeout client-fin 1s";
    let first = place.start_haproxy(&haproxy_pair(&place, front, "", "", &servers));
    let mut second = None;
    run("HAProxy", place.front(), || {
        let mut command = Command::new(program("haproxy"));
        command
            .arg("-db")
            .arg("-f")
            .arg(place.files.join("haproxy.cfg"));
        command.arg("-sf").arg(first.id().to_string());
        second = Some(Daemon::spawn("haproxy 2", command));
    });
    drop((first, second));

    let place = Place::new();
    let nginx = start_nginx(&place, servers[0]);
    run("nginx", place.front(), || nginx.0.hang_up());
    drop(nginx);

    let place = Place::new();
    // Shorter than a pause in any case.
    let side = match std::env::var_os("OUTPOST_PAUSE") {
        Some(_) => "",
        None => "{ user-timeout = \"2s\" }",
    };
    let key = |name: &str| match side {
        "" => String::new(),
        side => format!("{name} = {side}\n"),
    };
    let back = format!("{}client-fin = \"1s\"", key("connection"));
    let mut first = place.start(&pair(&place, &key("client"), &back, &servers));
    let mut second = None;
    run("lb-proxy", place.front(), || {
        let new = Daemon::start("lb-proxy 2", {
            let mut command = place.serve();
            command
                .arg("--admin-socket")
                .arg(place.files.join("second.admin"));
            command
        });
        let status = first.wait();
        assert!(status.success(), "{status}: {}", first.log());
        let socket = place.files.join("second.admin").display().to_string();
        place.done(&["backend", "drain", "back/s0", "--socket", &socket]);
        second = Some(new);
    });
    second.expect("it runs").stop();
}
