//! The daemon's program: everything is in the library.

use std::process::ExitCode;

use clusterd::verbs::Command;
use daemon::args;

fn main() -> ExitCode {
    match args::parse::<Command>(std::env::args_os()) {
        Ok(command) => command.run(),
        Err(code) => code,
    }
}
