//! Fields of a TLS message, one after the other (RFC 8446 §3).

/// The rest of a message.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A field of `N` octets.
    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(field)
    }

    /// A vector whose length takes one octet.
    pub(super) fn counted_8(&mut self) -> Option<&'a [u8]> {
        let [length] = *self.array()?;
        self.take(length.into())
    }

    /// A vector whose length takes two octets.
    pub(super) fn counted_16(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_be_bytes(*self.array()?);
        self.take(length.into())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}
