//! The newest whole value, by the name that services know it by.

pub use crate::latest::{Latest as Cell, Reader};
