//! What running a program found.

use std::time::Duration;

use dns_wire::{Name, Type};
use liveness::Target;

use crate::choice::{Certainty, Choice};
use crate::error::LuaError;
use crate::note::Note;

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
