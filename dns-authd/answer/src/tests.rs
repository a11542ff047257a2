//! Whole responses.

mod answers;
mod random_zones;
mod reference;
mod signed;
