//! Runs the targets whose features are on: `cargo test -p fuzz-bodies --features zone`.
//!
//! With all of them, `fuzz-smoke` does that, a test for each.

#![cfg(not(feature = "all"))]

#[test]
fn targets_survive_their_corpus_and_mutations_of_it() {
    for target in fuzz_bodies::TARGETS {
        fuzz_bodies::smoke(target.name);
    }
}
