//! From a struct to TOML: the keys that are not at their defaults, with comments.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::Step;
use crate::schema::{properties, resolved, schema};

/// A configuration as the TOML of a file. Values equal to their defaults are left out.
#[derive(Debug, Clone, Default)]
pub struct Written {
    head: String,
    document: DocumentMut,
    tail: String,
    schema: Json,
}

/// The width of documentation in a file.
const WIDTH: usize = 100;

impl Written {
    /// The TOML of a configuration.
    ///
    /// # Errors
    /// When a value has no form in TOML, such as a number above 2^63.
    pub fn new<T: Serialize + JsonSchema>(config: &T) -> Result<Self, toml_edit::ser::Error> {
        let mut document = toml_edit::ser::to_document(config)?;
        expand(document.as_table_mut());
        let root = schema::<T>();
        prune(document.as_table_mut(), &root, &root);
        Ok(Self {
            document,
            schema: root,
            ..Self::default()
        })
    }

    /// Adds the documentation of each key as a comment, where the key occurs first.
    #[must_use]
    pub fn documented(mut self) -> Self {
        let (root, table) = (&self.schema, self.document.as_table_mut());
        document_keys(table, root, root);
        self
    }

    /// Adds a key that the file does not have as a comment: its documentation and its example. It stands at the start of
    /// its table, or at the end of the file if there is no such table.
    #[must_use]
    pub fn example(mut self, way: &[&str]) -> Self {
        let [tables @ .., key] = way else {
            return self;
        };
        let mut node = &self.schema;
        for table in tables {
            let inner = properties(&self.schema, node).and_then(|keys| keys.get(*table));
            node = inner.unwrap_or(&Json::Null);
        }
        let Some(property) = properties(&self.schema, node).and_then(|keys| keys.get(*key)) else {
            return self;
        };
        let Some(example) = property.get("x-example").and_then(Json::as_str) else {
            return self;
        };
        let words = description(property);
        // The example of a list of tables has their headers.
        let (header, lines) = match example.trim() {
            whole if whole.starts_with('[') && whole.contains("]]") => {
                (String::new(), whole.to_owned())
            }
            value => (
                format!("[{}]", tables.join(".")),
                format!("{key} = {value}"),
            ),
        };
        let lines = commented_out(&lines);
        let table = tables
            .iter()
            .try_fold(self.document.as_table_mut(), |table, key| {
                table.get_mut(key)?.as_table_mut()
            });
        match table {
            Some(table) if table.contains_key(key) => {}
            Some(table) if !tables.is_empty() => prepend(table, &format!("{words}{lines}")),
            _ if header.is_empty() => self.tail.push_str(&format!("\n{words}{lines}")),
            _ => {
                let header = commented_out(&header);
                self.tail.push_str(&format!("\n{words}{header}{lines}"));
            }
        }
        self
    }

    /// Adds lines of comment at the start of the file, without the `#`.
    #[must_use]
    pub fn head(mut self, text: &str) -> Self {
        self.head.push_str(&comment(text));
        self
    }

    /// Adds lines of comment before the key, table or item at the end of `way`, if the file has it.
    #[must_use]
    pub fn comment(mut self, way: &[Step<'_>], text: &str) -> Self {
        annotate(self.document.as_table_mut(), way, &comment(text));
        self
    }
}

impl fmt::Display for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.document.to_string();
        let gap = match body.is_empty() || body.starts_with('\n') || !body.starts_with('[') {
            true => "",
            false => "\n",
        };
        let (head, tail) = (&self.head, &self.tail);
        write!(formatter, "{head}version = \"v1\"\n{gap}{body}{tail}")
    }
}

/// The text as comments; control characters would end one.
fn comment(text: &str) -> String {
    let line = |line: &str| match line.replace(char::is_control, " ") {
        empty if empty.is_empty() => "#\n".to_owned(),
        line => format!("# {line}\n"),
    };
    text.lines().map(line).collect()
}

/// TOML as comments that lose their `#` to take effect.
fn commented_out(toml: &str) -> String {
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        line => format!("#{line}\n"),
    };
    toml.lines().map(line).collect()
}

/// The documentation of a key as comments. Quotes in a file are TOML's.
fn description(property: &Json) -> String {
    let words = property.get("description").and_then(Json::as_str);
    let mut lines: Vec<String> = Vec::new();
    for word in words
        .unwrap_or_default()
        .replace('`', "")
        .split_whitespace()
    {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH - 2 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    comment(&lines.join("\n"))
}

//--- Tables

/// Gives tables and lists of tables their headers; serde leaves them inline.
fn expand(table: &mut Table) {
    for (_, item) in table.iter_mut() {
        let expanded = match std::mem::take(item) {
            Item::Value(Value::InlineTable(inline)) => Item::Table(table_of(inline)),
            Item::Value(Value::Array(array))
                if !array.is_empty() && array.iter().all(Value::is_inline_table) =>
            {
                let tables = array.into_iter().filter_map(|value| match value {
                    Value::InlineTable(inline) => Some(table_of(inline)),
                    _ => None,
                });
                Item::ArrayOfTables(tables.collect::<ArrayOfTables>())
            }
            other => other,
        };
        *item = expanded;
    }
}

fn table_of(inline: InlineTable) -> Table {
    let mut table = inline.into_table();
    expand(&mut table);
    table
}

/// Takes out the values that are the defaults.
fn prune(table: &mut Table, root: &Json, node: &Json) {
    let Some(properties) = properties(root, node) else {
        return prune_map(table, root, node);
    };
    let required = resolved(root, node)
        .get("required")
        .and_then(Json::as_array);
    for (key, property) in properties {
        let Some(item) = table.get_mut(key) else {
            continue;
        };
        // A key that the file needs is written, whatever its value.
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
        let default = property.get("default").filter(|_| !is_required);
        let is_default = default.is_some_and(|default| same(item, default));
        match item {
            _ if is_default => {}
            Item::Table(inner) => {
                prune(inner, root, property);
                // Keys of its own come first: an empty header says nothing more.
                inner.set_implicit(
                    inner.iter().all(|(_, item)| item.is_table()) && !inner.is_empty(),
                );
                continue;
            }
            Item::ArrayOfTables(items) => {
                let of_item = resolved(root, property).get("items");
                for item in items.iter_mut() {
                    prune(item, root, of_item.unwrap_or(&Json::Null));
                }
                continue;
            }
            _ => continue,
        }
        table.remove(key);
    }
}

/// The same for a table whose keys are names, each with a table of its own.
fn prune_map(table: &mut Table, root: &Json, node: &Json) {
    let Some(of_value) = resolved(root, node).get("additionalProperties") else {
        return;
    };
    for (_, item) in table.iter_mut() {
        if let Item::Table(inner) = item {
            prune(inner, root, of_value);
        }
    }
}

/// Whether an item says the same as a value of the schema.
fn same(item: &Item, default: &Json) -> bool {
    match (item, default) {
        (Item::Value(value), default) => same_value(value, default),
        (Item::Table(table), Json::Object(object)) => {
            let written = table.iter();
            table.len() == object.values().filter(|value| !value.is_null()).count()
                && written
                    .into_iter()
                    .all(|(key, item)| object.get(key).is_some_and(|value| same(item, value)))
        }
        (Item::ArrayOfTables(tables), Json::Array(items)) => {
            tables.len() == items.len()
                && tables
                    .iter()
                    .zip(items)
                    .all(|(table, item)| same(&Item::Table(table.clone()), item))
        }
        _ => false,
    }
}

fn same_value(value: &Value, default: &Json) -> bool {
    match (value, default) {
        (Value::String(text), Json::String(default)) => text.value() == default,
        (Value::Integer(number), default) => default.as_i64() == Some(*number.value()),
        (Value::Float(number), default) => default.as_f64() == Some(*number.value()),
        (Value::Boolean(flag), default) => default.as_bool() == Some(*flag.value()),
        (Value::Array(items), Json::Array(default)) => {
            items.len() == default.len()
                && items
                    .iter()
                    .zip(default)
                    .all(|(item, default)| same_value(item, default))
        }
        (Value::InlineTable(table), Json::Object(object)) => {
            table.len() == object.len()
                && table.iter().all(|(key, value)| {
                    object
                        .get(key)
                        .is_some_and(|default| same_value(value, default))
                })
        }
        _ => false,
    }
}

//--- Comments

/// Adds the documentation of the keys of a table, and of the tables in it.
fn document_keys(table: &mut Table, root: &Json, node: &Json) {
    let Some(keys) = properties(root, node) else {
        return;
    };
    for (key, property) in keys {
        let words = description(property);
        match table.get_mut(key) {
            None => {}
            Some(Item::Table(inner)) => {
                prefix(inner.decor_mut(), "\n", &words);
                document_keys(inner, root, property);
            }
            Some(Item::ArrayOfTables(items)) => {
                let of_item = resolved(root, property).get("items").unwrap_or(&Json::Null);
                if let Some(first) = items.get_mut(0) {
                    prefix(first.decor_mut(), "\n", &words);
                    document_keys(first, root, of_item);
                }
            }
            Some(_) => {
                if let Some(mut name) = table.key_mut(key) {
                    prefix(name.leaf_decor_mut(), "", &words);
                }
            }
        }
    }
}

/// Puts comments before the first key of a table.
fn prepend(table: &mut Table, text: &str) {
    let first = table.iter().next().map(|(key, _)| key.to_owned());
    if let Some(first) = first
        && let Some(mut name) = table.key_mut(&first)
    {
        let decor = name.leaf_decor_mut();
        let before = decor.prefix().and_then(|raw| raw.as_str());
        let with_text = format!("{text}{}", before.unwrap_or_default());
        decor.set_prefix(with_text);
    }
}

fn annotate(table: &mut Table, way: &[Step<'_>], text: &str) {
    let [Step::Key(key), rest @ ..] = way else {
        return;
    };
    match (table.get_mut(key), rest) {
        (Some(Item::Table(inner)), []) => prefix(inner.decor_mut(), "\n", text),
        (Some(Item::Table(inner)), rest) => annotate(inner, rest, text),
        (Some(Item::ArrayOfTables(items)), [Step::Item(index), rest @ ..]) => {
            if let Some(item) = items.get_mut(*index) {
                match rest {
                    [] => prefix(item.decor_mut(), "\n", text),
                    rest => annotate(item, rest, text),
                }
            }
        }
        (Some(_), []) => {
            if let Some(mut name) = table.key_mut(key) {
                prefix(name.leaf_decor_mut(), "", text);
            }
        }
        _ => {}
    }
}

/// Puts comments before the owner of the decor, after the space that is there: `default` when it was never set.
fn prefix(decor: &mut toml_edit::Decor, default: &str, text: &str) {
    let before = decor.prefix().and_then(|raw| raw.as_str());
    let with_text = format!("{}{text}", before.unwrap_or(default));
    decor.set_prefix(with_text);
}
