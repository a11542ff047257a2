//! Domain names in uncompressed wire form (RFC 1035 §3.1), with their master-file spelling.
//!
//! A [`Name`] keeps its original letter case and compares without regard to it (RFC 4343). Labels may hold
//! any octet (RFC 2181 §11).

mod wire;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use wire::{Builder, Step, step, unescape};
pub use wire::{skip, wire_length};

/// The longest name in wire form, its root label included (RFC 1035 §2.3.4).
pub const MAX_NAME: usize = 255;
/// The longest label.
pub const MAX_LABEL: usize = 63;
/// How many compression pointers one name may follow: a name has at most 127 labels, so more
/// jumps than that cannot each lead to a new label.
const MAX_JUMPS: usize = 127;

/// A domain name, absolute, owned, in wire form.
#[derive(Clone)]
pub struct Name {
    wire: Box<[u8]>,
}

/// The reason why bytes or text are not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Two dots in a row, or a leading dot.
    EmptyLabel,
    /// A `\` without a character, or `\DDD` above 255.
    Escape,
    /// A label above 63 octets.
    LongLabel,
    /// A name above 255 octets.
    LongName,
    /// A compression pointer that does not point backwards, or a chain of too many.
    Pointer,
    /// The bytes end inside the name.
    Short,
}

impl Name {
    /// The root: a single empty label.
    #[must_use]
    pub fn root() -> Self {
        Self {
            wire: Box::new([0]),
        }
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.wire.len() == 1
    }

    /// The wire form, root label included.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// The labels from left to right, without the root's empty one.
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        labels(&self.wire)
    }

    /// The number of labels, without the root's.
    #[must_use]
    pub fn n_labels(&self) -> usize {
        self.labels().count()
    }

    /// The name without its leftmost label; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let skip = usize::from(*self.wire.first().filter(|length| **length != 0)?) + 1;
        self.wire.get(skip..).map(|rest| Self { wire: rest.into() })
    }

    /// The rightmost `n` labels; the whole name when it has no more than that.
    #[must_use]
    pub fn suffix(&self, n: usize) -> Self {
        let mut rest: &[u8] = &self.wire;
        for _ in n..self.n_labels() {
            let skip = usize::from(rest.first().copied().unwrap_or(0)) + 1;
            rest = rest.get(skip..).unwrap_or(&[0]);
        }
        Self { wire: rest.into() }
    }

    /// Whether this name is `other` or below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let mut rest: &[u8] = &self.wire;
        while rest.len() > other.wire.len() {
            let skip = usize::from(rest.first().copied().unwrap_or(0)) + 1;
            rest = rest.get(skip..).unwrap_or_default();
        }
        rest.eq_ignore_ascii_case(&other.wire)
    }

    /// Whether the leftmost label is a lone asterisk (RFC 4592 §2.1.1).
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.wire.starts_with(b"\x01*")
    }

    /// The name in lower case, as it is hashed and signed.
    #[must_use]
    pub fn to_lowercase(&self) -> Self {
        // Length octets are at most 63 and so never in the range of letters.
        Self {
            wire: self.wire.to_ascii_lowercase().into(),
        }
    }

    /// The name one level down.
    ///
    /// # Errors
    /// When the label is empty or too long, or the name grows too long.
    pub fn prepend(&self, label: &[u8]) -> Result<Self, NameError> {
        let mut builder = Builder::default();
        builder.push(label)?;
        builder.finish(&self.wire)
    }

    /// This name's labels, then `suffix`'s.
    ///
    /// # Errors
    /// When the result is too long.
    pub fn append(&self, suffix: &Self) -> Result<Self, NameError> {
        let mut builder = Builder::default();
        for label in self.labels() {
            builder.push(label)?;
        }
        builder.finish(&suffix.wire)
    }

    //--- Text

    /// Reads master-file text as an absolute name; a final dot is optional, `@` is an ordinary character,
    /// and `.` is the root.
    ///
    /// # Errors
    /// When the text breaks the rules of RFC 1035 §5.1 or the lengths of §2.3.4.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Self::parse_bytes(text.as_bytes(), &Self::root())
    }

    /// Reads master-file text; without a final dot it is below `origin`.
    ///
    /// # Errors
    /// As [`Name::parse`].
    pub fn parse_relative(text: &str, origin: &Self) -> Result<Self, NameError> {
        Self::parse_bytes(text.as_bytes(), origin)
    }

    /// As [`Name::parse_relative`], for text that need not be UTF-8.
    ///
    /// # Errors
    /// As [`Name::parse`].
    pub fn parse_bytes(text: &[u8], origin: &Self) -> Result<Self, NameError> {
        if text == b"." {
            return Ok(Self::root());
        }
        let mut builder = Builder::default();
        let mut label = [0_u8; MAX_LABEL];
        let mut length = 0;
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            rest = tail;
            let octet = match *byte {
                b'.' => {
                    builder.push(label.get(..length).unwrap_or_default())?;
                    length = 0;
                    continue;
                }
                b'\\' => unescape(&mut rest)?,
                plain => plain,
            };
            *label.get_mut(length).ok_or(NameError::LongLabel)? = octet;
            length += 1;
        }
        if length == 0 && !builder.is_empty() {
            return builder.finish(&[0]);
        }
        builder.push(label.get(..length).unwrap_or_default())?;
        builder.finish(&origin.wire)
    }

    //--- Wire

    /// Reads a name without compression from the start of `bytes`; also returns its length.
    ///
    /// # Errors
    /// When the bytes end early, a label is no plain label, or the name is too long.
    pub fn from_wire(bytes: &[u8]) -> Result<(Self, usize), NameError> {
        let length = wire_length(bytes)?;
        let wire = bytes.get(..length).ok_or(NameError::Short)?;
        Ok((Self { wire: wire.into() }, length))
    }

    /// Reads a name at `offset` of a message, following compression pointers; also returns the offset just
    /// behind it.
    ///
    /// # Errors
    /// As [`Name::from_wire`], and when a pointer does not point backwards.
    pub fn read(message: &[u8], offset: usize) -> Result<(Self, usize), NameError> {
        let mut builder = Builder::default();
        let (mut at, mut behind, mut jumps) = (offset, None, 0);
        loop {
            match step(message, at)? {
                Step::Label(label) => {
                    builder.push(label)?;
                    at += label.len() + 1;
                }
                Step::Root => return Ok((builder.finish(&[0])?, behind.unwrap_or(at + 1))),
                Step::Pointer(target) if target < at && jumps < MAX_JUMPS => {
                    jumps += 1;
                    behind = behind.or(Some(at + 2));
                    at = target;
                }
                Step::Pointer(_) => return Err(NameError::Pointer),
            }
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.wire.eq_ignore_ascii_case(&other.wire)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in &self.wire {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

/// The canonical order of RFC 4034 §6.1: label by label from the right, in lower case.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let mut own: Vec<&[u8]> = self.labels().collect();
        let mut their: Vec<&[u8]> = other.labels().collect();
        loop {
            let (a, b) = match (own.pop(), their.pop()) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some(a), Some(b)) => (a, b),
            };
            let lower = |label: &[u8]| label.to_ascii_lowercase();
            match lower(a).cmp(&lower(b)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Master-file text with a final dot; octets that are special or unprintable are escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(*octet))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(*octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyLabel => "empty label in a domain name",
            Self::Escape => "bad escape in a domain name",
            Self::LongLabel => "label longer than 63 octets",
            Self::LongName => "domain name longer than 255 octets",
            Self::Pointer => "bad compression pointer",
            Self::Short => "domain name cut short",
        })
    }
}

impl std::error::Error for NameError {}

//--- Labels

/// The labels of a name in wire form; made by [`Name::labels`] and [`labels`].
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    rest: &'a [u8],
}

/// The labels of an uncompressed wire-form name, without the root's.
#[must_use]
pub const fn labels(wire: &[u8]) -> Labels<'_> {
    Labels { rest: wire }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, tail) = self.rest.split_first()?;
        if *length == 0 {
            return None;
        }
        let (label, rest) = tail.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some(label)
    }
}

#[cfg(test)]
mod tests;
