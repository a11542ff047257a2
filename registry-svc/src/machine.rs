//! The files and the clocks of the machine that the service runs on. A test gives it clocks that jump, and files with dates of such a clock.

use std::sync::Arc;

use registry_store::disk::{Disk, RealDisk};
use registry_store::{SteadyClock, WallClock, steady_clock, wall_clock};

/// The files and the clocks of a machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The file system that the root is on.
    pub disk: Arc<dyn Disk>,
    /// The wall clock, in milliseconds since 1970: it stamps what the node states.
    pub wall: WallClock,
    /// A clock that never steps, in milliseconds: ages go by it.
    pub steady: SteadyClock,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            wall: wall_clock,
            steady: steady_clock,
        }
    }
}
