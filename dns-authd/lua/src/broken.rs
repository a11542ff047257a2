//! Finds broken programs, for `check`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use config_text::Problem;
use dns_wire::Type;
use health::Liveness;

use crate::client::Client;
use crate::error::LuaError;
use crate::evaluation::Outcome;
use crate::evaluator::Evaluator;
use crate::liveness::LivenessView;
use crate::run::Uniform;
use crate::settings::LuaSettings;
use crate::snippet::Snippet;

/// A network set aside for documentation (RFC 5737).
const SAMPLE_SUBNET: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0));

/// Runs every program and returns the broken ones, in the order given.
///
/// A program that depends on the query runs for two made-up clients, one of them behind a resolver that
/// names its subnet, and is broken if it works for neither.
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

/// The first error of a program.
fn fault(evaluator: &mut Evaluator, snippet: &Snippet) -> Option<LuaError> {
    if snippet.rtype == Type::LUA {
        // It makes no records itself but is a part of programs that include it.
        return evaluator.compiles(&snippet.code).err();
    }
    for liveness in [Liveness::Up, Liveness::Down] {
        let view: Arc<dyn LivenessView> = Arc::new(Uniform(liveness));
        match evaluator.evaluate(snippet, &view).outcome {
            Err(error) if error.is_defect() => return Some(error),
            Ok(Outcome::PerQuery) => {
                let plain = Client::sample(&snippet.owner);
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
