//! `healthd mark`: an operator's decision for an address or a port.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;

use clap::ValueEnum;
use config_text::counted;
use daemon::{errln, exit, outln};
use proto::wire;
use proto::wire::health_client::HealthClient;

use super::Daemon;

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
    daemon: Daemon,
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

pub(super) async fn run(args: Args) -> ExitCode {
    let endpoint = args.daemon.endpoint();
    let channel = match proto::endpoint::connect(&endpoint).await {
        Ok(channel) => channel,
        Err(error) => {
            errln!("{endpoint}: {}", exit::chain(&error));
            return exit::code(exit::UNAVAILABLE);
        }
    };
    let (address, port) = match args.place {
        Place::Address(address) => (address, 0),
        Place::Port(port) => (port.ip(), port.port()),
    };
    let state = match args.state {
        State::Ready => wire::AdminState::Ready,
        State::Drain => wire::AdminState::Drain,
        State::Maintenance => wire::AdminState::Maintenance,
    };
    let request = wire::SetAdminStateRequest {
        address: address.to_string(),
        port: port.into(),
        admin_state: state.into(),
    };
    match HealthClient::new(channel).set_admin_state(request).await {
        Ok(response) => {
            let response = response.into_inner();
            outln!(
                "{}, generation {}",
                counted(response.targets, "target"),
                response.generation
            );
            exit::code(exit::OK)
        }
        Err(status) => {
            errln!("{endpoint}: {}", status.message());
            exit::code(exit::UNAVAILABLE)
        }
    }
}
