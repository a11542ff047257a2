//! Aliases that lead from one zone of the server into another.

use std::sync::Arc;

use dns_lua::select::{Member, Select};
use dns_wire::{Name, Rcode, Type};

use crate::live::{Drawn, Failure, LiveAnswer, LiveSets, Part};
use crate::programs::NoPrograms;
use crate::testing::{Expected, ask, client, decode, query, records, snapshot_of};
use crate::{Responder, Snapshot, Transport, Verdict};

const A: &str = "a.test. 300 SOA ns.a.test. h. 1 2 3 4 60\na.test. 300 NS ns.a.test.\n\
    ns.a.test. 300 A 192.0.2.1\nwww.a.test. 300 CNAME www.b.test.\nnx.a.test. 300 CNAME nx.b.test.\n\
    nodata.a.test. 300 CNAME txt.b.test.\nloop.a.test. 300 CNAME loop.b.test.\n\
    deleg.a.test. 300 CNAME x.deleg.b.test.\nchain.a.test. 300 CNAME mid.a.test.\n\
    mid.a.test. 300 CNAME chain.b.test.\nout.a.test. 300 CNAME www.else.test.\n\
    *.w.a.test. 300 CNAME www.b.test.\ndn.a.test. 300 DNAME b.test.\nback.a.test. 300 CNAME back.b.test.\n\
    sub.a.test. 300 NS ns.sub.a.test.\nns.sub.a.test. 300 A 192.0.2.9\ntosub.a.test. 300 CNAME www.sub.a.test.\n\
    away.a.test. 300 NS ns.away.test.\ntoaway.a.test. 300 CNAME www.away.a.test.\n\
    live.a.test. 300 CNAME live.b.test.\ndown.a.test. 300 CNAME down.b.test.\nhold.a.test. 300 CNAME hold.b.test.\n\
    round.a.test. 300 CNAME x.round.b.test.\nturn.a.test. 300 DNAME round.b.test.\n";

const B: &str = "b.test. 200 SOA ns.b.test. h. 1 2 3 4 30\nb.test. 200 NS ns.b.test.\n\
    ns.b.test. 200 A 192.0.2.11\nwww.b.test. 200 A 192.0.2.20\ntxt.b.test. 200 TXT \"t\"\n\
    loop.b.test. 200 CNAME loop.a.test.\ndeleg.b.test. 200 NS ns.deleg.b.test.\n\
    ns.deleg.b.test. 200 A 192.0.2.12\nchain.b.test. 200 CNAME c2.b.test.\nc2.b.test. 200 CNAME www.b.test.\n\
    back.b.test. 200 CNAME ns.a.test.\nround.b.test. 200 DNAME turn.a.test.\n\
    live.b.test. 200 LUA A ifportup()\ndown.b.test. 200 LUA A ifportup()\nhold.b.test. 200 LUA A ifportup()\n";

const SUB: &str = "sub.a.test. 100 SOA ns.sub.a.test. h. 1 2 3 4 30\nsub.a.test. 100 NS ns.sub.a.test.\n\
    ns.sub.a.test. 100 A 192.0.2.9\nwww.sub.a.test. 100 A 192.0.2.99\n";

/// Three zones; the live sets of the second are, in the order of its file: up, failed, waiting.
fn server() -> Snapshot {
    let member = Member {
        value: "192.0.2.77".to_owned(),
        weight: 1,
    };
    let members = vec![(member, vec![192, 0, 2, 77])];
    let drawn = Drawn::new(Type::A, 5, Select::All, members).unwrap();
    let up = LiveAnswer {
        parts: vec![Part::Drawn(drawn)],
        ttl: 5,
        ..LiveAnswer::default()
    };
    let hold = LiveAnswer {
        hold: true,
        ..up.clone()
    };
    let (a, b, sub) = (records(A), records(B), records(SUB));
    let sets = |zone: &Snapshot| {
        let zone = crate::testing::zone_at(zone, 0);
        let owners = zone.live_sets().iter().map(|set| set.owner.to_string());
        owners.collect::<Vec<_>>()
    };
    let live = sets(&crate::testing::snapshot("b.test.", &b))
        .into_iter()
        .map(|owner| match owner.as_str() {
            "live.b.test." => up.clone(),
            "down.b.test." => LiveAnswer::failed(Failure::AllDown),
            _ => hold.clone(),
        });
    let live = LiveSets::new(live.map(Arc::new), None);
    snapshot_of(&[
        ("a.test.", &a, LiveSets::default()),
        ("b.test.", &b, live),
        ("sub.a.test.", &sub, LiveSets::default()),
    ])
}

fn answer(name: &str, qtype: Type) -> Expected {
    let message = query(&name.parse().unwrap(), qtype);
    decode(&ask(&server(), &message, Transport::Udp))
}

/// The owners and types of a section, sorted.
fn sets(lines: &std::collections::BTreeSet<crate::testing::Line>) -> Vec<String> {
    let line = |(owner, rtype, ..): &(Name, Type, u32, Vec<u8>)| format!("{owner} {rtype}");
    let mut sets: Vec<String> = lines.iter().map(line).collect();
    sets.sort();
    sets
}

/// Name, response code, RRsets of the answer and of the authority section.
const TABLE: [(&str, Rcode, &str, &str); 13] = [
    (
        "www",
        Rcode::NOERROR,
        "www.a.test. CNAME, www.b.test. A",
        "",
    ),
    ("nx", Rcode::NXDOMAIN, "nx.a.test. CNAME", "b.test. SOA"),
    (
        "nodata",
        Rcode::NOERROR,
        "nodata.a.test. CNAME",
        "b.test. SOA",
    ),
    (
        "loop",
        Rcode::NOERROR,
        "loop.a.test. CNAME, loop.b.test. CNAME",
        "",
    ),
    (
        "deleg",
        Rcode::NOERROR,
        "deleg.a.test. CNAME",
        "deleg.b.test. NS",
    ),
    (
        "chain",
        Rcode::NOERROR,
        "c2.b.test. CNAME, chain.a.test. CNAME, chain.b.test. CNAME, mid.a.test. CNAME, www.b.test. A",
        "",
    ),
    ("out", Rcode::NOERROR, "out.a.test. CNAME", ""),
    (
        "x.w",
        Rcode::NOERROR,
        "www.b.test. A, x.w.a.test. CNAME",
        "",
    ),
    (
        "www.dn",
        Rcode::NOERROR,
        "dn.a.test. DNAME, www.b.test. A, www.dn.a.test. CNAME",
        "",
    ),
    (
        "back",
        Rcode::NOERROR,
        "back.a.test. CNAME, back.b.test. CNAME, ns.a.test. A",
        "",
    ),
    // Below a delegation whose zone is here, and below one whose is not.
    (
        "tosub",
        Rcode::NOERROR,
        "tosub.a.test. CNAME, www.sub.a.test. A",
        "",
    ),
    (
        "toaway",
        Rcode::NOERROR,
        "toaway.a.test. CNAME",
        "away.a.test. NS",
    ),
    // A live set at the end of the chain.
    (
        "live",
        Rcode::NOERROR,
        "live.a.test. CNAME, live.b.test. A",
        "",
    ),
];

#[test]
fn an_alias_is_followed_into_every_zone_of_the_server() {
    for (name, rcode, expected, authority) in TABLE {
        let got = answer(&format!("{name}.a.test."), Type::A);
        assert_eq!(got.rcode, rcode.0, "{name}: {got:?}");
        assert!(got.authoritative, "{name}");
        assert_eq!(sets(&got.answer).join(", "), expected, "{name}");
        assert_eq!(sets(&got.authority).join(", "), authority, "{name}");
    }
    let alias = answer("www.a.test.", Type::CNAME);
    assert_eq!(sets(&alias.answer), ["www.a.test. CNAME"]);
    assert_eq!(answer("down.a.test.", Type::A).rcode, Rcode::SERVFAIL.0);
}

#[test]
fn redirections_that_lead_to_each_other_end() {
    let got = answer("round.a.test.", Type::A);
    assert_eq!(got.rcode, Rcode::NOERROR.0);
    let dnames = got.answer.iter().filter(|line| line.1 == Type::DNAME);
    assert_eq!(dnames.count(), 2, "{got:?}");
}

#[test]
fn a_query_waits_for_the_live_set_of_the_other_zone() {
    let (snapshot, mut out) = (server(), vec![0; 512]);
    let message = query(&"hold.a.test.".parse().unwrap(), Type::A);
    let mut responder = Responder::new(NoPrograms, 1);
    let verdict = responder.respond(&snapshot, &message, &client(Transport::Udp), &mut out);
    let Verdict::Wait { zone, .. } = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(zone.to_string(), "b.test.");
}

#[test]
fn a_zone_without_data_is_left_to_the_resolver() {
    let mut snapshot = server();
    let gone = crate::table::Served {
        apex: "b.test.".parse().unwrap(),
        zone: None,
        parts: None,
        live: Arc::default(),
        origin: crate::table::Origin::Configured,
        view: None,
        access: None,
    };
    snapshot.table = snapshot.table.replace([Arc::new(gone)]);
    let message = query(&"www.a.test.".parse().unwrap(), Type::A);
    let got = decode(&ask(&snapshot, &message, Transport::Udp));
    assert_eq!(sets(&got.answer), ["www.a.test. CNAME"]);
}
