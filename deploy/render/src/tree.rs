//! The changes of a rendering to a directory: the files that it writes, and those of an earlier rendering that it
//! removes.
//!
//! Pure: a [`Tree`] that is wanted, a [`Manifest`] of what an earlier rendering wrote and the files
//! that there are make a [`Plan`]. Files that no rendering wrote are never removed, and never
//! overwritten with something else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use similar::TextDiff;

/// Files by their paths below the directory.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its permissions.
    pub mode: u32,
    /// Its content.
    pub contents: Vec<u8>,
}

/// The subject of a rendering; it leaves everything else as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The directories of its targets.
    pub targets: BTreeSet<String>,
    /// The one node that it is of, if it is not of all.
    pub node: Option<String>,
}

impl Scope {
    /// Whether a rendering of this scope answers for a file.
    fn covers(&self, path: &Path) -> bool {
        let mut parts = path
            .components()
            .filter_map(|part| part.as_os_str().to_str());
        let is_target = parts
            .next()
            .is_some_and(|target| self.targets.contains(target));
        let of_node = parts
            .next()
            .map(|name| name.split_once('.').map_or(name, |(stem, _)| stem));
        is_target
            && self
                .node
                .as_deref()
                .is_none_or(|node| of_node == Some(node))
    }
}

//--- Manifest

/// The files that renderings have written into a directory and not removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest(BTreeSet<PathBuf>);

impl Manifest {
    /// The name of the manifest's file.
    pub const NAME: &'static str = ".outpost-rendered";

    /// Reads a manifest. A line that leads out of the directory names nothing that a rendering wrote.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let paths = lines.map(PathBuf::from).filter(|path| is_inside(path));
        Self(paths.collect())
    }

    /// The paths.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter()
    }

    /// The same with more paths.
    pub fn with(&self, more: impl Iterator<Item = PathBuf>) -> Self {
        Self(self.0.iter().cloned().chain(more).collect())
    }

    /// The manifest's file.
    pub fn to_text(&self) -> String {
        let mut text =
            "# What `outpost render` wrote here, and may replace or remove.\n".to_owned();
        for path in &self.0 {
            // Writing to a `String` cannot fail.
            let _infallible = writeln!(text, "{}", path.display());
        }
        text
    }
}

/// Whether a path is one below a directory, whatever links there are.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    path.file_name().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

//--- Plan

/// The changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of their paths.
    pub changes: Vec<Change>,
    /// How many files are as they should be.
    pub n_same: usize,
    /// The manifest after it.
    pub manifest: Manifest,
}

/// One file that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path below the directory.
    pub path: PathBuf,
    /// The current content.
    pub before: Option<Entry>,
    /// The new content; nothing for a removal.
    pub after: Option<Entry>,
}

/// Files that no rendering wrote, where one would write others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these files were not rendered, and are left alone; move them away, or render into another directory:{}", listed(.0))]
pub struct UnmanagedFiles(pub(super) Vec<PathBuf>);

fn listed(paths: &[PathBuf]) -> String {
    let line = |path: &PathBuf| format!("\n  {}", path.display());
    paths.iter().map(line).collect()
}

/// Works out what there is to do. `found` has every file that there is of those wanted and those in
/// the manifest.
///
/// # Errors
///
/// When it would overwrite what no rendering wrote.
pub fn plan(
    wanted: Tree,
    found: &Tree,
    manifest: &Manifest,
    scope: &Scope,
) -> Result<Plan, UnmanagedFiles> {
    let is_strange =
        |path: &PathBuf, entry: &Entry| match (manifest.0.contains(path), found.get(path)) {
            (false, Some(there)) => there.contents != entry.contents,
            _ => false,
        };
    let strange = wanted
        .iter()
        .filter(|(path, entry)| is_strange(path, entry));
    let strange: Vec<PathBuf> = strange.map(|(path, _)| path.clone()).collect();
    if !strange.is_empty() {
        return Err(UnmanagedFiles(strange));
    }
    let is_left = |path: &&PathBuf| !scope.covers(path) && !wanted.contains_key(*path);
    let kept = manifest.0.iter().filter(is_left).cloned();
    let manifest_after = Manifest(wanted.keys().cloned().chain(kept).collect());
    let gone = manifest
        .0
        .iter()
        .filter(|path| !manifest_after.0.contains(*path));
    let removed = gone.filter_map(|path| {
        Some(Change {
            path: path.clone(),
            before: Some(found.get(path)?.clone()),
            after: None,
        })
    });
    let mut changes: Vec<Change> = removed.collect();
    let mut n_same = 0;
    for (path, entry) in wanted {
        let before = found.get(&path).cloned();
        if before.as_ref() == Some(&entry) {
            n_same += 1;
            continue;
        }
        changes.push(Change {
            path,
            before,
            after: Some(entry),
        });
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Plan {
        changes,
        n_same,
        manifest: manifest_after,
    })
}

//--- Difference

impl Change {
    /// The change of the file, in a word.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, Some(_)) => "new",
            (_, None) => "removed",
            (Some(before), Some(after)) if before.contents == after.contents => "mode",
            (Some(_), Some(_)) => "changed",
        }
    }

    /// The change as a unified difference. It does not show files that only their owner may read.
    pub fn to_diff(&self) -> String {
        let path = self.path.display();
        let name = |side: &str, entry: &Option<Entry>| match entry {
            Some(_) => format!("{side}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (name("a", &self.before), name("b", &self.after));
        let mut text = String::new();
        if let (Some(before), Some(after)) = (&self.before, &self.after)
            && before.mode != after.mode
        {
            let (before, after) = (before.mode, after.mode);
            text = format!("# {path}: mode {before:04o} becomes {after:04o}\n");
        }
        if self.word() == "mode" {
            return text;
        }
        if self.sides().any(|entry| entry.mode & 0o077 == 0) {
            return format!("{text}# {path}: {}, and holds secrets\n", self.word());
        }
        let (Some(old), Some(new)) = (text_of(self.before.as_ref()), text_of(self.after.as_ref()))
        else {
            return format!("{text}# {path}: {}, and is no text\n", self.word());
        };
        let diff = TextDiff::from_lines(old, new);
        let unified = diff.unified_diff().header(&from, &to).to_string();
        text + &unified
    }

    fn sides(&self) -> impl Iterator<Item = &Entry> {
        self.before.iter().chain(&self.after)
    }
}

fn text_of(entry: Option<&Entry>) -> Option<&str> {
    match entry {
        None => Some(""),
        Some(entry) => std::str::from_utf8(&entry.contents).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        Entry {
            mode: 0o644,
            contents: text.as_bytes().to_vec(),
        }
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter();
        files
            .map(|(path, text)| (PathBuf::from(path), entry(text)))
            .collect()
    }

    fn all() -> Scope {
        Scope {
            targets: ["configs", "quadlet"].map(str::to_owned).into(),
            node: None,
        }
    }

    fn check(
        wanted: &[(&str, &str)],
        found: &[(&str, &str)],
        manifest: &[&str],
        scope: &Scope,
        expected: &[(&str, &str)],
    ) -> Manifest {
        let manifest = Manifest(manifest.iter().map(PathBuf::from).collect());
        let plan = plan(tree(wanted), &tree(found), &manifest, scope).unwrap();
        let changes: Vec<(String, &str)> = plan
            .changes
            .iter()
            .map(|change| (change.path.display().to_string(), change.word()))
            .collect();
        let expected: Vec<(String, &str)> = expected
            .iter()
            .map(|(path, word)| ((*path).to_owned(), *word))
            .collect();
        assert_eq!(changes, expected);
        plan.manifest
    }

    #[test]
    fn what_is_missing_is_written_and_what_is_wanted_no_more_is_removed() {
        let manifest = check(
            &[("configs/a", "1"), ("configs/b", "2"), ("configs/c", "3")],
            &[
                ("configs/b", "2"),
                ("configs/c", "old"),
                ("configs/d", "gone"),
            ],
            &["configs/b", "configs/c", "configs/d", "configs/e"],
            &all(),
            &[
                ("configs/a", "new"),
                ("configs/c", "changed"),
                ("configs/d", "removed"),
            ],
        );
        let paths: Vec<_> = manifest
            .paths()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(paths, ["configs/a", "configs/b", "configs/c"]);
    }

    #[test]
    fn a_rendering_of_one_target_leaves_the_others() {
        let scope = Scope {
            targets: ["configs".to_owned()].into(),
            node: None,
        };
        let manifest = check(
            &[],
            &[("configs/a", "1"), ("quadlet/b", "2")],
            &["configs/a", "quadlet/b"],
            &scope,
            &[("configs/a", "removed")],
        );
        assert_eq!(manifest.paths().count(), 1);
    }

    #[test]
    fn a_rendering_of_one_node_leaves_the_others() {
        let scope = Scope {
            targets: ["configs", "ignition"].map(str::to_owned).into(),
            node: Some("m0".to_owned()),
        };
        check(
            &[],
            &[
                ("configs/m0/a", ""),
                ("configs/m1/a", ""),
                ("ignition/m0.ign", ""),
                ("ignition/m1.ign", ""),
            ],
            &[
                "configs/m0/a",
                "configs/m1/a",
                "ignition/m0.ign",
                "ignition/m1.ign",
            ],
            &scope,
            &[("configs/m0/a", "removed"), ("ignition/m0.ign", "removed")],
        );
    }

    #[test]
    fn what_no_rendering_wrote_is_left_alone() {
        let wanted = tree(&[("configs/a", "1"), ("configs/b", "2")]);
        let found = tree(&[("configs/a", "mine"), ("configs/b", "2")]);
        let refused = plan(wanted, &found, &Manifest::default(), &all()).unwrap_err();
        assert_eq!(refused, UnmanagedFiles(vec!["configs/a".into()]));
        // What is the same already has nothing to lose.
        check(
            &[("configs/b", "2")],
            &[("configs/b", "2")],
            &[],
            &all(),
            &[],
        );
    }

    #[test]
    fn a_manifest_names_nothing_outside() {
        let manifest = Manifest::parse("# x\nconfigs/a\n../b\n/etc/passwd\na/../../b\n\n.\n");
        assert_eq!(
            manifest.paths().collect::<Vec<_>>(),
            [Path::new("configs/a")]
        );
        assert_eq!(Manifest::parse(&manifest.to_text()), manifest);
    }

    #[test]
    fn a_difference_is_one_that_patch_understands() {
        let change = Change {
            path: "configs/a".into(),
            before: Some(entry("one\ntwo\n")),
            after: Some(entry("one\n2\n")),
        };
        assert_eq!(
            change.to_diff(),
            "--- a/configs/a\n+++ b/configs/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = |text: &str| Entry {
            mode: 0o600,
            ..entry(text)
        };
        for (before, after) in [
            (None, Some(secret("new-key"))),
            (Some(secret("old-key")), None),
            (Some(entry("old-key")), Some(secret("new-key"))),
        ] {
            let change = Change {
                path: "configs/key".into(),
                before,
                after,
            };
            let text = change.to_diff();
            assert!(
                text.contains("configs/key") && !text.contains("-key"),
                "{text}"
            );
        }
    }
}
