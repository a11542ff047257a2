//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use daemon::args::{LogArgs, OverrideArgs, ServeArgs as BaseServeArgs, StatusArgs};

use crate::chronyc_cli::args::{
    AddressArgs, BurstArgs, LinkArgs, MakeStepArgs, ReportArgs, WaitSyncArgs,
};

/// The configuration that is read when none is named.
pub const DEFAULT_CONFIG: &str = "/etc/outpost/timesync-agent/timesync-agent.toml";

/// NTP client and server: one time for a site, also on an island
///
/// Follows NTP servers and clocks of this machine, corrects the system's clock, and gives the time to who may ask. Starts
/// from its own configuration or from a chrony.conf, and answers chronyc.
///
/// Exit codes: 0 done, 64 usage, 65 a file that cannot be understood, 69 not there, 70 failure, 77 no
/// permission, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "timesync-agent", version = daemon::version!(), max_term_width = 100)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve in the foreground until SIGTERM
    ///
    /// SIGHUP reads the configuration again; one with a problem changes nothing. Sockets are taken from systemd where it
    /// hands over any by the name `ntp`, and bound where not.
    Serve(ServeArgs),
    /// Keep the time with one thread, and nothing beside it
    ///
    /// For small machines and for simulators: no admin listener, no metrics, no healthd and no commands. Clients are answered by
    /// the same thread. Ends on SIGTERM.
    Solo(OwnArgs),
    /// Check the configuration and print all problems
    ///
    /// Prints each problem as `file:line:column: message`, after the lines that are legal but odd. Exits with 0 when there is
    /// no problem, and with 78 otherwise. Changes nothing, and does not contact a running agent.
    Check(ConfigArgs),
    /// Print this agent's configuration for a peer's file
    ///
    /// Prints what the agent has no option for as a comment, `# not carried: ...`. Exits with 65 when the file cannot be
    /// understood.
    Import {
        /// The kind of file.
        #[command(subcommand)]
        format: Format,
    },
    /// Put a recorded measurements log through the filter
    ///
    /// Reads logs that chronyd and this agent write with `log measurements`, and prints for each source how well the filter
    /// predicted its samples. Touches no clock and queries no server.
    Replay {
        /// The log.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Ask the running agent how it is doing
    Status(StatusArgs),
    /// The clock and what it follows, as `chronyc tracking` prints it
    Tracking(ReportArgs),
    /// All sources, as `chronyc sources` prints them
    Sources(ReportArgs),
    /// Statistics of all sources, as `chronyc sourcestats` prints them
    #[command(name = "sourcestats")]
    SourceStats(ReportArgs),
    /// The result of selection for all sources, as `chronyc selectdata` prints it; local users alone
    #[command(name = "selectdata")]
    SelectData(ReportArgs),
    /// How many sources do what, as `chronyc activity` prints it
    Activity(ReportArgs),
    /// How clients are served smooth time, as `chronyc smoothing` prints it
    Smoothing(ReportArgs),
    /// The last packet of a source, or of each, as `chronyc ntpdata` prints it; local users alone
    #[command(name = "ntpdata")]
    NtpData {
        /// The address of the source.
        #[arg(value_name = "ADDRESS")]
        address: Option<IpAddr>,
        /// How.
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Counters of the server, as `chronyc serverstats` prints them; local users alone
    #[command(name = "serverstats")]
    ServerStats(ReportArgs),
    /// Clients that asked for the time, as `chronyc clients` prints them; local users alone
    Clients(ReportArgs),
    /// Wait until the clock follows a source, as `chronyc waitsync` does
    ///
    /// Exits with 0 once it does, and with 1 after the given number of tries.
    #[command(name = "waitsync")]
    WaitSync(WaitSyncArgs),
    /// Step the clock by what is left to be corrected, or say when it is to be stepped from here on
    #[command(name = "makestep")]
    MakeStep(MakeStepArgs),
    /// Ask sources many times in a row
    Burst(BurstArgs),
    /// Ask sources again that were said to be offline
    Online(AddressArgs),
    /// Do not ask sources until they are said to be online
    Offline(AddressArgs),
    /// Choose a source again
    Reselect(LinkArgs),
    /// Resolve names again
    Refresh(LinkArgs),
    /// Read the keys again
    Rekey(LinkArgs),
}

/// A peer's kind of file.
#[derive(Debug, Subcommand)]
pub enum Format {
    /// chrony.conf, with everything it includes
    #[command(name = "chrony", aliases = ["chrony.conf", "chronyd"])]
    Chrony {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// The configuration files.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`)
    #[arg(long, short, value_name = "FILE", conflicts_with = "chrony_conf")]
    pub config: Option<PathBuf>,

    /// Start from this chrony.conf, with everything it includes
    ///
    /// The agent's own options (admin listener, healthd, logs) have their defaults, or come from the other arguments.
    #[arg(long, value_name = "FILE")]
    pub chrony_conf: Option<PathBuf>,

    /// Leave the clock alone: no privilege is needed, and the time that clients are given is what it says
    #[arg(long, short = 'x')]
    pub no_clock: bool,

    #[command(flatten)]
    pub overrides: OverrideArgs,
}

/// Arguments of `serve`.
#[derive(Clone, Debug, Default, Args)]
// The group of the arguments that every daemon has goes by this name.
#[group(skip)]
pub struct ServeArgs {
    /// The configuration files, and the arguments of every daemon.
    #[command(flatten)]
    pub base: BaseServeArgs<ConfigArgs>,

    /// Set the clock once and exit
    #[arg(long = "set-once", short = 'q', group = "once")]
    pub set_once: bool,

    /// Measure once, print how far the clock is off, and exit; the clock is left alone
    #[arg(long = "measure-once", short = 'Q', group = "once")]
    pub measure_once: bool,

    /// Set or measure within this many seconds, or fail
    #[arg(long, short = 't', value_name = "SECONDS", requires = "once")]
    pub timeout: Option<u32>,
}

/// Arguments of `solo`.
#[derive(Clone, Debug, Default, Args)]
pub struct OwnArgs {
    /// The configuration files.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// How much to log and in which form.
    #[command(flatten)]
    pub log: LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_the_peer_are_understood() {
        let words = [
            "timesync-agent",
            "serve",
            "--chrony-conf",
            "/etc/chrony.conf",
            "-x",
            "-Q",
        ];
        let Verb::Serve(args) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("another verb");
        };
        assert!(args.base.config.no_clock && args.measure_once && !args.set_once);
        assert_eq!(
            args.base.config.chrony_conf,
            Some(PathBuf::from("/etc/chrony.conf"))
        );
        let both = [
            "timesync-agent",
            "serve",
            "--chrony-conf",
            "a",
            "--config",
            "b",
        ];
        assert!(Cli::try_parse_from(both).is_err());
        // What would be passed over in silence is refused.
        for (flags, is_understood) in [
            (&["-q", "-t", "5"][..], true),
            (&["-Q", "-t", "5"], true),
            (&["-t", "5"], false),
            (&["-q", "-Q"], false),
        ] {
            let words = ["timesync-agent", "serve"].iter().chain(flags);
            assert_eq!(
                Cli::try_parse_from(words).is_ok(),
                is_understood,
                "{flags:?}"
            );
        }
    }
}
