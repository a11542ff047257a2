//! A PTP timeReceiver: the messages that it accepts, and the time of the timeTransmitter from them. No sockets, no clock.

pub mod guard;
pub mod machine;
mod path;
