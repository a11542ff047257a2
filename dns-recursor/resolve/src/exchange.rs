//! One question to one upstream: the query, and the responses that count.
//!
//! Every query has a random id and random letter case in its question (draft-vixie-dnsext-dns0x20), and the
//! shell sends it from a random port (RFC 5452 §9.2); a response must match all of these. The
//! resolver does not forward the client's EDNS options: an OPT record belongs to one hop.

use dns_cache::answer::UDP_PAYLOAD;
use dns_cache::key::Variant;
use dns_wire::{Composer, Flags, Rcode, header};

use crate::forward::Mode;

/// The source of unpredictable bits.
pub trait Entropy {
    /// The next 64 bits.
    fn next(&mut self) -> u64;
}

/// A query as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    id: u16,
    /// The question in the letter case it was sent in.
    question: Box<[u8]>,
    /// Whether it carried an OPT record.
    edns: bool,
}

/// The parameters of a query.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The question, its name in lower case.
    pub question: &'a [u8],
    /// DO and CD.
    pub variant: Variant,
    /// Whether RD is set.
    pub mode: Mode,
    /// Whether it has an OPT record.
    pub edns: bool,
    /// Whether its letter case is random.
    pub randomize_case: bool,
}

/// The relation of a datagram or stream message to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The response.
    Response,
    /// The response, truncated to fit a datagram.
    Truncated,
    /// The response, except for the letter case of the question: from a server that does not keep case, or
    /// from an attacker that guesses.
    OtherCase,
    /// From the upstream's address, with a wrong id or question: from an attacker that guesses.
    NearMiss,
    /// Not a response.
    Foreign,
}

impl Asking<'_> {
    /// Composes the query; `None` when the question is not well-formed.
    pub fn compose(&self, entropy: &mut (impl Entropy + ?Sized)) -> Option<(Sent, Vec<u8>)> {
        let [id_high, id_low, ..] = entropy.next().to_be_bytes();
        let id = u16::from_be_bytes([id_high, id_low]);
        let mut question: Box<[u8]> = self.question.into();
        if self.randomize_case {
            randomize_case(&mut question, entropy);
        }
        let mut flags = Flags::default();
        if self.mode == Mode::Recursive {
            flags = flags.with(Flags::RD);
        }
        if self.variant.checking_disabled() {
            flags = flags.with(Flags::CD);
        }
        let mut message = vec![0; header::LENGTH + question.len() + dns_wire::edns::OPT_LENGTH];
        let limit = message.len();
        let mut composer = Composer::new(&mut message, limit, id, flags).ok()?;
        composer.question(&question).ok()?;
        if self.edns {
            let dnssec_ok = self.variant.dnssec_ok();
            composer
                .opt(UDP_PAYLOAD, Rcode::NOERROR, dnssec_ok, &[])
                .ok()?;
        }
        let length = composer.finish();
        message.truncate(length);
        let sent = Sent {
            id,
            question,
            edns: self.edns,
        };
        Some((sent, message))
    }
}

impl Sent {
    /// Whether it carried an OPT record.
    #[must_use]
    pub const fn had_edns(&self) -> bool {
        self.edns
    }

    /// The kind of a message that came in over the query's own socket.
    #[must_use]
    pub fn compare(&self, message: &[u8]) -> Match {
        let (Some(flags), Some([n_questions, ..])) =
            (Flags::read(message), header::counts(message))
        else {
            return Match::Foreign;
        };
        if !flags.has(Flags::QR) || flags.opcode() != dns_wire::Opcode::QUERY {
            return Match::Foreign;
        }
        if header::id(message) != Some(self.id) {
            return Match::NearMiss;
        }
        let question = message.get(header::LENGTH..header::LENGTH + self.question.len());
        match (n_questions, question) {
            (1, Some(question)) if *question == *self.question => {
                if flags.has(Flags::TC) {
                    Match::Truncated
                } else {
                    Match::Response
                }
            }
            (1, Some(question)) if self.is_same_but_for_case(question) => Match::OtherCase,
            // A server that could not read the query may leave out the question.
            (0, _) if !matches!(flags.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) => Match::Response,
            _ => Match::NearMiss,
        }
    }

    /// Whether a question has the letter case of this query, and not by chance: then this query has come
    /// back in a circle.
    #[must_use]
    pub fn is_echoed_by(&self, question: &[u8]) -> bool {
        let letters =
            |upper: fn(&u8) -> bool| self.name().iter().filter(|byte| upper(byte)).count();
        *question == *self.question
            && letters(u8::is_ascii_uppercase).min(letters(u8::is_ascii_lowercase)) >= ECHO_LETTERS
    }

    fn is_same_but_for_case(&self, question: &[u8]) -> bool {
        let split = question.len().saturating_sub(4);
        question.get(split..) == self.question.get(split..)
            && question
                .get(..split)
                .is_some_and(|name| name.eq_ignore_ascii_case(self.name()))
    }

    fn name(&self) -> &[u8] {
        let split = self.question.len().saturating_sub(4);
        self.question.get(..split).unwrap_or_default()
    }
}

/// The least letters that a question needs before its case identifies a query.
const ECHO_LETTERS: usize = 5;

/// Flips a coin for the case of each letter of a question's name.
fn randomize_case(question: &mut [u8], entropy: &mut (impl Entropy + ?Sized)) {
    let split = question.len().saturating_sub(4);
    let (mut bits, mut left) = (0, 0);
    for byte in question.iter_mut().take(split) {
        // Length octets are below 64 and so never letters.
        if byte.is_ascii_alphabetic() {
            if left == 0 {
                (bits, left) = (entropy.next(), u64::BITS);
            }
            if bits & 1 == 1 {
                *byte ^= 0x20;
            }
            bits >>= 1;
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use dns_cache::testing::{Random, question, response};
    use dns_wire::{Query, Type};

    use super::*;

    impl Entropy for Random {
        fn next(&mut self) -> u64 {
            Self::next(self)
        }
    }

    fn asking(question: &[u8]) -> Asking<'_> {
        Asking {
            question,
            variant: Variant::new(true, false),
            mode: Mode::Recursive,
            edns: true,
            randomize_case: true,
        }
    }

    fn sent(name: &str) -> (Sent, Vec<u8>) {
        asking(&question(name, Type::A))
            .compose(&mut Random(5))
            .unwrap()
    }

    #[test]
    fn a_query_has_what_it_should_and_nothing_else() {
        let question = question("www.example", Type::HTTPS);
        for (mode, cd, rd) in [
            (Mode::Recursive, true, true),
            (Mode::Authoritative, false, false),
        ] {
            let asking = Asking {
                mode,
                variant: Variant::new(true, cd),
                ..asking(&question)
            };
            let (_, message) = asking.compose(&mut Random(1)).unwrap();
            let query = Query::parse(&message).unwrap();
            assert!(query.qname.eq_ignore_ascii_case(b"\x03www\x07example\0"));
            assert_eq!(query.qtype, Type::HTTPS);
            assert_eq!(
                query.flags.0,
                if rd { Flags::RD } else { 0 } | if cd { Flags::CD } else { 0 }
            );
            let edns = query.edns.unwrap();
            assert!((edns.dnssec_ok, edns.udp_size, edns.options) == (true, 1232, &[][..]));
            let plain = Asking {
                edns: false,
                ..asking
            };
            let (_, message) = plain.compose(&mut Random(1)).unwrap();
            assert_eq!(Query::parse(&message).unwrap().edns, None);
        }
    }

    #[test]
    fn ids_and_letter_case_differ_from_query_to_query() {
        let question = question("a-name-with-many-letters.example", Type::A);
        let mut random = Random(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let (sent, _) = asking(&question).compose(&mut random).unwrap();
            assert!(seen.insert((sent.id, sent.question.clone())));
            assert_eq!(sent.compare(&[]), Match::Foreign);
        }
        let cases = seen
            .iter()
            .map(|(_, q)| q)
            .collect::<std::collections::BTreeSet<_>>();
        assert!(cases.len() > 95);
    }

    #[test]
    fn only_a_response_that_matches_in_all_counts() {
        let (sent, message) = sent("www.example");
        let response = response(&message, 0, Rcode::NOERROR, &[]);
        assert_eq!(sent.compare(&response), Match::Response);
        assert_eq!(sent.compare(&message), Match::Foreign);
        let changed = |at: usize, xor: u8| {
            let mut changed = response.clone();
            changed[at] ^= xor;
            sent.compare(&changed)
        };
        assert_eq!(changed(0, 1), Match::NearMiss);
        assert_eq!(changed(2, 0x02), Match::Truncated);
        assert_eq!(changed(2, 0x10), Match::Foreign);
        assert_eq!(changed(13, 0x20), Match::OtherCase);
        assert_eq!(changed(13, 0x01), Match::NearMiss);
        // A letter in the type is no letter.
        assert_eq!(changed(26, 0x20), Match::NearMiss);
        assert_eq!(changed(5, 3), Match::NearMiss);
        for length in 0..12 {
            assert_eq!(sent.compare(&response[..length]), Match::Foreign);
        }
        assert_eq!(sent.compare(&response[..20]), Match::NearMiss);
    }

    #[test]
    fn an_error_need_not_repeat_the_question() {
        let (sent, message) = sent("www.example");
        for (rcode, expected) in [
            (Rcode::FORMERR, Match::Response),
            (Rcode::REFUSED, Match::Response),
            (Rcode::NOERROR, Match::NearMiss),
            (Rcode::NXDOMAIN, Match::NearMiss),
        ] {
            let mut bare = response(&message, 0, rcode, &[]);
            bare.truncate(12);
            bare[4..12].fill(0);
            assert_eq!(sent.compare(&bare), expected);
        }
    }

    #[test]
    fn a_query_that_comes_back_is_known_by_its_letter_case() {
        let (sent, message) = sent("a-name-with-many-letters.example");
        let asked = Query::parse(&message).unwrap().question;
        assert!(sent.is_echoed_by(asked));
        assert!(!sent.is_echoed_by(&asked.to_ascii_lowercase()));
        // Too few letters to tell.
        let (sent, message) = self::sent("abc");
        assert!(!sent.is_echoed_by(Query::parse(&message).unwrap().question));
    }
}
