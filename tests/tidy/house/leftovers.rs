//! Nothing is left in the sources that was meant to go: notes, exceptions without a reason, directories.

use tidy::files::{all_files, all_rust_files, shown};

/// Files that use the directory of temporary files without `tempfile`, and choose their own names there.
const MAKES_ITS_OWN: &[&str] = &[
    // The directory of a site of `outpost up`, by its user.
    "deploy/src/up/run_dir.rs",
    // The input that broke something stays for the developer.
    "tests/fuzz-bodies/src/lib.rs",
    // The directories of the end-to-end tests, which stay when a test fails.
    "tests/src/scratch.rs",
];

#[test]
fn nothing_is_left_to_do_later() {
    // Put together from parts, so that this file does not find itself.
    let words =
        [["FIX", "ME"], ["TO", "DO"], ["XX", "X:"], ["HA", "CK:"]].map(|parts| parts.concat());
    let mut found = Vec::new();
    for file in all_files() {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            for word in &words {
                if has_word(line, word) {
                    found.push(format!("{}:{number}: {line}", shown(&file)));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn lint_exceptions_say_why() {
    let mut found = Vec::new();
    for file in all_rust_files() {
        let text = std::fs::read_to_string(&file).unwrap();
        for (at, _) in text.match_indices(&["[allow", "("].concat()) {
            let number = text[..at].lines().count() + 1;
            found.push(format!(
                "{}:{number}: `expect` with a reason, not `allow`",
                shown(&file)
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn temporary_directories_go_away_by_themselves() {
    // Put together from parts, so that this file does not find itself.
    let word = ["temp", "_dir"].concat();
    let mut found = Vec::new();
    let files = all_rust_files();
    for file in files
        .iter()
        .filter(|file| !MAKES_ITS_OWN.contains(&&*shown(file)))
    {
        let text = std::fs::read_to_string(file).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if has_word(line, &word) {
                found.push(format!(
                    "{}:{number}: `tempfile` makes directories",
                    shown(file)
                ));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

//--- Words

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        apart(before) && (apart(after) || word.ends_with(':'))
    })
}
