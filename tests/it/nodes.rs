//! Three nodes of the example site, each a whole system: systemd, podman, a disk, an address.

mod boot;
mod install;
mod power;
mod serve;
mod swap;
