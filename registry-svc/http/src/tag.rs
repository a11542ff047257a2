//! Tags of a repository (distribution-spec, end-8), and how lists are cut into pages.

use config_text::web::encoded;
use hyper::StatusCode;
use oci::reference::{RepositoryName, Tag};
use serde_json::json;

use super::Call;
use super::answer::{self, Answer, Headers, JSON};
use super::limits::PAGE;
use super::query::Query;
use crate::error::{Code, Refused};

/// The requested part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Names up to and with this one are left away; it need not be there.
    pub(super) after: Option<String>,
    /// The most names.
    pub(super) length: usize,
}

impl Page {
    /// Reads `n` and `last`, within a bound.
    pub(super) fn of(query: Query<'_>, most: usize) -> Result<Self, Refused> {
        let length = match query.first("n") {
            Some(n) if n.is_empty() || !n.bytes().all(|digit| digit.is_ascii_digit()) => {
                return Err(Refused::with(Code::Unsupported, "n is not a number").status(400));
            }
            // A number beyond all lists asks for as much as there is.
            Some(n) => n.parse().unwrap_or(usize::MAX),
            None => most,
        };
        let after = query.first("last").filter(|last| !last.is_empty());
        Ok(Self {
            after: after.map(std::borrow::Cow::into_owned),
            length: length.min(most),
        })
    }

    /// Cuts `names`, of which one more was asked for than belongs here, to the page's length; the
    /// last one's place, if there are more.
    pub(super) fn cut<T>(&self, names: &mut Vec<T>) -> Option<usize> {
        let has_more = names.len() > self.length;
        names.truncate(self.length);
        (has_more && self.length > 0).then(|| self.length - 1)
    }
}

impl Call<'_> {
    /// `GET`, `HEAD`
    pub(super) fn tags(&self, name: &RepositoryName) -> Result<Answer, Refused> {
        let page = Page::of(self.query, PAGE)?;
        let found = self
            .store()
            .tags(name, page.after.as_deref(), page.length + 1)?;
        let mut tags = found.ok_or(Code::NameUnknown)?;
        let more = page.cut(&mut tags);
        let names: Vec<&str> = tags.iter().map(Tag::as_str).collect();
        let body = json!({ "name": name.as_str(), "tags": names }).to_string();
        let mut answer = answer::octets(StatusCode::OK, JSON, body);
        if let Some(last) = more.and_then(|last| tags.get(last)) {
            let (last, n) = (encoded(last.as_str()), page.length);
            answer
                .headers_mut()
                .next(format_args!("/v2/{name}/tags/list?last={last}&n={n}"));
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Result<Page, u16> {
        Page::of(Query::written(query), 100).map_err(|refused| refused.status)
    }

    #[test]
    fn a_page_is_what_is_asked_for_within_its_bound() {
        let of = |after: Option<&str>, length| {
            Ok(Page {
                after: after.map(str::to_owned),
                length,
            })
        };
        assert_eq!(page(""), of(None, 100));
        assert_eq!(page("n=7"), of(None, 7));
        assert_eq!(page("n=0"), of(None, 0));
        assert_eq!(page("n=1000"), of(None, 100));
        assert_eq!(page("n=99999999999999999999999"), of(None, 100));
        assert_eq!(page("last=a&n=7"), of(Some("a"), 7));
        assert_eq!(page("last="), of(None, 100));
        for query in ["n=", "n=-1", "n=a", "n=1.5", "n=+1"] {
            assert_eq!(page(query), Err(400), "{query}");
        }
    }

    #[test]
    fn a_page_knows_whether_there_is_more() {
        let cut = |length, n: usize| {
            let page = Page {
                after: None,
                length,
            };
            let mut names: Vec<usize> = (0..n).collect();
            let more = page.cut(&mut names);
            (names.len(), more)
        };
        assert_eq!(cut(3, 4), (3, Some(2)));
        assert_eq!(cut(3, 3), (3, None));
        assert_eq!(cut(3, 0), (0, None));
        assert_eq!(cut(0, 1), (0, None));
    }
}
