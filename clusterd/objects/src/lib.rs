//! Reads the texts of Kubernetes: objects, lists, events of a watch, and manifests.
//!
//! Unknown fields are ignored, and `null` is a field that is missing: Go writes empty slices so. An object that cannot be read is
//! an [`ObjectError`] that names it; the other objects of the same list or file are read all the same. Every size is
//! bounded by that of the text, which the caller bounds.
//!
//! [`object`] has one object, [`answer`] the answers of the API, [`manifest`] files that people write, [`kubeconfig`] the way into
//! the API.

#![warn(missing_docs)]

pub mod answer;
mod dns;
mod fields;
pub mod kubeconfig;
pub mod manifest;
pub mod object;

pub use object::{ObjectError, read};

#[cfg(test)]
mod tests;
