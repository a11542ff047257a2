//! A peer's file in this proxy's terms, as it grows: for every reader of such files.
//!
//! What was understood becomes TOML. What was not becomes a comment, `# not carried: …`, and a remark
//! with its place: nothing is dropped silently.

use std::collections::BTreeMap;
use std::fmt;

use crate::toml::line;
use crate::{Position, Problem};

/// A peer's file in this proxy's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration.
    pub toml: String,
    /// What was not carried over, and what is odd.
    pub remarks: Vec<Problem>,
}

/// What is to be said about a file, each thing once.
#[derive(Debug, Default)]
pub struct Remarks {
    /// By place: what is said, the comment, and the problem.
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
    pub fn finish(self, head: &str, body: &str) -> Imported {
        let (comments, remarks): (Vec<_>, Vec<_>) = self.said.into_values().unzip();
        let mut toml = head.to_owned();
        for comment in comments {
            line(&mut toml, format_args!("{comment}"));
        }
        toml.push_str(body);
        Imported { toml, remarks }
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
