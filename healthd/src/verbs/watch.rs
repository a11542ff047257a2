//! `healthd watch`: states and their changes, as lines or as JSON.

use std::io;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use api::healthd::{Forgotten, KnownState, Watched, WatchedState};
use daemon::calendar::Timestamp;
use daemon::{errln, exit, json, outln};
use proto::health::{AdminState, Basis, Liveness, Snapshot, Target, TargetStatus};
use proto::watch::Watcher;

use super::Daemon;
use super::mark::Place;

/// Arguments of `watch`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Targets to show; all of them unless given
    ///
    /// ADDRESS or ADDRESS:PORT shows the targets there that any subscriber asked for. With
    /// tcp:ADDRESS:PORT, healthd probes that target as long as this command runs.
    #[arg(value_name = "TARGET")]
    targets: Vec<Selector>,

    /// Print a JSON object on each line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(super) daemon: Daemon,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    /// All targets there.
    At(Place),
    /// This target, probed for this command.
    Probed(Box<Target>),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("tcp:") {
            let address = address.parse();
            let address = address.map_err(|_| "no IP address and port after tcp:".to_owned())?;
            return Ok(Self::Probed(Box::new(Target::tcp(address))));
        }
        text.parse().map(Self::At)
    }
}

pub(super) async fn run(args: Args) -> ExitCode {
    let endpoint = args.daemon.endpoint();
    // Said once and at once; later on the watcher waits for healthd to come back.
    if let Err(error) = proto::endpoint::connect(&endpoint).await {
        errln!("{endpoint}: {}", exit::chain(&error));
        return exit::code(exit::UNAVAILABLE);
    }
    let probed = args.targets.iter().filter_map(|wanted| match wanted {
        Selector::Probed(target) => Some(Target::clone(target)),
        Selector::At(_) => None,
    });
    let watcher = Watcher::start_all(endpoint, "healthd watch", probed.collect());
    match follow(&watcher, &args).await {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            exit::report(&error);
            exit::code(exit::SOFTWARE)
        }
    }
}

/// Prints until interrupted.
async fn follow(watcher: &Watcher, args: &Args) -> io::Result<()> {
    let mut snapshots = watcher.subscribe();
    let mut shown = Arc::new(Snapshot::default());
    let mut connected = true;
    let mut look = tokio::time::interval(std::time::Duration::from_millis(500));
    loop {
        tokio::select! {
            () = snapshots.changed() => {
                let snapshot = snapshots.shared();
                print_changes(&shown, &snapshot, args);
                shown = snapshot;
            }
            _ = look.tick() => {
                let state = watcher.state();
                if state.connections > 0 && state.connected != connected {
                    connected = state.connected;
                    match connected {
                        true => errln!("connected to healthd again"),
                        false => errln!("not connected to healthd: {}", state.error),
                    }
                }
            }
            interrupted = tokio::signal::ctrl_c() => return interrupted,
        }
    }
}

fn print_changes(before: &Snapshot, after: &Snapshot, args: &Args) {
    for (target, status) in &after.targets {
        let same = |old: &TargetStatus| {
            (old.liveness, old.admin, old.since) == (status.liveness, status.admin, status.since)
                && votes(old) == votes(status)
        };
        if is_wanted(target, &args.targets) && !before.status(target).is_some_and(same) {
            print(target, Some(status), args.json);
        }
    }
    for target in before.targets.keys() {
        if is_wanted(target, &args.targets) && after.status(target).is_none() {
            print(target, None, args.json);
        }
    }
}

/// The basis of the liveness, and the finding of each node. The reasons of nodes change more often.
fn votes(status: &TargetStatus) -> Option<(Basis, Vec<(&str, Liveness)>)> {
    let verdict = status.verdict.as_ref()?;
    let votes = verdict.findings.iter();
    let votes = votes.map(|finding| (finding.node.as_str(), finding.liveness));
    Some((verdict.basis, votes.collect()))
}

fn is_wanted(target: &Target, wanted: &[Selector]) -> bool {
    wanted.is_empty()
        || wanted.iter().any(|wanted| match wanted {
            Selector::At(place) => place.covers(target.address),
            Selector::Probed(probed) => **probed == *target,
        })
}

/// Prints one line: a state, or that healthd has forgotten the target.
fn print(target: &Target, status: Option<&TargetStatus>, is_json: bool) {
    let now = Timestamp::now();
    match is_json {
        true => json::print_line(&watched(now, target, status)),
        false => outln!("{now}  {}", line(target, status)),
    }
}

fn line(target: &Target, status: Option<&TargetStatus>) -> String {
    let Some(status) = status else {
        return format!("gone     {target}");
    };
    let admin = match status.admin {
        AdminState::Ready => String::new(),
        other => format!("  [{other}]"),
    };
    let liveness = status.liveness.to_string();
    let latency = status.latency.as_secs_f64() * 1000.0;
    let generation = match status.generation {
        0 => String::new(),
        generation => format!("  generation {generation}"),
    };
    match status.reason.as_str() {
        "" => format!("{liveness:<7}  {target}{admin}{generation}"),
        reason => format!("{liveness:<7}  {target}  {reason} ({latency:.1} ms){admin}{generation}"),
    }
}

fn watched(now: Timestamp, target: &Target, status: Option<&TargetStatus>) -> Watched {
    let time = |moment: Option<SystemTime>| moment.map(|moment| Timestamp(moment).to_string());
    let state = match status {
        None => WatchedState::Forgotten(Forgotten::default()),
        Some(status) => WatchedState::Known(KnownState {
            liveness: status.liveness,
            admin: status.admin,
            generation: status.generation,
            since: time(status.since),
            last_check: time(status.last_check),
            reason: status.reason.clone(),
            latency_seconds: status.latency.as_secs_f64(),
            verdict: status.verdict.clone(),
        }),
    };
    Watched {
        time: now.to_string(),
        target: target.to_string(),
        kind: target.kind.name().to_owned(),
        address: target.address.to_string(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proto::health::{NodeFinding, Verdict};
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_to_show_is_an_address_or_a_target() {
        let api = Target::tcp("192.168.7.13:6443".parse().unwrap());
        let other = Target::tcp("192.168.7.13:443".parse().unwrap());
        for (text, shows_other) in [
            ("192.168.7.13", true),
            ("192.168.7.13:6443", false),
            ("tcp:192.168.7.13:6443", false),
        ] {
            let wanted: Selector = text.parse().unwrap();
            assert!(is_wanted(&api, std::slice::from_ref(&wanted)));
            assert_eq!(is_wanted(&other, &[wanted]), shows_other, "{text}");
        }
        assert!(is_wanted(&api, &[]));
        for text in ["", "tcp:", "tcp:192.168.7.13", "master-0"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    /// A line as its readers see it, which the type reads back.
    fn read(line: &Watched) -> Value {
        let value = serde_json::to_value(line).unwrap();
        assert_eq!(
            serde_json::from_value::<Watched>(value.clone()).unwrap(),
            *line
        );
        value
    }

    #[test]
    fn a_state_is_one_line() {
        let target = Target::tcp("192.168.7.13:6443".parse().unwrap());
        let status = TargetStatus {
            liveness: Liveness::Down,
            admin: AdminState::Drain,
            latency: Duration::from_micros(1250),
            reason: "connection refused".to_owned(),
            generation: 7,
            ..TargetStatus::default()
        };
        assert_eq!(
            line(&target, Some(&status)),
            "down     tcp 192.168.7.13:6443  connection refused (1.2 ms)  [drain]  generation 7"
        );
        let new = TargetStatus::default();
        assert_eq!(line(&target, Some(&new)), "unknown  tcp 192.168.7.13:6443");
        assert_eq!(line(&target, None), "gone     tcp 192.168.7.13:6443");
        let at = Timestamp(SystemTime::UNIX_EPOCH);
        let object = read(&watched(at, &target, Some(&status)));
        assert_eq!(object["liveness"], "down");
        assert_eq!(object["generation"], 7);
        assert_eq!(object["since"], Value::Null);
        assert!(object.get("verdict").is_none(), "no other node is asked");
        let finding = NodeFinding {
            node: "master-1".to_owned(),
            liveness: Liveness::Up,
            reason: "connected".to_owned(),
        };
        let status = TargetStatus {
            verdict: Some(Verdict {
                basis: Basis::Site,
                findings: vec![finding],
            }),
            ..status
        };
        let object = read(&watched(at, &target, Some(&status)));
        assert_eq!(object["verdict"]["basis"], "site");
        assert_eq!(object["verdict"]["findings"][0]["node"], "master-1");
        assert_eq!(object["verdict"]["findings"][0]["liveness"], "up");
        let object = read(&watched(at, &target, None));
        assert_eq!(object["liveness"], "gone");
        assert!(object.get("since").is_none());
    }
}
