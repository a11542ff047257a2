//! The known word that is nearest to a misspelt one.

use strsim::osa_distance;

/// The candidate most like `word`, if any is like it at all.
///
/// Case, `_` and `-` do not count, and a swap of neighbours is one step; at most a third of the letters
/// may differ.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let n_letters = word.chars().count();
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&word, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= n_letters.max(candidate.chars().count()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn fold(word: &str) -> String {
    word.replace('_', "-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["listen", "allow-from", "log", "admin", "max-cache-entries"];

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("listne", Some("listen")),
            ("allow_from", Some("allow-from")),
            ("ALLOW-FORM", Some("allow-from")),
            ("lgo", Some("log")),
            ("max-cache-entry", Some("max-cache-entries")),
            ("zone", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, KEYS), expected, "{word}");
        }
    }

    #[test]
    fn distances_are_those_of_the_textbook() {
        for (left, right, expected) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("ab", "ba", 1),
            ("same", "same", 0),
        ] {
            assert_eq!(osa_distance(&fold(left), &fold(right)), expected);
        }
    }
}
