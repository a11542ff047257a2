//! A cursor over RDATA in wire form; every step may fail because the octets have run out.

use crate::Name;

/// The part of the RDATA that has not been read yet.
#[derive(Debug)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) const fn new(rdata: &'a [u8]) -> Self {
        Self { rest: rdata }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` octets.
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// Everything that is left.
    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next `N` octets as an array.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A length octet and as many octets as it says.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// A name; RDATA outside messages has no compression pointers.
    pub(super) fn name(&mut self) -> Option<Name> {
        let (name, length) = Name::from_wire(self.rest).ok()?;
        self.rest = self.rest.get(length..)?;
        Some(name)
    }
}
