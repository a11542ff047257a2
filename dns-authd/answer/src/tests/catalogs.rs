//! A catalog answers the clients that may transfer it alone.

use std::sync::Arc;

use dns_views::Clients;
use dns_wire::header::Flags;
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Rcode, Type};

use crate::live::LiveSets;
use crate::table::{Origin, Served};
use crate::testing::{NOW, ask, decode, query, records, snapshot_of};
use crate::*;

const CATALOG: &str = "c.test. 0 SOA invalid. invalid. 7 1 1 1 0\nc.test. 0 NS invalid.\n\
    version.c.test. 0 TXT \"2\"\nx.zones.c.test. 0 PTR a.test.\n";
const OTHER: &str = "a.test. 60 SOA ns.a.test. h.a.test. 9 2 3 4 60\na.test. 60 NS ns.a.test.\n\
    ns.a.test. 60 A 192.0.2.53\nin.a.test. 60 CNAME version.c.test.\n";

/// A server with a catalog for these networks and this key.
fn server(networks: &str, key: &Key) -> Snapshot {
    let mut snapshot = snapshot_of(&[
        ("c.test.", &records(CATALOG), LiveSets::default()),
        ("a.test.", &records(OTHER), LiveSets::default()),
    ]);
    let apex = "c.test.".parse().unwrap();
    let served = snapshot.table.zone(&apex).unwrap();
    let catalog = Served {
        apex,
        zone: served.zone.clone(),
        parts: None,
        live: Arc::default(),
        origin: Origin::Catalog(Arc::new(Clients {
            networks: networks.parse().unwrap(),
            keys: vec![key.name().clone()],
        })),
        view: None,
        access: None,
    };
    snapshot.table = snapshot.table.replace([Arc::new(catalog)]);
    snapshot.settings.keys = Keys::new([key.clone()]);
    snapshot
}

fn key(name: &str) -> Key {
    Key::new(&name.parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap()
}

const QUESTIONS: [(&str, Type, Rcode); 6] = [
    ("c.test.", Type::SOA, Rcode::NOERROR),
    ("version.c.test.", Type::TXT, Rcode::NOERROR),
    ("x.zones.c.test.", Type::PTR, Rcode::NOERROR),
    ("c.test.", Type::ANY, Rcode::NOERROR),
    ("none.c.test.", Type::A, Rcode::NXDOMAIN),
    ("zones.c.test.", Type::A, Rcode::NOERROR),
];

#[test]
fn others_learn_nothing_of_a_catalog() {
    let (holder, known) = (key("k."), key("other."));
    for transport in [Transport::Udp, Transport::Tcp] {
        for (name, qtype, expected) in QUESTIONS {
            let message = query(&name.parse().unwrap(), qtype);
            let rcode = |networks: &str, signer: Option<&Key>| {
                let mut snapshot = server(networks, &holder);
                snapshot.settings.keys = Keys::new([holder.clone(), known.clone()]);
                let mut message = message.clone();
                if let Some(signer) = signer {
                    signer.sign(&mut message, NOW).unwrap();
                }
                let reply = ask(&snapshot, &message, transport);
                Flags::read(&reply).unwrap().rcode()
            };
            let case = format!("{transport:?} {name} {qtype}");
            assert_eq!(rcode("192.0.2.0/24", None), Rcode::REFUSED, "{case}");
            assert_eq!(
                rcode("192.0.2.0/24", Some(&known)),
                Rcode::REFUSED,
                "{case}"
            );
            assert_eq!(rcode("192.0.2.0/24", Some(&holder)), expected, "{case}");
            assert_eq!(rcode("127.0.0.0/8", None), expected, "{case}");
        }
    }
}

#[test]
fn no_alias_leads_into_a_catalog() {
    let snapshot = server("127.0.0.0/8", &key("k."));
    let message = query(&"in.a.test.".parse().unwrap(), Type::TXT);
    let got = decode(&ask(&snapshot, &message, Transport::Udp));
    assert_eq!(got.answer.len(), 1, "{:?}", got.answer);
}
