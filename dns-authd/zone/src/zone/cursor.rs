//! The records of a zone one after the other, for transfers that take their time.

use std::borrow::Cow;

use dns_wire::{Name, Type};

use super::{SetData, Zone};
use crate::name_table::Index;
use crate::resolution::RdataItems;

/// A place among the records of a zone. It copies no record, so a transfer under way costs next to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    node: usize,
    set: usize,
    /// The place in the data of the set.
    at: usize,
    /// The live set, or the library behind them, and the record in it.
    live: usize,
    record: usize,
}

/// A record of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneRecord<'z> {
    /// The owner.
    pub owner: Name,
    /// The type; programs have that of `PowerDNS`.
    pub rtype: Type,
    /// The TTL.
    pub ttl: u32,
    /// The data.
    pub rdata: Cow<'z, [u8]>,
}

impl ZoneRecord<'_> {
    /// The same with data of its own, for longer than its zone.
    #[must_use]
    pub fn into_owned(self) -> ZoneRecord<'static> {
        ZoneRecord {
            owner: self.owner,
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: self.rdata.into_owned().into(),
        }
    }

    /// A SOA record with another serial; `None` for data that is too short for one.
    #[must_use]
    pub fn with_serial(&self, serial: u32) -> Option<ZoneRecord<'static>> {
        let mut rdata = self.rdata.to_vec();
        let [s3, s2, s1, s0, ..] = rdata.last_chunk_mut::<20>()?;
        [*s3, *s2, *s1, *s0] = serial.to_be_bytes();
        Some(ZoneRecord {
            owner: self.owner.clone(),
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: rdata.into(),
        })
    }

    /// The same with this one's data.
    #[must_use]
    pub fn borrowed(&self) -> ZoneRecord<'_> {
        ZoneRecord {
            owner: self.owner.clone(),
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: Cow::Borrowed(&self.rdata),
        }
    }
}

impl Zone {
    /// The record at the cursor, hidden ones too, as a transfer sends it; moves the cursor behind it.
    pub fn next_record(&self, cursor: &mut Cursor) -> Option<ZoneRecord<'_>> {
        match self.next_plain_record(cursor) {
            Some(record) => Some(record),
            None => self.next_live_record(cursor),
        }
    }

    /// The same without the records of live sets, plain ones among them, and without the programs that others include.
    pub fn next_plain_record(&self, cursor: &mut Cursor) -> Option<ZoneRecord<'_>> {
        while let Some(node) = self.nodes.get(cursor.node) {
            let Some(set) = self.sets_of(node).get(cursor.set) else {
                cursor.node += 1;
                (cursor.set, cursor.at) = (0, 0);
                continue;
            };
            let data = match set.data {
                SetData::Fixed { start, end } => self.rdata.get(start as usize..end as usize),
                SetData::Live(_) => None,
            };
            let rest = data.and_then(|data| data.get(cursor.at..));
            let Some(rdata) = RdataItems::new(rest.unwrap_or_default()).next() else {
                cursor.set += 1;
                cursor.at = 0;
                continue;
            };
            // The data stands behind its length.
            cursor.at += 2 + rdata.len();
            return Some(ZoneRecord {
                owner: Index::new(cursor.node).map_or_else(Name::root, |it| self.spelling(it)),
                rtype: set.rtype,
                ttl: self.ttl_of(node, set, rdata),
                rdata: Cow::Borrowed(rdata),
            });
        }
        None
    }

    fn next_live_record(&self, cursor: &mut Cursor) -> Option<ZoneRecord<'_>> {
        while let Some(set) = self.live_sets.get(cursor.live) {
            let at = cursor.record;
            cursor.record += 1;
            let owner = set.owner.clone();
            if let Some(rdata) = set.fixed.get(at) {
                return Some(ZoneRecord {
                    owner,
                    rtype: set.rtype,
                    ttl: set.fixed_ttl,
                    rdata: Cow::Borrowed(rdata),
                });
            }
            if let Some(program) = set.programs.get(at - set.fixed.len()) {
                return Some(ZoneRecord {
                    owner,
                    rtype: Type::LUA,
                    ttl: program.ttl,
                    rdata: Cow::Owned(program.rdata(set.rtype)),
                });
            }
            cursor.live += 1;
            cursor.record = 0;
        }
        let (owner, program) = self.libraries.get(cursor.live - self.live_sets.len())?;
        cursor.live += 1;
        Some(ZoneRecord {
            owner: owner.clone(),
            rtype: Type::LUA,
            ttl: program.ttl,
            rdata: Cow::Owned(program.rdata(Type::LUA)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dns_wire::hash::Seed;

    use super::*;
    use crate::parse::{Options, parse, parse_bytes};

    #[test]
    fn the_cursor_meets_every_record_once() {
        let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n NS ns\nns A 192.0.2.1\nns A 192.0.2.2\nx.y.z TXT a\n\
                    sub NS ns.sub\nns.sub A 192.0.2.3\nl A 192.0.2.4\nl LUA A \"a()\"\nl LUA A \"b()\"\n\
                    m LUA TXT \"c()\"\nlib LUA LUA \"x = 1\"\nLib2 LUA LUA \"y = 1\"\n";
        let file = parse_bytes(text.as_bytes()).unwrap();
        let zone = Zone::build(&file.apex, &file.records, Seed(1)).unwrap();
        let mut cursor = Cursor::default();
        let mut met = Vec::new();
        while let Some(record) = zone.next_record(&mut cursor) {
            met.push((
                record.owner,
                record.rtype,
                record.ttl,
                record.rdata.into_owned(),
            ));
        }
        let mut all = zone.records();
        assert_eq!(met.len(), zone.n_records());
        met.sort();
        all.sort();
        assert_eq!(met, all);
        assert_eq!(zone.next_record(&mut cursor), None);
    }

    #[test]
    fn signatures_have_the_ttl_of_what_they_cover() {
        let text = include_str!("../../../../tests/data/signed/nsec.zone");
        let apex = "s.test.".parse().unwrap();
        let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
        let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
        let zone = Zone::build(&apex, &file.records, Seed(1)).unwrap();
        let mut cursor = Cursor::default();
        let mut ttls = std::collections::BTreeSet::new();
        while let Some(record) = zone.next_record(&mut cursor) {
            if record.rtype == Type::RRSIG {
                // The TTL as it was signed.
                let signed = u32::from_be_bytes(record.rdata[4..8].try_into().unwrap());
                assert_eq!(record.ttl, signed, "{}", record.owner);
                ttls.insert(signed);
            }
        }
        assert_eq!(ttls.len(), 2, "those of NSEC differ from the others");
    }
}
