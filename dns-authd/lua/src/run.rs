//! One run of a program: its inputs, and a trace of everything the outcome depends on.
//!
//! The functions that programs call share a [`Run`] with the evaluator. No borrow of it is held
//! while Lua code runs, since that code calls back into it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dns_wire::Name;
use health::{Liveness, Watched};
use mlua::Table;

use crate::choice::{Certainty, Choice};
use crate::client::Client;
use crate::error::LuaError;
use crate::listed::ListedNode;
use crate::liveness::LivenessView;
use crate::note::Note;
use crate::select::{Draw, Member, Random, Select};
use crate::settings::LuaSettings;
use crate::snippet::Snippet;
use crate::values;

/// The state that functions and evaluator share.
pub(crate) struct Run {
    pub(crate) settings: Arc<LuaSettings>,
    /// The instruction limit was reached; no `pcall` may hide it.
    pub(crate) exhausted: Cell<bool>,
    /// The steps of pattern matching that are left to this run.
    pub(crate) pattern_steps: Cell<u32>,
    /// The depth of library functions that call back into the program.
    nesting: Cell<u32>,
    state: RefCell<State>,
}

struct State {
    subject: Option<Rc<Subject>>,
    plan: Plan,
    random: Random,
    picks: Vec<usize>,
    environment: Option<Table>,
    trace: Trace,
}

/// The program, client and liveness of a run.
pub(crate) struct Subject {
    pub(crate) snippet: Snippet,
    pub(crate) client: Client,
    pub(crate) view: Arc<dyn LivenessView>,
}

/// The way in which a run draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// By the client, the name and the seed: a real query.
    Query,
    /// By a script: the n-th draw takes the n-th entry, and 0 beyond the end.
    Script(Vec<usize>),
    /// By a script that also decides the result of each function of health and of the client: everything
    /// that a program can branch on.
    Survey(Vec<usize>),
}

/// Everything in a run that its result depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// It read the client, or the query's name where names differ.
    pub(crate) reads_query: bool,
    /// It used random numbers other than draws from members.
    pub(crate) random_numbers: bool,
    /// Every draw there was, in order.
    pub(crate) draws: Vec<Drawn>,
    /// The health that it depends on, over all calls.
    pub(crate) health: Option<Health>,
    /// The number of ways of each decision of a survey, in order.
    pub(crate) decisions: Vec<usize>,
    /// Every target that was named.
    pub(crate) targets: BTreeSet<Watched>,
    pub(crate) notes: Vec<Note>,
}

/// One draw of a scripted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) choice: Choice,
    pub(crate) answers: Vec<String>,
}

/// The results of several health functions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) certainty: Certainty,
    pub(crate) ttl_bound: Duration,
}

/// The most members of a draw that a survey tries.
const MAX_SURVEYED: usize = 4;
/// The most targets one run may name.
const MAX_TARGETS: usize = 4096;
/// The most notes one run, or one evaluation, may leave.
pub(crate) const MAX_NOTES: usize = 16;
/// The deepest nesting of library and program functions: each level takes some kilobytes of the thread's
/// stack.
const MAX_NESTING: u32 = 16;
/// The steps of pattern matching in one run: some milliseconds.
const PATTERN_STEPS: u32 = 200_000;

impl Run {
    pub(crate) fn new(settings: Arc<LuaSettings>) -> Rc<Self> {
        Rc::new(Self {
            settings,
            exhausted: Cell::new(false),
            pattern_steps: Cell::new(0),
            nesting: Cell::new(0),
            state: RefCell::new(State {
                subject: None,
                plan: Plan::Query,
                random: Random::new(0),
                picks: Vec::new(),
                environment: None,
                trace: Trace::default(),
            }),
        })
    }

    /// Forgets the last run and prepares the next.
    pub(crate) fn begin(&self, subject: Rc<Subject>, plan: Plan, seed: u64, environment: Table) {
        self.pattern_steps.set(PATTERN_STEPS);
        let mut state = self.state.borrow_mut();
        state.subject = Some(subject);
        state.plan = plan;
        state.random = Random::new(seed);
        state.environment = Some(environment);
        state.trace = Trace::default();
    }

    /// Runs something that calls back into the program, unless that nests too deep.
    pub(crate) fn nested<R>(&self, work: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
        let depth = self.nesting.get();
        if depth == MAX_NESTING {
            return Err(values::refuse("calls nest too deep"));
        }
        self.nesting.set(depth + 1);
        let result = work();
        self.nesting.set(depth);
        result
    }

    /// Ends the run and gives its trace.
    pub(crate) fn end(&self) -> Trace {
        let mut state = self.state.borrow_mut();
        state.subject = None;
        state.environment = None;
        std::mem::take(&mut state.trace)
    }

    /// The subject of the run.
    pub(crate) fn subject(&self) -> mlua::Result<Rc<Subject>> {
        let subject = self.state.borrow().subject.clone();
        subject.ok_or_else(|| values::refuse("no record is being evaluated"))
    }

    /// The globals of the running program.
    pub(crate) fn environment(&self) -> Option<Table> {
        self.state.borrow().environment.clone()
    }

    /// Notes that the result depends on the client.
    pub(crate) fn reads_query(&self) {
        self.state.borrow_mut().trace.reads_query = true;
    }

    /// The question's name: the record's own, unless a wildcard makes it differ.
    pub(crate) fn qname(&self) -> mlua::Result<Name> {
        let subject = self.subject()?;
        if subject.snippet.owner.is_wildcard() {
            self.reads_query();
            return Ok(subject.client.qname.clone());
        }
        Ok(subject.snippet.owner.clone())
    }

    /// The number of the way that a decision of a survey takes; `None` if this run is no survey: then the
    /// truth decides.
    pub(crate) fn decision(&self, n_ways: usize) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Plan::Survey(script) = &state.plan else {
            return None;
        };
        let way = script.get(state.trace.decisions.len()).copied();
        state.trace.decisions.push(n_ways);
        Some(way.unwrap_or(0))
    }

    /// The result of a function of the client: the true one, unless this is a survey.
    pub(crate) fn judgement(&self, truth: bool) -> bool {
        self.decision(2).map_or(truth, |way| way == 0)
    }

    /// Random bits that are not draws from members.
    pub(crate) fn random<T>(&self, take: impl FnOnce(&mut Random) -> T) -> T {
        let mut state = self.state.borrow_mut();
        state.trace.random_numbers = true;
        take(&mut state.random)
    }

    /// Leaves a note for the operator.
    pub(crate) fn note(&self, note: Note) {
        let notes = &mut self.state.borrow_mut().trace.notes;
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Records a target.
    pub(crate) fn names(&self, target: &Watched) -> mlua::Result<()> {
        let targets = &mut self.state.borrow_mut().trace.targets;
        if targets.len() >= MAX_TARGETS && !targets.contains(target) {
            let message = format!("more than {MAX_TARGETS} targets are named");
            return Err(values::refuse(message));
        }
        targets.insert(target.clone());
        Ok(())
    }

    /// Draws from members that need no health.
    pub(crate) fn pick(&self, members: Vec<Member>, select: Select) -> mlua::Result<Vec<String>> {
        self.draw(Choice {
            members,
            select,
            certainty: Certainty::Known,
            ttl_bound: None,
        })
    }

    /// Draws from a choice.
    pub(crate) fn draw(&self, choice: Choice) -> mlua::Result<Vec<String>> {
        if let Some(way) = self.decision(choice.n_variants().min(MAX_SURVEYED)) {
            return Ok(choice.variant(way));
        }
        let subject = self.subject()?;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(ttl_bound) = choice.ttl_bound {
            let health = state.trace.health.get_or_insert(Health {
                certainty: choice.certainty,
                ttl_bound,
            });
            health.certainty = health.certainty.max(choice.certainty);
            health.ttl_bound = health.ttl_bound.min(ttl_bound);
        }
        match &state.plan {
            Plan::Query => {
                let draw = Draw {
                    client: subject.client.best_who(),
                    qname: subject.client.qname.as_wire(),
                    seed: state.random.bits(),
                };
                choice.draw(&draw, &mut state.picks);
                Ok(choice.answers(&state.picks))
            }
            Plan::Script(script) | Plan::Survey(script) => {
                let turn = script.get(state.trace.draws.len()).copied();
                let answers = choice.variant(turn.unwrap_or(0));
                state.trace.draws.push(Drawn {
                    choice,
                    answers: answers.clone(),
                });
                Ok(answers)
            }
        }
    }
}

impl Choice {
    /// The number of ways in which a scripted run can draw from it.
    pub(crate) fn n_variants(&self) -> usize {
        match self.select {
            Select::All | Select::Sample(0) => 1,
            _ => self.members.len().max(1),
        }
    }

    /// The draw of a scripted run: over all ways, each member is in first place once.
    fn variant(&self, turn: usize) -> Vec<String> {
        let n = self.members.len();
        let count = match self.select {
            Select::All => n,
            Select::Sample(count) => count.min(n),
            _ => 1,
        };
        let turn = if self.select == Select::All { 0 } else { turn };
        self.members
            .iter()
            .cycle()
            .skip(turn)
            .take(count.min(n))
            .map(|member| member.value.clone())
            .collect()
    }

    /// The answers at these positions.
    fn answers(&self, picks: &[usize]) -> Vec<String> {
        picks
            .iter()
            .filter_map(|pick| self.members.get(*pick))
            .map(|member| member.value.clone())
            .collect()
    }
}

//--- Views

/// A view in which everything is in the same state.
pub(crate) struct Uniform(pub(crate) Liveness);

impl LivenessView for Uniform {
    fn liveness(&self, _: &Watched) -> Liveness {
        self.0
    }

    fn nodes(&self, _: &str) -> Option<Vec<ListedNode>> {
        Some(ListedNode::sample())
    }
}

/// A view in which no target was probed yet, and lists are as they are.
pub(crate) struct Unprobed(pub(crate) Arc<dyn LivenessView>);

impl LivenessView for Unprobed {
    fn liveness(&self, _: &Watched) -> Liveness {
        Liveness::Unknown
    }

    fn nodes(&self, list: &str) -> Option<Vec<ListedNode>> {
        self.0.nodes(list)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("exhausted", &self.exhausted)
            .finish_non_exhaustive()
    }
}

/// Wraps an error so that it keeps its kind on its way through Lua.
pub(crate) fn raise(error: LuaError) -> mlua::Error {
    mlua::Error::external(error)
}
