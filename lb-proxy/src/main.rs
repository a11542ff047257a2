//! `lb-proxy`: see `lb-proxy --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(64)
}
