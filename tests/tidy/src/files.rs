//! The files of the checkout, as rules walk them.

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub fn checkout() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/tidy has a root")
}

/// Every file of the checkout that is not built or fetched.
pub fn all_files() -> Vec<PathBuf> {
    below(checkout())
}

/// Every file of Rust in the checkout.
pub fn all_rust_files() -> Vec<PathBuf> {
    let mut files = all_files();
    files.retain(|file| has_extension(file, "rs"));
    files
}

/// The files below a directory, in the order of their names.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(directory, &mut files);
    files
}

/// Whether a file's name ends in `.extension`.
pub fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|e| e == extension)
}

/// Whether a file is compiled for tests only, judged by its path.
pub fn is_for_tests(file: &Path) -> bool {
    Path::new(&shown(file)).components().any(|part| {
        let name = part.as_os_str().to_str().unwrap_or_default();
        matches!(
            name.trim_end_matches(".rs"),
            "tests" | "testing" | "simulation" | "reference" | "benches" | "examples"
        )
    })
}

/// A file as rules name it: its path from the root of the checkout.
pub fn shown(file: &Path) -> String {
    file.strip_prefix(checkout())
        .unwrap_or(file)
        .display()
        .to_string()
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut entries: Vec<_> = entries.map(Result::unwrap).collect();
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
