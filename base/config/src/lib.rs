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

mod address_range;
mod admin;
pub mod clusterd;
mod dns;
pub mod dns_authd;
pub mod dns_recursor;
pub mod healthd;
pub mod lb_proxy;
mod log;
pub mod nodes;
pub mod registry_svc;
pub mod renewal;
pub mod site;
mod tcp_check;
pub mod timesync_agent;

pub use admin::{Admin, AdminListen};
pub use config_toml::{
    Address, AddressError, As, ByteSize, Check, Class, Disposition, DnsAddress, Document, Draft,
    DurationWithin, Every, EveryError, Form, HostPort, HttpUrl, HumanDuration, Ip, LONGEST_SPAN,
    Networks, Note, Notes, OneOrMany, Position, Positive, Problem, Problems, Real, Refused,
    Seconds, SizeWithin, Step, TextError, UnitError, Upstream, Whole, Written, at, nearest,
    restart_needed, schema,
};
pub use dns::{Authentication, Cookies, ResponseRateLimit, doh_path, is_doh_path};
pub use log::{Log, LogFormat, LogLevel, UnknownLevel};
pub use tcp_check::{CheckStep, Hex};

/// The default of what is on unless it is turned off, for keys of tables that have others without a default.
const fn yes() -> bool {
    true
}
