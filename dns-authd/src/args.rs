//! The command line.

#![expect(clippy::doc_markdown, reason = "help is printed as it is written")]

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use daemon::args::{OverrideArgs, ServeArgs, StatusArgs};
use pdns_settings::command_line::{self, PeerArgs};

use crate::load::Source;

/// The configuration that is read when none is named.
pub const DEFAULT_CONFIG: &str = "/etc/outpost/dns-authd/dns-authd.toml";

/// Authoritative DNS server with health-checked answers
///
/// Serves zones from BIND master files over UDP, TCP, TLS, HTTPS and QUIC. Answers PowerDNS `LUA` records
/// such as ifportup from healthd's liveness, as fast as plain records.
///
/// Exit codes: 0 done, 64 wrong usage, 65 unreadable file, 69 server not running, 70 failure, 77 no
/// permission, 78 wrong configuration.
#[derive(Debug, Parser)]
#[command(name = "dns-authd", version = daemon::version!(), max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve in the foreground until SIGTERM
    ///
    /// SIGHUP reads the configuration and every changed zone file again. A zone whose new file has an
    /// error keeps the data it had. A configuration with a problem changes nothing. The server also
    /// watches the zone files, so that an edit takes effect at once.
    ///
    /// If systemd hands over sockets named `dns`, these are used. Otherwise the server binds its own.
    Serve(ServeArgs<ConfigArgs>),
    /// Check the configuration, every zone and every LUA record, and print all problems
    ///
    /// Prints each problem with its file, line and column. Exits with 0 when there is none, and with 78
    /// otherwise. Changes nothing, and does not contact a running server.
    Check(ConfigArgs),
    /// Convert another server's configuration file
    ///
    /// Prints the configuration for this server (TOML). Settings without a counterpart become comments,
    /// `# not carried: ...`. Exits with 65 when the file has an error.
    Import {
        #[command(subcommand)]
        format: Format,
    },
    /// Show the state of the running server
    Status(StatusArgs),
    /// Say how a name is answered, and why
    ///
    /// Asks the running server for the zone and its serial, the place of the name in it, the programs that make
    /// the answer, the targets that they follow, and the response.
    Explain {
        /// The name
        #[arg(value_name = "NAME")]
        name: String,
        /// The type of the records
        #[arg(value_name = "TYPE", default_value = "A")]
        rtype: String,
        /// The client that would ask [default: this node]
        #[arg(long, value_name = "IP")]
        client: Option<IpAddr>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// List, show, check, reload or accept zones, and go back to older versions
    Zone {
        #[command(subcommand)]
        verb: ZoneVerb,
    },
}

/// The files to serve from.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`) [default: /etc/outpost/dns-authd/dns-authd.toml]
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["pdns_conf", "config_dir"])]
    pub config: Option<PathBuf>,

    /// Configuration file of PowerDNS, instead of --config
    ///
    /// healthd at --healthd probes the targets of LUA records. Without healthd all targets stay
    /// unknown. Settings of pdns_server may follow as flags, as pdns_server spells them:
    /// --local-port=5301.
    #[arg(long, value_name = "FILE", conflicts_with = "config_dir")]
    pub pdns_conf: Option<PathBuf>,

    #[command(flatten)]
    pub peer: PeerArgs,

    #[command(flatten)]
    pub overrides: OverrideArgs,
}

/// A peer's kind of file.
#[derive(Debug, Subcommand)]
pub enum Format {
    /// pdns.conf of the PowerDNS authoritative server, with the named.conf that it names
    #[command(alias = "pdns.conf")]
    Pdns {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// The zone list of a named.conf
    #[command(alias = "named.conf")]
    Named {
        /// The files.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

/// The verbs of `zone`.
#[derive(Debug, Subcommand)]
pub enum ZoneVerb {
    /// List the running server's zones and their state
    List(StatusArgs),
    /// Print a zone as the running server serves it, as a master file
    Show {
        /// The zone's name.
        name: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Check zone files for likely mistakes, without a running server
    ///
    /// Finds errors, and records that load but are likely wrong: missing glue, data hidden by a
    /// delegation, an alias beside other data, a mail exchange that is an alias, and more. Runs every
    /// LUA record. Without a target, checks all zones of the configuration. Exits with 78 when there is
    /// an error.
    Check {
        /// A zone of the configuration, or a master file
        #[arg(value_name = "NAME|FILE")]
        target: Option<String>,
        /// The name of the zone in a master file that no configuration names
        #[arg(long, value_name = "NAME")]
        origin: Option<String>,
        #[command(flatten)]
        config: Box<ConfigArgs>,
    },
    /// Load a zone, or all, from its files, whether or not they changed
    ///
    /// A zone whose file has an error keeps the data it has. Prints the problems, and exits with 65 if
    /// there are any.
    Reload {
        /// The zone's name; all zones without it
        name: Option<String>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Transfer a zone from its primaries, whatever its serial is
    ///
    /// Prints what became of it, and exits with 65 if it did not come.
    Retransfer {
        /// The zone's name
        name: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Publish the new version of a zone that is held back
    ///
    /// The server holds back a version with the same serial and other data, with a lower serial, or
    /// that loses too many of its records. Exits with 65 when no version is held back.
    Accept {
        /// The zone's name
        name: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Write a zone into its file, with the updates that were laid over it
    ///
    /// Updates (RFC 2136) leave the zone's file as it is. This replaces the file, whole or not at all, by what is
    /// served, in the form of `zone show`: comments and `$INCLUDE` lines are gone. It also makes a rollback
    /// last. Exits with 65 when the file has what is served, or was changed meanwhile.
    Sync {
        /// The zone's name
        name: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// List the versions of a zone that the server published and still has
    History {
        /// The zone's name
        name: String,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Print the difference between two versions of a zone
    ///
    /// Without serials: the difference that a version which is held back would make, or else that of the
    /// last change. Records that go begin with -, those that come with +. Exits with 65 when a version is
    /// not kept.
    Diff {
        /// The zone's name
        name: String,
        /// The serial of the version before
        from: Option<u32>,
        /// The serial of the version after [default: the one in service]
        to: Option<u32>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Publish an older version of a zone again, with a higher serial
    ///
    /// It stays, over restarts too, until the zone's files change. Their new version then needs a higher
    /// serial than the one that the rollback published. Exits with 65 when the version is not kept, or the
    /// zone cannot be rolled back.
    Rollback {
        /// The zone's name
        name: String,
        /// The serial of the older version
        serial: u32,
        #[command(flatten)]
        status: StatusArgs,
    },
}

impl ConfigArgs {
    /// The files that these arguments name.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.peer.file(self.pdns_conf.as_deref(), "pdns") {
            Some(path) => Source::Pdns {
                path,
                arguments: self.peer.all_settings(),
            },
            None => {
                let path = self.config.clone();
                Source::Toml(path.unwrap_or_else(|| PathBuf::from(DEFAULT_CONFIG)))
            }
        }
    }

    /// A problem of the arguments themselves.
    #[must_use]
    pub fn misuse(&self) -> Option<&'static str> {
        let lacks_file = self.peer.lacks_file(self.pdns_conf.as_deref());
        lacks_file.then_some(
            "settings of pdns_server go with --pdns-conf or --config-dir; \
             in a TOML configuration, write `listen`",
        )
    }
}

/// Takes settings of `pdns_server` off a command line, where pdns.conf is named.
#[must_use]
pub fn split_settings(arguments: Vec<String>) -> (Vec<String>, Vec<(String, String)>) {
    let files = ["--pdns-conf", "--config-dir"];
    command_line::split(arguments, &files, Cli::command())
}

#[cfg(test)]
mod tests {
    use proto::endpoint::HealthdArg;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn parse(line: &str) -> ConfigArgs {
        let (arguments, settings) = split_settings(words(line));
        let Verb::Serve(mut serve) = Cli::try_parse_from(arguments).unwrap().verb else {
            panic!("{line}");
        };
        serve.config.peer.settings = settings;
        serve.config
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pdns_server_command_lines_are_taken_as_they_are() {
        let config = parse(
            "dns-authd serve --config-dir=/etc/pdns --local-address=0.0.0.0 --local-port=53 \
             --guardian=no --daemon=no --disable-syslog --log-timestamp=no --write-pid=no",
        );
        let Source::Pdns { path, arguments } = config.source() else {
            panic!();
        };
        assert_eq!(path, PathBuf::from("/etc/pdns/pdns.conf"));
        let has = |key: &str, value: &str| {
            let wanted = (key.to_owned(), value.to_owned());
            assert!(arguments.contains(&wanted), "{wanted:?} in {arguments:?}");
        };
        has("local-address", "0.0.0.0");
        has("local-port", "53");
        has("daemon", "no");
        has("disable-syslog", "yes");
        assert_eq!(config.misuse(), None);
    }

    #[test]
    fn flags_may_stand_apart_from_their_values() {
        let config = parse(
            "dns-authd serve --pdns-conf /x/pdns.conf --local-port 5301 --healthd none \
             --admin 127.0.0.1:0",
        );
        assert_eq!(config.peer.local_port, Some(5301));
        assert_eq!(config.overrides.healthd, Some(HealthdArg(None)));
        let virtual_server = parse("dns-authd serve --config-dir /x --config-name y");
        let Source::Pdns { path, .. } = virtual_server.source() else {
            panic!();
        };
        assert_eq!(path, PathBuf::from("/x/pdns-y.conf"));
    }

    #[test]
    fn a_slot_may_be_named_beside_settings_of_pdns_server() {
        let (arguments, settings) = split_settings(words(
            "dns-authd serve --pdns-conf /x/pdns.conf --slot a --guardian=no \
             --admin-socket=/run/x.sock",
        ));
        let Verb::Serve(serve) = Cli::try_parse_from(arguments).unwrap().verb else {
            panic!();
        };
        assert_eq!(serve.slot.slot.as_deref(), Some("a"));
        assert_eq!(serve.slot.admin_socket, Some(PathBuf::from("/run/x.sock")));
        assert_eq!(settings, [("guardian".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn settings_of_pdns_without_its_file_are_misuse() {
        assert!(parse("dns-authd serve --local-port 53").misuse().is_some());
        assert_eq!(parse("dns-authd serve").misuse(), None);
        let unknown = words("dns-authd serve --guardian=no");
        assert!(Cli::try_parse_from(split_settings(unknown).0).is_err());
    }
}
