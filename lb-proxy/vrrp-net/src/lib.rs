//! The virtual routers of this node: carries out what `vrrp` decides.
//!
//! - [`routers`]: the virtual routers of this node, started, edited and ended;
//! - `session`: the task of those that move together; `member`: the parts of one of them on this node;
//! - `socket`: advertisements in and out; `duplicate`: ARP and neighbour discovery;
//! - `netlink`: links and addresses;
//! - [`notify`](mod@notify): scripts; `report`: the log;
//! - [`status`](mod@status): the values for the status and metrics.
//!
//! Never decides who holds an address.

mod duplicate;
mod member;
mod netlink;
pub mod notify;
mod report;
mod router;
pub mod routers;
mod session;
mod socket;
pub mod status;

pub use self::router::{
    DemandLease, Hooks, LeaseDemand, LeaseStates, Observations, ResetFlows, Resetting,
    VirtualRouter,
};
pub use self::routers::{Prepared, StartError, Vrrp};
