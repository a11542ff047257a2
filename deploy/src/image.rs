//! `outpost image build`: static programs → archives, without podman.

pub(crate) mod args;
pub(crate) mod build;
mod checkout;
mod sbom;

use std::process::ExitCode;

use daemon::{errln, exit};

use self::args::{ImageArgs, ImageVerb};

/// Runs the verb.
pub(crate) fn run(args: &ImageArgs) -> ExitCode {
    let ImageVerb::Build(build) = &args.verb;
    match build::run(build) {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(exit::UNAVAILABLE)
        }
    }
}
