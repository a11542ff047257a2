//! Damage by chance to one of three nodes, while it serves and while it is stopped: no answer has a wrong byte, none says that
//! what the others have is not there, and what was asked for is whole on the disk afterwards.
//!
//! `DAMAGE_SEED` asks for others.

use registry_store::disk::faulty::Chance;

use super::*;

/// Damages of a run.
const DAMAGES: u64 = 200;

/// Layers of the image: of one piece, and of several.
const LENGTHS: [usize; 4] = [1, 5000, 300_000, 900_000];

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Layer(usize),
    Manifest,
    Config,
    /// The journal alone, its copy alone, both at the same place.
    Journal,
    Copy,
    Both,
}

/// How a file is damaged.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(u64),
    Cut(u64),
    Longer,
    /// A block of zeros, as after a loss of power.
    Zeros(u64),
    /// Other content of the same length.
    Others,
    Missing,
}

impl Damage {
    fn by(chance: &mut Chance) -> Self {
        let at = chance.next();
        match chance.below(6) {
            0 => Self::Flip(at),
            1 => Self::Cut(at),
            2 => Self::Longer,
            3 => Self::Zeros(at),
            4 => Self::Others,
            _ => Self::Missing,
        }
    }

    /// Damages a file; files of blobs are not writable.
    fn strike(self, path: &Path) {
        let mut octets = std::fs::read(path).unwrap();
        let length = octets.len().max(1) as u64;
        let at = |number: u64| usize::try_from(number % length).unwrap();
        match self {
            Self::Flip(number) => {
                if let Some(octet) = octets.get_mut(at(number)) {
                    *octet ^= 1 << (number >> 61);
                }
            }
            Self::Cut(number) => octets.truncate(at(number)),
            Self::Longer => octets.extend_from_slice(b"more"),
            Self::Zeros(number) => octets
                .iter_mut()
                .skip(at(number))
                .take(4096)
                .for_each(|it| *it = 0),
            Self::Others => octets.iter_mut().for_each(|it| *it = it.wrapping_add(1)),
            Self::Missing => {}
        }
        std::fs::remove_file(path).unwrap();
        if !matches!(self, Self::Missing) {
            std::fs::write(path, octets).unwrap();
        }
    }
}

/// Three nodes with the same image.
struct Site {
    root: TempDir,
    addresses: [String; 2],
    _whole: [Node; 2],
    _roots: [TempDir; 2],
    _drains: [Drain; 2],
    layers: Vec<Vec<u8>>,
    manifest: Digest,
}

impl Site {
    async fn new() -> Self {
        let layers: Vec<Vec<u8>> = LENGTHS.into_iter().map(octets).collect();
        let shown: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        let away = "127.0.0.1:1";
        let whole = async |own: &str, other: &str| {
            let root = tempfile::tempdir().unwrap();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            // Content is pushed to each: nothing has to come from the others.
            let node = node(root.path(), own, &[("damaged", away), (other, away)]).await;
            let (drain, guard): (Drain, Guard) = Drain::new();
            let served = node
                .cluster
                .serve(listener, registry_cluster::nowhere, guard);
            served.unwrap();
            let manifest = node.push_image(&shown).await;
            (root, address, node, drain, manifest)
        };
        let first = whole("first", "second").await;
        let second = whole("second", "first").await;
        assert_eq!(first.4, second.4);
        let site = Self {
            root: tempfile::tempdir().unwrap(),
            addresses: [first.1, second.1],
            _whole: [first.2, second.2],
            _roots: [first.0, second.0],
            _drains: [first.3, second.3],
            layers: Vec::new(),
            manifest: first.4,
        };
        let node = site.damaged().await;
        node.push_image(&shown).await;
        node.stop().await;
        Self { layers, ..site }
    }

    async fn damaged(&self) -> Node {
        let [first, second] = &self.addresses;
        let others = [("first", first.as_str()), ("second", second.as_str())];
        node(self.root.path(), "damaged", &others).await
    }

    /// The files of a place; those of the journal are damaged where its records are.
    fn files(&self, node: &Node, place: Place) -> Vec<std::path::PathBuf> {
        let layout = node.store.layout();
        let segments = |directory: std::path::PathBuf| {
            let listed = std::fs::read_dir(&directory).unwrap();
            let files = listed.map(|entry| entry.unwrap().path());
            let written = files.filter(|path| std::fs::metadata(path).unwrap().len() > 0);
            let mut segments: Vec<_> = written.collect();
            segments.sort();
            segments.truncate(1);
            segments
        };
        match place {
            Place::Layer(number) => vec![layout.blob(&sha256(&self.layers[number]))],
            Place::Manifest => vec![layout.blob(&self.manifest)],
            Place::Config => vec![layout.blob(&sha256(br#"{"config":"damage"}"#))],
            Place::Journal => segments(layout.journal()),
            Place::Copy => segments(layout.journal_copy()),
            Place::Both => [segments(layout.journal()), segments(layout.journal_copy())].concat(),
        }
    }

    /// Pulls the image: everything is there and whole. What was damaged is whole on the disk in the end.
    async fn pull(&self, node: &Node, case: &str) {
        let (status, head, body) = node.ask(Ask::new("GET", "/v2/a/manifests/v1")).await;
        assert_eq!(status, 200, "{case}: the manifest");
        assert_eq!(head["docker-content-digest"], self.manifest.to_string());
        assert_eq!(sha256(&body.unwrap()), self.manifest, "{case}");
        for layer in &self.layers {
            let digest = sha256(layer);
            let url = format!("/v2/a/blobs/{digest}");
            let (status, _, body, n_cut) = pulled(node, Ask::new("GET", &url)).await;
            assert_eq!(status, 200, "{case}: a layer of {}", layer.len());
            assert!(body == *layer, "{case}: wrong bytes");
            assert!(n_cut <= 1, "{case}: cut {n_cut} times");
        }
        let config = sha256(br#"{"config":"damage"}"#);
        let url = format!("/v2/a/blobs/{config}");
        let (status, _, body, _) = pulled(node, Ask::new("GET", &url)).await;
        assert_eq!((status, sha256(&body)), (200, config), "{case}");
        let others = Arc::new(node.cluster.clone()) as Arc<dyn NodesOf>;
        heal::round(&node.store, Some(&others), clock::now()).await;
        assert_eq!(node.store.damaged().n_waiting, 0, "{case}");
        let digests = self.layers.iter().map(|layer| sha256(layer));
        for digest in digests.chain([config, self.manifest]) {
            let octets = std::fs::read(node.store.layout().blob(&digest));
            let found = octets.map(|octets| sha256(&octets));
            assert!(
                found.as_ref().is_ok_and(|found| *found == digest),
                "{case}: {digest} is not healed: {found:?}"
            );
        }
    }
}

#[test]
fn of_random_damage_to_one_of_three_nodes_clients_notice_nothing() {
    let seed = std::env::var("DAMAGE_SEED").ok();
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(20);
    let mut chance = Chance::new(seed);
    block_on(async {
        let site = Site::new().await;
        let mut node = site.damaged().await;
        node.is_connected().await;
        let mut n_journals = 0;
        for number in 0..DAMAGES {
            let place = match chance.below(10) {
                0 => Place::Journal,
                1 => Place::Copy,
                2 => Place::Both,
                3 => Place::Config,
                4 | 5 => Place::Manifest,
                _ => Place::Layer(usize::try_from(chance.below(4)).unwrap()),
            };
            let damage = Damage::by(&mut chance);
            let is_journal = matches!(place, Place::Journal | Place::Copy | Place::Both);
            n_journals += u64::from(is_journal);
            // A running process has read its journal.
            let is_stopped = is_journal || chance.permille(400);
            let case = format!(
                "seed {seed}, damage {number}: {place:?} {damage:?}, stopped: {is_stopped}"
            );
            let files = site.files(&node, place);
            let strike = || files.iter().for_each(|file| damage.strike(file));
            if is_stopped {
                node.stop().await;
                strike();
                node = site.damaged().await;
                node.is_connected().await;
            } else {
                strike();
                // A manifest that is in memory is not read from the disk; in time it is not there any more.
                node.store.forget(&site.manifest);
            }
            site.pull(&node, &case).await;
        }
        assert!(n_journals >= DAMAGES / 5, "{n_journals}");
        node.stop().await;
    });
}
