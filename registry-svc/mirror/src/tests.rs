use std::sync::atomic::AtomicBool;

use config::{HumanDuration, OneOrMany};
use http_body_util::BodyExt as _;
use oci::digest::Algorithm;
use oci::manifest;
use oci::reference::Reference;
use registry_auth::Peer;
use registry_client::testing::{Answered, Served, whole};
use registry_http::Limits;
use registry_http::testing::Registry as Upstreamed;
use registry_store::disk::RealDisk;
use registry_store::{IndexKind, NewManifest, Settings as StoreSettings};
use tempfile::TempDir;
use tokio_stream::StreamExt as _;

use super::*;

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn tag(text: &str) -> Reference {
    Reference::Tag(text.parse().unwrap())
}

/// An upstream with a store of its own, and a mirror of it.
struct Rig {
    served: Served,
    upstream: Store,
    mirrors: Mirrors,
    store: Store,
    _root: TempDir,
    /// Whether the upstream's blobs arrive with one octet changed.
    damages: Arc<AtomicBool>,
    _kept: Upstreamed,
}

impl Rig {
    async fn new(ttl: Duration) -> Self {
        let kept = Upstreamed::with(Limits::default()).await;
        let api = kept.api();
        let upstream = kept.store();
        let damages = Arc::new(AtomicBool::new(false));
        let damaging = Arc::clone(&damages);
        let served = Served::start(move |request| {
            let (api, damaging) = (Arc::clone(&api), Arc::clone(&damaging));
            async move {
                let is_blob = request.uri().path().contains("/blobs/");
                let peer = Peer::plain("192.0.2.1:4000".parse().unwrap());
                let (head, body) = api.handle(request, &peer).await.into_parts();
                let mut octets = body.collect().await.unwrap().to_bytes().to_vec();
                if is_blob && damaging.load(Ordering::Relaxed) {
                    octets.iter_mut().take(1).for_each(|octet| *octet ^= 1);
                }
                let body: Answered = whole(octets);
                hyper::Response::from_parts(head, body)
            }
        })
        .await;
        let root = tempfile::tempdir().unwrap();
        let mut settings = StoreSettings::new(root.path().to_owned(), "node-1".parse().unwrap());
        settings.index = IndexKind::Memory;
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let configured = Settings {
            namespace: Some("docker.io".to_owned()),
            ttl: HumanDuration(ttl),
            ..Settings::new(
                vec![served.endpoint().to_string().parse().unwrap()],
                "up".parse().unwrap(),
            )
        };
        let mirrors = Mirrors::new(store.clone(), &[configured]).unwrap().unwrap();
        Self {
            served,
            upstream,
            mirrors,
            store,
            _root: root,
            damages,
            _kept: kept,
        }
    }

    fn route(&self, name: &str) -> Route {
        let name: RepositoryName = name.parse().unwrap();
        self.mirrors.route(&name, None).unwrap()
    }

    /// Pushes an image to the upstream; its manifest's digest.
    async fn push(&self, name: &str, reference: &str, layers: &[&[u8]]) -> Digest {
        let name: RepositoryName = name.parse().unwrap();
        let mut described = Vec::new();
        for octets in [b"{}".as_slice()].iter().chain(layers) {
            let digest = digest(octets);
            let body = tokio_stream::once(Ok(bytes::Bytes::copy_from_slice(octets)));
            self.upstream
                .push(&name, &digest, None, body)
                .await
                .unwrap();
            let size = octets.len();
            described.push(format!(
                r#"{{"mediaType":"x/y","digest":"{digest}","size":{size}}}"#
            ));
        }
        let document = format!(
            r#"{{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}}"#,
            manifest::OCI_IMAGE,
            described[0],
            described[1..].join(",")
        );
        self.put(&name, document, manifest::OCI_IMAGE, reference)
            .await
    }

    async fn put(
        &self,
        name: &RepositoryName,
        document: String,
        media_type: &str,
        reference: &str,
    ) -> Digest {
        let digest = digest(document.as_bytes());
        let new = NewManifest {
            bytes: document.into(),
            media_type: media_type.to_owned(),
            digest,
            closure: Vec::new(),
            subject: None,
            tags: vec![reference.parse().unwrap()],
        };
        self.upstream.put_manifest(name, new).await.unwrap();
        digest
    }

    async fn found(&self, route: &Route, reference: &Reference) -> Option<Digest> {
        let found = self.mirrors.manifest(route, reference).await.unwrap()?;
        assert_eq!(found.warning, None);
        Some(found.stored.digest)
    }

    /// Waits until the store itself has what a reference names.
    async fn kept(&self, route: &Route, reference: &Reference, wanted: Digest) {
        let mut changes = self.store.changes();
        loop {
            let stored = self.store.manifest(&route.local, reference).await.unwrap();
            if stored.is_some_and(|stored| stored.digest == wanted) {
                return;
            }
            changes.changed().await.unwrap();
        }
    }
}

async fn read(mut body: ByteStream) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    while let Some(piece) = body.next().await {
        octets.extend_from_slice(&piece?);
    }
    Ok(octets)
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_kept_when_it_is_whole() {
    let rig = Rig::new(LONG).await;
    let layer = vec![7; 3 << 20];
    let image = rig.push("library/a", "1", &[&layer, b"two"]).await;
    let route = rig.route("up/library/a");
    assert_eq!(rig.found(&route, &tag("1")).await, Some(image));
    rig.kept(&route, &tag("1"), image).await;
    for octets in [layer.as_slice(), b"two", b"{}"] {
        let digest = digest(octets);
        let size = rig.store.blob(&route.local, &digest).await.unwrap();
        assert_eq!(size, Some(octets.len() as u64));
    }
    // The time of the tag has not come: nobody is asked.
    let before = rig.served.asked().len();
    assert_eq!(rig.found(&route, &tag("1")).await, Some(image));
    assert_eq!(rig.served.asked().len(), before);
    assert_eq!(rig.found(&route, &tag("2")).await, None);
    assert_eq!(rig.mirrors.n_flights(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_whose_time_has_come_is_asked_for_by_its_digest() {
    let rig = Rig::new(Duration::ZERO).await;
    let one = rig.push("a", "1", &[b"one"]).await;
    let route = rig.route("up/a");
    assert_eq!(rig.found(&route, &tag("1")).await, Some(one));
    rig.kept(&route, &tag("1"), one).await;
    assert_eq!(rig.found(&route, &tag("1")).await, Some(one));
    assert_eq!(rig.served.count("HEAD /v2/a/manifests/1"), 2);
    assert_eq!(rig.served.count("GET /v2/a/manifests/"), 1);
    let two = rig.push("a", "1", &[b"two"]).await;
    assert_eq!(rig.found(&route, &tag("1")).await, Some(two));
    rig.kept(&route, &tag("1"), two).await;
    // And back to what is here already.
    rig.push("a", "1", &[b"one"]).await;
    assert_eq!(rig.found(&route, &tag("1")).await, Some(one));
    rig.kept(&route, &tag("1"), one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_here_is_served_while_the_upstream_is_away() {
    let mut rig = Rig::new(Duration::ZERO).await;
    let image = rig.push("a", "1", &[b"one"]).await;
    let route = rig.route("up/a");
    assert_eq!(rig.found(&route, &tag("1")).await, Some(image));
    rig.kept(&route, &tag("1"), image).await;
    rig.served.stop().await;
    let found = rig
        .mirrors
        .manifest(&route, &tag("1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.stored.digest, found.warning), (image, Some(STALE)));
    let by_digest = rig
        .mirrors
        .manifest(&route, &Reference::Digest(image))
        .await;
    assert_eq!(by_digest.unwrap().unwrap().warning, None);
    let unknown = rig.mirrors.manifest(&route, &tag("2")).await;
    assert!(
        matches!(unknown, Err(MirrorError::Unreachable)),
        "{unknown:?}"
    );
    let unknown = rig.mirrors.blob(&route, &digest(b"other")).await;
    assert!(
        matches!(unknown, Err(MirrorError::Unreachable)),
        "{unknown:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_are_one_transfer() {
    let rig = Rig::new(LONG).await;
    let octets: Vec<u8> = (0..9_000_000_u32).map(|at| (at % 253) as u8).collect();
    rig.push("a", "1", &[&octets]).await;
    let route = rig.route("up/a");
    let wanted = digest(&octets);
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..6_u64 {
        let blob = rig.mirrors.blob(&route, &wanted).await.unwrap().unwrap();
        assert_eq!(blob.size(), 9_000_000);
        let from = number * 1000;
        readers.spawn(async move { (from, read(blob.open(from..9_000_000)).await) });
    }
    while let Some(done) = readers.join_next().await {
        let (from, content) = done.unwrap();
        assert!(content.unwrap() == octets[usize::try_from(from).unwrap()..]);
    }
    let get = format!("GET /v2/a/blobs/{wanted}");
    assert_eq!(rig.served.count(&get), 1);
    let asked = Asked {
        requests: 6,
        misses: 1,
    };
    assert_eq!(
        (rig.mirrors.blobs(), rig.mirrors.octets()),
        (asked, 9_000_000)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_wrong_is_never_whole() {
    let rig = Rig::new(LONG).await;
    let octets = vec![1; 1 << 20];
    rig.push("a", "1", &[&octets]).await;
    rig.damages.store(true, Ordering::Relaxed);
    let route = rig.route("up/a");
    let wanted = digest(&octets);
    let blob = rig.mirrors.blob(&route, &wanted).await.unwrap().unwrap();
    assert!(read(blob.open(0..1 << 20)).await.is_err());
    assert_eq!(rig.store.held(&wanted).await.unwrap(), None);
    rig.damages.store(false, Ordering::Relaxed);
    let blob = rig.mirrors.blob(&route, &wanted).await.unwrap().unwrap();
    assert_eq!(read(blob.open(0..1 << 20)).await.unwrap(), octets);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_kept_with_the_first_of_its_images() {
    let rig = Rig::new(LONG).await;
    let one = rig.push("a", "one", &[b"one"]).await;
    let two = rig.push("a", "two", &[b"two"]).await;
    let listed = [one, two].map(|digest| {
        let kind = manifest::OCI_IMAGE;
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":1}}"#)
    });
    let document = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}}"#,
        manifest::OCI_INDEX,
        listed.join(",")
    );
    let name: RepositoryName = "a".parse().unwrap();
    let index = rig.put(&name, document, manifest::OCI_INDEX, "1").await;
    let route = rig.route("up/a");
    assert_eq!(rig.found(&route, &tag("1")).await, Some(index));
    let kept = rig.store.manifest(&route.local, &tag("1")).await.unwrap();
    assert_eq!(kept, None, "nothing of it is here");
    let child = Reference::Digest(two);
    assert_eq!(rig.found(&route, &child).await, Some(two));
    rig.kept(&route, &tag("1"), index).await;
    let other = Reference::Digest(one);
    assert_eq!(
        rig.store.manifest(&route.local, &other).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn repositories_are_routed_by_prefix_and_by_name() {
    let root = tempfile::tempdir().unwrap();
    let settings = StoreSettings::new(root.path().to_owned(), "node-1".parse().unwrap());
    let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
    let mirror = |prefix: &str, namespace: Option<&str>| Settings {
        namespace: namespace.map(str::to_owned),
        ttl: HumanDuration(LONG),
        ..Settings::new(
            vec!["http://registry.example.org".parse().unwrap()],
            prefix.parse().unwrap(),
        )
    };
    let configured = [
        mirror("quay", Some("quay.io")),
        mirror("quay/special", None),
        mirror("docker", Some("docker.io")),
    ];
    let mirrors = Mirrors::new(store, &configured).unwrap().unwrap();
    let table = [
        ("quay/a/b", None, Some((0, "quay/a/b", "a/b"))),
        ("quay/special/x", None, Some((1, "quay/special/x", "x"))),
        (
            "quay/specials/x",
            None,
            Some((0, "quay/specials/x", "specials/x")),
        ),
        ("quay", None, None),
        ("other/a", None, None),
        (
            "library/a",
            Some("docker.io"),
            Some((2, "docker/library/a", "library/a")),
        ),
        ("library/a", Some("ghcr.io"), None),
    ];
    for (name, namespace, expected) in table {
        let name: RepositoryName = name.parse().unwrap();
        let route = mirrors.route(&name, namespace);
        let shown = route
            .as_ref()
            .map(|route| (route.upstream, route.local.as_str(), route.remote.as_str()));
        assert_eq!(shown, expected, "{name} {namespace:?}");
    }
    let wrong = mirror("x", None);
    let wrong = Settings {
        upstream: OneOrMany(vec!["https://x:no-port".parse().unwrap()]),
        ..wrong
    };
    let (store, _) = (mirrors.0.store.clone(), ());
    assert!(matches!(
        Mirrors::new(store, &[wrong]),
        Err(SetupError::Endpoint(..))
    ));
}
