//! Any bytes as an archive of images: as a tar archive, and as files in one, whatever their form.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use oci::digest::Digest;
use registry_archive::catalogue::{Catalogue, Files, Place, Problems};
use registry_archive::entries::{Entries, Entry, File};
use registry_archive::format::Format;
use registry_archive::name::{ImageName, Naming, Selection};
use registry_archive::tar::{Forward, Kind, Reader};
use registry_transfer::items;

/// The beginning of a list of files: each a line with its name, then its content.
const LIST: &[u8] = b"files\n";
/// The separator of two files.
const BETWEEN: &[u8] = b"\n--\n";

pub(super) fn body(data: &[u8]) {
    let files = match data.strip_prefix(LIST) {
        Some(list) => listed(list),
        None => unpacked(data),
    };
    for (name, entry) in files.entries.under("") {
        let inside = |name: &str| {
            let mut parts = name.split('/');
            !name.starts_with('/') && parts.all(|part| !matches!(part, "" | "." | ".."))
        };
        assert!(inside(name), "{name:?}");
        match entry {
            Entry::File(_) => {}
            Entry::Link(target) => assert!(inside(target), "{target:?}"),
        }
    }
    let detected = Format::detect(&files);
    for format in Format::ALL.map(|(_, format)| format) {
        match format.read(&files, "title:1") {
            Ok(catalogue) => check(&files, &catalogue),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert_eq!(detected, Format::detect(&files));
}

/// Whatever an archive says, places are entries of it, and images have digests and names that are some.
fn check(files: &InMemory, catalogue: &Catalogue) {
    for (digest, place) in &catalogue.places {
        match place {
            Place::Entry(name) => assert!(files.entries.get(name).is_some(), "{name}"),
            Place::Made(bytes) => {
                assert_eq!(Digest::of(digest.algorithm(), bytes), *digest);
                let made = oci::manifest::parse(bytes, None).expect("what is made is one");
                for blob in made.closure.required() {
                    assert!(catalogue.places.contains_key(blob), "{blob}");
                }
            }
        }
    }
    for image in &catalogue.images {
        let shown = image.name.to_string();
        if image.name.repository.is_some() {
            // Not the same parts: a repository in the storage of a registry may begin as a host does.
            let again = ImageName::parse(&shown).map(|name| name.to_string());
            assert_eq!(again.as_deref(), Some(&*shown));
        }
    }
    let mut problems = Problems::default();
    let naming = Naming {
        prefix: "prefix".parse().ok(),
        ..Naming::default()
    };
    let items = items::of_catalogue(catalogue, &naming, &Selection::default(), &mut problems);
    assert!(items.len() <= catalogue.images.len());
}

fn listed(list: &[u8]) -> InMemory {
    let mut files = InMemory::default();
    let mut rest = list;
    while !rest.is_empty() {
        let end = rest
            .windows(BETWEEN.len())
            .position(|window| window == BETWEEN);
        let (file, behind) = match end {
            Some(end) => (&rest[..end], &rest[end + BETWEEN.len()..]),
            None => (rest, &[][..]),
        };
        let line = file
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(file.len());
        let name = String::from_utf8_lossy(&file[..line]).into_owned();
        let content = file.get(line + 1..).unwrap_or_default();
        match name.split_once(" -> ") {
            Some((name, target)) => drop(files.entries.add_symlink(name, target)),
            None => files.add(&name, content),
        }
        rest = behind;
    }
    files
}

fn unpacked(data: &[u8]) -> InMemory {
    let mut files = InMemory::default();
    let mut reader = Reader::new(Archive(Cursor::new(data)));
    let mut before = 0;
    while let Ok(Some(member)) = reader.next_member() {
        assert!(member.offset >= before, "an archive is read forwards");
        before = member.offset;
        let Some(name) = &member.name else {
            continue;
        };
        match &member.kind {
            Kind::File => {
                let Ok(content) = reader.read_member(&member, 1 << 20) else {
                    break;
                };
                let at = usize::try_from(member.offset).unwrap();
                assert_eq!(content, data[at..at + content.len()]);
                files.add(name, &content);
            }
            Kind::Symlink(target) => drop(files.entries.add_symlink(name, target)),
            Kind::HardLink(target) => drop(files.entries.add_hard_link(name, target)),
            Kind::Directory | Kind::Other => {}
        }
    }
    files
}

struct Archive<'a>(Cursor<&'a [u8]>);

impl Read for Archive<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Forward for Archive<'_> {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.0
            .set_position(self.0.position().saturating_add(length));
        Ok(())
    }
}

/// An archive in memory.
#[derive(Default)]
struct InMemory {
    entries: Entries,
    /// By where they are said to be.
    content: BTreeMap<u64, Vec<u8>>,
}

impl InMemory {
    fn add(&mut self, name: &str, content: &[u8]) {
        let offset = self.content.len() as u64;
        let file = File {
            size: content.len() as u64,
            segment: 0,
            offset,
        };
        if self.entries.add_file(name, file).is_ok() {
            self.content.insert(offset, content.to_vec());
        }
    }
}

impl Files for InMemory {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send + '_>> {
        let found = self.entries.file(name).map(|(_, file)| file.offset);
        match found.and_then(|offset| self.content.get(&offset)) {
            Some(content) => Ok(Box::new(content.as_slice())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Pieces of such archives.
pub(super) const WORDS: &[&str] = &[
    "files\n",
    "\n--\n",
    "oci-layout\n{\"imageLayoutVersion\":\"1.0.0\"}",
    "index.json\n{\"manifests\":[",
    "manifest.json\n[{\"Config\":\"c\",\"RepoTags\":[\"a:1\"],\"Layers\":[\"l\"]}]",
    "\"io.containerd.image.name\":\"a/b:1\"",
    "\"org.opencontainers.image.ref.name\":\"1\"",
    "\"rootfs\":{\"diff_ids\":[\"sha256:",
    "blobs/sha256/",
    "docker/registry/v2/",
    "repositories/a/_manifests/",
    "tags/1/current/link\nsha256:",
    "revisions/sha256/",
    "/link",
    "v2/a/manifests/1 -> sha256:",
    "v2/a/blobs/sha256:",
    " -> ../",
    "a:1/manifest.json\n{}",
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
];
