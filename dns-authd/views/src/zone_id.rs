//! The identity of a zone.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use dns_wire::{Name, NameError};

use crate::view::{ViewName, ViewNameError};

/// A zone of a server: its name, and the view that it is in. As text it is the name alone, or `NAME..VIEW`, as `PowerDNS` writes
/// the variants of a zone: no name has two dots in a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId {
    /// The name of the zone.
    pub apex: Name,
    /// Its view; a zone without one is for every client, unless a view has a zone of that name.
    pub view: Option<ViewName>,
}

/// A text that is no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneIdError {
    /// The name is wrong.
    #[error("it is no name: {0}")]
    Name(NameError),
    /// The view is wrong.
    #[error(transparent)]
    View(ViewNameError),
}

impl ZoneId {
    /// The directory of what is kept of the zone: views have directories of their own below that of the others.
    #[must_use]
    pub fn directory(&self, home: &Path) -> PathBuf {
        match &self.view {
            Some(view) => home.join(view.as_str()),
            None => home.to_owned(),
        }
    }
}

impl From<Name> for ZoneId {
    fn from(apex: Name) -> Self {
        Self { apex, view: None }
    }
}

impl FromStr for ZoneId {
    type Err = ZoneIdError;

    fn from_str(text: &str) -> Result<Self, ZoneIdError> {
        let error = match Name::parse(text) {
            Ok(apex) => return Ok(apex.into()),
            Err(error) => error,
        };
        let (name, view) = text.rsplit_once("..").ok_or(ZoneIdError::Name(error))?;
        let name = if name.is_empty() { "." } else { name };
        Ok(Self {
            apex: Name::parse(name).map_err(ZoneIdError::Name)?,
            view: Some(view.parse().map_err(ZoneIdError::View)?),
        })
    }
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.view {
            Some(view) if self.apex.n_labels() == 0 => write!(f, "..{view}"),
            // The text of a name ends with a dot.
            Some(view) => write!(f, "{}.{view}", self.apex),
            None => self.apex.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_of_a_view_is_written_with_two_dots() {
        for (text, apex, view, shown) in [
            ("example", "example.", None, "example."),
            ("example.", "example.", None, "example."),
            (
                "a.example..office",
                "a.example.",
                Some("office"),
                "a.example..office",
            ),
            ("a...office", "a.", Some("office"), "a..office"),
            (".", ".", None, "."),
            ("..office", ".", Some("office"), "..office"),
            (
                "0/25.2.0.192.in-addr.arpa..x",
                "0/25.2.0.192.in-addr.arpa.",
                Some("x"),
                "0/25.2.0.192.in-addr.arpa..x",
            ),
            (r"a\..office", r"a\..office.", None, r"a\..office."),
        ] {
            let id: ZoneId = text.parse().unwrap();
            assert_eq!(id.apex, apex.parse().unwrap(), "{text}");
            assert_eq!(id.view.as_ref().map(ViewName::as_str), view, "{text}");
            assert_eq!(id.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<ZoneId>().unwrap(), id, "{text}");
        }
        for text in ["a..", "a..b/c", "a....b", "..", "a..b..c"] {
            assert!(text.parse::<ZoneId>().is_err(), "{text}");
        }
    }

    #[test]
    fn views_keep_their_files_apart() {
        let home = Path::new("/var/lib/dns");
        let of = |text: &str| text.parse::<ZoneId>().unwrap().directory(home);
        assert_eq!(of("example"), home);
        assert_eq!(of("example..office"), home.join("office"));
    }
}
