//! Keeps the time with one thread and nothing beside it: no admin listener, no metrics, no commands.
//!
//! For small machines, and for simulators that replace the C library's clock and network: this thread makes no calls but those
//! of [`crate::system`]. Files and names, where the settings have any, still have threads of their own.

use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use daemon::latest::Latest;

use crate::agent::{self, AgentError, Options};
use crate::server::{self, AnswerData};
use crate::system;
use ntp::keys::KeyRing;
use ntp::responder::{Policy, Tables};
use random::Random;
use time_model::settings::Settings;
use timekeeper::Reference;

/// Keeps the time until SIGTERM or SIGINT.
///
/// # Errors
///
/// As of [`agent::Agent::start`].
pub fn run(settings: &Settings, keys: KeyRing, corrects_clock: bool) -> Result<(), AgentError> {
    let refused = |what| move |source| AgentError::System { what, source };
    system::stop_on_signals().map_err(refused("take signals"))?;
    let seed = system::seed().map_err(refused("get random numbers"))?;
    let mut random = Random::new(seed);
    let mut options = Options::new(corrects_clock);
    if settings.server.is_open() {
        let precision = settings.clock.precision;
        let precision = precision.unwrap_or_else(system::clock::measure_precision);
        let policy = Policy::new(
            &settings.server,
            Arc::new(keys.clone()),
            server::precision(precision),
            |name| {
                let addresses = (name, 0).to_socket_addrs();
                addresses.map_or_else(
                    |_| Vec::new(),
                    |addresses| addresses.map(|address| address.ip()).collect(),
                )
            },
        );
        let tables = Tables::new(
            settings.server.client_log_limit,
            [random.bits(), random.bits()],
        );
        options.answers_all = true;
        options.supply = Some(AnswerData {
            overload: Arc::default(),
            policy: Latest::new(policy),
            reference: Latest::new(Reference::default()),
            tables,
        });
    }
    agent::run_until(settings, keys, options, |_| {
        system::is_stopped().then_some(())
    })
    .map(|_| ())
}
