//! The files of the checkout, as rules walk them.

use std::path::{Path, PathBuf};

use tests::binaries::checkout;

/// Every file of Rust.
pub(super) fn all_rust_files() -> Vec<PathBuf> {
    tracked_files()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
        .collect()
}

/// Every file of the checkout that is not built or fetched.
pub(super) fn tracked_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(checkout(), &mut files);
    files
}

/// Those of Rust below a directory.
pub(super) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(directory, &mut files);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let name = entry.file_name();
        if matches!(
            name.to_str(),
            Some("target" | ".git" | "corpus" | "artifacts" | "LICENSE-APACHE")
        ) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

/// Whether a file is compiled for tests only.
pub(super) fn is_for_tests(file: &Path) -> bool {
    Path::new(&shown(file)).components().any(|part| {
        let name = part.as_os_str().to_str().unwrap_or_default();
        matches!(
            name.trim_end_matches(".rs"),
            "tests" | "testing" | "simulation" | "reference"
        )
    })
}

/// A file as rules name it: from the checkout on.
pub(super) fn shown(file: &Path) -> String {
    let root = checkout();
    file.strip_prefix(root)
        .unwrap_or(file)
        .display()
        .to_string()
}
