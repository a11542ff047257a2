//! SipHash-2-4, the keyed hash of server cookies.

/// Hashes with SipHash-2-4; the result is in the order of octets that the algorithm gives.
#[must_use]
pub fn siphash(key: &[u8; 16], data: &[u8]) -> [u8; 8] {
    let number = u128::from_le_bytes(*key);
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    let (low, high) = (number as u64, (number >> 64) as u64);
    let mut state = State([
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ]);
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        state.take(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (place, octet) in last.iter_mut().zip(rest) {
        *place = *octet;
    }
    let length = (data.len() as u64) << 56;
    state.take(u64::from_le_bytes(last) | length);
    state.finish().to_le_bytes()
}

struct State([u64; 4]);

impl State {
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    const fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the algorithm's authors: key 00 01 … 0f, data 00 01 … of this length.
    #[test]
    fn the_authors_vectors_hold() {
        let mut key = [0; 16];
        for (place, octet) in key.iter_mut().zip(0..) {
            *place = octet;
        }
        let data: Vec<u8> = (0..63).collect();
        for (length, hash) in [
            (0, 0x726f_db47_dd0e_0e31_u64),
            (1, 0x74f8_39c5_93dc_67fd),
            (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5),
        ] {
            let got = u64::from_le_bytes(siphash(&key, &data[..length]));
            assert_eq!(got, hash, "{length} octets");
        }
    }
}
