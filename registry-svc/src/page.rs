//! The page of what is kept: repositories, tags, manifests with their layers and referrers.
//!
//! For a browser without scripts. Everything that comes from a manifest or a name is escaped; nothing
//! is fetched from elsewhere.

use std::fmt::{self, Write as _};

use config_text::web::{encoded, markup};
use config_text::{counted, counted_as};
use serde_json::Value;

use crate::status::octets;
use crate::views::View;

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

/// The page for a view and what was seen.
#[must_use]
pub fn render(view: &View, seen: &Value) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _written = match view {
        View::Repositories => repositories(&mut page, seen),
        View::Tags { .. } => tags(&mut page, seen),
        View::Manifest { .. } => manifest(&mut page, seen),
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

fn repositories(page: &mut String, seen: &Value) -> fmt::Result {
    begin(page, "Repositories")?;
    let total = &seen["total"];
    write!(
        page,
        "<p>{}, {}, {}; {} in all, what is shared counted once.</p>\
         <table><thead><tr><th>Repository</th><th class=\"n\">Tags</th><th class=\"n\">Manifests</th>\
         <th class=\"n\">Blobs</th><th class=\"n\">Size</th></tr></thead><tbody>",
        counted(number(&total["tags"]), "tag"),
        counted(number(&total["manifests"]), "manifest"),
        counted(number(&total["blobs"]), "blob"),
        octets(number(&total["bytes"])),
    )?;
    for one in items(&seen["repositories"]).take(ROWS) {
        let name = word(&one["name"]);
        write!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            repository_link(name),
            number(&one["tags"]),
            number(&one["manifests"]),
            number(&one["blobs"]),
            octets(number(&one["bytes"])),
        )?;
    }
    page.push_str("</tbody></table>");
    say_cut(page, items(&seen["repositories"]).count())?;
    replication(page, &seen["cluster"])?;
    end(page);
    Ok(())
}

/// The other nodes, if there are any.
fn replication(page: &mut String, cluster: &Value) -> fmt::Result {
    if !cluster.is_object() {
        return Ok(());
    }
    write!(
        page,
        "<h2>Replication</h2><p>This is node {}; {}, {}, \
         {} nowhere to be had.</p><table><thead><tr><th>Node</th><th>Address</th><th>State</th>\
         <th class=\"n\">Behind</th><th class=\"n\">Lacks</th><th class=\"n\">Differences</th></tr></thead><tbody>",
        markup(word(&cluster["node"])),
        counted_as(
            number(&cluster["records_waiting"]),
            "record waits for content",
            "records wait for content"
        ),
        counted_as(
            number(&cluster["fetching"]),
            "blob is being fetched",
            "blobs are being fetched"
        ),
        counted_as(number(&cluster["missing_blobs"]), "is", "are"),
    )?;
    for peer in items(&cluster["peers"]) {
        let state = match peer["connected"].as_bool() {
            Some(true) => "connected".to_owned(),
            _ => format!(
                "<span class=\"bad\">not connected</span> {}",
                markup(peer["error"].as_str().unwrap_or_default())
            ),
        };
        write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{state}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            markup(word(&peer["name"])),
            markup(word(&peer["address"])),
            number(&peer["behind"]),
            number(&peer["lacks"]),
            number(&peer["differences"]),
        )?;
    }
    page.push_str("</tbody></table>");
    Ok(())
}

fn tags(page: &mut String, seen: &Value) -> fmt::Result {
    let repository = word(&seen["repository"]);
    begin(page, repository)?;
    page.push_str(
        "<table><thead><tr><th>Tag</th><th>Digest</th><th>Media type</th><th>Pushed</th></tr></thead><tbody>",
    );
    for tag in items(&seen["tags"]).take(ROWS) {
        let name = word(&tag["tag"]);
        let digest = word(&tag["digest"]);
        write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            manifest_link(repository, name, &markup(name)),
            digest_link(repository, digest),
            markup(tag["mediaType"].as_str().unwrap_or_default()),
            markup(word(&tag["pushed"])),
        )?;
    }
    page.push_str("</tbody></table>");
    say_cut(page, items(&seen["tags"]).count())?;
    end(page);
    Ok(())
}

fn say_cut(page: &mut String, n: usize) -> fmt::Result {
    if n > ROWS {
        write!(page, "<p>The first {ROWS} of {n}.</p>")?;
    }
    Ok(())
}

fn manifest(page: &mut String, seen: &Value) -> fmt::Result {
    let repository = word(&seen["repository"]);
    begin(page, repository)?;
    write!(page, "<p>{}</p><table><tbody>", repository_link(repository))?;
    row(
        page,
        "Digest",
        &format!("<code>{}</code>", markup(word(&seen["digest"]))),
    )?;
    row(page, "Media type", &markup(word(&seen["mediaType"])))?;
    row(page, "Size", &octets(number(&seen["size"])))?;
    let tags: Vec<String> = items(&seen["tags"]).map(|tag| markup(word(tag))).collect();
    row(page, "Tags", &tags.join(" "))?;
    if let Some(kind) = seen["artifactType"].as_str() {
        row(page, "Artifact type", &markup(kind))?;
    }
    if let Some(subject) = seen["subject"].as_str() {
        row(page, "Subject", &digest_link(repository, subject))?;
    }
    page.push_str("</tbody></table>");
    let missing: Vec<&str> = items(&seen["missing"]).map(word).collect();
    let document = &seen["manifest"];
    for (list, title) in [
        ("manifests", "Manifests"),
        ("layers", "Layers"),
        ("blobs", "Blobs"),
    ] {
        content(page, repository, title, &document[list], &missing)?;
    }
    if items(&seen["referrers"]).next().is_some() {
        page.push_str("<h2>Referrers</h2><table><tbody>");
        for one in items(&seen["referrers"]).take(ROWS) {
            let kind = one["artifactType"].as_str();
            let kind = kind
                .or_else(|| one["mediaType"].as_str())
                .unwrap_or_default();
            write!(
                page,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
                digest_link(repository, word(&one["digest"])),
                markup(kind),
                octets(number(&one["size"])),
            )?;
        }
        page.push_str("</tbody></table>");
    }
    write!(
        page,
        "<h2>Manifest</h2><pre>{}</pre>",
        markup(&format!("{document:#}"))
    )?;
    end(page);
    Ok(())
}

/// A list of descriptors, if the manifest has it.
fn content(
    page: &mut String,
    repository: &str,
    title: &str,
    list: &Value,
    missing: &[&str],
) -> fmt::Result {
    if items(list).next().is_none() {
        return Ok(());
    }
    write!(page, "<h2>{title}</h2><table><tbody>")?;
    for one in items(list).take(ROWS) {
        let digest = word(&one["digest"]);
        let shown = match title {
            "Manifests" => digest_link(repository, digest),
            _ => format!("<code>{}</code>", markup(digest)),
        };
        let lack = match missing.contains(&digest) {
            true => " <span class=\"bad\">missing</span>",
            false => "",
        };
        let platform = &one["platform"];
        let platform = match (platform["os"].as_str(), platform["architecture"].as_str()) {
            (Some(os), Some(architecture)) => markup(&format!("{os}/{architecture}")),
            _ => markup(one["mediaType"].as_str().unwrap_or_default()),
        };
        write!(
            page,
            "<tr><td>{shown}{lack}</td><td>{platform}</td><td class=\"n\">{}</td></tr>",
            octets(number(&one["size"])),
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
    use serde_json::json;

    use super::*;

    const EVIL: &str = "<script>alert('x')</script>\" onload=\"";

    fn view() -> View {
        View::Manifest {
            repository: "a/b".parse().unwrap(),
            reference: "latest".parse().unwrap(),
        }
    }

    #[test]
    fn repositories_lead_to_their_tags() {
        let seen = json!({
            "repositories": [{ "name": "a/b", "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 }],
            "total": { "tags": 1, "manifests": 2, "blobs": 3, "bytes": 4096 },
        });
        let page = render(&View::Repositories, &seen);
        assert!(
            page.contains("<a href=\"/ui/repository?repository=a/b\">a/b</a>"),
            "{page}"
        );
        assert!(page.contains("4.0 KiB"));
        let tags = View::Tags {
            repository: "a/b".parse().unwrap(),
        };
        let seen = json!({ "repository": "a/b", "tags": [
            { "tag": "v1", "digest": "sha256:d", "pushed": "2026-11-21T09:30:00.250Z" },
        ] });
        let page = render(&tags, &seen);
        assert!(
            page.contains("/ui/manifest?repository=a/b&amp;reference=v1\">v1</a>"),
            "{page}"
        );
    }

    #[test]
    fn a_manifest_shows_layers_referrers_and_what_is_missing() {
        let seen = json!({
            "repository": "a/b", "digest": "sha256:d", "mediaType": "m", "size": 1,
            "tags": ["v1"], "subject": "sha256:s", "missing": ["sha256:l"],
            "referrers": [{ "digest": "sha256:r", "artifactType": "sbom", "size": 1 }],
            "manifest": { "layers": [{ "digest": "sha256:l", "size": 2048, "mediaType": "t" }] },
        });
        let page = render(&view(), &seen);
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
        let seen = json!({
            "repository": EVIL, "digest": EVIL, "mediaType": EVIL, "size": 1, "tags": [EVIL],
            "artifactType": EVIL, "subject": EVIL, "missing": [EVIL],
            "referrers": [{ "digest": EVIL, "artifactType": EVIL, "mediaType": EVIL }],
            "repositories": [{ "name": EVIL }],
            "cluster": { "node": EVIL, "peers": [{ "name": EVIL, "address": EVIL, "error": EVIL }] },
            "total": {},
            "manifest": {
                "layers": [{ "digest": EVIL, "mediaType": EVIL, "platform": { "os": EVIL, "architecture": EVIL } }],
                "manifests": [{ "digest": EVIL }],
                "annotations": { "x": EVIL },
            },
        });
        let tags = View::Tags {
            repository: "a".parse().unwrap(),
        };
        for view in [View::Repositories, tags, view()] {
            let page = render(&view, &seen);
            assert!(!page.contains("<script"), "{page}");
            assert!(!page.contains("alert('"), "{page}");
            assert!(!page.contains("\" onload"), "{page}");
        }
    }

    #[test]
    fn an_empty_answer_is_still_a_page() {
        for page in [
            render(&View::Repositories, &Value::Null),
            render(&view(), &json!({})),
        ] {
            assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        }
    }
}
