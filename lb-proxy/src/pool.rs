//! The servers of one backend, and the choice among them.
