//! The decisions and the screen of `outpost up`.
//!
//! | module | content |
//! | --- | --- |
//! | [`conductor`] | the order of start and stop, and what follows the death of a service |
//! | [`event`] | what is worth a line |
//! | [`view`] | what people are shown of the site |
//! | [`screen`] | how a terminal shows it |
//! | [`keys`] | what a key press means |
//! | [`sample`] | numbers from what services say of themselves |
//!
//! Never starts a process, reads a clock or writes to a terminal.

pub mod conductor;
pub mod event;
pub mod keys;
pub mod sample;
pub mod screen;
pub mod view;
