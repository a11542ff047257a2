//! The verbs of the command line.

use std::process::ExitCode;
use std::slice;

use ::config::Refused;
use api::explain::dns_recursor::Explanation;
use api::top::Top;
use clap::ValueEnum;
use config_text::web::encoded;
use daemon::admin::Method;
use daemon::args::{self, ServeArgs, StatusArgs};
use daemon::config::Problems;
use daemon::disk::Disk;
use daemon::run;
use daemon::{errln, exit, outln};
use dns_serve::question;

use crate::args::{CacheVerb, Cli, ConfigArgs, Format, Verb, split_settings};
use crate::config::{Config, DEFAULT_ADMIN};
use crate::import::{self, recursor_conf};
use crate::service::Recursor;
use crate::{load, node_hosts, status};

/// Runs the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    let (arguments, settings) = split_settings(arguments);
    let mut cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Verb::Serve(ServeArgs { config, .. }) | Verb::Check(config) = &mut cli.verb {
        config.peer.settings = settings;
        if let Some(misuse) = config.misuse() {
            errln!("{misuse}");
            return exit::code(exit::USAGE);
        }
    }
    match cli.verb {
        Verb::Serve(args) => run::serve::<Recursor, _>(&args, read),
        Verb::Check(args) => check(&args),
        Verb::Import { format } => import(&format),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
        Verb::Explain {
            name,
            rtype,
            client,
            status,
        } => {
            let path = question::path(name, rtype, client);
            run::explain::<Explanation>(&status, DEFAULT_ADMIN, &path)
        }
        Verb::Cache { verb } => cache(&verb),
        Verb::Top {
            of,
            by,
            count,
            status,
        } => {
            let of = of.map_or_else(String::new, |of| format!("&of={}", word(&of)));
            let path = format!("/top?by={}&n={count}{of}", word(&by));
            run::explain::<Top>(&status, DEFAULT_ADMIN, &path)
        }
        Verb::QueryLog {
            turn,
            span,
            class,
            rate,
            status,
        } => {
            let mut path = format!("/query-log?turn={}&for={}", word(&turn), encoded(&span));
            if !class.is_empty() {
                path.push_str("&class=");
                path.push_str(&encoded(&class.join(",")));
            }
            if let Some(rate) = rate {
                path.push_str(&format!("&rate={rate}"));
            }
            said(&status, &path, Method::Post)
        }
        Verb::NodeHosts(command) => node_hosts::run(&command),
    }
}

/// Reads the configuration that the arguments name, and applies the arguments.
fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = args.source().read()?;
    let healthd = &mut config.file.health.endpoint;
    args.overrides.apply(healthd, &mut config.common);
    Ok(config)
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = read(args).and_then(|config| {
        for warning in &config.warnings {
            outln!("{warning}");
        }
        let mut problems = load::forwards_to_itself(&config, &config.listen());
        problems.0.extend(load::certificate(&config).0);
        problems.unless_empty(config)
    });
    run::check(checked, Config::summary)
}

fn import(format: &Format) -> ExitCode {
    let (file, without, imported) = match format {
        Format::RecursorConf { file, without } => match load::read_recursor_conf(file, &[]) {
            Ok(conf) => {
                let draft = recursor_conf::import(&conf);
                return run::import(&conf.files, import::checked(draft, &without.without));
            }
            Err(problems) => {
                let notes = Vec::new();
                (file, &[][..], Err(Refused { problems, notes }))
            }
        },
        Format::Corefile { file, without } => {
            let imported = import::corefile(file, &mut Disk);
            (file, &without.without[..], imported)
        }
        Format::Dnsmasq { file, without } => {
            let imported = import::dnsmasq(file, &mut Disk);
            (file, &without.without[..], imported)
        }
        Format::ResolvConf { file } => {
            let imported = import::resolv_conf(file, &mut Disk);
            (file, &[][..], imported)
        }
    };
    let checked = imported.and_then(|draft| import::checked(draft, without));
    run::import(slice::from_ref(file), checked)
}

//--- The running server

fn cache(verb: &CacheVerb) -> ExitCode {
    let (name, status, path, method) = match verb {
        CacheVerb::Dump { name, status } => (name, status, "/cache", Method::Get),
        CacheVerb::Flush { name, status } => (name, status, "/cache/flush", Method::Post),
    };
    let path = match name.as_deref() {
        None => path.to_owned(),
        Some(name) => match name.strip_suffix('$') {
            Some(name) => format!("{path}?subtree=1&name={}", encoded(name)),
            None => format!("{path}?name={}", encoded(name)),
        },
    };
    said(status, &path, method)
}

/// The word of a value on the command line.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Prints what the server says.
fn said(status: &StatusArgs, path: &str, method: Method) -> ExitCode {
    match run::ask(status, DEFAULT_ADMIN, path, method) {
        Ok(response) => {
            daemon::print::out(format_args!("{}", response.text()));
            match response.status {
                200 => exit::code(exit::OK),
                _ => exit::code(exit::USAGE),
            }
        }
        Err(code) => code,
    }
}
