//! A peer's file as a configuration of ours, with notes about the rest.

use std::collections::BTreeMap;
use std::fmt;

use config_text::{Position, Problem};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Problems, Written};

/// The weight of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The configuration lets in, answers or trusts more than the peer's did.
    Security,
    /// The service behaves differently.
    Behaviour,
    /// Only names, logs or figures differ.
    Cosmetic,
}

impl Class {
    /// The class of a setting that is lost: `security` has whole names, `cosmetic` has parts of names.
    #[must_use]
    pub fn of_setting(name: &str, security: &[&str], cosmetic: &[&str]) -> Self {
        if security.contains(&name) {
            Self::Security
        } else if cosmetic.iter().any(|part| name.contains(part)) {
            Self::Cosmetic
        } else {
            Self::Behaviour
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Security => "security",
            Self::Behaviour => "behaviour",
            Self::Cosmetic => "cosmetic",
        })
    }
}

/// The disposition of a directive of a peer's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Nothing of it is in the configuration.
    Lost,
    /// It is in the configuration, and is not quite the same.
    Differs,
    /// It is understood, but odd; the note is the reason alone.
    Odd,
}

/// A directive of a peer's file that is not in the configuration as it stood there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The place of the directive; none when it stood on a command line, or is a default.
    pub position: Option<Position>,
    /// The directive, as in the file.
    pub what: String,
    /// The disposition of the directive.
    pub disposition: Disposition,
    /// The reason, or the difference.
    pub reason: String,
    /// The weight.
    pub class: Class,
}

impl Note {
    /// The note as a comment of the configuration, without `#`.
    fn comment(&self) -> String {
        let place = match &self.position {
            Some(position) => format!("{position}: "),
            None => String::new(),
        };
        let (mark, what, reason) = (self.mark(), &self.what, &self.reason);
        one_line(&match self.disposition {
            Disposition::Lost => format!("not carried: {place}{mark}{what}: {reason}"),
            Disposition::Differs => format!("differs: {place}{mark}{what}: {reason}"),
            Disposition::Odd => format!("odd: {place}{mark}{reason}"),
        })
    }

    /// The note as a problem, for logs: class, directive and reason, with the place.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (mark, what, reason) = (self.mark(), &self.what, &self.reason);
        let words = match self.disposition {
            Disposition::Lost => format!("{mark}`{what}` is not carried over: {reason}"),
            Disposition::Differs => format!("{mark}`{what}` differs: {reason}"),
            Disposition::Odd => format!("{mark}{reason}"),
        };
        Problem {
            position: self.position.clone(),
            message: one_line(&words),
        }
    }

    /// The class, unless it is the ordinary one.
    fn mark(&self) -> String {
        match self.class {
            Class::Behaviour => String::new(),
            class => format!("{class}: "),
        }
    }
}

/// As an editor or a log shows it: place, class, directive, reason.
impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(formatter)
    }
}

/// Control characters would end a comment or a line of the terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Notes as they come in, each directive of a place once.
#[derive(Debug, Default)]
pub struct Notes(BTreeMap<(Option<Position>, String), Note>);

impl Notes {
    /// Nothing of the directive is in the configuration.
    pub fn lost<'a>(
        &mut self,
        class: Class,
        at: impl Into<Option<&'a Position>>,
        what: &str,
        reason: impl fmt::Display,
    ) {
        self.add(class, at.into(), what, reason, Disposition::Lost);
    }

    /// The directive is in the configuration, and is not quite the same.
    pub fn differs<'a>(
        &mut self,
        class: Class,
        at: impl Into<Option<&'a Position>>,
        what: &str,
        how: impl fmt::Display,
    ) {
        self.add(class, at.into(), what, how, Disposition::Differs);
    }

    /// Something is understood, but odd.
    pub fn odd<'a>(&mut self, class: Class, at: impl Into<Option<&'a Position>>, message: &str) {
        self.add(class, at.into(), message, message, Disposition::Odd);
    }

    fn add(
        &mut self,
        class: Class,
        at: Option<&Position>,
        what: &str,
        reason: impl fmt::Display,
        disposition: Disposition,
    ) {
        let note = || Note {
            position: at.cloned(),
            what: what.to_owned(),
            disposition,
            reason: reason.to_string(),
            class,
        };
        self.0
            .entry((at.cloned(), what.to_owned()))
            .or_insert_with(note);
    }

    /// The notes in the order of the file.
    #[must_use]
    pub fn into_notes(self) -> Vec<Note> {
        self.0.into_values().collect()
    }
}

/// A peer's file as a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft<T> {
    /// The configuration.
    pub config: T,
    /// The rest of the peer's file.
    pub notes: Vec<Note>,
}

impl<T: Serialize + JsonSchema> Draft<T> {
    /// The configuration as a file that begins with `head` and a comment for each note.
    ///
    /// # Errors
    /// When a value has no form in TOML.
    pub fn written(&self, head: &str) -> Result<Written, toml_edit::ser::Error> {
        let comments = self.notes.iter().map(Note::comment);
        let written = Written::new(&self.config)?.head(head);
        Ok(comments.fold(written, |written, comment| written.head(&comment)))
    }
}

/// A peer's file that cannot be imported: the problems, and the notes that were made all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The problems.
    pub problems: Problems,
    /// The notes.
    pub notes: Vec<Note>,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(formatter, "{note}")?;
        }
        self.problems.fmt(formatter)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Numbers {
        number: u32,
    }

    #[test]
    fn a_note_is_made_once_and_stays_a_comment() {
        let at = Position {
            file: std::path::Path::new("x.cfg").into(),
            line: 3,
            column: 5,
        };
        let mut notes = Notes::default();
        notes.lost(Class::Security, &at, "a\nb = 1", "why");
        notes.lost(Class::Security, &at, "a\nb = 1", "why");
        let draft = Draft {
            config: Numbers { number: 1 },
            notes: notes.into_notes(),
        };
        let written = draft.written("From x.cfg.").unwrap().to_string();
        assert_eq!(
            written,
            "# From x.cfg.\n# not carried: x.cfg:3:5: security: a b = 1: why\nversion = \"v1\"\nnumber = 1\n"
        );
        assert_eq!(
            draft.notes[0].to_string(),
            "x.cfg:3:5: security: `a b = 1` is not carried over: why"
        );
    }
}
