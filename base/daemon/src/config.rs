//! Configuration files: reading them from disk, and the part that every daemon has.
//!
//! The crate `config` has every key; a service's own `config.rs` says what the values come to.

mod common;

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::disk;

pub use ::config::{
    AdminListen, ByteSize, Document, HumanDuration, Log as LogSpec, Position, Problem, Problems,
    UnitError, nearest,
};
pub use common::{AdminSpec, Common};

/// Logs the keys that a reload has changed and only a restart takes up.
pub fn warn_of_restart<T: Serialize + JsonSchema>(started_with: &T, read: &T) {
    let keys = ::config::restart_needed(started_with, read);
    if !keys.is_empty() {
        let keys = keys.join(" ");
        tracing::warn!(keys, "These keys change with the next restart");
    }
}

/// Reads a file.
///
/// # Errors
///
/// When it cannot be read, is not UTF-8 or is larger than 16 MiB.
pub fn read(path: impl AsRef<Path>) -> Result<Document, Problems> {
    let path = path.as_ref();
    let text = disk::read(path).and_then(|octets| {
        let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not valid UTF-8");
        String::from_utf8(octets).map_err(not_text)
    });
    let text = text.map_err(|error| {
        Problem::new(format!(
            "cannot read configuration file {}: {error}",
            path.display()
        ))
    })?;
    Ok(Document::inline(path, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = read("/nonexistent/site.toml").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("cannot read configuration file /nonexistent/site.toml: No such file"),
            "{text}"
        );
        // A stream without an end is read no further than a file may be long.
        let error = read("/dev/zero").unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
        assert!(read("/").is_err());
    }
}
