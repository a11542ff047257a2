//! Routing by the name in a ClientHello, which arrives at the server as it was sent.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::certificate::self_signed;
use tests::daemon::{Daemon, run};
use tests::hello::{client_hello, records};
use tests::lb::{FRONT, Place, program};
use tests::scratch::{at, loopback};
use tests::stream::{End, PATIENCE, Server, connect, end_within, is_listened_on, line};
use tests::wait;

/// Three backends, and a frontend that tells them apart by name.
struct Names {
    place: Place,
    _servers: [Server; 3],
    _lb: Daemon,
}

impl Names {
    fn new() -> Self {
        Self::of_patience(Duration::from_secs(20))
    }

    /// That looks into what a client says for so long.
    fn of_patience(inspect: Duration) -> Self {
        let servers =
            ["console", "apps", "other"].map(|name| Server::named(at(loopback(), FRONT), name));
        let place = Place::new();
        let addresses = [0, 1, 2].map(|n: usize| servers[n].address());
        let lb = place.start(&config(place.front(), addresses, inspect));
        Self {
            place,
            _servers: servers,
            _lb: lb,
        }
    }

    /// Sends `pieces` one by one; the server that gets them, all of them as they are.
    fn ask(&self, pieces: &[&[u8]]) -> String {
        let mut stream = connect(self.place.front());
        for (n, piece) in pieces.iter().enumerate() {
            if n > 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            stream.write_all(piece).unwrap();
        }
        let name = line(&stream);
        let sent = pieces.concat();
        let mut back = vec![0; sent.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == sent, "{name} did not get what was sent");
        name
    }
}

fn config(front: SocketAddr, [console, apps, other]: [SocketAddr; 3], inspect: Duration) -> String {
    let mut text = format!(
        "[[frontend]]\nname = \"tls\"\nlisten = [\"{front}\"]\nbackend = \"other\"\n\
         inspect-timeout = \"{}ms\"\n\
         [[frontend.route]]\nnames = [\"console.apps.ocp4.example\"]\nbackend = \"console\"\n\
         [[frontend.route]]\nnames = [\"*.apps.ocp4.example\"]\nbackend = \"apps\"\n",
        inspect.as_millis()
    );
    for (name, address) in [("console", console), ("apps", apps), ("other", other)] {
        text.push_str(&format!(
            "[[backend]]\nname = \"{name}\"\n\
             [[backend.server]]\nname = \"s\"\naddress = \"{address}\"\n"
        ));
    }
    text
}

#[test]
fn the_most_specific_name_decides_and_others_go_to_the_default() {
    let names = Names::new();
    for (name, expected) in [
        (Some("console.apps.ocp4.example"), "console"),
        (Some("CONSOLE.Apps.ocp4.example"), "console"),
        (Some("oauth.apps.ocp4.example"), "apps"),
        (Some("a.b.apps.ocp4.example"), "apps"),
        (Some("apps.ocp4.example"), "other"),
        (Some("console.apps.ocp4.example.org"), "other"),
        (None, "other"),
    ] {
        let hello = records(&client_hello(name, 0), 16384);
        assert_eq!(names.ask(&[&hello]), expected, "{name:?}");
    }
    // Data that is sent along with the hello goes along with it.
    let hello = records(&client_hello(Some("a.apps.ocp4.example"), 0), 16384);
    assert_eq!(names.ask(&[&[&hello[..], b"early data"].concat()]), "apps");
}

#[test]
fn a_hello_may_come_in_any_number_of_segments_and_records() {
    let names = Names::new();
    let message = client_hello(Some("a.apps.ocp4.example"), 0);
    let whole = records(&message, 16384);
    for cut in 1..whole.len() {
        let (one, other) = whole.split_at(cut);
        assert_eq!(names.ask(&[one, other]), "apps", "cut at {cut}");
    }
    let octets: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(names.ask(&octets), "apps", "octet by octet");
    // HAProxy 2.6 does not find the name in a hello of several records.
    for most in [1, 2, 3, 5, 37, 100] {
        let wire = records(&message, most);
        assert_eq!(names.ask(&[&wire]), "apps", "records of {most}");
        let middle = wire.len() / 2;
        let halves = wire.split_at(middle);
        assert_eq!(
            names.ask(&[halves.0, halves.1]),
            "apps",
            "records of {most}"
        );
    }
    // A post-quantum key share makes a hello longer than a segment.
    for padding in [1184, 4000, 12_000] {
        let message = client_hello(Some("a.apps.ocp4.example"), padding);
        let wire = records(&message, 16384);
        assert_eq!(names.ask(&[&wire]), "apps", "{padding} octets more");
        let pieces: Vec<&[u8]> = wire.chunks(1448).collect();
        assert_eq!(names.ask(&pieces), "apps", "{padding} octets more");
        let wire = records(&message, 700);
        assert_eq!(names.ask(&[&wire]), "apps", "{padding} octets more");
    }
}

#[test]
fn what_is_no_hello_goes_to_the_default() {
    let names = Names::new();
    let hello = client_hello(Some("a.apps.ocp4.example"), 0);
    let mut broken = hello.clone();
    // The length of the extensions says more than there is.
    broken[43 + 32 + 6 + 2] ^= 0x10;
    let mut not_first = records(&hello, 16384);
    not_first[0] = 23;
    for octets in [
        &b"GET / HTTP/1.1\r\nHost: a.apps.ocp4.example\r\n\r\n"[..],
        b"\0",
        &records(&broken, 16384),
        &not_first,
        // Server names of no sense.
        &records(&client_hello(Some(""), 0), 16384),
        &records(&client_hello(Some("a b\0.apps.ocp4.exampl"), 0), 16384),
    ] {
        assert_eq!(names.ask(&[octets]), "other", "{octets:?}");
    }
}

#[test]
fn a_client_that_does_not_finish_its_hello_goes_to_the_default() {
    let names = Names::of_patience(Duration::from_millis(600));
    let hello = records(&client_hello(Some("a.apps.ocp4.example"), 0), 16384);
    for octets in [&hello[..3], &hello[..40], b""] {
        let start = Instant::now();
        assert_eq!(names.ask(&[octets]), "other");
        let waited = start.elapsed();
        assert!(waited > Duration::from_millis(500), "{waited:?}");
        assert!(waited < Duration::from_secs(3), "{waited:?}");
    }
    // And one that has closed has nothing more to say.
    let mut stream = connect(names.place.front());
    stream.write_all(&hello[..40]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let ended = end_within(&stream, PATIENCE);
    assert!(!matches!(ended, End::Open(_)), "{ended:?}");
}

#[test]
fn a_hello_without_end_is_not_collected() {
    let names = Names::new();
    // 60 KiB in one message, the name behind all of it.
    let hello = records(&client_hello(Some("a.apps.ocp4.example"), 60_000), 16384);
    assert_eq!(names.ask(&[&hello]), "other");
}

/// `openssl s_server` with a certificate for `name`.
struct TlsServer(Child);

impl TlsServer {
    fn start(place: &Place, address: SocketAddr, name: &str) -> Self {
        let [key, certificate] =
            ["key", "crt"].map(|kind| place.files.join(&format!("{name}.{kind}")));
        self_signed(&certificate, &key, name);
        let child = Command::new(program("openssl"))
            .args([
                "s_server",
                "-quiet",
                "-accept",
                &address.to_string(),
                "-key",
            ])
            .arg(&key)
            .arg("-cert")
            .arg(&certificate)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl starts");
        wait::for_it("openssl serves", PATIENCE, || is_listened_on(address));
        Self(child)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn real_handshakes_reach_the_server_of_their_name() {
    let place = Place::new();
    let addresses = [(); 3].map(|()| at(loopback(), FRONT));
    let _servers = [0, 1, 2].map(|n| {
        let name = ["console", "apps", "other"][n];
        TlsServer::start(&place, addresses[n], name)
    });
    let _lb = place.start(&config(place.front(), addresses, Duration::from_secs(20)));
    for (name, expected) in [
        ("console.apps.ocp4.example", "console"),
        ("oauth.apps.ocp4.example", "apps"),
        ("registry.example", "other"),
    ] {
        for version in ["-tls1_2", "-tls1_3"] {
            let mut command = Command::new(program("openssl"));
            command
                .args(["s_client", "-connect", &place.front().to_string()])
                .args(["-servername", name, version]);
            let (_, stdout, stderr) = run(command);
            let found = stdout.contains(&format!("subject=CN = {expected}"))
                || stdout.contains(&format!("subject=CN={expected}"));
            assert!(found, "{name} {version}:\n{stdout}{stderr}");
        }
    }
}
