//! Frame Streams, the way of dnstap messages over a socket or into a file: a length and the octets of a message, again and again,
//! between control frames.
//!
//! ```text
//! socket:  READY ──►        ◄── ACCEPT    START ──►   data ──► …   STOP ──►   ◄── FINISH
//! file:                                   START       data …       STOP
//! ```
//!
//! `fstrm/control.h` and its README are the specification.

use std::fmt;

use crate::message::CONTENT_TYPE;

/// The longest control frame, behind its two lengths.
const MAX_CONTROL: usize = 512;
/// The field of a control frame with a content type.
const FIELD_CONTENT_TYPE: u32 = 1;
/// The longest content type.
const MAX_CONTENT_TYPE: usize = 256;

/// The types of control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The reader takes a content type.
    Accept,
    /// Data follow.
    Start,
    /// No more data follow.
    Stop,
    /// The writer offers content types.
    Ready,
    /// The reader has got everything.
    Finish,
}

impl Control {
    const fn number(self) -> u32 {
        match self {
            Self::Accept => 1,
            Self::Start => 2,
            Self::Stop => 3,
            Self::Ready => 4,
            Self::Finish => 5,
        }
    }

    const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Accept),
            2 => Some(Self::Start),
            3 => Some(Self::Stop),
            4 => Some(Self::Ready),
            5 => Some(Self::Finish),
            _ => None,
        }
    }

    /// The frame: a zero in the place of the length of data, its own length, its type, and the content type.
    #[must_use]
    pub fn frame(self) -> Vec<u8> {
        let mut content = self.number().to_be_bytes().to_vec();
        if !matches!(self, Self::Stop | Self::Finish) {
            content.extend_from_slice(&FIELD_CONTENT_TYPE.to_be_bytes());
            content.extend_from_slice(&length(CONTENT_TYPE));
            content.extend_from_slice(CONTENT_TYPE);
        }
        [&0_u32.to_be_bytes()[..], &length(&content), &content].concat()
    }
}

/// Appends a data frame.
pub fn append_data(message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&length(message));
    out.extend_from_slice(message);
}

fn length(octets: &[u8]) -> [u8; 4] {
    u32::try_from(octets.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes()
}

/// A reader does not speak the protocol, or not for this content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// It has sent something that is no control frame.
    NoControlFrame,
    /// A control frame that does not belong here.
    Unexpected(Control),
    /// It takes other content than dnstap.
    OtherContent,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoControlFrame => f.write_str("the reader does not speak Frame Streams"),
            Self::Unexpected(control) => write!(f, "the reader has sent {control:?} out of turn"),
            Self::OtherContent => f.write_str("the reader does not take dnstap messages"),
        }
    }
}

impl std::error::Error for HandshakeError {}

/// The writer's side of a stream over a socket.
#[derive(Debug)]
pub struct Stream {
    awaited: Control,
    inbox: Vec<u8>,
}

impl Stream {
    /// Begins a stream; gives it and the frame to send first.
    #[must_use]
    pub fn offer() -> (Self, Vec<u8>) {
        let stream = Self {
            awaited: Control::Accept,
            inbox: Vec::new(),
        };
        (stream, Control::Ready.frame())
    }

    /// Takes octets of the reader. True when the awaited frame is there: ACCEPT first, then FINISH.
    ///
    /// # Errors
    /// When the reader does not keep to the protocol.
    pub fn received(&mut self, octets: &[u8]) -> Result<bool, HandshakeError> {
        self.inbox.extend_from_slice(octets);
        let Some((control, content, length)) = read_control(&self.inbox)? else {
            return Ok(false);
        };
        if control != self.awaited {
            return Err(HandshakeError::Unexpected(control));
        }
        if control == Control::Accept && !takes_dnstap(content)? {
            return Err(HandshakeError::OtherContent);
        }
        self.inbox.drain(..length);
        self.awaited = Control::Finish;
        Ok(true)
    }
}

/// A control frame, its fields and its length.
type Read<'o> = (Control, &'o [u8], usize);

/// The first control frame; `None` while it is not whole.
fn read_control(octets: &[u8]) -> Result<Option<Read<'_>>, HandshakeError> {
    let bad = HandshakeError::NoControlFrame;
    let Some((escape, rest)) = octets.split_first_chunk() else {
        return Ok(None);
    };
    if u32::from_be_bytes(*escape) != 0 {
        return Err(bad);
    }
    let Some((length, rest)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if !(4..=MAX_CONTROL).contains(&length) {
        return Err(bad);
    }
    let Some(content) = rest.get(..length) else {
        return Ok(None);
    };
    let (number, fields) = content.split_first_chunk().ok_or(bad)?;
    let control = Control::of(u32::from_be_bytes(*number)).ok_or(bad)?;
    Ok(Some((control, fields, 8 + length)))
}

/// Whether the fields of a control frame have the content type of dnstap. A frame without one takes all.
fn takes_dnstap(mut fields: &[u8]) -> Result<bool, HandshakeError> {
    let bad = HandshakeError::NoControlFrame;
    let mut has_other = false;
    while !fields.is_empty() {
        let (field, rest) = fields.split_first_chunk().ok_or(bad)?;
        let (length, rest) = rest.split_first_chunk().ok_or(bad)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if u32::from_be_bytes(*field) != FIELD_CONTENT_TYPE || length > MAX_CONTENT_TYPE {
            return Err(bad);
        }
        let (value, rest) = rest.split_at_checked(length).ok_or(bad)?;
        if value == CONTENT_TYPE {
            return Ok(true);
        }
        has_other = true;
        fields = rest;
    }
    Ok(!has_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control frame with these content types.
    fn frame(number: u32, types: &[&[u8]]) -> Vec<u8> {
        let mut content = number.to_be_bytes().to_vec();
        for value in types {
            content.extend_from_slice(&[0, 0, 0, 1]);
            content.extend_from_slice(&length(value));
            content.extend_from_slice(value);
        }
        [&[0; 4][..], &length(&content), &content].concat()
    }

    #[test]
    fn frames_are_those_of_the_specification() {
        let start = [
            &b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16"[..],
            CONTENT_TYPE,
        ];
        assert_eq!(Control::Start.frame(), start.concat());
        assert_eq!(Control::Stop.frame(), b"\0\0\0\0\0\0\0\x04\0\0\0\x03");
        let mut out = Vec::new();
        append_data(b"abc", &mut out);
        assert_eq!(out, b"\0\0\0\x03abc");
    }

    #[test]
    fn a_reader_accepts_and_finishes_octet_by_octet() {
        let (mut stream, ready) = Stream::offer();
        assert_eq!(ready, frame(4, &[CONTENT_TYPE]));
        for expected in [frame(1, &[CONTENT_TYPE]), frame(5, &[])] {
            let (last, first) = expected.split_last().unwrap();
            for octet in first {
                assert_eq!(stream.received(&[*octet]), Ok(false));
            }
            assert_eq!(stream.received(&[*last]), Ok(true));
        }
    }

    #[test]
    fn a_reader_of_something_else_is_an_error() {
        let unexpected = HandshakeError::Unexpected;
        for (octets, expected) in [
            (b"HTTP/1.1".to_vec(), Err(HandshakeError::NoControlFrame)),
            (frame(9, &[]), Err(HandshakeError::NoControlFrame)),
            (frame(5, &[]), Err(unexpected(Control::Finish))),
            (frame(2, &[CONTENT_TYPE]), Err(unexpected(Control::Start))),
            (frame(1, &[b"text"]), Err(HandshakeError::OtherContent)),
            (frame(1, &[b"text", CONTENT_TYPE]), Ok(true)),
            (frame(1, &[]), Ok(true)),
            (
                b"\0\0\0\0\0\0\0\x03abc".to_vec(),
                Err(HandshakeError::NoControlFrame),
            ),
            (
                b"\0\0\0\0\xff\xff\xff\xff".to_vec(),
                Err(HandshakeError::NoControlFrame),
            ),
            (
                b"\0\0\0\0\0\0\0\x0c\0\0\0\x01\0\0\0\x01\0\0\0\x09".to_vec(),
                Err(HandshakeError::NoControlFrame),
            ),
            (b"\0\0\0\0\0\0\x02\0".to_vec(), Ok(false)),
        ] {
            let (mut stream, _) = Stream::offer();
            assert_eq!(stream.received(&octets), expected, "{octets:?}");
        }
    }

    #[test]
    fn what_a_reader_sends_is_bounded() {
        let (mut stream, _) = Stream::offer();
        let long = [&frame(1, &[])[..8], &[0; MAX_CONTROL + 1]].concat();
        assert!(stream.received(&long).is_err());
    }
}
