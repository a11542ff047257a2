//! Verbs that end the same way for every daemon, and their parts: a runtime, and a request to a running
//! daemon.

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::config::Draft;
use api::Status;
use api::explain::Tell;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Builder;

use crate::admin::{self, ClientError, Method, Place, Response};
use crate::args::StatusArgs;
use crate::config::{HumanDuration, Problems};
use crate::{errln, exit, outln, print};

/// Does the work of a verb, and ends with the code it gives; tasks that are left end with it.
pub fn verb(work: impl Future<Output = ExitCode>) -> ExitCode {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            exit::report(&error);
            exit::code(exit::SOFTWARE)
        }
    }
}

/// Ends `check`: prints every problem on a line of its own, or `ok` and what `describe` says of a clean
/// configuration.
pub fn check<T>(checked: Result<T, Problems>, describe: impl FnOnce(&T) -> String) -> ExitCode {
    match checked {
        Ok(config) => {
            outln!("ok: {}", describe(&config));
            exit::code(exit::OK)
        }
        Err(problems) => {
            outln!("{problems}");
            exit::code(exit::CONFIG)
        }
    }
}

/// Ends `import`: prints the configuration that was made of a peer's files, and the notes about the rest on
/// standard error; or every problem of the files.
pub fn import<T: Serialize + JsonSchema>(
    files: &[PathBuf],
    imported: Result<Draft<T>, impl Display>,
) -> ExitCode {
    let draft = match imported {
        Ok(draft) => draft,
        Err(problems) => {
            errln!("{problems}");
            return exit::code(exit::DATA);
        }
    };
    let files = files.iter().map(|file| file.display().to_string());
    let head = format!("From {}.", files.collect::<Vec<_>>().join(", "));
    match draft.written(&head) {
        Ok(written) => {
            print::out(format_args!("{written}"));
            for note in &draft.notes {
                errln!("{note}");
            }
            exit::code(exit::OK)
        }
        Err(error) => {
            exit::report(&error);
            exit::code(exit::DATA)
        }
    }
}

/// Ends `import` of a service whose configuration is not in the crate `config` yet.
pub fn import_text<R: Display>(imported: Result<(String, Vec<R>), impl Display>) -> ExitCode {
    match imported {
        Ok((toml, remarks)) => {
            print::out(format_args!("{toml}"));
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

/// Runs `status`: asks the daemon at the admin address and prints what `render` makes from its answer,
/// or the answer itself with `--json`.
pub fn status<D: DeserializeOwned>(
    args: &StatusArgs,
    default_admin: SocketAddr,
    render: impl FnOnce(&Status<D>) -> String,
) -> ExitCode {
    match asked_status(args, default_admin) {
        Ok(Shown::Json(value)) => outln!("{value:#}"),
        Ok(Shown::Status(status)) => outln!("{}", render(&status).trim_end()),
        Err(error) => return unavailable(&error),
    }
    exit::code(exit::OK)
}

/// Runs `explain`: asks the daemon at the admin address for an explanation, and prints its words, or the answer
/// itself with `--json`.
pub fn explain<E: DeserializeOwned + Tell>(
    args: &StatusArgs,
    default_admin: SocketAddr,
    path: &str,
) -> ExitCode {
    let response = match ask(args, default_admin, path, Method::Get) {
        Ok(response) => response,
        Err(code) => return code,
    };
    let text = response.text();
    if !response.is_success() {
        errln!("{}", text.trim_end());
        return exit::code(exit::DATA);
    }
    match serde_json::from_str::<E>(&text) {
        Ok(explanation) if !args.json => outln!("{}", explanation.told().trim_end()),
        _ => outln!("{}", text.trim_end()),
    }
    exit::code(exit::OK)
}

/// An answer to `/status`, as it is to be shown.
enum Shown<D> {
    /// As it came: keys that this build does not know are shown too.
    Json(Value),
    /// As text.
    Status(Status<D>),
}

fn asked_status<D: DeserializeOwned>(
    args: &StatusArgs,
    default_admin: SocketAddr,
) -> Result<Shown<D>, ClientError> {
    let place = place_of(args, default_admin);
    let body = exchange(&place, "/status", Method::Get)?.body;
    let shown = match args.json {
        true => serde_json::from_slice(&body).map(Shown::Json),
        false => serde_json::from_slice(&body).map(Shown::Status),
    };
    shown.map_err(|error| failed(&place, error))
}

/// The socket of the daemon, where one is given, else its admin address.
fn place_of(args: &StatusArgs, default_admin: SocketAddr) -> Place {
    match &args.socket {
        Some(socket) => Place::Socket(socket.clone()),
        None => Place::Address(args.admin.unwrap_or(default_admin)),
    }
}

/// The lines with which every daemon's `status` begins: the process, its age, and its problems.
#[must_use]
pub fn headline<D>(status: &Status<D>) -> String {
    let ready = match status.ready {
        true => "ready",
        false => "not ready",
    };
    let uptime = Duration::try_from_secs_f64(status.uptime_seconds.trunc()).unwrap_or_default();
    let mut lines = format!(
        "{} {} ({}), {}, {ready}, up {}\n",
        status.service,
        status.version,
        status.revision,
        status.state,
        HumanDuration(uptime),
    );
    for (about, mark) in [(&status.reasons, "!"), (&status.notes, "-")] {
        for line in about {
            lines.push_str(&format!("  {mark} {line}\n"));
        }
    }
    for streams in status.streams.iter().filter(|one| one.is_pressed()) {
        lines.push_str(&format!("  - {streams}\n"));
    }
    lines
}

//--- The running daemon

/// Returns the running daemon's answer to `path`, which may carry a query.
///
/// # Errors
///
/// The code to exit with when none answers, which is said.
pub fn ask(
    args: &StatusArgs,
    default_admin: SocketAddr,
    path: &str,
    method: Method,
) -> Result<Response, ExitCode> {
    let place = place_of(args, default_admin);
    exchange(&place, path, method).map_err(|error| unavailable(&error))
}

fn exchange(place: &Place, path: &str, method: Method) -> Result<Response, ClientError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(place, error))?;
    runtime.block_on(async {
        match (method, place) {
            (Method::Get, _) => admin::get(place.clone(), path).await,
            (Method::Post, Place::Socket(_)) => admin::post(place.clone(), path, Vec::new()).await,
            (Method::Post, Place::Address(address)) => {
                admin::post(admin::control(*address).await?, path, Vec::new()).await
            }
        }
    })
}

fn failed(place: &Place, error: impl Into<Box<dyn Error + Send + Sync>>) -> ClientError {
    ClientError::Exchange {
        address: place.clone(),
        source: error.into(),
    }
}

fn unavailable(error: &ClientError) -> ExitCode {
    exit::report(error);
    exit::code(error.code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Problem;
    use api::{State, Streams};

    #[test]
    fn the_headline_says_what_runs_and_what_is_wrong() {
        let status = Status::<()> {
            service: "dns-authd".to_owned(),
            slot: None,
            admin_socket: None,
            version: "0.1.0".to_owned(),
            revision: "1a2b3c4d5".to_owned(),
            pid: 1,
            state: State::Serving,
            uptime_seconds: 3_725.9,
            ready: false,
            reasons: vec!["zones: none loaded".to_owned()],
            notes: vec!["reload: refused".to_owned()],
            streams: vec![
                Streams {
                    listener: "admin".to_owned(),
                    places: 64,
                    open: 3,
                    ..Streams::default()
                },
                Streams {
                    listener: "dns-tcp".to_owned(),
                    places: 64,
                    open: 64,
                    refused: [("full".to_owned(), 2)].into(),
                    ended: [("displaced".to_owned(), 3), ("request".to_owned(), 1)].into(),
                    ..Streams::default()
                },
            ],
            detail: None,
        };
        assert_eq!(
            headline(&status),
            "dns-authd 0.1.0 (1a2b3c4d5), serving, not ready, up 1h2m5s\n  \
             ! zones: none loaded\n  - reload: refused\n  \
             - dns-tcp: 64 of 64 places are taken; 2 streams refused (2 full), 4 ended (3 displaced, 1 request)\n"
        );
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
        let args = StatusArgs::default();
        assert_eq!(
            status(&args, nobody, headline::<()>),
            code(exit::UNAVAILABLE)
        );
        for method in [Method::Get, Method::Post] {
            let refused = ask(&args, nobody, "/x", method);
            assert_eq!(refused, Err(code(exit::UNAVAILABLE)));
        }
        let none = Vec::<Problem>::new;
        let imported = |result: Result<_, &str>| import_text(result);
        assert_eq!(imported(Ok((String::new(), none()))), code(exit::OK));
        assert_eq!(imported(Err("x")), code(exit::DATA));
    }

    #[test]
    fn a_verb_ends_with_its_code_and_waits_for_nothing_else() {
        let code_of = verb(async {
            drop(tokio::spawn(std::future::pending::<()>()));
            drop(tokio::task::spawn_blocking(std::thread::park));
            exit::code(exit::DATA)
        });
        assert_eq!(code_of, exit::code(exit::DATA));
    }
}
