//! An upstream's response in the form that the cache keeps and clients get.
//!
//! [`Reader::read`] takes a response apart and composes it again: question in lower case, names compressed,
//! no OPT (RFC 6891 §6.1.1: it belongs to one hop), TTLs within limits, and of its records only those that answer
//! the question and that its servers may speak for ([`Bailiwick`]). So data that this server has not understood or
//! that is not the responder's to give reaches no client, and an answer's TTLs can be counted down in place. A
//! message is kept whole under the question it answers; its records are never used for other questions.
//!
//! Never validates DNSSEC, and never changes the data of a record.

mod referral;
mod scrub;

use std::fmt;

use dns_wire::{
    Class, Composer, Flags, Full, Name, NameError, Owner, Rcode, RecordRef, Records, Section, Type,
    header, rdata, records::uncompressed_rdata,
};

use crate::key;
pub use referral::{NameServer, Referral};
pub use scrub::{Bailiwick, canonical_rdata};
use scrub::{Chain, Leads, Scrubber, unify};

/// The largest message.
pub const MAX_MESSAGE: usize = 65_535;
/// RFC 2181 §8: a TTL is at most 2^31 - 1, and one with the top bit set counts as zero.
const TTL_TOP_BIT: u32 = 0x8000_0000;

//----------- Message ---------------------------------------------------------

/// A cached response: one allocation with the message and the offsets of its TTLs.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The message, then the offset of each TTL in two octets.
    data: Box<[u8]>,
    length: u16,
    question_length: u16,
    /// The code of the extended error that goes with it (RFC 8914); zero for none, which is a code that nothing here has.
    info_code: u16,
}

impl Message {
    /// Builds it from a message whose question is in lower case and which has no OPT.
    fn new(message: &[u8], question_length: usize) -> Option<Self> {
        let mut data = message.to_vec();
        for record in Records::new(message).ok()? {
            let offset = u16::try_from(record.ok()?.ttl_offset).ok()?;
            data.extend_from_slice(&offset.to_be_bytes());
        }
        Some(Self {
            data: data.into(),
            length: u16::try_from(message.len()).ok()?,
            question_length: u16::try_from(question_length).ok()?,
            info_code: 0,
        })
    }

    /// A response without records, such as a failure to remember (RFC 9520).
    #[must_use]
    pub fn empty(question: &[u8], rcode: Rcode) -> Option<Self> {
        Self::compose(question, rcode, &[])
    }

    /// The message with the code of an extended error.
    #[must_use]
    pub fn with_info_code(mut self, info_code: Option<u16>) -> Self {
        self.info_code = info_code.unwrap_or(0);
        self
    }

    /// The code of the extended error that clients get with it.
    #[must_use]
    #[inline]
    pub fn info_code(&self) -> Option<u16> {
        Some(self.info_code).filter(|code| *code != 0)
    }

    /// Whether it has records of a type.
    #[must_use]
    pub fn has(&self, rtype: Type) -> bool {
        let records = Records::new(self.bytes()).into_iter().flatten();
        let mut records = records.map_while(Result::ok);
        records.any(|record| record.rtype == rtype)
    }

    /// The message with AD as it was validated.
    #[must_use]
    pub fn with_ad(mut self, is_secure: bool) -> Self {
        let flags = self.flags().without(Flags::AD);
        let flags = match is_secure {
            true => flags.with(Flags::AD),
            false => flags,
        };
        header::set_word(&mut self.data, 2, flags.0);
        self
    }

    /// The message for a client that does not ask for DNSSEC records: without those that its question does not name
    /// (RFC 4035 §3.2.1).
    #[must_use]
    pub fn without_dnssec(&self, scratch: &mut [u8]) -> Option<Self> {
        let qtype = key::qtype(self.question());
        let is_kept = |record: &RecordRef| {
            let is_dnssec = matches!(record.rtype, Type::RRSIG | Type::NSEC | Type::NSEC3);
            let is_asked =
                record.section == Section::Answer && (record.rtype == qtype || qtype == Type::ANY);
            !is_dnssec || is_asked
        };
        let message = recompose(self.question(), self.flags(), &[self], is_kept, scratch)?;
        Some(message.with_info_code(self.info_code()))
    }

    /// Composes a response of these records: section, owner, type, TTL, RDATA; all in the question's class.
    #[must_use]
    pub fn compose(question: &[u8], rcode: Rcode, records: &[Row<'_>]) -> Option<Self> {
        let octets = |row: &Row<'_>| row.owner.as_wire().len() + row.rdata.len() + 10;
        let limit = header::LENGTH + question.len() + records.iter().map(octets).sum::<usize>();
        let mut buffer = vec![0; limit];
        let flags = Flags(Flags::QR).with_rcode(rcode);
        let mut composer = Composer::new(&mut buffer, limit, 0, flags).ok()?;
        composer.question(question).ok()?;
        let class = key::qclass(question);
        for row in records {
            let fixed = (row.rtype, class, row.ttl);
            composer
                .record(row.section, Owner::Name(row.owner), fixed, row.rdata)
                .ok()?;
        }
        let length = composer.finish();
        Self::new(buffer.get(..length)?, question.len())
    }

    /// A message that [`Message::bytes`] has returned; `None` for any other.
    #[must_use]
    pub fn restore(bytes: &[u8]) -> Option<Self> {
        let query = header::counts(bytes)?;
        let flags = Flags::read(bytes)?;
        let (name, length) = Name::from_wire(bytes.get(header::LENGTH..)?).ok()?;
        let question_length = length + 4;
        let is_whole = bytes.len() >= header::LENGTH + question_length;
        let is_ours = query[0] == 1 && flags.has(Flags::QR) && header::id(bytes) == Some(0);
        if !is_whole || !is_ours || name != name.to_lowercase() {
            return None;
        }
        Self::new(bytes, question_length)
    }

    /// The same message some seconds later: its TTLs are lower by that much.
    #[must_use]
    pub fn aged(&self, age: u32) -> Self {
        let mut aged = self.clone();
        for offset in self.ttl_offsets() {
            if let Some(place) = aged
                .data
                .get_mut(offset..)
                .and_then(|rest| rest.first_chunk_mut::<4>())
            {
                *place = u32::from_be_bytes(*place).saturating_sub(age).to_be_bytes();
            }
        }
        aged
    }

    /// The least of its TTLs; zero when it has no records.
    #[must_use]
    pub fn least_ttl(&self) -> u32 {
        let ttls = self.ttl_offsets().filter_map(|offset| {
            let place = self.data.get(offset..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*place))
        });
        ttls.min().unwrap_or(0)
    }

    /// The message on the wire: id zero, question in lower case, TTLs as received.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.data
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// The question, its name in lower case.
    #[must_use]
    #[inline]
    pub fn question(&self) -> &[u8] {
        let end = header::LENGTH + usize::from(self.question_length);
        self.data.get(header::LENGTH..end).unwrap_or_default()
    }

    /// The header's flags.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags::read(&self.data).unwrap_or_default()
    }

    /// The response code.
    #[must_use]
    #[inline]
    pub fn rcode(&self) -> Rcode {
        self.flags().rcode()
    }

    /// The offsets of the records' TTLs.
    #[inline]
    pub fn ttl_offsets(&self) -> impl Iterator<Item = usize> {
        let places = self
            .data
            .get(usize::from(self.length)..)
            .unwrap_or_default();
        places.chunks_exact(2).filter_map(|pair| {
            let pair: [u8; 2] = pair.try_into().ok()?;
            Some(usize::from(u16::from_be_bytes(pair)))
        })
    }

    /// The owners of its records, one after the other.
    pub fn owners(&self) -> impl Iterator<Item = Name> {
        let records = Records::new(self.bytes()).into_iter().flatten();
        let records = records.map_while(Result::ok);
        records.filter_map(|record| {
            let owner = Name::read(self.bytes(), record.name_offset);
            owner.ok().map(|(owner, _)| owner)
        })
    }

    /// The octets of memory that it holds beside its own struct.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.data.len()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("rcode", &self.rcode())
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// A record for [`Message::compose`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub section: Section,
    pub owner: &'a Name,
    /// Its type.
    pub rtype: Type,
    /// Its TTL.
    pub ttl: u32,
    /// Its data, names uncompressed.
    pub rdata: &'a [u8],
}

//----------- Reading ---------------------------------------------------------

/// The bounds of the TTLs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlLimits {
    /// The least lifetime of a positive answer.
    pub positive_min: u32,
    /// The longest lifetime of a positive answer.
    pub positive_max: u32,
    /// The longest lifetime of a negative answer.
    pub negative_max: u32,
}

impl Default for TtlLimits {
    fn default() -> Self {
        Self::of(&config::dns_recursor::Cache::default())
    }
}

impl TtlLimits {
    /// The bounds of a configuration, in whole seconds.
    #[must_use]
    pub fn of(cache: &config::dns_recursor::Cache) -> Self {
        let seconds =
            |ttl: config::HumanDuration| u32::try_from(ttl.0.as_secs()).unwrap_or(u32::MAX);
        Self {
            positive_min: seconds(cache.min_ttl),
            positive_max: seconds(cache.max_ttl),
            negative_max: seconds(cache.negative_max_ttl),
        }
    }
}

/// The pool of the cache that an answer belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// The name has records of the type.
    Positive,
    /// No such name or no such data (RFC 2308), or a failure (RFC 9520).
    Negative,
}

/// A response that answers its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The message to keep and send.
    pub message: Message,
    /// Whether it is an answer or a denial.
    pub pool: Pool,
    /// The seconds that it may be kept; zero for not at all.
    pub lifetime: u32,
    /// The end of its CNAME chain, when that has neither records nor a denial, or when the responder may not speak
    /// for it: another server has to answer for it.
    pub dangling: Option<Name>,
}

/// The reason why a response does not answer its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It breaks the format.
    Malformed,
    /// Its response code says that the upstream failed or refuses.
    Rcode(Rcode),
    /// It points to the servers of a zone below instead of answering (RFC 1034 §4.3.1).
    Referral(Box<Referral>),
    /// It names the servers of its own zone or of one above instead of answering: it does not serve the name.
    Lame,
}

/// The parameters for reading a response.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The question it must answer, in lower case.
    pub question: &'a [u8],
    /// The bounds of its TTLs.
    pub limits: TtlLimits,
    /// Whether the upstream's AD bit is passed on (RFC 6840 §5.7).
    pub trust_ad: bool,
    /// Whether the query asked for DNSSEC records (DO).
    pub dnssec_ok: bool,
    /// The apex of the zone whose servers respond.
    pub zone: &'a Name,
    /// The names that those servers may speak for.
    pub bailiwick: &'a dyn Bailiwick,
}

impl Reader<'_> {
    /// Takes a response apart and composes the message to keep. The caller has checked id, question and
    /// truncation; `scratch` is the buffer of the message.
    ///
    /// # Errors
    /// Fails when the response does not answer the question: the caller then asks another server.
    pub fn read(&self, response: &[u8], scratch: &mut [u8]) -> Result<Answer, Unusable> {
        let flags = Flags::read(response).ok_or(Unusable::Malformed)?;
        let taken = self.take(response)?;
        let rcode = match taken.rcode_high {
            0 => flags.rcode(),
            high => Rcode(u16::from(high) << 4 | flags.rcode().0),
        };
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) {
            return Err(Unusable::Rcode(rcode));
        }
        let mut verdict = self.judge(flags, rcode, taken.records)?;
        unify(&mut verdict.records);
        let lifetime = self.limit_ttls(&mut verdict);
        let message = self.compose(flags, &verdict, scratch)?;
        Ok(Answer {
            message,
            pool: verdict.pool,
            lifetime,
            dangling: verdict.dangling,
        })
    }

    /// Reads every record, with its names decompressed.
    fn take(&self, response: &[u8]) -> Result<Taken, Unusable> {
        let malformed = |_| Unusable::Malformed;
        let qclass = key::qclass(self.question);
        let mut all = Taken::default();
        for record in Records::new(response).map_err(malformed)? {
            let record = record.map_err(malformed)?;
            match record.rtype {
                Type::OPT => [all.rcode_high, ..] = record.ttl.to_be_bytes(),
                // Signatures of the transaction end at this hop (RFC 8945 §5.3, RFC 2931 §3).
                Type::TSIG => {}
                Type::SIG if record.section == Section::Additional => {}
                _ if record.class == qclass || qclass == Class::ANY => {
                    let record = Record::read(response, &record).map_err(malformed)?;
                    if !record.is_well_formed() {
                        return Err(Unusable::Malformed);
                    }
                    all.records.push(record);
                }
                _ => return Err(Unusable::Malformed),
            }
        }
        Ok(all)
    }

    /// Brings every TTL within limits; returns how long the message may be kept.
    fn limit_ttls(&self, verdict: &mut Verdict) -> u32 {
        let limits = self.limits;
        for record in &mut verdict.records {
            record.ttl = match verdict.pool {
                Pool::Positive => {
                    let floor = limits.positive_min.min(limits.positive_max);
                    record.ttl.clamp(floor, limits.positive_max)
                }
                Pool::Negative => record.ttl.min(limits.negative_max),
            };
            // RFC 2308 §5: MINIMUM bounds a denial's life as the SOA's own TTL does.
            if verdict.denied && record.section == Section::Authority && record.rtype == Type::SOA {
                record.ttl = record.ttl.min(soa_minimum(&record.rdata));
            }
        }
        // RFC 2308 §5: a denial without a SOA is not cached.
        if verdict.pool == Pool::Negative && !verdict.denied {
            return 0;
        }
        let ttls = verdict.records.iter().map(|record| record.ttl);
        ttls.min().unwrap_or(0)
    }

    /// Decides the meaning of the response (RFC 2308 §2), and picks the records that count.
    fn judge(
        &self,
        flags: Flags,
        rcode: Rcode,
        mut records: Vec<Record>,
    ) -> Result<Verdict, Unusable> {
        let scrubber = Scrubber {
            question: self.question,
            bailiwick: self.bailiwick,
            dnssec_ok: self.dnssec_ok,
        };
        let has_answers = in_section(&records, Section::Answer).next().is_some();
        let Chain {
            records: mut kept,
            end,
            leads,
        } = scrubber.chain(rcode, &mut records)?;
        let positive = |rcode, kept, dangling| Verdict {
            rcode,
            pool: Pool::Positive,
            denied: false,
            dangling,
            records: kept,
        };
        match leads {
            // The response code and a denial speak of the end, which is not the responder's.
            // Its aliases may be made from wildcards, and have their proofs with them.
            Leads::Away | Leads::TooLong | Leads::Data => {
                scrubber.take_proofs(&mut records, &mut kept);
                return Ok(match leads {
                    Leads::Away => positive(Rcode::NOERROR, kept, Some(end)),
                    Leads::TooLong => positive(Rcode::YXDOMAIN, kept, None),
                    Leads::Data | Leads::Nothing(_) => positive(rcode, kept, None),
                });
            }
            Leads::Nothing(_) if rcode == Rcode::YXDOMAIN => {
                return Ok(positive(rcode, kept, None));
            }
            Leads::Nothing(_) => {}
        }
        let denied = scrubber.take_denial(&end, &mut records, &mut kept);
        if rcode == Rcode::NOERROR && !denied {
            match leads {
                Leads::Nothing(0) if has_answers => return Err(Unusable::Malformed),
                Leads::Nothing(0) => self.not_referred(flags, &records)?,
                _ => {
                    scrubber.take_proofs(&mut records, &mut kept);
                    return Ok(positive(rcode, kept, Some(end)));
                }
            }
        }
        Ok(Verdict {
            rcode,
            pool: Pool::Negative,
            denied,
            dangling: None,
            records: kept,
        })
    }

    /// Fails when an empty response without a SOA record names servers instead of denying data.
    fn not_referred(&self, flags: Flags, records: &[Record]) -> Result<(), Unusable> {
        // Whether AA is set does not matter: there are servers that set it in referrals.
        if let Some(referral) = Referral::of(records, self.question, self.zone) {
            return Err(Unusable::Referral(Box::new(referral)));
        }
        let mut authority = in_section(records, Section::Authority);
        match authority.any(|record| record.rtype == Type::NS) && !flags.has(Flags::AA) {
            true => Err(Unusable::Lame),
            false => Ok(()),
        }
    }

    fn compose(
        &self,
        flags: Flags,
        verdict: &Verdict,
        scratch: &mut [u8],
    ) -> Result<Message, Unusable> {
        // A part of a chain is not what the upstream vouches for.
        let authentic = match self.trust_ad && verdict.dangling.is_none() {
            true => flags.0 & Flags::AD,
            false => 0,
        };
        let flags = Flags(Flags::QR | authentic).with_rcode(verdict.rcode);
        let malformed = |_| Unusable::Malformed;
        let mut composer = Composer::new(scratch, MAX_MESSAGE, 0, flags).map_err(malformed)?;
        composer.question(self.question).map_err(malformed)?;
        for record in &verdict.records {
            record.write(&mut composer).map_err(malformed)?;
        }
        let length = composer.finish();
        let message = scratch.get(..length).ok_or(Unusable::Malformed)?;
        Message::new(message, self.question.len()).ok_or(Unusable::Malformed)
    }
}

/// Joins the first part of a CNAME chain and the answer for its end.
///
/// The result has the answers of both, then the proofs of both; the response code and denial of `rest`
/// count for the whole (RFC 1034 §4.3.2, RFC 6604 §3).
#[must_use]
pub fn join(first: &Message, rest: &Message, scratch: &mut [u8]) -> Option<Message> {
    let flags = Flags(Flags::QR | first.flags().0 & rest.flags().0 & Flags::AD);
    let flags = flags.with_rcode(rest.rcode());
    let both = [first, rest];
    let joined = recompose(first.question(), flags, &both, |_| true, scratch)?;
    Some(joined.with_info_code(rest.info_code().or_else(|| first.info_code())))
}

/// Composes a message of the records of others that `is_kept` allows, section by section.
fn recompose(
    question: &[u8],
    flags: Flags,
    messages: &[&Message],
    is_kept: impl Fn(&RecordRef) -> bool,
    scratch: &mut [u8],
) -> Option<Message> {
    let mut composer = Composer::new(scratch, MAX_MESSAGE, 0, flags).ok()?;
    composer.question(question).ok()?;
    for section in [Section::Answer, Section::Authority] {
        for message in messages {
            for record in Records::new(message.bytes()).ok()? {
                let record = record.ok()?;
                if record.section == section && is_kept(&record) {
                    let record = Record::read(message.bytes(), &record).ok()?;
                    record.write(&mut composer).ok()?;
                }
            }
        }
    }
    let length = composer.finish();
    Message::new(scratch.get(..length)?, question.len())
}

//--- Records and what they mean

#[derive(Default)]
struct Taken {
    records: Vec<Record>,
    rcode_high: u8,
}

/// A record without pointers into its message.
struct Record {
    section: Section,
    owner: Name,
    rtype: Type,
    class: Class,
    ttl: u32,
    rdata: Vec<u8>,
}

impl Record {
    fn read(message: &[u8], record: &RecordRef) -> Result<Self, NameError> {
        let (owner, _) = Name::read(message, record.name_offset)?;
        let ttl = match record.ttl {
            ttl if ttl & TTL_TOP_BIT != 0 => 0,
            ttl => ttl,
        };
        Ok(Self {
            section: record.section,
            owner,
            rtype: record.rtype,
            class: record.class,
            ttl,
            rdata: uncompressed_rdata(message, record)?,
        })
    }

    /// Whether the data has the form that its type demands. For addresses, which are nearly all traffic,
    /// the length decides.
    fn is_well_formed(&self) -> bool {
        match self.rtype {
            // RFC 1035 §3.4.1: the one type whose data depends on the class.
            Type::A => self.class != Class::IN || self.rdata.len() == 4,
            Type::AAAA => self.rdata.len() == 16,
            rtype => rdata::is_valid(rtype, &self.rdata),
        }
    }

    /// The type of the set that it signs, if it is a signature (RFC 4034 §3.1.1).
    fn covered(&self) -> Option<Type> {
        match (self.rtype, self.rdata.as_slice()) {
            (Type::RRSIG, [high, low, ..]) => Some(Type(u16::from_be_bytes([*high, *low]))),
            _ => None,
        }
    }

    fn write(&self, composer: &mut Composer<'_>) -> Result<(), Full> {
        composer.record(
            self.section,
            Owner::Name(&self.owner),
            (self.rtype, self.class, self.ttl),
            &self.rdata,
        )
    }
}

struct Verdict {
    rcode: Rcode,
    pool: Pool,
    /// A SOA in the authority section gives the denial's lifetime.
    denied: bool,
    dangling: Option<Name>,
    /// The records that count: those of the answer section, then those of the authority section.
    records: Vec<Record>,
}

fn in_section(records: &[Record], section: Section) -> impl Iterator<Item = &Record> {
    records
        .iter()
        .filter(move |record| record.section == section)
}

/// The MINIMUM field: the last four octets of a SOA.
fn soa_minimum(rdata: &[u8]) -> u32 {
    rdata
        .last_chunk::<4>()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
