//! Answers: status and headers of the distribution API.

use std::fmt::Display;

use bytes::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, LOCATION,
    RETRY_AFTER,
};
use hyper::{Response, StatusCode};
use oci::digest::Digest;

use super::body::Body;
use crate::error::Refused;

/// An answer to a client.
pub(super) type Answer = Response<Body>;

/// The digest of what is answered.
pub(super) const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
/// The upload session.
pub(super) const UPLOAD: HeaderName = HeaderName::from_static("docker-upload-uuid");
/// The subject that a pushed manifest was listed for.
pub(super) const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
/// The tags that a pushed manifest was given.
pub(super) const TAG: HeaderName = HeaderName::from_static("oci-tag");
/// The filters that were applied to referrers.
pub(super) const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");
/// The registry that is mirrored, if the client named it.
pub(super) const NAMESPACE: HeaderName = HeaderName::from_static("oci-namespace");
/// The header that Docker's clients check.
pub(super) const VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");

/// JSON of the API's own.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    // 204 has no length (RFC 9110 §8.6), and no need of one.
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(CONTENT_LENGTH, value(0));
    }
    answer
}

/// An answer with octets.
pub(super) fn octets(status: StatusCode, kind: HeaderValue, octets: impl Into<Bytes>) -> Answer {
    let octets = octets.into();
    let length = octets.len();
    let mut answer = Response::new(Body::from(octets));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer.headers_mut().insert(CONTENT_LENGTH, value(length));
    answer
}

/// The response to a request that fails.
pub(super) fn refused(refused: &Refused) -> Answer {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = match refused.entries.is_empty() {
        true => empty(status),
        false => octets(status, JSON, refused.body()),
    };
    let headers = answer.headers_mut();
    if let Some(wait) = refused.retry_after {
        headers.insert(RETRY_AFTER, value(wait.as_secs().max(1)));
    }
    if refused.closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// `text` as a header's value; empty if it cannot be one, which nothing that is written here is.
pub(super) fn value(text: impl Display) -> HeaderValue {
    HeaderValue::from_str(&text.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Headers that an answer about content has.
pub(super) trait Headers {
    /// `name: text`.
    fn set(&mut self, name: HeaderName, text: impl Display);

    /// Sets the address of the content.
    fn locate(&mut self, path: impl Display) {
        self.set(LOCATION, path);
    }

    /// The content's digest.
    fn digest(&mut self, digest: &Digest) {
        self.set(DIGEST, digest);
    }

    /// Sets the address of the rest of a list.
    fn next(&mut self, path: impl Display) {
        self.set(LINK, format_args!("<{path}>; rel=\"next\""));
    }
}

impl Headers for HeaderMap {
    fn set(&mut self, name: HeaderName, text: impl Display) {
        self.insert(name, value(text));
    }
}

/// The entity tag of immutable content.
pub(super) fn entity_tag(digest: &Digest) -> String {
    format!("\"{digest}\"")
}

/// Whether a list of entity tags has the content's (RFC 9110 §13.1.2, weak comparison).
pub(super) fn lists(header: &str, digest: &Digest) -> bool {
    let wanted = digest.to_string();
    header.split(',').map(str::trim).any(|listed| {
        let listed = listed.strip_prefix("W/").unwrap_or(listed);
        // Some clients leave the quotes away.
        listed == "*" || listed.trim_matches('"') == wanted
    })
}

/// The same by strong comparison (RFC 9110 §13.1.1), for which a weak tag is none.
pub(super) fn lists_strongly(header: &str, digest: &Digest) -> bool {
    let strong = |listed: &str| !listed.trim().starts_with("W/") && lists(listed, digest);
    header.split(',').any(strong)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Code;

    fn digest() -> Digest {
        format!("sha256:{}", "0".repeat(64)).parse().unwrap()
    }

    #[test]
    fn entity_tags_are_compared_weakly_and_strongly() {
        let digest = digest();
        let tag = entity_tag(&digest);
        for header in [
            tag.clone(),
            format!("W/{tag}"),
            format!("\"a\", {tag}"),
            "*".to_owned(),
            digest.to_string(),
        ] {
            assert!(lists(&header, &digest), "{header}");
        }
        for header in ["", "\"a\"", "\"sha256:0\"", "W/\"b\", \"c\""] {
            assert!(!lists(header, &digest), "{header}");
        }
        for (header, is_listed) in [
            (tag.clone(), true),
            (format!("\"a\", {tag}"), true),
            ("*".to_owned(), true),
            (format!("W/{tag}"), false),
            (format!("\"a\",W/{tag}"), false),
            ("\"a\"".to_owned(), false),
        ] {
            assert_eq!(lists_strongly(&header, &digest), is_listed, "{header}");
        }
    }

    #[test]
    fn a_refusal_says_when_to_come_again_and_that_the_connection_ends() {
        let refusal = Refused::new(Code::TooManyRequests)
            .after(Duration::from_secs(5))
            .closing();
        let answer = refused(&refusal);
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()[RETRY_AFTER], "5");
        assert_eq!(answer.headers()[CONNECTION], "close");
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
        let answer = refused(&Refused::internal());
        assert_eq!(answer.headers()[CONTENT_LENGTH], "0");
        assert!(!answer.headers().contains_key(CONNECTION));
    }

    #[test]
    fn no_content_has_no_length() {
        assert!(
            !empty(StatusCode::NO_CONTENT)
                .headers()
                .contains_key(CONTENT_LENGTH)
        );
        assert_eq!(empty(StatusCode::ACCEPTED).headers()[CONTENT_LENGTH], "0");
    }
}
