//! Whole responses.

mod across;
mod answers;
mod catalogs;
mod cookies;
mod flattened;
mod incremental;
mod loops;
mod random_zones;
mod reference;
mod signed;
mod tsig;
mod views;
