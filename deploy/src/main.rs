//! The `outpost` command; the library half of this crate is all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    deploy::run()
}
