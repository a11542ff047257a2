//! Any bytes as an update of a zone: it is carried out as a whole or not at all, and what comes of it is a zone.

use std::path::Path;

use dns_update::{Draft, Grant, Update};
use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::parse::{Options, parse};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Soa, SoaTimes, Zone};

const ZONE: &str = "$TTL 60\n@ SOA ns h 7 1 1 1 1\n NS ns\n NS ns2\nns A 192.0.2.1\nwww A 192.0.2.2\n\
    www A 192.0.2.3\nwww TXT \"x\"\nalias CNAME www\nlive LUA A \"f()\"\nlive TXT \"y\"\n";

/// The types of the zone, and some that it may get.
const TYPES: [Type; 8] = [
    Type::A,
    Type::NS,
    Type::SOA,
    Type::CNAME,
    Type::TXT,
    Type::MX,
    Type::SRV,
    Type::DNAME,
];

pub(super) fn body(data: &[u8]) {
    let Ok(update) = Update::parse(data) else {
        return;
    };
    let apex = Name::parse("a.test.").expect("a name");
    let mut load = |_: &Path| Ok(ZONE.as_bytes().to_vec());
    let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).expect("a zone");
    let zone = Zone::build(&file.apex, &file.records, Seed(7)).expect("a zone");
    let grant = Grant {
        key: Name::root(),
        names: Vec::new(),
        types: TYPES.to_vec(),
    };
    let mut draft = Draft::of(&zone);
    let before = records(&draft);
    let is_changed = draft.apply(&update, &[&grant]);
    let after = records(&draft);
    if is_changed != Ok(true) {
        assert_eq!(before, after, "a refused update changes nothing");
        return;
    }
    let (old, new) = (serial(&before), serial(&after));
    assert!(Soa::is_newer(new, old), "the serial rises");
    let is_server =
        |record: &&ZoneRecord<'_>| record.owner == file.apex && record.rtype == Type::NS;
    assert!(
        after.iter().any(|record| is_server(&record)),
        "a server is left"
    );
    for record in &after {
        assert!(record.owner.is_within(&file.apex), "a name of the zone");
        let mut others = after.iter().filter(|it| it.owner == record.owner);
        let is_alone = others.clone().count() == 1;
        assert!(
            record.rtype != Type::CNAME || is_alone,
            "an alias has nothing else"
        );
        let has_one_ttl = others.all(|it| it.rtype != record.rtype || it.ttl == record.ttl);
        assert!(has_one_ttl, "a set has one TTL");
    }
    // The same again finds its prerequisites unmet, or changes nothing but the serial.
    drop(draft.apply(&update, &[&grant]));
}

fn records(draft: &Draft<'_>) -> Vec<ZoneRecord<'static>> {
    let mut records = draft.clone().into_records();
    records.sort_by(|a, b| (&a.owner, a.rtype, &a.rdata).cmp(&(&b.owner, b.rtype, &b.rdata)));
    records
}

/// The serial of the one SOA record.
fn serial(records: &[ZoneRecord<'_>]) -> u32 {
    let mut soas = records.iter().filter(|record| record.rtype == Type::SOA);
    let soa = soas.next().expect("a SOA record");
    assert!(soas.next().is_none(), "one SOA record");
    SoaTimes::of(&soa.rdata).expect("its timers").serial
}
