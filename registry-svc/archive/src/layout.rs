//! OCI image layouts (image-spec, image-layout.md): `oci-layout`, `index.json`, `blobs/ALGORITHM/HEX`.
//!
//! `podman save --format oci-archive`, `skopeo copy … oci:` and docker since 25 write them; ctr and
//! docker name images by an annotation of containerd's, the others by the standard's.

use oci::digest::Digest;
use oci::manifest::MAX_DOCUMENT;
use serde_json::Value;

use crate::catalogue::{Catalogue, Files, Image, Unreadable};
use crate::name::ImageName;

/// The file that says that this is a layout.
pub const MARKER: &str = "oci-layout";
/// The file that lists the images.
pub const INDEX: &str = "index.json";
/// containerd's annotation with an image's whole name.
pub const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The standard annotation with a tag or a name.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Reads a layout.
///
/// # Errors
///
/// When its index is none.
pub fn read(files: &dyn Files) -> Result<Catalogue, Unreadable> {
    let marker = document(files, MARKER)?;
    let version = marker.get("imageLayoutVersion").and_then(Value::as_str);
    if !version.is_some_and(|version| version.starts_with("1.")) {
        return Err(Unreadable::entry(MARKER, "imageLayoutVersion is not 1"));
    }
    let mut catalogue = Catalogue::default();
    for (name, _) in files.entries().under("blobs/") {
        let digest = name
            .strip_prefix("blobs/")
            .and_then(|rest| rest.split_once('/'))
            .and_then(|(algorithm, hex)| format!("{algorithm}:{hex}").parse().ok());
        match digest {
            Some(digest) => catalogue.place(digest, name),
            None => catalogue.n_left += 1,
        }
    }
    let index = document(files, INDEX)?;
    let listed = index.get("manifests").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| Unreadable::entry(INDEX, "it has no manifests"))?;
    for descriptor in listed {
        match image(descriptor) {
            Ok(image) => catalogue.add(image)?,
            Err(what) => catalogue.problems.add(INDEX, what),
        }
    }
    Ok(catalogue)
}

fn document(files: &dyn Files, name: &str) -> Result<Value, Unreadable> {
    let octets = files
        .read(name, MAX_DOCUMENT)
        .map_err(|error| Unreadable::entry(name, error.to_string()))?;
    serde_json::from_slice(&octets).map_err(|error| Unreadable::entry(name, error.to_string()))
}

fn image(descriptor: &Value) -> Result<Image, String> {
    let said = |key: &str| descriptor.get(key).and_then(Value::as_str);
    let written = said("digest").ok_or("a descriptor has no digest")?;
    let digest: Digest = written
        .parse()
        .map_err(|error| format!("{written}: {error}"))?;
    let annotation = |key: &str| descriptor.get("annotations")?.get(key)?.as_str();
    let name = match (annotation(CONTAINERD_NAME), annotation(REF_NAME)) {
        (Some(name), _) => ImageName::parse(name).ok_or(name),
        (None, Some(name)) => ImageName::parse_reference(name).ok_or(name),
        (None, None) => Ok(ImageName::default()),
    };
    let name = name.map_err(|name| format!("{digest} is called {name}, which is no name"))?;
    Ok(Image {
        name,
        digest,
        media_type: said("mediaType").map(str::to_owned),
        entry: INDEX.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;
    use crate::testing::Memory;

    const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

    fn descriptor(digest: &Digest, annotations: &str) -> String {
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,
            "digest":"{digest}","annotations":{annotations}}}"#
        )
    }

    fn layout(descriptors: &[String]) -> Memory {
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            descriptors.join(",")
        );
        Memory::default().file(MARKER, LAYOUT).file(INDEX, index)
    }

    #[test]
    fn images_are_named_by_either_annotation() {
        let digest = Digest::of(Algorithm::Sha256, b"{}");
        let long = Digest::of(Algorithm::Sha512, b"{}");
        let files = layout(&[
            descriptor(&digest, r#"{"org.opencontainers.image.ref.name":"3.1"}"#),
            descriptor(
                &digest,
                r#"{"io.containerd.image.name":"docker.io/library/a:1","org.opencontainers.image.ref.name":"1"}"#,
            ),
            descriptor(&long, r#"{"org.opencontainers.image.ref.name":"localhost/b:2"}"#),
            descriptor(&digest, "null"),
        ])
        .file(&format!("blobs/sha256/{}", digest.hex()), "{}")
        .file(&format!("blobs/sha512/{}", long.hex()), "{}")
        .file("blobs/sha256/note", "");
        let catalogue = read(&files).unwrap();
        let names: Vec<String> = catalogue
            .images
            .iter()
            .map(|image| image.name.to_string())
            .collect();
        let expected = [
            "(no name):3.1",
            "docker.io/library/a:1",
            "localhost/b:2",
            "(no name)",
        ];
        assert_eq!(names, expected);
        assert_eq!(catalogue.places.len(), 2);
        assert_eq!(catalogue.n_left, 1);
        assert!(catalogue.problems.is_empty());
    }

    #[test]
    fn a_damaged_descriptor_costs_one_image() {
        let digest = Digest::of(Algorithm::Sha256, b"{}");
        let files = layout(&[
            r#"{"digest":"sha256:00"}"#.to_owned(),
            "{}".to_owned(),
            "7".to_owned(),
            descriptor(&digest, r#"{"org.opencontainers.image.ref.name":"A B"}"#),
            descriptor(&digest, "{}"),
        ]);
        let catalogue = read(&files).unwrap();
        assert_eq!(catalogue.images.len(), 1);
        assert_eq!(catalogue.problems.count(), 4);
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        let index = r#"{"manifests":[]}"#;
        let table = [
            Memory::default(),
            Memory::default().file(MARKER, LAYOUT),
            Memory::default().file(MARKER, "{}").file(INDEX, index),
            Memory::default().file(MARKER, LAYOUT).file(INDEX, "[]"),
            Memory::default().file(MARKER, LAYOUT).file(INDEX, "["),
            Memory::default()
                .file(MARKER, r#"{"imageLayoutVersion":"2.0.0"}"#)
                .file(INDEX, index),
        ];
        for files in table {
            assert!(
                matches!(read(&files), Err(Unreadable::Entry { .. })),
                "{files:?}"
            );
        }
    }
}
