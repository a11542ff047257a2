//! `registry-svc`: see `registry-svc --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A trial of the index is no verb: it is this program in a process that may die of it.
    if let Some(code) = registry_store::database::trial::asked(std::env::args_os().skip(1)) {
        return code;
    }
    registry_svc::commands::run(std::env::args().collect())
}
