//! The daemon's program: everything is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use daemon_base::exit;
use healthd::verbs::Command;

fn main() -> ExitCode {
    match Command::try_parse() {
        Ok(command) => command.run(),
        Err(error) => {
            // Help and version come as errors, too; a closed pipe is no reason to fail.
            drop(error.print());
            exit::code(if error.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            })
        }
    }
}
