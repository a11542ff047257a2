//! Devices of a flow table.

use std::collections::BTreeMap;

/// The most devices that a flow table can have (`NFT_NETDEVICE_MAX`).
const MOST: usize = 256;

/// Devices by their indices: one that is made again under its old name is another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices(BTreeMap<u32, Box<str>>);

impl FromIterator<(u32, Box<str>)> for Devices {
    /// The first of them, as many as a flow table can have.
    fn from_iter<I: IntoIterator<Item = (u32, Box<str>)>>(devices: I) -> Self {
        Self(devices.into_iter().take(MOST).collect())
    }
}

impl Devices {
    /// Their names, in the order of their indices.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(AsRef::as_ref)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
impl<const N: usize> From<[&str; N]> for Devices {
    fn from(names: [&str; N]) -> Self {
        Self((1..).zip(names.map(Into::into)).collect())
    }
}
