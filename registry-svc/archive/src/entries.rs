//! The entries of an archive, by name: files and links, nothing else.
//!
//! An archive comes from outside. Names are put into one form here, links are followed inside the
//! archive only, and how many names there are and how long they may be is bounded. Nothing is read.

use std::collections::BTreeMap;

/// Entries of an archive. A mirror of a release and all its operators has some 200,000 files.
const MAX_ENTRIES: usize = 2_000_000;
/// Octets of a name. The longest that registries write themselves have some 400: a repository's
/// name of 255 and a digest of 135.
pub const MAX_NAME: usize = 1024;
/// Octets of all names, which are held in memory while an archive is read.
const MAX_NAMES: usize = 512 << 20;
/// Links that lead to one file. docker's archives have chains of one, `oc image mirror`'s of one.
const MAX_HOPS: usize = 8;

/// The entries of an archive.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    by_name: BTreeMap<Box<str>, Entry>,
    octets: usize,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Bytes.
    File(File),
    /// Another name of a file: the name, as seen from the top of the archive.
    Link(Box<str>),
}

/// The place of an entry's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// How many.
    pub size: u64,
    /// The index of the archive's file.
    pub segment: u32,
    /// The offset in it; 0 in a directory, where each entry is a file of its own.
    pub offset: u64,
}

/// Why an entry is not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The name is empty, absolute, leads out of the archive, or has a zero in it.
    #[error("its name does not lead into the archive")]
    Outside,
    /// The name is too long.
    #[error("its name is longer than {MAX_NAME} octets")]
    LongName,
    /// There are too many.
    #[error("the archive has more entries than any registry")]
    TooMany,
}

impl Entries {
    /// Adds a file. One of the same name is replaced, as unpacking would.
    ///
    /// # Errors
    ///
    /// When the name is no name in an archive, or there are too many.
    pub fn add_file(&mut self, name: &str, file: File) -> Result<(), EntryError> {
        let name = normal(name)?;
        self.add(name, Entry::File(file))
    }

    /// Adds a symbolic link, whose target is relative to where the link is.
    ///
    /// # Errors
    ///
    /// When the name or the target leads out of the archive, or there are too many.
    pub fn add_symlink(&mut self, name: &str, target: &str) -> Result<(), EntryError> {
        let name = normal(name)?;
        if target.starts_with('/') {
            return Err(EntryError::Outside);
        }
        let target = match name.rsplit_once('/') {
            Some((parent, _)) => normal(&format!("{parent}/{target}"))?,
            None => normal(target)?,
        };
        self.add(name, Entry::Link(target.into()))
    }

    /// Adds a hard link, whose target is named from the top.
    ///
    /// # Errors
    ///
    /// As [`Self::add_symlink`].
    pub fn add_hard_link(&mut self, name: &str, target: &str) -> Result<(), EntryError> {
        let name = normal(name)?;
        let target = normal(target)?;
        self.add(name, Entry::Link(target.into()))
    }

    fn add(&mut self, name: String, entry: Entry) -> Result<(), EntryError> {
        let of_target = match &entry {
            Entry::File(_) => 0,
            Entry::Link(target) => target.len(),
        };
        self.octets = self.octets.saturating_add(name.len() + of_target);
        if self.by_name.len() >= MAX_ENTRIES || self.octets > MAX_NAMES {
            return Err(EntryError::TooMany);
        }
        self.by_name.insert(name.into(), entry);
        Ok(())
    }

    /// The file of this name, links followed, and the name under which it is.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<(&str, File)> {
        let mut name = name;
        for _ in 0..=MAX_HOPS {
            let (at, entry) = self.by_name.get_key_value(name)?;
            match entry {
                Entry::File(file) => return Some((at, *file)),
                Entry::Link(target) => name = target,
            }
        }
        None
    }

    /// The entry of this name itself.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }

    /// All entries whose names begin with this, in the order of their names.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        let from = std::ops::Bound::Included(prefix);
        self.by_name
            .range::<str, _>((from, std::ops::Bound::Unbounded))
            .map(|(name, entry)| (&**name, entry))
            .take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// A name without `.`, `..` and empty parts; it stays below the top.
fn normal(name: &str) -> Result<String, EntryError> {
    if name.len() > MAX_NAME {
        return Err(EntryError::LongName);
    }
    if name.starts_with('/') || name.contains('\0') {
        return Err(EntryError::Outside);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or(EntryError::Outside)?;
            }
            part => parts.push(part),
        }
    }
    match parts.is_empty() {
        true => Err(EntryError::Outside),
        false => Ok(parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: File = File {
        size: 1,
        segment: 0,
        offset: 512,
    };

    #[test]
    fn names_have_one_form() {
        let table = [
            ("a/b", Ok("a/b")),
            ("./a//b/", Ok("a/b")),
            ("a/./b/../c", Ok("a/c")),
            ("../a", Err(EntryError::Outside)),
            ("a/../../b", Err(EntryError::Outside)),
            ("/a", Err(EntryError::Outside)),
            ("a\0b", Err(EntryError::Outside)),
            (".", Err(EntryError::Outside)),
            ("", Err(EntryError::Outside)),
        ];
        for (name, expected) in table {
            assert_eq!(normal(name), expected.map(str::to_owned), "{name:?}");
        }
        assert_eq!(normal(&"a".repeat(MAX_NAME)), Ok("a".repeat(MAX_NAME)));
        assert_eq!(normal(&"a".repeat(MAX_NAME + 1)), Err(EntryError::LongName));
    }

    #[test]
    fn links_lead_to_files_inside() {
        let mut entries = Entries::default();
        entries.add_file("d/blob", FILE).unwrap();
        entries.add_symlink("d/tag", "blob").unwrap();
        entries.add_symlink("e/up", "../d/tag").unwrap();
        entries.add_hard_link("hard", "d/blob").unwrap();
        entries.add_symlink("gone", "nowhere").unwrap();
        assert_eq!(entries.file("d/tag"), Some(("d/blob", FILE)));
        assert_eq!(entries.file("e/up"), Some(("d/blob", FILE)));
        assert_eq!(entries.file("hard"), Some(("d/blob", FILE)));
        assert_eq!(entries.file("gone"), None);
        let outside = Err(EntryError::Outside);
        assert_eq!(entries.add_symlink("x", "../secret"), outside);
        assert_eq!(entries.add_symlink("d/x", "../../secret"), outside);
        assert_eq!(entries.add_symlink("x", "/etc/passwd"), outside);
        assert_eq!(entries.add_hard_link("x", "/etc/passwd"), outside);
    }

    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let mut entries = Entries::default();
        entries.add_symlink("a", "b").unwrap();
        entries.add_symlink("b", "a").unwrap();
        assert_eq!(entries.file("a"), None);
    }

    #[test]
    fn a_prefix_finds_what_begins_with_it() {
        let mut entries = Entries::default();
        for name in ["a", "a/b", "a/c/d", "ab"] {
            entries.add_file(name, FILE).unwrap();
        }
        let under: Vec<&str> = entries.under("a/").map(|(name, _)| name).collect();
        assert_eq!(under, ["a/b", "a/c/d"]);
    }

    #[test]
    fn of_two_files_of_one_name_the_later_counts() {
        let mut entries = Entries::default();
        entries.add_file("a", FILE).unwrap();
        entries.add_file("./a", File { size: 2, ..FILE }).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries.file("a").map(|(_, file)| file.size), Some(2));
    }
}
