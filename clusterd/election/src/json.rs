//! The object of the API.

use serde_json::{Value, json};

use crate::{Lease, Seen};

/// An answer that is no Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no Lease: {0}")]
pub struct NotLease(String);

/// The longest holder that is kept; client-go's have a host's name and a UUID.
const LONGEST: usize = 1024;

/// Reads a Lease.
///
/// # Errors
/// When it is no JSON, or has no version.
pub fn read(octets: &[u8]) -> Result<Seen, NotLease> {
    let value: Value =
        serde_json::from_slice(octets).map_err(|error| NotLease(error.to_string()))?;
    let text = |path: &str| {
        let text = value.pointer(path).and_then(Value::as_str);
        let text = text.unwrap_or_default();
        text.chars().take(LONGEST).collect::<String>()
    };
    let number = |path: &str| value.pointer(path).and_then(Value::as_u64);
    let version = text("/metadata/resourceVersion");
    if version.is_empty() {
        return Err(NotLease("it has no metadata.resourceVersion".to_owned()));
    }
    Ok(Seen {
        lease: Lease {
            holder: text("/spec/holderIdentity"),
            duration: number("/spec/leaseDurationSeconds").unwrap_or_default(),
            transitions: number("/spec/leaseTransitions").unwrap_or_default(),
            acquired: text("/spec/acquireTime"),
            renewed: text("/spec/renewTime"),
        },
        version,
    })
}

/// The object to write; without a version it is a new one.
#[must_use]
pub fn object(lease: &Lease, namespace: &str, name: &str, version: Option<&str>) -> Value {
    let mut metadata = json!({"namespace": namespace, "name": name});
    if let (Some(version), Some(fields)) = (version, metadata.as_object_mut()) {
        fields.insert("resourceVersion".to_owned(), version.into());
    }
    let time = |text: &str| match text.is_empty() {
        true => Value::Null,
        false => text.into(),
    };
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.duration,
            "leaseTransitions": lease.transitions,
            "acquireTime": time(&lease.acquired),
            "renewTime": time(&lease.renewed),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_back() {
        let lease = Lease {
            holder: "a".to_owned(),
            duration: 15,
            transitions: 3,
            acquired: "2026-01-01T00:00:00.000000Z".to_owned(),
            renewed: "2026-01-01T00:00:02.000000Z".to_owned(),
        };
        let written = object(&lease, "kube-system", "l", Some("7")).to_string();
        let read = read(written.as_bytes()).unwrap();
        assert_eq!((read.lease, read.version.as_str()), (lease, "7"));
        let new = object(&Lease::default(), "kube-system", "l", None);
        assert_eq!(new["metadata"].get("resourceVersion"), None);
        assert_eq!(
            new["spec"]["renewTime"],
            Value::Null,
            "an empty text is no time"
        );
    }

    #[test]
    fn what_is_no_lease_is_refused_and_what_is_missing_is_nothing() {
        for bad in [
            &b"{"[..],
            b"[]",
            b"null",
            b"{\"metadata\": {\"resourceVersion\": 7}}",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let bare = read(b"{\"metadata\": {\"resourceVersion\": \"7\"}, \"spec\": null}").unwrap();
        assert_eq!(bare.lease, Lease::default());
    }
}
