//! The API over a real store, line by line of distribution-spec v1.1 and what came after it.

mod blobs;
mod damage;
mod lists;
mod manifests;
mod refusals;
mod uploads;

use std::fmt::Display;

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::HeaderMap;
use oci::digest::Algorithm;
use oci::manifest::OCI_IMAGE;
use registry_store::space;
use registry_webhook::Event;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// An API over a store in a directory of its own, which anybody may push to.
pub(crate) struct Registry {
    api: Arc<Api>,
    root: TempDir,
}

impl Registry {
    async fn open() -> Self {
        Self::with(Limits::default()).await
    }

    /// The API.
    pub(crate) fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }

    /// Within bounds.
    pub(crate) async fn with(limits: Limits) -> Self {
        Self::at(tempfile::tempdir().unwrap(), limits).await
    }

    async fn at(root: TempDir, limits: Limits) -> Self {
        let parts = testing::parts(&root).await;
        Self {
            api: Arc::new(Api::new(parts, Latest::new(limits))),
            root,
        }
    }

    /// The same, within bounds of its room.
    fn within(mut self, space: space::Settings) -> Self {
        let parts = self.api.parts.clone();
        let space = Space::new(parts.store.clone(), space);
        let limits = Arc::clone(&self.api.limits);
        self.api = Arc::new(Api::new(parts, limits).within(space));
        self
    }

    /// The same, with what webhooks would be told.
    fn overheard(mut self) -> (Self, impl Iterator<Item = Event>) {
        let (events, told) = Events::overheard();
        let parts = Parts {
            events,
            ..self.api.parts.clone()
        };
        self.api = Arc::new(Api::new(parts, Arc::clone(&self.api.limits)));
        (self, told)
    }

    /// The same directory, opened by a new process.
    async fn restarted(self) -> Self {
        let Self { api, root } = self;
        api.parts.store.close().await;
        // Only one process has a store at a time.
        drop(api);
        Self::at(root, Limits::default()).await
    }

    async fn send(&self, request: Ask<'_>) -> Reply {
        let body = Full::new(Bytes::copy_from_slice(request.body));
        self.send_body(request, body).await
    }

    async fn send_body<B>(&self, request: Ask<'_>, body: B) -> Reply
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut built = Request::builder().method(request.method).uri(request.path);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        let peer = Peer::plain("192.0.2.9:4000".parse().unwrap());
        let answer = self.api.handle(built.body(body).unwrap(), &peer).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    async fn get(&self, path: impl Display) -> Reply {
        self.send(Ask::new("GET", &path.to_string())).await
    }

    async fn head(&self, path: impl Display) -> Reply {
        self.send(Ask::new("HEAD", &path.to_string())).await
    }

    async fn delete(&self, path: impl Display) -> Reply {
        self.send(Ask::new("DELETE", &path.to_string())).await
    }

    async fn post(&self, path: impl Display) -> Reply {
        self.send(Ask::new("POST", &path.to_string())).await
    }

    /// Pushes a blob in one request.
    async fn push_blob(&self, name: &str, octets: &[u8]) -> Digest {
        let digest = sha256(octets);
        let path = format!("/v2/{name}/blobs/uploads/?digest={digest}");
        let reply = self.send(Ask::new("POST", &path).body(octets)).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        digest
    }

    /// Pushes a manifest as `media_type`.
    async fn push(&self, path: &str, media_type: &str, document: &Value) -> Reply {
        let octets = document.to_string().into_bytes();
        let headers = [("content-type", media_type)];
        self.send(Ask::new("PUT", path).headers(&headers).body(&octets))
            .await
    }

    /// An image of two blobs, which are there.
    async fn image(&self, name: &str, salt: &str) -> Value {
        let config = format!("{{\"config\":\"{salt}\"}}");
        let layer = format!("layer {salt}");
        self.push_blob(name, config.as_bytes()).await;
        self.push_blob(name, layer.as_bytes()).await;
        json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE,
            "config": described(CONFIG, config.as_bytes()),
            "layers": [described(LAYER, layer.as_bytes())],
        })
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
}

impl<'a> Ask<'a> {
    fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            headers: &[],
            body: &[],
        }
    }

    fn headers(mut self, headers: &'a [(&'a str, &'a str)]) -> Self {
        self.headers = headers;
        self
    }

    fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }
}

/// An answer.
#[derive(Clone, Debug)]
struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn location(&self) -> &str {
        let location = self.header("location");
        assert!(location.starts_with("/v2/"), "{location:?}");
        location
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of an error, which has to be one of the spec's.
    fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let code = self.json()["errors"][0]["code"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            Code::ALL.iter().any(|known| known.as_str() == code),
            "{code}"
        );
        code
    }

    #[track_caller]
    fn is(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{self:?}"
        );
    }
}

fn sha256(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn sha512(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha512, octets)
}

fn described(media_type: &str, octets: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": sha256(octets).to_string(), "size": octets.len() })
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn the_base_says_which_api_this_is() {
    block_on(async {
        let registry = Registry::open().await;
        for path in ["/v2/", "/v2"] {
            let reply = registry.get(path).await;
            assert_eq!((reply.status, &reply.body[..]), (200, &b"{}"[..]));
            assert_eq!(
                reply.header("docker-distribution-api-version"),
                "registry/2.0"
            );
            let head = registry.head(path).await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            assert_eq!(head.header("content-length"), "2");
        }
        let reply = registry.get("/v2/_oci/ext/discover").await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({ "extensions": [] }))
        );
    });
}
