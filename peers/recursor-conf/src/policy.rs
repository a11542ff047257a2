//! Response policies: the files that recursor.yml names.

use std::path::PathBuf;

/// A response policy zone in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The file.
    pub file: PathBuf,
    /// The zone in it.
    pub zone: String,
    /// The consequence of its rules (`defpol`).
    pub action: Action,
}

/// The consequence of the rules of a response policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// That of each rule.
    Given,
    /// No response.
    Drop,
    /// The name is answered as if there were no rules.
    NoAction,
    /// The name has no records of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// Over UDP the response is truncated.
    Truncate,
}

impl Action {
    /// The action that `defpol` names; none for `Custom` and for any other word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "drop" => Self::Drop,
            "noaction" => Self::NoAction,
            "nodata" => Self::NoData,
            "nxdomain" => Self::NxDomain,
            "truncate" => Self::Truncate,
            _ => return None,
        })
    }
}

/// The name of the zone in a master file: the owner of its SOA record.
pub(crate) fn apex(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut origin: Option<String> = None;
    let mut owner: Option<String> = None;
    for line in text.lines() {
        let line = line.split(';').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let is_continued = line.starts_with([' ', '\t']);
        let Some(first) = words.clone().next() else {
            continue;
        };
        if first.eq_ignore_ascii_case("$ORIGIN") {
            origin = words.nth(1).map(str::to_owned);
            continue;
        }
        if first.starts_with('$') {
            continue;
        }
        if !is_continued {
            owner = words.next().map(str::to_owned);
        }
        // TTL and class stand between the owner and the type.
        if words.take(3).any(|word| word.eq_ignore_ascii_case("SOA")) {
            return match owner?.as_str() {
                "@" => origin,
                name if name.ends_with('.') => Some(name.to_owned()),
                name => {
                    let origin = origin.unwrap_or_else(|| ".".to_owned());
                    Some(format!("{name}.{}", origin.trim_start_matches('.')))
                }
            };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_a_file_is_that_of_its_soa_record() {
        for (text, expected) in [
            (
                "$TTL 60\nrpz.test. IN SOA a. b. 1 2 3 4 5\n",
                Some("rpz.test."),
            ),
            (
                "$ORIGIN rpz.test.\n@ 60 IN SOA a. b. (\n1 2 3 4 5)\n",
                Some("rpz.test."),
            ),
            (
                "$ORIGIN test.\nrpz SOA a. b. 1 2 3 4 5\n",
                Some("rpz.test."),
            ),
            (
                "; SOA\n\nrpz.test. 60\tSOA a. b. 1 2 3 4 5\n",
                Some("rpz.test."),
            ),
            ("@ SOA a. b. 1 2 3 4 5\n", None),
            ("a CNAME .\n", None),
            ("", None),
        ] {
            assert_eq!(apex(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
