//! Gives listeners and established connections to a successor.

pub mod message;
