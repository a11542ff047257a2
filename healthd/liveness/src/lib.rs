//! The decisions of healthd: when to probe each target, and how findings change its liveness.
//!
//! ```text
//! statements ──► monitor ──► schedule: which target is probed next ──► probes
//! evidence   ──►    │                                                    │
//!                   ▼                                                    ▼
//!                 table: what is known, in which order it changed ◄── target_state: rise and fall
//! ```
//!
//! [`monitor`] holds it all. The schedule of a target is the site's ([`schedules`]); a subscriber that states
//! another one has a view of the same results ([`table`]). Beside the targets the monitor keeps operators' decisions ([`admin_rules`]) and the
//! clocks of nodes ([`clocks`]). A subscriber that healthd has left alone for too long decides by the same monitor
//! ([`stand_in`]). The caller says what time it is, starts the probes and carries the
//! answers: nothing here does I/O or reads a clock.

pub mod admin_rules;
pub mod clocks;
pub mod counts;
pub mod monitor;
pub mod now;
pub mod schedule;
pub mod schedules;
pub mod stand_in;
pub mod table;
pub mod target_state;
