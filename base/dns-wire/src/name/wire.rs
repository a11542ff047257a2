//! Names label by label: collecting them, and stepping through those of a message.

use super::{MAX_LABEL, MAX_NAME, Name, NameError};

/// Collects labels within the lengths of RFC 1035 §2.3.4.
pub(super) struct Builder {
    wire: [u8; MAX_NAME],
    length: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            wire: [0; MAX_NAME],
            length: 0,
        }
    }
}

impl Builder {
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn push(&mut self, label: &[u8]) -> Result<(), NameError> {
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        let octet = u8::try_from(label.len()).map_err(|_| NameError::LongLabel)?;
        if label.len() > MAX_LABEL {
            return Err(NameError::LongLabel);
        }
        let end = self.length + 1 + label.len();
        match self.wire.get_mut(self.length..end) {
            Some([first, rest @ ..]) => {
                *first = octet;
                rest.copy_from_slice(label);
            }
            _ => return Err(NameError::LongName),
        }
        self.length = end;
        Ok(())
    }

    /// Ends the name with another one in wire form; `[0]` is the root.
    pub(super) fn finish(&self, suffix: &[u8]) -> Result<Name, NameError> {
        let own = self.wire.get(..self.length).unwrap_or_default();
        if own.len() + suffix.len() > MAX_NAME {
            return Err(NameError::LongName);
        }
        Ok(Name {
            wire: [own, suffix].concat().into(),
        })
    }
}

/// The item at one place of a name in a message.
pub(super) enum Step<'a> {
    Label(&'a [u8]),
    Pointer(usize),
    Root,
}

pub(super) fn step(message: &[u8], at: usize) -> Result<Step<'_>, NameError> {
    let length = *message.get(at).ok_or(NameError::Short)?;
    match length {
        0 => Ok(Step::Root),
        1..=63 => {
            let end = at + 1 + usize::from(length);
            message
                .get(at + 1..end)
                .map(Step::Label)
                .ok_or(NameError::Short)
        }
        192..=255 => {
            let low = *message.get(at + 1).ok_or(NameError::Short)?;
            Ok(Step::Pointer(
                usize::from(length & 0x3f) << 8 | usize::from(low),
            ))
        }
        // RFC 6891 §5 leaves 0x40 and 0x80 permanently unused.
        _ => Err(NameError::Pointer),
    }
}

/// The length of an uncompressed name at the start of `bytes`, root label included.
///
/// # Errors
/// When the bytes end early, a label is no plain label, or the name is too long.
pub fn wire_length(bytes: &[u8]) -> Result<usize, NameError> {
    let mut at = 0;
    loop {
        let length = *bytes.get(at).ok_or(NameError::Short)?;
        at += 1 + usize::from(length);
        if length == 0 {
            return Ok(at);
        }
        if usize::from(length) > MAX_LABEL {
            return Err(NameError::Pointer);
        }
        if at >= MAX_NAME {
            return Err(NameError::LongName);
        }
    }
}

/// The offset behind a name in a message, its pointers not followed.
///
/// # Errors
/// When the bytes end early or a label's type is unknown.
pub fn skip(message: &[u8], offset: usize) -> Result<usize, NameError> {
    let mut at = offset;
    loop {
        match step(message, at)? {
            Step::Label(label) => at += label.len() + 1,
            Step::Root => return Ok(at + 1),
            Step::Pointer(_) => return Ok(at + 2),
        }
        if at - offset >= MAX_NAME {
            return Err(NameError::LongName);
        }
    }
}

/// The octet behind a `\`: `\DDD` in decimal, or any other character as itself.
pub(super) fn unescape(rest: &mut &[u8]) -> Result<u8, NameError> {
    let (octet, tail) = match *rest {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', tail @ ..] => {
            let value = [a, b, c]
                .iter()
                .fold(0, |sum, digit| sum * 10 + u16::from(**digit - b'0'));
            (u8::try_from(value).map_err(|_| NameError::Escape)?, tail)
        }
        [b'0'..=b'9', ..] | [] => return Err(NameError::Escape),
        [plain, tail @ ..] => (*plain, tail),
    };
    *rest = tail;
    Ok(octet)
}
