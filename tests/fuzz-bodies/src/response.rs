//! Any bytes as what an upstream sends to the resolver.

use dns_cache::message::{Bailiwick, MAX_MESSAGE, Reader, TtlLimits};
use dns_strict::Message;
use dns_wire::{Class, Name, Records, Section, Type, rdata};

/// Labels of names that the responder may not speak for, and of such that lead there.
pub(super) const WORDS: &[&str] = &["\x04bank", "\x04bank\0", "\x03www\x04bank\0", "\x07example"];

/// Every name but those with a label `bank`.
#[derive(Debug)]
struct Honest;

impl Bailiwick for Honest {
    fn owns(&self, name: &Name, _: Type) -> bool {
        !name
            .labels()
            .any(|label| label.eq_ignore_ascii_case(b"bank"))
    }
}

pub(super) fn body(data: &[u8]) {
    // The resolver compares the question before it reads on: the input brings its own.
    let Some(question) = question_of(data) else {
        return;
    };
    let limits = TtlLimits::default();
    let reader = Reader {
        question: &question,
        limits,
        trust_ad: false,
        dnssec_ok: data.len().is_multiple_of(2),
        zone: &Name::root(),
        bailiwick: &Honest,
    };
    let mut scratch = vec![0; MAX_MESSAGE];
    let Ok(answer) = reader.read(data, &mut scratch) else {
        return;
    };

    let most = limits.positive_max.max(limits.negative_max);
    assert!(answer.lifetime <= most, "kept for {} s", answer.lifetime);
    let kept = answer.message.bytes();
    let message = Message::read(kept).unwrap_or_else(|error| panic!("{error}: {kept:02x?}"));
    assert!(message.response && !message.authentic_data, "{message:?}");
    assert_eq!(
        answer.message.question(),
        question,
        "the question it answers"
    );
    let sections = [&message.answers, &message.authority, &message.additional];
    for record in sections.into_iter().flatten() {
        assert!(record.ttl <= most, "{record:?}");
        assert_ne!(
            record.rtype,
            dns_strict::OPT,
            "hop by hop, never kept (RFC 6891 §6.1.1)"
        );
    }
    let (qname, _) = Name::from_wire(&question).expect("it is in the answer");
    let mut seen = Vec::new();
    for record in Records::new(kept).expect("read above").flatten() {
        let (owner, _) = Name::read(kept, record.name_offset).expect("read above");
        assert!(
            owner == qname || Honest.owns(&owner, record.rtype),
            "{owner} is foreign"
        );
        assert_ne!(record.section, Section::Additional, "answers are minimal");
        let data = dns_wire::records::uncompressed_rdata(kept, &record).expect("read above");
        assert!(
            record.rtype == Type::A && record.class != Class::IN
                || rdata::is_valid(record.rtype, &data),
            "{} {data:02x?} is passed on",
            record.rtype
        );
        let record = (owner.to_lowercase(), record.rtype, data);
        assert!(!seen.contains(&record), "{record:?} twice");
        seen.push(record);
    }
    let aged = answer.message.aged(3);
    let aged = Message::read(aged.bytes()).expect("older, but the same");
    assert_eq!(aged.answers.len(), message.answers.len());
}

/// The question section, in lower case, if there is exactly one question with a plain name.
pub(super) fn question_of(data: &[u8]) -> Option<Vec<u8>> {
    if data.get(4..6)? != [0, 1] {
        return None;
    }
    let mut at = 12;
    while *data.get(at)? != 0 {
        let length = usize::from(*data.get(at)?);
        if length > 63 {
            return None;
        }
        at += 1 + length;
    }
    if at - 11 > 255 {
        return None;
    }
    let mut question = data.get(12..at + 5)?.to_vec();
    let name_length = at - 11;
    question[..name_length].make_ascii_lowercase();
    Some(question)
}
