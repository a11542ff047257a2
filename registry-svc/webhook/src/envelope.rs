//! An event in the envelope that distribution posts
//! (`application/vnd.docker.distribution.events.v1+json`).

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

pub use config::registry_svc::EventAction;

/// The media type of an envelope.
pub const MEDIA_TYPE: &str = "application/vnd.docker.distribution.events.v1+json";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The action.
    pub action: EventAction,
    /// In which repository.
    pub repository: String,
    /// With which content; nothing when a tag alone went.
    pub digest: Option<String>,
    /// The media type of the content.
    pub media_type: String,
    /// How large it is.
    pub size: Option<u64>,
    /// Under which tag.
    pub tag: Option<String>,
    /// From which repository it was mounted.
    pub from: Option<String>,
    /// The user, if authenticated.
    pub actor: Option<Arc<str>>,
    /// The request that did it.
    pub request: RequestInfo,
}

/// The request that did something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The client's address.
    pub address: SocketAddr,
    /// The client's name for this registry.
    pub host: String,
    /// Its method.
    pub method: String,
    /// The client's name for itself.
    pub user_agent: String,
    /// Whether it was encrypted.
    pub is_tls: bool,
}

/// The common part of all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// A name that no other event has.
    pub id: String,
    /// When, as RFC 3339 has it.
    pub time: String,
    /// The node on which it happened.
    pub instance: Arc<str>,
}

/// The event as JSON.
#[must_use]
pub fn event(event: &Event, stamp: &Stamp) -> Value {
    let mut target = json!({
        "mediaType": event.media_type,
        "repository": event.repository,
    });
    let request = &event.request;
    if let Some(target) = target.as_object_mut() {
        if let Some(size) = event.size {
            target.insert("size".to_owned(), size.into());
            target.insert("length".to_owned(), size.into());
        }
        if let Some(digest) = &event.digest {
            target.insert("digest".to_owned(), digest.as_str().into());
            let kind =
                match event.media_type.contains("manifest") || event.media_type.contains("index") {
                    true => "manifests",
                    false => "blobs",
                };
            let scheme = if request.is_tls { "https" } else { "http" };
            let url = format!(
                "{scheme}://{}/v2/{}/{kind}/{digest}",
                request.host, event.repository
            );
            target.insert("url".to_owned(), url.into());
        }
        if let Some(tag) = &event.tag {
            target.insert("tag".to_owned(), tag.as_str().into());
        }
        if let Some(from) = &event.from {
            target.insert("fromRepository".to_owned(), from.as_str().into());
        }
    }
    let actor = match event.actor.as_deref() {
        Some(name) => json!({ "name": name }),
        None => json!({}),
    };
    json!({
        "id": stamp.id,
        "timestamp": stamp.time,
        "action": event.action.name(),
        "target": target,
        "request": {
            "id": stamp.id,
            "addr": request.address.to_string(),
            "host": request.host,
            "method": request.method,
            "useragent": request.user_agent,
        },
        "actor": actor,
        "source": { "addr": request.host, "instanceID": &*stamp.instance },
    })
}

/// Events, each JSON already, in one envelope.
#[must_use]
pub fn envelope(events: &[Vec<u8>]) -> Vec<u8> {
    let mut text = b"{\"events\":[".to_vec();
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(event);
    }
    text.extend_from_slice(b"]}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_as_distribution_writes_it() {
        let happened = Event {
            action: EventAction::Push,
            repository: "app/web".to_owned(),
            digest: Some("sha256:abc".to_owned()),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            size: Some(708),
            tag: Some("latest".to_owned()),
            from: None,
            actor: Some("alice".into()),
            request: RequestInfo {
                address: "192.0.2.9:40000".parse().unwrap(),
                host: "registry.example.org:5443".to_owned(),
                method: "PUT".to_owned(),
                user_agent: "skopeo/1.9".to_owned(),
                is_tls: true,
            },
        };
        let stamp = Stamp {
            id: "1".to_owned(),
            time: "2026-11-21T09:30:00.250Z".to_owned(),
            instance: "master-0".into(),
        };
        let value = event(&happened, &stamp);
        let expected = json!({
            "id": "1",
            "timestamp": "2026-11-21T09:30:00.250Z",
            "action": "push",
            "target": {
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "size": 708,
                "length": 708,
                "digest": "sha256:abc",
                "repository": "app/web",
                "url": "https://registry.example.org:5443/v2/app/web/manifests/sha256:abc",
                "tag": "latest",
            },
            "request": {
                "id": "1",
                "addr": "192.0.2.9:40000",
                "host": "registry.example.org:5443",
                "method": "PUT",
                "useragent": "skopeo/1.9",
            },
            "actor": { "name": "alice" },
            "source": { "addr": "registry.example.org:5443", "instanceID": "master-0" },
        });
        assert_eq!(value, expected);
        let both = envelope(&[value.to_string().into_bytes(), b"{}".to_vec()]);
        let both: Value = serde_json::from_slice(&both).unwrap();
        assert_eq!(both["events"][0], expected);
        assert_eq!(both["events"].as_array().unwrap().len(), 2);
        assert_eq!(envelope(&[]), b"{\"events\":[]}");
    }
}
