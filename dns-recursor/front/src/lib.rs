//! Judges one query: an answer from the cache, an answer of this server's own, a refusal, or a question for
//! the resolver.
//!
//! [`front::Front`] decides, for datagrams and streams alike. A cache hit allocates nothing. This crate never
//! opens a socket and never reads a clock.

pub mod derived;
pub mod foresee;
pub mod front;
pub mod local;
pub mod policy;
