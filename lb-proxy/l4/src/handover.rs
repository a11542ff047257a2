//! Gives listeners and established connections to a successor, so that a new version takes over while
//! transfers run.
//!
//! ```text
//!  new                                   old
//!   │ Hello ────────────────────────────► │   is it one of ours (user), do we speak the same?
//!   │ ◄──────────────── Hello, Sockets …  │   shared: both accept
//!   │ its own start: engine, probes, …    │   serves on
//!   │ Take ─────────────────────────────► │   stops in its tracks
//!   │ ◄ Connections …, Bytes …, Flows …,  │   who is active, and what operators said, may have
//!   │                 Sockets (state), End│   changed since the first time
//!   │ Received ─────────────────────────► │
//!   │ ◄───────────────────────────── Yours│   and exits
//!   │ goes on with them                   │
//! ```
//!
//! Every connection has one owner at any time. Until *Received* has arrived it is the old process,
//! which continues where it stopped if the successor fails, is too slow, or says *Abort*: the copies of
//! the sockets the successor has are closed without a trace. With *Yours* it is the new one. A process
//! that has sent *Yours* touches nothing any more; one that has not received it throws its copies away.
//!
//! Octets on their way are part of a connection: those that were read and not written travel in messages,
//! or stay in the pipe they are in, which is handed over too. Connections that have no server yet are
//! handed over with what their client has sent. A flow of datagrams is the socket to its server and
//! what is known of it: datagrams that come meanwhile wait in the sockets, which both processes have.
//!
//! The socket is bound beside its path and renamed over it, so that there is always one; and a process
//! removes the path only if it is still its own.

mod channel;
mod receive;
mod send;

pub use receive::{Predecessor, TakeError, Taken, ask};
pub use send::{Flows, HandoverSender, Others, State};

#[cfg(test)]
mod tests;
