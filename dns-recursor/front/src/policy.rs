//! Rules for queries and clients that get no answer.
//!
//! The shell compares addresses with `allow-from`. This module has the treatment of clients outside it, and
//! the kinds of query that a forwarder does not handle.

use dns_wire::{Class, Query, Rcode, Type};

pub use config::dns_recursor::Outsiders;

/// The pseudo-type by which servers say that a name does not exist; clients must not query it (RFC 9824
/// §3.5).
const NXNAME: Type = Type::NXNAME;

/// The error for a query that no upstream should see; `None` for all others.
#[must_use]
pub fn refusal(query: &Query<'_>) -> Option<Rcode> {
    if query.edns.is_some_and(|edns| edns.version != 0) {
        return Some(Rcode::BADVERS);
    }
    match (query.qclass, query.qtype) {
        (_, Type::OPT) | (_, NXNAME) => Some(Rcode::FORMERR),
        // Only authoritative servers transfer zones.
        (_, Type::AXFR | Type::IXFR) => Some(Rcode::REFUSED),
        (_, Type::TKEY | Type::TSIG) => Some(Rcode::NOTIMP),
        (Class::IN, _) => None,
        (Class::CH, _) => None,
        _ => Some(Rcode::REFUSED),
    }
}

#[cfg(test)]
mod tests {
    use dns_cache::testing::{query, question};

    use super::*;

    fn check(qtype: Type, qclass: Class, expected: Option<Rcode>) {
        let mut question = question("x.example", qtype);
        let at = question.len() - 2;
        question[at..].copy_from_slice(&qclass.0.to_be_bytes());
        let message = query(1, &question, None);
        assert_eq!(
            refusal(&Query::parse(&message).unwrap()),
            expected,
            "{qtype} {qclass}"
        );
    }

    #[test]
    fn what_no_upstream_should_see_is_refused() {
        for qtype in [Type::A, Type::ANY, Type::RRSIG, Type(65280), Type::MAILB] {
            check(qtype, Class::IN, None);
        }
        check(Type::TXT, Class::CH, None);
        check(Type::AXFR, Class::IN, Some(Rcode::REFUSED));
        check(Type::IXFR, Class::IN, Some(Rcode::REFUSED));
        check(Type::TSIG, Class::IN, Some(Rcode::NOTIMP));
        check(Type::OPT, Class::IN, Some(Rcode::FORMERR));
        check(Type::NXNAME, Class::IN, Some(Rcode::FORMERR));
        for qclass in [Class::HS, Class::NONE, Class::ANY] {
            check(Type::A, qclass, Some(Rcode::REFUSED));
        }
    }

    #[test]
    fn only_edns_version_0_exists() {
        let mut message = query(1, &question("x.example", Type::A), Some(false));
        let version = message.len() - 5;
        message[version] = 1;
        let query = Query::parse(&message).unwrap();
        assert_eq!(refusal(&query), Some(Rcode::BADVERS));
    }
}
