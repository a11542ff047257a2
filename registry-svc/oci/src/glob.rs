//! Patterns of repository names.
//!
//! `*` stands for any characters of one path component, `**` for any characters at all, `?` for one
//! character that is no slash; `a/**` matches `a` too. Nothing else is special, since names have
//! no other characters than `[a-z0-9._/-]`.

use std::fmt;

/// The longest pattern: names are at most 255 characters long (distribution-spec, "Pulling
/// manifests").
const LONGEST: usize = 255;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    weight: usize,
}

/// A text that is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing at all.
    #[error("a pattern of repositories is empty; \"**\" is every repository")]
    Empty,
    /// Longer than any name.
    #[error("a pattern of repositories has at most {LONGEST} characters")]
    Long,
    /// A character that no name has.
    #[error(
        "`{0}` is in no repository's name; small letters, digits, . _ - / and the wildcards * ** ? are"
    )]
    Character(char),
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When no name could match it.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let is_known =
            |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/*?".contains(*c);
        if text.is_empty() {
            return Err(GlobError::Empty);
        }
        if text.len() > LONGEST {
            return Err(GlobError::Long);
        }
        if let Some(odd) = text.chars().find(|c| !is_known(c)) {
            return Err(GlobError::Character(odd));
        }
        Ok(Self {
            text: text.to_owned(),
            weight: text.bytes().filter(|byte| !b"*?".contains(byte)).count(),
        })
    }

    /// How many characters are no wildcards: the more, the more it says.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Whether a name fits.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let pattern = self.text.as_bytes();
        let is_base = pattern
            .strip_suffix(b"/**")
            .is_some_and(|base| fits(base, name.as_bytes()));
        is_base || fits(pattern, name.as_bytes())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The place to continue from when the text after a wildcard does not fit.
#[derive(Clone, Copy)]
struct Retry<'a> {
    pattern: &'a [u8],
    name: &'a [u8],
}

/// Whether a name fits a pattern as it stands, the base of `a/**` not among them. Goes back to the last `*` of a component, and where that is used up to the last `**`: no more
/// than the product of both lengths is compared.
pub fn fits<'a>(mut pattern: &'a [u8], mut name: &'a [u8]) -> bool {
    let mut component: Option<Retry<'a>> = None;
    let mut path: Option<Retry<'a>> = None;
    loop {
        match (pattern, name) {
            ([b'*', b'*', rest @ ..], _) => {
                pattern = rest;
                path = Some(Retry { pattern, name });
                component = None;
            }
            ([b'*', rest @ ..], _) => {
                pattern = rest;
                component = Some(Retry { pattern, name });
            }
            ([b'?', rest @ ..], [byte, after @ ..]) if *byte != b'/' => {
                (pattern, name) = (rest, after);
            }
            ([wanted, rest @ ..], [byte, after @ ..]) if wanted == byte => {
                (pattern, name) = (rest, after);
            }
            ([], []) => return true,
            _ => {
                if let Some(Retry {
                    pattern: after,
                    name: [byte, rest @ ..],
                }) = component
                    && *byte != b'/'
                {
                    component = Some(Retry {
                        pattern: after,
                        name: rest,
                    });
                    (pattern, name) = (after, rest);
                } else if let Some(Retry {
                    pattern: after,
                    name: [_, rest @ ..],
                }) = path
                {
                    path = Some(Retry {
                        pattern: after,
                        name: rest,
                    });
                    component = None;
                    (pattern, name) = (after, rest);
                } else {
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_paths_do() {
        let cases = [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a/b", false),
            ("*", "a", true),
            ("*", "a/b", false),
            ("**", "a", true),
            ("**", "a/b/c", true),
            ("a/*", "a/b", true),
            ("a/*", "a", false),
            ("a/*", "a/b/c", false),
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("a/**", "ab/c", false),
            ("**/x", "a/b/x", true),
            ("**/x", "x", false),
            ("**x", "x", true),
            ("a/**/x", "a/b/c/x", true),
            ("a/**/x", "a/b/c/y", false),
            ("a-?", "a-1", true),
            ("a-?", "a-12", false),
            ("a?b", "a/b", false),
            ("*-dev/app*", "team-dev/app-1", true),
            ("*-dev/app*", "team-dev/other/app", false),
            ("*a*b", "xaxb", true),
            ("*a*b/*c", "aab/xc", true),
            ("**a*/b", "x/ya/za/b", true),
            ("a**", "abc/d", true),
            ("", "", false),
        ];
        for (pattern, name, expected) in cases {
            let matches = Glob::parse(pattern).is_ok_and(|glob| glob.matches(name));
            assert_eq!(matches, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_wildcards_end_soon() {
        let pattern = Glob::parse(&"*a".repeat(120)).unwrap();
        assert!(!pattern.matches(&"a".repeat(119)));
        assert!(pattern.matches(&"a".repeat(120)));
        let pattern = Glob::parse(&"**a".repeat(80)).unwrap();
        assert!(!pattern.matches(&"a/".repeat(120)));
    }

    #[test]
    fn what_no_name_can_match_is_refused() {
        assert_eq!(Glob::parse(""), Err(GlobError::Empty));
        assert_eq!(Glob::parse("Abc"), Err(GlobError::Character('A')));
        assert_eq!(Glob::parse("a b"), Err(GlobError::Character(' ')));
        assert_eq!(Glob::parse(&"a".repeat(256)), Err(GlobError::Long));
    }

    #[test]
    fn weight_counts_what_is_no_wildcard() {
        let weight = |text| Glob::parse(text).unwrap().weight();
        assert_eq!(weight("**"), 0);
        assert!(weight("ocp4/secret/*") > weight("ocp4/**"));
    }
}
