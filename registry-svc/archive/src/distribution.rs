//! Data directories of distribution (docker-registry 2 and 3), and what is made of them: oc-mirror's
//! archives, the content of an OpenShift internal release image, a backup.
//!
//! `blobs/sha256/HE/HEX/data` has the bytes;
//! `repositories/NAME/_manifests/revisions/sha256/HEX/link` says that a repository has a manifest,
//! `…/_manifests/tags/TAG/current/link` names the manifest of a tag; a link is a file with a digest
//! in it. A deleted manifest has lost its revision's link.

use std::collections::{BTreeMap, BTreeSet};

use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};

use crate::catalogue::{Catalogue, Files, Image, Unreadable};
use crate::name::ImageName;

/// The begin of the data in a registry's root directory.
pub const TOP: &str = "docker/registry/v2/";
/// A link is a digest, which has 135 octets at most, and perhaps a newline.
const MAX_LINK: u64 = 256;

/// Reads what is below `top`: [`TOP`], or what a directory further in leaves of it.
///
/// # Errors
///
/// When there are too many images.
pub fn read(files: &dyn Files, top: &str) -> Result<Catalogue, Unreadable> {
    let mut catalogue = Catalogue::default();
    let blobs = format!("{top}blobs/");
    for (name, _) in files.entries().under(&blobs) {
        match name.strip_prefix(&blobs).and_then(blob) {
            Some(digest) => catalogue.place(digest, name),
            None => catalogue.n_left += 1,
        }
    }
    let repositories = format!("{top}repositories/");
    let mut found: BTreeMap<RepositoryName, Found<'_>> = BTreeMap::new();
    for (name, _) in files.entries().under(&repositories) {
        let rest = name.strip_prefix(&repositories).unwrap_or_default();
        let Some((repository, path)) = rest.split_once("/_") else {
            catalogue.n_left += 1;
            continue;
        };
        let Ok(repository) = repository.parse() else {
            catalogue.problems.add(name, "not in a repository");
            continue;
        };
        let path: Vec<&str> = path.split('/').collect();
        match path.as_slice() {
            ["manifests", "revisions", algorithm, hex, "link"] => {
                match format!("{algorithm}:{hex}").parse() {
                    Ok(digest) => {
                        found
                            .entry(repository)
                            .or_default()
                            .revisions
                            .insert(digest, name);
                    }
                    Err(_) => catalogue.problems.add(name, "not a digest"),
                }
            }
            ["manifests", "tags", tag, "current", "link"] => match tag.parse() {
                Ok(tag) => found.entry(repository).or_default().tags.push((tag, name)),
                Err(_) => catalogue.problems.add(name, "not a tag"),
            },
            // The layers of a repository follow from its manifests; the history of a tag and
            // unfinished uploads are not carried over.
            ["layers", ..] | ["uploads", ..] | ["manifests", "tags", _, "index", ..] => {}
            _ => catalogue.n_left += 1,
        }
    }
    for (repository, found) in found {
        add(files, &mut catalogue, &repository, found)?;
    }
    let n_inside = files.entries().under(top).count();
    let n_beside = files.entries().len() - n_inside;
    catalogue.n_left += u64::try_from(n_beside).unwrap_or(u64::MAX);
    Ok(catalogue)
}

/// The content of a repository.
#[derive(Default)]
struct Found<'a> {
    revisions: BTreeMap<Digest, &'a str>,
    tags: Vec<(Tag, &'a str)>,
}

fn add(
    files: &dyn Files,
    catalogue: &mut Catalogue,
    repository: &RepositoryName,
    found: Found<'_>,
) -> Result<(), Unreadable> {
    let mut tagged = BTreeSet::new();
    for (tag, entry) in found.tags {
        let target = link(files, entry);
        let target = target.and_then(|digest| match found.revisions.contains_key(&digest) {
            true => Ok(digest),
            false => Err(format!("{digest} has been deleted from the repository")),
        });
        match target {
            Ok(digest) => {
                tagged.insert(digest);
                catalogue.add(image(repository, Some(tag), digest, entry))?;
            }
            Err(what) => catalogue.problems.add(entry, what),
        }
    }
    // OpenShift pulls by digest: manifests without a tag count.
    for (digest, entry) in found.revisions {
        if !tagged.contains(&digest) {
            catalogue.add(image(repository, None, digest, entry))?;
        }
    }
    Ok(())
}

fn image(repository: &RepositoryName, tag: Option<Tag>, digest: Digest, entry: &str) -> Image {
    let name = ImageName {
        host: None,
        repository: Some(repository.clone()),
        digest: tag.is_none().then_some(digest),
        tag,
    };
    Image {
        name,
        digest,
        // Not kept there: the manifest says it itself.
        media_type: None,
        entry: entry.to_owned(),
    }
}

/// `sha256/HE/HEX/data`.
fn blob(path: &str) -> Option<Digest> {
    let (algorithm, rest) = path.split_once('/')?;
    let (shard, rest) = rest.split_once('/')?;
    let hex = rest.strip_suffix("/data")?;
    match hex.starts_with(shard) {
        true => format!("{algorithm}:{hex}").parse().ok(),
        false => None,
    }
}

fn link(files: &dyn Files, entry: &str) -> Result<Digest, String> {
    let octets = files
        .read(entry, MAX_LINK)
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8(octets).map_err(|_| "not a digest")?;
    text.trim().parse().map_err(|_| "not a digest".to_owned())
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;
    use crate::testing::Memory;

    fn digest(octets: &[u8]) -> Digest {
        Digest::of(Algorithm::Sha256, octets)
    }

    fn shard(hex: &str) -> &str {
        hex.get(..2).unwrap()
    }

    fn with_blob(files: Memory, octets: &[u8]) -> Memory {
        let hex = digest(octets).hex();
        files.file(
            &format!("{TOP}blobs/sha256/{}/{hex}/data", shard(&hex)),
            octets,
        )
    }

    fn with_revision(files: Memory, repository: &str, of: &Digest) -> Memory {
        let path = format!("{TOP}repositories/{repository}/_manifests/revisions");
        files.file(&format!("{path}/sha256/{}/link", of.hex()), of.to_string())
    }

    fn with_tag(files: Memory, repository: &str, tag: &str, link: &str) -> Memory {
        let path = format!("{TOP}repositories/{repository}/_manifests/tags/{tag}");
        files.file(&format!("{path}/current/link"), link)
    }

    fn names(catalogue: &Catalogue) -> Vec<String> {
        let images = catalogue.images.iter();
        images.map(|image| image.name.to_string()).collect()
    }

    #[test]
    fn tags_and_manifests_without_one_are_found() {
        let (image, other) = (digest(b"{}"), digest(b"{ }"));
        let mut files = Memory::default();
        for octets in [b"{}".as_slice(), b"{ }", b"layer"] {
            files = with_blob(files, octets);
        }
        for digest in [&image, &other] {
            files = with_revision(files, "ocp4/release", digest);
        }
        files = with_tag(files, "ocp4/release", "4.17", &format!("{image}\n"));
        let layer = digest(b"layer").hex();
        files = files
            .file(
                &format!("{TOP}repositories/ocp4/release/_layers/sha256/{layer}/link"),
                "",
            )
            .file("working-dir/signatures/1", "")
            .file("isc_2026", "");
        let catalogue = read(&files, TOP).unwrap();
        let expected = [
            "ocp4/release:4.17".to_owned(),
            format!("ocp4/release@{other}"),
        ];
        assert_eq!(names(&catalogue), expected);
        assert_eq!(catalogue.places.len(), 3);
        assert_eq!(catalogue.n_left, 2);
        assert!(catalogue.problems.is_empty());
    }

    #[test]
    fn a_tag_of_what_is_deleted_is_told() {
        let gone = digest(b"gone");
        let mut files = with_tag(Memory::default(), "a", "1", &gone.to_string());
        files = with_tag(files, "a", "2", "nonsense");
        files = with_tag(files, "a", "-", &gone.to_string());
        files = with_tag(files, "A", "1", &gone.to_string());
        let catalogue = read(&files, TOP).unwrap();
        assert!(catalogue.images.is_empty());
        assert_eq!(catalogue.problems.count(), 4);
    }

    #[test]
    fn a_blob_is_where_its_digest_says() {
        let hex = digest(b"x").hex();
        let right = format!("sha256/{}/{hex}/data", shard(&hex));
        assert_eq!(blob(&right), Some(digest(b"x")));
        for wrong in [
            format!("sha256/zz/{hex}/data"),
            format!("sha256/{}/{hex}", shard(&hex)),
            format!("{}/{hex}/data", shard(&hex)),
            format!("sha512/{}/{hex}/data", shard(&hex)),
        ] {
            assert_eq!(blob(&wrong), None, "{wrong}");
        }
    }
}
