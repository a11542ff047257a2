//! Whole programs, evaluated.

mod adversary;
mod functions;
mod liveness;
mod nodes;
mod patterns;
mod settling;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use config_text::Position;
use dns_wire::{Name, Type};

use super::*;

/// A record of `example.org` in need of evaluation.
fn snippet(owner: &str, rtype: Type, code: &str) -> Snippet {
    Snippet {
        zone: Name::parse("example.org").unwrap(),
        owner: Name::parse_relative(owner, &Name::parse("example.org").unwrap()).unwrap(),
        rtype,
        ttl: 60,
        code: code.into(),
        position: Position {
            file: Path::new("example.org.zone").into(),
            line: 7,
            column: 1,
        },
        records: Arc::new(NoRecords),
    }
}

fn evaluator() -> Evaluator {
    Evaluator::new(Arc::new(LuaSettings::default())).unwrap()
}

/// Which addresses are up and which down; the rest has not been probed.
#[derive(Clone, Default)]
struct Board(BTreeMap<SocketAddr, Liveness>);

impl Board {
    fn new(up: &[&str], down: &[&str]) -> Self {
        let mut states = BTreeMap::new();
        for (addresses, liveness) in [(up, Liveness::Up), (down, Liveness::Down)] {
            for address in addresses {
                states.insert(address.parse().unwrap(), liveness);
            }
        }
        Self(states)
    }

    fn view(self) -> Arc<dyn LivenessView> {
        Arc::new(self)
    }
}

impl LivenessView for Board {
    fn liveness(&self, watched: &Watched) -> Liveness {
        let state = self.0.get(&watched.target.address);
        state.copied().unwrap_or(Liveness::Unknown)
    }
}

/// Evaluates an A record with nothing probed.
fn outcome(code: &str) -> Result<Outcome, LuaError> {
    outcome_of("a", Type::A, code)
}

fn outcome_of(owner: &str, rtype: Type, code: &str) -> Result<Outcome, LuaError> {
    let view = Board::default().view();
    evaluator()
        .evaluate(&snippet(owner, rtype, code), &view)
        .outcome
}

fn client(who: &str, qname: &str) -> Client {
    Client {
        who: SocketAddr::new(who.parse().unwrap(), 4711),
        qname: Name::parse(qname).unwrap(),
        ..Client::sample(&Name::root())
    }
}

/// What a program of this record answers to a query.
fn ask(snippet: &Snippet, client: &Client) -> Result<Vec<String>, LuaError> {
    let view = Board::default().view();
    let answer = evaluator().answer_for(snippet, &view, client, 1)?;
    Ok(answer.values)
}

fn fixed(values: &[&str]) -> Result<Outcome, LuaError> {
    Ok(Outcome::Fixed(owned(values)))
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// The values and the selection of a choice.
fn choice(outcome: Result<Outcome, LuaError>) -> Choice {
    match outcome {
        Ok(Outcome::Choice(choice)) => choice,
        other => panic!("no choice: {other:?}"),
    }
}

fn values(choice: &Choice) -> Vec<&str> {
    choice
        .members
        .iter()
        .map(|member| member.value.as_str())
        .collect()
}
