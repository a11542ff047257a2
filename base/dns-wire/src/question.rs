//! A question to a resolver, and the messages that come in for it.

use crate::code::{Opcode, Rcode};
use crate::header::{self, Flags};
use crate::name::Name;
use crate::records::RecordRef;
use crate::rtype::{Class, Type};

/// The most aliases of an answer that are followed.
const MAX_ALIASES: usize = 16;

/// A question, and the identifier of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The identifier.
    pub id: u16,
    /// The name.
    pub name: &'a Name,
    /// The type of the records.
    pub rtype: Type,
}

/// A message that came in for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It is not the response to this question: wait on.
    Foreign,
    /// It was cut: the question has to go over TCP.
    Truncated,
    /// The server answers with an error: neither NOERROR nor NXDOMAIN.
    Failed(Rcode),
    /// The server answers, with these flags.
    Answered(Flags),
}

impl Question<'_> {
    /// The query of a client that asks for recursion, and for nothing of EDNS.
    #[must_use]
    pub fn query(&self) -> Vec<u8> {
        let head = [self.id, Flags::RD, 1, 0, 0, 0];
        let mut message: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
        message.extend_from_slice(self.name.as_wire());
        message.extend_from_slice(&self.rtype.0.to_be_bytes());
        message.extend_from_slice(&Class::IN.0.to_be_bytes());
        message
    }

    /// Tells what a message from the server is.
    #[must_use]
    pub fn response(&self, message: &[u8]) -> Response {
        let Some(flags) = Flags::read(message) else {
            return Response::Foreign;
        };
        let is_response = flags.has(Flags::QR) && flags.opcode() == Opcode::QUERY;
        if !is_response || header::id(message) != Some(self.id) {
            return Response::Foreign;
        }
        // Some servers leave the question out of an error.
        let is_error = !matches!(flags.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN);
        match header::counts(message) {
            Some([0, ..]) if is_error => {}
            Some([1, ..]) if self.is_repeated(message) => {}
            _ => return Response::Foreign,
        }
        match is_error {
            _ if flags.has(Flags::TC) => Response::Truncated,
            true => Response::Failed(flags.rcode()),
            false => Response::Answered(flags),
        }
    }

    /// Whether a message repeats the question; letter case does not count.
    fn is_repeated(&self, message: &[u8]) -> bool {
        let Ok((name, behind)) = Name::read(message, header::LENGTH) else {
            return false;
        };
        name == *self.name
            && header::word(message, behind) == Some(self.rtype.0)
            && header::word(message, behind + 2) == Some(Class::IN.0)
    }

    /// The name that the aliases of an answer lead to, and their smallest TTL; none when they go in a circle or are damaged.
    #[must_use]
    pub fn end_of_aliases(&self, message: &[u8], records: &[RecordRef]) -> Option<(Name, u32)> {
        let (mut target, mut ttl) = (self.name.clone(), u32::MAX);
        for _ in 0..=MAX_ALIASES {
            let mut records = records.iter();
            let alias = records.find(|record| record.answers(message, &target, Type::CNAME));
            let Some(alias) = alias else {
                return Some((target, ttl));
            };
            ttl = ttl.min(alias.ttl);
            target = Name::read(message, alias.rdata.start).ok()?.0;
        }
        None
    }
}
