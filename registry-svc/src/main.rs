//! `registry-svc`: see `registry-svc --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    registry_svc::commands::run(std::env::args().collect())
}
