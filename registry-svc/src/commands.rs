//! The verbs of the command line.

mod inspect;
mod maintenance;
mod query;
mod recover;
mod transfer;

use std::io::Read as _;
use std::process::ExitCode;

use config_text::web::encoded;
use daemon::args;
use daemon::config::{Problem, Problems};
use daemon::{errln, exit, outln, run};

use crate::args::{Cli, ConfigArgs, NodeVerb, Verb};
use crate::config::{Config, DEFAULT_ADMIN};
use crate::machine::Machine;
use crate::maintenance::Task;
use crate::service::{self, Registry};
use crate::views::View;
use crate::{status, tls};

/// Runs the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    run_on(&Machine::default(), arguments)
}

/// Runs the command line on a machine, with which its service lives.
pub fn run_on(machine: &Machine, arguments: Vec<String>) -> ExitCode {
    let cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Serve(args) => run::serve::<Registry, _>(&args, |args| {
            let config = read(args)?;
            Ok(Config {
                machine: machine.clone(),
                ..config
            })
        }),
        Verb::Check(args) => check(&args),
        Verb::Status(args) => {
            run::status(&query::status_args(&args), DEFAULT_ADMIN, status::render)
        }
        Verb::Ls(args) => inspect::at(&args, &View::Repositories, status::repositories),
        Verb::Du(args) => inspect::at(&args, &View::Repositories, status::usage),
        Verb::Tags { repository, look } => {
            inspect::at(&look, &View::Tags { repository }, status::tags)
        }
        Verb::Inspect { image, look } => {
            let view = View::Manifest {
                repository: image.repository,
                reference: image.reference,
            };
            inspect::at(&look, &view, status::manifest)
        }
        Verb::Import(args) => transfer::import(&args),
        Verb::Export(args) => transfer::export(&args),
        Verb::Push(args) => transfer::push(&args),
        Verb::Pull(args) => transfer::pull(&args),
        Verb::Diff { node, ask } => query::diff(&node, &query::status_args(&ask)),
        Verb::Node(NodeVerb::List(ask)) => query::nodes(&query::status_args(&ask)),
        Verb::Node(NodeVerb::Add { node, address, ask }) => {
            let mut query = format!("?add={node}");
            if let Some(address) = address {
                query += &format!("&address={}", encoded(&address));
            }
            query::change_nodes(&query, &query::status_args(&ask))
        }
        Verb::Node(NodeVerb::Forget { node, force, ask }) => {
            let force = if force { "&force=1" } else { "" };
            query::change_nodes(&format!("?forget={node}{force}"), &query::status_args(&ask))
        }
        Verb::Gc {
            dry_run: true,
            look,
        } => maintenance::perform(&look, Task::DryRun),
        Verb::Gc { look, .. } => maintenance::perform(&look, Task::Sweep),
        Verb::Verify(look) => maintenance::perform(&look, Task::Verify),
        Verb::Scrub(look) => maintenance::perform(&look, Task::Scrub),
        Verb::Recover(args) => recover::run(&args),
        Verb::Password { user, cost } => password(&user, cost),
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = Config::from_document(&daemon::config::read(&args.config)?)?;
    args.admin.apply(&mut config.common);
    if let Some(root) = &args.root {
        config.file.root.clone_from(root);
    }
    Ok(config)
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = read(args);
    if let Ok(config) = &checked {
        for warning in &config.warnings {
            outln!("warning: {warning}");
        }
    }
    let checked = checked.and_then(|config| named(&config).unless_empty(config));
    run::check(checked, Config::summary)
}

/// The problems of the files that a configuration names.
fn named(config: &Config) -> Problems {
    let mut problems = Problems::default();
    if let Err(error) = tls::configured(&config.file) {
        problems.push(Problem::new(exit::chain(&error)));
    }
    problems.extend(service::check_access(config));
    problems.extend(service::check_storage(config).map(Problem::new));
    if let Err(error) = registry_webhook::check(&config.file.webhook) {
        problems.push(Problem::new(exit::chain(&error)));
    }
    if let Err(error) = registry_mirror::check(&config.file.mirror) {
        problems.push(Problem::new(exit::chain(&error)));
    }
    problems.extend(service::check_cluster(config).map(Problem::new));
    problems
}

/// The longest password: bcrypt looks at no more octets.
const LONGEST_PASSWORD: usize = 72;

fn password(user: &str, cost: u32) -> ExitCode {
    let mut password = String::new();
    let mut input = std::io::stdin().lock().take(4096);
    if let Err(error) = input.read_to_string(&mut password) {
        errln!("the password cannot be read: {error}");
        return exit::code(exit::DATA);
    }
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.len() > LONGEST_PASSWORD {
        errln!("a password has 1 to {LONGEST_PASSWORD} octets");
        return exit::code(exit::DATA);
    }
    let is_name = !user.is_empty() && !user.starts_with(['@', '#']);
    if !is_name || user.contains(|c: char| c == ':' || c.is_control()) {
        errln!("that is no name of a user");
        return exit::code(exit::DATA);
    }
    match bcrypt::hash(password, cost) {
        Ok(hash) => {
            outln!("{user}:{hash}");
            exit::code(exit::OK)
        }
        Err(error) => {
            exit::report(&error);
            exit::code(exit::SOFTWARE)
        }
    }
}

#[cfg(test)]
mod tests {
    use daemon::config::Document;

    use super::*;

    /// What is wrong with the files of a configuration; those that it names lie in a directory.
    fn found(text: &str) -> Vec<String> {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("no.pem"), "no certificate").unwrap();
        let text = text.replace("DIR", &scratch.path().display().to_string());
        let text = format!("version = \"v1\"\nplain = true\n{text}");
        let config = Config::from_document(&Document::inline("test", text)).unwrap();
        named(&config).0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_serve_would_not_start_with_is_found() {
        let mirror = "[[mirror]]\nupstream = \"https://registry.example.org\"\nprefix = \"q\"\n";
        assert_eq!(found(mirror), Vec::<String>::new());
        let cluster = "[cluster]\nnode = \"a\"\npeers = [{ name = \"b\", address = \"b:5444\" }]\n";
        let files = "ca = \"DIR/no.pem\"\ncertificate = \"DIR/no.pem\"\nkey = \"DIR/no.pem\"";
        for wrong in [
            format!("{mirror}ca = \"DIR/none.pem\""),
            format!("{mirror}credentials = \"DIR/none\""),
            format!("{mirror}credentials = \"DIR/no.pem\""),
            format!("{cluster}{files}"),
        ] {
            let found = found(&wrong);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].contains("/no"), "{wrong}: {found:?}");
        }
    }
}
