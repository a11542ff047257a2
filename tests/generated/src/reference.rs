//! The reference page of a configuration.

use serde_json::Value;

use crate::schema::{Holds, Key, Table};

/// What reads the file of a service, and when.
pub(crate) fn of_service(service: &str) -> String {
    format!(
        "{service} reads this file at its start and on SIGHUP, and refuses unknown keys. `{service} check --config FILE` \
         lists the\nmistakes of a file, each with line and column. "
    )
}

/// The page of a file; `reader` says what reads it, up to the next sentence.
pub(crate) fn page(name: &str, reader: &str, schema: &Value) -> String {
    let mut text = format!(
        "<!-- Written by `make generate` from base/config; change the documentation there. -->\n\n\
         # {name}.toml\n\n\
         {reader}The first key is `version = \"v1\"`.\n\
         [{name}.schema.json]({name}.schema.json) is the same for editors.\n"
    );
    table(&mut text, "", Table::root(schema));
    text
}

/// The keys of a table, and then its tables.
fn table(text: &mut String, way: &str, of: Table<'_>) {
    let keys = of.keys();
    let (values, tables): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|key| matches!(key.holds(), Holds::Value));
    for key in values {
        value(text, key);
    }
    for key in tables {
        let way = match way {
            "" => key.name.to_owned(),
            way => format!("{way}.{}", key.name),
        };
        let (heading, way, inner) = match key.holds() {
            Holds::Table(inner) => (format!("[{way}]"), way, inner),
            Holds::Tables(inner) => (format!("[[{way}]]"), way, inner),
            Holds::Named(inner) => {
                let way = format!("{way}.NAME");
                (format!("[{way}]"), way, inner)
            }
            Holds::Value => continue,
        };
        text.push_str(&format!("\n## `{heading}`\n"));
        for paragraph in key.paragraphs() {
            text.push_str(&format!("\n{}\n", wrapped(&paragraph)));
        }
        if let Some(example) = key.example() {
            text.push_str(&format!("\n```toml\n{}\n```\n", example.trim()));
        }
        table(text, &way, inner);
    }
}

fn value(text: &mut String, key: &Key<'_>) {
    let rule = match (key.is_required(), key.default()) {
        (true, _) => "; required".to_owned(),
        (false, Some(default)) => format!("; default `{default}`"),
        (false, None) => String::new(),
    };
    text.push_str(&format!(
        "\n### `{}`\n\n{}{rule}.\n",
        key.name,
        capital(&key.kind())
    ));
    for paragraph in key.paragraphs() {
        text.push_str(&format!("\n{}\n", wrapped(&paragraph)));
    }
    let choices = key.choices();
    if choices.iter().any(|(_, meaning)| !meaning.is_empty()) {
        text.push('\n');
        for (word, meaning) in choices {
            text.push_str(&format!("- `\"{word}\"`: {meaning}\n"));
        }
    }
    if let Some(example) = key.example() {
        text.push_str(&format!(
            "\n```toml\n{} = {}\n```\n",
            key.name,
            example.trim()
        ));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Lines of up to 120 columns.
fn wrapped(text: &str) -> String {
    crate::template::wrap(text, 120).join("\n")
}
