//! Live sets as plain records, for name servers that cannot run their programs.
//!
//! The secondaries of other software do not know LUA records: the names whose records programs make would be missing there. A
//! *flattened* version of a zone has in their place the records that the programs give now, and no program. It is made again
//! whenever liveness changes them, so such secondaries follow it by NOTIFY and IXFR.
//!
//! ```text
//! Zone, what its live sets give ─► Flattening ─► Flat ─► transfers, SOA answers
//!                                   │  ▲  pace    │
//!                                   ▼  │          └─► History ─► IXFR
//!                                  Serials
//! ```
//!
//! Its serials are its own: each change of liveness takes one, and none is lower than that of the zone. The pace bounds how often
//! a server that comes and goes is passed on. Opens nothing and reads no clock.

mod flat;
mod flattening;
mod forms;
mod serials;

pub use flat::{Flat, Given, Place};
pub use flattening::{Draft, Flattening, Pace, Step};
pub use forms::{Form, Forms};
pub use serials::Serials;
