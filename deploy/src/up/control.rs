//! How other shells talk to a running site: a line, and a text in return, over a Unix socket in
//! its run directory, which only its user can enter.
//!
//! ```text
//! master down master-1 master-2      →   ok master-1 is down …
//! master up all                      →   ok …
//! status                             →   ok Outpost …
//! status json                        →   ok {"site":…}
//! anything else                      →   error …
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use daemon::accept::Acceptor;
use daemon::connections::{Connections, Opening, Placed, Policy};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// A request from another shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Everything there is to see.
    Status {
        /// Whether programs are to read it.
        json: bool,
    },
    /// Take masters down, or bring them up.
    Switch {
        /// Their names, numbers, or `all`.
        masters: Vec<String>,
        /// Whether they are to be up.
        up: bool,
    },
}

impl Request {
    /// The request as a line.
    pub(crate) fn to_line(&self) -> String {
        match self {
            Self::Status { json: false } => "status\n".to_owned(),
            Self::Status { json: true } => "status json\n".to_owned(),
            Self::Switch { masters, up } => {
                let verb = if *up { "up" } else { "down" };
                format!("master {verb} {}\n", masters.join(" "))
            }
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let request = match (words.next()?, words.next()) {
            ("status", None) => Self::Status { json: false },
            ("status", Some("json")) => Self::Status { json: true },
            ("master", Some(verb @ ("up" | "down"))) => {
                let masters: Vec<String> = words.by_ref().map(str::to_owned).collect();
                (!masters.is_empty()).then_some(Self::Switch {
                    masters,
                    up: verb == "up",
                })?
            }
            _ => return None,
        };
        words.next().is_none().then_some(request)
    }
}

/// A request, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Call {
    /// The request.
    pub(crate) request: Request,
    /// Takes the answer.
    pub(crate) answer: oneshot::Sender<Result<String, String>>,
}

/// The path of a site's socket.
pub(crate) fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join("control.sock")
}

//--- The running site

/// Passes requests on until the receiver is gone.
pub(crate) async fn serve(listener: UnixListener, calls: mpsc::Sender<Call>) {
    let connections = Connections::new("control", Policy::of(CLIENTS));
    let acceptor = Acceptor::new(connections, Opening::Request);
    loop {
        let (stream, _) = acceptor.next(&listener).await;
        let calls = calls.clone();
        tokio::spawn(async move {
            // The limit bounds it, whatever the client does.
            let _answer = stream.place().answer();
            // A client that goes away in the middle is its own business.
            drop(tokio::time::timeout(LIMIT, attend(stream, calls)).await);
        });
    }
}

async fn attend(stream: Placed<UnixStream>, calls: mpsc::Sender<Call>) -> io::Result<()> {
    let mut line = String::new();
    let (reader, mut writer) = tokio::io::split(stream);
    tokio::io::BufReader::new(reader.take(LINE))
        .read_line(&mut line)
        .await?;
    let result = match Request::parse(&line) {
        None => Err("cannot understand the request".to_owned()),
        Some(request) => {
            let (answer, answered) = oneshot::channel();
            match calls.send(Call { request, answer }).await {
                Ok(()) => answered
                    .await
                    .unwrap_or_else(|_| Err("the site is stopping".to_owned())),
                Err(_) => Err("the site is stopping".to_owned()),
            }
        }
    };
    let reply = match result {
        Ok(text) => format!("ok {text}\n"),
        Err(text) => format!("error {text}\n"),
    };
    writer.write_all(reply.as_bytes()).await?;
    writer.shutdown().await
}

//--- The other shell

/// Asks the site that runs in a directory.
///
/// # Errors
///
/// When no site runs there, or when it refuses.
pub(crate) fn ask(run_dir: &Path, request: &Request) -> anyhow::Result<String> {
    let path = socket(run_dir);
    let mut stream = StdUnixStream::connect(&path).with_context(|| {
        format!(
            "no site is running in {} (start one with: outpost up)",
            run_dir.display()
        )
    })?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(request.to_line().as_bytes())?;
    let mut answer = String::new();
    stream
        .take(ANSWER)
        .read_to_string(&mut answer)
        .context("the site does not answer")?;
    match answer.trim_end().split_once(' ') {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("error", text)) => bail!("{text}"),
        _ => bail!("the site does not answer"),
    }
}

/// Clients served at a time; further ones wait in the socket's queue.
const CLIENTS: usize = 8;
/// Longest request.
const LINE: u64 = 1024;
/// Longest answer: a status of a few kilobytes.
const ANSWER: u64 = 1024 * 1024;
/// How long either side waits for the other.
const LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_way_over_the_socket() {
        let requests = [
            Request::Status { json: false },
            Request::Status { json: true },
            Request::Switch {
                masters: vec!["1".to_owned()],
                up: false,
            },
            Request::Switch {
                masters: vec!["master-0".to_owned(), "all".to_owned()],
                up: true,
            },
        ];
        for request in requests {
            assert_eq!(Request::parse(&request.to_line()), Some(request));
        }
    }

    #[test]
    fn nonsense_is_no_request() {
        for line in [
            "",
            "\n",
            "stat",
            "status x",
            "master",
            "master down",
            "master sideways 1",
        ] {
            assert_eq!(Request::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_missing_site_is_said_to_be_missing() {
        let error = ask(Path::new("/nonexistent"), &Request::Status { json: false }).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no site is running in /nonexistent"),
            "{error}"
        );
    }
}
