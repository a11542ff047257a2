//! `outpost`: renders, starts and looks after a site.
//!
//! ```text
//! args → the verb:  up           site → render → services as child processes, shown live   (up.rs)
//!                   master       a request to the running site                    (up/control.rs)
//!                   init         flags, OpenShift's files, answers → a site file               (init.rs)
//!                   status       the same; on a node, its slots               (node_status.rs)
//!                   check        a site file → what is wrong with it                        (check.rs)
//!                   swap         another version of a service takes over            (swap.rs)
//!                   rollback     the same, back
//!                   pki          a site file → its certificates                              (pki.rs)
//! ```
//!
//! A library, so that tests reach what reads files that people write; [`run`] is all of the program.

mod args;
mod bundle;
pub mod bundle_format;
mod check;
mod durable;
mod exec_child;
mod image;
pub mod image_format;
mod init;
mod install;
mod node_status;
mod pki;
mod render;
mod render_verb;
mod secrets;
mod service;
mod site;
mod site_file;
mod swap;
mod target;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use daemon::{errln, exit, outln};

use crate::args::{Command, MasterVerb, Outpost, StatusArgs};
use crate::up::control::{Request, ask};
use crate::up::run_dir::RunDir;

/// What reads files that people write, on any octets: for tests that make them up.
pub mod reading {
    use daemon::config::{Document, Problems};

    pub use crate::init::import_bytes as openshift;

    /// Reads octets as a site file.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn site(data: &[u8]) -> Result<(), Problems> {
        let text = String::from_utf8_lossy(data);
        let read = crate::site_file::parse(&Document::inline("site.toml", text));
        read.site.map(drop)
    }
}

/// Does what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let outpost: Outpost = match daemon::args::parse(std::env::args_os()) {
        Ok(outpost) => outpost,
        Err(code) => return code,
    };
    match outpost.command {
        Command::Up(args) => up::run(&args),
        Command::Master(args) => {
            let (masters, up) = match args.verb {
                MasterVerb::Down(masters) => (masters, false),
                MasterVerb::Up(masters) => (masters, true),
            };
            request(
                masters.run_dir,
                &Request::Switch {
                    masters: masters.masters,
                    up,
                },
            )
        }
        Command::Status(args) => status(args),
        Command::Image(args) => image::run_image(&args),
        Command::Bundle(args) => bundle::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Uninstall(args) => install::run_uninstall(&args),
        Command::Key(args) => bundle::run_key(&args),
        Command::Images(args) => image::run_images(&args),
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Swap(args) => swap::swap(&args),
        Command::Rollback(args) => swap::rollback(&args),
        Command::Render(args) => render_verb::run(&args),
        Command::Pki(args) => pki::run(&args),
        Command::ExecChild(args) => exec_child::run(&args),
    }
}

/// Shows the node that this machine is, or the site that runs on it.
fn status(args: StatusArgs) -> ExitCode {
    let default = RunDir::default_path();
    let is_up_here = args.run_dir.is_some() || default.exists();
    if args.node || args.site.is_some() || (!is_up_here && node_status::is_node()) {
        return node_status::run(&args);
    }
    request(args.run_dir, &Request::Status { json: args.json })
}

/// Asks the running site and prints its answer.
fn request(run_dir: Option<PathBuf>, request: &Request) -> ExitCode {
    match ask(&run_dir.unwrap_or_else(RunDir::default_path), request) {
        Ok(text) => {
            outln!("{text}");
            exit::code(exit::OK)
        }
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(exit::UNAVAILABLE)
        }
    }
}
