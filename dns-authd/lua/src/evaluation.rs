//! The results of running a program.

use std::time::Duration;

use dns_wire::{Name, Type};
use health::Watched;

use crate::choice::{Certainty, Choice};
use crate::error::LuaError;
use crate::note::Note;

/// The result of evaluating a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The outcome.
    pub outcome: Result<Outcome, LuaError>,
    /// Every target it names, in backup sets and branches not taken too.
    pub targets: Vec<Watched>,
    /// Notes to the operator.
    pub notes: Vec<Note>,
}

/// The outcome of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These answers, for every client and whatever the liveness of targets.
    Fixed(Vec<String>),
    /// A draw that needs no program.
    Choice(Choice),
    /// The program has to run for every query.
    PerQuery,
}

/// The answer of a program to one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answers, as text of the record's type; [`rdata`] turns them into data.
    pub values: Vec<String>,
    /// The certainty of the health behind them.
    pub certainty: Certainty,
    /// The time that this health holds; `None` if they do not depend on health.
    pub ttl_bound: Option<Duration>,
    /// Notes to the operator.
    pub notes: Vec<Note>,
}

/// The data of an answer, as a record of this type holds it.
///
/// Text is put in quotes, and names are absolute, as in `PowerDNS`.
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
