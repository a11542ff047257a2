//! Files have names and sizes that help.

use std::path::Path;

use super::files::{all_rust_files, is_for_tests, shown};

/// A file of the product has no more lines than this.
const MOST_LINES: usize = 600;

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
        if n_lines > 800 && !text.lines().any(|line| line.starts_with("//! Size:")) {
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
fn files_of_the_product_are_short() {
    let mut found = Vec::new();
    let product = all_rust_files().into_iter().filter(|file| is_product(file));
    for file in product {
        let text = std::fs::read_to_string(&file).unwrap();
        let (name, n_lines) = (shown(&file), text.lines().count());
        if n_lines > MOST_LINES {
            found.push(format!(
                "{name}: {n_lines} lines, and {MOST_LINES} are the most"
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn is_product(file: &Path) -> bool {
    !shown(file).starts_with("tests/") && !is_for_tests(file)
}
