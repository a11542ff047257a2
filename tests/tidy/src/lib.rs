//! The rules of the house that a machine can hold.
//!
//! The library reads the workspace: its packages ([`workspace`]), the modules of each and the arrows between them ([`modules`],
//! [`graph`]), its prose ([`prose`]) and the words that the project has retired ([`lexicon`]). The rules are the tests in `house/`, a
//! family of them in each file. It never builds or starts a service, so `cargo test -p tidy` takes seconds.

pub mod files;
pub mod graph;
pub mod lexicon;
pub mod modules;
pub mod prose;
pub mod workspace;
