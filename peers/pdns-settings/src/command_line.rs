//! PowerDNS's command lines: the place of its file, and settings such as `--daemon=no`, which are too many
//! to be flags of ours.
//!
//! Both stand beside our own flags on one line. The parser itself says which flags are our own, so that
//! none can be taken for a setting.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Command};

/// Flags of PowerDNS's servers.
#[derive(Clone, Debug, Default, Args)]
pub struct PeerArgs {
    /// Directory of PowerDNS's configuration file
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,

    /// Name of a virtual server of PowerDNS, at the end of the file's name: -NAME.conf
    #[arg(long, value_name = "NAME")]
    pub config_name: Option<String>,

    /// Addresses to listen on, in PowerDNS's form; overrides its file
    #[arg(long, value_name = "ADDRESSES")]
    pub local_address: Option<String>,

    /// Port to listen on, in PowerDNS's form; overrides its file
    #[arg(long, value_name = "PORT")]
    pub local_port: Option<u16>,

    /// Further settings, which [`split`] takes off the command line before it is parsed.
    #[arg(skip)]
    pub settings: Vec<(String, String)>,
}

impl PeerArgs {
    /// The peer's file: the one that is named, else that of this stem in the directory.
    #[must_use]
    pub fn file(&self, named: Option<&Path>, stem: &str) -> Option<PathBuf> {
        let name = match &self.config_name {
            Some(name) => format!("{stem}-{name}.conf"),
            None => format!("{stem}.conf"),
        };
        match (named, &self.config_dir) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(directory)) => Some(directory.join(name)),
            (None, None) => None,
        }
    }

    /// Every setting of the command line; when two have one name the last counts.
    #[must_use]
    pub fn all_settings(&self) -> Vec<(String, String)> {
        let mut settings = self.settings.clone();
        let address = self.local_address.clone();
        settings.extend(address.map(|address| ("local-address".to_owned(), address)));
        let port = self.local_port.map(|port| port.to_string());
        settings.extend(port.map(|port| ("local-port".to_owned(), port)));
        settings
    }

    /// Whether an argument needs the peer's file while there is none.
    #[must_use]
    pub fn lacks_file(&self, named: Option<&Path>) -> bool {
        let has_file = named.is_some() || self.config_dir.is_some();
        let is_used = self.local_address.is_some()
            || self.local_port.is_some()
            || self.config_name.is_some()
            || !self.settings.is_empty();
        is_used && !has_file
    }
}

/// Splits a command line into our own arguments and a peer's settings with their values.
///
/// Takes a setting only if one of `files`, the flags that name the peer's files, is there; only in the
/// peer's form, with `=` or without a value; and never a flag that `command` or a verb of it has.
#[must_use]
pub fn split(
    arguments: Vec<String>,
    files: &[&str],
    mut command: Command,
) -> (Vec<String>, Vec<(String, String)>) {
    let names_a_file = |argument: &String| {
        files.iter().any(|flag| {
            let rest = argument.strip_prefix(flag);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    if !arguments.iter().any(names_a_file) {
        return (arguments, Vec::new());
    }
    // This also adds the flags that every verb has, such as --help.
    command.build();
    let own = flags(&command);
    let mut kept = Vec::new();
    let mut settings = Vec::new();
    for argument in arguments {
        let long = argument.strip_prefix("--").filter(|rest| !rest.is_empty());
        let key = long.map(|rest| rest.split_once('=').map_or(rest, |(key, _)| key));
        match (long, key) {
            (Some(long), Some(key)) if !own.contains(key) => {
                let value = long.split_once('=').map_or("yes", |(_, value)| value);
                settings.push((key.to_owned(), value.to_owned()));
            }
            _ => kept.push(argument),
        }
    }
    (kept, settings)
}

/// The long flags of a command and of all its verbs, without their `--`.
fn flags(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().flat_map(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long().into_iter().chain(aliases)
    });
    let own = own.map(str::to_owned);
    own.chain(command.get_subcommands().flat_map(flags))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(version = "1")]
    struct Cli {
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Debug, Subcommand)]
    enum Verb {
        Serve {
            #[arg(long)]
            pdns_conf: Option<PathBuf>,
            #[arg(long, alias = "level")]
            log_level: Option<String>,
            #[command(flatten)]
            peer: PeerArgs,
        },
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn split_line(line: &str) -> (Vec<String>, Vec<(String, String)>) {
        let command = <Cli as clap::CommandFactory>::command();
        split(words(line), &["--pdns-conf", "--config-dir"], command)
    }

    fn check(line: &str, kept: &str, settings: &[(&str, &str)]) {
        let expected: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(split_line(line), (words(kept), expected), "{line}");
    }

    #[test]
    fn settings_are_told_from_flags() {
        check("x serve --daemon=no", "x serve --daemon=no", &[]);
        check(
            "x serve --pdns-conference --daemon",
            "x serve --pdns-conference --daemon",
            &[],
        );
        check(
            "x serve --pdns-conf x --daemon=no --guardian --log-level debug --a=b=c --level=info",
            "x serve --pdns-conf x --log-level debug --level=info",
            &[("daemon", "no"), ("guardian", "yes"), ("a", "b=c")],
        );
        check(
            "x --pdns-conf=x -- -v --=y --version --help",
            "x --pdns-conf=x -- -v --version --help",
            &[("", "y")],
        );
    }

    fn parse(line: &str) -> (Option<PathBuf>, PeerArgs) {
        let (arguments, settings) = split_line(line);
        let Verb::Serve {
            pdns_conf,
            log_level,
            mut peer,
        } = Cli::try_parse_from(arguments).unwrap().verb;
        assert_eq!(log_level, None, "{line}");
        peer.settings = settings;
        (pdns_conf, peer)
    }

    #[test]
    fn the_file_is_the_one_named_or_that_of_the_directory() {
        for (line, expected) in [
            ("x serve", None),
            ("x serve --config-dir /a", Some("/a/pdns.conf")),
            (
                "x serve --config-dir=/a --config-name b",
                Some("/a/pdns-b.conf"),
            ),
            ("x serve --pdns-conf /c --config-name b", Some("/c")),
        ] {
            let (named, peer) = parse(line);
            let file = peer.file(named.as_deref(), "pdns");
            assert_eq!(file, expected.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn settings_go_with_a_file() {
        for (line, lacks, n_settings) in [
            ("x serve", false, 0),
            ("x serve --local-port 53", true, 1),
            ("x serve --local-address=::", true, 1),
            ("x serve --config-name b", true, 0),
            (
                "x serve --config-dir /a --local-port 53 --daemon --b=1",
                false,
                3,
            ),
        ] {
            let (named, peer) = parse(line);
            assert_eq!(peer.lacks_file(named.as_deref()), lacks, "{line}");
            assert_eq!(peer.all_settings().len(), n_settings, "{line}");
        }
    }
}
