//! Events of requests, for webhooks.

use hyper::header::{HOST, USER_AGENT};
use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use registry_webhook::{Event, EventAction, RequestInfo};

use super::Call;

/// Something that was done to content.
pub(super) struct Done<'a> {
    pub(super) action: EventAction,
    pub(super) repository: &'a RepositoryName,
    pub(super) digest: Option<&'a Digest>,
    pub(super) media_type: &'a str,
    pub(super) size: Option<u64>,
    pub(super) tag: Option<&'a Tag>,
    pub(super) from: Option<&'a RepositoryName>,
}

/// The media type of blobs: a registry does not know their own.
pub(super) const BLOB: &str = "application/octet-stream";

impl<'a> Done<'a> {
    /// Something done to a blob or a manifest.
    pub(super) fn to(
        action: EventAction,
        repository: &'a RepositoryName,
        digest: &'a Digest,
        media_type: &'a str,
    ) -> Self {
        Self {
            action,
            repository,
            digest: Some(digest),
            media_type,
            size: None,
            tag: None,
            from: None,
        }
    }

    /// With its size.
    pub(super) fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }
}

impl Call<'_> {
    /// Queues an event; never waits.
    pub(super) fn tell(&self, done: &Done<'_>) {
        let events = &self.api.parts.events;
        // The node that the client reached reports a forwarded request.
        if !events.is_wanted() || self.peer.node.is_some() {
            return;
        }
        let text = |name| self.header(name).unwrap_or_default().to_owned();
        let authority = self.head.uri.authority().map(ToString::to_string);
        events.notify(Event {
            action: done.action,
            repository: done.repository.as_str().to_owned(),
            digest: done.digest.map(ToString::to_string),
            media_type: done.media_type.to_owned(),
            size: done.size,
            tag: done.tag.map(|tag| tag.as_str().to_owned()),
            from: done.from.map(|from| from.as_str().to_owned()),
            actor: self
                .identity
                .as_ref()
                .and_then(|who| who.name())
                .map(Into::into),
            request: RequestInfo {
                address: self.peer.address,
                host: authority.unwrap_or_else(|| text(&HOST)),
                method: self.head.method.to_string(),
                user_agent: text(&USER_AGENT),
                is_tls: self.peer.is_tls,
            },
        });
    }
}
