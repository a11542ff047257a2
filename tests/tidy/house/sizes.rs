//! Files have names and sizes that help.

use std::collections::BTreeMap;

use tidy::files::{all_rust_files, is_for_tests, shown};
use tidy::modules::Crate;
use tidy::workspace::packages;

/// A package has no more lines of product than this: what one person can know.
const MOST_LINES_OF_A_PACKAGE: usize = 11_000;

/// A file has no more lines of product than this.
const MOST_LINES_OF_A_FILE: usize = 1_000;

/// A file of tests that has more lines says why.
const MANY_LINES_OF_TESTS: usize = 800;

#[test]
fn files_have_names_and_sizes_that_help() {
    let mut found = Vec::new();
    for file in all_rust_files() {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap();
        if matches!(
            name,
            "mod.rs" | "utils.rs" | "util.rs" | "helpers.rs" | "common.rs" | "types.rs"
        ) && shown(&file) != "base/daemon/src/config/common.rs"
        {
            found.push(format!("{}: the name says nothing", shown(&file)));
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let n_lines = text.lines().count();
        let is_test = shown(&file).starts_with("tests/") || is_for_tests(&file);
        if is_test
            && n_lines > MANY_LINES_OF_TESTS
            && !text.lines().any(|line| line.starts_with("//! Size:"))
        {
            found.push(format!(
                "{}: {n_lines} lines, and no `//! Size:` that says why",
                shown(&file)
            ));
        }
        // `tests.rs` belongs to the file beside it, which has one.
        if !text.starts_with("//!") && name != "tests.rs" {
            found.push(format!(
                "{}: no doc of the module on its first line",
                shown(&file)
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn packages_and_files_of_the_product_have_a_size_to_read() {
    let mut found = Vec::new();
    for package in packages().iter().filter(|package| package.top() != "tests") {
        let mut files = BTreeMap::new();
        for target in &package.targets {
            for file in Crate::read(&target.root).files {
                files.insert(shown(&file.path), file.n_product_lines());
            }
        }
        for (name, n_lines) in &files {
            if *n_lines > MOST_LINES_OF_A_FILE {
                found.push(format!(
                    "{name}: {n_lines} lines, {MOST_LINES_OF_A_FILE} are the most"
                ));
            }
        }
        let n_lines: usize = files.values().sum();
        if n_lines > MOST_LINES_OF_A_PACKAGE {
            let name = &package.name;
            found.push(format!(
                "{name}: {n_lines} lines, {MOST_LINES_OF_A_PACKAGE} are the most"
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
