//! Directories as `oc image mirror --dir` and `oc adm release mirror --to-dir` write them:
//! `v2/REPOSITORY/blobs/DIGEST` and `v2/REPOSITORY/manifests/DIGEST`, where a tag is a symbolic link to
//! a manifest. On file systems without colons digests are written with a hyphen, and without links
//! (a stick that a tree was copied to) a tag is a file of its own.

use std::collections::BTreeSet;

use oci::digest::{Algorithm, Digest};
use oci::manifest::MAX_DOCUMENT;
use oci::reference::RepositoryName;

use crate::catalogue::{Catalogue, Files, Image, Unreadable, digest_of_name};
use crate::entries::Entry;
use crate::name::ImageName;

/// The directory that has all of it.
pub const TOP: &str = "v2/";

/// Reads a tree.
///
/// # Errors
///
/// When there are too many images.
pub fn read(files: &dyn Files) -> Result<Catalogue, Unreadable> {
    let mut catalogue = Catalogue::default();
    let mut tagged = BTreeSet::new();
    let mut untagged = Vec::new();
    for (name, entry) in files.entries().under(TOP) {
        let Some((repository, kind, last)) = apart(name) else {
            catalogue.n_left += 1;
            continue;
        };
        match (kind, digest_of_name(last)) {
            (Kind::Blob, Some(digest)) => catalogue.place(digest, name),
            (Kind::Manifest, Some(digest)) => {
                catalogue.place(digest, name);
                untagged.push((repository, digest, name));
            }
            (Kind::Manifest, None) => match tag(files, &repository, name, last, entry) {
                Ok(image) => {
                    catalogue.place(image.digest, name);
                    tagged.insert((repository, image.digest));
                    catalogue.add(image)?;
                }
                Err(what) => catalogue.problems.add(name, what),
            },
            (Kind::Blob, None) => catalogue.n_left += 1,
        }
    }
    for (repository, digest, entry) in untagged {
        let key = (repository, digest);
        if !tagged.contains(&key) {
            let name = ImageName {
                repository: Some(key.0),
                digest: Some(digest),
                ..ImageName::default()
            };
            catalogue.add(Image {
                name,
                digest,
                media_type: None,
                entry: entry.to_owned(),
            })?;
        }
    }
    Ok(catalogue)
}

enum Kind {
    Blob,
    Manifest,
}

/// The repository, the kind and the last part of a name. Repositories may have components of any name,
/// so it is the last two that count.
fn apart(name: &str) -> Option<(RepositoryName, Kind, &str)> {
    let (rest, last) = name.strip_prefix(TOP)?.rsplit_once('/')?;
    let (repository, kind) = rest.rsplit_once('/')?;
    let kind = match kind {
        "blobs" => Kind::Blob,
        "manifests" => Kind::Manifest,
        _ => return None,
    };
    Some((repository.parse().ok()?, kind, last))
}

fn tag(
    files: &dyn Files,
    repository: &RepositoryName,
    name: &str,
    last: &str,
    entry: &Entry,
) -> Result<Image, String> {
    let tag = last.parse().map_err(|_| "neither a digest nor a tag")?;
    let digest = match entry {
        Entry::Link(target) => {
            let target = target.rsplit('/').next().unwrap_or_default();
            digest_of_name(target).ok_or("it links to no digest")?
        }
        Entry::File(_) => {
            let octets = files
                .read(name, MAX_DOCUMENT)
                .map_err(|error| error.to_string())?;
            Digest::of(Algorithm::Sha256, &octets)
        }
    };
    Ok(Image {
        name: ImageName {
            repository: Some(repository.clone()),
            tag: Some(tag),
            ..ImageName::default()
        },
        digest,
        media_type: None,
        entry: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    fn digest(octets: &[u8]) -> Digest {
        Digest::of(Algorithm::Sha256, octets)
    }

    fn names(catalogue: &Catalogue) -> Vec<String> {
        let images = catalogue.images.iter();
        images
            .map(|image| format!("{} {}", image.name, image.digest == digest(b"{}")))
            .collect()
    }

    #[test]
    fn a_tag_is_a_link_to_a_manifest() {
        let (image, child) = (digest(b"{}"), digest(b"{ }"));
        let layer = digest(b"layer");
        let files = Memory::default()
            .file(&format!("v2/ocp4/release/blobs/{layer}"), "layer")
            .file(&format!("v2/ocp4/release/blobs/{image}"), "{}")
            .file(&format!("v2/ocp4/release/manifests/{image}"), "{}")
            .file(&format!("v2/ocp4/release/manifests/{child}"), "{ }")
            .link(
                "v2/ocp4/release/manifests/4.17.3-x86_64",
                &image.to_string(),
            )
            .link("v2/ocp4/release/manifests/other", "nothing")
            .file("v2/ocp4/release/blobs/.tmp-12", "");
        let catalogue = read(&files).unwrap();
        let expected = [
            "ocp4/release:4.17.3-x86_64 true".to_owned(),
            format!("ocp4/release@{child} false"),
        ];
        assert_eq!(names(&catalogue), expected);
        assert_eq!(catalogue.places.len(), 3);
        assert_eq!((catalogue.problems.count(), catalogue.n_left), (1, 1));
    }

    #[test]
    fn a_stick_without_links_and_colons_is_read() {
        let image = digest(b"{}").to_string().replace(':', "-");
        let files = Memory::default()
            .file(&format!("v2/a/manifests/{image}"), "{}")
            .file("v2/a/manifests/1", "{}");
        let catalogue = read(&files).unwrap();
        assert_eq!(names(&catalogue), ["a:1 true"]);
    }

    #[test]
    fn repositories_may_be_called_blobs() {
        let files = Memory::default()
            .file("v2/blobs/manifests/manifests/1", "{}")
            .file("v2/manifests/1", "{}");
        let catalogue = read(&files).unwrap();
        assert_eq!(names(&catalogue), ["blobs/manifests:1 true"]);
        assert_eq!(catalogue.n_left, 1);
    }
}
