//! The form of an archive.

use std::fmt;
use std::str::FromStr;

use crate::catalogue::{Catalogue, Files, Unreadable};
use crate::{distribution, docker_archive, layout, oc_directory, sync_directory};

/// A form that images come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An OCI image layout.
    OciLayout,
    /// The output of `docker save` and `podman save`.
    DockerArchive,
    /// The output of `skopeo copy … dir:` and `skopeo sync --dest dir`.
    SyncDirectory,
    /// The output of `oc image mirror --dir`.
    OcDirectory,
    /// A data directory of distribution, alone or in an archive of oc-mirror.
    Distribution,
}

impl Format {
    /// All of them, by the names that people give them.
    pub const ALL: [(&'static str, Self); 6] = [
        ("oci-layout", Self::OciLayout),
        ("docker-archive", Self::DockerArchive),
        ("dir", Self::SyncDirectory),
        ("oc-image-mirror", Self::OcDirectory),
        ("oc-mirror", Self::Distribution),
        ("distribution", Self::Distribution),
    ];

    /// Finds out which form it is.
    #[must_use]
    pub fn detect(files: &dyn Files) -> Option<Self> {
        let entries = files.entries();
        let is_there = |name: &str| entries.file(name).is_some();
        let any = |prefix: &str, has: &dyn Fn(&str) -> bool| {
            entries.under(prefix).any(|(name, _)| has(name))
        };
        if distribution_top(files).is_some() {
            return Some(Self::Distribution);
        }
        // docker since 25 writes an archive that is both, and whose layout says more.
        if is_there(layout::MARKER) && is_there(layout::INDEX) {
            return Some(Self::OciLayout);
        }
        if is_there(docker_archive::MANIFEST) {
            return Some(match first_octet(files, docker_archive::MANIFEST) {
                Some(b'[') => Self::DockerArchive,
                _ => Self::SyncDirectory,
            });
        }
        if any(oc_directory::TOP, &|name| name.contains("/manifests/")) {
            return Some(Self::OcDirectory);
        }
        any("", &|name| name.ends_with("/manifest.json")).then_some(Self::SyncDirectory)
    }

    /// Reads an archive of this form; `title` is what its file or directory is called.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn read(self, files: &dyn Files, title: &str) -> Result<Catalogue, Unreadable> {
        match self {
            Self::OciLayout => layout::read(files),
            Self::DockerArchive => docker_archive::read(files),
            Self::SyncDirectory => sync_directory::read(files, title),
            Self::OcDirectory => oc_directory::read(files),
            Self::Distribution => {
                let top = distribution_top(files).ok_or(Unreadable::Unknown)?;
                distribution::read(files, top)
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, format)| format == self);
        to.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("not one of {}", names.join(", "))
        })
    }
}

/// The begin of a registry's data: its root directory, or one further in.
fn distribution_top(files: &dyn Files) -> Option<&'static str> {
    let tops = [distribution::TOP, "registry/v2/", "v2/", ""];
    tops.into_iter().find(|top| {
        let repositories = format!("{top}repositories/");
        let mut found = files.entries().under(&repositories);
        found.any(|(name, _)| name.contains("/_manifests/"))
    })
}

fn first_octet(files: &dyn Files, name: &str) -> Option<u8> {
    let mut octets = [0; 64];
    let read = std::io::Read::read(&mut files.open(name).ok()?, &mut octets).ok()?;
    octets.get(..read)?.trim_ascii_start().first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    #[test]
    fn forms_are_told_apart() {
        let hex = "ab".repeat(32);
        let link = format!("repositories/a/_manifests/revisions/sha256/{hex}/link");
        let layout = || {
            Memory::default()
                .file("oci-layout", "{}")
                .file("index.json", "{}")
        };
        let table = [
            (layout(), Some(Format::OciLayout)),
            (
                layout().file("manifest.json", "[]"),
                Some(Format::OciLayout),
            ),
            (
                Memory::default().file("manifest.json", " []"),
                Some(Format::DockerArchive),
            ),
            (
                Memory::default().file("manifest.json", "{}"),
                Some(Format::SyncDirectory),
            ),
            (
                Memory::default().file("a:1/manifest.json", "{}"),
                Some(Format::SyncDirectory),
            ),
            (
                Memory::default().file("v2/a/manifests/1", "{}"),
                Some(Format::OcDirectory),
            ),
            (
                Memory::default().file(&format!("docker/registry/v2/{link}"), ""),
                Some(Format::Distribution),
            ),
            (
                Memory::default().file(&format!("v2/{link}"), ""),
                Some(Format::Distribution),
            ),
            (
                Memory::default().file(&link, ""),
                Some(Format::Distribution),
            ),
            (Memory::default().file("notes.txt", ""), None),
            (Memory::default(), None),
        ];
        for (files, expected) in table {
            assert_eq!(Format::detect(&files), expected, "{files:?}");
        }
    }

    #[test]
    fn forms_have_names() {
        for (name, format) in Format::ALL {
            assert_eq!(name.parse(), Ok(format));
        }
        assert!("zip".parse::<Format>().unwrap_err().contains("oci-layout"));
        assert_eq!(Format::SyncDirectory.to_string(), "dir");
    }
}
