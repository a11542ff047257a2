//! The decisions and the screen of `outpost up`.
//!
//! | module | content |
//! | --- | --- |
//! | [`conductor`] | the order of start and stop, and what follows the death of a service |
//! | [`event`] | events that are worth a line |
//! | [`view`] | the site as people see it |
//! | [`screen`] | how a terminal shows it |
//! | [`keys`] | the meaning of a key press |
//! | [`sample`] | numbers from what services say of themselves |
//! | [`suggestions`] | commands to try, by the programs that are here |
//!
//! Never starts a process, reads a clock or writes to a terminal.

pub mod conductor;
pub mod event;
pub mod keys;
pub mod sample;
pub mod screen;
pub mod suggestions;
pub mod view;
