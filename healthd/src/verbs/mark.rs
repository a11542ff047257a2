//! `healthd mark`: an operator's decision for an address or a port.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;

use api::healthd::Marked;
use clap::ValueEnum;
use config_text::counted;
use config_text::web::with_query;
use daemon::admin::Method;
use daemon::args::StatusArgs;
use daemon::decision::DecisionArgs;
use daemon::{errln, exit, outln, run};

use crate::config::DEFAULT_ADMIN;
use crate::marks;

/// Arguments of `mark`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Targets to mark: all of an address, or those of one port
    ///
    /// The decision also holds for targets that come later, and over restarts.
    #[arg(value_name = "ADDRESS[:PORT]")]
    place: Place,

    /// New administrative state
    #[arg(value_name = "STATE")]
    state: State,

    #[command(flatten)]
    decision: DecisionArgs,

    #[command(flatten)]
    status: StatusArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Counts as its probes say
    Ready,
    /// Finishes what it has and gets nothing new
    Drain,
    /// Counts as down
    Maintenance,
}

/// An address, with or without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Address(IpAddr),
    Port(SocketAddr),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse().map(Self::Address);
        let port = || text.parse().map(Self::Port);
        address
            .or_else(|_| port())
            .map_err(|_| "neither an IP address nor one with a port".to_owned())
    }
}

impl Place {
    pub(super) fn covers(self, address: SocketAddr) -> bool {
        match self {
            Self::Address(all) => all == address.ip(),
            Self::Port(one) => one == address,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    let (address, port) = match args.place {
        Place::Address(address) => (address, None),
        Place::Port(port) => (port.ip(), Some(port.port())),
    };
    let state = args.state.to_possible_value();
    let mut parameters = vec![
        ("address", Some(address.to_string())),
        ("port", port.map(|port| port.to_string())),
        ("state", state.map(|state| state.get_name().to_owned())),
    ];
    parameters.extend(args.decision.parameters());
    let path = with_query(marks::PATH, &parameters);
    let response = match run::ask(&args.status, DEFAULT_ADMIN, &path, Method::Post) {
        Ok(response) => response,
        Err(code) => return code,
    };
    let text = response.text();
    if !response.is_success() {
        errln!("{}", text.trim_end());
        return exit::code(exit::DATA);
    }
    match serde_json::from_str(&text) {
        Ok(Marked {
            targets,
            generation,
        }) if !args.status.json => {
            outln!("{}, generation {generation}", counted(targets, "target"));
        }
        _ => outln!("{}", text.trim_end()),
    }
    exit::code(exit::OK)
}
