//! Archives of `docker save` and `podman save`: `manifest.json` lists images, each with its
//! configuration and its layers (docker image-spec v1.2, combined image JSON).
//!
//! Such an archive has no manifest as registries have it, so one is made: Docker's schema 2 over the
//! configuration and the layers as they are, always the same octets for the same image. A layer that is
//! not compressed has the digest that the configuration says (`rootfs.diff_ids`); one that is, is read
//! here once for its digest, and must unpack to what the configuration says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};

use bytes::Bytes;
use config_text::counted;
use flate2::read::MultiGzDecoder;
use oci::digest::{Algorithm, Digest, Hasher};
use oci::manifest;
use oci::manifest::MAX_DOCUMENT;
use serde_json::Value;

use crate::catalogue::{Catalogue, Files, Image, Place, Unreadable, digest_of_hex};
use crate::name::ImageName;

/// The file that lists the images.
pub const MANIFEST: &str = "manifest.json";
/// Layers of one image: docker itself stops at 127.
const MAX_LAYERS: usize = 1_024;
/// The size of one read of a layer.
const PIECE: usize = 64 << 10;

const CONFIG_TYPE: &str = "application/vnd.docker.container.image.v1+json";
const PLAIN_TYPE: &str = "application/vnd.docker.image.rootfs.diff.tar";
const GZIP_TYPE: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// Reads an archive.
///
/// # Errors
///
/// When its list of images is none, or there are too many.
pub fn read(files: &dyn Files) -> Result<Catalogue, Unreadable> {
    let octets = files
        .read(MANIFEST, MAX_DOCUMENT)
        .map_err(|error| Unreadable::entry(MANIFEST, error.to_string()))?;
    let list: Vec<Value> = serde_json::from_slice(&octets)
        .map_err(|error| Unreadable::entry(MANIFEST, error.to_string()))?;
    let mut reading = Reading {
        files,
        catalogue: Catalogue::default(),
        compressed: BTreeMap::new(),
    };
    for (number, listed) in list.iter().enumerate() {
        if let Err((entry, what)) = reading.image(listed)? {
            let entry = match entry.is_empty() {
                true => format!("{MANIFEST}, image {}", number + 1),
                false => entry,
            };
            reading.catalogue.problems.add(entry, what);
        }
    }
    Ok(reading.catalogue)
}

struct Reading<'a> {
    files: &'a dyn Files,
    catalogue: Catalogue,
    /// The results for compressed layers, by name: images share layers.
    compressed: BTreeMap<String, Compressed>,
}

#[derive(Clone, Copy)]
struct Compressed {
    digest: Digest,
    content: Digest,
}

/// A layer as a manifest has it.
struct Layer {
    media_type: &'static str,
    size: u64,
    digest: Digest,
}

/// The entry, and what is wrong with it.
type Wrong = (String, String);

impl Reading<'_> {
    fn image(&mut self, listed: &Value) -> Result<Result<(), Wrong>, Unreadable> {
        let (manifest, names) = match self.manifest(listed) {
            Ok(made) => made,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let digest = Digest::of(Algorithm::Sha256, &manifest);
        let place = Place::Made(Bytes::from(manifest));
        self.catalogue.places.insert(digest, place);
        for name in names {
            self.catalogue.add(Image {
                name,
                digest,
                media_type: Some(manifest::DOCKER_IMAGE.to_owned()),
                entry: MANIFEST.to_owned(),
            })?;
        }
        Ok(Ok(()))
    }

    fn manifest(&mut self, listed: &Value) -> Result<(Vec<u8>, Vec<ImageName>), Wrong> {
        let here = |what: &str| (String::new(), what.to_owned());
        let config = listed.get("Config").and_then(Value::as_str);
        let config = config.ok_or_else(|| here("it has no Config"))?;
        let (config_digest, config_size, content) = self.config(config)?;
        let layers = listed.get("Layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| here("it has no Layers"))?;
        if layers.len() != content.len() || layers.len() > MAX_LAYERS {
            let (n, m) = (layers.len(), content.len());
            let what = format!(
                "the archive has {}, the configuration {m}",
                counted(n, "layer")
            );
            return Err((config.to_owned(), what));
        }
        let mut found = Vec::new();
        for (layer, content) in layers.iter().zip(content) {
            let name = layer.as_str().ok_or_else(|| here("a layer has no name"))?;
            let layer = self.layer(name, content);
            found.push(layer.map_err(|what| (name.to_owned(), what))?);
        }
        let names = match listed.get("RepoTags").and_then(Value::as_array) {
            Some(tags) if !tags.is_empty() => {
                let parse = |tag: &Value| ImageName::parse(tag.as_str()?);
                let names: Option<Vec<_>> = tags.iter().map(parse).collect();
                names.ok_or_else(|| here("one of its RepoTags is no name"))?
            }
            _ => vec![ImageName::default()],
        };
        Ok((schema_2(&config_digest, config_size, &found), names))
    }

    /// The configuration's digest and size, and the digests of the layers' content.
    fn config(&mut self, name: &str) -> Result<(Digest, u64, Vec<Digest>), Wrong> {
        let wrong = |what: String| (name.to_owned(), what);
        let octets = self
            .files
            .read(name, MAX_DOCUMENT)
            .map_err(|error| wrong(error.to_string()))?;
        let digest = Digest::of(Algorithm::Sha256, &octets);
        let last = name.rsplit('/').next().unwrap_or_default();
        let said = digest_of_hex(last.strip_suffix(".json").unwrap_or(last));
        if said.is_some_and(|said| said != digest) {
            return Err(wrong(format!("its content has the digest {digest}")));
        }
        let config: Value =
            serde_json::from_slice(&octets).map_err(|error| wrong(error.to_string()))?;
        let content = config
            .get("rootfs")
            .and_then(|rootfs| rootfs.get("diff_ids"))
            .and_then(Value::as_array)
            .ok_or_else(|| wrong("it has no rootfs.diff_ids".to_owned()))?;
        let content: Option<Vec<Digest>> = content
            .iter()
            .map(|digest| digest.as_str()?.parse().ok())
            .collect();
        let content = content.ok_or_else(|| wrong("a diff_id is no digest".to_owned()))?;
        self.catalogue.place(digest, name);
        let size = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        Ok((digest, size, content))
    }

    fn layer(&mut self, name: &str, content: Digest) -> Result<Layer, String> {
        let (real, file) = self
            .files
            .entries()
            .file(name)
            .ok_or("not in the archive")?;
        let real = real.to_owned();
        let begins = self.begins(&real).map_err(|error| error.to_string())?;
        let layer = match begins.as_slice() {
            [0x1f, 0x8b, ..] => {
                let compressed = self.compressed(&real, content.algorithm())?;
                if compressed.content != content {
                    let unpacked = compressed.content;
                    return Err(format!("it unpacks to {unpacked}, not to {content}"));
                }
                Layer {
                    media_type: GZIP_TYPE,
                    size: file.size,
                    digest: compressed.digest,
                }
            }
            [0x28, 0xb5, 0x2f, 0xfd] => {
                return Err("compressed with zstd, which such archives cannot say".to_owned());
            }
            _ => Layer {
                media_type: PLAIN_TYPE,
                size: file.size,
                digest: content,
            },
        };
        self.catalogue.place(layer.digest, &real);
        Ok(layer)
    }

    fn begins(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut octets = Vec::new();
        self.files.open(name)?.take(4).read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn compressed(&mut self, name: &str, algorithm: Algorithm) -> Result<Compressed, String> {
        if let Some(found) = self.compressed.get(name) {
            return Ok(*found);
        }
        let found = digests(self.files, name, algorithm).map_err(|error| error.to_string())?;
        self.compressed.insert(name.to_owned(), found);
        Ok(found)
    }
}

/// The digest of a file, and that of what it unpacks to.
fn digests(files: &dyn Files, name: &str, algorithm: Algorithm) -> io::Result<Compressed> {
    let mut unpacked = MultiGzDecoder::new(Counting {
        from: files.open(name)?,
        hasher: Hasher::new(Algorithm::Sha256),
    });
    let mut content = Hasher::new(algorithm);
    let mut piece = vec![0; PIECE];
    loop {
        match unpacked.read(&mut piece)? {
            0 => break,
            length => content.update(piece.get(..length).unwrap_or_default()),
        }
    }
    // Bytes behind the last member belong to the file all the same.
    let mut rest = unpacked.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    Ok(Compressed {
        digest: rest.hasher.finish(),
        content: content.finish(),
    })
}

/// Hashes what passes.
struct Counting<R> {
    from: R,
    hasher: Hasher,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        self.hasher.update(to.get(..length).unwrap_or_default());
        Ok(length)
    }
}

/// A manifest of Docker's schema 2, in one spelling.
fn schema_2(config: &Digest, config_size: u64, layers: &[Layer]) -> Vec<u8> {
    let mut text = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{}\",\"config\":{},\"layers\":[",
        manifest::DOCKER_IMAGE,
        descriptor(CONFIG_TYPE, config_size, config),
    );
    for (number, layer) in layers.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let layer = descriptor(layer.media_type, layer.size, &layer.digest);
        write!(text, "{comma}{layer}").expect("a string takes what is written");
    }
    text.push_str("]}");
    text.into_bytes()
}

fn descriptor(media_type: &str, size: u64, digest: &Digest) -> String {
    format!("{{\"mediaType\":\"{media_type}\",\"size\":{size},\"digest\":\"{digest}\"}}")
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::testing::Memory;

    fn digest(octets: &[u8]) -> Digest {
        Digest::of(Algorithm::Sha256, octets)
    }

    fn config(content: &[&[u8]]) -> String {
        let digests: Vec<String> = content
            .iter()
            .map(|octets| format!("\"{}\"", digest(octets)))
            .collect();
        format!(
            r#"{{"architecture":"amd64","rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
            digests.join(",")
        )
    }

    fn listed(config: &str, tags: &str, layers: &str) -> String {
        format!(r#"[{{"Config":"{config}","RepoTags":{tags},"Layers":{layers}}}]"#)
    }

    fn gzip(octets: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        io::Write::write_all(&mut encoder, octets).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_manifest_is_made_of_what_there_is() {
        let config = config(&[b"one", b"two"]);
        let config_name = format!("{}.json", digest(config.as_bytes()).hex());
        let list = listed(
            &config_name,
            r#"["localhost/a:1","quay.example.org/b/c:2"]"#,
            r#"["1.tar","d/layer.tar"]"#,
        );
        let two = gzip(b"two");
        let files = Memory::default()
            .file(MANIFEST, list)
            .file(&config_name, config.clone())
            .file("1.tar", "one")
            .file("2.tar", two.clone())
            .link("d/layer.tar", "../2.tar");
        let catalogue = read(&files).unwrap();
        assert!(catalogue.problems.is_empty(), "{:?}", catalogue.problems);
        let names: Vec<String> = catalogue
            .images
            .iter()
            .map(|image| image.name.to_string())
            .collect();
        assert_eq!(names, ["localhost/a:1", "quay.example.org/b/c:2"]);
        let Some(Place::Made(manifest)) = catalogue.places.get(&catalogue.images[0].digest) else {
            panic!("no manifest was made");
        };
        let parsed = manifest::parse(manifest, Some(manifest::DOCKER_IMAGE)).unwrap();
        let expected = [digest(config.as_bytes()), digest(b"one"), digest(&two)];
        assert_eq!(parsed.closure.blobs, expected);
        let value: Value = serde_json::from_slice(manifest).unwrap();
        assert_eq!(value["layers"][0]["mediaType"], PLAIN_TYPE);
        assert_eq!(value["layers"][1]["mediaType"], GZIP_TYPE);
        assert_eq!(value["layers"][1]["size"], two.len());
        assert_eq!(value["config"]["size"], config.len());
        for blob in expected {
            assert!(catalogue.places.contains_key(&blob), "{blob}");
        }
        assert_eq!(
            read(&files).unwrap().places,
            catalogue.places,
            "always the same"
        );
    }

    #[test]
    fn an_image_without_a_name_has_none() {
        let config = config(&[]);
        let files = Memory::default()
            .file(MANIFEST, listed("c", "null", "[]"))
            .file("c", config);
        let catalogue = read(&files).unwrap();
        assert_eq!(catalogue.images[0].name, ImageName::default());
    }

    #[test]
    fn what_does_not_fit_costs_the_image() {
        let good = config(&[b"one"]);
        let other = format!("{}.json", digest(b"other").hex());
        let table = [
            (listed("gone", "[]", r#"["1.tar"]"#), "gone"),
            (listed("c", "[]", r#"["gone"]"#), "gone"),
            (listed("c", "[]", "[]"), "c"),
            (listed("c", "[]", r#"["1.tar","1.tar"]"#), "c"),
            (listed("c", "[]", r#"["gz"]"#), "gz"),
            (listed("c", "[]", r#"["zst"]"#), "zst"),
            (
                listed("c", r#"["A:1"]"#, r#"["1.tar"]"#),
                "manifest.json, image 1",
            ),
            (listed("bad", "[]", r#"["1.tar"]"#), "bad"),
            (listed(&other, "[]", r#"["1.tar"]"#), other.as_str()),
            ("[{}]".to_owned(), "manifest.json, image 1"),
            ("[7]".to_owned(), "manifest.json, image 1"),
        ];
        for (list, entry) in table {
            let files = Memory::default()
                .file(MANIFEST, list.clone())
                .file("c", good.clone())
                .file(&other, good.clone())
                .file("bad", "{}")
                .file("1.tar", "one")
                .file("gz", gzip(b"two"))
                .file("zst", [0x28, 0xb5, 0x2f, 0xfd, 0]);
            let catalogue = read(&files).unwrap();
            assert!(catalogue.images.is_empty(), "{list}");
            let entries: Vec<&str> = catalogue
                .problems
                .iter()
                .map(|problem| problem.entry.as_str())
                .collect();
            assert_eq!(entries, [entry], "{list}");
        }
        for list in ["{}", "", "[", "\"x\""] {
            let files = Memory::default().file(MANIFEST, list);
            assert!(read(&files).is_err(), "{list}");
        }
    }
}
