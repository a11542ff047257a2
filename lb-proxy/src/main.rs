//! `lb-proxy`: see `lb-proxy --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lb_proxy::commands::run(std::env::args().collect())
}
