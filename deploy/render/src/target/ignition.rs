//! Ignition configurations, specification 3.2.0: OpenShift from 4.7 on takes it, and every later
//! release converts it.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use ring::digest::{SHA512, digest};
use serde::Serialize;

use super::unit::{Host, Unit};
use crate::config::NodeFile;

/// A configuration.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    ignition: Meta,
    storage: Storage,
    systemd: Systemd,
}

#[derive(Debug, Serialize)]
struct Meta {
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct Storage {
    files: Vec<File>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    /// In JSON there is no octal.
    mode: u32,
    overwrite: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Id>,
    contents: Contents,
}

#[derive(Debug, Serialize)]
struct Id {
    id: u32,
}

#[derive(Debug, Serialize)]
struct Contents {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'static str>,
    verification: Verification,
}

#[derive(Debug, Serialize)]
struct Verification {
    hash: String,
}

#[derive(Debug, Serialize)]
struct Systemd {
    units: Vec<UnitEntry>,
}

#[derive(Debug, Serialize)]
struct UnitEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contents: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropins: Vec<DropIn>,
}

#[derive(Debug, Serialize)]
struct DropIn {
    name: String,
    contents: String,
}

impl Config {
    /// Everything of a host, in the order of names and paths.
    pub(super) fn of(host: &Host) -> Self {
        let mut files: Vec<File> = host.files.iter().map(File::of).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let mut units: Vec<UnitEntry> = host.units.iter().map(UnitEntry::of).collect();
        units.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            ignition: Meta { version: "3.2.0" },
            storage: Storage { files },
            systemd: Systemd { units },
        }
    }

    /// As a tree of JSON, which a manifest takes in.
    pub(super) fn value(&self) -> serde_json::Value {
        // Strings, numbers and lists of them: there is nothing that JSON does not have.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// As a file.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl File {
    fn of(file: &NodeFile) -> Self {
        Self {
            path: file.path.display().to_string(),
            mode: file.mode,
            overwrite: true,
            user: file.owner.map(|(id, _)| Id { id }),
            group: file.owner.map(|(_, id)| Id { id }),
            contents: Contents::of(&file.contents),
        }
    }
}

impl Contents {
    /// In the URL itself, the one kind of source that OpenShift takes; compressed where that is shorter.
    fn of(contents: &[u8]) -> Self {
        let compressed = gzip(contents);
        let (bytes, compression) = match compressed.len() < contents.len() {
            true => (compressed.as_slice(), Some("gzip")),
            false => (contents, None),
        };
        Self {
            source: format!("data:;base64,{}", STANDARD.encode(bytes)),
            compression,
            // The digest of the decompressed content.
            verification: Verification {
                hash: format!("sha512-{}", hex(digest(&SHA512, contents).as_ref())),
            },
        }
    }
}

impl UnitEntry {
    fn of(unit: &Unit) -> Self {
        Self {
            name: unit.name.clone(),
            enabled: unit.text.as_ref().map(|_| unit.enable),
            contents: unit.text.clone(),
            dropins: unit
                .drop_ins
                .iter()
                .map(|(name, contents)| DropIn {
                    name: name.clone(),
                    contents: contents.clone(),
                })
                .collect(),
        }
    }
}

/// The same bytes for the same contents: no time, no name, no system.
fn gzip(contents: &[u8]) -> Vec<u8> {
    /// Unknown (RFC 1952 §2.3.1).
    const OS: u8 = 255;
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(OS)
        .write(Vec::new(), Compression::best());
    // Writing to a vector does not fail; if it did, the contents would go as they are.
    match encoder.write_all(contents).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed,
        Err(_) => contents.to_vec(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::config::Part;
    use crate::target::unit::file;

    #[test]
    fn what_is_in_a_url_is_what_the_file_has_and_the_hash_is_of_it() {
        for text in ["", "short", &"long ".repeat(100)] {
            let contents = Contents::of(text.as_bytes());
            let encoded = contents.source.strip_prefix("data:;base64,").unwrap();
            let bytes = STANDARD.decode(encoded).unwrap();
            let mut decoded = Vec::new();
            match contents.compression {
                Some("gzip") => {
                    flate2::read::GzDecoder::new(bytes.as_slice())
                        .read_to_end(&mut decoded)
                        .unwrap();
                }
                _ => decoded = bytes,
            }
            assert_eq!(decoded, text.as_bytes());
            assert_eq!(contents.compression.is_some(), text.len() > 100);
            assert_eq!(contents.verification.hash.len(), "sha512-".len() + 128);
        }
    }

    #[test]
    fn an_addition_to_somebody_elses_unit_says_nothing_about_the_unit() {
        let host = Host {
            units: vec![Unit::addition(
                "x.service",
                "[Unit]\n".to_owned(),
                Part::Common,
            )],
            files: vec![file("/a", "a".to_owned(), Part::Common)],
        };
        assert_eq!(
            Config::of(&host).value()["systemd"]["units"],
            serde_json::json!([{
                "name": "x.service",
                "dropins": [{ "name": "50-outpost.conf", "contents": "[Unit]\n" }],
            }])
        );
    }
}
