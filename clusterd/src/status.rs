//! The `detail` of `/status`, and the text that `clusterd status` prints from it.

use api::Status;
use api::clusterd::{Addresses, Detail, KindDetail, Source, StateFile, Subscriber, WaitingService};
use cluster::{Freshness, Kind, Snapshot};
use config_text::counted;
use daemon::run::headline;

use crate::addresses::AddressState;
use crate::grpc;
use crate::publisher::Publisher;
use crate::source::Running;
use crate::state::Saved;

/// The parts of a status that the service knows.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) publisher: &'a Publisher,
    pub(crate) running: &'a Running,
    pub(crate) addresses: AddressState,
    pub(crate) saved: Saved,
    pub(crate) state_path: String,
    pub(crate) listeners: &'a [String],
    pub(crate) subscribers: Vec<grpc::Subscriber>,
}

/// Everything an operator would ask.
pub(crate) fn detail(parts: Parts<'_>) -> Detail {
    let snapshot = parts.publisher.current();
    let subscribers = parts.subscribers.into_iter().map(|subscriber| Subscriber {
        name: subscriber.name,
        generation: subscriber.generation,
        since: subscriber.since.to_string(),
    });
    Detail {
        serves: serves(&snapshot),
        generation: snapshot.generation,
        freshness: snapshot.least_fresh(),
        source: source(parts.running),
        kinds: snapshot
            .kinds()
            .map(|kind| kind_detail(kind, &snapshot, parts.publisher, parts.running))
            .collect(),
        state: StateFile {
            path: parts.state_path,
            generation: parts.saved.generation,
            problem: parts.saved.problem,
        },
        addresses: Addresses {
            leads: parts.addresses.leads,
            holder: parts.addresses.holder,
            given: parts.addresses.given,
            waiting: parts
                .addresses
                .waiting
                .into_iter()
                .map(|waiting| WaitingService {
                    service: format!("{}/{}", waiting.service.0, waiting.service.1),
                    reason: waiting.reason,
                })
                .collect(),
            problem: parts.addresses.problem,
        },
        listeners: parts.listeners.to_owned(),
        subscribers: subscribers.collect(),
    }
}

/// The service in a few words: `3 nodes, 12 services`.
#[must_use]
pub(crate) fn serves(snapshot: &Snapshot) -> String {
    let kinds = [Kind::Node, Kind::Service].map(|kind| counted(snapshot.count(kind), kind.name()));
    kinds.join(", ")
}

fn source(running: &Running) -> Source {
    match running {
        Running::Api(api) => Source {
            kind: "api".to_owned(),
            places: api.addresses(),
            minor_version: api.minor_version(),
            problems: api.problem().into_iter().collect(),
        },
        Running::Manifests { source, directory } => Source {
            kind: "manifests".to_owned(),
            places: vec![directory.display().to_string()],
            minor_version: None,
            problems: source.problems(),
        },
    }
}

fn kind_detail(
    kind: Kind,
    snapshot: &Snapshot,
    publisher: &Publisher,
    running: &Running,
) -> KindDetail {
    let (progress, addresses) = match running {
        Running::Api(api) => {
            let progress = api.progress().into_iter().find(|it| it.kind == kind);
            (progress, api.addresses())
        }
        Running::Manifests { .. } => (None, Vec::new()),
    };
    let progress = progress.as_ref();
    KindDetail {
        kind,
        freshness: snapshot.freshness(kind),
        objects: snapshot.count(kind),
        without_room: publisher.without_room(kind),
        watching: progress.is_some_and(|it| it.watching),
        address: progress.and_then(|it| addresses.get(it.address).cloned()),
        version: progress.map(|it| it.version.clone()).unwrap_or_default(),
        heard_seconds_ago: progress.and_then(crate::api::Progress::heard_seconds_ago),
        lists: progress.map_or(0, |it| it.lists),
        problem: progress.and_then(|it| it.problem.clone()),
    }
}

/// The status as lines for people.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    let Some(detail) = &status.detail else {
        return text;
    };
    text.push_str(&format!(
        "{}, generation {}\n",
        detail.serves, detail.generation
    ));
    let version = detail.source.minor_version;
    let version = version.map_or_else(String::new, |minor| format!(" (Kubernetes 1.{minor})"));
    text.push_str(&format!(
        "  from {}{version}: {}\n",
        detail.source.kind,
        detail.source.places.join(", ")
    ));
    for problem in &detail.source.problems {
        text.push_str(&format!("    ! {problem}\n"));
    }
    for kind in &detail.kinds {
        text.push_str(&format!("  {}\n", kind_line(kind)));
    }
    for line in address_lines(&detail.addresses) {
        text.push_str(&format!("  {line}\n"));
    }
    for subscriber in &detail.subscribers {
        text.push_str(&format!(
            "  watched by {}: generation {} since {}\n",
            subscriber.name, subscriber.generation, subscriber.since
        ));
    }
    text
}

/// The lines about addresses; none without a pool.
fn address_lines(addresses: &Addresses) -> Vec<String> {
    let mut lines = Vec::new();
    let given = addresses.given.iter();
    let given: Vec<String> = given.map(|(pool, n)| format!("{n} of {pool}")).collect();
    match (given.as_slice(), &addresses.holder, addresses.leads) {
        ([], None, false) => {}
        (given, holder, leads) => {
            let given = match given {
                [] => "none".to_owned(),
                given => given.join(", "),
            };
            let who = match (holder, leads) {
                (_, true) => ", written by this clusterd".to_owned(),
                (Some(holder), false) => format!(", written by {holder}"),
                (None, false) => String::new(),
            };
            lines.push(format!("addresses given: {given}{who}"));
        }
    }
    for waiting in &addresses.waiting {
        lines.push(format!(
            "  {} waits for an address: {}",
            waiting.service, waiting.reason
        ));
    }
    if let Some(problem) = &addresses.problem {
        lines.push(format!("  ! {problem}"));
    }
    lines
}

fn kind_line(kind: &KindDetail) -> String {
    let mut line = format!(
        "{:<13}  {:>6}  {:<7}",
        kind.kind.name(),
        kind.objects,
        kind.freshness.name()
    );
    if kind.without_room > 0 {
        line.push_str(&format!("  {} without room", kind.without_room));
    }
    if let Some(address) = &kind.address {
        let state = if kind.watching {
            "watching"
        } else {
            "not watching"
        };
        line.push_str(&format!("  {state} {address}"));
    }
    if !kind.version.is_empty() {
        line.push_str(&format!(" at version {}", kind.version));
    }
    if let Some(seconds) = kind.heard_seconds_ago {
        line.push_str(&format!(", heard {seconds:.0} s ago"));
    }
    if let Some(problem) = &kind.problem {
        line.push_str(&format!(", {problem}"));
    }
    line.trim_end().to_owned()
}

/// Words for how fresh a snapshot is, when it is not current.
#[must_use]
pub(crate) fn freshness_note(snapshot: &Snapshot) -> Option<String> {
    let kinds = |freshness| {
        let kinds = snapshot.kinds_of(freshness);
        kinds.map(Kind::resource).collect::<Vec<_>>()
    };
    let (unread, old) = (kinds(Freshness::Unread), kinds(Freshness::Old));
    let note = |kinds: Vec<&str>, words: &str| {
        (!kinds.is_empty()).then(|| format!("{}: {words}", kinds.join(", ")))
    };
    let unread = note(unread, "never read from the source");
    let old = note(old, "from before the start of clusterd");
    let notes: Vec<String> = unread.into_iter().chain(old).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_line() {
        let mut kind = KindDetail {
            kind: Kind::Service,
            freshness: Freshness::Current,
            objects: 12,
            without_room: 0,
            watching: true,
            address: Some("https://192.168.7.13:6443".to_owned()),
            version: "1000".to_owned(),
            heard_seconds_ago: Some(3.2),
            lists: 1,
            problem: None,
        };
        assert_eq!(
            kind_line(&kind),
            "service            12  current  watching https://192.168.7.13:6443 at version 1000, heard 3 s ago"
        );
        kind.address = None;
        kind.version.clear();
        kind.heard_seconds_ago = None;
        kind.without_room = 2;
        assert_eq!(
            kind_line(&kind),
            "service            12  current  2 without room"
        );
    }
}
