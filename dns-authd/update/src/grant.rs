//! The changes that the holder of a key may make.

use std::fmt;

use dns_wire::{Name, Type};

/// The types that no key changes by an update: programs run in this server, and signatures belong to the whole zone.
const NEVER: [Type; 7] = [
    Type::LUA,
    Type::RRSIG,
    Type::NSEC,
    Type::NSEC3,
    Type::NSEC3PARAM,
    Type::DNSKEY,
    Type::ZONEMD,
];

/// A grant of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The key that signs the updates.
    pub key: Name,
    /// The names; all names of the zone when there is none.
    pub names: Vec<Pattern>,
    /// The types; all but SOA and NS when there is none.
    pub types: Vec<Type>,
}

impl Grant {
    /// Whether it covers the records of this name and type.
    #[must_use]
    pub fn allows(&self, name: &Name, rtype: Type) -> bool {
        let covers_type = match self.types.is_empty() {
            true => !matches!(rtype, Type::SOA | Type::NS),
            false => self.types.contains(&rtype),
        };
        let covers_name =
            self.names.is_empty() || self.names.iter().any(|pattern| pattern.matches(name));
        covers_type && covers_name && !Self::is_closed(rtype)
    }

    /// Whether no key changes records of this type by an update.
    #[must_use]
    pub fn is_closed(rtype: Type) -> bool {
        NEVER.contains(&rtype)
    }
}

/// Names, as a grant writes them: `NAME` itself, `*.NAME` for every name below it, and a `*` further to the right for one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Name);

/// The text is no pattern of names within the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPattern(String);

impl fmt::Display for NotPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Reads a pattern of names of a zone.
    ///
    /// # Errors
    /// When it is none, or its names are outside the zone.
    pub fn parse(text: &str, zone: &Name) -> Result<Self, NotPattern> {
        let name = Name::parse(text)
            .map_err(|error| NotPattern(format!("`{text}` is no name: {error}")))?;
        match name.is_within(zone) {
            true => Ok(Self(name)),
            false => Err(NotPattern(format!(
                "`{text}` is not a name within zone {zone}"
            ))),
        }
    }

    /// Whether a name is one of them.
    #[must_use]
    pub fn matches(&self, name: &Name) -> bool {
        let is_any = |label: &[u8]| label == b"*";
        let pattern: Vec<&[u8]> = self.0.labels().collect();
        let labels: Vec<&[u8]> = name.labels().collect();
        let (below, fixed) = match pattern.split_first() {
            Some((first, rest)) if is_any(first) => (true, rest),
            _ => (false, pattern.as_slice()),
        };
        let n_more = labels.len().checked_sub(fixed.len());
        let has_length = n_more.is_some_and(|n_more| (n_more > 0) == below);
        let mut pairs = fixed.iter().rev().zip(labels.iter().rev());
        has_length && pairs.all(|(one, label)| is_any(one) || one.eq_ignore_ascii_case(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_matches_a_name_or_those_below_it() {
        let zone = name("a.test.");
        for (pattern, yes, no) in [
            (
                "www.a.test",
                &["www.a.test.", "WWW.A.test."][..],
                &["x.www.a.test.", "a.test.", "ww.a.test."][..],
            ),
            (
                "*.a.test",
                &["www.a.test.", "x.y.a.test."],
                &["a.test.", "b.test."],
            ),
            ("a.test", &["a.test."], &["x.a.test."]),
            (
                "_acme-challenge.*.a.test",
                &["_acme-challenge.x.a.test."],
                &[
                    "_acme-challenge.a.test.",
                    "_acme-challenge.x.y.a.test.",
                    "y.x.a.test.",
                ],
            ),
            (
                "*.*.a.test",
                &["x.y.a.test.", "x.y.z.a.test."],
                &["y.a.test.", "a.test."],
            ),
        ] {
            let read = Pattern::parse(pattern, &zone).unwrap();
            for text in yes {
                assert!(read.matches(&name(text)), "{pattern} {text}");
            }
            for text in no {
                assert!(!read.matches(&name(text)), "{pattern} {text}");
            }
        }
        for outside in ["*", "test", "xa.test", "..a.test"] {
            assert!(Pattern::parse(outside, &zone).is_err(), "{outside}");
        }
    }

    #[test]
    fn a_grant_covers_its_names_and_types_and_never_programs() {
        let zone = name("a.test.");
        let grant = |names: &[&str], types: &[Type]| Grant {
            key: name("key."),
            names: names
                .iter()
                .map(|text| Pattern::parse(text, &zone).unwrap())
                .collect(),
            types: types.to_vec(),
        };
        let all = grant(&[], &[]);
        let txt = grant(&["*.x.a.test"], &[Type::TXT, Type::LUA]);
        for (owner, rtype, by_all, by_txt) in [
            ("a.test.", Type::A, true, false),
            ("a.test.", Type::SOA, false, false),
            ("b.a.test.", Type::NS, false, false),
            ("b.x.a.test.", Type::TXT, true, true),
            ("b.x.a.test.", Type::A, true, false),
            ("b.x.a.test.", Type::LUA, false, false),
            ("b.x.a.test.", Type::RRSIG, false, false),
        ] {
            let owner = name(owner);
            assert_eq!(all.allows(&owner, rtype), by_all, "{owner} {rtype}");
            assert_eq!(txt.allows(&owner, rtype), by_txt, "{owner} {rtype}");
        }
        assert!(grant(&[], &[Type::SOA, Type::NS]).allows(&zone, Type::SOA));
    }
}
