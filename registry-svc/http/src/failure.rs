//! Failures of the store and of access, as responses.

use std::error::Error;
use std::time::Duration;

use hyper::header::WWW_AUTHENTICATE;
use registry_auth::Refusal;
use registry_store::space::Full;
use registry_store::{StoreError, Subject};

use super::answer::{self, Answer};
use crate::error::{Code, Refused};

/// When a session that another request writes to may be free.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// The time after which abandoned sessions may have ended.
const SESSIONS_RETRY: Duration = Duration::from_secs(30);

/// The time after which a read-only store may accept pushes: an operator has to look after its
/// disk.
const READ_ONLY_RETRY: Duration = Duration::from_secs(60);

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown(subject) => Self::new(match subject {
                Subject::Blob => Code::BlobUnknown,
                Subject::Upload => Code::BlobUploadUnknown,
                Subject::Manifest => Code::ManifestUnknown,
                Subject::Name => Code::NameUnknown,
            }),
            StoreError::DigestMismatch { actual } => Self::new(Code::DigestInvalid)
                .detail(serde_json::json!({ "actual": actual.to_string() })),
            StoreError::OutOfOrder { .. } => Self::new(Code::BlobUploadInvalid),
            StoreError::Busy => Self::with(
                Code::TooManyRequests,
                "the upload session is being written to",
            )
            .after(BUSY_RETRY)
            .closing(),
            StoreError::TooMany => Self::with(Code::TooManyRequests, "too many upload sessions")
                .after(SESSIONS_RETRY)
                .closing(),
            StoreError::MissingBlobs(missing) => Self::missing(&missing),
            StoreError::Body(_) => Self::plain(400).closing(),
            StoreError::ReadOnly => Self::plain(503).after(READ_ONLY_RETRY).closing(),
            StoreError::Full => Self::full(false),
            error => {
                tracing::error!(error = &error as &dyn Error, "Store failed");
                Self::internal().closing()
            }
        }
    }
}

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        match full {
            Full::Disk { is_passing } => Self::full(is_passing),
            Full::Quota { wanted, left } => Self::over_quota(wanted, left),
        }
    }
}

/// The response to a client without the right, or without authentication.
pub(super) fn refusal(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Unauthorized { challenge } => {
            let mut answer = answer::refused(&Refused::new(Code::Unauthorized));
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            answer
        }
        Refusal::Denied => answer::refused(&Refused::new(Code::Denied)),
        Refusal::Busy { retry_after } => {
            answer::refused(&Refused::new(Code::TooManyRequests).after(retry_after))
        }
    }
}
