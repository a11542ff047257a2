//! Trust anchors: the zones whose keys are known beforehand, and those below which nothing is validated.

use std::collections::BTreeMap;
use std::fmt;

use dns_wire::{Name, Type, rdata};

use crate::keys::{Ds, Key};

/// The anchors of the root (RFC 9718): the key in use since 2017, and the one that follows it.
pub const ROOT: [&str; 2] = [
    ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
    ". DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
];

/// A key of a zone that is trusted by configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The zone's apex.
    pub zone: Name,
    pub(crate) trust: Trust,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Ds(Ds),
    Key(Key),
}

impl Trust {
    /// Whether it is this key.
    pub(crate) fn names(&self, zone: &Name, key: &Key) -> bool {
        match self {
            Self::Ds(ds) => ds.names(zone, key),
            Self::Key(anchor) => anchor.rdata == key.rdata,
        }
    }
}

/// The text is no anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorError {
    /// It is not `ZONE DS …` or `ZONE DNSKEY …`.
    Form,
    /// The name is none.
    Name,
    /// The data is not that of such a record.
    Data,
    /// The key or digest is of a kind that is unknown here: nothing could be validated with it.
    Unknown,
}

impl fmt::Display for AnchorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "is not a trust anchor: it needs the form `ZONE DS …` or `ZONE DNSKEY …`",
            Self::Name => "does not begin with a domain name",
            Self::Data => "does not have the data of a DS or DNSKEY record",
            Self::Unknown => {
                "has an algorithm or digest that is not supported; the algorithms are 8, 10, 13, 14 and 15, the digests 2 and 4"
            }
        })
    }
}

impl std::error::Error for AnchorError {}

impl Anchor {
    /// Reads a line of a master file, TTL and class optional: `example. IN DS 12345 13 2 9F86…`.
    ///
    /// # Errors
    /// When it is no DS or DNSKEY record, or one that nothing can be validated with.
    pub fn parse(text: &str) -> Result<Self, AnchorError> {
        let (zone, mut rest) = text
            .trim()
            .split_once(char::is_whitespace)
            .ok_or(AnchorError::Form)?;
        let zone = Name::parse(zone)
            .map_err(|_| AnchorError::Name)?
            .to_lowercase();
        loop {
            let (word, behind) = rest
                .trim_start()
                .split_once(char::is_whitespace)
                .ok_or(AnchorError::Form)?;
            rest = behind;
            let rtype = match word.to_ascii_uppercase().as_str() {
                "IN" => continue,
                "DS" => Type::DS,
                "DNSKEY" => Type::DNSKEY,
                ttl if ttl.bytes().all(|byte| byte.is_ascii_digit()) => continue,
                _ => return Err(AnchorError::Form),
            };
            let rdata =
                rdata::from_text(rtype, rest, &Name::root()).map_err(|_| AnchorError::Data)?;
            let trust = match rtype {
                Type::DS => Ds::read(&rdata).filter(Ds::is_whole).map(Trust::Ds),
                _ => Key::read(&rdata).map(Trust::Key),
            };
            let trust = trust.ok_or(AnchorError::Data)?;
            let is_known = match &trust {
                Trust::Ds(ds) => ds.is_known(),
                Trust::Key(key) => {
                    crate::crypto::knows_algorithm(key.algorithm) && key.is_zone_key()
                }
            };
            return match is_known {
                true => Ok(Self { zone, trust }),
                false => Err(AnchorError::Unknown),
            };
        }
    }
}

impl Anchor {
    /// The key of a zone with this DNSKEY data; none of data that nothing can be validated with.
    #[must_use]
    pub fn of_key(zone: &Name, rdata: &[u8]) -> Option<Self> {
        let key = Key::read(rdata).filter(Key::is_zone_key)?;
        crate::crypto::knows_algorithm(key.algorithm).then(|| Self {
            zone: zone.to_lowercase(),
            trust: Trust::Key(key),
        })
    }

    /// Whether it is the key with this DNSKEY data.
    #[must_use]
    pub fn names(&self, rdata: &[u8]) -> bool {
        Key::read(rdata).is_some_and(|key| self.trust.names(&self.zone, &key))
    }

    /// The tag of its key.
    #[must_use]
    pub const fn tag(&self) -> u16 {
        match &self.trust {
            Trust::Ds(ds) => ds.tag,
            Trust::Key(key) => key.tag,
        }
    }

    /// The algorithm of its key.
    #[must_use]
    pub const fn algorithm(&self) -> u8 {
        match &self.trust {
            Trust::Ds(ds) => ds.algorithm,
            Trust::Key(key) => key.algorithm,
        }
    }
}

/// All anchors of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    positive: BTreeMap<Name, Vec<Trust>>,
    /// With the time at which each ends, in seconds since 1970; some never do.
    negative: BTreeMap<Name, Option<u64>>,
}

/// The anchor that decides about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closest {
    None,
    /// A negative trust anchor; the seconds that are left of it, if it ends.
    Negative(Option<u64>),
    /// The zone of a trust anchor.
    Positive(Name),
}

impl Anchors {
    /// These anchors, and zones at and below which nothing is validated (RFC 7646).
    #[must_use]
    pub fn new(
        anchors: impl IntoIterator<Item = Anchor>,
        negative: impl IntoIterator<Item = Name>,
    ) -> Self {
        let mut all = Self {
            negative: negative
                .into_iter()
                .map(|name| (name.to_lowercase(), None))
                .collect(),
            ..Self::default()
        };
        for Anchor { zone, trust } in anchors {
            all.positive.entry(zone).or_default().push(trust);
        }
        all
    }

    /// These and a negative trust anchor.
    #[must_use]
    pub fn without(mut self, zone: &Name) -> Self {
        self.negative.insert(zone.to_lowercase(), None);
        self
    }

    /// These and a negative trust anchor that ends at a time, in seconds since 1970.
    #[must_use]
    pub fn without_until(mut self, zone: &Name, end: u64) -> Self {
        self.negative.insert(zone.to_lowercase(), Some(end));
        self
    }

    /// These, with others for one zone; with none, it has no trust anchor.
    #[must_use]
    pub fn with_zone(mut self, zone: &Name, anchors: Vec<Anchor>) -> Self {
        let zone = zone.to_lowercase();
        match anchors.is_empty() {
            true => self.positive.remove(&zone),
            false => {
                let trusts = anchors.into_iter().map(|anchor| anchor.trust).collect();
                self.positive.insert(zone, trusts)
            }
        };
        self
    }

    /// Whether a zone has a trust anchor.
    #[must_use]
    pub fn has(&self, zone: &Name) -> bool {
        self.positive.contains_key(zone)
    }

    /// The zones with a trust anchor.
    pub fn zones(&self) -> impl Iterator<Item = &Name> {
        self.positive.keys()
    }

    /// The zones with a negative trust anchor, and the time at which it ends, in seconds since 1970.
    pub fn negative_zones(&self) -> impl Iterator<Item = (&Name, Option<u64>)> {
        self.negative.iter().map(|(zone, end)| (zone, *end))
    }

    /// Whether an answer about a name that `other` has found secure or insecure is so here too: whatever began the trust there does so here.
    #[must_use]
    pub fn judges_as(&self, other: &Self, name: &Name) -> bool {
        // Nothing is kept for longer than a negative anchor lasts, so it does not matter which of them have ended.
        let closest = self.closest(name, 0);
        let has = |zone: &Name, theirs: &Trust| {
            self.of(zone).iter().any(|ours| match (ours, theirs) {
                (Trust::Key(key), Trust::Ds(ds)) => ds.names(zone, key),
                _ => ours == theirs,
            })
        };
        let is_same = |zone: &Name| other.of(zone).iter().all(|theirs| has(zone, theirs));
        closest == other.closest(name, 0)
            && match &closest {
                Closest::Positive(zone) => is_same(zone),
                Closest::None | Closest::Negative(_) => true,
            }
    }

    /// The anchor that decides about a name at a time, in words.
    #[must_use]
    pub fn words(&self, name: &Name, now: u64) -> String {
        match self.closest(&name.to_lowercase(), now) {
            Closest::None => "none".to_owned(),
            Closest::Negative(_) => "a negative one: it is not validated".to_owned(),
            Closest::Positive(zone) => {
                let tags = self.of(&zone).iter().map(|trust| match trust {
                    Trust::Ds(ds) => ds.tag.to_string(),
                    Trust::Key(key) => key.tag.to_string(),
                });
                let tags: Vec<String> = tags.collect();
                let keys = if tags.len() == 1 { "key" } else { "keys" };
                format!("that of {zone}, {keys} {}", tags.join(" "))
            }
        }
    }

    pub(crate) fn of(&self, zone: &Name) -> &[Trust] {
        self.positive.get(zone).map_or(&[], Vec::as_slice)
    }

    /// The anchor that is closest to a name, at or above it, at a time.
    pub(crate) fn closest(&self, name: &Name, now: u64) -> Closest {
        for labels in (0..=name.n_labels()).rev() {
            let zone = name.suffix(labels);
            match self.negative.get(&zone) {
                Some(None) => return Closest::Negative(None),
                Some(Some(end)) if now < *end => return Closest::Negative(Some(end - now)),
                Some(Some(_)) | None => {}
            }
            if self.positive.contains_key(&zone) {
                return Closest::Positive(zone);
            }
        }
        Closest::None
    }
}
