//! The configuration files of all services: every key with its meaning, default and range, once.
//!
//! A service's file is the struct of its module, such as [`healthd::Healthd`]. The struct's documentation is the
//! text of the manual, `Default` has the defaults, the types have the ranges. From it come:
//!
//! | | |
//! | --- | --- |
//! | reading | [`Document::parse`]: all problems at once, each with line and column |
//! | writing | [`Written`]: TOML with the values that are not defaults |
//! | the reference | [`schema()`]: JSON schema, of which templates and manuals are made |
//! | reloads | [`restart_needed`]: the changed keys that a reload cannot take up |
//! | imports | [`Draft`]: a peer's file as this struct, with notes about the rest |
//!
//! Rules that hold between keys are checked by the service, which names the key: [`Check::problem`].
//! Reads no file: that is the caller's.

#![warn(missing_docs)]

mod address;
mod admin;
pub mod clusterd;
pub mod dns_authd;
pub mod dns_recursor;
mod document;
mod draft;
mod form;
pub mod healthd;
pub mod lb_proxy;
mod log;
mod networks;
pub mod nodes;
mod number;
mod one_or_many;
mod read;
pub mod registry_svc;
mod schema;
pub mod site;
mod text;
pub mod timesync_agent;
mod units;
mod write;

pub use address::{Address, AddressError, DnsAddress, HostPort, HttpUrl, Ip};
pub use admin::{Admin, AdminListen};
pub use config_text::{Position, Problem, nearest};
pub use document::{Document, Problems, Step};
pub use draft::{Class, Disposition, Draft, Note, Notes, Refused};
pub use form::{As, Form, LONGEST_SPAN, Real, Seconds};
pub use log::{Log, LogFormat, LogLevel, UnknownLevel};
pub use networks::Networks;
pub use number::{DurationWithin, Positive, SizeWithin, Whole};
pub use one_or_many::OneOrMany;
pub use read::Check;
pub use schema::{restart_needed, schema};
pub use text::TextError;
pub use units::{ByteSize, Every, EveryError, HumanDuration, UnitError};
pub use write::Written;
