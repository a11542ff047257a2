//! `dns-recursor`: see `dns-recursor --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    dns_recursor::commands::run(std::env::args().collect())
}
