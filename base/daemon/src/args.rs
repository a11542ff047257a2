//! The command-line arguments every daemon has, so that all of them read the same.
//!
//! A service embeds these in its own `clap` enum of verbs and adds what is its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use health::HealthdArg;

use crate::config::Common;
use crate::exit;
use crate::log::{Format, Level};

/// Package version, git revision and build date: `0.1.0 (git 1a2b3c4d5, built 2026-11-21)`.
pub const VERSION: &str = env!("OUTPOST_VERSION");

/// The package version alone: `0.1.0`.
pub const PACKAGE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The git revision the program was built from, or `unknown`.
pub const REVISION: &str = env!("OUTPOST_REVISION");

/// The text of `--version`, for `#[command(version = daemon::version!())]`.
#[macro_export]
macro_rules! version {
    () => {
        $crate::args::VERSION
    };
}

/// Understands a command line, its first argument being the program's name. On `Err` everything is said:
/// help and version on standard output, which is no error, and what is wrong on standard error.
///
/// # Errors
///
/// The code to exit with.
pub fn parse<C: clap::Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<C, ExitCode> {
    C::try_parse_from(arguments).map_err(|error| {
        // A closed pipe is no reason to fail.
        drop(error.print());
        exit::code(match error.use_stderr() {
            true => exit::USAGE,
            false => exit::OK,
        })
    })
}

/// Arguments of `serve`: those of `C`, which say what to serve, and those of every daemon.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServeArgs<C: clap::Args> {
    /// The configuration to serve.
    #[command(flatten)]
    pub config: C,

    /// How much to log and in which form.
    #[command(flatten)]
    pub log: LogArgs,

    /// The slot of this process.
    #[command(flatten)]
    pub slot: SlotArgs,
}

/// Arguments that tell the processes of one service apart while one takes over from the other.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SlotArgs {
    /// Name of the slot this process runs in, which `/status` shows
    #[arg(long, value_name = "NAME")]
    pub slot: Option<String>,

    /// Unix socket of this process's own that answers what the admin listener answers, and takes changes
    ///
    /// While two processes of a service overlap only one has the admin address; at this path each
    /// can be asked. Owner and group of the file may connect: root and the service's own user may do
    /// everything, and the group's members are operators. In a directory with the set-group-ID bit the
    /// group is the directory's. The file goes when the process ends.
    #[arg(long, value_name = "PATH")]
    pub admin_socket: Option<PathBuf>,
}

/// Arguments that say how to log; they win over the configuration file.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct LogArgs {
    /// Log events of this level and above; wins over the configuration file
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    pub log_level: Option<Level>,

    /// Form of the log on standard error; wins over the configuration file
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub log_format: Option<Format>,
}

fn level() -> impl TypedValueParser<Value = Level> {
    let words = Level::ALL.map(Level::name);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Level>())
}

fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(["text", "json"]).map(|word| match word.as_str() {
        "json" => Format::Json,
        _ => Format::Text,
    })
}

/// Addresses of a service that follows healthd, in the place of those in its configuration.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OverrideArgs {
    /// Address of healthd; wins over the configuration
    #[arg(long, value_name = "unix:PATH|http://IP:PORT|none")]
    pub healthd: Option<HealthdArg>,

    /// The admin listener.
    #[command(flatten)]
    pub admin: AdminArgs,
}

impl OverrideArgs {
    /// Puts them in the place of what the configuration says.
    pub fn apply(&self, healthd: &mut HealthdArg, common: &mut Common) {
        if let Some(given) = &self.healthd {
            healthd.clone_from(given);
        }
        self.admin.apply(common);
    }
}

/// The address of the admin listener, in the place of the one in the configuration.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct AdminArgs {
    /// Address of the admin listener; wins over the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub admin: Option<SocketAddr>,
}

impl AdminArgs {
    /// Puts it in the place of what the configuration says.
    pub const fn apply(self, common: &mut Common) {
        if self.admin.is_some() {
            common.admin = self.admin;
        }
    }
}

/// Arguments of `status`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StatusArgs {
    /// Address of the running daemon's admin listener
    #[arg(long, value_name = "IP:PORT")]
    pub admin: Option<SocketAddr>,

    /// Unix socket of the running daemon (its `--admin-socket`); wins over the address
    ///
    /// Without it, a verb that changes something finds the socket in the daemon's status.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Print the daemon's answer as JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Args)]
    struct Config {
        #[arg(long)]
        config: Option<PathBuf>,
    }

    #[derive(Parser)]
    #[command(version = crate::version!())]
    struct Command {
        #[command(flatten)]
        serve: ServeArgs<Config>,
        #[command(flatten)]
        status: StatusArgs,
    }

    #[test]
    fn the_common_arguments_are_understood() {
        let command = Command::try_parse_from([
            "x",
            "--config",
            "/etc/x.toml",
            "--log-level",
            "debug",
            "--log-format",
            "json",
            "--admin",
            "127.0.0.1:9402",
            "--json",
        ])
        .ok()
        .unwrap();
        assert_eq!(
            command.serve.config.config,
            Some(PathBuf::from("/etc/x.toml"))
        );
        assert_eq!(command.serve.log.log_level, Some(Level::Debug));
        assert_eq!(command.serve.log.log_format, Some(Format::Json));
        assert!(command.status.json);
    }

    #[test]
    fn help_is_no_error_and_nonsense_is_wrong_usage() {
        // An exit code shows itself in no other way.
        let code = |argument| {
            parse::<Command>(["x", argument])
                .err()
                .map(|c| format!("{c:?}"))
        };
        let expected = |code| Some(format!("{:?}", exit::code(code)));
        assert_eq!(code("--help"), expected(exit::OK));
        assert_eq!(code("--version"), expected(exit::OK));
        assert_eq!(code("--nonsense"), expected(exit::USAGE));
        assert_eq!(code("--json"), None);
    }

    #[test]
    fn the_version_names_package_revision_and_date() {
        assert!(VERSION.starts_with(PACKAGE_VERSION), "{VERSION}");
        assert!(VERSION.contains("(git "), "{VERSION}");
        assert!(VERSION.contains(", built 20"), "{VERSION}");
    }
}
