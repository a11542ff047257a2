//! One process at a time has a directory, and the next takes it over.
//!
//! ```text
//!  old  serves ─────────────────── asked: drains, ends ┐
//!  new     sockets … directory is held: asks … waits … └► has it, opens what is in it, serves
//! ```
//!
//! A store has one journal, a clock is set by one process: two processes of such a service must not work
//! at once. When both have the same listening sockets, the new one asks the old one to finish and
//! continues once it has: clients wait in the kernel's queue meanwhile, and none is refused. A process with a name of
//! a slot (`--slot`) asks too: a socket that it binds itself is free once the old one has ended.
//!
//! The kernel lets go of the lock when a process ends, however it does. The file says who holds it
//! and where that process can be asked, since processes in containers see no ids of each other.
//!
//! Only root and the service's own user may ask. A successor locks a second file while it waits, and says so
//! when it asks. Without that lock the request is refused, and the process serves on. When the lock has gone at the
//! end of the drain, the successor has failed meanwhile: the process ends with 75, and its service manager starts it
//! again. A successor of the version before says nothing, and is believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpid, kill_process};

use crate::admin::{self, Place, Reply};
use crate::config::Common;
use crate::exit;
use crate::life::State;
use crate::promise::{Promise, wait_mark};
use crate::run::Context;

/// The path of the admin listener at which a successor asks.
pub const PATH: &str = "/hand-over";

/// The name of the file in the directory.
const NAME: &str = "daemon.lock";

/// The parameter of a successor that locks its file while it waits.
const WAITS: &str = "waits";

/// More than a process id and a path are long.
const MAX_TEXT: u64 = 4096;

/// The time until a lock that another process holds is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// The interval of requests to the holder, until it agrees: it may be starting itself.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The time limit of one request; then comes the next.
const ASK_TIME: Duration = Duration::from_secs(2);

/// The time that closing may take beyond the drain.
const BEYOND: Duration = Duration::from_secs(20);

/// Locks that are kept until the process ends.
static KEPT: Mutex<Vec<Lock>> = Mutex::new(Vec::new());

/// A directory that is this process's until this is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    directory: PathBuf,
}

/// Why a directory is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{directory} is in use{}", by(*pid), directory = directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
        /// The process that holds it, if the file says so.
        pid: Option<u32>,
        /// The admin socket of that process, if the file says so.
        socket: Option<PathBuf>,
    },
    /// It cannot be had.
    #[error("cannot lock {directory}", directory = directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

/// Takes the directory; from who has it, if this process takes over.
///
/// # Errors
/// When another process keeps it, or the system refuses.
pub async fn take(directory: &Path, common: &Common, context: &Context) -> Result<Lock, LockError> {
    let own = context.slot.admin_socket.as_deref();
    if own.is_none() && context.takes_over() {
        tracing::warn!("Without --admin-socket no successor can ask this process to hand over");
    }
    let lock = match Lock::take(directory) {
        Err(LockError::Held { pid, socket, .. }) if context.takes_over() => {
            tracing::info!(
                pid,
                "Another process has the directory; asking it to finish"
            );
            let _waits = wait_mark(directory);
            let asking = ask(socket.as_deref(), common);
            let waiting = Lock::wait(directory, common.drain + BEYOND);
            tokio::pin!(waiting);
            tokio::select! {
                taken = &mut waiting => taken?,
                () = asking => waiting.await?,
            }
        }
        taken => taken?,
    };
    lock.sign(own).map_err(|source| LockError::Io {
        directory: directory.to_owned(),
        source,
    })?;
    Ok(lock)
}

/// Asks until one answers with yes.
async fn ask(socket: Option<&Path>, common: &Common) {
    // The socket of a predecessor from before may be in a directory that this process does not see.
    let socket = socket.map(Place::from);
    let places: Vec<Place> = socket
        .into_iter()
        .chain(common.admin.map(Place::from))
        .collect();
    if places.is_empty() {
        tracing::warn!("It left no address to ask; waiting for its end");
        return;
    }
    let mut is_told = false;
    loop {
        let mut reasons = Vec::new();
        for place in &places {
            match ask_at(place).await {
                Ok(()) => return,
                Err(reason) => reasons.push(format!("{place}: {reason}")),
            }
        }
        if !is_told {
            let reason = reasons.join("; ");
            tracing::warn!(reason, "It cannot be asked; trying again");
            is_told = true;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn ask_at(place: &Place) -> Result<(), String> {
    let path = format!("{PATH}?{WAITS}=yes");
    let asked = tokio::time::timeout(ASK_TIME, admin::post(place.clone(), &path, Vec::new()));
    match asked.await {
        Ok(Ok(answer)) if answer.is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("it answers {}", answer.status)),
        Ok(Err(error)) => Err(exit::chain(&error)),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Lets a successor ask for the directory: this process ends then, as on SIGTERM. A process that has none has
/// nothing to give.
pub fn offer(context: &Context, lock: Option<&Lock>) {
    let Some(lock) = lock else {
        return;
    };
    let (life, promises) = (context.life.clone(), context.promises.clone());
    let directory = lock.directory.clone();
    context.admin.post_for_owner(PATH, move |request| {
        let promise = Promise {
            directory: directory.clone(),
            is_marked: request.parameter(WAITS).is_some(),
        };
        let is_idle = promise.is_marked && !promise.is_waited_for();
        // A second signal would cut the drain short: every caller gets the promise, and the process ends once.
        let begins =
            !is_idle && life.state() != State::Draining && promises.promise(promise.clone());
        let promises = promises.clone();
        async move {
            if is_idle {
                let directory = promise.directory.display();
                return Reply::text(409, format!("no successor waits for {directory}\n"));
            }
            tracing::info!(begins, "A successor asks for what this process has");
            // The end of a process begins in one place.
            match begins.then(|| kill_process(getpid(), Signal::TERM)) {
                None | Some(Ok(())) => Reply::text(200, "it is yours in a moment\n"),
                Some(Err(error)) => {
                    promises.take_back();
                    Reply::text(500, format!("cannot end: {error}\n"))
                }
            }
        }
    });
}

impl Lock {
    /// Takes the directory, which is made if it is not there.
    ///
    /// # Errors
    /// When another process has it, or the system refuses.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io {
            directory: directory.to_owned(),
            source,
        };
        fs::create_dir_all(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(NAME))
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let (pid, socket) = read(&file);
                return Err(LockError::Held {
                    directory: directory.to_owned(),
                    pid,
                    socket,
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let lock = Self {
            file,
            directory: directory.to_owned(),
        };
        lock.sign(None).map_err(failed)?;
        Ok(lock)
    }

    /// Says who has it, and where that process can be asked.
    fn sign(&self, socket: Option<&Path>) -> io::Result<()> {
        let mut text = format!("{}\n", std::process::id());
        if let Some(socket) = socket {
            text.push_str(&format!("{}\n", socket.display()));
        }
        self.file.set_len(0)?;
        rustix::io::pwrite(&self.file, text.as_bytes(), 0)?;
        Ok(())
    }

    /// Keeps the directory until the process ends.
    pub fn keep(self) {
        let mut kept = KEPT.lock();
        kept.push(self);
    }

    /// Takes the directory once who has it lets go; gives up after `patience`.
    ///
    /// # Errors
    /// When it is still held then, or the system refuses.
    pub async fn wait(directory: &Path, patience: Duration) -> Result<Self, LockError> {
        let waited = tokio::time::timeout(patience, async {
            loop {
                let taken = Self::take(directory);
                tokio::time::sleep(RETRY).await;
                // A process that ends lets go of its files one after the other, in a moment: that
                // has passed.
                if !matches!(taken, Err(LockError::Held { .. })) {
                    return taken;
                }
            }
        });
        match waited.await {
            Ok(taken) => taken,
            Err(_) => Self::take(directory),
        }
    }
}

/// Reads the file: a process, and the socket at which it answers.
fn read(mut file: &File) -> (Option<u32>, Option<PathBuf>) {
    let mut text = String::new();
    let _read = Read::by_ref(&mut file)
        .take(MAX_TEXT)
        .read_to_string(&mut text);
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.trim().parse().ok());
    (pid, lines.next().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_held_by_one_and_free_once_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let first = Lock::take(directory).unwrap();
        let refused = Lock::take(directory).unwrap_err();
        let text = refused.to_string();
        let us = format!(" is in use by process {}", std::process::id());
        assert!(text.ends_with(&us), "{text}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let waited = runtime.block_on(Lock::wait(directory, Duration::from_millis(1)));
        assert!(matches!(waited, Err(LockError::Held { .. })));
        let second = runtime.block_on(async {
            let waiting = Lock::wait(directory, Duration::from_secs(60));
            drop(first);
            waiting.await
        });
        drop(second.unwrap());
    }

    #[test]
    fn who_holds_it_says_where_it_can_be_asked() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let lock = Lock::take(directory).unwrap();
        let socket_of = || match Lock::take(directory) {
            Err(LockError::Held { socket, pid, .. }) => {
                assert_eq!(pid, Some(std::process::id()));
                socket
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(socket_of(), None);
        lock.sign(Some(Path::new("/run/outpost/admin/x-a.sock")))
            .unwrap();
        assert_eq!(
            socket_of(),
            Some(PathBuf::from("/run/outpost/admin/x-a.sock"))
        );
        // Another socket, a shorter text: nothing of the longer one is left.
        lock.sign(Some(Path::new("/a"))).unwrap();
        assert_eq!(socket_of(), Some(PathBuf::from("/a")));
    }
}
