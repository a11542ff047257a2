//! The documents of the site file. Its template is no list of defaults: it is the site that Outpost was made for, with every
//! other key in a comment.

use std::path::Path;

use anyhow::{Context as _, Result};
use config::site::Site;
use config::{Document, Written, schema};
use serde_json::Value;

use crate::reference;
use crate::schema::{Holds, Key, Table, toml};
use crate::template::{comment, documentation};

/// The site of the template.
const EXAMPLE: &str = "tests/data/deploy/seed/site.toml";

const HEAD: [&str; 2] = [
    "site.toml: everything that Outpost has to know about a site.",
    "Every key is here. A key that is commented out shows its default or an example; after #~ it stands instead of another \
     key. outpost check site.toml lists all mistakes with line and column. outpost init makes such a file from a few answers or \
     from OpenShift's install-config.yaml. docs/deploy/site-file.md explains it step by step. This file describes the site from \
     which Outpost was made: three masters, three workers, no virtual IP. Written by make generate from base/config.",
];

const READER: &str = "This file describes a site; `outpost` renders everything else from it. `outpost check FILE` lists the \
                      mistakes of a file, each\nwith line and column; unknown keys are mistakes. \
                      [The site file](../deploy/site-file.md) explains the main parts.\n";

pub(crate) fn write(root: &Path) -> Result<()> {
    let schema = schema::<Site>();
    let reference = root.join("docs/reference");
    let page = reference::page("site", READER, &schema);
    crate::write(&reference.join("site.md"), &page)?;
    crate::write(
        &reference.join("site.schema.json"),
        &format!("{schema:#}\n"),
    )?;
    let path = root.join(EXAMPLE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let example: Site = Document::inline(EXAMPLE, text).parse()?;
    let template = template(&example, &schema)?;
    crate::write(&root.join("deploy/config/site.toml"), &template)
}

fn template(example: &Site, schema: &Value) -> Result<String> {
    let written: Value = ::toml::from_str(&Written::new(example)?.to_string())?;
    let mut text = String::new();
    let [title, head] = HEAD;
    comment(&mut text, title);
    text.push_str("#\n");
    comment(&mut text, head);
    text.push('\n');
    text.push_str("version = \"v1\"\n");
    let items = [Shown::live(Some(&written))];
    table(&mut text, "", None, Table::root(schema), &items)?;
    Ok(text)
}

/// A table of the file, or one in a comment.
#[derive(Clone, Copy)]
struct Shown<'a> {
    table: Option<&'a Value>,
    is_comment: bool,
    /// Whether the file has no such table by default: keys that its example lacks are for another form of it.
    is_optional: bool,
}

impl<'a> Shown<'a> {
    const fn live(table: Option<&'a Value>) -> Self {
        Self {
            table,
            is_comment: false,
            is_optional: false,
        }
    }

    /// A table that the file has, or in a comment as its example has it.
    fn of(key: &Key<'_>, live: Option<&'a Value>, example: &'a Value) -> Self {
        if live.is_some() || key.default().is_some() {
            return Self::live(live);
        }
        Self {
            table: example.get(key.name),
            is_comment: true,
            is_optional: true,
        }
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        self.table.and_then(|table| table.get(key))
    }

    /// Adds a line of TOML.
    fn line(self, text: &mut String, line: &str) {
        if self.is_comment {
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
}

/// The keys of a table with all items that are shown of it, and then its tables. The documentation of a key stands where it
/// occurs first.
fn table(
    text: &mut String,
    way: &str,
    header: Option<&str>,
    of: Table<'_>,
    items: &[Shown<'_>],
) -> Result<()> {
    let keys = of.keys();
    let heading = |name: &str| match way {
        "" => name.to_owned(),
        way => format!("{way}.{name}"),
    };
    let (values, tables): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|key| matches!(key.holds(), Holds::Value));
    for (index, item) in items.iter().enumerate() {
        if let Some(header) = header {
            text.push_str(if index > 0 { "\n" } else { "" });
            item.line(text, header);
        }
        let before = items.get(..index).unwrap_or_default();
        for key in &values {
            if header.is_none() {
                text.push('\n');
            }
            value(text, key, *item, before, items);
        }
    }
    for key in tables {
        let name = heading(key.name);
        text.push('\n');
        documentation(text, key);
        let parent = items.first().copied().unwrap_or(Shown::live(None));
        match key.holds() {
            Holds::Table(inner) => {
                let example: Value = ::toml::from_str(key.example().unwrap_or_default())?;
                let shown = Shown::of(key, parent.get(key.name), &example);
                table(text, &name, Some(&format!("[{name}]")), inner, &[shown])?;
            }
            Holds::Tables(inner) => {
                let example: Value = ::toml::from_str(key.example().unwrap_or_default())?;
                let live = parent.get(key.name).and_then(Value::as_array);
                let live: Vec<&Value> = live.into_iter().flatten().collect();
                let shown = items_of(&live, &name, &example);
                table(text, &name, Some(&format!("[[{name}]]")), inner, &shown)?;
            }
            Holds::Named(_) | Holds::Value => {}
        }
    }
    Ok(())
}

/// The tables of a list: those of the file, and those of the example if they have keys that those of the file lack.
fn items_of<'a>(live: &[&'a Value], name: &str, example: &'a Value) -> Vec<Shown<'a>> {
    let mut item = Some(example);
    for part in name.split('.') {
        item = item.and_then(|item| item.get(part));
    }
    let examples = item.and_then(Value::as_array);
    let examples = examples.into_iter().flatten().map(|table| Shown {
        table: Some(table),
        is_comment: true,
        is_optional: false,
    });
    let is_new = |shown: &Shown<'a>| {
        let has = |key: &str| live.iter().any(|table| table.get(key).is_some());
        let keys = shown.table.and_then(Value::as_object);
        keys.is_some_and(|keys| keys.keys().any(|key| !has(key)))
    };
    let live = live.iter().map(|table| Shown::live(Some(table)));
    live.clone().chain(examples.filter(is_new)).collect()
}

/// A key of one item; `before` are the items that were shown already, `all` those that will be.
fn value(
    text: &mut String,
    key: &Key<'_>,
    item: Shown<'_>,
    before: &[Shown<'_>],
    all: &[Shown<'_>],
) {
    let is_first = !before.iter().any(|item| item.get(key.name).is_some());
    if let Some(found) = item.get(key.name) {
        if is_first {
            documented(text, key);
        }
        item.line(text, &format!("{} = {}", key.name, toml(found)));
        return;
    }
    // No item has it: the first shows its default or example.
    if !before.is_empty() || all.iter().any(|item| item.get(key.name).is_some()) {
        return;
    }
    let default = key.default().filter(|default| default != "[]");
    let Some(shown) = default.or_else(|| key.example().map(str::to_owned)) else {
        return;
    };
    documented(text, key);
    let mark = match key.instead_of().is_some() || item.is_optional {
        true => "#~ ",
        false => "#",
    };
    text.push_str(&format!("{mark}{} = {shown}\n", key.name));
}

/// The documentation of a key, and the words that it may be.
fn documented(text: &mut String, key: &Key<'_>) {
    documentation(text, key);
    let choices = key.choices();
    if choices.iter().any(|(_, meaning)| !meaning.is_empty()) {
        for (word, meaning) in &choices {
            crate::template::item(text, &format!("\"{word}\""), meaning);
        }
    }
}
