//! The counts of one thread's queries.
//!
//! Plain numbers, added to the process's counters once per batch: counting a query touches no
//! memory that another thread writes.

use dns_cookie::CookieState;
use dns_wire::header::Flags;
use dns_wire::{Query, QueryError, Rcode, Type};

use crate::client::{Client, Transport};

/// Transports, in the order of the counters.
pub const TRANSPORTS: [(Transport, &str); 5] = [
    (Transport::Udp, "udp"),
    (Transport::Tcp, "tcp"),
    (Transport::Tls, "tls"),
    (Transport::Https, "https"),
    (Transport::Quic, "quic"),
];

/// Address families, in the order of the counters.
pub const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// Types with a counter of their own, in the order of the counters; one more counts all others.
pub const TYPES: [(Type, &str); 14] = [
    (Type::A, "A"),
    (Type::AAAA, "AAAA"),
    (Type::NS, "NS"),
    (Type::SOA, "SOA"),
    (Type::CNAME, "CNAME"),
    (Type::PTR, "PTR"),
    (Type::MX, "MX"),
    (Type::TXT, "TXT"),
    (Type::SRV, "SRV"),
    (Type::HTTPS, "HTTPS"),
    (Type::DS, "DS"),
    (Type::DNSKEY, "DNSKEY"),
    (Type::AXFR, "AXFR"),
    (Type::ANY, "ANY"),
];

/// Response codes with a counter of their own, in the order of the counters; one more counts all
/// others.
pub const RCODES: [(Rcode, &str); 10] = [
    (Rcode::NOERROR, "NOERROR"),
    (Rcode::FORMERR, "FORMERR"),
    (Rcode::SERVFAIL, "SERVFAIL"),
    (Rcode::NXDOMAIN, "NXDOMAIN"),
    (Rcode::NOTIMP, "NOTIMP"),
    (Rcode::REFUSED, "REFUSED"),
    (Rcode::YXDOMAIN, "YXDOMAIN"),
    (Rcode::NOTAUTH, "NOTAUTH"),
    (Rcode::BADVERS, "BADVERS"),
    (Rcode::BADCOOKIE, "BADCOOKIE"),
];

/// The states of cookies, in the order of the counters.
pub const COOKIES: [(CookieState, &str); 4] = [
    (CookieState::New, "new"),
    (CookieState::Bad, "bad"),
    (CookieState::Proven, "proven"),
    (CookieState::Malformed, "malformed"),
];

/// Counts since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queries by transport and family.
    pub queries: [[u64; FAMILIES.len()]; TRANSPORTS.len()],
    /// Queries by type; the last entry is every other type.
    pub types: [u64; TYPES.len() + 1],
    /// Responses by response code; the last entry is every other code.
    pub rcodes: [u64; RCODES.len() + 1],
    /// Responses with TC set.
    pub truncated: u64,
    /// Answers drawn from live sets.
    pub live: u64,
    /// Messages that got no response: too short, or responses themselves.
    pub ignored: u64,
    /// Messages from senders outside the access list.
    pub outsiders: u64,
    /// Signed queries whose signature was refused.
    pub rejected: u64,
    /// Queries with a cookie, by what it proves.
    pub cookies: [u64; COOKIES.len()],
}

impl Tally {
    /// Counts a query that is answered.
    #[inline]
    pub(crate) fn count(&mut self, query: &Query<'_>, client: &Client, rcode: Rcode, flags: Flags) {
        self.count_source(client);
        let place = match query.qtype {
            Type::A => 0,
            other => TYPES
                .iter()
                .position(|(rtype, _)| *rtype == other)
                .unwrap_or(TYPES.len()),
        };
        bump(self.types.get_mut(place));
        self.count_rcode(rcode);
        if flags.has(Flags::TC) {
            self.truncated += 1;
        }
    }

    /// Counts a message that is not a query.
    pub(crate) fn count_refused(&mut self, error: QueryError, client: &Client) {
        let rcode = match error {
            QueryError::Ignore => {
                self.ignored += 1;
                return;
            }
            QueryError::FormErr => Rcode::FORMERR,
            QueryError::NotImp(_) => Rcode::NOTIMP,
        };
        self.count_source(client);
        self.count_rcode(rcode);
    }

    /// Counts a message from a sender outside the access list.
    #[cold]
    pub(crate) const fn count_outsider(&mut self) {
        self.outsiders += 1;
    }

    /// Counts a signature that was refused.
    #[cold]
    pub(crate) const fn count_rejected(&mut self) {
        self.rejected += 1;
    }

    /// Counts the cookie of a query, if it has one.
    #[inline]
    pub(crate) fn count_cookie(&mut self, cookie_state: CookieState) {
        if cookie_state != CookieState::None {
            let place = COOKIES.iter().position(|(known, _)| *known == cookie_state);
            bump(place.and_then(|place| self.cookies.get_mut(place)));
        }
    }

    /// Counts an answer drawn from a live set.
    #[inline]
    pub(crate) const fn count_live(&mut self) {
        self.live += 1;
    }

    /// Whether all counts are zero.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ignored == 0
            && self.outsiders == 0
            && self.queries == [[0; FAMILIES.len()]; TRANSPORTS.len()]
    }

    /// Takes the counts and starts at zero.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    #[inline]
    fn count_source(&mut self, client: &Client) {
        let row = self.queries.get_mut(client.transport as usize);
        bump(row.and_then(|row| row.get_mut(usize::from(client.peer.is_ipv6()))));
    }

    #[inline]
    fn count_rcode(&mut self, rcode: Rcode) {
        let place = match rcode {
            Rcode::NOERROR => 0,
            other => RCODES
                .iter()
                .position(|(known, _)| *known == other)
                .unwrap_or(RCODES.len()),
        };
        bump(self.rcodes.get_mut(place));
    }
}

#[inline]
fn bump(counter: Option<&mut u64>) {
    if let Some(counter) = counter {
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_listed_in_the_order_of_their_numbers() {
        for (place, (transport, _)) in TRANSPORTS.iter().enumerate() {
            assert_eq!(*transport as usize, place);
        }
    }
}
