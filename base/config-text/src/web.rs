//! Text as URLs and pages take it.

use std::borrow::Cow;

/// Percent-encodes whatever could mean something in a query (RFC 3986 §2.1, §3.4).
#[must_use]
pub fn encoded(text: &str) -> String {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~/".contains(&octet);
    text.bytes()
        .map(|octet| match is_plain(octet) {
            true => char::from(octet).to_string(),
            false => format!("%{octet:02X}"),
        })
        .collect()
}

/// A path, which may have a query, with those parameters that have a value.
#[must_use]
pub fn with_query<V: AsRef<str>>(path: &str, parameters: &[(&str, Option<V>)]) -> String {
    let mut whole = path.to_owned();
    for (name, value) in parameters {
        if let Some(value) = value {
            whole.push(if whole.contains('?') { '&' } else { '?' });
            whole.push_str(name);
            whole.push('=');
            whole.push_str(&encoded(value.as_ref()));
        }
    }
    whole
}

/// Decodes percent-encoding (RFC 3986 §2.1); malformed sequences stay as they are.
#[must_use]
pub fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, after)) = rest.split_first() {
        let digits = match (octet, after.first_chunk::<2>()) {
            (b'%', Some(&[high, low])) => hex(high).zip(hex(low)),
            _ => None,
        };
        rest = match digits {
            Some((high, low)) => {
                octets.push(high << 4 | low);
                after.get(2..).unwrap_or_default()
            }
            None => {
                octets.push(octet);
                after
            }
        };
    }
    Cow::Owned(octets)
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The value of a parameter in a query or a form (`application/x-www-form-urlencoded`, WHATWG URL §5),
/// where `+` stands for a space; bytes that are not UTF-8 are replaced.
#[must_use]
pub fn parameter(text: &str) -> String {
    String::from_utf8_lossy(&decoded(&text.replace('+', " "))).into_owned()
}

/// Text that says nothing to a browser (HTML, "Serialising HTML fragments"), in an element and in the
/// value of an attribute.
#[must_use]
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for (text, expected) in [
            ("a/b-c_d.e~f", "a/b-c_d.e~f"),
            ("*.a b:c", "%2A.a%20b%3Ac"),
            ("a=b&c#d?+%", "a%3Db%26c%23d%3F%2B%25"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(encoded(text), expected);
            assert_eq!(parameter(expected), text);
        }
    }

    #[test]
    fn what_is_malformed_stays_as_it_is() {
        for (text, expected) in [
            ("%zz%4", "%zz%4"),
            ("%", "%"),
            ("%%41", "%A"),
            ("a+b", "a b"),
            ("%2B", "+"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(parameter(text), expected);
        }
        assert_eq!(&*decoded("a+b%FF"), b"a+b\xff");
    }

    #[test]
    fn a_query_has_the_parameters_that_are_given() {
        let none: [(&str, Option<&str>); 2] = [("a", None), ("b", None)];
        assert_eq!(with_query("/x", &none), "/x");
        let some = [("a", Some("1 2")), ("b", None), ("c", Some(""))];
        assert_eq!(with_query("/x", &some), "/x?a=1%202&c=");
        assert_eq!(with_query("/x?y=z", &some), "/x?y=z&a=1%202&c=");
    }

    #[test]
    fn markup_says_nothing_to_a_browser() {
        assert_eq!(
            markup("<a href=\"x\" id='y'>&amp;</a> ä"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt; ä"
        );
    }
}
