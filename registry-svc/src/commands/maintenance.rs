//! `gc`, `scrub` and `verify`: the running daemon does them, or the verb itself when there is none.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use api::registry_svc::{Outcome, ScrubReport, Started, SweepReport};
use daemon::admin::{self, Place};
use daemon::config::Document;
use daemon::latest::Latest;
use daemon::{errln, exit, outln};
use registry_facts::record::{NodeId, Vector};
use serde::Serialize;

use super::inspect::{InspectError, Opened, Reached, reach};
use crate::args::InspectArgs;
use crate::config::Config;
use crate::maintenance::{Task, Maintenance};

/// The least configuration there is.
const DEFAULTS: &str = "version = \"v1\"\nplain = true\n";

/// The interval of progress requests to the daemon.
const ASK: Duration = Duration::from_millis(200);

/// The number of requests between two progress lines where a line cannot be overwritten.
const TELL: u32 = 50;

/// Does a task and prints its report; a report of damage is exit code 65.
pub(super) fn perform(args: &InspectArgs, task: Task) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            exit::report(&error);
            return exit::code(exit::SOFTWARE);
        }
    };
    let report = match runtime.block_on(done(args, task)) {
        Ok(report) => report,
        Err(error) => {
            errln!("{}", exit::chain(&error));
            return exit::code(error.code());
        }
    };
    match report {
        Report::Sweep(outcome) => shown(outcome, args.status.json, |report| {
            (std::mem::take(&mut report.text), exit::OK)
        }),
        Report::Scrub(outcome) => shown(outcome, args.status.json, |report| {
            let code = match report.whole {
                true => exit::OK,
                false => exit::DATA,
            };
            (std::mem::take(&mut report.text), code)
        }),
    }
}

/// Prints a report as JSON, or in the lines that `parts` takes out of it; `parts` knows the exit code too.
fn shown<R: Serialize>(
    outcome: Outcome<R>,
    is_json: bool,
    parts: impl Fn(&mut R) -> (String, u8),
) -> ExitCode {
    let mut report = match outcome {
        Outcome::Done(report) => report,
        Outcome::Failed { error } => {
            errln!("{error}");
            return exit::code(exit::SOFTWARE);
        }
    };
    let (text, code) = parts(&mut report);
    match is_json {
        true => match serde_json::to_value(&report) {
            Ok(value) => outln!("{value:#}"),
            Err(error) => {
                exit::report(&error);
                return exit::code(exit::SOFTWARE);
            }
        },
        false => outln!("{text}"),
    }
    exit::code(code)
}

/// The report of a task.
enum Report {
    Sweep(Outcome<SweepReport>),
    Scrub(Outcome<ScrubReport>),
}

async fn done(args: &InspectArgs, task: Task) -> Result<Report, InspectError> {
    let path = format!("/upkeep?task={}", task.name());
    match reach(args).await? {
        Reached::Daemon(place) => {
            let refused = |error: admin::ClientError| InspectError::Refused(exit::chain(&error));
            let place = match place {
                Place::Address(address) => admin::control(address).await.map_err(refused)?,
                Place::Socket(_) => place,
            };
            let started = admin::post(place.clone(), &path, Vec::new())
                .await
                .map_err(refused)?;
            let text = started.text();
            if !started.is_success() {
                return Err(InspectError::Refused(text.trim_end().to_owned()));
            }
            let Started { number } = serde_json::from_str(&text).map_err(InspectError::Answer)?;
            let mut progress = Progress::new(args.status.json);
            loop {
                tokio::time::sleep(ASK).await;
                let answer = admin::get(place.clone(), "/upkeep")
                    .await
                    .map_err(refused)?;
                let status = serde_json::from_str(&answer.text()).map_err(InspectError::Answer)?;
                progress.show(&status, number);
                if let Some(report) = report_of(status, number) {
                    progress.end();
                    return Ok(report);
                }
            }
        }
        Reached::Disk(opened) => {
            if matches!(task, Task::Sweep | Task::DryRun) && is_of_several(args, &opened) {
                opened.store.close().await;
                return Err(InspectError::OfSeveral);
            }
            let config = match opened.config {
                Some(config) => config,
                // Without a configuration the defaults hold.
                None => Config::from_document(&Document::inline("defaults", DEFAULTS))
                    .map_err(|problems| InspectError::Refused(problems.to_string()))?,
            };
            let upkeep = Maintenance::new(&opened.store, None, None, &Latest::new(config));
            let mut progress = Progress::new(args.status.json);
            let report = match upkeep.start(task) {
                None => None,
                Some((number, mut work)) => {
                    while tokio::time::timeout(ASK, &mut work).await.is_err() {
                        progress.show(&upkeep.status(), number);
                    }
                    progress.end();
                    report_of(upkeep.status(), number)
                }
            };
            opened.store.close().await;
            report.ok_or_else(|| InspectError::Refused("the task ended without a report".to_owned()))
        }
    }
}

/// Whether other nodes hold this store's content and may refer to it: by the configuration, or, for
/// a root that the configuration does not name, by the records in the store.
fn is_of_several(args: &InspectArgs, opened: &Opened) -> bool {
    match &opened.config {
        Some(config) if args.root.is_none() => config.file.cluster.is_some(),
        Some(config) if config.file.cluster.is_some() => true,
        _ => has_heard_others(&opened.store.origin(), &opened.store.vector()),
    }
}

/// Whether there are records of another node. Some records of this node may have its present name
/// with another disk, and some its disk with another name.
fn has_heard_others(own: &NodeId, heard: &Vector) -> bool {
    let is_other =
        |origin: &NodeId| origin.name != own.name && origin.incarnation != own.incarnation;
    heard.iter().any(|(origin, _)| is_other(origin))
}

/// The report of the task of this number, once it is done.
fn report_of(status: api::registry_svc::Upkeep, number: u64) -> Option<Report> {
    let sweep = status.last_sweep.filter(|last| last.number == number);
    let scrub = status.last_scrub.filter(|last| last.number == number);
    let sweep = sweep.map(|last| Report::Sweep(last.report));
    sweep.or_else(|| scrub.map(|last| Report::Scrub(last.report)))
}

/// Shows progress on standard error.
struct Progress {
    is_quiet: bool,
    is_terminal: bool,
    n_shown: u32,
}

impl Progress {
    fn new(is_quiet: bool) -> Self {
        Self {
            is_quiet,
            is_terminal: std::io::stderr().is_terminal(),
            n_shown: 0,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown in whole MiB")]
    fn show(&mut self, status: &api::registry_svc::Upkeep, number: u64) {
        let running = status.running.iter().find(|it| it.number == number);
        let Some(running) = running.filter(|_| !self.is_quiet) else {
            return;
        };
        let (task, seconds) = (&running.task, running.seconds);
        let mebibytes = running.read_bytes.unwrap_or_default() as f64 / 1_048_576.0;
        let line = format!("{task}: {seconds:.0} s, {mebibytes:.0} MiB read");
        if self.is_terminal {
            daemon::print::err(format_args!("\r{line}\x1b[K"));
        } else if self.n_shown % TELL == TELL - 1 {
            errln!("{line}");
        }
        self.n_shown += 1;
    }

    fn end(&self) {
        if self.is_terminal && self.n_shown > 0 && !self.is_quiet {
            daemon::print::err(format_args!("\r\x1b[K"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_one_of_several_when_it_has_heard_others() {
        let id = |name: &str, incarnation| NodeId {
            name: name.parse().unwrap(),
            incarnation,
        };
        let own = id("master-0", 1);
        for (heard, is_other) in [
            (vec![], false),
            (vec![id("master-0", 1)], false),
            // It was given its name later, and its disk before.
            (vec![id("node", 1), id("master-0", 7)], false),
            (vec![id("master-0", 1), id("master-1", 2)], true),
        ] {
            let vector = heard.iter().map(|origin| (origin.clone(), 5)).collect();
            assert_eq!(has_heard_others(&own, &vector), is_other, "{heard:?}");
        }
    }
}
