//! recursor.yml, the settings of pdns 5 in YAML: the same settings in sections, and some of their own.
//!
//! ```text
//! recursor.yml ─► tree ─► settings by section and name ─┬─► settings of a recursor.conf ─► its reader
//! include_dir  ─►                                       └─► structured ones: zones, trust anchors, response policies
//! ```
//!
//! The files of `recursor.include_dir` come after it, in the order of their names: a value of theirs wins, and a list of theirs is added.

pub(super) mod names;
mod structured;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config_text::{Files, MAX_PROBLEMS, Position, Problem, nearest};
use pdns_settings::{Setting, Settings};

use crate::keys::CATALOGUE;
use names::Known;
pub(super) use structured::{Structured, YamlForward};
use yaml_tree::{Bounds, Content, Entry, Yaml};

/// The bounds of a file: ten thousand zones with an address each.
const BOUNDS: Bounds = Bounds {
    max_values: 100_000,
    max_depth: 16,
};

fn parse(path: &Path, text: &[u8]) -> Result<Yaml, Problem> {
    yaml_tree::parse(&path.into(), &String::from_utf8_lossy(text), BOUNDS)
}

/// Whether a file has the settings as YAML: it says so by its name, or has no line of a recursor.conf before the first section.
pub(super) fn is_yaml(path: &Path, text: &[u8]) -> bool {
    if ends_with_yml(path) {
        return true;
    }
    let lines = text.split(|octet| *octet == b'\n');
    let mut lines = lines.map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first.is_some_and(|line| {
        let section = line.strip_suffix(b":");
        let section = section.and_then(|name| std::str::from_utf8(name).ok());
        line == b"---" || section.is_some_and(names::has_section)
    })
}

/// Whether pdns reads a file as YAML because of its name.
pub(super) fn ends_with_yml(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b".yml")
}

/// Reads a recursor.yml and the files of its `include_dir`, and then `arguments`.
pub(super) fn read(
    path: &Path,
    files: &mut dyn Files,
    arguments: &[(String, String)],
) -> (Settings, Structured) {
    let mut sections = Sections::default();
    sections.file(path, None, files);
    if let Some((directory, position)) = sections.include_dir() {
        sections.directory(&directory, &position, files);
    }
    let Sections {
        values,
        problems,
        files: read,
    } = sections;
    let (mut settings, mut structured) = (Vec::new(), Structured::default());
    let mut slips = Vec::new();
    for ((section, name), value) in values {
        let Some(known) = names::find(section, name) else {
            continue;
        };
        if structured.take(&known, &value, files, &mut slips) {
            continue;
        }
        let Some(old) = known.old_name() else {
            continue;
        };
        match text(&value) {
            Some(Some(text)) => settings.push((
                old,
                Setting {
                    value: text,
                    position: Some(value.position),
                },
            )),
            Some(None) => {}
            None => slips.push(Problem::at(
                value.position,
                format!("`{}` is a value or a list of values", known.full_name()),
            )),
        }
    }
    let mut settings = Settings::of(&CATALOGUE, read, settings, arguments);
    for problem in problems.into_iter().chain(slips) {
        settings.problem(problem.position, problem.message);
    }
    (settings, structured)
}

/// The names in a recursor.yml of all settings that a message names by those of a recursor.conf.
pub(super) fn renamed(message: &str) -> String {
    let mut parts = message.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        text.push('`');
        // Every second part stands between two marks.
        match index % 2 {
            0 => {
                let (key, rest) = part.split_at(part.find('=').unwrap_or(part.len()));
                text.push_str(&full_name(key).unwrap_or_else(|| key.to_owned()));
                text.push_str(rest);
            }
            _ => text.push_str(part),
        }
    }
    text
}

/// The name in a recursor.yml of a setting of a recursor.conf.
pub(super) fn full_name(old: &str) -> Option<String> {
    let known = names::all().find(|known| known.old_name().as_deref() == Some(old));
    known.map(|known| known.full_name())
}

/// The name in a recursor.conf of a setting with its section.
pub(super) fn old_name(full: &str) -> Option<String> {
    let (section, name) = full.split_once('.')?;
    names::find(section, name)?.old_name()
}

/// The settings by section and name.
#[derive(Default)]
struct Sections {
    values: BTreeMap<(&'static str, &'static str), Yaml>,
    problems: Vec<Problem>,
    files: Vec<PathBuf>,
}

impl Sections {
    fn problem(&mut self, position: Option<Position>, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { position, message });
        }
    }

    fn file(&mut self, path: &Path, from: Option<&Position>, files: &mut dyn Files) {
        self.files.push(path.to_owned());
        let text = match files.read(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                self.problem(from.cloned(), message);
                return;
            }
        };
        match parse(path, &text) {
            Ok(tree) => self.sections(tree),
            Err(problem) => self.problem(problem.position, problem.message),
        }
    }

    fn sections(&mut self, tree: Yaml) {
        let sections = match tree.content {
            Content::Nothing => return,
            Content::Table(sections) => sections,
            Content::Text(_) | Content::List(_) => {
                let message = "the file has sections such as `incoming:`".to_owned();
                self.problem(Some(tree.position), message);
                return;
            }
        };
        for section in sections {
            if !names::has_section(&section.name) {
                let known = names::all().map(|known| known.section);
                let hint = hint(nearest(&section.name, known));
                let message = format!("unknown section `{}`{hint}", section.name);
                self.problem(Some(section.position), message);
                continue;
            }
            match section.value.content {
                Content::Nothing => {}
                Content::Table(entries) => {
                    for entry in entries {
                        self.setting(&section.name, entry);
                    }
                }
                Content::Text(_) | Content::List(_) => {
                    let message = format!("`{}` is a section with settings", section.name);
                    self.problem(Some(section.position), message);
                }
            }
        }
    }

    fn setting(&mut self, section: &str, entry: Entry) {
        let Some(Known { section, name, .. }) = names::find(section, &entry.name) else {
            let known = names::all().filter(|known| known.section == section);
            let hint = hint(nearest(&entry.name, known.map(|known| known.name)));
            let message = format!("unknown setting `{section}.{}`{hint}", entry.name);
            self.problem(Some(entry.position), message);
            return;
        };
        let mut value = entry.value;
        value.position = entry.position;
        match (self.values.get_mut(&(section, name)), value) {
            (
                Some(Yaml {
                    content: Content::List(before),
                    ..
                }),
                Yaml {
                    content: Content::List(more),
                    ..
                },
            ) => before.extend(more),
            (_, value) => {
                self.values.insert((section, name), value);
            }
        }
    }

    fn include_dir(&self) -> Option<(PathBuf, Position)> {
        let value = self.values.get(&("recursor", "include_dir"))?;
        match &value.content {
            Content::Text(text) if !text.is_empty() => Some((text.into(), value.position.clone())),
            _ => None,
        }
    }

    /// Reads every `*.yml` of a directory.
    fn directory(&mut self, directory: &Path, from: &Position, files: &mut dyn Files) {
        match files.list(directory) {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                    if ends_with_yml(&path) && !name.starts_with(b".") {
                        self.file(&path, Some(from), files);
                    }
                }
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", directory.display());
                self.problem(Some(from.clone()), message);
            }
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    let hint = nearest.map(|known| format!(", did you mean `{known}`?"));
    hint.unwrap_or_default()
}

/// A value or a list of values as a recursor.conf has them; none inside for a key without a value. None for anything else.
fn text(value: &Yaml) -> Option<Option<String>> {
    match &value.content {
        Content::Nothing => Some(None),
        Content::Text(text) => Some(Some(scalar(text).to_owned())),
        Content::List(items) => {
            let items = items.iter().map(|item| match &item.content {
                Content::Text(text) => Some(scalar(text)),
                Content::Nothing | Content::List(_) | Content::Table(_) => None,
            });
            let items: Option<Vec<&str>> = items.collect();
            items.map(|items| Some(items.join(", ")))
        }
        Content::Table(_) => None,
    }
}

/// A scalar as a recursor.conf has it.
fn scalar(text: &str) -> &str {
    match text {
        "true" => "yes",
        "false" => "no",
        text => text,
    }
}

/// The items of a file of YAML that a setting names.
pub(super) fn items(path: &Path, text: &[u8]) -> Result<Vec<(String, Position)>, Problem> {
    let tree = parse(path, text)?;
    let Content::List(items) = tree.content else {
        return Err(Problem::at(tree.position, "the file is a list"));
    };
    let items = items.into_iter().map(|item| match item.content {
        Content::Text(text) => Ok((text, item.position)),
        _ => Err(Problem::at(item.position, "each item is one value")),
    });
    items.collect()
}

/// The zones of a file of YAML.
pub(super) fn zones(path: &Path, text: &[u8]) -> Result<Vec<YamlForward>, Vec<Problem>> {
    let tree = parse(path, text).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let zones = structured::forwards(&tree, None, &mut problems);
    match problems.is_empty() {
        true => Ok(zones),
        false => Err(problems),
    }
}

#[cfg(test)]
mod tests;
