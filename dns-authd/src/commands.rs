//! The verbs of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use ::config::Draft;
use ::config::dns_authd::DnsAuthd;
use api::dns_authd::{Reloaded, Zone, ZoneDifference, ZoneHistory};
use api::explain::dns_authd::Explanation;
use config_text::web::with_query;
use config_text::{Problem, Rejected, counted};
use daemon::admin::Method;
use daemon::args::{self, StatusArgs};
use daemon::clock;
use daemon::config::Problems;
use daemon::run;
use daemon::{errln, exit, outln};
use dns_serve::question;
use dns_wire::Name;
use peer_bind::Dialect;

use crate::args::{Cli, ConfigArgs, Format, Verb, ZoneVerb, split_settings};
use crate::check::{self, Findings};
use crate::config::{Config, DEFAULT_ADMIN};
use crate::load;
use crate::service::Authd;
use crate::status;

/// Runs the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    let (arguments, settings) = split_settings(arguments);
    let mut cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Some(config) = cli.verb.config_mut() {
        config.peer.settings = settings;
        if let Some(misuse) = config.misuse() {
            errln!("{misuse}");
            return exit::code(exit::USAGE);
        }
    }
    match cli.verb {
        Verb::Serve(args) => run::serve::<Authd, _>(&args, read),
        Verb::Check(args) => check_all(&args),
        Verb::Import { format } => import(format),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, |answer| {
            status::render(answer, clock::wall())
        }),
        Verb::Explain {
            name,
            rtype,
            client,
            status,
        } => {
            let path = question::path(name, rtype, client);
            run::explain::<Explanation>(&status, DEFAULT_ADMIN, &path)
        }
        Verb::Zone { verb } => zone(verb),
    }
}

impl Verb {
    const fn config_mut(&mut self) -> Option<&mut ConfigArgs> {
        match self {
            Self::Serve(args) => Some(&mut args.config),
            Self::Check(args) => Some(args),
            Self::Zone {
                verb: ZoneVerb::Check { config, .. },
            } => Some(config),
            _ => None,
        }
    }
}

/// Reads the configuration that the arguments name, and applies the arguments.
fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = args.source().read()?;
    if let Some(healthd) = &args.overrides.healthd {
        config = config.with_healthd(healthd.clone());
    }
    args.overrides.admin.apply(&mut config.common);
    Ok(config)
}

//--- Check and import

fn check_all(args: &ConfigArgs) -> ExitCode {
    match read(args) {
        Ok(config) => report(&check::all(&config)),
        Err(problems) => run::check::<()>(Err(problems), |()| String::new()),
    }
}

fn check_zone(target: Option<&str>, origin: Option<&str>, args: &ConfigArgs) -> ExitCode {
    let Some(target) = target else {
        return check_all(args);
    };
    let origin = match origin.map(Name::parse).transpose() {
        Ok(origin) => origin,
        Err(error) => {
            errln!("--origin is not a name: {error}");
            return exit::code(exit::USAGE);
        }
    };
    // A master file with its origin needs no configuration.
    let config = match (read(args), &origin) {
        (Ok(config), _) => Some(config),
        (Err(_), Some(_)) => None,
        (Err(problems), None) => return run::check::<()>(Err(problems), |()| String::new()),
    };
    match check::one(config.as_ref(), target, origin.as_ref()) {
        Ok(findings) => report(&findings),
        Err(problems) => {
            errln!("{problems}");
            exit::code(exit::USAGE)
        }
    }
}

fn report(findings: &Findings) -> ExitCode {
    for remark in &findings.remarks {
        outln!("{remark}");
    }
    let problems = Problems(findings.problems.clone());
    run::check(problems.unless_empty(()), |()| findings.summary())
}

fn import(format: Format) -> ExitCode {
    let (files, draft) = match format {
        Format::Pdns { file } => match load::read_pdns_conf(&file, &[]) {
            Ok((pdns, named)) => {
                let files = pdns.files.iter().chain(&named.files).cloned().collect();
                (files, Ok(dns_import::pdns_conf(&pdns, &named, None)))
            }
            Err(rejected) => (Vec::new(), Err(rejected)),
        },
        Format::Named { files } => {
            let draft = import_named(&files);
            (files, draft)
        }
    };
    run::import(&files, draft)
}

/// Several zone lists become one.
fn import_named(files: &[PathBuf]) -> Result<Draft<DnsAuthd>, Rejected> {
    let mut all: Option<peer_bind::NamedConf> = None;
    for file in files {
        let named = load::read_named_conf(file, Dialect::Bind)?;
        match &mut all {
            None => all = Some(named),
            Some(all) => {
                if named.directory != all.directory {
                    let message = format!(
                        "directory {} of {}: $INCLUDE looks in that of the first list",
                        named.directory.display(),
                        file.display()
                    );
                    all.warnings.push(Problem {
                        position: None,
                        message,
                    });
                }
                all.zones.extend(named.zones);
                all.views.extend(named.views);
                all.keys.extend(named.keys);
                all.warnings.extend(named.warnings);
                all.files.extend(named.files);
            }
        }
    }
    Ok(dns_import::named_conf(&all.unwrap_or_default()))
}

//--- The running server

fn zone(verb: ZoneVerb) -> ExitCode {
    match verb {
        ZoneVerb::Check {
            target,
            origin,
            config,
        } => check_zone(target.as_deref(), origin.as_deref(), &config),
        ZoneVerb::List(args) => {
            let json = args.json;
            ask(
                &args,
                "/zones",
                Method::Get,
                |body| match serde_json::from_str::<Vec<Zone>>(body) {
                    Ok(zones) if !json => status::render_zones(&zones, clock::wall()),
                    _ => body.to_owned(),
                },
            )
        }
        ZoneVerb::Show { name, status } => {
            let path = with_query("/zones/show", &[("name", Some(name))]);
            ask(&status, &path, Method::Get, str::to_owned)
        }
        ZoneVerb::Reload { name, status } => {
            let path = with_query("/zones/reload", &[("name", name)]);
            change(&status, &path)
        }
        ZoneVerb::Retransfer { name, status } => {
            let path = with_query("/zones/retransfer", &[("name", Some(name))]);
            change(&status, &path)
        }
        ZoneVerb::Sync { name, status } => {
            let path = with_query("/zones/sync", &[("name", Some(name))]);
            change(&status, &path)
        }
        ZoneVerb::History { name, status } => zone_history(name, &status),
        ZoneVerb::Diff {
            name,
            from,
            to,
            status,
        } => zone_difference(name, (from, to), &status),
        ZoneVerb::Rollback {
            name,
            serial,
            status,
        } => {
            let what = [("name", Some(name)), ("serial", Some(serial.to_string()))];
            change(&status, &with_query("/zones/rollback", &what))
        }
        ZoneVerb::Accept { name, status } => {
            let path = with_query("/zones/accept", &[("name", Some(name))]);
            change(&status, &path)
        }
    }
}

fn zone_history(name: String, args: &StatusArgs) -> ExitCode {
    let path = with_query("/zones/history", &[("name", Some(name))]);
    ask(
        args,
        &path,
        Method::Get,
        |body| match serde_json::from_str::<ZoneHistory>(body) {
            Ok(history) if !args.json => status::render_history(&history, clock::wall()),
            _ => body.to_owned(),
        },
    )
}

/// The difference of two versions, each by its serial.
fn zone_difference(
    name: String,
    (from, to): (Option<u32>, Option<u32>),
    args: &StatusArgs,
) -> ExitCode {
    let text = |serial: Option<u32>| serial.map(|serial| serial.to_string());
    let ends = [("name", Some(name)), ("from", text(from)), ("to", text(to))];
    ask(
        args,
        &with_query("/zones/diff", &ends),
        Method::Get,
        |body| match serde_json::from_str::<ZoneDifference>(body) {
            Ok(difference) if !args.json => status::render_difference(&difference),
            _ => body.to_owned(),
        },
    )
}

/// Changes zones of the running server, and prints what became of them.
fn change(args: &StatusArgs, path: &str) -> ExitCode {
    ask(args, path, Method::Post, |body| match args.json {
        true => body.to_owned(),
        false => reloaded(body),
    })
}

/// Sends a request to the running server and prints its answer, rendered by `render`.
fn ask(args: &StatusArgs, path: &str, method: Method, render: impl Fn(&str) -> String) -> ExitCode {
    let response = match run::ask(args, DEFAULT_ADMIN, path, method) {
        Ok(response) => response,
        Err(code) => return code,
    };
    let text = response.text();
    let is_shown = response.is_success() || response.status == 422;
    if is_shown {
        outln!("{}", render(&text).trim_end());
    } else {
        errln!("{}", text.trim_end());
    }
    match response.is_success() {
        true => exit::code(exit::OK),
        false => exit::code(exit::DATA),
    }
}

/// The output of `zone reload`.
fn reloaded(body: &str) -> String {
    let Ok(outcomes) = serde_json::from_str::<Vec<Reloaded>>(body) else {
        return body.to_owned();
    };
    let mut lines = Vec::new();
    for outcome in outcomes {
        match outcome {
            Reloaded::Broken { zone, problems } => {
                lines.push(format!("{zone} is broken and stays as it was"));
                lines.extend(problems.iter().map(|problem| format!("  {problem}")));
            }
            Reloaded::Held { zone, held } => {
                lines.push(format!("{zone} is held back and stays as it was"));
                lines.extend(held.reasons.iter().map(|reason| format!("  {reason}")));
                lines.push(format!("  publish it: dns-authd zone accept {zone}"));
            }
            Reloaded::Loaded {
                zone,
                serial,
                records,
            } => {
                let records = counted(records, "record");
                lines.push(format!("{zone} is loaded: serial {serial}, {records}"));
            }
        }
    }
    lines.join("\n")
}
