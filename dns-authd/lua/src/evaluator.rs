//! Runs programs: at load, to find their outcome and their targets, and per query if the outcome
//! depends on the query.
//!
//! To find the outcome, a program is run once for every way its draws can fall, each run following a
//! script. If every run returns the result of the same draw, the outcome is a choice; if every run returns
//! the same text, it is fixed; otherwise, and whenever the program read the query, it has to run for each
//! query.
//!
//! A survey finds the targets of branches that no such run took: it walks every path that the program can
//! take by the results of functions of health, of drawing and of the client's place, up to a bound. It
//! misses a target that only a certain client or name leads to, for example through `who` or `qname`, or
//! that is made from them; such a target permanently counts as not yet probed. That is intended: clients
//! must not choose targets.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use health::{Liveness, Watched};
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Value};

use crate::choice::{Certainty, Choice};
use crate::client::Client;
use crate::error::{LuaError, message};
use crate::evaluation::{Answer, Evaluation, Outcome, rdata};
use crate::liveness::LivenessView;
use crate::note::Note;
use crate::run::{Drawn, Health, MAX_NOTES, Plan, Run, Subject, Trace, Uniform, Unprobed, raise};
use crate::sandbox::Sandbox;
use crate::select::{Member, Select};
use crate::settings::LuaSettings;
use crate::snippet::Snippet;
use crate::values;

/// An interpreter for programs, with a cache of compiled ones.
///
/// It belongs to one thread; [`on_this_thread`](crate::on_this_thread) keeps one for each.
#[derive(Debug)]
pub struct Evaluator {
    sandbox: Sandbox,
    run: Rc<Run>,
    chunks: Chunks,
}

/// The most ways of drawing that are tried to find a program's outcome; a program with more ways runs for
/// each query.
const MAX_TRIALS: usize = 256;

/// The most paths that a survey walks.
const MAX_SURVEYS: usize = 64;

impl Evaluator {
    /// Starts an interpreter.
    pub fn new(settings: Arc<LuaSettings>) -> Result<Self, LuaError> {
        let run = Run::new(settings);
        let start = || {
            let sandbox = Sandbox::new(&run)?;
            let limit = sandbox
                .lua
                .used_memory()
                .saturating_add(run.settings.memory());
            sandbox.lua.set_memory_limit(limit)?;
            Ok(sandbox)
        };
        let sandbox = start().map_err(|error| explain(&error, &run))?;
        Ok(Self {
            sandbox,
            run,
            chunks: Chunks::default(),
        })
    }

    /// Finds a program's outcome with this view of health, and every target that it names.
    pub fn evaluate(&mut self, snippet: &Snippet, view: &Arc<dyn LivenessView>) -> Evaluation {
        let mut found = Found::default();
        let outcome = self.settle(snippet, view, &mut found);
        if branches(&snippet.code) || outcome == Ok(Outcome::PerQuery) {
            self.survey(snippet, view, &mut found);
        }
        Evaluation {
            outcome,
            targets: found.targets.into_iter().collect(),
            notes: found.notes,
        }
    }

    /// Runs a program for one query; `seed` must differ between queries.
    pub fn answer_for(
        &mut self,
        snippet: &Snippet,
        view: &Arc<dyn LivenessView>,
        client: &Client,
        seed: u64,
    ) -> Result<Answer, LuaError> {
        let subject = Rc::new(Subject {
            snippet: snippet.clone(),
            client: client.clone(),
            view: Arc::clone(view),
        });
        let (result, trace) = self.run(&subject, Plan::Query, seed);
        let values = result?;
        Ok(Answer {
            values,
            certainty: trace
                .health
                .map_or(Certainty::Known, |health| health.certainty),
            ttl_bound: trace.health.map(|health| health.ttl_bound),
            notes: trace.notes,
        })
    }

    /// Runs a program for a made-up client, to see whether it works at all.
    pub(crate) fn try_for(
        &mut self,
        snippet: &Snippet,
        client: &Client,
    ) -> Result<Answer, LuaError> {
        let view: Arc<dyn LivenessView> = Arc::new(Uniform(Liveness::Up));
        self.answer_for(snippet, &view, client, 0)
    }

    fn settle(
        &mut self,
        snippet: &Snippet,
        view: &Arc<dyn LivenessView>,
        found: &mut Found,
    ) -> Result<Outcome, LuaError> {
        let subject = Rc::new(Subject {
            client: Client::sample(&snippet.owner),
            snippet: snippet.clone(),
            view: Arc::clone(view),
        });
        let (result, first) = self.run(&subject, Plan::Script(Vec::new()), 0);
        found.add(&first);
        if first.reads_query || first.random_numbers {
            return Ok(Outcome::PerQuery);
        }
        let mut verdict = Verdict::new(&first, result?);
        let turns: Vec<usize> = first
            .draws
            .iter()
            .map(|drawn| drawn.choice.n_variants())
            .collect();
        let n_trials = turns
            .iter()
            .try_fold(1_usize, |n, turns| n.checked_mul(*turns));
        if n_trials.is_none_or(|n| n > MAX_TRIALS) {
            return Ok(Outcome::PerQuery);
        }
        let mut script = vec![0; turns.len()];
        while advance(&mut script, &turns) {
            let (result, trace) = self.run(&subject, Plan::Script(script.clone()), 0);
            found.add(&trace);
            match result {
                Ok(values) if verdict.holds(&trace, &values) => {}
                _ => return Ok(Outcome::PerQuery),
            }
        }
        let outcome = verdict.outcome(&first);
        if let Outcome::Fixed(values) = &outcome {
            check_answers(snippet, values.iter())?;
        } else if let Outcome::Choice(choice) = &outcome {
            check_answers(snippet, choice.members.iter().map(|member| &member.value))?;
        }
        Ok(outcome)
    }

    /// Runs a program along every path its decisions can take, for the targets it names.
    fn survey(&mut self, snippet: &Snippet, view: &Arc<dyn LivenessView>, found: &mut Found) {
        let subject = Rc::new(Subject {
            client: Client::sample(&snippet.owner),
            snippet: snippet.clone(),
            view: Arc::new(Unprobed(Arc::clone(view))),
        });
        let mut script = Vec::new();
        for _ in 0..MAX_SURVEYS {
            let (_, trace) = self.run(&subject, Plan::Survey(script.clone()), 0);
            found.targets.extend(trace.targets);
            if !next_path(&mut script, &trace.decisions) {
                return;
            }
        }
    }

    fn run(
        &mut self,
        subject: &Rc<Subject>,
        plan: Plan,
        seed: u64,
    ) -> (Result<Vec<String>, LuaError>, Trace) {
        let result = self.call(subject, plan, seed).and_then(|value| {
            values::answers(&value).map_err(|reason| raise(LuaError::Program(reason)))
        });
        let trace = self.run.end();
        let result = match result {
            Ok(_) if self.run.exhausted.get() => Err(out_of_instructions(&self.run)),
            Ok(values) => Ok(values),
            Err(error) => Err(explain(&error, &self.run)),
        };
        (result, trace)
    }

    fn call(&mut self, subject: &Rc<Subject>, plan: Plan, seed: u64) -> mlua::Result<Value> {
        self.run.exhausted.set(false);
        let globals = self.sandbox.globals()?;
        self.run
            .begin(Rc::clone(subject), plan, seed, globals.clone());
        let function = self.compiled(&subject.snippet.code)?;
        function.set_environment(globals)?;
        if let Some(limit) = self.run.settings.instructions() {
            let run = Rc::clone(&self.run);
            let triggers = HookTriggers::new().every_nth_instruction(limit.get());
            // Setting the hook again restarts the count from zero.
            self.sandbox.lua.set_global_hook(triggers, move |_, _| {
                run.exhausted.set(true);
                Err(raise(out_of_instructions(&run)))
            })?;
        }
        function.call(())
    }
}

/// The targets and notes of all runs of an evaluation.
#[derive(Default)]
struct Found {
    targets: BTreeSet<Watched>,
    notes: Vec<Note>,
}

impl Found {
    fn add(&mut self, trace: &Trace) {
        self.targets.extend(trace.targets.iter().cloned());
        for note in &trace.notes {
            if self.notes.len() < MAX_NOTES && !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }
}

/// Whether code can branch: without these words it runs straight through.
fn branches(code: &str) -> bool {
    const WORDS: [&str; 10] = [
        "and", "else", "elseif", "for", "function", "goto", "if", "or", "repeat", "while",
    ];
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| WORDS.contains(&word) || matches!(word, "include" | "pcall" | "xpcall"))
}

fn check_answers<'a>(
    snippet: &Snippet,
    mut answers: impl Iterator<Item = &'a String>,
) -> Result<(), LuaError> {
    answers.try_for_each(|answer| rdata(snippet.rtype, answer).map(drop))
}

//--- Verdict

/// The possible outcomes of a program, after the runs so far.
struct Verdict {
    /// The values of the first run, as long as every run returned the same.
    constant: Option<Vec<String>>,
    /// The draws whose result was returned by every run.
    passed_through: Vec<usize>,
    first: Vec<Drawn>,
}

impl Verdict {
    fn new(trace: &Trace, values: Vec<String>) -> Self {
        let mut verdict = Self {
            constant: None,
            passed_through: (0..trace.draws.len()).collect(),
            first: trace.draws.clone(),
        };
        verdict.keep_passed_through(trace, &values);
        verdict.constant = Some(values);
        verdict
    }

    /// Whether any outcome is still possible after another run.
    fn holds(&mut self, trace: &Trace, values: &[String]) -> bool {
        let same_draws = trace.draws.len() == self.first.len()
            && trace
                .draws
                .iter()
                .zip(&self.first)
                .all(|(now, first)| now.choice == first.choice);
        if !same_draws || trace.reads_query || trace.random_numbers {
            return false;
        }
        self.keep_passed_through(trace, values);
        self.constant = self.constant.take().filter(|constant| constant == values);
        self.constant.is_some() || !self.passed_through.is_empty()
    }

    fn keep_passed_through(&mut self, trace: &Trace, values: &[String]) {
        self.passed_through.retain(|draw| {
            trace
                .draws
                .get(*draw)
                .is_some_and(|drawn| drawn.answers == values)
        });
    }

    fn outcome(self, trace: &Trace) -> Outcome {
        let drawn = self
            .passed_through
            .first()
            .and_then(|draw| self.first.get(*draw));
        match (drawn, self.constant, trace.health) {
            (Some(drawn), _, Some(health)) => Outcome::Choice(Choice {
                certainty: match health.certainty {
                    Certainty::Unknown => Certainty::Unknown,
                    _ => drawn.choice.certainty,
                },
                ttl_bound: Some(health.ttl_bound),
                ..drawn.choice.clone()
            }),
            (Some(drawn), None, None) => Outcome::Choice(drawn.choice.clone()),
            (_, Some(values), Some(health)) => Outcome::Choice(settled(values, health)),
            (_, Some(values), None) => Outcome::Fixed(values),
            (None, None, _) => Outcome::PerQuery,
        }
    }
}

/// An answer that depends only on health.
fn settled(values: Vec<String>, health: Health) -> Choice {
    Choice {
        members: values
            .into_iter()
            .map(|value| Member { value, weight: 1 })
            .collect(),
        select: Select::All,
        certainty: health.certainty,
        ttl_bound: Some(health.ttl_bound),
    }
}

/// Advances to the next way of drawing; false after the last.
fn advance(script: &mut [usize], turns: &[usize]) -> bool {
    for (turn, turns) in script.iter_mut().zip(turns) {
        *turn += 1;
        if *turn < *turns {
            return true;
        }
        *turn = 0;
    }
    false
}

/// Advances to the next path of a survey, given the number of ways of each decision on the last one; false
/// after the last path.
fn next_path(script: &mut Vec<usize>, decisions: &[usize]) -> bool {
    script.resize(decisions.len(), 0);
    while let Some(way) = script.pop() {
        let n_ways = decisions.get(script.len()).copied().unwrap_or(0);
        if way + 1 < n_ways {
            script.push(way + 1);
            return true;
        }
    }
    false
}

//--- Chunks

/// Compiled programs by the address of their text, which they keep alive.
#[derive(Debug, Default)]
struct Chunks {
    compiled: HashMap<usize, (Arc<str>, Function)>,
    /// Addresses in the order of their compilation.
    order: VecDeque<usize>,
    /// The length of all texts together.
    n_octets: usize,
}

/// The most compiled programs a thread keeps; the oldest goes first.
const MAX_CHUNKS: usize = 1024;
/// The divisor for the share of an interpreter's memory that program texts may take: compiled, they take
/// several times that, and the rest is for running them.
const TEXT_SHARE: usize = 32;

impl Chunks {
    fn get(&self, code: &Arc<str>) -> Option<Function> {
        let (_, function) = self.compiled.get(&Arc::as_ptr(code).addr())?;
        Some(function.clone())
    }

    /// Stores a program, and drops as many others as necessary.
    fn keep(&mut self, code: &Arc<str>, function: Function, max_octets: usize) {
        let full = |chunks: &Self| {
            chunks.order.len() >= MAX_CHUNKS || chunks.n_octets + code.len() > max_octets
        };
        while full(self) {
            let oldest = self.order.pop_front();
            let Some((text, _)) = oldest.and_then(|oldest| self.compiled.remove(&oldest)) else {
                break;
            };
            self.n_octets = self.n_octets.saturating_sub(text.len());
        }
        let address = Arc::as_ptr(code).addr();
        self.order.push_back(address);
        self.n_octets += code.len();
        self.compiled.insert(address, (Arc::clone(code), function));
    }
}

impl Evaluator {
    fn compiled(&mut self, code: &Arc<str>) -> mlua::Result<Function> {
        if let Some(function) = self.chunks.get(code) {
            return Ok(function);
        }
        let source = match code.strip_prefix(';') {
            Some(program) => program.to_owned(),
            None => format!("return {code}"),
        };
        let function = self.load(source)?;
        let max_octets = self.run.settings.memory() / TEXT_SHARE;
        self.chunks.keep(code, function.clone(), max_octets);
        Ok(function)
    }

    fn load(&self, source: String) -> mlua::Result<Function> {
        let chunk = self.sandbox.lua.load(source);
        chunk
            .set_mode(ChunkMode::Text)
            .set_name("=lua")
            .into_function()
    }

    /// Whether a program that others include compiles.
    pub(crate) fn compiles(&self, code: &str) -> Result<(), LuaError> {
        match self.load(code.to_owned()) {
            Ok(_) => Ok(()),
            Err(error) => Err(LuaError::Program(message(&error))),
        }
    }
}

//--- Errors

fn out_of_instructions(run: &Run) -> LuaError {
    LuaError::Instructions {
        limit: run
            .settings
            .instructions()
            .map_or(0, std::num::NonZero::get),
    }
}

/// Maps an error of the interpreter.
fn explain(error: &mlua::Error, run: &Run) -> LuaError {
    if run.exhausted.get() {
        return out_of_instructions(run);
    }
    if let Some(own) = error.downcast_ref::<LuaError>() {
        return own.clone();
    }
    if is_memory(error) {
        return LuaError::Memory {
            limit: run.settings.memory(),
        };
    }
    LuaError::Program(message(error))
}

fn is_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            is_memory(cause)
        }
        mlua::Error::BadArgument { cause, .. } => is_memory(cause),
        _ => false,
    }
}
