//! Any bytes as what an upstream sends to a resolver that validates: none but the truth is secure.

use dns_cache::message::{Bailiwick, MAX_MESSAGE, Reader, TtlLimits};
use dns_validate::Security;
use dns_validate::testing::{World, content, world};
use dns_wire::{Name, Type};

use super::response::question_of;

/// Labels of the signed zones.
pub(super) const WORDS: &[&str] = &[
    "\x03www",
    "\x04good\x04test\0",
    "\x02n3\x04test\0",
    "\x04wild",
    "\x02no",
];

thread_local! {
    static WORLD: World = world();
}

/// A server that may speak of everything: validation alone decides.
#[derive(Debug)]
struct Anyone;

impl Bailiwick for Anyone {
    fn owns(&self, _: &Name, _: Type) -> bool {
        true
    }
}

pub(super) fn body(data: &[u8]) {
    let Some(question) = question_of(data) else {
        return;
    };
    let reader = Reader {
        question: &question,
        limits: TtlLimits::default(),
        trust_ad: false,
        dnssec_ok: true,
        zone: &Name::root(),
        bailiwick: &Anyone,
    };
    let mut scratch = vec![0; MAX_MESSAGE];
    let Ok(answer) = reader.read(data, &mut scratch) else {
        return;
    };
    let (qname, _) = Name::from_wire(&question).expect("the reader has read it");
    let qtype = dns_cache::key::qtype(&question);
    // The zones do not have these as records of their own.
    if matches!(qtype, Type::ANY | Type::RRSIG | Type::NSEC | Type::NSEC3) {
        return;
    }
    let dangles = answer.dangling.is_some();
    WORLD.with(|world| {
        let (verdict, work) = world.validate_message(&qname, qtype, &answer.message, dangles);
        assert!(work.n_verifications() <= 64, "{work:?}");
        if verdict.security == Security::Secure && !dangles {
            let truth = world.reply(&qname, qtype).message(&qname, qtype);
            assert_eq!(content(&answer.message), content(&truth), "{qname} {qtype}");
        }
    });
}
