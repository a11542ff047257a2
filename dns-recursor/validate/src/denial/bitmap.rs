//! The types at a name, as NSEC and NSEC3 records list them (RFC 4034 §4.1.2).

use dns_wire::{Name, Type};

use super::Cut;
use crate::verdict::Why;

/// The types of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bitmap<'a>(pub(super) &'a [u8]);

impl Bitmap<'_> {
    /// Whether the name has records of a type.
    pub(super) fn has(self, rtype: Type) -> bool {
        let [window, low] = rtype.0.to_be_bytes();
        let mut rest = self.0;
        while let [number, length, tail @ ..] = rest {
            let Some((bits, behind)) = tail.split_at_checked(usize::from(*length)) else {
                // Damaged: it denies nothing.
                return true;
            };
            if *number == window {
                let octet = bits.get(usize::from(low / 8)).copied().unwrap_or(0);
                return octet & 0x80 >> (low % 8) != 0;
            }
            rest = behind;
        }
        false
    }

    /// Whether another zone begins at the name, and this is the record of the zone above it (RFC 6840 §4.1).
    pub(super) fn is_delegation(self) -> bool {
        self.has(Type::NS) && !self.has(Type::SOA)
    }

    /// Whether names below it are not the zone's to deny.
    pub(super) fn ends_zone(self) -> bool {
        self.is_delegation() || self.has(Type::DNAME)
    }

    /// Whether it denies a type at its name.
    pub(super) fn denies(self, owner: &Name, rtype: Type) -> bool {
        // RFC 6840 §4.1, RFC 4035 §3.1.4.1: at a zone cut, the zone above denies DS and the zone itself all else.
        let is_speaker = match rtype {
            // No zone is above the root.
            Type::DS => !self.has(Type::SOA) || owner.is_root(),
            _ => !self.is_delegation(),
        };
        let has = self.has(rtype) || self.has(Type::CNAME);
        is_speaker && !has
    }

    /// The state of the name, if it denies DS records there.
    pub(super) fn cut(self) -> Option<Cut> {
        let is_denied = !self.has(Type::DS) && !self.has(Type::SOA);
        is_denied.then(|| match self.has(Type::NS) {
            true => Cut::Insecure(Why::Unsigned),
            false => Cut::None,
        })
    }
}
