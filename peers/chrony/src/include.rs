//! `include`, `confdir`, `sourcedir`: the files that follow.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use config_text::{Position, Problem};

use super::Reader;
use super::line::Line;
use super::values::path;

/// As deep as chronyd goes.
const MAX_DEPTH: usize = 10;
/// More files than this are surely a loop or a wrong directory.
const MAX_FILES: usize = 1000;
/// As many directories as chronyd takes in one line.
const MAX_DIRECTORIES: usize = 10;
/// Text that is longer is no configuration; files that include others several times are bounded by this in all.
const MAX_LINES: usize = 1_000_000;

impl Reader<'_> {
    /// Reads a file that a line names, or the first one.
    pub(super) fn file(&mut self, file: &Path, from: Option<Position>) {
        let Some(text) = self.text(file, from) else {
            return;
        };
        self.depth += 1;
        let name: Arc<Path> = file.into();
        for (index, text) in text.lines().enumerate().take(MAX_LINES) {
            if let Some(line) = Line::parse(text, &name, index + 1) {
                self.directive(&line);
            }
        }
        self.depth -= 1;
    }

    fn text(&mut self, file: &Path, from: Option<Position>) -> Option<String> {
        let wrong = if self.depth > MAX_DEPTH {
            Some(format!(
                "files include each other more than {MAX_DEPTH} deep"
            ))
        } else if self.read.len() >= MAX_FILES {
            Some(format!("more than {MAX_FILES} files are included"))
        } else {
            None
        };
        let read = match wrong {
            Some(wrong) => Err(wrong),
            None => {
                self.read.push(file.to_owned());
                let read = self.files.read(file);
                read.map_err(|error| format!("cannot read {}: {error}", file.display()))
            }
        };
        match read {
            // Comments are in whatever encoding; directives are ASCII.
            Ok(octets) => Some(String::from_utf8_lossy(&octets).into_owned()),
            Err(message) => {
                let problem = Problem {
                    position: from,
                    message,
                };
                if self.problems.len() < config_text::MAX_PROBLEMS {
                    self.problems.push(problem);
                }
                None
            }
        }
    }

    /// `include pattern`: the files that match, in order; a name without wildcard has to exist.
    pub(super) fn include(&mut self, line: &Line<'_>) {
        let Some(word) = line.words.first().copied() else {
            return;
        };
        let pattern = path(word);
        if !has_wildcard(word.text) {
            self.file(&pattern, Some(line.at(word)));
            return;
        }
        let mut found = Vec::new();
        self.matching(PathBuf::new(), &pattern, &mut found);
        found.sort();
        if found.is_empty() {
            let message = format!("`{}` matches no file", word.text);
            self.odd(line.at(word), &message);
        }
        for file in found {
            self.file(&file, Some(line.at(word)));
        }
    }

    /// The paths below `base` that match the rest of a pattern.
    fn matching(&mut self, base: PathBuf, pattern: &Path, found: &mut Vec<PathBuf>) {
        let mut components = pattern.components();
        let Some(component) = components.next() else {
            found.push(base);
            return;
        };
        let rest = components.as_path().to_owned();
        let wanted = match component {
            Component::Normal(name) => name.to_string_lossy().into_owned(),
            other => return self.matching(base.join(other), &rest, found),
        };
        if !has_wildcard(&wanted) {
            return self.matching(base.join(wanted), &rest, found);
        }
        let directory = if base.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &base
        };
        for entry in self.files.list(directory).unwrap_or_default() {
            let Some(name) = entry.file_name() else {
                continue;
            };
            let text = name.to_string_lossy();
            // A dot at the beginning has to be written.
            let hidden = text.starts_with('.') && !wanted.starts_with('.');
            if !hidden && matches(&wanted, &text) && found.len() < MAX_FILES {
                self.matching(base.join(name), &rest, found);
            }
        }
    }

    /// `confdir directory…`: files with the suffix `.conf` in the order of their names; if several files have one name, that of
    /// the first directory.
    pub(super) fn configuration_directories(&mut self, line: &Line<'_>) {
        let Some(directories) = self.directories(line) else {
            return;
        };
        let start = line.start();
        for file in self.files_of(&directories, ".conf") {
            self.file(&file, Some(start.clone()));
        }
    }

    /// `sourcedir directory…`: the same with `.sources`, read when everything else was.
    pub(super) fn note_source_directories(&mut self, line: &Line<'_>) {
        if let Some(directories) = self.directories(line) {
            self.config.source_directories.extend(directories);
        }
    }

    /// Reads what `sourcedir` named. A program wrote these files, at any time: a line that makes no sense is left out.
    pub(super) fn source_directories(&mut self, directories: &[PathBuf]) {
        for file in self.files_of(directories, ".sources") {
            let Some(text) = self.text(&file, None) else {
                continue;
            };
            let name: Arc<Path> = file.as_path().into();
            for (index, text) in text.lines().enumerate().take(MAX_LINES) {
                let Some(line) = Line::parse(text, &name, index + 1) else {
                    continue;
                };
                if ["server", "pool", "peer"].iter().any(|it| line.name.is(it)) {
                    self.directive(&line);
                } else {
                    let message = "only `server`, `pool` and `peer` stand in such a file";
                    self.problem(line.start(), message);
                }
            }
        }
        for problem in std::mem::take(&mut self.problems) {
            self.odd(problem.position, &format!("left out: {}", problem.message));
        }
    }

    fn directories(&mut self, line: &Line<'_>) -> Option<Vec<PathBuf>> {
        if line.words.len() > MAX_DIRECTORIES {
            let message = format!("more than {MAX_DIRECTORIES} directories in one line");
            self.problem(line.start(), message);
            return None;
        }
        Some(line.words.iter().map(|word| path(*word)).collect())
    }

    /// Files of a suffix; a directory that cannot be read has none.
    fn files_of(&mut self, directories: &[PathBuf], suffix: &str) -> Vec<PathBuf> {
        let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for directory in directories {
            for file in self.files.list(directory).unwrap_or_default() {
                if let Some(name) = file.file_name()
                    && name.to_string_lossy().ends_with(suffix)
                {
                    files.entry(name.to_owned()).or_insert(file);
                }
            }
        }
        files.into_values().collect()
    }
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// glob(7), as far as configurations have it: `*`, `?` and `[…]`.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // The position to continue from when the last `*` has to match one letter more.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() || p < pattern.len() {
        let step = match (pattern.get(p), text.get(t)) {
            (Some('*'), _) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            (Some('?'), Some(_)) => Some(1),
            (Some('['), Some(letter)) => class(pattern.get(p..).unwrap_or_default(), *letter),
            (Some(wanted), Some(letter)) if wanted == letter => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((at, taken))) if taken < text.len() => {
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
            (None, _) => return false,
        }
    }
    true
}

/// The length of `[…]` at the beginning of a pattern if it has the letter in it; without `]` it stands for itself.
fn class(pattern: &[char], letter: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(negated);
    // A `]` that comes first is a letter.
    let length = pattern.iter().skip(first + 1).position(|&it| it == ']');
    let Some(end) = length.map(|length| first + 1 + length) else {
        return (letter == '[').then_some(1);
    };
    let set = pattern.get(first..end).unwrap_or_default();
    let mut found = false;
    let mut at = 0;
    while let Some(&low) = set.get(at) {
        let high = match (set.get(at + 1), set.get(at + 2)) {
            (Some('-'), Some(&high)) => {
                at += 3;
                high
            }
            _ => {
                at += 1;
                low
            }
        };
        found |= (low..=high).contains(&letter);
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_the_shell_has_it() {
        for (pattern, text, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "a", true),
            ("?", "", false),
            ("[ab]c", "bc", true),
            ("[!ab]c", "bc", false),
            ("[a-c]1", "b1", true),
            ("[a-c]1", "d1", false),
            ("[]x]", "]", true),
            ("[", "[", true),
            ("[", "a", false),
            ("**a", "bbba", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
