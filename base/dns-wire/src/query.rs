//! Reads a query: header, one question, perhaps OPT and TSIG, nothing else.
//!
//! Borrows from the datagram and allocates nothing. A message that is not an answerable query gives an
//! error, from which [`reply_to_error`] makes the response.

use crate::code::{Opcode, Rcode};
use crate::edns::{self, Edns};
use crate::header::{self, Flags};
use crate::name;
use crate::rtype::{Class, Type};
use crate::tsig::{Rejection, Tsig};

/// A query with exactly one question.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message's identifier.
    pub id: u16,
    /// The header's flags.
    pub flags: Flags,
    /// The question as in the message: name, type, class.
    pub question: &'a [u8],
    /// The question's name in wire form, in its original letter case.
    pub qname: &'a [u8],
    /// The question's type.
    pub qtype: Type,
    /// The question's class.
    pub qclass: Class,
    /// The OPT record, when there is one.
    pub edns: Option<Edns<'a>>,
    /// The signature of the message (RFC 8945), when it has one.
    pub tsig: Option<Tsig<'a>>,
    /// The records between question and OPT. Plain queries have none; IXFR has a SOA there, and UPDATE its prerequisites
    /// and changes.
    pub authority: &'a [u8],
}

/// The reason why a message cannot be answered as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// Shorter than a header, or itself a response: silence is the only safe answer.
    Ignore,
    /// The message breaks the format.
    FormErr,
    /// An opcode that the server does not implement.
    NotImp(Opcode),
}

impl<'a> Query<'a> {
    /// Reads a standard query (opcode QUERY).
    ///
    /// # Errors
    /// [`QueryError`] says what to do with the message.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, QueryError> {
        let query = Self::parse_any_opcode(message)?;
        match query.flags.opcode() {
            Opcode::QUERY => Ok(query),
            other => Err(QueryError::NotImp(other)),
        }
    }

    /// Reads a message of any opcode, such as NOTIFY or UPDATE. An opcode that is not in the registry need not have a
    /// question, so it is refused before the body is read.
    ///
    /// # Errors
    /// [`QueryError`] says what to do with the message.
    #[inline]
    pub fn parse_any_opcode(message: &'a [u8]) -> Result<Self, QueryError> {
        let flags = Flags::read(message).ok_or(QueryError::Ignore)?;
        let counts = header::counts(message).ok_or(QueryError::Ignore)?;
        if flags.has(Flags::QR) {
            return Err(QueryError::Ignore);
        }
        match flags.opcode() {
            Opcode::QUERY | Opcode::NOTIFY | Opcode::UPDATE => {}
            other => return Err(QueryError::NotImp(other)),
        }
        let [1, n_answers, n_authorities, n_additionals] = counts else {
            return Err(QueryError::FormErr);
        };
        // RFC 9619: a query has one question. Answers have no place in a query, but NOTIFY may
        // carry the new SOA there (RFC 1996 §3.7), and UPDATE has its prerequisites there (RFC 2136 §2.4).
        if n_answers > 0 && flags.opcode() == Opcode::QUERY {
            return Err(QueryError::FormErr);
        }
        let body = message.get(header::LENGTH..).ok_or(QueryError::Ignore)?;
        let name_length = name::wire_length(body).map_err(|_| QueryError::FormErr)?;
        let (question, _) = body
            .split_at_checked(name_length + 4)
            .ok_or(QueryError::FormErr)?;
        let mut at = header::LENGTH + question.len();
        let authority_start = at;
        for _ in 0..u32::from(n_answers) + u32::from(n_authorities) {
            let behind_owner = name::skip(message, at).map_err(|_| QueryError::FormErr)?;
            // RFC 6891 §6.1.1: the additional section is the place of an OPT record.
            if header::word(message, behind_owner).map(Type) == Some(Type::OPT) {
                return Err(QueryError::FormErr);
            }
            at = skip_record(message, at)?;
        }
        let mut query = Self {
            id: header::id(message).ok_or(QueryError::Ignore)?,
            flags,
            question,
            qname: question.get(..name_length).ok_or(QueryError::FormErr)?,
            qtype: Type(header::word(question, name_length).ok_or(QueryError::FormErr)?),
            qclass: Class(header::word(question, name_length + 2).ok_or(QueryError::FormErr)?),
            edns: None,
            tsig: None,
            authority: message
                .get(authority_start..at)
                .ok_or(QueryError::FormErr)?,
        };
        query.read_additional(message, at, n_additionals)?;
        Ok(query)
    }

    fn read_additional(
        &mut self,
        message: &'a [u8],
        from: usize,
        n: u16,
    ) -> Result<(), QueryError> {
        let mut at = from;
        for _ in 0..n {
            // RFC 8945 §5.1: a signature is the last record.
            if self.tsig.is_some() {
                return Err(QueryError::FormErr);
            }
            let behind_owner = name::skip(message, at).map_err(|_| QueryError::FormErr)?;
            let end = skip_record(message, at)?;
            let fixed = message
                .get(behind_owner..behind_owner + 10)
                .ok_or(QueryError::FormErr)?;
            match header::word(fixed, 0).map(Type) {
                Some(Type::OPT) => {
                    // RFC 6891 §6.1.1: one OPT, owned by the root.
                    if self.edns.is_some() || behind_owner != at + 1 {
                        return Err(QueryError::FormErr);
                    }
                    let &[_, _, c1, c0, t3, t2, t1, t0, ..] = fixed else {
                        return Err(QueryError::FormErr);
                    };
                    let options = message
                        .get(behind_owner + 10..end)
                        .ok_or(QueryError::FormErr)?;
                    let class = u16::from_be_bytes([c1, c0]);
                    let edns =
                        Edns::from_record(class, u32::from_be_bytes([t3, t2, t1, t0]), options);
                    if !edns.is_well_formed() {
                        return Err(QueryError::FormErr);
                    }
                    self.edns = Some(edns);
                }
                Some(Type::TSIG) => {
                    let record = message.get(at..end).ok_or(QueryError::FormErr)?;
                    self.tsig = Some(Tsig::parse(record, at).ok_or(QueryError::FormErr)?);
                }
                _ => {}
            }
            at = end;
        }
        Ok(())
    }

    /// The opcode.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.flags.opcode()
    }

    /// The largest UDP response that the client takes: 512 without EDNS (RFC 1035 §4.2.1), else the OPT
    /// record's size, but never less than 512.
    #[must_use]
    pub fn udp_limit(&self) -> usize {
        self.edns
            .map_or(512, |edns| usize::from(edns.udp_size.max(512)))
    }

    /// Whether the client wants DNSSEC records.
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }
}

/// The offset behind the record at `at`.
fn skip_record(message: &[u8], at: usize) -> Result<usize, QueryError> {
    let behind_owner = name::skip(message, at).map_err(|_| QueryError::FormErr)?;
    let length = header::word(message, behind_owner + 8).ok_or(QueryError::FormErr)?;
    let end = behind_owner + 10 + usize::from(length);
    if end > message.len() {
        return Err(QueryError::FormErr);
    }
    Ok(end)
}

/// Writes the response to a message that [`Query::parse`] refused; returns its length, or `None` for no
/// response.
///
/// The response is a bare header: the rest of the message could not be trusted. It has an OPT record when
/// the message does: without one, the client would conclude that this server does not speak EDNS (RFC 6891
/// §6.1.1, §7).
pub fn reply_to_error(message: &[u8], error: QueryError, out: &mut [u8]) -> Option<usize> {
    let rcode = match error {
        QueryError::Ignore => return None,
        QueryError::FormErr => Rcode::FORMERR,
        QueryError::NotImp(_) => Rcode::NOTIMP,
    };
    let flags = Flags::read(message)?.of_response().with_rcode(rcode);
    let reply = out.get_mut(..header::LENGTH)?;
    reply.fill(0);
    reply.get_mut(..2)?.copy_from_slice(message.get(..2)?);
    reply.get_mut(2..4)?.copy_from_slice(&flags.0.to_be_bytes());
    if has_opt(message) != Some(true) {
        return Some(header::LENGTH);
    }
    let end = header::LENGTH + edns::OPT_LENGTH;
    let record = edns::opt_record(UDP_SIZE, rcode.high(), false);
    out.get_mut(header::LENGTH..end)?.copy_from_slice(&record);
    header::set_word(out, 10, 1);
    Some(end)
}

/// Writes the refusal of a query whose signature was rejected (RFC 8945 §5.2): the question, and the record with the
/// error. `now` is the time, in seconds since 1970. Returns its length; `None` for a query that is not signed.
pub fn reply_to_rejected(
    query: &Query<'_>,
    rejection: Rejection,
    now: u64,
    out: &mut [u8],
) -> Option<usize> {
    let tsig = query.tsig?;
    let flags = query.flags.of_authority().with_rcode(rejection.rcode());
    let end = reply_without_data(query, flags, out)?;
    rejection.append(&tsig, (out, end), now)
}

/// Writes a response without records: the question, and an OPT record when the query has one (RFC 6891 §7). Returns its length;
/// `None` when the buffer is shorter.
pub fn reply_without_data(query: &Query<'_>, flags: Flags, out: &mut [u8]) -> Option<usize> {
    let end = header::LENGTH + query.question.len();
    out.get_mut(..header::LENGTH)?.fill(0);
    out.get_mut(header::LENGTH..end)?
        .copy_from_slice(query.question);
    header::set_word(out, 0, query.id);
    header::set_word(out, 2, flags.0);
    header::set_word(out, 4, 1);
    let Some(edns) = query.edns else {
        return Some(end);
    };
    let record = edns::opt_record(UDP_SIZE, flags.rcode().high(), edns.dnssec_ok);
    out.get_mut(end..end + record.len())?
        .copy_from_slice(&record);
    header::set_word(out, 10, 1);
    Some(end + record.len())
}

/// Writes the response of a server without keys to a signed query: BADKEY (RFC 8945 §5.2.1). Returns its length; `None`
/// for a query that is not signed. It is never longer than the query.
pub fn reply_to_signed(query: &Query<'_>, out: &mut [u8]) -> Option<usize> {
    // Only an error about the time says what time it is.
    reply_to_rejected(query, Rejection::without_keys(), 0, out)
}

/// The UDP payload size in such a response: it fits every link (RFC 9715 §3.1).
const UDP_SIZE: u16 = 1232;

/// Whether a message, which may be malformed, has an OPT record; `None` when the part before it cannot be
/// read.
fn has_opt(message: &[u8]) -> Option<bool> {
    let [n_questions, n_answers, n_authorities, n_additionals] = header::counts(message)?;
    let mut at = header::LENGTH;
    for _ in 0..n_questions {
        at = name::skip(message, at).ok()? + 4;
    }
    for _ in 0..u32::from(n_answers) + u32::from(n_authorities) {
        at = skip_record(message, at).ok()?;
    }
    for _ in 0..n_additionals {
        let behind_owner = name::skip(message, at).ok()?;
        let end = skip_record(message, at).ok()?;
        let rtype = Type(header::word(message, behind_owner)?);
        if rtype == Type::OPT && behind_owner == at + 1 {
            return Some(true);
        }
        at = end;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x03Api\x07example\0\0\x01\0\x01";

    fn with(counts: [u8; 4], tail: &[u8]) -> Vec<u8> {
        let mut message = [PLAIN, tail].concat();
        for (index, count) in counts.into_iter().enumerate() {
            message[5 + 2 * index] = count;
        }
        message
    }

    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";
    const TSIG: &[u8] = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x15\x01h\0\0\0\x12\x34\x56\x78\x01\x2c\
        \0\x02mm\x12\x34\0\0\0\0";

    #[test]
    fn a_plain_query_is_read() {
        let query = Query::parse(PLAIN).unwrap();
        assert_eq!(
            (query.id, query.qtype, query.qclass),
            (0x1234, Type::A, Class::IN)
        );
        assert_eq!(query.qname, b"\x03Api\x07example\0");
        assert_eq!(
            (query.udp_limit(), query.dnssec_ok(), query.tsig),
            (512, false, None)
        );
        assert!(query.flags.has(Flags::RD));
    }

    #[test]
    fn opt_and_tsig_are_found() {
        let message = with([1, 0, 0, 2], &[OPT, TSIG].concat());
        let query = Query::parse(&message).unwrap();
        assert_eq!(query.udp_limit(), 1232);
        assert!(query.dnssec_ok() && query.tsig.is_some());
    }

    #[test]
    fn what_breaks_the_format_is_told_apart_from_what_is_ignored() {
        let mut response = PLAIN.to_vec();
        response[2] |= 0x80;
        let mut status = PLAIN.to_vec();
        status[2] = 0x10;
        let mut unassigned = PLAIN[..12].to_vec();
        unassigned[2] = 0x78;
        let table: Vec<(Vec<u8>, QueryError)> = vec![
            (PLAIN[..11].to_vec(), QueryError::Ignore),
            (response, QueryError::Ignore),
            (status, QueryError::NotImp(Opcode::STATUS)),
            (unassigned, QueryError::NotImp(Opcode(15))),
            (with([0, 0, 0, 0], b""), QueryError::FormErr),
            (with([2, 0, 0, 0], b""), QueryError::FormErr),
            (
                with([1, 1, 0, 0], b"\0\0\x01\0\x01\0\0\0\0\0\0"),
                QueryError::FormErr,
            ),
            (with([1, 0, 0, 1], b""), QueryError::FormErr),
            (with([1, 0, 1, 0], OPT), QueryError::FormErr),
            (
                with([1, 0, 0, 2], &[TSIG, OPT].concat()),
                QueryError::FormErr,
            ),
            (
                with([1, 0, 0, 1], &TSIG[..TSIG.len() - 1]),
                QueryError::FormErr,
            ),
            (
                with([1, 0, 0, 2], &[OPT, OPT].concat()),
                QueryError::FormErr,
            ),
            (
                with([1, 0, 0, 1], b"\x01x\0\0\x29\x04\xd0\0\0\0\0\0\0"),
                QueryError::FormErr,
            ),
            (
                with([1, 0, 0, 1], b"\0\0\x29\x04\xd0\0\0\0\0\0\x01\0"),
                QueryError::FormErr,
            ),
            (PLAIN[..PLAIN.len() - 1].to_vec(), QueryError::FormErr),
            (PLAIN[..12].to_vec(), QueryError::FormErr),
            (
                b"\0\0\0\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01".to_vec(),
                QueryError::FormErr,
            ),
        ];
        for (message, error) in table {
            assert_eq!(Query::parse(&message).unwrap_err(), error, "{message:02x?}");
        }
    }

    #[test]
    fn an_error_says_that_edns_is_spoken_to_those_who_speak_it() {
        let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
        let key = b"\0\0\x29\x04\xd0\0\0\0\0\0\x05\0\x08\0\x08x";
        let mut status = with([1, 0, 0, 1], OPT);
        status[2] = 0x10;
        let mut without_question = with([0, 0, 0, 1], b"");
        without_question.truncate(12);
        without_question.extend(OPT);
        let far = [PLAIN.get(12..).unwrap(), OPT].concat();
        let table = [
            (with([1, 0, 0, 1], OPT), true),
            (status, true),
            (without_question, true),
            (with([2, 0, 0, 1], &far), true),
            // Its options are wrong, but where it ends is clear.
            (with([1, 0, 0, 1], key), true),
            // None, one that is another's, and such that cannot be found.
            (PLAIN.to_vec(), false),
            (
                with([1, 0, 0, 1], b"\x01x\0\0\x29\x04\xd0\0\0\0\0\0\0"),
                false,
            ),
            (with([9, 0, 0, 1], OPT), false),
            (with([1, 0, 0, 1], &opt[..9]), false),
            (PLAIN[..12].to_vec(), false),
        ];
        for (message, expected) in table {
            let mut out = [0xff; 64];
            let length = reply_to_error(&message, QueryError::FormErr, &mut out).unwrap();
            let reply = &out[..length];
            if expected {
                assert_eq!(reply[4..12], [0, 0, 0, 0, 0, 0, 0, 1], "{message:02x?}");
                assert_eq!(reply[12..], opt[..], "{message:02x?}");
            } else {
                assert_eq!(reply[4..], [0; 8], "{message:02x?}");
            }
        }
    }

    #[test]
    fn an_error_is_answered_with_a_bare_header() {
        let mut out = [0xff; 64];
        let length = reply_to_error(PLAIN, QueryError::FormErr, &mut out).unwrap();
        assert_eq!(&out[..length], b"\x12\x34\x81\x01\0\0\0\0\0\0\0\0");
        assert_eq!(reply_to_error(PLAIN, QueryError::Ignore, &mut out), None);
        assert_eq!(
            reply_to_error(PLAIN, QueryError::FormErr, &mut out[..11]),
            None
        );
        reply_to_error(&PLAIN[..12], QueryError::NotImp(Opcode(0)), &mut out).unwrap();
        assert_eq!(out[3] & 0x0f, 4);
    }

    #[test]
    fn every_cut_and_every_flipped_octet_is_read_without_panic() {
        let message = with(
            [1, 0, 1, 2],
            &[b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\0", OPT, TSIG].concat(),
        );
        assert!(Query::parse(&message).is_ok());
        for cut in 0..message.len() {
            assert!(Query::parse(&message[..cut]).is_err());
        }
        for place in 0..message.len() {
            for value in 0..=255 {
                let mut bent = message.clone();
                bent[place] = value;
                if let Err(error) = Query::parse(&bent) {
                    reply_to_error(&bent, error, &mut [0; 512]);
                }
            }
        }
    }
}
