//! Octets spelled in letters: base 16, base 32 with the extended hex alphabet, and base 64
//! (RFC 4648). Blanks may stand anywhere in hex and base 64, so both are read from many words.

use super::{RdataError, Token};

//--- Base 16

/// Appends the octets that the words spell in hex; `first` is the number of the first of them.
pub(super) fn parse_hex(
    tokens: &[Token<'_>],
    first: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let mut pending = None;
    let mut last = first;
    for (index, token) in tokens.iter().enumerate() {
        last = first + index;
        for byte in token.text {
            let digit = hex_digit(*byte)
                .filter(|_| !token.quoted)
                .ok_or_else(|| RdataError::new(last, "hexadecimal digits are expected here"))?;
            match pending.take() {
                None => pending = Some(digit),
                Some(high) => out.push(high << 4 | digit),
            }
        }
    }
    if pending.is_some() {
        return Err(RdataError::new(last, "an odd number of hexadecimal digits"));
    }
    Ok(())
}

/// The value of a hexadecimal digit.
pub(super) const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends octets in upper-case hex.
pub(super) fn push_hex(octets: &[u8], out: &mut String) {
    for octet in octets {
        for digit in [octet >> 4, octet & 0xf] {
            out.push(char::from(if digit < 10 {
                b'0' + digit
            } else {
                b'A' + digit - 10
            }));
        }
    }
}

//--- Base 32

/// Reads base 32 with the extended hex alphabet and without padding, as NSEC3 has it
/// (RFC 5155 §3.3).
pub(super) fn parse_base32(text: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits::default();
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'v' => byte - b'a' + 10,
            b'A'..=b'V' => byte - b'A' + 10,
            _ => return None,
        };
        bits.push(digit, 5);
    }
    bits.finish(5)
}

/// Appends octets in base 32 with the extended hex alphabet.
pub(super) fn push_base32(octets: &[u8], out: &mut String) {
    for digit in digits(octets, 5) {
        out.push(char::from(if digit < 10 {
            b'0' + digit
        } else {
            b'A' + digit - 10
        }));
    }
}

//--- Base 64

/// Appends the octets that the words spell in base 64; `first` is the number of the first of them.
pub(super) fn parse_base64(
    tokens: &[Token<'_>],
    first: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let mut bits = Bits::default();
    let (mut n_digits, mut n_pads) = (0_usize, 0_usize);
    for (index, token) in tokens.iter().enumerate() {
        for byte in token.text {
            let digit = base64_digit(*byte).filter(|_| n_pads == 0 && !token.quoted);
            match digit {
                Some(digit) => {
                    bits.push(digit, 6);
                    n_digits += 1;
                }
                None if *byte == b'=' && !token.quoted => n_pads += 1,
                None => return Err(RdataError::new(first + index, "base 64 is expected here")),
            }
        }
    }
    let octets = bits
        .finish(6)
        .filter(|_| (n_digits + n_pads).is_multiple_of(4) && n_pads < 3);
    let Some(octets) = octets else {
        let last = first + tokens.len().saturating_sub(1);
        return Err(RdataError::new(
            last,
            "the base 64 is incomplete or wrongly padded",
        ));
    };
    out.extend_from_slice(&octets);
    Ok(())
}

/// Reads one word of base 64.
pub(crate) fn base64_word(text: &[u8]) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    parse_base64(&[Token::bare(text)], 0, &mut octets).ok()?;
    Some(octets)
}

const fn base64_digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Appends octets in base 64, padded.
pub(super) fn push_base64(octets: &[u8], out: &mut String) {
    let mut n_digits = 0_usize;
    for digit in digits(octets, 6) {
        out.push(char::from(match digit {
            0..=25 => b'A' + digit,
            26..=51 => b'a' + digit - 26,
            52..=61 => b'0' + digit - 52,
            62 => b'+',
            _ => b'/',
        }));
        n_digits += 1;
    }
    while !n_digits.is_multiple_of(4) {
        out.push('=');
        n_digits += 1;
    }
}

//--- Bits

/// Gathers digits of a few bits into octets.
#[derive(Default)]
struct Bits {
    octets: Vec<u8>,
    pending: u16,
    n_pending: u32,
}

impl Bits {
    fn push(&mut self, digit: u8, width: u32) {
        self.pending = self.pending << width | u16::from(digit);
        self.n_pending += width;
        if self.n_pending >= 8 {
            self.n_pending -= 8;
            let [_, octet] = (self.pending >> self.n_pending).to_be_bytes();
            self.octets.push(octet);
            self.pending &= (1 << self.n_pending) - 1;
        }
    }

    /// The octets; `None` when a whole digit or a set bit is left over.
    fn finish(self, width: u32) -> Option<Vec<u8>> {
        (self.pending == 0 && self.n_pending < width).then_some(self.octets)
    }
}

/// Octets cut into digits of `width` bits, the last one filled up with zeros.
fn digits(octets: &[u8], width: u32) -> impl Iterator<Item = u8> + '_ {
    let n_digits = (octets.len() * 8).div_ceil(width as usize);
    let (mut rest, mut pending, mut n_pending) = (octets.iter(), 0_u16, 0_u32);
    (0..n_digits).map(move |_| {
        if n_pending < width {
            pending = pending << 8 | u16::from(rest.next().copied().unwrap_or(0));
            n_pending += 8;
        }
        n_pending -= width;
        let [_, digit] = (pending >> n_pending).to_be_bytes();
        pending &= (1 << n_pending) - 1;
        digit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648_hold() {
        let cases = [
            ("", "", ""),
            ("f", "Zg==", "CO"),
            ("fo", "Zm8=", "CPNG"),
            ("foo", "Zm9v", "CPNMU"),
            ("foob", "Zm9vYg==", "CPNMUOG"),
            ("fooba", "Zm9vYmE=", "CPNMUOJ1"),
            ("foobar", "Zm9vYmFy", "CPNMUOJ1E8"),
        ];
        for (plain, base64, base32) in cases {
            let (mut text64, mut text32) = (String::new(), String::new());
            push_base64(plain.as_bytes(), &mut text64);
            push_base32(plain.as_bytes(), &mut text32);
            assert_eq!((text64.as_str(), text32.as_str()), (base64, base32));
            assert_eq!(base64_word(base64.as_bytes()).unwrap(), plain.as_bytes());
            assert_eq!(parse_base32(base32.as_bytes()).unwrap(), plain.as_bytes());
            assert_eq!(
                parse_base32(base32.to_lowercase().as_bytes()).unwrap(),
                plain.as_bytes()
            );
        }
    }

    #[test]
    fn every_octet_survives_every_base() {
        let octets: Vec<u8> = (0..=255).collect();
        for n in 0..octets.len() {
            let octets = &octets[octets.len() - n..];
            let (mut hex, mut base32, mut base64) = (String::new(), String::new(), String::new());
            push_hex(octets, &mut hex);
            push_base32(octets, &mut base32);
            push_base64(octets, &mut base64);
            let mut back = Vec::new();
            parse_hex(&[Token::bare(hex.as_bytes())], 0, &mut back).unwrap();
            assert_eq!(back, octets);
            assert_eq!(parse_base32(base32.as_bytes()).unwrap(), octets);
            assert_eq!(base64_word(base64.as_bytes()).unwrap(), octets);
        }
    }

    #[test]
    fn crooked_spellings_are_refused() {
        for bad in [
            "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zg==Zg==", "Z!==", "====", "=", "Zm9v====",
        ] {
            assert!(base64_word(bad.as_bytes()).is_none(), "{bad}");
        }
        for bad in ["C", "W0", "CPN", "CO======"] {
            assert!(parse_base32(bad.as_bytes()).is_none(), "{bad}");
        }
        for bad in ["0", "0g", "000"] {
            assert!(
                parse_hex(&[Token::bare(bad.as_bytes())], 0, &mut Vec::new()).is_err(),
                "{bad}"
            );
        }
    }
}
