use std::net::SocketAddr;

use config::registry_svc::Ignore;
use config::{DurationWithin, Whole};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

fn settings(address: SocketAddr) -> Settings {
    let url = format!("http://{address}/events?x=1").parse().unwrap();
    Settings {
        headers: BTreeMap::from([("Authorization".to_owned(), "Bearer secret".to_owned())]),
        timeout: DurationWithin::clamped(Duration::from_secs(20)),
        threshold: Whole::clamped(2),
        backoff: DurationWithin::clamped(Duration::from_millis(20)),
        ignore: Ignore {
            media_types: vec!["application/octet-stream".to_owned()],
            actions: vec![EventAction::Pull],
        },
        ..Settings::new("test".parse().unwrap(), url)
    }
}

fn event(action: EventAction, repository: &str, media_type: &str) -> Event {
    Event {
        action,
        repository: repository.to_owned(),
        digest: None,
        media_type: media_type.to_owned(),
        size: None,
        tag: None,
        from: None,
        actor: None,
        request: RequestInfo {
            address: "192.0.2.9:40000".parse().unwrap(),
            host: "registry.example.org".to_owned(),
            method: "PUT".to_owned(),
            user_agent: String::new(),
            is_tls: false,
        },
    }
}

/// Answers posts with these codes, the last for ever, and passes on what it got.
async fn endpoint(listener: TcpListener, codes: &[u16], got: mpsc::Sender<String>) {
    let mut codes = codes.iter().copied();
    let mut code = 200;
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        code = codes.next().unwrap_or(code);
        let mut text = String::new();
        let mut piece = vec![0; 4096];
        while !text.contains("]}") {
            let n = stream.read(&mut piece).await.unwrap();
            assert!(n > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
        let answer = format!("HTTP/1.1 {code} x\r\ncontent-length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.unwrap();
        got.send(text).await.unwrap();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

fn repositories(posted: &str) -> Vec<String> {
    let (_, body) = posted.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    let events = value["events"].as_array().unwrap().iter();
    let names = events.map(|event| event["target"]["repository"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn events_are_posted_in_order_until_they_are_taken() {
    let scratch = tempfile::tempdir().unwrap();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = [settings(listener.local_addr().unwrap())];
        let (sender, mut got) = mpsc::channel(16);
        let served = tokio::spawn(endpoint(listener, &[503, 503, 200], sender));
        let webhooks = Webhooks::start(&settings, scratch.path(), &"n".into()).unwrap();
        let events = webhooks.events();
        assert!(events.is_wanted());
        events.notify(event(EventAction::Push, "a", "x"));
        events.notify(event(EventAction::Pull, "ignored", "x"));
        events.notify(event(
            EventAction::Push,
            "ignored",
            "application/octet-stream",
        ));
        events.notify(event(EventAction::Delete, "b", "x"));
        let mut posts = Vec::new();
        let mut names = Vec::new();
        // The first two are refused and come again; later ones may come with them.
        while names.last().map(String::as_str) != Some("b") || posts.len() < 3 {
            let posted = got.recv().await.unwrap();
            if posts.len() >= 2 {
                names.extend(repositories(&posted));
            }
            posts.push(posted);
        }
        assert_eq!(names, ["a", "b"]);
        assert!(
            posts[0].starts_with("POST /events?x=1 HTTP/1.1\r\n"),
            "{}",
            posts[0]
        );
        assert!(posts[0].contains("authorization: Bearer secret\r\n"));
        assert!(posts[0].contains(&format!("content-type: {}\r\n", envelope::MEDIA_TYPE)));
        while webhooks.status()[0].delivered < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let status = &webhooks.status()[0];
        assert_eq!((status.waiting, status.dropped, status.failures), (0, 0, 2));
        assert_eq!(status.answers[&503], 2);
        assert_eq!(status.error, None);
        served.abort();
    });
}

#[test]
fn what_was_not_delivered_is_delivered_by_the_next_process() {
    let scratch = tempfile::tempdir().unwrap();
    block_on(async {
        // Nobody listens.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let gone = [settings(address)];
        let webhooks = Webhooks::start(&gone, scratch.path(), &"n".into()).unwrap();
        webhooks.events().notify(event(EventAction::Push, "a", "x"));
        while webhooks.status()[0].failures_in_a_row < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let status = &webhooks.status()[0];
        assert_eq!(status.waiting, 1);
        assert!(
            status
                .error
                .as_deref()
                .unwrap()
                .starts_with("cannot connect")
        );
        drop(webhooks);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = [settings(listener.local_addr().unwrap())];
        let (sender, mut got) = mpsc::channel(16);
        let served = tokio::spawn(endpoint(listener, &[200], sender));
        let webhooks = Webhooks::start(&there, scratch.path(), &"n".into()).unwrap();
        assert_eq!(repositories(&got.recv().await.unwrap()), ["a"]);
        drop(webhooks);
        served.abort();
    });
}

#[test]
fn an_endpoint_that_moves_gets_what_waited_for_it() {
    let scratch = tempfile::tempdir().unwrap();
    block_on(async {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = gone.local_addr().unwrap();
        drop(gone);
        let webhooks = Webhooks::start(&[settings(address)], scratch.path(), &"n".into()).unwrap();
        // Requests hold on to what they were given at the start.
        let events = webhooks.events();
        events.notify(event(EventAction::Push, "a", "x"));
        while webhooks.status()[0].failures_in_a_row < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut unfit = settings(address);
        unfit.url = "https://:1/".parse().unwrap();
        assert!(webhooks.configure(&[unfit]).is_err());
        assert!(events.is_wanted(), "nothing has changed");
        let mut blocked = settings(address);
        blocked.name = "blocked".parse().unwrap();
        let queue = scratch.path().join(DIRECTORY).join("blocked");
        std::fs::write(queue, "no directory").unwrap();
        let refused = webhooks.configure(&[blocked]);
        assert!(matches!(refused, Err(WebhookError::Queue { .. })));
        assert!(events.is_wanted(), "nothing has changed");
        assert_eq!(webhooks.status()[0].name, "test");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = settings(listener.local_addr().unwrap());
        let (sender, mut got) = mpsc::channel(16);
        let served = tokio::spawn(endpoint(listener, &[200], sender));
        webhooks.configure(&[there]).unwrap();
        events.notify(event(EventAction::Push, "b", "x"));
        let mut names = Vec::new();
        while names.len() < 2 {
            names.extend(repositories(&got.recv().await.unwrap()));
        }
        assert_eq!(names, ["a", "b"]);
        webhooks.configure(&[]).unwrap();
        assert!(!events.is_wanted());
        served.abort();
    });
}

#[test]
fn what_cannot_be_posted_to_is_refused_at_the_start() {
    let scratch = tempfile::tempdir().unwrap();
    block_on(async {
        let address = "192.0.2.1:80".parse().unwrap();
        let start = |change: &dyn Fn(&mut Settings)| {
            let mut one = settings(address);
            change(&mut one);
            Webhooks::start(&[one], scratch.path(), &"n".into())
                .err()
                .map(|error| daemon::exit::chain(&error))
        };
        let header = start(&|one| {
            one.headers.insert("a b".to_owned(), "x".to_owned());
        });
        assert!(header.unwrap().contains("header a b cannot be sent"));
        let ca = start(&|one| {
            one.url = "https://deploy.example.org/".parse().unwrap();
            one.ca = Some("/nonexistent".into());
        });
        assert!(ca.unwrap().contains("cannot read /nonexistent"));
        assert_eq!(start(&|_| {}), None);
    });
}

#[test]
fn identifiers_are_random_uuids() {
    let (first, second) = (unique(), unique());
    assert_ne!(first, second);
    assert_eq!(first.len(), 36);
    assert_eq!(first.chars().nth(14), Some('4'));
}
