//! The documents that `/status` and `--json` give.

use serde_json::Value;

/// Objects whose keys are names of something, and not the document's own.
const NAMES: [&str; 2] = [
    // Response codes.
    "/detail/responses",
    // Frontends.
    "/detail/kernel/sessions",
];

/// The keys of a document that are not written as all keys are, in small letters, digits and `_`, each with the
/// way to it.
#[must_use]
pub fn odd_keys(document: &Value) -> Vec<String> {
    let mut odd = Vec::new();
    walk(document, "", &mut odd);
    odd
}

fn walk(value: &Value, way: &str, odd: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let here = format!("{way}/{key}");
                if !NAMES.contains(&way) && !is_snake(key) {
                    odd.push(here.clone());
                }
                walk(field, &here, odd);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, way, odd)),
        _ => {}
    }
}

fn is_snake(key: &str) -> bool {
    let begins_well = key.starts_with(|first: char| first.is_ascii_lowercase());
    let is_plain =
        |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'_';
    begins_well && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_are_written_in_another_way_are_found() {
        let good =
            json!({ "pid": 1, "uptime_seconds": 2, "detail": { "responses": { "NOERROR": 3 } } });
        assert!(odd_keys(&good).is_empty());
        let bad = json!({ "last-check": 1, "zones": [{ "roundTrip": 2 }, { "_x": [] }], "": 0 });
        let mut odd = odd_keys(&bad);
        odd.sort();
        assert_eq!(odd, ["/", "/last-check", "/zones/_x", "/zones/roundTrip"]);
    }
}
