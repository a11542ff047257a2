//! A service in two slots that share its sockets, as units on a node have it.

use std::path::PathBuf;
use std::process::Command;

use daemon::admin::{self, Response};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::scratch::Scratch;

/// Starts processes of one service, each with a socket of its own at which it can be asked.
pub struct Slots {
    service: &'static str,
    files: Scratch,
    /// Starts the service, with the arguments of the slot.
    command: Box<dyn Fn(&[String]) -> Command>,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl Slots {
    /// Slots of a service that `command` starts with the arguments that it is given.
    #[must_use]
    pub fn new(service: &'static str, command: impl Fn(&[String]) -> Command + 'static) -> Self {
        Self {
            service,
            files: Scratch::new("slots"),
            command: Box::new(command),
        }
    }

    /// The admin address of a slot's process.
    #[must_use]
    pub fn socket(&self, slot: &str) -> PathBuf {
        self.files.join(&format!("{slot}.sock"))
    }

    /// Starts a slot and waits until it is ready.
    #[must_use]
    pub fn start(&self, slot: &str) -> Daemon {
        let label = format!("{}-{slot}", self.service);
        Daemon::start(&label, self.command_of(slot))
    }

    /// The command that starts a slot.
    #[must_use]
    pub fn command_of(&self, slot: &str) -> Command {
        let socket = self.socket(slot).display().to_string();
        let arguments = ["--slot", slot, "--admin-socket", &socket];
        (self.command)(&arguments.map(str::to_owned))
    }

    /// Asks the process of a slot.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer.
    #[must_use]
    pub fn get(&self, slot: &str, path: &str) -> Response {
        let socket = self.socket(slot);
        self.answered(slot, admin::get(socket.as_path(), path))
    }

    /// Tells the process of a slot something.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer.
    #[must_use]
    pub fn post(&self, slot: &str, path: &str) -> Response {
        let socket = self.socket(slot);
        self.answered(slot, admin::post(socket.as_path(), path, Vec::new()))
    }

    fn answered<E: std::fmt::Debug>(
        &self,
        slot: &str,
        asking: impl Future<Output = Result<Response, E>>,
    ) -> Response {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime is made");
        let answer = runtime.block_on(asking);
        answer.unwrap_or_else(|error| panic!("{slot} of {}: {error:?}", self.service))
    }

    /// The `/status` of a slot.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer with JSON.
    #[must_use]
    pub fn status(&self, slot: &str) -> Value {
        let answer = self.get(slot, "/status");
        serde_json::from_slice(&answer.body).expect("/status is JSON")
    }

    /// A slot's answer to the self-check.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn self_check(&self, slot: &str) -> Result<String, String> {
        let answer = self.get(slot, "/self-check");
        match answer.status {
            200 => Ok(answer.text()),
            _ => Err(answer.text()),
        }
    }
}

/// A command with further arguments.
#[must_use]
pub fn with(mut command: Command, arguments: &[String]) -> Command {
    command.args(arguments);
    command
}
