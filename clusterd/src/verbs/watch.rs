//! `clusterd watch`: objects and their changes, as lines or as JSON.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::clusterd::{Change, ChangeKind};
use cluster::{Difference, Key, Object, Snapshot};
use daemon::calendar::Timestamp;
use daemon::{errln, exit, json, outln};
use proto::cluster::link::Link;

use super::{Daemon, Selection, line};

/// The interval of looks at the state of the stream.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `watch`.
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
    // An error is said once and at once; later on the link waits for clusterd to come back.
    let link = match args.daemon.connect("clusterd watch").await {
        Ok(link) => link,
        Err(code) => return code,
    };
    match follow(&link, &args).await {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            exit::report(&error);
            exit::code(exit::SOFTWARE)
        }
    }
}

/// Prints until interrupted.
async fn follow(link: &Link, args: &Args) -> io::Result<()> {
    let Some(mut snapshots) = link.reader() else {
        return Ok(());
    };
    let mut shown = Arc::new(Snapshot::default());
    let mut connected = true;
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = snapshots.changed() => {
                let snapshot = snapshots.shared();
                print(&snapshot.difference_from(Some(&shown)), args);
                shown = snapshot;
            }
            _ = look.tick() => {
                let state = link.state().unwrap_or_default();
                if state.connections > 0 && state.connected != connected {
                    connected = state.connected;
                    match connected {
                        true => errln!("connected to clusterd again"),
                        false => errln!("not connected to clusterd: {}", state.error),
                    }
                }
            }
            interrupted = tokio::signal::ctrl_c() => return interrupted,
        }
    }
}

fn print(difference: &Difference, args: &Args) {
    let (now, generation) = (Timestamp::now(), difference.generation);
    for key in difference
        .gone
        .iter()
        .filter(|key| args.selection.covers_key(key))
    {
        match args.json {
            true => json::print_line(&change(now, generation, key.clone(), None)),
            false => outln!("{now}  gone  {key}"),
        }
    }
    for object in difference
        .put
        .iter()
        .filter(|object| args.selection.covers(object))
    {
        match args.json {
            true => {
                let change = change(now, generation, object.key(), Some(Object::clone(object)));
                json::print_line(&change);
            }
            false => outln!("{now}  put   {}", line(object)),
        }
    }
}

fn change(now: Timestamp, generation: u64, key: Key, object: Option<Object>) -> Change {
    Change {
        time: now.to_string(),
        generation,
        change: match object {
            Some(_) => ChangeKind::Put,
            None => ChangeKind::Deleted,
        },
        key,
        object,
    }
}
