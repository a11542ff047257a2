//! dnstap: the messages that a DNS server has received and sent, for programs that record or watch it (<https://dnstap.info>).
//!
//! [`message`] has the messages, in protobuf; [`frames`] the Frame Streams that carry them over a Unix socket or in a file.
//!
//! Never opens a socket or a file, and never reads a clock.

#![warn(missing_docs)]

pub mod frames;
pub mod message;

pub use dns_wire::Transport;
pub use message::{Event, Kind, Peer};
