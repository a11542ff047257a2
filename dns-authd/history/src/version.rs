//! The mark of a version of a zone: its SOA record, and a sum over its other records.

use dns_wire::Type;
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Cursor, SoaTimes, Zone, canonical};

/// A version of a zone.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its SOA record.
    pub soa: ZoneRecord<'static>,
    /// The sum over its other records; neither their order nor the letter case of names counts.
    pub digest: u64,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && form(&self.soa) == form(&other.soa)
    }
}

impl Eq for Version {}

/// The records of a version.
pub trait Content {
    /// Passes every record to `take`, the SOA record among them.
    fn each(&self, take: &mut dyn FnMut(ZoneRecord<'_>));

    /// About how many they are.
    fn n_records(&self) -> usize;
}

impl Content for Zone {
    fn each(&self, take: &mut dyn FnMut(ZoneRecord<'_>)) {
        let mut cursor = Cursor::default();
        while let Some(record) = self.next_record(&mut cursor) {
            take(record);
        }
    }

    fn n_records(&self) -> usize {
        Self::n_records(self)
    }
}

impl Version {
    /// The version that a zone is; `None` if it has no SOA record.
    #[must_use]
    pub fn of(zone: &Zone) -> Option<Self> {
        Self::of_content(zone)
    }

    /// The version that these records are; `None` without a SOA record.
    #[must_use]
    pub fn of_content(zone: &dyn Content) -> Option<Self> {
        let mut digest = 0_u64;
        let mut soa = None;
        each(zone, |record, form| match record.rtype {
            Type::SOA => soa = Some(record.into_owned()),
            _ => digest = digest.wrapping_add(sum(form)),
        });
        Some(Self { soa: soa?, digest })
    }

    /// The version behind this one, with this SOA record, when these records go and come.
    #[must_use]
    pub fn after(
        &self,
        soa: ZoneRecord<'static>,
        removed: &[ZoneRecord<'static>],
        added: &[ZoneRecord<'static>],
    ) -> Self {
        let of = |records: &[ZoneRecord<'static>]| {
            let sums = records.iter().map(|record| sum(&form(record)));
            sums.fold(0_u64, u64::wrapping_add)
        };
        let digest = self.digest.wrapping_sub(of(removed));
        Self {
            soa,
            digest: digest.wrapping_add(of(added)),
        }
    }

    /// Its serial.
    #[must_use]
    pub fn serial(&self) -> u32 {
        SoaTimes::of(&self.soa.rdata).map_or(0, |times| times.serial)
    }
}

/// Passes every record of a zone to `take`, each with its form for comparisons.
pub(crate) fn each(zone: &dyn Content, mut take: impl FnMut(ZoneRecord<'_>, &[u8])) {
    let mut octets = Vec::new();
    zone.each(&mut |record| {
        write_form(&record, &mut octets);
        take(record, &octets);
    });
}

/// A record as it compares: owner in lower case, type, TTL, and data with its names in lower case.
pub(crate) fn form(record: &ZoneRecord<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    write_form(record, &mut octets);
    octets
}

fn write_form(record: &ZoneRecord<'_>, octets: &mut Vec<u8>) {
    octets.clear();
    octets.extend_from_slice(record.owner.as_wire());
    octets.make_ascii_lowercase();
    octets.extend(record.rtype.0.to_be_bytes());
    octets.extend(record.ttl.to_be_bytes());
    octets.extend_from_slice(&canonical(record.rtype, &record.rdata));
}

/// The number of one record in the digest. It must stay the same, since digests are kept on disk: FNV-1a, and then the last
/// step of `MurmurHash3`, without which similar records would add up alike.
pub(crate) fn sum(form: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for octet in form {
        hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The octets that a record takes.
pub(crate) fn octets(record: &ZoneRecord<'_>) -> usize {
    record.owner.as_wire().len() + record.rdata.len() + 10
}
