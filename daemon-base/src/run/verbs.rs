//! `check` and `status`, which end the same way for every daemon.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Builder;

use crate::admin::{self, ClientError};
use crate::args::StatusArgs;
use crate::config::{HumanDuration, Problems};
use crate::{exit, outln};

/// Ends `check`: prints every problem on a line of its own, or what `describe` says of a clean
/// configuration.
pub fn check<T>(checked: Result<T, Problems>, describe: impl FnOnce(&T) -> String) -> ExitCode {
    match checked {
        Ok(config) => {
            outln!("{}", describe(&config));
            exit::code(exit::OK)
        }
        Err(problems) => {
            outln!("{problems}");
            exit::code(exit::CONFIG)
        }
    }
}

/// Runs `status`: asks the daemon at the admin address and prints what `render` makes of its answer,
/// or the answer itself with `--json`.
pub fn status(
    args: &StatusArgs,
    default_admin: SocketAddr,
    render: impl FnOnce(&Value) -> String,
) -> ExitCode {
    let address = args.admin.unwrap_or(default_admin);
    let answer = ask(address);
    let value = match answer {
        Ok(value) => value,
        Err(error) => {
            exit::report(&error);
            return exit::code(exit::UNAVAILABLE);
        }
    };
    if args.json {
        outln!("{value:#}");
    } else {
        let text = render(&value);
        outln!("{}", text.trim_end());
    }
    exit::code(exit::OK)
}

/// The lines with which every daemon's `status` begins: what runs, since when, and what is wrong.
#[must_use]
pub fn headline(status: &Value) -> String {
    let text = |key: &str| status[key].as_str().unwrap_or("?").to_owned();
    let ready = match status["ready"].as_bool() {
        Some(true) => "ready",
        _ => "not ready",
    };
    let seconds = status["uptime_seconds"].as_f64().unwrap_or_default();
    let uptime = Duration::try_from_secs_f64(seconds.trunc()).unwrap_or_default();
    let mut lines = format!(
        "{} {} ({}), {}, {ready}, up {}\n",
        text("service"),
        text("version"),
        text("revision"),
        text("state"),
        HumanDuration(uptime),
    );
    for (key, mark) in [("reasons", "!"), ("notes", "-")] {
        for line in status[key].as_array().into_iter().flatten() {
            lines.push_str(&format!("  {mark} {}\n", line.as_str().unwrap_or_default()));
        }
    }
    lines
}

fn ask(address: SocketAddr) -> Result<Value, ClientError> {
    let failed = |source| ClientError::Exchange {
        address: address.into(),
        source,
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.into()))?;
    let response = runtime.block_on(admin::get(address, "/status"))?;
    serde_json::from_slice(&response.body).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Problem;
    use serde_json::json;

    #[test]
    fn the_headline_says_what_runs_and_what_is_wrong() {
        let status = json!({
            "service": "dns-authd", "version": "0.1.0", "revision": "1a2b3c4d5",
            "state": "serving", "ready": false, "uptime_seconds": 3_725.9,
            "reasons": ["zones: none loaded"], "notes": ["reload: refused"],
        });
        assert_eq!(
            headline(&status),
            "dns-authd 0.1.0 (1a2b3c4d5), serving, not ready, up 1h2m5s\n  \
             ! zones: none loaded\n  - reload: refused\n"
        );
        assert_eq!(headline(&json!({})), "? ? (?), ?, not ready, up 0s\n");
    }

    #[test]
    fn verbs_end_with_their_codes() {
        let code = |code| exit::code(code);
        assert_eq!(check(Ok(1), |n| format!("{n} zone")), code(exit::OK));
        let problems: Problems = Problem::new("x").into();
        assert_eq!(
            check::<()>(Err(problems), |()| String::new()),
            code(exit::CONFIG)
        );
        let nobody = "127.0.0.1:1".parse().unwrap();
        let code_of = status(&StatusArgs::default(), nobody, headline);
        assert_eq!(code_of, code(exit::UNAVAILABLE));
    }
}
