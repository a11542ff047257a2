//! `outpost`: renders, starts and looks after a site.
//!
//! ```text
//! args → the verb:  up, master      a whole site as child processes, shown live
//!                   init, check     site.toml: written, read
//!                   pki             a site's certificates
//!                   render          a site's files, by target
//!                   image, bundle, key    images built, put with everything else into one signed file
//!                   install, uninstall    a bundle on a node, and off it again
//!                   images          the images of this node
//!                   swap, rollback  another version of a service takes over
//!                   history         the versions that can
//!                   status          the running site, this node, all nodes
//!                   completions     for shells
//!                   explain         how a name is answered or an address served, and why
//! ```
//!
//! Each module is a verb, with its command line and its output. The decisions of verbs are in crates of their own:
//!
//! | crate | content |
//! | --- | --- |
//! | `site`, `site-file` | the model of a site; its file |
//! | `site-render` | `config`: configurations of services; `target`: units that start them |
//! | `service-image`, `site-bundle` | the formats of image archives and of bundles |
//! | `slot-swap` | the order of a swap's steps |
//! | `site-node` | a node: slots, units, processes, images |
//! | `site-pki` | certificates |
//! | `durable` | files that survive a power cut |
//!
//! `image` and `images` are two verbs: `image build` needs a checkout, `images` needs a node.
//!
//! A library, so that tests can give any bytes to the parsers of files that people write; [`run`] is the program.

mod args;
mod bundle;
mod check;
mod completions;
mod exec_child;
mod explain;
mod image;
mod images;
mod install;
mod number;
mod pki;
mod remote;
mod render;
mod status;
mod swap;
mod up;
mod zone_serial;

use std::path::PathBuf;
use std::process::ExitCode;

use daemon::{errln, exit, outln};

use crate::args::{Command, MasterVerb, Outpost, StatusArgs};
use crate::up::control::{Request, ask};
use crate::up::run_dir::RunDir;

/// The command line, for its manual pages.
pub fn command() -> clap::Command {
    <Outpost as clap::CommandFactory>::command()
}

/// Runs the command line.
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
        Command::Status(args) => show_status(args),
        Command::Explain(args) => explain::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Bundle(args) => bundle::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Uninstall(args) => install::run_uninstall(&args),
        Command::Key(args) => bundle::run_key(&args),
        Command::Images(args) => images::run(&args),
        Command::Init(args) => site_init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Swap(args) => swap::swap(&args),
        Command::Rollback(args) => swap::rollback(&args),
        Command::History(args) => swap::history(&args),
        Command::Render(args) => render::run(&args),
        Command::Pki(args) => pki::run(&args),
        Command::Completions(args) => completions::run(args),
        Command::ExecChild(args) => exec_child::run(&args),
    }
}

/// Shows the node that this machine is, or the site that runs on it.
fn show_status(args: StatusArgs) -> ExitCode {
    let default = RunDir::default_path();
    let is_up_here = args.run_dir.is_some() || default.exists();
    if args.node || args.site.is_some() || (!is_up_here && status::is_node()) {
        return status::run(&args);
    }
    let wanted = Request::Status { json: args.json };
    let Some(pause) = args.pause() else {
        return request(args.run_dir, &wanted);
    };
    let run_dir = args.run_dir.unwrap_or_else(RunDir::default_path);
    loop {
        match ask(&run_dir, &wanted) {
            Ok(text) if status::watch::show(&text, args.json).is_ok() => std::thread::sleep(pause),
            Ok(_) => return exit::code(exit::OK),
            Err(error) => return unavailable(&error),
        }
    }
}

/// Asks the running site and prints its answer.
fn request(run_dir: Option<PathBuf>, request: &Request) -> ExitCode {
    match ask(&run_dir.unwrap_or_else(RunDir::default_path), request) {
        Ok(text) => {
            outln!("{text}");
            exit::code(exit::OK)
        }
        Err(error) => unavailable(&error),
    }
}

fn unavailable(error: &anyhow::Error) -> ExitCode {
    errln!("outpost: {error:#}");
    exit::code(exit::UNAVAILABLE)
}
