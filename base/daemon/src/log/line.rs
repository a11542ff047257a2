//! One event as one line of text or JSON. Pure.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};
use tracing::Level;
use tracing::field::{Field, Visit};

use crate::calendar::Timestamp;
use crate::exit;

/// An event or a span: its sentence and its fields in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Takes over the fields of a span around the event.
    pub(super) fn adopt(&mut self, outer: &Self) {
        self.fields.extend(outer.fields.iter().cloned());
    }

    fn push(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            return;
        }
        // The innermost value of a name counts.
        self.fields.retain(|(name, _)| *name != field.name());
        self.fields.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.push(field, exit::chain(value).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}").into());
    }
}

/// An event with all that surrounds it.
pub(super) struct Line<'a> {
    pub(super) time: Timestamp,
    pub(super) level: Level,
    pub(super) target: &'a str,
    pub(super) fields: &'a Fields,
}

impl Line<'_> {
    /// `2026-11-21T09:30:05.250Z INFO  Sentence key=value`
    pub(super) fn text(&self) -> String {
        let mut line = format!("{} {:<5} ", self.time, self.level);
        self.write_sentence(&mut line);
        line
    }

    /// `<6>Sentence key=value`, the priority as in syslog (sd-daemon(3)).
    pub(super) fn journal(&self) -> String {
        let mut line = format!("<{}>", priority(self.level));
        self.write_sentence(&mut line);
        line
    }

    /// `{"time":…,"level":"info","target":…,"message":…,"key":value}`
    pub(super) fn json(&self) -> String {
        let mut object = Map::new();
        for (name, value) in &self.fields.fields {
            object.insert((*name).to_owned(), value.clone());
        }
        let level = self.level.to_string().to_ascii_lowercase();
        object.insert("time".to_owned(), self.time.to_string().into());
        object.insert("level".to_owned(), level.into());
        object.insert("target".to_owned(), self.target.into());
        object.insert("message".to_owned(), self.fields.message.clone().into());
        let mut line = Value::Object(object).to_string();
        line.push('\n');
        line
    }

    fn write_sentence(&self, line: &mut String) {
        escape_controls(line, &self.fields.message);
        for (name, value) in &self.fields.fields {
            line.push(' ');
            line.push_str(name);
            line.push('=');
            match value {
                Value::String(text) if is_bare(text) => line.push_str(text),
                Value::String(text) => drop(write!(line, "{text:?}")),
                other => drop(write!(line, "{other}")),
            }
        }
        line.push('\n');
    }
}

/// Syslog's severity (RFC 5424 §6.2.1).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// A value that needs no quotes to be read as one.
fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| {
            !letter.is_whitespace() && !letter.is_control() && letter != '"' && letter != '='
        })
}

/// A sentence is one line, whatever it quotes.
fn escape_controls(line: &mut String, text: &str) {
    for letter in text.chars() {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn fields(message: &str, fields: &[(&'static str, Value)]) -> Fields {
        Fields {
            message: message.to_owned(),
            fields: fields.to_vec(),
        }
    }

    fn line(fields: &Fields, level: Level) -> Line<'_> {
        Line {
            time: Timestamp(UNIX_EPOCH + Duration::from_millis(1500)),
            level,
            target: "healthd::probe",
            fields,
        }
    }

    #[test]
    fn text_is_a_sentence_with_fields() {
        let fields = fields(
            "Backend is down",
            &[
                ("backend", "192.168.7.14:6443".into()),
                ("failures", 3.into()),
                ("error", "connection refused".into()),
            ],
        );
        assert_eq!(
            line(&fields, Level::WARN).text(),
            "1970-01-01T00:00:01.500Z WARN  Backend is down backend=192.168.7.14:6443 \
             failures=3 error=\"connection refused\"\n"
        );
    }

    #[test]
    fn the_journal_gets_a_priority_and_no_time() {
        let fields = fields("Ready", &[]);
        for (level, expected) in [
            (Level::ERROR, "<3>Ready\n"),
            (Level::WARN, "<4>Ready\n"),
            (Level::INFO, "<6>Ready\n"),
            (Level::DEBUG, "<7>Ready\n"),
        ] {
            assert_eq!(line(&fields, level).journal(), expected);
        }
    }

    #[test]
    fn json_is_one_object_and_its_own_keys_win() {
        let fields = fields("Ready", &[("level", "x".into()), ("port", 53.into())]);
        let text = line(&fields, Level::INFO).json();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["level"], "info");
        assert_eq!(object["port"], 53);
        assert_eq!(object["target"], "healthd::probe");
        assert_eq!(object["message"], "Ready");
        assert_eq!(text.matches('\n').count(), 1);
    }

    #[test]
    fn nothing_in_an_event_can_begin_a_new_line() {
        let fields = fields("a\nb", &[("name", "x\n<0>forged".into())]);
        let text = line(&fields, Level::INFO).journal();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.ends_with('\n'));
    }
}
