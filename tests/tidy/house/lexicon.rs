//! Words and phrases that docs/lexicon.md retires are used less and less.

use std::fmt::Write as _;

use tidy::files::checkout;
use tidy::lexicon;
use tidy::workspace::packages;

/// So many places are shown of one word in one package.
const SHOWN: usize = 12;

#[test]
fn retired_words_are_used_less_and_less() {
    let retired = lexicon::read();
    assert!(retired.len() > 20, "the lexicon retires {}", retired.len());
    let uses = lexicon::uses(&packages(), &retired);
    let counts = lexicon::counts(&uses);
    let table = std::fs::read_to_string(checkout().join("tests/tidy/ceilings.txt")).unwrap();
    let ceilings = lexicon::parse_table(&table);
    let (above, unneeded) = lexicon::broken(&counts, &ceilings);
    let mut text = String::new();
    for key in &above {
        let ceiling = ceilings.get(key).copied().unwrap_or(0);
        let (package, word) = key;
        let _ = writeln!(
            text,
            "{package}: {word} {} times, {ceiling} are left",
            counts[key]
        );
        let places = uses
            .iter()
            .filter(|u| u.package == *package && u.word == *word);
        for used in places.take(SHOWN) {
            let _ = writeln!(text, "    {} (say: {})", used.place, used.instead);
        }
    }
    assert!(above.is_empty(), "docs/lexicon.md retires:\n{text}");
    assert!(
        unneeded.is_empty(),
        "ceilings that nothing needs any more; `cargo run -p tidy -- ceilings` takes them out: {unneeded:?}"
    );
}
