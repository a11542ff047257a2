//! Real processes, driven from outside.
//!
//! Tests that need network namespaces are `ignored` by default, because those need root;
//! `tests/run` runs them.

mod admission;
mod command_line;
mod control;
mod deploy;
mod dns_auth;
mod dns_recursor;
mod documents;
#[path = "../../clusterd/tests/daemon/double.rs"]
#[expect(dead_code, reason = "clusterd's own tests use the rest")]
mod double;
mod harness;
mod health;
mod lb;
mod lb_datagram;
mod lb_kernel;
mod lb_vrrp;
mod metrics;
mod nodes;
mod registry;
mod rig;
mod seed_site;
mod slots;
mod templates;
mod time;
mod up;
