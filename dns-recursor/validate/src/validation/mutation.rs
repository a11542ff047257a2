//! An adversary who has everything that the zones have signed, and may send anything.

use dns_cache::testing::Random;
use dns_wire::{Rcode, Section, Type};

use crate::testing::{Record, Reply, TRUTH, World, content, name, world};
use crate::verdict::Security;

/// The attempts of a run: each is a response, and some also change the keys.
const ATTEMPTS: usize = 3_000;

fn pick<'a, T>(random: &mut Random, all: &'a [T]) -> &'a T {
    &all[below(random, all.len())]
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.next() % end.max(1) as u64).unwrap()
}

/// Changes a response in one way.
fn mutate(reply: &mut Reply, pool: &[Record], random: &mut Random) {
    let n = reply.records.len();
    let at = below(random, n);
    match random.next() % 9 {
        0 => reply.rcode = Rcode::NXDOMAIN,
        1 => reply.rcode = Rcode::NOERROR,
        2 | 3 => reply.records.push(pick(random, pool).clone()),
        _ if n == 0 => {}
        4 => {
            reply.records.remove(at);
        }
        5 => {
            let octet = below(random, reply.records[at].rdata.len());
            if let Some(octet) = reply.records[at].rdata.get_mut(octet) {
                *octet ^= 1 << (random.next() % 8);
            }
        }
        6 => {
            let owner = pick(random, pool).owner.clone();
            let old = reply.records[at].owner.clone();
            for record in &mut reply.records {
                if record.owner == old {
                    record.owner = owner.clone();
                }
            }
        }
        7 => {
            let record = &mut reply.records[at];
            record.section = match record.section {
                Section::Answer => Section::Authority,
                Section::Authority | Section::Additional => Section::Answer,
            };
        }
        _ => {
            let owner = reply.records[at].owner.clone();
            reply.records.retain(|record| record.owner != owner);
        }
    }
}

/// Everything that the zones have signed, and the unsigned rest.
fn everything(world: &World) -> Vec<Record> {
    let replies = TRUTH
        .iter()
        .map(|(qname, qtype, ..)| world.reply(&name(qname), *qtype));
    replies.flat_map(|reply| reply.records).collect()
}

#[test]
fn no_changed_answer_is_secure_and_none_from_a_signed_zone_is_insecure() {
    let mut world = world();
    let pool = everything(&world);
    let (mut n_secure, mut n_bogus) = (0, 0);
    for seed in 0..ATTEMPTS {
        let mut random = Random(seed as u64 * 0x9e37_79b9 + 1);
        let (qname, qtype, worth, _) = pick(&mut random, TRUTH);
        let qname = name(qname);
        let truth = world.reply(&qname, *qtype);
        // The true answer, or that to another question.
        let mut reply = match random.next() % 3 {
            0 => {
                let (other, qtype, ..) = pick(&mut random, TRUTH);
                world.reply(&name(other), *qtype)
            }
            _ => truth.clone(),
        };
        for _ in 0..random.next() % 4 {
            mutate(&mut reply, &pool, &mut random);
        }
        world.instead.clear();
        if random.next().is_multiple_of(3) {
            let labels = below(&mut random, qname.n_labels() + 1);
            let owner = qname.suffix(labels);
            let rtype = *pick(&mut random, &[Type::DS, Type::DNSKEY]);
            let mut keys = world.reply(&owner, rtype);
            for _ in 0..=random.next() % 3 {
                mutate(&mut keys, &pool, &mut random);
            }
            world.instead.insert((owner, rtype), Some(keys));
        }
        let verdict = world.validate(&qname, *qtype, &reply);
        match verdict.security {
            Security::Secure => {
                n_secure += 1;
                assert_eq!(
                    content(&reply.message(&qname, *qtype)),
                    content(&truth.message(&qname, *qtype)),
                    "seed {seed}: {qname} {qtype} is secure with {:#?} and {:#?}",
                    reply.records,
                    world.instead
                );
                assert_ne!(*worth, Security::Bogus, "seed {seed}: {qname} {qtype}");
            }
            // RFC 9276 §3.2: any denial of that zone counts as unsigned, the false ones too.
            Security::Insecure if qname.is_within(&name("many.test")) => {}
            Security::Insecure => assert_eq!(
                *worth,
                Security::Insecure,
                "seed {seed}: {qname} {qtype} is insecure ({:?}) with {:#?} and {:#?}",
                verdict.why,
                reply.records,
                world.instead
            ),
            Security::Bogus => n_bogus += 1,
            Security::Indeterminate => {}
        }
    }
    // The adversary does not only fail to be understood.
    assert!(n_secure > ATTEMPTS / 10, "{n_secure} secure");
    assert!(n_bogus > ATTEMPTS / 5, "{n_bogus} bogus");
}
