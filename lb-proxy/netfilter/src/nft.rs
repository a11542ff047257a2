//! The `nft` command.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::ruleset::TableName;

/// The command's path when `PATH` does not lead to it.
const PLACES: [&str; 2] = ["/usr/sbin/nft", "/sbin/nft"];

/// The part of the command's complaints that is kept.
const MAX_COMPLAINT: usize = 512;

/// Why rules could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The command is not installed.
    #[error("the kernel path needs the nft command (package nftables), which is not installed")]
    NoCommand,
    /// The command may not change rules.
    #[error(
        "nft is not permitted to change rules, it needs CAP_NET_ADMIN (ambient, if not root): {said}"
    )]
    NotPermitted {
        /// Its output.
        said: String,
    },
    /// The command or the kernel refused the rules.
    #[error("nft refused the rules: {said}")]
    Refused {
        /// Its output.
        said: String,
    },
    /// The command could not be run.
    #[error("cannot run nft")]
    Run(#[source] io::Error),
    /// Its answer makes no sense.
    #[error("cannot read what nft answered")]
    Answer(#[source] serde_json::Error),
    /// There was no thread to be had.
    #[error("cannot start the thread of the kernel path")]
    Thread(#[source] io::Error),
}

/// The command.
#[derive(Debug, Clone)]
pub(super) struct Nft {
    program: PathBuf,
}

impl Nft {
    /// The command at `place`, or wherever it is installed.
    pub(super) fn find(place: Option<&Path>) -> Result<Self, PathError> {
        let on_path = || {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path)
                .map(|directory| directory.join("nft"))
                .find(|program| program.is_file())
        };
        let in_places = || {
            PLACES
                .iter()
                .map(PathBuf::from)
                .find(|program| program.is_file())
        };
        let program = match place {
            Some(place) => Some(place.to_owned()).filter(|program| program.is_file()),
            None => on_path().or_else(in_places),
        };
        program
            .map(|program| Self { program })
            .ok_or(PathError::NoCommand)
    }

    /// Makes the changes of `text`, all or none.
    pub(super) fn apply(&self, text: &str) -> Result<(), PathError> {
        self.run(&["-f", "-"], text).map(drop)
    }

    /// Finds out whether [`Nft::apply`] would succeed.
    pub(super) fn check(&self, text: &str) -> Result<(), PathError> {
        self.run(&["-c", "-f", "-"], text).map(drop)
    }

    /// How many packets each counter of the table has counted.
    pub(super) fn counters(&self, table: &TableName) -> Result<BTreeMap<String, u64>, PathError> {
        let arguments = [
            "-j",
            "list",
            "counters",
            "table",
            "inet",
            &table.to_string(),
        ];
        read_counters(&self.run(&arguments, "")?)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, PathError> {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(PathError::Run)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that ends early says why on its way out.
            drop(stdin.write_all(input.as_bytes()));
        }
        let output = child.wait_with_output().map_err(PathError::Run)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said: String = String::from_utf8_lossy(&output.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(MAX_COMPLAINT)
            .collect();
        if said.contains("Operation not permitted") {
            return Err(PathError::NotPermitted { said });
        }
        Err(PathError::Refused { said })
    }
}

#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    counter: Option<Counter>,
}

#[derive(Deserialize)]
struct Counter {
    name: String,
    packets: u64,
}

fn read_counters(text: &str) -> Result<BTreeMap<String, u64>, PathError> {
    let listing: Listing = serde_json::from_str(text).map_err(PathError::Answer)?;
    Ok(listing
        .nftables
        .into_iter()
        .filter_map(|item| item.counter)
        .map(|counter| (counter.name, counter.packets))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_among_other_items() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
            {"counter": {"family": "inet", "name": "server/api/a", "table": "outpost_lb",
             "handle": 13, "packets": 7, "bytes": 420}}]}"#;
        let counters = read_counters(text).unwrap();
        assert_eq!(counters, BTreeMap::from([("server/api/a".to_owned(), 7)]));
        assert!(matches!(read_counters("{"), Err(PathError::Answer(_))));
    }

    #[test]
    fn a_command_that_is_not_there_is_missed() {
        let place = Path::new("/nonexistent/nft");
        assert!(matches!(Nft::find(Some(place)), Err(PathError::NoCommand)));
    }
}
