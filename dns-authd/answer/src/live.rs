//! Answers that follow liveness: sets of records of which each query gets some.
//!
//! A program's outcome is a *choice*: members and a way to draw from them. Each member is encoded as a
//! record, once per change of liveness; a query draws and copies. Such records hold no compressed names and
//! belong to the question's name, so they fit any response unchanged.
//!
//! Never reads a clock and never evaluates a program: the shell does, and builds new sets.

use std::sync::Arc;

use dns_flatten::{Flat, Given};
use dns_lua::select::{Draw, Member, Select};
use dns_lua::{LivenessView, LuaSettings, Snippet};
use dns_wire::{Class, Type};

/// The current answers of a zone's live sets, by their numbers in the zone.
#[derive(Clone, Debug, Default)]
pub struct LiveSets {
    sets: Box<[Arc<LiveAnswer>]>,
    context: Option<Arc<Context>>,
    flat: Option<Arc<Flat>>,
}

/// The context of programs that run for each query.
#[derive(Debug)]
pub struct Context {
    /// The programs of each live set.
    pub snippets: Arc<[Vec<Snippet>]>,
    /// The liveness of targets.
    pub view: View,
    /// The limits and defaults of programs.
    pub settings: Arc<LuaSettings>,
    /// The TTL of answers while the liveness is unknown.
    pub unknown_ttl: u32,
}

/// The liveness of targets.
#[derive(Clone)]
pub struct View(pub Arc<dyn LivenessView>);

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("View")
    }
}

/// The current answer of one live set.
#[derive(Clone, Debug, Default)]
pub struct LiveAnswer {
    /// The sources of its records; an answer has records of every part.
    pub parts: Vec<Part>,
    /// The TTL of all its records.
    pub ttl: u32,
    /// Why it has no answer.
    pub failure: Option<Failure>,
    /// Whether queries wait for the first probe results.
    pub hold: bool,
    /// Whether it follows this server's own probes, because healthd is away. The response says so.
    pub stands_in: bool,
}

/// Why a live set has no answer. The response is SERVFAIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A program fails.
    Defect,
    /// No target is probed yet, and the program then gives no answer.
    Incomplete,
    /// Every target is down, and the operator then wants no answer.
    AllDown,
}

/// One source of a live set's records.
#[derive(Clone, Debug)]
pub enum Part {
    /// Records encoded beforehand.
    Drawn(Drawn),
    /// The program of this number in the live set: it must be run for each query.
    Program(u32),
}

/// Encoded records and the way to draw from them.
#[derive(Clone, Debug)]
pub struct Drawn {
    members: Box<[Member]>,
    select: Select,
    records: Box<[u8]>,
    /// The end of each member's record.
    ends: Box<[u32]>,
}

/// Records written to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// `count` records; the message ends at `end`.
    Records { count: u16, end: usize },
    /// They do not fit.
    Full,
}

/// Octets of a record before its data: pointer to the question, type, class, TTL, length.
const HEAD: usize = 12;

impl LiveSets {
    /// The answers of a zone's live sets, in their order.
    #[must_use]
    pub fn new(
        sets: impl IntoIterator<Item = impl Into<Arc<LiveAnswer>>>,
        context: Option<Arc<Context>>,
    ) -> Self {
        Self {
            sets: sets.into_iter().map(Into::into).collect(),
            context,
            flat: None,
        }
    }

    /// The same with the flattened version of the zone.
    #[must_use]
    pub fn with_flat(self, flat: Option<Arc<Flat>>) -> Self {
        Self { flat, ..self }
    }

    /// The flattened version of the zone, for name servers that cannot run its programs.
    #[must_use]
    pub const fn flat(&self) -> Option<&Arc<Flat>> {
        self.flat.as_ref()
    }

    /// The plain records that each set gives now.
    #[must_use]
    pub fn given(&self) -> Vec<Given> {
        self.sets.iter().map(|answer| answer.given()).collect()
    }

    /// The context of programs that run for each query.
    #[must_use]
    pub fn context(&self) -> Option<&Arc<Context>> {
        self.context.as_ref()
    }

    /// The answer of the set of this number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&LiveAnswer> {
        self.sets.get(number as usize).map(|answer| &**answer)
    }
}

impl LiveAnswer {
    /// The answer of a set that gives none.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::default()
        }
    }

    /// The programs that must be run for each query.
    #[inline]
    pub fn programs(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().filter_map(|part| match part {
            Part::Program(number) => Some(*number),
            Part::Drawn(_) => None,
        })
    }

    /// The plain records that it gives: every member that a query may get.
    fn given(&self) -> Given {
        match self.failure {
            // A set that fails on purpose has no records; one with a defect keeps those before.
            Some(Failure::Defect | Failure::Incomplete) => return Given::Nothing,
            Some(Failure::AllDown) | None => {}
        }
        let drawn = self.parts.iter().filter_map(|part| match part {
            Part::Drawn(drawn) => Some(drawn),
            Part::Program(_) => None,
        });
        let rdata = drawn.flat_map(|drawn| {
            let records = (0..drawn.members.len()).filter_map(|place| drawn.record(place));
            records.filter_map(|record| record.get(HEAD..).map(<[u8]>::to_vec))
        });
        Given::Records {
            ttl: self.ttl,
            rdata: rdata.collect(),
            is_whole: self.programs().next().is_none(),
            is_undecided: self.hold,
        }
    }

    /// The members as text.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        let mut members = Vec::new();
        for part in &self.parts {
            match part {
                Part::Program(_) => members.push("(a program, run for each query)".to_owned()),
                Part::Drawn(drawn) => {
                    let values = drawn.members.iter().map(|member| member.value.clone());
                    members.extend(values.filter(|value| !value.is_empty()));
                }
            }
        }
        members
    }

    /// Whether the answer depends on the client's address.
    #[inline]
    #[must_use]
    pub fn depends_on_client(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Program(_) => true,
            Part::Drawn(drawn) => matches!(
                drawn.select,
                Select::Hashed | Select::WeightedHashed | Select::ConsistentHashed(_)
            ),
        })
    }

    /// Draws one query's records into a message at `at`, up to `limit`; programs are left out.
    #[inline]
    pub(crate) fn fill(
        &self,
        draw: &Draw<'_>,
        picks: &mut Vec<usize>,
        (out, at, limit): (&mut [u8], usize, usize),
    ) -> Filled {
        let mut count = 0;
        let mut end = at;
        for part in &self.parts {
            let Part::Drawn(drawn) = part else {
                continue;
            };
            drawn.draw(draw, picks);
            for position in &*picks {
                let Some(record) = drawn.record(*position) else {
                    continue;
                };
                if self.parts.len() > 1 && is_repeated(out.get(at..end), record) {
                    continue;
                }
                let next = end + record.len();
                match out.get_mut(end..next).filter(|_| next <= limit) {
                    Some(room) => room.copy_from_slice(record),
                    None => return Filled::Full,
                }
                end = next;
                count += 1;
            }
        }
        Filled::Records { count, end }
    }

    /// Draws one query's records; programs are left out.
    pub(crate) fn rdata(&self, draw: &Draw<'_>) -> Vec<Vec<u8>> {
        let mut picks = Vec::new();
        let mut items: Vec<Vec<u8>> = Vec::new();
        for part in &self.parts {
            let Part::Drawn(drawn) = part else {
                continue;
            };
            drawn.draw(draw, &mut picks);
            for position in &picks {
                let data = drawn
                    .record(*position)
                    .and_then(|record| record.get(HEAD..));
                if let Some(data) = data
                    && !items.iter().any(|item| item == data)
                {
                    items.push(data.to_vec());
                }
            }
        }
        items
    }
}

impl Drawn {
    /// Encodes records of one type and TTL, one for each member; `None` when their number or size
    /// is beyond what a message holds.
    #[must_use]
    pub fn new(
        rtype: Type,
        ttl: u32,
        select: Select,
        members: Vec<(Member, Vec<u8>)>,
    ) -> Option<Self> {
        let mut records = Vec::new();
        let mut ends = Vec::with_capacity(members.len());
        let mut kept = Vec::with_capacity(members.len());
        for (member, rdata) in members {
            push_record(&mut records, rtype, ttl, &rdata)?;
            ends.push(u32::try_from(records.len()).ok()?);
            kept.push(member);
        }
        Some(Self {
            members: kept.into(),
            select,
            records: records.into(),
            ends: ends.into(),
        })
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How one query's records are drawn.
    #[must_use]
    pub const fn select(&self) -> &Select {
        &self.select
    }

    #[inline]
    fn draw(&self, draw: &Draw<'_>, picks: &mut Vec<usize>) {
        self.select.draw(&self.members, draw, picks);
    }

    #[inline]
    fn record(&self, position: usize) -> Option<&[u8]> {
        let end = *self.ends.get(position)? as usize;
        let start = match position.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.records.get(start..end)
    }
}

/// Encodes a record owned by the question's name; `None` when its data is too long.
pub(crate) fn push_record(
    records: &mut Vec<u8>,
    rtype: Type,
    ttl: u32,
    rdata: &[u8],
) -> Option<()> {
    let length = u16::try_from(rdata.len()).ok()?;
    records.extend([0xc0, 0x0c]);
    records.extend(rtype.0.to_be_bytes());
    records.extend(Class::IN.0.to_be_bytes());
    records.extend(ttl.to_be_bytes());
    records.extend(length.to_be_bytes());
    records.extend_from_slice(rdata);
    Some(())
}

/// Whether this record is among these: an RRset has no duplicates (RFC 2181 §5).
#[inline]
fn is_repeated(written: Option<&[u8]>, record: &[u8]) -> bool {
    let mut rest = written.unwrap_or_default();
    while let Some(length) = rest
        .get(HEAD - 2..HEAD)
        .and_then(|bytes| bytes.try_into().ok())
    {
        let size = HEAD + usize::from(u16::from_be_bytes(length));
        let Some((one, others)) = rest.split_at_checked(size) else {
            return false;
        };
        if one == record {
            return true;
        }
        rest = others;
    }
    false
}
