//! A server on the loopback that answers as a test says, and remembers what it was asked.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::Registry;
use crate::connection::Pool;
use crate::credentials::AuthFile;
use crate::endpoint::{Endpoint, Scheme};

/// The body of an answer.
pub type Answered = UnsyncBoxBody<Bytes, std::io::Error>;

/// A server.
#[derive(Debug)]
pub struct Served {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves on a free port.
    pub async fn start<F, R>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = Response<Answered>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let remembered = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, asked) = (answer.clone(), Arc::clone(&remembered));
                connections.spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let line = format!("{} {}", request.method(), request.uri());
                        lock(&asked).push(line);
                        let answered = answer(request);
                        async move { Ok::<_, std::convert::Infallible>(answered.await) }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self {
            address,
            asked,
            task,
        }
    }

    /// A client of it.
    pub fn registry(&self, known: AuthFile) -> Registry {
        let pool = Pool::new(None).unwrap();
        Registry::new(pool, self.endpoint(), known)
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&format!("http://{}", self.address), Scheme::Http).unwrap()
    }

    /// What it was asked, method and path.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }

    /// How often it was asked what begins so.
    pub fn count(&self, beginning: &str) -> usize {
        let asked = self.asked();
        asked
            .iter()
            .filter(|line| line.starts_with(beginning))
            .count()
    }

    /// Nobody answers any more, on no connection.
    pub async fn stop(&mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Bytes as a body.
pub fn whole(bytes: impl Into<Bytes>) -> Answered {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A body that breaks off behind these bytes, when they have been sent.
pub fn broken(bytes: impl Into<Bytes>) -> Answered {
    let (sender, frames) = tokio::sync::mpsc::channel(1);
    let bytes = bytes.into();
    tokio::spawn(async move {
        drop(sender.send(Ok(Frame::data(bytes))).await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        drop(
            sender
                .send(Err(std::io::ErrorKind::BrokenPipe.into()))
                .await,
        );
    });
    StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(frames)).boxed_unsync()
}

/// An answer with these headers.
pub fn answer(status: u16, headers: &[(&str, &str)], body: Answered) -> Response<Answered> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}
