//! `outpost swap` and `outpost rollback`: another version of a service takes over without interrupting clients.
//!
//! ```text
//!            one .socket of systemd's, which both slots have
//!                 │                         │
//!   outpost-dns-authd-a.service   outpost-dns-authd-b.service
//!        serves                        loads the next version, starts, says READY
//!                                      is watched: its own self-check, its manager, healthd
//!        finishes what it has read     serves alone
//! ```
//!
//! | piece | content |
//! | --- | --- |
//! | [`slot_swap`] | the order of steps and the way back from each; pure |
//! | [`executor`] | takes the steps: systemctl, podman, files |
//! | [`canary`] | whether the new process works |
//! | [`site_node::images::versions`] | the versions that the node keeps to go back to |
//! | [`history`](mod@history) | `outpost history`, which shows them |
//! | [`site_node::record`] | the slot that the node starts from |
//!
//! Services that cannot run twice (a store has one journal, a clock one hand on it) take over from each
//! other by themselves when the second one starts; for the swap that is a start like any other, but the
//! way back is then to start the old one again.

mod canary;
mod executor;
mod history;

use std::process::ExitCode;
use std::time::Duration;

use daemon::clock;
use daemon::succession::{Lock, LockError};
use daemon::{errln, exit, outln, run};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::canary::Life;
use self::executor::{Executor, Source};
pub(crate) use self::history::history;
use crate::args::{RollbackArgs, SwapArgs, SwapOptions};
use crate::json::print_line;
use api::outpost::{LastSwap, SwapEnd, SwapStep};
use site::service::Service;
use site_node::paths::NodePaths;
use site_node::record::{self, Record};
use site_node::systemd::Log;
use slot_swap::{Action, Event, Outcome, Plan, Swap, With};

/// `outpost swap`.
pub(crate) fn swap(args: &SwapArgs) -> ExitCode {
    let source = match &args.archive {
        Some(archive) => Source::Archive(archive.clone()),
        // The command line has it without an archive only with --settle.
        None => Source::None,
    };
    begin(args.service, source, &args.options)
}

/// `outpost rollback`.
pub(crate) fn rollback(args: &RollbackArgs) -> ExitCode {
    let source = Source::Kept(args.to.clone());
    begin(args.service, source, &args.options)
}

fn begin(service: Service, source: Source, options: &SwapOptions) -> ExitCode {
    run::verb(async { exit::code(lead(service, source, options).await) })
}

async fn lead(service: Service, source: Source, options: &SwapOptions) -> u8 {
    let paths = NodePaths::below(&options.root);
    let life = Life {
        patience: options.timeout.0,
        watch: options.canary.0,
    };
    let teller = Teller {
        service,
        json: options.json,
    };
    let with = match source {
        Source::None => With::Nothing,
        Source::Archive(_) | Source::Kept(_) => With::Archive,
    };
    let images = options.images.clone();
    let mut executor = Executor::new(paths.clone(), service, source, life, images);
    if options.dry_run {
        return rehearse(&mut executor, with, &teller).await;
    }
    let _lock = match Lock::take(&paths.permits()) {
        Ok(lock) => lock,
        Err(error @ LockError::Held { .. }) => {
            errln!("outpost: another swap is under way: {error}");
            return exit::UNAVAILABLE;
        }
        Err(error) => {
            errln!("outpost: {}", exit::chain(&error));
            return exit::NO_PERMISSION;
        }
    };
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        errln!("outpost: cannot install signal handlers");
        return exit::SOFTWARE;
    };
    let mut swap = Swap::new(Plan {
        old: executor.old,
        with,
    });
    while let Some(action) = swap.action() {
        let begun = clock::now();
        let can_stop = swap.can_be_interrupted();
        let taken = tokio::select! {
            taken = executor.take(action) => Some(taken),
            () = either(&mut interrupt, &mut terminate), if can_stop => None,
        };
        let took = begun.elapsed();
        let log = match (&taken, action) {
            (Some(Err(_)), Action::Serve(slot) | Action::Start(slot) | Action::Watch(slot)) => {
                executor.log(slot).await
            }
            _ => Log::default(),
        };
        teller.step(action, taken.as_ref(), took, &log);
        swap.handle(match taken {
            Some(Ok(_)) => Event::Done,
            Some(Err(error)) => Event::Failed(format!("{error:#}")),
            None => Event::Interrupted,
        });
    }
    end(&swap, &executor, &teller)
}

async fn either(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}

/// Writes down how it ended, tells it, and gives the exit code.
fn end(swap: &Swap, executor: &Executor, teller: &Teller) -> u8 {
    let paths = &executor.paths;
    let settled = Outcome::Settled;
    let outcome = swap.outcome().unwrap_or(&settled);
    let (word, reason, code) = match outcome {
        Outcome::Swapped(untidy) => ("swapped", untidy.as_ref(), exit::OK),
        Outcome::Settled => ("settled", None, exit::OK),
        Outcome::Rescued(reason) => ("rescued", Some(reason), FAILED),
        Outcome::Kept(reason) => ("kept", Some(reason), FAILED),
        Outcome::Down(reason) => ("down", Some(reason), exit::UNAVAILABLE),
    };
    let mut record = Record::read(paths, teller.service);
    let has_moved = matches!(outcome, Outcome::Swapped(_) | Outcome::Rescued(_));
    if has_moved {
        has_served(&mut record, executor);
    }
    let now = clock::since_1970().as_secs();
    let image = executor.verified.as_ref().map(|(_, image)| image);
    record.end(LastSwap {
        outcome: word.to_owned(),
        reason: reason.cloned(),
        ended: now,
        version: image.map(|image| image.version.clone()),
        image: image.map(|image| image.image_id.to_oci()),
    });
    let recorded = record.write(paths, teller.service);
    let recorded = recorded.and_then(|()| match has_moved {
        true => executor.keep_versions(Some(now)),
        false => Ok(()),
    });
    if let Err(error) = recorded {
        errln!("outpost: cannot record the outcome: {error:#}");
    }
    let live = record::live(paths, teller.service);
    let version = record.slots.get(live.name());
    let version = version.map_or_else(String::new, |has| format!(" {}", has.version));
    let service = teller.service;
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let sentence = match outcome {
        Outcome::Swapped(None) => format!("{service}{version} serves in slot {live}"),
        Outcome::Swapped(Some(_)) => {
            format!("{service}{version} serves in slot {live}, but{because}")
        }
        Outcome::Settled => format!("slot {live} of {service} serves alone"),
        Outcome::Rescued(_) => format!(
            "slot {live} of {service} serves and is on record, the other one cannot; swap again{because}"
        ),
        Outcome::Kept(_) => format!("slot {live} of {service} serves on{because}"),
        Outcome::Down(_) => format!("{service} does not serve{because}"),
    };
    teller.end(
        word,
        live.name(),
        reason.map(String::as_str),
        &sentence,
        code,
    );
    code
}

/// Both slots can be gone back to: the one that served, and the one that does.
fn has_served(record: &mut Record, executor: &Executor) {
    let (old, new) = (executor.old, executor.old.other());
    if let Some(has) = record.slots.get_mut(new.name()) {
        has.has_served = true;
    }
    let Some((version, revision)) = executor.before.version.clone() else {
        return;
    };
    // The installed version is in no record yet.
    let has = record.slots.entry(old.name().to_owned());
    has.or_default().serve(version, revision);
}

/// The exit code when the old version serves on.
const FAILED: u8 = 1;

/// Says what would be done, having looked at everything that can be looked at.
async fn rehearse(executor: &mut Executor, with: With, teller: &Teller) -> u8 {
    let mut swap = Swap::new(Plan {
        old: executor.old,
        with,
    });
    while let Some(action) = swap.action() {
        if action == Action::Verify {
            let begun = clock::now();
            let verified = executor.take(action).await;
            let is_good = verified.is_ok();
            teller.step(action, Some(&verified), begun.elapsed(), &Log::default());
            if !is_good {
                return FAILED;
            }
        } else {
            let would = Ok("would be next".to_owned());
            teller.step(action, Some(&would), Duration::ZERO, &Log::default());
        }
        swap.handle(Event::Done);
    }
    exit::OK
}

/// Tells people, or programs, what is done.
struct Teller {
    service: Service,
    json: bool,
}

impl Teller {
    /// Tells a step; one that failed with what its process wrote.
    fn step(
        &self,
        action: Action,
        taken: Option<&anyhow::Result<String>>,
        took: Duration,
        log: &Log,
    ) {
        let (verb, slot) = words(action);
        let (mark, text) = match taken {
            Some(Ok(did)) => ("ok", did.clone()),
            Some(Err(error)) => ("failed", format!("{error:#}")),
            None => ("interrupted", String::new()),
        };
        if self.json {
            let (lines, command) = (log.lines.clone(), log.command.clone());
            let has_log = !command.is_empty();
            print_line(&SwapStep {
                service: self.service.name().to_owned(),
                step: verb.to_owned(),
                slot: slot.map(str::to_owned),
                result: mark.to_owned(),
                said: text,
                took_seconds: took.as_secs_f64(),
                log: has_log.then_some(lines),
                look_at: has_log.then_some(command),
            });
        } else {
            let mark = if mark == "ok" { " " } else { "!" };
            let slot = slot.unwrap_or(" ");
            outln!(
                "{mark} {verb:<7} {slot}  {:>7.2} s  {text}",
                took.as_secs_f64()
            );
            for line in &log.lines {
                outln!("    | {line}");
            }
            if !log.command.is_empty() {
                outln!("    more: {}", log.command);
            }
        }
    }

    fn end(&self, word: &str, live: &str, reason: Option<&str>, sentence: &str, code: u8) {
        if self.json {
            print_line(&SwapEnd {
                service: self.service.name().to_owned(),
                outcome: word.to_owned(),
                live: live.to_owned(),
                reason: reason.map(str::to_owned),
            });
        } else if code == exit::OK {
            outln!("{sentence}");
        } else {
            errln!("outpost: {sentence}");
        }
    }
}

/// A step in words.
fn words(action: Action) -> (&'static str, Option<&'static str>) {
    let (verb, slot) = match action {
        Action::Verify => return ("verify", None),
        Action::Serve(slot) => ("serve", slot),
        Action::Stop(slot) => ("stop", slot),
        Action::Load(slot) => ("load", slot),
        Action::Permit(slot) => ("permit", slot),
        Action::Start(slot) => ("start", slot),
        Action::Watch(slot) => ("watch", slot),
        Action::Record(slot) => ("record", slot),
        Action::Forbid(slot) => ("forbid", slot),
    };
    (verb, Some(slot.name()))
}
