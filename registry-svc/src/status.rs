//! The output of `status`: as JSON from the running registry, and in lines for people.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use api::Status;
use api::registry_svc::{
    self as shown, Damage, DamagedBlob, Detail, Differences, Document, Held, Manifest, Member,
    Outcome, Peer, Repositories, Space, Tags, Unnamed, UnnamedManifest, Upkeep, Webhook,
};
use config_text::{counted, counted_as};
use daemon::calendar::Timestamp;
use daemon::config::HumanDuration;
use daemon::run::headline;
use oci::digest::Digest;
use registry_cluster::{Cluster, PeerStatus};
use registry_cluster_core::buckets::Difference;
use registry_cluster_core::clocks::Fault;
use registry_facts::name::NodeName;
use registry_facts::record::{Fact, Key, Stamped};
use registry_facts::usage::Usage;
use registry_store::Store;
use registry_store::damage::Reason;
use registry_store::recover::{self, Found, Proposal};
use registry_webhook::EndpointStatus;

/// The content.
#[must_use]
pub fn held(survey: &Usage) -> Held {
    Held {
        repositories: survey.n_repositories(),
        sum: crate::views::holding(&survey.total()),
    }
}

/// The other nodes.
pub fn cluster(cluster: &Cluster) -> shown::Cluster {
    let status = cluster.status();
    let because = because(&status);
    let peer = |one: &PeerStatus| peer(one, &because);
    shown::Cluster {
        node: status.node.clone(),
        clock: status.clock.map(clock),
        records_waiting: status.waiting,
        fetching: status.fetching,
        missing_blobs: status.missing.len(),
        peers: status.peers.iter().map(peer).collect(),
        members: members(&status),
        begins_anew: status.has_to_begin,
    }
}

/// All nodes beside this one.
pub fn nodes(cluster: &Cluster) -> shown::Nodes {
    shown::Nodes {
        nodes: members(&cluster.status()),
    }
}

fn members(status: &registry_cluster::Status) -> Vec<Member> {
    let time = |milliseconds: u64| {
        let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
        Timestamp(time).to_string()
    };
    let holding = |name: &NodeName| {
        let mut peers = status.peers.iter();
        peers.any(|peer| peer.name == *name && peer.holds_deletion)
    };
    let member = |one: &registry_cluster::Member| Member {
        name: one.name.as_str().to_owned(),
        address: one.address.clone(),
        member: one.is_member,
        configured: one.is_configured,
        forgotten: one.forgotten.map(time),
        seen: one.seen.map(time),
        holds_deletion: holding(&one.name),
    };
    status.members.iter().map(member).collect()
}

/// A fault of this node's clock in words.
pub fn clock(fault: Fault) -> String {
    let (by, text) = match fault {
        Fault::Ahead(by) => (by, "the clock of this node is DURATION ahead of the others"),
        Fault::Behind(by) => (by, "the clock of this node is DURATION behind the others"),
        Fault::Apart(by) => (
            by,
            "the clocks of this node and of the only other one that it hears are DURATION apart",
        ),
    };
    text.replace("DURATION", &seconds(by))
}

/// A duration in whole seconds.
fn seconds(duration: Duration) -> String {
    HumanDuration(Duration::from_secs(duration.as_secs())).to_string()
}

/// The reason why records of connected nodes are not here yet.
fn because(status: &registry_cluster::Status) -> String {
    match status.missing.first() {
        Some((digest, _)) => format!("no node gives {digest}"),
        None if status.waiting > 0 => "their content is fetched".to_owned(),
        None => "they are on their way".to_owned(),
    }
}

fn peer(peer: &PeerStatus, because: &str) -> Peer {
    let clock = |ahead: i64| {
        let by = seconds(Duration::from_millis(ahead.unsigned_abs()));
        format!("{by} {}", if ahead > 0 { "ahead" } else { "behind" })
    };
    let because = match (peer.behind, peer.connected) {
        (0, _) => String::new(),
        (_, true) => because.to_owned(),
        (_, false) => "it is not connected".to_owned(),
    };
    Peer {
        name: peer.name.as_str().to_owned(),
        address: peer.address.clone(),
        connected: peer.connected,
        error: peer.error.clone(),
        heard: peer.heard.map(seconds),
        behind: peer.behind,
        behind_for: peer.behind_since.map(seconds),
        behind_because: because,
        clock: peer.clock.map(clock),
        lacks: peer.lacks,
        differences: peer.differences,
        missing_blobs: peer.missing_blobs,
    }
}

/// Content that was damaged on the disk.
#[must_use]
pub fn damage(store: &Store) -> Damage {
    let (damaged, quarantined) = (store.damaged(), store.quarantined());
    let blob = |(digest, reason): &(Digest, Reason)| DamagedBlob {
        digest: digest.to_string(),
        reason: reason.to_string(),
    };
    Damage {
        found: damaged.n_found,
        healed: damaged.n_healed,
        waiting: damaged.n_waiting,
        blobs: damaged.waiting.iter().map(blob).collect(),
        quarantined: quarantined.map(|it| it.n),
        quarantined_bytes: quarantined.unwrap_or_default().octets,
    }
}

/// Manifests that no repository has.
#[must_use]
pub fn unnamed_manifests(found: &Found) -> Unnamed {
    let manifest = |one: &recover::Unnamed| UnnamedManifest {
        digest: one.digest.to_string(),
        media_type: one.media_type.clone(),
        written: Timestamp(one.modified).to_string(),
        missing: one.missing.iter().map(ToString::to_string).collect(),
        proposals: one.proposals.iter().map(proposal).collect(),
    };
    Unnamed {
        journal_damaged: found.is_damaged,
        manifests: found.manifests.iter().map(manifest).collect(),
        more: found.n_more,
    }
}

fn proposal((repository, tag): &Proposal) -> String {
    match tag {
        Some(tag) => format!("{repository}:{tag}"),
        None => repository.to_string(),
    }
}

/// Manifests that no repository has, in lines.
#[must_use]
pub fn unnamed(view: &Unnamed) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _written = write_unnamed(&mut text, view);
    text
}

fn write_unnamed(text: &mut String, view: &Unnamed) -> std::fmt::Result {
    for one in &view.manifests {
        write!(text, "{}  {}", one.digest, one.written)?;
        match one.proposals.as_slice() {
            [] => writeln!(text, "  name unknown  {}", one.media_type)?,
            names => writeln!(text, "  perhaps {}", names.join(" "))?,
        }
        for missing in &one.missing {
            writeln!(text, "  MISSING {missing}")?;
        }
    }
    if view.more > 0 {
        writeln!(text, "and {} more", view.more)?;
    }
    match view.journal_damaged {
        true => writeln!(
            text,
            "{} without a name; all content stays until `registry-svc recover --done`",
            counted(view.manifests.len(), "manifest"),
        ),
        false => writeln!(
            text,
            "{} without a name; the journal is whole, so these were deleted and wait for the sweep",
            counted(view.manifests.len(), "manifest"),
        ),
    }
}

/// The endpoints of events.
#[must_use]
pub fn webhooks(endpoints: &[EndpointStatus]) -> Vec<Webhook> {
    let webhook = |endpoint: &EndpointStatus| Webhook {
        name: endpoint.name.clone(),
        url: endpoint.url.clone(),
        waiting: endpoint.waiting,
        delivered: endpoint.delivered,
        dropped: endpoint.dropped,
        failures_in_a_row: endpoint.failures_in_a_row,
        error: endpoint.error.clone(),
    };
    endpoints.iter().map(webhook).collect()
}

/// The differences between two nodes.
#[must_use]
pub fn differences(differences: &[Difference]) -> Differences {
    let all = differences.iter().map(|difference| match difference {
        Difference::Blob { digest, here } => shown::Difference {
            what: format!("blob {digest}"),
            here: if *here { "held" } else { "" }.to_owned(),
            there: if *here { "" } else { "held" }.to_owned(),
        },
        Difference::Register { key, here, there } => shown::Difference {
            what: match key {
                Key::Blob { repository, digest } => format!("blob {digest} in {repository}"),
                Key::Manifest { repository, digest } => {
                    format!("manifest {digest} in {repository}")
                }
                Key::Tag { repository, tag } => format!("tag {repository}:{tag}"),
                Key::Node { name } => format!("node {name}"),
            },
            here: statement(here.as_ref()),
            there: statement(there.as_ref()),
        },
    });
    Differences {
        differences: all.collect(),
    }
}

/// One node's side of a difference.
fn statement(register: Option<&Stamped>) -> String {
    match register.map(|register| &register.fact) {
        None => String::new(),
        Some(Fact::Tag {
            target: Some(digest),
            ..
        }) => digest.to_string(),
        Some(Fact::Node { membership, .. }) if !membership.is_member => "forgotten".to_owned(),
        Some(fact) if fact.is_tombstone() => "removed".to_owned(),
        Some(_) => "held".to_owned(),
    }
}

//--- For people

/// The status of a running registry, in lines.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    if let Some(detail) = &status.detail {
        // Writing to a string does not fail.
        let _written = write_detail(&mut text, detail);
    }
    text
}

fn write_detail(text: &mut String, detail: &Detail) -> std::fmt::Result {
    let how = match detail.tls {
        true => "TLS",
        false => "plain text",
    };
    writeln!(text, "serves on {} ({how})", detail.listen.join(" "))?;
    write!(text, "root {}", detail.root)?;
    if detail.read_only_disk {
        write!(text, ", on a READ-ONLY DISK: nothing can be pushed")?;
    } else if detail.read_only {
        write!(text, ", read-only")?;
    }
    writeln!(text)?;
    if let Some(held) = &detail.held {
        writeln!(
            text,
            "holds {}, {}, {}, {}, {}",
            counted(held.repositories, "repository"),
            counted(held.sum.tags, "tag"),
            counted(held.sum.manifests, "manifest"),
            counted(held.sum.blobs, "blob"),
            octets(held.sum.bytes),
        )?;
    }
    write_journal(text, detail)?;
    write_damage(text, &detail.damage)?;
    write_space(text, &detail.space)?;
    write_upkeep(text, &detail.upkeep)?;
    writeln!(
        text,
        "{} answered, {} received, {} sent",
        counted(detail.requests.answered, "request"),
        octets(detail.requests.received_bytes),
        octets(detail.requests.sent_bytes),
    )?;
    if let Some(cluster) = &detail.cluster {
        write_cluster(text, cluster)?;
    }
    for webhook in &detail.webhooks {
        write!(
            text,
            "webhook {}: {} delivered, {} wait",
            webhook.name, webhook.delivered, webhook.waiting,
        )?;
        if webhook.dropped > 0 {
            write!(text, ", {} dropped", webhook.dropped)?;
        }
        match &webhook.error {
            Some(error) => writeln!(text, "  FAILS: {error}")?,
            None => writeln!(text)?,
        }
    }
    Ok(())
}

fn write_journal(text: &mut String, detail: &Detail) -> std::fmt::Result {
    if !detail.read_only_disk && !detail.journal.kept_twice {
        writeln!(
            text,
            "THE JOURNAL IS KEPT ONCE: its copy cannot be written, and a damaged disk loses names"
        )?;
    }
    if detail.journal.records_put_back > 0 {
        writeln!(
            text,
            "the start put {} back into the journal from its copy: the disk is failing",
            counted(detail.journal.records_put_back, "record"),
        )?;
    }
    if let Some(recovered) = &detail.recovered {
        writeln!(
            text,
            "THE JOURNAL WAS DAMAGED at the start ({}): {} were read from it; its files are in {}; \
             `registry-svc recover` lists images without a name",
            recovered.damage,
            counted(recovered.records, "record"),
            recovered.set_aside,
        )?;
    }
    Ok(())
}

fn write_damage(text: &mut String, damage: &Damage) -> std::fmt::Result {
    if damage.waiting > 0 {
        let waiting = counted_as(damage.waiting, "blob is", "blobs are");
        writeln!(
            text,
            "{waiting} DAMAGED OR MISSING, and no other node has given it yet"
        )?;
        for blob in &damage.blobs {
            writeln!(text, "  {}: {}", blob.digest, blob.reason)?;
        }
    }
    let quarantined = damage.quarantined.unwrap_or_default();
    if damage.found > 0 || quarantined > 0 {
        writeln!(
            text,
            "damage since the start: {} found, {} healed; {} in the quarantine, {}",
            counted(damage.found, "blob"),
            damage.healed,
            counted(quarantined, "file"),
            octets(damage.quarantined_bytes),
        )?;
    }
    Ok(())
}

fn write_space(text: &mut String, space: &Space) -> std::fmt::Result {
    let Some(free) = space.free_bytes else {
        return Ok(());
    };
    let total = octets(space.total_bytes.unwrap_or_default());
    write!(text, "{} free of {total}", octets(free))?;
    match space.standing.as_str() {
        "scarce" => writeln!(text, ", FILLING UP"),
        "full" => writeln!(text, ", FULL: nothing is pushed any more"),
        _ => writeln!(text),
    }
}

fn write_upkeep(text: &mut String, upkeep: &Upkeep) -> std::fmt::Result {
    for running in &upkeep.running {
        writeln!(text, "{} is running", running.task)?;
    }
    if let Some(sweep) = &upkeep.last_sweep
        && let Outcome::Done(report) = &sweep.report
    {
        let trashed = counted(report.trashed.blobs, "blob");
        let deleted = report.deleted.blobs;
        writeln!(
            text,
            "last sweep: {trashed} to the trash, {deleted} deleted"
        )?;
    }
    if let Some(scrub) = &upkeep.last_scrub
        && let Outcome::Done(report) = &scrub.report
        && !report.whole
    {
        writeln!(
            text,
            "last scrub: NOT EVERYTHING IS WHOLE: see `registry-svc verify`"
        )?;
    }
    Ok(())
}

fn write_cluster(text: &mut String, cluster: &shown::Cluster) -> std::fmt::Result {
    write!(text, "node {}", cluster.node)?;
    for (n, one, many) in [
        (
            cluster.records_waiting,
            "record waits for content",
            "records wait for content",
        ),
        (cluster.fetching, "blob is fetched", "blobs are fetched"),
        (
            cluster.missing_blobs,
            "blob is nowhere to be had",
            "blobs are nowhere to be had",
        ),
    ] {
        if n > 0 {
            write!(text, ", {}", counted_as(n, one, many))?;
        }
    }
    writeln!(text)?;
    if let Some(clock) = &cluster.clock {
        writeln!(text, "WRONG CLOCK: {clock}")?;
    }
    for peer in &cluster.peers {
        write!(text, "peer {} {}: ", peer.name, peer.address)?;
        match peer.connected {
            true => write!(text, "connected, {} behind", counted(peer.behind, "record"))?,
            false => write!(text, "NOT CONNECTED ({})", peer.error)?,
        }
        if let (true, Some(since)) = (peer.connected, &peer.behind_for) {
            write!(text, " for {since}: {}", peer.behind_because)?;
        }
        if let Some(clock) = &peer.clock {
            write!(text, ", CLOCK {clock}")?;
        }
        if let Some(lacks) = peer.lacks {
            write!(text, ", lacks {lacks} of ours")?;
        }
        if peer.differences > 0 {
            write!(text, ", {}", counted(peer.differences, "difference"))?;
        }
        writeln!(text)?;
    }
    for member in &cluster.members {
        if member.holds_deletion {
            writeln!(
                text,
                "deletion waits for {}, {}",
                member.name,
                last_seen(member)
            )?;
        }
        if let (false, Some(forgotten)) = (member.member, &member.forgotten) {
            writeln!(text, "node {} was forgotten at {forgotten}", member.name)?;
        }
    }
    if cluster.begins_anew {
        writeln!(
            text,
            "THE OTHER NODES HAVE FORGOTTEN THIS ONE: it begins again at its next start"
        )?;
    }
    Ok(())
}

fn last_seen(member: &Member) -> String {
    match &member.seen {
        Some(seen) => format!("connected last at {seen}"),
        None => "not connected yet".to_owned(),
    }
}

/// All nodes beside the one that answers, in lines.
#[must_use]
pub fn node_lines(view: &shown::Nodes) -> String {
    let mut text = String::new();
    for node in &view.nodes {
        let address = node.address.as_deref().unwrap_or("address unknown");
        let membership = match (node.member, &node.forgotten) {
            (true, _) => last_seen(node),
            (false, Some(forgotten)) => format!("FORGOTTEN at {forgotten}"),
            (false, None) => "FORGOTTEN".to_owned(),
        };
        let holds = match node.holds_deletion {
            true => ", deletion waits for it",
            false => "",
        };
        // Writing to a string does not fail.
        let _written = writeln!(text, "{}  {address}  {membership}{holds}", node.name);
    }
    text
}

/// The differences between two nodes, in lines.
#[must_use]
pub fn difference_lines(view: &Differences) -> String {
    let mut text = String::new();
    let or_dash = |text: &str| match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
    };
    for one in &view.differences {
        let (here, there) = (or_dash(&one.here), or_dash(&one.there));
        let _written = writeln!(text, "{}: here {here}, there {there}", one.what);
    }
    text
}

/// Repositories in lines.
#[must_use]
pub fn repositories(view: &Repositories) -> String {
    let names = view.repositories.iter();
    names.map(|one| format!("{}\n", one.name)).collect()
}

/// The content of each repository, the largest first, with the sum at the end.
#[must_use]
pub fn usage(view: &Repositories) -> String {
    let mut all: Vec<_> = view.repositories.iter().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.held.bytes));
    let line = |name: &str, held: &shown::Holding| {
        format!(
            "{:>10}  {:>6} {:>6} {:>6}  {name}\n",
            octets(held.bytes),
            held.tags,
            held.manifests,
            held.blobs,
        )
    };
    let mut text = format!(
        "{:>10}  {:>6} {:>6} {:>6}\n",
        "size", "tags", "manif.", "blobs"
    );
    for one in all {
        text.push_str(&line(&one.name, &one.held));
    }
    text.push_str(&line("in all; shared content counts once", &view.total));
    text
}

/// The tags of a repository in lines.
#[must_use]
pub fn tags(view: &Tags) -> String {
    let mut text = String::new();
    for tag in &view.tags {
        let _written = writeln!(text, "{}  {}  {}", tag.tag, tag.digest, tag.pushed);
    }
    text
}

/// A manifest in lines.
#[must_use]
pub fn manifest(view: &Manifest<Document>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _written = write_manifest(&mut text, view);
    text
}

fn write_manifest(text: &mut String, view: &Manifest<Document>) -> std::fmt::Result {
    writeln!(text, "digest      {}", view.digest)?;
    writeln!(text, "media type  {}", view.media_type)?;
    writeln!(text, "size        {}", octets(view.size))?;
    if let Some(kind) = &view.artifact_type {
        writeln!(text, "artifact    {kind}")?;
    }
    if let Some(subject) = &view.subject {
        writeln!(text, "subject     {subject}")?;
    }
    if !view.tags.is_empty() {
        writeln!(text, "tags        {}", view.tags.join(" "))?;
    }
    let document = &view.manifest;
    if let Some(config) = &document.config {
        writeln!(text, "config      {}", config.digest)?;
    }
    for (list, name) in [
        (&document.layers, "layer"),
        (&document.manifests, "manifest"),
        (&document.blobs, "blob"),
    ] {
        for one in list {
            let size = octets(one.size);
            write!(text, "{name:<12}{} {size:>10}", one.digest)?;
            if let Some(platform) = &one.platform {
                write!(text, "  {}/{}", platform.os, platform.architecture)?;
            }
            writeln!(text)?;
        }
    }
    for referrer in &view.referrers {
        let kind = referrer.artifact_type.as_ref();
        let kind = kind.unwrap_or(&referrer.media_type);
        writeln!(text, "referrer    {}  {kind}", referrer.digest)?;
    }
    for missing in &view.missing {
        writeln!(text, "MISSING     {missing}")?;
    }
    Ok(())
}

/// A size as people read it: three digits and a binary unit.
#[must_use]
pub fn octets(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut whole = n;
    let mut tenths = 0;
    let mut unit = 0;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).unwrap_or(&"");
    match (unit, whole) {
        (0, _) | (_, 100..) => format!("{whole} {name}"),
        _ => format!("{whole}.{tenths} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_short() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (150 << 20, "150 MiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(octets(n), text);
        }
    }

    #[test]
    fn a_status_is_told_in_lines() {
        let detail: Detail = serde_json::from_value(json!({
            "listen": ["127.0.0.1:5443"], "tls": true, "root": "/r", "node": "a", "read_only": true,
            "held": { "repositories": 2, "tags": 3, "manifests": 4, "blobs": 5, "bytes": 2048 },
            "requests": { "answered": 7, "received_bytes": 0, "sent_bytes": 1024 },
            "cluster": { "node": "a#1", "clock": "it is 3d apart", "records_waiting": 2, "fetching": 0, "missing_blobs": 0, "peers": [
                { "name": "b", "address": "192.0.2.1:5444", "connected": true, "error": "", "heard": "1s",
                  "behind": 3, "behind_for": "9s", "behind_because": "their content is fetched",
                  "clock": "3d ahead", "lacks": 1, "differences": 0, "missing_blobs": 0 },
                { "name": "c", "address": "192.0.2.2:5444", "connected": false, "error": "refused",
                  "heard": null, "behind": 0, "lacks": null, "differences": 0, "missing_blobs": 0 },
            ] },
            "upkeep": { "running": [], "last_sweep": null, "last_scrub": null },
            "journal": { "kept_twice": false, "records_put_back": 2 },
            "recovered": { "damage": "it is missing", "set_aside": "/r/journal-damaged", "records": 7 },
            "damage": { "found": 3, "healed": 2, "waiting": 1, "quarantined": 2, "quarantined_bytes": 2048,
                        "blobs": [{ "digest": "sha256:a", "reason": "its file is missing" }] },
            "space": { "standing": "enough", "free_bytes": null, "total_bytes": null },
            "webhooks": [{ "name": "w", "url": "u", "delivered": 1, "waiting": 2, "dropped": 0,
                           "failures_in_a_row": 1, "error": "no answer" }],
        }))
        .unwrap();
        let status = Status::serving("registry-svc", detail);
        let text = render(&status);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "serves on 127.0.0.1:5443 (TLS)",
                "root /r, read-only",
                "holds 2 repositories, 3 tags, 4 manifests, 5 blobs, 2.0 KiB",
                "THE JOURNAL IS KEPT ONCE: its copy cannot be written, and a damaged disk loses names",
                "the start put 2 records back into the journal from its copy: the disk is failing",
                "THE JOURNAL WAS DAMAGED at the start (it is missing): 7 records were read from it; its files are in \
                 /r/journal-damaged; `registry-svc recover` lists images without a name",
                "1 blob is DAMAGED OR MISSING, and no other node has given it yet",
                "  sha256:a: its file is missing",
                "damage since the start: 3 blobs found, 2 healed; 2 files in the quarantine, 2.0 KiB",
                "7 requests answered, 0 B received, 1.0 KiB sent",
                "node a#1, 2 records wait for content",
                "WRONG CLOCK: it is 3d apart",
                "peer b 192.0.2.1:5444: connected, 3 records behind for 9s: their content is fetched, CLOCK 3d ahead, \
                 lacks 1 of ours",
                "peer c 192.0.2.2:5444: NOT CONNECTED (refused)",
                "webhook w: 1 delivered, 2 wait  FAILS: no answer",
            ]
        );
    }

    #[test]
    fn usage_begins_with_the_largest() {
        let view: Repositories = serde_json::from_value(json!({
            "repositories": [
                { "name": "small", "tags": 1, "manifests": 1, "blobs": 1, "bytes": 10 },
                { "name": "large", "tags": 1, "manifests": 1, "blobs": 1, "bytes": 5000 },
            ],
            "total": { "tags": 2, "manifests": 2, "blobs": 2, "bytes": 5010 },
        }))
        .unwrap();
        assert_eq!(repositories(&view), "small\nlarge\n");
        let text = usage(&view);
        let names: Vec<&str> = text
            .lines()
            .map(|line| line.rsplit("  ").next().unwrap())
            .collect();
        assert_eq!(names[1..3], ["large", "small"]);
        assert!(text.lines().last().unwrap().contains("4.8 KiB"));
    }

    #[test]
    fn a_manifest_shows_layers_and_what_is_missing() {
        let view: Manifest<Document> = serde_json::from_value(json!({
            "repository": "a/b", "digest": "sha256:a", "mediaType": "m", "size": 10, "tags": ["latest"],
            "artifactType": null, "subject": null,
            "referrers": [{ "digest": "sha256:r", "mediaType": "m", "size": 1, "artifactType": "sbom" }],
            "missing": ["sha256:l"],
            "manifest": {
                "config": { "digest": "sha256:c" },
                "layers": [{ "digest": "sha256:l", "size": 2048 }],
            },
        }))
        .unwrap();
        let text = manifest(&view);
        for line in [
            "tags        latest",
            "config      sha256:c",
            "layer       sha256:l    2.0 KiB",
            "referrer    sha256:r  sbom",
            "MISSING     sha256:l",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let document: Document = serde_json::from_value(json!({ "manifests": [
            { "digest": "sha256:x", "size": 1, "platform": { "os": "linux", "architecture": "arm64" } },
        ] }))
        .unwrap();
        let index = Manifest {
            manifest: document,
            ..Manifest::default()
        };
        assert!(manifest(&index).contains("linux/arm64"));
    }
}
