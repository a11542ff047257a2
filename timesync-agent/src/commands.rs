//! The verbs of the command line.

use std::ffi::OsString;
use std::process::ExitCode;

use daemon_base::args::{self, ServeArgs as BaseServeArgs};
use daemon_base::{errln, exit, outln, run};

use crate::args::{Cli, ConfigArgs, Format, ServeArgs, Verb};
use crate::chronyc::{self, Verb as Ask};
use crate::cmdmon::request::Command;
use crate::config::{self, Config, DEFAULT_ADMIN};
use crate::service::{Timesync, keys};
use crate::status;

/// Runs the command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Serve(args) => serve(&args),
        Verb::Check(args) => check(&args),
        Verb::Import { format } => import(&format),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
        Verb::Tracking(args) => chronyc::run(&Ask::Tracking(&args)),
        Verb::Sources(args) => chronyc::run(&Ask::Sources(&args)),
        Verb::SourceStats(args) => chronyc::run(&Ask::SourceStats(&args)),
        Verb::SelectData(args) => chronyc::run(&Ask::SelectData(&args)),
        Verb::Activity(args) => chronyc::run(&Ask::Activity(&args)),
        Verb::NtpData { address, report } => chronyc::run(&Ask::NtpData(&report, address)),
        Verb::ServerStats(args) => chronyc::run(&Ask::ServerStats(&args)),
        Verb::Clients(args) => chronyc::run(&Ask::Clients(&args)),
        Verb::WaitSync(args) => chronyc::run(&Ask::WaitSync(&args)),
        Verb::MakeStep(args) => chronyc::run(&Ask::MakeStep(&args)),
        Verb::Burst(args) => chronyc::run(&Ask::Burst(&args)),
        Verb::Online(args) => chronyc::run(&Ask::Online(&args)),
        Verb::Offline(args) => chronyc::run(&Ask::Offline(&args)),
        Verb::Reselect(link) => chronyc::run(&Ask::Plain(&link, Command::Reselect)),
        Verb::Refresh(link) => chronyc::run(&Ask::Plain(&link, Command::Refresh)),
        Verb::Rekey(link) => chronyc::run(&Ask::Plain(&link, Command::Rekey)),
    }
}

fn serve(args: &ServeArgs) -> ExitCode {
    let base = BaseServeArgs {
        config: args.config.config.clone(),
        log: args.log,
    };
    run::serve::<Timesync>(&base, || config::read(&args.config))
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = config::read(args);
    if let Ok(config) = &checked {
        let (_, of_keys) = keys::read(config.settings.key_file.as_deref());
        for warning in config.warnings.iter().chain(&of_keys) {
            outln!("warning: {warning}");
        }
    }
    run::check(checked, Config::summary)
}

fn import(format: &Format) -> ExitCode {
    let Format::Chrony { file } = format;
    match config::import(file) {
        Ok((toml, remarks)) => {
            daemon_base::print::out(format_args!("{toml}"));
            for remark in remarks {
                errln!("{remark}");
            }
            exit::code(exit::OK)
        }
        Err(problems) => {
            errln!("{problems}");
            exit::code(exit::DATA)
        }
    }
}
