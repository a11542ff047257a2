//! The command line.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use ::config::lb_proxy::SwapSocket;
use clap::{Args, Parser, Subcommand};
use daemon::args::{OverrideArgs, ServeArgs, StatusArgs};
use daemon::decision::DecisionArgs;
use ipnet::IpNet;

use crate::load::{Peers, Source};

/// The configuration that is read when none is named.
pub const DEFAULT_CONFIG: &str = "/etc/outpost/lb-proxy/lb-proxy.toml";

/// Layer 4 load balancer and virtual IPs
///
/// Passes connections on to the servers that healthd finds up, and holds virtual IPs beside the other
/// nodes of the site (VRRP), by what its own proxy can do.
///
/// Exit codes: 0 done, 64 usage, 65 a file that cannot be understood, 69 not there, 70 failure, 77 no
/// permission, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "lb-proxy", version = daemon::version!(), max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve in the foreground until SIGTERM
    ///
    /// SIGHUP reads the configuration again; one with a problem changes nothing, and no connection is
    /// touched by one that is taken up.
    ///
    /// When an lb-proxy serves already and the swap socket of its configuration is this one's, this
    /// process takes over its listeners and its connections, and it ends. Otherwise sockets are taken
    /// from systemd where it hands over any by the name of a frontend, and bound where not.
    Serve(ServeArgs<ConfigArgs>),
    /// Check the configuration and print all problems
    ///
    /// Each problem is printed as `file:line:column: message`, after what is legal but odd. Exits with
    /// 0 when there is no problem, and with 78 otherwise. It changes nothing, and does not talk to a
    /// running proxy.
    Check(ConfigArgs),
    /// Print this proxy's configuration for a peer's file
    ///
    /// A part that cannot be carried over is printed as a comment, `# not carried: ...`. Exits with 65 when
    /// the file cannot be understood, or when it keeps clients out in a way that cannot be carried over.
    Import {
        /// The format of the file.
        #[command(subcommand)]
        format: Format,
    },
    /// Ask the running proxy how it is doing
    Status(StatusArgs),
    /// List the sessions of the running proxy
    Sessions {
        /// The sessions.
        #[command(flatten)]
        which: SessionArgs,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
    /// List the busiest sources of frontends that have limits
    ///
    /// At most 50 for each frontend, with their connections and how many they began of late: those with
    /// the most connections first.
    Sources {
        /// Only this frontend.
        #[arg(long, value_name = "NAME")]
        frontend: Option<String>,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Reset sessions of the running proxy
    ///
    /// At least one of the filters is needed; `--all` stands for none.
    Kill {
        /// The sessions.
        #[command(flatten)]
        which: SessionArgs,
        /// All of them.
        #[arg(long, conflicts_with_all = ["id", "frontend", "backend", "server", "client"])]
        all: bool,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Take servers of the running proxy out of service, or back
    ///
    /// The setting holds until it is changed or the process ends; a reload keeps it, and a
    /// successor takes it over. `outpost` and healthd can do the same for all users of a target.
    Backend {
        /// The action.
        #[command(subcommand)]
        verb: BackendVerb,
    },
    /// Say why each server is or is not chosen, and who holds a virtual address
    ///
    /// Asks the running proxy for frontends with their backends, servers with weights, queues and the reasons of the
    /// choice, and virtual addresses with their holder and the reason.
    Explain {
        /// Only this frontend, backend or virtual address, by name or as ADDRESS or ADDRESS:PORT of clients or of a server.
        #[arg(value_name = "NAME|ADDRESS[:PORT]")]
        about: Option<String>,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
}

/// The configuration file and its overrides.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`) [default: /etc/outpost/lb-proxy/lb-proxy.toml]
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["haproxy_cfg", "keepalived_conf"])]
    pub config: Option<PathBuf>,

    /// Configuration file of HAProxy, instead of --config; several in HAProxy's order, and from a directory those that
    /// end in .cfg
    ///
    /// The file is read as `import haproxy.cfg` reads it. A directive without a counterpart is a warning.
    #[arg(long, value_name = "FILE")]
    pub haproxy_cfg: Vec<PathBuf>,

    /// Configuration file of keepalived, instead of --config or beside --haproxy-cfg
    #[arg(long, value_name = "FILE")]
    pub keepalived_conf: Option<PathBuf>,

    /// The id of this machine, for lines of keepalived.conf with `@id ...`; keepalived's own option
    #[arg(long, value_name = "ID", requires = "keepalived_conf")]
    pub config_id: Option<String>,

    /// Serve a peer's file without restrictions that have no counterpart here, and so let in clients that they kept out
    ///
    /// Without this flag such a restriction is an error.
    #[arg(long, conflicts_with = "config")]
    pub accept_open: bool,

    /// Socket of the handover to a successor; wins over the configuration
    #[arg(long, value_name = "PATH|none")]
    pub swap_socket: Option<SwapSocket>,

    #[command(flatten)]
    pub overrides: OverrideArgs,
}

impl ConfigArgs {
    /// The files to serve from.
    #[must_use]
    pub fn source(&self) -> Source {
        if self.haproxy_cfg.is_empty() && self.keepalived_conf.is_none() {
            let config = self.config.clone();
            return Source::Toml(config.unwrap_or_else(|| DEFAULT_CONFIG.into()));
        }
        Source::Peers(Peers {
            haproxy: self.haproxy_cfg.clone(),
            keepalived: self.keepalived_conf.clone(),
            config_id: self.config_id.clone(),
            accept_open: self.accept_open,
        })
    }
}

/// A peer's kind of file.
#[derive(Debug, Subcommand)]
pub enum Format {
    /// haproxy.cfg in TCP mode, as OpenShift's helper node and its own balancer have it
    #[command(name = "haproxy.cfg", alias = "haproxy")]
    Haproxy {
        /// The files, in HAProxy's order; from a directory those that end in .cfg
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Import without restrictions that have no counterpart here, and so let in clients that they kept out
        ///
        /// Without this flag such a restriction is an error.
        #[arg(long)]
        accept_open: bool,
    },
    /// keepalived.conf, with the files that it includes
    #[command(name = "keepalived.conf", alias = "keepalived")]
    Keepalived {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The id of this machine, for lines with `@id ...`; keepalived's own option
        #[arg(long, short = 'i', value_name = "ID")]
        config_id: Option<String>,
    },
}

/// A filter of sessions: all conditions that are given must fit.
#[derive(Clone, Debug, Default, Args)]
pub struct SessionArgs {
    /// The session of this number
    #[arg(long, value_name = "NUMBER")]
    pub id: Option<u64>,
    /// Accepted by this frontend
    #[arg(long, value_name = "NAME")]
    pub frontend: Option<String>,
    /// Sent to this backend
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// On this server
    #[arg(long, value_name = "BACKEND/SERVER")]
    pub server: Option<ServerName>,
    /// From this address or network
    #[arg(long, value_name = "IP[/LENGTH]", value_parser = network)]
    pub client: Option<IpNet>,
}

/// A server of a backend, as `BACKEND/SERVER`; names of servers have no `/`, those of backends may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    /// The backend.
    pub backend: String,
    /// The server.
    pub server: String,
}

impl std::str::FromStr for ServerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('/') {
            Some((backend, server)) if !backend.is_empty() && !server.is_empty() => Ok(Self {
                backend: backend.to_owned(),
                server: server.to_owned(),
            }),
            _ => Err("expected BACKEND/SERVER".to_owned()),
        }
    }
}

/// An address is a network of one.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| "expected an address or a network".to_owned())
}

/// An action on servers. It holds over restarts and swaps, until its end or until an operator takes it back.
#[derive(Debug, Subcommand)]
pub enum BackendVerb {
    /// Let it keep its sessions, and give it no new ones
    Drain(ServerArgs),
    /// Let its probes decide again
    Ready(ServerArgs),
    /// Take it out at once; its sessions end as `on-down` says
    Maintenance(ServerArgs),
    /// Give it another share of connections
    Weight {
        /// The server.
        #[arg(value_name = "BACKEND/SERVER")]
        server: ServerName,
        /// Its weight, 0 to 256; `reset` for the configured one
        #[arg(value_name = "N|reset")]
        weight: Weight,
        /// The terms of the decision.
        #[command(flatten)]
        decision: DecisionArgs,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Let it have more or fewer sessions at a time
    ///
    /// Sessions beyond a smaller number continue. Sessions that nftables forwards are not counted, and
    /// have no limit.
    #[command(visible_alias = "maxconn")]
    MaxConnections {
        /// The server.
        #[arg(value_name = "BACKEND/SERVER")]
        server: ServerName,
        /// How many; `none` for as many as come, `reset` for the configured number
        #[arg(value_name = "N|none|reset")]
        most: SessionLimit,
        /// The terms of the decision.
        #[command(flatten)]
        decision: DecisionArgs,
        /// The running proxy.
        #[command(flatten)]
        status: StatusArgs,
    },
}

/// A server, and where the proxy is.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// The server.
    #[arg(value_name = "BACKEND/SERVER")]
    pub server: ServerName,
    /// The terms of the decision.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// The running proxy.
    #[command(flatten)]
    pub status: StatusArgs,
}

/// A weight, or the configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(pub Option<u16>);

impl std::str::FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("reset", _) => Ok(Self(None)),
            (_, Ok(weight)) if weight <= balance::pool::MAX_WEIGHT => Ok(Self(Some(weight))),
            _ => Err("expected a number from 0 to 256, or `reset`".to_owned()),
        }
    }
}

/// A number of sessions at a time, none, or the configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLimit {
    /// This many.
    Number(NonZeroU32),
    /// As many as come.
    None,
    /// The configured number.
    Reset,
}

impl std::str::FromStr for SessionLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("none", _) => Ok(Self::None),
            ("reset", _) => Ok(Self::Reset),
            (_, Ok(number)) => Ok(Self::Number(number)),
            _ => Err("expected a number from 1, `none` or `reset`".to_owned()),
        }
    }
}

impl fmt::Display for SessionLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::None => formatter.write_str("none"),
            Self::Reset => formatter.write_str("reset"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn files_of_the_peers_stand_in_the_place_of_our_own() {
        let source = |line: &str| {
            let words = ["lb-proxy", "check"]
                .into_iter()
                .chain(line.split_whitespace());
            match Cli::try_parse_from(words).map(|cli| cli.verb) {
                Ok(Verb::Check(config)) => Some(config.source()),
                _ => None,
            }
        };
        assert_eq!(source(""), Some(Source::Toml(DEFAULT_CONFIG.into())));
        assert_eq!(source("-c x"), Some(Source::Toml("x".into())));
        let peers = Peers {
            haproxy: vec!["a".into(), "b".into()],
            keepalived: Some("k".into()),
            config_id: Some("me".to_owned()),
            accept_open: true,
        };
        assert_eq!(
            source(
                "--haproxy-cfg a --haproxy-cfg=b --keepalived-conf k --config-id me --accept-open"
            ),
            Some(Source::Peers(peers))
        );
        for line in [
            "-c x --haproxy-cfg a",
            "-c x --keepalived-conf a",
            "-c x --accept-open",
            "--config-id me",
        ] {
            assert_eq!(source(line), None, "{line}");
        }
    }

    #[test]
    fn servers_and_weights_are_read() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.verb);
        let Ok(Verb::Backend {
            verb: BackendVerb::Weight { server, weight, .. },
        }) = parse("lb-proxy backend weight demo/web/a 20")
        else {
            panic!();
        };
        assert_eq!((&*server.backend, &*server.server), ("demo/web", "a"));
        assert_eq!(weight, Weight(Some(20)));
        assert!(parse("lb-proxy backend weight web/a 257").is_err());
        for (text, expected) in [("20", Some("20")), ("none", Some("none")), ("0", None)] {
            let verb = parse(&format!("lb-proxy backend maxconn web/a {text}"));
            let most = match verb {
                Ok(Verb::Backend {
                    verb: BackendVerb::MaxConnections { most, .. },
                }) => Some(most.to_string()),
                _ => None,
            };
            assert_eq!(most.as_deref(), expected, "{text}");
        }
        assert!(parse("lb-proxy backend drain web").is_err());
        let Ok(Verb::Kill { which, .. }) = parse("lb-proxy kill --client 192.0.2.1") else {
            panic!();
        };
        assert_eq!(which.client, Some("192.0.2.1/32".parse().unwrap()));
        assert!(parse("lb-proxy kill --all --id 1").is_err());
    }
}
