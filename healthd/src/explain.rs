//! The explanation of targets: `GET /explain?target=TARGET[,TARGET…]`, which `healthd explain` asks for.

use std::net::{IpAddr, SocketAddr};

use api::explain::healthd::{Explained, Explanation};
use daemon::admin::{Reply, Routes};
use liveness::monitor::Monitor;
use liveness::table::Entry;

use crate::driver::Driver;
use crate::{status, wire_form};

/// The path.
pub(crate) const PATH: &str = "/explain";

/// The most targets that one answer explains: people ask about few.
const MAX_TARGETS: usize = 64;

/// Adds the path.
pub(crate) fn add(routes: &Routes, driver: &Driver) {
    let driver = driver.clone();
    routes.get(PATH, move |request| {
        let reply = match request.parameter("target") {
            Some(targets) => Reply::json(200, &driver.look(|monitor| explain(monitor, &targets))),
            None => Reply::text(400, "which target? say ?target=ADDRESS:PORT\n"),
        };
        async move { reply }
    });
}

/// Explains the targets that a list of words means.
fn explain(monitor: &Monitor, targets: &str) -> Explanation {
    let words: Vec<&str> = targets.split(',').map(str::trim).collect();
    let mut unknown: Vec<String> = Vec::new();
    for word in &words {
        let is_known = monitor.table().entries().any(|entry| is_meant(word, entry));
        if !is_known && !unknown.iter().any(|other| other == word) {
            unknown.push((*word).to_owned());
        }
    }
    let entries = monitor.table().entries();
    let meant = entries.filter(|entry| words.iter().any(|word| is_meant(word, entry)));
    let contact = monitor.contact();
    Explanation {
        targets: meant
            .take(MAX_TARGETS)
            .map(|entry| explained(monitor, entry))
            .collect(),
        unknown,
        generation: monitor.generation(),
        contact: contact.map(|(contact, _)| status::contact_of(contact)),
    }
}

/// Whether a word means a target: its address with or without the port, its name, or its fingerprint.
fn is_meant(word: &str, entry: &Entry) -> bool {
    let target = &entry.target;
    if let Ok(address) = word.parse::<SocketAddr>() {
        return target.address == address;
    }
    if let Ok(address) = word.parse::<IpAddr>() {
        return target.address.ip() == address;
    }
    target.to_string() == word || wire_form::fingerprint(target) == word
}

fn explained(monitor: &Monitor, entry: &Entry) -> Explained {
    let rules = monitor.table().rules().iter();
    let mut subscribers: Vec<String> = monitor
        .watchers(&entry.target)
        .map(|subscriber| subscriber.name.clone())
        .collect();
    subscribers.sort();
    subscribers.dedup();
    Explained {
        target: status::target(monitor, entry),
        probes: entry.counts.buckets.iter().sum(),
        subscribers,
        decisions: rules
            .filter(|(scope, _)| scope.covers(entry.target.address))
            .map(status::decision)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use liveness::monitor::{Limits, Restored, Statement};
    use liveness::now::Now;
    use liveness::schedules::Schedules;
    use proto::health::{Schedule, Target, Watched};

    use super::*;

    fn monitor() -> Monitor {
        let now = Now {
            steady: daemon::clock::now(),
            wall: Duration::from_secs(1),
        };
        let limits = Limits {
            in_flight: 4,
            targets: 100,
            grace: Duration::ZERO,
        };
        let schedules = Schedules {
            site: Schedule::default(),
            ..Schedules::default()
        };
        let mut monitor = Monitor::new(limits, schedules, 1, Restored::default(), now);
        for (name, ports) in [("dns-authd", &[1_u16, 2][..]), ("lb-proxy", &[2, 3])] {
            let id = monitor.open(now);
            let targets = ports.iter().map(|port| {
                let target = Target::tcp(([192, 0, 2, 13], *port).into());
                (u32::from(*port), Watched::from(target))
            });
            let statement = Statement {
                subscriber: name.to_owned(),
                number: 1,
                targets: targets.collect(),
                all: false,
            };
            monitor.state(id, statement, now);
        }
        monitor
    }

    #[test]
    fn a_word_means_an_address_a_port_or_a_target() {
        let monitor = monitor();
        let first = Target::tcp("192.0.2.13:1".parse().unwrap());
        let fingerprint = wire_form::fingerprint(&first);
        for (words, ports, unknown) in [
            ("192.0.2.13", &[1, 2, 3][..], &[][..]),
            ("192.0.2.13:2", &[2], &[]),
            ("tcp 192.0.2.13:3", &[3], &[]),
            (&fingerprint, &[1], &[]),
            ("192.0.2.13:1, 192.0.2.13:3", &[1, 3], &[]),
            ("192.0.2.13:9,192.0.2.13:1", &[1], &["192.0.2.13:9"]),
            ("192.0.2.1", &[], &["192.0.2.1"]),
            ("nonsense,nonsense", &[], &["nonsense"]),
        ] {
            let explanation = explain(&monitor, words);
            let shown: Vec<String> = ports
                .iter()
                .map(|port| format!("192.0.2.13:{port}"))
                .collect();
            let found = explanation.targets.iter();
            let found: Vec<&String> = found.map(|one| &one.target.address).collect();
            assert_eq!(found, shown.iter().collect::<Vec<_>>(), "{words}");
            assert_eq!(explanation.unknown, unknown, "{words}");
        }
    }

    #[test]
    fn a_target_names_the_services_that_ask_for_it() {
        let monitor = monitor();
        for (word, subscribers) in [
            ("192.0.2.13:1", &["dns-authd"][..]),
            ("192.0.2.13:2", &["dns-authd", "lb-proxy"]),
            ("192.0.2.13:3", &["lb-proxy"]),
        ] {
            let explanation = explain(&monitor, word);
            assert_eq!(explanation.targets[0].subscribers, subscribers, "{word}");
        }
    }
}
