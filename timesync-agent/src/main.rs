//! `timesync-agent`: see `timesync-agent --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    timesync_agent::commands::run(std::env::args_os())
}
