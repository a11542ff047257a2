//! CRC-32C (Castagnoli), as RFC 4960 appendix B describes it.

/// The checksum of `pieces`, one after the other.
#[must_use]
pub fn crc32c(pieces: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for octet in pieces.iter().copied().flatten() {
        let [low, ..] = crc.to_le_bytes();
        let entry = TABLE.get(usize::from(low ^ octet)).copied().unwrap_or(0);
        crc = (crc >> 8) ^ entry;
    }
    !crc
}

const TABLE: [u32; 256] = table();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index out of bounds"
)]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut value: u32 = 0;
    while index < 256 {
        let mut crc = value;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 1 == 1;
            crc >>= 1;
            if carry {
                crc ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        value += 1;
    }
    table
}

/// Reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_3720_agree() {
        let rising: Vec<u8> = (0..32).collect();
        for (octets, expected) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32][..], 0x62a8_ab43),
            (&rising[..], 0x46dd_794e),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(&[octets]), expected);
            for cut in 0..=octets.len() {
                let (head, tail) = octets.split_at(cut);
                assert_eq!(crc32c(&[head, tail]), expected);
            }
        }
    }
}
