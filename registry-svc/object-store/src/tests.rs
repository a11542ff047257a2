use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use oci::digest::Algorithm;
use oci::manifest;
use oci::reference::{Reference, RepositoryName};
use registry_store::{NewManifest, Purpose, Settings as StoreSettings, Store, StoreError};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

use super::*;

/// An S3 server, and a root for a store; both go away with the test.
struct Rig {
    directory: TempDir,
    s3: Settings,
}

impl Rig {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let served = directory.path().join("served");
        std::fs::create_dir_all(served.join("bucket")).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(&served).unwrap());
        builder.set_auth(SimpleAuth::from_single("key", "secret"));
        let service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = hyper::server::conn::http1::Builder::new();
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        let secret = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let s3 = Settings {
            bucket: "bucket".to_owned(),
            endpoint: Some(format!("http://{address}").parse().unwrap()),
            region: "us-east-1".to_owned(),
            prefix: "site/node".to_owned(),
            access_key_file: secret("access", "key\n"),
            secret_key_file: secret("secret", "secret\n"),
            ca: None,
            allow_http: true,
        };
        Self { directory, s3 }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    async fn disk(&self) -> Arc<ObjectDisk> {
        let (root, s3) = (self.root(), self.s3.clone());
        let opened = tokio::task::spawn_blocking(move || ObjectDisk::open(&root, &s3));
        Arc::new(opened.await.unwrap().unwrap())
    }

    async fn store(&self) -> Store {
        let settings = StoreSettings::new(self.root(), "node-1".parse().unwrap());
        Store::open(settings, self.disk().await).await.unwrap().0
    }

    /// The files of the served bucket, below the prefix.
    fn objects(&self) -> Vec<String> {
        let top = self.directory.path().join("served/bucket/site/node");
        let mut found = Vec::new();
        walk(&top, &top, &mut found);
        found.sort();
        found
    }
}

fn walk(top: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(top, &path, found);
        } else {
            found.push(path.strip_prefix(top).unwrap().display().to_string());
        }
    }
}

fn body(octets: &[u8]) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + use<> {
    let pieces: Vec<io::Result<Bytes>> = octets
        .chunks(100_000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    tokio_stream::iter(pieces)
}

async fn content(store: &Store, digest: &Digest) -> Vec<u8> {
    let size = store.held(digest).await.unwrap().unwrap();
    let mut reader = store.read(digest, 0..size, Purpose::Pull).await.unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    octets
}

/// Octets that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_in_the_bucket_and_survives_a_restart() {
    let rig = Rig::new().await;
    let name: RepositoryName = "a/b".parse().unwrap();
    // In one request, and in three parts.
    let small = pattern(10_000);
    let large = pattern(usize::try_from(2 * (16_u64 << 20)).unwrap() + 7);
    let digests: Vec<Digest> = [&small, &large]
        .map(|octets| Digest::of(Algorithm::Sha256, octets))
        .into();
    let store = rig.store().await;
    for (octets, digest) in [&small, &large].into_iter().zip(&digests) {
        let pushed = store.push(&name, digest, None, body(octets)).await.unwrap();
        assert_eq!(pushed.size, octets.len() as u64);
    }
    let document = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"x/y","digest":"{}","size":1}},"layers":[{{"mediaType":"x/y","digest":"{}","size":1}}]}}"#,
        digests[0], digests[1]
    );
    let new = NewManifest {
        digest: Digest::of(Algorithm::Sha256, document.as_bytes()),
        bytes: document.into(),
        media_type: manifest::OCI_IMAGE.to_owned(),
        closure: digests.clone(),
        subject: None,
        tags: vec!["1".parse().unwrap()],
    };
    store.put_manifest(&name, new).await.unwrap();
    assert_eq!(rig.objects().len(), 3, "{:?}", rig.objects());
    let on_disk = std::fs::read_dir(rig.root().join("uploads"))
        .unwrap()
        .count();
    assert_eq!(on_disk, 0, "nothing is left of the uploads");
    store.close().await;
    drop(store);
    let store = rig.store().await;
    let found = store
        .manifest(&name, &Reference::Tag("1".parse().unwrap()))
        .await;
    assert!(found.unwrap().is_some());
    assert_eq!(content(&store, &digests[0]).await, small);
    assert_eq!(content(&store, &digests[1]).await, large);
    let part = 16_777_000..16_777_500;
    let mut reader = store
        .read(&digests[1], part.clone(), Purpose::Pull)
        .await
        .unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(octets, large[16_777_000..16_777_500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_it_is_said_to_be_never_gets_a_key() {
    let rig = Rig::new().await;
    let store = rig.store().await;
    let name: RepositoryName = "a".parse().unwrap();
    let wanted = Digest::of(Algorithm::Sha256, b"right");
    let pushed = store.push(&name, &wanted, None, body(b"wrong")).await;
    assert!(
        matches!(pushed, Err(StoreError::DigestMismatch { .. })),
        "{pushed:?}"
    );
    assert_eq!(rig.objects(), Vec::<String>::new());
    assert_eq!(store.held(&wanted).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_comes_back_or_goes() {
    let rig = Rig::new().await;
    let store = rig.store().await;
    let name: RepositoryName = "a".parse().unwrap();
    let octets = pattern(1000);
    let digest = Digest::of(Algorithm::Sha512, &octets);
    store
        .push(&name, &digest, None, body(&octets))
        .await
        .unwrap();
    store.close().await;
    drop(store);
    let disk = rig.disk().await;
    let layout = Layout::new(rig.root());
    let (path, trash) = (layout.blob(&digest), layout.trashed(&digest));
    let shard = layout.shard(digest.algorithm(), digest.shard());
    let work = move || {
        assert_eq!(disk.list(&shard).unwrap(), Some(vec![digest.hex()]));
        assert_eq!(
            disk.rename(&trash, &path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        disk.rename(&path, &trash).unwrap();
        assert_eq!(disk.status(&path).unwrap(), None);
        assert_eq!(disk.status(&trash).unwrap().unwrap().size, 1000);
        assert_eq!(disk.list(&shard).unwrap(), Some(Vec::new()));
        (disk, path, trash)
    };
    let (disk, path, trash) = tokio::task::spawn_blocking(work).await.unwrap();
    // After a restart it is hidden still.
    drop(disk);
    let disk = rig.disk().await;
    let work = move || {
        assert_eq!(disk.status(&path).unwrap(), None);
        disk.rename(&trash, &path).unwrap();
        let status = disk.status(&path).unwrap().unwrap();
        assert_eq!(status.size, 1000);
        let mut octets = [0; 10];
        let file = disk.open(&path, Access::Read).unwrap();
        assert_eq!(file.read_at(&mut octets, 251).unwrap(), 10);
        assert_eq!(octets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(file.read_at(&mut octets, 1000).unwrap(), 0);
        disk.rename(&path, &trash).unwrap();
        disk.remove(&trash).unwrap();
        assert_eq!(disk.status(&trash).unwrap(), None);
        assert!(disk.open(&path, Access::Read).is_err());
    };
    tokio::task::spawn_blocking(work).await.unwrap();
    assert_eq!(rig.objects(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_refuses_is_told() {
    let mut rig = Rig::new().await;
    std::fs::write(&rig.s3.secret_key_file, "wrong").unwrap();
    let open = |rig: &Rig| {
        let (root, s3) = (rig.root(), rig.s3.clone());
        tokio::task::spawn_blocking(move || ObjectDisk::open(&root, &s3).map(|_| ()))
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), open(&rig));
    let refused = refused.await.unwrap().unwrap();
    assert!(
        matches!(refused, Err(ObjectStoreError::List(_))),
        "{refused:?}"
    );
    rig.s3.secret_key_file = rig.directory.path().join("gone");
    let missing = open(&rig).await.unwrap();
    assert!(
        matches!(missing, Err(ObjectStoreError::Secret(..))),
        "{missing:?}"
    );
}
