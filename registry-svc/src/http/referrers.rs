//! Manifests whose subject is a digest (distribution-spec, end-12).
//!
//! Clients that knew no better kept a list of them under a fallback tag; what stands there and is
//! in the repository belongs to the answer too.

use std::collections::BTreeMap;

use config_text::web::encoded;
use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::Call;
use super::answer::{self, Answer, FILTERS, Headers};
use super::limits::{REFERRERS_PAGE, REFERRERS_SIZE};
use super::tag::Page;
use crate::digest::Digest;
use crate::error::Refused;
use crate::manifest::{self, Descriptor, OCI_INDEX};
use crate::reference::{Reference, RepositoryName};

const INDEX: HeaderValue = HeaderValue::from_static(OCI_INDEX);

const ARTIFACT_TYPE: HeaderValue = HeaderValue::from_static("artifactType");

impl Call<'_> {
    /// `GET`, `HEAD`: always a list, also for what is not there.
    pub(super) async fn referrers(
        &self,
        name: &RepositoryName,
        subject: &Digest,
    ) -> Result<Answer, Refused> {
        let page = Page::of(self.query, REFERRERS_PAGE)?;
        let after = page
            .after
            .as_ref()
            .and_then(|last| last.parse::<Digest>().ok());
        let wanted = self
            .query
            .first("artifactType")
            .filter(|kind| !kind.is_empty());
        let all = self.list(name, subject).await?;
        let mut listed: Vec<Descriptor> = all
            .into_values()
            .filter(|listed| after.is_none_or(|after| listed.digest > after))
            .filter(|listed| {
                wanted.is_none() || listed.artifact_type.as_deref() == wanted.as_deref()
            })
            .collect();
        let page = within_size(page, &listed);
        let more = page.cut(&mut listed);
        let mut answer = answer::octets(StatusCode::OK, INDEX, manifest::index_of(&listed));
        let headers = answer.headers_mut();
        if wanted.is_some() {
            headers.insert(FILTERS, ARTIFACT_TYPE);
        }
        if let Some(last) = more.and_then(|last| listed.get(last)) {
            let kind = wanted.map_or_else(String::new, |kind| {
                format!("&artifactType={}", encoded(&kind))
            });
            let (last, n) = (last.digest, page.length);
            headers.next(format_args!(
                "/v2/{name}/referrers/{subject}?last={last}&n={n}{kind}"
            ));
        }
        Ok(answer)
    }

    /// Every referrer, by its digest.
    async fn list(
        &self,
        name: &RepositoryName,
        subject: &Digest,
    ) -> Result<BTreeMap<Digest, Descriptor>, Refused> {
        let mut listed = self.under_fallback_tag(name, subject).await?;
        for stored in self.store().referrers(name, subject).await? {
            // It was read when it was pushed, and its octets are the same.
            let Ok(read) = manifest::parse(&stored.bytes, Some(&stored.media_type)) else {
                continue;
            };
            let size = stored.bytes.len() as u64;
            listed.insert(stored.digest, read.descriptor(stored.digest, size));
        }
        Ok(listed)
    }

    /// What clients have listed themselves, as far as it is there.
    async fn under_fallback_tag(
        &self,
        name: &RepositoryName,
        subject: &Digest,
    ) -> Result<BTreeMap<Digest, Descriptor>, Refused> {
        let mut listed = BTreeMap::new();
        let Ok(tag) = subject.fallback_tag().parse() else {
            return Ok(listed);
        };
        let store = self.store();
        let Some(stored) = store.manifest(name, &Reference::Tag(tag)).await? else {
            return Ok(listed);
        };
        // Anything may have been pushed under such a tag; an image is no list.
        for entry in manifest::descriptors(&stored.bytes).unwrap_or_default() {
            let reference = Reference::Digest(entry.digest);
            if store.manifest(name, &reference).await?.is_some() {
                listed.insert(entry.digest, entry);
            }
        }
        Ok(listed)
    }
}

/// A page that is no longer than an answer may be, and never empty for that.
fn within_size(page: Page, listed: &[Descriptor]) -> Page {
    let mut size = 0;
    let fits = |entry: &&Descriptor| {
        size += octets_of(entry);
        size <= REFERRERS_SIZE
    };
    let length = listed.iter().take_while(fits).count().max(1);
    Page {
        length: page.length.min(length),
        ..page
    }
}

/// About as long as it is in JSON, and never less.
fn octets_of(entry: &Descriptor) -> usize {
    /// Names of members, digest and size.
    const FIXED: usize = 320;
    /// What an octet becomes at most: `\u0000`.
    const ESCAPED: usize = 6;
    let annotations = entry.annotations.iter();
    let texts: usize = annotations
        .map(|(key, value)| key.len() + value.len() + 6)
        .sum();
    let types = entry.media_type.len() + entry.artifact_type.as_deref().unwrap_or("").len();
    FIXED + types + texts + escapes(entry) * ESCAPED
}

/// Octets of annotations that JSON writes longer than they are.
fn escapes(entry: &Descriptor) -> usize {
    let annotations = entry.annotations.iter();
    let octets = annotations.flat_map(|(key, value)| key.bytes().chain(value.bytes()));
    octets
        .filter(|octet| octet.is_ascii_control() || matches!(octet, b'"' | b'\\'))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(annotation: &str) -> Descriptor {
        Descriptor {
            media_type: "application/vnd.example+json".to_owned(),
            digest: format!("sha512:{}", "a".repeat(128)).parse().unwrap(),
            size: u64::MAX,
            artifact_type: Some("application/vnd.example.sbom".to_owned()),
            annotations: BTreeMap::from([("org.example.\"a\"".to_owned(), annotation.to_owned())]),
        }
    }

    #[test]
    fn an_entry_is_never_longer_than_it_is_taken_for() {
        for annotation in ["", "short", "\"\\\n\0\u{1f}", "ä€😀"] {
            let one = entry(annotation);
            let listed = manifest::index_of(&[one.clone(), one.clone()]).len();
            let single = manifest::index_of(std::slice::from_ref(&one)).len();
            assert!(octets_of(&one) >= listed - single, "{annotation:?}");
        }
    }

    #[test]
    fn an_answer_is_cut_before_it_is_too_long_and_never_empty() {
        let page = Page {
            after: None,
            length: 100,
        };
        let large = entry(&"x".repeat(REFERRERS_SIZE / 2));
        let cut = within_size(page.clone(), &[large.clone(), large]);
        assert_eq!(cut.length, 1);
        let huge = entry(&"x".repeat(REFERRERS_SIZE + 1));
        assert_eq!(within_size(page.clone(), &[huge]).length, 1);
        assert_eq!(within_size(page, &[entry(""), entry("")]).length, 2);
    }
}
