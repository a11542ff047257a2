//! Logins by name and password, for every service that has some: the users of a file as `htpasswd -B` writes it, the
//! credentials of HTTP Basic (RFC 7617), and the verification of a password.
//!
//! | module | content |
//! | --- | --- |
//! | `htpasswd` | [`Users`] |
//! | `basic` | [`Basic`] |
//! | `verifier` | [`Verifier`]: bounded in work, and remembers passwords that were right |
//! | `guesses` | how soon a source may try its next password after wrong ones |
//!
//! Never says whether a name or a password was the wrong one, and never keeps a password.

mod basic;
mod guesses;
mod htpasswd;
mod verifier;

pub use basic::Basic;
pub use htpasswd::{Users, follow, read};
pub use verifier::{Outcome, Verifier};
