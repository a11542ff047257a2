//! Verbs that only a running daemon can do.

use std::process::ExitCode;

use api::registry_svc::{Differences, Nodes};
use config_text::web::encoded;
use daemon::admin::Method;
use daemon::args::StatusArgs;
use daemon::run;
use daemon::{errln, exit, outln, print};

use crate::args::DaemonArgs;
use crate::config::{Config, DEFAULT_ADMIN};
use crate::{routes, status};

/// The exit code of `diff` when there is a difference, as diff(1) has it.
const DIFFERENT: u8 = 1;

/// The daemon's admin address: the given one, else the one in the configuration.
pub(super) fn status_args(args: &DaemonArgs) -> StatusArgs {
    let configured = || {
        let document = daemon::config::read(&args.config);
        let config = document.and_then(|document| Config::from_document(&document));
        config.ok()?.common.admin
    };
    StatusArgs {
        admin: args.status.admin.or_else(configured),
        ..args.status.clone()
    }
}

/// Says what two nodes do not have alike.
pub(super) fn diff(node: &str, args: &StatusArgs) -> ExitCode {
    let path = format!("{}?node={}", routes::DIFF, encoded(node));
    let text = match ask(args, &path) {
        Ok(text) => text,
        Err(code) => return code,
    };
    let view: Differences = match serde_json::from_str(&text) {
        Ok(view) => view,
        Err(error) => {
            errln!("the daemon's answer cannot be understood: {error}");
            return exit::code(exit::SOFTWARE);
        }
    };
    match args.json {
        true => outln!("{}", text.trim_end()),
        false => print::out(format_args!("{}", status::difference_lines(&view))),
    }
    match view.differences.is_empty() {
        true => exit::code(exit::OK),
        false => exit::code(DIFFERENT),
    }
}

/// Lists the other nodes.
pub(super) fn nodes(args: &StatusArgs) -> ExitCode {
    let text = match ask(args, routes::NODES) {
        Ok(text) => text,
        Err(code) => return code,
    };
    if args.json {
        outln!("{}", text.trim_end());
        return exit::code(exit::OK);
    }
    match serde_json::from_str::<Nodes>(&text) {
        Ok(view) => {
            print::out(format_args!("{}", status::node_lines(&view)));
            exit::code(exit::OK)
        }
        Err(error) => {
            errln!("the daemon's answer cannot be understood: {error}");
            exit::code(exit::SOFTWARE)
        }
    }
}

/// Has a node taken in or forgotten, as a query says.
pub(super) fn change_nodes(query: &str, args: &StatusArgs) -> ExitCode {
    let path = format!("{}{query}", routes::NODES);
    match run::ask(args, DEFAULT_ADMIN, &path, Method::Post) {
        Ok(response) if response.is_success() => {
            outln!("{}", response.text().trim_end());
            exit::code(exit::OK)
        }
        Ok(response) => {
            errln!("{}", response.text().trim_end());
            exit::code(exit::DATA)
        }
        Err(code) => code,
    }
}

/// The daemon's response, or the exit code after the reason was printed.
fn ask(args: &StatusArgs, path: &str) -> Result<String, ExitCode> {
    let response = run::ask(args, DEFAULT_ADMIN, path, Method::Get)?;
    let text = response.text();
    match response.is_success() {
        true => Ok(text),
        false => {
            errln!("{}", text.trim_end());
            Err(exit::code(exit::DATA))
        }
    }
}
