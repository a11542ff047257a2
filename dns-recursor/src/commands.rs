//! The verbs of the command line.

use std::process::ExitCode;

use daemon_base::admin::{self, ClientError, Response};
use daemon_base::args::{self, ServeArgs as BaseServeArgs, StatusArgs};
use daemon_base::config::Problems;
use daemon_base::{errln, exit, outln, run};

use crate::args::{CacheVerb, Cli, ConfigArgs, Format, ServeArgs, Verb, split_settings};
use crate::config::{Config, DEFAULT_ADMIN};
use crate::import::{corefile, dnsmasq};
use crate::service::Recursor;
use crate::{load, recursor_conf, status};

/// Runs the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    let (arguments, settings) = split_settings(arguments);
    let mut cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Verb::Serve(ServeArgs { config, .. }) | Verb::Check(config) = &mut cli.verb {
        config.settings = settings;
        if let Some(misuse) = config.misuse() {
            errln!("{misuse}");
            return exit::code(exit::USAGE);
        }
    }
    match cli.verb {
        Verb::Serve(args) => serve(&args),
        Verb::Check(args) => check(&args),
        Verb::Import { format } => import(&format),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
        Verb::Cache { verb } => cache(&verb),
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = args.source().read()?;
    if let Some(healthd) = &args.healthd {
        config.health.clone_from(&healthd.0);
    }
    if args.admin.is_some() {
        config.common.admin = args.admin;
    }
    Ok(config)
}

fn serve(args: &ServeArgs) -> ExitCode {
    let base = BaseServeArgs {
        config: args.config.config.clone(),
        log: args.log,
        slot: args.slot.clone(),
    };
    run::serve::<Recursor>(&base, || read(&args.config))
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = read(args).and_then(|config| {
        for warning in &config.warnings {
            outln!("{warning}");
        }
        load::own_addresses(&config, &config.network.listen).unless_empty(config)
    });
    run::check(checked, Config::summary)
}

fn import(format: &Format) -> ExitCode {
    let imported = match format {
        Format::RecursorConf { file } => load::read_recursor_conf(file, &[]).map(|conf| {
            let imported = recursor_conf::import(&conf);
            let remarks = load::remarks(&conf, &imported);
            (imported.toml, remarks)
        }),
        Format::Corefile { file } => load::import_with(corefile::import, file),
        Format::Dnsmasq { file } => load::import_with(dnsmasq::import, file),
    };
    match imported {
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

//--- The running server

fn cache(verb: &CacheVerb) -> ExitCode {
    let (name, status, path) = match verb {
        CacheVerb::Dump { name, status } => (name, status, "/cache"),
        CacheVerb::Flush { name, status } => (name, status, "/cache/flush"),
    };
    let path = match name.as_deref() {
        None => path.to_owned(),
        Some(name) => match name.strip_suffix('$') {
            Some(name) => format!("{path}?subtree=1&name={}", encoded(name)),
            None => format!("{path}?name={}", encoded(name)),
        },
    };
    match ask(status, &path, matches!(verb, CacheVerb::Flush { .. })) {
        Ok(response) => {
            let body = String::from_utf8_lossy(&response.body);
            daemon_base::print::out(format_args!("{body}"));
            match response.status {
                200 => exit::code(exit::OK),
                _ => exit::code(exit::USAGE),
            }
        }
        Err(error) => {
            exit::report(&error);
            exit::code(exit::UNAVAILABLE)
        }
    }
}

fn ask(args: &StatusArgs, path: &str, changes: bool) -> Result<Response, ClientError> {
    let address = args.admin.unwrap_or(DEFAULT_ADMIN);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::Exchange {
            address: address.into(),
            source: source.into(),
        })?;
    match changes {
        true => runtime.block_on(admin::post(address, path, Vec::new())),
        false => runtime.block_on(admin::get(address, path)),
    }
}

/// Percent-encodes what a query cannot hold (RFC 3986 §2.1).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
