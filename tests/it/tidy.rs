//! The rules of the house that a machine can hold, a family of them in each file.

mod files;
mod layers;
mod leftovers;
mod metric_names;
mod python;
mod sizes;
mod templates;
