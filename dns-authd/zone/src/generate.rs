//! `$GENERATE`: one line that stands for many records, as BIND defines it.
//!
//! ```text
//! $GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA
//! ```
//!
//! In owner and data `$` is the running number, `${OFFSET,WIDTH,BASE}` the number with an offset
//! added, filled up with zeros to a width, in base `d`, `o`, `x` or `X`, or as nibbles from the
//! lowest up with dots between them in base `n` or `N`. `$$` and `\$` are a dollar sign.

/// The numbers to run through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first number.
    pub(crate) start: u32,
    /// The last number, if a step leads to it.
    pub(crate) stop: u32,
    /// The step.
    pub(crate) step: u32,
}

/// The highest number, as in BIND.
const MAX_NUMBER: u32 = i32::MAX as u32;
/// The widest field: longer than any name.
const MAX_WIDTH: usize = 255;

impl Range {
    /// Reads `START-STOP` or `START-STOP/STEP`.
    #[must_use]
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (range, step) = text.split_once('/').unwrap_or((text, "1"));
        let (start, stop) = range.split_once('-')?;
        let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
        (start <= stop && step > 0).then_some(Self { start, stop, step })
    }

    /// The count of numbers.
    #[must_use]
    pub(crate) const fn count(&self) -> u32 {
        (self.stop - self.start) / self.step + 1
    }

    /// The numbers.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..self.count()).map(move |index| self.start + index * self.step)
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && *number <= MAX_NUMBER)
}

/// A word with fields for the running number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template<'a> {
    pieces: Vec<Piece<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a [u8]),
    Number(Format),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    offset: i64,
    width: usize,
    base: Base,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Decimal,
    Octal,
    Hex { upper: bool },
    Nibbles { upper: bool },
}

impl<'a> Template<'a> {
    /// Finds the fields in a word; `None` when a `${` is malformed.
    #[must_use]
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut pieces = Vec::new();
        let (mut rest, mut start) = (text, 0);
        while let Some(octet) = rest.get(start) {
            let (text, tail) = rest.split_at_checked(start)?;
            match (octet, tail) {
                // Any other escape belongs to the field that takes the word.
                (b'\\', [_, b'$', ..]) | (b'$', [_, b'$', ..]) => {
                    pieces.push(Piece::Text(text));
                    (rest, start) = (tail.get(1..)?, 1);
                }
                (b'\\', [_, _, ..]) => start += 2,
                (b'$', [_, b'{', tail @ ..]) => {
                    pieces.push(Piece::Text(text));
                    let end = tail.iter().position(|octet| *octet == b'}')?;
                    let (format, tail) = tail.split_at_checked(end)?;
                    pieces.push(Piece::Number(Format::parse(format)?));
                    (rest, start) = (tail.get(1..)?, 0);
                }
                (b'$', [_, tail @ ..]) => {
                    pieces.push(Piece::Text(text));
                    pieces.push(Piece::Number(Format::PLAIN));
                    (rest, start) = (tail, 0);
                }
                _ => start += 1,
            }
        }
        pieces.push(Piece::Text(rest));
        Some(Self { pieces })
    }

    /// The word for one number; `None` when an offset leads below zero.
    #[must_use]
    pub(crate) fn expand(&self, number: u32) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Number(format) => format.write(number, &mut out)?,
            }
        }
        Some(out)
    }
}

impl Format {
    const PLAIN: Self = Self {
        offset: 0,
        width: 0,
        base: Base::Decimal,
    };

    /// `OFFSET[,WIDTH[,BASE]]`.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split(',').map(str::trim);
        let offset: i64 = parts.next()?.parse().ok()?;
        let width = parts.next().map_or(Some(0), |width| width.parse().ok())?;
        let base = match parts.next() {
            None | Some("d") => Base::Decimal,
            Some("o") => Base::Octal,
            Some("x") => Base::Hex { upper: false },
            Some("X") => Base::Hex { upper: true },
            Some("n") => Base::Nibbles { upper: false },
            Some("N") => Base::Nibbles { upper: true },
            Some(_) => return None,
        };
        let sane = offset.unsigned_abs() <= u64::from(MAX_NUMBER) && width <= MAX_WIDTH;
        (parts.next().is_none() && sane).then_some(Self {
            offset,
            width,
            base,
        })
    }

    fn write(self, number: u32, out: &mut Vec<u8>) -> Option<()> {
        let value = u64::try_from(i64::from(number) + self.offset).ok()?;
        let width = self.width;
        let text = match self.base {
            Base::Decimal => format!("{value:0width$}"),
            Base::Octal => format!("{value:0width$o}"),
            Base::Hex { upper: false } => format!("{value:0width$x}"),
            Base::Hex { upper: true } => format!("{value:0width$X}"),
            Base::Nibbles { upper } => nibbles(value, width, upper),
        };
        out.extend_from_slice(text.as_bytes());
        Some(())
    }
}

/// Hexadecimal digits from the lowest up with dots between; the width counts the dots.
fn nibbles(mut value: u64, mut width: usize, upper: bool) -> String {
    let mut text = String::new();
    loop {
        let digit = value & 0xf;
        text.push_str(&if upper {
            format!("{digit:X}")
        } else {
            format!("{digit:x}")
        });
        value >>= 4;
        width = width.saturating_sub(1);
        if width > 0 || value != 0 {
            text.push('.');
            width = width.saturating_sub(1);
        }
        if width == 0 && value == 0 {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let numbers = |text: &str| Range::parse(text.as_bytes()).map(|it| it.numbers().collect());
        assert_eq!(numbers("1-4"), Some(vec![1, 2, 3, 4]));
        assert_eq!(numbers("0-9/4"), Some(vec![0, 4, 8]));
        assert_eq!(numbers("7-7"), Some(vec![7]));
        assert_eq!(
            numbers("2147483646-2147483647/2147483647"),
            Some(vec![2_147_483_646])
        );
        for bad in [
            "",
            "1",
            "1-",
            "-1",
            "2-1",
            "1-2/0",
            "1-2/",
            "1-2-3",
            "a-b",
            "0-2147483648",
            "+1-2",
        ] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
        assert_eq!(
            Range::parse(b"0-2147483647").map(|range| range.count()),
            Some(1 << 31)
        );
    }

    #[test]
    fn templates() {
        let cases = [
            ("$", 5, Some("5")),
            ("host-$.x", 12, Some("host-12.x")),
            ("$$", 5, Some("$")),
            ("$$$", 5, Some("$5")),
            (r"\$$", 5, Some("$5")),
            (r"\\$", 5, Some(r"\\5")),
            (r"\.$\", 5, Some(r"\.5\")),
            ("${0}", 5, Some("5")),
            ("${10}", 5, Some("15")),
            ("${-5}", 5, Some("0")),
            ("${-6}", 5, None),
            ("a${0,3}b", 5, Some("a005b")),
            ("${0,2,x}-${0,2,X}", 171, Some("ab-AB")),
            ("${0,4,o}", 8, Some("0010")),
            ("${1,0,d}$", 1, Some("21")),
            ("${ 1, 3 ,d }", 1, Some("002")),
            ("${0,7,n}", 0x12, Some("2.1.0.0")),
            ("${0,0,N}", 0xab, Some("B.A")),
            ("${0,2,n}", 3, Some("3.")),
            ("none", 1, Some("none")),
            ("", 1, Some("")),
        ];
        for (text, number, expected) in cases {
            let expanded = Template::parse(text.as_bytes()).unwrap().expand(number);
            let expanded = expanded.map(|out| String::from_utf8(out).unwrap());
            assert_eq!(expanded.as_deref(), expected, "{text}");
        }
        for bad in [
            "${",
            "${}",
            "${1",
            "${a}",
            "${1,256}",
            "${1,2,z}",
            "${1,2,d,4}",
            "${99999999999}",
        ] {
            assert_eq!(Template::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
