//! A slave of PTP: which messages it takes, and the master's time out of them. No sockets, no clock.

pub mod guard;
pub mod machine;
mod path;
