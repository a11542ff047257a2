//! All names that the configuration has, and the response to a question for one of them.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use dns_cache::key;
use dns_cache::message::{MAX_MESSAGE, Message, join};
use dns_resolve::forward::Table;
use dns_resolve::suffixes::{Suffixes, parent};
use dns_wire::edns::extended_error;
use dns_wire::{Name, Rcode, RecordRef, Records, Section, Type};

use crate::hosts::Hosts;
use crate::policy::{Data, PolicyZone, Rule};
use crate::reply::Asked;
pub use crate::reply::Reply;
use crate::reverse;

/// The most names that one address has in the reverse zone.
const MAX_REVERSE: usize = 16;
/// The most aliases one behind the other.
const MAX_CHAIN: usize = 8;

/// The source of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `[[name]]` or a hosts file.
    Names,
    /// A response policy zone, a list of names, or `domain-needed`.
    Policy,
}

/// A name of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The name; without its `*` when it is for the names below.
    pub name: Name,
    /// Whether it is for all names below.
    pub is_below: bool,
    /// In seconds.
    pub ttl: u32,
    /// Whether its addresses have it in the reverse zone.
    pub has_reverse: bool,
    pub data: GivenData,
}

/// The data of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenData {
    /// The name of another.
    Alias(Name),
    Addresses {
        addresses: Vec<IpAddr>,
        /// The port that healthd probes; none for addresses that count whatever their state.
        port: Option<u16>,
    },
}

#[derive(Clone, Debug)]
struct Entry {
    ttl: u32,
    data: EntryData,
}

#[derive(Clone, Debug)]
enum EntryData {
    Alias(Name),
    Addresses {
        v4: Vec<Ipv4Addr>,
        v6: Vec<Ipv6Addr>,
        port: Option<u16>,
    },
}

impl EntryData {
    fn addresses(addresses: impl IntoIterator<Item = IpAddr>, port: Option<u16>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) if !v4.contains(&address) => v4.push(address),
                IpAddr::V6(address) if !v6.contains(&address) => v6.push(address),
                _ => {}
            }
        }
        Self::Addresses { v4, v6, port }
    }
}

/// The names with addresses: those of the configuration before those of hosts files.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// By name in wire form and lower case.
    exact: HashMap<Box<[u8]>, Entry>,
    /// For the names below these.
    below: Suffixes<Entry>,
    /// PTR records, by reverse name in wire form and lower case.
    reverse: HashMap<Box<[u8]>, Vec<Data>>,
    /// The addresses that healthd probes.
    probed: BTreeSet<SocketAddr>,
    n_given: usize,
    n_hosts: usize,
}

/// The options of hosts files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostsOptions {
    /// In seconds.
    pub ttl: u32,
    /// Whether addresses have their names in the reverse zone.
    pub has_reverse: bool,
}

impl NameTable {
    /// The names of a configuration, and of hosts files; the earlier of two for one name counts, but lines of hosts files add
    /// up.
    #[must_use]
    pub fn new<'h>(
        given: &[Given],
        files: impl IntoIterator<Item = &'h Hosts>,
        options: HostsOptions,
    ) -> Self {
        let mut table = Self::default();
        for given in given {
            table.give(given);
        }
        let mut by_name: HashMap<Box<[u8]>, Vec<IpAddr>> = HashMap::new();
        for host in files.into_iter().flat_map(|hosts| &hosts.lines) {
            for name in &host.names {
                let addresses = by_name.entry(name.as_wire().into()).or_default();
                addresses.push(host.address);
            }
            if let (true, Some(name)) = (options.has_reverse, host.names.first()) {
                table.point(host.address, name, options.ttl);
            }
        }
        for (name, addresses) in by_name {
            if table.exact.contains_key(&name) {
                continue;
            }
            table.n_hosts += 1;
            let entry = Entry {
                ttl: options.ttl,
                data: EntryData::addresses(addresses, None),
            };
            table.exact.insert(name, entry);
        }
        table
    }

    fn give(&mut self, given: &Given) {
        self.n_given += 1;
        let data = match &given.data {
            GivenData::Alias(target) => EntryData::Alias(target.clone()),
            GivenData::Addresses { addresses, port } => {
                if given.has_reverse && !given.is_below {
                    for address in addresses {
                        self.point(*address, &given.name, given.ttl);
                    }
                }
                let probed = port.iter().flat_map(|port| {
                    let with_port = |address| SocketAddr::new(address, *port);
                    addresses.iter().copied().map(with_port)
                });
                self.probed.extend(probed);
                EntryData::addresses(addresses.iter().copied(), *port)
            }
        };
        let entry = Entry {
            ttl: given.ttl,
            data,
        };
        match given.is_below {
            true => self.below.insert(&given.name, entry),
            false => {
                let name = given.name.as_wire().to_ascii_lowercase();
                self.exact.entry(name.into()).or_insert(entry);
            }
        }
    }

    fn point(&mut self, address: IpAddr, name: &Name, ttl: u32) {
        let reverse = reverse::name(address);
        let pointers = self.reverse.entry(reverse.as_wire().into()).or_default();
        let pointer = Data {
            rtype: Type::PTR,
            ttl,
            rdata: name.as_wire().into(),
        };
        if pointers.len() < MAX_REVERSE && !pointers.contains(&pointer) {
            pointers.push(pointer);
        }
    }

    /// The addresses that healthd is to probe.
    #[must_use]
    pub const fn probed(&self) -> &BTreeSet<SocketAddr> {
        &self.probed
    }

    /// The names that the configuration has, and those that only hosts files have.
    #[must_use]
    pub const fn counts(&self) -> [usize; 2] {
        [self.n_given, self.n_hosts]
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty()
    }

    fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.exact
            .get(name)
            .or_else(|| self.below.longest(parent(name)?))
    }
}

/// The names and rules of one moment.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub table: Arc<NameTable>,
    pub policies: Vec<Arc<PolicyZone>>,
    /// The probed addresses that are down.
    pub down: Arc<BTreeSet<SocketAddr>>,
    /// Whether names of one label have no addresses unless a zone has them.
    pub domain_needed: bool,
}

impl Names {
    /// The reply to a question of class IN in lower case, and its source; `None` for a name that the configuration leaves to
    /// the cache and the upstreams of `routes`.
    #[must_use]
    #[inline]
    pub fn reply(
        &self,
        question: &[u8],
        client: Option<IpAddr>,
        routes: &Table,
    ) -> Option<(Reply, Origin)> {
        if self.table.is_empty() && self.policies.is_empty() && !self.domain_needed {
            return None;
        }
        self.reply_by_rules(question, client, routes)
    }

    /// Whether the addresses of answers matter.
    #[must_use]
    #[inline]
    pub fn has_answer_rules(&self) -> bool {
        self.policies.iter().any(|zone| zone.has_answer_rules())
    }

    /// The reply in the place of an answer of the cache or an upstream, by the addresses in it. Zones behind the first one with a rule for
    /// the query do not count: that rule has let it pass.
    #[must_use]
    pub fn reply_to_answer(
        &self,
        question: &[u8],
        client: Option<IpAddr>,
        answer: &Message,
    ) -> Option<Reply> {
        let asked = Asked::read(question)?;
        let addresses = addresses(answer);
        if addresses.is_empty() {
            return None;
        }
        let name = asked.name.as_wire().to_ascii_lowercase();
        let passed = |zone: &&Arc<PolicyZone>| zone.find_query(client, &name).is_none();
        let mut zones = self.policies.iter().take_while(passed);
        asked.by(zones.find_map(|zone| zone.find_answer(&addresses))?)
    }

    fn reply_by_rules(
        &self,
        question: &[u8],
        client: Option<IpAddr>,
        routes: &Table,
    ) -> Option<(Reply, Origin)> {
        let (reply, origin) = self.first(&Asked::read(question)?, client, routes)?;
        let (mut first, mut target) = match reply {
            Reply::Alias { first, target } => (first, target),
            whole => return Some((whole, origin)),
        };
        // The alias of a name that is here too is answered whole.
        let mut scratch = vec![0; MAX_MESSAGE];
        for _ in 0..MAX_CHAIN {
            let ending = question.last_chunk::<4>()?;
            let question = [target.as_wire(), ending].concat();
            let Some((reply, _)) = self.first(&Asked::read(&question)?, client, routes) else {
                return Some((Reply::Alias { first, target }, origin));
            };
            match reply {
                Reply::Answer(rest) => {
                    let whole = join(&first, &rest, &mut scratch)?;
                    return Some((Reply::Answer(whole), origin));
                }
                Reply::Alias {
                    first: more,
                    target: next,
                } => {
                    first = join(&first, &more, &mut scratch)?;
                    target = next;
                }
                Reply::Drop | Reply::Truncated => return Some((reply, origin)),
            }
        }
        // A circle of aliases.
        let failure = Message::empty(question, Rcode::SERVFAIL)?;
        let failure = failure.with_info_code(Some(extended_error::INVALID_DATA));
        Some((Reply::Answer(failure), origin))
    }

    /// The answer for a name that an alias of an upstream leads to; `None` for one that is not here, or itself an alias. Rules are
    /// about the names of queries alone: they do not hide name servers and keys from the resolver.
    #[must_use]
    pub fn end_of_chain(&self, question: &[u8], routes: &Table) -> Option<Message> {
        if matches!(key::qtype(question), Type::DS | Type::DNSKEY) {
            return None;
        }
        match self.reply(question, None, routes)? {
            (Reply::Answer(message), Origin::Names) => Some(message),
            _ => None,
        }
    }

    fn first(
        &self,
        asked: &Asked<'_>,
        client: Option<IpAddr>,
        routes: &Table,
    ) -> Option<(Reply, Origin)> {
        let name = asked.name.as_wire();
        if let Some(entry) = self.table.find(name) {
            return Some((self.entry(asked, entry)?, Origin::Names));
        }
        if asked.qtype == Type::PTR
            && let Some(pointers) = self.table.reverse.get(name)
        {
            let ttl = pointers.first()?.ttl;
            let answer = asked.records(pointers, ttl)?;
            return Some((Reply::Answer(answer), Origin::Names));
        }
        let mut zones = self.policies.iter();
        if let Some(rule) = zones.find_map(|zone| zone.find_query(client, name)) {
            return Some((asked.by(rule)?, Origin::Policy));
        }
        let is_address = matches!(asked.qtype, Type::A | Type::AAAA);
        if self.domain_needed
            && is_address
            && asked.name.n_labels() == 1
            && !routes.is_taken_over(name)
            && !routes.is_local(name)
        {
            return Some((asked.by(&Rule::NxDomain)?, Origin::Policy));
        }
        None
    }

    fn entry(&self, asked: &Asked<'_>, entry: &Entry) -> Option<Reply> {
        match &entry.data {
            EntryData::Alias(target) => asked.alias(target, entry.ttl),
            EntryData::Addresses { v4, v6, port } => {
                let is_up = |address: IpAddr| {
                    port.is_none_or(|port| !self.down.contains(&SocketAddr::new(address, port)))
                };
                let v4 = up_or_all(v4, |address| is_up(address.into()));
                let v6 = up_or_all(v6, |address| is_up(address.into()));
                let answer = asked.addresses(v4.into_iter(), v6.into_iter(), entry.ttl);
                answer.map(Reply::Answer)
            }
        }
    }
}

/// The addresses in an answer.
fn addresses(answer: &Message) -> Vec<IpAddr> {
    let bytes = answer.bytes();
    let records = Records::new(bytes).into_iter().flatten().flatten();
    let answers = records.filter(|record| record.section == Section::Answer);
    let address = |record: RecordRef| {
        let rdata = bytes.get(record.rdata.clone())?;
        match record.rtype {
            Type::A => Some(IpAddr::from(<[u8; 4]>::try_from(rdata).ok()?)),
            Type::AAAA => Some(IpAddr::from(<[u8; 16]>::try_from(rdata).ok()?)),
            _ => None,
        }
    };
    answers.filter_map(address).collect()
}

/// The addresses of one family that are up. With none up, all are as good as each other.
fn up_or_all<A: Copy>(addresses: &[A], is_up: impl Fn(A) -> bool) -> Vec<A> {
    let up: Vec<A> = addresses.iter().copied().filter(|it| is_up(*it)).collect();
    match up.is_empty() {
        true => addresses.to_vec(),
        false => up,
    }
}

#[cfg(test)]
mod tests;
