//! A JSON schema as its readers see it: tables, keys, types in words.

use serde_json::{Map, Value};

/// A key of a table.
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    property: &'a Value,
    root: &'a Value,
    is_required: bool,
}

/// The table that a key holds, if it does.
pub(crate) enum Holds<'a> {
    /// A value.
    Value,
    /// A table: `[name]`.
    Table(Table<'a>),
    /// A list of tables: `[[name]]`.
    Tables(Table<'a>),
    /// Tables with names of the user's choice: `[name.NAME]`.
    Named(Table<'a>),
}

/// The keys of a table.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    root: &'a Value,
    node: &'a Value,
}

impl<'a> Table<'a> {
    pub(crate) const fn root(schema: &'a Value) -> Self {
        Self {
            root: schema,
            node: schema,
        }
    }

    pub(crate) fn keys(self) -> Vec<Key<'a>> {
        let required = self.node.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let properties = self.node.get("properties").and_then(Value::as_object);
        let key = |(name, property): (&'a String, &'a Value)| Key {
            name,
            property,
            root: self.root,
            is_required: is_required(name),
        };
        properties
            .into_iter()
            .flat_map(Map::iter)
            .map(key)
            .collect()
    }
}

impl<'a> Key<'a> {
    /// The documentation as paragraphs of one line each.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        let own = self.text("description");
        let text = own.unwrap_or_default();
        let mut paragraphs: Vec<String> = text
            .split("\n\n")
            .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|paragraph| !paragraph.is_empty())
            .collect();
        if self.needs_restart() {
            paragraphs.push("A change needs a restart.".to_owned());
        }
        paragraphs
    }

    pub(crate) fn needs_restart(&self) -> bool {
        self.text("x-reload") == Some("restart")
    }

    /// An example as TOML: a value, or whole tables.
    pub(crate) fn example(&self) -> Option<&'a str> {
        self.text("x-example")
    }

    /// The key that this one stands instead of.
    pub(crate) fn instead_of(&self) -> Option<&'a str> {
        self.text("x-instead-of")
    }

    /// The default as TOML; none where the key is absent by default.
    pub(crate) fn default(&self) -> Option<String> {
        match self.property.get("default") {
            None | Some(Value::Null) => None,
            // The struct needs a value there; the file has none.
            Some(_) if self.is_required => None,
            Some(value) => Some(toml(value)),
        }
    }

    pub(crate) const fn is_required(&self) -> bool {
        self.is_required
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.property.get(name).and_then(Value::as_str)
    }

    pub(crate) fn holds(&self) -> Holds<'a> {
        let node = resolved(self.root, self.property);
        let of = |node| Table {
            root: self.root,
            node,
        };
        if node.get("properties").is_some() {
            return Holds::Table(of(node));
        }
        let inner = |name| node.get(name).map(|inner| resolved(self.root, inner));
        match (inner("items"), inner("additionalProperties")) {
            (Some(items), _) if items.get("properties").is_some() => Holds::Tables(of(items)),
            (_, Some(named)) if named.get("properties").is_some() => Holds::Named(of(named)),
            _ => Holds::Value,
        }
    }

    /// The type in words: `a whole number, at least 1`.
    pub(crate) fn kind(&self) -> String {
        words(self.root, self.property)
    }

    /// The words that the key may be, each with its meaning.
    pub(crate) fn choices(&self) -> Vec<(String, String)> {
        let node = resolved(self.root, self.property);
        let choice = |one: &Value| {
            let word = one.get("const")?.as_str()?.to_owned();
            let meaning = one.get("description").and_then(Value::as_str);
            let meaning = meaning.unwrap_or_default().split_whitespace();
            Some((word, meaning.collect::<Vec<_>>().join(" ")))
        };
        let choices = node.get("oneOf").and_then(Value::as_array);
        choices.into_iter().flatten().filter_map(choice).collect()
    }
}

fn words(root: &Value, node: &Value) -> String {
    let node = resolved(root, node);
    let text = |name: &str| node.get(name).and_then(Value::as_str);
    if let Some(words) = text("x-type") {
        let ends = (text("x-minimum"), text("x-maximum"));
        return match ends {
            (Some(least), Some(most)) => format!("{words}, from {least} to {most}"),
            (Some(least), None) => format!("{words}, at least {least}"),
            _ => words.to_owned(),
        };
    }
    if let Some(choices) = node
        .get("oneOf")
        .or_else(|| node.get("enum"))
        .and_then(Value::as_array)
    {
        let word = |one: &Value| {
            let word = one.get("const").unwrap_or(one);
            word.as_str().map(|word| format!("`\"{word}\"`"))
        };
        return choices
            .iter()
            .filter_map(word)
            .collect::<Vec<_>>()
            .join(", ");
    }
    let kind = match node.get("type") {
        Some(Value::Array(kinds)) => kinds
            .iter()
            .find_map(|kind| kind.as_str().filter(|kind| *kind != "null")),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind.unwrap_or_default() {
        "string" => "a text".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        "number" => fraction(node),
        "integer" => whole(node),
        "array" => {
            let items = node.get("items").map(|items| words(root, items));
            format!("a list: {}", items.unwrap_or_else(|| "values".to_owned()))
        }
        "object" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn fraction(node: &Value) -> String {
    match (node.get("minimum"), node.get("maximum")) {
        (Some(least), Some(most)) => format!("a number from {least} to {most}"),
        _ => "a number".to_owned(),
    }
}

fn whole(node: &Value) -> String {
    let end = |name| node.get(name).and_then(Value::as_i64);
    match (end("minimum"), end("maximum")) {
        (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
        (Some(least), None) if least != 0 => format!("a whole number, at least {least}"),
        _ => "a whole number".to_owned(),
    }
}

/// The schema that a node stands for: its reference followed, `null` of an optional value left out.
fn resolved<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    if let Some(name) = node.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(name.strip_prefix('#').unwrap_or(name));
        return target.map_or(node, |target| resolved(root, target));
    }
    let choices = node.get("anyOf").and_then(Value::as_array);
    let not_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) != Some("null");
    let choice = choices.and_then(|choices| choices.iter().find(not_null));
    choice.map_or(node, |choice| resolved(root, choice))
}

/// A JSON value as TOML on one line.
pub(crate) fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => {
            let pairs = object.iter().filter(|(_, value)| !value.is_null());
            let pairs: Vec<String> = pairs
                .map(|(key, value)| format!("{key} = {}", toml(value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        // TOML's basic strings have JSON's escapes.
        other => other.to_string(),
    }
}
