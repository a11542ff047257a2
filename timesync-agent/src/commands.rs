//! The verbs of the command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitCode;

use ::config::Refused;
use ::config::timesync_agent::TimesyncAgent;
use daemon::args::{self, LogArgs};
use daemon::config::Problem;
use daemon::log::LogSettings;
use daemon::{errln, exit, outln, run};

use crate::args::{Cli, ConfigArgs, Format, OwnArgs, ServeArgs, Verb};
use crate::chronyc_cli::{self, Verb as Ask};
use crate::config::{self, Config, DEFAULT_ADMIN, files};
use crate::keys;
use crate::measure_once::{self, Mode};
use crate::service::Timesync;
use crate::single_thread;
use crate::status;
use chronyc::request::Command;
use ntp::keys::KeyRing;
use ntp_sim::replay::Replay;
use time_model::settings::{Bounds, Settings};
use time_model::time::{SECOND, Span};

/// The problem of a configuration all of whose sources were left out. A daemon starts all the same: other sources may come.
const NO_SOURCE: &str = "no usable source is left: the warnings say why";

/// Runs the command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Serve(args) => serve(&args),
        Verb::Solo(args) => keep(&args),
        Verb::Check(args) => check(&args),
        Verb::Import { format } => import(&format),
        Verb::Replay { file } => replay(&file),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
        Verb::Tracking(args) => chronyc_cli::run(&Ask::Tracking(&args)),
        Verb::Sources(args) => chronyc_cli::run(&Ask::Sources(&args)),
        Verb::SourceStats(args) => chronyc_cli::run(&Ask::SourceStats(&args)),
        Verb::SelectData(args) => chronyc_cli::run(&Ask::SelectData(&args)),
        Verb::Activity(args) => chronyc_cli::run(&Ask::Activity(&args)),
        Verb::Smoothing(args) => chronyc_cli::run(&Ask::Smoothing(&args)),
        Verb::NtpData { address, report } => chronyc_cli::run(&Ask::NtpData(&report, address)),
        Verb::ServerStats(args) => chronyc_cli::run(&Ask::ServerStats(&args)),
        Verb::Clients(args) => chronyc_cli::run(&Ask::Clients(&args)),
        Verb::WaitSync(args) => chronyc_cli::run(&Ask::WaitSync(&args)),
        Verb::MakeStep(args) => chronyc_cli::run(&Ask::MakeStep(&args)),
        Verb::Burst(args) => chronyc_cli::run(&Ask::Burst(&args)),
        Verb::Online(args) => chronyc_cli::run(&Ask::Online(&args)),
        Verb::Offline(args) => chronyc_cli::run(&Ask::Offline(&args)),
        Verb::Reselect(link) => chronyc_cli::run(&Ask::Plain(&link, Command::Reselect)),
        Verb::Refresh(link) => chronyc_cli::run(&Ask::Plain(&link, Command::Refresh)),
        Verb::Rekey(link) => chronyc_cli::run(&Ask::Plain(&link, Command::Rekey)),
    }
}

/// Reads a log line by line: it may be larger than memory.
fn replay(path: &Path) -> ExitCode {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            errln!("{}: {error}", path.display());
            return ExitCode::from(exit::DATA);
        }
    };
    let mut replay = Replay::new(&Settings::default());
    for (line, text) in (1_u64..).zip(BufReader::new(file).lines()) {
        let taken = text
            .map_err(|error| error.to_string())
            .and_then(|text| replay.line(&text).map_err(|error| error.to_string()));
        if let Err(error) = taken {
            errln!("{}:{line}: {error}", path.display());
            return ExitCode::from(exit::DATA);
        }
    }
    outln!("{}", replay.report().trim_end());
    ExitCode::SUCCESS
}

fn serve(args: &ServeArgs) -> ExitCode {
    if args.set_once || args.measure_once {
        return measure(args);
    }
    run::serve::<Timesync, _>(&args.base, config::read)
}

/// `-q` and `-Q`: says what chronyd says, and exits with 0 only if something was measured.
fn measure(args: &ServeArgs) -> ExitCode {
    let config = match read(&args.base.config, args.base.log) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let (mode, done) = match args.measure_once || !config.file.correct_clock {
        true => (Mode::Measure, "ignored"),
        false => (Mode::Set, "step"),
    };
    let timeout = args
        .timeout
        .map(|seconds| Span(i64::from(seconds) * SECOND));
    match measure_once::run(&config.settings, read_keys(&config), mode, timeout) {
        Ok(offset) => {
            outln!(
                "System clock wrong by {:.6} seconds ({done})",
                offset.seconds()
            );
            exit::code(exit::OK)
        }
        Err(error) => {
            exit::report(&error);
            exit::code(exit::UNAVAILABLE)
        }
    }
}

fn keep(args: &OwnArgs) -> ExitCode {
    let config = match read(&args.config, args.log) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match single_thread::run(
        &config.settings,
        read_keys(&config),
        config.file.correct_clock,
    ) {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            exit::report(&error);
            exit::code(exit::SOFTWARE)
        }
    }
}

fn read_keys(config: &Config) -> KeyRing {
    let (ring, warnings) = keys::read(&config.settings);
    for warning in warnings {
        tracing::warn!(warning, "The keys have a problem");
    }
    ring
}

/// The configuration, and the log as it and the command line say; or the code to exit with.
fn read(args: &ConfigArgs, log: LogArgs) -> Result<Config, ExitCode> {
    let mut config = config::read(args).map_err(|problems| {
        errln!("{problems}");
        exit::code(exit::CONFIG)
    })?;
    // A simulator's clock starts in any year, and a single measurement sets nothing that lasts.
    config.settings.bounds = Bounds::default();
    daemon::log::start(LogSettings {
        level: log.log_level.unwrap_or(config.common.log.level),
        format: log.log_format.unwrap_or(config.common.log.format),
    });
    Ok(config)
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = config::read(args);
    if let Ok(config) = &checked {
        let of_files = files::warnings(&config.settings);
        for warning in &config.warnings {
            outln!("warning: {warning}");
        }
        for warning in &of_files {
            outln!("warning: {warning}");
        }
    }
    let checked = checked.and_then(|config| match config.lacks_source {
        true => Err(Problem::new(NO_SOURCE).into()),
        false => Ok(config),
    });
    run::check(checked, Config::summary)
}

fn import(format: &Format) -> ExitCode {
    let Format::Chrony { file } = format;
    match config::import(file) {
        Ok(conf) => run::import(&conf.files, Ok::<_, Refused>(conf.draft)),
        Err(refused) => run::import::<TimesyncAgent>(&[], Err(refused)),
    }
}
