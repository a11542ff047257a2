//! Which known word a misspelt one was meant to be.

/// The candidate most like `word`, if any is like it at all.
///
/// Case, `_` and `-` do not count; at most a third of the letters may differ.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= word.len().max(candidate.chars().count()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn fold(word: &str) -> Vec<char> {
    word.chars()
        .map(|letter| match letter {
            '_' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Levenshtein's distance, with a swap of neighbours counted as one step.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut left_previous = None;
    for (row, &left_letter) in left.iter().enumerate() {
        let mut current = Vec::with_capacity(right.len() + 1);
        current.push(row + 1);
        let mut right_previous = None;
        for (column, &right_letter) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let substituted = at(&last, column) + usize::from(left_letter != right_letter);
            let mut best = substituted
                .min(at(&last, column + 1) + 1)
                .min(at(&current, column) + 1);
            let swapped =
                left_previous == Some(right_letter) && right_previous == Some(left_letter);
            if swapped && column > 0 {
                best = best.min(at(&before_last, column - 1).saturating_add(1));
            }
            current.push(best);
            right_previous = Some(right_letter);
        }
        before_last = std::mem::replace(&mut last, current);
        left_previous = Some(left_letter);
    }
    last.last().copied().unwrap_or(left.len())
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
            assert_eq!(distance(&fold(left), &fold(right)), expected);
        }
    }
}
