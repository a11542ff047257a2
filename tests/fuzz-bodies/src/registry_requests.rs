//! Any bytes as requests of clients, one after another, to a registry with a store of its own: whatever they ask for, it never fails, keeps
//! what it has acknowledged octet for octet, and shows nothing else.

use std::collections::BTreeMap;
use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use oci::digest::{Algorithm, Digest};
use oci::manifest::OCI_IMAGE;
use registry_auth::Peer;
use registry_http::Limits;
use registry_http::testing::Registry;

pub(super) const WORDS: &[&str] = &[
    "sha256:",
    "/v2/",
    "blobs/",
    "uploads/",
    "manifests/",
    "tags/list",
    "referrers/",
    "?digest=",
    "?mount=",
    "bytes=0-",
];

/// The most requests of one input.
const REQUESTS: usize = 64;

const REPOSITORIES: [&str; 3] = ["a", "a/b", "mirror/ocp4/release"];

/// Takes octets from the front; zero behind the end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn octet(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn octets(&mut self, number: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(number.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// Text whose length is one octet before it.
    fn text(&mut self) -> String {
        let length = usize::from(self.octet());
        String::from_utf8_lossy(self.octets(length)).into_owned()
    }

    /// The content of a body: some octets, again and again.
    fn content(&mut self) -> Vec<u8> {
        let times = usize::from(self.octet());
        let length = usize::from(self.octet() % 16);
        self.octets(length).repeat(times)
    }
}

/// An upload session, as the client knows it.
struct Upload {
    repository: &'static str,
    path: String,
    received: Vec<u8>,
}

/// What the registry has acknowledged.
#[derive(Default)]
struct Known {
    uploads: Vec<Upload>,
    /// By repository and digest.
    blobs: BTreeMap<(&'static str, Digest), Vec<u8>>,
    /// By repository and tag.
    tags: BTreeMap<(&'static str, String), Digest>,
    manifests: BTreeMap<(&'static str, Digest), Vec<u8>>,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }
}

struct Client {
    registry: Registry,
    known: Known,
}

pub(super) fn body(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client {
            registry: Registry::in_memory(Limits::default()).await,
            known: Known::default(),
        };
        let mut input = Input(data);
        for _ in 0..REQUESTS {
            if input.0.is_empty() {
                break;
            }
            client.next(&mut input).await;
        }
        client.look().await;
    });
}

impl Client {
    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Option<Reply> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body: Full<Bytes> = Full::new(Bytes::copy_from_slice(body));
        // Neither is it one that hyper would pass on.
        let request = request.body(body.map_err(|never: Infallible| never)).ok()?;
        let peer = Peer::plain(([192, 0, 2, 9], 4000).into());
        let answer = self.registry.api().handle(request, &peer).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("the whole body").to_bytes();
        let status = head.status;
        assert!(
            !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED,
            "{method} {path} {headers:?}: {status}"
        );
        Some(Reply {
            status,
            headers: head.headers,
            body,
        })
    }

    async fn next(&mut self, input: &mut Input<'_>) {
        let kind = input.octet();
        let repository = REPOSITORIES[usize::from(input.octet()) % REPOSITORIES.len()];
        match kind % 9 {
            0 => self.begin(repository).await,
            1 => self.append(input).await,
            2 => self.finish(input).await,
            3 => self.cancel(input).await,
            4 => self.push_at_once(repository, input).await,
            5 => self.range(repository, input).await,
            6 => self.tag(repository, input).await,
            7 => self.delete(repository, input).await,
            _ => {
                let method = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
                let method = method[usize::from(input.octet()) % method.len()];
                let is_writing = !matches!(method, "GET" | "HEAD" | "OPTIONS");
                // What a write of any form has changed, the model does not know: it goes elsewhere.
                let path = match is_writing {
                    true => format!("/v2/elsewhere/{}", input.text()),
                    false => input.text(),
                };
                let headers = [("content-type", input.text()), ("range", input.text())];
                self.send(method, &path, &headers, &input.content()).await;
            }
        }
    }

    async fn begin(&mut self, repository: &'static str) {
        let path = format!("/v2/{repository}/blobs/uploads/");
        let reply = self.send("POST", &path, &[], &[]).await.expect("a request");
        assert_eq!(reply.status, StatusCode::ACCEPTED);
        self.known.uploads.push(Upload {
            repository,
            path: reply.header("location").to_owned(),
            received: Vec::new(),
        });
    }

    /// Sends a part; by its place it follows what was received, or it does not.
    async fn append(&mut self, input: &mut Input<'_>) {
        let Some(at) = self.pick(input) else { return };
        let shift = usize::from(input.octet() % 4);
        let content = input.content();
        let upload = &self.known.uploads[at];
        let first = upload.received.len() + shift;
        let has_place = input.octet().is_multiple_of(2) && !content.is_empty();
        let place = has_place.then(|| {
            (
                "content-range",
                format!("{first}-{}", first + content.len().max(1) - 1),
            )
        });
        let (path, received) = (upload.path.clone(), upload.received.len());
        let reply = self
            .send("PATCH", &path, place.as_slice(), &content)
            .await
            .expect("a request");
        if has_place && shift > 0 {
            assert_eq!(
                reply.status,
                StatusCode::RANGE_NOT_SATISFIABLE,
                "a part leaves a gap"
            );
        } else {
            assert_eq!(reply.status, StatusCode::ACCEPTED, "a part follows");
            let upload = &mut self.known.uploads[at];
            upload.received.extend_from_slice(&content);
            reply.header("location").clone_into(&mut upload.path);
            if received + content.len() > 0 {
                assert_eq!(
                    reply.header("range"),
                    format!("0-{}", received + content.len() - 1)
                );
            }
        }
    }

    /// Ends an upload by the digest of what was received, or by another one.
    async fn finish(&mut self, input: &mut Input<'_>) {
        let Some(at) = self.pick(input) else { return };
        let content = input.content();
        let upload = &self.known.uploads[at];
        let whole = [&upload.received[..], &content].concat();
        let digest = match input.octet() % 4 {
            0 => Digest::of(Algorithm::Sha256, b"another"),
            1 => Digest::of(Algorithm::Sha512, &whole),
            _ => Digest::of(Algorithm::Sha256, &whole),
        };
        let is_right = digest == Digest::of(digest.algorithm(), &whole);
        let separator = if upload.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}digest={digest}", upload.path);
        let reply = self
            .send("PUT", &path, &[], &content)
            .await
            .expect("a request");
        let upload = self.known.uploads.remove(at);
        if is_right {
            assert_eq!(reply.status, StatusCode::CREATED, "the digest is right");
            self.known.blobs.insert((upload.repository, digest), whole);
        } else {
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "the digest is wrong");
        }
    }

    async fn cancel(&mut self, input: &mut Input<'_>) {
        let Some(at) = self.pick(input) else { return };
        let upload = self.known.uploads.remove(at);
        let reply = self
            .send("DELETE", &upload.path, &[], &[])
            .await
            .expect("a request");
        assert_eq!(reply.status, StatusCode::NO_CONTENT);
        let reply = self
            .send("GET", &upload.path, &[], &[])
            .await
            .expect("a request");
        assert_eq!(
            reply.status,
            StatusCode::NOT_FOUND,
            "a cancelled upload is gone"
        );
    }

    async fn push_at_once(&mut self, repository: &'static str, input: &mut Input<'_>) {
        let content = input.content();
        let digest = Digest::of(Algorithm::Sha256, &content);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let reply = self
            .send("POST", &path, &[], &content)
            .await
            .expect("a request");
        assert_eq!(reply.status, StatusCode::CREATED);
        self.known.blobs.insert((repository, digest), content);
    }

    /// A part of a blob, by any range.
    async fn range(&mut self, repository: &'static str, input: &mut Input<'_>) {
        let Some((digest, content)) = self.blob(repository, input) else {
            return;
        };
        let path = format!("/v2/{repository}/blobs/{digest}");
        let range = match input.octet() % 2 {
            0 => format!("bytes={}-{}", input.octet(), input.octet()),
            _ => input.text(),
        };
        let Some(reply) = self.send("GET", &path, &[("range", range)], &[]).await else {
            return;
        };
        match reply.status {
            StatusCode::OK => assert_eq!(reply.body, content),
            StatusCode::PARTIAL_CONTENT => {
                let place = reply.header("content-range");
                let place = place.strip_prefix("bytes ").expect("its unit");
                let (place, whole) = place.split_once('/').expect("a length");
                let (first, last) = place.split_once('-').expect("a first and a last");
                let number = |text: &str| text.parse::<usize>().expect("a number");
                assert_eq!(number(whole), content.len());
                assert_eq!(reply.body, content[number(first)..=number(last)]);
            }
            status => assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE),
        }
    }

    /// A manifest of a blob that is there, or of one that is not; or any document.
    async fn tag(&mut self, repository: &'static str, input: &mut Input<'_>) {
        let tag = format!("v{}", input.octet() % 4);
        let (document, is_good) = match (input.octet() % 3, self.blob(repository, input)) {
            (0, Some((digest, content))) => (manifest(&digest, content.len()), true),
            (1, _) => (
                manifest(&Digest::of(Algorithm::Sha256, b"nowhere"), 7),
                false,
            ),
            _ => (input.text(), false),
        };
        let path = format!("/v2/{repository}/manifests/{tag}");
        let kind = [("content-type", OCI_IMAGE.to_owned())];
        let reply = self
            .send("PUT", &path, &kind, document.as_bytes())
            .await
            .expect("a request");
        assert!(
            !is_good || reply.status == StatusCode::CREATED,
            "{}: {document}",
            reply.status
        );
        if reply.status == StatusCode::CREATED {
            let digest = Digest::of(Algorithm::Sha256, document.as_bytes());
            assert_eq!(reply.header("docker-content-digest"), digest.to_string());
            self.known.tags.insert((repository, tag), digest);
            self.known
                .manifests
                .insert((repository, digest), document.into_bytes());
        }
    }

    /// A blob or a tag goes.
    async fn delete(&mut self, repository: &'static str, input: &mut Input<'_>) {
        if input.octet().is_multiple_of(2) {
            let Some((digest, _)) = self.blob(repository, input) else {
                return;
            };
            let path = format!("/v2/{repository}/blobs/{digest}");
            let reply = self
                .send("DELETE", &path, &[], &[])
                .await
                .expect("a request");
            if reply.status == StatusCode::ACCEPTED {
                self.known.blobs.remove(&(repository, digest));
            }
            return;
        }
        let tag = format!("v{}", input.octet() % 4);
        let path = format!("/v2/{repository}/manifests/{tag}");
        let reply = self
            .send("DELETE", &path, &[], &[])
            .await
            .expect("a request");
        let was_there = self.known.tags.remove(&(repository, tag)).is_some();
        let expected = match was_there {
            true => StatusCode::ACCEPTED,
            false => StatusCode::NOT_FOUND,
        };
        assert_eq!(reply.status, expected);
    }

    /// Everything that was acknowledged is there.
    async fn look(&self) {
        for ((repository, digest), content) in &self.known.blobs {
            let path = format!("/v2/{repository}/blobs/{digest}");
            let reply = self.send("GET", &path, &[], &[]).await.expect("a request");
            assert_eq!(
                (reply.status, &reply.body[..]),
                (StatusCode::OK, &content[..]),
                "{path}"
            );
        }
        for ((repository, tag), digest) in &self.known.tags {
            let path = format!("/v2/{repository}/manifests/{tag}");
            let reply = self.send("GET", &path, &[], &[]).await.expect("a request");
            let document = &self.known.manifests[&(*repository, *digest)];
            assert_eq!(
                (reply.status, &reply.body[..]),
                (StatusCode::OK, &document[..]),
                "{path}"
            );
        }
        for upload in &self.known.uploads {
            let reply = self
                .send("GET", &upload.path, &[], &[])
                .await
                .expect("a request");
            assert_eq!(reply.status, StatusCode::NO_CONTENT, "{}", upload.path);
        }
    }

    /// One of the uploads that go on.
    fn pick(&self, input: &mut Input<'_>) -> Option<usize> {
        usize::from(input.octet()).checked_rem(self.known.uploads.len())
    }

    /// One of the blobs of a repository.
    fn blob(&self, repository: &'static str, input: &mut Input<'_>) -> Option<(Digest, Vec<u8>)> {
        let of_it = |((other, digest), content): (&(&str, Digest), &Vec<u8>)| {
            (*other == repository).then(|| (*digest, content.clone()))
        };
        let blobs: Vec<_> = self.known.blobs.iter().filter_map(of_it).collect();
        let at = usize::from(input.octet()).checked_rem(blobs.len())?;
        blobs.into_iter().nth(at)
    }
}

fn manifest(digest: &Digest, size: usize) -> String {
    let blob = format!(
        "{{\"mediaType\":\"application/octet-stream\",\"digest\":\"{digest}\",\"size\":{size}}}"
    );
    format!("{{\"schemaVersion\":2,\"mediaType\":\"{OCI_IMAGE}\",\"config\":{blob},\"layers\":[]}}")
}
