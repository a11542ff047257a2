//! The responses that names and rules come to.

use std::net::{Ipv4Addr, Ipv6Addr};

use dns_cache::key;
use dns_cache::message::{Message, Row};
use dns_wire::edns::extended_error;
use dns_wire::{Name, Rcode, Section, Type};

use crate::policy::{Data, Rule};

/// The TTL of what has none of its own: RFC 8767's for answers that should soon be asked for again.
pub(crate) const TTL: u32 = 30;

/// The response to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This one.
    Answer(Message),
    /// The beginning of a response; its rest is the answer for the target.
    Alias {
        /// The CNAME record.
        first: Message,
        /// The name that it leads to.
        target: Name,
    },
    /// None.
    Drop,
    /// An empty one with TC, over UDP.
    Truncated,
}

/// A question, taken apart.
pub(crate) struct Asked<'a> {
    pub(crate) question: &'a [u8],
    pub(crate) name: Name,
    pub(crate) qtype: Type,
}

impl<'a> Asked<'a> {
    pub(crate) fn read(question: &'a [u8]) -> Option<Self> {
        let (name, _) = Name::from_wire(question).ok()?;
        Some(Self {
            question,
            name,
            qtype: key::qtype(question),
        })
    }

    fn wants(&self, rtype: Type) -> bool {
        self.qtype == rtype || self.qtype == Type::ANY
    }

    /// Addresses, or no data.
    pub(crate) fn addresses(
        &self,
        v4: impl Iterator<Item = Ipv4Addr>,
        v6: impl Iterator<Item = Ipv6Addr>,
        ttl: u32,
    ) -> Option<Message> {
        let v4 = v4.filter(|_| self.wants(Type::A));
        let v6 = v6.filter(|_| self.wants(Type::AAAA));
        let data = |rtype, octets: &[u8]| Data {
            rtype,
            ttl,
            rdata: octets.into(),
        };
        let v4 = v4.map(|address| data(Type::A, &address.octets()));
        let v6 = v6.map(|address| data(Type::AAAA, &address.octets()));
        let records: Vec<Data> = v4.chain(v6).collect();
        self.records(&records, ttl)
    }

    /// Records, or no data.
    pub(crate) fn records(&self, records: &[Data], ttl: u32) -> Option<Message> {
        let wanted = records.iter().filter(|data| self.wants(data.rtype));
        let rows: Vec<Row<'_>> = wanted.map(|data| self.row(data)).collect();
        match rows.is_empty() {
            true => self.no_data(ttl),
            false => Message::compose(self.question, Rcode::NOERROR, &rows),
        }
    }

    fn row<'d>(&'d self, data: &'d Data) -> Row<'d> {
        Row {
            section: Section::Answer,
            owner: &self.name,
            rtype: data.rtype,
            ttl: data.ttl,
            rdata: &data.rdata,
        }
    }

    /// No data: the name is a zone of its own, so that the denial can be kept (RFC 2308 §5).
    fn no_data(&self, ttl: u32) -> Option<Message> {
        let mut soa = [self.name.as_wire(), b"\x06nobody\x07invalid\0"].concat();
        for value in [1_u32, 3600, 1200, 604_800, ttl] {
            soa.extend_from_slice(&value.to_be_bytes());
        }
        let row = Row {
            section: Section::Authority,
            owner: &self.name,
            rtype: Type::SOA,
            ttl,
            rdata: &soa,
        };
        Message::compose(self.question, Rcode::NOERROR, &[row])
    }

    /// An alias; its own record when the question is for that.
    pub(crate) fn alias(&self, target: &Name, ttl: u32) -> Option<Reply> {
        let data = Data {
            rtype: Type::CNAME,
            ttl,
            rdata: target.as_wire().into(),
        };
        let first = Message::compose(self.question, Rcode::NOERROR, &[self.row(&data)])?;
        Some(match self.wants(Type::CNAME) {
            true => Reply::Answer(first),
            false => Reply::Alias {
                first,
                target: target.to_lowercase(),
            },
        })
    }

    /// The consequence of a rule; `None` for one that lets the query pass.
    pub(crate) fn by(&self, rule: &Rule) -> Option<Reply> {
        let blocked = |message: Option<Message>| {
            let message = message?.with_info_code(Some(extended_error::BLOCKED));
            Some(Reply::Answer(message))
        };
        let forged = |reply: Option<Reply>| {
            let mark =
                |message: Message| message.with_info_code(Some(extended_error::FORGED_ANSWER));
            Some(match reply? {
                Reply::Answer(message) => Reply::Answer(mark(message)),
                Reply::Alias { first, target } => Reply::Alias {
                    first: mark(first),
                    target,
                },
                other => other,
            })
        };
        match rule {
            Rule::PassThru => None,
            Rule::NxDomain => blocked(Message::empty(self.question, Rcode::NXDOMAIN)),
            Rule::NoData => blocked(Message::empty(self.question, Rcode::NOERROR)),
            Rule::NullAddress => blocked(self.addresses(
                [Ipv4Addr::UNSPECIFIED].into_iter(),
                [Ipv6Addr::UNSPECIFIED].into_iter(),
                TTL,
            )),
            Rule::Drop => Some(Reply::Drop),
            Rule::TcpOnly => Some(Reply::Truncated),
            Rule::Records(records) => {
                let ttl = records.iter().map(|data| data.ttl).min().unwrap_or(TTL);
                forged(self.records(records, ttl).map(Reply::Answer))
            }
            Rule::Alias { ttl, target } => forged(self.alias(target, *ttl)),
            Rule::AliasBelow { ttl, suffix } => match self.name.append(suffix) {
                Ok(target) => forged(self.alias(&target, *ttl)),
                // RFC 6672 §2.2 has YXDOMAIN for it, which stub resolvers do not know.
                Err(_) => blocked(Message::empty(self.question, Rcode::NXDOMAIN)),
            },
        }
    }
}
