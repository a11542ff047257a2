//! Lists of networks that say who may ask (`allow-from`).
//!
//! A list holds networks and single addresses; one with `!` before it is taken out again, and the
//! most specific entry decides. An IPv4 address that arrives mapped into IPv6 is the IPv4 address.
//!
//! Lookup is a binary search in disjoint ranges: the same few comparisons for one network or a
//! thousand, without allocation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A list of networks.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Cidrs {
    entries: Vec<Entry>,
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    warnings: Vec<String>,
}

/// An entry that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network; write an address or a CIDR, as in 192.168.0.0/16 or fd00::/8")]
pub struct NotANetwork(pub String);

impl Cidrs {
    /// An empty list.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A list everybody is on.
    #[must_use]
    pub fn any() -> Self {
        [Ipv4Net::default().into(), Ipv6Net::default().into()]
            .into_iter()
            .collect()
    }

    /// Parses entries separated by commas or white space.
    ///
    /// # Errors
    ///
    /// On the first entry that is no network.
    pub fn parse(list: &str) -> Result<Self, NotANetwork> {
        let entries = list.split(|letter: char| letter == ',' || letter.is_whitespace());
        Self::from_items(entries.filter(|entry| !entry.is_empty()))
    }

    /// Parses one entry per item.
    ///
    /// # Errors
    ///
    /// On the first item that is no network.
    pub fn from_items<I>(items: I) -> Result<Self, NotANetwork>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut entries = Vec::new();
        let mut warnings = Vec::new();
        for item in items {
            let (entry, warning) = parse_entry(item.as_ref())?;
            entries.push(entry);
            warnings.extend(warning);
        }
        Ok(Self::build(entries, warnings))
    }

    fn build(entries: Vec<Entry>, warnings: Vec<String>) -> Self {
        let mut ordered = entries.clone();
        // The wider first, so that the more specific one overrides; among equals the last wins.
        ordered.sort_by_key(|entry| entry.network.prefix_len());
        let mut list = Self {
            entries,
            warnings,
            ..Self::default()
        };
        for Entry { network, allow } in ordered {
            match network {
                IpNet::V4(net) => {
                    list.v4
                        .set(net.network().to_bits(), net.broadcast().to_bits(), allow);
                }
                IpNet::V6(net) => {
                    list.v6
                        .set(net.network().to_bits(), net.broadcast().to_bits(), allow);
                }
            }
        }
        list
    }

    /// True when the address is on the list.
    #[must_use]
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.contains(address.to_bits()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }

    /// True when the list is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.v4.0.is_empty() && self.v6.0.is_empty()
    }

    /// The entries as they are written, in their order.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(ToString::to_string)
    }

    /// The odd entries that were understood, such as `192.168.7.13/24` for `192.168.7.0/24`.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl FromIterator<IpNet> for Cidrs {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let entries = networks
            .into_iter()
            .map(|network| Entry {
                network,
                allow: true,
            })
            .collect();
        Self::build(entries, Vec::new())
    }
}

impl FromStr for Cidrs {
    type Err = NotANetwork;

    fn from_str(list: &str) -> Result<Self, NotANetwork> {
        Self::parse(list)
    }
}

impl fmt::Display for Cidrs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(formatter, "{comma}{entry}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Cidrs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cidrs({self})")
    }
}

//--- Entries

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    network: IpNet,
    allow: bool,
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.allow { "" } else { "!" };
        write!(formatter, "{not}{}", self.network)
    }
}

fn parse_entry(text: &str) -> Result<(Entry, Option<String>), NotANetwork> {
    let text = text.trim();
    let refused = || NotANetwork(text.to_owned());
    let (bare, allow) = match text.strip_prefix('!') {
        Some(rest) => (rest.trim_start(), false),
        None => (text, true),
    };
    let written = match bare.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(bare.parse::<IpAddr>().map_err(|_| refused())?),
    };
    let network = unmap(written.trunc());
    let warning = (written.trunc() != written)
        .then(|| format!("`{bare}` has bits beyond its prefix and is read as {network}"));
    Ok((Entry { network, allow }, warning))
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
fn unmap(network: IpNet) -> IpNet {
    if let IpNet::V6(net) = network
        && let Some(address) = net.network().to_ipv4_mapped()
        && let Some(length) = net.prefix_len().checked_sub(96)
        && let Ok(net) = Ipv4Net::new(address, length)
    {
        return net.into();
    }
    network
}

//--- Ranges

/// Disjoint closed ranges in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ranges<T>(Vec<(T, T)>);

/// The integers an address is.
trait Bits: Copy + Ord {
    fn before(self) -> Option<Self>;
    fn after(self) -> Option<Self>;
}

impl Bits for u32 {
    fn before(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn after(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Bits for u128 {
    fn before(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn after(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl<T: Bits> Ranges<T> {
    fn contains(&self, value: T) -> bool {
        let above = self.0.partition_point(|(first, _)| *first <= value);
        above
            .checked_sub(1)
            .and_then(|index| self.0.get(index))
            .is_some_and(|(_, last)| value <= *last)
    }

    /// Puts a range in, or takes it out.
    fn set(&mut self, first: T, last: T, present: bool) {
        let mut ranges = Vec::with_capacity(self.0.len() + 2);
        for &(low, high) in &self.0 {
            if high < first || last < low {
                ranges.push((low, high));
                continue;
            }
            // The parts on either side stay.
            if low < first
                && let Some(end) = first.before()
            {
                ranges.push((low, end));
            }
            if last < high
                && let Some(start) = last.after()
            {
                ranges.push((start, high));
            }
        }
        if present {
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        self.0 = ranges;
    }
}

#[cfg(test)]
mod tests;
