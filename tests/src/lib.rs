//! The harness of the end-to-end tests: real processes, real sockets, a network of namespaces.
//!
//! It shares no code with what it tests: its DNS client reads messages with a parser of its own, so
//! that a mistake in `dns-wire` cannot hide itself. It never touches anything outside the
//! namespaces, loopback addresses, directories and processes that it made.

pub mod binaries;
pub mod browser;
pub mod bundle;
pub mod certificate;
pub mod clusterd;
pub mod daemon;
pub mod dns;
pub mod gap;
pub mod hello;
pub mod installed;
pub mod keepalived;
pub mod lb;
pub mod load;
pub mod masters;
pub mod netns;
pub mod node;
pub mod registry;
pub mod rig;
pub mod scratch;
pub mod site;
pub mod slots;
pub mod slow_link;
pub mod sockets;
pub mod status;
pub mod strangers;
pub mod stream;
pub mod time;
pub mod upstream;
pub mod wait;
