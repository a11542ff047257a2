//! `LUA` records: programs whose results are served as records of another type, in the manner of
//! `PowerDNS` (docs/lua-records of its documentation), in a real Lua 5.4.
//!
//! ```text
//!                      Evaluator::evaluate                 per query
//! Snippet + view ─► run, with every draw scripted ─► Fixed    ─► rendered once
//!  (at load, and                │                    Choice   ─► rendered once, Select::draw
//!   when health moves)          │                    PerQuery ─► Evaluator::answer_for
//!                               └─► targets ─► healthd
//! ```
//!
//! A program runs when its zone is loaded and when the health it asked for moves, and never for
//! a query, unless what it returns depends on the query in a way that nothing but running it can
//! tell. So the answer of `ifportup(443, {...})` costs what a plain address record costs.
//!
//! Programs of `PowerDNS` run as they are, with these differences:
//!
//! * Numbers print as in Lua 5.4: `10 / 2` is `5.0` where Lua 5.1 and `LuaJIT` have `5`.
//! * `os`, `io`, `require` and `resolve` are absent, and there is no database of places.
//! * All checks begin when the zone is loaded; an address is probed only if it stands in the
//!   program, not if a query brings it.
//! * Options and arguments that make no sense are errors; `PowerDNS` takes some for zero.
//! * Redirects of a probed URL are not followed.
//!
//! Nothing here opens sockets, reads files or clocks, or logs: what programs print is handed back
//! as [`Note`]s, and random numbers come from seeds handed in. The sandbox is described in
//! `sandbox`, the rules of health in `health`, those of drawing in [`select`].

mod checks;
mod choice;
mod client;
mod error;
mod evaluator;
pub mod hash;
mod health;
mod includes;
mod objects;
mod options;
mod pattern;
mod patterns;
mod picks;
mod places;
mod reverse;
mod run;
mod sandbox;
pub mod select;
mod settings;
mod target;
mod values;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dns_wire::{Name, Type};

use config_text::{Position, Problem};

pub use choice::{Certainty, Choice};
pub use client::Client;
pub use error::LuaError;
pub use evaluator::Evaluator;
pub use health::LivenessView;
pub use includes::{NoRecords, Records};
pub use select::{Draw, Member, Select};
pub use settings::{AllDown, LuaSettings, WhileUnknown};
pub use target::{Liveness, Target};

/// A `LUA` record: a program and the records it makes.
#[derive(Clone, Debug)]
pub struct Snippet {
    /// The zone it is in.
    pub zone: Name,
    /// Whose records it makes.
    pub owner: Name,
    /// The type of the records it makes.
    pub rtype: Type,
    /// The TTL it was written with.
    pub ttl: u32,
    /// The program; `return ` is put in front unless it begins with `;`.
    pub code: Arc<str>,
    /// Where it was written.
    pub position: Position,
    /// What it may read of the zone; [`NoRecords`] if nothing.
    pub records: Arc<dyn Records>,
}

/// What evaluating a program found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// What the program comes to.
    pub outcome: Result<Outcome, LuaError>,
    /// Every target it names, in backup sets and branches not taken too.
    pub targets: Vec<Target>,
    /// What it has to say to the operator.
    pub notes: Vec<Note>,
}

/// What a program comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These answers, whoever asks and whatever the health of anything.
    Fixed(Vec<String>),
    /// A draw that needs no program.
    Choice(Choice),
    /// It has to run for every query.
    PerQuery,
}

/// What a program answers to one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answers, as text of the record's type; [`rdata`] makes data of them.
    pub values: Vec<String>,
    /// How much is known of the health behind them.
    pub certainty: Certainty,
    /// How long that health stays as it is; `None` if there is none behind them.
    pub ttl_bound: Option<Duration>,
    /// What it has to say to the operator.
    pub notes: Vec<Note>,
}

/// Something a program says to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// What it says.
    pub message: String,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// To those who look for a fault.
    Debug,
    /// To those who want to know what happens.
    Info,
    /// Something is odd.
    Warning,
    /// Something is wrong.
    Error,
}

impl Note {
    fn new(severity: Severity, message: String) -> Self {
        Self { severity, message }
    }

    fn warning(message: String) -> Self {
        Self::new(Severity::Warning, message)
    }

    fn error(message: String) -> Self {
        Self::new(Severity::Error, message)
    }
}

/// The data of an answer, as a record of this type holds it.
///
/// Text is put in quotes, and names are absolute, as in `PowerDNS`.
///
/// # Errors
///
/// If the answer is no data of that type.
pub fn rdata(rtype: Type, answer: &str) -> Result<Vec<u8>, LuaError> {
    let parsed = match rtype {
        Type::TXT | Type::SPF => {
            let quoted = format!("\"{answer}\"");
            dns_wire::rdata::from_text(rtype, &quoted, &Name::root())
        }
        _ => dns_wire::rdata::from_text(rtype, answer, &Name::root()),
    };
    parsed.map_err(|error| LuaError::Answer {
        rtype,
        answer: answer.to_owned(),
        reason: error.to_string(),
    })
}

/// Runs every program and says which are broken, in the order given.
///
/// A program that depends on the query is run for two clients that do not exist, one behind a
/// resolver that names its subnet, and is broken if it works for neither.
#[must_use]
pub fn check(snippets: &[Snippet], settings: &Arc<LuaSettings>) -> Vec<Problem> {
    let mut evaluator = match Evaluator::new(Arc::clone(settings)) {
        Ok(evaluator) => evaluator,
        Err(error) => {
            let message = format!("the Lua interpreter does not start: {error}");
            let position = None;
            return vec![Problem { position, message }];
        }
    };
    let problem = |snippet: &Snippet, error: LuaError| Problem {
        position: Some(snippet.position.clone()),
        message: format!("LUA {} of {}: {error}", snippet.rtype, snippet.owner),
    };
    snippets
        .iter()
        .filter_map(|snippet| Some(problem(snippet, fault(&mut evaluator, snippet)?)))
        .collect()
}

/// What is wrong with a program, if anything is.
fn fault(evaluator: &mut Evaluator, snippet: &Snippet) -> Option<LuaError> {
    if snippet.rtype == Type::LUA {
        // It makes no records of its own but is a part of those that include it.
        return evaluator.compiles(&snippet.code).err();
    }
    for liveness in [Liveness::Up, Liveness::Down] {
        let view: Arc<dyn LivenessView> = Arc::new(run::Uniform(liveness));
        match evaluator.evaluate(snippet, &view).outcome {
            Err(error) if error.is_defect() => return Some(error),
            Ok(Outcome::PerQuery) => {
                let plain = sample_client(&snippet.owner);
                let subnet = Client {
                    subnet: ipnet::IpNet::new(SAMPLE_SUBNET, 24).ok(),
                    ..plain.clone()
                };
                let error = evaluator.try_for(snippet, &plain).err()?;
                evaluator.try_for(snippet, &subnet).err()?;
                return error.is_defect().then_some(error);
            }
            _ => {}
        }
    }
    None
}

/// A network set aside for documentation (RFC 5737).
const SAMPLE_SUBNET: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0));

/// A client that does not exist, for runs that no query is behind.
fn sample_client(owner: &Name) -> Client {
    Client {
        who: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53_000),
        local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53),
        subnet: None,
        qname: evaluator::sample_name(owner),
        header: [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        tcp: false,
        dnssec_ok: false,
        payload_size: Some(1232),
    }
}

/// Does something with the evaluator of the calling thread, which is started when it is first
/// wanted, and again when the settings are others than last time.
///
/// # Errors
///
/// If the interpreter does not start.
pub fn on_this_thread<R>(
    settings: &Arc<LuaSettings>,
    work: impl FnOnce(&mut Evaluator) -> R,
) -> Result<R, LuaError> {
    thread_local! {
        static EVALUATOR: RefCell<Option<(Arc<LuaSettings>, Evaluator)>> =
            const { RefCell::new(None) };
    }
    EVALUATOR.with_borrow_mut(|slot| match slot {
        Some((current, evaluator)) if Arc::ptr_eq(current, settings) => Ok(work(evaluator)),
        _ => {
            let evaluator = Evaluator::new(Arc::clone(settings))?;
            let (_, evaluator) = slot.insert((Arc::clone(settings), evaluator));
            Ok(work(evaluator))
        }
    })
}
