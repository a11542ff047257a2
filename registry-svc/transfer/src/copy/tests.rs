use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use oci::digest::Algorithm;
use oci::reference::Tag;
use registry_archive::catalogue::Files as _;
use registry_archive::distribution;
use registry_archive::format::Format;
use registry_archive::name::{ImageName, Naming, Selection};
use registry_archive::testing::Scratch;

use super::*;
use crate::archive::Archive;
use crate::items;
use crate::sink::Layout;
use crate::tree::Tree;

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

/// An archive that was opened, and what is in it.
pub(super) fn origin(path: &Path) -> (Origin, Vec<Item>) {
    let archive = Archive::open(&[path.to_owned()]).unwrap();
    assert!(archive.problems.is_empty(), "{:?}", archive.problems);
    let format = Format::detect(&archive).unwrap();
    let catalogue = format.read(&archive, archive.title()).unwrap();
    assert!(catalogue.problems.is_empty(), "{:?}", catalogue.problems);
    let mut problems = registry_archive::catalogue::Problems::default();
    let items = items::of_catalogue(
        &catalogue,
        &Naming::default(),
        &Selection::default(),
        &mut problems,
    );
    assert!(problems.is_empty(), "{problems:?}");
    (
        Origin::Archive(Arc::new(archive), Arc::new(catalogue)),
        items,
    )
}

fn sink(path: &Path, layout: Layout) -> Sink {
    let tree = match path.extension() {
        Some(_) => Tree::tar(path),
        None => Tree::directory(path),
    };
    Sink::tree(tree.unwrap(), layout).unwrap()
}

async fn copy(from: &Path, to: &Path, layout: Layout) -> Report {
    let (origin, items) = origin(from);
    let copy = Copy::new(origin, sink(to, layout), Sparse::Refused, Arc::default());
    copy.run(items).await.unwrap()
}

/// Two images in two repositories that share a layer, one of them an index over two.
struct Images {
    files: Vec<(String, Vec<u8>)>,
    index: Digest,
    image: Digest,
}

fn blob(files: &mut Vec<(String, Vec<u8>)>, octets: &[u8]) -> Digest {
    let digest = digest(octets);
    files.push((format!("blobs/sha256/{}", digest.hex()), octets.to_vec()));
    digest
}

fn image(files: &mut Vec<(String, Vec<u8>)>, config: &[u8], layers: &[&[u8]]) -> (Digest, usize) {
    let descriptor = |digest: Digest, size: usize, kind: &str| {
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
    };
    let config_digest = blob(files, config);
    let layers: Vec<String> = layers
        .iter()
        .map(|layer| {
            let digest = blob(files, layer);
            descriptor(
                digest,
                layer.len(),
                "application/vnd.oci.image.layer.v1.tar",
            )
        })
        .collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}}"#,
        manifest::OCI_IMAGE,
        descriptor(
            config_digest,
            config.len(),
            "application/vnd.oci.image.config.v1+json"
        ),
        layers.join(",")
    );
    (blob(files, manifest.as_bytes()), manifest.len())
}

fn images() -> Images {
    let mut files = Vec::new();
    let shared = vec![1; 300 << 10];
    let (one, one_size) = image(&mut files, b"{}", &[&shared, b"one"]);
    let (two, two_size) = image(&mut files, b"{ }", &[&shared, b"two"]);
    let (three, _) = image(&mut files, b"{  }", &[&shared, b"three"]);
    let listed = |digest: Digest, size: usize| {
        let kind = manifest::OCI_IMAGE;
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
    };
    let index = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[{},{}]}}"#,
        manifest::OCI_INDEX,
        listed(one, one_size),
        listed(two, two_size)
    );
    let index = blob(&mut files, index.as_bytes());
    let named = |digest: Digest, name: &str| {
        let kind = if digest == index {
            manifest::OCI_INDEX
        } else {
            manifest::OCI_IMAGE
        };
        format!(
            r#"{{"mediaType":"{kind}","digest":"{digest}","size":1,"annotations":{{"io.containerd.image.name":"{name}"}}}}"#
        )
    };
    let top = format!(
        r#"{{"schemaVersion":2,"manifests":[{},{}]}}"#,
        named(index, "host.example.org/group/index:1"),
        named(three, "plain:2")
    );
    files.push(("index.json".to_owned(), top.into_bytes()));
    let marker = br#"{"imageLayoutVersion":"1.0.0"}"#;
    files.push(("oci-layout".to_owned(), marker.to_vec()));
    Images {
        files,
        index,
        image: three,
    }
}

fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    use registry_archive::tar;
    let mut octets = Vec::new();
    for (name, body) in files {
        let size = body.len() as u64;
        octets.extend(tar::header(name, size));
        octets.extend_from_slice(body);
        octets.extend_from_slice(tar::padding(size));
    }
    octets
}

fn write(scratch: &Scratch, images: &Images) -> PathBuf {
    for (name, body) in &images.files {
        scratch.write(&format!("layout/{name}"), body);
    }
    scratch.path("layout")
}

fn names(items: &[Item]) -> Vec<(String, Digest)> {
    let mut names: Vec<_> = items
        .iter()
        .map(|item| {
            let tag = item.tag.as_ref().map_or("-", Tag::as_str);
            (format!("{}:{tag}", item.to.as_str()), item.digest)
        })
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn images_go_through_every_form_unchanged() {
    let scratch = Scratch::new();
    let images = images();
    let first = write(&scratch, &images);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut packed, &tar_of(&images.files)).unwrap();
    scratch.write("packed.tar.gz", &packed.finish().unwrap());
    let expected = [
        ("group/index:1".to_owned(), images.index),
        ("plain:2".to_owned(), images.image),
    ];
    let steps = [
        (first, "a.tar", Layout::Oci),
        (scratch.path("packed.tar.gz"), "b", Layout::Oci),
        (scratch.path("a.tar"), "c", Layout::Distribution),
        (scratch.path("b"), "d.tar", Layout::Distribution),
        (scratch.path("c"), "e", Layout::Oci),
        (scratch.path("d.tar"), "f", Layout::Oci),
    ];
    for (from, to, layout) in steps {
        let to = scratch.path(to);
        let report = copy(&from, &to, layout).await;
        assert!(report.is_whole(), "{from:?} to {to:?}: {report}");
        let (origin, items) = origin(&to);
        let tagged: Vec<Item> = items
            .into_iter()
            .filter(|item| item.tag.is_some())
            .collect();
        assert_eq!(names(&tagged), expected, "{to:?}");
        // Configurations, layers, manifests: one shared layer among 3 × 2.
        assert_eq!(report.n_blobs, 7, "{to:?}: {report}");
        for item in &tagged {
            let document = origin.document(&item.from, &item.digest).await.unwrap();
            assert!(document.is_some(), "{to:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_copied_again() {
    let scratch = Scratch::new();
    let first = write(&scratch, &images());
    for layout in [Layout::Oci, Layout::Distribution] {
        let to = scratch.path(&format!("to-{layout:?}").to_lowercase());
        let report = copy(&first, &to, layout).await;
        assert_eq!((report.n_copied, report.n_held), (2, 0), "{report}");
        let report = copy(&first, &to, layout).await;
        assert_eq!((report.n_copied, report.n_held), (0, 2), "{report}");
        assert_eq!(report.n_octets, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_stopped_goes_on() {
    let scratch = Scratch::new();
    let images = images();
    let whole = write(&scratch, &images);
    // The last layer is missing at first.
    let missing = format!("blobs/sha256/{}", digest(b"three").hex());
    let part: Vec<_> = images
        .files
        .iter()
        .filter(|(name, _)| *name != missing)
        .cloned()
        .collect();
    scratch.write("part.tar", &tar_of(&part));
    let to = scratch.path("to");
    let report = copy(&scratch.path("part.tar"), &to, Layout::Oci).await;
    assert_eq!((report.n_copied, report.n_failed), (1, 1), "{report}");
    let problems: Vec<_> = report.problems.iter().collect();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].what.contains("sha256:"), "{report}");
    let report = copy(&whole, &to, Layout::Oci).await;
    assert_eq!((report.n_copied, report.n_held), (1, 1), "{report}");
    assert!(report.is_whole());
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_content_is_not_taken() {
    let scratch = Scratch::new();
    let mut images = images();
    let layer = format!("blobs/sha256/{}", digest(b"three").hex());
    for (name, body) in &mut images.files {
        if *name == layer {
            body.copy_from_slice(b"thrEE");
        }
    }
    let from = write(&scratch, &images);
    for (to, layout) in [("oci", Layout::Oci), ("distribution", Layout::Distribution)] {
        let to = scratch.path(to);
        let report = copy(&from, &to, layout).await;
        assert_eq!((report.n_copied, report.n_failed), (1, 1), "{report}");
        let named = report.problems.iter().next().unwrap();
        assert!(named.entry.contains(&layer), "{named:?}");
        let (_, items) = origin(&to);
        let tagged = names(
            &items
                .into_iter()
                .filter(|item| item.tag.is_some())
                .collect::<Vec<_>>(),
        );
        assert_eq!(tagged, [("group/index:1".to_owned(), images.index)]);
    }
    // In a tar archive what was begun cannot be taken back: it gets no name.
    let report = copy(&from, &scratch.path("out.tar"), Layout::Oci).await;
    assert!(report.is_stopped, "{report}");
    assert!(!scratch.path("out.tar").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_without_some_platforms_is_taken_if_asked_for() {
    let scratch = Scratch::new();
    let mut images = images();
    // Everything of the second platform.
    let two = {
        let index = images
            .files
            .iter()
            .find(|(name, _)| name.ends_with(&images.index.hex()));
        let parsed = manifest::parse(&index.unwrap().1, None).unwrap();
        parsed.closure.manifests[1]
    };
    images.files.retain(|(name, _)| !name.ends_with(&two.hex()));
    let from = write(&scratch, &images);
    let report = copy(&from, &scratch.path("strict"), Layout::Oci).await;
    assert_eq!((report.n_copied, report.n_failed), (1, 1), "{report}");
    let (origin, items) = origin(&from);
    let to = sink(&scratch.path("sparse"), Layout::Oci);
    let report = Copy::new(origin, to, Sparse::Indexes, Arc::default())
        .run(items)
        .await
        .unwrap();
    assert!(report.is_whole(), "{report}");
    assert_eq!(report.n_copied, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_nests_for_ever_is_refused() {
    let scratch = Scratch::new();
    let mut files = Vec::new();
    let (mut inner, _) = image(&mut files, b"{}", &[b"layer"]);
    for _ in 0..=MAX_DEPTH {
        let index = format!(
            r#"{{"schemaVersion":2,"mediaType":"{0}","manifests":[{{"mediaType":"{0}","digest":"{inner}","size":1}}]}}"#,
            manifest::OCI_INDEX
        );
        inner = blob(&mut files, index.as_bytes());
    }
    let top = format!(r#"{{"manifests":[{{"digest":"{inner}"}}]}}"#);
    files.push(("index.json".to_owned(), top.into_bytes()));
    let marker = br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec();
    files.push(("oci-layout".to_owned(), marker));
    scratch.write("nested.tar", &tar_of(&files));
    let archive = Archive::open(&[scratch.path("nested.tar")]).unwrap();
    let catalogue = Format::OciLayout.read(&archive, "").unwrap();
    let naming = Naming {
        exactly: ImageName::parse("a:1"),
        ..Naming::default()
    };
    let mut problems = registry_archive::catalogue::Problems::default();
    let items = items::of_catalogue(&catalogue, &naming, &Selection::default(), &mut problems);
    let origin = Origin::Archive(Arc::new(archive), Arc::new(catalogue));
    let to = sink(&scratch.path("to"), Layout::Oci);
    let report = Copy::new(origin, to, Sparse::Refused, Arc::default())
        .run(items)
        .await
        .unwrap();
    assert_eq!(report.n_failed, 1);
    let what = &report.problems.iter().next().unwrap().what;
    assert!(what.contains("nested"), "{what}");
}

#[test]
fn a_data_directory_is_found_where_a_registry_has_it() {
    let scratch = Scratch::new();
    let link = "repositories/a/_manifests/revisions/sha256";
    let hex = digest(b"{}").hex();
    for top in [distribution::TOP, "v2/", ""] {
        let name = format!("{}/{top}{link}/{hex}/link", hex_of(top));
        scratch.write(&name, format!("sha256:{hex}").as_bytes());
        let archive = Archive::open(&[scratch.path(&hex_of(top))]).unwrap();
        assert_eq!(
            Format::detect(&archive),
            Some(Format::Distribution),
            "{top}"
        );
        let catalogue = Format::Distribution.read(&archive, "").unwrap();
        assert_eq!(catalogue.images.len(), 1);
        assert_eq!(archive.entries().len(), 1);
    }
}

fn hex_of(text: &str) -> String {
    digest(text.as_bytes()).hex()
}
