//! The vocabulary of all parts of the time service: instants and spans, settings, and the view of the service.
//!
//! Values only. Reads no clock, no file and no socket, and decides nothing about the time.

pub mod history;
pub mod labels;
pub mod sample;
pub mod settings;
pub mod time;
pub mod view;
