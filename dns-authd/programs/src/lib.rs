//! The `LUA` records of a zone: their answers, and the targets for healthd.
//!
//! Between a zone, which has programs, and the data path, which has encoded records. Evaluates on demand,
//! with the liveness it is given; reads no clock and opens nothing.

mod per_query;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dns_answer::live::{Context, Drawn, Failure, LiveAnswer, LiveSets, Part, View};
use dns_lua::{
    Certainty, LuaError, LuaSettings, Member, Note, Outcome, Records, Select, Snippet, Watched,
};
use dns_wire::{Name, Type};
use dns_zone::{LiveSet, Zone};

pub use per_query::LuaPrograms;

/// The live sets of one zone with their evaluations.
#[derive(Debug, Default)]
pub struct LiveZone {
    snippets: Arc<[Vec<Snippet>]>,
    sets: Vec<Known>,
    settings: Arc<LuaSettings>,
}

/// The result of an evaluation.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The messages that are new.
    pub messages: Vec<Message>,
    /// Whether some program names other targets than before.
    pub has_other_targets: bool,
}

/// The evaluation of one live set.
#[derive(Clone, Debug, Default)]
struct Known {
    answer: Arc<LiveAnswer>,
    report: Option<Arc<LiveReport>>,
    targets: BTreeSet<Watched>,
    certainty: Option<Certainty>,
    /// Whether the wait for first results is over.
    waited: bool,
    /// Messages of its programs to the operator.
    messages: Vec<Message>,
}

/// A message of a program to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether the answer is SERVFAIL for this reason.
    pub is_failure: bool,
    /// The program: its position, type and owner.
    pub source: String,
    /// The message.
    pub text: String,
}

/// One live set, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveReport {
    /// The owner name.
    pub owner: Name,
    /// The type of its records.
    pub rtype: Type,
    /// The certainty; `None` if the set has no answer.
    pub certainty: Option<Certainty>,
    /// The members.
    pub members: Vec<String>,
    /// The TTL of its answers.
    pub ttl: u32,
    /// The targets that its programs name.
    pub targets: Vec<Watched>,
    /// Messages of its programs.
    pub messages: Vec<String>,
}

impl LiveZone {
    /// The live sets of a zone, none evaluated yet.
    #[must_use]
    pub fn new(zone: &Arc<Zone>, settings: &Arc<LuaSettings>) -> Self {
        let records: Arc<dyn Records> = Arc::new(ZoneRecords(Arc::clone(zone)));
        let sets = zone.live_sets();
        Self {
            snippets: sets
                .iter()
                .map(|set| snippets(zone.apex(), set, &records))
                .collect(),
            sets: vec![Known::default(); sets.len()],
            settings: Arc::clone(settings),
        }
    }

    /// The settings that its programs are evaluated with.
    #[must_use]
    pub const fn settings(&self) -> &Arc<LuaSettings> {
        &self.settings
    }

    /// Whether the zone has no live sets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Every target that some program names.
    pub fn targets(&self) -> impl Iterator<Item = &Watched> {
        self.sets.iter().flat_map(|set| &set.targets)
    }

    /// Evaluates the sets that name a target for which `is_affected`, and sets that were never evaluated.
    pub fn evaluate(
        &mut self,
        zone: &Zone,
        view: &View,
        is_affected: &dyn Fn(&Watched) -> bool,
    ) -> Evaluated {
        let mut evaluated = Evaluated::default();
        for (place, set) in zone.live_sets().iter().enumerate() {
            let (Some(known), Some(snippets)) =
                (self.sets.get_mut(place), self.snippets.get(place))
            else {
                continue;
            };
            if known.certainty.is_some() && !known.targets.iter().any(is_affected) {
                continue;
            }
            let old = std::mem::take(known);
            *known = evaluate(set, snippets, view, &self.settings, old.waited);
            evaluated.has_other_targets |= known.targets != old.targets;
            let new = known
                .messages
                .iter()
                .filter(|message| !old.messages.contains(message));
            evaluated.messages.extend(new.cloned());
        }
        evaluated
    }

    /// Inherits the sets whose wait is over from the previous zone.
    pub fn inherit(&mut self, zone: &Zone, before: &Self, zone_before: &Zone) {
        let old = before.sets.iter().zip(zone_before.live_sets());
        let waited: HashSet<(&Name, Type)> = old
            .filter(|(known, _)| known.waited)
            .map(|(_, set)| (&set.owner, set.rtype))
            .collect();
        for (known, set) in self.sets.iter_mut().zip(zone.live_sets()) {
            let is_over = waited.contains(&(&set.owner, set.rtype));
            if is_over && known.certainty.is_none_or(|it| it == Certainty::Unknown) {
                known.end_wait();
            }
        }
    }

    /// Has the sets evaluated again whose programs may name the nodes of lists; false if there are none.
    pub fn forget_nodes(&mut self) -> bool {
        let mut is_any = false;
        for (known, snippets) in self.sets.iter_mut().zip(&*self.snippets) {
            if snippets.iter().any(Snippet::may_name_nodes) {
                known.certainty = None;
                is_any = true;
            }
        }
        is_any
    }

    /// Ends the wait of queries for a set.
    pub fn end_wait(&mut self, number: u32) {
        if let Some(known) = self.sets.get_mut(number as usize) {
            known.end_wait();
        }
    }

    /// The encoded answers for the data path.
    #[must_use]
    pub fn serve(&self, view: &View) -> LiveSets {
        if self.is_empty() {
            return LiveSets::default();
        }
        let context = Context {
            snippets: Arc::clone(&self.snippets),
            view: view.clone(),
            settings: Arc::clone(&self.settings),
            unknown_ttl: seconds(self.settings.health.unknown_ttl.0),
        };
        let answers = self.sets.iter().map(|known| Arc::clone(&known.answer));
        LiveSets::new(answers, Some(Arc::new(context)))
    }

    /// A report of every set that was evaluated.
    #[must_use]
    pub fn report(&self) -> Vec<Arc<LiveReport>> {
        let reports = self.sets.iter().filter_map(|known| known.report.as_ref());
        reports.map(Arc::clone).collect()
    }
}

impl Known {
    /// Lets no query wait for the set any more.
    fn end_wait(&mut self) {
        self.waited = true;
        if self.answer.hold {
            Arc::make_mut(&mut self.answer).hold = false;
        }
    }

    /// Makes the report of a set.
    fn describe(&mut self, set: &LiveSet) {
        self.report = Some(Arc::new(LiveReport {
            owner: set.owner.clone(),
            rtype: set.rtype,
            certainty: self.certainty.filter(|_| self.answer.failure.is_none()),
            members: self.answer.members(),
            ttl: self.answer.ttl,
            targets: self.targets.iter().cloned().collect(),
            messages: self
                .messages
                .iter()
                .map(|message| format!("{}: {}", message.source, message.text))
                .collect(),
        }));
    }
}

/// The programs of a set in the evaluator's form.
fn snippets(apex: &Name, set: &LiveSet, records: &Arc<dyn Records>) -> Vec<Snippet> {
    let programs = set.programs.iter();
    programs
        .map(|program| Snippet {
            zone: apex.clone(),
            owner: set.owner.clone(),
            rtype: set.rtype,
            ttl: program.ttl,
            code: Arc::clone(&program.code),
            position: program.position.clone(),
            records: Arc::clone(records),
        })
        .collect()
}

/// Every program of a zone, for `check`.
#[must_use]
pub fn all_snippets(zone: &Arc<Zone>) -> Vec<Snippet> {
    let records: Arc<dyn Records> = Arc::new(ZoneRecords(Arc::clone(zone)));
    let sets = zone.live_sets().iter();
    sets.flat_map(|set| snippets(zone.apex(), set, &records))
        .collect()
}

//--- Evaluating

/// The result of one program of a set.
enum Source {
    /// Records to draw from.
    Drawn(Select, Vec<(Member, Vec<u8>)>),
    /// The program runs for each query.
    Program(u32),
}

/// A set while its programs are evaluated.
struct Sum {
    known: Known,
    answer: LiveAnswer,
    ttl: u32,
    certainty: Certainty,
    sources: Vec<Source>,
}

fn evaluate(
    set: &LiveSet,
    snippets: &[Snippet],
    view: &View,
    settings: &Arc<LuaSettings>,
    waited: bool,
) -> Known {
    let mut sum = Sum {
        known: Known::default(),
        answer: LiveAnswer::default(),
        ttl: if set.fixed.is_empty() {
            u32::MAX
        } else {
            set.fixed_ttl
        },
        certainty: Certainty::Known,
        sources: Vec::new(),
    };
    if !set.fixed.is_empty() {
        sum.sources.push(Source::Drawn(Select::All, plain(set)));
    }
    for (number, snippet) in (0..).zip(snippets) {
        if let Err(error) = sum.add(snippet, number, view, settings) {
            sum.fail(snippet, &error);
        }
    }
    let Sum {
        mut known,
        mut answer,
        mut ttl,
        certainty,
        sources,
    } = sum;
    known.certainty = Some(certainty);
    if certainty == Certainty::Unknown {
        ttl = ttl.min(seconds(settings.health.unknown_ttl.0));
        known.waited = waited;
        answer.hold = !waited && !settings.health.hold().is_zero();
    }
    answer.ttl = ttl;
    answer.stands_in = view.0.stands_in() && !known.targets.is_empty();
    for source in sources {
        let part = match source {
            Source::Program(number) => Some(Part::Program(number)),
            Source::Drawn(select, members) => {
                Drawn::new(set.rtype, ttl, select, members).map(Part::Drawn)
            }
        };
        answer.parts.extend(part);
    }
    if answer.failure.is_some() {
        answer.parts.clear();
    }
    known.answer = Arc::new(answer);
    known.describe(set);
    known
}

impl Sum {
    fn add(
        &mut self,
        snippet: &Snippet,
        number: u32,
        view: &View,
        settings: &Arc<LuaSettings>,
    ) -> Result<(), LuaError> {
        let evaluation =
            dns_lua::on_this_thread(settings, |evaluator| evaluator.evaluate(snippet, &view.0))?;
        self.known.targets.extend(evaluation.targets);
        for note in &evaluation.notes {
            self.known.messages.push(message(snippet, note));
        }
        self.ttl = self.ttl.min(snippet.ttl);
        let (select, values) = match evaluation.outcome? {
            Outcome::PerQuery => {
                self.sources.push(Source::Program(number));
                return Ok(());
            }
            Outcome::Fixed(values) => {
                let member = |value| Member { value, weight: 1 };
                (Select::All, values.into_iter().map(member).collect())
            }
            Outcome::Choice(choice) => {
                if let Some(bound) = choice.ttl_bound {
                    self.ttl = self.ttl.min(seconds(bound));
                }
                // Unknown is the greatest: one unknown part makes the whole unknown.
                self.certainty = self.certainty.max(choice.certainty);
                (choice.select, choice.members)
            }
        };
        let mut members: Vec<(Member, Vec<u8>)> = Vec::with_capacity(values.len());
        for member in values {
            let rdata = dns_lua::rdata(snippet.rtype, &member.value)?;
            members.push((member, rdata));
        }
        self.sources.push(Source::Drawn(select, members));
        Ok(())
    }

    fn fail(&mut self, snippet: &Snippet, error: &LuaError) {
        if *error == LuaError::Incomplete {
            self.certainty = Certainty::Unknown;
        }
        self.answer.failure = Some(failure(error));
        self.known.messages.push(Message {
            is_failure: true,
            source: source(snippet),
            text: error.to_string(),
        });
    }
}

/// The plain records of a set, all of which are always served.
fn plain(set: &LiveSet) -> Vec<(Member, Vec<u8>)> {
    let member = |rdata: &[u8]| Member {
        value: dns_wire::rdata::display(set.rtype, rdata),
        weight: 1,
    };
    let items = set.fixed.iter();
    items.map(|rdata| (member(rdata), rdata.to_vec())).collect()
}

fn message(snippet: &Snippet, note: &Note) -> Message {
    Message {
        is_failure: false,
        source: source(snippet),
        text: note.message.clone(),
    }
}

fn source(snippet: &Snippet) -> String {
    let Snippet {
        position,
        rtype,
        owner,
        ..
    } = snippet;
    format!("{position}: LUA {rtype} of {owner}")
}

const fn failure(error: &LuaError) -> Failure {
    match error {
        LuaError::Incomplete => Failure::Incomplete,
        LuaError::AllDown => Failure::AllDown,
        _ => Failure::Defect,
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// The zone that programs read.
#[derive(Debug)]
struct ZoneRecords(Arc<Zone>);

impl Records for ZoneRecords {
    fn programs(&self, name: &Name) -> Vec<Arc<str>> {
        let libraries = self.0.libraries().iter();
        libraries
            .filter(|(owner, _)| owner == name)
            .map(|(_, program)| Arc::clone(&program.code))
            .collect()
    }

    fn data(&self, name: &Name, rtype: Type) -> Vec<String> {
        let items = self.0.data(name, rtype).into_iter();
        items
            .map(|rdata| dns_wire::rdata::display(rtype, rdata))
            .collect()
    }
}

#[cfg(test)]
mod tests;
