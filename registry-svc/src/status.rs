//! The output of `status`: as JSON from the running registry, and in lines for people.

use std::fmt::Write as _;
use std::time::Duration;

use config_text::{counted, counted_as};
use daemon::config::HumanDuration;
use daemon::run::headline_untyped;
use registry_cluster::{Cluster, PeerStatus};
use registry_cluster_core::buckets::Difference;
use registry_facts::record::{Fact, Key, Stamped};
use registry_facts::survey::Survey;
use registry_webhook::EndpointStatus;
use serde_json::{Value, json};

/// The content, as JSON.
#[must_use]
pub fn held(survey: &Survey) -> Value {
    let total = survey.total();
    json!({
        "repositories": survey.n_repositories(),
        "tags": total.tags,
        "manifests": total.manifests,
        "blobs": total.blobs,
        "bytes": total.octets,
    })
}

/// How the cluster is doing, as JSON.
pub fn cluster(cluster: &Cluster) -> Value {
    let status = cluster.status();
    json!({
        "node": status.node,
        "records_waiting": status.waiting,
        "fetching": status.fetching,
        "missing_blobs": status.missing.len(),
        "peers": status.peers.iter().map(peer).collect::<Vec<_>>(),
    })
}

fn peer(peer: &PeerStatus) -> Value {
    json!({
        "name": peer.name.as_str(),
        "address": peer.address,
        "connected": peer.connected,
        "error": peer.error,
        "heard": peer.heard.map(|ago| HumanDuration(Duration::from_secs(ago.as_secs())).to_string()),
        "behind": peer.behind,
        "lacks": peer.lacks,
        "differences": peer.differences,
        "missing_blobs": peer.missing_blobs,
    })
}

/// The endpoints of events, as JSON.
#[must_use]
pub fn webhooks(endpoints: &[EndpointStatus]) -> Value {
    let all = endpoints.iter().map(|endpoint| {
        json!({
            "name": endpoint.name,
            "url": endpoint.url,
            "waiting": endpoint.waiting,
            "delivered": endpoint.delivered,
            "dropped": endpoint.dropped,
            "failures_in_a_row": endpoint.failures_in_a_row,
            "error": endpoint.error,
        })
    });
    all.collect()
}

/// The differences between two nodes, as JSON.
#[must_use]
pub fn differences(differences: &[Difference]) -> Value {
    let all = differences.iter().map(|difference| match difference {
        Difference::Blob { digest, here } => json!({
            "what": format!("blob {digest}"),
            "here": if *here { "held" } else { "" },
            "there": if *here { "" } else { "held" },
        }),
        Difference::Register { key, here, there } => json!({
            "what": match key {
                Key::Blob { repository, digest } => format!("blob {digest} in {repository}"),
                Key::Manifest { repository, digest } => format!("manifest {digest} in {repository}"),
                Key::Tag { repository, tag } => format!("tag {repository}:{tag}"),
            },
            "here": statement(here.as_ref()),
            "there": statement(there.as_ref()),
        }),
    });
    json!({ "differences": all.collect::<Vec<_>>() })
}

/// One node's side of a difference.
fn statement(register: Option<&Stamped>) -> String {
    match register.map(|register| &register.fact) {
        None => String::new(),
        Some(Fact::Tag {
            target: Some(digest),
            ..
        }) => digest.to_string(),
        Some(fact) if fact.is_tombstone() => "removed".to_owned(),
        Some(_) => "held".to_owned(),
    }
}

//--- For people

/// The status of a running registry, in lines.
#[must_use]
pub fn render(status: &Value) -> String {
    let mut text = headline_untyped(status);
    // Writing to a string does not fail.
    let _written = write_detail(&mut text, &status["detail"]);
    text
}

fn write_detail(text: &mut String, detail: &Value) -> std::fmt::Result {
    let listen: Vec<&str> = items(&detail["listen"]).map(word).collect();
    let how = match detail["tls"].as_bool() {
        Some(true) => "TLS",
        _ => "plain text",
    };
    writeln!(text, "serves on {} ({how})", listen.join(" "))?;
    write!(text, "root {}", word(&detail["root"]))?;
    if detail["read_only"].as_bool() == Some(true) {
        write!(text, ", read-only")?;
    }
    writeln!(text)?;
    let held = &detail["held"];
    if held.is_object() {
        writeln!(
            text,
            "holds {}, {}, {}, {}, {}",
            counted(number(&held["repositories"]), "repository"),
            counted(number(&held["tags"]), "tag"),
            counted(number(&held["manifests"]), "manifest"),
            counted(number(&held["blobs"]), "blob"),
            octets(number(&held["bytes"])),
        )?;
    }
    write_space(text, &detail["space"])?;
    write_upkeep(text, &detail["upkeep"])?;
    let requests = &detail["requests"];
    writeln!(
        text,
        "{} answered, {} received, {} sent",
        counted(number(&requests["answered"]), "request"),
        octets(number(&requests["received_bytes"])),
        octets(number(&requests["sent_bytes"])),
    )?;
    write_cluster(text, &detail["cluster"])?;
    for webhook in items(&detail["webhooks"]) {
        write!(
            text,
            "webhook {}: {} delivered, {} wait",
            word(&webhook["name"]),
            number(&webhook["delivered"]),
            number(&webhook["waiting"]),
        )?;
        if number(&webhook["dropped"]) > 0 {
            write!(text, ", {} dropped", number(&webhook["dropped"]))?;
        }
        match webhook["error"].as_str() {
            Some(error) => writeln!(text, "  FAILS: {error}")?,
            None => writeln!(text)?,
        }
    }
    Ok(())
}

fn write_space(text: &mut String, space: &Value) -> std::fmt::Result {
    if !space["free_bytes"].is_number() {
        return Ok(());
    }
    write!(
        text,
        "{} free of {}",
        octets(number(&space["free_bytes"])),
        octets(number(&space["total_bytes"])),
    )?;
    match space["standing"].as_str() {
        Some("scarce") => writeln!(text, ", FILLING UP"),
        Some("full") => writeln!(text, ", FULL: nothing is pushed any more"),
        _ => writeln!(text),
    }
}

fn write_upkeep(text: &mut String, upkeep: &Value) -> std::fmt::Result {
    for running in items(&upkeep["running"]) {
        writeln!(text, "{} is running", word(&running["task"]))?;
    }
    let of_sweep = |what: &str| upkeep.pointer(&format!("/last_sweep/report/{what}/blobs"));
    if let (Some(trashed), Some(deleted)) = (of_sweep("trashed"), of_sweep("deleted")) {
        let (trashed, deleted) = (counted(number(trashed), "blob"), number(deleted));
        writeln!(
            text,
            "last sweep: {trashed} to the trash, {deleted} deleted"
        )?;
    }
    if upkeep.pointer("/last_scrub/report/whole") == Some(&Value::Bool(false)) {
        writeln!(
            text,
            "last scrub: NOT EVERYTHING IS WHOLE: see `registry-svc verify`"
        )?;
    }
    Ok(())
}

fn write_cluster(text: &mut String, cluster: &Value) -> std::fmt::Result {
    if !cluster.is_object() {
        return Ok(());
    }
    write!(text, "node {}", word(&cluster["node"]))?;
    for (key, one, many) in [
        (
            "records_waiting",
            "record waits for content",
            "records wait for content",
        ),
        ("fetching", "blob is fetched", "blobs are fetched"),
        (
            "missing_blobs",
            "blob is nowhere to be had",
            "blobs are nowhere to be had",
        ),
    ] {
        if number(&cluster[key]) > 0 {
            write!(text, ", {}", counted_as(number(&cluster[key]), one, many))?;
        }
    }
    writeln!(text)?;
    for peer in items(&cluster["peers"]) {
        write!(
            text,
            "peer {} {}: ",
            word(&peer["name"]),
            word(&peer["address"])
        )?;
        match peer["connected"].as_bool() {
            Some(true) => write!(
                text,
                "connected, {} behind",
                counted(number(&peer["behind"]), "record")
            )?,
            _ => write!(text, "NOT CONNECTED ({})", word(&peer["error"]))?,
        }
        if let Some(lacks) = peer["lacks"].as_u64() {
            write!(text, ", lacks {lacks} of ours")?;
        }
        if number(&peer["differences"]) > 0 {
            write!(
                text,
                ", {}",
                counted(number(&peer["differences"]), "difference")
            )?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// The differences between two nodes, in lines.
#[must_use]
pub fn difference_lines(view: &Value) -> String {
    let mut text = String::new();
    let said = |value: &Value| match word(value) {
        "" => "-".to_owned(),
        said => said.to_owned(),
    };
    for one in items(&view["differences"]) {
        let (here, there) = (said(&one["here"]), said(&one["there"]));
        let _written = writeln!(text, "{}: here {here}, there {there}", word(&one["what"]));
    }
    text
}

/// Repositories in lines.
#[must_use]
pub fn repositories(view: &Value) -> String {
    items(&view["repositories"])
        .map(|repository| format!("{}\n", word(&repository["name"])))
        .collect()
}

/// The content of each repository, the largest first, with the sum at the end.
#[must_use]
pub fn usage(view: &Value) -> String {
    let mut all: Vec<&Value> = items(&view["repositories"]).collect();
    all.sort_by_key(|one| std::cmp::Reverse(number(&one["bytes"])));
    let total = &view["total"];
    let line = |name: &str, one: &Value| {
        format!(
            "{:>10}  {:>6} {:>6} {:>6}  {name}\n",
            octets(number(&one["bytes"])),
            number(&one["tags"]),
            number(&one["manifests"]),
            number(&one["blobs"]),
        )
    };
    let mut text = format!(
        "{:>10}  {:>6} {:>6} {:>6}\n",
        "size", "tags", "manif.", "blobs"
    );
    for one in all {
        text.push_str(&line(word(&one["name"]), one));
    }
    text.push_str(&line("in all; what is shared counts once", total));
    text
}

/// The tags of a repository in lines.
#[must_use]
pub fn tags(view: &Value) -> String {
    let mut text = String::new();
    for tag in items(&view["tags"]) {
        let _written = writeln!(
            text,
            "{}  {}  {}",
            word(&tag["tag"]),
            word(&tag["digest"]),
            word(&tag["pushed"]),
        );
    }
    text
}

/// A manifest in lines.
#[must_use]
pub fn manifest(view: &Value) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _written = write_manifest(&mut text, view);
    text
}

fn write_manifest(text: &mut String, view: &Value) -> std::fmt::Result {
    writeln!(text, "digest      {}", word(&view["digest"]))?;
    writeln!(text, "media type  {}", word(&view["mediaType"]))?;
    writeln!(text, "size        {}", octets(number(&view["size"])))?;
    for (key, name) in [("artifactType", "artifact"), ("subject", "subject")] {
        if let Some(value) = view[key].as_str() {
            writeln!(text, "{name:<12}{value}")?;
        }
    }
    let tags: Vec<&str> = items(&view["tags"]).map(word).collect();
    if !tags.is_empty() {
        writeln!(text, "tags        {}", tags.join(" "))?;
    }
    let manifest = &view["manifest"];
    if let Some(config) = manifest["config"].as_object() {
        let digest = config.get("digest").map_or("?", word);
        writeln!(text, "config      {digest}")?;
    }
    for (list, name) in [
        ("layers", "layer"),
        ("manifests", "manifest"),
        ("blobs", "blob"),
    ] {
        for one in items(&manifest[list]) {
            let size = octets(number(&one["size"]));
            write!(text, "{name:<12}{} {size:>10}", word(&one["digest"]))?;
            let platform = &one["platform"];
            if let (Some(os), Some(architecture)) =
                (platform["os"].as_str(), platform["architecture"].as_str())
            {
                write!(text, "  {os}/{architecture}")?;
            }
            writeln!(text)?;
        }
    }
    for referrer in items(&view["referrers"]) {
        let kind = referrer["artifactType"].as_str();
        let kind = kind.unwrap_or_else(|| word(&referrer["mediaType"]));
        writeln!(text, "referrer    {}  {kind}", word(&referrer["digest"]))?;
    }
    for missing in items(&view["missing"]) {
        writeln!(text, "MISSING     {}", word(missing))?;
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

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
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
        let status = json!({
            "service": "registry-svc", "version": "0.1.0", "revision": "1a2b3c4d5",
            "state": "serving", "ready": true, "uptime_seconds": 5.0,
            "detail": {
                "listen": ["127.0.0.1:5443"], "tls": true, "root": "/r", "read_only": true,
                "held": { "repositories": 2, "tags": 3, "manifests": 4, "blobs": 5, "bytes": 2048 },
                "requests": { "answered": 7, "received_bytes": 0, "sent_bytes": 1024 },
                "cluster": { "node": "a#1", "records_waiting": 2, "peers": [
                    { "name": "b", "address": "192.0.2.1:5444", "connected": true, "behind": 3, "lacks": 1 },
                    { "name": "c", "address": "192.0.2.2:5444", "connected": false, "error": "refused" },
                ] },
                "webhooks": [{ "name": "w", "delivered": 1, "waiting": 2, "dropped": 0, "error": "no answer" }],
            },
        });
        let text = render(&status);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "serves on 127.0.0.1:5443 (TLS)",
                "root /r, read-only",
                "holds 2 repositories, 3 tags, 4 manifests, 5 blobs, 2.0 KiB",
                "7 requests answered, 0 B received, 1.0 KiB sent",
                "node a#1, 2 records wait for content",
                "peer b 192.0.2.1:5444: connected, 3 records behind, lacks 1 of ours",
                "peer c 192.0.2.2:5444: NOT CONNECTED (refused)",
                "webhook w: 1 delivered, 2 wait  FAILS: no answer",
            ]
        );
        // Whatever a daemon of another version says, it is shown as far as it is understood.
        assert!(render(&json!({})).contains("serves on"));
    }

    #[test]
    fn usage_begins_with_the_largest() {
        let view = json!({
            "repositories": [
                { "name": "small", "tags": 1, "manifests": 1, "blobs": 1, "bytes": 10 },
                { "name": "large", "tags": 1, "manifests": 1, "blobs": 1, "bytes": 5000 },
            ],
            "total": { "tags": 2, "manifests": 2, "blobs": 2, "bytes": 5010 },
        });
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
        let view = json!({
            "digest": "sha256:a", "mediaType": "m", "size": 10, "tags": ["latest"],
            "subject": null, "referrers": [{ "digest": "sha256:r", "artifactType": "sbom" }],
            "missing": ["sha256:l"],
            "manifest": {
                "config": { "digest": "sha256:c" },
                "layers": [{ "digest": "sha256:l", "size": 2048 }],
            },
        });
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
        let index = json!({ "manifest": { "manifests": [
            { "digest": "sha256:x", "size": 1, "platform": { "os": "linux", "architecture": "arm64" } },
        ] } });
        assert!(manifest(&index).contains("linux/arm64"));
    }
}
