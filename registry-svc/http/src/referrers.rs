//! Manifests whose subject is a digest (distribution-spec, end-12).
//!
//! Old clients kept a list of referrers under a fallback tag; entries of it that are in the
//! repository belong to the response too.

use std::collections::BTreeMap;

use config_text::web::encoded;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use oci::digest::Digest;
use oci::manifest;
use oci::manifest::{Descriptor, OCI_INDEX};
use oci::reference::{Reference, RepositoryName};

use super::Call;
use super::answer::{self, Answer, FILTERS, Headers};
use super::limits::{REFERRERS_PAGE, REFERRERS_SIZE};
use super::tag::Page;
use crate::error::Refused;

const INDEX: HeaderValue = HeaderValue::from_static(OCI_INDEX);

const ARTIFACT_TYPE: HeaderValue = HeaderValue::from_static("artifactType");

/// Digests of referrers that are looked up at once.
const STEP: usize = 1_000;

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
        let asked = Asked {
            after,
            kind: wanted.as_deref(),
            most: page.length,
        };
        let mut listed = self.list(name, subject, &asked).await?;
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

    /// The referrers of a page, in the order of their digests: up to the first that does not fit.
    /// Reads each manifest by itself and keeps only its entry.
    async fn list(
        &self,
        name: &RepositoryName,
        subject: &Digest,
        asked: &Asked<'_>,
    ) -> Result<Vec<Descriptor>, Refused> {
        let mut others = self.under_fallback_tag(name, subject).await?;
        let mut list = List::default();
        let mut after = asked.after;
        loop {
            let digests = self
                .store()
                .referrers(name, subject, after.as_ref(), STEP)?;
            let is_last = digests.len() < STEP;
            for digest in digests {
                after = Some(digest);
                while let Some(entry) = others.first_entry()
                    && *entry.key() < digest
                {
                    list.add(asked, entry.remove());
                }
                let reference = Reference::Digest(digest);
                let Some(stored) = self.manifest(name, &reference).await? else {
                    continue;
                };
                // It was read when it was pushed, and its octets are the same.
                if let Ok(read) = manifest::parse(&stored.bytes, Some(&stored.media_type)) {
                    others.remove(&digest);
                    let size = stored.bytes.len() as u64;
                    list.add(asked, read.descriptor(digest, size));
                }
                if list.is_beyond(asked.most) {
                    return Ok(list.entries);
                }
            }
            if is_last {
                break;
            }
        }
        for entry in others.into_values() {
            list.add(asked, entry);
        }
        Ok(list.entries)
    }

    /// The entries of lists by clients that are in the repository.
    async fn under_fallback_tag(
        &self,
        name: &RepositoryName,
        subject: &Digest,
    ) -> Result<BTreeMap<Digest, Descriptor>, Refused> {
        let mut listed = BTreeMap::new();
        let Ok(tag) = subject.fallback_tag().parse() else {
            return Ok(listed);
        };
        let Some(stored) = self.manifest(name, &Reference::Tag(tag)).await? else {
            return Ok(listed);
        };
        // Anything may have been pushed under such a tag; an image is no list.
        for entry in manifest::descriptors(&stored.bytes).unwrap_or_default() {
            let reference = Reference::Digest(entry.digest);
            if self.store().media_type(name, &reference)?.is_some() {
                listed.insert(entry.digest, entry);
            }
        }
        Ok(listed)
    }
}

/// The requested referrers.
struct Asked<'a> {
    /// Those up to and with this one are left away.
    after: Option<Digest>,
    /// Those of other types are left away.
    kind: Option<&'a str>,
    /// The most referrers.
    most: usize,
}

/// The referrers that were found.
#[derive(Default)]
struct List {
    entries: Vec<Descriptor>,
    /// Their size in a response.
    size: usize,
}

impl List {
    fn add(&mut self, asked: &Asked<'_>, entry: Descriptor) {
        let is_asked_for = asked.after.is_none_or(|after| entry.digest > after)
            && (asked.kind.is_none() || entry.artifact_type.as_deref() == asked.kind);
        if is_asked_for {
            self.size += octets_of(&entry);
            self.entries.push(entry);
        }
    }

    /// Whether there are more than a page holds.
    fn is_beyond(&self, most: usize) -> bool {
        self.entries.len() > most || (self.size > REFERRERS_SIZE && self.entries.len() > 1)
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
    /// The most bytes that one byte takes: `\u0000`.
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
