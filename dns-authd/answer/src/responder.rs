//! From a query's octets to a response's.
//!
//! One [`Responder`] belongs to one thread. It looks at one snapshot per query and writes into the caller's
//! buffer; for names with rendered answers it allocates nothing, takes no lock, reads no clock and logs
//! nothing. The caller sends the octets, and retries a query that has to wait.
//!
//! ```text
//! parse ─► class, opcode, EDNS version ─► zone ─► rendered │ live │ resolved ─► OPT ─► header
//! ```

use std::sync::Arc;

use dns_lua::select::{Draw, Random};
use dns_update::{Grant, Update};
use dns_views::ZoneId;
use dns_wire::edns::extended_error;
use dns_wire::hash::Suffixes;
use dns_wire::header::{self, Flags};
use dns_wire::query::{reply_to_error, reply_to_rejected, reply_without_data};
use dns_wire::{Class, ClientSubnet, Name, Opcode, Query, QueryError, Rcode, Session, Type};
use dns_zone::{Answer, Asked, MAX_CHAIN, Pick, Resolution, Zone};

use crate::client::{Asker, Client, Transport};
use crate::draft::Draft;
use crate::live::{Failure, Filled, LiveAnswer, push_record};
use crate::pods;
use crate::programs::{Call, Programs};
use crate::snapshot::{Sight, Snapshot};
use crate::table::{Origin, Parts, Served, Table};
use crate::tally::Tally;
use crate::verdict::{Ixfr, Verdict};

/// Answers queries on one thread.
#[derive(Debug)]
pub struct Responder<P> {
    programs: P,
    names: Suffixes,
    /// The name behind an alias that leads out of its zone.
    onward: Suffixes,
    random: Random,
    picks: Vec<usize>,
    tally: Tally,
    ixfr: Ixfr,
}

impl<P: Programs> Responder<P> {
    /// A responder whose random draws begin from `seed`.
    pub fn new(programs: P, seed: u64) -> Self {
        Self {
            programs,
            names: Suffixes::default(),
            onward: Suffixes::default(),
            random: Random::new(seed),
            picks: Vec::with_capacity(16),
            tally: Tally::default(),
            ixfr: Ixfr::default(),
        }
    }

    /// Sets the response to queries for incremental transfers over UDP from now on.
    pub fn set_ixfr(&mut self, ixfr: Ixfr) {
        self.ixfr = ixfr;
    }

    /// The counts since they were last taken.
    #[inline]
    pub const fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// The means of running programs.
    #[inline]
    pub const fn programs(&mut self) -> &mut P {
        &mut self.programs
    }

    /// Answers one message.
    ///
    /// `out` is as long as the longest message of the transport, and at least 512 octets.
    #[inline]
    pub fn respond(
        &mut self,
        snapshot: &Snapshot,
        message: &[u8],
        client: &Client,
        out: &mut [u8],
    ) -> Verdict {
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(error) => return self.respond_other(snapshot, (message, error), client, out),
        };
        if query.tsig.is_some() && client.may_ask {
            return Verdict::Signed;
        }
        let Some(mut draft) = Draft::new(&query, client, &snapshot.settings, (out, 0)) else {
            return Verdict::Silent;
        };
        let sight = snapshot.seen_by(client.peer.ip(), None);
        let verdict = self.fill(sight, &mut draft);
        if let Some(verdict) = verdict {
            if matches!(verdict, Verdict::Transfer { .. }) {
                self.tally
                    .count(&query, client, Rcode::NOERROR, draft.flags);
            }
            return verdict;
        }
        self.tally.count(&query, client, draft.rcode, draft.flags);
        self.tally.count_cookie(draft.options.cookie_state());
        draft
            .finish(&snapshot.settings)
            .map_or(Verdict::Silent, Verdict::Reply)
    }

    /// Answers a signed query (RFC 8945 §5). `now` is the time, in seconds since 1970; signatures have no other.
    #[cold]
    pub fn respond_signed(
        &mut self,
        snapshot: &Snapshot,
        (message, now): (&[u8], u64),
        client: &Client,
        out: &mut [u8],
    ) -> Verdict {
        let Ok(query) = Query::parse_any_opcode(message) else {
            return Verdict::Silent;
        };
        let Some(tsig) = query.tsig else {
            return Verdict::Silent;
        };
        let mut session = match snapshot.settings.keys.check(message, &tsig, now) {
            Ok(session) => session,
            Err(rejection) => {
                self.tally
                    .count(&query, client, Rcode::NOTAUTH, Flags::default());
                self.tally.count_rejected();
                let reply = reply_to_rejected(&query, rejection, now, out);
                return reply.map_or(Verdict::Silent, Verdict::Reply);
            }
        };
        if query.opcode() == Opcode::NOTIFY {
            let key = Some(session.key().name());
            let verdict = self.take_notify(snapshot, &query, (client, key), out);
            return match verdict {
                Verdict::Notified { apex, length } => session
                    .sign(out, length, now)
                    .map_or(Verdict::Silent, |length| Verdict::Notified { apex, length }),
                Verdict::Reply(length) => session
                    .sign(out, length, now)
                    .map_or(Verdict::Silent, Verdict::Reply),
                other => other,
            };
        }
        if query.opcode() == Opcode::UPDATE {
            return self.take_update(snapshot, (message, &query, now), client, session, out);
        }
        let room = (&mut *out, session.length());
        let Some(mut draft) = Draft::new(&query, client, &snapshot.settings, room) else {
            return Verdict::Silent;
        };
        draft.key = Some(session.key().name());
        let sight = snapshot.seen_by(client.peer.ip(), draft.key);
        match self.fill(sight, &mut draft) {
            Some(Verdict::Transfer { zone, .. }) => {
                self.tally
                    .count(&query, client, Rcode::NOERROR, draft.flags);
                let session = Some(Box::new(session));
                return Verdict::Transfer { zone, session };
            }
            Some(Verdict::Incremental { zone, .. }) => {
                let key = Some(session.key().name().clone());
                return Verdict::Incremental { zone, key };
            }
            Some(verdict) => return verdict,
            None => {}
        }
        self.tally.count(&query, client, draft.rcode, draft.flags);
        self.tally.count_cookie(draft.options.cookie_state());
        draft
            .finish(&snapshot.settings)
            .and_then(|length| session.sign(out, length, now))
            .map_or(Verdict::Silent, Verdict::Reply)
    }

    /// Hands on a signed update (RFC 2136), or refuses it.
    #[cold]
    fn take_update(
        &mut self,
        snapshot: &Snapshot,
        (message, query, now): (&[u8], &Query<'_>, u64),
        client: &Client,
        mut session: Session,
        out: &mut [u8],
    ) -> Verdict {
        let key = session.key().name();
        let sight = snapshot.seen_by(client.peer.ip(), Some(key));
        let rcode = match judge_update(sight, (message, query), key) {
            Ok((zone, update, grants)) => {
                return Verdict::Update {
                    zone,
                    update: Box::new(update),
                    grants,
                    session: Box::new(session),
                };
            }
            Err(rcode) => rcode,
        };
        self.tally.count(query, client, rcode, Flags::default());
        let flags = query.flags.of_authority().with_rcode(rcode);
        reply_without_data(query, flags, out)
            .and_then(|length| session.sign(out, length, now))
            .map_or(Verdict::Silent, Verdict::Reply)
    }

    /// Answers a message that is not a query: NOTIFY about a secondary zone, or what has no answer here.
    #[cold]
    fn respond_other(
        &mut self,
        snapshot: &Snapshot,
        (message, error): (&[u8], QueryError),
        client: &Client,
        out: &mut [u8],
    ) -> Verdict {
        if error == QueryError::NotImp(Opcode::UPDATE) && !snapshot.settings.grants.is_empty() {
            return self.refuse_unsigned_update(snapshot, message, client, out);
        }
        let is_notify = error == QueryError::NotImp(Opcode::NOTIFY);
        let notifiers = &snapshot.settings.notifiers;
        let query = Query::parse_any_opcode(message).ok().filter(|query| {
            let zone = Name::from_wire(query.qname).map(|(name, _)| name);
            is_notify && client.may_ask && zone.is_ok_and(|zone| notifiers.contains_key(&zone))
        });
        match query {
            Some(query) if query.tsig.is_some() => Verdict::Signed,
            Some(query) => self.take_notify(snapshot, &query, (client, None), out),
            None => self.refuse_message(message, error, client, out),
        }
    }

    /// Answers an update without a signature: it has no key, and so no grant (RFC 3007 §3).
    fn refuse_unsigned_update(
        &mut self,
        snapshot: &Snapshot,
        message: &[u8],
        client: &Client,
        out: &mut [u8],
    ) -> Verdict {
        let query = match Query::parse_any_opcode(message) {
            Ok(query) if client.may_ask => query,
            // Those who may not ask get no response.
            Ok(_) => return self.refuse_message(message, QueryError::Ignore, client, out),
            Err(error) => return self.refuse_message(message, error, client, out),
        };
        if query.tsig.is_some() {
            return Verdict::Signed;
        }
        let judged = Update::parse(message).map_err(|_| Rcode::FORMERR);
        let table = snapshot.seen_by(client.peer.ip(), None).table;
        let judged = judged.map(|update| table.zone(&update.zone).is_some());
        let rcode = match judged {
            Ok(true) => Rcode::REFUSED,
            Ok(false) => Rcode::NOTAUTH,
            Err(rcode) => rcode,
        };
        self.tally.count(&query, client, rcode, Flags::default());
        let flags = query.flags.of_authority().with_rcode(rcode);
        reply_without_data(&query, flags, out).map_or(Verdict::Silent, Verdict::Reply)
    }

    /// Takes a NOTIFY (RFC 1996 §3.11) that a primary sends, or the holder of the zone's key.
    fn take_notify(
        &mut self,
        snapshot: &Snapshot,
        query: &Query<'_>,
        (client, key): (&Client, Option<&Name>),
        out: &mut [u8],
    ) -> Verdict {
        let Ok((apex, _)) = Name::from_wire(query.qname) else {
            return Verdict::Silent;
        };
        let address = client.peer.ip().to_canonical();
        let notifiers = snapshot.settings.notifiers.get(&apex);
        let is_allowed = notifiers.is_some_and(|notifiers| {
            notifiers.addresses.contains(&address)
                || key.is_some_and(|key| notifiers.keys.contains(key))
        });
        let rcode = match (is_allowed, query.qtype, query.qclass) {
            (true, Type::SOA, Class::IN) => Rcode::NOERROR,
            (true, ..) => Rcode::FORMERR,
            (false, ..) => Rcode::REFUSED,
        };
        self.tally.count(query, client, rcode, Flags::default());
        let flags = query.flags.of_authority().with_rcode(rcode);
        match (reply_without_data(query, flags, out), rcode) {
            (Some(length), Rcode::NOERROR) => {
                header::set_word(out, 2, flags.with(Flags::AA).0);
                Verdict::Notified { apex, length }
            }
            (Some(length), _) => Verdict::Reply(length),
            (None, _) => Verdict::Silent,
        }
    }

    /// Answers a message that is not a query.
    #[cold]
    fn refuse_message(
        &mut self,
        message: &[u8],
        error: QueryError,
        client: &Client,
        out: &mut [u8],
    ) -> Verdict {
        if !client.may_ask {
            self.tally.count_outsider();
            return Verdict::Silent;
        }
        self.tally.count_refused(error, client);
        reply_to_error(message, error, out).map_or(Verdict::Silent, Verdict::Reply)
    }

    /// Fills in the response's records; returns a verdict when there is no response now.
    #[inline]
    fn fill(&mut self, sight: Sight<'_>, draft: &mut Draft<'_, '_>) -> Option<Verdict> {
        let query = draft.query;
        if !draft.client.may_ask {
            self.tally.count_outsider();
            draft.fail(Rcode::REFUSED, extended_error::PROHIBITED);
            return None;
        }
        if query.edns.is_some_and(|edns| edns.version != 0) {
            // RFC 6891 §6.1.3; the response is no answer, so AA stays clear.
            draft.rcode = Rcode::BADVERS;
            return None;
        }
        if draft.options.is_malformed() {
            // RFC 7871 §7.2.1, RFC 7873 §5.2.2.
            draft.fail(Rcode::FORMERR, extended_error::INVALID_DATA);
            return None;
        }
        if draft.needs_cookie(sight.settings) {
            draft.rcode = Rcode::BADCOOKIE;
            return None;
        }
        if query.qclass != Class::IN && !draft.asks_every_class() {
            draft.answer_chaos(sight.settings);
            return None;
        }
        self.names.read(sight.table.seed(), query.qname);
        let Some(served) = sight.table.find(&self.names, query.qtype) else {
            draft.refuse_name();
            return None;
        };
        let is_open = served.is_open_to(draft.client.peer.ip(), draft.key);
        if !is_open && !is_for_transfer_list(served, draft) {
            draft.fail(Rcode::REFUSED, extended_error::PROHIBITED);
            return None;
        }
        self.fill_from(sight, served, draft)
    }

    /// Fills in the records of a zone.
    #[inline]
    fn fill_from(
        &mut self,
        sight: Sight<'_>,
        served: &Served,
        draft: &mut Draft<'_, '_>,
    ) -> Option<Verdict> {
        let query = draft.query;
        if let Some(parts) = &served.parts {
            return self.fill_from_parts(sight, (served, parts), draft);
        }
        let Some(zone) = &served.zone else {
            draft.fail(Rcode::SERVFAIL, extended_error::NOT_READY);
            return None;
        };
        let answer = match query.qtype {
            Type::AXFR | Type::IXFR => {
                return draft.answer_transfer((served, zone), sight.settings, &self.ixfr);
            }
            Type::SOA
                if (!zone.live_sets().is_empty() || served.live.flat().is_some())
                    && draft.answer_soa((zone, &*served.live), sight.settings) =>
            {
                return None;
            }
            Type::ANY => draft.answer_any(zone, &self.names, sight.settings)?,
            qtype if draft.wants_signatures() => zone.find_signed(&self.names, qtype),
            qtype => zone.find(&self.names, qtype),
        };
        match answer {
            Answer::Rendered(number) => {
                draft.copy(zone, number);
                None
            }
            Answer::Onward(number) => self.fill_onward(sight, (served, zone), number, draft),
            Answer::Live(number) => self.fill_live(served, zone, number, draft),
            Answer::Resolve => self.fill_resolved(sight, served, zone, draft),
        }
    }

    /// Fills in the records of a zone in parts.
    fn fill_from_parts(
        &mut self,
        sight: Sight<'_>,
        (served, parts): (&Served, &Parts),
        draft: &mut Draft<'_, '_>,
    ) -> Option<Verdict> {
        let (Some(root), Some(zone)) = (&served.zone, served.zone_of(&self.names)) else {
            draft.fail(Rcode::SERVFAIL, extended_error::NOT_READY);
            return None;
        };
        let answer = match draft.query.qtype {
            Type::AXFR | Type::IXFR => {
                draft.fail(Rcode::REFUSED, extended_error::PROHIBITED);
                return None;
            }
            Type::ANY => draft.answer_any(zone, &self.names, sight.settings)?,
            qtype => zone.find(&self.names, qtype),
        };
        if zone.says_no_name(answer) {
            if let Some(ttl) = parts.computed_pods
                && let Some(address) = pods::address(&self.names, root)
            {
                draft.answer_address(root, address, ttl);
                draft.set_serial(root.soa().serial);
                return None;
            }
            if parts.falls_through {
                let above = served.apex.n_labels().checked_sub(1);
                let above = above.and_then(|n| sight.table.find_above(&self.names, n));
                match above {
                    Some(above) => return self.fill_from(sight, above, draft),
                    None => draft.refuse_name(),
                }
                return None;
            }
        }
        match answer {
            Answer::Rendered(number) => {
                draft.copy(zone, number);
                draft.set_serial(root.soa().serial);
                None
            }
            Answer::Onward(number) => self.fill_onward(sight, (served, zone), number, draft),
            Answer::Live(_) | Answer::Resolve => self.fill_resolved(sight, served, zone, draft),
        }
    }

    /// Copies a rendered answer whose alias leads out of the zone, or continues it in the zone that the server has.
    #[inline]
    fn fill_onward(
        &mut self,
        sight: Sight<'_>,
        (served, zone): (&Served, &Zone),
        number: u32,
        draft: &mut Draft<'_, '_>,
    ) -> Option<Verdict> {
        let target = zone.onward(number);
        let elsewhere = target.and_then(|target| {
            self.onward.read(sight.table.seed(), target.as_wire());
            zone_behind(sight.table, &self.onward, zone, &draft.asker())
        });
        match elsewhere {
            Some(_) => self.fill_resolved(sight, served, zone, draft),
            None => {
                draft.copy(zone, number);
                None
            }
        }
    }

    /// Answers from a live set.
    #[inline]
    fn fill_live(
        &mut self,
        served: &Served,
        zone: &Zone,
        number: u32,
        draft: &mut Draft<'_, '_>,
    ) -> Option<Verdict> {
        let Some(answer) = served.live.get(number) else {
            draft.fail(Rcode::SERVFAIL, extended_error::NOT_READY);
            return None;
        };
        if answer.hold && draft.client.can_wait {
            return Some(Verdict::Wait {
                zone: served.id(),
                set: number,
            });
        }
        if let Some(failure) = answer.failure {
            draft.fail_live(failure);
            return None;
        }
        self.tally.count_live();
        let start = draft.end;
        let draw = Draw {
            client: draft.best_address(answer),
            qname: draft.query.qname,
            seed: self.random.bits(),
        };
        let room = (&mut *draft.out, start, draft.limit);
        match answer.fill(&draw, &mut self.picks, room) {
            Filled::Records { count, end } => {
                draft.end = end;
                draft.counts = [count, 0, 0];
                draft.flags = draft.flags.with(Flags::AA);
            }
            Filled::Full => draft.truncate(),
        }
        if answer.programs().next().is_some() {
            // The question's type may be ANY.
            let set = zone.live_sets().get(number as usize);
            let rtype = set.map_or(draft.query.qtype, |set| set.rtype);
            self.run_programs(served, (number, rtype), answer, draft);
        }
        if draft.counts == [0, 0, 0] && draft.rcode == Rcode::NOERROR && !draft.is_truncated() {
            draft.copy_nodata(zone);
        }
        if answer.stands_in && draft.rcode == Rcode::NOERROR {
            draft.note_stand_in();
        }
        None
    }

    /// Runs the programs of a live set that must be run for each query.
    #[cold]
    fn run_programs(
        &mut self,
        served: &Served,
        (number, rtype): (u32, Type),
        answer: &LiveAnswer,
        draft: &mut Draft<'_, '_>,
    ) {
        let mut made = Vec::new();
        let mut count = 0_u16;
        for program in answer.programs() {
            let call = Call {
                live: &served.live,
                set: number,
                program,
                query: draft.query,
                client: draft.client,
                subnet: draft.subnet,
                seed: self.random.bits(),
            };
            match self.programs.run(&call) {
                Ok((ttl, items)) => {
                    for rdata in items {
                        if push_record(&mut made, rtype, ttl, &rdata).is_some() {
                            count = count.saturating_add(1);
                        }
                    }
                }
                Err(failure) => {
                    draft.fail_live(failure);
                    return;
                }
            }
        }
        let end = draft.end + made.len();
        match draft.out.get_mut(draft.end..end) {
            Some(room) if end <= draft.limit => {
                room.copy_from_slice(&made);
                draft.end = end;
                let [answers, ..] = &mut draft.counts;
                *answers = answers.saturating_add(count);
            }
            _ => draft.truncate(),
        }
    }

    /// Resolves and encodes an answer that could not be rendered beforehand. Its aliases are followed through all
    /// zones of the server.
    #[cold]
    fn fill_resolved<'s>(
        &mut self,
        sight: Sight<'s>,
        served: &'s Served,
        zone: &'s Zone,
        draft: &mut Draft<'_, '_>,
    ) -> Option<Verdict> {
        let query = draft.query;
        let asked = Asked::new(query.qname, &self.names, query.qtype);
        let asked = asked.signed(draft.wants_signatures());
        let mut picker = Picker {
            programs: &mut self.programs,
            random: &mut self.random,
            query,
            client: draft.client,
            key: draft.key,
            subnet: draft.subnet,
            failure: None,
            is_tailored: false,
            stands_in: false,
        };
        let resolved = follow(sight.table, (served, zone), asked, &mut picker);
        let (failure, is_tailored) = (picker.failure, picker.is_tailored);
        let stands_in = picker.stands_in;
        if let Some(subnet) = draft.subnet.filter(|_| is_tailored) {
            draft.options.set_scope(subnet.source_prefix);
        }
        match resolved {
            Ok((resolution, last)) => {
                draft.compose(&resolution);
                if let (Some(_), Some(root)) = (&last.parts, &last.zone) {
                    draft.set_serial(root.soa().serial);
                }
                if stands_in {
                    draft.note_stand_in();
                }
            }
            Err(Stop::Wait { zone, set }) => return Some(Verdict::Wait { zone, set }),
            Err(Stop::Failed) => draft.fail_live(failure.unwrap_or(Failure::Defect)),
        }
        None
    }
}

/// Whether the list of those who may transfer decides alone, as for BIND: a query on a stream for a transfer, but not of a catalog.
#[cold]
fn is_for_transfer_list(served: &Served, draft: &Draft<'_, '_>) -> bool {
    let is_transfer = matches!(draft.query.qtype, Type::AXFR | Type::IXFR);
    let is_stream = draft.client.transport != Transport::Udp;
    is_transfer && is_stream && !matches!(served.origin, Origin::Catalog(_))
}

/// The reason why there is no answer.
enum Stop {
    /// A live set failed.
    Failed,
    /// A live set has no result yet.
    Wait { zone: ZoneId, set: u32 },
}

/// Resolves a question in its zone, and the names behind its aliases in theirs. Also returns the zone that the answer ends in.
fn follow<'s, P: Programs>(
    table: &'s Table,
    mut here: (&'s Served, &'s Zone),
    asked: Asked<'_>,
    picker: &mut Picker<'_, P>,
) -> Result<(Resolution<'s>, &'s Served), Stop> {
    let qname = picker.query.qname;
    let mut whole = resolve(table, here, asked, picker)?;
    while whole.n_aliases() < MAX_CHAIN
        && let Some(target) = whole.onward().cloned()
    {
        let mut read = Suffixes::default();
        read.read(table.seed(), target.as_wire());
        let Some(next) = zone_behind(table, &read, here.1, &picker.asker()) else {
            break;
        };
        here = next;
        let part = resolve(table, here, asked.behind(&target, &read), picker)?;
        if !whole.continue_with(qname, part) {
            break;
        }
    }
    Ok((whole, here.0))
}

/// Resolves a question within one zone, as far as its aliases stay there.
fn resolve<'s, P: Programs>(
    table: &Table,
    (served, zone): (&'s Served, &'s Zone),
    asked: Asked<'_>,
    picker: &mut Picker<'_, P>,
) -> Result<Resolution<'s>, Stop> {
    let asker = picker.asker();
    let elsewhere = |name: &Name| {
        let mut read = Suffixes::default();
        read.read(table.seed(), name.as_wire());
        zone_behind(table, &read, zone, &asker).is_some()
    };
    let mut waiting = None;
    let mut pick = |number| picker.pick(served, number, &mut waiting);
    let resolved = zone.resolve(asked, &mut pick, &elsewhere);
    resolved.map_err(|_| match waiting {
        Some(set) => Stop::Wait {
            zone: served.id(),
            set,
        },
        None => Stop::Failed,
    })
}

/// The other zone, or the other part of a zone, to which the name behind an alias belongs, if the server has its data and the client
/// may have it.
fn zone_behind<'s>(
    table: &'s Table,
    target: &Suffixes,
    current: &Zone,
    asker: &Asker<'_>,
) -> Option<(&'s Served, &'s Zone)> {
    let served = table.find(target, asker.qtype)?;
    // No alias leads into a catalog.
    let is_catalog = matches!(served.origin, Origin::Catalog(_));
    if is_catalog || !served.is_open_to(asker.address, asker.key) {
        return None;
    }
    let zone = served.zone_of(target)?;
    (!std::ptr::eq(&raw const **zone, current)).then_some((served, zone))
}

/// Draws from live sets for one query.
struct Picker<'p, P> {
    programs: &'p mut P,
    random: &'p mut Random,
    query: &'p Query<'p>,
    client: &'p Client,
    /// The key that the query is signed with.
    key: Option<&'p Name>,
    subnet: Option<ClientSubnet>,
    failure: Option<Failure>,
    /// Whether an answer depends on the client.
    is_tailored: bool,
    /// Whether an answer follows this server's own probes.
    stands_in: bool,
}

impl<'p, P: Programs> Picker<'p, P> {
    const fn asker(&self) -> Asker<'p> {
        Asker {
            qtype: self.query.qtype,
            address: self.client.peer.ip(),
            key: self.key,
        }
    }

    /// Draws from a live set of a zone; its number is in `waiting` if it has no result yet.
    fn pick(&mut self, served: &Served, number: u32, waiting: &mut Option<u32>) -> Pick {
        let Some(answer) = served.live.get(number) else {
            self.failure = Some(Failure::Incomplete);
            return Pick::Fail;
        };
        if answer.hold && self.client.can_wait {
            *waiting = Some(number);
            return Pick::Fail;
        }
        self.is_tailored |= answer.depends_on_client();
        self.stands_in |= answer.stands_in;
        let address = self.subnet.map(|subnet| subnet.address);
        let draw = Draw {
            client: address.unwrap_or_else(|| self.client.peer.ip()),
            qname: self.query.qname,
            seed: self.random.bits(),
        };
        let mut rdata = answer.rdata(&draw);
        let mut ttl = answer.ttl;
        self.failure = answer.failure;
        for program in answer.programs() {
            let call = Call {
                live: &served.live,
                set: number,
                program,
                query: self.query,
                client: self.client,
                subnet: self.subnet,
                seed: self.random.bits(),
            };
            match self.programs.run(&call) {
                Ok((its_ttl, items)) => {
                    ttl = if rdata.is_empty() {
                        its_ttl
                    } else {
                        ttl.min(its_ttl)
                    };
                    rdata.extend(items);
                }
                Err(error) => self.failure = Some(error),
            }
        }
        match (self.failure, rdata.is_empty()) {
            (Some(_), _) => Pick::Fail,
            (None, true) => Pick::Empty,
            (None, false) => Pick::Records { ttl, rdata },
        }
    }
}

/// The update of a signed message with its zone, and the grants of that, of which the key has one (RFC 2136 §3.1, §3.3).
fn judge_update(
    sight: Sight<'_>,
    (message, query): (&[u8], &Query<'_>),
    key: &Name,
) -> Result<(ZoneId, Update, Arc<[Grant]>), Rcode> {
    if sight.settings.grants.is_empty() {
        return Err(Rcode::NOTIMP);
    }
    if query.edns.is_some_and(|edns| edns.version != 0) {
        return Err(Rcode::BADVERS);
    }
    let update = Update::parse(message).map_err(|_| Rcode::FORMERR)?;
    let served = sight.table.zone(&update.zone).ok_or(Rcode::NOTAUTH)?;
    let zone = served.id();
    let grants = sight.settings.grants.get(&zone);
    let mine = grants.filter(|grants| grants.iter().any(|grant| grant.key == *key));
    let grants = Arc::clone(mine.ok_or(Rcode::REFUSED)?);
    Ok((zone, update, grants))
}

/// Writes the response to a message that has a code and no records, such as the refusal of a transfer that the access list
/// forbids, or the response to an update; returns its length.
pub fn respond_with(message: &[u8], rcode: Rcode, out: &mut [u8]) -> Option<usize> {
    let query = Query::parse_any_opcode(message).ok()?;
    let flags = query.flags.of_authority().with_rcode(rcode);
    reply_without_data(&query, flags, out)
}
