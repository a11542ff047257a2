//! Bounded waiting for a server that has room.
