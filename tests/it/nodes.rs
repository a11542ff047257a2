//! Three nodes of the example site, each a whole system: systemd, podman, a disk, an address.

mod boot;
mod boot_time;
mod install;
mod native;
mod power;
mod readme;
mod rollback;
mod serve;
mod status;
mod swap;
mod using;

use std::time::Duration;

/// How long what is elected, probed or agreed on may take.
const SETTLED: Duration = Duration::from_secs(40);

/// Use before and after what happens.
const WINDOW: Duration = Duration::from_millis(700);
