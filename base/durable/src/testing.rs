//! Damage to a file, for the tests of those who read one.

/// The file with each of its bits changed, and cut at every length; and the words for each.
pub fn damages(whole: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let bits = (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit)));
    let changed = bits.map(|(at, bit)| {
        let mut bad = whole.to_vec();
        if let Some(octet) = bad.get_mut(at) {
            *octet ^= 1 << bit;
        }
        (format!("octet {at}, bit {bit}"), bad)
    });
    let cut = (0..whole.len()).map(|length| {
        let start = whole.get(..length).unwrap_or_default();
        (format!("{length} octets"), start.to_vec())
    });
    changed.chain(cut)
}
