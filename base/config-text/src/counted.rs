//! Numbers of things as people read them.

use std::fmt::Display;

/// A number and what it counts, whose last word is a regular noun: `1 zone`, `2 virtual IPs`,
/// `0 repositories`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    let many = match what.as_bytes() {
        [.., b'a' | b'e' | b'i' | b'o' | b'u', b'y'] => format!("{what}s"),
        [before @ .., b'y'] => {
            // One ASCII letter goes, so the rest is text.
            format!("{}ies", what.get(..before.len()).unwrap_or(what))
        }
        [.., b's' | b'x' | b'z'] | [.., b'c' | b's', b'h'] => format!("{what}es"),
        _ => format!("{what}s"),
    };
    counted_as(n, what, &many)
}

/// A number and what is said of it, where a verb or another word changes with it: `1 name has no
/// address`, `2 names have no address`.
pub fn counted_as<N: Copy + Display + PartialEq + From<u8>>(n: N, one: &str, many: &str) -> String {
    let what = if n == N::from(1) { one } else { many };
    format!("{n} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_everything_else_is_many() {
        for (n, what, expected) in [
            (0, "zone", "0 zones"),
            (1, "zone", "1 zone"),
            (2, "virtual IP", "2 virtual IPs"),
            (1, "repository", "1 repository"),
            (3, "repository", "3 repositories"),
            (2, "day", "2 days"),
            (2, "address", "2 addresses"),
            (2, "batch", "2 batches"),
            (2, "", "2 s"),
        ] {
            assert_eq!(counted(n, what), expected);
        }
        let names = |n: u64| counted_as(n, "name has no address", "names have no address");
        assert_eq!(names(1), "1 name has no address");
        assert_eq!(names(21), "21 names have no address");
    }
}
