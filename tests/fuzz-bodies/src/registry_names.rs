//! Any text as what names content: paths, queries, repositories, tags, digests, sessions.

use config_text::web::encoded;
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_facts::name::UploadId;
use registry_http::query::Query;
use registry_http::router::{Route, unescape};

pub(super) const WORDS: &[&str] = &[
    "/v2/",
    "blobs/uploads/",
    "/manifests/",
    "/tags/list",
    "/referrers/",
    "sha256:",
    "sha512:",
    "%2F",
    "..",
    "__",
    "node-1-",
];

pub(super) fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    path(text);
    name(text);
    let written = format!("x={}", encoded(text));
    assert_eq!(Query::written(&written).first("x").as_deref(), Some(text));
    let query = Query::written(text);
    assert!(query.count("tag") >= usize::from(query.first("tag").is_some()));
}

fn path(text: &str) {
    drop(unescape(text));
    let Some(route) = Route::of(text, "/token") else {
        return;
    };
    assert!(text == "/token" || text.starts_with("/v2"), "{text}");
    assert!(!route.allow().is_empty());
    if let Some(repository) = route.repository()
        && let Ok(repository) = repository.parse::<RepositoryName>()
    {
        // A name that is taken leads back to the same repository, and out of no directory.
        let again = format!("/v2/{repository}/tags/list");
        let found =
            Route::of(&again, "/token").and_then(|route| route.repository().map(str::to_owned));
        assert_eq!(found.as_deref(), Some(repository.as_str()));
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        assert!(repository.as_str().split('/').all(is_plain), "{repository}");
    }
}

fn name(text: &str) {
    if let Ok(repository) = text.parse::<RepositoryName>() {
        assert_eq!(repository.as_str(), text);
    }
    if let Ok(tag) = text.parse::<Tag>() {
        assert!(
            tag.as_str() == text && !text.contains(['/', ':', '\0']),
            "{text}"
        );
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.to_string(), text);
        assert!(digest.fallback_tag().parse::<Tag>().is_ok());
    }
    if let Ok(id) = text.parse::<UploadId>() {
        assert_eq!(id.to_string(), text);
        assert!(!text.contains(['/', '\0']), "{text}");
    }
    drop(text.parse::<Reference>());
}
