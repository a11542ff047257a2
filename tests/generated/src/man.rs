//! The manual pages of the commands.

use std::path::Path;

use anyhow::Result;
use clap::{Command, CommandFactory as _};

/// Writes a page for each command and each of its verbs.
pub(crate) fn write(directory: &Path) -> Result<()> {
    for command in [
        clusterd::verbs::Command::command(),
        deploy::command(),
        dns_authd::args::Cli::command(),
        dns_recursor::args::Cli::command(),
        healthd::verbs::Command::command(),
        lb_proxy::args::Cli::command(),
        registry_svc::args::Cli::command(),
        timesync_agent::args::Cli::command(),
    ] {
        // A page does not change with the day of the build.
        let command = command.version(daemon::args::PACKAGE_VERSION);
        let name = command.get_name().to_owned();
        page(directory, command.disable_help_subcommand(true), &[&name])?;
    }
    Ok(())
}

/// The page of a command, and those of its verbs; `way` is the command line up to it.
fn page(directory: &Path, command: Command, way: &[&str]) -> Result<()> {
    let name = way.join("-");
    let verbs: Vec<Command> = command.get_subcommands().cloned().collect();
    let named = command.display_name(&name).bin_name(way.join(" "));
    let source = format!("outpost {}", daemon::args::PACKAGE_VERSION);
    let manual = clap_mangen::Man::new(named)
        .title(name.to_uppercase())
        .source(source)
        .manual("Outpost")
        .date("");
    let mut text = Vec::new();
    manual.render(&mut text)?;
    let text = String::from_utf8(text)?;
    crate::write(&directory.join(format!("{name}.1")), &text)?;
    for verb in verbs.into_iter().filter(|verb| !verb.is_hide_set()) {
        let word = verb.get_name().to_owned();
        page(directory, verb, &[way, &[&word]].concat())?;
    }
    Ok(())
}
