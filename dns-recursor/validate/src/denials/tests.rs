use dns_cache::testing::Random;

use super::*;
use crate::testing::{NOW, TRUTH, World, content, name, world};
use crate::{Anchors, Security};

/// What all true negative answers teach.
fn taught(world: &World) -> Denials {
    let mut denials = Denials::default();
    for (qname, qtype, security, _) in TRUTH {
        let qname = name(qname);
        let reply = world.reply(&qname, *qtype);
        let response = Response::read(&reply.message(&qname, *qtype)).unwrap();
        let is_denial = response.section(Section::Authority).count() > 0
            && response.section(Section::Answer).count() == 0;
        if is_denial && *security == Security::Secure {
            denials.learn(&qname, &response, 500, NOW);
        }
    }
    denials
}

/// Checks an answer made from denials against the truth; false when there is none.
fn check(world: &World, denials: &Denials, qname: &Name, qtype: Type) -> bool {
    let Some(denied) = denials.deny(qname, qtype, &world.anchors, NOW + 1) else {
        return false;
    };
    let truth = world.reply(qname, qtype).message(qname, qtype);
    assert_eq!(content(&denied.message), content(&truth), "{qname} {qtype}");
    let (verdict, _) = world.validate_message(qname, qtype, &denied.message, false);
    assert_eq!(verdict.security, Security::Secure, "{qname} {qtype}");
    assert!((1..500).contains(&denied.lifetime));
    true
}

#[test]
fn names_in_known_gaps_are_denied_as_their_zone_would() {
    let world = world();
    let denials = taught(&world);
    for (qname, qtype, expected) in [
        ("never.good.test", Type::A, true),
        ("x.y.never.good.test", Type::A, true),
        ("x.www.good.test", Type::A, true),
        ("www.good.test", Type::TXT, true),
        ("ent.good.test", Type::A, true),
        ("zz.test", Type::A, true),
        ("zz", Type::A, true),
        ("zz", Type::DS, true),
        ("plain.test", Type::DS, true),
        // Below a name that does not exist, whatever its proof.
        ("x.no.n3.test", Type::TXT, true),
        ("x.y.no.good.test", Type::A, true),
        // They exist.
        ("www.good.test", Type::A, false),
        ("good.test", Type::DS, false),
        ("good.test", Type::MX, false),
        // Wildcards and aliases may have the type.
        ("q.wild.good.test", Type::A, false),
        ("q.wild.good.test", Type::TXT, true),
        ("alias.good.test", Type::TXT, false),
        ("x.dn.good.test", Type::A, false),
        // Other zones have them.
        ("www.plain.test", Type::A, false),
        ("no.plain.test", Type::A, false),
        ("new.n3.test", Type::A, false),
        ("no.expired.test", Type::A, false),
        ("never.good.test", Type::ANY, false),
    ] {
        let found = check(&world, &denials, &name(qname), qtype);
        assert_eq!(found, expected, "{qname} {qtype}");
    }
}

#[test]
fn no_answer_from_denials_is_wrong_whatever_the_name() {
    let world = world();
    let denials = taught(&world);
    let mut random = Random(11);
    let labels = [
        "a", "www", "no", "wild", "q", "ent", "dn", "alias", "there", "x", "zz", "plain",
    ];
    let zones = ["good.test", "test", "n3.test", "plain.test", "opt.test"];
    let types = [
        Type::A,
        Type::TXT,
        Type::DS,
        Type::NS,
        Type::CNAME,
        Type::SOA,
    ];
    let mut n_denied = 0;
    for _ in 0..4_000 {
        let mut pick = |n: usize| usize::try_from(random.below(n as u64)).unwrap();
        let n_labels = pick(4);
        let mut text = zones[pick(zones.len())].to_owned();
        for _ in 0..n_labels {
            text = format!("{}.{text}", labels[pick(labels.len())]);
        }
        let qtype = types[pick(types.len())];
        n_denied += usize::from(check(&world, &denials, &name(&text), qtype));
    }
    assert!(n_denied > 500, "{n_denied}");
}

#[test]
fn denials_end_with_their_time_and_at_negative_anchors() {
    let world = world();
    let denials = taught(&world);
    let qname = name("never.good.test");
    let is_denied = |anchors: &Anchors, now: u64| {
        let denied = denials.deny(&qname, Type::A, anchors, now);
        denied.is_some()
    };
    assert!(is_denied(&world.anchors, NOW + 499));
    assert!(!is_denied(&world.anchors, NOW + 500));
    assert!(!is_denied(&Anchors::default(), NOW));
    let negative = world.anchors.clone();
    let negative = negative.without_until(&name("good.test"), NOW + 100);
    assert!(!is_denied(&negative, NOW));
    assert!(is_denied(&negative, NOW + 100));
}

#[test]
fn the_records_are_bounded() {
    let world = world();
    let qname = name("never.good.test");
    let reply = world.reply(&qname, Type::A);
    let response = Response::read(&reply.message(&qname, Type::A)).unwrap();
    let mut denials = Denials::default();
    for n in 0..MAX_RECORDS + 10 {
        let mut other = response.clone();
        let owner = name(&format!("n{n}.good.test"));
        other
            .sets
            .retain(|set| set.rtype == Type::SOA || set.owner == name("www.good.test"));
        for set in other.sets.iter_mut().filter(|set| set.rtype == Type::NSEC) {
            set.owner = owner.clone();
        }
        denials.learn(&owner, &other, 500, NOW);
    }
    assert_eq!(denials.len(), MAX_RECORDS);
    let n_kept: usize = denials.zones.values().map(|zone| zone.gaps.len()).sum();
    assert_eq!(n_kept, MAX_RECORDS);
    assert_eq!(
        (denials.ends.len(), denials.ends_by_age.len()),
        (MAX_ENDS, MAX_ENDS)
    );
    denials.clear();
    assert!(denials.is_empty());
}
