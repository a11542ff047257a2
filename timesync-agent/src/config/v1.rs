//! `version = "v1"` of the configuration, as people write it.

use daemon_base::config::{AdminSpec, Common, Document, HumanDuration, LogSpec, Problems};
use proto::endpoint::Endpoint;
use serde::Deserialize;
use toml::Spanned;

use super::{Config, DEFAULT_ADMIN, host_name};
use crate::settings::Settings;

/// Everything that may be written.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Spec {
    log: LogSpec,
    admin: AdminSpec,
    drain: Option<HumanDuration>,
    node: Option<String>,
    correct_clock: bool,
    health: HealthSpec,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            log: LogSpec::default(),
            admin: AdminSpec::default(),
            drain: None,
            node: None,
            correct_clock: true,
            health: HealthSpec::default(),
        }
    }
}

/// `[health]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HealthSpec {
    endpoint: Option<Spanned<String>>,
}

/// Makes the config of a document, or says everything that is wrong with it.
///
/// # Errors
///
/// Every problem, with its place.
pub fn parse(document: &Document) -> Result<Config, Problems> {
    let spec: Spec = document.parse()?;
    let mut problems = Problems::default();
    let config = Config {
        common: Common::new(spec.log, spec.admin, spec.drain, DEFAULT_ADMIN),
        node: spec.node.unwrap_or_else(host_name),
        corrects_clock: spec.correct_clock,
        health: health(document, &spec.health, &mut problems),
        settings: Settings::default(),
        warnings: Vec::new(),
    };
    problems.unless_empty(config)
}

fn health(document: &Document, spec: &HealthSpec, problems: &mut Problems) -> Option<Endpoint> {
    let Some(text) = &spec.endpoint else {
        return Some(Endpoint::default());
    };
    if text.get_ref() == "none" {
        return None;
    }
    match text.get_ref().parse() {
        Ok(endpoint) => Some(endpoint),
        Err(error) => {
            problems.push(document.problem(text.span(), format!("{error}")));
            None
        }
    }
}
