//! The choice of a server for a connection, the line of those that wait, and limits of clients.
//!
//! [`pool`] chooses, [`queue`] lets wait, [`limits`] counts what sources do, and [`table`] is all of it as
//! the data path reads it. Never opens a socket, never reads a clock: `now` and random numbers are arguments.

pub mod limits;
pub mod pool;
pub mod queue;
pub mod table;
