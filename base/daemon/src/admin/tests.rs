use super::*;
use crate::accept::{Listener, Peer};
use crate::connections::Table;
use crate::life::{Life, State};
use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::readiness::Readiness;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// A listener with everything behind it, on a port of its own.
struct Running {
    address: SocketAddr,
    readiness: Readiness,
    life: Life,
    routes: Routes,
    /// What the service answers; nothing while it starts.
    detail: Arc<RwLock<Option<Value>>>,
}

/// The service: it answers requests for its status.
async fn answer(
    mut asked: mpsc::Receiver<oneshot::Sender<Value>>,
    detail: Arc<RwLock<Option<Value>>>,
) {
    while let Some(asked) = asked.recv().await {
        if let Some(detail) = detail.read().clone() {
            asked.send(detail).unwrap();
        }
    }
}

impl Running {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Self {
            address: listener.local_addr().unwrap(),
            readiness: Readiness::new(),
            life: Life::new(),
            routes: Routes::new(),
            detail: Arc::default(),
        };
        running.serve(listener, |_: &TcpStream, peer| Caller::Network(peer));
        running
    }

    /// Serves another listener; gives the count of requests that it refused.
    fn serve<L: Listener>(
        &self,
        listener: L,
        identify: impl Fn(&L::Stream, Peer) -> Caller + Send + 'static,
    ) -> Counter<u64> {
        self.serve_beside(None, listener, identify)
    }

    /// The same, of a process that has a socket.
    #[expect(clippy::disallowed_methods, reason = "the listener tells its uptime")]
    fn serve_beside<L: Listener>(
        &self,
        socket: impl Into<Option<&'static str>>,
        listener: L,
        identify: impl Fn(&L::Stream, Peer) -> Caller + Send + 'static,
    ) -> Counter<u64> {
        let (status, asked) = mpsc::channel(1);
        tokio::spawn(answer(asked, Arc::clone(&self.detail)));
        let refused = Counter::default();
        let shared = Shared {
            service: "tested",
            slot: None,
            socket: socket.into().map(str::to_owned),
            started: Instant::now(),
            life: self.life.clone(),
            readiness: self.readiness.clone(),
            metrics: Metrics::new("tested"),
            progress: Progress::new(),
            routes: self.routes.clone(),
            refused: refused.clone(),
            connections: Table::default(),
            status,
        };
        tokio::spawn(Server::new(Arc::new(shared), "admin").serve(listener, identify));
        refused
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = get(self.address, path).await.unwrap();
        (answer.status, answer.text())
    }

    /// Sends bytes as they are and reads all that comes back.
    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn readiness_is_told_with_its_reasons() {
    run(async {
        let running = Running::start().await;
        let latch = running.readiness.latch("zones loaded");
        running
            .readiness
            .set_reason("zone a.", Some("old".to_owned()));
        let (status, text) = running.get("/readyz").await;
        assert_eq!(
            (status, text.as_str()),
            (503, "waiting: zones loaded\nzone a.: old\n")
        );
        assert_eq!(running.get("/livez").await.0, 200);
        latch.release();
        assert_eq!(
            running.get("/readyz").await,
            (200, "ok\nzone a.: old\n".to_owned())
        );
    });
}

#[test]
fn half_requests_keep_nobody_out() {
    run(async {
        let running = Running::start().await;
        let mut half = Vec::new();
        for _ in 0..130 {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
            half.push(stream);
        }
        // Half the time that their heads have.
        let answered = tokio::time::timeout(Duration::from_secs(5), running.get("/livez"));
        assert_eq!(answered.await.unwrap().0, 200);
        // The oldest have ended for it, and the newest have not.
        assert_eq!(half[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
        let last = half.last_mut().unwrap();
        last.write_all(b"Host: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        last.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    });
}

#[test]
fn the_status_is_there_while_the_service_is_not() {
    run(async {
        let running = Running::start().await;
        let (_, text) = running.get("/status").await;
        let status: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status["service"], "tested");
        assert_eq!(status["state"], "starting");
        assert_eq!(status["detail"], Value::Null);
        running.life.set(State::Serving);
        *running.detail.write() = Some(json!({ "zones": 3 }));
        let (_, text) = running.get("/status").await;
        let status: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&status["state"], &status["detail"]["zones"]),
            (&json!("serving"), &json!(3))
        );
    });
}

#[test]
fn metrics_come_as_the_scraper_asks() {
    run(async {
        let running = Running::start().await;
        let classic = running
            .raw("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        assert!(
            classic.contains("content-type: text/plain; version=0.0.4"),
            "{classic}"
        );
        let open = running
            .raw(
                "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                 accept: application/openmetrics-text\r\n\r\n",
            )
            .await;
        assert!(
            open.contains("content-type: application/openmetrics-text"),
            "{open}"
        );
        assert!(open.ends_with("# EOF\n"), "{open}");
    });
}

#[test]
fn methods_and_paths_that_are_not_known_are_told() {
    run(async {
        let running = Running::start().await;
        let head = running
            .raw("HEAD /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        assert!(
            head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        let (status, text) = running.get("/nowhere").await;
        assert_eq!(status, 404);
        assert!(text.contains("GET /metrics\n"), "{text}");
    });
}

#[test]
fn a_method_that_a_path_does_not_take_is_told_which_it_takes() {
    run(async {
        let running = Running::start().await;
        let ok = |_| async { Reply::text(200, "ok\n") };
        running.routes.post("/flush", ok);
        running.routes.get("/zones", ok);
        running.routes.post("/zones", ok);
        for (method, path, status, allow) in [
            ("POST", "/livez", 405, Some("GET, HEAD")),
            ("POST", "/readyz", 405, Some("GET, HEAD")),
            ("POST", "/metrics", 405, Some("GET, HEAD")),
            ("POST", "/status", 405, Some("GET, HEAD")),
            ("DELETE", "/status", 405, Some("GET, HEAD")),
            ("GET", "/flush", 405, Some("POST")),
            ("HEAD", "/flush", 405, Some("POST")),
            ("PUT", "/zones", 405, Some("GET, HEAD, POST")),
            // It takes the method, and not from here.
            ("POST", "/zones", 403, None),
            ("POST", "/nowhere", 404, None),
            ("PUT", "/nowhere", 404, None),
        ] {
            let asked = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let answer = running.raw(&asked).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{method} {path}: {answer}"
            );
            let told = answer.lines().find_map(|line| line.strip_prefix("allow: "));
            assert_eq!(told, allow, "{method} {path}: {answer}");
        }
    });
}

#[test]
fn a_change_over_tcp_is_refused_and_the_answer_names_the_socket() {
    run(async {
        let running = Running::start().await;
        running
            .routes
            .post("/flush", |_| async { panic!("nothing is flushed") });
        let told = post(running.address, "/flush", "").await.unwrap();
        assert_eq!(told.status, 403, "{}", told.text());
        assert!(told.text().contains("serve --admin-socket PATH"));
        // With a socket, the verbs find it.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let identify = |_: &TcpStream, peer| Caller::Network(peer);
        let refused = running.serve_beside("/run/x.sock", listener, identify);
        let told = post(address, "/flush", "").await.unwrap();
        assert_eq!((told.status, refused.get()), (403, 1));
        assert!(told.text().contains(" /run/x.sock "), "{}", told.text());
        let control = control(address).await.unwrap();
        assert_eq!(control, Place::Socket("/run/x.sock".into()));
    });
}

#[test]
fn a_process_may_do_what_its_role_allows() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        for (role, path, status) in [
            (Role::Owner, "/hand-over", 200),
            (Role::Owner, "/flush", 200),
            (Role::Operator, "/hand-over", 403),
            (Role::Operator, "/flush", 200),
            (Role::Other, "/hand-over", 403),
            (Role::Other, "/flush", 403),
            (Role::Other, "/nowhere", 403),
        ] {
            let socket = directory
                .path()
                .join(format!("{role}{}", path.replace('/', "-")));
            let running = Running::start().await;
            let done = Arc::new(RwLock::new(0));
            let ok = {
                let done = Arc::clone(&done);
                move |_| {
                    *done.write() += 1;
                    async { Reply::text(200, "ok\n") }
                }
            };
            running.routes.post_for_owner("/hand-over", ok.clone());
            running.routes.post("/flush", ok);
            let listener = tokio::net::UnixListener::bind(&socket).unwrap();
            let refused = running.serve(listener, move |_, _| Caller::Process(role));
            let told = post(socket.as_path(), path, "").await.unwrap();
            assert_eq!(told.status, status, "{role} {path}: {}", told.text());
            assert_eq!(*done.read(), i32::from(status == 200), "{role} {path}");
            assert_eq!(refused.get(), u64::from(status == 403), "{role} {path}");
            // Other processes may not even look.
            let shown = get(socket.as_path(), "/livez").await.unwrap();
            let expected = if role == Role::Other { 403 } else { 200 };
            assert_eq!(shown.status, expected, "{role}");
        }
    });
}

#[test]
fn a_body_beyond_the_bound_is_refused() {
    run(async {
        let running = Running::start().await;
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("x.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        running.serve(listener, |_, _| Caller::Process(Role::Operator));
        running.routes.post("/echo", |request| async move {
            Reply::text(200, request.body.len().to_string())
        });
        let fits = post(socket.as_path(), "/echo", vec![b'x'; 256 << 10])
            .await
            .unwrap();
        assert_eq!((fits.status, fits.text()), (200, (256 << 10).to_string()));
        let large = post(socket.as_path(), "/echo", vec![b'x'; (256 << 10) + 1])
            .await
            .unwrap();
        assert_eq!(large.status, 413);
    });
}

#[test]
fn what_is_no_http_does_no_harm() {
    run(async {
        let running = Running::start().await;
        for bytes in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
            let answer = running.raw(bytes).await;
            assert!(
                answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
                "{answer}"
            );
        }
        let long = format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        drop(stream.write_all(long.as_bytes()).await);
        drop(stream);
        assert_eq!(running.get("/livez").await.0, 200);
    });
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    run(async {
        let running = Running::start().await;
        let mut silent = Vec::new();
        for _ in 0..63 {
            silent.push(TcpStream::connect(running.address).await.unwrap());
        }
        let answer = tokio::time::timeout(Duration::from_secs(5), running.get("/livez")).await;
        assert_eq!(answer.unwrap().0, 200);
        drop(silent);
    });
}

#[test]
fn nobody_at_the_address_is_an_error_of_its_own() {
    run(async {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let error = get(address, "/status").await.unwrap_err();
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("no daemon answers at {address}"));
    });
}

#[test]
fn parameters_are_decoded() {
    let request = Request {
        query: "zone=a%2eb+c&empty&bad=%zz%4&zone=second".to_owned(),
        ..Request::default()
    };
    for (name, expected) in [
        ("zone", Some("a.b c")),
        ("empty", Some("")),
        ("bad", Some("%zz%4")),
        ("none", None),
    ] {
        assert_eq!(request.parameter(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn a_path_is_found_by_its_method() {
    let routes = Routes::new();
    routes.get("/zones", |_| async { Reply::text(200, "a.\n") });
    routes.post("/zones", |request| async move {
        Reply::text(200, request.text())
    });
    assert!(routes.handler(Method::Get, "/zones").is_some());
    assert!(routes.handler(Method::Get, "/zone").is_none());
    assert_eq!(format!("{routes:?}"), r#"["GET /zones", "POST /zones"]"#);
}
