//! Settings files in the syntax that `pdns_server` and `pdns_recursor` share.
//!
//! ```text
//! local-address=0.0.0.0 ::     # a comment
//! allow-from=192.0.2.0/24
//! allow-from+=198.51.100.0/24
//! version-string=a text \
//!   that goes on
//! include-dir=/etc/pdns/conf.d
//! ```
//!
//! Lines are read as those servers read them: `key=value`, `key+=value`, `\` at the end of a line that
//! continues, and comments from a `#` that begins the line or follows a blank. Settings of the command line
//! come after those of the files. `include-dir` is followed, that of the file if it has one, else that of
//! the command line: pdns reads the file over the command line before it looks for the directory. A setting
//! that is not in the server's [`Catalogue`] is an error, as it is for pdns.
//!
//! Reads files only through [`Files`], and never panics on any input.

mod catalogue;
pub mod command_line;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{Files, MAX_PROBLEMS, Position, Problem};

pub use catalogue::{Catalogue, Disposition};
pub use values::{address, items};

/// The setting that names a directory of further files.
const INCLUDE_DIR: &str = "include-dir";

/// A setting as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The text after the `=`, without blanks around it.
    pub value: String,
    /// The place of the setting; `None` on the command line.
    pub position: Option<Position>,
}

/// A setting without a counterpart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The reason why there is no counterpart.
    pub reason: &'static str,
    /// The place of the setting; `None` on the command line.
    pub position: Option<Position>,
}

/// The settings of the files and the command line, the last one of each name.
#[derive(Clone, Debug)]
pub struct Settings {
    catalogue: &'static Catalogue,
    settings: BTreeMap<String, Setting>,
    problems: Vec<Problem>,
    files: Vec<PathBuf>,
}

impl Settings {
    /// Reads the file at `path`, its includes, and then `arguments`: settings of the server's command line,
    /// without their `--`.
    #[must_use]
    pub fn read(
        catalogue: &'static Catalogue,
        path: &Path,
        files: &mut dyn Files,
        arguments: &[(String, String)],
    ) -> Self {
        let mut settings = Self {
            catalogue,
            settings: BTreeMap::new(),
            problems: Vec::new(),
            files: Vec::new(),
        };
        settings.file(path, files);
        let of_file = settings.settings.get(INCLUDE_DIR).cloned();
        if let Some(directory) = of_file.or_else(|| from_arguments(arguments, INCLUDE_DIR)) {
            settings.directory(&directory, files);
        }
        for (key, value) in arguments {
            settings.set(key, value.clone(), false, None);
        }
        settings
    }

    /// Settings that another syntax has, which was read from `files`.
    #[must_use]
    pub fn of(
        catalogue: &'static Catalogue,
        files: Vec<PathBuf>,
        settings: impl IntoIterator<Item = (String, Setting)>,
        arguments: &[(String, String)],
    ) -> Self {
        let mut all = Self {
            catalogue,
            settings: BTreeMap::new(),
            problems: Vec::new(),
            files,
        };
        for (key, Setting { value, position }) in settings {
            all.set(&key, value, false, position);
        }
        for (key, value) in arguments {
            all.set(key, value.clone(), false, None);
        }
        all
    }

    /// The setting of this name, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key)
    }

    /// Adds a problem to those of the files, unless there are [`MAX_PROBLEMS`] already.
    pub fn problem(&mut self, position: Option<Position>, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { position, message });
        }
    }

    /// Reads a file that a setting names, in lines of its own syntax, and adds it to the files that were
    /// read. A file that cannot be read is a problem of the setting.
    pub fn other_file(&mut self, setting: &Setting, files: &mut dyn Files) -> Option<Vec<u8>> {
        let path = Path::new(&setting.value);
        self.load(path, setting.position.clone(), files)
    }

    /// The settings without a counterpart, in the order of the files.
    #[must_use]
    pub fn dropped(&self) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for (key, setting) in &self.settings {
            let reason = match self.catalogue.disposition(key) {
                Some(Disposition::Kept) => continue,
                Some(Disposition::Dropped(reason)) => reason,
                None => "`ignore-unknown-settings` names it",
            };
            let Setting { value, position } = setting.clone();
            dropped.push(Dropped {
                key: key.clone(),
                value,
                reason,
                position,
            });
        }
        dropped.sort_by(|a, b| a.position.cmp(&b.position));
        dropped
    }

    /// The problems, in the order of their discovery, and every file that was read or searched for.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Problem>, Vec<PathBuf>) {
        (self.problems, self.files)
    }
}

//--- Lines

impl Settings {
    fn load(
        &mut self,
        path: &Path,
        position: Option<Position>,
        files: &mut dyn Files,
    ) -> Option<Vec<u8>> {
        self.files.push(path.to_owned());
        match files.read(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.problem(position, format!("cannot read {}: {error}", path.display()));
                None
            }
        }
    }

    fn file(&mut self, path: &Path, files: &mut dyn Files) {
        let Some(text) = self.load(path, None, files) else {
            return;
        };
        let file: Arc<Path> = path.into();
        let (mut line, mut first) = (String::new(), None);
        for (number, part) in (1..).zip(text.split(|octet| *octet == b'\n')) {
            let part = String::from_utf8_lossy(part);
            let part = part.trim_end();
            let start = *first.get_or_insert(number);
            if let Some(part) = part.strip_suffix('\\') {
                line.push_str(part);
                continue;
            }
            line.push_str(part);
            self.line(&line, &file, start);
            line.clear();
            first = None;
        }
        if let Some(start) = first {
            self.line(&line, &file, start);
        }
    }

    fn line(&mut self, line: &str, file: &Arc<Path>, number: usize) {
        let text = without_comment(line);
        let setting = text.trim();
        if setting.is_empty() {
            return;
        }
        let indent = text
            .chars()
            .take_while(|letter| letter.is_whitespace())
            .count();
        let position = Position {
            file: Arc::clone(file),
            line: number,
            column: indent + 1,
        };
        // A setting without a value is a switch that is on.
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (key, append) = match key.strip_suffix('+') {
            Some(key) => (key, true),
            None => (key, false),
        };
        self.set(key.trim(), value.trim().to_owned(), append, Some(position));
    }

    fn set(&mut self, key: &str, value: String, append: bool, position: Option<Position>) {
        match self.catalogue.disposition(key) {
            None if self.ignores(key) => {}
            None if self.problems.len() >= MAX_PROBLEMS => return,
            None => {
                let nearest = self.catalogue.nearest(key);
                let hint = nearest.map(|known| format!(", did you mean `{known}`?"));
                let hint = hint.unwrap_or_default();
                self.problem(position, format!("unknown setting `{key}`{hint}"));
                return;
            }
            Some(_) => {}
        }
        let default = || self.catalogue.default_of(key);
        match self.settings.get_mut(key) {
            Some(setting) if append && !setting.value.is_empty() => {
                setting.value = format!("{}, {value}", setting.value);
            }
            None if append => match default() {
                Some(default) => {
                    let value = match default {
                        "" => value,
                        default => format!("{default}, {value}"),
                    };
                    let setting = Setting { value, position };
                    self.settings.insert(key.to_owned(), setting);
                }
                None => {
                    let message = format!("`{key}+=` adds to a setting that is not set");
                    self.problem(position, message);
                }
            },
            _ => {
                self.settings
                    .insert(key.to_owned(), Setting { value, position });
            }
        }
    }

    /// Whether to ignore an unknown setting.
    fn ignores(&self, key: &str) -> bool {
        let ignored = self.settings.get("ignore-unknown-settings");
        ignored.is_some_and(|setting| items(&setting.value).any(|item| item == key))
    }

    /// Reads every `*.conf` of a directory; pdns takes them in the order of their names.
    fn directory(&mut self, setting: &Setting, files: &mut dyn Files) {
        let directory = Path::new(&setting.value);
        if setting.value.is_empty() {
            return;
        }
        match files.list(directory) {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                    if name.ends_with(b".conf") && !name.starts_with(b".") {
                        self.file(&path, files);
                    }
                }
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", directory.display());
                self.problem(setting.position.clone(), message);
            }
        }
    }
}

/// The setting on the command line. If two have one name, the last counts.
fn from_arguments(arguments: &[(String, String)], wanted: &str) -> Option<Setting> {
    let (_, value) = arguments.iter().rfind(|(key, _)| key == wanted)?;
    Some(Setting {
        value: value.clone(),
        position: None,
    })
}

/// The line up to a `#` that begins it or follows a blank.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        if letter == '#' && before.is_whitespace() {
            return line.split_at_checked(at).map_or(line, |(text, _)| text);
        }
        before = letter;
    }
    line
}

#[cfg(test)]
mod tests;
