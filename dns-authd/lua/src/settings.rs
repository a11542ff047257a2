//! Settings of all programs.

use std::num::NonZeroU32;
use std::time::Duration;

/// Settings of all programs; the defaults are those of `PowerDNS` where it has
/// the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaSettings {
    /// The most instructions of one run (`lua-records-exec-limit`); `None` for no limit.
    pub instructions: Option<NonZeroU32>,
    /// The most bytes that the interpreter of one thread may hold.
    pub memory: usize,
    /// The interval of probes when the record does not set one (`lua-health-checks-interval`).
    pub interval: Duration,
    /// The interval of probes while a target's state is undecided.
    pub fast_interval: Duration,
    /// The time that a probe may take when the record does not set one.
    pub timeout: Duration,
    /// The number of good results in a row that declare a target up.
    pub rise: u32,
    /// The number of bad results in a row that declare a target down when the record does not set one
    /// (`minimumFailures`).
    pub fall: u32,
    /// The answer when every target is down and the record has no `backupSelector`.
    pub all_down: AllDown,
    /// The answer while no target is known to be up and some are not yet probed.
    pub while_unknown: WhileUnknown,
    /// The lower bound of [`ttl_bound`](crate::Choice::ttl_bound).
    pub min_ttl: Duration,
}

impl Default for LuaSettings {
    fn default() -> Self {
        Self {
            instructions: NonZeroU32::new(1000),
            memory: 8 * 1024 * 1024,
            interval: Duration::from_secs(5),
            fast_interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            rise: 1,
            fall: 1,
            all_down: AllDown::Random,
            while_unknown: WhileUnknown::All,
            min_ttl: Duration::from_secs(1),
        }
    }
}

/// The answer when every target is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllDown {
    /// One member of the first set that has any, at random, as in `PowerDNS`.
    #[default]
    Random,
    /// All members of the first set that has any.
    All,
    /// No records: the name exists, without data.
    Empty,
    /// SERVFAIL, so that resolvers ask another server, or serve stale data.
    Servfail,
}

/// The answer while no target is known to be up and some are not yet probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhileUnknown {
    /// All members that may be up, of the first set that has any.
    #[default]
    All,
    /// Answers as if they were down, as in `PowerDNS`.
    AsDown,
}
