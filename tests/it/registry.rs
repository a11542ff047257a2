//! The registry under the clients that people use, and as three nodes.

mod clients;
mod cluster;
mod containerd;
mod full;
mod protocol;
mod read_only;
mod recover;
mod sweep;
mod transfer;
