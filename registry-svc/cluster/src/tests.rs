//! Nodes on loopback with real stores.

mod clocks;
mod members;
mod pace;
mod read_through;
mod sweeping;
mod trust;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use daemon::clock;
use daemon::drain::{Drain, Guard};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use oci::digest::{Algorithm, Digest};
use oci::manifest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_facts::hlc::Hlc;
use registry_facts::name::{NodeName, UploadId};
use registry_facts::record::Position;
use registry_store::disk::RealDisk;
use registry_store::{IndexKind, NewManifest, Settings as StoreSettings, Store};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;

use self::trust::{certificates, files};
use super::settings::{NodeFiles, PeerSettings, Settings};
use super::{Caller, Cluster, Remote, compare, nowhere};
use registry_cluster_core::acknowledge::{Mode, Outcome};

/// How long something that happens at once may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes of a site, in a directory that goes with them.
struct Site {
    directory: TempDir,
    addresses: Vec<SocketAddr>,
    change: fn(&mut Settings),
    /// Milliseconds since 1970, for all of them.
    wall: fn() -> u64,
    tls: bool,
}

/// A node that runs; dropping it ends it.
struct Node {
    cluster: Cluster,
    store: Store,
    _drain: Drain,
}

impl Site {
    fn new(n_nodes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The ports are free when asked for, and taken a moment later.
        let held: Vec<TcpListener> = (0..n_nodes)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        Self {
            directory,
            addresses: held.iter().map(|one| one.local_addr().unwrap()).collect(),
            change: |_| {},
            wall: wall_clock,
            tls: false,
        }
    }

    fn root(&self, at: usize) -> PathBuf {
        self.directory.path().join(format!("node-{at}"))
    }

    async fn start(&self, at: usize) -> Node {
        self.start_with(at, nowhere).await
    }

    async fn start_with<H, F, B>(&self, at: usize, passed_on: H) -> Node
    where
        H: Fn(Request<Incoming>, Caller) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut settings = StoreSettings::new(self.root(at), name(at));
        settings.index = IndexKind::Memory;
        settings.wall = self.wall;
        settings.others = (0..self.addresses.len())
            .filter(|other| *other != at)
            .map(name)
            .collect();
        std::fs::create_dir_all(self.root(at)).unwrap();
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let mut settings = alone(&name(at));
        settings.compare_interval = Duration::from_secs(1);
        for (other, address) in self.addresses.iter().enumerate() {
            if other != at {
                settings.peers.push(PeerSettings {
                    name: name(other),
                    address: address.to_string().parse().unwrap(),
                });
            }
        }
        settings.tls = self.tls.then(|| files(self.directory.path(), at));
        (self.change)(&mut settings);
        let cluster = Cluster::start(settings, store.clone()).unwrap();
        let listener = listen(self.addresses[at]).await;
        let (drain, guard): (Drain, Guard) = Drain::new();
        cluster.serve(listener, passed_on, guard).unwrap();
        Node {
            cluster,
            store,
            _drain: drain,
        }
    }
}

/// A cluster of one node, without authentication.
fn alone(node: &NodeName) -> Settings {
    let file = config::registry_svc::Cluster::new(node.as_str(), NodeFiles::default());
    Settings {
        tls: None,
        acknowledge_wait: Duration::from_secs(10),
        ..Settings::of(&file).unwrap()
    }
}

/// A port that a node had a moment ago may still be closing.
async fn listen(address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn name(at: usize) -> NodeName {
    format!("node-{at}").parse().unwrap()
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Waits until something holds.
async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} does not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn repository() -> RepositoryName {
    "ocp4/release".parse().unwrap()
}

/// Octets that a seed makes.
fn octets(seed: u8, length: usize) -> Bytes {
    let octet = |at: usize| u8::try_from((at * 31 + at / 251) % 256).unwrap() ^ seed;
    (0..length).map(octet).collect::<Vec<u8>>().into()
}

fn sha256(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

async fn push_blob(store: &Store, repository: &RepositoryName, content: &Bytes) -> Digest {
    let digest = sha256(content);
    let body = tokio_stream::once(Ok(content.clone()));
    let length = Some(content.len() as u64);
    store.push(repository, &digest, length, body).await.unwrap();
    digest
}

/// Pushes an image of these layers under a tag.
async fn push(store: &Store, tag: &str, layers: &[Bytes]) -> (Digest, Position) {
    push_to(store, &repository(), tag, layers).await
}

async fn push_to(
    store: &Store,
    repository: &RepositoryName,
    tag: &str,
    layers: &[Bytes],
) -> (Digest, Position) {
    let config = push_blob(store, repository, &octets(200, 100)).await;
    let mut listed = Vec::new();
    let mut closure = vec![config];
    for layer in layers {
        let digest = push_blob(store, repository, layer).await;
        closure.push(digest);
        listed.push(format!(
            r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{digest}","size":{}}}"#,
            layer.len()
        ));
    }
    let document = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{config}","size":100}},"layers":[{}]}}"#,
        manifest::OCI_IMAGE,
        listed.join(",")
    );
    let bytes = Bytes::from(document);
    let new = NewManifest {
        digest: sha256(&bytes),
        bytes,
        media_type: manifest::OCI_IMAGE.to_owned(),
        closure,
        subject: None,
        tags: vec![tag.parse().unwrap()],
    };
    let digest = new.digest;
    let position = store.put_manifest(repository, new).await.unwrap();
    (digest, position)
}

/// What a tag points to on a node, when all of it is there.
async fn shown(store: &Store, tag: &str) -> Option<Digest> {
    let reference = Reference::Tag(tag.parse().unwrap());
    let stored = store.manifest(&repository(), &reference).await.unwrap()?;
    let read = manifest::parse(&stored.bytes, Some(&stored.media_type)).unwrap();
    for blob in read.closure.required() {
        let held = store.blob(&repository(), blob).await.unwrap();
        assert!(held.is_some(), "a manifest is visible without {blob}");
    }
    Some(stored.digest)
}

async fn connected(nodes: &[&Node]) {
    until("the nodes follow each other", async || {
        nodes.iter().all(|node| {
            let status = node.cluster.status();
            let others = status.peers.iter();
            others.filter(|peer| peer.connected && peer.follows).count() == nodes.len() - 1
        })
    })
    .await;
}

async fn same(nodes: &[&Node]) {
    for node in nodes {
        for other in nodes {
            let other = other.store.origin().name;
            if other != node.store.origin().name {
                until("the nodes are equal", async || {
                    let differences = node.cluster.diff(other.as_str()).await;
                    differences.is_ok_and(|differences| differences.is_empty())
                })
                .await;
            }
        }
    }
}

async fn read(
    cluster: &Cluster,
    remote: &Remote,
    part: std::ops::Range<u64>,
) -> Result<Vec<u8>, std::io::Error> {
    let mut body = cluster.open(remote, part).await;
    let mut whole = Vec::new();
    while let Some(piece) = body.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole)
}

#[test]
fn what_is_pushed_to_one_node_is_shown_whole_by_all() {
    run(async {
        let site = Site::new(3);
        let nodes = [
            site.start(0).await,
            site.start(1).await,
            site.start(2).await,
        ];
        let all: Vec<&Node> = nodes.iter().collect();
        connected(&all).await;
        let layers = [octets(1, 3 << 20), octets(2, 1000)];
        let (digest, position) = push(&nodes[0].store, "v1", &layers).await;
        let acknowledgement = nodes[0].cluster.acknowledge(&position).await;
        assert_eq!(acknowledgement.outcome, Outcome::Enough);
        assert!(acknowledgement.held >= 2, "{acknowledgement:?}");
        assert_eq!(acknowledgement.warning(), None);
        for node in &nodes {
            until("the image arrives", async || {
                shown(&node.store, "v1").await == Some(digest)
            })
            .await;
        }
        // And what any other deletes is gone everywhere.
        nodes[2]
            .store
            .delete_manifest(&repository(), &digest)
            .await
            .unwrap();
        for node in &nodes {
            until("the image goes", async || {
                shown(&node.store, "v1").await.is_none()
            })
            .await;
        }
        same(&all).await;
    });
}

#[test]
fn a_node_that_has_just_started_asks_the_others_before_it_says_no() {
    run(async {
        let site = Site::new(3);
        let first = site.start(0).await;
        let layers = [octets(1, 300_000)];
        let (digest, _) = push(&first.store, "v1", &layers).await;
        // The third node stays away.
        let second = site.start(1).await;
        let reference = Reference::Tag("v1".parse().unwrap());
        let found = second
            .cluster
            .find_manifest(&repository(), &reference)
            .await;
        assert_eq!(found.map(|found| found.digest), Some(digest));
        let blob = sha256(&layers[0]);
        let remote = second.cluster.find_blob(&repository(), &blob).await;
        let content = read(&second.cluster, &remote.unwrap(), 0..300_000).await;
        assert_eq!(content.unwrap(), layers[0]);
    });
}

#[test]
fn nodes_that_were_apart_become_equal_and_a_wiped_one_is_filled_again() {
    run(async {
        let site = Site::new(3);
        let first = site.start(0).await;
        // Alone: taken, and said so.
        let (_, position) = push(&first.store, "both", &[octets(1, 5000)]).await;
        let acknowledgement = first.cluster.acknowledge(&position).await;
        assert_eq!(acknowledgement.outcome, Outcome::Fewer);
        let warning = acknowledgement.warning().unwrap();
        assert_eq!(warning, "299 - \"stored on 1 of 3 nodes\"");
        first.store.close().await;
        drop(first);

        let second = site.start(1).await;
        let (winner, _) = push(&second.store, "both", &[octets(2, 5000)]).await;
        push(&second.store, "other", &[octets(3, 70_000)]).await;
        let third = site.start(2).await;
        let first = site.start(0).await;
        same(&[&first, &second, &third]).await;
        for node in [&first, &second, &third] {
            // The last writer.
            assert_eq!(shown(&node.store, "both").await, Some(winner));
            assert!(shown(&node.store, "other").await.is_some());
        }

        let before = second.store.origin();
        second.store.close().await;
        drop(second);
        std::fs::remove_dir_all(site.root(1)).unwrap();
        let second = site.start(1).await;
        assert_eq!(second.store.origin().name, before.name);
        assert_ne!(second.store.origin().incarnation, before.incarnation);
        until("the wiped node is filled", async || {
            shown(&second.store, "both").await == Some(winner)
                && shown(&second.store, "other").await.is_some()
        })
        .await;
        // What it states in its new life reaches those that know its old one.
        let (newest, _) = push(&second.store, "both", &[octets(4, 10)]).await;
        until("the new life is heard", async || {
            shown(&first.store, "both").await == Some(newest)
        })
        .await;
        same(&[&first, &second, &third]).await;
    });
}

/// Milliseconds since 1970.
fn wall_clock() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap()
}

#[test]
fn a_strict_site_refuses_what_it_cannot_make_safe() {
    run(async {
        let mut site = Site::new(3);
        site.change = |settings| {
            settings.acknowledge = Mode::Strict;
            settings.acknowledge_wait = Duration::from_secs(30);
        };
        let first = site.start(0).await;
        assert!(!first.cluster.admits());
        let (_, position) = push(&first.store, "v1", &[]).await;
        assert_eq!(
            first.cluster.acknowledge(&position).await.outcome,
            Outcome::Refused
        );
        let second = site.start(1).await;
        until("there is a majority", async || first.cluster.admits()).await;
        let acknowledgement = first.cluster.acknowledge(&position).await;
        assert_eq!(
            (acknowledgement.outcome, acknowledgement.held),
            (Outcome::Enough, 2)
        );
        drop(second);
    });
}

/// Answers with what was asked, and from whom.
async fn echo(request: Request<Incoming>, caller: Caller) -> Response<Full<Bytes>> {
    let head = format!(
        "{} {} hop={:?} range={:?} host={:?} from={:?} ",
        request.method(),
        request.uri(),
        request.headers().get(super::proxy::HOP),
        request.headers().get("content-range"),
        request.headers().get("host"),
        caller.node.as_ref().map(NodeName::as_str),
    );
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let text = format!("{head}{}", sha256(&body));
    Response::builder()
        .status(202)
        .header("range", "0-9")
        .body(Full::new(text.into()))
        .unwrap()
}

#[test]
fn requests_of_a_session_reach_the_node_that_has_it() {
    run(async {
        let mut site = Site::new(2);
        site.tls = true;
        certificates(&site, &["node-0", "node-1"]);
        let first = site.start(0).await;
        let second = site.start_with(1, echo).await;
        connected(&[&first, &second]).await;
        let id = UploadId::new(name(1), 0, [0; 10]);
        assert!(first.cluster.is_other(&id));
        assert!(!second.cluster.is_other(&id));
        let content = octets(3, 5 << 20);
        let request = Request::builder()
            .method("PATCH")
            .uri("https://registry.example.org:5443/v2/a/blobs/uploads/x?y=1")
            .header("content-range", "0-9")
            .header("host", "registry.example.org:5443")
            .header("transfer-encoding", "chunked")
            .body(Full::new(content.clone()))
            .unwrap();
        let response = first.cluster.forward(&id, request).await.unwrap();
        assert_eq!(response.status(), 202);
        assert_eq!(response.headers()["range"], "0-9");
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.starts_with("PATCH "), "{text}");
        assert!(
            text.contains("/v2/a/blobs/uploads/x?y=1 hop=Some(\"1\") range=Some(\"0-9\")"),
            "{text}"
        );
        assert!(text.contains("from=Some(\"node-0\")"), "{text}");
        assert!(text.ends_with(&sha256(&content).to_string()), "{text}");
        let unknown = UploadId::new("elsewhere".parse().unwrap(), 0, [0; 10]);
        let request = Request::new(Full::new(Bytes::new()));
        assert!(first.cluster.forward(&unknown, request).await.is_err());
    });
}
