//! The page of the program itself: what a browser gets, and what healthd does for it.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::healthd::Events;
use daemon::admin;
use daemon::clock::now;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Daemon {
    admin: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Daemon {
    /// A healthd that probes these addresses five times a second, with further lines in its file.
    fn probing(targets: &[SocketAddr], lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let admin = free();
        let mut text = format!(
            "version = \"v1\"\nlisten = [\"unix:{0}/s\"]\nstate = \"{0}/state\"\nadmin.listen = \"{admin}\"\n\
             [schedule]\ninterval = \"200ms\"\nrise = 1\nfall = 1\n{lines}\n",
            directory.path().display()
        );
        for target in targets {
            text.push_str(&format!(
                "[[target]]\nkind = \"tcp\"\naddress = \"{target}\"\n"
            ));
        }
        let file = directory.path().join("healthd.toml");
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_healthd"));
        command.args(["serve", "--log-level", "warn", "--config"]);
        let child = command.arg(file).stdout(Stdio::null()).spawn();
        let daemon = Self {
            admin,
            child: child.expect("healthd starts"),
            _directory: directory,
        };
        let begun = now();
        while std::net::TcpStream::connect(admin).is_err() {
            assert!(begun.elapsed() < LIMIT, "healthd does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }

    async fn get(&self, path: &str) -> String {
        let answer = admin::get(self.admin, path).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Follows the page.
    async fn follow(&self) -> Stream {
        let mut stream = TcpStream::connect(self.admin).await.expect("a connection");
        let request = b"GET /stream HTTP/1.1\r\nhost: healthd\r\n\r\n";
        stream.write_all(request).await.expect("a request");
        Stream(BufReader::new(stream))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// The lines that a browser gets.
struct Stream(BufReader<TcpStream>);

impl Stream {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(LIMIT, self.0.read_line(&mut line)).await;
        assert!(
            read.expect("a line in time").expect("a line") > 0,
            "the stream goes on"
        );
        line
    }

    /// The first event that has this text.
    async fn event_with(&mut self, text: &str) -> String {
        let begun = now();
        loop {
            let line = self.line().await;
            if line.starts_with("data: ") && line.contains(text) {
                return line;
            }
            assert!(begun.elapsed() < LIMIT, "no event with {text}");
        }
    }
}

fn free() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// Leaves all other services out.
const ALONE: &str = "[page.services]\ndns-authd = \"none\"\ndns-recursor = \"none\"\nlb-proxy = \"none\"\n\
                     registry-svc = \"none\"\ntimesync-agent = \"none\"\nclusterd = \"none\"\n";

#[tokio::test]
async fn a_browser_that_follows_the_page_sees_a_flip_and_its_reason() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let daemon = Daemon::probing(&[address], ALONE);
    let mut stream = daemon.follow().await;
    assert_eq!(stream.line().await, "HTTP/1.1 200 OK\r\n");
    stream.event_with("<span class=\"up\">up</span>").await;
    drop(server);
    let event = stream.event_with("<span class=\"down\">down</span>").await;
    assert!(event.contains(&address.to_string()), "{event}");
    let events = stream.event_with("onnection refused").await;
    assert!(events.contains("Last changes"), "{events}");
    let kept: Events = serde_json::from_str(&daemon.get("/events").await).unwrap();
    let states: Vec<&str> = kept.events.iter().map(|one| one.state.as_str()).collect();
    assert_eq!(states, ["down", "up"], "{kept:?}");
    let page = daemon.get("/").await;
    assert!(page.contains("<span class=\"down\">down</span>"), "{page}");
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "nothing comes from elsewhere"
    );
}

#[tokio::test]
async fn a_service_that_does_not_answer_delays_no_flip_and_nobody_asks_when_nobody_looks() {
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = silent.local_addr().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let lines = ALONE.replace("lb-proxy = \"none\"", &format!("lb-proxy = \"{service}\""));
    let daemon = Daemon::probing(&[address], &lines);
    let kept = |events: &str| serde_json::from_str::<Events>(events).unwrap().total;
    let begun = now();
    while kept(&daemon.get("/events").await) == 0 {
        assert!(begun.elapsed() < LIMIT, "no probe ends");
    }
    // Probes have run, and the service was not asked for that.
    assert!(
        tokio::time::timeout(Duration::ZERO, silent.accept())
            .await
            .is_err(),
        "nobody looks at the page"
    );
    let mut stream = daemon.follow().await;
    let _asked = silent.accept().await.unwrap();
    drop(server);
    // healthd still waits for the service, and shows the flip.
    stream.event_with("<span class=\"down\">down</span>").await;
    stream.event_with("could not ask: ").await;
}

#[tokio::test]
async fn browsers_are_bounded_and_leave_room_for_probes_of_healthd() {
    let daemon = Daemon::probing(&[], ALONE);
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = daemon.follow().await;
        assert_eq!(stream.line().await, "HTTP/1.1 200 OK\r\n");
        streams.push(stream);
    }
    let mut one_more = daemon.follow().await;
    assert_eq!(
        one_more.line().await,
        "HTTP/1.1 503 Service Unavailable\r\n"
    );
    assert_eq!(daemon.get("/livez").await, "ok\n");
    drop(streams.pop());
    let begun = now();
    loop {
        let mut stream = daemon.follow().await;
        if stream.line().await == "HTTP/1.1 200 OK\r\n" {
            return;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "a browser that has left makes room"
        );
    }
}
