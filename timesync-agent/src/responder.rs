//! Answers to NTP clients.

mod reference;

pub use reference::Reference;
