//! `_catalog`: repositories that the client may pull from. Not of OCI's spec; Docker's has it, and
//! clients look for it.

use hyper::StatusCode;
use serde_json::json;

use super::answer::{self, Answer, Headers, JSON};
use super::limits::PAGE;
use super::query::escape;
use super::tag::Page;
use super::Call;
use crate::auth::Action;
use crate::error::Refused;
use crate::reference::RepositoryName;

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
            let (last, n) = (escape(last.as_str()), page.length);
            answer
                .headers_mut()
                .next(format_args!("/v2/_catalog?last={last}&n={n}"));
        }
        Ok(answer)
    }

    fn visible(&self, after: Option<&str>, wanted: usize) -> Vec<RepositoryName> {
        let mut names: Vec<RepositoryName> = Vec::new();
        let mut after = after.map(str::to_owned);
        loop {
            let step = self.store().repositories(after.as_deref(), STEP);
            let is_last = step.len() < STEP;
            after = step.last().map(|name| name.as_str().to_owned());
            let visible = step
                .into_iter()
                .filter(|name| self.may(name.as_str(), Action::Pull));
            names.extend(visible.take(wanted - names.len()));
            if is_last || names.len() >= wanted {
                return names;
            }
        }
    }
}
