//! The template of a configuration: every key with its default.

use serde_json::Value;

use crate::schema::{Holds, Key, Table};

/// The width of a line.
const WIDTH: usize = 104;

/// The width of the names of keys in a list.
const NAMES: usize = 14;

pub(crate) fn template(service: &str, schema: &Value) -> String {
    let mut text = String::new();
    let head = format!(
        "Configuration of {service}: every key with its default. {service} refuses unknown keys. `{service} check \
         --config FILE` lists the mistakes in a file; on SIGHUP {service} reads it again. Lines that begin with #~ are \
         examples. Written by `make generate` from base/config."
    );
    comment(&mut text, &head);
    text.push('\n');
    comment(
        &mut text,
        "The version of this file's format. The only required key.",
    );
    text.push_str("version = \"v1\"\n");
    table(&mut text, "", Table::root(schema), true);
    text
}

fn table(text: &mut String, way: &str, of: Table<'_>, spaced: bool) {
    let keys = of.keys();
    for key in keys
        .iter()
        .filter(|key| matches!(key.holds(), Holds::Value))
    {
        if spaced {
            text.push('\n');
        }
        value(text, key);
    }
    for key in &keys {
        let way = match way {
            "" => key.name.to_owned(),
            way => format!("{way}.{}", key.name),
        };
        match key.holds() {
            Holds::Value => {}
            Holds::Table(inner) if key.default().is_some() => {
                text.push('\n');
                documentation(text, key);
                text.push_str(&format!("[{way}]\n"));
                table(text, &way, inner, false);
            }
            Holds::Table(inner) => {
                text.push('\n');
                documentation(text, key);
                listed(text, key, &format!("[{way}]"), inner);
            }
            Holds::Tables(inner) => {
                text.push('\n');
                documentation(text, key);
                listed(text, key, &format!("[[{way}]]"), inner);
            }
            Holds::Named(inner) => {
                text.push('\n');
                documentation(text, key);
                listed(text, key, &format!("[{way}.NAME]"), inner);
            }
        }
    }
}

fn value(text: &mut String, key: &Key<'_>) {
    documentation(text, key);
    let choices = key.choices();
    if choices.iter().any(|(_, meaning)| !meaning.is_empty()) {
        for (word, meaning) in &choices {
            item(text, word, &plain(meaning));
        }
    }
    match (key.default(), key.example()) {
        (Some(default), _) => text.push_str(&format!("{} = {default}\n", key.name)),
        (None, Some(example)) => text.push_str(&format!("#~ {} = {example}\n", key.name)),
        (None, None) => text.push_str(&format!(
            "#   {}: {}; none by default\n",
            key.name,
            plain(&key.kind())
        )),
    }
}

/// A table that is absent by default: its keys in a list, and an example.
fn listed(text: &mut String, key: &Key<'_>, heading: &str, inner: Table<'_>) {
    text.push_str(&format!("#\n# {heading} has:\n"));
    keys(text, inner, "");
    for line in key.example().unwrap_or_default().trim().lines() {
        let line = match line {
            "" => "#~\n".to_owned(),
            line => format!("#~ {line}\n"),
        };
        text.push_str(&line);
    }
}

fn keys(text: &mut String, of: Table<'_>, way: &str) {
    for key in of.keys() {
        let name = format!("{way}{}", key.name);
        let default = match key.default() {
            Some(default) => format!(" Default: {}.", plain(&default)),
            None => String::new(),
        };
        let required = match key.is_required() {
            true => " Required.",
            false => "",
        };
        let choices: Vec<String> = key.choices().into_iter().map(|(word, _)| word).collect();
        let choices = match choices.is_empty() {
            true => String::new(),
            false => format!(" One of {}.", choices.join(", ")),
        };
        let words = plain(&key.paragraphs().join(" "));
        item(text, &name, &format!("{words}{choices}{default}{required}"));
        match key.holds() {
            Holds::Value => {}
            Holds::Table(inner) | Holds::Tables(inner) => keys(text, inner, &format!("{name}.")),
            Holds::Named(inner) => keys(text, inner, &format!("{name}.NAME.")),
        }
    }
}

/// An item of a list: its name, and words beside it.
pub(crate) fn item(text: &mut String, name: &str, words: &str) {
    let lines = wrap(words, WIDTH - NAMES - 6);
    let mut lines = lines.iter();
    let first = lines.next().map_or("", String::as_str);
    let line = format!("#   {name:<NAMES$}  {first}");
    text.push_str(&format!("{}\n", line.trim_end()));
    for line in lines {
        text.push_str(&format!("#   {:NAMES$}  {line}\n", ""));
    }
}

pub(crate) fn documentation(text: &mut String, key: &Key<'_>) {
    comment(text, &plain(&key.paragraphs().join(" ")));
}

pub(crate) fn comment(text: &mut String, words: &str) {
    for line in wrap(words, WIDTH - 2) {
        text.push_str(&format!("# {line}\n"));
    }
}

/// Without the marks of Markdown: in a file, quotes are TOML's.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// Lines of words, none longer than `width` unless one word is.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
