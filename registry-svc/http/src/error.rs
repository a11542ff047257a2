//! Responses to requests that fail: the distribution-spec's error codes and the status that goes
//! with each.
//!
//! An answer never holds a path of this machine or the text of one of its errors: every message
//! here is written for the client.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use oci::digest::Digest;
use oci::manifest::ManifestError;
use serde_json::{Value, json};

/// The codes of distribution-spec v1.1, Error Codes; there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A blob that the repository does not have.
    BlobUnknown,
    /// A chunk that does not follow what is there.
    BlobUploadInvalid,
    /// An upload session that is not there.
    BlobUploadUnknown,
    /// A malformed digest, or not the content's.
    DigestInvalid,
    /// A manifest that refers to what is not there.
    ManifestBlobUnknown,
    /// A manifest that cannot be stored.
    ManifestInvalid,
    /// A manifest or tag that the repository does not have.
    ManifestUnknown,
    /// A name that is no repository's.
    NameInvalid,
    /// A repository that is not there.
    NameUnknown,
    /// A length that is not the content's, or more than is taken.
    SizeInvalid,
    /// The client has to authenticate.
    Unauthorized,
    /// The client may not.
    Denied,
    /// Nothing that is done here.
    Unsupported,
    /// Later.
    TooManyRequests,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::BlobUnknown,
        Self::BlobUploadInvalid,
        Self::BlobUploadUnknown,
        Self::DigestInvalid,
        Self::ManifestBlobUnknown,
        Self::ManifestInvalid,
        Self::ManifestUnknown,
        Self::NameInvalid,
        Self::NameUnknown,
        Self::SizeInvalid,
        Self::Unauthorized,
        Self::Denied,
        Self::Unsupported,
        Self::TooManyRequests,
    ];

    /// The code as it is sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BlobUnknown => "BLOB_UNKNOWN",
            Self::BlobUploadInvalid => "BLOB_UPLOAD_INVALID",
            Self::BlobUploadUnknown => "BLOB_UPLOAD_UNKNOWN",
            Self::DigestInvalid => "DIGEST_INVALID",
            Self::ManifestBlobUnknown => "MANIFEST_BLOB_UNKNOWN",
            Self::ManifestInvalid => "MANIFEST_INVALID",
            Self::ManifestUnknown => "MANIFEST_UNKNOWN",
            Self::NameInvalid => "NAME_INVALID",
            Self::NameUnknown => "NAME_UNKNOWN",
            Self::SizeInvalid => "SIZE_INVALID",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Denied => "DENIED",
            Self::Unsupported => "UNSUPPORTED",
            Self::TooManyRequests => "TOOMANYREQUESTS",
        }
    }

    /// The status that it comes with, unless the request has one of its own.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BlobUnknown
            | Self::BlobUploadUnknown
            | Self::ManifestUnknown
            | Self::NameUnknown => 404,
            Self::DigestInvalid
            | Self::ManifestBlobUnknown
            | Self::ManifestInvalid
            | Self::NameInvalid
            | Self::SizeInvalid => 400,
            Self::BlobUploadInvalid => 416,
            Self::Unauthorized => 401,
            Self::Denied => 403,
            Self::Unsupported => 405,
            Self::TooManyRequests => 429,
        }
    }

    /// The text of the code.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::BlobUnknown => "blob unknown to the repository",
            Self::BlobUploadInvalid => "the chunk does not follow what is there",
            Self::BlobUploadUnknown => "upload session unknown to the registry",
            Self::DigestInvalid => "the digest does not match the content",
            Self::ManifestBlobUnknown => "the manifest refers to content that is not there",
            Self::ManifestInvalid => "manifest invalid",
            Self::ManifestUnknown => "manifest unknown to the repository",
            Self::NameInvalid => "invalid repository name",
            Self::NameUnknown => "repository name not known to the registry",
            Self::SizeInvalid => "the length does not match the content",
            Self::Unauthorized => "authentication required",
            Self::Denied => "access to the resource is denied",
            Self::Unsupported => "the operation is unsupported",
            Self::TooManyRequests => "too many requests",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry of an answer's `errors`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The error's code.
    pub code: Code,
    /// In words.
    pub message: Cow<'static, str>,
    /// Details for programs.
    pub detail: Option<Value>,
}

/// The response to a request that fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The body's entries; none for what the spec has no code for.
    pub entries: Vec<Entry>,
    /// When to come again.
    pub retry_after: Option<Duration>,
    /// Whether the connection ends because the rest of the request is not read.
    pub closes: bool,
}

impl Refused {
    /// `code`, with its usual status and words.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Self::with(code, code.message())
    }

    /// `code`, with its usual status and other words.
    #[must_use]
    pub fn with(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: code.status(),
            entries: vec![Entry {
                code,
                message: message.into(),
                detail: None,
            }],
            retry_after: None,
            closes: false,
        }
    }

    /// A failure of the server, of which the client learns the status alone.
    #[must_use]
    pub fn internal() -> Self {
        Self::plain(500)
    }

    /// A status that the spec has no code for.
    #[must_use]
    pub fn plain(status: u16) -> Self {
        Self {
            status,
            entries: Vec::new(),
            retry_after: None,
            closes: false,
        }
    }

    /// No room on the disk: 507, or 429 when the sweep is about to make some.
    #[must_use]
    pub fn full(is_passing: bool) -> Self {
        match is_passing {
            true => Self::with(Code::TooManyRequests, "storage is being freed").after(FULL_RETRY),
            false => Self::with(Code::Denied, "insufficient storage").status(507),
        }
        .closing()
    }

    /// More than a repository or a tenant may have: 403.
    #[must_use]
    pub fn over_quota(wanted: u64, left: u64) -> Self {
        let detail = json!({ "bytes": wanted, "left": left });
        Self::with(Code::Denied, "quota exceeded")
            .detail(detail)
            .closing()
    }

    /// Every blob and manifest that a manifest wants and that is not there.
    #[must_use]
    pub fn missing(digests: &[Digest]) -> Self {
        let code = Code::ManifestBlobUnknown;
        let entry = |digest: &Digest| Entry {
            code,
            message: Cow::Borrowed(code.message()),
            detail: Some(json!({ "digest": digest.to_string() })),
        };
        Self {
            status: code.status(),
            entries: digests.iter().take(MOST_ENTRIES).map(entry).collect(),
            retry_after: None,
            closes: false,
        }
    }

    /// With another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With details.
    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        if let Some(entry) = self.entries.first_mut() {
            entry.detail = Some(detail);
        }
        self
    }

    /// With a time to come again.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// With the end of the connection.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// The first code.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.entries.first().map(|entry| entry.code)
    }

    /// The body, in the spec's form; empty for what has no code.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let entry = |entry: &Entry| {
            let mut object = json!({
                "code": entry.code.as_str(),
                "message": entry.message,
            });
            if let (Some(detail), Some(object)) = (&entry.detail, object.as_object_mut()) {
                object.insert("detail".to_owned(), detail.clone());
            }
            object
        };
        let errors: Vec<Value> = self.entries.iter().map(entry).collect();
        json!({ "errors": errors }).to_string().into_bytes()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entries.first() {
            Some(entry) => write!(f, "{} {}: {}", self.status, entry.code, entry.message),
            None => write!(f, "{}", self.status),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

/// A sweep takes seconds; clients that honour `Retry-After` come five times.
const FULL_RETRY: Duration = Duration::from_secs(5);

/// A manifest of megabytes may lack ten thousand blobs; the client needs the first ones.
const MOST_ENTRIES: usize = 32;

impl From<ManifestError> for Refused {
    fn from(error: ManifestError) -> Self {
        Self::with(Code::ManifestInvalid, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn codes_are_those_of_the_spec() {
        let names = Code::ALL.map(Code::as_str);
        assert_eq!(names.len(), 14);
        for code in Code::ALL {
            assert!(
                code.as_str()
                    .bytes()
                    .all(|c| c.is_ascii_uppercase() || c == b'_')
            );
            assert!((400..500).contains(&code.status()), "{code}");
        }
    }

    #[test]
    fn a_body_has_the_form_of_the_spec() {
        let refused = Refused::with(Code::NameInvalid, "no").detail(json!({ "name": "A" }));
        let body: Value = serde_json::from_slice(&refused.body()).unwrap();
        let expected = json!({ "errors": [{
            "code": "NAME_INVALID", "message": "no", "detail": { "name": "A" }
        }] });
        assert_eq!(body, expected);
        let plain: Value = serde_json::from_slice(&Refused::new(Code::Denied).body()).unwrap();
        assert!(plain["errors"][0].get("detail").is_none());
    }

    #[test]
    fn a_full_disk_is_507_or_429_and_ends_the_connection() {
        let lasting = Refused::full(false);
        assert_eq!((lasting.status, lasting.code()), (507, Some(Code::Denied)));
        assert_eq!((lasting.closes, lasting.retry_after), (true, None));
        let passing = Refused::full(true);
        assert_eq!(
            (passing.status, passing.code()),
            (429, Some(Code::TooManyRequests))
        );
        assert_eq!(
            (passing.closes, passing.retry_after),
            (true, Some(Duration::from_secs(5)))
        );
        assert_eq!(Refused::over_quota(10, 3).status, 403);
    }

    #[test]
    fn what_is_missing_is_listed_within_a_bound() {
        let digest = |n: u8| Digest::of(Algorithm::Sha256, &[n]);
        let digests: Vec<Digest> = (0..100).map(digest).collect();
        let refused = Refused::missing(&digests);
        assert_eq!((refused.status, refused.entries.len()), (400, 32));
        let body: Value = serde_json::from_slice(&refused.body()).unwrap();
        assert_eq!(body["errors"][1]["detail"]["digest"], digest(1).to_string());
        assert_eq!(body["errors"][1]["code"], "MANIFEST_BLOB_UNKNOWN");
    }

    #[test]
    fn a_failure_of_the_server_says_nothing() {
        assert_eq!(Refused::internal().status, 500);
        assert!(Refused::internal().body().is_empty());
    }
}
