//! What healthd decides: which targets are probed when, and what the findings mean.
//!
//! ```text
//! statements ──► monitor ──► schedule: which target is probed next ──► probes
//! evidence   ──►    │                                                    │
//!                   ▼                                                    ▼
//!                 board: what is known, in which order it changed ◄── standing: rise and fall
//! ```
//!
//! [`monitor`] holds it all. Beside the targets it keeps operators' decisions ([`admin_rules`]) and the
//! clocks of nodes ([`clocks`]). The caller says what time it is, starts the probes and carries the
//! answers: nothing here does I/O or reads a clock.

pub mod admin_rules;
pub mod board;
pub mod clocks;
pub mod counts;
pub mod moment;
pub mod monitor;
pub mod schedule;
pub mod standing;
