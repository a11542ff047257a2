//! `outpost history`: the versions of each service that this node keeps, and how its last swaps ended.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use api::outpost::{History, LastSwap, Version};
use daemon::calendar::Timestamp;
use daemon::{errln, exit, json, outln};

use crate::args::HistoryArgs;
use site::service::Service;
use site_node::images::archives::Archives;
use site_node::images::versions::NodeVersions;
use site_node::paths::NodePaths;
use site_node::record::{self, Record};
use slot_swap::versions::{LIMIT, short};

/// `outpost history`.
pub(crate) fn history(args: &HistoryArgs) -> ExitCode {
    let archives = Archives::new(&args.archives);
    let paths = NodePaths::below(&args.root);
    let services = args
        .service
        .map_or_else(|| Service::ALL.to_vec(), |one| vec![one]);
    let mut histories = Vec::new();
    for service in services {
        let node = NodeVersions {
            archives: &archives,
            paths: &paths,
            service,
        };
        match read(&node) {
            Ok(history) => histories.push(history),
            Err(error) => {
                errln!("outpost: {error:#}");
                return exit::code(exit::UNAVAILABLE);
            }
        }
    }
    histories.retain(|history| !history.versions.is_empty() || !history.swaps.is_empty());
    if histories.is_empty() {
        let of = args.service.map_or("a service", Service::name);
        errln!(
            "outpost: there is no image of {of} in {}",
            args.archives.display()
        );
        return exit::code(exit::UNAVAILABLE);
    }
    match args.json {
        true => json::print(&histories),
        false => {
            let shown: Vec<String> = histories.iter().map(show).collect();
            outln!("{}", shown.join("\n").trim_end());
        }
    }
    exit::code(exit::OK)
}

fn read(node: &NodeVersions<'_>) -> anyhow::Result<History> {
    let versions = node.list()?;
    let record = Record::read(node.paths, node.service);
    let mut swaps = record.earlier;
    swaps.extend(record.last);
    Ok(History {
        service: node.service.name().to_owned(),
        live: record::live(node.paths, node.service).name().to_owned(),
        versions: versions.as_slice().to_vec(),
        limit: LIMIT,
        swaps,
    })
}

/// A service as text: its versions, the newest first, and its swaps.
fn show(history: &History) -> String {
    let mut out = format!(
        "{}: slot {} is on record; {} of at most {} versions kept\n",
        history.service,
        history.live,
        history.versions.len(),
        history.limit
    );
    let mut newest_first = history.versions.iter().rev();
    let mut line = |mark: char, version: &Version, what: &str| {
        let _done = writeln!(
            out,
            "  {mark} {:<12} {:<12} {:<12} {what}",
            version.version,
            version.revision,
            short(&version.image)
        );
    };
    if let Some(running) = newest_first.next() {
        let since = running.since.map_or_else(
            || "installed".to_owned(),
            |since| format!("since {}", time(since)),
        );
        line('*', running, &since);
    }
    for (number, version) in newest_first.enumerate() {
        let until = version.until.map_or_else(
            || "served before".to_owned(),
            |until| format!("until {}", time(until)),
        );
        let what = match number {
            0 => until + "; a rollback goes here",
            _ => until,
        };
        line(' ', version, &what);
    }
    for swap in history.swaps.iter().rev() {
        let _done = writeln!(out, "  - {}", swap_line(swap));
    }
    out
}

fn swap_line(swap: &LastSwap) -> String {
    let mut line = format!("{}  {}", time(swap.ended), swap.outcome);
    if let Some(version) = &swap.version {
        let image = swap.image.as_deref().map_or("", short);
        let _done = write!(line, "  {version} ({image})");
    }
    if let Some(reason) = &swap.reason {
        let _done = write!(line, ": {reason}");
    }
    line
}

/// A time to the second.
fn time(seconds: u64) -> String {
    let text = Timestamp(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    text.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_with_the_one_that_a_rollback_takes() {
        let version = |version: &str, since, until| Version {
            version: version.to_owned(),
            revision: "1a2b3c4d5".to_owned(),
            image: format!("sha256:{version}-0123456789"),
            since,
            until,
            ..Version::default()
        };
        let history = History {
            service: "dns-authd".to_owned(),
            live: "b".to_owned(),
            versions: vec![
                version("0.1.0", None, Some(60)),
                version("0.2.0", Some(60), Some(120)),
                version("0.3.0", Some(120), None),
            ],
            limit: 5,
            swaps: vec![
                LastSwap {
                    outcome: "swapped".to_owned(),
                    ended: 120,
                    version: Some("0.3.0".to_owned()),
                    image: Some("sha256:0.3.0-0123456789".to_owned()),
                    reason: None,
                },
                LastSwap {
                    outcome: "kept".to_owned(),
                    reason: Some("it does not start".to_owned()),
                    ended: 180,
                    ..LastSwap::default()
                },
            ],
        };
        assert_eq!(
            show(&history),
            "dns-authd: slot b is on record; 3 of at most 5 versions kept\n  \
             * 0.3.0        1a2b3c4d5    0.3.0-012345 since 1970-01-01T00:02:00Z\n    \
             0.2.0        1a2b3c4d5    0.2.0-012345 until 1970-01-01T00:02:00Z; a rollback goes here\n    \
             0.1.0        1a2b3c4d5    0.1.0-012345 until 1970-01-01T00:01:00Z\n  \
             - 1970-01-01T00:03:00Z  kept: it does not start\n  \
             - 1970-01-01T00:02:00Z  swapped  0.3.0 (0.3.0-012345)\n"
        );
    }
}
