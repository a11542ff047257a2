//! Verbs that only a running daemon can do.

use std::process::ExitCode;

use config_text::web::encoded;
use daemon::args::StatusArgs;
use daemon::run::{self, Way};
use daemon::{errln, exit, outln, print};
use serde_json::Value;

use crate::args::AskArgs;
use crate::config::{DEFAULT_ADMIN, v1};
use crate::{routes, status};

/// The exit code of `diff` when there is a difference, as diff(1) has it.
const DIFFERENT: u8 = 1;

/// The daemon's admin address: the given one, else the one in the configuration.
pub(super) fn status_args(args: &AskArgs) -> StatusArgs {
    let configured = || {
        let config = daemon::config::read(&args.config).and_then(|document| v1::parse(&document));
        config.ok()?.common.admin
    };
    StatusArgs {
        admin: args.admin.or_else(configured),
        json: args.json,
    }
}

/// Says what two nodes do not have alike.
pub(super) fn diff(node: &str, args: &StatusArgs) -> ExitCode {
    let path = format!("{}?node={}", routes::DIFF, encoded(node));
    let value = &match ask(args, &path) {
        Ok(value) => value,
        Err(code) => return code,
    };
    if args.json {
        outln!("{value:#}");
    } else {
        print::out(format_args!("{}", status::difference_lines(value)));
    }
    match value["differences"].as_array() {
        Some(all) if all.is_empty() => exit::code(exit::OK),
        _ => exit::code(DIFFERENT),
    }
}

/// The daemon's response, or the exit code after the reason was printed.
fn ask(args: &StatusArgs, path: &str) -> Result<Value, ExitCode> {
    let response = run::ask(args, DEFAULT_ADMIN, path, Way::Look)?;
    let text = response.text();
    if !response.is_success() {
        errln!("{}", text.trim_end());
        return Err(exit::code(exit::DATA));
    }
    serde_json::from_str(&text).map_err(|error| {
        errln!("the daemon's answer cannot be understood: {error}");
        exit::code(exit::SOFTWARE)
    })
}
