//! YAML as people like to read it: maps in the order in which they were written, and text of several
//! lines as it is.

/// A piece of YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Yaml {
    /// Keys with values, in this order.
    Map(Vec<(&'static str, Self)>),
    /// The same with keys that are not known beforehand.
    Keys(Vec<(String, Self)>),
    /// Values.
    List(Vec<Self>),
    /// Text.
    Text(String),
    /// Written as it is: a number, `true`, permissions.
    Raw(String),
}

impl Yaml {
    /// Text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A whole document with comments before it, a line each.
    pub(super) fn document(&self, comments: &[&str]) -> String {
        let mut out = String::new();
        for comment in comments {
            out.push_str(&format!("# {comment}\n"));
        }
        self.write(&mut out, 0);
        out
    }

    /// Writes it at the start of a line.
    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Self::Map(pairs) => {
                for (key, value) in pairs {
                    pair(out, depth, key, value);
                }
            }
            Self::Keys(pairs) => {
                for (key, value) in pairs {
                    pair(out, depth, key, value);
                }
            }
            Self::List(items) => {
                for item in items {
                    let mut inner = String::new();
                    item.write(&mut inner, depth + 1);
                    // The first line begins with the dash where it would be indented.
                    let rest = inner.trim_start_matches(' ');
                    indent(out, depth);
                    out.push_str("- ");
                    out.push_str(rest);
                }
            }
            Self::Text(_) | Self::Raw(_) => {
                out.push_str(&self.scalar());
                out.push('\n');
            }
        }
    }

    fn scalar(&self) -> String {
        match self {
            Self::Text(text) if is_plain(text) => text.clone(),
            // A string of JSON is one of YAML.
            Self::Text(text) => serde_json::Value::String(text.clone()).to_string(),
            Self::Raw(text) => text.clone(),
            Self::Map(_) | Self::Keys(_) => "{}".to_owned(),
            Self::List(_) => "[]".to_owned(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Map(pairs) => pairs.is_empty(),
            Self::Keys(pairs) => pairs.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Text(_) | Self::Raw(_) => true,
        }
    }
}

impl From<serde_json::Value> for Yaml {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Object(map) => Self::Keys(
                map.into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
            serde_json::Value::Array(items) => {
                Self::List(items.into_iter().map(Self::from).collect())
            }
            serde_json::Value::String(text) => Self::Text(text),
            other => Self::Raw(other.to_string()),
        }
    }
}

fn pair(out: &mut String, depth: usize, key: &str, value: &Yaml) {
    indent(out, depth);
    out.push_str(&Yaml::text(key).scalar());
    out.push(':');
    match value {
        Yaml::Text(text) if is_block(text) => block(out, depth + 1, text),
        value if value.is_empty() => {
            out.push_str(&format!(" {}\n", value.scalar()));
        }
        value => {
            out.push('\n');
            value.write(out, depth + 1);
        }
    }
}

/// Lines as they are.
fn block(out: &mut String, depth: usize, text: &str) {
    out.push_str(" |\n");
    for line in text.lines() {
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// Whether text means itself without quotes, in YAML 1.1 as well: no number, no boolean, no sign.
fn is_plain(text: &str) -> bool {
    const MEANING: [&str; 12] = [
        "true", "false", "yes", "no", "on", "off", "null", "y", "n", "True", "False", "Null",
    ];
    let mut characters = text.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '/')
        && characters.all(|character| {
            character.is_ascii_alphanumeric() || matches!(character, '/' | '.' | '-' | '_')
        })
        && !MEANING.contains(&text)
}

/// Whether text can be written as a block: whole lines, the first of which is not indented, and
/// nothing in them that YAML would not give back.
fn is_block(text: &str) -> bool {
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n', '\t'])
        && text
            .chars()
            .all(|character| matches!(character, '\n' | '\t' | ' '..='~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_meant() {
        let text = |text: &str| Yaml::text(text);
        let yaml = Yaml::Map(vec![
            ("plain", text("a/b.c")),
            ("no", text("no")),
            ("number", text("12")),
            ("colon", text("a: b # c")),
            ("odd", text("a\u{1}\u{2028}\"\\")),
            ("none", text("")),
            ("lines", text("[Unit]\n\n  indented: # yes\n\ttab\n")),
            ("blank-end", text("one\n\n")),
            ("blank-start", text("  one\n")),
            ("octal", Yaml::Raw("420".to_owned())),
            ("empty", Yaml::List(Vec::new())),
            (
                "list",
                Yaml::List(vec![
                    Yaml::Map(vec![
                        ("a", text("1")),
                        ("b", Yaml::List(vec![text("x"), text("y")])),
                    ]),
                    Yaml::Map(vec![("a", text("line\n"))]),
                ]),
            ),
        ]);
        let read: serde_json::Value =
            serde_saphyr::from_str(&yaml.document(&["What it is."])).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "plain": "a/b.c",
                "no": "no",
                "number": "12",
                "colon": "a: b # c",
                "odd": "a\u{1}\u{2028}\"\\",
                "none": "",
                "lines": "[Unit]\n\n  indented: # yes\n\ttab\n",
                "blank-end": "one\n\n",
                "blank-start": "  one\n",
                "octal": 420,
                "empty": [],
                "list": [{ "a": "1", "b": ["x", "y"] }, { "a": "line\n" }],
            })
        );
    }
}
