//! Parameters of a request: `?n=10&last=a`.

use std::borrow::Cow;

use super::router::unescape;

/// The parameters, in the order in which they are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// Those of a URI.
    #[must_use]
    pub fn of(uri: &'a hyper::Uri) -> Self {
        Self(uri.query().unwrap_or_default())
    }

    /// As it is written behind the question mark.
    #[must_use]
    pub fn written(query: &'a str) -> Self {
        Self(query)
    }

    /// The first value of `name`.
    #[must_use]
    pub fn first(self, name: &str) -> Option<Cow<'a, str>> {
        self.all(name).next()
    }

    /// Every value of `name`. Leaves out values that are not UTF-8.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        let pairs = self.0.split('&').filter(|pair| !pair.is_empty());
        pairs.filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (plain(key)?.as_ref() == name)
                .then(|| plain(value))
                .flatten()
        })
    }

    /// How many there are of `name`.
    #[must_use]
    pub fn count(self, name: &str) -> usize {
        self.all(name).count()
    }
}

/// Forms write a space as `+`.
fn plain(text: &str) -> Option<Cow<'_, str>> {
    match text.contains('+') {
        false => unescape(text),
        true => unescape(&text.replace('+', " ")).map(|text| Cow::Owned(text.into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use config_text::web::encoded;

    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let query = Query("n=10&last=a%2Fb&tag=x&tag=y&flag&e=a+b&&=z");
        assert_eq!(query.first("n").as_deref(), Some("10"));
        assert_eq!(query.first("last").as_deref(), Some("a/b"));
        assert_eq!(query.all("tag").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!((query.count("tag"), query.count("none")), (2, 0));
        assert_eq!(query.first("flag").as_deref(), Some(""));
        assert_eq!(query.first("e").as_deref(), Some("a b"));
        assert_eq!(query.first("none"), None);
        assert_eq!(Query::default().first("n"), None);
        assert_eq!(Query("a=%ff").first("a"), None);
    }

    #[test]
    fn what_is_escaped_reads_as_it_was() {
        for text in [
            "",
            "latest",
            "application/vnd.a+json; b=c&d",
            "sha256:00",
            "ä %41",
        ] {
            let written = format!("x={}", encoded(text));
            assert_eq!(
                Query(&written).first("x").as_deref(),
                Some(text),
                "{written}"
            );
        }
    }
}
