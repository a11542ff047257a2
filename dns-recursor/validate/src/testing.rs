//! Signed zones, and a server of them, for tests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "only tests call this"
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use dns_cache::key;
use dns_cache::message::{Message, Row, canonical_rdata};
use dns_wire::records::uncompressed_rdata;
use dns_wire::{Name, Rcode, Records, Section, Type, rdata};
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::response::{Response, Set};
use crate::signature::signed_data_of;
use crate::validation::{Context, Step, Validation};
use crate::{Anchors, Budget, Security, Verdict, Why, Zones, crypto};

/// The time of the tests.
pub const NOW: u64 = 1_790_000_000;
const DAY: i64 = 86_400;
const TTL: u32 = 600;

pub fn name(text: &str) -> Name {
    Name::parse(text).unwrap().to_lowercase()
}

/// A record of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub section: Section,
    pub owner: Name,
    pub rtype: Type,
    pub rdata: Vec<u8>,
}

/// A response, before it is a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub rcode: Rcode,
    pub records: Vec<Record>,
}

impl Reply {
    pub fn message(&self, qname: &Name, qtype: Type) -> Message {
        let question = [qname.as_wire(), &qtype.0.to_be_bytes(), &[0, 1]].concat();
        let mut rows: Vec<Row<'_>> = self
            .records
            .iter()
            .map(|record| Row {
                section: record.section,
                owner: &record.owner,
                rtype: record.rtype,
                ttl: TTL,
                rdata: &record.rdata,
            })
            .collect();
        rows.sort_by_key(|row| row.section);
        assert_eq!(key::qtype(&question), qtype);
        Message::compose(&question, self.rcode, &rows).unwrap()
    }
}

/// How a zone denies names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    Nsec,
    Nsec3 { iterations: u16, opt_out: bool },
}

#[derive(Debug)]
pub struct Zone {
    pub name: Name,
    pair: Option<Ed25519KeyPair>,
    sets: BTreeMap<(Name, Type), Vec<Vec<u8>>>,
    denial: Denial,
    /// The validity of its signatures, in days from now.
    pub window: (i64, i64),
    chain: Vec<(Name, Type, Vec<u8>)>,
    /// The algorithm that its DNSKEY and DS records claim.
    algorithm: u8,
    /// The signatures that it has made.
    signatures: RefCell<BTreeMap<(Name, Type), Vec<u8>>>,
}

impl Zone {
    /// A zone; signed if it has a seed.
    pub fn new(apex: &str, seed: Option<u8>, denial: Denial) -> Self {
        let pair = seed.map(|seed| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap());
        let mut zone = Self {
            name: name(apex),
            pair,
            sets: BTreeMap::new(),
            denial,
            window: (-1, 10),
            chain: Vec::new(),
            algorithm: crypto::ED25519,
            signatures: RefCell::default(),
        };
        zone.add(apex, Type::SOA, "ns.invalid. h.invalid. 1 2 3 4 5");
        zone.add(apex, Type::NS, "ns.invalid.");
        if zone.pair.is_some() {
            zone.sets
                .insert((name(apex), Type::DNSKEY), vec![zone.dnskey()]);
        }
        zone
    }

    pub fn of_algorithm(mut self, algorithm: u8) -> Self {
        self.algorithm = algorithm;
        let apex = self.name.clone();
        self.sets.insert((apex, Type::DNSKEY), vec![self.dnskey()]);
        self
    }

    pub fn with(mut self, owner: &str, rtype: Type, text: &str) -> Self {
        self.add(owner, rtype, text);
        self
    }

    pub fn valid(mut self, window: (i64, i64)) -> Self {
        self.window = window;
        self
    }

    fn add(&mut self, owner: &str, rtype: Type, text: &str) {
        let rdata = rdata::from_text(rtype, text, &Name::root()).unwrap();
        let set = self.sets.entry((name(owner), rtype)).or_default();
        set.push(rdata);
    }

    /// Adds the delegation of a zone below.
    pub fn delegating(mut self, child: &Self) -> Self {
        let apex = child.name.to_string();
        self.add(&apex, Type::NS, "ns.invalid.");
        if child.pair.is_some() {
            self.sets
                .insert((child.name.clone(), Type::DS), vec![child.ds()]);
        }
        self
    }

    pub fn dnskey(&self) -> Vec<u8> {
        let public = self.pair.as_ref().unwrap().public_key();
        [&[1, 1, 3, self.algorithm], public.as_ref()].concat()
    }

    pub fn ds(&self) -> Vec<u8> {
        let key = crate::keys::Key::read(&self.dnskey()).unwrap();
        let digest = crypto::digest(crypto::SHA256, self.name.as_wire(), &key.rdata).unwrap();
        let fixed = [
            &key.tag.to_be_bytes()[..],
            &[self.algorithm, crypto::SHA256],
        ];
        [&fixed.concat(), digest.as_ref()].concat()
    }

    pub fn anchor(&self) -> crate::Anchor {
        let ds = rdata::display(Type::DS, &self.ds());
        crate::Anchor::parse(&format!("{} IN DS {ds}", self.name)).unwrap()
    }

    /// Whether an owner is at or below a delegation.
    fn is_delegated(&self, owner: &Name) -> bool {
        let ns = self.sets.keys().filter(|(_, rtype)| *rtype == Type::NS);
        ns.map(|(cut, _)| cut)
            .any(|cut| *cut != self.name && owner.is_within(cut))
    }

    fn types(&self, owner: &Name) -> BTreeSet<Type> {
        let at = self.sets.keys().filter(|(name, _)| name == owner);
        at.map(|(_, rtype)| *rtype).collect()
    }

    /// Makes the chain of denials.
    pub fn finished(mut self) -> Self {
        if self.pair.is_none() {
            return self;
        }
        let mut owners: BTreeSet<Name> = self.sets.keys().map(|(owner, _)| owner.clone()).collect();
        let words = |types: &BTreeSet<Type>| {
            let words: Vec<String> = types.iter().map(ToString::to_string).collect();
            words.join(" ")
        };
        match self.denial {
            Denial::Nsec => {
                let list: Vec<Name> = owners.into_iter().collect();
                for (at, owner) in list.iter().enumerate() {
                    let next = list.get(at + 1).unwrap_or(&self.name);
                    let mut types = self.types(owner);
                    types.extend([Type::RRSIG, Type::NSEC]);
                    let text = format!("{next} {}", words(&types));
                    let rdata = rdata::from_text(Type::NSEC, &text, &Name::root()).unwrap();
                    self.chain.push((owner.clone(), Type::NSEC, rdata));
                }
            }
            Denial::Nsec3 {
                iterations,
                opt_out,
            } => {
                for owner in owners.clone() {
                    let mut above = owner.parent();
                    while let Some(it) = above.filter(|it| it.is_within(&self.name)) {
                        above = it.parent();
                        owners.insert(it);
                    }
                }
                let mut hashed: Vec<(String, BTreeSet<Type>)> = owners
                    .iter()
                    .map(|owner| (owner, self.types(owner)))
                    .filter(|(owner, types)| {
                        let is_unsigned = self.is_delegated(owner) && !types.contains(&Type::DS);
                        !(opt_out && is_unsigned)
                    })
                    .map(|(owner, types)| {
                        let hash = crypto::nsec3(owner.as_wire(), &[0xab], iterations);
                        (base32(hash.as_ref()), types)
                    })
                    .collect();
                hashed.sort();
                let n = hashed.len();
                for at in 0..n {
                    let (hash, types) = &hashed[at];
                    let next = &hashed[(at + 1) % n].0;
                    let mut types = types.clone();
                    let is_signed = types.iter().any(|it| *it != Type::NS);
                    types.extend(is_signed.then_some(Type::RRSIG));
                    let flags = u8::from(opt_out);
                    let text = format!("1 {flags} {iterations} ab {next} {}", words(&types));
                    let rdata = rdata::from_text(Type::NSEC3, &text, &Name::root()).unwrap();
                    let owner = self.name.prepend(hash.as_bytes()).unwrap();
                    self.chain.push((owner, Type::NSEC3, rdata));
                }
            }
        }
        self
    }

    /// The signature of a set that its zone calls `owner`.
    fn sign(&self, owner: &Name, rtype: Type, rdatas: &[Vec<u8>]) -> Vec<u8> {
        let time = |days: i64| {
            let at = i64::try_from(NOW).unwrap() + days * DAY;
            u32::try_from(at).unwrap().to_be_bytes()
        };
        let labels = owner.n_labels() - usize::from(owner.is_wildcard());
        let key = crate::keys::Key::read(&self.dnskey()).unwrap();
        let (inception, expiration) = self.window;
        let mut rdata = Vec::new();
        rdata.extend_from_slice(&rtype.0.to_be_bytes());
        rdata.extend_from_slice(&[self.algorithm, u8::try_from(labels).unwrap()]);
        rdata.extend_from_slice(&TTL.to_be_bytes());
        rdata.extend_from_slice(&time(expiration));
        rdata.extend_from_slice(&time(inception));
        rdata.extend_from_slice(&key.tag.to_be_bytes());
        rdata.extend_from_slice(self.name.as_wire());
        let probe = Reply {
            rcode: Rcode::NOERROR,
            records: [(rtype, rdatas.to_vec()), (Type::RRSIG, vec![rdata.clone()])]
                .into_iter()
                .flat_map(|(rtype, all)| all.into_iter().map(move |rdata| (rtype, rdata)))
                .map(|(rtype, rdata)| Record {
                    section: Section::Answer,
                    owner: owner.clone(),
                    rtype,
                    rdata,
                })
                .collect(),
        };
        let read = Response::read(&probe.message(owner, rtype)).unwrap();
        let set: &Set = &read.sets[0];
        let data = signed_data_of(set, &set.signatures[0]).unwrap();
        let signature = self.pair.as_ref().unwrap().sign(&data);
        rdata.extend_from_slice(signature.as_ref());
        rdata
    }

    /// A set with its signature; `source` is its owner in the zone.
    pub fn push(&self, reply: &mut Reply, section: Section, owner: &Name, of: (&Name, Type)) {
        let (source, rtype) = of;
        let chained = self.chain.iter().filter(|(at, kind, _)| (at, *kind) == of);
        let rdatas = match self.sets.get(&(source.clone(), rtype)) {
            Some(set) => set.clone(),
            None => chained.map(|(_, _, rdata)| rdata.clone()).collect(),
        };
        let record = |rtype, rdata| Record {
            section,
            owner: owner.clone(),
            rtype,
            rdata,
        };
        let is_ours = rtype == Type::DS || !self.is_delegated(source);
        let signature = (self.pair.is_some() && is_ours || rtype == Type::NSEC).then(|| {
            let key = (source.clone(), rtype);
            let mut known = self.signatures.borrow_mut();
            let made = known.entry(key);
            made.or_insert_with(|| self.sign(source, rtype, &rdatas))
                .clone()
        });
        let set = rdatas.into_iter().map(|rdata| record(rtype, rdata));
        reply.records.extend(set);
        let signature = signature.map(|rdata| record(Type::RRSIG, rdata));
        reply.records.extend(signature);
    }

    /// The SOA record and all denials.
    pub fn push_denial(&self, reply: &mut Reply, with_soa: bool) {
        if with_soa {
            let apex = &self.name;
            self.push(reply, Section::Authority, apex, (apex, Type::SOA));
        }
        for (owner, rtype, _) in &self.chain {
            self.push(reply, Section::Authority, owner, (owner, *rtype));
        }
    }

    fn exists(&self, owner: &Name) -> bool {
        self.sets.keys().any(|(name, _)| name.is_within(owner))
    }
}

fn base32(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdefghijklmnopqrstuv";
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let digit = |five: &[u8]| {
        let five = std::str::from_utf8(five).unwrap();
        char::from(digits[usize::from_str_radix(five, 2).unwrap()])
    };
    bits.as_bytes().chunks(5).map(digit).collect()
}

/// Zones, and a server of all of them.
#[derive(Debug)]
pub struct World {
    pub zones: Vec<Zone>,
    pub anchors: Anchors,
    /// Replies instead of those that the zones give; `None` is silence.
    pub instead: BTreeMap<(Name, Type), Option<Reply>>,
}

impl World {
    pub fn zone_of(&self, owner: &Name, rtype: Type) -> &Zone {
        let is_above = |zone: &&Zone| {
            owner.is_within(&zone.name)
                && (rtype != Type::DS || *owner != zone.name || owner.is_root())
        };
        let above = self.zones.iter().filter(is_above);
        above.max_by_key(|zone| zone.name.n_labels()).unwrap()
    }

    /// The true response.
    pub fn reply(&self, qname: &Name, qtype: Type) -> Reply {
        let mut reply = Reply {
            rcode: Rcode::NOERROR,
            records: Vec::new(),
        };
        let mut at = qname.clone();
        for _ in 0..8 {
            let zone = self.zone_of(&at, qtype);
            let mut above = (zone.name.n_labels()..at.n_labels()).map(|n| at.suffix(n));
            if let Some(owner) = above.find(|it| zone.types(it).contains(&Type::DNAME)) {
                zone.push(&mut reply, Section::Answer, &owner, (&owner, Type::DNAME));
                let target = &zone.sets[&(owner.clone(), Type::DNAME)][0];
                let kept = at.as_wire().len() - owner.as_wire().len();
                let joined = [&at.as_wire()[..kept], target].concat();
                let (target, _) = Name::from_wire(&joined).unwrap();
                reply.records.push(Record {
                    section: Section::Answer,
                    owner: at,
                    rtype: Type::CNAME,
                    rdata: target.as_wire().to_vec(),
                });
                at = target.to_lowercase();
                continue;
            }
            let source = match zone.exists(&at) {
                true => at.clone(),
                false => {
                    let above = (0..at.n_labels()).rev().map(|n| at.suffix(n));
                    let encloser = above.into_iter().find(|it| zone.exists(it)).unwrap();
                    encloser.prepend(b"*").unwrap()
                }
            };
            if source != at && zone.exists(&source) {
                zone.push_denial(&mut reply, false);
            }
            let types = zone.types(&source);
            if types.contains(&qtype) {
                zone.push(&mut reply, Section::Answer, &at, (&source, qtype));
                return dedup(reply);
            }
            if types.contains(&Type::CNAME) {
                zone.push(&mut reply, Section::Answer, &at, (&source, Type::CNAME));
                let target = &zone.sets[&(source, Type::CNAME)][0];
                at = Name::from_wire(target).unwrap().0.to_lowercase();
                continue;
            }
            if source != at && !zone.exists(&source) {
                reply.rcode = Rcode::NXDOMAIN;
            }
            zone.push_denial(&mut reply, true);
            return dedup(reply);
        }
        panic!("an alias chain without end at {qname}");
    }

    /// The true response of the servers of one zone, which refer to those of the zones below it.
    pub fn reply_of(&self, zone: &Name, qname: &Name, qtype: Type) -> Reply {
        let servers = self.zones.iter().find(|it| it.name == *zone).unwrap();
        let cuts = servers.sets.keys().filter(|(owner, rtype)| {
            *rtype == Type::NS
                && owner != zone
                && qname.is_within(owner)
                && (qtype != Type::DS || owner != qname)
        });
        let Some((cut, _)) = cuts.min_by_key(|(owner, _)| owner.n_labels()) else {
            return self.reply(qname, qtype);
        };
        let server = cut.prepend(b"ns").unwrap();
        let record = |section, owner: &Name, rtype, rdata: &[u8]| Record {
            section,
            owner: owner.clone(),
            rtype,
            rdata: rdata.to_vec(),
        };
        let mut reply = Reply {
            rcode: Rcode::NOERROR,
            records: vec![record(Section::Authority, cut, Type::NS, server.as_wire())],
        };
        match servers.sets.contains_key(&(cut.clone(), Type::DS)) {
            true => servers.push(&mut reply, Section::Authority, cut, (cut, Type::DS)),
            false => servers.push_denial(&mut reply, false),
        }
        let address = [192, 0, 2, self.server_of(cut)];
        reply
            .records
            .push(record(Section::Additional, &server, Type::A, &address));
        reply
    }

    /// The last octet of the address of a zone's server, within 192.0.2.0/24.
    pub fn server_of(&self, zone: &Name) -> u8 {
        let place = self.zones.iter().position(|it| it.name == *zone).unwrap();
        u8::try_from(place).unwrap() + 1
    }

    pub fn validate(&self, qname: &Name, qtype: Type, reply: &Reply) -> Verdict {
        self.validate_counting(qname, qtype, reply).0
    }

    pub fn validate_counting(&self, qname: &Name, qtype: Type, reply: &Reply) -> (Verdict, Budget) {
        self.validate_message(qname, qtype, &reply.message(qname, qtype), false)
    }

    /// Validates a message as a resolver has kept it.
    pub fn validate_message(
        &self,
        qname: &Name,
        qtype: Type,
        message: &Message,
        dangles: bool,
    ) -> (Verdict, Budget) {
        let Some(response) = Response::read(message) else {
            return (Verdict::bogus(Why::Signature), Budget::default());
        };
        let budget = Budget::default();
        let mut validation = Validation::new(qname, qtype, response, dangles, budget);
        let mut zones = Zones::default();
        let mut context = Context {
            anchors: &self.anchors,
            zones: &mut zones,
            now: NOW,
        };
        loop {
            match validation.step(&mut context) {
                Step::Done(verdict) => return (verdict, validation.budget()),
                Step::Need(need) => {
                    let instead = self.instead.get(&(need.name.clone(), need.rtype));
                    let reply = match instead {
                        Some(reply) => reply.clone(),
                        None => Some(self.reply(&need.name, need.rtype)),
                    };
                    let response = reply
                        .map(|reply| reply.message(&need.name, need.rtype))
                        .and_then(|message| Response::read(&message));
                    let response = response.as_ref().ok_or(Why::Unanswered);
                    validation.supply(response, &mut context);
                }
            }
        }
    }
}

/// The response code of a message, and the data of its answer section in any order.
pub fn content(message: &Message) -> (Rcode, BTreeSet<(Name, Type, Vec<u8>)>) {
    let bytes = message.bytes();
    let records = Records::new(bytes).unwrap().map(Result::unwrap);
    let data = records
        .filter(|record| record.section == Section::Answer && record.rtype != Type::RRSIG)
        .map(|record| {
            let (owner, _) = Name::read(bytes, record.name_offset).unwrap();
            let rdata = uncompressed_rdata(bytes, &record).unwrap();
            (owner, record.rtype, canonical_rdata(record.rtype, &rdata))
        });
    (message.rcode(), data.collect())
}

/// Drops second copies of records, as the reader of responses does.
fn dedup(mut reply: Reply) -> Reply {
    let mut seen = Vec::new();
    reply.records.retain(|record| {
        let is_new = !seen.contains(record);
        seen.push(record.clone());
        is_new
    });
    reply
}

/// Zones of every kind below a signed root.
pub fn world() -> World {
    const NSEC3: Denial = Denial::Nsec3 {
        iterations: 0,
        opt_out: false,
    };
    let nsec3 = |iterations, opt_out| Denial::Nsec3 {
        iterations,
        opt_out,
    };
    let www = |zone: Zone| {
        let owner = format!("www.{}", zone.name);
        zone.with(&owner, Type::A, "192.0.2.1")
    };
    let plain = www(Zone::new("plain.test", None, Denial::Nsec));
    let below_n3 = www(Zone::new("sub.n3.test", None, Denial::Nsec));
    let below_opt = www(Zone::new("un.opt.test", None, Denial::Nsec));
    let good = www(Zone::new("good.test", Some(3), Denial::Nsec))
        .with("www.good.test", Type::AAAA, "2001:db8::1")
        .with("good.test", Type::MX, "10 WWW.good.test.")
        .with("alias.good.test", Type::CNAME, "www.good.test.")
        .with("out.good.test", Type::CNAME, "www.plain.test.")
        .with("over.good.test", Type::CNAME, "www.n3.test.")
        .with("late.good.test", Type::CNAME, "www.expired.test.")
        .with("*.wild.good.test", Type::A, "192.0.2.2")
        .with("x.there.wild.good.test", Type::A, "192.0.2.4")
        .with("*.walias.good.test", Type::CNAME, "www.good.test.")
        .with("a.ent.good.test", Type::A, "192.0.2.3")
        .with("dn.good.test", Type::DNAME, "n3.test.");
    let n3 = www(Zone::new("n3.test", Some(4), NSEC3))
        .with("*.wild.n3.test", Type::A, "192.0.2.2")
        .with("a.ent.n3.test", Type::A, "192.0.2.3")
        .delegating(&below_n3);
    let opt = www(Zone::new("opt.test", Some(5), nsec3(1, true))).delegating(&below_opt);
    let many = www(Zone::new("many.test", Some(6), nsec3(151, false)));
    let future_alg = www(Zone::new("alg.test", Some(7), Denial::Nsec)).of_algorithm(18);
    let expired = www(Zone::new("expired.test", Some(8), Denial::Nsec)).valid((-20, -10));
    let early = www(Zone::new("early.test", Some(9), Denial::Nsec)).valid((10, 20));
    let wrong = www(Zone::new("wrong.test", Some(10), Denial::Nsec));
    let other = Zone::new("wrong.test", Some(11), Denial::Nsec);
    let mut test = Zone::new("test", Some(2), Denial::Nsec).delegating(&other);
    for zone in [
        &plain,
        &good,
        &n3,
        &opt,
        &many,
        &future_alg,
        &expired,
        &early,
    ] {
        test = test.delegating(zone);
    }
    let root = Zone::new(".", Some(1), Denial::Nsec)
        .with("lonely", Type::TXT, "x")
        .delegating(&test);
    let anchors = Anchors::new([root.anchor()], [name("internal")]);
    let zones = [
        root, test, plain, below_n3, below_opt, good, n3, opt, many, future_alg, expired, early,
        wrong,
    ];
    World {
        zones: zones.into_iter().map(Zone::finished).collect(),
        anchors,
        instead: BTreeMap::new(),
    }
}

use Security::{Bogus, Insecure, Secure};

/// Questions, and what their true answers are worth.
pub const TRUTH: &[(&str, Type, Security, Option<Why>)] = &[
    (".", Type::SOA, Secure, None),
    (".", Type::DNSKEY, Secure, None),
    (".", Type::DS, Secure, None),
    ("lonely", Type::TXT, Secure, None),
    ("nothing", Type::A, Secure, None),
    ("test", Type::DS, Secure, None),
    ("good.test", Type::DS, Secure, None),
    ("good.test", Type::DNSKEY, Secure, None),
    ("good.test", Type::MX, Secure, None),
    ("good.test", Type::TXT, Secure, None),
    ("www.good.test", Type::A, Secure, None),
    ("www.good.test", Type::AAAA, Secure, None),
    ("www.good.test", Type::TXT, Secure, None),
    ("www.good.test", Type::DS, Secure, None),
    ("no.good.test", Type::A, Secure, None),
    ("x.www.good.test", Type::A, Secure, None),
    ("ent.good.test", Type::A, Secure, None),
    ("a.ent.good.test", Type::A, Secure, None),
    ("alias.good.test", Type::A, Secure, None),
    ("alias.good.test", Type::CNAME, Secure, None),
    ("alias.good.test", Type::TXT, Secure, None),
    ("q.wild.good.test", Type::A, Secure, None),
    ("q.r.wild.good.test", Type::A, Secure, None),
    ("q.wild.good.test", Type::TXT, Secure, None),
    ("y.there.wild.good.test", Type::A, Secure, None),
    ("q.walias.good.test", Type::A, Secure, None),
    ("www.dn.good.test", Type::A, Secure, None),
    ("no.dn.good.test", Type::A, Secure, None),
    ("over.good.test", Type::A, Secure, None),
    ("out.good.test", Type::A, Insecure, Some(Why::Unsigned)),
    ("late.good.test", Type::A, Bogus, Some(Why::Expired)),
    ("www.n3.test", Type::A, Secure, None),
    ("www.n3.test", Type::TXT, Secure, None),
    ("no.n3.test", Type::A, Secure, None),
    ("a.b.no.n3.test", Type::A, Secure, None),
    ("ent.n3.test", Type::A, Secure, None),
    ("q.wild.n3.test", Type::A, Secure, None),
    ("q.wild.n3.test", Type::TXT, Secure, None),
    ("sub.n3.test", Type::DS, Secure, None),
    ("www.sub.n3.test", Type::A, Insecure, Some(Why::Unsigned)),
    ("no.sub.n3.test", Type::A, Insecure, Some(Why::Unsigned)),
    ("www.opt.test", Type::A, Secure, None),
    ("www.opt.test", Type::TXT, Secure, None),
    ("no.opt.test", Type::A, Insecure, Some(Why::OptOut)),
    ("un.opt.test", Type::DS, Insecure, Some(Why::OptOut)),
    ("www.un.opt.test", Type::A, Insecure, Some(Why::OptOut)),
    ("plain.test", Type::DS, Secure, None),
    ("www.plain.test", Type::A, Insecure, Some(Why::Unsigned)),
    ("no.plain.test", Type::A, Insecure, Some(Why::Unsigned)),
    ("www.many.test", Type::A, Secure, None),
    ("no.many.test", Type::A, Insecure, Some(Why::Iterations)),
    ("www.alg.test", Type::A, Insecure, Some(Why::Algorithm)),
    ("no.alg.test", Type::A, Insecure, Some(Why::Algorithm)),
    ("www.expired.test", Type::A, Bogus, Some(Why::Expired)),
    ("www.early.test", Type::A, Bogus, Some(Why::NotYet)),
    ("www.wrong.test", Type::A, Bogus, Some(Why::NoKey)),
    ("no.wrong.test", Type::A, Bogus, Some(Why::NoKey)),
    ("x.internal", Type::A, Insecure, Some(Why::NegativeAnchor)),
];
