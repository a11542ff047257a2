//! `_catalog`: repositories that the client may pull from. Not of OCI's spec; Docker's has it, and
//! clients look for it.

use config_text::web::encoded;
use hyper::StatusCode;
use oci::reference::RepositoryName;
use serde_json::json;

use super::Call;
use super::answer::{self, Answer, Headers, JSON};
use super::limits::PAGE;
use super::tag::Page;
use crate::error::Refused;

/// Repositories that are looked at in one go, while most may be hidden from the client.
const STEP: usize = 1_000;

impl Call<'_> {
    /// `GET`, `HEAD`
    pub(super) fn catalog(&self) -> Result<Answer, Refused> {
        let page = Page::of(self.query, PAGE)?;
        let mut names = self.visible(page.after.as_deref(), page.length + 1);
        let more = page.cut(&mut names);
        let listed: Vec<&str> = names.iter().map(RepositoryName::as_str).collect();
        let body = json!({ "repositories": listed }).to_string();
        let mut answer = answer::octets(StatusCode::OK, JSON, body);
        if let Some(last) = more.and_then(|last| names.get(last)) {
            let (last, n) = (encoded(last.as_str()), page.length);
            answer
                .headers_mut()
                .next(format_args!("/v2/_catalog?last={last}&n={n}"));
        }
        Ok(answer)
    }

    fn listed(&self, names: Vec<RepositoryName>) -> Vec<RepositoryName> {
        let access = &self.api.parts.access;
        match &self.identity {
            Some(identity) => access.listed(identity, names),
            None => Vec::new(),
        }
    }

    fn visible(&self, after: Option<&str>, wanted: usize) -> Vec<RepositoryName> {
        let mut names: Vec<RepositoryName> = Vec::new();
        let mut after = after.map(str::to_owned);
        loop {
            let step = self.store().repositories(after.as_deref(), STEP);
            let is_last = step.len() < STEP;
            after = step.last().map(|name| name.as_str().to_owned());
            let visible = self.listed(step);
            let room = wanted.saturating_sub(names.len());
            names.extend(visible.into_iter().take(room));
            if is_last || names.len() >= wanted {
                return names;
            }
        }
    }
}
