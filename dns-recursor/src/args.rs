//! The command line.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are what `--help` prints"
)]

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use daemon::args::{OverrideArgs, ServeArgs, StatusArgs};
use pdns_settings::command_line::{self, PeerArgs};

use crate::load::Source;
use crate::node_hosts::args::NodeHosts;

/// The configuration that is read when none is named.
pub const DEFAULT_CONFIG: &str = "/etc/outpost/dns-recursor/dns-recursor.toml";

/// Forwarding and caching DNS server
///
/// Forwards zones to their authoritative servers, and everything else to other recursive servers. Each
/// query goes to the first upstream of its zone that answers. Answers are cached, and are served stale while
/// no upstream answers.
///
/// Exit codes: 0 done, 64 wrong usage, 65 unreadable file, 69 server not running, 70 failure, 77 no
/// permission, 78 wrong configuration.
#[derive(Debug, Parser)]
#[command(name = "dns-recursor", version = daemon::version!(), max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve in the foreground until SIGTERM
    ///
    /// SIGHUP reads the configuration again. A configuration with a problem changes nothing. The cache is
    /// kept, except for zones whose upstreams have changed.
    ///
    /// If systemd hands over sockets named `dns`, these are used. Otherwise the server binds its own.
    Serve(ServeArgs<ConfigArgs>),
    /// Check the configuration and print all problems
    ///
    /// Prints each problem as `file:line:column: message`. Exits with 0 when there is none, and with 78
    /// otherwise. Changes nothing, and does not contact a running server.
    Check(ConfigArgs),
    /// Convert another server's configuration file
    ///
    /// Prints the configuration for this server (TOML). Settings without a counterpart become comments,
    /// `# not carried: ...`. Exits with 65 when the file has an error, or a setting for safety without a
    /// counterpart that --without does not name.
    Import {
        #[command(subcommand)]
        format: Format,
    },
    /// Show the state of the running server
    Status(StatusArgs),
    /// Say how a name is answered, and why
    ///
    /// Asks the running server for the route of the name and its upstreams, the entries of its cache, and the answer
    /// that a client would get. It asks no upstream, and the cache stays as it is.
    Explain {
        /// The name
        #[arg(value_name = "NAME")]
        name: String,
        /// The type of the records
        #[arg(value_name = "TYPE", default_value = "A")]
        rtype: String,
        /// The client that would ask [default: one that may]
        #[arg(long, value_name = "IP")]
        client: Option<IpAddr>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Show or flush the running server's cache
    Cache {
        #[command(subcommand)]
        verb: CacheVerb,
    },
    /// Show the names, clients and zones with the most queries
    ///
    /// Ranks names, clients and zones by the queries of the last minute or two. A zone is that of a `[[forward]]`, or the last
    /// two labels of the name. Counts are exact until there are many names; then the rank of the heaviest ones is still right.
    Top {
        /// The ranking [default: all three]
        #[arg(value_enum, value_name = "OF")]
        of: Option<TopOf>,
        /// The queries that count
        #[arg(long, value_enum, value_name = "EVENTS", default_value = "queries")]
        by: TopBy,
        /// The length of a ranking, at most 256
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
        count: u16,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Log queries of the running server, or no queries, for a while
    ///
    /// A line of the log has the client, the question, the flags of the query, the transport, the response code, the source of
    /// the answer, how long the client waited and the size of the response. Afterwards `[query-log]` of the configuration is in
    /// force again.
    QueryLog {
        /// `back` ends an earlier command
        #[arg(value_enum, value_name = "TURN")]
        turn: Turn,
        /// How long, at most 24h
        #[arg(long = "for", value_name = "TIME", default_value = "10m")]
        span: String,
        /// Log these responses alone: all, success, denial, error; may be repeated [default: as configured]
        #[arg(long, value_name = "CLASS")]
        class: Vec<String>,
        /// The most lines in a second [default: as configured]
        #[arg(long, value_name = "LINES")]
        rate: Option<u32>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Keep lines for services of the cluster in the node's hosts file
    ///
    /// Replaces OpenShift's node-resolver, and takes its variables SERVICES, NAMESERVER and CLUSTER_DOMAIN. Owns the lines
    /// between `# BEGIN outpost-node-resolver` and `# END outpost-node-resolver`, and changes no other byte of the file. A
    /// service that cannot be looked up keeps its last good addresses. SIGHUP looks all of them up again; SIGTERM leaves the
    /// file as it is.
    NodeHosts(Box<NodeHosts>),
}

/// The files to serve from.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`) [default: /etc/outpost/dns-recursor/dns-recursor.toml]
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["recursor_conf", "config_dir"])]
    pub config: Option<PathBuf>,

    /// Configuration file of PowerDNS Recursor, recursor.conf or recursor.yml, instead of --config
    ///
    /// Settings of pdns_recursor may follow as flags, as pdns_recursor spells them: --local-port=5300.
    #[arg(long, value_name = "FILE", conflicts_with = "config_dir")]
    pub recursor_conf: Option<PathBuf>,

    #[command(flatten)]
    pub peer: PeerArgs,

    #[command(flatten)]
    pub without: WithoutArgs,

    #[command(flatten)]
    pub overrides: OverrideArgs,
}

/// Settings for safety that the operator does without.
#[derive(Clone, Debug, Default, Args)]
pub struct WithoutArgs {
    /// Do without this setting of another server's file, which keeps clients or answers out and has no counterpart
    /// here, such as dnssec; may be repeated
    ///
    /// Without this flag such a setting is an error.
    #[arg(long, value_name = "SETTING")]
    pub without: Vec<String>,
}

/// A peer's kind of file.
#[derive(Debug, Subcommand)]
pub enum Format {
    /// recursor.conf of PowerDNS Recursor, and the files it includes; also with its settings in YAML
    #[command(name = "recursor.conf", aliases = ["recursor", "pdns"], visible_alias = "recursor.yml")]
    RecursorConf {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        without: WithoutArgs,
    },
    /// Corefile of CoreDNS, and the resolv.conf it names
    #[command(name = "corefile", aliases = ["Corefile", "coredns"])]
    Corefile {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        without: WithoutArgs,
    },
    /// Name servers of a resolv.conf
    #[command(name = "resolv.conf", alias = "resolv")]
    ResolvConf {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// dnsmasq.conf, and the files it includes
    #[command(name = "dnsmasq.conf", alias = "dnsmasq")]
    Dnsmasq {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        without: WithoutArgs,
    },
}

/// A ranking of `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopOf {
    Names,
    Clients,
    Zones,
}

/// The queries that `top` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    /// All queries
    Queries,
    /// Queries for which upstreams were asked
    Misses,
    /// Queries that failed
    Servfail,
}

/// A command for the query log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Turn {
    /// Log queries
    On,
    /// Log none
    Off,
    /// As configured
    Back,
}

/// The verbs of `cache`.
#[derive(Debug, Subcommand)]
pub enum CacheVerb {
    /// Print the cached records with their remaining TTLs
    Dump {
        /// Only this name; with `$` at the end, also all names below it
        #[arg(value_name = "NAME[$]")]
        name: Option<String>,
        #[command(flatten)]
        status: StatusArgs,
    },
    /// Drop cached answers
    Flush {
        /// Only this name; with `$` at the end, also all names below it
        #[arg(value_name = "NAME[$]")]
        name: Option<String>,
        #[command(flatten)]
        status: StatusArgs,
    },
}

impl ConfigArgs {
    /// The files that these arguments name.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.peer.file(self.recursor_conf.as_deref(), "recursor") {
            Some(path) => Source::RecursorConf {
                path,
                arguments: self.peer.all_settings(),
                without: self.without.without.clone(),
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
        let lacks_file = self.peer.lacks_file(self.recursor_conf.as_deref());
        lacks_file.then_some(
            "settings of pdns_recursor go with --recursor-conf or --config-dir; \
             in a TOML configuration, write `listen`",
        )
    }
}

/// Takes settings of `pdns_recursor` off a command line, where recursor.conf is named.
#[must_use]
pub fn split_settings(arguments: Vec<String>) -> (Vec<String>, Vec<(String, String)>) {
    let files = ["--recursor-conf", "--config-dir"];
    command_line::split(arguments, &files, Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ConfigArgs {
        let words = line.split(' ').map(str::to_owned).collect();
        let (arguments, settings) = split_settings(words);
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
    fn pdns_recursor_command_lines_are_taken_as_they_are() {
        let config = parse(
            "dns-recursor serve --config-dir=/etc/pdns-recursor --local-address=0.0.0.0 \
             --local-port=5300 --daemon=no --disable-syslog --write-pid=no",
        );
        let Source::RecursorConf {
            path, arguments, ..
        } = config.source()
        else {
            panic!();
        };
        assert_eq!(path, PathBuf::from("/etc/pdns-recursor/recursor.conf"));
        for (key, value) in [
            ("local-address", "0.0.0.0"),
            ("local-port", "5300"),
            ("daemon", "no"),
            ("disable-syslog", "yes"),
        ] {
            assert!(
                arguments.contains(&(key.to_owned(), value.to_owned())),
                "{key}"
            );
        }
        assert_eq!(config.misuse(), None);
    }

    #[test]
    fn a_slot_may_be_named_beside_settings_of_pdns_recursor() {
        let line = "dns-recursor serve --config-dir=/x --slot b --daemon=no";
        let words = line.split(' ').map(str::to_owned).collect();
        let (arguments, settings) = split_settings(words);
        let Verb::Serve(serve) = Cli::try_parse_from(arguments).unwrap().verb else {
            panic!();
        };
        assert_eq!(serve.slot.slot.as_deref(), Some("b"));
        assert_eq!(settings, [("daemon".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn what_the_operator_does_without_is_no_setting_of_pdns() {
        let config = parse(
            "dns-recursor serve --config-dir=/x --dnssec=validate --without dnssec \
             --without=dont-query",
        );
        let Source::RecursorConf {
            arguments, without, ..
        } = config.source()
        else {
            panic!();
        };
        assert_eq!(arguments, [("dnssec".to_owned(), "validate".to_owned())]);
        assert_eq!(without, ["dnssec", "dont-query"]);
    }

    #[test]
    fn settings_of_pdns_without_its_file_are_misuse() {
        assert!(
            parse("dns-recursor serve --local-port 53")
                .misuse()
                .is_some()
        );
        assert_eq!(parse("dns-recursor serve").misuse(), None);
        assert_eq!(
            parse("dns-recursor serve").source(),
            Source::Toml(PathBuf::from(DEFAULT_CONFIG))
        );
        let virtual_server = parse("dns-recursor serve --config-dir /x --config-name y");
        let Source::RecursorConf { path, .. } = virtual_server.source() else {
            panic!();
        };
        assert_eq!(path, PathBuf::from("/x/recursor-y.conf"));
    }
}
