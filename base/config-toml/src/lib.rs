//! Configuration files in TOML: values with their ranges, reading with places, writing with remarks, the schema.
//!
//! For structs that derive `Deserialize`, `Serialize` and `JsonSchema`; the options of the services are such structs,
//! in the package `config`. Reads no file: that is the caller's.

#![warn(missing_docs)]

mod address;
mod document;
mod draft;
mod form;
mod networks;
mod number;
mod one_or_many;
mod read;
mod schema;
mod text;
mod units;
mod write;

pub use address::{
    Address, AddressError, DnsAddress, HostPort, HttpUrl, Ip, Upstream, parse_address,
};
pub use config_text::{Position, Problem, nearest};
pub use document::{Document, Problems, Step};
pub use draft::{Class, Disposition, Draft, Note, Notes, Refused};
pub use form::{As, Form, LONGEST_SPAN, Real, Seconds};
pub use networks::Networks;
pub use number::{DurationWithin, Positive, SizeWithin, Whole, WholeNumber};
pub use one_or_many::OneOrMany;
pub use read::Check;
pub use schema::{restart_needed, schema};
pub use text::TextError;
pub use units::{ByteSize, Every, EveryError, HumanDuration, UnitError};
pub use write::Written;
