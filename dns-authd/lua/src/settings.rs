//! The limits of programs, and the defaults of their checks.

use std::num::NonZeroU32;

use config::dns_authd::{Health, Lua};

pub use config::dns_authd::{AllDown, WhileUnknown};

/// The settings of an evaluator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LuaSettings {
    /// The limits.
    pub limits: Lua,
    /// The schedule of checks that do not state one, and the answers while no target is up.
    pub health: Health,
}

impl LuaSettings {
    /// The most instructions of one run; `None` for no limit.
    #[must_use]
    pub const fn instructions(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.limits.instructions)
    }

    /// The most bytes that the interpreter of one thread may hold.
    #[must_use]
    pub fn memory(&self) -> usize {
        usize::try_from(self.limits.memory.0).unwrap_or(usize::MAX)
    }
}
