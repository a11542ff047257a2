//! The settings that a server knows, and the treatment of each.

/// The settings that one of PowerDNS's servers knows.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// Settings with the same effect here.
    pub kept: &'static [&'static str],
    /// Settings without a counterpart, by reason.
    pub dropped: &'static [(&'static str, &'static [&'static str])],
    /// Prefixes of names, for whole families without a counterpart, by reason.
    pub families: &'static [(&'static str, &'static [&'static str])],
    /// The value that `+=` adds to when nothing is set, for settings that have a default; empty when the
    /// default does not matter.
    pub defaults: &'static [(&'static str, &'static str)],
}

/// The treatment of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It has the same effect here.
    Kept,
    /// It has no counterpart, for this reason.
    Dropped(&'static str),
}

impl Catalogue {
    /// The treatment of a setting; `None` when the server knows no such setting.
    #[must_use]
    pub fn disposition(&self, key: &str) -> Option<Disposition> {
        if self.kept.contains(&key) {
            return Some(Disposition::Kept);
        }
        let mut listed = self.dropped.iter();
        let mut families = self.families.iter();
        let listed = listed.find(|(_, keys)| keys.contains(&key));
        listed
            .or_else(|| {
                families.find(|(_, prefixes)| prefixes.iter().any(|it| key.starts_with(it)))
            })
            .map(|(reason, _)| Disposition::Dropped(reason))
    }

    /// The known setting with the most similar spelling.
    #[must_use]
    pub fn nearest(&self, key: &str) -> Option<&'static str> {
        /// The most differences of a similar spelling.
        const SLIPS: usize = 3;
        let close = self
            .names()
            .filter(|known| known.len().abs_diff(key.len()) <= SLIPS);
        let (distance, nearest) = close.map(|known| (distance(key, known), known)).min()?;
        (distance <= SLIPS && distance < key.len()).then_some(nearest)
    }

    /// Every name that is listed.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let dropped = self.dropped.iter().flat_map(|(_, keys)| *keys);
        self.kept.iter().chain(dropped).copied()
    }

    pub(crate) fn default_of(&self, key: &str) -> Option<&'static str> {
        let default = self.defaults.iter().find(|(name, _)| *name == key);
        default.map(|(_, value)| *value)
    }
}

/// The number of letters to insert, remove or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, ours) in a.bytes().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        let mut next = vec![left];
        for (theirs, above) in b.bytes().zip(row.iter().skip(1)) {
            left = (left + 1)
                .min(above + 1)
                .min(diagonal + usize::from(ours != theirs));
            next.push(left);
            diagonal = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "prt", 1),
            ("port", "sport", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
