use std::io;

use oci::digest::Algorithm;
use registry_facts::hlc::Hlc;
use registry_facts::record::Fact;
use tempfile::TempDir;
use tokio_stream::StreamExt as _;

use super::*;
use crate::disk::RealDisk;

/// The content of a body in pieces of some size.
fn body(octets: &[u8]) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + Unpin {
    let pieces: Vec<_> = octets
        .chunks(7000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    tokio_stream::iter(pieces)
}

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn repository(name: &str) -> RepositoryName {
    name.parse().unwrap()
}

fn settings(scratch: &TempDir, index: IndexKind) -> Settings {
    Settings {
        index,
        ..Settings::new(scratch.path().join("store"), "master-0".parse().unwrap())
    }
}

async fn open(settings: &Settings) -> (Store, Recovery) {
    Store::open(settings.clone(), Arc::new(RealDisk))
        .await
        .unwrap()
}

async fn content(store: &Store, digest: &Digest, size: u64) -> Vec<u8> {
    let mut reader = store.read(digest, 0..size, Purpose::Pull).await.unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    octets
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[test]
fn what_is_pushed_is_read_back_also_after_a_restart() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = settings(&scratch, IndexKind::Sled);
        let name = repository("ocp4/release");
        let layer: Vec<u8> = (0..1_500_000_u32).flat_map(u32::to_le_bytes).collect();
        let layer_digest = digest(&layer);
        let config = b"{}".to_vec();
        let manifest = NewManifest {
            bytes: Bytes::from_static(b"{\"manifest\":1}"),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            digest: digest(b"{\"manifest\":1}"),
            closure: vec![layer_digest, digest(&config)],
            subject: None,
            tags: vec!["b".parse().unwrap(), "a".parse().unwrap()],
        };
        {
            let (store, recovery) = open(&settings).await;
            assert_eq!(recovery.n_records, 0);
            let early = store.put_manifest(&name, manifest.clone()).await;
            assert!(
                matches!(early, Err(StoreError::MissingBlobs(missing)) if missing == manifest.closure)
            );
            let id = store
                .begin("client", &name, Algorithm::Sha256)
                .await
                .unwrap();
            let length = Some(layer.len() as u64);
            let size = store
                .append(&name, &id, Some(0), length, body(&layer))
                .await
                .unwrap();
            assert_eq!(size, layer.len() as u64);
            let pushed = store.finish(&name, &id, &layer_digest).await.unwrap();
            assert_eq!((pushed.size, pushed.position.unwrap().sequence), (size, 1));
            let pushed = store
                .push(&name, &digest(&config), None, body(&config))
                .await
                .unwrap();
            assert_eq!(pushed.size, 2);
            let position = store.put_manifest(&name, manifest.clone()).await.unwrap();
            assert_eq!(position.sequence, 3);
            assert_eq!(store.vector().of(&store.origin()), 3);
            store.close().await;
            let refused = store
                .push(&name, &digest(&config), None, body(&config))
                .await;
            assert!(matches!(refused, Err(StoreError::ReadOnly)));
        }
        for is_orderly in [true, false] {
            let (store, recovery) = open(&settings).await;
            assert_eq!(recovery.rebuilt.is_none(), is_orderly, "{recovery:?}");
            assert_eq!((recovery.n_records, recovery.missing), (3, vec![]));
            assert_eq!(
                content(&store, &layer_digest, layer.len() as u64).await,
                layer
            );
            let found = store
                .manifest(&name, &"a".parse().unwrap())
                .await
                .unwrap()
                .unwrap();
            assert_eq!(found.bytes, manifest.bytes);
            assert_eq!(*found.media_type, *manifest.media_type);
            let tags = store.tags(&name, None, 10).unwrap().unwrap();
            assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(store.repositories(None, 10), std::slice::from_ref(&name));
            assert_eq!(store.vector().of(&store.origin()), 3);
            // It goes as by SIGKILL: nothing marks an orderly stop.
            store.inner.writer.close();
        }
    });
}

//--- The index

/// A store with some manifests, stopped in order; and the tags it has.
async fn stopped(scratch: &TempDir) -> (Settings, Vec<Tag>) {
    let settings = settings(scratch, IndexKind::Sled);
    let (store, _) = open(&settings).await;
    let name = repository("a");
    for number in 0..40 {
        let bytes = Bytes::from(format!("{{\"number\":{number}}}"));
        let manifest = NewManifest {
            digest: digest(&bytes),
            bytes,
            media_type: "application/json".to_owned(),
            closure: Vec::new(),
            subject: None,
            tags: vec![format!("t{number}").parse().unwrap()],
        };
        store.put_manifest(&name, manifest).await.unwrap();
    }
    let tags = store.tags(&name, None, 99).unwrap().unwrap();
    assert_eq!(tags.len(), 40);
    store.close().await;
    (settings, tags)
}

fn files(directory: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn an_index_that_is_gone_cut_short_or_changed_is_made_anew() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let (settings, tags) = stopped(&scratch).await;
        let index = settings.root.join("index.sled");
        let damages: [(&str, &dyn Fn()); 5] = [
            ("gone", &|| std::fs::remove_dir_all(&index).unwrap()),
            ("cut short", &|| {
                for path in files(&index) {
                    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
                }
            }),
            ("emptied", &|| {
                for path in files(&index) {
                    std::fs::write(path, b"").unwrap();
                }
            }),
            ("another's", &|| {
                let database = std::fs::read_dir(&index).unwrap().next().unwrap();
                let database = database.unwrap().path();
                std::fs::remove_dir_all(&database).unwrap();
                let other = ::sled::open(&database).unwrap();
                other.insert(b"t", b"other").unwrap();
                other.flush().unwrap();
            }),
            ("no directory", &|| {
                std::fs::remove_dir_all(&index).unwrap();
                std::fs::write(&index, b"").unwrap();
            }),
        ];
        for (what, damage) in damages {
            damage();
            let (store, recovery) = open(&settings).await;
            assert!(recovery.rebuilt.is_some(), "{what}");
            assert_eq!(
                store.tags(&repository("a"), None, 99).unwrap().unwrap(),
                tags,
                "{what}"
            );
            store.close().await;
            drop(store);
        }
    });
}

#[test]
fn an_index_with_a_flipped_bit_is_made_anew_or_shows_the_same() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let (settings, tags) = stopped(&scratch).await;
        let index = settings.root.join("index.sled");
        let mut n_rebuilt = 0;
        let mut chance = crate::disk::faulty::Chance::new(11);
        for _ in 0..30 {
            for path in files(&index) {
                let mut octets = std::fs::read(&path).unwrap();
                // Where the data is, not in the room behind it.
                let end = octets.iter().rposition(|&octet| octet != 0).unwrap_or(0) + 1;
                let at = usize::try_from(chance.below(end as u64)).unwrap();
                if let Some(octet) = octets.get_mut(at) {
                    *octet ^= 1 << chance.below(8);
                }
                std::fs::write(&path, octets).unwrap();
            }
            let (store, recovery) = open(&settings).await;
            n_rebuilt += u64::from(recovery.rebuilt.is_some());
            assert_eq!(
                store.tags(&repository("a"), None, 99).unwrap().unwrap(),
                tags
            );
            store.close().await;
            drop(store);
        }
        assert!(n_rebuilt >= 10, "{n_rebuilt}");
    });
}

#[test]
fn what_the_trial_dies_of_is_not_opened_here() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let (mut settings, tags) = stopped(&scratch).await;
        for (program, is_rebuilt) in [("/bin/true", false), ("/bin/false", true)] {
            settings.trial = Some(program.into());
            let (store, recovery) = open(&settings).await;
            assert_eq!(recovery.rebuilt.is_some(), is_rebuilt, "{recovery:?}");
            assert_eq!(
                store.tags(&repository("a"), None, 99).unwrap().unwrap(),
                tags
            );
            store.close().await;
            drop(store);
        }
    });
}

//--- Upload sessions

/// What lies in the directory of uploads.
fn uploads(settings: &Settings) -> Vec<PathBuf> {
    files(&settings.root.join("uploads"))
}

#[test]
fn a_session_takes_pieces_in_order_and_goes_on_after_a_restart() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = settings(&scratch, IndexKind::Memory);
        let name = repository("a");
        let octets: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let (store, _) = open(&settings).await;
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        let first = store
            .append(&name, &id, Some(0), None, body(&octets[..300_000]))
            .await;
        assert_eq!(first.unwrap(), 300_000);
        let again = store.append(&name, &id, Some(0), None, body(&octets)).await;
        assert!(matches!(
            again,
            Err(StoreError::OutOfOrder { offset: 300_000 })
        ));
        let other = store.offset(&repository("b"), &id).await;
        assert!(matches!(other, Err(StoreError::Unknown(Subject::Upload))));
        drop(store);
        let (store, recovery) = open(&settings).await;
        assert_eq!(recovery.n_sessions, 1);
        assert_eq!(store.offset(&name, &id).await.unwrap(), 300_000);
        let rest = &octets[300_000..];
        store
            .append(&name, &id, None, Some(rest.len() as u64), body(rest))
            .await
            .unwrap();
        // Another algorithm than the session was begun with.
        let long = Digest::of(Algorithm::Sha512, &octets);
        let pushed = store.finish(&name, &id, &long).await.unwrap();
        assert_eq!(pushed.size, octets.len() as u64);
        assert_eq!(content(&store, &long, pushed.size).await, octets);
        assert_eq!(store.blob(&name, &long).await.unwrap(), Some(pushed.size));
        assert_eq!(store.blob(&repository("b"), &long).await.unwrap(), None);
        let after = store.offset(&name, &id).await;
        assert!(matches!(after, Err(StoreError::Unknown(Subject::Upload))));
        assert_eq!(uploads(&settings), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_comes_early_or_wrong_leaves_what_it_should() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = settings(&scratch, IndexKind::Memory);
        let name = repository("a");
        let (store, _) = open(&settings).await;
        let cut = || {
            let broken = Err(io::Error::from(io::ErrorKind::ConnectionReset));
            tokio_stream::iter([Ok(Bytes::from_static(b"half")), broken])
        };
        // Of a session what came stays.
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        let early = store.append(&name, &id, None, Some(9), cut()).await;
        assert!(matches!(early, Err(StoreError::Body(_))), "{early:?}");
        assert_eq!(store.offset(&name, &id).await.unwrap(), 4);
        let wrong = store.finish(&name, &id, &digest(b"whole")).await;
        let actual = digest(b"half");
        assert!(
            matches!(wrong, Err(StoreError::DigestMismatch { actual: found }) if found == actual)
        );
        // Of anything else nothing does.
        let early = store.push(&name, &digest(b"whole"), None, cut()).await;
        assert!(matches!(early, Err(StoreError::Body(_))), "{early:?}");
        let wrong = store.ingest(&digest(b"whole"), None, body(b"other")).await;
        assert!(
            matches!(wrong, Err(StoreError::DigestMismatch { .. })),
            "{wrong:?}"
        );
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        store
            .append(&name, &id, None, None, body(b"some"))
            .await
            .unwrap();
        store.cancel(&name, &id).await.unwrap();
        // A file is taken away beside what goes on.
        while !uploads(&settings).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(store.n_sessions(), 0);
        assert_eq!(store.held(&digest(b"whole")).await.unwrap(), None);
        assert_eq!(store.repositories(None, 9), []);
        // Nothing at all is content, too.
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        let pushed = store.finish(&name, &id, &digest(b"")).await.unwrap();
        assert_eq!(content(&store, &digest(b""), pushed.size).await, b"");
    });
}

#[test]
fn one_request_at_a_time_writes_to_a_session() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = settings(&scratch, IndexKind::Memory);
        let name = repository("a");
        let (store, _) = open(&settings).await;
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let stalled = {
            let (store, name, id) = (store.clone(), name.clone(), id.clone());
            let body = tokio_stream::wrappers::ReceiverStream::new(receiver);
            tokio::spawn(async move { store.append(&name, &id, None, None, body).await })
        };
        sender.send(Ok(Bytes::from_static(b"a"))).await.unwrap();
        sender.send(Ok(Bytes::from_static(b"b"))).await.unwrap();
        let second = store.append(&name, &id, None, None, body(b"c")).await;
        assert!(matches!(second, Err(StoreError::Busy)), "{second:?}");
        // A request that is given up makes room for the next.
        stalled.abort();
        assert!(stalled.await.is_err());
        store
            .append(&name, &id, None, None, body(b"c"))
            .await
            .unwrap();
        store.finish(&name, &id, &digest(b"c")).await.unwrap();
    });
}

#[test]
fn a_session_nobody_writes_to_is_ended_after_a_day_and_by_no_clock() {
    static STEADY: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    static WALL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    const HOUR: u64 = 3_600_000;
    const DAY: Duration = Duration::from_hours(24);
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let mut settings = settings(&scratch, IndexKind::Memory);
        settings.steady = || STEADY.load(Ordering::Relaxed);
        settings.wall = || wall_clock() + WALL.load(Ordering::Relaxed);
        let name = repository("a");
        let (store, _) = open(&settings).await;
        let id = store
            .begin("client", &name, Algorithm::Sha256)
            .await
            .unwrap();
        store
            .append(&name, &id, None, None, body(b"a"))
            .await
            .unwrap();
        assert_eq!(store.expire_sessions(DAY).await, 0);
        // The clock jumps by days while it is open, and before it opens again: an hour of that counts.
        WALL.store(120 * HOUR, Ordering::Relaxed);
        assert_eq!(store.expire_sessions(DAY).await, 0);
        drop(store);
        WALL.store(240 * HOUR, Ordering::Relaxed);
        let (store, _) = open(&settings).await;
        assert_eq!(store.expire_sessions(DAY).await, 0);
        STEADY.fetch_add(22 * HOUR, Ordering::Relaxed);
        WALL.store(0, Ordering::Relaxed);
        assert_eq!(store.expire_sessions(DAY).await, 0);
        assert_eq!(store.offset(&name, &id).await.unwrap(), 1);
        STEADY.fetch_add(3 * HOUR, Ordering::Relaxed);
        assert_eq!(store.expire_sessions(DAY).await, 1);
        assert!(store.offset(&name, &id).await.is_err());
        assert_eq!(uploads(&settings), Vec::<PathBuf>::new());
    });
}

//--- Content, manifests and tags

#[test]
fn content_is_brought_once_and_taken_back_from_the_trash() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = settings(&scratch, IndexKind::Memory);
        let (store, _) = open(&settings).await;
        let wanted = digest(b"content");
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let first = {
            let store = store.clone();
            let body = tokio_stream::wrappers::ReceiverStream::new(receiver);
            tokio::spawn(async move { store.ingest(&wanted, None, body).await })
        };
        sender.send(Ok(Bytes::from_static(b"con"))).await.unwrap();
        let second = {
            let store = store.clone();
            let never = tokio_stream::iter([Err(io::Error::other("nobody reads this"))]);
            tokio::spawn(async move { store.ingest(&wanted, None, never).await })
        };
        sender.send(Ok(Bytes::from_static(b"tent"))).await.unwrap();
        drop(sender);
        assert_eq!(first.await.unwrap().unwrap(), 7);
        assert_eq!(second.await.unwrap().unwrap(), 7);
        assert_eq!(store.repositories_with(&wanted), []);
        let name = repository("a");
        assert_eq!(
            store.blob(&name, &wanted).await.unwrap(),
            None,
            "not linked"
        );
        let layout = store.layout().clone();
        std::fs::rename(layout.blob(&wanted), layout.trashed(&wanted)).unwrap();
        store.forget(&wanted);
        let pushed = store.link(&name, &wanted).await.unwrap();
        assert_eq!(content(&store, &wanted, pushed.size).await, b"content");
        assert_eq!(
            store.repositories_with(&wanted),
            std::slice::from_ref(&name)
        );
        let again = store.link(&name, &wanted).await.unwrap();
        assert_eq!(again, pushed, "what stands is not stated again");
        store.unlink(&name, &wanted).await.unwrap();
        assert_eq!(store.blob(&name, &wanted).await.unwrap(), None);
        let gone = store.unlink(&name, &wanted).await;
        assert!(matches!(gone, Err(StoreError::Unknown(Subject::Blob))));
        let missing = store.link(&name, &digest(b"other")).await;
        assert!(matches!(missing, Err(StoreError::Unknown(Subject::Blob))));
        assert_eq!(
            store.tags(&name, None, 9).unwrap(),
            None,
            "a repository no more"
        );
    });
}

#[test]
fn whoever_mounts_or_asks_begins_the_lease_anew() {
    static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let later = |seconds: u64| NOW.fetch_add(seconds * 1000, Ordering::Relaxed);
    run(async move {
        let scratch = tempfile::tempdir().unwrap();
        let mut settings = settings(&scratch, IndexKind::Memory);
        settings.steady = || NOW.load(Ordering::Relaxed);
        settings.lease = Duration::from_secs(60);
        let (store, _) = open(&settings).await;
        let (name, wanted) = (repository("a"), digest(b"content"));
        let content = body(b"content");
        store.push(&name, &wanted, None, content).await.unwrap();
        later(50);
        store.link(&name, &wanted).await.unwrap();
        later(50);
        assert!(store.is_leased(&wanted));
        assert_eq!(store.blob(&name, &wanted).await.unwrap(), Some(7));
        later(50);
        assert!(store.is_leased(&wanted));
        later(11);
        assert!(!store.is_leased(&wanted));
    });
}

#[test]
fn a_deleted_manifest_takes_its_tags_and_a_deleted_tag_leaves_it() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let (store, _) = open(&settings(&scratch, IndexKind::Memory)).await;
        let name = repository("a");
        let put = |text: &'static str, subject, tags: &[&str]| {
            let manifest = NewManifest {
                bytes: Bytes::from_static(text.as_bytes()),
                media_type: "application/json".to_owned(),
                digest: digest(text.as_bytes()),
                closure: Vec::new(),
                subject,
                tags: tags.iter().map(|tag| tag.parse().unwrap()).collect(),
            };
            let (store, name) = (store.clone(), name.clone());
            async move { store.put_manifest(&name, manifest).await.unwrap() }
        };
        let find = |reference: String| {
            let (store, name) = (store.clone(), name.clone());
            async move {
                let found = store.manifest(&name, &reference.parse().unwrap()).await;
                found.unwrap().map(|found| found.bytes)
            }
        };
        put("{\"one\":1}", None, &["x", "y"]).await;
        let one = digest(b"{\"one\":1}");
        put("{\"two\":2}", Some(one), &["y", "z"]).await;
        let two = digest(b"{\"two\":2}");
        assert_eq!(store.referrers(&name, &one, None, 10).unwrap(), [two]);
        assert_eq!(store.referrers(&name, &one, Some(&two), 10).unwrap(), []);
        assert_eq!(find("y".to_owned()).await.unwrap(), "{\"two\":2}");
        store
            .delete_tag(&name, &"y".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(find("y".to_owned()).await, None);
        let gone = store.delete_tag(&name, &"y".parse().unwrap()).await;
        assert!(matches!(gone, Err(StoreError::Unknown(Subject::Manifest))));
        assert!(find(two.to_string()).await.is_some());
        store.delete_manifest(&name, &two).await.unwrap();
        assert_eq!(
            (find(two.to_string()).await, find("z".to_owned()).await),
            (None, None)
        );
        assert_eq!(store.referrers(&name, &one, None, 10).unwrap(), []);
        let gone = store.delete_manifest(&name, &two).await;
        assert!(matches!(gone, Err(StoreError::Unknown(Subject::Manifest))));
        assert_eq!(find("x".to_owned()).await.unwrap(), "{\"one\":1}");
        // Pushed again by its digest, it does not bring its tags back.
        put("{\"two\":2}", None, &[]).await;
        assert_eq!(find("z".to_owned()).await, None);
    });
}

//--- The cluster

#[test]
fn a_feed_brings_another_store_to_the_same_registers() {
    run(async {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (settings, _) = stopped(&ours).await;
        let (store, _) = open(&settings).await;
        let (other, _) = open(&self::settings(&theirs, IndexKind::Memory)).await;
        let name = repository("a");
        store
            .delete_tag(&name, &"t0".parse().unwrap())
            .await
            .unwrap();
        // What came before the start is read out of the index, what comes after is at hand.
        let mut feed = store.feed(other.vector());
        store
            .delete_tag(&name, &"t1".parse().unwrap())
            .await
            .unwrap();
        while other.vector() != store.vector() {
            let record = feed.next().await.unwrap();
            other.apply(vec![record.clone()]).await.unwrap();
            other.apply(vec![record]).await.unwrap();
        }
        let registers = store.registers(None, 999).unwrap();
        assert_eq!(other.registers(None, 999).unwrap(), registers);
        assert_eq!(registers.len(), 80);
        let theirs = other.feed(other.vector());
        drop(theirs);
        // What is stated here after it was seen holds against it, whatever the clock says.
        let late = other
            .delete_tag(&name, &"t2".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(late.origin, other.origin());
    });
}

#[test]
fn a_link_is_stated_anew_for_a_push_unless_it_was_stated_of_late() {
    const HOUR: u64 = 3_600_000;
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let (store, _) = open(&settings(&scratch, IndexKind::Memory)).await;
        let octets = b"pushed days ago".to_vec();
        let (name, digest, size) = (repository("a"), digest(&octets), octets.len() as u64);
        store.ingest(&digest, None, body(&octets)).await.unwrap();
        let days_ago = Record {
            origin: NodeId {
                name: "master-1".parse().unwrap(),
                incarnation: 1,
            },
            sequence: 1,
            stamp: Hlc::at((settings(&scratch, IndexKind::Memory).wall)() - 72 * HOUR),
            facts: vec![Fact::Blob {
                repository: name.clone(),
                digest,
                size: Some(size),
            }],
        };
        store.apply(vec![days_ago]).await.unwrap();

        let pushed = store.push(&name, &digest, None, body(&octets)).await;
        let position = pushed.unwrap().position.unwrap();
        assert_eq!(position.origin, store.origin());
        for _ in 0..2 {
            // What was acknowledged just now is not written again.
            let linked = store.link(&name, &digest).await.unwrap();
            assert_eq!(linked.position.as_ref(), Some(&position));
        }
        // What a sweep does on a node that has not heard of the push.
        let as_of = Hlc::at(store.inner.now() - 24 * HOUR);
        assert!(!store.unlink_everywhere(&digest, as_of).await.unwrap());
        assert_eq!(store.repositories_with(&digest), [name]);
    });
}
