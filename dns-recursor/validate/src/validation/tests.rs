use dns_wire::{Rcode, Section, Type};

use crate::testing::{NOW, Record, Reply, TRUTH, World, name, world};
use crate::verdict::{Security, Why};
use crate::{Anchor, Anchors, anchors::AnchorError, budget, crypto};

use Security::{Bogus, Indeterminate, Insecure, Secure};

#[test]
fn true_answers_are_worth_what_their_zones_are() {
    let world = world();
    for (qname, qtype, security, why) in TRUTH {
        let qname = name(qname);
        let reply = world.reply(&qname, *qtype);
        let verdict = world.validate(&qname, *qtype, &reply);
        let found = (verdict.security, verdict.why);
        assert_eq!(found, (*security, *why), "{qname} {qtype}");
    }
}

#[track_caller]
fn check(
    qname: &str,
    qtype: Type,
    change: impl FnOnce(&mut World, &mut Reply),
    security: Security,
    why: Why,
) {
    let mut world = world();
    let mut reply = world.reply(&name(qname), qtype);
    change(&mut world, &mut reply);
    let verdict = world.validate(&name(qname), qtype, &reply);
    assert_eq!((verdict.security, verdict.why), (security, Some(why)));
}

fn without(reply: &mut Reply, rtype: Type) {
    reply.records.retain(|record| record.rtype != rtype);
}

#[test]
fn what_is_missing_or_changed_is_bogus_and_says_why() {
    let a = Type::A;
    let www = "www.good.test";
    check(
        www,
        a,
        |_, it| without(it, Type::RRSIG),
        Bogus,
        Why::NoSignature,
    );
    check(
        www,
        a,
        |_, it| it.records[0].rdata[3] ^= 1,
        Bogus,
        Why::Signature,
    );
    check(
        "no.good.test",
        a,
        |_, it| without(it, Type::NSEC),
        Bogus,
        Why::NoProof,
    );
    check(
        "no.n3.test",
        a,
        |_, it| without(it, Type::NSEC3),
        Bogus,
        Why::NoProof,
    );
    check(
        "q.wild.good.test",
        a,
        |_, it| without(it, Type::NSEC),
        Bogus,
        Why::NoProof,
    );
    check(
        "q.wild.n3.test",
        a,
        |_, it| without(it, Type::NSEC3),
        Bogus,
        Why::NoProof,
    );
    let empty = |_: &mut World, it: &mut Reply| it.records.clear();
    check(www, a, empty, Bogus, Why::NoProof);
    // A name with records is called missing, with all that its zone has signed.
    let missing = |_: &mut World, it: &mut Reply| it.rcode = Rcode::NXDOMAIN;
    check("www.good.test", Type::TXT, missing, Bogus, Why::NoProof);
    check("www.n3.test", Type::TXT, missing, Bogus, Why::NoProof);
    check("ent.good.test", a, missing, Bogus, Why::NoProof);
    check("ent.n3.test", a, missing, Bogus, Why::NoProof);
    check("q.wild.good.test", Type::TXT, missing, Bogus, Why::NoProof);
    check("q.wild.n3.test", Type::TXT, missing, Bogus, Why::NoProof);
}

#[test]
fn keys_that_cannot_be_had_are_indeterminate() {
    for rtype in [Type::DNSKEY, Type::DS] {
        let silent = |world: &mut World, _: &mut Reply| {
            world.instead.insert((name("good.test"), rtype), None);
        };
        check(
            "www.good.test",
            Type::A,
            silent,
            Indeterminate,
            Why::Unanswered,
        );
    }
}

#[test]
fn a_signed_zone_is_not_called_unsigned_without_a_proof() {
    let stripped = |rtypes: &'static [Type]| {
        move |world: &mut World, reply: &mut Reply| {
            without(reply, Type::RRSIG);
            let key = (name("good.test"), Type::DS);
            let mut ds = world.reply(&key.0, key.1);
            ds.records.retain(|it| !rtypes.contains(&it.rtype));
            world.instead.insert(key, Some(ds));
        }
    };
    let www = ("www.good.test", Type::A);
    check(www.0, www.1, stripped(&[Type::DS]), Bogus, Why::NoProof);
    let all = stripped(&[Type::DS, Type::RRSIG]);
    check(www.0, www.1, all, Bogus, Why::NoProof);
    // The child's own denial does not count as that of the zone above.
    let child = |world: &mut World, reply: &mut Reply| {
        without(reply, Type::RRSIG);
        let qname = name("good.test");
        let denial = world.reply(&qname, Type::TXT);
        world.instead.insert((qname, Type::DS), Some(denial));
    };
    check(www.0, www.1, child, Bogus, Why::NoProof);
}

#[test]
fn the_zone_above_denies_nothing_below_a_delegation() {
    let parents = |world: &mut World, reply: &mut Reply| {
        let test = world
            .zones
            .iter()
            .find(|it| it.name == name("test"))
            .unwrap();
        reply.records.clear();
        reply.rcode = Rcode::NXDOMAIN;
        test.push_denial(reply, true);
    };
    check("www.good.test", Type::A, parents, Bogus, Why::NoProof);
    // As NODATA of the apex.
    let nodata = |world: &mut World, reply: &mut Reply| {
        parents(world, reply);
        reply.rcode = Rcode::NOERROR;
    };
    check("good.test", Type::MX, nodata, Bogus, Why::NoProof);
}

#[test]
fn a_wildcard_does_not_answer_for_a_name_that_has_a_closer_one() {
    // `*.wild` for a name below `there.wild`, which exists.
    let replayed = |world: &mut World, reply: &mut Reply| {
        let good = world.zones.iter().find(|it| it.name == name("good.test"));
        let good = good.unwrap();
        let owner = name("y.there.wild.good.test");
        let source = name("*.wild.good.test");
        *reply = Reply {
            rcode: Rcode::NOERROR,
            records: Vec::new(),
        };
        good.push(reply, Section::Answer, &owner, (&source, Type::A));
        good.push_denial(reply, false);
    };
    check(
        "y.there.wild.good.test",
        Type::A,
        replayed,
        Bogus,
        Why::NoProof,
    );
}

#[test]
fn records_that_the_chain_does_not_lead_to_are_bogus() {
    let stray = |world: &mut World, reply: &mut Reply| {
        let other = world.reply(&name("alias.good.test"), Type::CNAME);
        reply.records.extend(other.records);
    };
    check("www.good.test", Type::A, stray, Bogus, Why::NoProof);
}

#[test]
fn many_keys_and_signatures_cost_little() {
    let mut world = world();
    let good = world.zones.iter().find(|it| it.name == name("good.test"));
    let apex = name("good.test");
    let key = good.unwrap().dnskey();
    // Octets that change places two by two leave the tag as it is.
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for at in (4..34).step_by(2) {
        for other in (at + 2..34).step_by(2) {
            let mut swapped = key.clone();
            swapped.swap(at, other);
            swapped.swap(at + 1, other + 1);
            keys.push(swapped);
        }
    }
    let record = |owner: &str, rtype, rdata| Record {
        section: Section::Answer,
        owner: name(owner),
        rtype,
        rdata,
    };
    let mut trap = world.reply(&apex, Type::DNSKEY);
    let keys = keys
        .into_iter()
        .map(|rdata| record("good.test", Type::DNSKEY, rdata));
    trap.records.splice(0..0, keys);
    let signature = trap.records.pop().unwrap().rdata;
    for n in 0..200_u8 {
        let mut other = signature.clone();
        *other.last_mut().unwrap() ^= n;
        trap.records.push(record("good.test", Type::RRSIG, other));
    }
    world.instead.insert((apex, Type::DNSKEY), Some(trap));
    let qname = name("www.good.test");
    let mut reply = world.reply(&qname, Type::A);
    let signature = reply.records.pop().unwrap().rdata;
    for n in 1..200_u8 {
        let mut other = signature.clone();
        *other.last_mut().unwrap() ^= n;
        reply
            .records
            .push(record("www.good.test", Type::RRSIG, other));
    }
    let (verdict, work) = world.validate_counting(&qname, Type::A, &reply);
    assert_eq!(verdict.security, Bogus);
    assert!(work.n_verifications() <= 16, "{work:?}");
}

#[test]
fn iterations_above_the_limit_are_not_computed() {
    let world = world();
    let qname = name("a.b.c.no.many.test");
    let reply = world.reply(&qname, Type::A);
    let (_, work) = world.validate_counting(&qname, Type::A, &reply);
    assert_eq!(work.n_hashes(), 0);
    let qname = name(&format!("{}n3.test", "x.".repeat(100)));
    let reply = world.reply(&qname, Type::A);
    let (verdict, work) = world.validate_counting(&qname, Type::A, &reply);
    assert_eq!(verdict.why, Some(Why::TooMuch));
    assert_eq!(work.n_hashes(), budget::MAX_HASHES);
}

#[test]
fn the_closest_anchor_decides() {
    let mut world = world();
    let qname = name("www.wrong.test");
    let reply = world.reply(&qname, Type::A);
    let zone = |world: &World, apex: &str| {
        let zone = world.zones.iter().find(|it| it.name == name(apex));
        zone.unwrap().anchor()
    };
    let (root, wrong) = (zone(&world, "."), zone(&world, "wrong.test"));
    let mut security = |anchors: Anchors| {
        world.anchors = anchors;
        world.validate(&qname, Type::A, &reply).security
    };
    let both = [root.clone(), wrong];
    assert_eq!(security(Anchors::new([root.clone()], [])), Bogus);
    assert_eq!(security(Anchors::new(both.clone(), [])), Secure);
    assert_eq!(security(Anchors::new(both.clone(), [name("TEST")])), Secure);
    let negative = [name("wrong.test")];
    assert_eq!(security(Anchors::new([root], negative.clone())), Insecure);
    assert_eq!(security(Anchors::new(both, negative)), Insecure);
    assert_eq!(security(Anchors::default()), Insecure);
}

#[test]
fn what_is_not_validated_is_kept_no_longer_than_the_negative_anchor_lasts() {
    let mut world = world();
    let qname = name("www.expired.test");
    let reply = world.reply(&qname, Type::A);
    let anchors = world.anchors.clone();
    let mut worth = |end: u64| {
        world.anchors = anchors.clone().without_until(&name("EXPIRED.test"), end);
        let verdict = world.validate(&qname, Type::A, &reply);
        (verdict.security, verdict.lifetime)
    };
    assert_eq!(worth(NOW + 100), (Insecure, 100));
    assert_eq!(worth(NOW), (Bogus, 0));
    assert_eq!(worth(u64::MAX), (Insecure, u32::MAX));
}

#[test]
fn the_zone_above_a_negative_anchor_has_its_ds_records() {
    let mut world = world();
    let zone = world.zones.iter().find(|it| it.name.is_root());
    let root = zone.unwrap().anchor();
    world.anchors = Anchors::new([root], [name("good.test")]);
    let worth = |qtype: Type| {
        let qname = name("good.test");
        let reply = world.reply(&qname, qtype);
        world.validate(&qname, qtype, &reply).security
    };
    assert_eq!(worth(Type::DS), Secure);
    assert_eq!(worth(Type::MX), Insecure);
}

#[test]
fn anchors_are_ds_or_dnskey_records() {
    for line in crate::anchors::ROOT {
        assert!(Anchor::parse(line).unwrap().zone.is_root());
    }
    let key = "test. 3600 IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=";
    assert_eq!(Anchor::parse(key).unwrap().zone, name("test"));
    for (text, error) in [
        ("", AnchorError::Form),
        ("test.", AnchorError::Form),
        ("test. A 192.0.2.1", AnchorError::Form),
        ("te..st DS 1 8 2 00", AnchorError::Name),
        ("test. DS 1 8 2 00", AnchorError::Data),
        (
            "test. DS 1 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118",
            AnchorError::Unknown,
        ),
        (
            "test. DNSKEY 0 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
            AnchorError::Unknown,
        ),
    ] {
        assert_eq!(Anchor::parse(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn of_algorithms_those_in_use_are_known() {
    let known: Vec<u8> = (0..=255)
        .filter(|it| crypto::knows_algorithm(*it))
        .collect();
    assert_eq!(known, [8, 10, 13, 14, 15]);
}
