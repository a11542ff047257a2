//! One response, from its question to its header.

use std::net::IpAddr;
use std::sync::Arc;

use dns_cookie::CookieState;
use dns_flatten::Form;
use dns_history::History;
use dns_wire::edns::{self, extended_error};
use dns_wire::hash::Suffixes;
use dns_wire::header::{self, Flags};
use dns_wire::{Class, ClientSubnet, Composer, Name, Query, Rcode, Type};
use dns_zone::store;
use dns_zone::{Answer, MAX_MESSAGE, Resolution, Zone};

use crate::client::{Asker, Client, Transport};
use crate::live::{Failure, LiveAnswer, LiveSets, push_record};
use crate::options::Options;
use crate::settings::{Any, Settings};
use crate::table::Served;
use crate::transfer::{self, Version};
use crate::verdict::{Ixfr, Verdict};

/// A response under construction: the question is written, records end at `end`.
pub(crate) struct Draft<'q, 'o> {
    pub(crate) query: &'q Query<'q>,
    pub(crate) client: &'q Client,
    pub(crate) out: &'o mut [u8],
    pub(crate) end: usize,
    /// The limit of the message before its OPT record.
    pub(crate) limit: usize,
    pub(crate) flags: Flags,
    pub(crate) counts: [u16; 3],
    pub(crate) rcode: Rcode,
    pub(crate) options: Options<'q>,
    pub(crate) subnet: Option<ClientSubnet>,
    /// The key that the query is signed with.
    pub(crate) key: Option<&'q Name>,
}

impl<'q, 'o> Draft<'q, 'o> {
    /// Begins a response with the question, in its original letter case. A signature of this length will follow it.
    #[inline]
    pub(crate) fn new(
        query: &'q Query<'q>,
        client: &'q Client,
        settings: &'q Settings,
        (out, signature): (&'o mut [u8], usize),
    ) -> Option<Self> {
        let end = header::LENGTH + query.question.len();
        out.get_mut(header::LENGTH..end)?
            .copy_from_slice(query.question);
        let options = match &query.edns {
            Some(edns) if !edns.options.is_empty() => Options::read(edns, client, settings),
            _ => Options::default(),
        };
        let limit = match (client.transport, options.cookie_state()) {
            (Transport::Udp, CookieState::Proven) => {
                query.udp_limit().min(usize::from(settings.udp_payload))
            }
            (Transport::Udp, _) => query
                .udp_limit()
                .min(usize::from(settings.nocookie_payload)),
            _ => MAX_MESSAGE,
        };
        let reserved = match query.edns {
            Some(_) => edns::OPT_LENGTH + options.length(),
            None => 0,
        };
        let reserved = reserved + signature;
        Some(Self {
            query,
            client,
            end,
            limit: limit.min(out.len()).checked_sub(reserved)?,
            out,
            flags: query.flags.of_authority(),
            counts: [0; 3],
            rcode: Rcode::NOERROR,
            subnet: options.subnet(),
            options,
            key: None,
        })
    }

    /// The client, as access lists see it.
    pub(crate) const fn asker(&self) -> Asker<'q> {
        Asker {
            qtype: self.query.qtype,
            address: self.client.peer.ip(),
            key: self.key,
        }
    }

    /// Whether the client has to come again with the cookie of this response (RFC 7873 §5.2.3). A client without cookies need
    /// not, nor one whose transport proves its address.
    #[inline]
    pub(crate) fn needs_cookie(&self, settings: &Settings) -> bool {
        matches!(
            self.options.cookie_state(),
            CookieState::New | CookieState::Bad
        ) && self.client.transport == Transport::Udp
            && settings
                .cookies
                .as_ref()
                .is_some_and(|cookies| cookies.is_required)
    }

    /// Copies a rendered response.
    #[inline]
    pub(crate) fn copy(&mut self, zone: &Zone, number: u32) {
        let written = zone.rendered(number).and_then(|rendered| {
            rendered.write(self.query.qname.len(), self.out, self.end, self.limit)
        });
        let Some(written) = written else {
            self.fail(Rcode::SERVFAIL, extended_error::INVALID_DATA);
            return;
        };
        self.end = written.end;
        self.counts = written.counts;
        self.rcode = written.flags.rcode();
        self.flags = self.flags.with(written.flags.0 & !0x0f);
    }

    /// The zone's answer for names without data of the type.
    pub(crate) fn copy_nodata(&mut self, zone: &Zone) {
        match zone.nodata() {
            Answer::Rendered(number) | Answer::Onward(number) => self.copy(zone, number),
            _ => self.compose(&zone.resolve_negative()),
        }
    }

    /// Writes the serial of the zone into the SOA record of a negative answer, where the parts of a zone have none.
    pub(crate) fn set_serial(&mut self, serial: u32) {
        let [_, authorities, additionals] = self.counts;
        if authorities != 1 || additionals != 0 || self.is_truncated() {
            return;
        }
        // The five numbers of its data end the message; the serial is the first.
        let start = self.end.saturating_sub(20);
        if let Some(place) = self.out.get_mut(start..start + 4) {
            place.copy_from_slice(&serial.to_be_bytes());
        }
    }

    /// Answers with one address, or says that the name has no data of the question's type.
    pub(crate) fn answer_address(&mut self, zone: &Zone, address: IpAddr, ttl: u32) {
        let (rtype, octets) = match &address {
            IpAddr::V4(address) => (Type::A, address.octets().to_vec()),
            IpAddr::V6(address) => (Type::AAAA, address.octets().to_vec()),
        };
        if self.query.qtype != rtype && self.query.qtype != Type::ANY {
            self.copy_nodata(zone);
            return;
        }
        let mut record = Vec::with_capacity(28);
        if push_record(&mut record, rtype, ttl, &octets).is_none() {
            return;
        }
        let end = self.end + record.len();
        match self.out.get_mut(self.end..end) {
            Some(room) if end <= self.limit => {
                room.copy_from_slice(&record);
                self.end = end;
                self.counts = [1, 0, 0];
                self.flags = self.flags.with(Flags::AA);
            }
            _ => self.truncate(),
        }
    }

    /// Encodes a response that was resolved for this query.
    #[cold]
    pub(crate) fn compose(&mut self, resolution: &Resolution<'_>) {
        let Ok(mut message) = Composer::new(self.out, self.limit, 0, Flags::default()) else {
            return;
        };
        if message.question(self.query.question).is_err() {
            return;
        }
        let flags = store::compose(&mut message, resolution);
        let [_, answers, authorities, additionals] = message.counts();
        self.end = message.length();
        self.counts = [answers, authorities, additionals];
        self.rcode = flags.rcode();
        self.flags = self.flags.with(flags.0 & !0x0f);
    }

    /// Answers a question of a class other than IN: only CHAOS TXT has answers, and the operator chooses
    /// them.
    #[cold]
    pub(crate) fn answer_chaos(&mut self, settings: &Settings) {
        let is_asked = |name: &Name| name.as_wire().eq_ignore_ascii_case(self.query.qname);
        let text = settings
            .chaos
            .iter()
            .find(|(name, _)| self.query.qclass == Class::CH && is_asked(name))
            .map(|(_, text)| text.as_bytes());
        let Some(text) = text else {
            self.fail(Rcode::REFUSED, extended_error::NOT_AUTHORITATIVE);
            return;
        };
        self.flags = self.flags.with(Flags::AA);
        if self.query.qtype != Type::TXT && self.query.qtype != Type::ANY {
            return;
        }
        let mut rdata = Vec::with_capacity(text.len() + 1);
        for string in text.chunks(255) {
            rdata.push(u8::try_from(string.len()).unwrap_or(u8::MAX));
            rdata.extend_from_slice(string);
        }
        let mut record = Vec::new();
        let pushed = push_record(&mut record, Type::TXT, 0, &rdata);
        let end = self.end + record.len();
        match self.out.get_mut(self.end..end) {
            Some(room) if end <= self.limit && pushed.is_some() => {
                room.copy_from_slice(&record);
                // The class stands behind the pointer and the type.
                header::set_word(self.out, self.end + 4, Class::CH.0);
                self.end = end;
                self.counts = [1, 0, 0];
            }
            _ => self.truncate(),
        }
    }

    /// Refuses a name outside all zones of this server.
    #[cold]
    pub(crate) fn refuse_name(&mut self) {
        let rcode = match self.query.qtype {
            // RFC 5936 §2.2.1.
            Type::AXFR | Type::IXFR => Rcode::NOTAUTH,
            _ => Rcode::REFUSED,
        };
        self.fail(rcode, extended_error::NOT_AUTHORITATIVE);
    }

    /// Whether the question is for records of any class: those of class IN match. A zone transfer needs the
    /// zone's class.
    #[inline]
    pub(crate) fn asks_every_class(&self) -> bool {
        self.query.qclass == Class::ANY && !matches!(self.query.qtype, Type::AXFR | Type::IXFR)
    }

    /// Whether the client wants the signatures and proofs of signed zones (RFC 3225 §3).
    #[inline]
    pub(crate) fn wants_signatures(&self) -> bool {
        self.query.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// Answers ANY; `None` when the response is complete.
    #[cold]
    pub(crate) fn answer_any(
        &mut self,
        zone: &Zone,
        name: &Suffixes,
        settings: &Settings,
    ) -> Option<Answer> {
        match (settings.any, self.client.transport) {
            (Any::One, _) => Some(zone.find_any(name, self.wants_signatures())),
            (Any::AllOverTcp, Transport::Udp) => {
                self.truncate();
                None
            }
            (Any::AllOverTcp, _) => Some(Answer::Resolve),
        }
    }

    /// The version of a zone that the client gets; `None` while there is none. A name server that gets the zone flattened sees the
    /// serial of that version, also when it only asks for the SOA record.
    fn version(
        &self,
        (zone, live): (&Arc<Zone>, &LiveSets),
        settings: &Settings,
    ) -> Option<Version> {
        if zone.live_sets().is_empty() && live.flat().is_none() {
            return Some(zone.into());
        }
        let server = self.client.peer.ip();
        match settings.forms.of(zone.apex(), server, self.key) {
            Form::Flatten => live.flat().map(Into::into),
            Form::Raw | Form::Refuse => Some(zone.into()),
        }
    }

    fn is_at_apex(&self, zone: &Zone) -> bool {
        self.query.qname.eq_ignore_ascii_case(zone.apex().as_wire())
    }

    /// Answers a question for the SOA record of a zone with LUA records; `false` if its own record is the answer.
    #[cold]
    pub(crate) fn answer_soa(
        &mut self,
        (zone, live): (&Arc<Zone>, &LiveSets),
        settings: &Settings,
    ) -> bool {
        if !self.is_at_apex(zone) {
            return false;
        }
        match self.version((zone, live), settings) {
            Some(Version::Raw(_)) => false,
            Some(version) => self.answer_with(|message| transfer::write_soa(message, &version)),
            None => {
                self.fail(Rcode::SERVFAIL, extended_error::NOT_READY);
                true
            }
        }
    }

    /// Passes a transfer on to the caller, who checks the access list. There are no transfers over UDP:
    /// AXFR is undefined there (RFC 5936 §4.2). IXFR gets the differences if they fit, or else only the SOA record, by which the
    /// client decides whether to come over TCP (RFC 1995 §2).
    #[cold]
    pub(crate) fn answer_transfer(
        &mut self,
        (served, zone): (&Served, &Arc<Zone>),
        settings: &Settings,
        ixfr: &Ixfr,
    ) -> Option<Verdict> {
        if !self.is_at_apex(zone) {
            // RFC 5936 §2.2.1.
            self.fail(Rcode::NOTAUTH, extended_error::NOT_AUTHORITATIVE);
            return None;
        }
        // RFC 1995 §3: the client's SOA has its version.
        if self.query.qtype == Type::IXFR && transfer::known_serial(self.query).is_none() {
            self.fail(Rcode::FORMERR, extended_error::INVALID_DATA);
            return None;
        }
        if self.client.transport != Transport::Udp {
            return Some(Verdict::Transfer {
                zone: served.id(),
                session: None,
            });
        }
        if self.query.qtype != Type::IXFR {
            self.fail(Rcode::REFUSED, extended_error::PROHIBITED);
            return None;
        }
        let Some(version) = self.version((zone, &*served.live), settings) else {
            self.fail(Rcode::SERVFAIL, extended_error::NOT_READY);
            return None;
        };
        match ixfr {
            Ixfr::Undecided => {
                return Some(Verdict::Incremental {
                    zone: served.id(),
                    key: None,
                });
            }
            Ixfr::Differences(history) if self.answer_differences(&version, history) => {}
            Ixfr::Differences(_) | Ixfr::SoaAlone => {
                if !self.answer_with(|message| transfer::write_soa(message, &version)) {
                    self.fail(Rcode::SERVFAIL, extended_error::INVALID_DATA);
                }
            }
        }
        None
    }

    /// Answers with the differences from the client's version; `false` if they are not kept, or do not fit.
    fn answer_differences(&mut self, version: &Version, history: &History) -> bool {
        let Some(known) = transfer::known_serial(self.query) else {
            return false;
        };
        let history = match version {
            Version::Raw(_) => history,
            Version::Flat(flat) => flat.history(),
        };
        self.answer_with(|message| transfer::write_differences(message, version, history, known))
    }

    /// Answers with the records that `write` adds; `false` if it adds none, or they do not fit.
    fn answer_with(&mut self, write: impl FnOnce(&mut Composer<'_>) -> Option<()>) -> bool {
        let Ok(mut message) = Composer::new(self.out, self.limit, 0, Flags::default()) else {
            return false;
        };
        let written = message.question(self.query.question).ok();
        if written.and_then(|()| write(&mut message)).is_none() {
            return false;
        }
        let [_, answers, ..] = message.counts();
        self.end = message.length();
        self.counts = [answers, 0, 0];
        self.flags = self.flags.with(Flags::AA);
        true
    }

    /// The address that hashed draws use.
    #[inline]
    pub(crate) fn best_address(&mut self, answer: &LiveAnswer) -> IpAddr {
        match self.subnet {
            Some(subnet) if answer.depends_on_client() => {
                self.options.set_scope(subnet.source_prefix);
                subnet.address
            }
            _ => self.client.peer.ip(),
        }
    }

    #[inline]
    pub(crate) fn truncate(&mut self) {
        self.end = header::LENGTH + self.query.question.len();
        self.counts = [0; 3];
        self.flags = self.flags.with(Flags::TC | Flags::AA);
    }

    #[inline]
    pub(crate) const fn is_truncated(&self) -> bool {
        self.flags.has(Flags::TC)
    }

    /// Turns the response into an error with an extended error code (RFC 8914).
    #[cold]
    pub(crate) fn fail(&mut self, rcode: Rcode, why: u16) {
        self.end = header::LENGTH + self.query.question.len();
        self.counts = [0; 3];
        self.flags = self.query.flags.of_authority();
        self.rcode = rcode;
        self.options.set_extended_error(why);
    }

    /// Notes that the answer is by this server's own probes, if there is room behind the records.
    #[cold]
    pub(crate) fn note_stand_in(&mut self) {
        if self.end + Options::NOTE <= self.limit {
            self.options.note_stand_in();
        }
    }

    pub(crate) fn fail_live(&mut self, failure: Failure) {
        let why = match failure {
            Failure::Defect => extended_error::INVALID_DATA,
            Failure::Incomplete => extended_error::NOT_READY,
            Failure::AllDown => extended_error::NETWORK_ERROR,
        };
        self.fail(Rcode::SERVFAIL, why);
    }

    /// Adds the OPT record and the header; returns the message's length.
    #[inline]
    pub(crate) fn finish(self, settings: &Settings) -> Option<usize> {
        let mut end = self.end;
        let [answers, authorities, mut additionals] = self.counts;
        if let Some(edns) = &self.query.edns {
            let record = edns::opt_record(settings.udp_payload, self.rcode.high(), edns.dnssec_ok);
            self.out
                .get_mut(end..end + edns::OPT_LENGTH)?
                .copy_from_slice(&record);
            end += edns::OPT_LENGTH;
            additionals = additionals.saturating_add(1);
            if !self.options.is_empty() {
                end = self.options.write(self.out, end)?;
            }
        }
        let mut flags = self.flags.with_rcode(self.rcode);
        if self.query.qclass == Class::ANY {
            // RFC 1034 §3.7.1: no server has authority for every class.
            flags = flags.without(Flags::AA);
        }
        let head = self.out.first_chunk_mut::<{ header::LENGTH }>()?;
        let [i1, i0] = self.query.id.to_be_bytes();
        let [f1, f0] = flags.0.to_be_bytes();
        let [a1, a0] = answers.to_be_bytes();
        let [u1, u0] = authorities.to_be_bytes();
        let [d1, d0] = additionals.to_be_bytes();
        *head = [i1, i0, f1, f0, 0, 1, a1, a0, u1, u0, d1, d0];
        Some(end)
    }
}
