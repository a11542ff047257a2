//! The command line: `serve`, `check`, `status`, and the verbs that are healthd's own.

mod mark;
mod probe;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use api::explain::healthd::Explanation;
use clap::{Parser, Subcommand};
use config_text::counted_as;
use config_text::web::with_query;
use daemon::args::{ServeArgs, StatusArgs};
use daemon::run;
use proto::endpoint::Endpoint;

use crate::config::{Config, DEFAULT_ADMIN, Overrides};
use crate::service::Healthd;
use crate::{explain, status};

/// Probes each target once for all subscribers, and publishes liveness
///
/// Subscribers (dns-authd, a load balancer, the status page) state the targets they need over gRPC on a
/// Unix socket; healthd sends them a snapshot and every change. It keeps its state on disk, so that a
/// restart changes no liveness.
///
/// Exit codes: 0 done, 64 usage, 69 not there or down, 70 failure, 77 no permission, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "healthd", version = daemon::version!(), max_term_width = 100)]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run in the foreground until SIGTERM
    ///
    /// Without a configuration file everything has its default. SIGHUP reads the file again.
    Serve {
        #[command(flatten)]
        serve: ServeArgs<ConfigArgs>,
        #[command(flatten)]
        overrides: Overrides,
    },
    /// Check a configuration file, and print every problem with its place
    ///
    /// Files that its targets name are read too.
    Check(ConfigArgs),
    /// Show what the running daemon knows
    Status(StatusArgs),
    /// Say why a target is up or down
    ///
    /// Asks the running daemon for the target's state, since when it is so, what the probes of each node find,
    /// the decisions of operators, and the services that ask for the target.
    Explain {
        /// IP address, with or without a port; or the target as `healthd status` names it, such as `tcp 192.0.2.13:6443`
        #[arg(value_name = "TARGET")]
        target: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Print states and their changes as they happen
    Watch(watch::Args),
    /// Probe once from here, without a daemon, and print what was found
    Probe(Box<probe::Args>),
    /// Put an address, or one port of it, into ready, drain or maintenance
    Mark(mark::Args),
}

/// The configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`)
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The socket of the running daemon.
#[derive(Clone, Debug, clap::Args)]
struct Daemon {
    /// Unix socket of the running daemon
    #[arg(long, value_name = "PATH", default_value = ::config::healthd::SOCKET)]
    socket: PathBuf,

    /// The running daemon's endpoint; wins over the socket
    #[arg(long, value_name = "unix:PATH|http://ADDRESS:PORT")]
    endpoint: Option<Endpoint>,
}

impl Daemon {
    fn endpoint(&self) -> Endpoint {
        let socket = || Endpoint::Unix(self.socket.clone());
        self.endpoint.clone().unwrap_or_else(socket)
    }
}

impl Command {
    /// Does what the command line says.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.verb {
            Verb::Serve { serve, overrides } => run::serve::<Healthd, _>(&serve, |args| {
                Config::load(args.config.as_deref(), &overrides)
            }),
            Verb::Check(args) => {
                let checked = Config::load(args.config.as_deref(), &Overrides::default())
                    .and_then(Config::with_files);
                run::check(checked, |config| {
                    counted_as(
                        config.targets.len(),
                        "target configured",
                        "targets configured",
                    )
                })
            }
            Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
            Verb::Explain { target, status } => {
                let path = with_query(explain::PATH, &[("target", Some(target))]);
                run::explain::<Explanation>(&status, DEFAULT_ADMIN, &path)
            }
            Verb::Watch(args) => run::verb(watch::run(args)),
            Verb::Probe(args) => run::verb(probe::run(*args)),
            Verb::Mark(args) => mark::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Command::command().debug_assert();
    }

    #[test]
    fn the_daemon_is_found_by_socket_or_endpoint() {
        let daemon = |words: &[&str]| {
            let words = ["healthd", "watch"].iter().chain(words);
            match Command::try_parse_from(words).unwrap().verb {
                Verb::Watch(args) => args.daemon.endpoint().to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(daemon(&[]), "unix:/run/outpost/healthd/healthd.sock");
        assert_eq!(daemon(&["--socket", "/x"]), "unix:/x");
        let tcp = ["--endpoint", "http://127.0.0.1:9400"];
        assert_eq!(daemon(&tcp), "http://127.0.0.1:9400");
    }
}
