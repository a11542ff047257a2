//! A peer's file in the terms of a service of ours, as it grows.
//!
//! A directive that was understood becomes TOML. Any other becomes a comment, `# not carried: …`, and a
//! remark with its place: nothing is dropped silently.

use std::collections::BTreeMap;
use std::fmt;

use crate::toml::line;
use crate::{Position, Problem};

/// A peer's file in the terms of a service of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportReport {
    /// The configuration.
    pub toml: String,
    /// Directives that were not carried over, and odd ones.
    pub remarks: Vec<Problem>,
}

/// The remarks about a file, each once.
#[derive(Debug, Default)]
pub struct Remarks {
    /// The comment and the problem, by place and message.
    said: BTreeMap<(Position, String), (String, Problem)>,
}

impl Remarks {
    /// Something is lost.
    pub fn not_carried(&mut self, at: &Position, what: &str, reason: impl fmt::Display) {
        let comment = format!("# not carried: {at}: {what}: {reason}");
        let message = format!("`{what}` is not carried over: {reason}");
        self.say(at, what, &comment, &message);
    }

    /// Something is carried over, and is not quite the same.
    pub fn differs(&mut self, at: &Position, what: &str, how: impl fmt::Display) {
        let comment = format!("# differs: {at}: {what}: {how}");
        let message = format!("`{what}` differs: {how}");
        self.say(at, what, &comment, &message);
    }

    fn say(&mut self, at: &Position, what: &str, comment: &str, message: &str) {
        let problem = Problem::at(at.clone(), one_line(message));
        let key = (at.clone(), what.to_owned());
        self.said
            .entry(key)
            .or_insert_with(|| (one_line(comment), problem));
    }

    /// Puts the comments before what was understood.
    pub fn finish(self, head: &str, body: &str) -> ImportReport {
        let (comments, remarks): (Vec<_>, Vec<_>) = self.said.into_values().unzip();
        let mut toml = head.to_owned();
        for comment in comments {
            line(&mut toml, format_args!("{comment}"));
        }
        toml.push_str(body);
        ImportReport { toml, remarks }
    }
}

/// Without what would end a comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_made_once_and_stays_a_comment() {
        let at = Position {
            file: std::path::Path::new("x.cfg").into(),
            line: 3,
            column: 5,
        };
        let mut remarks = Remarks::default();
        remarks.not_carried(&at, "a\nb = 1", "why");
        remarks.not_carried(&at, "a\nb = 1", "why");
        let imported = remarks.finish("# head\n", "version = \"v1\"\n");
        assert_eq!(
            imported.toml,
            "# head\n# not carried: x.cfg:3:5: a b = 1: why\nversion = \"v1\"\n"
        );
        assert_eq!(imported.remarks.len(), 1);
    }
}
