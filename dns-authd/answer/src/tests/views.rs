//! Views, and the access lists of zones.

use std::net::IpAddr;
use std::sync::Arc;

use dns_update::Grant;
use dns_views::{Clients, View, ViewName, ZoneAccess, ZoneId};
use dns_wire::header::Flags;
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Name, Opcode, Rcode, Type};

use crate::live::LiveSets;
use crate::table::{Origin, Served, Table};
use crate::testing::{NOW, client, decode, query, records, snapshot_of, zone_at};
use crate::*;

const OFFICE: &str = "192.0.2.1";
const LAB: &str = "198.51.100.1";
const STRANGER: &str = "203.0.113.1";

/// The text of a zone whose `www` has this address, and an alias that leads into another zone.
fn zone(apex: &str, address: &str) -> String {
    format!(
        "{apex} 60 SOA ns.{apex} h.{apex} 1 2 3 4 60\n{apex} 60 NS ns.{apex}\nns.{apex} 60 A 192.0.2.53\n\
         www.{apex} 60 A {address}\nto.{apex} 60 CNAME www.other.test.\n"
    )
}

fn key(name: &str) -> Key {
    Key::new(&name.parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap()
}

fn view(name: &str, networks: &str, key: &str) -> View {
    View {
        name: name.parse().unwrap(),
        clients: Clients {
            networks: networks.parse().unwrap(),
            keys: vec![key.parse().unwrap()],
        },
    }
}

fn served(apex: &str, view: Option<&str>, address: &str) -> Served {
    let zone = zone(apex, address);
    let alone = snapshot_of(&[(apex, &records(&zone), LiveSets::default())]);
    Served {
        apex: apex.parse().unwrap(),
        view: view.map(|view| view.parse().unwrap()),
        zone: Some(zone_at(&alone, 0)),
        parts: None,
        live: Arc::default(),
        origin: Origin::Configured,
        access: None,
    }
}

/// A server of two views with a zone of one name, one of the office alone, and two zones for all; the office has its own `shadow.test`.
fn server() -> Snapshot {
    let zones = [
        served("a.test.", Some("office"), "10.0.0.1"),
        served("a.test.", Some("lab"), "10.0.0.2"),
        served("only.test.", Some("office"), "10.0.0.3"),
        served("other.test.", None, "10.0.0.4"),
        served("shadow.test.", None, "10.0.0.5"),
        served("shadow.test.", Some("office"), "10.0.0.6"),
    ];
    of(&zones.map(Arc::new))
}

fn of(zones: &[Arc<Served>]) -> Snapshot {
    let mut snapshot = snapshot_of(&[]);
    let seed = snapshot.table.seed();
    let plain: Vec<Arc<Served>> = zones
        .iter()
        .filter(|zone| zone.view.is_none())
        .cloned()
        .collect();
    let views = [
        view("office", "192.0.2.0/24", "office."),
        view("lab", "192.0.2.0/25, 198.51.100.0/24", "lab."),
    ];
    snapshot.table = Table::new(seed, &plain);
    snapshot.views = ViewTables::new(seed, &views, zones);
    snapshot.settings.keys = Keys::new([key("office."), key("lab."), key("stranger.")]);
    snapshot
}

/// The verdict about a message from an address, perhaps signed, and the octets of the reply.
fn verdict(
    snapshot: &Snapshot,
    message: &[u8],
    (from, signer): (&str, Option<&str>),
    transport: Transport,
) -> (Verdict, Vec<u8>) {
    let mut message = message.to_vec();
    if let Some(signer) = signer {
        key(signer).sign(&mut message, NOW).unwrap();
    }
    let from: IpAddr = from.parse().unwrap();
    let client = Client {
        peer: (from, 5353).into(),
        ..client(transport)
    };
    let mut responder = Responder::new(NoPrograms, 1);
    let mut out = vec![0; 65_535];
    let verdict = match responder.respond(snapshot, &message, &client, &mut out) {
        Verdict::Signed => responder.respond_signed(snapshot, (&message, NOW), &client, &mut out),
        verdict => verdict,
    };
    if let Verdict::Reply(length) = verdict {
        out.truncate(length);
    }
    (verdict, out)
}

/// The response code, and the last octet of the address that a name has.
fn answer(
    snapshot: &Snapshot,
    name: &str,
    (from, signer): (&str, Option<&str>),
) -> (Rcode, Option<u8>) {
    let message = query(&name.parse().unwrap(), Type::A);
    let (_, udp) = verdict(snapshot, &message, (from, signer), Transport::Udp);
    let (_, tcp) = verdict(snapshot, &message, (from, signer), Transport::Tcp);
    assert_eq!(udp, tcp, "{name} {from}");
    let records = dns_wire::Records::new(&udp).unwrap().map(Result::unwrap);
    let mut addresses = records.filter(|record| record.rtype == Type::A);
    let last = addresses.next().map(|record| udp[record.rdata.end - 1]);
    (Flags::read(&udp).unwrap().rcode(), last)
}

const REFUSED: (Rcode, Option<u8>) = (Rcode::REFUSED, None);

const fn found(last: u8) -> (Rcode, Option<u8>) {
    (Rcode::NOERROR, Some(last))
}

#[test]
fn a_client_sees_the_zones_of_its_view_and_those_of_none() {
    let snapshot = server();
    for (name, client, expected) in [
        ("www.a.test.", (OFFICE, None), found(1)),
        ("www.a.test.", (LAB, None), found(2)),
        ("www.a.test.", (STRANGER, None), REFUSED),
        ("www.a.test.", (OFFICE, Some("lab.")), found(2)),
        ("www.a.test.", (STRANGER, Some("office.")), found(1)),
        ("www.a.test.", (STRANGER, Some("stranger.")), REFUSED),
        ("www.only.test.", (OFFICE, None), found(3)),
        ("www.only.test.", (LAB, None), REFUSED),
        ("www.other.test.", (OFFICE, None), found(4)),
        ("www.other.test.", (STRANGER, None), found(4)),
        ("www.shadow.test.", (OFFICE, None), found(6)),
        ("www.shadow.test.", (LAB, None), found(5)),
        ("www.shadow.test.", (STRANGER, None), found(5)),
        // An alias leads on within what the client sees.
        ("to.only.test.", (OFFICE, None), found(4)),
    ] {
        assert_eq!(
            answer(&snapshot, name, client),
            expected,
            "{name} {client:?}"
        );
    }
    let zones: Vec<String> = snapshot.zones().map(|zone| zone.id().to_string()).collect();
    assert_eq!(
        zones,
        [
            "other.test.",
            "shadow.test.",
            "a.test..office",
            "only.test..office",
            "shadow.test..office",
            "a.test..lab"
        ]
    );
    for zone in &zones {
        let id: ZoneId = zone.parse().unwrap();
        assert_eq!(snapshot.zone(&id).unwrap().id(), id);
    }
    for missing in [
        "a.test",
        "only.test..lab",
        "other.test..office",
        "a.test..attic",
    ] {
        assert!(
            snapshot.zone(&missing.parse().unwrap()).is_none(),
            "{missing}"
        );
    }
}

#[test]
fn other_data_of_a_zone_goes_to_its_view_alone() {
    let before = server();
    let changed = [
        Arc::new(served("a.test.", Some("lab"), "10.0.0.22")),
        Arc::new(served("shadow.test.", None, "10.0.0.55")),
    ];
    let after = Snapshot {
        table: before.table.replace(changed.iter().cloned()),
        views: before.views.replace(&changed),
        settings: before.settings.clone(),
    };
    for (name, from, expected) in [
        ("www.a.test.", OFFICE, 1),
        ("www.a.test.", LAB, 22),
        ("www.shadow.test.", OFFICE, 6),
        ("www.shadow.test.", LAB, 55),
        ("www.shadow.test.", STRANGER, 55),
    ] {
        assert_eq!(
            answer(&after, name, (from, None)),
            found(expected),
            "{name} {from}"
        );
    }
}

#[test]
fn transfers_and_updates_know_the_view() {
    let mut snapshot = server();
    let lab: ZoneId = "a.test..lab".parse().unwrap();
    let grant = Grant {
        key: "lab.".parse().unwrap(),
        names: Vec::new(),
        types: Vec::new(),
    };
    let grants = [(lab.clone(), Arc::from([grant]))];
    snapshot.settings.grants = Arc::new(grants.into_iter().collect());
    let apex: Name = "a.test.".parse().unwrap();
    let transfer = query(&apex, Type::AXFR);
    for (client, view) in [
        ((OFFICE, None), "office"),
        ((OFFICE, Some("lab.")), "lab"),
        ((STRANGER, Some("office.")), "office"),
    ] {
        let (verdict, _) = verdict(&snapshot, &transfer, client, Transport::Tcp);
        let Verdict::Transfer { zone, .. } = verdict else {
            panic!("{client:?} {verdict:?}");
        };
        assert_eq!(
            zone.view.as_ref().map(ViewName::as_str),
            Some(view),
            "{client:?}"
        );
    }
    let mut update = query(&apex, Type::SOA);
    update[2] = Opcode::UPDATE.0 << 3;
    let (taken, _) = verdict(&snapshot, &update, (OFFICE, Some("lab.")), Transport::Tcp);
    let Verdict::Update { zone, .. } = taken else {
        panic!("{taken:?}");
    };
    assert_eq!(zone, lab);
    // The key of the other view has no grant there, and a stranger sees no such zone.
    for (signer, expected) in [("office.", Rcode::REFUSED), ("stranger.", Rcode::NOTAUTH)] {
        let (_, reply) = verdict(&snapshot, &update, (STRANGER, Some(signer)), Transport::Tcp);
        assert_eq!(Flags::read(&reply).unwrap().rcode(), expected, "{signer}");
    }
}

#[test]
fn a_zone_with_a_list_refuses_others_and_no_alias_leads_them_in() {
    let access = ZoneAccess {
        query: Some(Clients {
            networks: "192.0.2.0/24".parse().unwrap(),
            keys: vec!["lab.".parse().unwrap()],
        }),
        ..ZoneAccess::default()
    };
    let closed = Served {
        access: Some(Arc::new(access)),
        ..served("other.test.", None, "10.0.0.4")
    };
    let open = served("open.test.", None, "10.0.0.7");
    let snapshot = of(&[Arc::new(closed), Arc::new(open)]);
    for (name, client, expected) in [
        ("www.other.test.", (OFFICE, None), found(4)),
        ("www.other.test.", (STRANGER, None), REFUSED),
        ("none.other.test.", (STRANGER, None), REFUSED),
        ("www.other.test.", (STRANGER, Some("lab.")), found(4)),
        ("www.other.test.", (STRANGER, Some("office.")), REFUSED),
        ("to.open.test.", (OFFICE, None), found(4)),
        ("to.open.test.", (STRANGER, None), (Rcode::NOERROR, None)),
        ("to.open.test.", (STRANGER, Some("lab.")), found(4)),
        ("www.open.test.", (STRANGER, None), found(7)),
    ] {
        assert_eq!(
            answer(&snapshot, name, client),
            expected,
            "{name} {client:?}"
        );
    }
    let apex: Name = "other.test.".parse().unwrap();
    let mut message = query(&apex, Type::SOA);
    message[11] = 1;
    message.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
    let (_, reply) = verdict(&snapshot, &message, (STRANGER, None), Transport::Udp);
    // The extended error 18, Prohibited (RFC 8914 §4.19).
    assert!(
        reply.windows(6).any(|part| part == b"\0\x0f\0\x02\0\x12"),
        "{reply:02x?}"
    );
    assert!(decode(&reply).answer.is_empty());
    // Those who may transfer are another list.
    let transfer = query(&apex, Type::AXFR);
    let (taken, _) = verdict(&snapshot, &transfer, (STRANGER, None), Transport::Tcp);
    assert!(matches!(taken, Verdict::Transfer { .. }), "{taken:?}");
}
