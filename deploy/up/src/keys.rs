//! Keys from the bytes that a terminal sends.

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter or digit, in lower case.
    Char(char),
    /// Escape.
    Escape,
    /// Ctrl-C, or Ctrl-\.
    Interrupt,
    /// Ctrl-L: draw again.
    Redraw,
}

impl Key {
    /// The keys in what one read gave. Cursor and function keys, which send an escape sequence,
    /// give none; a lone escape is the escape key.
    pub fn parse(bytes: &[u8]) -> Vec<Self> {
        let mut keys = Vec::new();
        let mut rest = bytes.iter().copied().peekable();
        while let Some(byte) = rest.next() {
            match byte {
                0x03 | 0x1c => keys.push(Self::Interrupt),
                0x0c => keys.push(Self::Redraw),
                0x1b => match rest.next_if(|next| matches!(next, b'[' | b'O')) {
                    // Parameters, then one final byte.
                    Some(_) => {
                        while rest
                            .next()
                            .is_some_and(|next| !(0x40..0x7f).contains(&next))
                        {
                        }
                    }
                    None => keys.push(Self::Escape),
                },
                plain if plain.is_ascii_graphic() => {
                    keys.push(Self::Char(char::from(plain.to_ascii_lowercase())));
                }
                _ => {}
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_sequences() {
        use Key::{Char, Escape, Interrupt, Redraw};
        for (bytes, keys) in [
            (&b"q"[..], vec![Char('q')]),
            (b"Q0", vec![Char('q'), Char('0')]),
            (b"\x03", vec![Interrupt]),
            (b"\x0c", vec![Redraw]),
            (b"\x1b", vec![Escape]),
            (b"\x1b[A", vec![]),
            (b"\x1bOPq", vec![Char('q')]),
            (b"\x1b[1;5Cl", vec![Char('l')]),
            (b"\x1b[", vec![]),
            (b"\x00\xff\r\n ", vec![]),
        ] {
            assert_eq!(Key::parse(bytes), keys, "{bytes:?}");
        }
    }
}
