//! Pulls from a node whose disk has damaged what another node holds whole.

mod random;

use std::path::Path;
use std::time::Duration;

use daemon::drain::{Drain, Guard};
use registry_cluster::settings::{PeerSettings, Settings};
use registry_store::disk::RealDisk;
use registry_store::others::Others as NodesOf;
use registry_store::{IndexKind, Recovery, Settings as StoreSettings, heal};

use super::*;

/// How long something that happens at once may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node of two or three; the others are whole.
struct Node {
    api: Arc<Api>,
    store: Store,
    recovery: Recovery,
    cluster: Cluster,
}

async fn node(root: &Path, own: &str, others: &[(&str, &str)]) -> Node {
    let mut settings = StoreSettings::new(root.to_owned(), own.parse().unwrap());
    settings.index = IndexKind::Memory;
    let begun = clock::now();
    let (store, recovery) = loop {
        // What the node did before it was stopped may not have ended.
        match Store::open(settings.clone(), Arc::new(RealDisk)).await {
            Ok(opened) => break opened,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let file =
        ::config::registry_svc::Cluster::new(own, ::config::registry_svc::NodeFiles::default());
    let mut settings = Settings {
        tls: None,
        // The comparison would heal what these tests leave to a pull.
        compare_interval: Duration::from_hours(1),
        ..Settings::of(&file).unwrap()
    };
    settings
        .peers
        .extend(others.iter().map(|(name, address)| PeerSettings {
            name: name.parse().unwrap(),
            address: address.parse().unwrap(),
        }));
    let cluster = Cluster::start(settings, store.clone()).unwrap();
    let parts = Parts {
        store: store.clone(),
        access: Access::open(),
        cluster: Some(cluster.clone()),
        metrics: Http::default(),
        events: Events::none(),
    };
    Node {
        api: Arc::new(Api::new(parts, Latest::new(Limits::default()))),
        store,
        recovery,
        cluster,
    }
}

/// Two nodes with the same content, of which one is restarted with a damaged disk.
struct Pair {
    root: TempDir,
    address: String,
    _whole: Node,
    _whole_root: TempDir,
    _drain: Drain,
}

impl Pair {
    async fn new() -> Self {
        let (root, whole_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // Nothing listens for the damaged node: its content is pushed to both.
        let whole = node(whole_root.path(), "whole", &[("damaged", "127.0.0.1:1")]).await;
        let (drain, guard): (Drain, Guard) = Drain::new();
        whole
            .cluster
            .serve(listener, registry_cluster::nowhere, guard)
            .unwrap();
        Self {
            root,
            address,
            _whole: whole,
            _whole_root: whole_root,
            _drain: drain,
        }
    }

    async fn damaged(&self) -> Node {
        node(self.root.path(), "damaged", &[("whole", &self.address)]).await
    }
}

impl Node {
    async fn ask(&self, request: Ask<'_>) -> (u16, HeaderMap, Result<Bytes, BoxError>) {
        let mut built = Request::builder().method(request.method).uri(request.path);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        let body = Full::new(Bytes::copy_from_slice(request.body));
        let peer = Peer::plain("192.0.2.9:4000".parse().unwrap());
        let answer = self.api.handle(built.body(body).unwrap(), &peer).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await;
        let body = body.map(http_body_util::Collected::to_bytes);
        (head.status.as_u16(), head.headers, body.map_err(Into::into))
    }

    async fn push(&self, octets: &[u8]) -> Digest {
        let digest = sha256(octets);
        let path = format!("/v2/a/blobs/uploads/?digest={digest}");
        let (status, _, _) = self.ask(Ask::new("POST", &path).body(octets)).await;
        assert_eq!(status, 201);
        digest
    }

    async fn push_image(&self, layers: &[&[u8]]) -> Digest {
        let mut listed = Vec::new();
        for layer in layers {
            self.push(layer).await;
            listed.push(described(LAYER, layer));
        }
        let config = br#"{"config":"damage"}"#;
        self.push(config).await;
        let document = json!({
            "schemaVersion": 2, "mediaType": OCI_IMAGE, "config": described(CONFIG, config),
            "layers": listed,
        });
        let octets = document.to_string().into_bytes();
        let headers = [("content-type", OCI_IMAGE)];
        let put = Ask::new("PUT", "/v2/a/manifests/v1")
            .headers(&headers)
            .body(&octets);
        assert_eq!(self.ask(put).await.0, 201);
        sha256(&octets)
    }

    /// Waits until it follows the other node.
    async fn is_connected(&self) {
        let connected = async {
            while !self
                .cluster
                .status()
                .peers
                .iter()
                .all(|peer| peer.connected)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, connected).await.unwrap();
    }

    async fn stop(self) {
        self.store.close().await;
    }
}

/// Replaces a blob's file: files of blobs are not writable.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut octets = std::fs::read(path).unwrap();
    change(&mut octets);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, octets).unwrap();
}

type Change = fn(&mut Vec<u8>);

const CHANGES: [(&str, Change); 4] = [
    ("a flipped bit", |octets| octets[17] ^= 4),
    ("cut", |octets| octets.truncate(octets.len() / 3)),
    ("emptied", Vec::clear),
    ("longer", |octets| octets.extend_from_slice(b"more")),
];

fn octets(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at * 31 % 251).unwrap())
        .collect()
}

/// Asks until an answer ends as it should: one that is cut is no answer, and the client asks again.
async fn pulled(node: &Node, ask: Ask<'_>) -> (u16, HeaderMap, Bytes, u32) {
    let mut n_cut = 0;
    loop {
        let (status, head, body) = node.ask(ask).await;
        match body {
            Ok(body) => return (status, head, body, n_cut),
            Err(_) => n_cut += 1,
        }
        assert!(n_cut < 5, "cut again and again");
    }
}

#[test]
fn a_blob_that_the_disk_has_damaged_comes_from_the_other_node() {
    block_on(async {
        let pair = Pair::new().await;
        // Of one piece, and of several.
        let (small, large) = (octets(5000), octets(900_000));
        pair._whole.push_image(&[&small, &large]).await;
        let mut node = pair.damaged().await;
        node.push_image(&[&small, &large]).await;
        for (case, change) in CHANGES.iter().chain(&[("missing", (|_| ()) as Change)]) {
            for whole in [&small, &large] {
                for (method, range) in [("GET", ""), ("HEAD", ""), ("GET", "bytes=100-")] {
                    let case = format!("{case}, {} bytes, {method} {range}", whole.len());
                    let digest = sha256(whole);
                    let path = node.store.layout().blob(&digest);
                    node.stop().await;
                    match case.starts_with("missing") {
                        true => std::fs::remove_file(&path).unwrap(),
                        false => rewrite(&path, change),
                    }
                    node = pair.damaged().await;
                    node.is_connected().await;
                    let url = format!("/v2/a/blobs/{digest}");
                    let headers = [("range", range)];
                    let headers = if range.is_empty() {
                        &headers[1..]
                    } else {
                        &headers[..]
                    };
                    let ask = Ask::new(method, &url).headers(headers);
                    let (status, head, body, n_cut) = pulled(&node, ask).await;
                    let wanted = if range.is_empty() { 200 } else { 206 };
                    assert_eq!(status, wanted, "{case}");
                    let length = whole.len() - if range.is_empty() { 0 } else { 100 };
                    assert_eq!(head["content-length"], length.to_string(), "{case}");
                    if method == "GET" {
                        assert!(body == whole[whole.len() - length..], "{case}: wrong bytes");
                    }
                    // Only a large one is sent before all of it was read.
                    let may_be_cut = case.starts_with("a flip") && whole.len() > 300_000;
                    assert!(
                        n_cut == 0 || may_be_cut && n_cut == 1,
                        "{case}: cut {n_cut} times"
                    );
                    let others = Arc::new(node.cluster.clone()) as Arc<dyn NodesOf>;
                    // A HEAD reads nothing, so a flip is not found.
                    if method == "HEAD" {
                        pulled(&node, Ask::new("GET", &url)).await;
                    }
                    heal::round(&node.store, Some(&others), clock::now()).await;
                    assert_eq!(node.store.damaged().n_waiting, 0, "{case}");
                    assert!(
                        std::fs::read(&path).unwrap() == **whole,
                        "{case}: not healed"
                    );
                }
            }
        }
        assert!(node.recovery.missing.is_empty() || node.store.damaged().n_found > 0);
    });
}

#[test]
fn a_manifest_that_the_disk_has_damaged_comes_from_the_other_node() {
    block_on(async {
        let pair = Pair::new().await;
        let layer = octets(100);
        let digest = pair._whole.push_image(&[&layer]).await;
        let mut node = pair.damaged().await;
        assert_eq!(node.push_image(&[&layer]).await, digest);
        let path = node.store.layout().blob(&digest);
        let whole = std::fs::read(&path).unwrap();
        for (case, change) in CHANGES.iter().chain(&[("missing", (|_| ()) as Change)]) {
            for reference in ["v1".to_owned(), digest.to_string()] {
                for method in ["GET", "HEAD"] {
                    node.stop().await;
                    match *case == "missing" {
                        true => std::fs::remove_file(&path).unwrap(),
                        false => rewrite(&path, change),
                    }
                    node = pair.damaged().await;
                    node.is_connected().await;
                    let url = format!("/v2/a/manifests/{reference}");
                    let (status, head, body) = node.ask(Ask::new(method, &url)).await;
                    assert_eq!(status, 200, "{case} {method} {reference}");
                    assert_eq!(head["content-type"], OCI_IMAGE);
                    assert_eq!(head["docker-content-digest"], digest.to_string());
                    if method == "GET" {
                        assert_eq!(body.unwrap(), whole, "{case} {reference}");
                    }
                    let url = format!("/v2/a/referrers/{digest}");
                    assert_eq!(node.ask(Ask::new("GET", &url)).await.0, 200, "{case}");
                    assert_eq!(std::fs::read(&path).unwrap(), whole, "{case}: not healed");
                }
            }
        }
    });
}

#[test]
fn a_node_alone_says_that_it_has_not_what_is_damaged_until_it_is_pushed_again() {
    block_on(async {
        let registry = Registry::open().await;
        let whole = octets(5000);
        let digest = registry.push_blob("a", &whole).await;
        let path = format!("/v2/a/blobs/{digest}");
        for (case, change) in CHANGES {
            rewrite(&registry.api.parts.store.layout().blob(&digest), change);
            // A client that pushes asks first: what is damaged has to be pushed.
            registry.get(&path).await.is(404, "BLOB_UNKNOWN");
            assert_eq!(registry.head(&path).await.status, 404, "{case}");
            registry.push_blob("a", &whole).await;
            let reply = registry.get(&path).await;
            assert!(reply.status == 200 && reply.body == whole, "{case}");
        }
        let damaged = registry.api.parts.store.damaged();
        assert_eq!(
            (damaged.n_found, damaged.n_healed, damaged.n_waiting),
            (4, 4, 0)
        );
    });
}
