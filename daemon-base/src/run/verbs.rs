//! `check` and `status`, which end the same way for every daemon.

use std::net::SocketAddr;
use std::process::ExitCode;

use serde_json::Value;
use tokio::runtime::Builder;

use crate::admin::{self, ClientError};
use crate::args::StatusArgs;
use crate::config::Problems;
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

fn ask(address: SocketAddr) -> Result<Value, ClientError> {
    let failed = |source| ClientError::Exchange { address, source };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.into()))?;
    let response = runtime.block_on(admin::get(address, "/status"))?;
    serde_json::from_slice(&response.body).map_err(|error| failed(error.into()))
}
