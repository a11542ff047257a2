//! Opens a database in another process first.
//!
//! A damaged sled database may panic when it is opened or read, and a daemon whose panics end the
//! process cannot catch that. So the same program, called as `PROGRAM index-trial DIRECTORY`, opens
//! it and reads it from end to end; the daemon opens only a database that has passed there. Should
//! the daemon die of its index all the same, its next start finds no mark of an orderly stop and
//! rebuilds the index.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use registry_facts::index::{IndexError, Summary, summary};

use super::sled::SledIndex;

/// The word that asks a program for a trial.
pub const WORD: &str = "index-trial";

/// Runs the trial if the arguments, the program's name left out, ask for one.
#[must_use]
pub fn asked(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    if arguments.next()? != WORD {
        return None;
    }
    let directory = arguments.next()?;
    let result =
        SledIndex::open(Path::new(&directory), MEMORY, LIMIT).and_then(|index| summary(&index));
    Some(match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Opens what an orderly stop left: first by `program`, if there is one, then here.
///
/// # Errors
///
/// Fails when either does, or takes longer than `limit`.
pub fn open(
    program: Option<&Path>,
    directory: &Path,
    memory: u64,
    left: Summary,
    limit: Duration,
) -> Result<SledIndex, IndexError> {
    if let Some(program) = program {
        run(program, directory, limit)?;
    }
    SledIndex::open_as_left(directory, memory, left, limit)
}

fn run(program: &Path, directory: &Path, limit: Duration) -> Result<(), IndexError> {
    let failed = |error: std::io::Error| IndexError::Failed(error.to_string());
    let mut child = Command::new(program)
        .arg(WORD)
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let refused = || IndexError::Failed(format!("its trial ended with {status}"));
            return status.success().then_some(()).ok_or_else(refused);
        }
        if waited >= limit {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(IndexError::Late(limit));
        }
        thread::sleep(LOOK);
        waited += LOOK;
    }
}

/// How long opening and reading a database may take: it is some megabytes.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The cache of the trial's database.
const MEMORY: u64 = 16 << 20;

/// The interval of checks whether the trial has ended.
const LOOK: Duration = Duration::from_millis(2);
