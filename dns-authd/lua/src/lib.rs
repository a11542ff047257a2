//! `LUA` records: programs whose results are served as records of another type, in the manner of
//! `PowerDNS` (docs/lua-records of its documentation), in a real Lua 5.4.
//!
//! ```text
//!                      Evaluator::evaluate                 per query
//! Snippet + view ─► run, with every draw scripted ─► Fixed    ─► rendered once
//!  (at load, and                │                    Choice   ─► rendered once, Select::draw
//!   when health moves)          │                    PerQuery ─► Evaluator::answer_for
//!                               └─► targets ─► healthd
//! ```
//!
//! A program runs when its zone is loaded and when the health that it depends on changes. It runs for a
//! query only if its result depends on the query in a way that only running it shows. So the answer of
//! `ifportup(443, {...})` costs as little as a plain address record.
//!
//! Programs of `PowerDNS` run unchanged, with these differences:
//!
//! * Numbers print as in Lua 5.4: `10 / 2` is `5.0` where Lua 5.1 and `LuaJIT` have `5`.
//! * `os`, `io`, `require` and `resolve` are absent, and there is no database of places.
//! * All checks begin when the zone is loaded; an address is probed only if it stands in the
//!   program, not if a query brings it.
//! * Options and arguments that make no sense are errors; `PowerDNS` takes some for zero.
//! * Redirects of a probed URL are not followed.
//! * `clusternodes` has the nodes of a cluster.
//!
//! Nothing here opens sockets, reads files or clocks, or logs: programs print into [`Note`]s, and the
//! caller passes in seeds for random numbers. The sandbox is described in
//! `sandbox`, the rules of health in `health`, those of drawing in [`select`].

mod broken;
mod checks;
mod choice;
mod client;
mod error;
mod evaluation;
mod evaluator;
mod geography;
pub mod hash;
mod includes;
mod listed;
mod liveness;
mod nodes;
mod note;
mod objects;
mod options;
mod pattern;
mod patterns;
mod per_thread;
mod picks;
mod reverse;
mod run;
mod sandbox;
pub mod select;
mod settings;
mod snippet;
mod target;
mod values;

#[cfg(test)]
mod tests;

pub use broken::check;
pub use choice::{Certainty, Choice};
pub use client::Client;
pub use error::LuaError;
pub use evaluation::{Answer, Evaluation, Outcome, rdata};
pub use evaluator::Evaluator;
pub use health::{Liveness, Watched};
pub use listed::ListedNode;
pub use liveness::LivenessView;
pub use note::{Note, Severity};
pub use per_thread::on_this_thread;
pub use select::{Draw, Member, Select};
pub use settings::{AllDown, LuaSettings, WhileUnknown};
pub use snippet::{NoRecords, Records, Snippet};
