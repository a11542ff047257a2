//! Responses to clients: a cached message adapted to the query, or an error.
//!
//! The id, the letter case of the question, RD and CD are the client's (RFC 1035 §4.1.1, RFC 4035 §3.2.2).
//! RA is set and AA is clear. The OPT record is this server's, and present only when the client sent one
//! (RFC 6891 §6.1.1). An answer that exceeds the client's limit goes out empty with TC set (RFC 2181 §9).
//! Allocates nothing.

use dns_cookie::{Cookie, LENGTH as COOKIE_LENGTH};
use dns_wire::{Flags, Query, Rcode, edns, header};

use crate::message::{MAX_MESSAGE, Message};

/// The UDP payload size in this server's OPT records: it passes any path unfragmented (DNS flag day 2020,
/// RFC 9715).
pub const UDP_PAYLOAD: u16 = 1232;
/// An extended error without text: option code, length, info-code (RFC 8914 §2).
const EXTENDED_ERROR_LENGTH: usize = 6;
/// A cookie: option code, length, the client's and the server's (RFC 7873 §4).
const COOKIE_OPTION_LENGTH: usize = 4 + COOKIE_LENGTH;

/// The parts of a query that its response depends on.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The query's identifier.
    pub id: u16,
    /// The query's flags.
    pub flags: Flags,
    /// The question in its original letter case; empty when the query has none.
    pub question: &'a [u8],
    /// Whether the query has an OPT record, and DO in it.
    pub edns: Option<DnssecOk>,
    /// The longest response the client takes over its transport.
    pub limit: usize,
    /// The cookie for the client, which has an OPT record then.
    pub cookie: Option<Cookie>,
}

/// The DO bit (RFC 3225).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnssecOk(pub bool);

/// The transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams; responses are cut to what the client takes.
    Udp,
    /// A stream, encrypted or not.
    Tcp,
}

impl<'a> Asker<'a> {
    /// The relevant parts of `query`, over a transport.
    #[must_use]
    #[inline]
    pub fn new(query: &Query<'a>, transport: Transport) -> Self {
        Self {
            id: query.id,
            flags: query.flags,
            question: query.question,
            edns: query.edns.map(|edns| DnssecOk(edns.dnssec_ok)),
            limit: match transport {
                Transport::Udp => query.udp_limit().min(usize::from(UDP_PAYLOAD)),
                Transport::Tcp => MAX_MESSAGE,
            },
            cookie: None,
        }
    }
}

/// The TTLs of a cached message on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttls {
    /// As they were received, less this many seconds.
    Aged(u32),
    /// All the same, as in a stale answer (RFC 8767 §4).
    Fixed(u32),
}

/// Writes a cached message for a client; returns its length.
#[must_use]
pub fn send(
    message: &Message,
    asker: &Asker<'_>,
    ttls: Ttls,
    extended_error: Option<u16>,
    out: &mut [u8],
) -> Option<usize> {
    let bytes = message.bytes();
    let extended_error = extended_error.or_else(|| message.info_code());
    let tail = tail_length(asker, extended_error);
    if bytes.len() + tail > asker.limit {
        let flags = Flags(Flags::TC).with_rcode(message.rcode());
        return empty(asker, flags, extended_error, out);
    }
    let reply = out.get_mut(..bytes.len())?;
    reply.copy_from_slice(bytes);
    for offset in message.ttl_offsets() {
        let place = reply.get_mut(offset..)?.first_chunk_mut::<4>()?;
        let ttl = match ttls {
            Ttls::Aged(age) => u32::from_be_bytes(*place).saturating_sub(age),
            Ttls::Fixed(ttl) => ttl,
        };
        *place = ttl.to_be_bytes();
    }
    reply
        .get_mut(header::LENGTH..)?
        .get_mut(..asker.question.len())?
        .copy_from_slice(asker.question);
    // RFC 6840 §5.8: AD is for clients that asked for it, by AD or by DO.
    let wants_ad = asker.flags.has(Flags::AD) || asker.edns == Some(DnssecOk(true));
    let mut kept = message.flags().without(Flags::AA | Flags::TC);
    // The signatures of a stale answer may have expired.
    if !wants_ad || matches!(ttls, Ttls::Fixed(_)) {
        kept = kept.without(Flags::AD);
    }
    let length = bytes.len();
    finish(asker, kept.with(Flags::RA), length, extended_error, out)
}

/// Writes a response without records; returns its length.
#[must_use]
pub fn error(
    asker: &Asker<'_>,
    rcode: Rcode,
    extended_error: Option<u16>,
    out: &mut [u8],
) -> Option<usize> {
    let flags = Flags::default().with_rcode(rcode);
    // RA says that recursion is open to this client, which a refusal denies.
    let available = if rcode == Rcode::REFUSED {
        0
    } else {
        Flags::RA
    };
    let flags = flags.with(available);
    let length = empty_body(asker, out)?;
    let end = finish(asker, flags, length, extended_error, out)?;
    if asker.edns.is_some() {
        // The high octet of the code is the first of the record's TTL.
        *out.get_mut(length + 5)? = rcode.high();
    }
    Some(end)
}

/// Writes an empty response that says that the whole one is too long, so that the client comes again over TCP.
#[must_use]
pub fn truncated(asker: &Asker<'_>, out: &mut [u8]) -> Option<usize> {
    empty(asker, Flags(Flags::TC), None, out)
}

fn empty(
    asker: &Asker<'_>,
    flags: Flags,
    extended_error: Option<u16>,
    out: &mut [u8],
) -> Option<usize> {
    let length = empty_body(asker, out)?;
    finish(asker, flags.with(Flags::RA), length, extended_error, out)
}

/// Writes a header of zeros with a question behind it.
fn empty_body(asker: &Asker<'_>, out: &mut [u8]) -> Option<usize> {
    let length = header::LENGTH + asker.question.len();
    out.get_mut(..header::LENGTH)?.fill(0);
    out.get_mut(header::LENGTH..length)?
        .copy_from_slice(asker.question);
    header::set_word(out, 4, u16::from(!asker.question.is_empty()));
    Some(length)
}

/// Appends OPT when the client sent one, and sets the client's header fields.
fn finish(
    asker: &Asker<'_>,
    flags: Flags,
    mut length: usize,
    extended_error: Option<u16>,
    out: &mut [u8],
) -> Option<usize> {
    if let Some(DnssecOk(dnssec_ok)) = asker.edns {
        let opt = edns::opt_record(UDP_PAYLOAD, 0, dnssec_ok);
        out.get_mut(length..length + opt.len())?
            .copy_from_slice(&opt);
        length += opt.len();
        let options = length;
        if let Some(cookie) = &asker.cookie {
            let room = out.get_mut(length..length + COOKIE_OPTION_LENGTH)?;
            let (head, body) = room.split_at_mut_checked(4)?;
            let [code_high, code_low] = edns::option::COOKIE.to_be_bytes();
            head.copy_from_slice(&[code_high, code_low, 0, 24]);
            body.copy_from_slice(cookie);
            length += COOKIE_OPTION_LENGTH;
        }
        if let Some(info_code) = extended_error {
            let [high, low] = info_code.to_be_bytes();
            let [code_high, code_low] = edns::option::EXTENDED_ERROR.to_be_bytes();
            out.get_mut(length..length + EXTENDED_ERROR_LENGTH)?
                .copy_from_slice(&[code_high, code_low, 0, 2, high, low]);
            length += EXTENDED_ERROR_LENGTH;
        }
        if length > options {
            header::set_word(out, options - 2, u16::try_from(length - options).ok()?);
        }
        let additional = header::word(out, 10)?.saturating_add(1);
        header::set_word(out, 10, additional);
    }
    write_head(asker, flags, out);
    Some(length)
}

fn write_head(asker: &Asker<'_>, flags: Flags, out: &mut [u8]) {
    header::set_word(out, 0, asker.id);
    header::set_word(out, 2, flags.0 | asker.flags.of_response().0);
}

/// The length that the client's OPT record adds.
fn tail_length(asker: &Asker<'_>, extended_error: Option<u16>) -> usize {
    if asker.edns.is_none() {
        return 0;
    }
    edns::OPT_LENGTH
        + extended_error.map_or(0, |_| EXTENDED_ERROR_LENGTH)
        + asker.cookie.map_or(0, |_| COOKIE_OPTION_LENGTH)
}

#[cfg(test)]
mod tests {
    use dns_wire::{Section, Type};

    use super::*;
    use crate::message::Row;
    use crate::testing::{addresses, answer, counts, query, question, rcode};

    fn kept() -> Message {
        let owner = dns_wire::Name::parse("www.example").unwrap();
        let row = |ttl, rdata| Row {
            section: Section::Answer,
            owner: &owner,
            rtype: Type::A,
            ttl,
            rdata,
        };
        let rows = [row(60, &[192, 0, 2, 1]), row(90, &[192, 0, 2, 2])];
        let question = question("www.example", Type::A);
        Message::compose(&question, Rcode::NOERROR, &rows).unwrap()
    }

    fn ttls(message: &[u8]) -> Vec<u32> {
        dns_wire::Records::new(message)
            .unwrap()
            .map(|record| record.unwrap().ttl)
            .collect()
    }

    #[test]
    fn a_kept_message_becomes_the_clients_own() {
        let asked = question("wWw.eXample", Type::A);
        let query = query(0xbeef, &asked, None);
        let asker = Asker::new(&Query::parse(&query).unwrap(), Transport::Udp);
        let mut out = [0xff; 512];
        let length = send(&kept(), &asker, Ttls::Aged(25), None, &mut out).unwrap();
        let reply = &out[..length];
        assert_eq!(header::id(reply), Some(0xbeef));
        assert_eq!(&reply[12..12 + asked.len()], asked);
        assert_eq!(
            Flags::read(reply),
            Some(Flags(Flags::QR | Flags::RD | Flags::RA))
        );
        assert_eq!(addresses(reply), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(ttls(reply), [35, 65]);
        assert_eq!(counts(reply), [1, 2, 0, 0]);
    }

    #[test]
    fn a_stale_answer_has_one_short_ttl_and_says_so() {
        let query = query(1, &question("www.example", Type::A), Some(true));
        let asker = Asker::new(&Query::parse(&query).unwrap(), Transport::Udp);
        let mut out = [0xff; 512];
        let stale = Some(edns::extended_error::STALE_ANSWER);
        let length = send(&kept(), &asker, Ttls::Fixed(30), stale, &mut out).unwrap();
        assert_eq!(ttls(&out[..length])[..2], [30, 30]);
        assert_eq!(counts(&out), [1, 2, 0, 1]);
        assert!(out[..length].ends_with(b"\0\0\x29\x04\xd0\0\0\x80\0\0\x06\0\x0f\0\x02\0\x03"));
    }

    #[test]
    fn what_does_not_fit_is_sent_empty_with_tc() {
        let row = (
            Section::Answer,
            "www.example",
            Type::TXT,
            60,
            &*"x".repeat(1200),
        );
        let large = answer("www.example", Type::TXT, Rcode::NOERROR, &[row]).message;
        for (edns, transport, fits) in [
            (None, Transport::Udp, false),
            (Some(false), Transport::Udp, false),
            (None, Transport::Tcp, true),
            (Some(false), Transport::Tcp, true),
        ] {
            let query = query(1, &question("www.example", Type::TXT), edns);
            let asker = Asker::new(&Query::parse(&query).unwrap(), transport);
            let mut out = [0; 2000];
            let length = send(&large, &asker, Ttls::Aged(0), None, &mut out).unwrap();
            let n_opt = u16::from(edns.is_some());
            assert_eq!(counts(&out), [1, u16::from(fits), 0, n_opt]);
            assert_eq!(Flags::read(&out).unwrap().has(Flags::TC), !fits);
            assert!(length <= asker.limit);
        }
    }

    #[test]
    fn errors_carry_the_question_and_the_reason() {
        let query = query(9, &question("x.example", Type::A), Some(false));
        let asker = Asker::new(&Query::parse(&query).unwrap(), Transport::Udp);
        let mut out = [0xff; 512];
        let length = error(&asker, Rcode::SERVFAIL, Some(22), &mut out).unwrap();
        assert_eq!((rcode(&out), counts(&out)), (Rcode::SERVFAIL, [1, 0, 0, 1]));
        assert!(out[..length].ends_with(&[0, 22]));
        assert!(Flags::read(&out).unwrap().has(Flags::RA));
        let length = error(&asker, Rcode::BADVERS, None, &mut out).unwrap();
        assert_eq!((rcode(&out), counts(&out)), (Rcode::NOERROR, [1, 0, 0, 1]));
        assert_eq!(out[length - 6], 1);
        error(&asker, Rcode::REFUSED, Some(18), &mut out).unwrap();
        assert!(!Flags::read(&out).unwrap().has(Flags::RA));
    }

    #[test]
    fn a_buffer_too_small_is_no_panic() {
        let query = query(9, &question("www.example", Type::A), Some(false));
        let asker = Asker::new(&Query::parse(&query).unwrap(), Transport::Udp);
        for size in 0..60 {
            let mut out = vec![0; size];
            assert_eq!(
                send(&kept(), &asker, Ttls::Aged(0), Some(3), &mut out),
                None
            );
        }
        for size in 0..40 {
            assert_eq!(
                error(&asker, Rcode::SERVFAIL, Some(3), &mut vec![0; size]),
                None
            );
        }
    }
}
