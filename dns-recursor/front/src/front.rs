//! Answers one message from a client, or hands it on to the resolver.
//!
//! ```text
//! message ─► parse ─► allowed? ─► policy ─► rewrite ─► names ─► cache ─► local names ─► resolve
//!               │         │          │                   │        │           │
//!               ▼         ▼          ▼                   ▼        ▼           ▼
//!           FORMERR …  REFUSED …  REFUSED              answer   answer      answer
//! ```
//!
//! A rule may have changed the question; the answer to the other one is changed back. An alias of the configuration
//! continues with the question for its target, and DNS64 continues from a lack of AAAA records with the question for A
//! records ([`Derived`]).
//!
//! A cache hit allocates nothing. Reads no clock and no socket. Datagrams and streams take the same way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dns_cache::answer::{self, Asker, Transport, Ttls};
use dns_cache::cache::{Cache, Found, State};
use dns_cache::instant::Instant;
use dns_cache::key::{Key, Variant};
use dns_cache::message::{MAX_MESSAGE, Message, Pool};
use dns_cookie::{CookieState, Cookies};
use dns_names::{Names, Origin, Reply};
use dns_resolve::forward::Table;
use dns_rewrite::{Rewrites, Rewritten};
use dns_wire::edns::{extended_error, option};
use dns_wire::query::{reply_to_error, reply_to_signed};
use dns_wire::{Class, Flags, Name, Opcode, Query, QueryError, Rcode, Type};
use dns64::Dns64;

use crate::derived::Derived;
use crate::local::Local;
use crate::policy::{self, Outsiders};

/// The rules for queries, of one configuration.
#[derive(Debug)]
pub struct View {
    pub table: Arc<Table>,
    /// The names that the server answers itself.
    pub local: Local,
    /// The treatment of clients outside `allow-from`.
    pub outsiders: Outsiders,
    /// TTL of stale answers.
    pub stale_ttl: Duration,
    /// Whether names in demand are refreshed before they expire.
    pub prefetch: bool,
    /// The answer to cookies (RFC 7873); none ignores them.
    pub cookies: Option<Arc<Cookies>>,
    /// The longest response over UDP to a client without a valid cookie.
    pub nocookie_limit: usize,
    /// The making of AAAA records from A records; none leaves answers as they are.
    pub dns64: Option<Arc<Dns64>>,
    /// The rules that change questions.
    pub rewrites: Arc<Rewrites>,
}

/// The transport's facts about a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// In `allow-from`: may query.
    pub ask: bool,
    /// In `notify-from`.
    pub notify: bool,
}

/// The verdict on a message.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// Send the response, in the first octets of the buffer: this many.
    Reply(usize),
    /// Send the response, and refresh the entry.
    ReplyAndRefresh(usize),
    /// A zone has changed: drop it from the cache, and send the response. Nothing when that cannot be done: the sender comes
    /// again.
    Changed {
        /// The zone.
        zone: Name,
        /// The length of the response.
        length: usize,
    },
    /// Send nothing.
    Silent,
    /// Hand the question to the resolver; `key` has it.
    Resolve {
        /// The client to answer.
        asker: Asker<'a>,
        /// Whether there is a stale answer.
        has_stale: bool,
        /// The rest of the response, when the question in `key` is not the client's own.
        derived: Option<Box<Derived>>,
    },
}

/// The kind of a message, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The cache's answers.
    Positive,
    /// The cache's denials.
    Negative,
    /// A stale answer.
    Stale,
    /// A remembered failure.
    Failure,
    /// A local name.
    Local,
    /// A name of the configuration or of a hosts file.
    Names,
    /// A response policy.
    Policy,
    /// A records, or the lack of them, in the place of AAAA records.
    Dns64,
    /// Handed to the resolver.
    Resolver,
    /// Refused by policy, or not understood.
    Error,
    /// Not answered.
    Dropped,
}

/// A verdict, with facts for the counters.
#[derive(Debug)]
pub struct Judged<'a> {
    pub verdict: Verdict<'a>,
    /// The source of the answer.
    pub source: Source,
    /// The question's type, when the message has a question.
    pub qtype: Option<Type>,
    /// The state of the query's cookie.
    pub cookie_state: CookieState,
}

/// The judge of questions.
#[derive(Debug)]
pub struct Front<'v> {
    /// The configuration.
    pub view: &'v View,
    /// The names of the configuration, and the rules for names.
    pub names: &'v Names,
    /// The cache.
    pub cache: &'v Cache,
    /// The time.
    pub now: Instant,
    /// The client's address.
    pub client: IpAddr,
    /// The clock of cookies, in seconds since 1970 modulo 2³²: only a query with a cookie reads it.
    pub clock: fn() -> u32,
}

impl Front<'_> {
    /// Judges one message: leaves the question in `key` and a response in `out`.
    pub fn judge<'a>(
        &self,
        message: &'a [u8],
        permissions: Permissions,
        transport: Transport,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        let query = match Query::parse(message) {
            // This server has no keys to check a signature with.
            Ok(query) if permissions.ask && query.tsig.is_some() => {
                return Judged::from_reply(reply_to_signed(&query, out), None);
            }
            Ok(query) if permissions.ask => query,
            Ok(query) => return self.outsider(&query, transport, out),
            Err(QueryError::NotImp(Opcode::NOTIFY)) if self.may_notify(message, permissions) => {
                return self.notified(message, out);
            }
            Err(error) if permissions.ask => {
                return Judged::from_reply(reply_to_error(message, error, out), None);
            }
            Err(_) => return Judged::from_reply(None, None),
        };
        let mut asker = Asker::new(&query, transport);
        let cookie_state = self.check_cookie(&query, transport, &mut asker);
        self.read_key(&query, key);
        let judged = match self.refusal(&query, transport, cookie_state) {
            Some(rcode) => Judged::from_reply(answer::error(&asker, rcode, None, out), None),
            None if query.qclass == Class::CH => self.chaos(&asker, key, out),
            None => match self.rewrite(&query, key) {
                Ok(derived) => self.permitted(&query, asker, derived, transport, key, out),
                Err(NoName) => {
                    let why = Some(extended_error::INVALID_DATA);
                    let sent = answer::error(&asker, Rcode::SERVFAIL, why, out);
                    Judged::from_reply(sent, None)
                }
            },
        };
        Judged {
            qtype: Some(query.qtype),
            cookie_state,
            ..judged
        }
    }

    /// Changes the question in `key` by the rules; returns the way back.
    #[inline]
    pub(crate) fn rewrite(
        &self,
        query: &Query<'_>,
        key: &mut Key,
    ) -> Result<Option<Derived>, NoName> {
        if self.view.rewrites.is_empty() {
            return Ok(None);
        }
        match self.view.rewrites.apply(key.question()) {
            Rewritten::Unchanged => Ok(None),
            Rewritten::Question(question, back) => {
                self.read_question(query, &question, key);
                Ok(Some(Derived::rewritten(back)))
            }
            Rewritten::NoName => Err(NoName),
        }
    }

    /// Answers the question in `key`.
    #[inline]
    fn permitted<'a>(
        &self,
        query: &Query<'_>,
        asker: Asker<'a>,
        derived: Option<Derived>,
        transport: Transport,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        let client = Some(self.client);
        match self.names.reply(key.question(), client, &self.view.table) {
            // Over TCP the client has done what the rule asks for.
            Some((Reply::Truncated, _)) if transport == Transport::Tcp => {
                self.unnamed(query, asker, derived, key, out)
            }
            Some((reply, origin)) => self.named(query, asker, (reply, origin), derived, key, out),
            None => self.unnamed(query, asker, derived, key, out),
        }
    }

    /// Reads the question, and the kind of answer that its client wants.
    #[inline]
    pub(crate) fn read_key(&self, query: &Query<'_>, key: &mut Key) {
        self.read_question(query, query.question, key);
    }

    /// Reads a question in the place of a query's own.
    pub(crate) fn read_question(&self, query: &Query<'_>, question: &[u8], key: &mut Key) {
        let variant = Variant::new(query.dnssec_ok(), query.flags.has(Flags::CD));
        key.read(self.cache.seed(), question, variant);
        // The answers for clients that do not ask for validation are those without it.
        let asks = variant.dnssec_ok() || query.flags.has(Flags::AD);
        if !asks
            && self
                .view
                .table
                .validates_on_request(key.name(), key.qtype())
        {
            let unchecked = Variant::new(variant.dnssec_ok(), true);
            key.read(self.cache.seed(), question, unchecked);
        }
    }

    /// Checks the query's cookie, and puts the one for the response and the limit of its length into `asker`.
    #[inline]
    fn check_cookie(
        &self,
        query: &Query<'_>,
        transport: Transport,
        asker: &mut Asker<'_>,
    ) -> CookieState {
        let cookie_state = match query.edns {
            Some(edns) if !edns.options.is_empty() => {
                let cookies = self.view.cookies.as_ref();
                let checked = cookies
                    .zip(edns.option(option::COOKIE))
                    .map(|(cookies, data)| {
                        cookies.secrets.check(data, self.client, (self.clock)())
                    });
                asker.cookie = checked.and_then(|checked| checked.cookie);
                checked.map_or(CookieState::None, |checked| checked.cookie_state)
            }
            _ => CookieState::None,
        };
        if transport == Transport::Udp && cookie_state != CookieState::Proven {
            asker.limit = asker.limit.min(self.view.nocookie_limit);
        }
        cookie_state
    }

    /// The response code of a query that is not answered.
    fn refusal(
        &self,
        query: &Query<'_>,
        transport: Transport,
        cookie_state: CookieState,
    ) -> Option<Rcode> {
        let refusal = policy::refusal(query);
        // The OPT record of another version may mean something else.
        if refusal == Some(Rcode::BADVERS) {
            return refusal;
        }
        match cookie_state {
            // RFC 7873 §5.2.2.
            CookieState::Malformed => Some(Rcode::FORMERR),
            // RFC 7873 §5.2.3: the client comes again with the cookie of this response.
            CookieState::New | CookieState::Bad
                if transport == Transport::Udp
                    && self
                        .view
                        .cookies
                        .as_ref()
                        .is_some_and(|cookies| cookies.is_required) =>
            {
                Some(Rcode::BADCOOKIE)
            }
            _ => refusal,
        }
    }

    /// Answers a name that the configuration does not have.
    #[inline]
    fn unnamed<'a>(
        &self,
        query: &Query<'_>,
        asker: Asker<'a>,
        derived: Option<Derived>,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        match self.dns64() {
            None => self.looked_up(asker, derived.map(Box::new), key, out),
            Some(dns64) => self.translated(dns64, query, asker, derived, key, out),
        }
    }

    /// The making of AAAA records, if the client gets them.
    #[inline]
    pub(crate) fn dns64(&self) -> Option<&Arc<Dns64>> {
        let dns64 = self.view.dns64.as_ref()?;
        let clients = dns64.clients.as_ref();
        clients
            .is_none_or(|clients| clients.contains(self.client))
            .then_some(dns64)
    }

    /// Answers a client behind a NAT64.
    fn translated<'a>(
        &self,
        dns64: &Arc<Dns64>,
        query: &Query<'_>,
        asker: Asker<'a>,
        derived: Option<Derived>,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        // A zone of the forward table is answered by its servers.
        if query.qclass == Class::IN && !self.view.table.is_taken_over(key.name()) {
            if let Some(message) = dns64.well_known(key.question()) {
                let sent = send_whole(derived.as_ref(), message, &asker, out);
                return Judged::from_reply(sent, Some(Source::Local));
            }
            let alias = dns64.alias(key.question());
            if let Some((first, target)) = alias.filter(|_| key.qtype() == Type::PTR) {
                self.read_question(query, &question_for(&target, key.question()), key);
                let derived = derived.unwrap_or_default().after(first);
                let client = Some(self.client);
                let named = self.names.reply(key.question(), client, &self.view.table);
                if let Some((Reply::Answer(pointer), Origin::Names)) = named {
                    let sent = send_whole(Some(&derived), pointer, &asker, out);
                    return Judged::from_reply(sent, Some(Source::Names));
                }
                return self.looked_up(asker, Some(Box::new(derived)), key, out);
            }
        }
        let synthesis = self.synthesis(query, key, derived.clone().unwrap_or_default());
        self.looked_up(asker, synthesis.or(derived).map(Box::new), key, out)
    }

    /// `derived` for a client that gets AAAA records made of A records; `None` for another question or client. A client that
    /// disables checking validates by itself, and gets what there is (RFC 6147 §5.5).
    pub(crate) fn synthesis(
        &self,
        query: &Query<'_>,
        key: &Key,
        derived: Derived,
    ) -> Option<Derived> {
        let dns64 = self.dns64()?;
        let is_asked =
            key.qtype() == Type::AAAA && query.qclass == Class::IN && !query.flags.has(Flags::CD);
        is_asked.then(|| derived.synthesized_by(dns64, query.dnssec_ok()))
    }

    /// Looks into the cache, and hands on what it does not have.
    fn looked_up<'a>(
        &self,
        asker: Asker<'a>,
        mut derived: Option<Box<Derived>>,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        match self.cached(&asker, key, derived.as_deref(), out) {
            Looked::Done(judged) => judged,
            Looked::Resolve { has_stale } => self.uncached(asker, key, derived, has_stale, out),
            Looked::Policy(reply) => self.forged(asker, reply, derived, key, out),
            Looked::Addresses { denial, is_ending } => {
                let asked = is_ending.then(|| key.clone());
                if let Some(derived) = &mut derived {
                    *key = derived.ask_for_addresses(key, denial.as_ref(), self.cache.seed());
                }
                let judged = self.looked_up(asker, derived, key, out);
                // The denial is refreshed, too. Its refresh comes first: without it, the next query waits.
                match (judged.verdict, asked) {
                    (Verdict::Reply(length) | Verdict::ReplyAndRefresh(length), Some(asked)) => {
                        *key = asked;
                        let verdict = match self.view.prefetch {
                            true => Verdict::ReplyAndRefresh(length),
                            false => Verdict::Reply(length),
                        };
                        Judged { verdict, ..judged }
                    }
                    (verdict, _) => Judged { verdict, ..judged },
                }
            }
        }
    }

    /// Answers with what a response policy puts in the place of an answer of the cache.
    fn forged<'a>(
        &self,
        asker: Asker<'a>,
        reply: Reply,
        derived: Option<Box<Derived>>,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        let source = Some(Source::Policy);
        let (first, target) = match reply {
            Reply::Answer(message) => {
                let sent = send_whole(derived.as_deref(), message, &asker, out);
                return Judged::from_reply(sent, source);
            }
            Reply::Drop => return Judged::from_reply(None, None),
            Reply::Truncated => return Judged::from_reply(answer::truncated(&asker, out), source),
            Reply::Alias { first, target } => (first, target),
        };
        let question = question_for(&target, key.question());
        *key = Key::new(self.cache.seed(), &question, key.variant());
        let derived = derived.map(|derived| *derived).unwrap_or_default();
        match derived.forged(first) {
            Some(derived) => self.looked_up(asker, Some(Box::new(derived)), key, out),
            None => Judged::from_reply(answer::error(&asker, Rcode::SERVFAIL, None, out), source),
        }
    }

    /// The reply of a response policy in the place of an answer, for a client over UDP or TCP.
    fn policy_reply(
        &self,
        answer: &Message,
        key: &Key,
        derived: Option<&Derived>,
        asker: &Asker<'_>,
    ) -> Option<Reply> {
        if !self.names.has_answer_rules() || derived.is_some_and(Derived::is_forged) {
            return None;
        }
        let client = Some(self.client);
        let reply = self.names.reply_to_answer(key.question(), client, answer)?;
        // Over TCP the client has done what the rule asks for.
        (reply != Reply::Truncated || asker.limit < MAX_MESSAGE).then_some(reply)
    }

    /// Answers a name of the configuration. It leaves the question for the target of an alias in `key`.
    fn named<'a>(
        &self,
        query: &Query<'_>,
        asker: Asker<'a>,
        (reply, origin): (Reply, Origin),
        derived: Option<Derived>,
        key: &mut Key,
        out: &mut [u8],
    ) -> Judged<'a> {
        let source = source_of(origin);
        let (first, target) = match reply {
            Reply::Answer(message) => {
                let (message, source) = self
                    .synthesized(query, &message, origin, key)
                    .map_or((message, source), |made| (made, Source::Dns64));
                let sent = send_whole(derived.as_ref(), message, &asker, out);
                return Judged::from_reply(sent, Some(source));
            }
            Reply::Drop => return Judged::from_reply(None, None),
            Reply::Truncated => {
                return Judged::from_reply(answer::truncated(&asker, out), Some(source));
            }
            Reply::Alias { first, target } => (first, target),
        };
        self.read_question(query, &question_for(&target, key.question()), key);
        let behind = derived.unwrap_or_default().after(first);
        let synthesis = self.synthesis(query, key, behind.clone());
        let derived = synthesis.unwrap_or(behind);
        let judged = self.looked_up(asker, Some(Box::new(derived)), key, out);
        match judged.source {
            Source::Positive | Source::Negative | Source::Local => Judged { source, ..judged },
            _ => judged,
        }
    }

    /// The AAAA records of a name of the configuration that has A records alone.
    fn synthesized(
        &self,
        query: &Query<'_>,
        denial: &Message,
        origin: Origin,
        key: &Key,
    ) -> Option<Message> {
        let mut derived = self.synthesis(query, key, Derived::default())?;
        if origin != Origin::Names || !derived.wants_addresses(denial) {
            return None;
        }
        let addresses = derived.ask_for_addresses(key, Some(denial), self.cache.seed());
        let client = Some(self.client);
        match self
            .names
            .reply(addresses.question(), client, &self.view.table)?
        {
            (Reply::Answer(answer), Origin::Names) => derived.whole(&answer),
            _ => None,
        }
    }

    fn cached<'a>(
        &self,
        asker: &Asker<'a>,
        key: &Key,
        derived: Option<&Derived>,
        out: &mut [u8],
    ) -> Looked<'a> {
        let looked = self.cache.look_up(key, self.now, |found| {
            let is_sendable = match found.state {
                State::Fresh | State::Ending | State::Held => true,
                State::Expired => self.is_unreachable(key),
                State::Failed => false,
            };
            if is_sendable
                && let Some(reply) = self.policy_reply(found.message, key, derived, asker)
            {
                return Looked::Policy(reply);
            }
            let Some(derived) = derived else {
                return self.found(&found, is_sendable, asker, out);
            };
            if is_sendable && derived.wants_addresses(found.message) {
                return Looked::Addresses {
                    denial: Some(found.message.aged(found.age)),
                    is_ending: found.state == State::Ending,
                };
            }
            // A failure with a reason is a bogus answer.
            if found.state == State::Failed
                && found.message.info_code().is_none()
                && derived.wants_addresses_after_failure()
            {
                return Looked::Addresses {
                    denial: None,
                    is_ending: false,
                };
            }
            if found.state == State::Failed {
                let said = found.message.info_code();
                let why = said.or(Some(extended_error::CACHED_ERROR));
                let sent = answer::error(asker, Rcode::SERVFAIL, why, out);
                return Looked::Done(Judged::from_reply(sent, Some(Source::Failure)));
            }
            let Some(whole) = derived.whole(&found.message.aged(found.age)) else {
                let sent = answer::error(asker, Rcode::SERVFAIL, None, out);
                return Looked::Done(Judged::from_reply(sent, None));
            };
            let message = &whole;
            let found = Found {
                message,
                age: 0,
                ..found
            };
            match self.found(&found, is_sendable, asker, out) {
                Looked::Done(judged) if derived.is_synthesized() => Looked::Done(judged.by_dns64()),
                looked => looked,
            }
        });
        looked.unwrap_or(Looked::Resolve { has_stale: false })
    }

    /// Answers with an entry of the cache, if it is good enough.
    #[inline]
    fn found<'a>(
        &self,
        found: &Found<'_>,
        is_sendable: bool,
        asker: &Asker<'a>,
        out: &mut [u8],
    ) -> Looked<'a> {
        let sent = match found.state {
            State::Fresh | State::Ending => fresh(found, asker, out),
            State::Failed => {
                let said = found.message.info_code();
                let why = said.or(Some(extended_error::CACHED_ERROR));
                answer::send(found.message, asker, Ttls::Aged(0), why, out)
            }
            State::Held | State::Expired if is_sendable => self.stale(found, asker, out),
            State::Held | State::Expired => return Looked::Resolve { has_stale: true },
        };
        let source = match found.state {
            State::Fresh | State::Ending if found.pool == Pool::Positive => Source::Positive,
            State::Fresh | State::Ending => Source::Negative,
            State::Failed => Source::Failure,
            State::Held | State::Expired => Source::Stale,
        };
        let verdict = match sent {
            Some(length) if found.state == State::Ending && self.view.prefetch => {
                Verdict::ReplyAndRefresh(length)
            }
            Some(length) => Verdict::Reply(length),
            None => Verdict::Silent,
        };
        Looked::Done(Judged {
            verdict,
            source,
            qtype: None,
            cookie_state: CookieState::None,
        })
    }

    fn uncached<'a>(
        &self,
        asker: Asker<'a>,
        key: &Key,
        derived: Option<Box<Derived>>,
        has_stale: bool,
        out: &mut [u8],
    ) -> Judged<'a> {
        if self.view.local.covers(key.name(), &self.view.table)
            && let Some(message) = self.view.local.answer(key.question())
        {
            let sent = send_whole(derived.as_deref(), message, &asker, out);
            return Judged::from_reply(sent, Some(Source::Local));
        }
        // RFC 8914 §4.21: a client that does not ask for recursion and cannot be answered from the cache
        // learns that this server is not authoritative.
        if !asker.flags.has(Flags::RD) {
            let why = Some(extended_error::NOT_AUTHORITATIVE);
            let sent = answer::error(&asker, Rcode::REFUSED, why, out);
            return Judged::from_reply(sent, None);
        }
        Judged {
            verdict: Verdict::Resolve {
                asker,
                has_stale,
                derived,
            },
            source: Source::Resolver,
            qtype: None,
            cookie_state: CookieState::None,
        }
    }

    fn chaos<'a>(&self, asker: &Asker<'_>, key: &Key, out: &mut [u8]) -> Judged<'a> {
        let sent = match self.view.local.chaos(key.question()) {
            Some(message) => answer::send(&message, asker, Ttls::Aged(0), None, out),
            None => answer::error(asker, Rcode::REFUSED, None, out),
        };
        Judged::from_reply(sent, Some(Source::Local))
    }

    fn outsider<'a>(&self, query: &Query<'_>, transport: Transport, out: &mut [u8]) -> Judged<'a> {
        let asker = Asker::new(query, transport);
        let why = Some(extended_error::PROHIBITED);
        let sent = match self.view.outsiders {
            Outsiders::Refuse => answer::error(&asker, Rcode::REFUSED, why, out),
            Outsiders::Ignore => None,
        };
        Judged {
            qtype: Some(query.qtype),
            ..Judged::from_reply(sent, None)
        }
    }

    /// Whether a NOTIFY counts: its sender is in `notify-from`, or an upstream that is authoritative for the zone.
    fn may_notify(&self, message: &[u8], permissions: Permissions) -> bool {
        permissions.notify
            || Query::parse_any_opcode(message).is_ok_and(|query| {
                let zone = Name::from_wire(query.qname);
                zone.is_ok_and(|(zone, _)| self.view.table.may_notify(&zone, self.client))
            })
    }

    /// A zone has changed (RFC 1996 §3.11 asks no more of a server that is not a secondary than to answer).
    fn notified<'a>(&self, message: &[u8], out: &mut [u8]) -> Judged<'a> {
        let Ok(query) = Query::parse_any_opcode(message) else {
            return Judged::from_reply(reply_to_error(message, QueryError::FormErr, out), None);
        };
        let asker = Asker::new(&query, Transport::Udp);
        let sent = answer::error(&asker, Rcode::NOERROR, None, out);
        let judged = Judged::from_reply(sent, Some(Source::Local));
        match (sent, Name::from_wire(query.qname)) {
            (Some(length), Ok((zone, _))) => Judged {
                verdict: Verdict::Changed { zone, length },
                ..judged
            },
            _ => judged,
        }
    }

    /// Writes a stale answer (RFC 8767 §4), marked as one (RFC 8914 §4.4, §4.20).
    fn stale(&self, found: &Found<'_>, asker: &Asker<'_>, out: &mut [u8]) -> Option<usize> {
        stale(found, asker, self.view.stale_ttl, out)
    }

    pub(crate) fn is_unreachable(&self, key: &Key) -> bool {
        let route = self.view.table.find(key.name(), key.qtype());
        route.is_some_and(|route| route.is_down())
    }
}

/// Rules have made a text of a question's name that is no name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoName;

/// Writes an answer of this server's own; a failure when the whole of it is too long.
fn send_whole(
    derived: Option<&Derived>,
    message: Message,
    asker: &Asker<'_>,
    out: &mut [u8],
) -> Option<usize> {
    let whole = match derived {
        Some(derived) => derived.whole(&message),
        None => Some(message),
    };
    match whole {
        Some(message) => answer::send(&message, asker, Ttls::Aged(0), None, out),
        None => answer::error(asker, Rcode::SERVFAIL, None, out),
    }
}

const fn source_of(origin: Origin) -> Source {
    match origin {
        Origin::Names => Source::Names,
        Origin::Policy => Source::Policy,
    }
}

/// A question for another name, with type and class of this one.
#[must_use]
pub fn question_for(name: &Name, question: &[u8]) -> Vec<u8> {
    let ending = question.last_chunk::<4>().map_or(&[][..], |end| &end[..]);
    [name.as_wire(), ending].concat()
}

/// Writes a stale answer; the resolver's shell uses it too.
#[must_use]
pub fn stale(found: &Found<'_>, asker: &Asker<'_>, ttl: Duration, out: &mut [u8]) -> Option<usize> {
    let why = match found.message.rcode() {
        Rcode::NXDOMAIN => extended_error::STALE_NXDOMAIN,
        _ => extended_error::STALE_ANSWER,
    };
    let ttl = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    answer::send(found.message, asker, Ttls::Fixed(ttl), Some(why), out)
}

fn fresh(found: &Found<'_>, asker: &Asker<'_>, out: &mut [u8]) -> Option<usize> {
    answer::send(found.message, asker, Ttls::Aged(found.age), None, out)
}

/// The cache's answer.
enum Looked<'a> {
    Done(Judged<'a>),
    Resolve {
        has_stale: bool,
    },
    /// A response policy has this in the place of the answer.
    Policy(Reply),
    /// There are no AAAA records: A records take their place.
    Addresses {
        denial: Option<Message>,
        /// Whether the denial is to be refreshed.
        is_ending: bool,
    },
}

impl Judged<'_> {
    /// The same, made of A records.
    fn by_dns64(self) -> Self {
        Self {
            source: match self.source {
                Source::Positive | Source::Negative => Source::Dns64,
                source => source,
            },
            ..self
        }
    }

    /// A response without the resolver; it counts as an error unless it has another source.
    fn from_reply(length: Option<usize>, source: Option<Source>) -> Self {
        match length {
            Some(length) => Self {
                verdict: Verdict::Reply(length),
                source: source.unwrap_or(Source::Error),
                qtype: None,
                cookie_state: CookieState::None,
            },
            None => Self {
                verdict: Verdict::Silent,
                source: Source::Dropped,
                qtype: None,
                cookie_state: CookieState::None,
            },
        }
    }
}

#[cfg(test)]
mod tests;
