//! Images of the services: built from static programs, kept as archives, brought into podman's store.
//!
//! ```text
//! image build    programs → archives                                     (build.rs, sbom.rs)
//! images load    archives on the node → the node's own store, at boot    (load.rs)
//! images list    what each slot would run
//! images verify  the same, with every byte looked at
//! ```
//!
//! A node keeps the archives ([`shelf`]) and loads from them whatever the store ([`store`]) lacks,
//! so that a power cut costs no more than a second and never a network.

pub(crate) mod args;
pub(crate) mod build;
mod checkout;
pub(crate) mod load;
mod look;
pub(crate) mod podman;
pub(crate) mod programs;
mod sbom;
pub(crate) mod shelf;
pub(crate) mod stamp;
pub(crate) mod store;

use std::process::ExitCode;

use daemon::{errln, exit};

use self::args::{ImageArgs, ImageVerb, ImagesArgs, ImagesVerb};

/// Does what `image` is asked for.
pub(crate) fn run_image(args: &ImageArgs) -> ExitCode {
    let ImageVerb::Build(build) = &args.verb;
    match build::run(build) {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(exit::UNAVAILABLE)
        }
    }
}

/// Does what `images` is asked for.
pub(crate) fn run_images(args: &ImagesArgs) -> ExitCode {
    let done = match &args.verb {
        ImagesVerb::Load(place) => load::run(place),
        ImagesVerb::List(list) => look::list(list),
        ImagesVerb::Verify(place) => look::verify(place),
    };
    match done {
        Ok(true) => exit::code(exit::OK),
        // Everything was said.
        Ok(false) => exit::code(exit::UNAVAILABLE),
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(exit::UNAVAILABLE)
        }
    }
}
