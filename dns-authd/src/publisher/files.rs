//! The files of all zones, and the directories that have to be watched for them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use daemon::disk::Stamp;

/// The most symbolic links on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// The files of all zones; several zones may have one.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: HashMap<PathBuf, usize>,
    directories: BTreeMap<PathBuf, usize>,
    /// Whether the directories have changed since they were taken.
    has_changed: bool,
}

impl Files {
    /// Replaces the files of one zone. Returns those that no zone has any more.
    pub(super) fn replace(&mut self, old: &[PathBuf], new: &[PathBuf]) -> Vec<PathBuf> {
        for path in new {
            let count = self.files.entry(path.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                let users = self.directories.entry(directory(path)).or_insert(0);
                self.has_changed |= *users == 0;
                *users += 1;
            }
        }
        let mut dropped = Vec::new();
        for path in old {
            let Some(count) = self.files.get_mut(path) else {
                continue;
            };
            *count -= 1;
            if *count > 0 {
                continue;
            }
            self.files.remove(path);
            let directory = directory(path);
            if let Some(count) = self.directories.get_mut(&directory) {
                *count -= 1;
                if *count == 0 {
                    self.directories.remove(&directory);
                    self.has_changed = true;
                }
            }
            dropped.push(path.clone());
        }
        dropped
    }

    /// Whether some zone has this file.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// The directories of the files, if they may be others than at the last call.
    pub(super) fn changed_directories(&mut self) -> Option<BTreeSet<PathBuf>> {
        let has_changed = std::mem::take(&mut self.has_changed);
        has_changed.then(|| self.directories.keys().cloned().collect())
    }

    /// The files that are reached through a symbolic link at this path, with their states.
    pub(super) fn behind(&self, link: &Path) -> Vec<(PathBuf, Stamp)> {
        if !link.is_symlink() {
            return Vec::new();
        }
        let behind = self.files.keys();
        let behind = behind.filter(|file| links(file).iter().any(|it| it == link));
        behind.map(|file| (file.clone(), Stamp::of(file))).collect()
    }
}

/// The directory of a file.
fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The symbolic links on the way to a file, from its own path on.
fn links(file: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut rest = file.to_owned();
    'next: while links.len() < MAX_LINKS {
        for part in rest.ancestors() {
            let Ok(target) = std::fs::read_link(part) else {
                continue;
            };
            let parent = part.parent().unwrap_or_else(|| Path::new(""));
            let behind = rest.strip_prefix(part).unwrap_or_else(|_| Path::new(""));
            let target = parent.join(target);
            links.push(part.to_owned());
            rest = match behind.as_os_str().is_empty() {
                true => target,
                false => target.join(behind),
            };
            continue 'next;
        }
        break;
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_directory_stay_while_some_zone_has_them() {
        let list = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        let mut files = Files::default();
        let (a, b) = (list(&["x/a", "x/shared"]), list(&["x/shared", "y/b", "c"]));
        assert!(files.replace(&[], &a).is_empty());
        assert!(files.replace(&[], &b).is_empty());
        let directories = |files: &mut Files| -> Option<Vec<PathBuf>> {
            Some(files.changed_directories()?.into_iter().collect())
        };
        let all = [".", "x", "y"].map(PathBuf::from);
        assert_eq!(directories(&mut files).unwrap(), all);
        // The same again changes nothing.
        assert!(files.replace(&a, &a).is_empty());
        assert_eq!(directories(&mut files), None);
        assert_eq!(files.replace(&b, &list(&["c"])), [PathBuf::from("y/b")]);
        assert_eq!(
            directories(&mut files).unwrap(),
            [".", "x"].map(PathBuf::from)
        );
        assert_eq!(
            files.replace(&a, &[]),
            ["x/a", "x/shared"].map(PathBuf::from)
        );
        assert!(!files.contains(Path::new("x/shared")) && files.contains(Path::new("c")));
        assert_eq!(directories(&mut files).unwrap(), [PathBuf::from(".")]);
    }
}
