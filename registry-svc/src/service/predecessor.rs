//! A process takes the root over from the one that serves it.
//!
//! A registry has one journal and so one process at a time. When both were given the same listening
//! sockets, the new one asks the old one to finish and opens the store once it has: whoever connects
//! meanwhile waits in the kernel's queue, and nobody is refused. Upload sessions are on the disk, so
//! that clients go on with them at the new process.

use std::time::Duration;

use daemon_base::admin;

use crate::config::Config;
use crate::root_lock::{LockError, RootLock};

/// The path of the admin listener at which a successor asks.
pub(crate) const PATH: &str = "/hand-over";

/// What closing the store may take beyond the drain.
const BEYOND: Duration = Duration::from_secs(20);

/// Takes the root; from who has it, if sockets are shared with it.
pub(super) async fn take(config: &Config, is_inherited: bool) -> Result<RootLock, LockError> {
    match RootLock::take(&config.root) {
        Err(LockError::Held { pid, .. }) if is_inherited => {
            tracing::info!(pid, "Another process has the root: it is asked to finish");
            if let Some(address) = config.common.admin {
                let asked = admin::post(address, PATH, Vec::new()).await;
                match asked {
                    Ok(answer) if answer.is_success() => {}
                    Ok(answer) => tracing::warn!(answer = answer.text(), "It says no"),
                    Err(error) => tracing::warn!(%error, "It cannot be asked"),
                }
            }
            RootLock::wait(&config.root, config.common.drain + BEYOND).await
        }
        taken => taken,
    }
}
