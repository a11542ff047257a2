//! `outpost bundle`: everything a site needs in one signed file, and `outpost key`, which makes the keys.
//!
//! In this order: read the site and its certificates → look at the images → render every node → write
//! the manifest → sign it → write the archive. The same inputs give the same bytes.

pub(crate) mod args;
mod create;
pub(crate) mod inspect;
pub(crate) mod keys;

use std::process::ExitCode;

pub(crate) use self::create::COMMAND_PATH;
use daemon::config::Problems;
use daemon::{errln, exit, outln};

use self::args::{BundleArgs, BundleVerb, KeyArgs, KeyVerb};

/// Runs `bundle`.
pub(crate) fn run(args: &BundleArgs) -> ExitCode {
    let done = match &args.verb {
        None => create::run(args),
        Some(BundleVerb::Verify(verify)) => inspect::verify(verify),
        Some(BundleVerb::List(list)) => inspect::list(list),
    };
    match done {
        Ok(()) => exit::code(exit::OK),
        Err(error) => match error.downcast_ref::<Problems>() {
            Some(problems) => {
                for problem in &problems.0 {
                    errln!("{problem}");
                }
                exit::code(exit::CONFIG)
            }
            None => {
                errln!("outpost: {error:#}");
                exit::code(exit::DATA)
            }
        },
    }
}

/// Runs `key`.
pub(crate) fn run_key(args: &KeyArgs) -> ExitCode {
    let KeyVerb::Generate(generate) = &args.verb;
    match keys::generate(generate) {
        Ok(id) => {
            outln!(
                "Key {id}: keep {0}.key secret, and copy {0}.pub to every node.",
                generate.output.display()
            );
            exit::code(exit::OK)
        }
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(exit::UNAVAILABLE)
        }
    }
}
