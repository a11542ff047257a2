//! `dns-authd`: see `dns-authd --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    dns_authd::commands::run(std::env::args().collect())
}
