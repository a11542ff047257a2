//! The words and phrases that the project has retired, read from docs/lexicon.md, and where they are still used.
//!
//! The list stands in blocks fenced as `retired`, a line each:
//!
//! ```text
//! name    told                  -> Report
//! name    engine @registry-svc  -> object_store
//! phrase  for good              -> permanently
//! phrase  ^whom                 -> (begin with the subject)
//! ```
//!
//! A *name* is a word of the name of a module or a type, `@` limits it to a folder at the root. A *phrase* is looked for in
//! comments, docs and sentences, whole words, small or capital letters alike; with `^` only where a sentence begins that is no
//! question.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{all_files, checkout, has_extension, is_for_tests, shown};
use crate::modules::Crate;
use crate::prose::{self, Paragraph};
use crate::workspace::Package;

/// A line of the lexicon's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    pub kind: Kind,
    pub word: String,
    /// The folder at the root that it is retired in; all of them unless given.
    pub folder: Option<String>,
    pub instead: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    Phrase,
}

/// A place where something retired is still used.
#[derive(Clone, Debug)]
pub struct Use {
    /// The package, or `docs` for what is Markdown.
    pub package: String,
    /// As ceilings name it: `told`, `"for good"`.
    pub word: String,
    pub place: String,
    pub instead: String,
}

/// The list of docs/lexicon.md.
pub fn read() -> Vec<Retired> {
    let path = checkout().join("docs/lexicon.md");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text)
}

/// The list in a text of Markdown.
pub fn parse(text: &str) -> Vec<Retired> {
    let mut retired = Vec::new();
    let mut in_list = false;
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            in_list = fence == "retired";
        } else if in_list && !line.trim().is_empty() {
            retired.push(entry(line).unwrap_or_else(|| panic!("docs/lexicon.md: `{line}`")));
        }
    }
    retired
}

fn entry(line: &str) -> Option<Retired> {
    let (what, instead) = line.split_once("->")?;
    let (kind, word) = what.trim().split_once(' ')?;
    let kind = match kind {
        "name" => Kind::Name,
        "phrase" => Kind::Phrase,
        _ => return None,
    };
    let (word, folder) = match word.split_once('@') {
        Some((word, folder)) => (word, Some(folder.trim().to_owned())),
        None => (word, None),
    };
    Some(Retired {
        kind,
        word: word.trim().to_lowercase(),
        folder,
        instead: instead.trim().to_owned(),
    })
}

/// Every use in the packages and in the documents.
pub fn uses(packages: &[Package], retired: &[Retired]) -> Vec<Use> {
    let mut found = Vec::new();
    for package in packages {
        let is_test = package.top() == "tests";
        let list: Vec<&Retired> = retired
            .iter()
            .filter(|r| {
                r.folder
                    .as_deref()
                    .is_none_or(|folder| folder == package.top())
            })
            .collect();
        let mut seen = Vec::new();
        for target in package.targets.iter().filter(|_| !is_test) {
            let krate = Crate::read(&target.root);
            let mut report = |word: &str, place: String, instead: &str| {
                found.push(Use {
                    package: package.name.clone(),
                    word: word.to_owned(),
                    place,
                    instead: instead.to_owned(),
                });
            };
            for module in &krate.modules {
                check_name(&module.name, &list, &mut |r| {
                    let place = format!("{}: module {}", module.place.file, module.name);
                    report(&r.word, place, &r.instead);
                });
            }
            for file in krate.files.iter().filter(|file| !is_for_tests(&file.path)) {
                if seen.contains(&file.path) {
                    continue;
                }
                seen.push(file.path.clone());
                for (name, line) in &file.types {
                    check_name(name, &list, &mut |r| {
                        let place = format!("{}:{line}: type {name}", shown(&file.path));
                        report(&r.word, place, &r.instead);
                    });
                }
                for paragraph in prose::of_file(&file.path) {
                    check_prose(&paragraph, &list, &mut |r, line| {
                        if !file.is_for_tests(line) {
                            let place = format!("{}:{line}", shown(&file.path));
                            report(&format!("\"{}\"", r.word), place, &r.instead);
                        }
                    });
                }
            }
        }
    }
    found.extend(uses_in_documents(retired));
    found
}

fn uses_in_documents(retired: &[Retired]) -> Vec<Use> {
    let list: Vec<&Retired> = retired.iter().filter(|r| r.folder.is_none()).collect();
    let mut found = Vec::new();
    let documents = all_files().into_iter().filter(|file| is_document(file));
    for file in documents {
        for paragraph in prose::of_file(&file) {
            check_prose(&paragraph, &list, &mut |r, line| {
                found.push(Use {
                    package: "docs".to_owned(),
                    word: format!("\"{}\"", r.word),
                    place: format!("{}:{line}", shown(&file)),
                    instead: r.instead.clone(),
                });
            });
        }
    }
    found
}

/// Whether it is prose that is kept plain: the history of changes and the lexicon itself are not.
fn is_document(file: &Path) -> bool {
    let name = shown(file);
    has_extension(file, "md") && name != "CHANGELOG.md" && name != "docs/lexicon.md"
}

/// Calls `found` for each retired word that a name has.
pub fn check_name(name: &str, retired: &[&Retired], found: &mut dyn FnMut(&Retired)) {
    let words = words_of(name);
    for r in retired.iter().filter(|r| r.kind == Kind::Name) {
        if words.contains(&r.word) || name.to_lowercase() == r.word {
            found(r);
        }
    }
}

/// `CardClock` and `card_clock` are `card` and `clock`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        let begins = character == '_' || character.is_uppercase();
        if begins && !words[words.len() - 1].is_empty() {
            words.push(String::new());
        }
        if character != '_' {
            let last = words.len() - 1;
            words[last].extend(character.to_lowercase());
        }
    }
    words
}

/// Calls `found` with the line of each retired phrase.
pub fn check_prose(
    paragraph: &Paragraph,
    retired: &[&Retired],
    found: &mut dyn FnMut(&Retired, usize),
) {
    let text = paragraph.text.to_lowercase();
    for r in retired.iter().filter(|r| r.kind == Kind::Phrase) {
        let (phrase, begins) = match r.word.strip_prefix('^') {
            Some(phrase) => (phrase, true),
            None => (r.word.as_str(), false),
        };
        for (at, _) in text.match_indices(phrase) {
            let after = text[at + phrase.len()..].chars().next();
            let before = text[..at].chars().next_back();
            let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if !apart(before) || !apart(after) {
                continue;
            }
            let opens = begins_sentence(&text[..at]) && !is_question(&text[at..]);
            if begins && !opens {
                continue;
            }
            found(r, paragraph.line_at(at.min(paragraph.text.len())));
        }
    }
}

fn begins_sentence(before: &str) -> bool {
    let before = before.trim_end_matches(['(', '*', '"']);
    before.is_empty()
        || [". ", ": ", "; ", "? ", "! "]
            .iter()
            .any(|end| before.ends_with(end))
}

fn is_question(sentence: &str) -> bool {
    let end = sentence.find(['.', '?', ';', '!']);
    end.is_some_and(|end| sentence[end..].starts_with('?'))
}

//--- Ceilings

/// How often each retired word is used in each package.
pub fn counts(uses: &[Use]) -> Counts {
    let mut counts = BTreeMap::new();
    for used in uses {
        *counts
            .entry((used.package.clone(), used.word.clone()))
            .or_default() += 1;
    }
    counts
}

/// A package and a word.
pub type Key = (String, String);

/// How often.
pub type Counts = BTreeMap<Key, usize>;

/// Reads the table that [`table`] writes.
pub fn parse_table(text: &str) -> Counts {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let entry = |line: &str| {
        let (package, rest) = line.split_once(' ')?;
        let (word, count) = rest.trim().rsplit_once(' ')?;
        let key = (package.to_owned(), word.trim().to_owned());
        Some((key, count.parse().ok()?))
    };
    lines
        .map(|line| entry(line).unwrap_or_else(|| panic!("ceilings: `{line}`")))
        .collect()
}

/// The table of ceilings.
pub fn table(counts: &Counts) -> String {
    let mut text = String::from(
        "# How often each package may still use what docs/lexicon.md retires. It only shrinks; written by\n# `cargo run -p tidy -- ceilings`, which refuses to raise the sum of a word.\n",
    );
    for ((package, word), count) in counts {
        text.push_str(&format!("{package} {word} {count}\n"));
    }
    text
}

/// The counts above their ceilings, and ceilings that nothing needs.
pub fn broken(counts: &Counts, ceilings: &Counts) -> (Vec<Key>, Vec<Key>) {
    let above = counts
        .iter()
        .filter(|(key, count)| ceilings.get(*key).is_none_or(|ceiling| ceiling < count));
    let unneeded = ceilings.keys().filter(|key| !counts.contains_key(*key));
    (
        above.map(|(key, _)| key.clone()).collect(),
        unneeded.cloned().collect(),
    )
}

/// The words whose sum over all packages has grown, with both sums.
pub fn grown(counts: &Counts, ceilings: &Counts) -> Vec<(String, usize, usize)> {
    let known: Vec<&String> = ceilings.keys().map(|(_, word)| word).collect();
    let sum = |of: &Counts, word: &str| -> usize {
        of.iter()
            .filter(|((_, w), _)| w == word)
            .map(|(_, n)| n)
            .sum()
    };
    let mut words: Vec<&String> = counts.keys().map(|(_, word)| word).collect();
    words.sort();
    words.dedup();
    words
        .into_iter()
        .filter(|word| known.contains(word))
        .map(|word| (word.clone(), sum(ceilings, word), sum(counts, word)))
        .filter(|(_, before, after)| after > before)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "| word |\n```retired\nname told -> Report\nname engine @registry-svc -> object_store\nphrase for good -> permanently\nphrase ^who -> x\n```\n";

    #[test]
    fn the_list_is_read_from_its_block() {
        let list = parse(LIST);
        assert_eq!(list.len(), 4);
        assert_eq!(list[1].folder.as_deref(), Some("registry-svc"));
        assert_eq!(
            (list[2].kind, list[2].word.as_str()),
            (Kind::Phrase, "for good")
        );
    }

    #[test]
    fn names_are_found_by_their_words() {
        let list = parse(LIST);
        let list: Vec<&Retired> = list.iter().collect();
        let check = |name: &str, wanted: usize| {
            let mut found = 0;
            check_name(name, &list, &mut |_| found += 1);
            assert_eq!(found, wanted, "{name}");
        };
        check("Told", 1);
        check("what_was_told", 1);
        check("TOLD", 1);
        check("Untold", 0);
        check("toldyou", 0);
    }

    #[test]
    fn phrases_are_found_in_sentences() {
        let list = parse(LIST);
        let list: Vec<&Retired> = list.iter().collect();
        let check = |text: &str, wanted: usize| {
            let mut found = 0;
            for paragraph in prose::of_lines([(text, 1)].into_iter()) {
                check_prose(&paragraph, &list, &mut |_, _| found += 1);
            }
            assert_eq!(found, wanted, "{text}");
        };
        check("Taken for good.", 1);
        check("Taken For\u{20}good", 1);
        check("for goodness", 0);
        check("Who has it can be anybody.", 1);
        check("It is so. Who has it can be anybody.", 1);
        check("Who has it?", 0);
        check("The one who has it.", 0);
        check("`for good`", 0);
    }

    #[test]
    fn ceilings_only_shrink() {
        let key = |package: &str, word: &str| (package.to_owned(), word.to_owned());
        let ceilings = BTreeMap::from([(key("a", "told"), 2), (key("b", "told"), 1)]);
        assert_eq!(parse_table(&table(&ceilings)), ceilings);
        let counts = BTreeMap::from([(key("a", "told"), 3)]);
        assert_eq!(
            broken(&counts, &ceilings),
            (vec![key("a", "told")], vec![key("b", "told")])
        );
        assert!(grown(&counts, &ceilings).is_empty(), "moved, not grown");
        let counts = BTreeMap::from([(key("a", "told"), 4)]);
        assert_eq!(grown(&counts, &ceilings), [("told".to_owned(), 3, 4)]);
    }
}
