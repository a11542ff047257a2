//! The metrics, by name.
