//! The page of the program itself: what a browser gets, and what healthd does for it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::Duration;

use api::healthd::Events;
use daemon::admin;
use daemon::clock::now;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Daemon {
    admin: SocketAddr,
    child: Child,
    directory: TempDir,
}

impl Daemon {
    /// A healthd that probes these addresses five times a second, with further lines in its file.
    fn probing(targets: &[SocketAddr], lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::probing_in(directory, targets, lines)
    }

    fn probing_in(directory: TempDir, targets: &[SocketAddr], lines: &str) -> Self {
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
            directory,
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
    async fn follow(&self) -> Stream<TcpStream> {
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
struct Stream<S>(BufReader<S>);

impl<S: AsyncRead + Unpin> Stream<S> {
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

//--- Published over TLS

/// alice's password `secret`, with the lowest cost of bcrypt.
const USERS: &str = "alice:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

/// alice's credentials.
const ALICE: &str = "authorization: Basic YWxpY2U6c2VjcmV0\r\n";

/// alice's name with another password.
const WRONG: &str = "authorization: Basic YWxpY2U6d3Jvbmc=\r\n";

/// A published page, and what its clients know.
struct Published {
    daemon: Daemon,
    at: SocketAddr,
}

impl Published {
    /// Writes an authority, certificates of the page and of a client, and users; `login` is the end of `[page.tls]`.
    fn with(login: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let files = directory.path();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("what a test has made");
        let authority = params.self_signed(&key).expect("what a test has made");
        std::fs::write(files.join("ca.crt"), authority.pem()).expect("what a test has made");
        let issuer = Issuer::new(params, key);
        for name in ["status.example", "operator.example"] {
            let key = KeyPair::generate().expect("what a test has made");
            let params =
                CertificateParams::new(vec![name.to_owned()]).expect("what a test has made");
            let certificate = params
                .signed_by(&key, &issuer)
                .expect("what a test has made");
            std::fs::write(files.join(format!("{name}.crt")), certificate.pem())
                .expect("what a test has made");
            std::fs::write(files.join(format!("{name}.key")), key.serialize_pem())
                .expect("what a test has made");
        }
        std::fs::write(files.join("users"), USERS).expect("what a test has made");
        let at = free();
        let login = login.replace("DIR", &files.display().to_string());
        let lines = format!(
            "{ALONE}[page.tls]\nlisten = [\"{at}\"]\ncertificate = \"{0}/status.example.crt\"\n\
             key = \"{0}/status.example.key\"\n{login}\n",
            files.display()
        );
        let daemon = Daemon::probing_in(directory, &[], &lines);
        // The admin listener is there first.
        let begun = now();
        while std::net::TcpStream::connect(at).is_err() {
            assert!(begun.elapsed() < LIMIT, "the page's port is closed");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { daemon, at }
    }

    fn files(&self) -> &Path {
        self.daemon.directory.path()
    }

    /// A connection, with the certificate of this name if there is one.
    async fn connect(&self, certificate: Option<&str>) -> std::io::Result<TlsStream<TcpStream>> {
        let file = |name: &str| self.files().join(name);
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(file("ca.crt")).expect("what a test has made"))
            .expect("what a test has made");
        let provider = std::sync::Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("what a test has made")
            .with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::from_pem_file(file(&format!("{name}.crt")))
                    .expect("what a test has made");
                let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key")))
                    .expect("what a test has made");
                builder
                    .with_client_auth_cert(vec![chain], key)
                    .expect("what a test has made")
            }
        };
        let connector = TlsConnector::from(std::sync::Arc::new(config));
        let stream = TcpStream::connect(self.at).await?;
        let name = ServerName::try_from("status.example").expect("what a test has made");
        connector.connect(name, stream).await
    }

    /// The whole response to one request, `METHOD PATH`, with these further headers.
    async fn ask(&self, request: &str, headers: &str) -> String {
        let stream = self.connect(None).await.expect("a connection");
        ask(stream, request, headers).await.expect("a response")
    }
}

async fn ask(
    mut stream: TlsStream<TcpStream>,
    request: &str,
    headers: &str,
) -> std::io::Result<String> {
    let text =
        format!("{request} HTTP/1.1\r\nhost: status.example\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await?;
    let mut response = String::new();
    let read = stream.read_to_string(&mut response);
    tokio::time::timeout(LIMIT, read).await.expect("in time")?;
    Ok(response)
}

#[tokio::test]
async fn a_published_page_shows_after_a_login_and_changes_nothing() {
    let page = Published::with("users = \"DIR/users\"");
    let anonymous = page.ask("GET /", "").await;
    assert!(anonymous.starts_with("HTTP/1.1 401 "), "{anonymous}");
    assert!(
        anonymous.contains("www-authenticate: Basic realm="),
        "{anonymous}"
    );
    assert!(!anonymous.contains("Generation"), "{anonymous}");
    let whole = page.ask("GET /", ALICE).await;
    assert!(
        whole.starts_with("HTTP/1.1 200 ") && whole.contains("Generation"),
        "{whole}"
    );
    for header in [
        "content-security-policy: default-src 'none'",
        "cache-control: no-store",
    ] {
        assert!(whole.contains(header), "{whole}");
    }
    let cases = [
        ("GET /events", "200"),
        ("GET /page.css", "200"),
        ("GET /page.js", "200"),
        ("HEAD /", "200"),
        ("HEAD /stream", "200"),
        // The paths of the admin listener that are no part of the page.
        ("GET /metrics", "404"),
        ("GET /status", "404"),
        ("GET /self-check", "404"),
        // Nothing can be changed.
        ("POST /mark", "405"),
        ("POST /", "405"),
        ("DELETE /", "405"),
    ];
    for (request, status) in cases {
        let response = page.ask(request, ALICE).await;
        let expected = format!("HTTP/1.1 {status} ");
        assert!(response.starts_with(&expected), "{request}: {response}");
        let without = page.ask(request, "").await;
        assert!(without.starts_with("HTTP/1.1 401 "), "{request}: {without}");
    }
}

#[tokio::test]
async fn wrong_passwords_are_limited_and_counted_and_lock_no_right_one_out() {
    let page = Published::with("users = \"DIR/users\"");
    let good = page.ask("GET /events", ALICE).await;
    assert!(good.starts_with("HTTP/1.1 200 "), "{good}");
    let first = page.ask("GET /", WRONG).await;
    assert!(first.starts_with("HTTP/1.1 401 "), "{first}");
    // Few wait for their turn, and the others are sent away.
    let begun = now();
    let later = loop {
        assert!(begun.elapsed() < LIMIT, "every guess is verified");
        let guesses = (0..10).map(|_| page.ask("GET /", WRONG));
        let is_later = |one: &String| one.starts_with("HTTP/1.1 429 ");
        if let Some(later) = first_such(guesses, is_later).await {
            break later;
        }
    };
    assert!(later.contains("retry-after: "), "{later}");
    let good = page.ask("GET /events", ALICE).await;
    assert!(good.starts_with("HTTP/1.1 200 "), "{good}");
    let metrics = page.daemon.get("/metrics").await;
    for reason in ["login", "wait"] {
        let counted = format!("healthd_page_refused_total{{reason=\"{reason}\"}}");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

/// Polls all at once, and returns the first output that is as wanted; the others are dropped then.
async fn first_such<F: Future>(
    futures: impl Iterator<Item = F>,
    is_wanted: impl Fn(&F::Output) -> bool,
) -> Option<F::Output> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let mut wanted = None;
        pending.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(output) if wanted.is_none() && is_wanted(&output) => {
                wanted = Some(output);
                false
            }
            Poll::Ready(_) => false,
            Poll::Pending => true,
        });
        match wanted.is_some() || pending.is_empty() {
            true => Poll::Ready(wanted),
            false => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn a_client_with_a_certificate_of_the_authority_needs_no_password() {
    let page = Published::with("client-ca = \"DIR/ca.crt\"\nusers = \"DIR/users\"");
    let stream = page.connect(Some("operator.example")).await.unwrap();
    let whole = ask(stream, "GET /", "").await.unwrap();
    assert!(whole.starts_with("HTTP/1.1 200 "), "{whole}");
    assert!(page.ask("GET /", "").await.starts_with("HTTP/1.1 401 "));
    assert!(page.ask("GET /", ALICE).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn without_users_a_client_without_a_certificate_gets_no_session() {
    let page = Published::with("client-ca = \"DIR/ca.crt\"");
    let stream = page.connect(Some("operator.example")).await.unwrap();
    let whole = ask(stream, "GET /", "").await.unwrap();
    assert!(whole.starts_with("HTTP/1.1 200 "), "{whole}");
    // In TLS 1.3 a client learns of it with the first read.
    let refused = match page.connect(None).await {
        Ok(stream) => ask(stream, "GET /", "").await,
        Err(error) => Err(error),
    };
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

#[tokio::test]
async fn a_published_page_is_followed_until_its_user_is_taken_out() {
    let page = Published::with("users = \"DIR/users\"");
    let mut stream = page.connect(None).await.unwrap();
    let request = format!("GET /stream HTTP/1.1\r\nhost: status.example\r\n{ALICE}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut followed = Stream(BufReader::new(stream));
    assert_eq!(followed.line().await, "HTTP/1.1 200 OK\r\n");
    followed.event_with("Generation").await;
    std::fs::write(page.files().join("users"), USERS.replace("alice", "bob")).unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LIMIT, followed.0.read_to_end(&mut rest));
    let _cut = ended.await.expect("the connection ends");
    assert!(page.ask("GET /", ALICE).await.starts_with("HTTP/1.1 401 "));
}

#[tokio::test]
async fn a_page_whose_users_cannot_be_read_is_published_when_they_can() {
    let page = Published::with("users = \"DIR/other\"");
    let ready = page.daemon.get("/readyz").await;
    assert!(
        ready.contains("the page is not published: cannot read users"),
        "{ready}"
    );
    std::fs::write(page.files().join("other"), USERS).unwrap();
    // The connection waits in the kernel's queue meanwhile.
    let whole = page.ask("GET /", ALICE).await;
    assert!(whole.starts_with("HTTP/1.1 200 "), "{whole}");
    assert_eq!(page.daemon.get("/readyz").await, "ok\n");
}
