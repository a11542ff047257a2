//! DNS messages, names and types, for both DNS servers.
//!
//! Works only on bytes that are already in memory: no sockets, no clocks, no allocation on the per-query
//! paths of a server. The words are those of RFC 9499.
//!
//! ```text
//! datagram ─► Query::parse ─► (a server decides) ─► Composer ─► datagram
//!                 │                                    ▲
//!               Name, Type, Class, Edns             rdata, Layout
//! ```
//!
//! * [`Query`] reads the one shape of message a server accepts: a header, a single question and
//!   perhaps an OPT record. It borrows from the datagram and copies nothing.
//! * [`Records`] walks any message, such as an upstream's response.
//! * [`Composer`] writes messages, compressing names as RFC 1035 §4.1.4 and RFC 3597 §4 allow.
//! * [`rdata`] turns the text of master files into RDATA and back.

#![warn(missing_docs)]

pub mod code;
pub mod composer;
pub mod edns;
pub mod hash;
pub mod header;
pub mod layout;
pub mod name;
pub mod query;
pub mod question;
pub mod rdata;
pub mod records;
pub mod rtype;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;
pub mod tsig;

pub use code::{Opcode, Rcode};
pub use composer::{Composer, Full, Owner};
pub use edns::{ClientSubnet, Edns};
pub use header::Flags;
pub use name::{Name, NameError};
pub use query::{Query, QueryError};
pub use question::{Question, Response};
pub use records::{RecordRef, Records, Section};
pub use rtype::{Class, Type};
pub use transport::Transport;
pub use tsig::{Key, Keys, Session, Tsig, TsigError};
