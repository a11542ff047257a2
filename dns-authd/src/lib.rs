//! The authoritative DNS server with health-checked answers.

pub mod answer;
pub mod live;
pub mod lua;
mod name_table;
pub mod named_conf;
pub mod pdns_conf;
pub mod position;
mod render;
pub mod table;
pub mod tally;
pub mod zone;
