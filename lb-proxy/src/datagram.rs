//! Balancing of UDP.
