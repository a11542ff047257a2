//! The credentials of HTTP Basic (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A name with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Basic {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

// A password that can be printed is printed some day.
impl std::fmt::Debug for Basic {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Basic");
        shown.field("user", &self.user).finish_non_exhaustive()
    }
}

impl Basic {
    /// Reads the value of `Authorization`; none for another scheme, or credentials that cannot be read.
    #[must_use]
    pub fn read(value: &str) -> Option<Self> {
        let (scheme, rest) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let octets = STANDARD.decode(rest.trim()).ok()?;
        let text = String::from_utf8(octets).ok()?;
        // A password may have colons (RFC 7617 §2).
        let (user, password) = text.split_once(':')?;
        Some(Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_and_anything_else_is_none() {
        let read = |text: &str| Basic::read(&format!("bAsIc  {}", STANDARD.encode(text)));
        let alice = read("alice:a:b").unwrap();
        assert_eq!(
            (alice.user.as_str(), alice.password.as_str()),
            ("alice", "a:b")
        );
        assert_eq!(read("alice"), None);
        for value in ["", "Basic", "Basic !", "Bearer YTpi", "Basic /w=="] {
            assert_eq!(Basic::read(value), None, "{value}");
        }
        assert!(!format!("{alice:?}").contains("a:b"));
    }
}
