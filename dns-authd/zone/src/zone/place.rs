//! The place of a name in a zone, for people who ask why an answer is what it is.

use dns_wire::hash::Suffixes;
use dns_wire::{Name, Type};

use super::{Kind, Place, Zone};

/// The place of a name in a zone (RFC 1034 §4.3.2 step 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePlace {
    /// The name exists.
    Exact,
    /// This wildcard matches it.
    Wildcard(Name),
    /// The zone delegates it at this name.
    Delegation(Name),
    /// The DNAME record of this name redirects it.
    Dname(Name),
    /// It does not exist; this is the closest name above it that does (RFC 4592 §3.3.1).
    Missing(Name),
}

impl Zone {
    /// The place of a name within this zone, for a question of this type.
    #[must_use]
    pub fn place(&self, name: &Suffixes, qtype: Type) -> NamePlace {
        match self.locate(name) {
            // RFC 4035 §3.1.4.1: the parent's side of a delegation has the DS records.
            Place::Exact(index) if qtype != Type::DS => match self.node(index) {
                Some(node) if node.kind == Kind::Cut => NamePlace::Delegation(self.spelling(index)),
                _ => NamePlace::Exact,
            },
            Place::Exact(_) => NamePlace::Exact,
            Place::Wildcard(index) => NamePlace::Wildcard(self.spelling(index)),
            Place::BelowCut(index) => NamePlace::Delegation(self.spelling(index)),
            Place::BelowDname(index) => NamePlace::Dname(self.spelling(index)),
            Place::Missing => NamePlace::Missing(self.spelling(self.closest_encloser(name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dns_wire::hash::Seed;

    use super::*;
    use crate::parse::{self, Options};

    #[test]
    fn a_name_has_its_place_by_rfc_1034() {
        let apex: Name = "example.".parse().unwrap();
        let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
                    *.Apps A 192.0.2.2\nsub NS ns.sub\nns.sub A 192.0.2.3\nold DNAME new\n\
                    a.b A 192.0.2.4\n";
        let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
        let options = Options::default();
        let file = parse::parse(Path::new("z"), &apex, &mut load, &options).unwrap();
        let zone = Zone::build(&apex, &file.records, Seed(1)).unwrap();
        let name = |text: &str| text.parse::<Name>().unwrap();
        for (asked, qtype, expected) in [
            ("ns.example.", Type::A, NamePlace::Exact),
            ("NS.example.", Type::MX, NamePlace::Exact),
            ("b.example.", Type::A, NamePlace::Exact),
            (
                "x.y.apps.example.",
                Type::A,
                NamePlace::Wildcard(name("*.Apps.example.")),
            ),
            (
                "sub.example.",
                Type::A,
                NamePlace::Delegation(name("sub.example.")),
            ),
            ("sub.example.", Type::DS, NamePlace::Exact),
            (
                "ns.sub.example.",
                Type::A,
                NamePlace::Delegation(name("sub.example.")),
            ),
            (
                "x.old.example.",
                Type::A,
                NamePlace::Dname(name("old.example.")),
            ),
            (
                "x.y.example.",
                Type::A,
                NamePlace::Missing(name("example.")),
            ),
            (
                "x.b.example.",
                Type::A,
                NamePlace::Missing(name("b.example.")),
            ),
        ] {
            let mut suffixes = Suffixes::default();
            suffixes.read(Seed(1), name(asked).as_wire());
            assert_eq!(zone.place(&suffixes, qtype), expected, "{asked} {qtype}");
        }
    }
}
