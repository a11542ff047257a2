//! Parameters in a query or a form (`application/x-www-form-urlencoded`, WHATWG URL §5).

use config_text::web::parameter;

/// More parameters than this are no request for a token.
const MOST: usize = 128;

/// Parameters, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads `a=b&c=d`; malformed parts stay as they are.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(MOST);
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(
            pairs
                .map(|(name, value)| (parameter(name), parameter(value)))
                .collect(),
        )
    }

    /// The first value of a name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_may_repeat() {
        let form =
            Form::parse("scope=repository%3Aa%2Fb%3Apull&scope=x+y&service=s&empty&&odd=%zz%4");
        let scopes: Vec<&str> = form.all("scope").collect();
        assert_eq!(scopes, ["repository:a/b:pull", "x y"]);
        assert_eq!(form.first("service"), Some("s"));
        assert_eq!(form.first("empty"), Some(""));
        assert_eq!(form.first("odd"), Some("%zz%4"));
        assert_eq!(form.first("none"), None);
        assert_eq!(Form::parse(&"a=1&".repeat(1000)).all("a").count(), MOST);
    }
}
