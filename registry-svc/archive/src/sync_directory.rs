//! Directories as skopeo writes them: `skopeo copy … dir:` (one image) and `skopeo sync --dest dir`
//! (a tree of them, each at `[HOST/]REPOSITORY:TAG` or `…@DIGEST`).
//!
//! An image has a `manifest.json` as it was in its registry, each blob under the hexadecimal part of
//! its digest, and the manifests of an index as `HEX.manifest.json`. `version` and `signature-N` say
//! nothing of content.

use std::collections::BTreeMap;

use oci::digest::{Algorithm, Digest};
use oci::manifest::MAX_DOCUMENT;

use crate::catalogue::{Catalogue, Files, Image, Unreadable, digest_of_hex, digest_of_name};
use crate::name::ImageName;

/// The file that makes a directory an image.
pub const MANIFEST: &str = "manifest.json";

/// Reads a tree; `title` is the name of the directory, which names the image that it is itself.
///
/// # Errors
///
/// When there are too many images.
pub fn read(files: &dyn Files, title: &str) -> Result<Catalogue, Unreadable> {
    let mut catalogue = Catalogue::default();
    // Blobs belong to images that are found after them: `0a…` is before `manifest.json`.
    let mut images: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, _) in files.entries().under("") {
        let (directory, last) = name.rsplit_once('/').unwrap_or(("", name));
        if last == MANIFEST {
            images.insert(directory, name);
        }
    }
    for (name, _) in files.entries().under("") {
        let (directory, last) = name.rsplit_once('/').unwrap_or(("", name));
        let is_image = images.contains_key(directory);
        match digest_of_file(last).filter(|_| is_image) {
            Some(digest) => catalogue.place(digest, name),
            None if is_image && matches!(last, MANIFEST | "version") => {}
            None => catalogue.n_left += 1,
        }
    }
    for (directory, entry) in images {
        match image(files, directory, entry, title) {
            Ok(image) => {
                catalogue.place(image.digest, entry);
                catalogue.add(image)?;
            }
            Err(what) => catalogue.problems.add(entry, what),
        }
    }
    Ok(catalogue)
}

fn image(files: &dyn Files, directory: &str, entry: &str, title: &str) -> Result<Image, String> {
    let octets = files
        .read(entry, MAX_DOCUMENT)
        .map_err(|error| error.to_string())?;
    let is_object = octets.trim_ascii_start().first() == Some(&b'{');
    if !is_object {
        return Err("not a manifest".to_owned());
    }
    let written = match directory {
        "" => title,
        directory => directory,
    };
    // The name of a directory that a person chose says nothing, unless it reads as a name with a
    // tag.
    let name = ImageName::parse(written)
        .filter(|name| name.tag.is_some() || name.digest.is_some())
        .unwrap_or_default();
    // An image that was copied by its digest has that digest, whatever the algorithm.
    let algorithm = match &name.digest {
        Some(digest) => digest.algorithm(),
        None => Algorithm::Sha256,
    };
    Ok(Image {
        name,
        digest: Digest::of(algorithm, &octets),
        media_type: None,
        entry: entry.to_owned(),
    })
}

/// The digest in the name of a file, which is a blob or a manifest in an index.
fn digest_of_file(name: &str) -> Option<Digest> {
    let stem = name
        .strip_suffix(".manifest.json")
        .or_else(|| name.strip_suffix(".tar"))
        .unwrap_or(name);
    digest_of_hex(stem).or_else(|| digest_of_name(stem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    fn hex(octets: &[u8]) -> String {
        Digest::of(Algorithm::Sha256, octets).hex()
    }

    #[test]
    fn one_directory_is_one_image() {
        let files = Memory::default()
            .file("version", "Directory Transport Version: 1.1\n")
            .file(MANIFEST, "{}")
            .file(&hex(b"layer"), "layer")
            .file("signature-1", "x");
        let catalogue = read(&files, "alpine:3").unwrap();
        assert_eq!(catalogue.images.len(), 1);
        assert_eq!(catalogue.images[0].name.to_string(), "alpine:3");
        assert_eq!(catalogue.images[0].digest.hex(), hex(b"{}"));
        assert_eq!(catalogue.places.len(), 2);
        assert_eq!(catalogue.n_left, 1);
        let unnamed = read(&files, "images").unwrap();
        assert_eq!(unnamed.images[0].name, ImageName::default());
    }

    #[test]
    fn a_tree_has_an_image_in_each_directory() {
        let child = hex(b"{ }");
        let by_digest = format!("quay.example.org/b@sha256:{}", hex(b"{}"));
        let files = Memory::default()
            .file("host:5000/a/b:1.0/manifest.json", "{}")
            .file(&format!("host:5000/a/b:1.0/{child}.manifest.json"), "{ }")
            .file(&format!("{by_digest}/manifest.json"), "{}")
            .file("list:1/manifest.json", "[]")
            .file(&hex(b"stray"), "stray");
        let catalogue = read(&files, "tree").unwrap();
        let names: Vec<String> = catalogue
            .images
            .iter()
            .map(|image| image.name.to_string())
            .collect();
        assert_eq!(names, ["host:5000/a/b:1.0", &by_digest]);
        assert!(
            catalogue
                .places
                .contains_key(&digest_of_hex(&child).unwrap())
        );
        assert!(
            !catalogue
                .places
                .contains_key(&digest_of_hex(&hex(b"stray")).unwrap())
        );
        assert_eq!(catalogue.problems.count(), 1);
        assert_eq!(catalogue.n_left, 1);
    }
}
