//! Any bytes as the records of a catalog zone, and as the list of its members: a list that was read can be written, and each zone
//! has one catalog.

use std::path::Path;

use dns_catalog::{Catalog, Known, Members, assign, decode, encode, file_name};
use dns_wire::Name;
use dns_wire::hash::Seed;
use dns_zone::Zone;
use dns_zone::parse::{Options, parse};

pub(super) const WORDS: &[&str] = &[
    "version", "zones", "coo", "group", "PTR", "TXT", "\"2\"", "a.test.", "\\000", "@",
];

/// The most members.
const MOST: usize = 7;

pub(super) fn body(data: &[u8]) {
    let apex = Name::parse("c.test.").expect("a name");
    if let Ok(text) = str::from_utf8(data)
        && let Ok(members) = decode(text)
    {
        assert_eq!(decode(&encode(&members)), Ok(members), "it is read again");
    }
    let mut load = |_: &Path| {
        let head = b"$TTL 0\n@ SOA invalid. invalid. 1 1 1 1 0\n@ NS invalid.\n";
        Ok([&head[..], data].concat())
    };
    let Ok(file) = parse(Path::new("z"), &apex, &mut load, &Options::default()) else {
        return;
    };
    let Ok(zone) = Zone::build(&apex, &file.records, Seed(7)) else {
        return;
    };
    let records = zone.plain_records();
    let records = records
        .iter()
        .map(|(owner, rtype, _, rdata)| (owner, *rtype, rdata.as_slice()));
    let Ok(catalog) = Catalog::read(&apex, records, MOST) else {
        return;
    };
    let known = [Known {
        name: &apex,
        catalog: Some(&catalog),
    }];
    let assigned = assign(&Members::new(), &known, &|zone| zone.is_root());
    assert!(assigned.members.len() <= MOST, "no more than may be");
    for (zone, member) in &assigned.members {
        assert!(!zone.is_root(), "a configured zone stays");
        let file = file_name(zone, &member.id);
        assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
    }
    assert_eq!(decode(&encode(&assigned.members)), Ok(assigned.members));
}
