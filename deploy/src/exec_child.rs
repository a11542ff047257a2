//! `outpost exec-child PARENT PROGRAM…`: becomes a service that cannot outlive `outpost up`.
//!
//! The kernel kills a process when its parent dies if the process itself asked for that, and the
//! wish survives `execve` (prctl(2), `PR_SET_PDEATHSIG`). Asking in a small process of our own
//! between fork and exec needs no unsafe code, and works for a parent that dies by SIGKILL.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use daemon::exit;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::args::ExecChildArgs;

/// Replaces this process by the program.
pub(crate) fn run(args: &ExecChildArgs) -> ExitCode {
    let error = match prepare(args.parent) {
        Ok(()) => {
            let error = Command::new(&args.program).args(&args.arguments).exec();
            anyhow::Error::new(error).context(format!("cannot run {}", args.program.display()))
        }
        Err(error) => error,
    };
    exit::report(error.as_ref());
    exit::code(exit::UNAVAILABLE)
}

fn prepare(parent: u32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to end with the parent process")?;
    // A parent that died before the wish was stated leaves us with another one.
    let is_alive =
        getppid().is_some_and(|found| u32::try_from(found.as_raw_nonzero().get()) == Ok(parent));
    anyhow::ensure!(is_alive, "the parent process {parent} is gone");
    Ok(())
}
