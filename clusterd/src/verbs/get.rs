//! `clusterd get`: the objects of the last snapshot, as lines or as JSON.

use std::process::ExitCode;

use daemon::{errln, exit, json, outln};
use tokio::time::timeout;

use super::{Daemon, FIRST, Selection, line};
use crate::status::freshness_note;

/// Arguments of `get`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Print a JSON object on each line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

pub(super) async fn run(args: Args) -> ExitCode {
    let link = match args.daemon.connect("clusterd get").await {
        Ok(link) => link,
        Err(code) => return code,
    };
    let Some(mut snapshots) = link.reader() else {
        return exit::code(exit::UNAVAILABLE);
    };
    let first = snapshots.wait_for(|snapshot| snapshot.generation > 0);
    if timeout(FIRST, first).await.is_err() {
        errln!("clusterd does not send a snapshot");
        return exit::code(exit::UNAVAILABLE);
    }
    let snapshot = snapshots.shared();
    if let Some(note) = freshness_note(&snapshot) {
        errln!("{note}");
    }
    let mut is_found = false;
    for object in snapshot
        .objects()
        .filter(|object| args.selection.covers(object))
    {
        is_found = true;
        match args.json {
            true => json::print_line(&**object),
            false => outln!("{}", line(object)),
        }
    }
    // As `kubectl get` has it: a name that is not there is a failure, an empty list is none.
    match is_found || args.selection.name.is_none() {
        true => exit::code(exit::OK),
        false => exit::code(exit::UNAVAILABLE),
    }
}
