//! The verbs of the command line.

use std::process::ExitCode;
use std::slice;

use ::config::Draft;
use ::config::lb_proxy::LbProxy;
use api::explain::lb_proxy::Explanation;
use api::lb_proxy::{Killed, Session};
use config_text::counted;
use config_text::web::with_query;
use daemon::admin::Method;
use daemon::args::{self, StatusArgs};
use daemon::config::Problems;
use daemon::run;
use daemon::{errln, exit, outln};
use serde::de::DeserializeOwned;

use crate::args::{BackendVerb, Cli, ConfigArgs, Format, SessionArgs, Verb};
use crate::config::{Config, DEFAULT_ADMIN};
use crate::explain;
use crate::host;
use crate::import;
use crate::service::Proxy;
use crate::sources;
use crate::status;

/// Runs the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    let cli: Cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Serve(args) => run::serve::<Proxy, _>(&args, read),
        Verb::Check(args) => check(&args),
        Verb::Import { format } => import(&format),
        Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
        Verb::Sessions { which, status } => sessions(&which, &status),
        Verb::Sources { frontend, status } => {
            let path = with_query("/sources", &[("frontend", frontend)]);
            list(&status, &path, sources::render)
        }
        Verb::Kill { which, all, status } => kill(&which, all, &status),
        Verb::Backend { verb } => backend(&verb),
        Verb::Explain { about, status } => {
            let path = with_query(explain::PATH, &[("about", about)]);
            run::explain::<Explanation>(&status, DEFAULT_ADMIN, &path)
        }
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = args.source().read()?;
    if let Some(socket) = &args.swap_socket {
        config.file.swap.socket = socket.clone();
    }
    let healthd = &mut config.file.health.endpoint;
    args.overrides.apply(healthd, &mut config.common);
    Ok(config)
}

fn check(args: &ConfigArgs) -> ExitCode {
    let checked = read(args);
    if let Ok(config) = &checked {
        let of_host = host::lacks(config, &host::Host::look());
        for warning in config.warnings.iter().chain(&of_host) {
            outln!("warning: {warning}");
        }
    }
    run::check(checked, Config::summary)
}

fn import(format: &Format) -> ExitCode {
    match format {
        Format::Haproxy { files, accept_open } => match import::haproxy(files) {
            Ok(draft) => run::import(files, import::checked(draft, *accept_open)),
            Err(problems) => run::import(files, Err::<Draft<LbProxy>, Problems>(problems)),
        },
        Format::Keepalived { file, config_id } => {
            let imported = import::keepalived(file, config_id.as_deref());
            run::import(slice::from_ref(file), imported)
        }
    }
}

//--- The running proxy

fn sessions(which: &SessionArgs, status: &StatusArgs) -> ExitCode {
    let path = with_query("/sessions", &parameters(which));
    list(status, &path, |sessions: &Vec<Session>| {
        status::render_sessions(sessions)
    })
}

/// Prints a JSON answer as it is, or as `render` has it.
fn list<T: DeserializeOwned>(
    status: &StatusArgs,
    path: &str,
    render: impl Fn(&T) -> String,
) -> ExitCode {
    let json = status.json;
    ask(
        status,
        path,
        Method::Get,
        |body| match serde_json::from_str(body) {
            Ok(value) if !json => render(&value),
            _ => body.to_owned(),
        },
    )
}

fn kill(which: &SessionArgs, all: bool, status: &StatusArgs) -> ExitCode {
    let mut parameters = parameters(which);
    if all {
        parameters.push(("all", Some("1".to_owned())));
    }
    if parameters.iter().all(|(_, value)| value.is_none()) {
        errln!("say which sessions: --id, --frontend, --backend, --server, --client or --all");
        return exit::code(exit::USAGE);
    }
    let path = with_query("/sessions/kill", &parameters);
    let json = status.json;
    ask(
        status,
        &path,
        Method::Post,
        |body| match serde_json::from_str(body) {
            Ok(Killed { killed }) if !json => format!("{} reset", counted(killed, "session")),
            _ => body.to_owned(),
        },
    )
}

fn parameters(which: &SessionArgs) -> Vec<(&'static str, Option<String>)> {
    let server = which.server.as_ref();
    let backend = server.map(|server| server.backend.clone());
    vec![
        ("id", which.id.map(|id| id.to_string())),
        ("frontend", which.frontend.clone()),
        ("backend", backend.or_else(|| which.backend.clone())),
        ("server", server.map(|server| server.server.clone())),
        ("client", which.client.map(|client| client.to_string())),
    ]
}

fn backend(verb: &BackendVerb) -> ExitCode {
    let (server, decision, status) = match verb {
        BackendVerb::Drain(args) | BackendVerb::Ready(args) | BackendVerb::Maintenance(args) => {
            (&args.server, &args.decision, &args.status)
        }
        BackendVerb::Weight {
            server,
            decision,
            status,
            ..
        }
        | BackendVerb::MaxConnections {
            server,
            decision,
            status,
            ..
        } => (server, decision, status),
    };
    let (path, key, value) = match verb {
        BackendVerb::Drain(_) => ("/backends/state", "state", "drain".to_owned()),
        BackendVerb::Ready(_) => ("/backends/state", "state", "ready".to_owned()),
        BackendVerb::Maintenance(_) => ("/backends/state", "state", "maintenance".to_owned()),
        BackendVerb::Weight { weight, .. } => {
            let weight = weight.0.map(|weight| weight.to_string());
            let weight = weight.unwrap_or_else(|| "reset".to_owned());
            ("/backends/weight", "weight", weight)
        }
        BackendVerb::MaxConnections { most, .. } => {
            ("/backends/max-connections", "most", most.to_string())
        }
    };
    let mut parameters = vec![
        ("backend", Some(server.backend.clone())),
        ("server", Some(server.server.clone())),
        (key, Some(value)),
    ];
    parameters.extend(decision.parameters());
    let path = with_query(path, &parameters);
    ask(status, &path, Method::Post, str::to_owned)
}

/// Sends a request to the running proxy and prints what `render` makes from the answer.
fn ask(args: &StatusArgs, path: &str, method: Method, render: impl Fn(&str) -> String) -> ExitCode {
    let response = match run::ask(args, DEFAULT_ADMIN, path, method) {
        Ok(response) => response,
        Err(code) => return code,
    };
    let text = response.text();
    if response.is_success() {
        let text = render(&text);
        if !text.trim_end().is_empty() {
            outln!("{}", text.trim_end());
        }
        exit::code(exit::OK)
    } else {
        errln!("{}", text.trim_end());
        exit::code(exit::DATA)
    }
}
