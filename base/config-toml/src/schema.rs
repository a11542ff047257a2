//! The JSON schema of a file, and the facts that it tells a running daemon.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// The schema's mark of a key that only a restart takes up.
const RELOAD: &str = "x-reload";

/// The JSON schema (draft 2020-12) of the file that `T` is; keys are in the order of the struct.
#[must_use]
pub fn schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// The keys that differ between two configurations, and that a reload cannot take up: `admin.listen`.
///
/// These fields have `#[schemars(extend("x-reload" = "restart"))]`.
pub fn restart_needed<T: Serialize + JsonSchema>(old: &T, new: &T) -> Vec<String> {
    let root = schema::<T>();
    let mut changed = Vec::new();
    if let (Ok(old), Ok(new)) = (serde_json::to_value(old), serde_json::to_value(new)) {
        Comparison {
            root: &root,
            changed: &mut changed,
        }
        .compare(&root, "", &old, &new);
    }
    changed
}

struct Comparison<'a> {
    root: &'a Value,
    changed: &'a mut Vec<String>,
}

impl Comparison<'_> {
    fn compare(&mut self, node: &Value, way: &str, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        let Some(properties) = properties(self.root, node) else {
            return;
        };
        for (key, property) in properties {
            let (old, new) = (old.get(key), new.get(key));
            let way = match way {
                "" => key.clone(),
                way => format!("{way}.{key}"),
            };
            let null = Value::Null;
            let (old, new) = (old.unwrap_or(&null), new.unwrap_or(&null));
            match property.get(RELOAD).and_then(Value::as_str) {
                Some("restart") if old != new => self.changed.push(way),
                _ => self.compare(property, &way, old, new),
            }
        }
    }
}

/// The schema that a node stands for: its reference followed, `null` of an optional value left out.
pub(crate) fn resolved<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    if let Some(name) = node.get("$ref").and_then(Value::as_str) {
        let pointer = name.strip_prefix('#').unwrap_or(name);
        return match root.pointer(pointer) {
            Some(found) => resolved(root, found),
            None => node,
        };
    }
    let choices = node.get("anyOf").and_then(Value::as_array);
    let not_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) != Some("null");
    match choices.and_then(|choices| choices.iter().find(not_null)) {
        Some(choice) => resolved(root, choice),
        None => node,
    }
}

/// The keys of the table that a node describes.
pub(crate) fn properties<'a>(root: &'a Value, node: &'a Value) -> Option<&'a Map<String, Value>> {
    resolved(root, node).get("properties")?.as_object()
}
