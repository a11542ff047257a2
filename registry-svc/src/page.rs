//! The page of what is kept: repositories, tags, manifests with their layers and referrers.
//!
//! For a browser without scripts. Everything that comes from a manifest or a name is escaped; nothing
//! is fetched from elsewhere.

use std::fmt::{self, Write as _};

use api::registry_svc::{Cluster, Descriptor, Document, Manifest, Repositories, Tags};
use config_text::web::{encoded, markup};
use config_text::{counted, counted_as};
use serde_json::Value;

use crate::status::octets;
use crate::views::Seen;

/// The path of the page.
pub const ROOT: &str = "/";
/// The path of a repository's page.
pub const REPOSITORY: &str = "/ui/repository";
/// The path of a manifest's page.
pub const MANIFEST: &str = "/ui/manifest";

/// More rows than this and a browser has nothing from them.
const ROWS: usize = 5000;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd}\
td.n,th.n{text-align:right;white-space:nowrap}code{font-size:.85em;word-break:break-all}\
a{color:#0645ad;text-decoration:none}a:hover{text-decoration:underline}.bad{color:#b00;font-weight:bold}\
pre{background:#f6f6f6;padding:1rem;overflow:auto}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}a{color:#8ab4f8}pre{background:#222}}";

/// The page of a view; the other nodes stand below the repositories.
#[must_use]
pub fn render(seen: &Seen, cluster: Option<&Cluster>) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _written = match seen {
        Seen::Repositories(seen) => repositories(&mut page, seen, cluster),
        Seen::Tags(seen) => tags(&mut page, seen),
        Seen::Manifest(seen) => manifest(&mut page, seen),
    };
    page
}

fn begin(page: &mut String, title: &str) -> fmt::Result {
    let title = markup(title);
    write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\
         <nav><a href=\"{ROOT}\">Repositories</a></nav><h1>{title}</h1>"
    )
}

fn end(page: &mut String) {
    page.push_str("</body></html>\n");
}

fn repositories(page: &mut String, seen: &Repositories, cluster: Option<&Cluster>) -> fmt::Result {
    begin(page, "Repositories")?;
    let total = &seen.total;
    write!(
        page,
        "<p>{}, {}, {}; {} in all, what is shared counted once.</p>\
         <table><thead><tr><th>Repository</th><th class=\"n\">Tags</th><th class=\"n\">Manifests</th>\
         <th class=\"n\">Blobs</th><th class=\"n\">Size</th></tr></thead><tbody>",
        counted(total.tags, "tag"),
        counted(total.manifests, "manifest"),
        counted(total.blobs, "blob"),
        octets(total.bytes),
    )?;
    for one in seen.repositories.iter().take(ROWS) {
        let held = &one.held;
        write!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            repository_link(&one.name),
            held.tags,
            held.manifests,
            held.blobs,
            octets(held.bytes),
        )?;
    }
    page.push_str("</tbody></table>");
    say_cut(page, seen.repositories.len())?;
    if let Some(cluster) = cluster {
        replication(page, cluster)?;
    }
    end(page);
    Ok(())
}

/// The other nodes.
fn replication(page: &mut String, cluster: &Cluster) -> fmt::Result {
    write!(
        page,
        "<h2>Replication</h2><p>This is node {}; {}, {}, \
         {} nowhere to be had.</p><table><thead><tr><th>Node</th><th>Address</th><th>State</th>\
         <th class=\"n\">Behind</th><th class=\"n\">Lacks</th><th class=\"n\">Differences</th></tr></thead><tbody>",
        markup(&cluster.node),
        counted_as(
            cluster.records_waiting,
            "record waits for content",
            "records wait for content"
        ),
        counted_as(
            cluster.fetching,
            "blob is being fetched",
            "blobs are being fetched"
        ),
        counted_as(cluster.missing_blobs, "is", "are"),
    )?;
    for peer in &cluster.peers {
        let state = match peer.connected {
            true => "connected".to_owned(),
            false => format!(
                "<span class=\"bad\">not connected</span> {}",
                markup(&peer.error)
            ),
        };
        write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{state}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            markup(&peer.name),
            markup(&peer.address),
            peer.behind,
            peer.lacks.unwrap_or_default(),
            peer.differences,
        )?;
    }
    page.push_str("</tbody></table>");
    Ok(())
}

fn tags(page: &mut String, seen: &Tags) -> fmt::Result {
    let repository = &seen.repository;
    begin(page, repository)?;
    page.push_str(
        "<table><thead><tr><th>Tag</th><th>Digest</th><th>Media type</th><th>Pushed</th></tr></thead><tbody>",
    );
    for tag in seen.tags.iter().take(ROWS) {
        write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            manifest_link(repository, &tag.tag, &markup(&tag.tag)),
            digest_link(repository, &tag.digest),
            markup(tag.media_type.as_deref().unwrap_or_default()),
            markup(&tag.pushed),
        )?;
    }
    page.push_str("</tbody></table>");
    say_cut(page, seen.tags.len())?;
    end(page);
    Ok(())
}

fn say_cut(page: &mut String, n: usize) -> fmt::Result {
    if n > ROWS {
        write!(page, "<p>The first {ROWS} of {n}.</p>")?;
    }
    Ok(())
}

fn manifest(page: &mut String, seen: &Manifest<Value>) -> fmt::Result {
    let repository = &seen.repository;
    begin(page, repository)?;
    write!(page, "<p>{}</p><table><tbody>", repository_link(repository))?;
    row(
        page,
        "Digest",
        &format!("<code>{}</code>", markup(&seen.digest)),
    )?;
    row(page, "Media type", &markup(&seen.media_type))?;
    row(page, "Size", &octets(seen.size))?;
    let tags: Vec<String> = seen.tags.iter().map(|tag| markup(tag)).collect();
    row(page, "Tags", &tags.join(" "))?;
    if let Some(kind) = &seen.artifact_type {
        row(page, "Artifact type", &markup(kind))?;
    }
    if let Some(subject) = &seen.subject {
        row(page, "Subject", &digest_link(repository, subject))?;
    }
    page.push_str("</tbody></table>");
    // A manifest of a kind of its own has none of these lists; it is printed below.
    let document: Document = serde_json::from_value(seen.manifest.clone()).unwrap_or_default();
    for (list, title) in [
        (&document.manifests, "Manifests"),
        (&document.layers, "Layers"),
        (&document.blobs, "Blobs"),
    ] {
        content(page, repository, title, list, &seen.missing)?;
    }
    if !seen.referrers.is_empty() {
        page.push_str("<h2>Referrers</h2><table><tbody>");
        for one in seen.referrers.iter().take(ROWS) {
            let kind = one.artifact_type.as_ref().unwrap_or(&one.media_type);
            write!(
                page,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
                digest_link(repository, &one.digest),
                markup(kind),
                octets(one.size),
            )?;
        }
        page.push_str("</tbody></table>");
    }
    write!(
        page,
        "<h2>Manifest</h2><pre>{}</pre>",
        markup(&format!("{:#}", seen.manifest))
    )?;
    end(page);
    Ok(())
}

/// A list of descriptors, if the manifest has it.
fn content(
    page: &mut String,
    repository: &str,
    title: &str,
    list: &[Descriptor],
    missing: &[String],
) -> fmt::Result {
    if list.is_empty() {
        return Ok(());
    }
    write!(page, "<h2>{title}</h2><table><tbody>")?;
    for one in list.iter().take(ROWS) {
        let shown = match title {
            "Manifests" => digest_link(repository, &one.digest),
            _ => format!("<code>{}</code>", markup(&one.digest)),
        };
        let lack = match missing.contains(&one.digest) {
            true => " <span class=\"bad\">missing</span>",
            false => "",
        };
        let platform = match &one.platform {
            Some(platform) => markup(&format!("{}/{}", platform.os, platform.architecture)),
            None => markup(one.media_type.as_deref().unwrap_or_default()),
        };
        write!(
            page,
            "<tr><td>{shown}{lack}</td><td>{platform}</td><td class=\"n\">{}</td></tr>",
            octets(one.size),
        )?;
    }
    page.push_str("</tbody></table>");
    Ok(())
}

/// A row of a name and what is markup already.
fn row(page: &mut String, name: &str, markup: &str) -> fmt::Result {
    write!(page, "<tr><th>{name}</th><td>{markup}</td></tr>")
}

fn repository_link(name: &str) -> String {
    format!(
        "<a href=\"{REPOSITORY}?repository={}\">{}</a>",
        encoded(name),
        markup(name)
    )
}

fn digest_link(repository: &str, digest: &str) -> String {
    let shown = format!("<code>{}</code>", markup(digest));
    manifest_link(repository, digest, &shown)
}

fn manifest_link(repository: &str, reference: &str, markup: &str) -> String {
    format!(
        "<a href=\"{MANIFEST}?repository={}&amp;reference={}\">{markup}</a>",
        encoded(repository),
        encoded(reference),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVIL: &str = "<script>alert('x')</script>\" onload=\"";

    fn manifest(seen: Value) -> Seen {
        Seen::Manifest(serde_json::from_value(seen).unwrap())
    }

    #[test]
    fn repositories_lead_to_their_tags() {
        let seen = serde_json::from_value(json!({
            "repositories": [{ "name": "a/b", "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 }],
            "total": { "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 },
        }));
        let page = render(&Seen::Repositories(seen.unwrap()), None);
        assert!(
            page.contains("<a href=\"/ui/repository?repository=a/b\">a/b</a>"),
            "{page}"
        );
        assert!(page.contains("4.0 KiB"));
        let seen = serde_json::from_value(json!({ "repository": "a/b", "tags": [
            { "tag": "v1", "digest": "sha256:d", "pushed": "2026-11-21T09:30:00.250Z" },
        ] }));
        let page = render(&Seen::Tags(seen.unwrap()), None);
        assert!(
            page.contains("/ui/manifest?repository=a/b&amp;reference=v1\">v1</a>"),
            "{page}"
        );
    }

    #[test]
    fn a_manifest_shows_layers_referrers_and_what_is_missing() {
        let seen = manifest(json!({
            "repository": "a/b", "digest": "sha256:d", "mediaType": "m", "size": 1,
            "tags": ["v1"], "artifactType": null, "subject": "sha256:s", "missing": ["sha256:l"],
            "referrers": [{ "digest": "sha256:r", "mediaType": "m", "artifactType": "sbom", "size": 1 }],
            "manifest": { "layers": [{ "digest": "sha256:l", "size": 2048, "mediaType": "t" }] },
        }));
        let page = render(&seen, None);
        for part in [
            "<h2>Layers</h2>",
            "<code>sha256:l</code> <span class=\"bad\">missing</span>",
            "<h2>Referrers</h2>",
            "reference=sha256%3Ar",
            "reference=sha256%3As",
        ] {
            assert!(page.contains(part), "{part} in\n{page}");
        }
    }

    #[test]
    fn nothing_that_is_shown_is_markup() {
        let seen = manifest(json!({
            "repository": EVIL, "digest": EVIL, "mediaType": EVIL, "size": 1, "tags": [EVIL],
            "artifactType": EVIL, "subject": EVIL, "missing": [EVIL],
            "referrers": [{ "digest": EVIL, "artifactType": EVIL, "mediaType": EVIL, "size": 1 }],
            "manifest": {
                "layers": [{ "digest": EVIL, "mediaType": EVIL, "platform": { "os": EVIL, "architecture": EVIL } }],
                "manifests": [{ "digest": EVIL }],
                "annotations": { "x": EVIL },
            },
        }));
        let tags = serde_json::from_value(json!({ "repository": EVIL, "tags": [
            { "tag": EVIL, "digest": EVIL, "pushed": EVIL, "mediaType": EVIL },
        ] }));
        let repositories = serde_json::from_value(json!({
            "repositories": [{ "name": EVIL, "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 }],
            "total": { "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 },
        }));
        let cluster: Cluster = serde_json::from_value(json!({
            "node": EVIL, "records_waiting": 0, "fetching": 0, "missing_blobs": 0,
            "peers": [{ "name": EVIL, "address": EVIL, "connected": false, "error": EVIL, "heard": EVIL,
                        "behind": 0, "lacks": null, "differences": 0, "missing_blobs": 0 }],
        }))
        .unwrap();
        for seen in [
            seen,
            Seen::Tags(tags.unwrap()),
            Seen::Repositories(repositories.unwrap()),
        ] {
            let page = render(&seen, Some(&cluster));
            assert!(!page.contains("<script"), "{page}");
            assert!(!page.contains("alert('"), "{page}");
            assert!(!page.contains("\" onload"), "{page}");
        }
    }

    #[test]
    fn an_empty_answer_is_still_a_page() {
        for page in [
            render(&Seen::Repositories(Repositories::default()), None),
            render(&Seen::Manifest(Box::default()), None),
        ] {
            assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        }
    }
}
