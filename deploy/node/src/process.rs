//! One process of a service, asked at its own socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::Status;
use daemon::admin::{self, ClientError, Place, Response, SELF_CHECK};
use serde::de::{DeserializeOwned, IgnoredAny};

/// How long a process on this node may take to answer; a self-check may wait for an outside server.
const ANSWER: Duration = Duration::from_secs(15);

/// Asks one process.
#[derive(Clone, Debug)]
pub struct Process {
    place: Place,
}

/// Why a process could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No process answers there.
    #[error("nothing listens at {0}")]
    Nobody(Place),
    /// It does not answer in time.
    #[error("{0} gives no answer within {time} s", time = ANSWER.as_secs())]
    Slow(Place),
    /// The answer is not what was asked for.
    #[error("the answer of {place} cannot be understood")]
    Answer {
        /// The process.
        place: Place,
        /// The mistake.
        #[source]
        error: serde_json::Error,
    },
    /// The exchange failed.
    #[error(transparent)]
    Failed(#[from] ClientError),
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The reason, in a line.
    pub text: String,
}

impl Process {
    /// The one that listens at a path.
    pub fn at(socket: PathBuf) -> Self {
        Self {
            place: Place::Socket(socket),
        }
    }

    /// The one that listens at a path, or without a socket there the one that has the admin address.
    pub fn at_or(socket: PathBuf, address: SocketAddr) -> Self {
        match socket.exists() {
            true => Self::at(socket),
            false => Self {
                place: Place::Address(address),
            },
        }
    }

    /// Whether it is ready; if not, why.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn readiness(&self) -> Result<Result<(), String>, QueryError> {
        let answer = self.get("/readyz").await?;
        Ok(match answer.is_success() {
            true => Ok(()),
            false => Err(one_line(&answer.text())),
        })
    }

    /// Has it do its own work once; gives what it did, or why it did not. A version that knows no such
    /// check is not held against it.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn self_check(&self) -> Result<Result<String, String>, QueryError> {
        let answer = self.get(SELF_CHECK).await?;
        let text = one_line(&answer.text());
        Ok(match answer.status {
            404 => Ok("it knows no self-check".to_owned()),
            _ if answer.is_success() => Ok(text.trim_start_matches("ok, ").to_owned()),
            _ => Err(text),
        })
    }

    /// Its status.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn status(&self) -> Result<Status<IgnoredAny>, QueryError> {
        let answer = self.get("/status").await?;
        serde_json::from_slice(&answer.body).map_err(|error| QueryError::Answer {
            place: self.place.clone(),
            error,
        })
    }

    /// Its answer to `GET path`, which may carry a query.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn get_json<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Result<T, Refusal>, QueryError> {
        let answer = self.get(path).await?;
        if !answer.is_success() {
            return Ok(Err(Refusal {
                status: answer.status,
                text: one_line(&answer.text()),
            }));
        }
        serde_json::from_slice(&answer.body)
            .map(Ok)
            .map_err(|error| QueryError::Answer {
                place: self.place.clone(),
                error,
            })
    }

    async fn get(&self, path: &str) -> Result<Response, QueryError> {
        let asked = admin::get(self.place.clone(), path);
        let asked = tokio::time::timeout(ANSWER, asked).await;
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ClientError::NotRunning { .. })) => Err(QueryError::Nobody(self.place.clone())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(QueryError::Slow(self.place.clone())),
        }
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(", ")
}
