//! `outpost images`: the images of this node.
//!
//! ```text
//! images load    archives on the node → the node's own store, at boot
//! images wait    until those of one service are there, or cannot be
//! images list    what each slot would run
//! images verify  the same, with every byte looked at
//! ```

pub(crate) mod args;
mod inspect;

use std::process::ExitCode;

use daemon::{errln, exit};
use site_node::images::archives::Archives;
use site_node::images::load;

use self::args::{ImagesArgs, ImagesVerb};

/// Runs the verb.
pub(crate) fn run(args: &ImagesArgs) -> ExitCode {
    let done = match &args.verb {
        ImagesVerb::Load(place) => load::run(&place.paths(place.native)),
        ImagesVerb::Wait(wait) => Archives::new(&wait.archives)
            .wait_for(wait.service)
            .map(|()| true),
        ImagesVerb::List(list) => inspect::list(list),
        ImagesVerb::Verify(place) => inspect::verify(place),
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
