//! The rules of the house that a machine can hold, a family of them in each file.

mod directions;
mod leftovers;
mod lexicon;
mod metric_names;
mod modules;
mod python;
mod sizes;
mod unsafe_code;
